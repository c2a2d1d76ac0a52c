"""Joins rows with labels that come later, by key: which rows wait, and what became of the others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from driftsurf.session.label_counts import COUNTS

Row = TypeVar("Row")
Value = TypeVar("Value")
LEARNED, LOST = 1, 2
"""What became of a row whose key is remembered."""


class TableChange(dict[Any, Value]):
    """An ordered table as it will be: it is read and changed like the table, which stays as it is.

    As a dictionary it has the new entries. A key is removed before it is put at the end.
    """

    __slots__ = ("_first", "_rest", "gone", "table")

    def __init__(self, table: OrderedDict[Any, Value]) -> None:
        super().__init__()
        self.table: OrderedDict[Any, Value] = table
        self.gone: set[Any] = set()
        """Keys of the table that are removed."""
        self._rest = iter(table)
        self._first: Any = next(self._rest, None)

    def __len__(self) -> int:
        return len(self.table) - len(self.gone) + dict.__len__(self)

    def __contains__(self, key: Any) -> bool:
        return (key in self.table and key not in self.gone) or dict.__contains__(self, key)

    def __getitem__(self, key: Any) -> Value:
        return dict.__getitem__(self, key) if key not in self.table or key in self.gone else self.table[key]

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or a default."""
        return dict.get(self, key, default) if key not in self.table or key in self.gone else self.table[key]

    def pop(self, key: Any, default: Any = None) -> Any:
        """Remove a key; return its value, or a default if it is not there."""
        if key not in self.table or key in self.gone:
            return dict.pop(self, key, default)
        self.gone.add(key)
        return self.table[key]

    @property
    def oldest(self) -> Any:
        """The key that has been there for the longest time."""
        while self._first is not None and self._first in self.gone:
            self._first = next(self._rest, None)
        return next(iter(self)) if self._first is None else self._first


