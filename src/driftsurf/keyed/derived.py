"""Columns that a keyed run derives from those of its files: the answer to a question, and words of text as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from driftsurf.data.tables import Column, Table
from driftsurf.data.target import Target

__all__ = ["DerivedColumns", "find_derived"]

MOST_WORDS = 32
"""Words of a text column that have a column each, the most frequent ones of the first rows; all others share one."""


@dataclass(frozen=True, slots=True)
class DerivedColumns:
    """What is derived from each row by itself, so that all keys, epochs and engines derive the same."""

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
