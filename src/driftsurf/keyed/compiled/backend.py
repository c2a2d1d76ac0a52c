"""DriftSurf around a linear learner for all keys of a fleet, in compiled loops over blocks of memory."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import DenseRows, FloatArray, IntArray, State
from driftsurf.core.decisions import Transition
from driftsurf.core.forks import ChangeLock
from driftsurf.core.state import nest, resolved
from driftsurf.keyed.backend import REASONS, Codes
from driftsurf.keyed.compiled.addresses import FleetKernels, kernel_addresses
from driftsurf.keyed.compiled.guard_memory import Guarding, Norms
from driftsurf.keyed.compiled.kernels import Loops, loops_for
from driftsurf.keyed.compiled.layout import (
    TRANSITION,
    Batch,
    Blocks,
    GappyBatch,
    Groups,
    Scratch,
    Shape,
    Steps,
    Store,
    TransitionLog,
    make_scratch,
)
from driftsurf.keyed.compiled.record import TransitionRecord
from driftsurf.keyed.compiled.saved import guard_state, guards_state, pending_state, restored_store, store_state
from driftsurf.keyed.compiled.threads import Threads
from driftsurf.keyed.compiled.work import PreparedWork, Share
from driftsurf.keyed.keys import Slots, by_slot
from driftsurf.keyed.quarantine import Reason
from driftsurf.strategies import DriftSurf
from driftsurf.strategies.compiled.cell import CompiledModels
from driftsurf.strategies.compiled.layout import LOGISTIC, RANGES, STABLE, UNITS
from driftsurf.strategies.compiled.outcome import KINDS

__all__ = ["REASON_CODES", "CompiledBackend", "compiled_models", "fleet_shape"]

LEAST_ROOM = 64
_NO_WEIGHT = np.empty(0)
REASON_CODES: dict[Reason, int] = {reason: code for code, reason in enumerate(REASONS)}


class CompiledBackend:
    """One block of memory per key, served by compiled loops on several threads.

    Labels are codes here, or numbers. ``n_classes`` is 0 for numbers.
    """

    def __init__(
        self,
        n_features: int,
        strategy: DriftSurf,
        n_classes: int,
        batch_size: int,
        threads: Threads,
        *,
        fills: bool = False,
        guard: float | None = None,
        growing: bool = False,
    ) -> None:
        self._strategy, self._n_classes, self._guard = strategy.fresh(0), n_classes, guard
        learner: Any = strategy.learner
        per_batch = -1 if learner.steps_per_batch is None else int(learner.steps_per_batch)
        self._steps = Steps(batch_size, float(learner.steps_per_row), per_batch)
        how = {"fills": fills, "guarded": guard is not None, "growing": growing}
        self._shape = fleet_shape(strategy, n_features, n_classes, batch_size, **how)
        self._threads = threads
        self._set_up()
        self._n_keys = 0
        self._store, self._norms = Store(0, self._shape), Norms(0)
        self._record = TransitionRecord()

    def _set_up(self) -> None:
        """Prepare what is not copied or pickled."""
        models = compiled_models(self._strategy, self._shape.n_features, self._n_classes)
        assert models is not None
        self._models = models
        """Turns a cell into the state of a strategy."""
        self._rule, self._training = models._rule, models._training
        self._blank: FloatArray = models._cell.judged.copy()
        """Numbers by which models are judged, before the first step."""
        how = np.dtype(self._shape.row_type), self._rule, self._training
        self._kernels: FleetKernels = kernel_addresses(*how, guarded=self._shape.guarded)
        self._loops: Loops = loops_for(self._shape)

    @property
    def bytes_per_key(self) -> int:
        """Bytes that a key takes; with a guard it takes more with its first 1,024 rows, and this is the mean."""
        return self._store.shape.bytes_per_key + 8 * int(self._norms.room.sum()) // max(1, self._n_keys)

    @property
    def nbytes(self) -> int:
        """Bytes allocated for keys."""
        return self._store.nbytes + self._norms.nbytes

    @property
    def _blocks(self) -> Blocks:
        """The blocks of all keys, as the compiled loops take them."""
        blocks, norms = self._store.compiled, self._norms
        if self._guard is None:
            return blocks
        quadratic = self._strategy.learner.capabilities.quadratic_loss
        return blocks._replace(
            norms=norms.values,
            norm_starts=norms.starts,
            norm_counts=norms.counts,
            guarding=Guarding(float(self._guard) ** 2, quadratic),
        )

    # -------------------------------------------------------------------- learning

    def reserve(self, n_keys: int, *, weighted: bool = False) -> None:
        """Allocate memory for this many keys, so that ``add`` cannot fail; an error changes nothing.

        Rows take memory for their weights once any of them has one (``weighted``).
        """
        if weighted and not self._store.shape.weighted:
            self._store = self._store.with_weights(self._n_keys)
        if n_keys > len(self._store.keys):
            self._store = self._store.grown(max(LEAST_ROOM, 2 * n_keys), self._n_keys)
        if self._guard is not None and len(self._store.keys) > len(self._norms.counts):
            self._norms = self._norms.for_keys(len(self._store.keys))

    def add(self, seeds: npt.NDArray[np.uint64]) -> None:
        """Make the first models of new keys, in the next slots."""
        start, stop = self._n_keys, self._n_keys + len(seeds)
        if start < stop:
            self._begin(start, stop, seeds)
            self._n_keys = stop

    def _begin(self, start: int, stop: int, seeds: npt.NDArray[np.uint64]) -> None:
        """Make the first models of some slots."""
        self._store.begin(start, stop)
        self._store.counts["seed"][start:stop] = seeds
        self._store.judged[start:stop] = self._blank[: self._shape.judged]
        self._norms.counts[start:stop] = 0  # none without a guard
        self._loops.begin(self._blocks, start, stop, self._training, self._scratch, self._kernels)

    def truncate(self, n_keys: int) -> None:
        """Remove every key from this slot on, from any point of ``add``."""
        self._n_keys = n_keys

    def prepare(
        self, rows: DenseRows, codes: npt.NDArray[Any], bad: Codes, slots: Slots, weight: FloatArray | None = None
    ) -> Any:
        """Prepare to predict each row with its key's model as it is when the row arrives, then to learn it.

        All memory is allocated here, before any thread starts, so that none can fail when others have learned.
        """
        touched, starts, order = by_slot(slots, self._n_keys)
        if self._guard is not None:
            rows_after = self._store.keys["pending"][touched] + np.diff(starts)
            added = rows_after // self._shape.batch_size * self._shape.batch_size
            self._norms = self._norms.with_room(touched, self._norms.counts[touched] + added)
        diverged = np.zeros(len(touched), np.bool_)
        parts = list(_shares(starts, self._threads.shares(len(rows))))
        # Threads may still read the rows when an exception has given the caller's array back to the caller.
        rows = self._copied(rows) if len(parts) > 1 else rows
        blocks, batch = self._blocks, self._batch(rows, codes, bad, weight)

        def serve(share: Share) -> None:
            groups, scratch, log, _ = share
            how = self._rule, self._training, scratch, self._kernels
            self._loops.serve(blocks, batch, groups, self._steps, log, *how)

        # A thread may outlive its call, so only a single share can use the same memory again.
        alone = len(parts) == 1
        shares = [
            Share(
                Groups(touched[part], starts[part.start : part.stop + 1], order, diverged[part]),
                self._scratch if alone else make_scratch(self._shape, self._steps),
                self._empty_log(starts, part),
                ChangeLock(),
            )
            for part in parts
        ]
        return PreparedWork(serve, shares, batch.predicted, touched, diverged)

    def _batch(self, rows: DenseRows, codes: npt.NDArray[Any], bad: Codes, weight: FloatArray | None) -> Batch:
        """Return rows as the loops take them."""
        rows = rows.view()
        rows.flags.writeable = False  # as the loops declare them; a caller's array may be either
        form = GappyBatch if self._shape.filled else Batch
        predicted = np.empty(len(rows), self._shape.label_type)
        return form(rows, codes, _NO_WEIGHT if weight is None else weight, bad, predicted)

    def _copied(self, rows: DenseRows) -> DenseRows:
        """Return a copy of rows, which several threads make."""
        made = np.empty_like(rows)
        self._threads.map(lambda part: np.copyto(made[part], rows[part]), self._threads.parts(len(rows)))
        return made

    @functools.cached_property
    def _scratch(self) -> Scratch:
        """Working memory for calls with a single share."""
        return make_scratch(self._shape, self._steps)

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

    def _empty_log(self, starts: IntArray, share: slice) -> TransitionLog:
        """Return room for as many transitions as the groups of a share can make: two per time step."""
        n_rows = int(starts[share.stop] - starts[share.start])
        n_steps = share.stop - share.start + n_rows // self._shape.batch_size
        return TransitionLog(np.empty(2 * n_steps, TRANSITION), np.zeros(2, np.int64))

    def readmit(self, slots: Slots) -> None:
        """End the quarantine of keys."""
        self._store.keys["quarantine"][slots] = 0

    # -------------------------------------------------------------------- reading

    def predicted_codes(self, rows: DenseRows, slots: Slots) -> npt.NDArray[Any]:
        """Return the code, or the number, that the model of each row's key predicts."""
        batch = self._batch(rows, np.empty(0, self._shape.label_type), np.zeros(0, np.uint8), None)
        self._loops.predict(self._blocks, batch, slots, self._training, self._scratch, self._kernels)
        return batch.predicted

    def weights(self, slot: int) -> FloatArray:
        """Return the weights that predict a key's next row, the intercept last; several classes have a row each."""
        counts, K = self._store.counts[slot], self._shape.outputs
        weights: FloatArray = self._store.raw[slot, counts["predictive"] ^ counts["challenged"]].copy()
        return weights if K == 1 else weights.reshape(K, -1)

    def summary(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the table of keys, by slot."""
        return self._summary(slice(0, self._n_keys))

    def _summary(self, part: slice) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the table of some keys."""
        keys, counts = self._store.keys[part], self._store.counts[part]
        rows = counts["next"] + keys["pending"]
        rival = self._store.models["born"][part][np.arange(len(keys)), 1 - counts["predictive"]]
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
        return self._record.of_slot(slot)

    # -------------------------------------------------------------------- state

    def session_state(self, slot: int) -> State:
        """Return the state of a session that continues with the models of one key, without that of its targets."""
        store, models, strategy = self._store, self._models, self._strategy
        cell = store.cell(slot)
        models._cell = cell if self._shape.judged else cell._replace(judged=self._blank)
        models._log, models._pool.seed = None, int(cell.counts["seed"][0])
        live, pool = models.incremental_state()
        saved: Any = {"strategy": type(strategy).__name__} | strategy._saved(live) | nest("pool", pool)
        step = int(cell.counts["step"][0])
        state: State = {"steps": step, "n_classes_learned": self._n_classes if step else 0, "started": True}
        state |= nest("strategy", resolved(saved)) | nest("pending", pending_state(store, slot))
        if self._guard is not None:
            state |= nest("guard", guard_state(store, self._norms, slot, self._guard))
        return state | nest("schema", {"n_features": self._shape.n_features, "sparse": False, "names": ""})

    def state(self) -> State:
        """Return everything that decides what comes next, except for the seeds of keys."""
        state = store_state(self._store, self._n_keys, scaled=self._training.scaled)
        return state if self._guard is None else state | guards_state(self._store, self._norms, self._n_keys)

    def restore(self, state: Mapping[str, Any], seeds: npt.NDArray[np.uint64]) -> None:
        """Replace all models by those of ``state()``; StateError if the entries do not fit together."""
        shape = dataclasses.replace(self._shape, weighted=self._shape.guarded or "row_weights" in state)
        store, norms = restored_store(state, seeds, shape, self._rule, self._training, self._n_classes)
        self._store, self._norms, self._n_keys = store, norms, len(seeds)
        self._loops.complete(self._blocks, len(seeds), self._training, self._scratch, self._kernels)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied and pickled: the blocks in use as bytes, and no address of a kernel of this process."""
        used = self._n_keys * self._store.shape.bytes_per_key
        made = "_models", "_rule", "_training", "_blank", "_kernels", "_loops", "_scratch"
        own = {name: value for name, value in vars(self).items() if name not in made}
        blocks = self._store.shape, self._store.bytes[:used].copy()
        return own | {"_store": blocks, "_norms": self._norms.compact(self._n_keys)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._set_up()
        shape, data = state["_store"]
        self._store = Store(self._n_keys, shape)
        self._store.bytes[:] = data


def compiled_models(strategy: DriftSurf, n_features: int, n_classes: int) -> CompiledModels | None:
    """Return models for the compiled step that have seen no rows; None if it does not suit the options."""
    template = strategy.fresh(0)
    template.begin(n_features, sparse=False, n_classes=n_classes)
    known = template._cell_rule() if template._suits else None
    return None if known is None else CompiledModels(template._pool, template._live, *known)


def fleet_shape(
    strategy: DriftSurf,
    n_features: int,
    n_classes: int,
    batch_size: int,
    *,
    fills: bool = False,
    guarded: bool = False,
    growing: bool = False,
) -> Shape:
    """Return the sizes of a key; ``max_rows`` of the strategy has to be a number. With ``fills``, gaps are filled."""
    assert strategy.max_rows is not None
    models = compiled_models(strategy, n_features, n_classes)
    assert models is not None
    rule, training = models._rule, models._training
    return Shape(
        n_features,
        batch_size,
        int(strategy.max_rows),
        int(strategy.reactive_length),
        strategy.dtype,
        outputs=training.outputs,
        judged=RANGES + 8 * n_features if training.regression else UNITS if rule.prequential else 0,
        valued=training.regression,
        plain=training.kind == LOGISTIC and not rule.prequential,
        filled=fills,
        guarded=guarded,
        weighted=guarded,
        growing=growing,
    )


def _shares(starts: IntArray, count: int) -> Iterator[slice]:
    """Yield up to ``count`` ranges of groups with about the same number of rows each."""
    ends = np.searchsorted(starts, np.linspace(0, starts[-1], count + 1)[1:])
    begin = 0
    for end in np.unique(ends).tolist():
        yield slice(begin, end)
        begin = end
