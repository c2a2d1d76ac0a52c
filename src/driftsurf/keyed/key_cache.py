"""Serves the rows of many keys, with the results of a visit to each, and keeps their models open.

Most keys are served in cells, in one call. What a cell cannot do, such as a bad value or rows out of order, is left to
``KeyedLearner.visit``, which starts from the saved bytes of the key. Both save the same bytes, and so results do not
depend on which of them served a key.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, cast

import numpy as np
import numpy.typing as npt

from driftsurf.core.changes import ChangeLock
from driftsurf.core.contracts import IntArray, State
from driftsurf.core.journal import json_lines
from driftsurf.core.numeric import MASK
from driftsurf.core.state import to_bytes
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.errors import ShapeError
from driftsurf.keyed.bank import Banks, cell_models, is_growing
from driftsurf.keyed.keys import key_seed
from driftsurf.keyed.labels import LONGEST_LABEL, Labels
from driftsurf.keyed.layout import TWO, UNLABELLED, Bytes, Codes, KeyShape
from driftsurf.keyed.record import RecordWriter
from driftsurf.keyed.results import NEVER, NEW, KeySummary, Results, ServedPart, Steps, Summaries, next_state
from driftsurf.keyed.rows import ColumnMeans, RowsByKey
from driftsurf.keyed.serving import BESIDE_ARRAYS, ESCAPED
from driftsurf.keyed.work import CallRows, Work
from driftsurf.session.session import Session
from driftsurf.strategies._cell_arrays import REACTIVE_STEP

if TYPE_CHECKING:
    from driftsurf.keyed.visit import KeyedLearner


def is_small(template: Session, shape: KeyShape, max_bytes: int) -> bool:
    """Return whether no key of this shape can have a saved state of more than ``max_bytes``."""
    strategy, columns = cast("Any", template.strategy), shape.n_features
    models = cell_models(strategy, columns, shape.classes)
    # As many places as a session may allocate, each with a row, a label, a weight and the gradients of two models.
    largest = models.nbytes + 4 * shape.places * (columns * 8 + 16 + 16 * shape.outputs)
    names = max(TWO, shape.outputs) * ESCAPED * LONGEST_LABEL
    return bool(BESIDE_ARRAYS + 2 * largest + names <= max_bytes)


NOT_SAVED = "bytes", "expired"
"""Fields of a summary that follow from the state."""


def about_key(digest: str, summary: KeySummary) -> State:
    """Return the saved entries of a key beside its model."""
    own = {name: value for name, value in vars(summary).items() if name not in NOT_SAVED}
    return {"keyed": digest, "summary": json.dumps(own)}


class SavedCell(NamedTuple):
    """A saved model that is a cell."""

    data: Bytes
    labels: tuple[Any, ...]
    """The classes of a key that learns its own; nothing for others."""
    classes: int
    """The number of classes of the model; 0 for the usual one."""

    def entries(self) -> State:
        """Return the saved entries."""
        state: State = {"cell": self.data, "classes": json.dumps(self.labels)}
        return state if len(self.labels) <= TWO or self.classes <= TWO else state | {"n_classes": self.classes}


class KeyCells:
    """A cell per key, each of which is read and saved on its own; slots of keys that are given up are used again.

    Parameters
    ----------
    template
        What a key starts with, for which ``suits_cells`` is true.
    n_features
        Columns of every row.
    fills
        Whether gaps are filled with the means of their key.
    max_bytes
        Largest size of a saved state; a key that might exceed it cannot be held.
    """

    def __init__(self, template: Session, n_features: int, *, fills: bool, max_bytes: int) -> None:
        self._targets = template.targets
        self.growing: bool = is_growing(template)
        self.banks: Banks = Banks(
            template, n_features, fills=fills, fits=lambda shape: is_small(template, shape, max_bytes)
        )
        self.labels: Labels = Labels(self._targets)
        self._turns = ChangeLock()

    def _targets_of(self, slot: int) -> ClassTargets | RegressionTargets:
        return self.labels.targets_of(slot) if self.growing else self._targets

    def take_slots(self, count: int) -> IntArray:
        """Return so many free slots, after making more if there are too few."""
        slots = self.banks.base.take_slots(count)
        self.banks.reserve(self.banks.base.count)
        self.labels.grow(self.banks.base.count)
        return slots

    def give_up(self, slots: Sequence[int]) -> None:
        """Free slots and the memory for their rows."""
        self.banks.move_back(np.array(slots, np.int64))
        self.banks.base.give_up(slots)

    @contextlib.contextmanager
    def one_slot(self) -> Iterator[tuple[Self, int]]:
        """Context with the only slot in use, which is given up at its end; threads take turns."""
        with self._turns:
            self.labels = Labels(self._targets)  # what fits into a cell must not depend on the keys before
            self.labels.grow(self.banks.base.count)
            (slot,) = self.take_slots(1).tolist()
            try:
                yield self, slot
            finally:
                self.give_up([slot])

    # -------------------------------------------------------------------- saved bytes

    def saved(self, slots: IntArray) -> list[SavedCell]:
        """Return the bytes of keys, with their labels."""
        made: list[Any] = [None] * len(slots)
        for bank, chosen, places in self.banks.by_bank(slots):
            for number, cell in zip(chosen.tolist(), bank.saved(places), strict=True):
                labels = self._targets_of(int(slots[number])).labels if self.growing else ()
                made[number] = SavedCell(np.frombuffer(cell, np.uint8), labels, bank.shape.classes)
        return made

    def sizes(self, slots: IntArray) -> IntArray:
        """Return how many bytes ``saved`` gives for each key."""
        sizes = np.zeros(len(slots), np.int64)
        for bank, chosen, places in self.banks.by_bank(slots):
            sizes[chosen] = bank.sizes(places)
        return sizes

    def load(self, slots: IntArray, cells: Sequence[SavedCell], seeds: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Read keys that ``saved`` gave into free slots; return for each whether its classes can be used here.

        StateError for bytes that are not such cells.
        """
        self.labels.begin(slots)
        good = np.ones(len(slots), np.bool_)
        classes = np.array([cell.classes or self.banks.base.shape.classes for cell in cells])
        for n in np.unique(classes).tolist():
            (chosen,) = np.nonzero(classes == n)
            own, bank = [cells[number] for number in chosen.tolist()], self.banks.of(n)
            if bank is None:
                good[chosen] = False
                continue
            places = slots[chosen] if bank is self.banks.base else bank.take_slots(len(chosen))
            bank.load(places, [cell.data for cell in own], [len(cell.labels) for cell in own], seeds[chosen])
            if bank is not self.banks.base:
                self.banks.base.begin(slots[chosen], seeds[chosen])
                for slot, place in zip(slots[chosen].tolist(), places.tolist(), strict=True):
                    self.banks.locate(slot, bank, place)
        if self.growing:
            for number, (slot, cell) in enumerate(zip(slots.tolist(), cells, strict=True)):
                good[number] = good[number] and self.labels.put(slot, cell.labels)
                bank, place = self.banks.find(slot)
                if good[number]:
                    bank.name_classes(place, self.labels.targets_of(slot))
        return good

    def session_state(self, slot: int) -> tuple[State | None, ColumnMeans | None]:
        """Return the state of a session that continues with the models of a key, and the means that fill gaps.

        Without rows there is no such state.
        """
        bank, place = self.banks.find(slot)
        begun = bank.blocks.counts[place]["next"] + bank.blocks.keys[place]["pending"] > 0
        return bank.session_state(place, self._targets_of(slot)) if begun else None, bank.means(place)

    def put(self, slot: int, session: Session, means: ColumnMeans | None) -> bool:
        """Copy the models of a session, its rows that wait, and the means of columns to a free slot.

        Returns whether they fit.
        """
        targets, strategy = session.targets, cast("Any", session.strategy)
        started = session.schema is not None
        if self.growing and started and not session.steps and strategy._pool.n_classes > TWO:
            return False  # it began with more classes
        bank = self.banks.of(strategy._pool.n_classes) if started and self.growing else self.banks.base
        if bank is None or (started and not self._fit(slot, targets)):
            return False
        place = slot if bank is self.banks.base else int(bank.take_slots(1)[0])
        if bank is not self.banks.base:
            self.banks.locate(slot, bank, place)
        if not bank.put(place, session, means):
            return False
        if isinstance(targets, ClassTargets):
            keys = bank.blocks.keys[place]
            keys["known"], keys["learned"] = len(targets.labels), session.n_classes_learned
            bank.name_classes(place, targets)
        return True

    def _fit(self, slot: int, targets: ClassTargets | RegressionTargets) -> bool:
        """Return whether the classes of a session fit those of a slot."""
        if self.growing:
            return self.labels.put(slot, targets.labels)
        return targets == self._targets or isinstance(targets, RegressionTargets)


