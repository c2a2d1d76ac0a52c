"""The scikit-learn faces of all other strategies: what DriftSurf is measured against, ready for the same pipelines."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from inspect import signature as signature_of
from typing import Any, TypeVar

from driftsurf._face import Adaptive, AdaptiveClassifier, AdaptiveRegressor
from driftsurf.adapters import as_detector
from driftsurf.base import Learner, Strategy
from driftsurf.detectors import MDDM
from driftsurf.strategies import (
    AUE,
    DWM,
    PERM,
    Aware,
    Candor,
    ExponentialDecay,
    LearnNSE,
    LinearDecay,
    Oblivious,
    OnePass,
    PairedLearners,
    ResetOnDrift,
    SlidingWindow,
)

__all__ = [
    "AUEClassifier",
    "AUERegressor",
    "AdaptiveClassifier",
    "AdaptiveRegressor",
    "AwareClassifier",
    "AwareRegressor",
    "CandorClassifier",
    "DWMClassifier",
    "ExponentialDecayClassifier",
    "ExponentialDecayRegressor",
    "LearnNSEClassifier",
    "LinearDecayClassifier",
    "LinearDecayRegressor",
    "ObliviousClassifier",
    "ObliviousRegressor",
    "OnePassClassifier",
    "OnePassRegressor",
    "PERMClassifier",
    "PERMRegressor",
    "PairedLearnersClassifier",
    "ResetOnDriftClassifier",
    "SlidingWindowClassifier",
    "SlidingWindowRegressor",
    "face_of",
]

F = TypeVar("F", bound=type[Adaptive])
COMMON: dict[str, Any] = {"batch_size": None, "guard": 2.0, "classes": None, "random_state": None}
"""What every face takes beside the options of its strategy, with the defaults."""


def face_of(strategy: Callable[..., Strategy], **defaults: Any) -> Callable[[F], F]:
    """Give a face the options of a strategy as its parameters: the constructor, and how the strategy is made.

    The parameters are ``learner``, every option of the strategy but its seed, and ``batch_size``, ``guard``,
    ``classes`` (where it learns classes) and ``random_state``. ``defaults`` are for options that have none.

    Examples
    --------
    A face for a strategy of your own:

    >>> from driftsurf.strategies import SlidingWindow
    >>> @face_of(SlidingWindow)
    ... class WindowClassifier(AdaptiveClassifier):
    ...     pass
    >>> WindowClassifier(window=500)
    WindowClassifier(window=500)
    """
    known = signature_of(strategy).parameters.values()
    options = [
        option.replace(kind=option.KEYWORD_ONLY, default=defaults.get(option.name, option.default))
        for option in known
        if option.name not in ("learner", "seed")
    ]

    def dressed(face: F) -> F:
        common = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default)
            for name, default in COMMON.items()
            if name != "classes" or not face._values
        ]
        this = Parameter("self", Parameter.POSITIONAL_ONLY)
        learner = Parameter("learner", Parameter.POSITIONAL_OR_KEYWORD, default=None)
        signature = Signature([this, learner, *options, *common])

        def __init__(self: Adaptive, *args: Any, **kwargs: Any) -> None:
            given = signature.bind(self, *args, **kwargs)
            given.apply_defaults()
            for name, value in given.arguments.items():
                if name != "self":
                    setattr(self, name, value)

        def _strategy(self: Adaptive, learner: Learner, seed: int) -> Strategy:
            return strategy(learner, **{option.name: self._option(option.name) for option in options}, seed=seed)

        __init__.__signature__ = signature  # type: ignore[attr-defined]
        face.__init__ = __init__  # type: ignore[method-assign]
        face._strategy = _strategy  # type: ignore[method-assign]
        return face

    return dressed


@face_of(Aware)
class AwareClassifier(AdaptiveClassifier):
    """The oracle to measure against: begins anew at the steps it is told.

    Parameters
    ----------
    learner
        The template of its models; None means ``LogisticRegression(step_size="auto")``.
    drift_steps, told, max_rows, dtype
        As for :class:`driftsurf.strategies.Aware`.
    batch_size, guard, classes, random_state
        As for :class:`driftsurf.DriftSurfClassifier`.

    Examples
    --------
    >>> from driftsurf.streams import SEA
    >>> stream = SEA(n_rows=20_000)
    >>> model = AwareClassifier(drift_steps=stream.drift_steps(500), random_state=0)
    >>> errors = [(model.test_then_train(X, y) != y).mean() for X, y in stream.batches(500)]
    >>> [transition.step for transition in model.journal_.transitions]
    [10, 20, 30]
    """


@face_of(Aware)
class AwareRegressor(AdaptiveRegressor):
    """The oracle for values. Parameters as for :class:`AwareClassifier`, without ``classes``."""


@face_of(AUE)
class AUEClassifier(AdaptiveClassifier):
    """The Accuracy Updated Ensemble as a classifier.

    Parameters
    ----------
    learner
        The template of its experts; None means ``LogisticRegression(step_size="auto")``.
    experts, budget, max_rows, dtype
        As for :class:`driftsurf.strategies.AUE`.
    batch_size, guard, classes, random_state
        As for :class:`driftsurf.DriftSurfClassifier`.

    Examples
    --------
    >>> from driftsurf.streams import SEA
    >>> model = AUEClassifier(experts=5, random_state=0)
    >>> wrong = [(model.test_then_train(X, y) != y).mean() for X, y in SEA(n_rows=20_000).batches(500)]
    >>> print(f"{sum(wrong) / 40:.2f}")
    0.03
    """


@face_of(AUE)
class AUERegressor(AdaptiveRegressor):
    """The Accuracy Updated Ensemble for values. Parameters as for :class:`AUEClassifier`, without ``classes``."""


@face_of(Candor)
class CandorClassifier(AdaptiveClassifier):
    """Candor: model reuse by biased regularisation. Options as for :class:`driftsurf.strategies.Candor`.

    ``predict`` is the vote with equal weights; in ``test_then_train`` a row is judged by votes that know the
    labels of the rows before it in the same batch.
    """


@face_of(DWM)
class DWMClassifier(AdaptiveClassifier):
    """Dynamic Weighted Majority. Options as for :class:`driftsurf.strategies.DWM`."""


@face_of(LearnNSE)
class LearnNSEClassifier(AdaptiveClassifier):
    """Learn++.NSE. Options as for :class:`driftsurf.strategies.LearnNSE`."""


@face_of(PairedLearners)
class PairedLearnersClassifier(AdaptiveClassifier):
    """A stable and a reactive learner. Options as for :class:`driftsurf.strategies.PairedLearners`."""


@face_of(ResetOnDrift, detector=None)
class ResetOnDriftClassifier(AdaptiveClassifier):
    """One model, replaced whenever a detector of drift signals.

    Parameters
    ----------
    learner
        The template of its models; None means ``LogisticRegression(step_size="auto")``.
    detector
        One of :mod:`driftsurf.detectors`, or a detector of river as it is; None means ``MDDM()``.
    max_rows, dtype
        As for :class:`driftsurf.strategies.ResetOnDrift`.
    batch_size, guard, classes, random_state
        As for :class:`driftsurf.DriftSurfClassifier`.

    Examples
    --------
    >>> from driftsurf.detectors import DDM
    >>> from driftsurf.streams import Mixed
    >>> model = ResetOnDriftClassifier(detector=DDM(drift_level=4.0), random_state=0)
    >>> for X, y in Mixed(n_rows=30_000).batches(500):
    ...     model = model.partial_fit(X, y)
    >>> print(model.journal_.transitions[0].describe())
    step 12: DDM signalled at row 6177: fresh model
    >>> model.set_params(detector__drift_level=3.0).detector
    DDM(min_rows=30, warning_level=2.0, drift_level=3.0)
    """

    def _option(self, name: str) -> Any:
        value = super()._option(name)
        if name != "detector":
            return value
        return MDDM() if value is None else as_detector(value)


@face_of(PERM)
class PERMClassifier(AdaptiveClassifier):
    """A permutation test on the risk, and a fresh model on a drift. Options: :class:`driftsurf.strategies.PERM`."""


@face_of(PERM)
class PERMRegressor(AdaptiveRegressor):
    """The same for values. Options as for :class:`driftsurf.strategies.PERM`."""


@face_of(SlidingWindow)
class SlidingWindowClassifier(AdaptiveClassifier):
    """One model of the last rows. Options as for :class:`driftsurf.strategies.SlidingWindow`."""


@face_of(SlidingWindow)
class SlidingWindowRegressor(AdaptiveRegressor):
    """The same for values. Options as for :class:`driftsurf.strategies.SlidingWindow`."""


@face_of(LinearDecay)
class LinearDecayClassifier(AdaptiveClassifier):
    """One model; a row counts less, the older it is. Options as for :class:`driftsurf.strategies.LinearDecay`."""


@face_of(LinearDecay)
class LinearDecayRegressor(AdaptiveRegressor):
    """The same for values. Options as for :class:`driftsurf.strategies.LinearDecay`."""


@face_of(ExponentialDecay)
class ExponentialDecayClassifier(AdaptiveClassifier):
    """One model; what a row counts is halved again and again: :class:`driftsurf.strategies.ExponentialDecay`."""


@face_of(ExponentialDecay)
class ExponentialDecayRegressor(AdaptiveRegressor):
    """The same for values. Options as for :class:`driftsurf.strategies.ExponentialDecay`."""


@face_of(Oblivious)
class ObliviousClassifier(AdaptiveClassifier):
    """One model that is never replaced: what is lost without adaptation."""


@face_of(Oblivious)
class ObliviousRegressor(AdaptiveRegressor):
    """The same for values."""


@face_of(OnePass)
class OnePassClassifier(AdaptiveClassifier):
    """One gradient step at each new row, in order of arrival; no row is kept."""


@face_of(OnePass)
class OnePassRegressor(AdaptiveRegressor):
    """The same for values."""
