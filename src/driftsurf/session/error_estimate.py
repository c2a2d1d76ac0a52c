"""The error of a model before the labels come: a mixture of forecasts with an interval whose coverage is tracked."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from driftsurf.core.contracts import FloatArray, State
from driftsurf.core.fields import Array, FieldRule, Fields, Truth, Whole
from driftsurf.native import maths

COVERAGE = 0.9
"""Share of the intervals that hold the true error."""
USUAL_WIDTH = 1.645
"""Standard deviations to each side that hold this share of a normal distribution."""
FORGETTING = 0.97
"""Factor by which a block counts less with each newer one, in fits and in the squared errors of forecasts."""
PRIORS = 0.8, 2.0, 0.8, 1.0, 1.0
"""Squared errors of the forecasts before the first label: of what is expected, corrected by labels asked for at once
before; of the mean error; of what is expected; and of the fits."""
AUDIT_PRIORS = 3.0, 1.5, 1.5, 1.0
"""The same for what is expected, corrected by the labels of the block itself, and by those of all blocks until then;
for the forecast without them; and for the mean of this and the first by their variances."""
PRIOR_BLOCKS = 3.0
"""Number of blocks that the priors count as."""
NOISE_SHARE = 0.8
"""Share of the sampling noise that is subtracted from the squared errors of forecasts, which all have it."""
LARGEST_SQUARE = 4.0
"""Largest squared error that counts, which only logarithms reach."""
RIDGE = 4.0
"""Strength of the prior of a fit, in units of the sampling noise of a block."""
SHORT = 3
"""Number of blocks in which the bias of expected sizes of numeric errors is measured."""
FIRST_SPREADS = 0.1, 0.4
"""Error of the estimate beyond noise before the first label, of shares and of logarithms of numeric errors."""
SPREAD_MEMORY = 0.9
"""Factor by which the squared error of the estimate beyond noise counts less with each newer block."""
RATE = 0.05
"""Step of the factor of the width for each block, in logarithms."""
NARROWEST, WIDEST = 0.6, 2.5
"""Bounds of the factor of the width."""
AUDIT_MEMORY = 0.8
"""Factor by which labels asked for at once count less with each newer block."""
AUDIT_PRIOR = 5.0
"""Rows that the prior for the variance of labels asked for at once counts as."""
LEAST_VARIANCE = 1e-9
MOST_PENDING = 1000
"""Number of blocks that wait for their labels at most; the oldest is dropped first."""
LEAST_ERROR = 1e-12
"""Numeric errors below it are taken for it, so that they have a logarithm."""


class ErrorEstimate(NamedTuple):
    """Estimated error of some rows, with an interval that holds the true one for 90 % of the estimates.

    Examples
    --------
    >>> print(ErrorEstimate(0.12, 0.08, 0.16, 200).describe())
    0.12 (0.08 to 0.16)
    """

    value: float
    """Estimated share of wrong predictions; for regression, the root mean squared error."""
    low: float
    high: float
    rows: int
    """Number of rows."""
    audited: int = 0
    """Number of these rows whose labels have come already and correct the estimate for all."""

    def describe(self) -> str:
        """Return the estimate and its interval in words."""
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


class PendingBlock(NamedTuple):
    """Forecasts of a block whose labels have not come, in the unit in which they are mixed."""

    rows: int
    signals: tuple[float, ...]
    forecasts: tuple[float, ...]
    """NaN for a forecast that could not be made yet."""
    value: float
    width: float
    """Half of the interval before any label of the block; NaN if the block has no estimate."""
    audit_forecasts: tuple[float, ...] = ()
    """Forecasts with the labels that were asked for at once; empty without any."""
    audit_value: float = math.nan
    audit_width: float = math.nan
    """Their mixture, and half of its interval."""


class CoverageCount(NamedTuple):
    """Number of the intervals whose true error is known, and of those that held it.

    >>> CoverageCount(200, 181).describe()
    'of 200 intervals, 181 held the true error'
    """

    judged: int = 0
    held: int = 0

    def after(self, held: bool) -> CoverageCount:
        """Return the counts after one more interval."""
        return CoverageCount(self.judged + 1, self.held + held)

    def describe(self) -> str:
        """Return the counts in words."""
        return f"of {self.judged:,} intervals, {self.held:,} held the true error"


class DiscountedFit:
    """Least squares of the errors of blocks on their signals; older blocks count less.

    Sums are about the first block, so that they stay exact where signals hardly vary.
    """

    def __init__(self, width: int, slope: float) -> None:
        self.slope = slope
        """Slope of each signal before the first block."""
        self.sums: list[float] = [0.0] * (2 + 2 * width + width * width)
        """Of weights, errors, signals, their products with errors, and their products with one another."""

    def add(self, x: Sequence[float], y: float) -> None:
        """Learn a block."""
        new = [1.0, y, *x, *(one * y for one in x), *(one * other for one in x for other in x)]
        self.sums = [FORGETTING * old + one for old, one in zip(self.sums, new, strict=True)]

    def value(self, x: Sequence[float], noise: float) -> float:
        """Return the forecast for a block; NaN before the first one. ``noise`` is the variance of its error."""
        k, (total, y) = len(x), self.sums[:2]
        if not total:
            return math.nan
        means, y_mean = [one / total for one in self.sums[2 : 2 + k]], y / total
        prior = RIDGE * noise
        system = [
            [
                *(self.sums[2 + 2 * k + i * k + j] - total * means[i] * means[j] + (i == j) * prior for j in range(k)),
                self.sums[2 + k + i] - total * means[i] * y_mean + prior * self.slope,
            ]
            for i in range(k)
        ]
        slopes = solved(system)
        return y_mean + sum(slope * (one - mean) for slope, one, mean in zip(slopes, x, means, strict=True))


def solved(system: list[list[float]]) -> list[float]:
    """Return the solution of a few linear equations with a positive definite matrix; the last column is the right side.

    Written out, because the order of the sums of LAPACK depends on the processor.

    >>> solved([[2.0, 1.0, 3.0], [1.0, 2.0, 3.0]])
    [1.0, 1.0]
    """
    size = len(system)
    for i in range(size):
        for j in range(i + 1, size):
            factor = system[j][i] / system[i][i]
            system[j] = [a - factor * b for a, b in zip(system[j], system[i], strict=True)]
    found = [0.0] * size
    for i in reversed(range(size)):
        rest = sum(system[i][j] * found[j] for j in range(i + 1, size))
        found[i] = (system[i][size] - rest) / system[i][i]
    return found


class ForecastMixer:
    """Weights forecasts by their squared errors so far; a forecast that was NaN counts where it was made."""

    def __init__(self, priors: Sequence[float], power: int) -> None:
        self.priors = priors
        """Squared errors before the first label, in units of their mean."""
        self.power = power
        """A forecast is weighted by its mean squared error to the power of minus this."""
        self.errors: list[float] = [0.0] * len(priors)
        """Discounted sum of the squared errors of each forecast, ..."""
        self.weights: list[float] = [0.0] * len(priors)
        """... and of the weights of the blocks for which it was made."""

    def learn(self, forecasts: Sequence[float], y: float) -> None:
        """Learn the true error of a block."""
        for place, forecast in enumerate(forecasts):
            known = forecast == forecast
            off = min((forecast - y) ** 2, LARGEST_SQUARE) if known else 0.0
            self.errors[place] = FORGETTING * self.errors[place] + off
            self.weights[place] = FORGETTING * self.weights[place] + known

    def mixed(self, forecasts: Sequence[float], noise: float) -> float:
        """Return the weighted mean of the forecasts; ``noise`` is the discounted sum of the noise that all share."""
        blocks, most = sum(self.weights), max(self.weights)
        usual = sum(self.errors) / blocks if blocks else 0.0
        common = NOISE_SHARE * min(noise / most, 0.9 * usual) if most else 0.0
        total = top = 0.0
        for value, error, weight, prior in zip(forecasts, self.errors, self.weights, self.priors, strict=True):
            if value == value:
                own = prior
                if usual > 0.0:
                    mean = (error - weight * common + PRIOR_BLOCKS * prior * (usual - common)) / (weight + PRIOR_BLOCKS)
                    own = max(mean / usual, 0.05)
                share = own**-self.power
                total, top = total + share, top + share * value
        return top / total


class ErrorEstimator:
    """Estimates the error of blocks of predictions, each before its labels come, and learns from those that come.

    It mixes forecasts by their squared errors so far: the mean error; the error that the model expects by its own
    probabilities; and least-squares fits of the error on this, and on further signals such as the disagreement of
    experts. A label that comes late is credited to the forecasts that were made for its block. If some labels are
    asked for at once, each with a known chance, their difference from what was expected corrects the forecast, in
    proportion to its certainty (prediction-powered inference), and later forecasts too.

    The interval is a normal one around the mixture, for the sampling noise of the block and the recent squared error
    beyond noise, times a factor that grows with each miss and shrinks otherwise, so that 90 % of the intervals hold the
    true error in the long run however data drift (adaptive conformal inference). The factor is bounded.

    No estimate sees labels that turn around while inputs stay: only labels tell.

    Parameters
    ----------
    signals
        Number of signals of a block, at least 1. The first is the mean expected loss of its rows: 1 minus the highest
        probability; for regression the expected size of the error.
    regression
        Whether errors are root mean squared errors instead of shares.

    Examples
    --------
    >>> estimator = ErrorEstimator(signals=1)
    >>> for block in range(50):
    ...     found = estimator.predict(block, 200, [0.1 if block % 2 else 0.3])
    ...     estimator.learn(block, 0.15 if block % 2 else 0.35)  # the model is too sure of itself, by .05
    >>> print(estimator.predict(50, 200, [0.3]).describe())
    0.35 (0.306 to 0.394)
    >>> estimator.coverage.describe()
    'of 50 intervals, 50 held the true error'

    References
    ----------
    A. N. Angelopoulos et al. Prediction-powered inference. Science, 2023.
    I. Gibbs, E. Candès. Adaptive conformal inference under distribution shift. NeurIPS 2021.
    """

    def __init__(self, signals: int, *, regression: bool = False) -> None:
        self.signals = signals
        self.regression = regression
        self.coverage: CoverageCount = CoverageCount()
        """Intervals before any label of their block."""
        self.audit_coverage: CoverageCount = CoverageCount()
        """Intervals with labels that were asked for at once."""
        self.pending: dict[int, PendingBlock] = {}
        """Blocks without all of their labels, by their numbers."""
        widths = [1] if regression else [signals, *[2] * (signals > 2)]
        self._fits = [DiscountedFit(width, 0.5 if regression else 1.0 / width) for width in widths]
        self._mixer = ForecastMixer(PRIORS[: 3 + len(widths)], 4)
        self._audit_mixer = ForecastMixer(AUDIT_PRIORS, 2)
        self._noise = self._total = 0.0
        """Discounted sum of the sampling noise of the blocks, and sum of all errors."""
        self._blocks = 0
        self._bias: deque[float] = deque(maxlen=SHORT)
        """How far errors were above what was expected, in the last blocks."""
        self._spreads = [FIRST_SPREADS[regression] ** 2] * 2
        """Recent squared errors beyond noise of the estimates, without and with labels at once."""
        self._factors = [1.0, 1.0]
        self._audits = [0.0, 0.0]
        """Discounted sums over rows labelled at once: differences from what was expected and weights; for regression
        losses and what was expected."""

    @property
    def usual(self) -> float:
        """Mean error of all blocks whose labels have come; NaN before the first."""
        mean = self._total / self._blocks if self._blocks else math.nan
        return maths.exp(mean) if self.regression and self._blocks else mean

    # -------------------------------------------------------------------- estimates

    def predict(self, block: int, rows: int, signals: Sequence[float]) -> ErrorEstimate | None:
        """Return the estimate for a new block; None if no labels have come yet and nothing is known."""
        x = tuple(self._unit(one) for one in signals)
        forecasts = self._forecasts(x, rows)
        known = [one for one in forecasts if one == one]
        value, width = math.nan, math.nan
        if known:
            value = self._mixer.mixed(forecasts, self._noise)
            width = self._factors[0] * USUAL_WIDTH * math.sqrt(self._noise_of(value, rows) + self._spreads[0])
        self.pending[block] = PendingBlock(rows, x, forecasts, value, width)
        if len(self.pending) > MOST_PENDING:
            del self.pending[next(iter(self.pending))]
        return None if value != value else self._shown(value, width, rows)

    def audit(self, block: int, losses: FloatArray, expected: FloatArray, weights: FloatArray) -> ErrorEstimate | None:
        """Correct the estimate of a block by rows whose labels came at once; None without an estimate of the block.

        ``losses`` are those of these rows, 0 or 1, or squared errors; ``expected`` what was expected of them, and
        ``weights`` 1 / the chance with which the label of each was asked for. Call it once for each block.
        """
        one = self.pending.get(block)
        if one is None or not len(losses):
            return None
        rows, value = len(losses), one.value
        effective = min(float(weights.sum()) ** 2 / float(np.square(weights).sum()), float(rows))
        own = self._compared(losses, expected, weights)
        self._audits = [AUDIT_MEMORY * old + new for old, new in zip(self._audits, own, strict=True)]
        if value != value:
            return None
        variance = 1.0
        if not self.regression:
            usual = AUDIT_PRIOR * float((expected * (1.0 - expected)).mean())
            variance = (float(np.square(losses - expected).sum()) + usual) / (rows + AUDIT_PRIOR)
        variance = max(variance * (1.0 - rows / one.rows) / effective, LEAST_VARIANCE)
        before = self._noise_of(value, one.rows) + self._spreads[0]
        local = self._corrected(one.signals[0], own)
        joint = (local * before + value * variance) / (before + variance)
        forecasts = local, self._corrected(one.signals[0], self._audits), value, joint
        spread = self._spreads[1] * self._factors[1] ** 2
        if self.audit_coverage.judged:
            value = self._audit_mixer.mixed(forecasts, 0.0)
        else:  # no block has had all of its labels, so that only theory says how good the correction is
            value, spread = joint, before * variance / (before + variance)
        width = USUAL_WIDTH * math.sqrt(spread)
        self.pending[block] = one._replace(audit_forecasts=forecasts, audit_value=value, audit_width=width)
        return self._shown(value, width, one.rows, rows)

    def _compared(self, losses: FloatArray, expected: FloatArray, weights: FloatArray) -> list[float]:
        """Return two sums, by which what is expected of all rows is corrected."""
        if self.regression:
            return [float((weights * losses).sum()), float((weights * expected).sum())]
        return [float((weights * (losses - expected)).sum()), float(weights.sum())]

    def _corrected(self, expected: float, sums: Sequence[float]) -> float:
        """Return what is expected of a block, corrected by labels asked for at once; NaN without any."""
        total, base = sums
        if base <= 0.0:
            return math.nan
        if self.regression:
            return expected + 0.5 * maths.log(max(total, LEAST_ERROR) / base)
        return min(max(expected + total / base, 0.0), 1.0)

    def _forecasts(self, x: tuple[float, ...], rows: int) -> tuple[float, ...]:
        """Return all forecasts of a block, NaN for those that need labels before there are any."""
        mean = self._total / self._blocks if self._blocks else math.nan
        noise = self._noise_of(mean, rows) if self._blocks else math.nan
        since = self._corrected(x[0], self._audits)
        if self.regression:
            sizes = x[0] + sum(self._bias) / len(self._bias) if self._bias else math.nan
            return since, mean, sizes, self._fits[0].value(x[-1:], noise)
        inputs = [x, (x[0], x[-1])][: len(self._fits)]
        fits = (fit.value(one, noise) for fit, one in zip(self._fits, inputs, strict=True))
        return since, mean, x[0], *(one if one != one else min(max(one, 0.0), 1.0) for one in fits)

    # -------------------------------------------------------------------- labels

    def learn(self, block: int, error: float, rows: float | None = None) -> None:
        """Credit the error of a block to the forecasts that were made for it; one that is not known changes nothing.

        ``rows`` is the number of rows of which the error is the mean, if these are not all.
        """
        one = self.pending.pop(block, None)
        if one is None:
            return
        y = self._unit(error)
        noise = self._noise_of(y, one.rows if rows is None else rows, least=0.0)
        self._noise = FORGETTING * self._noise + noise
        self._mixer.learn(one.forecasts, y)
        more = noise - self._noise_of(y, one.rows, least=0.0)
        self._judge(0, one.value, math.sqrt(one.width**2 + USUAL_WIDTH**2 * more), y, noise)
        if one.audit_forecasts and rows is None:  # a mean of the labels that corrected the estimate cannot judge it
            self._audit_mixer.learn(one.audit_forecasts, y)
            self._judge(1, one.audit_value, one.audit_width, y, 0.0)
        self._total, self._blocks = self._total + y, self._blocks + 1
        self._bias.append(y - one.signals[0])
        inputs = [one.signals[-1:]] if self.regression else [one.signals, (one.signals[0], one.signals[-1])]
        for fit, x in zip(self._fits, inputs, strict=False):
            fit.add(x, y)

    def _judge(self, kind: int, value: float, width: float, y: float, noise: float) -> None:
        """Learn how wide intervals have to be from one that was made."""
        if value != value:
            return
        missed = abs(value - y) > width
        if kind:
            self.audit_coverage = self.audit_coverage.after(not missed)
        else:
            self.coverage = self.coverage.after(not missed)
        beyond = min(max((value - y) ** 2 - noise, 0.0), LARGEST_SQUARE)
        self._spreads[kind] = SPREAD_MEMORY * self._spreads[kind] + (1.0 - SPREAD_MEMORY) * beyond
        factor = self._factors[kind] * maths.exp(RATE * (missed - (1.0 - COVERAGE)))
        self._factors[kind] = min(max(factor, NARROWEST), WIDEST)

    # -------------------------------------------------------------------- units

    def _unit(self, error: float) -> float:
        """Return a share as it is, and the logarithm of a numeric error, whose size often changes many times over."""
        return maths.log(max(error, LEAST_ERROR)) if self.regression else float(error)

    def _noise_of(self, value: float, rows: float, least: float = 0.25) -> float:
        """Return the variance of the error of a block around its expectation."""
        if self.regression:
            return 1.0 / rows
        return max(value * (1.0 - value), least / rows) / rows

    def _shown(self, value: float, width: float, rows: int, audited: int = 0) -> ErrorEstimate:
        low, high = value - width, value + width
        if self.regression:
            return ErrorEstimate(maths.exp(value), maths.exp(low), maths.exp(high), rows, audited)
        return ErrorEstimate(value, max(low, 0.0), min(high, 1.0), rows, audited)

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return everything that later estimates depend on."""
        numbers = [self._noise, self._total, *self._spreads, *self._factors, *self._audits]
        for part in (self._mixer, self._audit_mixer):
            numbers += [*part.errors, *part.weights]
        for fit in self._fits:
            numbers += fit.sums
        waiting = list(self.pending.items())
        floats = [[*one.signals, *one.forecasts, one.value, one.width, *_audited(one)] for _, one in waiting]
        return {
            "signals": self.signals,
            "regression": self.regression,
            "counts": np.array([self._blocks, *self.coverage, *self.audit_coverage], np.int64),
            "numbers": np.array(numbers),
            "recent": np.array(self._bias),
            "blocks": np.array([[block, one.rows] for block, one in waiting], np.int64).reshape(len(waiting), 2),
            "pending": np.array(floats, np.float64).reshape(len(waiting), self._width),
        }

    @property
    def _width(self) -> int:
        """Number of numbers of a block that waits."""
        return self.signals + len(self._mixer.priors) + 2 + len(AUDIT_PRIORS) + 2

    @property
    def _size(self) -> int:
        """Number of numbers besides those of the blocks that wait."""
        mixers = 2 * (len(self._mixer.priors) + len(AUDIT_PRIORS))
        return 8 + mixers + sum(len(fit.sums) for fit in self._fits)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ErrorEstimator:
        """Return the estimator that ``state()`` was called on."""
        shape = Fields({name: FIELDS.entries[name] for name in ("signals", "regression")}).take(state)[0]
        new = cls(shape["signals"], regression=shape["regression"])
        known = FIELDS.read(state, width=new._width, size=new._size)
        numbers = iter(known["numbers"].tolist())
        new._noise, new._total = next(numbers), next(numbers)
        for values in (new._spreads, new._factors, new._audits):
            values[:] = itertools.islice(numbers, 2)
        for part in (new._mixer, new._audit_mixer):
            for values in (part.errors, part.weights):
                values[:] = itertools.islice(numbers, len(values))
        for fit in new._fits:
            fit.sums[:] = itertools.islice(numbers, len(fit.sums))
        new._blocks, *counts = known["counts"].tolist()
        new.coverage, new.audit_coverage = CoverageCount(*counts[:2]), CoverageCount(*counts[2:])
        new._bias.extend(known["recent"].tolist())
        first, stop = new.signals, new.signals + len(new._mixer.priors)
        for (block, rows), x in zip(known["blocks"].tolist(), known["pending"].tolist(), strict=True):
            audit = tuple(x[stop + 2 : -2]) if x[-2] == x[-2] else ()
            made = tuple(x[:first]), tuple(x[first:stop])
            new.pending[block] = PendingBlock(rows, *made, x[stop], x[stop + 1], audit, x[-2], x[-1])
        return new


def _audited(one: PendingBlock) -> list[float]:
    forecasts = one.audit_forecasts or (math.nan,) * len(AUDIT_PRIORS)
    return [*forecasts, one.audit_value, one.audit_width]


FIELDS = Fields(
    {
        "signals": Whole(1, 16),
        "regression": Truth(),
        "counts": Array(np.int64, (5,), least=0),
        "numbers": Array(np.float64, ("size",)),
        "recent": Array(np.float64, ("*",)),
        "blocks": Array(np.int64, ("waiting", 2), least=0),
        "pending": Array(np.float64, ("waiting", "width"), missing=True),
    },
    rules=[
        FieldRule("recent", f"must have at most {SHORT} values", lambda known: len(known["recent"]) <= SHORT),
        FieldRule("counts", "must have no more held than judged", lambda known: _are_counts(*known["counts"].tolist())),
        FieldRule("blocks", "must have rows", lambda known: (known["blocks"][:, 1] > 0).all()),
    ],
)
"""Saved entries of an estimator."""


def _are_counts(blocks: int, *counts: int) -> bool:
    return all(held <= judged <= blocks for judged, held in zip(counts[::2], counts[1::2], strict=True))
