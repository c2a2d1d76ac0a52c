"""One function for each set of real data: from the published file to rows and labels, before shuffling and drift."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.data.formats._bytes import ByteFile
from driftsurf.data.formats.libsvm import LABEL
from driftsurf.data.reading_options import Kind, ReadingOptions
from driftsurf.data.sources.files import FileSource
from driftsurf.data.tables import Column, Table
from driftsurf.errors import InputError
from driftsurf.streams.base import Block

BATCH_ROWS = 65_536
BLOCK_BYTES = 2**20


class TablePart:
    """Consecutive rows of a published table, whose columns are checked while they are read."""

    def __init__(self, path: Path, first_row: int, table: Table) -> None:
        self.path = path
        self.first_row = first_row
        self.table = table

    def __len__(self) -> int:
        return len(self.table)

    def numbers(self, names: Sequence[str]) -> FloatArray:
        """Return columns as finite numbers; raise InputError if a value is missing."""
        columns = [self._complete(name).values for name in names]
        return np.column_stack(columns)

    def integers(self, name: str, choices: range) -> IntArray:
        """Return a column of integers from a range; raise InputError if there is another value."""
        values = self.numbers([name])[:, 0]
        known = np.isin(values, np.array(choices))
        if not known.all():
            row = int(known.argmin())
            self.refuse(row, f"{name} must be an integer from {choices[0]} to {choices[-1]}; got {values[row]:g}")
        return values.astype(np.int64)

    def words(self, name: str) -> Column:
        """Return a column of text; raise InputError if a value is missing."""
        return self._complete(name)

    def coded(self, name: str, codes: Mapping[str, int]) -> IntArray:
        """Return a column of words as their codes; raise InputError if there is another word."""
        column = self.words(name)
        known = [codes.get(word.strip("'\"")) for word in column.words]
        for code in column.used().tolist():
            if known[code] is None:
                row = int(np.argmax(column.values == code))
                self.refuse(row, f"{name} must be one of {', '.join(codes)}; got {column.words[code]!r}")
        all_codes: IntArray = np.array([code or 0 for code in known], dtype=np.int64)
        return np.asarray(all_codes[column.values])

    def _complete(self, name: str) -> Column:
        column = self.table[name]
        missing = column.missing()
        if missing.any():
            self.refuse(int(missing.argmax()), f"{name} is missing")
        return column

    def refuse(self, row: int, reason: str) -> NoReturn:
        """Raise InputError for a row of this part."""
        raise InputError(f"{self.path}, row {self.first_row + row + 1}: {reason}")


class TableFile:
    """A published CSV or ARFF file whose columns are known by their order.

    Parameters
    ----------
    path
        The file, compressed or not.
    columns
        Names and kinds of the columns in the order of the file; None for a column that is not read.
    """

    def __init__(self, path: Path, columns: Mapping[str, Kind | None]) -> None:
        self.path = path
        self.columns = columns

    def parts(self) -> Iterator[TablePart]:
        """Yield the rows; raise an error of this package if they do not have these columns."""
        source, own_names = self._open()
        n_rows = 0
        for table, _ in source.tables():
            renamed = {
                name: table[own] for own, name in zip(own_names, self.columns, strict=True) if own in table.columns
            }
            yield TablePart(self.path, n_rows, Table(renamed))
            n_rows += len(table)
        if not n_rows:
            raise InputError(f"{self.path} has no rows")

    def read(self) -> TablePart:
        """Return all rows."""
        tables = [part.table for part in self.parts()]
        return TablePart(self.path, 0, Table.concatenate(tables))

    def _open(self) -> tuple[FileSource, list[str]]:
        """Return the source, and the names that the file has for its columns."""
        first = _first_line(self.path)
        reading: dict[str, Any] = {"format": "arff" if first[:1] in ("@", "%") else "csv"}
        if reading["format"] == "csv":
            reading["delimiter"] = ","
            reading["header"] = not any(map(_is_number, next(csv.reader([first]), ())))
        own_names = list(FileSource(self.path, ReadingOptions(**reading)).columns())
        if len(own_names) != len(self.columns):
            raise InputError(f"{self.path} has {len(own_names)} columns, expected {len(self.columns)}")
        if reading.get("header") is False:
            reading["names"] = own_names = list(self.columns)
        kinds = dict(zip(own_names, self.columns.values(), strict=True))
        reading["kinds"] = {name: kind for name, kind in kinds.items() if kind is not None}
        reading["drop"] = [name for name, kind in kinds.items() if kind is None]
        return FileSource(self.path, ReadingOptions(**reading), batch_size=BATCH_ROWS), own_names


def _first_line(path: Path) -> str:
    """Return the first line that is not blank."""
    head = b""
    for block in chain(ByteFile(str(path), BLOCK_BYTES).blocks(), [b"\n"]):
        head = (head + block).lstrip()
        if b"\n" in head:
            break
    return head.partition(b"\n")[0].decode("utf-8", "replace").strip()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_libsvm(path: Path, n_features: int, choices: Sequence[float]) -> tuple[Any, FloatArray]:
    """Return the rows of a LIBSVM file as a CSR matrix, and their labels, which must be among ``choices``."""
    from scipy.sparse import csr_array

    source = FileSource(path, ReadingOptions(format="libsvm", n_features=n_features), batch_size=BATCH_ROWS)
    tables = [table for table, _ in source.tables()]
    if not tables:
        raise InputError(f"{path} has no rows")
    table = Table.concatenate(tables)
    assert table.features is not None
    data, indices, indptr, _ = table.features
    labels = table[LABEL].values
    known = np.isin(labels, choices)
    if not known.all():
        row = int(known.argmin())
        listed = ", ".join(map(str, choices))
        raise InputError(f"{path}, row {row + 1}: the label must be one of {listed}; got {labels[row]:g}")
    start, stop = int(indptr[0]), int(indptr[-1])
    parts = data[start:stop], indices[start:stop], (indptr - start).astype(np.int32)
    return csr_array(parts, shape=(len(labels), n_features)), labels


Columns = Mapping[str, Kind | None]
ELECTRICITY_NUMBERS = "period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer"
ELECTRICITY: Columns = {"date": None, "day": "number", **dict.fromkeys(ELECTRICITY_NUMBERS, "number"), "class": "text"}
POWERSUPPLY: Columns = {"main": "number", "other": "number", "hour": "number"}
COVERTYPE_COLUMNS = 54
AIRLINE_CATEGORIES = "Year", "Month", "DayofMonth", "DayofWeek", "UniqueCarrier", "Origin", "Dest"
AIRLINE_SCALED = "CRSDepTime", "CRSArrTime", "ActualElapsedTime", "Distance"
AIRLINE: Columns = {
    **dict.fromkeys(AIRLINE_CATEGORIES[:4], "text"),
    **dict.fromkeys(AIRLINE_SCALED[:2], "number"),
    "UniqueCarrier": "text",
    "FlightNum": None,
    "ActualElapsedTime": "number",
    "Origin": "text",
    "Dest": "text",
    "Distance": "number",
    "Diverted": "number",
    "ArrDelay": "number",
}
COMPUTERS_AND_SCIENCE = 2, 3, 4, 5, 6, 12, 13, 14, 15
"""Numbers of comp.* and sci.* among the 20 newsgroups in alphabetical order, from 1."""


def electricity(path: Path) -> Block:
    """Return the day of the week one-hot, period, prices, demands and transfer; +1 = UP. The date is left out."""
    rows = TableFile(path, ELECTRICITY).read()
    one_hot = (rows.integers("day", range(1, 8))[:, None] == np.arange(1, 8)).astype(np.float64)
    return np.hstack([one_hot, rows.numbers(ELECTRICITY_NUMBERS)]), rows.coded("class", {"UP": 1, "DOWN": -1})


def powersupply(path: Path) -> Block:
    """Return the power from the main grid and from other grids, each divided by its maximum; +1 = before noon."""
    rows = TableFile(path, POWERSUPPLY).read()
    X = rows.numbers(["main", "other"])
    return _divided(X, X.max(axis=0)), _labels(rows.integers("hour", range(24)) < 12)


def covertype(path: Path) -> Block:
    """Return LIBSVM's covtype.libsvm.binary, scaled or not; +1 = its label 1, as in the paper.

    Columns that are not within [0, 1] already are scaled linearly, the minimum to 0 and the maximum to 1.
    """
    rows, labels = read_libsvm(path, COVERTYPE_COLUMNS, (1, 2))
    X = rows.toarray()
    low, high = X.min(axis=0), X.max(axis=0)
    if low.min() < 0 or high.max() > 1:
        X = (X - low) / np.where(high > low, high - low, 1.0)
    return X, _labels(labels == 1)


def covertype_sample(path: Path) -> Block:
    """Return a table of columns in [0, 1]; +1 = cover type 2 of 1 to 7."""
    names = [f"x{i}" for i in range(COVERTYPE_COLUMNS)]
    rows = TableFile(path, dict.fromkeys([*names, "type"], "number")).read()
    X = rows.numbers(names)
    outside = ((X < 0) | (X > 1)).any(axis=1)
    if outside.any():
        rows.refuse(int(outside.argmax()), "values must be from 0 to 1")
    return X, _labels(rows.integers("type", range(1, 8)) == 2)


def airline(path: Path, *, year: int, file_rows: int, rows: int) -> Block:
    """Return the first ``rows`` flights of Ikonomovska's 14 columns; +1 = the flight arrives late.

    Year, month, day, day of the week, carrier, origin and destination are one-hot; scheduled times, elapsed time and
    distance are divided by their maximum; the flight number is left out. The categories and the maxima are those of
    the whole file, as in the paper.
    """
    from scipy.sparse import csr_array

    known: dict[str, set[str]] = {name: set() for name in AIRLINE_CATEGORIES}
    largest = np.zeros(len(AIRLINE_SCALED))
    first: dict[str, list[str]] = {name: [] for name in AIRLINE_CATEGORIES}
    numbers: list[FloatArray] = []
    total = 0
    for part in TableFile(path, AIRLINE).parts():
        scaled = part.numbers(AIRLINE_SCALED)
        largest = np.maximum(largest, scaled.max(axis=0))
        part.coded("Year", {str(year): 1})
        kept = min(len(part), max(0, rows - total))
        for name in AIRLINE_CATEGORIES:
            column = part.words(name)
            known[name].update(column.words[code] for code in column.used().tolist())
            first[name] += [column.words[code] for code in column.values[:kept].tolist()]
        if kept:
            numbers.append(np.hstack([scaled, part.numbers(["Diverted", "ArrDelay"])])[:kept])
        total += len(part)
    if total != file_rows:
        raise InputError(f"{path} has {total:,} flights, expected {file_rows:,}")
    table = np.concatenate(numbers)
    n_categories = len(AIRLINE_CATEGORIES)
    values = np.hstack([np.ones((rows, n_categories)), _divided(table[:, :4], largest), table[:, 4:5]])
    places = np.empty(values.shape, dtype=np.int32)
    width = 0
    for k, name in enumerate(AIRLINE_CATEGORIES):
        # By length first, so that days and months are in the order of numbers, and airports in that of the alphabet.
        order = {word: width + i for i, word in enumerate(sorted(known[name], key=lambda word: (len(word), word)))}
        places[:, k] = [order[word] for word in first[name]]
        width += len(order)
    places[:, n_categories:] = np.arange(width, width + 5)
    indptr = np.arange(0, values.size + 1, values.shape[1], dtype=np.int32)
    X = csr_array((values.ravel(), places.ravel(), indptr), shape=(rows, width + 5))
    X.eliminate_zeros()
    return X, _labels(table[:, 5] > 0)


def rcv1(path: Path) -> Block:
    """Return LIBSVM's rcv1_train.binary unchanged."""
    X, labels = read_libsvm(path, 47_236, (-1, 1))
    return X, _labels(labels == 1)


