"""Statistics of each step beside the trace: confusion of classes, ROC AUC, calibration, and residuals."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, State
from driftsurf.core.fields import MOST, Array, FieldRule, Fields
from driftsurf.core.files import parse_json
from driftsurf.core.wording import rare_class
from driftsurf.errors import InputError
from driftsurf.evaluation.metrics import average_precision
from driftsurf.evaluation.trace import OTHER, StepMap
from driftsurf.native.scores import mean_auc, tally_margins
from driftsurf.session.observation import Observation, probability_of_second

MOST_CLASSES = 20
"""Classes that are counted one by one; all others are counted together."""
BINS = 20
"""Bins of probabilities, of equal width, for the calibration curve."""
LARGEST_LOGIT, LOGIT_BINS = 10.0, 160
"""Scores are counted in bins of log-odds of this range for the ROC AUC; larger ones are in the outermost bins."""
ProbabilityOf: TypeAlias = Literal["second", "predicted"]
"""The class whose probability is compared with its share of rows: the second of two classes, or the predicted one."""
LABELS_AGAIN = 100
"""Steps after which a line names the classes again."""
QUANTILES = 0.05, 0.25, 0.5, 0.75, 0.95
"""Quantiles of the residuals of each step."""


class ScoreRecorder:
    """Write the statistics of the leading model of a run, one line of JSON for each scored step.

    The size of a line is bounded: it has counts, not rows.

    Parameters
    ----------
    labels
        Returns the classes that are known by now, in the order of their codes.
    warmup_steps
        Steps at the beginning that the ROC AUC of the whole run leaves out, if there are others.
    """

    def __init__(self, labels: Callable[[], Sequence[Any]], warmup_steps: int = 0) -> None:
        self.labels = labels
        self.warmup_steps = warmup_steps
        self._taken = 0
        self._step = 0
        self._last_decision = -1
        self._decisions = 0
        """Number of decisions since the last line."""
        self._labels_written = 0
        self._scores = np.zeros((0, 2, LOGIT_BINS), np.int64)
        """For each class, and for other rows and rows of the class: how many scores lie in each bin."""

    def head(self) -> str:
        """Return nothing: every line stands for itself."""
        return ""

    def lines(self, X: Any, seen: Mapping[str, Observation]) -> str:
        """Return the line of a step; nothing if no row was scored, unless it is a step of late labels."""
        one = next(iter(seen.values()))
        self._taken += 1
        if one.decisions:
            self._last_decision, self._decisions = one.decisions[-1].step, self._decisions + len(one.decisions)
        if not len(one.true) and one.origin is None:
            return ""
        line = {"step": self._step, "batch": self._taken - 1, "rows": len(one.true)}
        line |= {"decision": self._last_decision, "decisions": self._decisions}
        self._decisions = 0
        regression = one.predicted.dtype.kind == "f"
        if len(one.true):
            line |= _residuals(one) if regression else self._classes(one)
        self._step += 1
        return json.dumps(line, separators=(",", ":")) + "\n"

    def _classes(self, one: Observation) -> dict[str, Any]:
        found: dict[str, Any] = {}
        labels = list(self.labels())[:MOST_CLASSES]
        # Said again sometimes, because the first lines of a long file may be removed.
        if len(labels) > self._labels_written or self._step % LABELS_AGAIN == 0:
            found["labels"], self._labels_written = labels, len(labels)
        if self._step == self.warmup_steps:
            self._scores = self._scores[:0]
        if one.current is None and one.probabilities and one.scores.ndim == 1 and len(one.scores) == len(one.true):
            tallied = _two_classes(one, len(labels))
            if tallied is not None:
                confusion, counts, calibration = tallied
                return found | {"confusion": confusion} | self._auc(counts) | calibration
        true, predicted = (_known(codes, len(labels)) for codes in (one.true, one.predicted))
        wide = len(labels) + 1
        found["confusion"] = _pairs(np.bincount(wide * true + (predicted + wide + 1), minlength=wide * wide), wide)
        if len(one.scores) == len(true):
            found |= self._auc(_score_counts(one.scores, true))
            if one.probabilities:
                current = predicted if one.current is None else _known(one.current, len(labels))
                found |= _calibration(one.scores, true, current)
        return found

    def _auc(self, counts: npt.NDArray[np.int64]) -> dict[str, Any]:
        """Add the counts of a step, and return its ROC AUC and that of the run so far."""
        self._scores = _added(self._scores, counts)
        found: dict[str, Any] = {"auc": _mean_auc(counts), "auc_so_far": _mean_auc(self._scores)}
        rare = self.rare_precision()
        return found | ({} if rare is None else {"rare": rare})

    def rare_precision(self) -> tuple[int, float] | None:
        """Return the code of the rare class and its average precision so far; None if labels are not imbalanced."""
        scores = self._scores
        if not len(scores):
            return None
        if len(scores) == 1:  # the first class has the score of the second one with the other sign
            scores = _for_classes(scores, 2)
        rare = rare_class(dict(enumerate(scores[:, 1].sum(axis=1).tolist())))
        return None if rare is None else (rare, average_precision(*scores[rare]))

    def average_precision(self, label: Any) -> float:
        """Average precision of the rare class so far; NaN for another class, and if labels are not imbalanced."""
        rare, labels = self.rare_precision(), list(self.labels())
        return rare[1] if rare is not None and labels[rare[0]] == label else math.nan

    def state(self) -> State:
        """Return what the next lines need, for a checkpoint."""
        counters = self._taken, self._step, self._last_decision, self._decisions, self._labels_written
        return {"counters": np.array(counters, np.int64), "scores": self._scores}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume from what :meth:`state` returned."""
        known = FIELDS.read(state)
        counters = known["counters"].tolist()
        self._taken, self._step, self._last_decision, self._decisions, self._labels_written = counters
        self._scores = known["scores"].copy()


