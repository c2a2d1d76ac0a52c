"""The joins of rows and labels as they were before one joiner did both, which the tests compare it with."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, TypeVar

from driftsurf.session.label_counts import COUNTS
from driftsurf.session.label_joiner import LEARNED, LOST
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


class JoinerOfRuns:
    """The join of late labels of runs: the change of a call is computed as a whole, and then applied."""

    def __init__(self, max_pending: int, timeout: float | None) -> None:
        self.max_pending, self.timeout = max_pending, timeout
        self.tables = LateTables()
        self.next_row = 0
        self.counts = dict.fromkeys(COUNTS, 0)

    def come(self, names: Sequence[Key], at: float) -> None:
        """Let rows wait."""
        come = [Waiting(self.next_row + place, None, 0, at) for place in range(len(names))]
        change, counted = self._arrival(names, come, at)
        self.next_row += len(names)
        self._count(counted)
        change.apply(self.tables, self.max_pending)

    def label(self, names: Sequence[Key], values: Sequence[Any], at: float) -> list[tuple[Key, int, Any]]:
        """Return the rows of labels: keys, numbers and labels."""
        tables = self.tables
        lost = dict.fromkeys(self._expired(at, {}, self.next_row))
        ready = {key: label for key, label in tables.ready.items() if key not in lost}
        names, values = [*ready, *names], [*ready.values(), *values]
        found, early, strays = self._find(names, lost)
        strays["late"] += len(tables.ready) - len(ready)
        self._count(strays | {"expired": len(lost), "orphan": len(early), "labelled": len(found)})
        joined = [(names[place], tables.waiting[names[place]].row, values[place]) for place in found]
        part = [key for key, _, _ in joined]
        held = {names[place]: values[place] for place in early}
        LateChange(gone=[*lost, *part], learned=part, lost=[*lost], early=held).apply(tables, self.max_pending)
        return joined

    def _count(self, counted: Mapping[str, int]) -> None:
        for name, count in counted.items():
            self.counts[name] += count

    def _arrival(self, names: Sequence[Key], come: Sequence[Waiting], at: float) -> tuple[LateChange, dict[str, int]]:
        """Return what changes with rows that came, and the counts of it."""
        tables = self.tables
        new: dict[Key, Waiting] = {}
        ready: dict[Key, Any] = {}
        replaced = orphan = 0
        for key, waiting in zip(names, come, strict=True):
            # Removed and put at the end: rows are dropped and released in their order.
            if new.pop(key, None) is not None or key in tables.waiting:
                replaced += 1
            new[key] = waiting
            if key in ready:
                ready[key] = ready.pop(key)
            elif key in tables.ready:
                ready[key] = tables.ready[key]
            elif key in tables.early:
                ready[key], orphan = tables.early[key], orphan - 1
        lost = self._expired(at, new, self.next_row + len(names))
        late = 0
        for key in lost:
            new.pop(key, None)
            late += key in ready or key in tables.ready
            ready.pop(key, None)
        counted = {"predicted": len(names), "replaced": replaced, "orphan": orphan, "expired": len(lost), "late": late}
        return LateChange(come=names, gone=lost, waiting=new, ready=ready, lost=lost), counted

    def _expired(self, at: float, new: Mapping[Key, Waiting], next_row: int) -> list[Key]:
        """Return the keys of the rows beyond ``max_pending`` or ``timeout``, oldest first; ``new`` ones just came."""
        found: list[Key] = []
        known = ((key, one) for key, one in self.tables.waiting.items() if key not in new)
        for key, waiting in chain(known, new.items()):
            overdue = self.timeout is not None and at - waiting.time > self.timeout
            if waiting.row >= next_row - self.max_pending and not overdue:
                break
            found.append(key)
        return found

    def _find(self, names: Sequence[Key], lost: Mapping[Key, None]) -> tuple[list[int], list[int], dict[str, int]]:
        """Return the places of labels whose rows wait, of labels whose rows have not come, and the counts of others.

        ``lost`` are keys whose rows are dropped now.
        """
        tables = self.tables
        forgotten = set(islice(chain(tables.lost, lost), max(0, len(tables.lost) + len(lost) - self.max_pending)))
        found: dict[Key, int] = {}
        early: dict[Key, int] = {}
        strays = {"late": 0, "duplicate": 0}
        for place, key in enumerate(names):
            if key in found or key in early or key in tables.learned or key in tables.early:
                strays["duplicate"] += 1
            elif key in tables.waiting and key not in lost:
                found[key] = place
            elif (key in tables.lost or key in lost) and key not in forgotten:
                strays["late"] += 1
            else:
                early[key] = place
        return list(found.values()), list(early.values()), strays


class JoinerOfServedModels:
    """The join of a served model: every row and every label changes the tables at once."""

    def __init__(self, max_pending: int) -> None:
        self.max_pending = max_pending
        self._counts = dict.fromkeys(COUNTS, 0)
        self._waiting: dict[str, int] = {}
        self._early: dict[str, float] = {}
        self._done: dict[str, int] = {}
        self.times: list[float] = []
        self.joined: list[tuple[str, int, float]] = []

    def _come(self, id: str, row: int) -> None:
        """Let a row wait for its label, or learn it if the label came before."""
        counts = self._counts
        counts["predicted"] += 1
        if self._waiting.pop(id, None) is not None:
            counts["replaced"] += 1
        self._done.pop(id, None)
        code = self._early.pop(id, None)
        if code is not None:
            counts["orphan"] -= 1
            counts["labelled"] += 1
            self._finish(id, LEARNED)
            self.joined.append((id, row, code))
            return
        self._waiting[id] = row
        if len(self._waiting) > self.max_pending:
            self._lose(next(iter(self._waiting)))

    def _label(self, id: str, code: float) -> None:
        """Put a row whose label came into the next step, or hold the label."""
        counts, row = self._counts, self._waiting.pop(id, None)
        if row is not None:
            counts["labelled"] += 1
            self._finish(id, LEARNED)
            self.joined.append((id, row, code))
            return
        became = self._done.get(id)
        if became == LEARNED or id in self._early:
            counts["duplicate"] += 1
        elif became == LOST:
            counts["late"] += 1
        else:
            counts["orphan"] += 1
            self._early[id] = code
            if len(self._early) > self.max_pending:
                del self._early[next(iter(self._early))]

    def _expire(self, before: float) -> None:
        """Lose the rows that came before a time."""
        while self._waiting:
            id, row = next(iter(self._waiting.items()))
            if self.times[row] >= before:
                return
            self._lose(id)

    def _lose(self, id: str) -> None:
        del self._waiting[id]
        self._counts["expired"] += 1
        self._finish(id, LOST)

    def _finish(self, id: str, became: int) -> None:
        self._done[id] = became
        if len(self._done) > self.max_pending:
            del self._done[next(iter(self._done))]