def newsgroups20(path: Path) -> Block:
    """Return counts of words; +1 = the newsgroups comp.* and sci.* among 20."""
    X, labels = read_libsvm(path, 26_214, range(1, 21))
    return X, _labels(np.isin(labels, COMPUTERS_AND_SCIENCE))


def spam_assassin(path: Path) -> Block:
    """Return which words a message has; +1 = spam."""
    X, labels = read_libsvm(path, 39_916, (0, 1))
    return X, _labels(labels == 1)


READERS: Mapping[str, Callable[..., Block]] = {
    function.__name__: function
    for function in (
        *(electricity, powersupply, covertype, covertype_sample),
        *(airline, rcv1, newsgroups20, spam_assassin),
    )
}
"""The functions by the names that ``datasets.toml`` uses."""


def digest(X: Any, y: IntArray) -> str:
    """Return the SHA-256 of rows and labels, which does not depend on how the file was written or compressed."""
    parts = [X] if isinstance(X, np.ndarray) else [X.data, X.indices.astype("<i8"), X.indptr.astype("<i8")]
    sha = hashlib.sha256()
    for part in [*parts, y]:
        sha.update(np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<")).data)
    return sha.hexdigest()


def _labels(positive: Any) -> IntArray:
    return np.where(positive, 1, -1)


def _divided(X: FloatArray, largest: FloatArray) -> FloatArray:
    """Divide each column by its largest value; a column without positive values stays as it is."""
    return X / np.where(largest > 0, largest, 1.0)
