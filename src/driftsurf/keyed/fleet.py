"""Thousands to a million adaptive models in one process, one per key."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from driftsurf.core.changes import Changeable, locked, uninterrupted
from driftsurf.core.contracts import DenseRows, FloatArray, IntArray, State
from driftsurf.core.decisions import Transition
from driftsurf.core.fields import misfit
from driftsurf.core.frames import Classes, LearnerLike, MatrixLike, TargetLike
from driftsurf.core.input import Schema, listed, read_rows, read_schema, read_weights
from driftsurf.core.options import choice, whole
from driftsurf.core.state import from_bytes, nest, pick, to_bytes
from driftsurf.errors import DivergenceError, InputError, OptionError, ShapeError, StateError
from driftsurf.keyed.bank import is_growing, key_shape, suits_cells
from driftsurf.keyed.cell_store import CellStore, GrowingStore
from driftsurf.keyed.keys import Key, Keys, KeysLike, Threads, available_processors, key_seed
from driftsurf.keyed.layout import REASONS, Codes
from driftsurf.keyed.models import BATCH_SIZE, FleetModel, template_from, template_of, template_settings
from driftsurf.keyed.rows import Slots
from driftsurf.keyed.session_store import SessionStore
from driftsurf.learners import LogisticRegression
from driftsurf.native.columns import all_finite
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

KeyStore: TypeAlias = CellStore | SessionStore
MOST_THREADS = 1024
MOST_BYTES = 2**30
"""Largest size of a key in compiled loops, which bounds the memory, whatever a saved fleet asks for."""
LARGE = 2**20
"""Size of a key with all of its rows from which on a model takes sessions."""
LEARNER_OPTIONS = "step_size", "l2", "steps_per_row", "start"
STRATEGY_OPTIONS = "threshold", "stable_threshold", "reactive_length", "greedy", "max_rows"
COMMON_OPTIONS = "on_bad", "on_gap", "threads", "seed"
"""Options of a fleet with or without a model of its own."""
OWNER = "this fleet"


class Serving(NamedTuple):
    """The backend that predicts and learns for all keys, and the columns of the rows."""

    schema: Schema | None
    """Columns of the rows; None before the first call, if they were not given."""
    backend: KeyStore


@dataclass
class _Mark:
    """Where a fleet was before a call."""

    keys: tuple[int, Any]
    serving: Serving
    work: Any = None
    """Rows and labels that the call learns; None until they have been checked and grouped."""


class Fleet(Changeable):
    """One adaptive model per key; keys are integers or text.

    Each key has exactly what a separate estimator would have: the same predictions, decisions and weights, to the bit.
    The rows of a key are cut into time steps of ``batch_size`` in the order in which they arrive, however they are
    spread over calls and mixed with rows of other keys. With a model, the separate estimator is

        clone(model).set_params(batch_size=..., random_state=key_seed(seed, key))

    and without one

        DriftSurfClassifier(
            LogisticRegression(step_size=..., l2=..., steps_per_row=..., start=...),
            batch_size=..., max_rows=..., threshold=..., dtype="float32", guard=None, classes=...,
            random_state=key_seed(seed, key))

    DriftSurf around logistic or softmax regression, a linear SVM or linear regression, with a ``max_rows`` that makes a
    key smaller than 1 MB, is served by compiled loops over all keys; so is a fleet without a model. Any other model
    takes a session per key, which costs about as much as a separate estimator. Classes need not be named: a key has
    255 of its own at most.

    Several threads may use a fleet: their calls take turns. Compiled loops use several threads themselves.

    Parameters
    ----------
    model
        What every key starts with: an estimator of driftsurf, fitted or not, such as
        :func:`~driftsurf.recommended` returns; a strategy, which is used without a guard; or a
        :class:`~driftsurf.session.session.Session`. It is not changed, and its random seed is not used. With None, it
        is DriftSurf around logistic regression with the options below.
    n_features
        Columns of every row; None for those of the first call.
    step_size
        Size of a gradient step, as for :class:`~driftsurf.learners.LogisticRegression`. With "auto", each key
        estimates it from its rows, together with the scale and the centre of each column. With a number, columns are
        used as they are; for columns of size about 1, try 0.4 / (n_features + 1).
    l2, steps_per_row, start
        As for :class:`~driftsurf.learners.LogisticRegression`.
    batch_size
        Rows of a key that make a time step; None for those of the model, or 32 if it does not say.
    threshold, stable_threshold, reactive_length, greedy
        As for :class:`~driftsurf.DriftSurfClassifier`. The default threshold is larger, since the risk over 32 rows is
        noisy. (A keyed run takes the noise into account instead, with ``significance``, as a model can.)
    max_rows
        Rows of a key that are kept to train on, first in, first out. They are kept in memory, so that the default is
        small: with the 2,048 rows of a keyed run, a million keys with that many rows would take 120 GB. All options
        from ``step_size`` to here, except for ``batch_size``, are those of a fleet without a model; a model has its
        own.
    classes
        The labels: two for a fleet without a model, 0 and 1 by default; for a strategy any number, or None to learn
        them as they appear. Other models have their own.
    on_bad
        What to do about a value that is not finite, or a label that cannot be learned: "raise" an error before anything
        has changed, or "quarantine" the key. From that row on its rows are still predicted, but counted as refused and
        not learned, until ``readmit``; other keys are not affected. (A row with such a value is predicted as the first
        class, or as NaN.)
    on_gap
        What to do about a missing value (NaN): "refuse" it as a value that is not finite, or "fill" it with the mean of
        the key's earlier values in that column, 0 if there is none, as keyed runs do. A key then keeps the sums of its
        columns, 16 bytes for each.
    threads
        Threads to use at most; None for one per processor. The result does not depend on it.
    seed
        Seed of all random numbers.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> fleet = Fleet()
    >>> for hour in range(20):  # the first column means the opposite for key 1
    ...     keys = rng.integers(3, size=200)
    ...     X = rng.normal(size=(200, 2))
    ...     y = (X[:, 0] > 0) == (keys != 1)
    ...     predicted = fleet.observe(keys, X, y)
    >>> fleet.predict([0, 1, 2], [[1, 0], [1, 0], [1, 0]])
    array([1, 0, 1])
    >>> fleet.table()["state"]
    array(['stable', 'stable', 'stable'], dtype='<U8')

    A number to predict, with another model:

    >>> from driftsurf import DriftSurfRegressor
    >>> amounts = Fleet(DriftSurfRegressor(max_rows=200), batch_size=20)
    >>> predicted = amounts.observe(["Oslo", "Rome"] * 100, X, np.where(np.arange(200) % 2, 7.0, 5.0))
    >>> amounts.predict(["Oslo", "Rome"], X[:2]).round(1)
    array([5., 7.])
    """

    def __init__(
        self,
        model: FleetModel | None = None,
        *,
        n_features: int | None = None,
        step_size: float | Literal["auto"] = "auto",
        l2: float = 1e-4,
        steps_per_row: float = 2.0,
        start: Literal["zeros", "uniform"] = "zeros",
        batch_size: int | None = None,
        threshold: float = 0.3,
        stable_threshold: float | None = None,
        reactive_length: int = 4,
        greedy: bool = True,
        max_rows: int = 128,
        classes: Classes | None = None,
        on_bad: Literal["raise", "quarantine"] = "raise",
        on_gap: Literal["refuse", "fill"] = "refuse",
        threads: int | None = None,
        seed: int = 0,
    ) -> None:
        self.model = model
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
        self.on_gap = on_gap
        self.threads = threads
        self.seed = seed

    # -------------------------------------------------------------------- preparation

    _ready = False
    _keys: Keys
    _serving: Serving
    _template: Session
    """Session that every key starts with a copy of, apart from its seed."""

    @property
    def _backend(self) -> KeyStore:
        return self._serving.backend

    def _prepare(self) -> None:
        """Check the options and set everything up, at the first use; options that are changed later have no effect."""
        if self._ready:
            return
        n_features = self.n_features
        if n_features is not None:
            n_features = whole("n_features", n_features, at_least=1, otherwise=", or None")
        choice("on_bad", self.on_bad, ("raise", "quarantine"))
        choice("on_gap", self.on_gap, ("refuse", "fill"))
        self._tolerant, self._fills = self.on_bad == "quarantine", self.on_gap == "fill"
        self._seed = (
            whole("seed", self.seed, at_least=0, at_most=None) % 2**64
        )  # random numbers depend on it modulo 2**64 only
        threads = available_processors()
        if self.threads is not None:
            threads = whole("threads", self.threads, at_least=1, at_most=MOST_THREADS, otherwise=", or None")
        self._threads = Threads(threads)
        self._settings = self._options()
        if self.model is None:
            self._template = self._default_model()
        else:
            self._check_no_options_of_a_model()
            self._template = template_of(self.model, self.classes, self.batch_size)
        self._keys = Keys()
        self._serving = self._serve(n_features)
        self._ready = True

    def _serve(self, n_features: int | None) -> Serving:
        """Return what serves rows with this many columns."""
        template, how = self._template, {"tolerant": self._tolerant, "fills": self._fills}
        if n_features is None:
            return Serving(None, SessionStore(template, None, **how))
        schema = Schema(n_features, owner=OWNER)
        if suits_cells(template):
            size = key_shape(template, n_features, fills=self._fills).most_bytes
            if size <= (MOST_BYTES if self.model is None else LARGE):
                kind = GrowingStore if is_growing(template) else CellStore
                return Serving(schema, kind(template, n_features, self._threads, **how))
            if self.model is None:
                raise OptionError(
                    f"a key would take {size:,} bytes, of which at most {MOST_BYTES:,} are possible; lower "
                    "n_features, batch_size, max_rows or reactive_length"
                )
        # Options that do not suit the columns are refused before any key learns.
        template.strategy.fresh(0).begin(n_features, sparse=False, n_classes=template.targets.n_classes)
        return Serving(schema, SessionStore(template, n_features, **how))

    def _options(self) -> dict[str, Any]:
        """Return the parameters as they are now, numpy scalars as Python's numbers."""
        given = {name: vars(self)[name] for name in inspect.signature(type(self)).parameters}
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}

    def _default_model(self) -> Session:
        """Return what a key starts with, if no model is given; this also checks the options."""
        given = self._settings
        batch_size = BATCH_SIZE if given["batch_size"] is None else given["batch_size"]
        given["batch_size"] = whole("batch_size", batch_size, at_least=1, otherwise=", or None")
        whole("max_rows", given["max_rows"], at_least=1)
        learner = LogisticRegression(**{name: given[name] for name in LEARNER_OPTIONS})
        strategy = DriftSurf(learner, **{name: given[name] for name in STRATEGY_OPTIONS}, dtype="float32")
        classes = (0, 1) if given["classes"] is None else given["classes"]
        template = Session(strategy, classes=classes, batch_size=given["batch_size"], guard=None)
        given["classes"] = template.targets.labels
        if len(template.targets.labels) != 2:
            raise OptionError(
                f"classes is {self.classes!r}; a fleet without a model needs exactly two labels. For others, pass a "
                "model, such as Fleet(DriftSurfClassifier(max_rows=128))"
            )
        return template

    def _check_no_options_of_a_model(self) -> None:
        """Raise OptionError if an option is set that belongs into the model."""
        usual = inspect.signature(type(self)).parameters
        for name in (*LEARNER_OPTIONS, *STRATEGY_OPTIONS):
            if self._settings[name] != usual[name].default:
                raise OptionError(f"{name} is {self._settings[name]!r}, but there is a model: set it in the model")

    # -------------------------------------------------------------------- learning

    @locked
    def observe(
        self, keys: KeysLike, X: MatrixLike, y: TargetLike, *, sample_weight: TargetLike | None = None
    ) -> npt.NDArray[Any]:
        """Predict each row with its key's model as it is when the row arrives, then learn. Returns the predictions.

        A row counts ``sample_weight`` times in training and in risks, once in the error of its key. In compiled loops,
        a key takes eight more bytes for each row that it can keep from the first call with weights on.

        An error leaves everything as it was, with one exception. If a time step of a key fails, that key is in
        quarantine afterwards, and the other keys have learned; this is a DivergenceError (the step size is too large
        for its rows), or the error of a model of another library.
        """
        self._prepare()
        serving = self._serving if self._serving.schema is not None else self._serve(read_schema(X, OWNER).n_features)
        rows, bad = (self._read_gappy if self._fills else self._read_rows)(X, serving.schema)
        labels, bad_labels = serving.backend.read_labels(y, len(rows))
        if len(bad_labels):
            bad = np.where(bad > 0, bad, bad_labels) if len(bad) else bad_labels
        # Copied, as threads may still read it when an exception has given the caller's array back to the caller.
        weights = None if sample_weight is None else np.array(read_weights(sample_weight, len(rows)))
        given = self._keys.read(keys)
        _check_counts(rows, given)
        with uninterrupted():
            work = self._change(self._learned, serving, given, rows, labels, bad, weights)
        if not self._tolerant:
            self._raise(self._backend.faults(work))
        return self._backend.predicted(work)

    def _raise(self, faults: dict[int, Exception]) -> None:
        """Raise the error of time steps that failed, if there are any."""
        if not faults:
            return
        names = self.keys
        result = "in quarantine with their last good models; all other rows of this call were learned."
        others = {slot: error for slot, error in faults.items() if not isinstance(error, DivergenceError)}
        if others:
            error = next(iter(others.values()))
            error.add_note(f"The keys {listed([names[slot] for slot in faults])} are {result}")
            raise error
        raise DivergenceError(
            f"training diverged for {len(faults)} of {len(self)} keys ({listed([names[slot] for slot in faults])}). "
            f"They are {result} Lower step_size, or use the default, which scales the columns."
        )

    @locked
    def readmit(self, keys: KeysLike) -> None:
        """End the quarantine of keys: they resume learning from their last good models."""
        slots = self._find(keys)
        self._backend.readmit(slots)

    def _read_rows(self, X: MatrixLike, schema: Schema | None) -> tuple[DenseRows, Codes]:
        """Return checked rows, and the reason why each row is bad (empty if none is)."""
        assert schema is not None
        dtype = self._template.strategy.dtype
        rows = cast("DenseRows", read_rows(X, schema, dtype, finite=False))
        if all(self._threads.map(lambda part: all_finite(rows[part]), self._threads.parts(len(rows)))):
            return rows, np.zeros(0, np.uint8)
        if not self._tolerant:
            read_rows(X, schema, dtype)  # raises the error that names the place
        return rows, np.where(np.isfinite(rows).all(axis=1), 0, REASONS.index("not_finite")).astype(np.uint8)

    def _read_gappy(self, X: MatrixLike, schema: Schema | None, *, strict: bool = False) -> tuple[DenseRows, Codes]:
        """Return rows as float64, NaN for gaps, and the reason why each row is bad (empty if none is).

        The means of columns are those of the values as they are given, not as the models keep them.
        """
        assert schema is not None
        dtype = self._template.strategy.dtype
        rows = cast("DenseRows", read_rows(X, schema, finite=False))
        with np.errstate(over="ignore"):
            bad = np.isinf(rows.astype(dtype)).any(axis=1)
        if bad.any() and (strict or not self._tolerant):
            read_rows(np.where(np.isnan(rows), 0.0, rows), schema, dtype)  # raises the error that names the place
        return rows, (bad * REASONS.index("not_finite")).astype(np.uint8) if bad.any() else np.zeros(0, np.uint8)

    def _learned(
        self,
        serving: Serving,
        given: IntArray | list[str],
        rows: DenseRows,
        labels: Any,
        bad: Codes,
        weights: FloatArray | None,
    ) -> tuple[None, Any]:
        """Make new keys with their first models, predict and learn; return the work that was done."""
        before, backend = len(self._keys), serving.backend
        self._serving = serving
        slots = self._keys.add(given, self._threads)
        backend.reserve(len(self._keys), weighted=weights is not None)
        backend.add(self._keys.seeds(self._seed, before))
        work = backend.prepare(rows, labels, bad, slots, weights)
        assert self._before is not None
        self._before[0].work = work
        backend.learn(work)
        return None, work

    def _mark(self) -> _Mark:
        return _Mark(self._keys.mark(), self._serving)

    def _put_back(self, mark: _Mark) -> None:
        """Remove the new keys; but a call of which any row is learned cannot be undone, and is completed instead."""
        if mark.work is None or not self._backend.complete(mark.work):
            self._keys.put_back(mark.keys)
            self._backend.truncate(len(self._keys))
            self._serving = mark.serving

    # -------------------------------------------------------------------- reading

    @locked
    def predict(self, keys: KeysLike, X: MatrixLike) -> npt.NDArray[Any]:
        """Return the labels, or numbers, that each key's current model predicts.

        A key that was never observed is an error.
        """
        slots = self._find(keys)
        schema = self._serving.schema
        assert schema is not None
        if self._fills:
            rows, _ = self._read_gappy(X, schema, strict=True)
        else:
            rows = cast("DenseRows", read_rows(X, schema, self._template.strategy.dtype))
        _check_counts(rows, slots)
        return self._backend.predict(rows, slots)

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
        """Return the weights that predict this key's next row, the intercept last; a row of them for each of 3 classes.

        CapabilityError unless a single linear model predicts.
        """
        slot = self._find_one(key)
        return self._backend.weights(slot)

    @property
    def drifts_(self) -> NoReturn:
        """A fleet has no drifts: it keeps neither predictions nor labels. AttributeError names what has them."""
        raise AttributeError(
            "a Fleet has no drifts_, since it keeps no predictions: transitions() tells which models changed; a keyed "
            "run (driftsurf.run(..., key=...).drifts) or an estimator for each key detects drifts"
        )

    @locked
    def table(self) -> dict[str, npt.NDArray[Any]]:
        """Return columns with one entry per key; ``pandas.DataFrame(fleet.table())`` makes a frame of them.

        They are the key, its rows and time steps, its state, its error so far (of a regression, the mean absolute
        error), the number of its models and transitions, its last transition, its refused rows, and the reason for its
        quarantine (see :data:`~driftsurf.keyed.quarantine.Reason`), empty if there is none.
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
        """Bytes allocated: for the keys, for the room to add more, and for the index that finds them.

        Of a session per key, this counts rows and models, without Python's objects around them.
        """
        return self._backend.nbytes + self._keys.nbytes if self._ready else 0

    @property
    @locked
    def bytes_per_key(self) -> int:
        """Bytes that a key takes, without the index that finds it; with a guard, or a session per key, their mean."""
        self._prepare()
        return self._backend.bytes_per_key

    @locked
    def session(self, key: Key) -> Session:
        """Return a copy of this key's model as a session of its own, which continues exactly as it would have here."""
        slot = self._find_one(key)
        return self._backend.session(slot, self._template.fresh(key_seed(self._seed, key)))

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

    # -------------------------------------------------------------------- state

    @locked
    def state(self) -> State:
        """Return everything that decides what comes next, keys and options included; the journal is not part of it."""
        self._prepare()
        settings, schema = self._settings, self._serving.schema
        if self.model is not None:
            settings = {name: settings[name] for name in COMMON_OPTIONS} | {"model": template_settings(self._template)}
        settings = {name: value for name, value in settings.items() if value is not None or name != "model"}
        settings["n_features"] = None if schema is None else schema.n_features
        state: State = {"fleet": json.dumps(settings, sort_keys=True)}
        return state | nest("keys", self._keys.state()) | self._backend.state()

    @classmethod
    def from_state(cls, state: State, learner: LearnerLike | None = None) -> Self:
        """Return the fleet that ``state()`` was taken from; ``learner`` as for ``from_bytes``."""
        try:
            options = json.loads(str(state.get("fleet")))
            if "model" in options:
                options["model"] = template_from(options["model"], learner)
            fleet = cls(**options)
            fleet._prepare()
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            if isinstance(error, StateError):
                raise
            raise misfit(state, "fleet", f"is not the options of a fleet ({error})") from error
        fleet._keys = Keys.from_state(pick("keys", state))
        schema = fleet._serving.schema
        if schema is None and len(fleet._keys):
            raise misfit(state, "fleet", "has no number of columns, but there are keys")
        if schema is not None and "weights" not in state:  # saved when compiled loops served fewer models
            own = SessionStore(fleet._template, schema.n_features, tolerant=fleet._tolerant, fills=fleet._fills)
            fleet._serving = Serving(schema, own)
        fleet._backend.restore(state, fleet._keys.seeds(fleet._seed, 0))
        return fleet

    @locked
    def to_bytes(self, *, trust_pickle: bool = False) -> bytes:
        """Save the whole fleet exactly: ``from_bytes`` continues as if there had been no break.

        A learner of another library that only pickle can save is refused unless ``trust_pickle`` is true.
        """
        return to_bytes(self.state(), trust_pickle=trust_pickle)

    @classmethod
    def from_bytes(cls, data: bytes, learner: LearnerLike | None = None, *, trust_pickle: bool = False) -> Self:
        """Return the fleet that ``to_bytes`` saved.

        Parameters
        ----------
        data
            The saved bytes.
        learner
            The learner of the models, if it is one of another library.
        trust_pickle
            Whether to load bytes that hold a pickle. Pickles can run any code: trust only files of your own.
        """
        return cls.from_state(from_bytes(data, trust_pickle=trust_pickle), learner)


def _check_counts(rows: DenseRows, keys: IntArray | Slots | list[str]) -> None:
    if len(keys) != len(rows):
        raise ShapeError(f"X has {len(rows)} rows and there are {len(keys)} keys: pass one key per row.")
