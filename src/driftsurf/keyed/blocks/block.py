"""Keys whose models are open, in cells that one call of compiled code serves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from driftsurf.core.contracts import FloatArray, IntArray, Segment, State
from driftsurf.core.values import replace
from driftsurf.kernels.random import MASK
from driftsurf.keyed.blocks.labels import Labels
from driftsurf.keyed.blocks.records import RecordWriter
from driftsurf.keyed.blocks.rows import Gathered, Steps
from driftsurf.keyed.blocks.saving import StateWriter, StrategyWriter
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
from driftsurf.keyed.rows import KeyRows
from driftsurf.keyed.serving import ImmediateLabels
from driftsurf.keyed.summary import KeySummary
from driftsurf.keyed.visit import NEW, KeyedLearner, Visit
from driftsurf.session.session import Session
from driftsurf.strategies.compiled.cell import CompiledModels
from driftsurf.strategies.compiled.layout import COUNTS, REACTIVE_STEP, Rule, Scratch, make_scratch
from driftsurf.strategies.compiled.suitable import fits_cell

__all__ = ["LEAST_SLOTS", "Block", "Read", "begun", "places_of"]

LEAST_SLOTS = 64
BASE, FIRST, NEXT = ((COUNTS.names or ()).index(name) for name in ("base", "first", "next"))
"""Places in the counts of a cell."""
Read: TypeAlias = Callable[[Any], bytes | None]
"""Returns the saved bytes of a key, or None."""
_NO_STEPS = Steps([], [], [], 0)


class Opened(NamedTuple):
    """Summary, seed and packed strategy of an open key; its models and rows are in its cell."""

    summary: KeySummary
    seed: int
    strategy: bytes
    """The packed state of the strategy after ``strategy_steps`` time steps."""
    strategy_steps: int
    rows: int = 0
    """Rows in the cell."""


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
        rule, details = strategy._compiled_rule()
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
        self._opened: list[Opened] = []
        """Summary, seed and packed strategy of the key in each slot."""
        self._labels = Labels(learner)
        size = sum(array.nbytes for array in make_cells(1, self.places, self._models._cell)[:6])
        self._most = max(LEAST_SLOTS, most_bytes // (size + self._models._small.nbytes))

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
        self._free += [self._slots.pop(key) for key in keys if key in self._slots]

    def __contains__(self, key: Any) -> bool:
        return key in self._slots

    def has_room(self, key: Any, count: int) -> bool:
        """Return whether a cell has room for ``count`` more rows of an open key."""
        return self.has_places(self._opened[self._slots[key]].rows + count)

    def has_places(self, count: int) -> bool:
        """Return whether a cell has room for so many rows, and a time step more."""
        return not self._bounded or count + self._plan.batch_size <= self.places

    def _reserve(self, count: int) -> list[int]:
        """Return so many free slots, after making more if there are too few."""
        missing = count - len(self._free)
        if missing > 0:
            have = len(self._opened)
            total = max(have + missing, min(2 * have, self._most), LEAST_SLOTS)
            cells = make_cells(total, self.places, self._models._cell)
            for new, old in zip(cells[:6], self._cells[:6], strict=True):
                if new is not cells.ones:
                    new[:have] = old[:have]
            cells.float64[: len(self._cells.float64)] = self._cells.float64
            self._cells = cells
            self._labels.grow(total)
            self._opened += [Opened(NEW, 0, b"", -1)] * (total - have)
            self._free += range(total - 1, have - 1, -1)
        return [self._free.pop() for _ in range(count)]

    def _open(self, keys: list[Any], read: Read) -> None:
        """Open keys, as far as they can be served here."""
        fresh: list[tuple[Any, int]] = []
        for key, slot in zip(keys, self._reserve(len(keys)), strict=True):
            state = read(key)
            if not state:
                seed = key_seed(self._learner.seed, key)
                fresh.append((key, slot))
                self._opened[slot] = Opened(NEW, seed, b"", -1)
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
        seeds = np.array([self._opened[slot].seed & MASK for slot in chosen], np.uint64)
        self._cells.float64.reshape(-1, size)[slots] = self._blank
        self._cells.means[slots] = 0.0
        self._cells.notes[slots] = 0
        self._cells.notes[slots, KNOWN] = self._labels.begin(slots)
        begin_cells(self._cells, slots, seeds, self._training, self._kernels)

    def _restore(self, key: Any, slot: int, state: bytes) -> bool:
        """Put a saved key into a slot; return whether it can be served here."""
        summary, serving, means = self._learner._open(key, state)
        session = serving.session
        if summary.quarantine or session.schema is None or not self._labels.restore(slot, session.targets):
            return False
        strategy: Any = session.strategy
        models = strategy._compiled
        if models is None:
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
        seed = key_seed(self._learner.seed, key)
        self._opened[slot] = Opened(summary, seed, bytes(serving._strategy), serving._strategy_steps, n + waiting)
        return True

    # -------------------------------------------------------------------- serving

    def serve(self, rows: Mapping[Any, KeyRows], read: Read) -> dict[Any, Visit]:
        """Serve the rows of keys, as far as that is possible here."""
        done: dict[Any, Visit] = {}
        keys = list(rows)
        for start in range(0, len(keys), self._most):
            part = keys[start : start + self._most]
            self._make_way(part)
            self._open([key for key in part if key not in self._slots], read)
            done |= self._serve([key for key in part if key in self._slots], rows)
        return done

    def _make_way(self, keys: list[Any]) -> None:
        """Close other keys if there is not enough room for these."""
        missing = sum(key not in self._slots for key in keys) - (self._most - len(self._slots))
        if missing > 0:
            wanted = set(keys)
            others = [key for key in self._slots if key not in wanted]
            self.close(others[:missing])

    def _serve(self, keys: list[Any], rows: Mapping[Any, KeyRows]) -> dict[Any, Visit]:
        """Serve the rows of keys that are open; those that fail are closed, and left out of the result."""
        given = Gathered.of(keys, [rows[key] for key in keys])
        slots = np.array([self._slots[key] for key in keys], np.int64)
        high = np.array([_high(self._opened[slot].summary) for slot in slots.tolist()], np.int64)
        codes, readable = self._labels.codes(given.y, given.starts, slots)
        good = readable & given.in_order(high)
        chosen = np.flatnonzero(good)
        self.close([keys[g] for g in np.flatnonzero(~good).tolist()])
        if not len(chosen):
            return {}
        order, starts = given.places_of(chosen)
        work = VisitRows(
            given.X,
            codes,
            order,
            slots[chosen],
            starts,
            np.empty(len(order)),
            np.empty(len(order), np.int64),
            np.zeros(len(chosen), np.int64),
            np.zeros(len(chosen), np.bool_),
        )
        pending = self._cells.notes[slots[chosen], PENDING]
        log = make_outcomes(int(((pending + np.diff(starts)) // self._plan.batch_size).sum()))
        serve_cells(self._cells, work, self._plan, self._rule, self._training, self._scratch, log, self._kernels)
        self.close([keys[g] for g in chosen[work.failed].tolist()])
        return self._visits([keys[g] for g in chosen.tolist()], given, work, log)

    def _visits(self, keys: list[Any], given: Gathered, work: VisitRows, log: Outcomes) -> dict[Any, Visit]:
        """Return the visits of the keys that did not fail."""
        sequence, true = given.sequence[work.order].tolist(), [given.y[i] for i in work.order.tolist()]
        predicted, wrong, scored = self._labels.predicted(work)
        decided = self._decided(work, log, sequence)
        starts, gaps, failed = work.starts.tolist(), work.gaps.tolist(), work.failed.tolist()
        counts_of, models_of = self._records(work.slots)
        notes = self._cells.notes[work.slots].tolist()
        done: dict[Any, Visit] = {}
        for g, key in enumerate(keys):
            if failed[g]:
                continue
            slot, a, b = self._slots[key], starts[g], starts[g + 1]
            opened, steps = self._opened[slot], decided.get(g, _NO_STEPS)
            summary = opened.summary
            counts: dict[str, Any] = {
                "rows": summary.rows + b - a,
                "scored": summary.scored + scored[g],
                "errors": summary.errors + wrong[g],
                "gaps": summary.gaps + gaps[g],
                "high_water": sequence[b - 1],
            }
            if self._labels.regression:
                counts["deviation"] = _total(summary.deviation, predicted[a:b], true[a:b])
            summary = replace(summary, **counts, **steps.changes(summary))
            data = self._saved(slot, summary, notes[g], counts_of[g], models_of[g])
            summary = self._opened[slot].summary
            done[key] = Visit(
                data, sequence[a:b], predicted[a:b], true[a:b], steps.at, steps.records, steps.kinds, summary
            )
        return done

    def _records(self, slots: IntArray) -> tuple[list[Any], list[Any]]:
        """Return the counts and the models of slots as plain values."""
        counts, models, at = self._cells.counts, self._cells.models, self._cells.sizes
        places = (slots * at.size + at.counts) * 8 // counts.itemsize
        first = slots * at.size * 8 // models.itemsize
        return counts[places].tolist(), models[np.column_stack([first, first + 1])].tolist()

    def _saved(
        self, slot: int, summary: KeySummary, note: list[int], counts: tuple[Any, ...], models: list[tuple[Any, ...]]
    ) -> bytes:
        """Return the saved bytes of a key, and keep its summary."""
        cells, opened = self._cells, self._opened[slot]
        strategy, steps = opened.strategy, summary.steps
        if steps != opened.strategy_steps:
            strategy = self._strategies.packed(cells, slot, opened.seed, counts, models)
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
        data = self._states.state(summary, around, strategy, means)
        rows = b - counts[FIRST] + counts[BASE]
        self._opened[slot] = Opened(replace(summary, bytes=len(data)), opened.seed, strategy, steps, rows)
        return data

    def _decided(self, work: VisitRows, log: Outcomes, sequence: list[int]) -> dict[int, Steps]:
        """Return the time steps of each key, by its number."""
        count, checked = int(log.length[0]), False
        found: dict[int, Steps] = {}
        groups, places, slots = log.group[:count].tolist(), log.place[:count].tolist(), work.slots.tolist()
        counts = self._cells.counts
        last = np.bincount(log.group[:count], minlength=len(work.slots))
        at = self._cells.sizes
        after = counts[(work.slots * at.size + at.counts) * 8 // counts.itemsize]["step"]
        step_of = (after - last).tolist()
        for g, place, whole, real in zip(
            groups, places, log.whole[:count].tolist(), log.real[:count].tolist(), strict=True
        ):
            steps = found.setdefault(g, Steps([], [], [], step_of[g]))
            if not checked:
                self._lines.check(whole, real, steps.next)
                checked = True
            line = self._lines.line(whole, real, steps.next)
            if line is None:
                decision = self._lines.decision(whole, real, steps.next)
                steps.add(sequence[place], decision.named(self._labels.of(slots[g])))
            else:
                steps.add_line(sequence[place], line, "reactive" if whole[REACTIVE_STEP] else "stable")
        return found


def _high(summary: KeySummary) -> int:
    return np.iinfo(np.int64).min if summary.high_water is None else summary.high_water


def _total(total: float, predicted: Sequence[Any], true: Sequence[Any]) -> float:
    for mine, label in zip(predicted, true, strict=True):
        total += 0.0 if mine is None else abs(mine - label)
    return total


def _surroundings(learner: KeyedLearner) -> State:
    """Return the state of a session around its strategy, after its first row."""
    session: Session = learner.session(0)
    label = 0.0 if learner.regression else 0 if learner.classes is None else learner.classes[0]
    session.observe(np.zeros((1, len(learner.features)), session.strategy.dtype), [label])
    return session.surroundings()
