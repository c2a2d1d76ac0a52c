"""Sources for comparisons: streams of the catalogue, public files, files of the user, and whether memory holds them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from driftsurf.comparison.options import InputOptions
from driftsurf.core.contracts import Categories, FloatArray, IntArray
from driftsurf.core.options import choice, whole
from driftsurf.data import FileSource, ReadingOptions, catalogue
from driftsurf.data.advice import hints, label_hints, number_hint
from driftsurf.data.datasets import authors
from driftsurf.data.datasets import known as datasets
from driftsurf.data.datasets.real import category_numbers
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.inferred_options import infer_options, with_inferred
from driftsurf.data.reading_options import BATCH_ROWS
from driftsurf.data.row_encoder import TASKS, Target, find_target
from driftsurf.data.source import is_web_address
from driftsurf.data.tables import Table
from driftsurf.errors import InputError, LabelError, Message, Option, OptionError, SourceError
from driftsurf.errors.visible import safe_address
from driftsurf.streams.base import Block, DriftSpan

BATCHES = 100
MOST_CLASSES = 1000
READ_ROWS = 10_000


REAL: Final = (
    "electricity",
    "noaa-weather",
    "powersupply",
    "insects",
    "airline-2007",
    "covertype-sample",
    "rialto",
    "outdoor",
    "phishing",
    "luxembourg",
)
"""The ten streams of ``driftsurf compare real``."""


@dataclass(frozen=True, order=True)
class Input(ReadingOptions, InputOptions):
    """A source, how it is read, and how its rows are cut into batches. A named source needs no ``label``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "source", os.fspath(self.source))

    def is_regression(self) -> bool:
        """Return whether the targets are numbers rather than classes."""
        if (known := _known(self.source)) is not None:
            return self._checked(known.regression)
        return _target(self, next(_tables(_source(self)))).task == "regression"

    def _checked(self, regression: bool) -> bool:
        """Return whether a named source is a regression; OptionError if ``task`` contradicts it."""
        choice("task", self.task, ("auto", *TASKS))
        if self.task != "auto" and (self.task == "regression") != regression:
            raise OptionError(
                *(Option("task"), f" is {self.task!r}, and the label of {self.source} is "),
                f"{'a number' if regression else 'a class'}; leave the option out, it is for files",
            )
        return regression

    def with_inferred_options(self) -> tuple[Self, list[Message]]:
        """Return the source with options of reading that its first rows show, and what people should know of them."""
        if _known(self.source) is not None:
            return self, []
        self.paths()  # raises if there is no file
        source = _source(self)
        found = infer_options(source, next(_tables(source)), label=self.label)
        return with_inferred(self, found.options), [] if found.remark is None else [found.remark]

    def hints(self) -> list[Message]:
        """Return what looks wrong about the columns of a file, each with a remedy."""
        if _known(self.source) is not None:
            return []
        self.paths()  # raises if there is no file
        source = _source(self)
        table = _first(self, next(_tables(source)))
        target = _target(self, table)
        table = table.select(~target.missing(table))
        y = target.read(table)
        found = hints(source, table, target.column, y, regression=target.task == "regression")
        return found + label_hints(target, self.task, y)

    @property
    def title(self) -> str:
        """Name of the source in tables."""
        if self.source in datasets.TABLES:
            return datasets.TABLES[self.source].title
        if self.source in catalogue.CATALOGUE:
            known = catalogue.get(self.source).dataset
            return self.source if known is None else known.label
        return Path(safe_address(self.source)).name

    def paths(self) -> list[str]:
        """Return the files that are read; none for a generated stream."""
        if self.source in datasets.TABLES:
            return [str(datasets.TABLES[self.source].find(self.source))]
        if self.source in datasets.DATASETS:
            return [str(datasets.require(self.source))]
        if self.source in catalogue.CATALOGUE:
            of_paper = authors.find(self.source)
            return [] if of_paper is None else [str(of_paper)]
        if self.source == "-":
            raise InputError("standard input '-' can be read only once, and every model needs the rows: pass a file")
        if not os.path.exists(self.source) and os.sep not in self.source and not set("*?[.") & set(self.source):
            catalogue.get(self.source)  # raises an error that lists the choices
        return FileSource(self.source, self.reading_options()).files()

    def digest(self) -> str:
        """Return what identifies the rows: a digest of the files, or "generated"."""
        total = hashlib.sha256()
        paths = self.paths()
        for path in paths:
            with open(path, "rb") as file:
                while block := file.read(2**20):
                    total.update(block)
        return total.hexdigest() if paths else "generated"


