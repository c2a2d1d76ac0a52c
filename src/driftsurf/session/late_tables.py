"""Rows that wait for labels and labels that wait for rows, by key, and changes of them that can be applied again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from driftsurf.core.input import Schema
from driftsurf.core.samples import Samples
from driftsurf.session.label_counts import LabelCounts
from driftsurf.session.late_saved import Key, Waiting

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class LateTables:
    """The keys of rows by what was done with them: waiting, learned, lost, early; each table has the oldest first."""

    waiting: OrderedDict[Key, Waiting] = field(default_factory=OrderedDict)
    """Rows that wait for their label."""
    learned: OrderedDict[Key, None] = field(default_factory=OrderedDict)
    """The last keys whose rows were learned."""
    lost: OrderedDict[Key, None] = field(default_factory=OrderedDict)
    """The last keys whose rows were dropped."""
    early: OrderedDict[Key, Any] = field(default_factory=OrderedDict)
    """Labels whose row has not come."""
    ready: OrderedDict[Key, Any] = field(default_factory=OrderedDict)
    """Labels that came before their row, which waits now."""


@dataclass(frozen=True, slots=True)
class LateChange:
    """Change of the tables, which is the same if it is applied once, twice, or again after a part of it.

    Fields are applied in their order.
    """

    come: Sequence[Key] = ()
    """Keys of rows that came: it is forgotten what became of earlier rows, and of their labels."""
    gone: Sequence[Key] = ()
    """Keys of rows that no longer wait."""
    waiting: Mapping[Key, Waiting] = field(default_factory=dict)
    """Rows that wait from now on."""
    ready: Mapping[Key, Any] = field(default_factory=dict)
    """Labels of these rows that came before."""
    learned: Sequence[Key] = ()
    lost: Sequence[Key] = ()
    early: Mapping[Key, Any] = field(default_factory=dict)
    """Labels that are held until their row comes."""

    def apply(self, tables: LateTables, most: int) -> None:
        """Change the tables, of which those of learned, lost and early keys have ``most`` entries at most."""
        for key in self.come:
            for known in (tables.learned, tables.lost, tables.early):
                known.pop(key, None)
        for key in self.gone:
            tables.waiting.pop(key, None)
            tables.ready.pop(key, None)
        _put(tables.waiting, self.waiting.items())
        _put(tables.ready, self.ready.items())
        _put(tables.learned, ((key, None) for key in self.learned), most)
        _put(tables.lost, ((key, None) for key in self.lost), most)
        _put(tables.early, self.early.items(), most)


def _put(table: OrderedDict[Key, Value], entries: Iterable[tuple[Key, Value]], most: int | None = None) -> None:
    """Put entries at the end of a table, and drop the oldest ones beyond ``most``."""
    for key, value in entries:
        table.pop(key, None)
        table[key] = value
    while most is not None and len(table) > most:
        table.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything about late labels but the model, as of one call; the tables and the rows change in place."""

    time: float
    counts: LabelCounts
    schema: Schema | None
    samples: Samples | None = None
    tables: LateTables = field(default_factory=LateTables)

    @property
    def next_row(self) -> int:
        """Number of the next row that comes."""
        return 0 if self.samples is None else self.samples.next_row

    @property
    def first_row(self) -> int:
        """Number of the oldest row that waits; that of the next row if none waits."""
        waiting = self.tables.waiting
        return next(iter(waiting.values())).row if waiting else self.next_row


@dataclass(slots=True)
class LateMark:
    """Where a call began and, once that is decided, how it ends."""

    samples: Any
    """Mark of the rows; None before the first ones."""
    model: tuple[object, int]
    """Snapshot of the model and number of its waiting rows before the call."""
    plan: LatePlan | None = None
    """How the call ends: unless it is broken off before, or its model does not learn."""


@dataclass(frozen=True, slots=True)
class LatePlan:
    """How a call ends."""

    standing: Standing
    change: LateChange | None
    """Change of the tables of ``standing``; None if they are complete."""
    with_model: bool
    """Whether the call ends like this only if the model has changed."""
    samples: Any
    """Mark of the rows, before some of them are released."""

    def finish(self, most: int) -> None:
        """Change the tables and release rows that nothing waits for; if this is broken off, it can be done again."""
        standing, samples = self.standing, self.standing.samples
        if self.change is None:
            return
        if samples is not None:
            samples.put_back(self.samples)
        self.change.apply(standing.tables, most)
        if samples is not None:
            samples.release(standing.first_row)
