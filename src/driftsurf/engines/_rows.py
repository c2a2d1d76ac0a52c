"""Rows of a table by key, as a key's visit takes them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.base import IntArray
from driftsurf.engines.keyed import KeyedLearner, KeyRows
from driftsurf.errors import LabelError, Option, OptionError, ValueTypeError
from driftsurf.tables import Column, Table

__all__ = ["Columns", "Grouped", "by_key", "check_columns", "label_type"]


NO_NUMBERS = {"text": "text", "date": "a date"}
"""Kinds of columns, and what a message calls them."""


class Columns(NamedTuple):
    """What the columns of a keyed stream are called; the features are named by the learner."""

    key: str
    sequence: str
    label: str
    id: str | None = None


class Grouped(NamedTuple):
    """The rows of each key, and what is to be said of all."""

    rows: dict[Any, KeyRows]
    counts: dict[str, int]
    """Rows that were dropped, by cause: "unplaced" ones have no key or no sequence number."""
    types: tuple[str, str]
    """Of keys and labels, as pyarrow calls them."""


def by_key(table: Table, learner: KeyedLearner, columns: Columns, limit: int | None) -> Grouped:
    """The rows of each key; those with sequence numbers up to ``limit`` are late, and dropped."""
    keys, key_type = _keys(columns.key, table[columns.key])
    sequence, placed = _whole(columns.sequence, table[columns.sequence])
    placed &= keys >= 0
    late = placed & (sequence <= limit) if limit is not None else np.zeros(len(table), np.bool_)
    places = np.flatnonzero(placed & ~late)
    X = np.column_stack([_numbers(name, table[name]) for name in learner.features])
    y = _plain(table[columns.label])
    ids = None if columns.id is None else _plain(table[columns.id])
    order = places[np.argsort(keys[places], kind="stable")]
    bounds = np.flatnonzero(np.diff(keys[order], prepend=-1, append=-1))
    names = _key_names(table[columns.key])
    rows = {}
    for a, b in itertools.pairwise(bounds):
        own = order[a:b]
        chosen = own.tolist()
        own_ids = None if ids is None else [ids[i] for i in chosen]
        rows[names(int(own[0]))] = KeyRows(sequence[own], X[own], [y[i] for i in chosen], own_ids)
    counts = {"unplaced": int((~placed).sum()), "late": int(late.sum())}
    return Grouped(dict(sorted(rows.items())), counts, (key_type, label_type(table[columns.label].kind, learner)))


def check_columns(table: Table, learner: KeyedLearner, columns: Columns) -> None:
    """An error that says what to do unless all columns are there, and of their kinds."""
    found = {name: table[name] for name in (*columns, *learner.features) if name is not None}
    _keys(columns.key, found[columns.key])
    _whole(columns.sequence, found[columns.sequence])
    for name in learner.features:
        _numbers(name, found[name])
    label = found[columns.label].kind
    if learner.values and label in NO_NUMBERS:
        raise LabelError(
            f"the label {columns.label!r} is {NO_NUMBERS[label]}, and for the task 'regression' it has to be numbers"
        )


def _keys(name: str, column: Column) -> tuple[IntArray, str]:
    """A code for each key, -1 for a row without one, and the type of keys."""
    if column.kind == "text":
        first: dict[str, int] = {}  # a word may stand there twice
        codes = np.array([*(first.setdefault(word, code) for code, word in enumerate(column.words)), -1])
        return codes[column.values], "string"
    if column.kind != "number":
        raise ValueTypeError(f"the key {name!r} is a {column.kind}; keys are whole numbers, or text")
    values, good = _whole(name, column)
    codes = np.unique(values, return_inverse=True)[1]
    return np.where(good, codes, -1), "int64"


def _key_names(column: Column) -> Callable[[int], Any]:
    """The key of a row."""
    if column.kind == "text":
        return lambda row: column.words[int(column.values[row])]
    return lambda row: int(column.values[row])


def _whole(name: str, column: Column) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Whole numbers (of a date: microseconds), and where there are such."""
    if column.kind == "text":
        raise ValueTypeError(f"the column {name!r} is text; sequence numbers are whole numbers, or dates")
    if column.kind == "date":
        good = ~column.missing()
        return np.where(good, column.values.astype(np.int64), 0), good
    good = np.isfinite(column.values) & (np.abs(column.values) < 2.0**53)
    good &= np.where(good, column.values, 0.5) % 1 == 0
    return np.where(good, column.values, 0).astype(np.int64), good


def _numbers(name: str, column: Column) -> npt.NDArray[np.float64]:
    if column.kind in NO_NUMBERS:
        raise OptionError(
            f"the feature {name!r} is {NO_NUMBERS[column.kind]}, and a learner for each key takes numbers: leave it "
            "out of ",
            Option("features"),
            ", or make numbers of it first",
        )
    return column.values


def _plain(column: Column) -> list[Any]:
    """Values of Python's own, None for a gap."""
    missing = column.missing().tolist()
    if column.kind == "text":
        return [None if gap else column.words[code] for gap, code in zip(missing, column.values.tolist(), strict=True)]
    if column.kind == "boolean":
        return [None if gap else bool(value) for gap, value in zip(missing, column.values.tolist(), strict=True)]
    if column.kind == "date":
        return [None if gap else str(value) for gap, value in zip(missing, column.values, strict=True)]
    return [
        None if gap else int(value) if value.is_integer() else value
        for gap, value in zip(missing, column.values.tolist(), strict=True)
    ]


def label_type(kind: str, learner: KeyedLearner) -> str:
    """What labels of a kind are kept as, as pyarrow calls it. Numbers are whole if the classes are."""
    if learner.values:
        return "float64"
    if kind == "number":
        classes = learner.classes
        return "int64" if classes and all(isinstance(label, int) for label in classes) else "float64"
    return {"boolean": "bool_"}.get(kind, "string")
