"""Thousands to a million DriftSurf learners, one for each key, in arrays over keys."""

from __future__ import annotations

import inspect
import os
from collections.abc import Collection, Iterator
from typing import Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt

from driftsurf._kernels import all_finite
from driftsurf._options import choice, number, whole
from driftsurf.base import DenseRows, FloatArray, IntArray, State
from driftsurf.decisions import Transition
from driftsurf.errors import DivergenceError, InputError, OptionError, ShapeError, StateError
from driftsurf.fleet import _kernels, _parts, _saved
from driftsurf.fleet._keys import Keys, Slots, by_slot, key_seed
from driftsurf.fleet._layout import TRANSITION, Shape, Store, scratch
from driftsurf.fleet._record import KINDS, Record
from driftsurf.fleet._threads import Threads
from driftsurf.labels import Classes
from driftsurf.learners import LogisticRegression
from driftsurf.runtime.interrupts import uninterrupted
from driftsurf.runtime.session import Session
from driftsurf.state import from_bytes, to_bytes
from driftsurf.strategies import DriftSurf
from driftsurf.validation import Schema, listed, read_rows

__all__ = ["Fleet"]

LEAST_ROOM = 64
CAUSES = "", "a value that is not finite", "an unknown label", "training diverged"


class Fleet:
    """One adaptive classifier for each key; keys are whole numbers, or text.

    Each key has what a :class:`~driftsurf.DriftSurfClassifier` of its own would have, to the bit: the same
    predictions, decisions, weights. Its rows are cut into time steps of ``batch_size`` in the order in which they
    arrive, however they are spread over calls and mixed with those of other keys. The classifier in question is

        DriftSurfClassifier(
            LogisticRegression(step_size=..., l2=..., steps_per_row=..., start=...),
            batch_size=..., max_rows=..., threshold=..., dtype="float32", guard=None, classes=...,
            random_state=key_seed(seed, key))

    A key takes ``bytes_per_key`` bytes from its first row on and never more: 9.7 kB with ten columns and the
    defaults. Models are learnt on columns as they are, so bring those to a common size first.

    Parameters
    ----------
    n_features
        Columns of every row.
    step_size
        eta. With columns of size about 1, something like 0.4 / (n_features + 1).
    l2, steps_per_row, start
        As for :class:`~driftsurf.learners.LogisticRegression`.
    batch_size
        Rows of a key that make a time step.
    threshold, stable_threshold, reactive_length, greedy
        As for :class:`~driftsurf.DriftSurfClassifier`; the threshold is larger, since the risk over 32 rows is noisy.
    max_rows
        At most this many rows of a key are kept to train on, first in, first out.
    classes
        The two labels.
    on_bad
        What a value that is not finite, or an unknown label, leads to: "raise" an error before anything has
        changed, or "quarantine" for the key. From that row on the key's rows are still predicted, but counted as
        refused and not learnt, until ``readmit``; other keys go on. (A row with such a value is predicted to be
        of the first class.)
    threads
        So many keys are served at a time; None for as many as there are processors. The result is the same.
    seed
        Fixes every random number.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> fleet = Fleet(n_features=2, step_size=0.1)
    >>> for hour in range(20):  # the sign of what the first column means differs between keys
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
        step_size: float,
        l2: float = 1e-4,
        steps_per_row: float = 2.0,
        start: Literal["zeros", "uniform"] = "zeros",
        batch_size: int = 32,
        threshold: float = 0.3,
        stable_threshold: float | None = None,
        reactive_length: int = 4,
        greedy: bool = True,
        max_rows: int = 128,
        classes: Collection[Any] = (0, 1),
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

    def observe(self, keys: Any, X: Any, y: Any) -> npt.NDArray[Any]:
        """Predict each row with its key's model as it is when the row arrives, then learn. Returns the predictions.

        An error leaves everything as it was; except that where training diverges (DivergenceError: the step size
        is too large for these rows), it does so in one key, which is in quarantine then, and other keys have learnt.
        """
        self._begin()
        rows, codes, bad = self._read(X, y)
        given = self._keys.read(keys)
        if len(given) != len(rows):
            raise ShapeError(f"X has {len(rows)} rows and there are {len(given)} keys: give one key for each row.")
        with uninterrupted():
            slots = self._slots(given)
            predicted, diverged = self._serve(rows, codes, bad, slots)
        if not self._tolerant and len(diverged):
            names = self.keys
            raise DivergenceError(
                f"training diverged for {len(diverged)} of {len(self)} keys ({listed([names[k] for k in diverged])}): "
                "they are in quarantine, with their last good models; all other rows of this call were learnt. "
                "Lower step_size, or bring the columns to a common size."
            )
        labels: npt.NDArray[Any] = self._classes.array[predicted]
        return labels

    def readmit(self, keys: Any) -> None:
        """Let these keys out of quarantine: they learn on from their last good models."""
        slots = self._known(keys)
        self._store.keys["quarantine"][slots] = 0

    def _read(self, X: Any, y: Any) -> tuple[DenseRows, npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        """Checked rows and codes; and, for quarantine, what is bad about each row (empty: nothing about any)."""
        tolerant = self._tolerant
        rows = cast("DenseRows", read_rows(X, self._schema, np.float32, finite=False))
        bad = np.zeros(0, np.uint8)
        if not all(self._threads.each(lambda part: all_finite(rows[part]), self._threads.parts(len(rows)))):
            if not tolerant:
                read_rows(X, self._schema, np.float32)  # says where
            bad = np.where(np.isfinite(rows).all(axis=1), 0, _kernels.BAD_ROW).astype(np.uint8)
        first, second = self._classes.labels
        labels = np.asarray(y)
        if labels.shape == (len(rows),):
            positive = labels == second
            strange = ~(positive | (labels == first))
            if not strange.any():
                return rows, positive.astype(np.uint8), bad
            if tolerant:
                bad = np.zeros(len(rows), np.uint8) if len(bad) == 0 else bad
                bad[strange & (bad == 0)] = _kernels.BAD_LABEL
                return rows, positive.astype(np.uint8), bad
        return rows, self._classes.read(y, len(rows))[1].astype(np.uint8), bad

    def _slots(self, given: IntArray | list[str]) -> Slots:
        """The slot of each key, with a first model for those that are new."""
        before = len(self)
        try:
            slots = self._keys.add(given, self._threads)
            now = len(self)
            if now > len(self._store.keys):
                self._store = self._store.grown(max(LEAST_ROOM, 2 * now), before)
            seeds = self._keys.seeds(self._seed, before)
        except BaseException:
            self._keys.truncate(before)
            raise
        if now > before:
            store = self._store
            store.begin(before, now)
            store.keys["seed"][before:now] = seeds
            _kernels.begin(store.compiled(), before, now, self._how[5], self._parts)
        return slots

    def _serve(
        self, rows: DenseRows, codes: npt.NDArray[np.uint8], bad: npt.NDArray[np.uint8], slots: Slots
    ) -> tuple[npt.NDArray[np.uint8], IntArray]:
        """Returns the predictions and the slots in which training diverged."""
        predicted = np.empty(len(rows), np.uint8)
        touched, starts, order = by_slot(slots, len(self))
        diverged = np.zeros(len(touched), np.bool_)
        store, batch, rule, how = self._store.compiled(), (rows, codes, bad, predicted), self._rule, self._how
        shares = list(_shares(starts, self._threads.worthwhile(len(rows))))
        room = []  # all of it before any thread begins: then none fails for want of it when others have learnt
        for share in shares:
            n_rows = int(starts[share.stop] - starts[share.start])
            n_steps = share.stop - share.start + n_rows // self._shape.batch_size
            log = np.empty(2 * n_steps, TRANSITION), np.zeros(1, np.int64)
            room.append((scratch(self._shape, self._how[2]), log))

        def serve(place: int) -> npt.NDArray[Any]:
            share, (own, log) = shares[place], room[place]
            groups = touched[share], starts[share.start : share.stop + 1], order, diverged[share]
            _kernels.serve(store, batch, groups, rule, how, own, log, self._parts)
            return log[0][: log[1][0]]

        self._record.add(np.concatenate(self._threads.each(serve, range(len(shares)))))
        return predicted, touched[diverged]

    # -------------------------------------------------------------------- reading

    def predict(self, keys: Any, X: Any) -> npt.NDArray[Any]:
        """Labels by the model that predicts now for each key; a key that was never observed is an error."""
        self._begin()
        slots = self._known(keys)
        rows = cast("DenseRows", read_rows(X, self._schema, np.float32))
        if len(slots) != len(rows):
            raise ShapeError(f"X has {len(rows)} rows and there are {len(slots)} keys: give one key for each row.")
        scores = np.empty(len(rows))
        _kernels.score(self._store.compiled(), rows, slots, scores, self._parts)
        labels: npt.NDArray[Any] = self._classes.array[(scores > 0.0).astype(np.int64)]
        return labels

    def __len__(self) -> int:
        return len(self._keys) if self._begun else 0

    def __contains__(self, key: Any) -> bool:
        return self._begun and bool(self._keys.find(self._keys.read([key]))[0] >= 0)

    @property
    def keys(self) -> list[Any]:
        """The keys, in order of appearance."""
        return self._keys.labels() if self._begun else []

    def weights(self, key: Any) -> FloatArray:
        """The weights that predict this key's next row, the intercept last."""
        slot = int(self._known([key])[0])
        entry = self._store.keys[slot]
        side = entry["predictive"] ^ entry["challenged"]
        weights: FloatArray = self._store.weights[slot, side].copy()
        return weights

    def table(self) -> dict[str, npt.NDArray[Any]]:
        """One entry a key: its rows and steps, its state, its error so far, its last transition, what was refused.

        ``pandas.DataFrame(fleet.table())`` makes a frame of it.
        """
        self._begin()
        n = len(self)
        keys = self._store.keys[:n]
        rows = keys["step"] * self._shape.batch_size + keys["pending"]
        return {
            "key": np.array(self.keys),
            "rows": rows,
            "steps": keys["step"].copy(),
            "state": np.where(keys["reactive_step"] > 0, "reactive", "stable"),
            "error": np.divide(keys["errors"], rows, out=np.full(n, np.nan), where=rows > 0),
            "models": keys["made"].copy(),
            "transitions": keys["transitions"].copy(),
            "last_transition": np.array(["", *KINDS])[keys["last_kind"]],
            "last_step": np.where(keys["transitions"] > 0, keys["last_step"], -1),
            "refused": keys["refused"].copy(),
            "quarantine": np.array(CAUSES)[keys["quarantine"]],
        }

    def transitions(self) -> dict[str, npt.NDArray[Any]]:
        """The last 100,000 transitions or so of all keys, call by call; within a call, key by key.

        ``left`` and ``right`` are the compared risks, as in :class:`~driftsurf.decisions.Transition`.
        """
        self._begin()
        return self._record.table(self.keys)

    def journal(self, key: Any) -> list[Transition]:
        """The transitions of one key, among the last 100,000 or so of all."""
        return self._record.of(int(self._known([key])[0]))

    @property
    def nbytes(self) -> int:
        """Bytes allocated: for all keys and for those that there is room for."""
        return self._store.nbytes + self._keys.nbytes if self._begun else 0

    @property
    def bytes_per_key(self) -> int:
        """Bytes that a key takes, beside the index that finds it."""
        self._begin()
        return self._shape.bytes_per_key

    def session(self, key: Any) -> Session:
        """This key's model as it is, on its own: it goes on exactly as it would have here."""
        slot = int(self._known([key])[0])
        session = self._alone(key)
        session.restore(_saved.session_state(self._store, slot, self._shape, self._classes, self._how))
        return session

    def _known(self, keys: Any) -> Slots:
        self._begin()
        given = self._keys.read(keys)
        slots = self._keys.find(given)
        if len(slots) and slots.min() < 0:
            strange = next(key for key, slot in zip(np.asarray(given).tolist(), slots, strict=True) if slot < 0)
            raise InputError(f"the key {strange!r} has not been observed: a model begins with its first observe.")
        return slots

    # -------------------------------------------------------------------- beginning

    _begun = False
    _keys: Keys
    _store: Store

    def _begin(self) -> None:
        """Check the options and make what they ask for; they stay what they are from now on."""
        if self._begun:
            return
        n_features = whole("n_features", self.n_features, at_least=1)
        number("step_size", self.step_size, above=0.0)
        choice("on_bad", self.on_bad, ("raise", "quarantine"))
        self._tolerant = self.on_bad == "quarantine"
        self._seed = whole("seed", self.seed, at_least=0) % 2**64  # all that a seed is used for counts modulo this
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if self.threads is not None:
            threads = whole("threads", self.threads, at_least=1, otherwise=", or None")
        self._threads = Threads(threads)
        self._shape = Shape(
            n_features,
            whole("batch_size", self.batch_size, at_least=1),
            whole("max_rows", self.max_rows, at_least=1),
            whole("reactive_length", self.reactive_length, at_least=1),
        )
        self._settings = {name: _plain(getattr(self, name)) for name in inspect.signature(type(self)).parameters}
        self._classes = cast("Classes", self._alone(0).targets)
        if len(self._classes.labels) != 2:
            raise OptionError(f"classes is {self.classes!r}; give the two labels")
        self._settings["classes"] = self._classes.labels
        self._schema = Schema(n_features, owner="this fleet")
        self._rule = (
            float(self.threshold),
            float(self.threshold / 2 if self.stable_threshold is None else self.stable_threshold),
            self._shape.reactive_length,
            bool(self.greedy),
        )
        self._how = (
            self._shape.batch_size,
            self._shape.max_rows,
            float(self.steps_per_row),
            float(self.step_size),
            float(self.l2),
            self.start == "uniform",
        )
        self._parts = _parts.parts()
        self._keys = Keys()
        self._store = Store(0, self._shape)
        self._record = Record()
        self._begun = True

    def _alone(self, key: Any) -> Session:
        """What one key would be without a fleet; making it checks the options."""
        given = self._settings
        learner = LogisticRegression(**{name: given[name] for name in ("step_size", "l2", "steps_per_row", "start")})
        rule = {
            name: given[name] for name in ("threshold", "stable_threshold", "reactive_length", "greedy", "max_rows")
        }
        strategy = DriftSurf(learner, **rule, dtype="float32", seed=key_seed(self._seed, key))
        return Session(strategy, classes=given["classes"], batch_size=given["batch_size"], guard=None)

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Everything that decides what comes next, keys and options included; the journal is a record beside it."""
        self._begin()
        return _saved.pack(self._settings, self._keys, self._store, self._shape)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The fleet that gave ``state``."""
        settings = _saved.options(state)
        try:
            fleet = cls(**settings)
            fleet._begin()
        except (TypeError, ValueError) as error:
            raise StateError(f"the options of the saved fleet cannot be used: {error}") from error
        fleet._keys, fleet._store = _saved.unpack(state, fleet._shape)
        fleet._store.keys["seed"][: len(fleet)] = fleet._keys.seeds(fleet._seed, 0)
        return fleet

    def to_bytes(self) -> bytes:
        """The whole fleet, exactly: ``from_bytes`` continues as if there had been no break."""
        return to_bytes(self.state())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The fleet that gave these bytes."""
        return cls.from_state(from_bytes(data))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _shares(starts: IntArray, count: int) -> Iterator[slice]:
    """Up to ``count`` ranges of groups with about as many rows each."""
    ends = np.searchsorted(starts, np.linspace(0, starts[-1], count + 1)[1:])
    begin = 0
    for end in np.unique(ends).tolist():
        yield slice(begin, end)
        begin = end
