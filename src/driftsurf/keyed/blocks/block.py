"""Keys whose models are open, in cells that one call of compiled code serves."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from driftsurf.core.contracts import FloatArray, IntArray, Segment, State
from driftsurf.core.journal import json_lines
from driftsurf.core.random import MASK
from driftsurf.keyed.blocks.labels import Labels
from driftsurf.keyed.blocks.records import RecordWriter
from driftsurf.keyed.blocks.saving import StateWriter, StrategyWriter
from driftsurf.keyed.blocks.summaries import Summaries
from driftsurf.keyed.compiled.addresses import kernel_addresses
from driftsurf.keyed.compiled.cells import (
    KNOWN,
    LEARNED_CLASSES,
    PENDING,
    PENDING_FIRST,
    Outcomes,
    Plan,
    VisitRows,
    cell_of_slot,
    make_cells,
    make_outcomes,
)
from driftsurf.keyed.compiled.visits import begin_cells, serve_cells
from driftsurf.keyed.keys import key_seed
from driftsurf.keyed.packed import ALIGNED
from driftsurf.keyed.results import NEVER, Part, Steps
from driftsurf.keyed.rows import RowsByKey
from driftsurf.keyed.serving import ImmediateLabels
from driftsurf.keyed.summary import next_state
from driftsurf.keyed.visit import NEW, KeyedLearner
from driftsurf.session.session import Session
from driftsurf.strategies.compiled.cell import CompiledModels
from driftsurf.strategies.compiled.layout import COUNTS, REACTIVE_STEP, Rule, Scratch, make_scratch
from driftsurf.strategies.compiled.suitable import fits_cell

__all__ = ["LEAST_SLOTS", "Block", "begun", "places_of"]

LEAST_SLOTS = 64
BASE, NEXT, STEP = ((COUNTS.names or ()).index(name) for name in ("base", "next", "step"))
"""Places in the counts of a cell."""


def begun(learner: KeyedLearner) -> Any:
    """Return the strategy of a key that has begun to learn."""
    strategy = learner.strategy.fresh(0)
    classes = learner.strategy.learner.capabilities.min_classes
    strategy.begin(len(learner.features), sparse=False, n_classes=classes)
    return strategy


def places_of(learner: KeyedLearner, rule: Rule) -> int:
    """Return how many rows a cell has room for: the sample set or the batches of T if they are more, and a batch."""
    assert learner.batch_size is not None
    return max(rule.max_rows, (rule.reactive_length - 1) * learner.batch_size) + learner.batch_size


class Block:
    """Cells of keys that are open, and the names, summaries and labels of these keys.

    Parameters
    ----------
    learner
        How every key is learned.
    places
        Rows that a cell has room for; None for as many as a key may ever need.
    most_bytes
        Memory of the cells, roughly.
    """

    def __init__(self, learner: KeyedLearner, places: int | None, most_bytes: int) -> None:
        assert learner.batch_size is not None
        self._learner = learner
        strategy = begun(learner)
        rule, details = strategy._cell_rule()
        self._models = CompiledModels(strategy._pool, strategy._live, rule, details)
        """Turns a cell into the state of a strategy, or a decision."""
        self._rule, self._training = rule, self._models._training
        row_type = self._models._cell.X.dtype
        self._kernels = kernel_addresses(row_type, rule, self._training)
        known: Any = learner.strategy.learner
        per_batch = -1 if known.steps_per_batch is None else int(known.steps_per_batch)
        self._plan = Plan(learner.batch_size, float(known.steps_per_row), per_batch, learner.on_gap == "fill")
        self._bounded = places is not None
        self.places: int = places_of(learner, rule) if places is None else places
        most_steps = per_batch if per_batch >= 0 else int(self._plan.per_row * learner.batch_size) + 2
        self._scratch: Scratch = make_scratch(len(learner.features), learner.batch_size, self.places, most_steps)
        self._cells = make_cells(0, self.places, self._models._cell)
        self._blank = self._blank_cell()
        self._states = StateWriter(learner, _surroundings(learner))
        self._strategies = StrategyWriter(self._models, strategy)
        self._lines = RecordWriter(self._models, learner.batch_size)
        self._slots: dict[Any, int] = {}
        self._free: list[int] = []
        self._random = random.Random(0)  # results do not depend on which keys are open
        self._seeds: list[int] = []
        """The seed of the key in each slot."""
        self._summaries = Summaries()
        self._saved: dict[int, tuple[int, bytes]] = {}
        """For some slots, how many time steps they had learned when they were read, and the packed strategy."""
        self._labels = Labels(learner)
        size = sum(array.nbytes for array in make_cells(1, self.places, self._models._cell)[:6])
        self.most: int = max(LEAST_SLOTS, most_bytes // (size + self._models._small.nbytes))
        """Keys that can be open at the same time."""

    def _blank_cell(self) -> FloatArray:
        """Return the numbers of a cell before its first model is made."""
        one = make_cells(1, self.places, self._models._cell)
        cell, template = cell_of_slot(one, 0), self._models._cell
        for name in cell._fields[4:]:
            getattr(cell, name)[...] = getattr(template, name)
        cell.counts["made"] = 0
        return one.float64

    # -------------------------------------------------------------------- opening and closing

    def close(self, keys: Iterable[Any]) -> None:
        """Give up the slots of keys."""
        freed = [self._slots.pop(key) for key in keys if key in self._slots]
        for slot in freed:
            self._saved.pop(slot, None)
        self._free += freed

    def __contains__(self, key: Any) -> bool:
        return key in self._slots

    def slots_of(self, keys: Iterable[Any]) -> IntArray:
        """Return the slot of each key, -1 for a key that is not open."""
        get = self._slots.get
        return np.array([get(key, -1) for key in keys], np.int64)

    def have_room(self, slots: IntArray, counts: IntArray) -> Any:
        """Return whether cells have room for so many more rows."""
        held = self._counts(slots)
        rows = held["next"] - held["first"] + self._cells.notes[slots, PENDING]
        return self.has_places(rows + counts)

    def has_places(self, count: Any) -> Any:
        """Return whether a cell has room for so many rows, and a time step more."""
        return (count + self._plan.batch_size <= self.places) | (not self._bounded)

    def make_room(self, count: int, wanted: Collection[Any]) -> None:
        """Close keys that are not wanted, if fewer than ``count`` could be opened.

        They are drawn at random. When keys come in turn, those that were opened first would be the next ones to come.
        """
        missing = count - (self.most - len(self._slots))
        if missing > 0:
            others = [key for key in self._slots if key not in wanted]
            self.close(self._random.sample(others, min(missing, len(others))))

    def _reserve(self, count: int) -> list[int]:
        """Return so many free slots, after making more if there are too few."""
        missing = count - len(self._free)
        if missing > 0:
            have = len(self._seeds)
            total = max(have + missing, min(2 * have, self.most), LEAST_SLOTS)
            cells = make_cells(total, self.places, self._models._cell)
            for new, old in zip(cells[:6], self._cells[:6], strict=True):
                if new is not cells.ones:
                    new[:have] = old[:have]
            cells.float64[: len(self._cells.float64)] = self._cells.float64
            self._cells = cells
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
                self._free.append(slot)
        if fresh:
            self._begin([slot for _, slot in fresh])
            self._slots.update(fresh)

    def _begin(self, chosen: list[int]) -> None:
        """Make the first models of new keys."""
        slots, size = np.array(chosen), self._cells.sizes.size
        seeds = np.array([self._seeds[slot] & MASK for slot in chosen], np.uint64)
        self._summaries.put(slots, NEW)
        self._cells.float64.reshape(-1, size)[slots] = self._blank
        self._cells.means[slots] = 0.0
        self._cells.notes[slots] = 0
        self._cells.notes[slots, KNOWN] = self._labels.begin(slots)
        begin_cells(self._cells, slots, seeds, self._training, self._kernels)

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
        pool, live = strategy._pool, strategy._live
        if pool.n_classes > 2 or not fits_cell(pool, live, prequential=self._rule.prequential):
            return False
        models = CompiledModels(pool, live, self._rule, {})
        source, cell = models._cell, cell_of_slot(self._cells, slot)
        base, first, stop = (source.counts[name].item() for name in ("base", "first", "next"))
        pending = session._pending
        assert pending is not None
        waiting, n = len(pending), stop - first
        if n + self._plan.batch_size > self.places or waiting >= self._plan.batch_size:
            return False
        for name in cell._fields[4:]:
            getattr(cell, name)[...] = getattr(source, name)
        live_rows = slice(first - base, stop - base)
        cell.X[:n], cell.y[:n], cell.tables[:, :n] = (
            source.X[live_rows],
            source.y[live_rows],
            source.tables[:, live_rows],
        )
        cell.counts["base"] = first
        if not ((source.weight[live_rows] == 1.0).all() and stop == cell.counts["step"].item() * self._plan.batch_size):
            return False
        if waiting:
            rows = pending.view(Segment(pending.first_row, pending.next_row))
            if not (rows.weight == 1.0).all():
                return False
            cell.X[n : n + waiting], cell.y[n : n + waiting] = rows.X, rows.y
        known = len(session.targets.labels)
        note = self._cells.notes[slot]
        note[PENDING], note[PENDING_FIRST], note[KNOWN] = waiting, pending.first_row, known
        note[LEARNED_CLASSES] = session.n_classes_learned
        if means is not None:
            self._cells.means[slot] = means.totals
        assert isinstance(serving, ImmediateLabels)
        self._summaries.put(slot, summary)
        self._saved[slot] = serving._strategy_steps, bytes(serving._strategy)
        return True

    # -------------------------------------------------------------------- serving

    def serve(self, rows: RowsByKey, keys: IntArray, slots: IntArray) -> Part:
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
        work = self._work(rows, order, starts, slots, codes)
        pending = self._cells.notes[slots, PENDING]
        log = make_outcomes(int(((pending + np.diff(starts)) // self._plan.batch_size).sum()))
        serve_cells(self._cells, work, self._plan, self._rule, self._training, self._scratch, log, self._kernels)
        return self._part(rows, keys, work, log)

    def _work(
        self, rows: RowsByKey, order: IntArray, starts: IntArray, slots: IntArray, codes: FloatArray
    ) -> VisitRows:
        """Return rows as the compiled loop takes them."""
        by_place = np.empty(len(rows.sequence))
        by_place[order] = codes
        return VisitRows(
            np.require(rows.X, np.float64, ["C", "A", "W"]),  # rows that an engine has read may be read-only
            by_place,
            order,
            slots,
            starts,
            np.empty(len(order)),
            np.empty(len(order), np.int64),
            np.zeros(len(slots), np.int64),
            np.zeros(len(slots), np.bool_),
        )

    def _part(self, rows: RowsByKey, keys: IntArray, work: VisitRows, log: Outcomes) -> Part:
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
        return Part(rows, keys, work.order, work.starts, predicted, steps, summaries.columns(slots))

    def _without_failed(
        self, rows: RowsByKey, keys: IntArray, work: VisitRows, steps: Steps
    ) -> tuple[IntArray, VisitRows, Steps]:
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
            scores=work.scores[inside],
            learned=work.learned[inside],
            **{name: getattr(work, name)[~failed] for name in ("slots", "gaps", "failed")},
        )
        return keys[~failed], work, Steps(*lists)

    def _records(self, slots: IntArray) -> tuple[Any, Any]:
        """Return the counts and the models of slots."""
        models, at = self._cells.models, self._cells.sizes
        first = slots * at.size * 8 // models.itemsize
        return self._counts(slots), models[np.column_stack([first, first + 1])]

    def _counts(self, slots: IntArray) -> Any:
        """Return the counts of slots."""
        counts, at = self._cells.counts, self._cells.sizes
        return counts[(slots * at.size + at.counts) * 8 // counts.itemsize]

    def _sizes(self, slots: IntArray) -> IntArray:
        """Return the bytes of all arrays in the saved states of slots."""
        seeds = [self._seeds[slot] for slot in slots.tolist()]
        sizes = self._strategies.sizes(self._cells, slots, seeds, *self._records(slots))
        waiting, columns = self._cells.notes[slots, PENDING], len(self._learner.features)
        rows = waiting * columns * self._cells.X.itemsize
        means = 2 * columns * 8 if self._plan.fills else 0
        made: IntArray = sizes + 16 * waiting + rows + -rows % ALIGNED + means
        return made

    def states(self, keys: Iterable[Any]) -> list[bytes]:
        """Return the bytes in which open keys are saved, as they are now."""
        slots = np.array([self._slots[key] for key in keys], np.int64)
        held = zip(*(records.tolist() for records in self._records(slots)), strict=True)
        notes = self._cells.notes[slots].tolist()
        return [
            self._state(slot, note, *records) for slot, note, records in zip(slots.tolist(), notes, held, strict=True)
        ]

    def _state(self, slot: int, note: list[int], counts: tuple[Any, ...], models: list[tuple[Any, ...]]) -> bytes:
        """Return the saved bytes of a key."""
        cells, steps = self._cells, counts[STEP]
        read_at, strategy = self._saved.get(slot, (-1, b""))
        if steps != read_at:
            strategy = self._strategies.packed(cells, slot, self._seeds[slot], counts, models)
        a = counts[NEXT] - counts[BASE]
        b = a + note[PENDING]
        around = self._states.around(
            {
                "steps": steps,
                "n_classes_learned": note[LEARNED_CLASSES],
                **self._labels.state(slot, note[KNOWN]),
                "pending.first_row": note[PENDING_FIRST],
            },
            cells.y[slot, a:b].tobytes(),
            cells.X[slot, a:b].tobytes(),
            note[PENDING],
        )
        means = cells.means[slot].tobytes() if self._plan.fills else b""
        return self._states.state(self._summaries.get(slot), around, strategy, means)

    def _steps(self, work: VisitRows, log: Outcomes, sequence: IntArray) -> Steps:
        """Return the time steps of a call."""
        count = int(log.length[0])
        made = np.bincount(log.group[:count], minlength=len(work.slots))
        next_of = (self._counts(work.slots)["step"] - made).tolist()
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
