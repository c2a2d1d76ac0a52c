"""What models are compared on: the streams of the catalogue, well-known files, and files of the user."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from driftsurf._options import choice, whole
from driftsurf.assembly.tables import USUAL_BATCH
from driftsurf.base import FloatArray, IntArray
from driftsurf.encoding import TableEncoder
from driftsurf.errors import InputError, LabelError, Option, OptionError, Said
from driftsurf.runtime.table_source import kept_rows
from driftsurf.runtime.target import TASKS, Target, find_target
from driftsurf.sources import Reading, Source, hints, number_hint
from driftsurf.streams import authors, catalogue, datasets, files
from driftsurf.streams._tables import AIRLINE_CATEGORIES
from driftsurf.streams.base import Block, Drift
from driftsurf.tables import Table

__all__ = ["FILES", "REAL", "Input", "Rows", "expand", "load"]

BATCHES = 100
ONE_HOT_FLIGHTS = "airline", "airline-2007"
AIRLINE_NUMBERS = 5
"""Scheduled times, elapsed time, distance, diverted or not."""
MOST_CLASSES = 1000
READ_ROWS = 10_000


class KnownFile(NamedTuple):
    """A public file whose label is known."""

    title: str
    file: str
    label: str
    values: bool = False
    """Whether the label is values to predict, not classes."""
    drop: tuple[str, ...] = ()
    """Columns that would give it away, or only count the rows."""


FILES: Final[dict[str, KnownFile]] = {
    "noaa-weather": KnownFile("NOAA weather", "noaa_weather.csv", "target"),
    "insects": KnownFile("INSECTS, 6 classes", "insects_gradual_balanced.csv", "class"),
    "rialto": KnownFile("Rialto, 10 classes", "rialto.csv", "class"),
    "outdoor": KnownFile("outdoor, 40 classes", "outdoor.csv", "class"),
    "phishing": KnownFile("phishing", "phishing.csv", "target"),
    "luxembourg": KnownFile("Luxembourg", "luxembourg.csv", "label"),
    "electricity-price": KnownFile("Electricity, price", "elec2.csv", "nswprice", values=True, drop=("date", "class")),
    "powersupply-load": KnownFile("PowerSupply, load", "powersupply.csv", "attribute0", values=True),
    "noaa-temperature": KnownFile("NOAA, temperature", "noaa_weather.csv", "feat_1", values=True, drop=("target",)),
}
"""Public streams beside those of the paper, by name; found where DRIFTSURF_DATA says."""

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
"""The ten that ``driftsurf compare real`` runs."""


@dataclass(frozen=True, order=True)
class Input(Reading):
    """All that decides which rows are read, and how they are cut into batches."""

    source: str
    """A name of the catalogue or of ``FILES``, or what :class:`driftsurf.sources.Source` takes as a path."""
    label: str | None = None
    """The column to predict; the names know theirs."""
    drop: tuple[str, ...] = ()
    batch_size: int | None = None
    """None for the paper's, or a hundredth of the rows."""
    rows: int | None = None
    """The first so many only."""
    task: str = "auto"
    """What the label of a file is, as for a run: "auto" goes by the first rows."""

    def values(self) -> bool:
        """Whether values are predicted, not classes."""
        if self.source in FILES:
            return self._agreed(FILES[self.source].values)
        if self.source in catalogue.CATALOGUE:
            return self._agreed(catalogue.get(self.source).values)
        return _target(self, next(_tables(self))).task == "regression"

    def _agreed(self, values: bool) -> bool:
        """What a source that knows its label has; OptionError if another task is asked for."""
        choice("task", self.task, ("auto", *TASKS))
        if self.task != "auto" and (self.task == "regression") != values:
            raise OptionError(
                *(Option("task"), f" is {self.task!r}, and the label of {self.source} is "),
                f"{'values' if values else 'classes'}; leave it out, it is for files",
            )
        return values

    def hints(self) -> list[Said]:
        """What looks wrong about the columns of a file, and what to do about it."""
        if self.source in FILES or self.source in catalogue.CATALOGUE:
            return []
        self.paths()  # raises if there is none
        table = _first(self, next(_tables(self)))
        return hints(_source(self), table, _target(self, table).column)

    @property
    def title(self) -> str:
        """What tables call it."""
        if self.source in FILES:
            return FILES[self.source].title
        if self.source in catalogue.CATALOGUE:
            known = catalogue.get(self.source).dataset
            return self.source if known is None else known.label
        return Path(self.source).name

    def paths(self) -> list[str]:
        """The files it is read from; none for a stream that is generated."""
        if self.source in FILES:
            found = files.find([FILES[self.source].file])
            if found is None:
                raise InputError(
                    f"{self.source} is not at hand; set {files.FOLDER_VARIABLE} to a folder with "
                    f"{FILES[self.source].file}, plain or packed"
                )
            return [str(found)]
        if self.source in datasets.DATASETS:
            return [str(datasets.require(self.source))]
        if self.source in catalogue.CATALOGUE:
            of_paper = authors.find(self.source)
            return [] if of_paper is None else [str(of_paper)]
        if self.source == "-":
            raise InputError("standard input can be read but once, and every model needs its rows: give a file")
        if not os.path.exists(self.source) and os.sep not in self.source and not set("*?[.") & set(self.source):
            catalogue.get(self.source)  # raises, and says what there is
        return self.source_of(self.source).files()

    def digest(self) -> str:
        """What identifies its rows: the bytes of its files, or that they are generated."""
        total = hashlib.sha256()
        paths = self.paths()
        for path in paths:
            total.update(Path(path).read_bytes())
        return total.hexdigest() if paths else "generated"