class LabelJoiner(Generic[Row]):
    """Joins rows with their labels by key. It knows neither rows nor models: a row is whatever stands for it.

    A row waits for its label; a label that comes before its row is held. The last keys of learned and of lost rows are
    remembered, which tells duplicate and late labels from early ones.

    Parameters
    ----------
    most
        Labels that are held at most, and keys that each table of learned or lost rows remembers.
    most_waiting
        Rows that wait at most; beyond that the oldest is lost. None if the caller says which are: :meth:`lose`.
    early_at_once
        Whether a row whose label came before it is learned as it comes. Otherwise it is ``ready`` until the caller
        gives its label with the next ones.
    one_table
        Whether learned and lost rows are remembered in one table.

    Examples
    --------
    >>> joiner = LabelJoiner(100)
    >>> joiner.come("a", "the row of a")
    >>> joiner.label("a", 1.0), joiner.label("a", 1.0), joiner.label("b", 0.0)
    ('the row of a', None, None)
    >>> joiner.counts["labelled"], joiner.counts["duplicate"], joiner.counts["orphan"]
    (1, 1, 1)
    """

    def __init__(
        self, most: int, *, most_waiting: int | None = None, early_at_once: bool = False, one_table: bool = False
    ) -> None:
        self.most = most
        self.most_waiting = most_waiting
        self.early_at_once = early_at_once
        self.waiting: OrderedDict[Any, Row] = OrderedDict()
        """Rows that wait for their label, by key; this and the other tables have the oldest first."""
        self.early: OrderedDict[Any, Any] = OrderedDict()
        """Labels whose row has not come."""
        self.ready: OrderedDict[Any, Any] = OrderedDict()
        """Labels that came before their row, which waits now."""
        self.learned: OrderedDict[Any, int] = OrderedDict()
        self.lost: OrderedDict[Any, int] = self.learned if one_table else OrderedDict()
        """The last keys whose rows were learned, and lost."""
        self.counts: dict[str, int] = dict.fromkeys(COUNTS, 0)
        """Rows and labels, by what became of them; those that were scored are counted by the caller."""

    def come(self, key: Any, row: Row) -> Any:
        """Let a row wait. If it is to be learned at once, return its label instead, which came before; else None."""
        counts = self.counts
        counts["predicted"] += 1
        if self.waiting.pop(key, None) is not None:
            counts["replaced"] += 1
        self.learned.pop(key, None)
        if self.lost is not self.learned:
            self.lost.pop(key, None)
        label = self.early.pop(key, None)
        if label is not None:
            counts["orphan"] -= 1
            if self.early_at_once:
                counts["labelled"] += 1
                self._remember(self.learned, key, LEARNED)
                return label
        else:
            label = self.ready.pop(key, None)
        if label is not None:
            self.ready[key] = label
        self.waiting[key] = row
        if self.most_waiting is not None and len(self.waiting) > self.most_waiting:
            self._lose(_oldest(self.waiting))
        return None

    def label(self, key: Any, value: Any) -> Row | None:
        """Return the row of a label, which is to be learned; None if it does not wait."""
        counts, row = self.counts, self.waiting.pop(key, None)
        if row is not None:
            counts["labelled"] += 1
            self.ready.pop(key, None)
            self._remember(self.learned, key, LEARNED)
            return row
        became = self.learned.get(key) or self.lost.get(key)
        if became == LEARNED or key in self.early:
            counts["duplicate"] += 1
        elif became == LOST:
            counts["late"] += 1
        else:
            counts["orphan"] += 1
            self._remember(self.early, key, value)
        return None

    def lose(self, is_over: Callable[[Row], bool]) -> None:
        """Lose the oldest rows for as long as this function says so."""
        while self.waiting:
            key = _oldest(self.waiting)
            if not is_over(self.waiting[key]):
                return
            self._lose(key)

    def _lose(self, key: Any) -> None:
        self.waiting.pop(key, None)
        self.counts["expired"] += 1
        if self.ready.pop(key, None) is not None:
            self.counts["late"] += 1
        self._remember(self.lost, key, LOST)

    def _remember(self, table: OrderedDict[Any, Any], key: Any, value: Any) -> None:
        """Put an entry at the end of a table, and drop the oldest one if there are too many."""
        table[key] = value
        self._forget(table)

    def _forget(self, table: OrderedDict[Any, Any]) -> None:
        while len(table) > self.most:
            table.pop(_oldest(table), None)

    def hold(self, waiting: Any, early: Any, ready: Any, learned: Any, lost: Any) -> None:
        """Take other tables, such as those of a saved state."""
        self.waiting, self.early, self.ready, self.learned, self.lost = waiting, early, ready, learned, lost

    def change(self) -> JoinChange[Row]:
        """Return a change of this joiner, to which rows and labels can be given, and which is applied afterwards."""
        return JoinChange(self)


class JoinChange(LabelJoiner[Row]):
    """What rows and labels change in a joiner, and the counts of it; the same if it is applied once or more often.

    The oldest keys are forgotten at its end, so that what a label is does not depend on those beside it.
    """

    def __init__(self, joiner: LabelJoiner[Row]) -> None:
        super().__init__(joiner.most, most_waiting=joiner.most_waiting, early_at_once=joiner.early_at_once)
        tables = [joiner.waiting, joiner.early, joiner.ready, joiner.learned]
        tables += [joiner.lost] * (joiner.lost is not joiner.learned)
        # Most tables are empty most of the time: their changes are what is put there.
        changes: list[Any] = [TableChange(table) if table else OrderedDict() for table in tables]
        waiting, early, ready, learned = changes[:4]
        self.hold(waiting, early, ready, learned, changes[-1])
        self._changes: list[tuple[Any, Any]] = list(zip(tables, changes, strict=True))

    def lose(self, is_over: Callable[[Row], bool]) -> None:
        """Lose the oldest rows for as long as this function says so."""
        super().lose(is_over)
        super()._forget(self.lost)

    def _forget(self, table: OrderedDict[Any, Any]) -> None:
        """Forget nothing yet."""

    def end(self) -> None:
        """Forget the oldest keys. No row and no label can be given afterwards."""
        for table in (self.learned, self.lost, self.early):
            super()._forget(table)

    def apply(self) -> None:
        """Change the tables of the joiner, but not its counts."""
        for table, change in self._changes:
            if isinstance(change, TableChange):
                for key in change.gone:
                    table.pop(key, None)
            for key, value in change.items():
                table.pop(key, None)
                table[key] = value


def _oldest(table: Any) -> Any:
    return table.oldest if isinstance(table, TableChange) else next(iter(table))
