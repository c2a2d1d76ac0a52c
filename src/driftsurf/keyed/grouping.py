"""Rows of a table grouped by key, as visits take them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import IntArray
from driftsurf.data.tables import Column, Table
from driftsurf.errors import LabelError, Option, OptionError, ValueTypeError
from driftsurf.keyed.keys import by_slot
from driftsurf.keyed.rows import RowsByKey
from driftsurf.keyed.visit import KeyedLearner

__all__ = ["Columns", "Grouped", "by_key", "check_columns", "label_type"]

NOT_NUMBERS = {"text": "text", "date": "a date"}
"""Kinds of columns that are not numbers, and what messages call them."""
LARGEST_INTEGER = 2.0**53
"""Floats beyond it are no longer distinct integers."""


class Columns(NamedTuple):
    """The names of the columns of a keyed stream; the learner knows the features.

    Examples
    --------
    >>> Columns(key="shop", sequence="day", label="sold")
    Columns(key='shop', sequence='day', label='sold', id=None)
    """

    key: str
    sequence: str
    label: str
    id: str | None = None


class Grouped(NamedTuple):
    """The rows of each key, in order of the keys."""

    rows: RowsByKey
    counts: dict[str, int]
    """Rows that were dropped, by cause: "unplaced" ones have no key or no sequence number."""
    types: tuple[str, str]
    """The types of keys and labels, as pyarrow names them."""


def by_key(table: Table, learner: KeyedLearner, columns: Columns, limit: int | None) -> Grouped:
    """Group the rows of a table by key; rows with sequence numbers up to ``limit`` are late, and dropped."""
    keys, names, key_type = _key_codes(columns.key, table[columns.key])
    sequence, placed = _integers(columns.sequence, table[columns.sequence])
    placed &= keys >= 0
    late = placed & (sequence <= limit) if limit is not None else np.zeros(len(table), np.bool_)
    places = np.flatnonzero(placed & ~late)
    X = np.column_stack([_numbers(name, table[name]) for name in learner.features])
    codes, words = _labels(table[columns.label])
    ids = None if columns.id is None else _plain(table[columns.id])
    found, starts, order = by_slot(keys[places].astype(np.int32), len(names))
    rows = RowsByKey(
        [names[number] for number in found.tolist()],
        starts,
        places[order],
        sequence=sequence,
        X=X,
        codes=codes,
        words=words,
        ids=ids,
    )
    counts = {"unplaced": int((~placed).sum()), "late": int(late.sum())}
    return Grouped(rows, counts, (key_type, label_type(table[columns.label].kind, learner)))


def check_columns(table: Table, learner: KeyedLearner, columns: Columns) -> None:
    """Raise an error that says what to do if a column is missing or of the wrong kind."""
    found = {name: table[name] for name in (*columns, *learner.features) if name is not None}
    _key_codes(columns.key, found[columns.key])
    _integers(columns.sequence, found[columns.sequence])
    for name in learner.features:
        _numbers(name, found[name])
    label = found[columns.label].kind
    if learner.regression and label in NOT_NUMBERS:
        raise LabelError(
            f"the label {columns.label!r} is {NOT_NUMBERS[label]}; the task 'regression' needs numbers",
            column=columns.label,
        )


def _key_codes(name: str, column: Column) -> tuple[IntArray, list[Any], str]:
    """Return a code for the key of each row, -1 for a row without one, the sorted keys, and their type."""
    if column.kind == "text":
        words = sorted(set(column.words))  # the vocabulary of a column may hold a word twice
        number = {word: code for code, word in enumerate(words)}
        return np.array([*(number[word] for word in column.words), -1])[column.values], words, "string"
    if column.kind != "number":
        raise ValueTypeError(f"the key {name!r} is a {column.kind}; keys must be integers or text", column=name)
    values, good = _integers(name, column)
    found, codes = np.unique(values, return_inverse=True)
    return np.where(good, codes, -1), found.tolist(), "int64"


def _integers(name: str, column: Column) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Return a column as integers (dates as microseconds), and which of its cells are such."""
    if column.kind == "text":
        raise ValueTypeError(f"the column {name!r} is text; sequence numbers must be integers or dates", column=name)
    if column.kind == "date":
        good = ~column.missing()
        return np.where(good, column.values.astype(np.int64), 0), good
    good = np.isfinite(column.values) & (np.abs(column.values) < LARGEST_INTEGER)
    good &= np.where(good, column.values, 0.5) % 1 == 0
    return np.where(good, column.values, 0).astype(np.int64), good


def _numbers(name: str, column: Column) -> npt.NDArray[np.float64]:
    if column.kind in NOT_NUMBERS:
        raise OptionError(
            f"the feature {name!r} is {NOT_NUMBERS[column.kind]}, and a keyed run learns from numbers and text: leave "
            "it out of ",
            Option("features"),
            ", or convert it to numbers first",
        )
    return column.values


def _labels(column: Column) -> tuple[IntArray, list[Any]]:
    """Return labels as codes, -1 for a gap, and the Python values that the codes stand for."""
    missing = column.missing()
    if column.kind == "text":
        return np.where(missing, -1, column.values), list(column.words)
    if column.kind == "boolean":
        return np.where(missing, -1, np.where(missing, 0, column.values).astype(np.int64)), [False, True]
    found, codes = np.unique(column.values, return_inverse=True)
    words = found.tolist() if column.kind == "number" else [str(value) for value in found]
    return np.where(missing, -1, codes), [_plain_number(word) if type(word) is float else word for word in words]


def _plain_number(value: float) -> float | int:
    return int(value) if value.is_integer() else value


def _plain(column: Column) -> list[Any]:
    """Return a column as Python values, None for a gap."""
    codes, words = _labels(column)
    values = [*words, None]
    return [values[code] for code in codes.tolist()]


def label_type(kind: str, learner: KeyedLearner) -> str:
    """Return the type in which labels of a kind are kept, as pyarrow names it: integers if the classes are."""
    if learner.regression:
        return "float64"
    if kind == "number":
        classes = learner.classes
        return "int64" if classes and all(isinstance(label, int) for label in classes) else "float64"
    return {"boolean": "bool_"}.get(kind, "string")
