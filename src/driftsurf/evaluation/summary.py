"""Summaries of a trace: a model and its classes in a few numbers, errors of trivial predictions, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray
from driftsurf.core.decisions import count_reactions, merge_reactions
from driftsurf.core.drifts import Drifts
from driftsurf.core.frames import new_frame
from driftsurf.core.wording import (
    AVERAGE_PRECISION,
    BASELINE_WORDS,
    HARDLY_ABOVE_CHANCE,
    HARDLY_BETTER,
    percent,
    rare_class,
    significant,
)
from driftsurf.errors import OptionError
from driftsurf.evaluation import metrics
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.trace import ESTIMATE_COLUMNS, LATE_COLUMNS, OTHER, StepMap, Trace

if TYPE_CHECKING:
    import pandas as pd

MOST_NAMED = 8
"""Classes that a sentence names."""


@dataclass(frozen=True, slots=True)
class ClassMetrics:
    """How well one class was predicted. A share is NaN if there are no rows to count.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier, prequential
    >>> from driftsurf.evaluation import class_metrics
    >>> from driftsurf.streams import SEA
    >>> trace = prequential(SEA(n_rows=10_000), DriftSurfClassifier(random_state=0))
    >>> found = class_metrics(trace, "model")[1]
    >>> found.rows, round(found.precision, 2), round(found.recall, 2)
    (5000, 0.98, 0.97)
    """

    rows: int
    """Rows of the class."""
    predicted: int
    """Rows that were predicted as the class."""
    precision: float
    """Share of the rows predicted as the class that belong to it."""
    recall: float
    """Share of the rows of the class that were predicted as it."""
    f1: float
    """Harmonic mean of precision and recall; 0 if no row was predicted correctly."""


@dataclass(frozen=True, slots=True)
class ClassQuality:
    """How well a classifier predicted, beyond the share of wrong rows, which hides rare classes and wrong certainty."""

    kappa: float | None
    """Cohen's kappa: 1 if every row is right, 0 if no more rows are right than by chance; None for a single class."""
    balanced_error: float
    """Share of wrong rows of each class, averaged over the classes."""
    log_loss: float | None
    """Mean of -log p(true class); None for a model without probabilities."""


def class_quality(trace: Trace, model: str, first_step: int = 0) -> ClassQuality:
    """Return kappa, balanced error and log loss of all rows from a step on.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier, prequential
    >>> from driftsurf.streams import SEA
    >>> found = class_quality(prequential(SEA(n_rows=10_000), DriftSurfClassifier(random_state=0)), "model", 1)
    >>> round(found.kappa, 2), round(found.balanced_error, 2)
    (0.96, 0.02)
    """
    run = {name: column[first_step:] for name, column in trace.of(model).items()}
    true, predicted, wrong = (
        np.array([run[f"{what}:{label}"].sum() for label in trace.labels], np.int64)
        for what in ("true", "predicted", "wrong")
    )
    there = true > 0
    kappa = metrics.kappa(int(true.sum() - wrong.sum()), true, predicted)
    loss = metrics.mean_error(run["log_loss"], run["rows"])
    return ClassQuality(
        None if np.isnan(kappa) else float(kappa),
        float(np.mean(wrong[there] / true[there])),
        None if np.isnan(loss) else loss,
    )


def class_metrics(trace: Trace, model: str) -> dict[Any, ClassMetrics]:
    """Return precision, recall and F1 of each class of a trace, without the warm-up steps.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier, prequential
    >>> from driftsurf.streams import SEA
    >>> found = class_metrics(prequential(SEA(n_rows=10_000), DriftSurfClassifier(random_state=0)), "model")
    >>> {label: round(one.f1, 2) for label, one in found.items()}
    {-1: 0.97, 1: 0.97}
    """
    counted = trace.counted(model)
    found = {}
    for label in trace.labels:
        totals = {what: counted[f"{what}:{label}"].sum(keepdims=True) for what in ("true", "predicted", "wrong")}
        precision, recall, f1 = (float(one[0]) for one in _shares(totals))
        found[label] = ClassMetrics(int(totals["true"][0]), int(totals["predicted"][0]), precision, recall, f1)
    return found


