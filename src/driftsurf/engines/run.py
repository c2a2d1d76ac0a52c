"""A keyed run from files, on either engine, with the same options and the same outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

from driftsurf._options import choice, whole
from driftsurf.base import Learner, Strategy
from driftsurf.engines._rows import Columns, check_columns
from driftsurf.engines.keyed import KeyedLearner, OnGap
from driftsurf.engines.local import run_local
from driftsurf.engines.tables import KeyedFolder
from driftsurf.errors import Option, OptionError, SchemaError, SourceError
from driftsurf.learners import LogisticRegression, SoftmaxRegression
from driftsurf.sources import Dialect, Source
from driftsurf.strategies import DriftSurf
from driftsurf.tables import Table
from driftsurf.validation import listed

__all__ = ["KeyedOptions", "run_keyed"]

ENGINES = "local", "spark"
EPOCH_ROWS = 100_000
DTYPE: Final = "float32"
"""Of the rows that a key keeps."""
DIALECT = Dialect()
LOCAL_ONLY = "names", "decimal", "thousands", "date_formats"
"""What the dialect of files that Spark reads cannot be told."""
OF_USUAL = "step_size", "l2", "threshold", "max_rows"
"""Options of the usual strategy."""


@dataclass(frozen=True, kw_only=True)
class KeyedOptions:
    """What every key is learnt with, as plain values.

    Parameters
    ----------
    features
        The columns to learn from; empty for all numbers that are nothing else, and are not in ``drop``.
    drop
        Columns to leave out.
    classes
        The labels; None for those that come. With three or more the usual learner is softmax regression.
    batch_size, delay, max_pending, max_bytes, readmit, on_gap, seed
        As for :class:`~driftsurf.engines.keyed.KeyedLearner`.
    strategy
        The template of what learns a key; None for DriftSurf around the usual learner, of the options that follow.
    step_size, l2
        As for :class:`~driftsurf.learners.LogisticRegression`; "auto" brings the columns to a common size, too.
    threshold, max_rows
        As for :class:`~driftsurf.Fleet`.
    """

    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    classes: tuple[Any, ...] | None = None
    batch_size: int | None = 32
    delay: float | None = None
    max_pending: int = 1000
    max_bytes: int = 2**20
    readmit: Mapping[Any, int] = field(default_factory=dict)
    on_gap: OnGap = "fill"
    strategy: Strategy | None = None
    step_size: float | Literal["auto"] = "auto"
    l2: float = 1e-4
    threshold: float = 0.3
    max_rows: int = 128
    seed: int = 0

    def learner(self, features: Sequence[str]) -> KeyedLearner:
        """For these columns."""
        made = KeyedLearner(
            strategy=self._usual() if self.strategy is None else self.strategy,
            features=tuple(features),
            classes=self.classes,
            batch_size=self.batch_size,
            delay=self.delay,
            max_pending=self.max_pending,
            max_bytes=self.max_bytes,
            readmit=self.readmit,
            on_gap=self.on_gap,
            seed=self.seed,
        )
        if self.features and self.drop:
            raise OptionError("features and drop are both given: name the columns to learn from, or those to leave out")
        changed = [one.name for one in fields(self) if one.name in OF_USUAL and getattr(self, one.name) != one.default]
        if self.strategy is not None and changed:
            raise OptionError(f"{changed[0]} is for the usual strategy, and a strategy is given: say it there")
        made.check()
        return made

    def _usual(self) -> Strategy:
        make = SoftmaxRegression if self.classes is not None and len(self.classes) > 2 else LogisticRegression
        template: Learner = make(step_size=self.step_size, l2=self.l2)
        return DriftSurf(template, threshold=self.threshold, max_rows=self.max_rows, dtype=DTYPE)


def run_keyed(
    source: str,
    out: Path,
    columns: Columns,
    options: KeyedOptions,
    *,
    engine: str = "local",
    master: str | None = None,
    partitions: int | None = None,
    epoch: int | None = None,
    ttl: float | None = None,
    dialect: Dialect = DIALECT,
    on_columns: Callable[[Source, Table, KeyedLearner], None] | None = None,
    on_epoch: Callable[[int, Mapping[str, int]], None] | None = None,
) -> KeyedFolder:
    """Run over all that ``source`` (a file, a folder, a pattern) has now; the same call later goes on with what is new.

    ``epoch`` is what makes an epoch: rows with the local engine, files with Spark. ``master`` and ``partitions`` are
    for Spark: where it runs, and in how many parts the state is kept for the life of the run. ``dialect`` says how
    text is read; Spark does not find the delimiter of CSV files by itself, and takes a comma, and of the rest it takes
    ``encoding`` and ``missing``. ``on_columns`` is told the source, its first rows and what learns from them, before
    anything is learnt.
    """
    choice("engine", engine, ENGINES)
    if options.delay is not None and columns.id is None:
        raise OptionError("labels that come late (delay) find their rows by id: name the column of ids")
    if epoch is not None:
        whole("epoch", epoch, at_least=1)
    if engine == "local" and (master is not None or partitions is not None):
        raise OptionError("master and partitions are for the engine 'spark'; the engine is 'local'")
    local = [name for name in LOCAL_ONLY if getattr(dialect, name) != getattr(DIALECT, name)]
    if engine == "spark" and local:
        raise OptionError(
            Option(local[0]),
            " is for the engine 'local': Spark reads files with a header line, numbers "
            "with a point, and dates of ISO 8601; write such files first",
        )
    rows = EPOCH_ROWS if engine == "spark" or epoch is None else epoch
    how: dict[str, Any] = {"batch_size": rows, "dialect": dialect, "on_bad_row": "skip"}  # one must not stop all keys
    files = Source(source, **how)
    first = next(files.tables(), None)
    if first is None:
        raise SourceError(f"{source!r} has no rows: there are no columns to learn from")
    learner = options.learner(options.features or _numbers_of(first[0], columns, options.drop))
    check_columns(first[0], learner, columns)  # before anything is written
    if on_columns is not None:
        on_columns(files, first[0], learner)
    used = {name: column.kind for name, column in first[0].columns.items() if name in (*columns, *learner.features)}
    if engine == "local":
        needed = Source(source, **how, drop=[name for name in first[0].columns if name not in used])
        return run_local(needed, out, learner, columns, ttl=ttl, on_epoch=on_epoch)

    from driftsurf.engines import spark

    session = spark.session(master, partitions=partitions)
    try:
        frame = spark.read_files(
            session,
            source,
            files.files(),
            files_an_epoch=epoch,
            kinds=used,
            whole=(columns.key, columns.sequence),
            dialect=dialect,
        )
        return spark.run_spark(frame, out, learner, columns, ttl=ttl, on_epoch=on_epoch)
    finally:
        session.stop()


def _numbers_of(table: Table, columns: Columns, drop: Sequence[str]) -> tuple[str, ...]:
    unknown = [name for name in drop if name not in table.columns]
    if unknown:
        raise SchemaError(f"drop names {listed(unknown)}; the columns are {listed(list(table.columns))}.")
    kinds = {name: column.kind for name, column in table.columns.items() if name not in (*columns, *drop)}
    names = tuple(name for name, kind in kinds.items() if kind in ("number", "boolean"))
    if not names:
        raise OptionError("no column of numbers is left to learn from: name the features")
    return names
