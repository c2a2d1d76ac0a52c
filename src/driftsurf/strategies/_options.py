"""Checks of the options of DriftSurf."""

from __future__ import annotations

from typing import Any, Literal

from driftsurf.core.options import choice, number, truth, whole
from driftsurf.errors import CapabilityError, Option, OptionError
from driftsurf.registry import name_of

Variant = Literal["algorithm-1", "authors"]
Judge = Literal["auto", "training", "prequential"]
ThresholdUnit = Literal["auto", "risk", "trivial"]


def check_options(strategy: Any) -> None:
    """Raise OptionError or CapabilityError if an option of a DriftSurf is invalid by itself."""
    choice("variant", strategy.variant, ("algorithm-1", "authors"))
    choice("risk", strategy.risk, ("loss", "zero-one"))
    choice("budget", strategy.budget, ("each", "divided"))
    truth("greedy", strategy.greedy)
    whole("reactive_length", strategy.reactive_length, at_least=1)
    number("threshold", strategy.threshold, at_least=0.0, infinite=True)
    if strategy.stable_threshold is not None:
        number("stable_threshold", strategy.stable_threshold, at_least=0.0, infinite=True, otherwise=", or None")
    choice("judge", strategy.judge, ("auto", "training", "prequential"))
    choice("threshold_unit", strategy.threshold_unit, ("auto", "risk", "trivial"))
    number("significance", strategy.significance, at_least=0.0)
    number("class_share", strategy.class_share, at_least=0.0, below=1.0)
    learner = strategy.learner
    if strategy.threshold_unit == "trivial" and not learner.capabilities.regression:
        raise CapabilityError(
            f"threshold_unit='trivial' is for the task 'regression', which the learner {name_of('learner', learner)} "
            "does not support; use 'auto'"
        )


def check_prequential(judge: str, variant: str, reactive_length: int, significance: float) -> None:
    """Raise OptionError if the prequential judge cannot work with these options."""
    why = "judge is 'prequential'" if judge == "prequential" else f"significance is {significance:g}"
    if significance > 0.0 and judge == "training":
        raise OptionError(
            why + ", but the training judge does not compare models batch by batch; use ",
            *(Option("judge", "prequential"), ", or ", Option("significance", 0)),
        )
    if variant == "authors":
        raise OptionError(
            why + ", but the variant 'authors' compares models on their training rows; use ",
            *(Option("variant", "algorithm-1"), ", or ", Option("judge", "training")),
        )
    least = 3 if significance > 0.0 else 2
    if reactive_length < least:
        raise OptionError(
            Option("reactive_length"),
            f" is {reactive_length}, but the prequential judge leaves out the first batch"
            f"{' and measures how the others vary' * (least == 3)}, and needs at least {least}; raise it, or use ",
            Option("judge", "training") if least == 2 else Option("significance", 0),
        )