def class_metrics_over_time(trace: Trace, model: str, label: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return precision, recall and F1 of one class at each step; NaN where a share has no rows."""
    run = trace.of(model)
    return _shares({what: run[f"{what}:{label}"] for what in ("true", "predicted", "wrong")})


def describe_later_classes(trace: Trace, model: str) -> str:
    """Return a sentence on the classes whose first row came after the first scored step; empty if there are none."""
    run = trace.of(model)
    begun = int(np.argmax(run["rows"] > 0))
    first = {label: int(np.argmax(run[f"true:{label}"] > 0)) for label in trace.labels}
    later = [f"{label!r} at step {run['step'][place]}" for label, place in first.items() if place > begun]
    if not later:
        return ""
    more = f" and {len(later) - MOST_NAMED:,} more" if len(later) > MOST_NAMED else ""
    what = "A class" if len(later) == 1 else "Classes"
    return f"{what} that the first batch did not have: {', '.join(later[:MOST_NAMED])}{more}."


def _shares(counts: Mapping[str, npt.NDArray[Any]]) -> tuple[FloatArray, FloatArray, FloatArray]:
    right = (counts["true"] - counts["wrong"]).astype(np.float64)
    precision, recall, f1 = (
        np.divide(times * right, rows, out=np.full(len(right), np.nan), where=rows > 0)
        for times, rows in ((1, counts["predicted"]), (1, counts["true"]), (2, counts["true"] + counts["predicted"]))
    )
    return precision, recall, f1


@dataclass(frozen=True, slots=True)
class RareClass:
    """How well a model finds the rare class of imbalanced labels. Unknown shares are NaN.

    Examples
    --------
    >>> print(RareClass("fraud", 0.02, recall=0.62, precision=0.4, average_precision=0.55).sentence)
    The model finds 62 % of class 'fraud' with a precision of 40 %; average precision 0.55, by chance 0.02.
    """

    label: Any
    share: float
    """Share of the rows that belong to the class, which is the precision of chance."""
    recall: float
    """Share of the rows of the class that were predicted as it."""
    precision: float
    """Share of the rows predicted as the class that belong to it."""
    average_precision: float = math.nan

    @property
    def sentence(self) -> str:
        """How well the class is found, in one sentence."""
        found = f"The model finds {percent(self.recall)} of class {self.label!r}"
        found += "" if math.isnan(self.precision) else f" with a precision of {percent(self.precision)}"
        if math.isnan(self.average_precision):
            return f"{found}, which {percent(self.share)} of the rows belong to."
        return f"{found}; average precision {self.average_precision:.2f}, by chance {self.share:.2g}."

    def headline(self, rules: Iterable[str]) -> list[tuple[str, str, list[str]]]:
        """Return the name of each figure, that of the model, and those of trivial rules, "-" where they are not known.

        The most frequent class so far finds no row, and its scores are all equal, so that its precision is chance.
        """
        majority = [rule == "majority" for rule in rules]
        chance, none = (["-" if not own else text for own in majority] for text in (f"{self.share:.3f}", "0 %"))
        precision = "-" if math.isnan(self.precision) else percent(self.precision)
        ranked = (AVERAGE_PRECISION, f"{self.average_precision:.3f}", chance)
        shown = [] if math.isnan(self.average_precision) else [ranked]
        shown += [("recall", percent(self.recall), none), ("precision", precision, ["-"] * len(majority))]
        return [(f"{name} of class {self.label}", own, others) for name, own, others in shown]

    @property
    def warning(self) -> str:
        """Warning in words if the class is found no better, or hardly better, than by chance; else empty."""
        if math.isnan(self.average_precision):
            return "" if self.recall else f"The model finds no row of class {self.label!r}."
        if self.average_precision >= HARDLY_ABOVE_CHANCE * self.share:
            return ""
        how = "no" if self.average_precision <= self.share else "hardly"
        numbers = f"average precision {self.average_precision:.4f} against {self.share:.4f}"
        return f"The model finds class {self.label!r} {how} better than chance: {numbers}."


def rare_class_of(trace: Trace, model: str, scores: Scores | None = None) -> RareClass | None:
    """Return how well a model finds the rare class, without the warm-up steps; None if labels are not imbalanced.

    ``scores`` has the average precision, if the run recorded it.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier, prequential
    >>> from driftsurf.streams import SEA
    >>> rare_class_of(prequential(SEA(n_rows=10_000), DriftSurfClassifier(random_state=0)), "model") is None
    True
    """
    counted = trace.counted(model)
    counts = {label: int(counted[f"true:{label}"].sum()) for label in trace.labels}
    label = rare_class(counts)
    if label is None or label == OTHER:
        return None
    own = class_metrics(trace, model)[label]
    found = math.nan if scores is None else scores.average_precision(label)
    return RareClass(label, own.rows / sum(counts.values()), own.recall, own.precision, found)


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


@dataclass(frozen=True, slots=True)
class Baselines:
    """The error of a model and those of trivial predictions for the same rows."""

    measure: str
    """Name of the error: "mean error" or "root mean squared error"."""
    own: float
    """The error of the model."""
    others: dict[str, float]
    """The errors of the trivial predictions, by name."""
    learned: bool = True
    """Whether anything was learned before a row that counts; False if there is only one batch."""
    rare: RareClass | None = None
    """How well the rare class is found, which counts instead of the errors if labels are imbalanced; else None."""

    def number(self, error: float) -> str:
        """Return an error as text; "-" if it is not known."""
        if math.isnan(error):
            return "-"
        return f"{error:.4f}" if self.measure == "mean error" else significant(error)

    @property
    def headline(self) -> list[tuple[str, str, list[str]]]:
        """The figures that matter most: the name of each, that of the model, and those of the trivial predictions.

        If labels are imbalanced, those of the rare class come before the error.
        """
        own = (self.measure, self.number(self.own), [self.number(error) for error in self.others.values()])
        return [*([] if self.rare is None else self.rare.headline(self.others)), own]

    @property
    def sentence(self) -> str:
        """How good the model is, in one sentence; the warning if it is no better than a trivial prediction."""
        if self.warning or not (self.learned and self.others):
            return self.warning
        if self.rare is not None:
            return self.rare.sentence
        name = min(self.others, key=self.others.__getitem__)
        shares = self.measure == "mean error"
        own = percent(self.own) if shares else significant(self.own)
        gain = percent(1.0 - self.own / self.others[name])
        return f"The {'error' if shares else self.measure} is {own}, {gain} better than {BASELINE_WORDS[name]}."

    @property
    def warning(self) -> str:
        """Warning in words if the model is no better, or hardly better, than a trivial prediction; else empty.

        A label with one value has a warning of its own.

        >>> Baselines("mean error", 0.07, {"majority": 0.07, "persistence": 0.1}).warning
        'The model is no better than predicting the most frequent class so far: mean error 0.0700 against 0.0700.'
        """
        if not self.learned:
            return ""
        if self.rare is not None:
            return self.rare.warning
        if self.others.get("persistence") == 0.0:
            return "The label has the same value in all rows that count, so the errors tell nothing about the model."
        name = min(self.others, key=self.others.__getitem__, default=None)
        if name is None or self.own < HARDLY_BETTER * self.others[name]:
            return ""
        how = "no" if self.own >= self.others[name] else "hardly"
        numbers = f"{self.measure} {self.number(self.own)} against {self.number(self.others[name])}"
        return f"The model is {how} better than {BASELINE_WORDS[name]}: {numbers}."


def baselines(trace: Trace, model: str, scores: Scores | None = None) -> Baselines:
    """Compare a model with trivial predictions: by the share of wrong rows, or by the root mean squared error.

    Errors are NaN if there is no step but the warm-up. If labels are imbalanced, the comparison is about the rare
    class; ``scores`` has its average precision.

    *majority* predicts in each step the class that was most frequent before it; in the first step, the class that an
    untrained model predicts. *mean* predicts the mean target of all rows before the step. *persistence* repeats the
    last label or target before the step. Where labels come late, the rules know those that the model knew.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier, prequential
    >>> from driftsurf.streams import Mixed
    >>> found = baselines(prequential(Mixed(n_rows=10_000), DriftSurfClassifier(random_state=0)), "model")
    >>> {name: round(value, 2) for name, value in found.others.items()}
    {'majority': 0.5, 'persistence': 0.5}
    """
    rows = trace.counted(model)["rows"]
    means = {
        name: metrics.mean_error(error[-len(rows) :], rows) for name, error in baseline_errors(trace, model).items()
    }
    measure, own = mean_error_of(trace, model)
    others = means if trace.labels else {name: math.sqrt(mean) for name, mean in means.items()}
    learned = len(trace.of(model)["rows"]) > trace.warmup_steps
    if not learned:  # what was predicted says nothing about the model
        return Baselines(measure, math.nan, dict.fromkeys(others, math.nan), learned)
    return Baselines(measure, own, others, learned, rare_class_of(trace, model, scores))


def baseline_errors(trace: Trace, model: str) -> dict[str, FloatArray]:
    """Return the error of each trivial prediction at each step: a share of rows, or a mean squared error."""
    run = trace.of(model)
    if not trace.labels:
        return {"mean": run["constant_error"], "persistence": run["persistence_error"]}
    names = {"majority": "majority_errors", "persistence": "persistence_errors"}
    rows = np.where(run["rows"], run["rows"], np.nan)
    return {name: run[column] / rows for name, column in names.items()}


VerdictStatus: TypeAlias = Literal["fine", "drifting", "trivial", "waiting"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first thing that a person is told about a model.

    Examples
    --------
    >>> print(verdict(Drifts(), 10_000, Baselines("mean error", 0.051, {"majority": 0.4})).text)
    No drift in 10,000 rows. The error is 5.1 %, 87 % better than predicting the most frequent class so far.
    """

    status: VerdictStatus
    """"fine"; "drifting": the error has risen and is not back; "trivial": no better than a rule without a model;
    "waiting": no row was scored yet."""
    drift: str
    """Whether, when and why the data drifted."""
    quality: str
    """How good the model is, beside the best rule without a model."""

    @property
    def text(self) -> str:
        """The whole verdict."""
        return f"{self.drift} {self.quality}".strip()


def verdict_of(trace: Trace, model: str, drifts: Drifts, scores: Scores | None = None) -> Verdict:
    """Return the verdict on a model of a trace; ``scores`` has the average precision of a rare class."""
    if trace.is_empty:
        return Verdict("waiting", "No row was scored yet.", "")
    return verdict(drifts, int(trace.of(model)["rows"].sum()), baselines(trace, model, scores))


def verdict(drifts: Drifts, rows: int, quality: Baselines) -> Verdict:
    """Return the verdict, given the drifts, the number of scored rows and the errors beside trivial predictions."""
    poor = bool(quality.warning)
    status: VerdictStatus = "drifting" if drifts.open is not None else "trivial" if poor else "fine"
    return Verdict(status, drifts.describe() or f"No drift in {rows:,} rows.", quality.sentence)


class EstimatedErrors(NamedTuple):
    """Estimates of the error that were made before labels came, and the errors that were found when these came.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import driftsurf
    >>> result = driftsurf.run("sea0", rows=10_000, out=Path(tempfile.mkdtemp(), "run"), progress=False)
    >>> found = estimated_errors(result.trace, result.model)
    >>> found.judged, found.held > 80
    (99, True)
    """

    at: FloatArray
    """Number of the last step that each estimate is about."""
    value: FloatArray
    low: FloatArray
    high: FloatArray
    true: FloatArray
    """The errors that were found: shares of rows, or root mean squared errors."""

    @property
    def judged(self) -> int:
        """Number of estimates whose true error is known."""
        return len(self.at)

    @property
    def held(self) -> int:
        """Number of intervals that held the true error."""
        return int(np.count_nonzero((self.low <= self.true + 1e-12) & (self.true <= self.high + 1e-12)))

    @property
    def distance(self) -> float:
        """Mean distance of the estimates from the true errors; NaN without any."""
        return float(np.abs(self.value - self.true).mean()) if self.judged else float("nan")

    def describe(self, *, shares: bool) -> str:
        """Say how near the estimates came, and how many intervals held the true error; ``shares`` of rows or numbers.

        >>> one = np.array([0.1, 0.2])
        >>> EstimatedErrors(one, one + 0.02, one - 0.05, one + 0.05, one).describe(shares=True)
        'Before its labels came, the error was estimated to within 2 % on average; of 2 intervals, 2 held it.'
        """
        near = percent(self.distance) if shares else significant(self.distance)
        counts = f"of {self.judged:,} intervals, {self.held:,} held it"
        return f"Before its labels came, the error was estimated to within {near} on average; {counts}."


def estimated_errors(trace: Trace, model: str) -> EstimatedErrors | None:
    """Return the estimates of a model of a trace with the errors of the same rows; None if there are none."""
    columns = trace.of(model)
    if ESTIMATE_COLUMNS[0] not in columns:
        return None
    made = np.flatnonzero(~np.isnan(columns[ESTIMATE_COLUMNS[0]]) & (columns["rows"] > 0))
    if not len(made):
        return None
    rows = columns["rows"].astype(np.float64)
    losses = np.nan_to_num(columns["error" if trace.labels else "squared_error"]) * rows
    if LATE_COLUMNS[0] in columns:
        true = losses[made] / rows[made]
    else:  # steps of few rows are estimated together, from the one after the last estimate on
        first = np.concatenate([[min(trace.warmup_steps, made[0])], made[:-1] + 1])
        true = np.array([losses[a : b + 1].sum() / rows[a : b + 1].sum() for a, b in zip(first, made, strict=True)])
    value, low, high = (columns[name][made] for name in ESTIMATE_COLUMNS)
    return EstimatedErrors(made.astype(np.float64), value, low, high, true if trace.labels else np.sqrt(true))
