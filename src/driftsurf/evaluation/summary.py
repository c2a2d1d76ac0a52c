"""Summaries of a trace: a model's run in a few numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from driftsurf.core.decisions import count_reactions, merge_reactions
from driftsurf.core.frames import new_frame
from driftsurf.errors import OptionError
from driftsurf.evaluation import metrics
from driftsurf.evaluation.trace import OTHER, StepMap, Trace

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How a model dealt with drift, and what it cost; the part that classification and regression share.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier, prequential
    >>> from driftsurf.evaluation import summarise
    >>> from driftsurf.streams import Mixed
    >>> trace = prequential(Mixed(n_rows=20_000), DriftSurfClassifier(random_state=0), batch_size=250)
    >>> found = summarise(trace, "model")
    >>> found.drift_steps, found.recovery_by_training
    (((16, 16), (32, 32), (48, 48), (64, 64)), (2, 3, 1, 1))
    >>> found.reactions, found.switches, found.false_reactions
    (8, 5, 4)
    """

    model: str
    drift_steps: tuple[tuple[int, int], ...]
    """First and last step of each drift; the two are equal if it is abrupt."""
    recovery_by_training: tuple[int | None, ...]
    """Steps after each drift until the model predicted from new rows alone; None if it did not before the next one."""
    recovery_by_error: tuple[int | None, ...] | None
    """Steps after each drift until the error was near that of the oracle; None if the trace has no oracle."""
    reactions: int
    """Reactive states that it entered; of a portfolio, those of experts that overlap are one."""
    false_reactions: int | None
    """Reactions without a drift; None if it is not known when the stream drifts."""
    switches: int
    """Models that took over from another one after they had proved better."""
    fresh_starts: int
    """Fresh models that replaced another one at once, on the signal of a detector or on an order."""
    share_reactive: float
    """Share of the steps in the reactive state."""
    gradients: int

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row (extra ``pandas``)."""
        return new_frame({name: [value] for name, value in self._values().items()}, "to_frame()")

    def _values(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, kw_only=True)
class ClassificationSummary(Summary):
    """Errors of a classification run, and how the model dealt with drift.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier, prequential
    >>> from driftsurf.evaluation import summarise
    >>> from driftsurf.streams import SEA
    >>> found = summarise(prequential(SEA(n_rows=10_000), DriftSurfClassifier(random_state=0)), "model")
    >>> round(found.mean_error, 2), round(found.log_loss, 2), round(found.kappa, 2)
    (0.03, 0.1, 0.95)
    """

    mean_error: float
    """Share of all rows that were predicted wrongly. Every row counts the same, also if steps differ in size."""
    log_loss: float
    """NaN if the model has no probabilities."""
    kappa: float
    """NaN if there are so many classes that the trace counts some together, because chance cannot be told for them."""
    kappa_temporal: float


@dataclass(frozen=True, kw_only=True)
class RegressionSummary(Summary):
    """Errors of a regression run, and how the model dealt with drift.

    Examples
    --------
    >>> from driftsurf import DriftSurfRegressor, prequential
    >>> from driftsurf.evaluation import summarise
    >>> from driftsurf.streams import Friedman
    >>> found = summarise(prequential(Friedman(n_rows=10_000), DriftSurfRegressor(random_state=0)), "model")
    >>> round(found.root_mean_squared_error, 1), round(found.skill_over_mean, 2)
    (3.2, 0.61)
    """

    mean_squared_error: float
    mean_absolute_error: float
    skill: float
    """1 minus the squared error over that of repeating the last target; negative if that is better."""
    skill_over_mean: float
    """1 minus the squared error over that of the mean target so far; negative if that is better."""

    @property
    def mean_error(self) -> float:
        """Mean absolute error, by the name that classification has for its mean error."""
        return self.mean_absolute_error

    @property
    def root_mean_squared_error(self) -> float:
        """Root mean squared error, in the unit of the target."""
        return math.sqrt(self.mean_squared_error)

    def _values(self) -> dict[str, Any]:
        return super()._values() | {"root_mean_squared_error": self.root_mean_squared_error}


def summarise(trace: Trace, model: str, oracle: str | None = None) -> ClassificationSummary | RegressionSummary:
    """Summarise one model of a trace; ``oracle`` names the model that recovery is measured against.

    Mean errors leave the warm-up steps out; counts include all steps. A drift that lasts to the end of the stream
    has no recovery time, though reactions to it are not false. If a trace lists no drifts, they are
    taken to be unknown, unless there is an oracle.

    Examples
    --------
    >>> from driftsurf import AwareClassifier, DriftSurfClassifier, prequential
    >>> from driftsurf.streams import Mixed
    >>> models = {"driftsurf": DriftSurfClassifier(random_state=0), "aware": AwareClassifier(random_state=0)}
    >>> trace = prequential(Mixed(n_rows=20_000), models, batch_size=250)
    >>> found = summarise(trace, "driftsurf", oracle="aware")
    >>> round(found.mean_error, 2), found.recovery_by_error
    (0.22, (2, 3, 2, 1))
    """
    return (summarise_classification if trace.labels else summarise_regression)(trace, model, oracle)


def summarise_classification(trace: Trace, model: str, oracle: str | None = None) -> ClassificationSummary:
    """Summarise one model of a classification trace; see :func:`summarise`.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier, prequential
    >>> from driftsurf.streams import SEA
    >>> trace = prequential(SEA(n_rows=10_000), DriftSurfClassifier(random_state=0))
    >>> round(summarise_classification(trace, "model").mean_error, 2)
    0.03
    """
    if not trace.labels:
        raise OptionError("the trace is one of regression; call summarise_regression")
    counted = trace.counted(model)
    true = np.array([counted[f"true:{label}"].sum() for label in trace.labels])
    predicted = np.array([counted[f"predicted:{label}"].sum() for label in trace.labels])
    errors, rows = int(counted["errors"].sum()), counted["rows"]
    counted_one_by_one = OTHER not in trace.labels and int(rows.sum()) == int(true.sum()) == int(predicted.sum())
    return ClassificationSummary(
        mean_error=errors / int(rows.sum()),
        log_loss=metrics.mean_error(counted["log_loss"], rows),
        kappa=metrics.kappa(int(true.sum()) - errors, true, predicted) if counted_one_by_one else float("nan"),
        kappa_temporal=metrics.kappa_temporal(errors, int(counted["persistence_errors"].sum())),
        **_drift_handling(trace, model, oracle),
    )


def summarise_regression(trace: Trace, model: str, oracle: str | None = None) -> RegressionSummary:
    """Summarise one model of a regression trace; see :func:`summarise`. Errors are means over rows.

    Examples
    --------
    >>> from driftsurf import DriftSurfRegressor, prequential
    >>> from driftsurf.streams import Friedman
    >>> trace = prequential(Friedman(n_rows=10_000), DriftSurfRegressor(random_state=0))
    >>> round(summarise_regression(trace, "model").mean_absolute_error, 1)
    2.3
    """
    if trace.labels:
        raise OptionError("the trace is one of classification; call summarise_classification")
    counted = trace.counted(model)
    squared, absolute, persistence, constant = (
        metrics.mean_error(counted[name], counted["rows"])
        for name in ("squared_error", "absolute_error", "persistence_error", "constant_error")
    )
    return RegressionSummary(
        mean_squared_error=squared,
        mean_absolute_error=absolute,
        skill=_skill(squared, persistence),
        skill_over_mean=_skill(squared, constant),
        **_drift_handling(trace, model, oracle),
    )


def _drift_handling(trace: Trace, model: str, oracle: str | None) -> dict[str, Any]:
    """Return the fields of :class:`Summary`."""
    run = trace.of(model)
    transitions = list(merge_reactions(zip(run["state"].tolist(), trace.transitions(model), strict=True)))
    first_row, steps = run["first_row"], StepMap.of(run)
    total = int(first_row[-1] + run["rows"][-1])
    bounded = [drift for drift in trace.drifts if drift.end < total]
    by_error = None
    if oracle is not None:
        of_model, of_oracle = (
            one["error"] if trace.labels else np.sqrt(one["squared_error"]) for one in (run, trace.of(oracle))
        )
        by_error = tuple(metrics.recovery_by_error(first_row, of_model, of_oracle, bounded))
    return {
        "model": model,
        "drift_steps": tuple((int(steps.of_row(drift.start)), int(steps.of_row(drift.end))) for drift in bounded),
        "recovery_by_training": tuple(metrics.recovery_by_training(first_row, run["trained_from"], bounded)),
        "recovery_by_error": by_error,
        **count_reactions(chain.from_iterable(transitions))._asdict(),
        "false_reactions": metrics.false_reactions(
            first_row, run["rows"], run["trained_from"], transitions, trace.drifts
        )
        if trace.drifts or oracle is not None
        else None,
        "share_reactive": metrics.share_reactive(run["state"]),
        "gradients": int(run["gradients"].sum()),
    }


def _skill(squared: float, trivial: float) -> float:
    return 1.0 - squared / trivial if trivial > 0.0 else float("nan")


def mean_error_of(trace: Trace, model: str) -> tuple[str, float]:
    """Return the name and the value of a model's mean error over rows: a share of rows, or a root mean square."""
    summary = summarise(trace, model)
    if isinstance(summary, ClassificationSummary):
        return "mean error", summary.mean_error
    return "root mean squared error", summary.root_mean_squared_error
