"""One reader for each set of real data: from the published file to rows and labels, nothing shuffled or changed.

Readers raise LineError where a file is not what it should be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf.base import FloatArray, IntArray
from driftsurf.streams._text import Chunk, LineError, read_libsvm, read_table
from driftsurf.streams.base import Block

COVERTYPE_COLUMNS = 54
AIRLINE_CATEGORIES = 0, 1, 2, 3, 6, 9, 10
"""Year, Month, DayofMonth, DayofWeek, UniqueCarrier, Origin, Dest."""
AIRLINE_SCALED = 4, 5, 8, 11
"""CRSDepTime, CRSArrTime, ActualElapsedTime, Distance."""
AIRLINE_DIVERTED, AIRLINE_DELAY = 12, 13
COMPUTERS_AND_SCIENCE = 2, 3, 4, 5, 6, 12, 13, 14, 15
"""comp.* and sci.* among the 20 newsgroups in the order of the alphabet, from 1."""


def electricity(path: Path) -> Block:
    """The day of the week one-hot, then period, prices, demands and transfer; +1 = UP. The date is dropped."""

    def part(chunk: Chunk) -> Block:
        day = chunk.whole(1, range(1, 8))
        one_hot = (day[:, None] == np.arange(1, 8)).astype(np.float64)
        return np.hstack([one_hot, chunk.numbers(range(2, 8))]), chunk.coded(8, {"UP": 1, "DOWN": -1})

    return _joined(part(chunk) for chunk in read_table(path, 9))


def powersupply(path: Path) -> Block:
    """Power from the main grid and from other grids, each divided by its largest value; +1 iff the hour < 12."""

    def part(chunk: Chunk) -> Block:
        return chunk.numbers([0, 1]), _labels(chunk.whole(2, range(24)) < 12)

    X, y = _joined(part(chunk) for chunk in read_table(path, 3))
    return _by_largest(X, X.max(axis=0)), y


def covertype(path: Path) -> Block:
    """LIBSVM's covtype.libsvm.binary, scaled or not; +1 = its label 1, as the paper's authors take it.

    Columns that do not lie in [0, 1] already are brought there linearly, smallest to 0 and largest to 1.
    """
    rows, labels = read_libsvm(path, COVERTYPE_COLUMNS)
    _check_labels(labels, (1, 2))
    X = rows.toarray()
    low, high = X.min(axis=0), X.max(axis=0)
    if low.min() < 0 or high.max() > 1:
        X = (X - low) / np.where(high > low, high - low, 1.0)
    return X, _labels(labels == 1)


def covertype_sample(path: Path) -> Block:
    """A table of columns in [0, 1] and the cover type 1 to 7; +1 = type 2."""

    def part(chunk: Chunk) -> Block:
        X = chunk.numbers(range(COVERTYPE_COLUMNS))
        outside = ((X < 0) | (X > 1)).any(axis=1)
        if outside.any():
            chunk.refuse(int(outside.argmax()), "a value outside of 0 to 1")
        return X, _labels(chunk.whole(COVERTYPE_COLUMNS, range(1, 8)) == 2)

    return _joined(part(chunk) for chunk in read_table(path, COVERTYPE_COLUMNS + 1))


def airline(path: Path, *, year: int, file_rows: int, rows: int) -> Block:
    """The first ``rows`` flights of Ikonomovska's 14 columns; +1 iff the flight arrives late.

    Year, month, day, day of the week, carrier, origin and destination are one-hot; scheduled times, elapsed
    time and distance are divided by their largest value; the flight number is dropped. Which categories there
    are and which values are largest is decided by the whole file, as the paper's authors do.
    """
    from scipy.sparse import csr_array

    known: list[set[str]] = [set() for _ in AIRLINE_CATEGORIES]
    largest = np.zeros(len(AIRLINE_SCALED))
    fields: list[list[str]] = []
    numbers: list[FloatArray] = []
    total = 0
    for chunk in read_table(path, 14):
        scaled = chunk.numbers(AIRLINE_SCALED)
        largest = np.maximum(largest, scaled.max(axis=0))
        for names, column in zip(known, AIRLINE_CATEGORIES, strict=True):
            names.update([row[column] for row in chunk.rows])
        if known[0] != {str(year)}:
            chunk.whole(0, range(year, year + 1))  # says in which line
        if total < rows:
            fields += chunk.rows[: rows - total]
            numbers.append(np.hstack([scaled, chunk.numbers([AIRLINE_DIVERTED, AIRLINE_DELAY])])[: rows - total])
        total += len(chunk.rows)
    if total != file_rows:
        raise LineError(total, f"{total:,} flights instead of {file_rows:,}")
    table = np.concatenate(numbers)
    values = np.hstack([np.ones((rows, len(known))), _by_largest(table[:, :4], largest), table[:, 4:5]])
    places = np.empty(values.shape, dtype=np.int32)
    width = 0
    for k, (names, column) in enumerate(zip(known, AIRLINE_CATEGORIES, strict=True)):
        code = {name: width + i for i, name in enumerate(sorted(names, key=_number_or_text))}
        places[:, k] = [code[row[column]] for row in fields]
        width += len(code)
    places[:, len(known) :] = np.arange(width, width + 5)
    indptr = np.arange(0, values.size + 1, values.shape[1], dtype=np.int32)
    X = csr_array((values.ravel(), places.ravel(), indptr), shape=(rows, width + 5))
    X.eliminate_zeros()
    return X, _labels(table[:, 5] > 0)


def rcv1(path: Path) -> Block:
    """LIBSVM's rcv1_train.binary as it is."""
    X, labels = read_libsvm(path, 47_236)
    _check_labels(labels, (-1, 1))
    return X, _labels(labels == 1)


def newsgroups20(path: Path) -> Block:
    """Counts of words, the newsgroup 1 to 20 as label; +1 = comp.* and sci.*."""
    X, labels = read_libsvm(path, 26_214)
    _check_labels(labels, range(1, 21))
    return X, _labels(np.isin(labels, COMPUTERS_AND_SCIENCE))


def spam_assassin(path: Path) -> Block:
    """Which words a message has; +1 = label 1, spam."""
    X, labels = read_libsvm(path, 39_916)
    _check_labels(labels, (0, 1))
    return X, _labels(labels == 1)


def digest(X: Any, y: IntArray) -> str:
    """SHA-256 of the values: the same however a file is packed, and with or without a header."""
    parts = [X] if isinstance(X, np.ndarray) else [X.data, X.indices.astype("<i8"), X.indptr.astype("<i8")]
    sha = hashlib.sha256()
    for part in [*parts, y]:
        sha.update(np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<")).data)
    return sha.hexdigest()


def _joined(parts: Iterable[Block]) -> Block:
    rows, labels = zip(*parts, strict=True)
    return np.concatenate(rows), np.concatenate(labels)


def _labels(positive: Any) -> IntArray:
    return np.where(positive, 1, -1)


def _by_largest(X: FloatArray, largest: FloatArray) -> FloatArray:
    return X / np.where(largest > 0, largest, 1.0)


def _check_labels(labels: FloatArray, choices: Iterable[int]) -> None:
    known = np.isin(labels, list(choices))
    if not known.all():
        listed = ", ".join(str(choice) for choice in choices)
        raise LineError(int(known.argmin()) + 1, f"label {labels[known.argmin()]:g}; choices: {listed}")


def _number_or_text(name: str) -> tuple[int, str]:
    """Sorts days and months as numbers, and codes of airports by the alphabet."""
    return len(name), name