@dataclass(frozen=True, eq=False)
class StreamInMemory:
    """A stream in memory, cut to whole batches; its targets are class codes or numbers."""

    name: str
    X: Any
    y: IntArray | FloatArray
    labels: tuple[Any, ...]
    """Labels by code; empty for a regression."""
    batch_size: int
    drift_steps: tuple[int, ...] | None
    """Steps at which the stream drifts; None if they are unknown."""
    drifts: tuple[DriftSpan, ...] = ()
    compact: Any = None
    """Dense rows with fewer columns, for models that do not accept the sparse ones."""
    categories: Categories = ()
    """Columns of ``X`` that belong to a category."""

    @property
    def classes(self) -> tuple[int, ...]:
        """Class codes; empty for a regression."""
        return tuple(range(len(self.labels)))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def sparse(self) -> bool:
        """Whether the rows are a CSR matrix."""
        return not isinstance(self.X, np.ndarray)

    def dense(self) -> StreamInMemory:
        """Return the stream with dense rows."""
        if not self.sparse:
            return self
        if self.compact is None:
            return replace(self, X=self.X.toarray())
        return replace(self, X=self.compact, compact=None, categories=())

    def numbered(self) -> StreamInMemory:
        """Return the stream with dense rows in which each category is one column, the number of its word."""
        if self.compact is not None or not self.categories:
            return self.dense()
        words = [np.asarray(self.X[:, first:stop] @ np.arange(float(stop - first))) for first, stop in self.categories]
        others = np.ones(self.X.shape[1], np.bool_)
        for first, stop in self.categories:
            others[first:stop] = False
        rest = self.X[:, np.flatnonzero(others)]
        return replace(self, X=np.column_stack([*words, rest.toarray() if self.sparse else rest]), categories=())

    @property
    def n_numbered(self) -> int:
        """Number of columns of :meth:`numbered`."""
        if self.compact is not None:
            return int(self.compact.shape[1])
        return int(self.X.shape[1]) - sum(stop - first - 1 for first, stop in self.categories)

    def first(self, count: int) -> StreamInMemory:
        """Return the first ``count`` rows."""
        compact = None if self.compact is None else self.compact[:count]
        return replace(self, X=self.X[:count], y=self.y[:count], compact=compact)

    def batches(self, size: int) -> Iterator[Block]:
        """Yield batches of ``size`` rows."""
        for start in range(0, self.n_rows, size):
            yield self.X[start : start + size], self.y[start : start + size]


