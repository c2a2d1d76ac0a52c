"""Cells of single keys, read from saved bytes or taken from sessions; those of open keys, served by one native call."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from driftsurf.core.changes import ChangeLock
from driftsurf.core.contracts import IntArray, Segment, State
from driftsurf.core.fields import misfit
from driftsurf.core.journal import json_lines
from driftsurf.core.numeric import MASK
from driftsurf.core.state import pick, to_bytes
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.keyed.cell_store import CellStore, cell_models, key_shape
from driftsurf.keyed.keys import ONE_THREAD, key_seed
from driftsurf.keyed.labels import LONGEST_LABEL, TWO, Labels
from driftsurf.keyed.layout import UNLABELLED, Blocks, Bytes, Codes, StepLog
from driftsurf.keyed.record import RecordWriter
from driftsurf.keyed.results import NEVER, NEW, KeySummary, ServedPart, Steps, Summaries, next_state
from driftsurf.keyed.rows import ColumnMeans, RowsByKey
from driftsurf.keyed.saved import GUARD_ROWS, CellBytes, blocks_state, element_counts, guards_state
from driftsurf.keyed.serving import BESIDE_ARRAYS, ESCAPED
from driftsurf.session.session import Session
from driftsurf.strategies._cell_arrays import CREDIT, REACTIVE_STEP
from driftsurf.strategies._cell_models import CellModels
from driftsurf.strategies.cell import fits_cell
from driftsurf.strategies.driftsurf_state import Contest

if TYPE_CHECKING:
    from driftsurf.keyed.visit import KeyedLearner

SMALL = "bounds", "w", "G", "factor", "gain", "centre", "raw", "centred"
"""Arrays of a cell that are copied as they are."""
LEAST_SLOTS = 64


def is_small(template: Session, columns: int, max_bytes: int) -> bool:
    """Return whether no key that starts with this session can have a saved state of more than ``max_bytes``."""
    strategy: Any = template.strategy
    shape = key_shape(template, columns)
    models = cell_models(strategy, columns, template.targets.n_classes)
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


def cell_entries(cell: bytes, classes: tuple[Any, ...]) -> State:
    """Return the saved entries of a model that is a cell."""
    return {"cell": np.frombuffer(cell, np.uint8), "classes": json.dumps(classes)}


class KeyCells(CellStore):
    """A cell per key, each of which is read and saved on its own; slots of keys that are given up are used again.

    Parameters
    ----------
    template
        What a key starts with, for which ``suits_cells`` is true.
    n_features
        Columns of every row.
    fills
        Whether gaps are filled with the means of their key.
    """

    def __init__(self, template: Session, n_features: int, *, fills: bool) -> None:
        targets = template.targets
        self.growing: bool = isinstance(targets, ClassTargets) and not targets.closed
        super().__init__(template, n_features, ONE_THREAD, tolerant=True, fills=fills)
        self.labels: Labels = Labels(targets)
        self._free: list[int] = []
        self._turns = ChangeLock()
        self._unused = Contest().numbers[self._strategy._contest :]
        self._bytes = CellBytes(self._state_of(np.zeros(0, np.int64)))

    def _state_of(self, slots: IntArray) -> State:
        state = blocks_state(self._blocks, slots, scaled=self._models._training.scaled, by_role=True)
        if self._shape.judged:  # the fields of a contest that no step uses are not saved with a session either
            np.asarray(state["judged"])[:, CREDIT - len(self._unused) : CREDIT] = self._unused
        if self._guard is not None:
            state |= guards_state(self._blocks, slots)
        return state | {"learned": self._blocks.keys["learned"][slots]} if self.growing else state

    def _targets_of(self, slot: int) -> ClassTargets | RegressionTargets:
        return self.labels.targets_of(slot) if self.growing else super()._targets_of(slot)

    def take_slots(self, count: int) -> IntArray:
        """Return so many free slots, after making more if there are too few."""
        missing, have = count - len(self._free), self._n_keys
        if missing > 0:
            total = max(have + missing, 2 * have, LEAST_SLOTS)
            self._use(self._blocks.grown(total, have))
            self.labels.grow(total)
            self._n_keys = total
            self._free += range(total - 1, have - 1, -1)
        return np.array([self._free.pop() for _ in range(count)], np.int64)

    def give_up(self, slots: Sequence[int]) -> None:
        """Free slots and the memory for their rows."""
        self._blocks.clear(list(slots))
        self._free += slots

    @contextlib.contextmanager
    def one_slot(self) -> Iterator[tuple[Self, IntArray]]:
        """Context with the only slot in use, which is given up at its end; threads take turns."""
        with self._turns:
            if self.labels.is_full:  # what fits into a cell must not depend on the keys before
                self.labels = Labels(self._targets)
                self.labels.grow(self._n_keys)
            slots = self.take_slots(1)
            try:
                yield self, slots
            finally:
                self.give_up(slots.tolist())

    def begin(self, slots: IntArray, seeds: npt.NDArray[np.uint64]) -> None:
        """Make the first models of new keys."""
        self.labels.begin(slots)
        self._begin(slots, seeds)

    # -------------------------------------------------------------------- saved bytes

    def saved(self, slots: IntArray) -> list[bytes]:
        """Return the bytes of keys, without their labels."""
        return self._bytes.write(self._state_of(slots), element_counts(self._blocks, slots), self._shape.outputs)

    def sizes(self, slots: IntArray) -> IntArray:
        """Return how many bytes ``saved`` gives for each key."""
        return self._bytes.sizes(element_counts(self._blocks, slots), self._shape.outputs)

    def labels_of(self, slot: int) -> tuple[Any, ...]:
        """Return the classes of a key that learns its own; nothing for others."""
        return self.labels.targets_of(slot).labels if self.growing else ()

    def load(
        self,
        slots: IntArray,
        cells: Sequence[Bytes],
        labels: Sequence[tuple[Any, ...]],
        seeds: npt.NDArray[np.uint64],
    ) -> npt.NDArray[np.bool_]:
        """Read keys that ``saved`` gave into free slots; return for each whether its classes can be used here.

        StateError for bytes that are not such cells.
        """
        self.labels.begin(slots)
        state = self._bytes.read(cells, self._shape.outputs)
        learned = state.pop("learned", None)
        blocks, good = self._loaded(state, seeds), np.ones(len(slots), np.bool_)
        if learned is not None:
            good = np.array([self.labels.put(*pair) for pair in zip(slots.tolist(), labels, strict=True)], np.bool_)
            known = np.array([len(own) for own in labels])
            if not (learned <= known).all() or not (blocks_most(blocks) < np.maximum(known, 1)).all():
                raise misfit(state, "learned", "contradicts the number of classes")
            blocks.keys["known"], blocks.keys["learned"] = known, learned
        self._loop.complete(blocks.memory, len(blocks), self._room)
        self._blocks.put(slots, blocks)
        return good

    def session_state(self, slot: int) -> State | None:
        """Return the state of a session that continues with the models of a key; None for a key without rows."""
        key = self._blocks.keys[slot]
        return self._session_state(slot) if self._blocks.counts[slot]["next"] + key["pending"] else None

    def means(self, slot: int) -> ColumnMeans | None:
        """Return a copy of the means that fill gaps, if they do."""
        return ColumnMeans(self._blocks.means[slot].copy()) if self._shape.filled else None

    # -------------------------------------------------------------------- from sessions

    def put(self, slot: int, session: Session, means: ColumnMeans | None) -> bool:
        """Copy the models of a session, its rows that wait, and the means of columns to a free slot.

        Returns whether they fit.
        """
        strategy: Any = session.strategy
        seeds = np.array([strategy.seed & MASK], np.uint64)
        self.begin(np.array([slot]), seeds)
        if session.schema is not None and not self._copied_from(slot, session):
            return False
        if means is not None:
            self._blocks.means[slot] = means.totals
        return True

    def _copied_from(self, slot: int, session: Session) -> bool:
        strategy: Any = session.strategy
        targets, own = session.targets, self._blocks.keys[slot]
        if isinstance(targets, ClassTargets):
            if not (self.labels.put(slot, targets.labels) if self.growing else targets == self._targets):
                return False
            own["known"], own["learned"] = len(targets.labels), session.n_classes_learned
        models: CellModels | None = strategy._cell
        if models is None:
            pool, live = strategy._pool, strategy._live
            if pool.n_classes != self._n_classes or not fits_cell(
                pool, live, prequential=self._models._rule.prequential
            ):
                return False
            models = CellModels(pool, live, self._models._rule, {})
        if models._training.outputs != self._shape.outputs:
            return False
        return self._copied_cell(slot, models._cell, session)

    def _copied_cell(self, slot: int, cell: Any, session: Session) -> bool:
        blocks, shape, pending = self._blocks, self._shape, session._pending
        assert pending is not None
        base, first, stop = (cell.counts[name].item() for name in ("base", "first", "next"))
        live, n, waiting = slice(first - base, stop - base), stop - first, len(pending)
        if n + shape.batch_size > shape.places or waiting >= shape.batch_size or pending.first_row != stop:
            return False
        rows = pending.view(Segment(pending.first_row, pending.next_row))
        plain = bool((cell.weight[live] == 1.0).all() and (rows.weight == 1.0).all())
        if not (plain or shape.weighted) or stop != cell.counts["step"].item() * shape.batch_size:
            return False
        blocks.rows = blocks.rows.with_places(np.array([slot]), np.array([n + waiting]))
        stored, all_rows = blocks.stored(slot), slice(n, n + waiting)
        for name in SMALL:
            getattr(blocks, name)[slot] = getattr(cell, name)
        blocks.models[slot], blocks.counts[slot] = cell.models, cell.counts[0]
        blocks.counts["base"][slot] = first
        if shape.judged:
            blocks.judged[slot] = cell.judged
        stored.X[:n], stored.y[:n] = cell.X[live], cell.y[live]
        stored.tables[:, :n] = cell.tables.reshape(2, -1, shape.outputs)[:, live]
        stored.X[all_rows], stored.y[all_rows] = rows.X, rows.y
        if shape.weighted:
            stored.weight[:n], stored.weight[all_rows] = cell.weight[live], rows.weight
        blocks.keys["pending"][slot] = waiting
        if shape.guarded:
            self._copy_guard(slot, session)
        return True

    def _copy_guard(self, slot: int, session: Session) -> None:
        guard: dict[str, Any] = dict(pick("guard", session._now.state()))
        blocks, targets = self._blocks, session.targets
        for name, row in GUARD_ROWS.items():
            if name in guard:
                blocks.guard[slot, row] = guard[name]
        counts = np.array([len(guard["recent"])])
        blocks.keys["norms"][slot] = counts[0]
        blocks.norms = blocks.norms.with_places(np.array([slot]), counts)
        blocks.norms.write(np.array([slot]), 0, 0, counts, guard["recent"])
        if isinstance(targets, RegressionTargets) and targets.bounded:
            blocks.range[slot] = targets.low, targets.high


def blocks_most(blocks: Blocks) -> IntArray:
    """Return the largest code of a label that each key has stored."""
    slots = np.arange(len(blocks))
    counts = element_counts(blocks, slots)[:, 0]
    codes = blocks.rows.read(slots, blocks.shape.y_part, 0, counts, np.uint8)
    most = np.zeros(len(blocks), np.int64)
    np.maximum.at(most, np.repeat(slots, counts), codes)
    return most


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
        super().__init__(learner.session(0), len(learner.features), fills=learner.on_gap == "fill")
        self._learner = learner
        self._most_bytes = most_bytes
        self._lines = RecordWriter(self._models, learner.batch_size)
        self._slots: dict[Any, int] = {}
        self._random = random.Random(0)  # results do not depend on which keys are open
        self._summaries = Summaries()
        self.most: int = max(LEAST_OPEN, most_bytes // self._shape.most_bytes)
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
        block, count = self._shape.block_bytes, len(self._slots)
        used = self._blocks.rows.used() + block * count
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
        slots = self._reserve(len(fresh))
        self._summaries.put(slots, NEW)
        self.begin(slots, self._seeds(fresh))
        self._slots.update(zip(fresh, slots.tolist(), strict=True))
        if found:
            self._open_saved(found)

    def _open_saved(self, found: list[tuple[Any, KeySummary, Bytes, tuple[Any, ...]]]) -> None:
        names, summaries, cells, classes = zip(*found, strict=True)
        slots = self._reserve(len(names))
        good = self.load(slots, cells, classes, self._seeds(names))
        for slot, summary in zip(slots.tolist(), summaries, strict=True):
            self._summaries.put(slot, summary)
        self.give_up(slots[~good].tolist())
        self._slots.update((names[k], int(slots[k])) for k in np.flatnonzero(good).tolist())

    def _seeds(self, keys: Sequence[Any]) -> npt.NDArray[np.uint64]:
        return np.array([key_seed(self._learner.seed, key) & MASK for key in keys], np.uint64)

    def _reserve(self, count: int) -> IntArray:
        slots = self.take_slots(count)
        self._summaries.grow(self._n_keys)
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
        if not good.all():
            self.close([rows.names[number] for number in keys[~good & (high == NEVER)].tolist()])
            keys, slots, codes = keys[good], slots[good], codes[np.repeat(good, np.diff(starts))]
            order, starts = rows.places_of(keys)
        return self._part(rows, keys, *self._observed(rows, order, starts, slots, codes))

    def _observed(
        self, rows: RowsByKey, order: IntArray, starts: IntArray, slots: IntArray, codes: npt.NDArray[Any]
    ) -> tuple[Call, StepLog]:
        """Predict and learn rows; return what came of them."""
        n, blocks = len(rows.sequence), self._blocks
        by_place = np.zeros(n, self._shape.label_type)
        by_place[order] = codes
        predicted, made = np.empty(n, self._shape.label_type), np.empty(n, np.uint8)
        bare = rows.codes < 0
        gaps, failed = np.zeros(len(slots), np.int64), np.zeros(len(slots), np.bool_)
        if self._shape.growing:
            blocks.keys["total"][slots], blocks.keys["against"][slots] = self.labels.sizes(slots)
        starts = np.ascontiguousarray(starts)
        log = StepLog.of(int(blocks.make_room(self._loop, slots, starts).sum()), every=True)
        bad = bare * UNLABELLED if bare.any() else None
        batch = np.ascontiguousarray(rows.X, np.float64), by_place, None, bad, False, predicted, made
        groups = slots, starts, order.astype(np.int32), failed, gaps
        self._loop.observe(blocks.memory, batch, groups, log, self._room)
        return Call(order, slots, starts, codes, predicted[order], made[order], ~bare[order], gaps, failed), log

    def _part(self, rows: RowsByKey, keys: IntArray, work: Call, log: StepLog) -> ServedPart:
        """Return what the rows led to, and keep the summaries; keys that failed are closed and left out."""
        summaries = self._summaries
        steps = self._steps(work, log, rows.sequence[work.order])
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
            to_bytes(about_key(digest, self._summaries.get(slot)) | cell_entries(cell, self.labels_of(slot)))
            for slot, cell in zip(slots.tolist(), self.saved(slots), strict=True)
        ]

    def _steps(self, work: Call, log: StepLog, sequence: IntArray) -> Steps:
        """Return the time steps of a call."""
        count = int(log.length[0])
        made = np.bincount(log.group[:count], minlength=len(work.slots))
        next_of = (self._blocks.counts["step"][work.slots] - made).tolist()
        groups, whole, real = log.group[:count].tolist(), log.whole[:count].tolist(), log.real[:count].tolist()
        steps, slots = Steps(groups, sequence[log.place[:count]].tolist(), [], [], []), work.slots.tolist()
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
