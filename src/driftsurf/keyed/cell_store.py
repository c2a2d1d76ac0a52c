"""Stores of the models of keys: their protocol, and one with a cell for each key, served by one native loop."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from driftsurf.core.changes import ChangeLock
from driftsurf.core.contracts import DenseRows, FloatArray, IntArray, State
from driftsurf.core.decisions import Transition
from driftsurf.core.frames import TargetLike, unmasked
from driftsurf.core.state import nest, resolved
from driftsurf.core.targets import MARGIN, ClassTargets, RegressionTargets
from driftsurf.errors import DivergenceError, InputError
from driftsurf.keyed.keys import Threads
from driftsurf.keyed.layout import COMPLETE, REASONS, Blocks, Codes, KeyShape, StepLog
from driftsurf.keyed.record import TRANSITION, TransitionRecord, transitions_of
from driftsurf.keyed.rows import Slots, by_slot
from driftsurf.keyed.saved import blocks_state, guard_state, guards_state, pending_state, restored_blocks
from driftsurf.native.store import KeyLoop, Room
from driftsurf.session.session import LEAST_WEIGHT, Session
from driftsurf.strategies import DriftSurf
from driftsurf.strategies._cell_arrays import KINDS, RANGES, STABLE, UNITS
from driftsurf.strategies._cell_models import CellModels
from driftsurf.strategies.cell import is_supported


class KeyStore(Protocol):
    """The models of all keys of a fleet. A key is known by its slot: 0, 1, 2 ... in order of appearance.

    :class:`~driftsurf.keyed.Fleet` reads rows and finds slots; a backend reads labels, predicts and learns. There are
    three: :class:`~driftsurf.keyed.cell_store.CellStore` serves DriftSurf around a linear learner in one native loop,
    :class:`~driftsurf.keyed.growing_store.GrowingStore` the same with classes that are not named, and
    :class:`~driftsurf.keyed.session_store.SessionStore` any model.
    """

    @property
    def bytes_per_key(self) -> int:
        """Bytes that a key takes."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes allocated for keys."""
        ...

    def reserve(self, n_keys: int, *, weighted: bool = False) -> None:
        """Allocate memory for this many keys, so that ``add`` cannot fail; an error changes nothing.

        With ``weighted``, the rows that follow have weights.
        """
        ...

    def add(self, seeds: npt.NDArray[np.uint64]) -> None:
        """Make the first models of new keys, in the next slots."""
        ...

    def truncate(self, n_keys: int) -> None:
        """Remove every key from this slot on, from any point of ``add``."""
        ...

    def read_labels(self, y: TargetLike, n_rows: int) -> tuple[Any, Codes]:
        """Return labels as ``prepare`` takes them, and the reason why each cannot be learned, by code.

        The reasons are empty if there are none, or if ``prepare`` will find them.
        """
        ...

    def prepare(self, rows: DenseRows, labels: Any, bad: Codes, slots: Slots, weight: FloatArray | None = None) -> Any:
        """Prepare to predict each row with its key's model as it is when the row arrives, then to learn it.

        ``bad`` holds the reason why a row cannot be learned, 0 if it can; it is empty if all rows can. Returns the
        work, for ``learn``; nothing changes before. An error changes nothing.
        """
        ...

    def learn(self, work: Any) -> None:
        """Carry out prepared work."""
        ...

    def complete(self, work: Any) -> bool:
        """Complete work that an exception broke off; return False, and change nothing, if no row was learned yet.

        If this is broken off, calling it again completes it; on complete work it does nothing.
        """
        ...

    def predicted(self, work: Any) -> npt.NDArray[Any]:
        """Return the predicted label of each row of complete work."""
        ...

    def faults(self, work: Any) -> dict[int, Exception]:
        """Return why time steps of complete work failed, by slot; these keys are in quarantine."""
        ...

    def predict(self, rows: DenseRows, slots: Slots) -> npt.NDArray[Any]:
        """Return the label, or number, that the model of each row's key predicts."""
        ...

    def weights(self, slot: int) -> FloatArray:
        """Return the weights that predict a key's next row, the intercept last."""
        ...

    def readmit(self, slots: Slots) -> None:
        """End the quarantine of keys."""
        ...

    def summary(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the table of keys, by slot."""
        ...

    def transitions(self, keys: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """Return the latest transitions of all keys, whose names by slot are ``keys``."""
        ...

    def journal(self, slot: int) -> list[Transition]:
        """Return the latest transitions of one key."""
        ...

    def session(self, slot: int, fresh: Session) -> Session:
        """Return a session that continues with a copy of the models of one key.

        ``fresh`` is the session that this key began with; a backend may change and return it.
        """
        ...

    def state(self) -> State:
        """Return everything that decides what comes next, except for the seeds of keys."""
        ...

    def restore(self, state: Mapping[str, Any], seeds: npt.NDArray[np.uint64]) -> None:
        """Replace all models by those of ``state()``."""
        ...


LEAST_ROOM = 64
MOST_CLASSES = 256
"""Codes of classes are single bytes."""


class Share(NamedTuple):
    """The groups of one thread, with the memory that it needs."""

    groups: tuple[Any, ...]
    room: Room
    log: StepLog
    lock: ChangeLock
    """Held while the loop runs, since a thread may still run when nobody waits for it any more."""


class Work:
    """The learning of one call, in shares for several threads, which allocates nothing that could fail half-way.

    Exceptions come between lines of Python, never inside the loop over a share, and the loop itself notes in the log of
    the share that it is complete; it does nothing to a share that is. So if an exception breaks the work off,
    ``finish`` completes it.
    """

    def __init__(
        self,
        serve: Callable[[Share], None],
        shares: list[Share],
        predicted: npt.NDArray[Any],
        touched: IntArray,
        diverged: npt.NDArray[np.bool_],
    ) -> None:
        self.predicted = predicted
        self._serve = serve
        self._shares = shares
        self._touched, self._diverged = touched, diverged
        self._started = False
        self._transitions: npt.NDArray[Any] | None = None

    def carry_out(self, threads: Threads) -> None:
        """Learn the rows, on several threads if there are several shares."""
        if len(self._shares) > 1:
            self._started = True
        threads.map(self._run, self._shares)

    def finish(self) -> bool:
        """Complete work that an exception broke off; return False, and do nothing, if no row was learned yet.

        If this is broken off, calling it again completes it.
        """
        if not self.begun:
            return False
        for share in self._shares:
            self._run(share)
        return True

    @property
    def begun(self) -> bool:
        """Whether any row may have been learned."""
        return self._started or bool(self._shares[0].log.length[COMPLETE])

    def _run(self, share: Share) -> None:
        with share.lock:
            self._serve(share)

    @property
    def transitions(self) -> npt.NDArray[Any]:
        """The transitions of the completed work, the same object each time."""
        if self._transitions is None:
            parts = []
            for (slots, *_), _, log, _ in self._shares:
                if n := int(log.length[0]):
                    parts.append(transitions_of(slots[log.group[:n]], log.place[:n], log.whole[:n], log.real[:n]))
            self._transitions = np.concatenate(parts) if parts else np.empty(0, TRANSITION)
        return self._transitions

    @property
    def diverged(self) -> IntArray:
        """The slots in which training diverged."""
        slots: IntArray = self._touched[self._diverged]
        return slots


class CellStore:
    """A block of memory per key, served by a native loop on several threads, for a closed set of labels or for numbers.

    Implements :class:`~driftsurf.keyed.cell_store.KeyStore`.

    Parameters
    ----------
    template
        What a key starts with, for which ``suits_cells`` is true; keys differ only in the seed.
    n_features
        Columns of every row.
    threads
        Threads to use.
    tolerant
        Whether a label that cannot be learned puts its key in quarantine; if not, it is an error.
    fills
        Whether rows are float64 with NaN for gaps, which are filled with the means of their key.
    """

    growing = False
    """Whether each key learns its own classes."""

    def __init__(
        self, template: Session, n_features: int, threads: Threads, *, tolerant: bool, fills: bool = False
    ) -> None:
        targets, strategy = template.targets, template.strategy
        assert isinstance(strategy, DriftSurf)
        assert template.batch_size is not None
        self._targets, self._tolerant = targets, tolerant
        self._strategy, self._guard = strategy.fresh(0), template.guard_factor
        self._n_classes = 2 if self.growing else targets.n_classes
        self._shape = key_shape(template, n_features, fills=fills, growing=self.growing)
        self._threads = threads
        self._set_up()
        self._n_keys = 0
        self._blocks = Blocks(0, self._shape)
        self._record = TransitionRecord()

    def _set_up(self) -> None:
        """Prepare what is not copied or pickled."""
        self._models = cell_models(self._strategy, self._shape.n_features, self._n_classes)
        """Turns a cell into the state of a strategy."""
        self._blank: FloatArray = self._models._cell.judged.copy()
        """Numbers by which models are judged, before the first step."""

    @functools.cached_property
    def _loop(self) -> KeyLoop:
        return key_loop(self._blocks.shape, self._strategy, self._models, self._guard)

    @property
    def bytes_per_key(self) -> int:
        """Mean of the bytes that a key takes; those that it takes at most, if there is none yet."""
        return self._blocks.used(slice(0, self._n_keys)) // self._n_keys if self._n_keys else self._shape.most_bytes

    @property
    def nbytes(self) -> int:
        """Bytes allocated for keys."""
        return self._blocks.nbytes

    # -------------------------------------------------------------------- learning

    def reserve(self, n_keys: int, *, weighted: bool = False) -> None:
        """Allocate memory for this many keys, so that ``add`` cannot fail; an error changes nothing.

        Rows take memory for their weights once any of them has one (``weighted``).
        """
        if weighted and not self._blocks.shape.weighted:
            self._use(self._blocks.with_weights())
        if n_keys > len(self._blocks):
            self._use(self._blocks.grown(max(LEAST_ROOM, 2 * n_keys), self._n_keys))

    def _use(self, blocks: Blocks) -> None:
        if blocks.shape != self._blocks.shape:
            vars(self).pop("_loop", None)
            vars(self).pop("_room", None)
        self._blocks = blocks

    def add(self, seeds: npt.NDArray[np.uint64]) -> None:
        """Make the first models of new keys, in the next slots."""
        start, stop = self._n_keys, self._n_keys + len(seeds)
        if start < stop:
            self._begin(np.arange(start, stop), seeds)
            self._n_keys = stop

    def _begin(self, slots: IntArray, seeds: npt.NDArray[np.uint64]) -> None:
        """Make the first models of some slots."""
        self._blocks.clear(slots)
        self._loop.begin(self._blocks.bytes, slots, seeds, self._blank, self._room)

    def truncate(self, n_keys: int) -> None:
        """Remove every key from this slot on, from any point of ``add``."""
        self._n_keys = n_keys

    def read_labels(self, y: TargetLike, n_rows: int) -> tuple[npt.NDArray[Any], Codes]:
        """Return the codes of labels, or numbers, and the reason why each is bad (empty if none is)."""
        labels = np.asarray(unmasked(y, "y"))
        known = self._targets.labels
        if len(known) == 2 and labels.shape == (n_rows,):  # two comparisons, the usual case
            first, second = labels == known[0], labels == known[1]
            if (first | second).all():
                return second.view(np.uint8), np.zeros(0, np.uint8)
        try:
            return self._targets.read(y, n_rows)[1].astype(self._shape.label_type), np.zeros(0, np.uint8)
        except InputError:
            if not self._tolerant or labels.shape != (n_rows,):
                raise
        codes, unknown = self._found(labels)
        return codes, unknown * np.uint8(REASONS.index("bad_label"))

    def _found(self, labels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return the codes of labels, or numbers, and which of them cannot be learned; these have the code 0."""
        codes, unknown = np.zeros(len(labels), self._shape.label_type), np.ones(len(labels), np.bool_)
        for code, label in enumerate(self._targets.labels):
            own = labels == label
            codes[own], unknown = code, unknown & ~own
        if self._shape.valued:
            for place in range(len(labels)):
                try:
                    codes[place], unknown[place] = self._targets.read(labels[place : place + 1], 1)[1][0], False
                except InputError:
                    continue
        return codes, unknown

    def prepare(
        self, rows: DenseRows, codes: npt.NDArray[Any], bad: Codes, slots: Slots, weight: FloatArray | None = None
    ) -> Any:
        """Prepare to predict each row with its key's model as it is when the row arrives, then to learn it.

        All memory is allocated here, before any thread starts, so that none can fail when others have learned.
        """
        touched, starts, order = by_slot(slots, self._n_keys)
        blocks, loop = self._blocks, self._loop
        steps = blocks.make_room(loop, touched, starts)
        diverged = np.zeros(len(touched), np.bool_)
        parts = list(_shares(starts, self._threads.shares(len(rows))))
        # Threads may still read the rows when an exception has given the caller's array back to the caller.
        rows = self._copied(rows) if len(parts) > 1 else rows
        predicted = np.empty(len(rows), self._shape.label_type)
        batch = rows, codes, weight, bad if len(bad) else None, True, predicted, None
        memory = blocks.memory

        def serve(share: Share) -> None:
            loop.observe(memory, batch, share.groups, share.log, share.room)

        # A thread may outlive its call, so only a single share can use the same memory again.
        alone = len(parts) == 1
        shares = [
            Share(
                (touched[part], starts[part.start : part.stop + 1], order, diverged[part], None),
                self._room if alone else Room(loop),
                StepLog.of(int(steps[part].sum()), every=False),
                ChangeLock(),
            )
            for part in parts
        ]
        return Work(serve, shares, predicted, touched, diverged)

    def _copied(self, rows: DenseRows) -> DenseRows:
        """Return a copy of rows, which several threads make."""
        made = np.empty_like(rows)
        self._threads.map(lambda part: np.copyto(made[part], rows[part]), self._threads.parts(len(rows)))
        return made

    @functools.cached_property
    def _room(self) -> Room:
        """Working memory for calls with a single share."""
        return Room(self._loop)

    def learn(self, work: Any) -> None:
        """Carry out prepared work."""
        work.carry_out(self._threads)
        self._record.add(work.transitions)

    def complete(self, work: Any) -> bool:
        """Complete work that an exception broke off; return False, and change nothing, if no row was learned yet."""
        begun: bool = work.finish()
        if begun:
            self._record.add(work.transitions)
        return begun

    def predicted(self, work: Any) -> npt.NDArray[Any]:
        """Return the predicted label of each row."""
        return self._targets.decode(work.predicted)

    def faults(self, work: Any) -> dict[int, Exception]:
        """Return the errors of time steps that failed, by slot."""
        return {int(slot): DivergenceError("training diverged") for slot in work.diverged}

    def readmit(self, slots: Slots) -> None:
        """End the quarantine of keys."""
        self._blocks.keys["quarantine"][slots] = 0

    # -------------------------------------------------------------------- reading

    def predict(self, rows: DenseRows, slots: Slots) -> npt.NDArray[Any]:
        """Return the label that the model of each row's key predicts."""
        return self._targets.decode(self._predicted_codes(rows, slots))

    def _predicted_codes(self, rows: DenseRows, slots: Slots) -> npt.NDArray[Any]:
        """Return the code, or the number, that the model of each row's key predicts."""
        predicted = np.empty(len(rows), self._shape.label_type)
        self._loop.predict(self._blocks.memory, rows, slots, predicted, self._room)
        return predicted

    def weights(self, slot: int) -> FloatArray:
        """Return the weights that predict a key's next row, the intercept last; several classes have a row each."""
        counts, K = self._blocks.counts[slot], self._shape.outputs
        weights: FloatArray = self._blocks.raw[slot, counts["predictive"] ^ counts["challenged"]].copy()
        return weights if K == 1 else weights.reshape(K, -1)

    def summary(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the table of keys, by slot."""
        return self._summary(slice(0, self._n_keys))

    def _summary(self, part: slice) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the table of some keys."""
        keys, counts = self._blocks.keys[part], self._blocks.counts[part]
        rows = counts["next"] + keys["pending"]
        rival = self._blocks.models["born"][part][np.arange(len(keys)), 1 - counts["predictive"]]
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

    def transitions(self, keys: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """Return the latest transitions of all keys, whose names by slot are ``keys``."""
        return self._record.table(keys)

    def journal(self, slot: int) -> list[Transition]:
        """Return the latest transitions of one key."""
        return [one.named(self._labels_of(slot)) for one in self._record.of_slot(slot)]

    def _labels_of(self, slot: int) -> tuple[Any, ...]:
        return self._targets.labels

    # -------------------------------------------------------------------- state

    def session(self, slot: int, fresh: Session) -> Session:
        """Return a session that continues with a copy of the models of one key."""
        fresh.restore(self._session_state(slot))
        return fresh

    def _session_state(self, slot: int) -> State:
        """Return the state of a session that continues with the models of one key."""
        blocks, models, strategy = self._blocks, self._models, self._strategy
        cell = blocks.cell(slot, self._blank)
        models._cell = cell
        models._log, models._pool.seed = None, int(cell.counts["seed"][0])
        live, pool = models.incremental_state()
        saved: Any = {"strategy": type(strategy).__name__} | strategy._saved(live) | nest("pool", pool)
        step = int(cell.counts["step"][0])
        learned = int(blocks.keys["learned"][slot]) if self.growing else self._n_classes if step else 0
        state: State = {"steps": step, "n_classes_learned": learned, "started": True}
        state |= nest("strategy", resolved(saved)) | nest("pending", pending_state(blocks, slot))
        if self._guard is not None:
            state |= nest("guard", guard_state(blocks, slot, self._guard))
        state |= nest("schema", {"n_features": self._shape.n_features, "sparse": False, "names": ""})
        return state | nest("classes", self._targets_of(slot).state())

    def _targets_of(self, slot: int) -> ClassTargets | RegressionTargets:
        """Return the labels, or what a key knows about the numbers to predict."""
        targets, known = self._targets, self._blocks.range[slot]
        if isinstance(targets, RegressionTargets) and len(known):
            return dataclasses.replace(targets, low=float(known[0]), high=float(known[1]))
        return targets

    def state(self) -> State:
        """Return everything that decides what comes next, except for the seeds of keys."""
        slots = np.arange(self._n_keys)
        state = blocks_state(self._blocks, slots, scaled=self._models._training.scaled)
        return state if self._guard is None else state | guards_state(self._blocks, slots)

    def restore(self, state: Mapping[str, Any], seeds: npt.NDArray[np.uint64]) -> None:
        """Replace all models by those of ``state()``; StateError if the entries do not fit together."""
        self._take(self._loaded(state, seeds))

    def _loaded(self, state: Mapping[str, Any], seeds: npt.NDArray[np.uint64]) -> Blocks:
        shape = dataclasses.replace(self._shape, weighted=self._shape.guarded or "row_weights" in state)
        models = self._models
        return restored_blocks(state, seeds, shape, models._rule, models._training, self._n_classes)

    def _take(self, blocks: Blocks) -> None:
        """Replace all models."""
        self._use(blocks)
        self._n_keys = len(blocks)
        self._loop.complete(blocks.memory, len(blocks), self._room)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied and pickled: the memory of keys that is in use."""
        made = "_models", "_blank", "_loop", "_room"
        own = {name: value for name, value in vars(self).items() if name not in made}
        return own | {"_blocks": self._blocks.compact(self._n_keys)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._set_up()


# ---------------------------------------------------------------------------- what suits a cell


def suits_cells(template: Session) -> bool:
    """Return whether cells serve keys that start with this session, whatever columns there are."""
    targets, strategy = template.targets, template.strategy
    if isinstance(targets, ClassTargets) and targets.closed and not 2 <= len(targets.labels) <= MOST_CLASSES:
        return False
    return (
        type(strategy) is DriftSurf
        and strategy.max_rows is not None
        and is_supported(strategy.learner)
        and _begun(strategy, 1, targets.n_classes)._suits
    )


def _begun(strategy: DriftSurf, n_features: int, n_classes: int) -> Any:
    """Return a strategy that has begun to learn."""
    template = strategy.fresh(0)
    template.begin(n_features, sparse=False, n_classes=n_classes)
    return template


def cell_models(strategy: DriftSurf, n_features: int, n_classes: int) -> CellModels:
    """Return models in a cell that have seen no rows."""
    template = _begun(strategy, n_features, n_classes)
    return CellModels(template._pool, template._live, *template._cell_rule())


def key_shape(template: Session, n_features: int, *, fills: bool = False, growing: bool = False) -> KeyShape:
    """Return the sizes of a key; ``max_rows`` of the strategy has to be a number. With ``fills``, gaps are filled."""
    strategy = template.strategy
    assert isinstance(strategy, DriftSurf)
    assert strategy.max_rows is not None
    assert template.batch_size is not None
    models = cell_models(strategy, n_features, 2 if growing else template.targets.n_classes)
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
    )


def key_loop(shape: KeyShape, strategy: DriftSurf, models: CellModels, guard: float | None) -> KeyLoop:
    """Return the native loop over keys of this shape."""
    learner: Any = strategy.learner
    per_batch = -1 if learner.steps_per_batch is None else int(learner.steps_per_batch)
    squared = 1.0 if guard is None else float(guard) ** 2
    guarding = squared, learner.capabilities.quadratic_loss, MARGIN, LEAST_WEIGHT
    return KeyLoop(shape.native, models._rule, models._training, float(learner.steps_per_row), per_batch, guarding)


def bytes_of_key(template: Session, n_features: int, *, fills: bool = False) -> int:
    """Return the bytes that a key takes in a cell, once it has many rows."""
    return key_shape(template, n_features, fills=fills).most_bytes


def _shares(starts: IntArray, count: int) -> Iterator[slice]:
    """Yield up to ``count`` ranges of groups with about the same number of rows each."""
    ends = np.unique(np.searchsorted(starts, np.linspace(0, starts[-1], count + 1)[1:])).tolist() if count > 1 else []
    begin = 0
    for end in ends or [len(starts) - 1]:
        yield slice(begin, end)
        begin = end
