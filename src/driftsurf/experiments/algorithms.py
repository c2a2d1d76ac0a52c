"""The algorithms of the evaluation by name, each as it is run there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from driftsurf.base import Learner, Strategy
from driftsurf.detectors import ADWIN, DDM, EDDM, FHDDM, MDDM
from driftsurf.strategies import (
    AUE,
    DWM,
    PERM,
    Aware,
    BudgetRule,
    Candor,
    DriftSurf,
    ExponentialDecay,
    LearnNSE,
    LinearDecay,
    Oblivious,
    OnePass,
    PairedLearners,
    ResetOnDrift,
    SlidingWindow,
    Variant,
)

__all__ = ["ALGORITHMS", "Algorithm", "Setting"]


@dataclass(frozen=True)
class Setting:
    """What an algorithm is given beside its learner."""

    aware_steps: tuple[int, ...] = ()
    batch_size: int = 1000
    budget: BudgetRule = "each"
    variant: Variant = "algorithm-1"
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    """Those of DriftSurf that an experiment changes."""

    @property
    def common(self) -> dict[str, Any]:
        """What all strategies take: no cap on the rows, as in the paper."""
        return {"max_rows": None, "seed": self.seed}


Make = Callable[[Any, Setting], Strategy]
"""Makes a strategy around a learner."""


@dataclass(frozen=True)
class Algorithm:
    """An algorithm by name, with the title that tables and figures print."""

    name: str
    title: str
    make: Make
    kind: Literal["oracle", "driftsurf", "detector", "ensemble", "single"]


def _driftsurf(*, greedy: bool) -> Make:
    return lambda learner, at: DriftSurf(
        learner, **({"greedy": greedy, "budget": at.budget, "variant": at.variant} | dict(at.options)), **at.common
    )


def _aware(told: Literal["before", "after"]) -> Make:
    return lambda learner, at: Aware(learner, at.aware_steps, told=told, **at.common)


def _resetting(detector: Any) -> Make:
    return lambda learner, at: ResetOnDrift(learner, detector, **at.common)


def _aue(experts: int) -> Make:
    return lambda learner, at: AUE(learner, experts=experts, budget=at.budget, **at.common)


def _aue_equal(learner: Learner, at: Setting) -> Strategy:
    return AUE(learner, budget="equal" if at.budget == "divided" else at.budget, **at.common)


def _oblivious(learner: Any, at: Setting) -> Strategy:
    # The paper's OBL draws every gradient uniformly from the sample set.
    if getattr(learner, "optimizer", None) == "strsaga":
        learner = type(learner)(**(learner.get_params() | {"optimizer": "saga"}))
    return Oblivious(learner, **at.common)


_ALL = (
    Algorithm("aware", "Aware", _aware("before"), "oracle"),
    Algorithm("aware-alternative", "Aware (told late)", _aware("after"), "oracle"),
    Algorithm("driftsurf", "DriftSurf", _driftsurf(greedy=True), "driftsurf"),
    Algorithm("no-greedy", "DriftSurf (no-greedy)", _driftsurf(greedy=False), "driftsurf"),
    Algorithm("mddm-g", "MDDM-G", _resetting(MDDM(weighting="geometric")), "detector"),
    Algorithm("mddm-a", "MDDM-A", _resetting(MDDM(weighting="arithmetic")), "detector"),
    Algorithm("mddm-e", "MDDM-E", _resetting(MDDM(weighting="euler")), "detector"),
    Algorithm("ddm", "DDM", _resetting(DDM()), "detector"),
    Algorithm("eddm", "EDDM", _resetting(EDDM()), "detector"),
    Algorithm("adwin", "ADWIN", _resetting(ADWIN(increase_only=True)), "detector"),
    Algorithm("fhddm", "FHDDM", _resetting(FHDDM()), "detector"),
    Algorithm("aue", "AUE", _aue(10), "ensemble"),
    Algorithm("aue-2", "AUE (k=2)", _aue(2), "ensemble"),
    Algorithm("aue-equal", "AUE (equal shares)", _aue_equal, "ensemble"),
    Algorithm("candor", "Candor", lambda learner, at: Candor(learner, **at.common), "ensemble"),
    Algorithm("1pass-sgd", "1PASS-SGD", lambda learner, at: OnePass(learner, **at.common), "single"),
    Algorithm("oblivious", "OBL", _oblivious, "single"),
    # The baselines' own parameters are their authors' where they give any, else a round number of batches.
    Algorithm("perm", "PERM", lambda learner, at: PERM(learner, **at.common), "detector"),
    Algorithm(
        "sliding-window",
        "Sliding window",
        lambda learner, at: SlidingWindow(learner, window=10 * at.batch_size, **at.common),
        "single",
    ),
    Algorithm(
        "linear-decay",
        "Linear decay",
        lambda learner, at: LinearDecay(learner, window=20 * at.batch_size, **at.common),
        "single",
    ),
    Algorithm(
        "exponential-decay",
        "Exponential decay",
        lambda learner, at: ExponentialDecay(learner, half_life=5 * at.batch_size, **at.common),
        "single",
    ),
    Algorithm(
        "paired-learners",
        "Paired Learners",
        lambda learner, at: PairedLearners(learner, window=4 * at.batch_size, **at.common),
        "ensemble",
    ),
    Algorithm("dwm", "DWM", lambda learner, at: DWM(learner, **at.common), "ensemble"),
    Algorithm("learn-nse", "Learn++.NSE", lambda learner, at: LearnNSE(learner, **at.common), "ensemble"),
)

ALGORITHMS: dict[str, Algorithm] = {algorithm.name: algorithm for algorithm in _ALL}
"""In the order of the paper's tables, then the systems that it builds on or contrasts."""
