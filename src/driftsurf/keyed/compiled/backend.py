"""DriftSurf around logistic regression for all keys of a fleet, in compiled loops over blocks of memory."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import DenseRows, FloatArray, IntArray, State
from driftsurf.core.decisions import Transition
from driftsurf.core.targets import ClassTargets
from driftsurf.keyed.backend import Codes
from driftsurf.keyed.compiled import kernels
from driftsurf.keyed.compiled.addresses import kernel_addresses
from driftsurf.keyed.compiled.layout import (
    TRANSITION,
    Batch,
    Groups,
    Rule,
    Scratch,
    Shape,
    Store,
    Training,
    TransitionLog,
    make_scratch,
)
from driftsurf.keyed.compiled.record import KINDS, TransitionRecord
from driftsurf.keyed.compiled.saved import restored_store, session_state, store_state
from driftsurf.keyed.compiled.threads import Threads
from driftsurf.keyed.compiled.work import PreparedWork, Share
from driftsurf.keyed.keys import Slots, by_slot
from driftsurf.keyed.quarantine import Reason

__all__ = ["REASON_CODES", "CompiledBackend"]

LEAST_ROOM = 64
REASONS: tuple[Reason, ...] = "", "not_finite", "bad_label", "diverged"
"""By their codes in the compiled loops."""
REASON_CODES: dict[Reason, int] = {reason: code for code, reason in enumerate(REASONS)}


class CompiledBackend:
    """One block of memory per key, served by compiled loops on several threads.

    Implements :class:`~driftsurf.keyed.backend.FleetBackend`.
    """

    def __init__(self, n_features: int, rule: Rule, training: Training, threads: Threads) -> None:
        self._shape = Shape(n_features, training.batch_size, training.max_rows, rule.reactive_length)
        self._rule = rule
        self._training = training
        self._threads = threads
        self._kernels = kernel_addresses()
        self._n_keys = 0
        self._store = Store(0, self._shape)
        self._record = TransitionRecord()

    @property
    def bytes_per_key(self) -> int:
        """Bytes that a key takes."""
        return self._shape.bytes_per_key

    @property
    def nbytes(self) -> int:
        """Bytes allocated for keys."""
        return self._store.nbytes

    # -------------------------------------------------------------------- learning

    def reserve(self, n_keys: int) -> None:
        """Allocate memory for this many keys, so that ``add`` cannot fail; an error changes nothing."""
        if n_keys > len(self._store.keys):
            self._store = self._store.grown(max(LEAST_ROOM, 2 * n_keys), self._n_keys)

    def add(self, seeds: npt.NDArray[np.uint64]) -> None:
        """Make the first models of new keys, in the next slots."""
        start, stop = self._n_keys, self._n_keys + len(seeds)
        if start == stop:
            return
        self._store.begin(start, stop)
        self._store.keys["seed"][start:stop] = seeds
        kernels.begin(self._store.compiled, start, stop, self._training.uniform_start, self._kernels)
        self._n_keys = stop

    def truncate(self, n_keys: int) -> None:
        """Remove every key from this slot on, from any point of ``add``."""
        self._n_keys = n_keys

    def prepare(self, rows: DenseRows, codes: Codes, bad: Codes, slots: Slots) -> PreparedWork:
        """Prepare to predict each row with its key's model as it is when the row arrives, then to learn it.

        All memory is allocated here, before any thread starts, so that none can fail when others have learned.
        """
        predicted = np.empty(len(rows), np.uint8)
        touched, starts, order = by_slot(slots, self._n_keys)
        diverged = np.zeros(len(touched), np.bool_)
        parts = list(_shares(starts, self._threads.worthwhile(len(rows))))
        # Threads may still read the rows when an exception has given the caller's array back to the caller.
        rows = rows.copy() if len(parts) > 1 else rows.view()
        rows.flags.writeable = False  # as the loop declares them; a caller's array may be either
        blocks, batch = self._store.compiled, Batch(rows, codes, bad, predicted)

        def serve(share: Share) -> None:
            groups, scratch, log, _ = share
            kernels.serve(blocks, batch, groups, self._rule, self._training, scratch, log, self._kernels)

        # A thread may outlive its call, so only a single share can use the same memory again.
        alone = len(parts) == 1
        shares = [
            Share(
                Groups(touched[part], starts[part.start : part.stop + 1], order, diverged[part]),
                self._scratch if alone else make_scratch(self._shape, self._training.steps_per_row),
                self._empty_log(starts, part),
                threading.RLock(),
            )
            for part in parts
        ]
        return PreparedWork(serve, shares, predicted, touched, diverged)

    @functools.cached_property
    def _scratch(self) -> Scratch:
        """Working memory for calls with a single share."""
        return make_scratch(self._shape, self._training.steps_per_row)

    def learn(self, work: PreparedWork) -> None:
        """Carry out prepared work."""
        work.carry_out(self._threads)
        self._record.add(work.transitions)

    def complete(self, work: PreparedWork) -> bool:
        """Complete work that an exception broke off; return False, and change nothing, if no row was learned yet."""
        begun = work.finish()
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

    def scores(self, rows: DenseRows, slots: Slots) -> FloatArray:
        """Return the margin of each row by the model that predicts for its key."""
        scores = np.empty(len(rows))
        kernels.score(self._store.compiled, rows, slots, scores, self._kernels)
        return scores

    def weights(self, slot: int) -> FloatArray:
        """Return the weights that predict a key's next row, the intercept last."""
        key = self._store.keys[slot]
        weights: FloatArray = self._store.weights[slot, key["predictive"] ^ key["challenged"]].copy()
        return weights

    def summary(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the table of keys, by slot."""
        keys = self._store.keys[: self._n_keys]
        rows = keys["step"] * self._shape.batch_size + keys["pending"]
        return {
            "rows": rows,
            "steps": keys["step"].copy(),
            "state": np.where(keys["reactive_step"] > 0, "reactive", "stable"),
            "error": np.divide(keys["errors"], rows, out=np.full(len(keys), np.nan), where=rows > 0),
            "models": keys["made"].copy(),
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

    def session_state(self, slot: int, classes: ClassTargets) -> State:
        """Return the state of a session that continues with the models of one key."""
        return session_state(self._store, slot, classes, self._training.step_size)

    def state(self) -> State:
        """Return everything that decides what comes next, except for the seeds of keys."""
        return store_state(self._store, self._n_keys)

    def restore(self, state: Mapping[str, Any], seeds: npt.NDArray[np.uint64]) -> None:
        """Replace all models by those of ``state()``; StateError if the entries do not fit together."""
        self._store = restored_store(state, len(seeds), self._shape)
        self._store.keys["seed"][:] = seeds
        self._n_keys = len(seeds)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied and pickled: the blocks in use as bytes, and no address of a kernel of this process."""
        used = self._n_keys * self._shape.bytes_per_key
        own = {name: value for name, value in vars(self).items() if name not in ("_kernels", "_scratch")}
        return own | {"_store": self._store.bytes[:used].copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._kernels = kernel_addresses()
        self._store = Store(self._n_keys, self._shape)
        self._store.bytes[:] = state["_store"]


def _shares(starts: IntArray, count: int) -> Iterator[slice]:
    """Yield up to ``count`` ranges of groups with about the same number of rows each."""
    ends = np.searchsorted(starts, np.linspace(0, starts[-1], count + 1)[1:])
    begin = 0
    for end in np.unique(ends).tolist():
        yield slice(begin, end)
        begin = end
