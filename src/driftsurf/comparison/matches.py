"""A match, the unit of work of ``driftsurf compare``: one model on one source with one seed; and standings of many."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from driftsurf.comparison.inputs import Input, StreamInMemory, check_fits, load, rows_bytes
from driftsurf.comparison.models import ComparedModel, Schedule, Situation, model
from driftsurf.comparison.peers import Diverged, Mean
from driftsurf.core.contracts import FloatArray
from driftsurf.core.wording import in_words, percent
from driftsurf.data.row_encoder import Task
from driftsurf.errors import DivergenceError, LabelError
from driftsurf.evaluation.prequential import prequential
from driftsurf.evaluation.ranks import Interval
from driftsurf.evaluation.summary import ClassQuality, class_quality
from driftsurf.evaluation.trace import Trace
from driftsurf.session.observation import Observation
from driftsurf.streams.base import Stream

WARM_UP_ROWS = 60
FIRST_STEP = 1
"""First step that counts; step 0 is predicted by untrained models."""
FLOOR = "(mean)"
"""Model to which regression errors are relative: the mean of all targets before a batch."""
WORST = 1e6
"""Relative error of a regression model that diverges: a finite number, which can be averaged and printed."""


@dataclass(frozen=True, order=True)
class Match:
    """One model on one source: each batch is predicted by the model as it is, and then learned."""

    what: Input
    model: str
    gradients_per_row: float | None = None
    built_on: str = ""
    """Packages that the model comes from, with their versions."""
    seed: int = 0
    probabilities: bool = False
    """Whether the score has the predictions of all rows."""

    kind: ClassVar[str] = "match"

    @property
    def dataset(self) -> str:
        """Name or path of the source."""
        return self.what.source

    def perform(self) -> Score:
        """Run the match."""
        rows, contender = load(self.what), model(self.model)
        asked = None if self.what.task == "auto" else cast("Task", self.what.task)
        at = Situation(len(rows.labels), rows.batch_size, self.seed, rows.drift_steps, self.gradients_per_row, asked)
        if contender.numbered or (rows.sparse and not contender.sparse(at)):
            columns = rows.n_numbered if contender.numbered or rows.compact is not None else rows.X.shape[1]
            needed = rows_bytes(rows.n_rows, np.broadcast_to(0.0, (1, columns)))
            check_fits(rows.name, rows.n_rows, needed, chosen=self.what.rows is not None)
            rows = rows.numbered() if contender.numbered else rows.dense()
        at = replace(at, categories=rows.categories)
        with np.errstate(over="ignore", invalid="ignore"):  # a model may diverge
            try:
                _warm_up(contender, at, rows)
                recorded = _Recorded(contender.make(at), keep=self.probabilities)
                trace, diverged = self._evaluate(rows, recorded), False
            except DivergenceError:
                recorded = _Recorded(Diverged(), keep=self.probabilities)
                trace, diverged = self._evaluate(rows, recorded), True
        run = trace.of(self.model)
        error, in_units = (run["error"], None) if rows.labels else _relative(trace, self.model)
        seconds = round(trace.seconds[self.model], 4)
        diverged = diverged or bool(error.max() == WORST)
        quality = class_quality(trace, self.model, FIRST_STEP) if rows.labels else None
        seen = recorded.predictions(rows.labels) if self.probabilities else None
        return Score(error, rows.n_rows, int(run["gradients"].sum()), seconds, in_units, diverged, quality, seen)

    def _evaluate(self, rows: StreamInMemory, learning: Any) -> Trace:
        models = {self.model: learning} | ({} if rows.labels else {FLOOR: Mean()})
        return prequential(cast("Stream", rows), models, batch_size=rows.batch_size, clock=time.process_time)

    @staticmethod
    def decode(values: Mapping[str, Any]) -> Score:
        """Return the score from which ``to_dict`` made ``values``."""
        return Score.from_dict(values)


class _Recorded:
    """A model whose predictions are kept as they are made."""

    def __init__(self, model: Any, *, keep: bool) -> None:
        self.model = model
        self.keep = keep
        self._seen: list[Observation] = []

    def observe(self, X: Any, y: Any, *, classes: Any = None) -> Observation:
        """Predict and learn a batch."""
        seen: Observation = self.model.observe(X, y, classes=classes)
        if self.keep:
            self._seen.append(replace(seen, decisions=()))
        return seen

    def predictions(self, labels: tuple[Any, ...]) -> SourcePredictions:
        """Return all predictions so far; labels are given by code."""
        true, predicted = (np.concatenate([getattr(one, what) for one in self._seen]) for what in ("true", "predicted"))
        shares = [_shares(one, len(labels)) for one in self._seen]
        # A model without probabilities has none in any batch but, perhaps, the first, which an untrained one predicts.
        has_shares = bool(labels) and all(one.probabilities for one in self._seen[FIRST_STEP:])
        return SourcePredictions(labels, true, predicted, np.concatenate(shares) if has_shares else None)


def _shares(seen: Observation, n_classes: int) -> FloatArray:
    """Return the probability of each class for each row: equal ones where the model had none."""
    if not seen.probabilities:
        return np.full((len(seen.true), n_classes), 1.0 / max(n_classes, 1))
    if seen.scores.ndim == 2:
        return np.asarray(np.exp(seen.scores))
    second = np.exp(-np.logaddexp(0.0, -seen.scores))
    return np.column_stack([1.0 - second, second])


def _warm_up(contender: ComparedModel, at: Situation, rows: StreamInMemory) -> None:
    """Run the model on a few rows, so that the measured time contains no compilation and no start of Java."""
    few = rows.first(WARM_UP_ROWS)
    prequential(cast("Stream", few), contender.make(at), batch_size=max(1, few.n_rows // 3))


def _relative(trace: Trace, model: str) -> tuple[FloatArray, InUnits]:
    """Return the absolute error of each step relative to the mean predictor, and mean errors without the first step."""
    mine, floor = trace.of(model), trace.of(FLOOR)
    mae, mse = (float(floor[name][FIRST_STEP:].mean()) for name in ("absolute_error", "squared_error"))
    if mae == 0.0:
        raise LabelError(f"every target of {trace.stream} is the mean of those before it: there is nothing to predict")
    absolute, squared = (
        np.minimum(np.nan_to_num(mine[name] / unit, nan=worst, posinf=worst), worst)
        for name, unit, worst in (("absolute_error", mae, WORST), ("squared_error", mse, WORST**2))
    )
    ratio = float(np.sqrt(squared[FIRST_STEP:].mean()))
    return absolute, InUnits(float(absolute[FIRST_STEP:].mean() * mae), ratio * float(np.sqrt(mse)), ratio)


@dataclass(frozen=True)
class InUnits:
    """Regression errors in the unit of the label."""

    mae: float
    rmse: float
    relative_rmse: float
    """RMSE divided by the RMSE of predicting the mean of all targets before a batch."""


@dataclass(frozen=True, eq=False)
class SourcePredictions:
    """Predictions of all rows of a source, each made before its row was learned."""

    labels: tuple[Any, ...]
    """Labels by code; empty for a regression."""
    true: npt.NDArray[Any]
    """Codes of the true labels, or true numbers."""
    predicted: npt.NDArray[Any]
    probabilities: FloatArray | None
    """Probabilities of all classes (rows, classes); None for a regression, and for a model without them."""


@dataclass(frozen=True, eq=False)
class Score:
    """The result of a match."""

    error: FloatArray
    """Error of each step: the share of wrong rows, or the absolute error relative to the mean predictor."""
    n_rows: int
    gradients: int
    """Number of gradients or visits of rows; 0 for models that do not count them."""
    seconds: float
    """CPU seconds for predicting and learning, summed over threads."""
    in_units: InUnits | None = None
    """None for classification."""
    diverged: bool = False
    """Whether training diverged. The error is then ``WORST`` for regression, and every row is wrong for classes."""
    quality: ClassQuality | None = None
    """None for regression."""
    predictions: SourcePredictions | None = None
    """Predictions of all rows, if the match was asked for them; they are not part of ``to_dict``."""

    def to_dict(self) -> dict[str, Any]:
        """Return the score as values that JSON can hold."""
        return {
            "error": self.error.tolist(),
            "n_rows": self.n_rows,
            "gradients": self.gradients,
            "seconds": self.seconds,
            "in_units": None if self.in_units is None else asdict(self.in_units),
            "diverged": self.diverged,
            "quality": None if self.quality is None else asdict(self.quality),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the score from which ``to_dict`` made ``values``."""
        error = np.array(values["error"], np.float64)
        in_units = None if values["in_units"] is None else InUnits(**values["in_units"])
        quality = None if values["quality"] is None else ClassQuality(**values["quality"])
        counts = int(values["n_rows"]), int(values["gradients"])
        return cls(error, *counts, float(values["seconds"]), in_units, bool(values["diverged"]), quality)