FIELDS = Fields(
    {
        "counters": Array(np.int64, (5,), least=-1, most=MOST),
        "scores": Array(np.int64, ("classes", 2, LOGIT_BINS), least=0, most=MOST),
    },
    rules=[
        FieldRule(
            "scores", f"must be for {MOST_CLASSES} classes at most", lambda known: known["classes"] <= MOST_CLASSES
        )
    ],
)
"""Saved entries of a recorder of scores."""


def _known(codes: npt.NDArray[Any], n_labels: int) -> npt.NDArray[np.int64]:
    """Return codes as integers; -1 for classes that are counted together."""
    whole = codes.astype(np.int64)
    if whole.max() >= n_labels:
        whole[whole >= n_labels] = -1
    return whole


def _score_counts(scores: FloatArray, true: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Count the scores of each class in bins of log-odds, apart for other rows and rows of the class.

    A learner of two classes has one score, that of the second class.
    """
    if scores.ndim == 1:
        logits, own = scores[:, None], true[:, None] == 1
    else:
        logs = scores[:, :MOST_CLASSES]
        if logs.shape[1] == 1:  # a class that has not appeared has the probability 0
            logs = np.hstack([logs, np.full((len(logs), 1), -np.inf)])
        with np.errstate(divide="ignore"):
            logits = logs - np.log(-np.expm1(np.minimum(logs, 0.0)))
        own = true[:, None] == np.arange(logs.shape[1])
    share = logits * (LOGIT_BINS / 2 / LARGEST_LOGIT) + LOGIT_BINS / 2
    places = np.fmax(np.fmin(share, LOGIT_BINS - 1), 0.0).astype(np.int64)  # fmin and fmax: NaN is no number either
    classes = logits.shape[1]
    places += LOGIT_BINS * own
    if classes > 1:
        places += 2 * LOGIT_BINS * np.arange(classes)
    return np.bincount(places.ravel(), minlength=classes * 2 * LOGIT_BINS).reshape(classes, 2, LOGIT_BINS)


def _two_classes(
    one: Observation, n_labels: int
) -> tuple[list[tuple[int, int, int]], npt.NDArray[np.int64], dict[str, Any]] | None:
    """Return confusion, counts of scores and calibration of log-odds in one pass; None if one is not a number."""
    wide = n_labels + 1
    pairs, counts = np.zeros((wide, wide), np.int64), np.zeros((1, 2, LOGIT_BINS), np.int64)
    hits, sums = np.zeros((2, BINS), np.int64), np.zeros(BINS)
    margins = np.ascontiguousarray(one.scores, np.float64)
    true, predicted = (np.ascontiguousarray(codes, np.int64) for codes in (one.true, one.predicted))
    shares = probability_of_second(margins)
    if not tally_margins(margins, shares, true, predicted, LARGEST_LOGIT, pairs, counts[0], hits, sums):
        return None
    return _pairs(pairs.ravel(), wide), counts, _curve("second", hits, sums)


def _pairs(counts: npt.NDArray[np.int64], wide: int) -> list[tuple[int, int, int]]:
    """Return the true code, the predicted code and the number of rows of each pair that occurs."""
    return [(k // wide - 1, k % wide - 1, count) for k, count in enumerate(counts.tolist()) if count]


def _added(total: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Add counts to a total, where either may have fewer classes than the other."""
    if len(total) == len(counts):
        return total + counts
    classes = max(len(total), len(counts))
    return _for_classes(total, classes) + _for_classes(counts, classes)


def _for_classes(counts: npt.NDArray[np.int64], classes: int) -> npt.NDArray[np.int64]:
    """Return counts for this many classes. A class that had not appeared had the probability 0 in all rows."""
    if len(counts) == 1 < classes:  # the first class has the score of the second one with the other sign
        counts = np.stack([counts[0, ::-1, ::-1], counts[0]])
    more = np.zeros((classes - len(counts), 2, LOGIT_BINS), np.int64)
    more[:, 0, 0] = counts[0].sum() if len(counts) else 0
    return np.concatenate([counts, more])


def _mean_auc(counts: npt.NDArray[np.int64]) -> float | None:
    """Return the ROC AUC, the mean over classes if there are more than two; scores in the same bin count half."""
    found = mean_auc(np.ascontiguousarray(counts))
    return None if math.isnan(found) else found


def _calibration(scores: FloatArray, true: npt.NDArray[np.int64], predicted: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Return, for each bin of probabilities, the rows, the hits and the sum of the probabilities; and of which class.

    The probability is that of the second of two classes, and that of the predicted one of more classes.
    """
    of: ProbabilityOf = "second" if scores.ndim == 1 or scores.shape[1] <= 2 else "predicted"
    if of == "predicted":
        probability, hit = np.exp(scores.max(axis=1)), (true == predicted) & (true >= 0)
    else:
        hit = true == 1
        if scores.ndim == 1:
            probability = probability_of_second(scores)
        else:  # a learner for any number of classes, which has met two, or one
            probability = np.exp(scores[:, 1]) if scores.shape[1] == 2 else np.zeros(len(scores))
    bins = np.minimum(probability * BINS, BINS - 1).astype(np.int64)
    if of == "second":  # a row with a probability of exactly 0.5 is with the other rows of the same prediction
        bins = np.where(predicted == 1, np.maximum(bins, BINS // 2), np.minimum(bins, BINS // 2 - 1))
    hits = np.bincount(bins + BINS * hit, minlength=2 * BINS).reshape(2, BINS)
    return _curve(of, hits, np.bincount(bins, probability, BINS).astype(np.float64, copy=False))


def _curve(of: ProbabilityOf, counts_of_hits: npt.NDArray[np.int64], sums: FloatArray) -> dict[str, Any]:
    """Return the bins of probabilities that have rows: with their rows, hits and sums."""
    found = zip(range(BINS), *counts_of_hits.tolist(), sums.round(6).tolist(), strict=True)
    counts = [(k, missed + right, right, total) for k, missed, right, total in found if missed or right]
    return {"probability_of": of, "calibration": counts}


def _residuals(one: Observation) -> dict[str, Any]:
    """Return mean and squared deviations of the true values, and mean and quantiles of prediction minus truth."""
    residual = one.predicted - one.true
    mean = float(one.true.mean())
    return {
        "mean": mean,
        "squares": float(np.sum(np.square(one.true - mean))),
        "residual": float(residual.mean()),
        "quantiles": np.quantile(residual, QUANTILES).tolist(),
    }


@dataclass(frozen=True, eq=False)
class Scores:
    """Statistics of the leading model at each step, as a run recorded them.

    Means and sums over a run leave the warm-up steps out, as the mean error does.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import driftsurf
    >>> scores = driftsurf.run("sea0", rows=10_000, out=Path(tempfile.mkdtemp(), "run"), progress=False).scores
    >>> labels, counts = scores.confusion()
    >>> labels, counts.tolist()
    ([-1, 1], [[4607, 393], [1226, 3774]])
    >>> round(scores.auc, 2), round(scores.calibration_error(), 2)
    (0.93, 0.12)
    """

    lines: Sequence[Mapping[str, Any]]
    """One record for each scored step."""
    warmup_steps: int = 0
    _columns: dict[ProbabilityOf, npt.NDArray[np.float64]] = field(default_factory=dict, init=False, repr=False)
    """Calibration bins of all steps by kind of probability, kept once ``_all_bins`` has computed them."""

    @classmethod
    def from_text(cls, text: str, warmup_steps: int = 0) -> Scores:
        """Read what :class:`ScoreRecorder` wrote; incomplete last lines are ignored."""
        try:
            lines = [parse_json(line) for line in text[: text.rfind("\n") + 1].splitlines()]
            for line in lines:
                _ = line["step"], line["batch"], line["decision"], line["decisions"], line["rows"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"the text is not a file of scores that a run wrote: {error!r}") from error
        return cls(lines, warmup_steps)

    @property
    def counted(self) -> Sequence[Mapping[str, Any]]:
        """The records without the warm-up steps; with them if there are no others."""
        return self.lines[self.warmup_steps :] or self.lines

    @property
    def labels(self) -> list[Any]:
        """The classes that were counted one by one, in the order of their appearance; empty for regression."""
        return next((list(line["labels"]) for line in reversed(self.lines) if "labels" in line), [])

    def column(self, name: str) -> npt.NDArray[np.float64]:
        """Return one number of each step, such as "auc" or "residual"; NaN where it is not known."""
        values = [line.get(name) for line in self.lines]
        return np.array([np.nan if value is None else value for value in values], np.float64)

    def confusion(self) -> tuple[list[Any], npt.NDArray[np.int64]]:
        """Return the labels, and for each true class (row) how often each class (column) was predicted.

        The last label is ``OTHER`` if classes were counted together, or one is called so.
        """
        labels = [label for label in self.labels if label != OTHER]
        places = [*(-1 if label == OTHER else labels.index(label) for label in self.labels), -1]
        table = np.zeros((len(labels) + 1, len(labels) + 1), np.int64)
        for line in self.counted:
            for true, predicted, count in line.get("confusion", ()):
                table[places[true], places[predicted]] += count  # -1, the classes counted together, is the last one
        if table[-1].any() or table[:, -1].any():
            return [*labels, OTHER], table
        return labels, table[:-1, :-1]

    @property
    def auc(self) -> float:
        """ROC AUC over all counted rows, the mean of one class against the others if there are more than two.

        A class has the probability 0 in the rows before it appeared. The AUC is computed from counts in bins of
        log-odds. NaN if the model has no scores, or only one class appeared.
        """
        known = [line["auc_so_far"] for line in self.counted if line.get("auc_so_far") is not None]
        return float(known[-1]) if known else float("nan")

    def average_precision(self, label: Any) -> float:
        """Average precision of the rare class over all counted rows, from the same bins as the ROC AUC.

        NaN if labels are not imbalanced, for another class than the rare one, or if the model has no scores.
        """
        rare = next((line["rare"] for line in reversed(self.counted) if "auc_so_far" in line and "rare" in line), None)
        return float(rare[1]) if rare is not None and self.labels[rare[0]] == label else float("nan")

    @property
    def probability_of(self) -> ProbabilityOf:
        """The class whose probabilities can be compared with its share of rows over the whole run.

        It is the second of two classes, or the predicted one if there were more than two at any step.
        """
        more = any(line.get("probability_of") == "predicted" for line in self.lines)
        return "predicted" if more else "second"

    def calibration(self, of: ProbabilityOf | None = None) -> tuple[FloatArray, FloatArray, npt.NDArray[np.int64]]:
        """Return mean probability, share of hits and number of rows of each bin of probabilities that has rows.

        The probability is that of the second or of the predicted class (default: ``probability_of``), and a hit is a
        row of this class. That of the second class is known only if there were two classes at every step.
        """
        found = self._all_bins(of)
        counted = found[:, found[0] >= len(self.lines) - len(self.counted)]
        sums = np.array([np.bincount(counted[1].astype(np.int64), one, BINS) for one in counted[2:]])
        rows, hits, probability = sums[:, sums[0] > 0]
        return probability / rows, hits / rows, rows.astype(np.int64)

    def calibration_error(self, of: ProbabilityOf | None = None) -> float:
        """Return the expected calibration error; NaN if there are no probabilities.

        That is by how much probability and share of hits differ in a bin of probabilities, on average over rows.
        """
        probability, share, rows = self.calibration(of)
        return float(np.average(np.abs(probability - share), weights=rows)) if len(rows) else float("nan")

    def calibration_over_time(self, of: ProbabilityOf | None = None) -> tuple[FloatArray, FloatArray]:
        """Return the mean probability and the share of hits of each step; NaN where they are not known."""
        found = self._all_bins(of)
        rows, hits, probability = (np.bincount(found[0].astype(np.int64), one, len(self.lines)) for one in found[2:])
        with np.errstate(invalid="ignore"):
            return probability / rows, hits / rows

    def _all_bins(self, of: ProbabilityOf | None) -> npt.NDArray[np.float64]:
        """Return the bins of all steps as rows: number of the step, place, rows, hits and sum of probabilities."""
        wanted = of or self.probability_of
        if wanted not in self._columns:
            found = [(step, *one) for step, line in enumerate(self.lines) for one in _bins(line, wanted)]
            self._columns[wanted] = np.ascontiguousarray(np.array(found, np.float64).reshape(-1, 5).T)
        return self._columns[wanted]

    def r_squared(self, mean_squared_error: float) -> float:
        """Return the share of the variance of all counted true values that predictions with this error explain.

        NaN if the true values do not vary.
        """
        counted = [line for line in self.counted if line["rows"]]
        rows, mean, squares = (np.array([line[name] for line in counted]) for name in ("rows", "mean", "squares"))
        centre = float(np.average(mean, weights=rows))
        total = float(np.sum(squares + rows * np.square(mean - centre)))
        return 1.0 - mean_squared_error * float(rows.sum()) / total if total > 0 else float("nan")

    def step_map(self, columns: Mapping[str, npt.NDArray[Any]]) -> StepMap:
        """Return where decisions and orders are among the steps of the leading model of a trace."""
        found = StepMap.of(columns)
        if len(self.lines) != len(columns["step"]):  # some lines could not be written
            return found
        names = "decision", "decisions", "batch"
        recorded = (np.array([line[name] for line in self.lines], np.int64) for name in names)
        return StepMap(found.first_row, found.rows, *recorded)


def _bins(line: Mapping[str, Any], wanted: ProbabilityOf) -> Sequence[tuple[int, int, int, float]]:
    """Return the bins of probabilities of a step, each with its rows, hits and sum of probabilities."""
    found: Sequence[tuple[int, int, int, float]] = line.get("calibration", ())
    if not found or line["probability_of"] == wanted:
        return found
    if wanted == "second":
        raise InputError("the run has met more than two classes, so that no class is the second of two")
    half = BINS // 2  # rows of the lower bins were predicted as the first class
    return [
        (BINS - 1 - k, rows, rows - hits, rows - total) if k < half else (k, rows, hits, total)
        for k, rows, hits, total in found
    ]