@dataclass(frozen=True, eq=False)
class Rows:
    """A stream in memory, of whole batches: rows, and the codes of their classes, or values."""

    name: str
    X: Any
    y: IntArray | FloatArray
    labels: tuple[Any, ...]
    """What the codes stand for; none for values."""
    batch_size: int
    drift_steps: tuple[int, ...] | None
    """None where nobody knows."""
    drifts: tuple[Drift, ...] = ()
    compact: Any = None
    """Of sparse rows: the same in few dense columns, for models that take no sparse ones."""

    @property
    def classes(self) -> tuple[int, ...]:
        """The codes; none for values."""
        return tuple(range(len(self.labels)))

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return len(self.y)

    @property
    def sparse(self) -> bool:
        """Whether the rows are a CSR matrix."""
        return not isinstance(self.X, np.ndarray)

    def dense(self) -> Rows:
        """The same without a sparse matrix."""
        if not self.sparse:
            return self
        return replace(self, X=self.X.toarray() if self.compact is None else self.compact, compact=None)

    def first(self, count: int) -> Rows:
        """The first rows."""
        compact = None if self.compact is None else self.compact[:count]
        return replace(self, X=self.X[:count], y=self.y[:count], compact=compact)

    def batches(self, size: int) -> Iterator[Block]:
        """Batches of ``size`` rows."""
        for start in range(0, self.n_rows, size):
            yield self.X[start : start + size], self.y[start : start + size]


def expand(sources: tuple[str, ...]) -> tuple[str, ...]:
    """The sources, each once, with the ten in place of ``real``."""
    every = (name for source in sources for name in (REAL if source == "real" else (_place(source),)))
    return tuple(dict.fromkeys(every))


def _place(source: str) -> str:
    """A path from the root: a worker may stand in another folder. Names stay as they are."""
    known = source in FILES or source in catalogue.CATALOGUE or source == "-"
    return os.path.abspath(source) if not known and (os.path.exists(source) or set("*?[") & set(source)) else source


@functools.lru_cache(maxsize=1)
def load(what: Input) -> Rows:
    """Read it into memory."""
    if what.source in catalogue.CATALOGUE:
        return _from_catalogue(what)
    return _from_table(what, _read(what))


def _from_catalogue(what: Input) -> Rows:
    entry = catalogue.get(what.source)
    stream = entry.make()
    X, y = stream.arrays()
    size = _size(what, min(len(y), what.rows or len(y)), entry.batch_size)
    steps = stream.drift_steps(size)
    count = len(y) if what.rows is None else what.rows
    compact = _flights(X) if what.source in ONE_HOT_FLIGHTS else None
    values = what._agreed(entry.values)
    target, labels = (y, ()) if values else ((y > 0).astype(np.int64), (-1, 1))
    return _cut(Rows(what.title, X, target, labels, size, steps or None, compact=compact), count)