LEAST_OPEN = 64
"""Fewest keys for which there is room."""


class Call(NamedTuple):
    """Rows of some keys, key by key, and what came of them."""

    order: IntArray
    """Places of the rows."""
    slots: IntArray
    starts: IntArray
    """Where the rows of each key start in ``order``, and where the last ones end."""
    codes: npt.NDArray[Any]
    """Labels as codes, or numbers, in this order like what follows."""
    predicted: npt.NDArray[Any]
    """Codes, or numbers."""
    made: Codes
    """When each was made: 1 after a time step, plus 2 after a first row with a label."""
    labelled: npt.NDArray[np.bool_]
    gaps: IntArray
    """Cells of each key without a value."""
    failed: npt.NDArray[np.bool_]
    """Keys that have to be served in another way. Their cells are of no use any more."""


class OpenCells(KeyCells):
    """Cells of keys that are open, and the names, summaries and labels of these keys.

    Parameters
    ----------
    learner
        How every key is learned.
    most_bytes
        Memory of the cells, roughly.
    """

    def __init__(self, learner: KeyedLearner, most_bytes: int) -> None:
        assert learner.batch_size is not None
        fills, largest = learner.on_gap == "fill", learner.max_bytes
        super().__init__(learner.session(0), len(learner.features), fills=fills, max_bytes=largest)
        self._learner = learner
        self._most_bytes = most_bytes
        self._lines = RecordWriter(self.banks.base.models, learner.batch_size)
        self._slots: dict[Any, int] = {}
        self._random = random.Random(0)  # results do not depend on which keys are open
        self._summaries = Summaries()
        self.most: int = max(LEAST_OPEN, most_bytes // self.banks.base.shape.most_bytes)
        """Keys that can be open at the same time, whatever number of rows they have."""

    # -------------------------------------------------------------------- opening and closing

    def close(self, keys: Iterable[Any]) -> None:
        """Give up the slots of keys."""
        self.give_up([self._slots.pop(key) for key in keys if key in self._slots])

    def __contains__(self, key: Any) -> bool:
        return key in self._slots

    def slots_of(self, keys: Iterable[Any]) -> IntArray:
        """Return the slot of each key, -1 for a key that is not open."""
        get = self._slots.get
        return np.array([get(key, -1) for key in keys], np.int64)

    def make_room(self, states: Collection[bytes | None], wanted: Collection[Any]) -> None:
        """Close keys that are not wanted, if there is not enough memory to open keys with these saved bytes.

        They are drawn at random. When keys come in turn, those that were opened first would be the next ones to come.
        """
        block, count = self.banks.base.shape.block_bytes, len(self._slots)
        used = sum(bank.used for bank in self.banks.all)
        missing = used + sum(block + len(state or b"") for state in states) - self._most_bytes
        if missing > 0 and count:
            others = [key for key in self._slots if key not in wanted]
            surplus = min(-(-missing * count // used), count + len(states) - LEAST_OPEN, len(others))
            self.close(self._random.sample(others, max(0, surplus)))

    def open(self, keys: Sequence[Any], states: Sequence[bytes | None]) -> None:
        """Open keys with their saved bytes, as far as they can be served here."""
        fresh = [key for key, state in zip(keys, states, strict=True) if not state]
        saved = [(key, self._learner.cell(key, state)) for key, state in zip(keys, states, strict=True) if state]
        found = [(key, *own) for key, own in saved if own is not None]
        slots = self.take_slots(len(fresh))
        self._summaries.put(slots, NEW)
        self.labels.begin(slots)
        self.banks.base.begin(slots, self._seeds(fresh))
        self._slots.update(zip(fresh, slots.tolist(), strict=True))
        if found:
            self._open_saved(found)

    def _open_saved(self, found: list[tuple[Any, KeySummary, SavedCell]]) -> None:
        names, summaries, cells = zip(*found, strict=True)
        slots = self.take_slots(len(names))
        good = self.load(slots, cells, self._seeds(names))
        for slot, summary in zip(slots.tolist(), summaries, strict=True):
            self._summaries.put(slot, summary)
        self.give_up(slots[~good].tolist())
        self._slots.update((names[k], int(slots[k])) for k in np.flatnonzero(good).tolist())

    def _seeds(self, keys: Sequence[Any]) -> npt.NDArray[np.uint64]:
        return np.array([key_seed(self._learner.seed, key) & MASK for key in keys], np.uint64)

    def take_slots(self, count: int) -> IntArray:
        """Return so many free slots, after making more if there are too few."""
        slots = super().take_slots(count)
        self._summaries.grow(self.banks.base.count)
        return slots

    # -------------------------------------------------------------------- serving

    def serve(self, rows: RowsByKey, keys: IntArray, slots: IntArray) -> ServedPart:
        """Serve the rows of keys that are open; ``keys`` are their numbers in ``rows``.

        Keys whose rows cannot be served here stay as they are, or are closed if they are new; keys that fail are
        closed. All of them are left out of the result.
        """
        order, starts = rows.places_of(keys)
        codes, readable = self.labels.codes(rows, order, starts, slots)
        high = self._summaries["high_water"][slots]
        good = readable & rows.are_new(keys, high)
        if self.growing:  # a session begins with the classes of its first rows
            good &= (self.labels.counts(slots)["total"] <= TWO) | (
                self.banks.read("next", slots) + self.banks.read("pending", slots) > 0
            )
        if not good.all():
            self.close([rows.names[number] for number in keys[~good & (high == NEVER)].tolist()])
            keys, slots, codes = keys[good], slots[good], codes[np.repeat(good, np.diff(starts))]
            order, starts = rows.places_of(keys)
        return self._part(rows, keys, *self._observed(rows, order, starts, slots, codes))

    def _observed(
        self, rows: RowsByKey, order: IntArray, starts: IntArray, slots: IntArray, codes: npt.NDArray[Any]
    ) -> tuple[Call, Steps]:
        """Predict and learn rows; return what came of them."""
        n, kind = len(rows.sequence), self.banks.base.shape.label_type
        by_place = np.zeros(n, kind)
        by_place[order] = codes
        bare = rows.codes < 0
        bad, X = bare * UNLABELLED if bare.any() else None, np.ascontiguousarray(rows.X, np.float64)
        batch = CallRows(X, by_place, None, bad, False, np.empty(n, kind), np.empty(n, np.uint8))
        if self.growing:
            for name, values in self.labels.counts(slots).items():
                self.banks.write(name, slots, values)

        def targets_of(number: int, _: int) -> ClassTargets:
            return self.labels.targets_of(int(slots[number]))

        work = Work(self.banks, slots, starts, order.astype(np.int32), batch, None, targets_of, counted=True)
        work.carry_out()
        assert batch.made is not None
        found = batch.predicted[order], batch.made[order], ~bare[order], work.gaps, work.failed
        return Call(order, slots, starts, codes, *found), self._steps(work, rows.sequence)

    def _part(self, rows: RowsByKey, keys: IntArray, work: Call, steps: Steps) -> ServedPart:
        """Return what the rows led to, and keep the summaries; keys that failed are closed and left out."""
        summaries = self._summaries
        if work.failed.any():
            keys, work, steps = self._without_failed(rows, keys, work, steps)
        predicted, wrong, scored = self.labels.predicted(work)
        slots = work.slots
        counts = {"rows": np.diff(work.starts), "scored": scored, "errors": wrong, "gaps": work.gaps}
        deviation = self.labels.deviation(work, summaries["deviation"][slots])
        summaries.add(slots, counts, rows.sequence[work.order[work.starts[1:] - 1]], deviation)
        summaries.add_steps(slots.tolist(), steps)
        summaries["bytes"][slots] = self.sizes(slots)
        return ServedPart(rows, keys, work.order, work.starts, predicted, steps, summaries.columns(slots))

    def _without_failed(
        self, rows: RowsByKey, keys: IntArray, work: Call, steps: Steps
    ) -> tuple[IntArray, Call, Steps]:
        """Close the keys that failed, and return the others with their rows and time steps."""
        failed = work.failed
        self.close([rows.names[number] for number in keys[failed].tolist()])
        inside = ~np.repeat(failed, np.diff(work.starts))
        order, starts = rows.places_of(keys[~failed])
        place = (np.cumsum(~failed) - 1).tolist()
        chosen = [one for one, group in enumerate(steps.group) if not failed[group]]
        lists: list[list[Any]] = [[own[one] for one in chosen] for own in steps]
        lists[0] = [place[group] for group in lists[0]]
        work = work._replace(
            order=order,
            starts=starts,
            **{name: getattr(work, name)[inside] for name in ("codes", "predicted", "made", "labelled")},
            **{name: getattr(work, name)[~failed] for name in ("slots", "gaps", "failed")},
        )
        return keys[~failed], work, Steps(*lists)

    def states(self, keys: Iterable[Any]) -> list[bytes]:
        """Return the bytes in which open keys are saved, as they are now."""
        slots, digest = np.array([self._slots[key] for key in keys], np.int64), self._learner.options_digest
        return [
            to_bytes(about_key(digest, self._summaries.get(slot)) | cell.entries())
            for slot, cell in zip(slots.tolist(), self.saved(slots), strict=True)
        ]

    def _steps(self, work: Work, sequence: IntArray) -> Steps:
        """Return the time steps of a call, key by key."""
        logs = work.logs()
        made, slots = np.bincount(logs.number, minlength=len(work.slots)), work.slots.tolist()
        next_of = (self.banks.read("step", work.slots) - made).tolist()
        groups, whole, real = logs.number.tolist(), logs.whole.tolist(), logs.real.tolist()
        steps = Steps(groups, sequence[logs.row].tolist(), [], [], [])
        if groups:
            self._lines.check(whole[0], real[0], next_of[groups[0]])
        for group, numbers, risks in zip(groups, whole, real, strict=True):
            line = self._lines.line(numbers, risks, next_of[group])
            if line is None:
                decision = self._lines.decision(numbers, risks, next_of[group])
                decision = decision.named(self._named(slots[group]))
                steps.records.append("".join(json_lines([decision])))
                steps.kinds.append(",".join(one.kind for one in decision.transitions))
                steps.states.append(next_state(decision))
            else:
                steps.records.append(line)
                steps.kinds.append("")
                steps.states.append("reactive" if numbers[REACTIVE_STEP] else "stable")
            next_of[group] += 1
        return steps

    def _named(self, slot: int) -> list[Any]:
        """Return the labels of a slot by code; None where there is none."""
        return [*self.labels.targets_of(slot).labels, None, None]


# ---------------------------------------------------------------------------- the cache

MOST_BYTES = 2**28
"""Memory for the cells of keys that are kept open, roughly."""
UNBOUNDED = 2**62


class SavedKeys(Protocol):
    """Saved states of keys: the bytes of each key, and the rows that came after these bytes were written."""

    def get(self, key: Any) -> bytes | None:
        """Return the saved bytes of a key, or None."""
        ...

    def tails(self, keys: Collection[Any]) -> Iterator[RowsByKey]:
        """Yield the rows of keys that came after their saved bytes, in the order in which they came."""
        ...


class KeyCache:
    """Serves the rows of many keys in one call, and keeps their models open.

    Parameters
    ----------
    learner
        How every key is learned. If cells do not suit its options, every key is visited on its own.
    most_bytes
        Memory for keys that are kept open, roughly.
    """

    def __init__(self, learner: KeyedLearner, most_bytes: int = MOST_BYTES) -> None:
        self._learner = learner
        self._most_bytes = most_bytes
        self._cells: OpenCells | None = None
        self._suits = learner.suits_cells

    @contextlib.contextmanager
    def _used_cells(self) -> Iterator[OpenCells]:
        """Context with the cells; after an exception they are of no use, and saved bytes are read again."""
        cells = self._cells or OpenCells(self._learner, self._most_bytes)
        self._cells = None
        yield cells
        self._cells = cells

    def serve(self, rows: RowsByKey, states: SavedKeys) -> Results:
        """Predict and learn the rows of some keys; the results are those of a visit to each.

        Saved bytes are not read for keys that are open: nobody else may change them as long as this cache is in use.
        """
        self._check_columns(rows)
        parts = self._serve_in_cells(rows, states) if self._suits else []
        served = np.zeros(len(rows), np.bool_)
        for part in parts:
            served[part.keys] = True
        left = [rows.names[number] for number in np.flatnonzero(~served).tolist()]
        before = self.states(left, states)
        self.forget(left)
        return Results({key: self._learner.visit(key, before[key], rows[key]) for key in left}, parts)

    def states(
        self, keys: Collection[Any], states: SavedKeys, served: Collection[ServedPart] = ()
    ) -> dict[Any, bytes | None]:
        """Return the bytes of keys with all rows that they have had, None for new keys.

        ``served`` are results whose rows are not in ``states`` yet.
        """
        found: dict[Any, bytes | None] = {}
        if self._cells is not None:
            own = [key for key in keys if key in self._cells]
            found.update(zip(own, self._cells.states(own), strict=True))
        left = [key for key in keys if key not in found]
        return found | self._replayed(left, states, served)

    def _replayed(
        self, keys: Collection[Any], states: SavedKeys, served: Collection[ServedPart]
    ) -> dict[Any, bytes | None]:
        """Return the bytes of keys that are not open, in visits."""
        found = {key: states.get(key) for key in keys}
        lenient = replace(self._learner, max_bytes=UNBOUNDED, readmit={})  # these rows were taken before
        own_rows = (part.rows.only(found.keys() & set(part.names)) for part in served)
        for tail in itertools.chain(states.tails(keys), own_rows):
            for key, own in tail.items():
                found[key] = lenient.visit(key, found[key], own).state
        return found

    def open(self, keys: Collection[Any], states: SavedKeys) -> None:
        """Open keys that have rows after their saved bytes, as far as they can be served in cells and have room."""
        left = [key for key in keys if self._cells is None or key not in self._cells]
        if self._suits and any(len(tail.order) for tail in states.tails(left)):
            with self._used_cells() as cells:
                self._open_again(set(left[: cells.most]), states, cells)

    def follow(self, rows: RowsByKey) -> None:
        """Learn rows that another cache has taken, with those of their keys that are open; all others stay closed."""
        self._check_columns(rows)
        with self._used_cells() as cells:
            parts, _ = _serve_open(rows, cells, np.arange(len(rows)))
            cells.close(set(rows).difference(*(part.names for part in parts)))

    def forget(self, keys: Collection[Any]) -> None:
        """Close keys, whose saved bytes are read again when they come back."""
        if self._cells is not None:
            self._cells.close(keys)

    def _check_columns(self, rows: RowsByKey) -> None:
        """Raise ShapeError unless there is a column for each feature: the native loop relies on it."""
        columns = len(self._learner.features)
        if len(rows) and rows.X.shape[1:] != (columns,):
            raise ShapeError(f"the rows have shape {rows.X.shape}; there are {columns} features")

    def _serve_in_cells(self, rows: RowsByKey, states: SavedKeys) -> list[ServedPart]:
        """Serve keys in cells as far as that is possible: first those that are open, then the others."""
        with self._used_cells() as cells:
            parts, left = _serve_open(rows, cells, np.arange(len(rows)))
            for start in range(0, len(left), cells.most):
                chosen = left[start : start + cells.most]
                wanted = {rows.names[number] for number in chosen.tolist()}
                saved = self._open_again(wanted, states, cells)
                parts += _serve_all(rows, cells, chosen, saved, wanted)
        return parts

    def _open_again(self, wanted: set[Any], states: SavedKeys, cells: OpenCells) -> dict[Any, bytes | None]:
        """Return the saved bytes of keys; those that had rows after these are opened, and learn them again."""
        closed = {key for key in wanted if key not in cells}
        saved = {key: states.get(key) for key in closed}
        for tail in states.tails(closed):
            self._check_columns(tail)
            again = tail.only(saved.keys())
            parts = _serve_all(again, cells, np.arange(len(again)), saved, wanted)
            left = set(again).difference(*(part.names for part in parts))  # left to visits
            cells.close(left)
            saved = {key: state for key, state in saved.items() if key not in left}
        return saved


def _serve_all(
    rows: RowsByKey, cells: OpenCells, chosen: IntArray, saved: dict[Any, bytes | None], wanted: Collection[Any]
) -> list[ServedPart]:
    """Serve keys that are open, and those that are saved, for which keys that are not wanted make room."""
    parts, left = _serve_open(rows, cells, chosen)
    closed = [name for number in left.tolist() if (name := rows.names[number]) in saved]
    states = [saved[key] for key in closed]
    cells.make_room(states, wanted)
    cells.open(closed, states)
    return parts + _serve_open(rows, cells, left)[0]


def _serve_open(rows: RowsByKey, cells: OpenCells, chosen: IntArray) -> tuple[list[ServedPart], IntArray]:
    """Serve keys that are open; return what came of it, and the numbers of the other keys."""
    slots = cells.slots_of(rows.names[number] for number in chosen.tolist())
    is_open = slots >= 0
    parts = [cells.serve(rows, chosen[is_open], slots[is_open])] if is_open.any() else []
    return parts, chosen[~is_open]
