"""One function for each set of real data: from the published file to rows and labels, before shuffling and drift."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.data.datasets._tables import TableFile, read_libsvm
from driftsurf.data.kinds import Kind
from driftsurf.errors import InputError
from driftsurf.streams.base import Block

__all__ = ["AIRLINE_CATEGORIES", "READERS", "digest"]

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
