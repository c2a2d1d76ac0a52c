"""Cells of keys in one piece of memory: those of a store with a bank for each number of classes, and how they grow."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import DenseRows, FloatArray, IntArray, Segment, State
from driftsurf.core.fields import misfit
from driftsurf.core.numeric import MASK
from driftsurf.core.state import nest, pick, resolved
from driftsurf.core.targets import MARGIN, ClassTargets, RegressionTargets
from driftsurf.keyed.layout import KEY, MOST_OWN, REASONS, TWO, Blocks, Bytes, KeyShape
from driftsurf.keyed.rows import ColumnMeans, Slots
from driftsurf.keyed.saved import (
    GUARD_ROWS,
    CellBytes,
    blocks_state,
    element_counts,
    guard_state,
    guards_state,
    pending_state,
    restored_blocks,
)
from driftsurf.native.store import KeyLoop, Room
from driftsurf.session.session import LEAST_WEIGHT, Session
from driftsurf.strategies import DriftSurf
from driftsurf.strategies._cell_arrays import CREDIT, KINDS, RANGES, STABLE, UNITS
from driftsurf.strategies._cell_models import CellModels
from driftsurf.strategies.cell import fits_cell, is_supported
from driftsurf.strategies.driftsurf_state import Contest

LEAST_SLOTS = 64
MOST_CLASSES = 256
"""Codes of classes are single bytes."""
SMALL = "bounds", "w", "G", "factor", "gain", "centre", "raw", "centred"
"""Arrays of a cell that are copied as they are."""


# ---------------------------------------------------------------------------- what suits a cell


def suits_cells(template: Session) -> bool:
    """Return whether cells serve keys that start with this session, whatever columns there are."""
    targets, strategy = template.targets, template.strategy
    if isinstance(targets, ClassTargets) and targets.closed and not TWO <= len(targets.labels) <= MOST_CLASSES:
        return False
    return (
        type(strategy) is DriftSurf
        and strategy.max_rows is not None
        and is_supported(strategy.learner)
        and _begun(strategy, 1, targets.n_classes)._suits
    )


def is_growing(template: Session) -> bool:
    """Return whether each key learns its own classes."""
    return isinstance(template.targets, ClassTargets) and not template.targets.closed


def _begun(strategy: DriftSurf, n_features: int, n_classes: int) -> Any:
    """Return a strategy that has begun to learn."""
    template = strategy.fresh(0)
    template.begin(n_features, sparse=False, n_classes=n_classes)
    return template


def cell_models(strategy: DriftSurf, n_features: int, n_classes: int) -> CellModels:
    """Return models in a cell that have seen no rows."""
    template = _begun(strategy, n_features, n_classes)
    return CellModels(template._pool, template._live, *template._cell_rule())


def key_shape(template: Session, n_features: int, *, fills: bool = False, n_classes: int = 0) -> KeyShape:
    """Return the sizes of a key; ``max_rows`` of the strategy has to be a number.

    With ``fills``, gaps are filled. A key that learns its own classes has ``n_classes``, two if that is 0.
    """
    strategy, growing = template.strategy, is_growing(template)
    assert isinstance(strategy, DriftSurf)
    assert strategy.max_rows is not None
    assert template.batch_size is not None
    classes = (n_classes or TWO) if growing else template.targets.n_classes
    models = cell_models(strategy, n_features, classes)
    rule, training, guarded = models._rule, models._training, template.guard_factor is not None
    return KeyShape(
        n_features,
        template.batch_size,
        int(strategy.max_rows),
        int(strategy.reactive_length),
        strategy.dtype,
        outputs=training.outputs,
        judged=RANGES + 8 * n_features if training.regression else UNITS if rule.prequential else 0,
        valued=training.regression,
        filled=fills,
        guarded=guarded,
        weighted=guarded,
        growing=growing,
        classes=classes,
    )


def key_loop(shape: KeyShape, strategy: DriftSurf, models: CellModels, guard: float | None) -> KeyLoop:
    """Return the native loop over keys of this shape."""
    learner: Any = strategy.learner
    per_batch = -1 if learner.steps_per_batch is None else int(learner.steps_per_batch)
    squared = 1.0 if guard is None else float(guard) ** 2
    guarding = squared, learner.capabilities.quadratic_loss, MARGIN, LEAST_WEIGHT
    return KeyLoop(shape.native, models._rule, models._training, float(learner.steps_per_row), per_batch, guarding)


# ---------------------------------------------------------------------------- one bank


class Bank:
    """Cells of one shape, each in a slot, with the native loop that serves them.

    Parameters
    ----------
    template
        What a key starts with, for which ``suits_cells`` is true; keys differ only in the seed.
    n_features
        Columns of every row.
    fills
        Whether gaps are filled with the means of their key.
    n_classes
        Classes for which there is room, if each key learns its own; two if it is 0.
    weighted
        Whether rows have weights.
    """

    def __init__(
        self, template: Session, n_features: int, *, fills: bool = False, n_classes: int = 0, weighted: bool = False
    ) -> None:
        strategy = template.strategy
        assert isinstance(strategy, DriftSurf)
        self.strategy: DriftSurf = strategy.fresh(0)
        self._guard = template.guard_factor
        shape = key_shape(template, n_features, fills=fills, n_classes=n_classes)
        self.blocks: Blocks = Blocks(0, dataclasses.replace(shape, weighted=shape.weighted or weighted))
        self.count: int = 0
        """Slots that have been in use."""
        self._free: dict[int, None] = {}
        self._set_up()

    def _set_up(self) -> None:
        """Prepare what is not copied or pickled."""
        self.models: CellModels = cell_models(self.strategy, self.shape.n_features, self.shape.classes)
        """Turns a cell into the state of a strategy."""
        self.blank: FloatArray = self.models._cell.judged.copy()
        """Numbers by which models are judged, before the first step."""

    @property
    def shape(self) -> KeyShape:
        """The sizes of a key."""
        return self.blocks.shape

    @functools.cached_property
    def loop(self) -> KeyLoop:
        """The native loop."""
        return key_loop(self.shape, self.strategy, self.models, self._guard)

    @functools.cached_property
    def room(self) -> Room:
        """Working memory for one thread."""
        return Room(self.loop)

    @property
    def used(self) -> int:
        """Bytes of the keys."""
        own = self.blocks
        return (self.count - len(self._free)) * self.shape.block_bytes + own.rows.used() + own.norms.used()

    def use(self, blocks: Blocks) -> None:
        """Use other memory."""
        if blocks.shape != self.shape:
            vars(self).pop("loop", None)
            vars(self).pop("room", None)
        self.blocks = blocks

    # -------------------------------------------------------------------- slots

    def reserve(self, count: int, *, weighted: bool = False) -> None:
        """Allocate memory for this many slots; an error changes nothing.

        Rows take memory for their weights once any of them has one (``weighted``).
        """
        if weighted and not self.shape.weighted:
            self.use(self.blocks.with_weights())
        if count > len(self.blocks):
            self.use(self.blocks.grown(max(LEAST_SLOTS, 2 * count), self.count))

    def begin(self, slots: IntArray, seeds: npt.NDArray[np.uint64]) -> None:
        """Make the first models of some slots."""
        self.blocks.clear(slots)
        self.loop.begin(self.blocks.bytes, slots, seeds, self.blank, self.room)

    def take_slots(self, count: int) -> IntArray:
        """Return so many free slots, after making more if there are too few."""
        missing = count - len(self._free)
        if missing > 0:
            self.reserve(self.count + missing)
            self._free.update(dict.fromkeys(range(self.count, self.count + missing)))
            self.count += missing
        return np.array([self._free.popitem()[0] for _ in range(count)], np.int64)

    def give_up(self, slots: Sequence[int]) -> None:
        """Free slots and the memory for their rows; doing it again changes nothing."""
        self.blocks.clear(list(slots))
        self._free.update(dict.fromkeys(slots))

    # -------------------------------------------------------------------- cells from elsewhere

    def take_over(self, slot: int, other: Bank, place: int, targets: ClassTargets) -> None:
        """Copy a key of another bank to a free slot; its models grow for the classes of the rows that wait."""
        rows, own = other.waiting(place), other.blocks
        larger = other.models_of(place).with_classes_of(rows[1])
        assert larger is not None
        self.begin(np.array([slot]), own.counts["seed"][place : place + 1].copy())
        self.copy_cell(slot, larger._cell, *rows)
        self.blocks.keys[slot] = own.keys[place]
        self.blocks.means[slot], self.blocks.guard[slot] = own.means[place], own.guard[place]
        self.name_classes(slot, targets)
        if self.shape.guarded:
            counts = own.keys["norms"][place : place + 1].astype(np.int64)
            self._put_norms(slot, own.norms.read(np.array([place]), 0, 0, counts, np.float64))

    def name_classes(self, slot: int, targets: ClassTargets) -> None:
        """Set the order of the classes of a key by name."""
        if self.blocks.names.shape[1]:
            self.blocks.names[slot] = np.argsort(targets.array[: self.shape.classes])

    def models_of(self, slot: int) -> CellModels:
        """Return the models of a key, as views that are valid until another one is asked for."""
        cell, models = self.blocks.cell(slot, self.blank), self.models
        models._cell = cell
        models._log, models._pool.seed = None, int(cell.counts["seed"][0])
        return models

    def waiting(self, slot: int) -> tuple[DenseRows, FloatArray, FloatArray]:
        """Return the rows of a key that wait, their labels and weights."""
        counts, stored = self.blocks.counts[slot], self.blocks.stored(slot)
        start = int(counts["next"] - counts["base"])
        places = slice(start, start + int(self.blocks.keys["pending"][slot]))
        weight = stored.weight[places] if self.shape.weighted else np.ones(places.stop - start)
        return stored.X[places], stored.y[places].astype(np.float64), weight

    def put(self, slot: int, session: Session, means: ColumnMeans | None) -> bool:
        """Copy the models of a session, its rows that wait, and the means of columns to a free slot.

        Returns whether they fit. Classes are left to the caller.
        """
        strategy: Any = session.strategy
        self.begin(np.array([slot]), np.array([strategy.seed & MASK], np.uint64))
        if session.schema is not None and not self._copied_from(slot, session):
            return False
        if means is not None:
            self.blocks.means[slot] = means.totals
        return True

    def _copied_from(self, slot: int, session: Session) -> bool:
        strategy: Any = session.strategy
        models: CellModels | None = strategy._cell
        if models is None:
            pool, live, prequential = strategy._pool, strategy._live, self.models._rule.prequential
            if pool.n_classes != self.shape.classes or not fits_cell(pool, live, prequential=prequential):
                return False
            models = CellModels(pool, live, self.models._rule, {})
        pending, cell, shape = session._pending, models._cell, self.shape
        assert pending is not None
        base, first, stop = (cell.counts[name].item() for name in ("base", "first", "next"))
        if models._training.outputs != shape.outputs or pending.first_row != stop:
            return False
        if stop - first + shape.batch_size > shape.places or len(pending) >= shape.batch_size:
            return False
        rows = pending.view(Segment(pending.first_row, pending.next_row))
        plain = bool((cell.weight[first - base : stop - base] == 1.0).all() and (rows.weight == 1.0).all())
        if not (plain or shape.weighted) or stop != cell.counts["step"].item() * shape.batch_size:
            return False
        self.copy_cell(slot, cell, rows.X, rows.y, rows.weight)
        if shape.guarded:
            self._copy_guard(slot, session)
        return True

    def copy_cell(self, slot: int, cell: Any, X: Any, y: FloatArray, weight: FloatArray) -> None:
        """Copy a cell, and rows that wait, to a slot that has begun."""
        blocks, shape = self.blocks, self.shape
        base, first, stop = (cell.counts[name].item() for name in ("base", "first", "next"))
        live, n, waiting = slice(first - base, stop - base), stop - first, len(y)
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
        stored.X[all_rows], stored.y[all_rows] = X, y
        if shape.weighted:
            stored.weight[:n], stored.weight[all_rows] = cell.weight[live], weight
        blocks.keys["pending"][slot] = waiting

    def _copy_guard(self, slot: int, session: Session) -> None:
        guard: dict[str, Any] = dict(pick("guard", session._now.state()))
        targets = session.targets
        for name, row in GUARD_ROWS.items():
            if name in guard:
                self.blocks.guard[slot, row] = guard[name]
        self.blocks.keys["norms"][slot] = len(guard["recent"])
        self._put_norms(slot, guard["recent"])
        if isinstance(targets, RegressionTargets) and targets.bounded:
            self.blocks.range[slot] = targets.low, targets.high

    def _put_norms(self, slot: int, norms: FloatArray) -> None:
        slots, counts = np.array([slot]), np.array([len(norms)])
        self.blocks.norms = self.blocks.norms.with_places(slots, counts)
        self.blocks.norms.write(slots, 0, 0, counts, norms)

    # -------------------------------------------------------------------- reading

    def predict(self, rows: DenseRows, slots: Slots) -> npt.NDArray[Any]:
        """Return the code, or the number, that the model of each row's key predicts."""
        predicted = np.empty(len(rows), self.shape.label_type)
        self.loop.predict(self.blocks.memory, rows, slots, predicted, self.room)
        return predicted

    def weights(self, slot: int) -> FloatArray:
        """Return the weights that predict a key's next row, the intercept last; several classes have a row each."""
        counts, K = self.blocks.counts[slot], self.shape.outputs
        weights: FloatArray = self.blocks.raw[slot, counts["predictive"] ^ counts["challenged"]].copy()
        return weights if K == 1 else weights.reshape(K, -1)

    def summary(self, slots: IntArray) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the table of some keys."""
        keys, counts = self.blocks.keys[slots], self.blocks.counts[slots]
        rows = counts["next"] + keys["pending"]
        rival = self.blocks.models["born"][slots, 1 - counts["predictive"]]
        # A stable model that was made for the next step counts from that step on, as in the decisions of a session.
        unused = (counts["rival"] == STABLE) & (rival == counts["step"])
        return {
            "rows": rows,
            "steps": counts["step"].copy(),
            "state": np.where(counts["reactive_step"] > 0, "reactive", "stable"),
            "error": np.divide(keys["errors"] + keys["waiting"], rows, out=np.full(len(keys), np.nan), where=rows > 0),
            "models": counts["made"] - unused,
            "transitions": keys["transitions"].copy(),
            "last_transition": np.array(["", *KINDS])[keys["last_kind"]],
            "last_step": np.where(keys["transitions"] > 0, keys["last_step"], -1),
            "refused": keys["refused"].copy(),
            "quarantine": np.array(REASONS)[keys["quarantine"]],
        }

    def means(self, slot: int) -> ColumnMeans | None:
        """Return a copy of the means that fill gaps, if they do."""
        return ColumnMeans(self.blocks.means[slot].copy()) if self.shape.filled else None

    def session_state(self, slot: int, targets: ClassTargets | RegressionTargets) -> State:
        """Return the state of a session that continues with the models of one key."""
        blocks, shape, models = self.blocks, self.shape, self.models_of(slot)
        live, pool = models.incremental_state()
        saved: Any = {"strategy": type(self.strategy).__name__} | self.strategy._saved(live) | nest("pool", pool)
        step, known = int(blocks.counts["step"][slot]), blocks.range[slot]
        learned = int(blocks.keys["learned"][slot]) if shape.growing else shape.classes if step else 0
        if isinstance(targets, RegressionTargets) and len(known):
            targets = dataclasses.replace(targets, low=float(known[0]), high=float(known[1]))
        state: State = {"steps": step, "n_classes_learned": learned, "started": True}
        state |= nest("strategy", resolved(saved)) | nest("pending", pending_state(blocks, slot))
        if self._guard is not None:
            state |= nest("guard", guard_state(blocks, slot, self._guard))
        state |= nest("schema", {"n_features": shape.n_features, "sparse": False, "names": ""})
        return state | nest("classes", targets.state())

    # -------------------------------------------------------------------- saved

    def state(self, slots: IntArray, *, by_role: bool = False) -> State:
        """Return everything about some keys that decides what comes next, except for their seeds and classes."""
        state = blocks_state(self.blocks, slots, scaled=self.models._training.scaled, by_role=by_role)
        return state if self._guard is None else state | guards_state(self.blocks, slots)

    def restored(self, state: Mapping[str, Any], seeds: npt.NDArray[np.uint64]) -> Blocks:
        """Return the memory of the keys that ``state`` was called for; StateError if the entries do not fit together.

        Classes are left to the caller, and then ``complete``.
        """
        shape = dataclasses.replace(self.shape, weighted=self.shape.guarded or "row_weights" in state)
        models = self.models
        return restored_blocks(state, seeds, shape, models._rule, models._training)

    def complete(self, blocks: Blocks) -> None:
        """Work out what follows from saved numbers."""
        self.loop.complete(blocks.memory, len(blocks), self.room)

    def set_classes(self, blocks: Blocks, known: IntArray, learned: IntArray, state: Mapping[str, Any]) -> None:
        """Set the numbers of classes that keys know, and knew at their last time step; StateError if they do not fit.

        Compiled code finds the gradients of a row by its code.
        """
        n, room = len(blocks), self.shape.classes
        waiting = blocks.keys["pending"].astype(np.int64)
        first = blocks.counts["next"] - blocks.counts["base"]
        before = _largest_codes(blocks, np.zeros(n, np.int64), first), np.minimum(learned, room)
        after = _largest_codes(blocks, first, waiting), known
        grown = (learned == room) | (blocks.counts["step"] == 0) if room > TWO else learned <= room
        if not (grown & (learned <= known)).all() or not all(
            (most < np.maximum(1, end)).all() for most, end in (before, after)
        ):
            raise misfit(state, "learned", "contradicts the number of classes")
        blocks.keys["known"], blocks.keys["learned"] = known, learned

    # -------------------------------------------------------------------- the bytes of single keys

    @functools.cached_property
    def _bytes(self) -> CellBytes:
        return CellBytes(self._cells(np.zeros(0, np.int64)))

    @functools.cached_property
    def _unused(self) -> Sequence[float]:
        """Fields of a contest that no step uses, which are not saved with a session either."""
        return Contest().numbers[self.strategy._contest :]

    def _cells(self, slots: IntArray) -> State:
        state = dict(self.state(slots, by_role=True))
        if self.shape.judged:
            np.asarray(state["judged"])[:, CREDIT - len(self._unused) : CREDIT] = self._unused
        return state | ({"learned": self.blocks.keys["learned"][slots]} if self.shape.growing else {})

    def saved(self, slots: IntArray) -> list[bytes]:
        """Return the bytes of keys, without their labels."""
        return self._bytes.write(self._cells(slots), element_counts(self.blocks, slots), self.shape.outputs)

    def sizes(self, slots: IntArray) -> IntArray:
        """Return how many bytes ``saved`` gives for each key."""
        return self._bytes.sizes(element_counts(self.blocks, slots), self.shape.outputs)

    def load(
        self, slots: IntArray, cells: Sequence[Bytes], known: Sequence[int], seeds: npt.NDArray[np.uint64]
    ) -> None:
        """Read keys that ``saved`` gave, which know so many classes, into free slots.

        StateError for bytes that are not such cells.
        """
        state = dict(self._bytes.read(cells, self.shape.outputs))
        learned: Any = state.pop("learned", None)
        blocks = self.restored(state, seeds)
        if learned is not None:
            self.set_classes(blocks, np.array(known, np.int64), learned.astype(np.int64), state)
        self.complete(blocks)
        self.blocks.put(slots, blocks)

    # -------------------------------------------------------------------- copies

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied and pickled: the memory of keys that is in use."""
        made = "models", "blank", "loop", "room", "_bytes"
        own = {name: value for name, value in vars(self).items() if name not in made}
        return own | {"blocks": self.blocks.compact(self.count)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._set_up()


def _largest_codes(blocks: Blocks, first: IntArray, counts: IntArray) -> IntArray:
    """Return the largest code of a label among some stored rows of each key; 0 if there are none."""
    slots = np.arange(len(blocks))
    codes = blocks.rows.read(slots, blocks.shape.y_part, first, counts, np.uint8)
    most = np.zeros(len(blocks), np.int64)
    np.maximum.at(most, np.repeat(slots, counts), codes)
    return most


# ---------------------------------------------------------------------------- the banks of a store


class Banks:
    """The banks of a store: the first one has a slot for each key, and others hold the keys with more classes.

    A key moves at the time step that first learns a further class. Its slot in the first bank then stays empty.

    Parameters
    ----------
    template, n_features, fills
        As for :class:`Bank`.
    fits
        Returns whether keys may have a shape; None if they may have any.
    """

    def __init__(
        self, template: Session, n_features: int, *, fills: bool = False, fits: Callable[[KeyShape], bool] | None = None
    ) -> None:
        self.base: Bank = Bank(template, n_features, fills=fills)
        self.larger: dict[int, Bank] = {}
        """Banks by the number of classes."""
        self._template, self._fits = template, fits
        self._classes: IntArray = np.zeros(0, np.int64)
        """The bank of each slot; 0 for the first one."""
        self._places: IntArray = np.zeros(0, np.int64)
        """The slot of each key that has moved in its bank."""

    @property
    def all(self) -> list[Bank]:
        """All banks."""
        return [self.base, *self.larger.values()]

    def of(self, n_classes: int) -> Bank | None:
        """Return the bank for keys with this number of classes; None if there cannot be one."""
        shape = self.base.shape
        if n_classes <= shape.classes or not shape.growing:
            return self.base if n_classes <= shape.classes else None
        if n_classes not in self.larger:
            how: dict[str, Any] = {"fills": shape.filled, "n_classes": n_classes}
            if n_classes > MOST_OWN or not (
                self._fits is None or self._fits(key_shape(self._template, shape.n_features, **how))
            ):
                return None
            self.larger[n_classes] = Bank(self._template, shape.n_features, weighted=shape.weighted, **how)
        return self.larger[n_classes]

    def reserve(self, count: int, *, weighted: bool = False) -> None:
        """Allocate memory for this many slots in the first bank; an error changes nothing."""
        for bank in self.all:
            bank.reserve(count if bank is self.base else 0, weighted=weighted)
        missing = len(self.base.blocks) - len(self._classes)
        if missing > 0:
            self._places = np.append(self._places, np.zeros(missing, np.int64))
            self._classes = np.append(self._classes, np.zeros(missing, np.int64))

    def find(self, slot: int) -> tuple[Bank, int]:
        """Return the bank of a key, and its slot there."""
        n = int(self._classes[slot])
        return (self.larger[n], int(self._places[slot])) if n else (self.base, slot)

    def locate(self, slot: int, bank: Bank, place: int) -> None:
        """Note that a key has moved."""
        self._places[slot] = place
        self._classes[slot] = bank.shape.classes

    def move_back(self, slots: IntArray) -> None:
        """Give up the slots of keys that have moved; their slots in the first bank are in use again."""
        for slot in slots[self._classes[slots] > 0].tolist():
            bank, place = self.find(slot)
            self.base.blocks.keys[slot], self.base.blocks.means[slot] = (
                bank.blocks.keys[place],
                bank.blocks.means[place],
            )
            self._classes[slot] = 0
            bank.give_up([place])

    def begin_with(self, slot: int, targets: ClassTargets) -> None:
        """Let a key without rows begin with more than two classes."""
        bank, own = self.of(len(targets.labels)), self.base.blocks
        assert bank is not None
        (place,) = bank.take_slots(1).tolist()
        bank.begin(np.array([place]), own.counts["seed"][slot : slot + 1].copy())
        bank.blocks.keys[place], bank.blocks.means[place] = own.keys[slot], own.means[slot]
        bank.name_classes(place, targets)
        self.locate(slot, bank, place)

    def moved(self, slots: IntArray) -> IntArray:
        """Return those of some keys that have moved."""
        chosen: IntArray = slots[self._classes[slots] > 0]
        return chosen

    def by_bank(self, slots: IntArray | Slots) -> Iterator[tuple[Bank, IntArray, Any]]:
        """Yield each bank with keys of these, which of them those are, and their slots in it."""
        classes = self._classes[slots]
        if not classes.any():
            yield self.base, np.arange(len(slots)), slots
            return
        for n in np.unique(classes).tolist():
            (chosen,) = np.nonzero(classes == n)
            yield (self.larger[n], chosen, self._places[slots[chosen]]) if n else (self.base, chosen, slots[chosen])

    def read(self, name: str, slots: IntArray | Slots) -> npt.NDArray[Any]:
        """Return one of the numbers that are counted for each key, or for its cell."""
        of_key = name in (KEY.names or ())
        made = np.zeros(len(slots), (self.base.blocks.keys if of_key else self.base.blocks.counts)[name].dtype)
        for bank, chosen, places in self.by_bank(slots):
            made[chosen] = (bank.blocks.keys if of_key else bank.blocks.counts)[name][places]
        return made

    def write(self, name: str, slots: IntArray | Slots, values: Any) -> None:
        """Set one of the numbers that are counted for each key."""
        values = np.broadcast_to(values, slots.shape)
        for bank, chosen, places in self.by_bank(slots):
            bank.blocks.keys[name][places] = values[chosen]

    def summary(self, slots: IntArray) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the table of some keys."""
        table: dict[str, npt.NDArray[Any]] = {}
        for bank, chosen, places in self.by_bank(slots):
            for name, column in bank.summary(places).items():
                table.setdefault(name, np.zeros(len(slots), column.dtype))[chosen] = column
        return table or self.base.summary(slots)

    def predict(self, rows: DenseRows, slots: Slots) -> npt.NDArray[Any]:
        """Return the code, or the number, that the model of each row's key predicts."""
        predicted = np.empty(len(rows), self.base.shape.label_type)
        for bank, chosen, places in self.by_bank(slots):
            some = rows if len(chosen) == len(rows) else rows[chosen]
            predicted[chosen] = bank.predict(some, places.astype(np.int32, copy=False))
        return predicted

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied and pickled: the memory of keys that is in use."""
        n = self.base.count
        return vars(self) | {"_classes": self._classes[:n].copy(), "_places": self._places[:n].copy()}
