"""Contracts between the parts of the package, and the small values that pass between them.

Data flows one way. A *batch* of rows enters the *sample store* and from then on is known by a *segment* of row numbers.
*Learners* are trained on segments, and a *strategy* decides which learners live and which one predicts. Every mutation
returns its own undo, so that a time step over several learners is applied completely or not at all.

What only some parts can do is in :mod:`driftsurf.core.abilities`; :mod:`driftsurf.checks` tests both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.core.decisions import Decision, Transition

__all__ = [
    "CSR",
    "AppendOnlyArray",
    "Batch",
    "Capabilities",
    "Categories",
    "DenseRows",
    "Detection",
    "Detector",
    "FloatArray",
    "IncrementalState",
    "IntArray",
    "Learner",
    "Pickled",
    "Rows",
    "SampleStore",
    "Scalar",
    "Segment",
    "State",
    "Strategy",
    "Undo",
    "gathered",
    "n_rows",
    "take_rows",
]

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
DenseRows: TypeAlias = npt.NDArray[np.floating[Any]]
Scalar: TypeAlias = bool | int | float | str
State: TypeAlias = dict[str, "Scalar | npt.NDArray[Any]"]
"""Saved state of an object: a flat dictionary of scalars, text and arrays."""
IncrementalState: TypeAlias = dict[str, Any]
"""A state in which the arrays that grow with the rows are ``AppendOnlyArray``."""
Undo: TypeAlias = Callable[[], None]
"""Reverts the mutation that returned it; valid until the next mutation."""


@dataclass(frozen=True, slots=True)
class AppendOnlyArray:
    """Array of a state that a checkpoint saves incrementally.

    Entries are numbered. New entries are appended at the end and old ones are dropped at the start.

    Examples
    --------
    >>> import numpy as np
    >>> losses = [0.5, 0.4, 0.3]
    >>> entry = AppendOnlyArray(losses, first=1, stop=3, read=lambda start, stop: np.array(losses[start:stop]))
    >>> entry.array()
    array([0.4, 0.3])
    """

    owner: object
    """Object that holds the entries. The same owner means the same numbering."""
    first: int
    stop: int
    read: Callable[[int, int], npt.NDArray[Any]]
    """Returns the entries from one number up to, but not including, another."""
    version: int = 0
    """Counts the changes of existing entries."""
    changed: Callable[[int], IntArray | None] = lambda version: np.zeros(0, np.int64)
    """Returns the numbers of the entries changed since a version, in any order; None if the version is too old."""
    ends: bool = False
    """Whether the entries are lengths, and the saved array holds their cumulative sum, starting with 0."""

    def array(self) -> npt.NDArray[Any]:
        """Return the whole array as a state holds it."""
        return self.laid_out(self.read(self.first, self.stop))

    def laid_out(self, entries: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return entries as a state holds them."""
        return np.concatenate([np.zeros(1, entries.dtype), np.cumsum(entries)]) if self.ends else entries


@dataclass(frozen=True, slots=True)
class Pickled:
    """Object of another library inside a state. It is written and read only where pickle is trusted.

    Examples
    --------
    >>> from driftsurf.core.state import to_bytes
    >>> state = {"model": Pickled("MyLearner", {1, 2})}
    >>> to_bytes(state)
    Traceback (most recent call last):
        ...
    driftsurf.errors.CapabilityError: ...
    >>> len(to_bytes(state, trust_pickle=True)) > 0
    True
    """

    owner: str
    """Name of the part that holds the object, for messages."""
    value: Any


class CSR(NamedTuple):
    """Sparse rows: row i has the values ``data[indptr[i]:indptr[i+1]]`` in the columns ``indices`` of that range.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import n_rows
    >>> rows = CSR(np.array([1.5, 2.0]), np.array([0, 2], np.int32), np.array([0, 1, 1, 2]), n_features=3)
    >>> n_rows(rows)
    3
    """

    data: npt.NDArray[np.floating[Any]]
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int64]
    n_features: int


Rows: TypeAlias = DenseRows | CSR
Categories: TypeAlias = tuple[tuple[int, int], ...]
"""Categories of rows: ranges (first, stop) of columns, in rising order, of which exactly one is 1 in each row."""


def n_rows(X: Rows) -> int:
    """Return the number of rows, dense or sparse.

    Examples
    --------
    >>> import numpy as np
    >>> n_rows(np.zeros((4, 2)))
    4
    """
    return len(X.indptr) - 1 if isinstance(X, CSR) else len(X)


def take_rows(X: Rows, start: int, stop: int) -> Rows:
    """Return the rows ``start`` to ``stop - 1``, dense or sparse, without copying their values.

    Examples
    --------
    >>> import numpy as np
    >>> take_rows(np.arange(6.0).reshape(3, 2), 1, 3)
    array([[2., 3.],
           [4., 5.]])
    """
    if isinstance(X, CSR):
        return X._replace(indptr=X.indptr[start : stop + 1])
    return X[start:stop]