SAME = 1e-12
"""Errors that differ by no more are the same: a sum in another order may differ in its last bit."""


@dataclass(frozen=True)
class ModelStanding:
    """Result of a model on one source, or over all sources."""

    model: str
    error: Interval
    """Share of wrong rows, or relative error of a regression: mean over steps but the first, seeds and sources."""
    behind: Interval
    """Its error minus the error of the winner."""
    wins: float | None
    """Share of the resamples in which its error was the lowest; models with the same lowest error share a resample."""
    rank: float | None
    """Rank among the models, 1 for the lowest error; over all sources the mean rank; None for a choice afterwards."""
    seconds: float
    """CPU seconds for one seed, summed over all sources."""
    gradients_per_row: float
    """0 for models that do not count gradients."""
    in_units: InUnits | None = None
    """Errors of a regression on one source in the unit of the label."""
    relative_rmse: float | None = None
    """For a regression: the RMSE relative to that of predicting the mean of all targets before the batch."""
    diverged: bool = False
    """Whether training diverged on any source with any seed."""
    quality: ClassQuality | None = None
    """For classes: kappa, balanced error and log loss, averaged over seeds and sources."""
    curve: tuple[float, ...] = ()
    """Its error over time on one source: means over equal spans of the steps that count, averaged over seeds."""
    schedules: tuple[tuple[Schedule, float], ...] = ()
    """Schedules of retraining, with their errors, the best of which on each source this is: chosen afterwards."""


