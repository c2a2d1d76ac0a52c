"""Errors of trivial predictions, from the columns of a trace, and the verdict on a model in a few sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from driftsurf.core.contracts import FloatArray
from driftsurf.core.drifts import Drifts
from driftsurf.core.wording import HARDLY_BETTER, percent, significant
from driftsurf.evaluation import metrics
from driftsurf.evaluation.class_metrics import RareClass, rare_class_of
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.summary import mean_error_of
from driftsurf.evaluation.trace import Trace

BASELINE_WORDS = {
    "majority": "predicting the most frequent class so far",
    "mean": "predicting the mean of all values so far",
    "persistence": "repeating the last label",
}
"""Description of each trivial prediction."""
BASELINE_NAMES = {"majority": "most frequent class", "mean": "mean so far", "persistence": "last label"}
"""Short names of trivial predictions, as tables and figures show them."""


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
