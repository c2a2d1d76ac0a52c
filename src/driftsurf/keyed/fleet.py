"""Thousands to a million DriftSurf learners in one process, one per key."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt

from driftsurf.core.changes import Changeable, locked
from driftsurf.core.contracts import DenseRows, FloatArray, IntArray, State
from driftsurf.core.decisions import Transition
from driftsurf.core.fields import misfit
from driftsurf.core.frames import unmasked
from driftsurf.core.input import Schema, listed, read_rows
from driftsurf.core.options import choice, whole
from driftsurf.core.state import from_bytes, nest, pick, to_bytes
from driftsurf.core.targets import ClassTargets
from driftsurf.core.typing import Classes, MatrixLike, TargetLike
from driftsurf.core.weights import read_weights
from driftsurf.errors import DivergenceError, InputError, OptionError, ShapeError
from driftsurf.kernels.columns import all_finite
from driftsurf.keyed.backend import Codes, FleetBackend, Work
from driftsurf.keyed.compiled.backend import REASON_CODES, CompiledBackend, fleet_shape
from driftsurf.keyed.compiled.threads import Threads, available_processors
from driftsurf.keyed.keys import Key, Keys, KeysLike, Slots, key_seed
from driftsurf.learners import LogisticRegression
from driftsurf.session.interrupts import uninterrupted
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

__all__ = ["Fleet"]

MOST_THREADS = 1024
MOST_BYTES = 2**30
"""Largest size of a key, which bounds the memory, whatever a saved fleet asks for."""
LEARNER_OPTIONS = "step_size", "l2", "steps_per_row", "start"
STRATEGY_OPTIONS = "threshold", "stable_threshold", "reactive_length", "greedy", "max_rows"


@dataclass
class _Mark:
    """Where a fleet was before a call."""

    keys: tuple[int, Any]
    work: Any = None
    """Rows and labels that the call learns; None until they have been checked and grouped."""


class Fleet(Changeable):
    """One adaptive classifier per key; keys are integers or text.

    Each key has exactly what a separate :class:`~driftsurf.DriftSurfClassifier` would have: the same predictions,
    decisions and weights, to the bit. The rows of a key are cut into time steps of ``batch_size`` in the order in which
    they arrive, however they are spread over calls and mixed with rows of other keys. The separate classifier is

        DriftSurfClassifier(
            LogisticRegression(step_size=..., l2=..., steps_per_row=..., start=...),
            batch_size=..., max_rows=..., threshold=..., dtype="float32", guard=None, classes=...,
            random_state=key_seed(seed, key))

    A key takes ``bytes_per_key`` bytes from its first row on: 10.9 kB with ten columns and the defaults.

    Several threads may use a fleet: their calls take turns. A call uses several threads itself.

    Parameters
    ----------
    n_features
        Columns of every row.
    step_size
        Size of a gradient step, as for :class:`~driftsurf.learners.LogisticRegression`. With "auto", each key
        estimates it from its rows, together with the scale and the centre of each column. With a number, columns are
        used as they are; for columns of size about 1, try 0.4 / (n_features + 1).
    l2, steps_per_row, start
        As for :class:`~driftsurf.learners.LogisticRegression`.
    batch_size
        Rows of a key that make a time step.
    threshold, stable_threshold, reactive_length, greedy
        As for :class:`~driftsurf.DriftSurfClassifier`. The default threshold is larger, since the risk over 32 rows is
        noisy. (A keyed run takes the noise into account instead, with ``significance``: a block of a fleet has no place
        for the sums that this needs.)
    max_rows
        Rows of a key that are kept to train on, first in, first out. A key takes memory for all of them from its first
        row on, so that the default is small: with the 2,048 rows of a keyed run, a million keys would take 120 GB.
    classes
        The two labels.
    on_bad
        What to do about a value that is not finite, or an unknown label: "raise" an error before anything has changed,
        or "quarantine" the key. From that row on its rows are still predicted, but counted as refused and not learned,
        until ``readmit``; other keys are not affected. (A row with such a value is predicted as the first class.)
    threads
        Threads to use at most; None for one per processor. The result does not depend on it.
    seed
        Seed of all random numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> fleet = Fleet(n_features=2)
    >>> for hour in range(20):  # the first column means the opposite for key 1
    ...     keys = rng.integers(3, size=200)
    ...     X = rng.normal(size=(200, 2))
    ...     y = (X[:, 0] > 0) == (keys != 1)
    ...     predicted = fleet.observe(keys, X, y)
    >>> fleet.predict([0, 1, 2], [[1, 0], [1, 0], [1, 0]])
    array([1, 0, 1])
    >>> fleet.table()["state"]
    array(['stable', 'stable', 'stable'], dtype='<U8')
    """

    def __init__(
        self,
        n_features: int,
        *,
        step_size: float | Literal["auto"] = "auto",
        l2: float = 1e-4,
        steps_per_row: float = 2.0,
        start: Literal["zeros", "uniform"] = "zeros",
        batch_size: int = 32,
        threshold: float = 0.3,
        stable_threshold: float | None = None,
        reactive_length: int = 4,
        greedy: bool = True,
        max_rows: int = 128,
        classes: Classes = (0, 1),
        on_bad: Literal["raise", "quarantine"] = "raise",
        threads: int | None = None,
        seed: int = 0,
    ) -> None:
        self.n_features = n_features
        self.step_size = step_size
        self.l2 = l2
        self.steps_per_row = steps_per_row
        self.start = start
        self.batch_size = batch_size
        self.threshold = threshold
        self.stable_threshold = stable_threshold
        self.reactive_length = reactive_length
        self.greedy = greedy
        self.max_rows = max_rows
        self.classes = classes
        self.on_bad = on_bad
        self.threads = threads
        self.seed = seed

    # -------------------------------------------------------------------- learning

    @locked
    def observe(
        self, keys: KeysLike, X: MatrixLike, y: TargetLike, *, sample_weight: TargetLike | None = None
    ) -> npt.NDArray[Any]:
        """Predict each row with its key's model as it is when the row arrives, then learn. Returns the predictions.

        A row counts ``sample_weight`` times in training and in risks, once in the error of its key. From the first call
        with weights on, a key takes eight more bytes for each row that it can keep.

        An error leaves everything as it was, with one exception. If training diverges for a key (DivergenceError: the
        step size is too large for its rows), that key is in quarantine afterwards, and the other keys have learned.
        """
        self._prepare()
        rows, codes, bad = self._read(X, y)
        # Copied, as threads may still read it when an exception has given the caller's array back to the caller.
        weights = None if sample_weight is None else np.array(read_weights(sample_weight, len(rows)))
        given = self._keys.read(keys)
        _check_counts(rows, given)
        with uninterrupted():
            work: Work = self._change(self._learned, given, rows, codes, bad, weights)
        diverged = work.diverged
        if not self._tolerant and len(diverged):
            names = self.keys
            raise DivergenceError(
                f"training diverged for {len(diverged)} of {len(self)} keys ({listed([names[k] for k in diverged])}). "
                "They are in quarantine with their last good models; all other rows of this call were learned. "
                "Lower step_size, or use the default, which scales the columns."
            )
        labels: npt.NDArray[Any] = self._classes.array[work.predicted]
        return labels

    @locked
    def readmit(self, keys: KeysLike) -> None:
        """End the quarantine of keys: they resume learning from their last good models."""
        slots = self._find(keys)
        self._backend.readmit(slots)

    def _read(self, X: MatrixLike, y: TargetLike) -> tuple[DenseRows, Codes, Codes]:
        """Return checked rows, class codes, and the reason why each row is bad (empty if none is)."""
        rows = cast("DenseRows", read_rows(X, self._schema, np.float32, finite=False))
        bad = np.zeros(0, np.uint8)
        if not all(self._threads.map(lambda part: all_finite(rows[part]), self._threads.parts(len(rows)))):
            if not self._tolerant:
                read_rows(X, self._schema, np.float32)  # raises the error that names the place
            bad = np.where(np.isfinite(rows).all(axis=1), 0, REASON_CODES["not_finite"]).astype(np.uint8)
        first, second = self._classes.labels
        labels = np.asarray(unmasked(y, "y"))
        if labels.shape == (len(rows),):
            positive = labels == second
            unknown = ~(positive | (labels == first))
            if not unknown.any():
                return rows, positive.astype(np.uint8), bad
            if self._tolerant:
                bad = np.zeros(len(rows), np.uint8) if len(bad) == 0 else bad
                bad[unknown & (bad == 0)] = REASON_CODES["bad_label"]
                return rows, positive.astype(np.uint8), bad
        return rows, self._classes.read(y, len(rows))[1].astype(np.uint8), bad

    def _learned(
        self, given: IntArray | list[str], rows: DenseRows, codes: Codes, bad: Codes, weights: FloatArray | None
    ) -> tuple[None, Work]:
        """Make new keys with their first models, predict and learn; return the work that was done."""
        before, backend = len(self._keys), self._backend
        slots = self._keys.add(given, self._threads)
        backend.reserve(len(self._keys), weighted=weights is not None)
        backend.add(self._keys.seeds(self._seed, before))
        work = backend.prepare(rows, codes, bad, slots, weights)
        assert self._before is not None
        self._before[0].work = work
        backend.learn(work)
        return None, work

    def _mark(self) -> _Mark:
        return _Mark(self._keys.mark())

    def _put_back(self, mark: _Mark) -> None:
        """Remove the new keys; but a call of which any row is learned cannot be undone, and is completed instead."""
        if mark.work is None or not self._backend.complete(mark.work):
            self._keys.put_back(mark.keys)
            self._backend.truncate(len(self._keys))

    # -------------------------------------------------------------------- reading

    @locked
    def predict(self, keys: KeysLike, X: MatrixLike) -> npt.NDArray[Any]:
        """Return the labels that each key's current model predicts; a key that was never observed is an error."""
        slots = self._find(keys)
        rows = cast("DenseRows", read_rows(X, self._schema, np.float32))
        _check_counts(rows, slots)
        labels: npt.NDArray[Any] = self._classes.array[(self._backend.scores(rows, slots) > 0.0).astype(np.int64)]
        return labels

    @locked
    def __len__(self) -> int:
        return len(self._keys) if self._ready else 0

    @locked
    def __contains__(self, key: Key) -> bool:
        return self._ready and bool(self._keys.find(self._keys.read([key]))[0] >= 0)

    @property
    @locked
    def keys(self) -> Sequence[Key]:
        """The keys, in order of appearance."""
        return self._keys.labels() if self._ready else []

    @locked
    def weights(self, key: Key) -> FloatArray:
        """Return the weights that predict this key's next row, the intercept last."""
        slot = self._find_one(key)
        return self._backend.weights(slot)

    @locked
    def table(self) -> dict[str, npt.NDArray[Any]]:
        """Return columns with one entry per key; ``pandas.DataFrame(fleet.table())`` makes a frame of them.

        They are the key, its rows and time steps, its state, its error so far, the number of its models and
        transitions, its last transition, its refused rows, and the reason for its quarantine (see
        :data:`~driftsurf.keyed.quarantine.Reason`), empty if there is none.
        """
        self._prepare()
        return {"key": np.array(self.keys), **self._backend.summary()}

    @locked
    def transitions(self) -> dict[str, npt.NDArray[Any]]:
        """Return columns with the last 100,000 or so transitions of all keys, by call, and within a call by key.

        ``left`` and ``right`` are the compared risks, as in :class:`~driftsurf.core.decisions.Transition`.
        """
        self._prepare()
        return self._backend.transitions(self.keys)

    @locked
    def journal(self, key: Key) -> list[Transition]:
        """Return the transitions of one key that are among the last 100,000 or so of all keys."""
        slot = self._find_one(key)
        return self._backend.journal(slot)

    @property
    @locked
    def nbytes(self) -> int:
        """Bytes allocated: for the keys, for the room to add more, and for the index that finds them."""
        return self._backend.nbytes + self._keys.nbytes if self._ready else 0

    @property
    @locked
    def bytes_per_key(self) -> int:
        """Bytes that a key takes, without the index that finds it."""
        self._prepare()
        return self._backend.bytes_per_key

    @locked
    def session(self, key: Key) -> Session:
        """Return a copy of this key's model as a session of its own, which continues exactly as it would have here."""
        slot = self._find_one(key)
        session = self._separate(key)
        session.restore(self._backend.session_state(slot, self._classes))
        return session

    def _find_one(self, key: Key) -> int:
        return int(self._find([key])[0])

    def _find(self, keys: KeysLike) -> Slots:
        """Return the slots of keys; InputError for a key that was never observed."""
        self._prepare()
        given = self._keys.read(keys)
        slots = self._keys.find(given)
        if len(slots) and slots.min() < 0:
            unknown = next(key for key, slot in zip(np.asarray(given).tolist(), slots, strict=True) if slot < 0)
            raise InputError(f"the key {unknown!r} has not been observed: it has a model after its first observe.")
        return slots

    # -------------------------------------------------------------------- preparation

    _ready = False
    _keys: Keys
    _backend: FleetBackend

    def _prepare(self) -> None:
        """Check the options and set everything up, at the first use; options that are changed later have no effect."""
        if self._ready:
            return
        n_features = whole("n_features", self.n_features, at_least=1)
        choice("on_bad", self.on_bad, ("raise", "quarantine"))
        self._tolerant = self.on_bad == "quarantine"
        self._seed = (
            whole("seed", self.seed, at_least=0, at_most=None) % 2**64
        )  # random numbers depend on it modulo 2**64 only
        threads = available_processors()
        if self.threads is not None:
            threads = whole("threads", self.threads, at_least=1, at_most=MOST_THREADS, otherwise=", or None")
        self._threads = Threads(threads)
        batch_size = whole("batch_size", self.batch_size, at_least=1)
        whole("max_rows", self.max_rows, at_least=1)
        self._settings = self._options()
        session = self._separate(0)
        strategy = cast("DriftSurf", session.strategy)
        size = fleet_shape(strategy, n_features, batch_size).bytes_per_key
        if size > MOST_BYTES:
            raise OptionError(
                f"a key would take {size:,} bytes, of which at most {MOST_BYTES:,} are possible; lower n_features, "
                "batch_size, max_rows or reactive_length"
            )
        self._classes = cast("ClassTargets", session.targets)
        if len(self._classes.labels) != 2:
            raise OptionError(f"classes is {self.classes!r}; a fleet needs exactly two labels")
        self._settings["classes"] = self._classes.labels
        self._schema = Schema(n_features, owner="this fleet")
        self._keys = Keys()
        self._backend = CompiledBackend(n_features, strategy, batch_size, self._threads)
        self._ready = True

    def _options(self) -> dict[str, Any]:
        """Return the parameters as they are now, numpy scalars as Python's numbers."""
        given = {name: vars(self)[name] for name in inspect.signature(type(self)).parameters}
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}

    def _separate(self, key: Key) -> Session:
        """Return what one key would be without a fleet; this also checks the options."""
        given = self._settings
        learner = LogisticRegression(**{name: given[name] for name in LEARNER_OPTIONS})
        options = {name: given[name] for name in STRATEGY_OPTIONS}
        strategy = DriftSurf(learner, **options, dtype="float32", seed=key_seed(self._seed, key))
        return Session(strategy, classes=given["classes"], batch_size=given["batch_size"], guard=None)

    # -------------------------------------------------------------------- state

    @locked
    def state(self) -> State:
        """Return everything that decides what comes next, keys and options included; the journal is not part of it."""
        self._prepare()
        state: State = {"fleet": json.dumps(self._settings, sort_keys=True)}
        return state | nest("keys", self._keys.state()) | self._backend.state()

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the fleet that ``state()`` was taken from."""
        try:
            fleet = cls(**json.loads(str(state.get("fleet"))))
            fleet._prepare()
        except (TypeError, ValueError) as error:
            raise misfit(state, "fleet", f"is not the options of a fleet ({error})") from error
        fleet._keys = Keys.from_state(pick("keys", state))
        fleet._backend.restore(state, fleet._keys.seeds(fleet._seed, 0))
        return fleet

    @locked
    def to_bytes(self) -> bytes:
        """Save the whole fleet exactly: ``from_bytes`` continues as if there had been no break."""
        return to_bytes(self.state())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the fleet that ``to_bytes`` saved."""
        return cls.from_state(from_bytes(data))


def _check_counts(rows: DenseRows, keys: IntArray | Slots | list[str]) -> None:
    if len(keys) != len(rows):
        raise ShapeError(f"X has {len(rows)} rows and there are {len(keys)} keys: pass one key per row.")