def gathered(X: Rows, order: IntArray) -> Rows:
    """Return copies of the rows of X with these numbers, in this order.

    Examples
    --------
    >>> import numpy as np
    >>> gathered(np.arange(6.0).reshape(3, 2), np.array([2, 0]))
    array([[4., 5.],
           [0., 1.]])
    """
    if not isinstance(X, CSR):
        return X[order]
    starts, lengths = X.indptr[order], np.diff(X.indptr)[order]
    indptr = np.append(0, np.cumsum(lengths))
    taken = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
    return CSR(X.data[taken], X.indices[taken], indptr, X.n_features)


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows numbered ``lo`` to ``hi - 1`` of a stream.

    Examples
    --------
    >>> len(Segment(10, 25))
    15
    """

    lo: int
    hi: int

    def __len__(self) -> int:
        return self.hi - self.lo


class Batch(NamedTuple):
    """Rows with their targets (class codes 0, 1, ... or numbers) and weights, as the store holds them.

    ``first_row`` is the number of the first row in the stream.

    Examples
    --------
    >>> import numpy as np
    >>> batch = Batch(np.eye(2), y=np.array([0.0, 1.0]), weight=np.ones(2), first_row=500)
    >>> batch.first_row + len(batch.y)
    502
    """

    X: Rows
    y: FloatArray
    weight: FloatArray
    first_row: int = 0


class SampleStore(Protocol):
    """The sample store as a learner sees it: rows by number, never copied.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Segment
    >>> from driftsurf.core.samples import Samples
    >>> samples: SampleStore = Samples(n_features=1)
    >>> _ = samples.append(np.array([[1.0], [2.0]]), np.array([0.0, 1.0]))
    >>> samples.view(Segment(1, 2)).X
    array([[2.]])
    """

    def view(self, segment: Segment) -> Batch:
        """Return the rows of ``segment``."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRows:
    """CSR rows in canonical form by construction. Everything else takes them for a sparse matrix of scipy.

    A session does not look at them again if they are finite, which saves the checks of the same values in every batch,
    and scipy's own when it makes a matrix.
    """

    csr: CSR
    finite: bool
    """Whether all values are finite."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self.csr.indptr) - 1, self.csr.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.csr.data.dtype

    @property
    def format(self) -> str:
        """Name of the storage format."""
        return "csr"

    @property
    def data(self) -> npt.NDArray[np.floating[Any]]:
        """The values, row after row."""
        return self.csr.data

    @property
    def indices(self) -> npt.NDArray[np.int32]:
        """The column of each value."""
        return self.csr.indices

    @property
    def indptr(self) -> npt.NDArray[np.int64]:
        """Where each row begins."""
        return self.csr.indptr

    def __getitem__(self, kept: npt.NDArray[np.bool_]) -> EncodedRows:
        """Return the rows for which ``kept`` is true."""
        rows = gathered(self.csr, np.flatnonzero(kept))
        assert isinstance(rows, CSR)
        return EncodedRows(rows, self.finite)

    def tocsr(self) -> Any:
        """Return the rows as ``scipy.sparse.csr_array``."""
        from scipy import sparse

        data, indices, indptr, _ = self.csr
        return sparse.csr_array((data, indices, indptr.astype(np.int32, copy=False)), shape=self.shape)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Abilities of a learner. Strategies and estimators refuse a learner by the names of these fields.

    Examples
    --------
    >>> can = Capabilities(tasks=frozenset({"regression"}), sparse=False, gradients=False)
    >>> can.regression, can.min_classes, can.work
    (True, 0, 'visits')
    """

    tasks: frozenset[str] = frozenset({"binary"})
    """Any of "binary" and "multiclass", or "regression" alone."""
    sparse: bool = True
    """Accepts CSR rows."""
    weights: bool = True
    """Takes the weights of rows into account."""
    anchor: bool = False
    """Its penalty can pull towards a given point: it is :class:`~driftsurf.core.abilities.Anchorable`."""
    one_pass: bool = False
    """Can learn each row once and keep none: it is :class:`~driftsurf.core.abilities.OnePassLearner`."""
    linear: bool = False
    """Scores are linear in the columns, so that a single extreme value can dominate them: a session with a guard limits
    the values of each column. Other learners get rows as they are."""
    quadratic_loss: bool = False
    """The loss of a row grows with the square of its score, not in proportion to it."""
    can_memorise: bool = False
    """Can fit its training rows perfectly, so that its loss on those rows says little."""
    exact_state: bool = True
    """``from_state(state())`` continues bit for bit."""
    state_kind: Literal["arrays", "rows", "tensors", "pickle"] = "arrays"
    """Saved state: all numbers of the model ("arrays"); the rows it was fitted on, to be fitted again on loading
    ("rows": it is :class:`~driftsurf.core.abilities.Refittable`); the tensors of a network whose code has to be passed
    to ``load`` ("tensors"); or an object that only pickle can save ("pickle")."""
    probabilities: bool = True
    """Scores of a classifier are log-odds or log-probabilities; otherwise they only rank the classes."""
    grows_classes: bool = False
    """``grow`` makes room for classes that appear after the first update."""
    categories: bool = False
    """Reads the columns of a category as one: it is :class:`~driftsurf.core.abilities.CategoryAware`."""
    gradients: bool = True
    """The work of the learner is counted in gradients; otherwise in visits of rows, as for trees."""

    @property
    def work(self) -> Literal["gradients", "visits"]:
        """Unit in which the work of the learner is counted."""
        return "gradients" if self.gradients else "visits"

    @property
    def regression(self) -> bool:
        """Whether the targets are numbers rather than classes."""
        return "regression" in self.tasks

    @property
    def min_classes(self) -> int:
        """Smallest ``n_classes`` of a model: 0 for regression, else 2."""
        return 0 if self.regression else 2


