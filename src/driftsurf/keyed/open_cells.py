"""Keys whose models are open, in cells that one call of the native loop serves."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray, Segment, State
from driftsurf.core.journal import json_lines
from driftsurf.core.numeric import MASK
from driftsurf.keyed.cell_store import cell_models, key_loop, key_shape
from driftsurf.keyed.key_saver import StateWriter, StrategyWriter
from driftsurf.keyed.keys import key_seed
from driftsurf.keyed.labels import Labels
from driftsurf.keyed.layout import KEY, Blocks, StepLog
from driftsurf.keyed.record import RecordWriter
from driftsurf.keyed.results import NEVER, NEW, ServedPart, Steps, Summaries, next_state
from driftsurf.keyed.rows import RowsByKey
from driftsurf.keyed.serving import ALIGNED, ImmediateLabels
from driftsurf.keyed.visit import KeyedLearner
from driftsurf.native.store import KeyLoop, Room
from driftsurf.session.session import Session
from driftsurf.strategies._cell_arrays import COUNTS, REACTIVE_STEP
from driftsurf.strategies._cell_models import CellModels
from driftsurf.strategies.cell import fits_cell

LEAST_SLOTS = 64
SMALL = "bounds", "w", "G", "factor", "gain", "centre", "raw", "centred"
"""Arrays of a cell that are copied as they are."""
BASE, NEXT, STEP = ((COUNTS.names or ()).index(name) for name in ("base", "next", "step"))
"""Places in the counts of a cell."""


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
    made: npt.NDArray[np.bool_]
    """Whether there was a time step before."""
    gaps: IntArray
    """Cells of each key without a value."""
    failed: npt.NDArray[np.bool_]
    """Keys that have to be served in another way. Their cells are of no use any more."""


class OpenCells:
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
        self._learner = learner
        template, columns = learner.session(0), len(learner.features)
        strategy: Any = template.strategy
        self._labels = Labels(learner)
        growing = not (self._labels.closed or self._labels.regression)
        self._shape = key_shape(template, columns, fills=learner.on_gap == "fill", growing=growing)
        self._most_bytes = most_bytes
        self._models = cell_models(strategy, columns, strategy.learner.capabilities.min_classes)
        """Turns a cell into the state of a strategy, or a decision."""
        self._blank: FloatArray = self._models._cell.judged.copy()
        self._loop: KeyLoop = key_loop(self._shape, strategy, self._models, None)
        self._room = Room(self._loop)
        self._blocks = Blocks(0, self._shape)
        self._states = StateWriter(learner, _surroundings(learner))
        self._strategies = StrategyWriter(self._models, strategy, self._blank)
        self._strategies.prepare(self._blocks.grown(1, 0), self._loop, self._room)
        self._lines = RecordWriter(self._models, learner.batch_size)
        self._slots: dict[Any, int] = {}
        self._free: list[int] = []
        self._random = random.Random(0)  # results do not depend on which keys are open
        self._seeds: list[int] = []
        """The seed of the key in each slot."""
        self._summaries = Summaries()
        self._saved: dict[int, tuple[int, bytes]] = {}
        """For some slots, how many time steps they had learned when they were read, and the packed strategy."""
        self.most: int = max(LEAST_SLOTS, most_bytes // self._shape.most_bytes)
        """Keys that can be open at the same time, whatever number of rows they have."""

    # -------------------------------------------------------------------- opening and closing

    def close(self, keys: Iterable[Any]) -> None:
        """Give up the slots of keys."""
        freed = [self._slots.pop(key) for key in keys if key in self._slots]
        for slot in freed:
            self._saved.pop(slot, None)
        self._blocks.clear(freed)
        self._free += freed

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
            surplus = min(-(-missing * count // used), count + len(states) - LEAST_SLOTS, len(others))
            self.close(self._random.sample(others, max(0, surplus)))

    def _reserve(self, count: int) -> list[int]:
        """Return so many free slots, after making more if there are too few."""
        missing = count - len(self._free)
        if missing > 0:
            have = len(self._seeds)
            total = max(have + missing, min(2 * have, self.most), LEAST_SLOTS)
            self._blocks = self._blocks.grown(total, have)
            self._labels.grow(total)
            self._summaries.grow(total)
            self._seeds += [0] * (total - have)
            self._free += range(total - 1, have - 1, -1)
        return [self._free.pop() for _ in range(count)]

    def open(self, keys: Sequence[Any], states: Sequence[bytes | None]) -> None:
        """Open keys with their saved bytes, as far as they can be served here."""
        fresh: list[tuple[Any, int]] = []
        for key, state, slot in zip(keys, states, self._reserve(len(keys)), strict=True):
            self._seeds[slot] = key_seed(self._learner.seed, key)
            if not state:
                fresh.append((key, slot))
            elif self._restore(key, slot, state):
                self._slots[key] = slot
            else:
                self._blocks.clear([slot])
                self._free.append(slot)
        if fresh:
            self._begin([slot for _, slot in fresh])
            self._slots.update(fresh)

    def _begin(self, chosen: list[int]) -> None:
        """Make the first models of new keys."""
        slots = np.array(chosen, np.int64)
        seeds = np.array([self._seeds[slot] & MASK for slot in chosen], np.uint64)
        self._summaries.put(slots, NEW)
        self._loop.begin(self._blocks.bytes, slots, seeds, self._blank, self._room)
        self._blocks.keys["known"][slots] = self._labels.begin(slots)

    def _restore(self, key: Any, slot: int, state: bytes) -> bool:
        """Put a saved key into a slot; return whether it can be served here.

        A key that may just have been readmitted cannot: its rows would be learned again from a state in quarantine.
        """
        if str(key) in self._learner.readmitted:
            return False
        summary, serving, means = self._learner._open(key, state)
        session = serving.session
        if summary.quarantine or session.schema is None or not self._labels.restore(slot, session.targets):
            return False
        strategy: Any = session.strategy
        models: CellModels | None = strategy._cell
        if models is None:
            pool, live = strategy._pool, strategy._live
            if pool.n_classes > 2 or not fits_cell(pool, live, prequential=self._models._rule.prequential):
                return False
            models = CellModels(pool, live, self._models._rule, {})
        elif models._training.outputs != 1:
            return False
        pending = session._pending
        assert pending is not None
        if not self._put(slot, models._cell, pending):
            return False
        own = self._blocks.keys[slot]
        own["known"], own["learned"] = len(session.targets.labels), session.n_classes_learned
        if means is not None:
            self._blocks.means[slot] = means.totals
        assert isinstance(serving, ImmediateLabels)
        self._summaries.put(slot, summary)
        self._saved[slot] = serving._strategy_steps, bytes(serving._strategy)
        return True

    def _put(self, slot: int, cell: Any, pending: Any) -> bool:
        """Copy a cell and the rows that wait into a slot; return whether they fit."""
        blocks, shape = self._blocks, self._shape
        base, first, stop = (cell.counts[name].item() for name in ("base", "first", "next"))
        live, n, waiting = slice(first - base, stop - base), stop - first, len(pending)
        if n + shape.batch_size > shape.places or waiting >= shape.batch_size or pending.first_row != stop:
            return False
        if not ((cell.weight[live] == 1.0).all() and stop == cell.counts["step"].item() * shape.batch_size):
            return False
        blocks.rows = blocks.rows.with_places(np.array([slot]), np.array([n + waiting]))
        stored = blocks.stored(slot)
        blocks.keys[slot] = np.zeros(1, KEY)[0]
        for name in SMALL:
            getattr(blocks, name)[slot] = getattr(cell, name)
        blocks.models[slot], blocks.counts[slot] = cell.models, cell.counts[0]
        blocks.counts["base"][slot] = first
        if shape.judged:
            blocks.judged[slot] = cell.judged
        stored.X[:n], stored.y[:n], stored.tables[:, :n, 0] = cell.X[live], cell.y[live], cell.tables[:, live]
        if waiting:
            rows = pending.view(Segment(pending.first_row, pending.next_row))
            if not (rows.weight == 1.0).all():
                return False
            stored.X[n : n + waiting], stored.y[n : n + waiting] = rows.X, rows.y
            blocks.keys["pending"][slot] = waiting
        return True

    # -------------------------------------------------------------------- serving

    def serve(self, rows: RowsByKey, keys: IntArray, slots: IntArray) -> ServedPart:
        """Serve the rows of keys that are open; ``keys`` are their numbers in ``rows``.

        Keys whose rows cannot be served here stay as they are, or are closed if they are new; keys that fail are
        closed. All of them are left out of the result.
        """
        order, starts = rows.places_of(keys)
        codes, readable = self._labels.codes(rows, order, starts, slots)
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
        predicted, made = np.empty(n, self._shape.label_type), np.empty(n, np.bool_)
        gaps, failed = np.zeros(len(slots), np.int64), np.zeros(len(slots), np.bool_)
        if self._shape.growing:
            blocks.keys["total"][slots], blocks.keys["against"][slots] = self._labels.counts(slots)
        starts = np.ascontiguousarray(starts)
        log = StepLog.of(int(blocks.make_room(self._loop, slots, starts).sum()), every=True)
        batch = np.ascontiguousarray(rows.X, np.float64), by_place, None, None, False, predicted, made
        groups = slots, starts, order.astype(np.int32), failed, gaps
        self._loop.observe(blocks.memory, batch, groups, log, self._room)
        return Call(order, slots, starts, codes, predicted[order], made[order], gaps, failed), log

    def _part(self, rows: RowsByKey, keys: IntArray, work: Call, log: StepLog) -> ServedPart:
        """Return what the rows led to, and keep the summaries; keys that failed are closed and left out."""
        summaries = self._summaries
        steps = self._steps(work, log, rows.sequence[work.order])
        if work.failed.any():
            keys, work, steps = self._without_failed(rows, keys, work, steps)
        predicted, wrong, scored = self._labels.predicted(work)
        slots = work.slots
        counts = {"rows": np.diff(work.starts), "scored": scored, "errors": wrong, "gaps": work.gaps}
        deviation = self._labels.deviation(work, summaries["deviation"][slots])
        summaries.add(slots, counts, rows.sequence[work.order[work.starts[1:] - 1]], deviation)
        summaries.add_steps(slots.tolist(), steps)
        for group in steps.group:
            self._saved.pop(int(slots[group]), None)
        summaries["bytes"][slots] = self._sizes(slots)
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
            **{name: getattr(work, name)[inside] for name in ("codes", "predicted", "made")},
            **{name: getattr(work, name)[~failed] for name in ("slots", "gaps", "failed")},
        )
        return keys[~failed], work, Steps(*lists)

    def _sizes(self, slots: IntArray) -> IntArray:
        """Return the bytes of all arrays in the saved states of slots."""
        seeds = [self._seeds[slot] for slot in slots.tolist()]
        sizes = self._strategies.sizes(self._blocks, slots, seeds)
        waiting, columns = self._blocks.keys["pending"][slots], self._shape.n_features
        rows = waiting * columns * np.dtype(self._shape.row_type).itemsize
        means = 2 * columns * 8 if self._shape.filled else 0
        made: IntArray = sizes + 16 * waiting + rows + -rows % ALIGNED + means
        return made

    def states(self, keys: Iterable[Any]) -> list[bytes]:
        """Return the bytes in which open keys are saved, as they are now."""
        slots = np.array([self._slots[key] for key in keys], np.int64)
        held = self._blocks.counts[slots].tolist(), self._blocks.models[slots].tolist(), slots.tolist()
        return [self._state(slot, counts, models) for counts, models, slot in zip(*held, strict=True)]

    def _state(self, slot: int, counts: tuple[Any, ...], models: list[tuple[Any, ...]]) -> bytes:
        """Return the saved bytes of a key."""
        blocks, steps, key = self._blocks, counts[STEP], self._blocks.keys[slot]
        read_at, strategy = self._saved.get(slot, (-1, b""))
        if steps != read_at:
            strategy = self._strategies.packed(blocks, slot, self._seeds[slot], counts, models)
        a, waiting, stored = counts[NEXT] - counts[BASE], key["pending"].item(), blocks.stored(slot)
        around = self._states.around(
            {
                "steps": steps,
                "n_classes_learned": key["learned"].item(),
                **self._labels.state(slot, key["known"].item()),
                "pending.first_row": counts[NEXT],
            },
            stored.y[a : a + waiting].astype(np.float64).tobytes(),
            stored.X[a : a + waiting].tobytes(),
            waiting,
        )
        means = blocks.means[slot].tobytes() if self._shape.filled else b""
        return self._states.state(self._summaries.get(slot), around, strategy, means)

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
                decision = decision.named(self._labels.of(slots[group]))
                steps.records.append("".join(json_lines([decision])))
                steps.kinds.append(",".join(one.kind for one in decision.transitions))
                steps.states.append(next_state(decision))
            else:
                steps.records.append(line)
                steps.kinds.append("")
                steps.states.append("reactive" if numbers[REACTIVE_STEP] else "stable")
            next_of[group] += 1
        return steps


def _surroundings(learner: KeyedLearner) -> State:
    """Return the state of a session around its strategy, after its first row."""
    session: Session = learner.session(0)
    label = 0.0 if learner.regression else 0 if learner.classes is None else learner.classes[0]
    session.observe(np.zeros((1, len(learner.features)), session.strategy.dtype), [label])
    return session.surroundings()
