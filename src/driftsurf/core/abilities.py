"""Optional abilities of learners and strategies, and the test for a whole contract.

:mod:`driftsurf.core.contracts` says what every part must do. An ability is something that only some parts can do; it is
a small protocol, and a part has the ability if it has the protocol's members. ``isinstance`` on a protocol takes
tens of microseconds, so code that runs at every time step or visit asks :func:`abilities_of`, which is cached.

=======================  ==========  ==============================================================
ability                  of          what it is good for
=======================  ==========  ==============================================================
`IncrementallySaved`     both        checkpoints write only what is new
`JointlyTrained`         learner     the models of one strategy learn a batch in one call
`JointlyScored`          learner     the models of one strategy score a batch in one call
`ScoresReused`           learner     an update uses the scores by which the batch was evaluated
`ShapeChecked`           learner     a saved model for other rows is refused
`Reversible`             both        an exception at any line of a step leaves it as it was
`RowsChecked`            learner     a saved model whose rows are not in the store is refused
`Refittable`             learner     declared by ``state_kind="rows"``: saved as the rows of its fit
`Anchorable`             learner     declared by ``anchor=True``: needed by Candor
`OnePassLearner`         learner     declared by ``one_pass=True``: needed by OnePass
`LinearPredictor`        learner     can be exported as plain arrays and ONNX
`CategoryAware`          learner     declared by ``categories=True``: text is one column of categories
`Freezable`              learner     what it knew at some time is saved without the rows it learned
`SnapshotScoring`        strategy    threads predict while another one learns, without waiting
`DirectlyStepped`        strategy    checks, guards and learns a usual batch in one call
`SinglePredictor`        strategy    says which of its models predicts now
`RowBounded`             strategy    keeps at most ``max_rows`` rows
`DetectorBased`          strategy    has a drift detector with options of its own
`CategoryTold`           strategy    has models of its own that read text as one column of categories
`LateAware`              strategy    predicts in another way where labels come late
`Disagreeing`            strategy    says how far its experts disagree about each row
`StrategyMaker`          estimator   can be an expert of a portfolio
=======================  ==========  ==============================================================

Four abilities of a learner are also declared in its :class:`~driftsurf.core.contracts.Capabilities`, because
strategies refuse a learner without them by name, and a session asks for the last.
:func:`driftsurf.checks.check_learner` verifies that declaration and methods agree.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, Literal, NamedTuple, Protocol, Self, runtime_checkable

from driftsurf.core.contracts import (
    Capabilities,
    Categories,
    Detector,
    FloatArray,
    IncrementalState,
    Learner,
    Rows,
    SampleStore,
    Segment,
    State,
    Strategy,
    Undo,
)
from driftsurf.core.journal import Outcome
from driftsurf.core.options import shown
from driftsurf.errors import OptionError

MOST_LISTED = 5
"""An error message names at most this many missing members, unless the author of the part reads it."""


@runtime_checkable
class IncrementallySaved(Protocol):
    """Can hand out its state with growing arrays that a checkpoint saves by their new entries only."""

    def incremental_state(self) -> IncrementalState:
        """Return the entries of ``state()``, with arrays that grow with the rows as ``AppendOnlyArray``."""
        ...


@runtime_checkable
class Reversible(Protocol):
    """Can go back to where it was marked, from any point, even from the middle of a change that was broken off."""

    def mark(self) -> Any:
        """Return a mark of how it is now. A mark is valid until the next one."""
        ...

    def put_back(self, mark: Any) -> None:
        """Make it as it was when it was marked; if an exception breaks this off, calling it again completes it."""
        ...


@runtime_checkable
class SnapshotScoring(Protocol):
    """Can hand out its scores as of now, which later steps do not affect."""

    def scorer(self) -> Callable[[Rows], FloatArray]:
        """Return ``scores`` of the models as the last complete step left them."""
        ...


class TakenStep(NamedTuple):
    """Result of a time step."""

    outcome: Outcome
    guard: Any
    """The range guard afterwards; None without one."""
    rows: Rows
    """The rows as they were learned: the guard may have limited their values."""
    predicted: FloatArray | None
    """Scores of the rows as they are predicted, if they were asked for."""
    tested: FloatArray | None
    """Scores of the rows as they are learned, by the same model, if they were asked for."""
    scorer: Callable[[Rows], FloatArray] | None
    """``scores`` of the models as the step left them; later steps do not affect it. None if there are none."""


@runtime_checkable
class DirectlyStepped(Protocol):
    """Can check, guard, predict and learn a batch in one call.

    It is ``Reversible`` and ``SnapshotScoring`` too.
    """

    def observe(
        self, X: Rows, y: FloatArray, weight: FloatArray | None, guard: Any, *, predict: bool, test: bool
    ) -> TakenStep | None:
        """Learn one batch; None if ``step`` has to, for instance because a value is not finite: nothing was changed.

        ``X`` are rows of the right type and width, ``guard`` is the range guard, a
        :class:`~driftsurf.native.guard.RangeGuard`, or None. ``predict`` and ``test`` ask for scores.
        """
        ...


@runtime_checkable
class JointlyTrained(Protocol):
    """Several models made from one template can be updated in one call, which is faster than one by one."""

    @classmethod
    def update_all(
        cls, models: Sequence[Self], samples: SampleStore, new: Sequence[Segment], steps: Sequence[int]
    ) -> Undo:
        """Update every model with its own new rows and its own number of steps, all or none.

        The result equals calling ``update`` of each model in turn, bit for bit.
        """
        ...


@runtime_checkable
class ScoresReused(Protocol):
    """An update needs the model's own scores of the new rows, and can use those that were computed before it."""

    def set_scores(self, new: Segment, scores: FloatArray | None) -> None:
        """Pass the scores that the model gave for rows that the next update learns; None if they are not known."""
        ...


