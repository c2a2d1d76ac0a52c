"""A keyed run over files on any engine, and what an engine is given and has to do."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from driftsurf import registry
from driftsurf.core import files
from driftsurf.core.contracts import Strategy
from driftsurf.core.input import listed
from driftsurf.data import FileSource, ReadingOptions, Source
from driftsurf.data.inferred_options import InferredOptions, infer_options, with_inferred
from driftsurf.data.reading_options import Kind
from driftsurf.data.row_encoder import Target, Task, find_labelled, find_target, is_unread_number
from driftsurf.data.tables import Table, which_columns
from driftsurf.errors import (
    ColumnWarning,
    InputError,
    LockedError,
    Message,
    Option,
    OptionError,
    SchemaError,
    SourceError,
)
from driftsurf.keyed.folder import ABOUT, KeyedFolder
from driftsurf.keyed.grouping import Columns, DerivedColumns, check_columns, find_derived
from driftsurf.keyed.models import keyed_task
from driftsurf.keyed.options import KeyedOptions
from driftsurf.keyed.quarantine import REMEDIES, first_held
from driftsurf.keyed.visit import KeyedLearner

EpochReport: TypeAlias = Callable[[int, Mapping[str, int]], None]
"""Called after each epoch with its number and its counts."""


@dataclass(frozen=True, kw_only=True)
class KeyedJob:
    """A keyed run over files, ready for an engine: options are checked, columns are known.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf.keyed import Columns, KeyedOptions, run_keyed
    >>> from driftsurf.keyed.local import LocalEngine
    >>> class Announced(LocalEngine):
    ...     def run(self, job):
    ...         print(job.columns.key, job.learner.features, job.unused)
    ...         return super().run(job)
    >>> table = Path(tempfile.mkdtemp()) / "sales.csv"
    >>> _ = table.write_text("shop,day,price,sold,note\\n1,1,9.5,no,a\\n1,2,2.5,yes,b\\n")
    >>> columns = Columns(key="shop", sequence="day", label="sold")
    >>> _ = run_keyed(str(table), table.parent / "run", columns, KeyedOptions(), engine=Announced())
    shop ('price',) ('note',)
    """

    source: str
    """A file, a folder or a pattern."""
    files: tuple[str, ...]
    """The files that it has now."""
    out: Path
    """The run folder."""
    learner: KeyedLearner
    columns: Columns
    kinds: Mapping[str, Kind]
    """Kinds of the columns that are used, as the first rows have them."""
    unused: tuple[str, ...]
    """Columns that need not be read."""
    reading: ReadingOptions
    """How text is read."""
    ttl: float | None = None
    """Keys that are silent for longer are dropped, in units of the sequence."""
    on_epoch: EpochReport | None = None
    derived: DerivedColumns
    """Columns that the engine adds to each table before it groups the rows."""


@runtime_checkable
class Engine(Protocol):
    """Groups rows by key, keeps the bytes of each key and calls ``KeyedLearner.visit``.

    An engine is registered under its name (kind "engine", here or through the entry points ``driftsurf.engines``). The
    parameters of its constructor are the options that only this engine has. It imports what it needs when it runs, so
    that its module can be imported, and its name listed, without that.

    Examples
    --------
    >>> from driftsurf import registry
    >>> engine = registry.get("engine", "local").make(epoch=500)
    >>> isinstance(engine, Engine), engine.first_rows
    (True, 500)
    """

    @property
    def first_rows(self) -> int:
        """How many rows are read to find out what the columns hold."""
        ...

    def check(self, reading: ReadingOptions) -> None:
        """Raise OptionError if an option of this engine, or of reading text, cannot be used."""
        ...

    def run(self, job: KeyedJob) -> KeyedFolder:
        """Learn all rows that the source has now, resuming an earlier run, and return the run folder."""
        ...


READING = ReadingOptions()
READ_WITH = "reading"
"""Entry of run.json: options of reading that the first rows have shown."""


def run_keyed(
    source: str,
    out: Path,
    columns: Columns,
    options: KeyedOptions,
    *,
    engine: str | Engine = "local",
    ttl: float | None = None,
    reading: ReadingOptions = READING,
    task: str = "auto",
    make_strategy: Callable[[Task, int], Strategy] | None = None,
    on_columns: Callable[[Source, Table, KeyedLearner, DerivedColumns], None] | None = None,
    on_epoch: EpochReport | None = None,
    **engine_options: Any,
) -> KeyedFolder:
    """Learn each key of files, and write predictions, decisions and a table of keys to a run folder.

    The same call later resumes the run with what is new. InputError if not a single row could be learned; such a run
    leaves no folder.

    Parameters
    ----------
    source
        A file, a folder, or a pattern.
    out
        The run folder.
    columns
        The names of the columns.
    options
        What learns each key, and how.
    engine
        The name of a registered engine, such as "local" or "spark"; or an engine.
    ttl
        Keys that are silent for longer are dropped, in units of the sequence; None keeps all.
    reading
        How text is read. Spark does not detect the delimiter of CSV files: it takes a comma unless one is set.
    task
        What to predict, if no strategy is given: "auto" lets the first rows decide between classes and numbers.
    make_strategy
        Returns the strategy for a task and a number of rows to keep, in place of the default one.
    on_columns
        Called with the source, its first rows, the learner and the derived columns, before anything is learned.
    on_epoch
        Called after each epoch with its number and its counts.
    engine_options
        Options of the engine that ``engine`` names. "local": ``epoch``, the rows of an epoch. "spark": ``master``,
        ``partitions``, ``buckets``, ``rebucket``, and ``epoch``, the files of an epoch.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf.keyed import Columns, KeyedOptions
    >>> rows = "".join(f"{n % 2},{n},{n % 7},{n % 7 > 3}\\n" for n in range(200))
    >>> table = Path(tempfile.mkdtemp()) / "sales.csv"
    >>> _ = table.write_text(f"shop,day,price,sold\\n{rows}")
    >>> columns = Columns(key="shop", sequence="day", label="sold")
    >>> folder = run_keyed(str(table), table.parent / "run", columns, KeyedOptions(batch_size=20))
    >>> {shop: (about["rows"], about["steps"]) for shop, about in folder.keys().items()}
    {0: (100, 5), 1: (100, 5)}
    """
    runner = make_engine(engine, engine_options)
    if options.delay is not None and columns.id is None:
        raise OptionError("late labels (delay) find their rows by id: name the column of ids")
    runner.check(reading)
    # A row that cannot be read must not stop all keys.
    reading = replace(reading, on_bad_row="skip", drop=())
    opened, table = _first_rows(source, reading, runner)
    saved = _decided(out)
    if saved is not None and options.strategy is None and task == "auto":
        task = "regression" if saved.get("task") == "regression" else "binary"
    inferred = _inferred_options(out, opened, table, columns.label)
    if inferred.options:
        reading = with_inferred(reading, inferred.options)
        opened, table = _first_rows(source, reading, runner)
    if inferred.remark is not None:
        warnings.warn(inferred.remark, ColumnWarning, stacklevel=2)
    if is_unread_number(columns.label, task, table, opened):
        reading = replace(reading, kinds={**reading.kinds, columns.label: "number"})
        opened, table = _first_rows(source, reading, runner)
    target = _target(table, columns, task, options, opened)
    derived = find_derived(table, columns.label, target, options.features, None if saved is None else saved["words"])
    without = (*columns, derived.target)
    named = options.features or _numeric_columns(table, without, options.drop)
    found = keyed_task(task, options.classes, target.task)
    features = derived.features(named)
    if make_strategy is not None and options.shares is None:
        options = replace(options, strategy=make_strategy(found, options.rows_kept(len(features))))
    learner = options.learner(features, regression=found == "regression")
    check_columns(derived.add_to(table), learner, columns)  # before anything is written
    if on_columns is not None:
        on_columns(opened, table, learner, derived)
    needed = {*columns, *learner.features, *derived.sources}
    if options.shares is not None and not options.features:  # the shared model also sees text, dates and words
        needed |= {name for name in table.columns if name not in options.drop}
    used = {name: column.kind for name, column in table.columns.items() if name in needed}
    job = KeyedJob(
        source=source,
        files=tuple(opened.files()),
        out=out,
        learner=learner,
        columns=columns,
        kinds=used,
        unused=tuple(name for name in table.columns if name not in used),
        reading=reading,
        ttl=ttl,
        on_epoch=on_epoch,
        derived=derived,
    )
    with _leaving_nothing(out):
        folder = runner.run(job)
    if not folder.has_learned():
        raise _nothing_learned(folder, columns)
    if inferred.remark is not None:
        folder.note(READ_WITH, inferred.options)
    folder.name_source(source)
    return folder


@contextlib.contextmanager
def _leaving_nothing(out: Path) -> Iterator[None]:
    """Remove the folder of a new run that fails before its first epoch is complete."""
    new = not files.is_folder(out)
    try:
        yield
    except LockedError:  # another process has made the folder since
        raise
    except (Exception, KeyboardInterrupt):
        folder = KeyedFolder(out)
        if new and not folder.epochs():
            with contextlib.suppress(OSError):
                folder.discard(new=True)
        raise


def _nothing_learned(folder: KeyedFolder, columns: Columns) -> InputError:
    """Return the error of a run that could not learn a single row, and remove its folder."""
    keys, remedy = folder.keys(), Message()
    if keys:
        key, why, reason = first_held(keys)
        remedy = REMEDIES.get(reason, Message("Remove the cause, and run it again."))
        cause = f"all {len(keys):,} keys are in quarantine. The first is {key}: {why} "
    else:
        cause = (
            f"no row has both a key in {columns.key!r} and a sequence number in {columns.sequence!r}. Keys are whole "
            "numbers or text; sequence numbers are dates, or whole numbers below 2^53."
        )
    removed = f" {str(folder.path)!r} was removed." * folder.discard()
    return InputError(f"no row could be learned: {cause}", remedy, removed)


def make_engine(engine: str | Engine, options: Mapping[str, Any]) -> Engine:
    """Return the engine of this name with these options; an engine is returned as it is.

    >>> make_engine("local", {"epoch": 500}).first_rows
    500
    """
    if not isinstance(engine, str):
        if options:
            raise OptionError(f"{next(iter(options))} is given beside an engine: set it where the engine is made")
        return engine
    made: Engine = find_engine(engine, options).make(**options)
    return made


def find_engine(name: str, options: Iterable[str]) -> registry.Entry:
    """Return the registered engine of this name; OptionError if it does not take one of the options."""
    entry = registry.get("engine", name)
    known = inspect.signature(entry.part).parameters
    unknown = [option for option in options if option not in known]
    if unknown:
        raise OptionError(f"the engine {name!r} has no option {unknown[0]!r}; its options: {', '.join(known)}")
    return entry


def _decided(out: Path) -> Mapping[str, Any] | None:
    """Return what the first rows of the run that is resumed decided; None for a new one."""
    return KeyedFolder(out).decided() if (out / ABOUT).exists() else None


def _inferred_options(out: Path, source: FileSource, table: Table, label: str) -> InferredOptions:
    """Return the options of reading that the first rows show, or showed when the run began."""
    about = KeyedFolder(out).about() if (out / ABOUT).exists() else {}
    if "source" in about:  # the first call was complete
        return InferredOptions(about.get(READ_WITH, {}))
    return infer_options(source, table, label=label)


def _first_rows(source: str, reading: ReadingOptions, runner: Engine) -> tuple[FileSource, Table]:
    opened = FileSource(source, reading, batch_size=runner.first_rows)
    first = next(opened.tables(), None)
    if first is None:
        raise SourceError(f"{source!r} has no rows, so that there are no columns to learn from")
    return opened, first[0]


def _target(table: Table, columns: Columns, task: str, options: KeyedOptions, source: Source) -> Target:
    """Return how the label is read; a given strategy or named classes tell the task."""
    if options.strategy is not None:
        task = "regression" if options.strategy.learner.capabilities.regression else "auto"
    # A column that has another role can be the label too; a question cannot be about it.
    hidden = () if columns.label in table.columns else (columns.key, columns.sequence)
    target = find_target(columns.label, task, table, hidden=hidden, source=source)
    if options.strategy is None and not options.classes:
        find_labelled(target, task, table, Message(", or name the classes with ", Option("classes")))
    return target


def _numeric_columns(table: Table, columns: Iterable[str | None], drop: Sequence[str]) -> tuple[str, ...]:
    unknown = [name for name in drop if name not in table.columns]
    if unknown:
        raise SchemaError(Option("drop"), f" names {listed(unknown)}; {which_columns(unknown, table.columns)}.")
    kinds = {name: column.kind for name, column in table.columns.items() if name not in (*columns, *drop)}
    names = tuple(name for name, kind in kinds.items() if kind in ("number", "boolean"))
    if not names:
        raise OptionError("no numeric column is left to learn from: name the features")
    return names
