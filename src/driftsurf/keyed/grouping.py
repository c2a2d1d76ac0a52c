"""Columns derived from those of a table, and its rows grouped by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import IntArray
from driftsurf.data.row_encoder import Target
from driftsurf.data.tables import Column, Table
from driftsurf.errors import LabelError, Option, OptionError, ValueTypeError
from driftsurf.keyed.rows import RowsByKey, by_slot
from driftsurf.keyed.visit import KeyedLearner

MOST_WORDS = 32
"""Words of a text column that have a column each, the most frequent ones of the first rows; all others share one."""


@dataclass(frozen=True, slots=True)
class DerivedColumns:
    """Columns derived from each row alone, so that all keys, epochs and engines derive the same."""

    label: str
    """The label: a column, or a question such as "delay > 0"."""
    question: Target | None = None
    """The question, if the label is one; its answer becomes a column of booleans."""
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The words with a column of their own, for each text column among the features."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns of the files from which others are derived."""
        return (*([] if self.question is None else [self.question.column]), *self.words)

    @property
    def target(self) -> str:
        """The column of the files that holds the label, or what the question is about."""
        return self.label if self.question is None else self.question.column

    def features(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the features after text columns were replaced.

        >>> DerivedColumns("sold", words={"city": ("Oslo", "Rome")}).features(["price", "city"])
        ('price', 'city=Oslo', 'city=Rome', 'city (other)')
        """
        return tuple(one for name in names for one in (self._slots(name) if name in self.words else [name]))

    def _slots(self, name: str) -> list[str]:
        return [*(f"{name}={word}" for word in self.words[name]), other(name)]

    def add_to(self, table: Table) -> Table:
        """Return a table with the derived columns beside its own. What is derived from a gap is a gap."""
        if not self.sources:
            return table
        columns = dict(table.columns)
        if self.question is not None:
            gaps = self.question.missing(table)
            answers = self.question.answers(table).astype(np.float64)
            columns[self.label] = Column("boolean", np.where(gaps, np.nan, answers))
        for name, words in self.words.items():
            text = table[name].as_text()
            place = {word: slot for slot, word in enumerate(words)}
            slot_of = np.array([*(place.get(word, len(words)) for word in text.words), -1])
            slots = slot_of[text.values]
            for slot, column in enumerate(self._slots(name)):
                columns[column] = Column("number", np.where(slots < 0, np.nan, slots == slot))
        return Table(columns, table.features)


def other(name: str) -> str:
    """Return the name of the column for all other words of a text column."""
    return f"{name} (other)"


def find_derived(
    table: Table,
    label: str,
    target: Target,
    features: Sequence[str],
    saved: Mapping[str, Sequence[str]] | None = None,
) -> DerivedColumns:
    """Return what a run derives, as its first rows decide.

    Parameters
    ----------
    table
        The first rows.
    label, target
        What to predict: its name, and how it is read.
    features
        The columns that are named as features.
    saved
        Words of each text column in the run that is resumed, which stay the same whatever the first rows are now.
    """
    texts = [name for name in features if name in table.columns and table[name].kind == "text"]
    words = {name: _frequent(table[name]) if saved is None else tuple(saved.get(name, ())) for name in texts}
    return DerivedColumns(label, target if target.test else None, words)


def _frequent(column: Column) -> tuple[str, ...]:
    counts = np.bincount(column.values[column.values >= 0], minlength=len(column.words)).tolist()
    total = Counter[str]()
    for word, count in zip(column.words, counts, strict=True):  # a word may occur twice in the vocabulary
        total[word] += count
    ranked = sorted((word for word, count in total.items() if count), key=lambda word: (-total[word], word))
    return tuple(sorted(ranked[:MOST_WORDS]))


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