@runtime_checkable
class Copied(Protocol):
    """A model can be copied without its saved state, which is faster."""

    def copied(self) -> Self:
        """Return the model that ``from_state`` would make from ``state()``; the two share nothing that changes."""
        ...


@runtime_checkable
class Freezable(Protocol):
    """What it knew at some time, as its ``scorer`` holds it, can be saved without the rows it learned."""

    def freezes(self, fitted: Any) -> bool:
        """Return whether ``frozen_state`` can save a value of the model."""
        ...

    def frozen_state(self, fitted: Any) -> State:
        """Return the entries of a value of the model."""
        ...

    def frozen_scorer(self, state: Mapping[str, Any]) -> Callable[[Rows], FloatArray]:
        """Return the scores of a model with this template, as ``scorer`` did at the time of the state."""
        ...


@runtime_checkable
class JointlyScored(Protocol):
    """Several models made from one template can score the same rows in one pass."""

    @classmethod
    def joint_scorer(cls, models: Sequence[Self]) -> Callable[[Rows], Sequence[FloatArray]]:
        """Return a function that gives the scores of each model, in order, as the models are now."""
        ...


@runtime_checkable
class ShapeChecked(Protocol):
    """Knows the shape of the rows and classes it was made for."""

    def fits(self, n_features: int, n_classes: int) -> bool:
        """Return whether the model was made for this many columns and classes (0 classes: regression)."""
        ...


@runtime_checkable
class RowsChecked(Protocol):
    """Knows rows of the store by number."""

    def outside(self, stored: Segment) -> str:
        """Return the name of an entry of its state that is a row number outside of the store; "" if there is none."""
        ...


@runtime_checkable
class Refittable(Protocol):
    """Is saved as the rows of its last fit, and fitted again on them when it is loaded."""

    def refit(self, samples: SampleStore) -> None:
        """Fit a model that ``from_state`` made on the rows it had; StateWarning if it predicts differently."""
        ...


@runtime_checkable
class Anchorable(Protocol):
    """Its penalty can pull the weights towards a given point instead of the origin."""

    def anchored(self, models: Sequence[Self], shares: FloatArray) -> Self:
        """Return this unfitted model, anchored at the weighted sum of the weights of ``models``."""
        ...


@runtime_checkable
class OnePassLearner(Protocol):
    """Can learn each row once, on arrival, and keep no rows."""

    def one_pass(self) -> Self:
        """Return a template with the same parameters that takes one step at each new row."""
        ...


@runtime_checkable
class CategoryAware(Protocol):
    """Can read the columns of a category, of which exactly one is 1 in each row, as a single column of codes."""

    def with_categories(self, categories: Categories) -> Self:
        """Return a template with the same parameters for rows with these categories."""
        ...


@runtime_checkable
class LinearPredictor(Protocol):
    """Scores are linear in the columns: ``X @ coef + intercept``."""

    @property
    def coef(self) -> FloatArray:
        """Weights of the columns; with several outputs, one row for each."""
        ...

    @property
    def intercept(self) -> Any:
        """Intercept, a float; with several outputs, an array with one for each."""
        ...

    @property
    def ranges(self) -> tuple[FloatArray, FloatArray] | None:
        """Smallest and largest value of each column, to which rows are limited before they are scored; None: none."""
        ...


@runtime_checkable
class Disagreeing(Protocol):
    """Several experts predict, which disagree about some rows more than about others."""

    def disagreement(self) -> FloatArray | None:
        """Return how far they disagreed about each row (rows, signs) that was tested last; None before one."""
        ...

    @staticmethod
    def scores_and_disagreement(scorer: Any, X: Rows) -> tuple[FloatArray, FloatArray]:
        """Return the scores that a scorer of the strategy returns for rows, and how far experts disagree about each."""
        ...


