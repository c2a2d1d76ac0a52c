"""The algorithms of the evaluation by name, each as it is run there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from driftsurf.assembly.models import strategy_around
from driftsurf.base import Learner, Strategy
from driftsurf.strategies import (
    AUE,
    Aware,
    BudgetRule,
    DriftSurf,
    Oblivious,
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


def _usual(name: str, **batches: int) -> Make:
    """The strategy of this name, with options that are numbers of batches."""
    return lambda learner, at: strategy_around(
        name, learner, **{option: count * at.batch_size for option, count in batches.items()}, **at.common
    )


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
    Algorithm("mddm-g", "MDDM-G", _usual("mddm-g"), "detector"),
    Algorithm("mddm-a", "MDDM-A", _usual("mddm-a"), "detector"),
    Algorithm("mddm-e", "MDDM-E", _usual("mddm-e"), "detector"),
    Algorithm("ddm", "DDM", _usual("ddm"), "detector"),
    Algorithm("eddm", "EDDM", _usual("eddm"), "detector"),
    Algorithm("adwin", "ADWIN", _usual("adwin"), "detector"),
    Algorithm("fhddm", "FHDDM", _usual("fhddm"), "detector"),
    Algorithm("aue", "AUE", _aue(10), "ensemble"),
    Algorithm("aue-2", "AUE (k=2)", _aue(2), "ensemble"),
    Algorithm("aue-equal", "AUE (equal shares)", _aue_equal, "ensemble"),
    Algorithm("candor", "Candor", _usual("candor"), "ensemble"),
    Algorithm("1pass-sgd", "1PASS-SGD", _usual("one-pass"), "single"),
    Algorithm("oblivious", "OBL", _oblivious, "single"),
    # The baselines' own parameters are their authors' where they give any, else a round number of batches.
    Algorithm("perm", "PERM", _usual("perm"), "detector"),
    Algorithm("sliding-window", "Sliding window", _usual("sliding-window", window=10), "single"),
    Algorithm("linear-decay", "Linear decay", _usual("linear-decay", window=20), "single"),
    Algorithm("exponential-decay", "Exponential decay", _usual("exponential-decay", half_life=5), "single"),
    Algorithm("paired-learners", "Paired Learners", _usual("paired-learners", window=4), "ensemble"),
    Algorithm("dwm", "DWM", _usual("dwm"), "ensemble"),
    Algorithm("learn-nse", "Learn++.NSE", _usual("learn-nse"), "ensemble"),
)

ALGORITHMS: dict[str, Algorithm] = {algorithm.name: algorithm for algorithm in _ALL}
"""In the order of the paper's tables, then the systems that it builds on or contrasts."""