def _flights(X: Any) -> FloatArray:
    """Seven categories by number in place of one-hot, then the five numbers: 12 columns for about 600."""
    names = len(AIRLINE_CATEGORIES)
    places = X.indices[X.indptr[:-1, None] + np.arange(names)]  # a row has one value for each, and they come first
    return np.hstack([places.astype(np.float64), X[:, -AIRLINE_NUMBERS:].toarray()])


def _source(what: Input) -> Source:
    path, drop = what.source, what.drop
    if what.source in FILES:
        (path,), drop = what.paths(), (*drop, *FILES[what.source].drop)
    return what.source_of(path, batch_size=READ_ROWS, drop=drop)


def _tables(what: Input) -> Iterator[Table]:
    return (table for table, _ in _source(what).tables())


def _read(what: Input) -> Table:
    wanted, parts, count = what.rows, [], 0
    for table in _tables(what):
        parts.append(table)
        count += len(table)
        if wanted is not None and count >= wanted:
            break
    return Table.concatenate(parts).rows(0, count if wanted is None else min(wanted, count))


def _labelled(what: Input, table: Table, label: str) -> Table:
    """The rows that have a label; LabelError if one has none and ``on_bad_row`` does not allow for it."""
    missing = table[label].missing()
    count, allowed = int(missing.sum()), what.on_bad_row
    if count and (allowed == "fail" or (allowed != "skip" and count > int(allowed))):
        raise LabelError(
            f"{what.source}: the label {label!r} is missing in {count:,} rows, the first of them row "
            f"{int(np.argmax(missing))}. Leave them out with ",
            Option("on_bad_row", "skip"),
            ".",
        )
    return kept_rows(table, ~missing) if count else table


def _target(what: Input, table: Table) -> Target:
    """What is predicted, decided by as many rows as a run would look at."""
    if what.source in FILES:
        return Target(FILES[what.source].label, "regression" if what.values() else "multiclass")
    return find_target(what.label, what.task, _first(what, table), source=_source(what))


def _first(what: Input, table: Table) -> Table:
    return table.rows(0, min(len(table), what.batch_size or USUAL_BATCH))


def _from_table(what: Input, table: Table) -> Rows:
    """The layout of the rows is fixed by the first batch, as it would be in service."""
    target = _target(what, table)
    table = _labelled(what, table, target.column)
    read = target.read(table)
    name = f"the label {target.column!r} of {what.source}"
    classes, codes = np.unique(read, return_inverse=True)
    if len(classes) < 2:
        raise LabelError(f"{name} is always {classes[0].item()!r}: there is nothing to predict")
    values = target.task == "regression"
    if not values and (read.dtype.kind == "f" or len(classes) > MOST_CLASSES):
        text = read.dtype.kind == "U"
        raise LabelError(
            f"{name} has {len(classes)} different values, and its first rows were taken for classes: give a column of "
            "classes",
            *([number_hint(_source(what), table[target.column])] if text else [", or ", Option("task", "regression")]),
        )
    if what.task == "binary" and len(classes) > 2:
        raise LabelError(
            *(f"{name} has {len(classes)} classes, and ", Option("task"), " is 'binary'; give "),
            Option("task", "multiclass"),
        )
    columns = table.without(target.column)
    size = _size(what, len(table), max(1, len(table) // BATCHES))
    X = TableEncoder(categorical=what.categorical).fit(columns.rows(0, size)).transform(columns)
    y, labels = (read, ()) if values else (codes.astype(np.int64), tuple(classes.tolist()))
    return _cut(Rows(what.title, X, y, labels, size, None), len(table))


def _size(what: Input, count: int, usual: int) -> int:
    if what.batch_size is None:
        return usual if what.rows is None else max(1, count // BATCHES)
    size = whole("batch_size", what.batch_size, at_least=1)
    if 2 * size > count:
        raise InputError(f"{what.source} has {count} rows: batches of {size} make no two of them")
    return size


def _cut(rows: Rows, count: int) -> Rows:
    return rows.first(min(count, rows.n_rows) // rows.batch_size * rows.batch_size)