class Learner(Protocol):
    """A base learner. One that has not been trained is a template, which strategies never change.

    Any class with these members is a learner, such as ``NearestCentroid`` of ``examples/driftsurf-mystrategy``;
    :func:`driftsurf.checks.check_learner` tests one. A model of another library needs an adapter only:
    :func:`driftsurf.learners.foreign.as_learner`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.samples import Samples
    >>> from driftsurf.learners import LogisticRegression
    >>> template: Learner = LogisticRegression()
    >>> model = template.fresh(seed=0, n_features=1, n_classes=2)
    >>> samples = Samples(n_features=1)
    >>> new = samples.append(np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]))
    >>> undo = model.update(samples, new, steps=model.budget(new))
    >>> model.scores(np.array([[-1.0], [1.0]])) > 0
    array([False,  True])
    >>> undo()
    >>> model.gradients
    0
    """

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """Abilities of the learner."""
        ...

    @abstractmethod
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        ...

    @abstractmethod
    def fresh(self, seed: int, n_features: int, n_classes: int) -> Self:
        """Return a new model with the parameters of this template, all its random draws fixed by ``seed``.

        ``n_classes`` is 0 for regression. CapabilityError if the learner cannot be used for this task.
        """
        ...

    @abstractmethod
    def budget(self, new: Segment) -> int:
        """Return the compute budget rho, in gradients, that one model gets for these new rows."""
        ...

    @abstractmethod
    def update(self, samples: SampleStore, new: Segment, steps: int) -> Undo:
        """Learn with ``steps`` gradients; the training set reaches from the first row ever given to ``new.hi``."""
        ...

    @abstractmethod
    def forget(self, samples: SampleStore, before_row: int) -> Undo:
        """Drop the rows before ``before_row`` from the training set, and their gradients from the average."""
        ...

    @abstractmethod
    def scores(self, X: Rows) -> FloatArray:
        """Return margins (n,), log-probabilities (n, K) or predicted numbers (n,). Changes nothing.

        For two classes, a learner returns either margins or two columns, always the same.
        """
        ...

    @abstractmethod
    def scorer(self) -> Callable[[Rows], FloatArray]:
        """Return ``scores`` of the model as it is now; later updates do not affect the returned function."""
        ...

    @abstractmethod
    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss of each row, without the penalty, computed from its score and its target."""
        ...

    @abstractmethod
    def penalty(self) -> float:
        """Return what regularisation adds to the mean loss."""
        ...

    @abstractmethod
    def needs(self) -> int | None:
        """Return the number of the oldest row that is still needed; None before the first update."""
        ...

    @abstractmethod
    def grow(self, n_classes: int) -> Undo:
        """Make room for more classes; CapabilityError if the learner cannot."""
        ...

    @property
    @abstractmethod
    def gradients(self) -> int:
        """Gradients computed since the model was made."""
        ...

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held in addition to the rows."""
        ...

    @abstractmethod
    def state(self) -> State:
        """Return everything that changes while learning."""
        ...

    @classmethod
    @abstractmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """Return the model that ``state()`` was called on; ``template`` has its parameters."""
        ...


class Detection(NamedTuple):
    """Result of an update of a drift detector. It is true only if there was a drift: ``if detector.update(value):``.

    Examples
    --------
    >>> bool(Detection(consumed=1, drift=False))
    False
    """

    consumed: int
    """Number of values consumed, the one that caused a signal included."""
    drift: bool
    """Whether the update ended with a drift signal."""

    def __bool__(self) -> bool:
        return self.drift


