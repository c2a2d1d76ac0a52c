"""A run in a few numbers."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from driftsurf.errors import OptionError
from driftsurf.evaluation import metrics
from driftsurf.evaluation.trace import OTHER, Trace

__all__ = ["Summary", "ValueSummary", "mean_error_of", "summarise", "summarise_values"]


@dataclass(frozen=True)
class Summary:
    """What a person wants to know of one model of a trace; None where it does not apply."""

    model: str
    mean_error: float
    log_loss: float
    kappa: float
    """NaN where classes came that the trace counts together."""
    kappa_temporal: float
    drift_steps: tuple[tuple[int, int], ...]
    """The first step of each drift and, if it is gradual, the last one; else the same twice."""
    recovery_by_training: tuple[int | None, ...]
    recovery_by_error: tuple[int | None, ...] | None
    """Against the oracle of the trace, if it has one."""
    reactions: int
    false_reactions: int
    switches: int
    share_reactive: float
    gradients: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def summarise(trace: Trace, model: str, oracle: str | None = None) -> Summary:
    """Work out the metrics of one model; ``oracle`` names the model to recover to.

    Errors are those of the steps that ``trace.counted`` gives; reactions, switches and gradients those of all.
    Drifts that last the whole stream have no moment to recover from and are left out of the recovery
    times, though reactions to them are not false.
    """
    if not trace.labels:
        raise OptionError("this trace has values, not classes: use summarise_values")
    counted = trace.counted(model)
    true = np.array([counted[f"true:{label}"].sum() for label in trace.labels])
    predicted = np.array([counted[f"predicted:{label}"].sum() for label in trace.labels])
    lumped = OTHER in trace.labels and bool(true[-1] or predicted[-1])  # who can tell those classes apart by chance?
    errors, log_losses = int(counted["errors"].sum()), counted["log_loss"]
    return Summary(
        model=model,
        mean_error=metrics.mean_error(counted["error"]),
        log_loss=float(np.nanmean(log_losses)) if not np.isnan(log_losses).all() else float("nan"),
        kappa=float("nan") if lumped else metrics.kappa(int(true.sum()) - errors, true, predicted),
        kappa_temporal=metrics.kappa_temporal(errors, int(counted["persistence_errors"].sum())),
        **_reactions(trace, model, oracle),
    )


def _reactions(trace: Trace, model: str, oracle: str | None) -> dict[str, Any]:
    """What both summaries say of how a model dealt with drift."""
    run = trace.of(model)
    first_row = run["first_row"]
    total = int(first_row[-1] + run["rows"][-1])
    bounded = [drift for drift in trace.drifts if drift.end < total]
    by_error = None
    if oracle is not None:
        of_model, of_oracle = (
            one["error"] if trace.labels else np.sqrt(one["squared_error"]) for one in (run, trace.of(oracle))
        )
        by_error = tuple(metrics.recovery_by_error(first_row, of_model, of_oracle, bounded))
    return {
        "drift_steps": tuple((drift.start // trace.batch_size, drift.end // trace.batch_size) for drift in bounded),
        "recovery_by_training": tuple(metrics.recovery_by_training(first_row, run["trained_from"], bounded)),
        "recovery_by_error": by_error,
        "reactions": len(metrics.reactions(run["transition"])),
        "false_reactions": metrics.false_reactions(
            first_row, run["rows"], run["trained_from"], run["transition"], trace.drifts
        ),
        "switches": sum(kinds.split("+").count("switched") for kinds in run["transition"]),
        "share_reactive": metrics.share_reactive(run["state"]),
        "gradients": int(run["gradients"].sum()),
    }


@dataclass(frozen=True)
class ValueSummary:
    """The same of a model that predicts values."""

    model: str
    mean_squared_error: float
    mean_absolute_error: float
    skill: float
    """1 less the squared error over that of predicting that the last value comes again; below 0 is worse than that."""
    skill_over_mean: float
    """The same against predicting the mean of all values before the step."""
    drift_steps: tuple[tuple[int, int], ...]
    recovery_by_training: tuple[int | None, ...]
    recovery_by_error: tuple[int | None, ...] | None
    reactions: int
    false_reactions: int
    switches: int
    share_reactive: float
    gradients: int

    @property
    def root_mean_squared_error(self) -> float:
        """In the unit of the values."""
        return math.sqrt(self.mean_squared_error)


def summarise_values(trace: Trace, model: str, oracle: str | None = None) -> ValueSummary:
    """Work out the metrics of one model that predicts values; errors are means over the rows counted."""
    if trace.labels:
        raise OptionError("this trace has classes, not values: use summarise")
    counted = trace.counted(model)
    squared, absolute, persistence, constant = (
        float(np.average(counted[name], weights=counted["rows"]))
        for name in ("squared_error", "absolute_error", "persistence_error", "constant_error")
    )
    return ValueSummary(
        model=model,
        mean_squared_error=squared,
        mean_absolute_error=absolute,
        skill=_skill(squared, persistence),
        skill_over_mean=_skill(squared, constant),
        **_reactions(trace, model, oracle),
    )


def _skill(squared: float, trivial: float) -> float:
    return 1.0 - squared / trivial if trivial > 0.0 else float("nan")


def mean_error_of(trace: Trace, model: str) -> tuple[str, float]:
    """What the error of a trace is called, and its mean over the rows counted; of values a root, in their unit."""
    counted = trace.counted(model)
    mean = float(np.average(counted["error" if trace.labels else "squared_error"], weights=counted["rows"]))
    return ("mean error", mean) if trace.labels else ("root mean squared error", math.sqrt(mean))