def expand(sources: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sources without duplicates, ``real`` replaced by its ten streams and paths by absolute ones."""
    every = (name for source in sources for name in (REAL if source == "real" else (_absolute(source),)))
    return tuple(dict.fromkeys(every))


_OWN = re.compile(r",(label|batch-size|task)=")
"""Options that a source may have of its own."""


def read_sources(sources: Sequence[str], **common: Any) -> list[Input]:
    """Return the sources with the options of all, which those written behind a source replace.

    >>> for one in read_sources(["a.csv,label=sold > 3,batch-size=50", "b.csv"], label="churn"):
    ...     print(one.source, one.label, one.batch_size)
    a.csv sold > 3 50
    b.csv churn None
    """
    found = []
    for text in sources:
        source, *own = [text] if os.path.exists(text) else _OWN.split(text)
        options = {name.replace("-", "_"): value for name, value in zip(own[::2], own[1::2], strict=True)}
        if "batch_size" in options and not options["batch_size"].isdecimal():
            size = options["batch_size"]
            raise OptionError(f"batch-size of {source!r} is {size!r}; write a whole number, such as batch-size=100")
        sized = {"batch_size": int(options["batch_size"])} if "batch_size" in options else {}
        found += [Input(name, **(common | options | sized)) for name in expand((source,))]
    return list(dict.fromkeys(found))


def _known(source: str) -> datasets.KnownTable | catalogue.StreamEntry | None:
    """Return the entry of a source that has a name; None for a path."""
    return datasets.TABLES.get(source) or catalogue.CATALOGUE.get(source)


def _absolute(source: str) -> str:
    """Return an absolute path, because a worker may run in another folder; names as they are."""
    known = _known(source) is not None or source == "-" or is_web_address(source)
    return os.path.abspath(source) if not known and (os.path.exists(source) or set("*?[") & set(source)) else source


@functools.lru_cache(maxsize=1)
def load(what: Input) -> StreamInMemory:
    """Read a source into memory."""
    if what.source in catalogue.CATALOGUE:
        return _from_catalogue(what)
    return _from_table(what, _read(what))


def _from_catalogue(what: Input) -> StreamInMemory:
    entry = catalogue.get(what.source)
    # As in a run: a generated stream is generated with that many rows, so that it keeps its drifts.
    generated = entry.dataset is None and what.rows is not None
    stream = entry.make(n_rows=what.rows) if generated else entry.make()
    X, y = stream.arrays()
    size = _size(what, min(len(y), what.rows or len(y)), entry.batch_size)
    steps = stream.drift_steps(size)
    count = len(y) if what.rows is None else what.rows
    real = entry.dataset
    compact = category_numbers(X, real) if real is not None and real.categories else None
    regression = what._checked(entry.regression)
    target, labels = (y, ()) if regression else ((y > 0).astype(np.int64), (-1, 1))
    return _cut(StreamInMemory(what.title, X, target, labels, size, steps or None, compact=compact), count)


def _source(what: Input) -> FileSource:
    path, drop = what.source, what.drop
    if what.source in datasets.TABLES:
        (path,), drop = what.paths(), (*drop, *datasets.TABLES[what.source].drop)
    return FileSource(path, replace(what.reading_options(), drop=drop), batch_size=READ_ROWS)


def _tables(source: FileSource) -> Iterator[Table]:
    """Yield the tables of a source; raise SourceError if there is none."""
    rows = 0
    for table, _ in source.tables():
        rows += len(table)
        yield table
    if not rows:
        raise SourceError(f"{source.name} has no row that can be used")


def _read(what: Input) -> Table:
    tables, rows, needed = list[Table](), 0, 0
    for table in _tables(_source(what)):
        tables.append(table)
        rows, needed = rows + len(table), needed + table_bytes(table)
        check_fits(what.title, rows, needed, chosen=what.rows is not None)
    return Table.concatenate(tables)


def _labelled(what: Input, table: Table, label: str) -> Table:
    """Return the rows with a label: the others can be neither learned nor scored."""
    there = ~table[label].missing()
    if not there.any():
        raise LabelError(f"{what.source}: the label {label!r} is missing in every row")
    return table if there.all() else table.select(there)


def _target(what: Input, table: Table) -> Target:
    """Return the target, decided by as many rows as a run would use for it."""
    if what.source in datasets.TABLES:
        return Target(datasets.TABLES[what.source].label, "regression" if what.is_regression() else "multiclass")
    return find_target(what.label, what.task, _first(what, table), source=_source(what))


def _first(what: Input, table: Table) -> Table:
    return table.rows(0, min(len(table), what.batch_size or BATCH_ROWS))


def _from_table(what: Input, table: Table) -> StreamInMemory:
    """Encode a table. The first batch fixes the layout of the rows, as in a run."""
    target = _target(what, table)
    table = _labelled(what, table, target.column)
    read = target.read(table)
    name = f"the label {target.column!r} of {what.source}"
    classes, codes = np.unique(read, return_inverse=True)
    if len(classes) < 2:
        raise LabelError(f"{name} is always {classes[0].item()!r}: there is nothing to predict")
    regression = target.task == "regression"
    if not regression and (read.dtype.kind == "f" or len(classes) > MOST_CLASSES):
        text = read.dtype.kind == "U"
        raise LabelError(
            f"{name} has {len(classes)} different values, and its first rows look like classes: choose a column of "
            "classes",
            *([number_hint(_source(what), table[target.column])] if text else [", or ", Option("task", "regression")]),
        )
    if what.task == "binary" and len(classes) > 2:
        raise LabelError(
            *(f"{name} has {len(classes)} classes, and ", Option("task"), " is 'binary'; use "),
            Option("task", "multiclass"),
        )
    columns = table.without(target.column)
    size = _size(what, len(table), max(1, len(table) // BATCHES))
    encoder = TableEncoder(categorical=what.categorical).fit(columns.rows(0, size))
    needed = table_bytes(columns) + rows_bytes(len(columns), encoder.transform(columns.rows(0, 1)))
    check_fits(what.title, len(columns), needed, chosen=what.rows is not None)
    X = encoder.transform(columns)
    y, labels = (read, ()) if regression else (codes.astype(np.int64), tuple(classes.tolist()))
    return _cut(StreamInMemory(what.title, X, y, labels, size, None, categories=encoder.categories()), len(table))


def _size(what: Input, count: int, usual: int) -> int:
    if what.batch_size is None:
        return usual if what.rows is None else max(1, count // BATCHES)
    size = whole("batch_size", what.batch_size, at_least=1)
    if 2 * size > count:
        raise InputError(f"{what.source} has {count} rows, which is less than two batches of {size} rows")
    return size


def _cut(rows: StreamInMemory, count: int) -> StreamInMemory:
    return rows.first(min(count, rows.n_rows) // rows.batch_size * rows.batch_size)


LIMIT = 700_000_000
"""Bytes that the rows of a source may need if nobody has said how many are compared; the command then takes 1 GiB."""
WORD_BYTES = 64
"""Bytes of a word beside its characters."""
GROUP = Path("/sys/fs/cgroup")
"""Folder in which Linux describes the limits of a container (version 2 of control groups)."""
COPIES = 2
"""Copies of the encoded rows at the peak: while they are encoded, and in models that keep rows."""


def table_bytes(table: Table) -> int:
    """Return about how many bytes a table takes, and takes again when tables are put together."""
    columns = table.columns.values()
    values = sum(column.values.nbytes for column in columns)
    words = sum(len(column.words) * WORD_BYTES + sum(map(len, column.words)) for column in columns)
    sparse = 0 if table.features is None else table.features.data.nbytes + table.features.indices.nbytes
    return 2 * (values + words + sparse)


def rows_bytes(count: int, like: Any) -> int:
    """Return about how many bytes rows such as those of a matrix, dense or CSR, take at the peak of a comparison."""
    size = like.nbytes if isinstance(like, np.ndarray) else like.data.nbytes + like.indices.nbytes
    return int(COPIES * count * size // max(1, like.shape[0]))


def check_fits(source: str, rows: int, needed: int, *, chosen: bool) -> None:
    """Raise InputError if the first ``rows`` of a source need too much memory.

    If the number of rows was ``chosen``, all memory that is free may be used; otherwise ``LIMIT``.
    """
    limit = available() if chosen else LIMIT
    if limit is None or needed <= limit:
        return
    fitting = max(1, rows * limit // needed)
    fitting -= fitting % 10 ** (len(str(fitting)) - 1)  # rounded down to one digit
    why = "are free" if chosen else "are used unless the number of rows is chosen"
    raise InputError(
        f"{source} is compared in memory, and its first {rows:,} rows need about {needed / 1e9:.2g} GB, where "
        f"{limit / 1e9:.2g} GB {why}: compare the first rows with ",
        Option("rows", fitting),
        "" if chosen else ", or all of them with a number that is large enough",
    )


def available() -> int | None:
    """Return the bytes of memory that this process can still take; None if the system does not say."""
    found = [*_free(), *_left_of_group()]
    return min(found, default=None)


def _free() -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        yield from (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def _left_of_group() -> Iterator[int]:
    """Yield what the limit of a container leaves, if there is one."""
    with contextlib.suppress(OSError, ValueError):  # "max" is no number
        limit, used = (int((GROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        parts = dict(line.split() for line in (GROUP / "memory.stat").read_text().splitlines())
        # The system drops the contents of files that were read when memory is needed.
        files = sum(int(parts.get(name, 0)) for name in ("active_file", "inactive_file"))
        yield max(0, limit - used + files)
