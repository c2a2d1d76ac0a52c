"""The learning of one call in cells: shares for several threads, and keys that move when they learn a further class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import DenseRows, FloatArray, IntArray
from driftsurf.core.targets import ClassTargets
from driftsurf.keyed.bank import Bank, Banks
from driftsurf.keyed.keys import Threads
from driftsurf.keyed.layout import COMPLETE, Codes, StepLog
from driftsurf.keyed.record import TRANSITION, transitions_of
from driftsurf.keyed.rows import Slots
from driftsurf.native.store import Room

FAILED, OUTGROWN, NOT_GROWN = 1, 2, 4
"""Outcomes that ``KeyLoop.observe`` writes for a key."""


class CallRows(NamedTuple):
    """Rows of a call, as ``KeyLoop.observe`` takes them."""

    rows: DenseRows
    codes: npt.NDArray[Any]
    """Labels as codes, or numbers."""
    weight: FloatArray | None
    bad: Codes | None
    """Codes of reasons why rows cannot be learned."""
    finite: bool
    """Whether all values of rows that can be learned are finite."""
    predicted: npt.NDArray[Any]
    made: Codes | None
    """When each prediction was made."""


class Share(NamedTuple):
    """The groups of one thread, with the memory that it needs."""

    groups: tuple[Any, ...]
    room: Room
    log: StepLog
    lock: Lock
    """Held by one of several threads while the loop runs."""


class BankRows:
    """Rows of some keys of one bank.

    Parameters
    ----------
    bank
        The bank.
    numbers, places
        Numbers of the keys in the call, and their slots in the bank.
    starts, order
        Where the rows of each key start in the order, and where the last ones end; the numbers of the rows.
    batch
        All rows of the call.
    threads
        Threads to use; None for the calling one.
    counted
        Whether gaps are counted, and all time steps are noted.
    """

    def __init__(
        self,
        bank: Bank,
        numbers: IntArray,
        places: IntArray,
        starts: IntArray,
        order: Slots,
        batch: CallRows,
        threads: Threads | None,
        *,
        counted: bool,
    ) -> None:
        n = len(places)
        self.bank: Bank = bank
        self.numbers: IntArray = numbers
        self.places: IntArray = places
        self.starts: IntArray = starts
        self.order: Slots = order
        self.failed: Codes = np.zeros(n, np.uint8)
        self.left: IntArray = np.zeros(n, np.int64)
        self.gaps: IntArray | None = np.zeros(n, np.int64) if counted else None
        self.elsewhere: dict[int, BankRows] = {}
        """Rows of keys that have moved, by group."""
        self.refused: dict[int, BankRows] = {}
        """Rows of keys that could not be moved, by group."""
        steps = bank.blocks.make_room(bank.loop, places, starts)
        count = threads.shares(int(starts[-1] - starts[0])) if threads else 1
        # A thread may outlive its call, so only a single share can use the same memory again.
        self._shares = [
            Share(
                (
                    places[part],
                    starts[part.start : part.stop + 1],
                    order,
                    self.failed[part],
                    self.left[part],
                    None if self.gaps is None else self.gaps[part],
                ),
                bank.room if count == 1 else Room(bank.loop),
                StepLog.of(int(steps[part].sum()), every=counted),
                Lock(),
            )
            for part in _shares(starts, count)
        ]
        self._batch, self._memory, self._loop = batch, bank.blocks.memory, bank.loop
        self._several = len(self._shares) > 1
        self._started = False

    def run(self, threads: Threads | None) -> None:
        """Predict and learn the rows; if this is broken off, calling it again completes it."""
        self._started = self._several
        if self._several and threads:
            threads.map(self._serve_alone, self._shares)
        else:
            self._serve(self._shares[0])

    def _serve_alone(self, share: Share) -> None:
        with share.lock:  # a thread may still run when nobody waits for it any more
            self._serve(share)

    def _serve(self, share: Share) -> None:
        self._loop.observe(self._memory, self._batch, share.groups, share.log, share.room)

    @property
    def begun(self) -> bool:
        """Whether any row may have been learned."""
        return self._started or bool(self._shares[0].log.length[COMPLETE])

    def logs(self) -> Iterator[tuple[IntArray, IntArray, IntArray, FloatArray]]:
        """Yield the numbers of the keys of time steps, and the places, whole and real numbers that the log has."""
        start = 0
        for groups, _, log, _ in self._shares:
            n = int(log.length[0])
            yield self.numbers[start + log.group[:n]], log.place[:n], log.whole[:n], log.real[:n]
            start += len(groups[0])

    def all(self) -> Iterator[BankRows]:
        """Yield this part, and those of its keys elsewhere, in the order of their time steps."""
        yield self
        for part in (*self.elsewhere.values(), *self.refused.values()):
            yield from part.all()


class Logs(NamedTuple):
    """Time steps of a call, by key and within a key in order."""

    number: IntArray
    """Number of the key."""
    row: IntArray
    """The last row of the step."""
    whole: IntArray
    real: FloatArray


class Work:
    """The learning of one call, which allocates nothing that could fail half-way, unless keys learn further classes.

    Exceptions come between lines of Python, never inside the loop over a share, and the loop itself notes in the log of
    the share that it is complete; it does nothing to a share that is. So if an exception breaks the work off,
    ``finish`` completes it.

    Parameters
    ----------
    banks
        The cells.
    slots
        Keys with rows.
    starts, order
        Where the rows of each key start in the order, and where the last ones end; the numbers of the rows.
    batch
        The rows.
    threads
        Threads to use; None for the calling one.
    targets_of
        Returns the classes of a key at the end of the call, by its number and one of its rows; None if they are named.
    counted
        Whether gaps are counted, and all time steps are noted.
    """

    def __init__(
        self,
        banks: Banks,
        slots: IntArray,
        starts: IntArray,
        order: Slots,
        batch: CallRows,
        threads: Threads | None,
        targets_of: Callable[[int, int], ClassTargets] | None,
        *,
        counted: bool = False,
    ) -> None:
        self.slots: IntArray = slots
        self.batch: CallRows = batch
        self._banks, self._threads = banks, threads
        self.targets_of: Callable[[int, int], ClassTargets] | None = targets_of
        self._counted = counted
        self._parts = [
            BankRows(bank, chosen, places, *_rows_of(starts, order, chosen), batch, threads, counted=counted)
            for bank, chosen, places in banks.by_bank(slots)
        ]
        self._done: set[tuple[int, int]] = set()
        """Keys that have moved, or could not be moved, by part and group."""
        self._transitions: npt.NDArray[Any] | None = None
        self.rows: Slots = np.zeros(0, np.int32)
        self.sets: IntArray = np.zeros(0, np.int64)
        """The slot of each row, and the set of the classes of its key after the call, if each learns its own."""

    def carry_out(self) -> None:
        """Learn the rows, on several threads if there are several shares."""
        for part in self._parts:
            part.run(self._threads)
        for part in self._parts:
            self._move_all(part)

    def finish(self) -> bool:
        """Complete work that an exception broke off; return False, and do nothing, if no row was learned yet.

        If this is broken off, calling it again completes it.
        """
        if any(part.begun for part in self._parts):
            self.carry_out()
            return True
        return False

    def _move_all(self, part: BankRows) -> None:
        """Move the keys whose time step has more classes than there is room for, and go on with their rows there."""
        for group in np.flatnonzero(part.failed & OUTGROWN).tolist():
            if (id(part), group) not in self._done:
                self._move(part, group)
                self._done.add((id(part), group))
            if group in part.elsewhere:
                self._move_all(part.elsewhere[group])

    def _move(self, part: BankRows, group: int) -> None:
        """Move a key, unless its time step fails; if this is broken off, calling it again completes it."""
        banks, place, number = self._banks, int(part.places[group]), int(part.numbers[group])
        stop = int(part.starts[group + 1])
        if group not in part.elsewhere:
            assert self.targets_of is not None
            waiting = part.bank.waiting(place)[1]
            bank = banks.of(int(waiting.max()) + 1)
            if bank is None:
                part.failed[group] |= FAILED
                return
            taken = bank.take_slots(1)
            try:
                bank.take_over(int(taken[0]), part.bank, place, self.targets_of(number, int(part.order[stop - 1])))
                part.elsewhere[group] = self._rest(part, group, bank, taken, stop - int(part.left[group]), stop)
            except BaseException:
                bank.give_up(taken.tolist())
                raise
        moved = part.elsewhere[group]
        moved.run(self._threads)
        if moved.failed[0] & NOT_GROWN:
            if group not in part.refused:
                start = stop - int(part.left[group]) - int(part.bank.blocks.keys["newest"][place])
                part.refused[group] = self._rest(part, group, part.bank, part.places[group : group + 1], start, stop)
            part.refused[group].run(self._threads)
            moved.bank.give_up(moved.places.tolist())
            return
        banks.locate(int(self.slots[number]), moved.bank, int(moved.places[0]))
        if part.bank is banks.base:
            part.bank.begin(part.places[group : group + 1], part.bank.blocks.counts["seed"][[place]])
        else:
            part.bank.give_up([place])

    def _rest(self, part: BankRows, group: int, bank: Bank, places: IntArray, start: int, stop: int) -> BankRows:
        """Return the rows of one key from one place in the order to another."""
        bounds, numbers = np.array([start, stop]), part.numbers[group : group + 1]
        return BankRows(bank, numbers, places, bounds, part.order, self.batch, self._threads, counted=self._counted)

    # -------------------------------------------------------------------- the result

    def all(self) -> Iterator[BankRows]:
        """Yield all parts."""
        for part in self._parts:
            yield from part.all()

    @property
    def failed(self) -> npt.NDArray[np.bool_]:
        """Which keys have a time step that failed, or could not be served."""
        failed = np.zeros(len(self.slots), np.bool_)
        for part in self.all():
            failed[part.numbers[part.failed & FAILED > 0]] = True
        return failed

    @property
    def gaps(self) -> IntArray:
        """How many cells of each key have no value."""
        gaps = np.zeros(len(self.slots), np.int64)
        for part in self.all():
            if part.gaps is not None:
                np.add.at(gaps, part.numbers, part.gaps)
        return gaps

    def logs(self) -> Logs:
        """Return all time steps, if they are noted."""
        logs = [(numbers, part.order[at], *rest) for part in self.all() for numbers, at, *rest in part.logs()]
        joined = [np.concatenate(columns) for columns in zip(*logs, strict=True)]
        by_key = np.argsort(joined[0], kind="stable")
        return Logs(*(column[by_key] for column in joined))

    @property
    def transition_entries(self) -> npt.NDArray[Any]:
        """The transitions of the completed work, the same object each time."""
        if self._transitions is None:
            logs = [log for part in self.all() for log in part.logs() if len(log[0])]
            made = [transitions_of(self.slots[numbers], at, whole, real) for numbers, at, whole, real in logs]
            found = np.concatenate(made) if made else np.empty(0, TRANSITION)
            self._transitions = found[np.argsort(found["slot"], kind="stable")]
        return self._transitions


def _rows_of(starts: IntArray, order: Slots, chosen: IntArray) -> tuple[IntArray, Slots]:
    """Return the rows of some keys, in rising order, like those of all."""
    if len(chosen) == len(starts) - 1:
        return starts, order
    sizes = np.diff(starts)[chosen]
    ends = np.append(0, np.cumsum(sizes))
    inside = np.arange(ends[-1]) + np.repeat(starts[:-1][chosen] - ends[:-1], sizes)
    return ends, order[inside]


def _shares(starts: IntArray, count: int) -> Iterator[slice]:
    """Yield up to ``count`` ranges of groups with about the same number of rows each."""
    ends = (
        np.unique(np.searchsorted(starts, np.linspace(starts[0], starts[-1], count + 1)[1:])).tolist()
        if count > 1
        else []
    )
    begin = 0
    for end in ends or [len(starts) - 1]:
        yield slice(begin, end)
        begin = end