@runtime_checkable
class SinglePredictor(Protocol):
    """One of the strategy's models predicts at a time."""

    @property
    def predicting(self) -> Learner | None:
        """Model that predicts now; None while several models vote."""
        ...


@runtime_checkable
class RowBounded(Protocol):
    """Keeps at most ``max_rows`` rows; None keeps all."""

    max_rows: int | None


@runtime_checkable
class DetectorBased(Protocol):
    """Watches its errors with a drift detector, given as a template."""

    detector: Detector


@runtime_checkable
class CategoryTold(Protocol):
    """Makes models from other templates than its learner, some of which may read categories."""

    def tell_categories(self, categories: Categories) -> None:
        """Let the models that will be made know the categories of the rows."""
        ...


@runtime_checkable
class LateAware(Protocol):
    """Predicts in another way where labels come late."""

    def expect_late_labels(self) -> None:
        """Predict from now on as rows need it whose labels come long after them."""
        ...


@runtime_checkable
class StrategyMaker(Protocol):
    """Can make a strategy with its own parameters: an estimator."""

    def new_strategy(self, seed: int) -> Strategy:
        """Return a new strategy with the parameters of the estimator."""
        ...


def work_of(strategy: Strategy) -> Literal["gradients", "visits"]:
    """Return the unit in which the work of a strategy is counted: that of its learner.

    A strategy that trains models of several kinds counts visits of rows, of which a gradient is one.
    """
    return "visits" if isinstance(strategy, CategoryTold) else strategy.learner.capabilities.work


def capabilities_of(strategy: Strategy) -> Capabilities:
    """Return the capabilities of a strategy: those of its learner.

    A strategy that mixes classifiers of several kinds is not linear, so that values are not limited for it: some of its
    models need extreme values, and its mixture bounds what the others do with them. Extreme rows have a small weight.
    """
    can = strategy.learner.capabilities
    mixes = isinstance(strategy, CategoryTold) and not can.regression
    return replace(can, linear=False) if mixes else can


def missing_members(part: object, contract: type) -> list[str]:
    """Return the members of a contract that an object does not have, in alphabetical order.

    Unlike ``isinstance`` it names what is missing, and it evaluates no property: many properties of a learner work
    only once it has been trained.

    >>> from driftsurf.detectors import DDM
    >>> from driftsurf.core.contracts import Detector
    >>> missing_members(DDM(), Detector)
    []
    >>> missing_members("ddm", JointlyTrained)
    ['update_all']
    """
    kind: Any = type(part)
    missing = _missing_in_class(kind, contract).difference(getattr(part, "__dict__", ()))
    # dir() is slow, and a class may define it: it is asked only about members that are not found otherwise.
    return sorted(missing.difference(dir(part))) if missing else []


def check_contract(part: object, contract: type, name: str, remedy: str, most: int = MOST_LISTED) -> None:
    """Raise OptionError unless an object implements a contract; the message says which members it lacks.

    ``name`` is the name of the argument that holds the object, and ``remedy`` says what to pass instead. At most
    ``most`` members are listed.
    """
    if isinstance(part, type):
        raise OptionError(f"{name} is the class {part.__name__}; pass an instance of it, or {remedy}")
    missing = missing_members(part, contract)
    if missing:
        listed = ", ".join(missing[:most]) + (", ..." if len(missing) > most else "")
        raise OptionError(
            f"{name} is {shown(part)}, which does not implement {contract.__module__}.{contract.__name__}: it has no "
            f"{listed}; pass {remedy}"
        )


@functools.cache
def _missing_in_class(kind: type, contract: type) -> frozenset[str]:
    """Return the members of a contract that are no attributes of a class; its instances may still have them."""
    return frozenset(_members(contract).difference(dir(kind)))


def _members(contract: type) -> set[str]:
    protocols = [kind for kind in contract.__mro__ if kind not in (object, Protocol, Generic)]
    names = {name for kind in protocols for name in (*vars(kind), *inspect.get_annotations(kind))}
    return {name for name in names if not name.startswith("_")}


def abilities_of(part: object) -> frozenset[type]:
    """Return the abilities of a learner or a strategy that consist of methods alone.

    >>> from driftsurf.learners import LogisticRegression
    >>> abilities = abilities_of(LogisticRegression())
    >>> JointlyTrained in abilities, Refittable in abilities
    (True, False)
    """
    kind: Any = type(part)
    return _abilities_of_class(kind)


@functools.cache
def _abilities_of_class(kind: type) -> frozenset[type]:
    return frozenset(ability for ability in _OF_METHODS if issubclass(kind, ability))


_OF_METHODS: tuple[type, ...] = (
    IncrementallySaved,
    Reversible,
    SnapshotScoring,
    DirectlyStepped,
    JointlyTrained,
    Copied,
    Freezable,
    JointlyScored,
    ScoresReused,
    ShapeChecked,
    RowsChecked,
    Refittable,
)
"""Abilities that are asked for at every time step or visit."""
