"""85 classes of bad batches, as people, sensors and files really send them."""

from __future__ import annotations

import datetime
import decimal
import fractions
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

Call = tuple[Any, Any, Any]
"""Rows, labels, and weights or None."""
Bad = Callable[[Any, Any], Call]

CELLS: dict[str, Any] = {
    "NaN": np.nan,
    "infinity": np.inf,
    "-infinity": -np.inf,
    "1e6": 1e6,
    "-1e6": -1e6,
    "1e30": 1e30,
    "1e100": 1e100,
    "1e300": 1e300,
    "-1e300": -1e300,
    "the largest double": 1.7976931348623157e308,
    "the smallest double": 5e-324,
}
OBJECTS: dict[str, Any] = {
    "None": None,
    "text": "abc",
    "a number as text": "1.5",
    "'nan' as text": "nan",
    "empty text": "",
    "bytes": b"1",
    "a complex number": 1j,
    "a list": [1.0],
    "a dictionary": {"a": 1},
    "a decimal": decimal.Decimal("1.5"),
    "a fraction": fractions.Fraction(1, 3),
    "a date": datetime.date(2020, 1, 1),
    "an integer beyond all doubles": 10**400,
    "an object": object(),
    "a function": len,
}


def _cell(value: float, rows: slice | int, columns: slice | int = 0) -> Bad:
    def bad(X: Any, y: Any) -> Call:
        X = X.copy()
        X[rows, columns] = value
        return X, y, None

    return bad


def _object(value: Any) -> Bad:
    def bad(X: Any, y: Any) -> Call:
        rows: Any = X.astype(object)
        rows[3, 1] = value
        return rows, y, None

    return bad


def _labels(change: Callable[[Any], Any]) -> Bad:
    return lambda X, y: (X, change(y), None)


def _rows(change: Callable[[Any], Any]) -> Bad:
    return lambda X, y: (change(X), y, None)


def _weights(change: Callable[[int], Any]) -> Bad:
    return lambda X, y: (X, y, change(len(y)))


def _one(value: Any) -> Callable[[Any], Any]:
    """Return a change of labels that replaces one of them."""

    def change(y: Any) -> Any:
        labels: Any = y.astype(object)
        labels[3] = value
        return labels

    return change


def _csr(damage: Callable[[Any], None]) -> Bad:
    def bad(X: Any, y: Any) -> Call:
        rows = sp.csr_array(X)
        damage(rows)
        return rows, y, None

    return bad


def _index(place: int, value: int) -> Callable[[Any], None]:
    def damage(rows: Any) -> None:
        rows.indices[place] = value

    return damage


def _pointer(place: int, value: int) -> Callable[[Any], None]:
    def damage(rows: Any) -> None:
        rows.indptr[place] = value

    return damage


def _data(place: int, value: float) -> Callable[[Any], None]:
    def damage(rows: Any) -> None:
        rows.data[place] = value

    return damage


def _shortened(rows: Any) -> None:
    rows.data = rows.data[:-2]


CLASSES: dict[str, Bad] = {
    **{f"cell: {name}": _cell(value, 3) for name, value in CELLS.items()},
    **{f"row: {name}": _cell(value, 3, slice(None)) for name, value in CELLS.items() if name not in ("-1e6", "-1e300")},
    **{f"column: {name}": _cell(CELLS[name], slice(None)) for name in ("NaN", "infinity", "-infinity", "1e300")},
    "column: -1e300": _cell(-1e300, slice(None)),
    "every other row: NaN": _cell(np.nan, slice(0, None, 2)),
    "every other row: 1e6": _cell(1e6, slice(0, None, 2)),
    "every other row: 1e300": _cell(1e300, slice(0, None, 2)),
    "last cell: NaN": _cell(np.nan, -1, -1),
    **{f"object: {name}": _object(value) for name, value in OBJECTS.items()},
    "rows: one dimension": _rows(lambda X: X[:, 0]),
    "rows: three dimensions": _rows(lambda X: X[:, :, None]),
    "rows: none": lambda X, y: (X[:0], y[:0], None),
    "rows: no columns": _rows(lambda X: X[:, :0]),
    "rows: a column more": _rows(lambda X: np.hstack([X, X[:, :1]])),
    "rows: a column less": _rows(lambda X: X[:, :-1]),
    "rows: ragged": _rows(lambda X: [*X[:-1].tolist(), [1.0]]),
    "rows: a scalar": _rows(lambda X: 1.0),
    "rows: None": _rows(lambda X: None),
    "rows: complex": _rows(lambda X: X + 1j),
    "rows: dates": _rows(lambda X: X.astype("M8[s]")),
    "rows: text": _rows(lambda X: X.astype(str)),
    "rows: one short": lambda X, y: (X[:-1], y, None),
    "rows: a set": _rows(lambda X: {1.0, 2.0}),
    "labels: one short": _labels(lambda y: y[:-1]),
    "labels: NaN": _labels(lambda y: np.where(np.arange(len(y)) == 3, np.nan, y)),
    "labels: infinity": _labels(lambda y: np.where(np.arange(len(y)) == 3, np.inf, y)),
    "labels: None": _labels(_one(None)),
    "labels: text among numbers": _labels(_one("yes")),
    "labels: a third class": _labels(lambda y: np.where(np.arange(len(y)) == 3, 7, y)),
    "labels: a half": _labels(lambda y: np.where(np.arange(len(y)) == 3, 0.5, y)),
    "labels: two columns": _labels(lambda y: np.column_stack([y, y])),
    "labels: lists": _labels(_one([1])),
    "labels: beyond 64 bits": _labels(_one(10**30)),
    "labels: all of a third class": _labels(lambda y: np.full(len(y), 7)),
    "labels: empty text": _labels(_one("")),
    "labels: dates": _labels(lambda y: y.astype("M8[s]")),
    "weights: NaN": _weights(lambda n: np.where(np.arange(n) == 3, np.nan, 1.0)),
    "weights: infinity": _weights(lambda n: np.where(np.arange(n) == 3, np.inf, 1.0)),
    "weights: negative": _weights(lambda n: np.where(np.arange(n) == 3, -1.0, 1.0)),
    "weights: 1e300": _weights(lambda n: np.where(np.arange(n) == 3, 1e300, 1.0)),
    "weights: one short": _weights(lambda n: np.ones(n - 1)),
    "weights: text": _weights(lambda n: ["a"] * n),
    "weights: all 0": _weights(np.zeros),
    "CSR: a column out of range": _csr(_index(4, 1_000_000)),
    "CSR: a negative column": _csr(_index(4, -1)),
    "CSR: a row that begins after its end": _csr(_pointer(3, 10**6)),
    "CSR: rows that go back": _csr(_pointer(3, 0)),
    "CSR: fewer values than places": _csr(_shortened),
    "CSR: NaN": _csr(_data(4, np.nan)),
    "CSR: 1e300": _csr(_data(4, 1e300)),
}
"""All classes of bad batches, by name."""

DETECTOR_VALUES: dict[str, Any] = {
    **CELLS,
    **OBJECTS,
    "no value": [],
    "two dimensions": [[0.0, 1.0]],
    "many NaN": [np.nan] * 500,
    "many infinities": [np.inf] * 500,
    "many 1e300": [1e300] * 50,
    "-1": -1.0,
    "2": 2.0,
    "a half": 0.5,
    "booleans": [True, False],
}