class Detector(Protocol):
    """A drift detector, fed value by value. One that has seen no value is a template, which strategies never change.

    All detectors have the same polarity: the values are errors, 1 for a wrong prediction and 0 for a right one.
    :func:`driftsurf.checks.check_detector` tests a detector.

    Examples
    --------
    >>> from driftsurf.detectors import DDM
    >>> detector: Detector = DDM()
    >>> detector.update([0, 1] * 50 + [1] * 50)
    Detection(consumed=126, drift=True)
    """

    @property
    @abstractmethod
    def drift(self) -> bool:
        """Whether the last update ended with a drift signal."""
        ...

    @property
    @abstractmethod
    def warning(self) -> bool:
        """Whether the last update ended in the warning zone, for detectors that have one."""
        ...

    @abstractmethod
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        ...

    @abstractmethod
    def check(self) -> None:
        """Raise OptionError if a parameter is invalid."""
        ...

    @abstractmethod
    def fresh(self) -> Self:
        """Return a new detector with the same parameters."""
        ...

    @abstractmethod
    def update(self, values: npt.ArrayLike) -> Detection:
        """Consume one value, or several up to the first signal; the result is true only if there was a signal."""
        ...

    @abstractmethod
    def reset(self) -> None:
        """Forget all values."""
        ...

    @abstractmethod
    def state(self) -> State:
        """Return everything that values change."""
        ...

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state that ``state()`` of a detector with the same parameters returned."""
        ...

    @classmethod
    @abstractmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """Return the detector that ``state()`` was called on; ``template`` has its parameters."""
        ...


class Strategy(Protocol):
    """An algorithm for learning under drift: holds the rows and the models, and decides which model predicts.

    Any class with these members is a strategy: it can be checked (:func:`driftsurf.checks.check_strategy`), saved,
    resumed from a checkpoint and run per key. A class may also derive from this protocol and inherit the bodies of
    ``check``, ``fresh`` and ``test_scores``; without any other member it cannot be instantiated. Its constructor takes
    ``learner`` and ``seed``, stores every argument under its own name, and does nothing else.

    A strategy with one model at a time needs much less: see :class:`driftsurf.strategies.SingleModel`.
    ``PeriodicReset`` of ``examples/driftsurf-mystrategy`` implements the whole protocol.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> from driftsurf.strategies import DriftSurf
    >>> strategy: Strategy = DriftSurf(LogisticRegression()).fresh(seed=1)
    >>> strategy.begin(n_features=1, sparse=False, n_classes=2)
    >>> decision = strategy.step(Batch(np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]), np.ones(2)))
    >>> decision.step, decision.rows, decision.state
    (0, 2, 'stable')
    """

    learner: Learner
    """Template of the models."""
    dtype: str
    """Type of the stored rows, "float64" or "float32"."""

    @abstractmethod
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name, ``learner`` and ``seed`` among them."""
        ...

    def check(self) -> None:
        """Raise OptionError or CapabilityError if a parameter is invalid. The default accepts everything."""
        return

    def fresh(self, seed: int) -> Self:
        """Return a strategy with the same parameters and another seed, which has learned nothing.

        The two share their parameters, which nobody changes, and no other object: every key of a keyed run gets its
        strategy this way. The default calls the constructor with ``get_params()``.
        """
        return type(self)(**(self.get_params(deep=False) | {"seed": seed}))

    @abstractmethod
    def begin(self, n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Create the store and the first model, before the first batch; ``n_classes`` is 0 for regression."""
        ...

    @abstractmethod
    def scores(self, X: Rows) -> FloatArray:
        """Return the scores of the model that predicts now. Changes nothing."""
        ...

    def test_scores(self, batch: Batch) -> FloatArray:
        """Return the scores by which a batch is evaluated before it is learned. The default is ``scores``."""
        return self.scores(batch.X)

    @abstractmethod
    def step(self, batch: Batch, tested: FloatArray | None = None) -> Decision:
        """Learn one batch, completely or not at all; class codes beyond the known classes make the models grow.

        ``tested`` is the result of ``test_scores`` for this batch, if it was computed, so that it can be reused.
        """
        ...

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held for rows and models."""
        ...

    @abstractmethod
    def reset(self, why: str) -> Transition:
        """Start over with fresh models and without any of the rows so far, at the request of a user."""
        ...

    @abstractmethod
    def state(self) -> State:
        """Return everything that later steps depend on in addition to the parameters.

        This includes the seed of the draws to come, since a model may be loaded into a strategy with another seed.
        """
        ...

    @abstractmethod
    def restore(self, state: Mapping[str, Any], n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Take over a state that ``state()`` returned, instead of ``begin``.

        StateError if the state is damaged, or is not for rows of this shape and at most this many classes.
        """
        ...
