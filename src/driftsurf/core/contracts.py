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
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy.typing as npt

from driftsurf.core.batches import (
    CSR,
    AppendOnlyArray,
    Batch,
    Categories,
    DenseRows,
    FloatArray,
    IncrementalState,
    IntArray,
    Pickled,
    Rows,
    SampleStore,
    Scalar,
    Segment,
    State,
    Undo,
    gathered,
    n_rows,
    take_rows,
)
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