@dataclass(frozen=True)
class Standings:
    """Results of all models on one source, or over all sources, in the order in which the models were named."""

    title: str
    n_rows: int
    steps: int
    models: tuple[ModelStanding, ...]

    @property
    def contenders(self) -> tuple[ModelStanding, ...]:
        """Models that nobody has chosen with the errors in view."""
        return tuple(one for one in self.models if not one.schedules)

    @property
    def winner(self) -> ModelStanding:
        """Model with the lowest error; the first of those that are tied."""
        return min(self.contenders, key=lambda one: one.error.value)

    @property
    def tied(self) -> tuple[ModelStanding, ...]:
        """Models with the lowest error: the winner alone, unless others have the same error."""
        return tuple(one for one in self.contenders if one.behind.value <= SAME)

    @property
    def second(self) -> ModelStanding | None:
        """Model with the second lowest error; None if there is a single model."""
        return next(iter(sorted(self.contenders, key=lambda one: one.error.value)[1:]), None)

    @property
    def sure(self) -> bool:
        """Whether the winner is ahead of every other model by more than chance."""
        return not self.close

    @property
    def close(self) -> tuple[ModelStanding, ...]:
        """Models behind the winner by a gap whose interval includes 0, the nearest first."""
        others = (one for one in self.contenders if one is not self.winner and one.behind.low <= 0.0)
        return tuple(sorted(others, key=lambda one: one.error.value))

    def verdict(self) -> str:
        """Return a sentence that names the winner, the models that are tied, or those that chance might put first."""
        best, next_best = self.winner, self.second
        what = "error" if best.relative_rmse is None else "relative error"
        found = f"{best.error.value:.4f} ({best.error.low:.4f} to {best.error.high:.4f})"
        if next_best is None:
            return f"{best.model} has {_a(what)} of {found}"
        if len(self.tied) > 1:
            return f"{in_words([one.model for one in self.tied], last=' and ')} are tied with {_a(what)} of {found}"
        if self.close:
            gaps = [f"{one.model} ({_gap(one)})" for one in self.close]
            return (
                f"No clear winner: {best.model} has the lowest {what}, {found}, but chance may explain its lead over "
                f"{in_words(gaps, last=' and ')}"
            )
        return (
            f"{best.model} wins with {_a(what)} of {found}: lower than that of {next_best.model} by {_gap(next_best)}, "
            f"and the lowest in {percent(best.wins or 0.0)} of the resamples"
        )

    def hindsight(self) -> list[str]:
        """Return what the best schedules of retraining, chosen afterwards, are beside the winner, in sentences."""
        return [
            f"{one.model}, which nobody can know before, has {one.error.value:.4f}: the best of {len(one.schedules)} "
            f"schedules of retraining on each source, chosen afterwards. It is "
            f"{'ahead of' if one.behind.value < 0.0 else 'behind'} {self.winner.model} by {_gap(one)}"
            for one in self.models
            if one.schedules
        ]


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _gap(one: ModelStanding) -> str:
    gap = one.behind
    if gap.value < 0.0:
        gap = Interval(-gap.value, -gap.high, -gap.low)
    return f"{gap.value:.4f}, 95 % interval {gap.low:.4f} to {gap.high:.4f}"
