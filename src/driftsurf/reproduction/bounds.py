r"""The paper's theoretical bounds and the measured quantities, on streams with abrupt drifts.

H(n) = h n^-alpha bounds the statistical error of a model trained on n rows. The paper proves that the sub-optimality of
DriftSurf's model is at most 7 / 4^(1-alpha) times that of Aware's. A *recovered state* begins when a model that was
made after the last drift takes over, and ends with the next drift. In it, theta is the rate of false entries into the
reactive state, and beta the age of the model, in steps, at an entry. After a drift, p is the probability of entering
the reactive state at a step, and p* the probability of switching at its end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from driftsurf.comparison.models import ALGORITHMS, Setting
from driftsurf.core.abilities import SinglePredictor
from driftsurf.core.contracts import FloatArray
from driftsurf.reproduction.published import OPTIONS, REACTIVE_LENGTH, settings_of
from driftsurf.reproduction.trials import Trial, TrialResult, prepared
from driftsurf.session.session import Session

FAILURE = 0.05
"""epsilon_1 and epsilon_2: the probability with which the bounds may be violated."""
ALPHAS = 0.5, 1.0
"""The range of alpha that the theory covers."""
EVERY = 5
"""Sub-optimality is measured every five steps, because the exact minimum of the risk costs more than the run."""


# ---------------------------------------------------------------------------- sub-optimality


@dataclass(frozen=True)
class Competition:
    """Sub-optimality of DriftSurf and of Aware on the rows since the last drift, means over the trials."""

    dataset: str
    steps: tuple[int, ...]
    rows: tuple[int, ...]
    """n: number of rows since the last drift."""
    aware: tuple[float, ...]
    driftsurf: tuple[float, ...]
    stable: tuple[bool, ...]
    """Whether DriftSurf was stable and had recovered in every trial: the bound is meant for these steps."""
    h: float
    alpha: float

    @property
    def bound(self) -> float:
        """The bound on the ratio, 7 / 4^(1 - alpha)."""
        return 7.0 / math.pow(4.0, 1.0 - self.alpha)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self)

    @property
    def ratios(self) -> FloatArray:
        """DriftSurf's sub-optimality divided by Aware's, at each measured step."""
        return np.divide(self.driftsurf, self.aware)

    @property
    def share_within(self) -> float:
        """Share of the steps within the bound, of those that it is meant for; NaN if there are none."""
        stable = np.array(self.stable)
        return float(np.mean(self.ratios[stable] <= self.bound)) if stable.any() else math.nan


@dataclass(frozen=True)
class CompetitionTask:
    """Parameters of a comparison of DriftSurf with Aware on one stream, with these seeds."""

    dataset: str
    seeds: tuple[int, ...]

    kind: ClassVar[str] = "competition"

    def perform(self) -> Competition:
        """Run the comparison."""
        return competition(self.dataset, self.seeds)

    @staticmethod
    def decode(values: Mapping[str, Any]) -> Competition:
        """Return the result whose ``to_dict`` gave ``values``."""
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return Competition(**(dict(values) | lists))


def competition(dataset: str, seeds: Sequence[int]) -> Competition:
    """Run DriftSurf and Aware on the same batches and compare their risks with the smallest possible risk."""
    stream, size, aware_steps = prepared(dataset)
    l2 = settings_of(dataset).l2
    sessions = []
    for seed in seeds:
        at, learner = Setting(aware_steps, size, seed=seed, options=OPTIONS), Trial(dataset, "driftsurf").learner()
        pair = [ALGORITHMS[name].make(learner, at) for name in ("driftsurf", "aware")]
        sessions.append([Session(strategy, classes=(-1, 1), guard=None) for strategy in pair])
    steps, rows, stable = [], [], []
    gaps: list[list[float]] = []
    start, minimiser = 0, None
    for step, (X, y) in enumerate(stream.batches(size)):
        if step in aware_steps:
            start, minimiser = step, None
        decisions = [[session.observe(X, y).decisions[0] for session in pair] for pair in sessions]
        # At the last step of a concept Aware has already reset: its model belongs to the next concept.
        if (step - start) % EVERY != EVERY - 1 or step + 1 in aware_steps:
            continue
        seen = stream.X[start * size : (step + 1) * size], stream.y[start * size : (step + 1) * size]
        least, minimiser = smallest_risk(*seen, l2, minimiser)
        risks = [[_risk(session, *seen) for session in pair] for pair in sessions]
        gaps.append(np.maximum(np.mean(risks, axis=0) - least, 1e-12).tolist())
        steps.append(step)
        rows.append((step + 1 - start) * size)
        stable.append(all(d[0].state == "stable" and d[0].trained_from >= start * size for d in decisions))
    driftsurf, aware = (tuple(gap[k] for gap in gaps) for k in (0, 1))
    h, alpha = fitted_rate(np.array(rows), np.array(aware))
    return Competition(dataset, tuple(steps), tuple(rows), aware, driftsurf, tuple(stable), h, alpha)


def fitted_rate(n: npt.NDArray[Any], gap: FloatArray) -> tuple[float, float]:
    """Fit h and alpha of h n^-alpha by least squares of logarithms, with alpha in [1/2, 1].

    >>> n = np.array([100, 1000, 10000])
    >>> h, alpha = fitted_rate(n, 3.0 * n**-0.75)
    >>> print(f"{h:.2f} {alpha:.2f}")
    3.00 0.75
    """
    x, z = np.log(n), np.log(gap)
    spread = float(np.sum((x - x.mean()) ** 2))
    slope = float(np.sum((x - x.mean()) * (z - z.mean()))) / spread if spread > 0 else -1.0
    alpha = min(max(-slope, ALPHAS[0]), ALPHAS[1])
    return math.exp(float(z.mean()) + alpha * float(x.mean())), alpha


def smallest_risk(X: Any, y: Any, l2: float, start: FloatArray | None) -> tuple[float, FloatArray]:
    """Minimise the regularised logistic risk on these rows; return the minimum and its coefficients."""
    from scipy.optimize import minimize

    def risk(w: FloatArray) -> tuple[float, FloatArray]:
        margin = y * (X @ w[:-1] + w[-1])
        slope = -y * np.exp(-np.logaddexp(0.0, margin)) / len(y)
        gradient = np.append(X.T @ slope, slope.sum()) + l2 * w
        return float(np.logaddexp(0.0, -margin).mean() + 0.5 * l2 * (w @ w)), gradient

    first = np.zeros(X.shape[1] + 1) if start is None else start
    found = minimize(risk, first, jac=True, method="L-BFGS-B", options={"maxiter": 1000, "ftol": 1e-13, "gtol": 1e-8})
    return float(found.fun), found.x


def _risk(session: Session, X: Any, y: Any) -> float:
    strategy = session.strategy
    assert isinstance(strategy, SinglePredictor)
    assert strategy.predicting is not None  # neither DriftSurf nor Aware lets several models vote
    losses = np.logaddexp(0.0, -y * session.scores(X))
    return float(losses.mean() + strategy.predicting.penalty())


# ---------------------------------------------------------------------------- states and switches


@dataclass(frozen=True)
class Bounds:
    """What the paper bounds about states and switches, estimated from all trials on one stream."""

    dataset: str
    theta: float
    """False entries into the reactive state per stable step, in recovered states."""
    stable_share: float
    """Share of stable steps in recovered states."""
    stable_share_bound: float
    """The bound on it, 1 / (1 + r theta)."""
    false_entries: int
    false_switches: tuple[tuple[int, bool], ...]
    """For each false entry beta and whether it ended in a switch."""
    smallest_b: float
    """The smallest b for which b exp(-beta / r) is at least the share of false switches at every age."""
    large_sample_share: float
    """P(|S| > n/2) at stable steps of recovered states, with n the rows since recovery."""
    p: float
    p_star: float
    recovery: tuple[int | None, ...]
    """Steps from each drift to recovery, in all trials; None if the next drift came first."""
    recovery_bound: float
    entries: tuple[int, ...]
    """Reactive states before recovery, for each drift of each trial."""
    entries_bound: float


def bounds(dataset: str, outcomes: Sequence[TrialResult]) -> Bounds:
    """Estimate theta, p and p* from the trials, and compare what was measured with the bounds they imply."""
    _, size, aware_steps = prepared(dataset)
    after = [
        _after_drift(run, start, end)
        for run in outcomes
        for start, end in zip(aware_steps, (*aware_steps[1:], len(run.error)), strict=True)
    ]
    recovered = [
        _in_recovered_state(run, start, end, size)
        for run in outcomes
        for start, end in _recovered_states(run, aware_steps)
    ]
    stable = sum(part.stable for part in recovered)
    steps = sum(part.steps for part in recovered)
    false = [entry for part in recovered for entry in part.false_entries]
    theta = len(false) / max(stable, 1)
    tried = sum(drift.entries for drift in after)
    p = tried / max(sum(drift.chances for drift in after), 1)
    p_star = sum(drift.recovery is not None for drift in after) / max(tried, 1)
    most_entries, longest = recovery_bound(p, p_star, REACTIVE_LENGTH)
    return Bounds(
        dataset,
        theta,
        stable / max(steps, 1),
        1.0 / (1.0 + REACTIVE_LENGTH * theta),
        len(false),
        tuple(false),
        _smallest_b(false),
        sum(part.large for part in recovered) / max(stable, 1),
        p,
        p_star,
        tuple(drift.recovery for drift in after),
        longest,
        tuple(drift.entries for drift in after),
        most_entries,
    )


@dataclass(frozen=True)
class _RecoveryTime:
    """The time from a drift to the recovery from it, or to the next drift."""

    recovery: int | None
    """Steps until a model that was made after the drift took over; None if none did."""
    entries: int
    """Reactive states that were entered and ended in this time."""
    chances: int
    """Steps at which a reactive state could have been entered."""


def _after_drift(run: TrialResult, start: int, end: int) -> _RecoveryTime:
    entries = chances = 0
    for step in range(start, end):
        entered = "entered" in run.transitions[step]
        chances += entered or not run.reactive[step]
        last = step + REACTIVE_LENGTH - 1
        if entered and last < end:
            entries += 1
            if "switched" in run.transitions[last]:
                return _RecoveryTime(last + 1 - start, entries, chances)
    return _RecoveryTime(None, entries, chances)


def _recovered_states(run: TrialResult, aware_steps: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first step of each recovered state and the step after its last; the stream begins with one."""
    ends = (*aware_steps, len(run.error))
    states = [(0, ends[0])]
    for start, end in zip(aware_steps, ends[1:], strict=True):
        recovery = _after_drift(run, start, end).recovery
        if recovery is not None:
            states.append((start + recovery, end))
    return states


@dataclass(frozen=True)
class _Recovered:
    """Counts of one recovered state."""

    steps: int
    stable: int
    large: int
    """Stable steps with |S| > n / 2, with n the rows since recovery."""
    false_entries: list[tuple[int, bool]]
    """For each false entry beta and whether it switched. Entries that a drift interrupted are left out."""


def _in_recovered_state(run: TrialResult, start: int, end: int, size: int) -> _Recovered:
    stable = [step for step in range(start, end) if not run.reactive[step]]
    own = [step * size - int(run.trained_from[step]) for step in stable]
    large = sum(step == start or 2 * rows > (step - start) * size for step, rows in zip(stable, own, strict=True))
    false = [
        (step - int(run.trained_from[step]) // size, "switched" in run.transitions[step + REACTIVE_LENGTH - 1])
        for step in range(start, end - REACTIVE_LENGTH + 1)
        if "entered" in run.transitions[step]
    ]
    return _Recovered(end - start, len(stable), large, false)


def recovery_bound(p: float, p_star: float, reactive_length: int) -> tuple[float, float]:
    """Return the paper's bounds on the number of reactive states and on the recovery time, with epsilon = 0.05.

    >>> entries, steps = recovery_bound(p=1.0, p_star=1.0, reactive_length=4)
    >>> print(f"{entries:.1f} {steps:.1f}")
    1.0 11.4
    """
    if p == 0.0 or p_star == 0.0:
        return math.inf, math.inf
    k = 1.0 / p_star + math.sqrt((1.0 - FAILURE) / FAILURE * (1.0 - p_star) / p_star**2)
    return k, k * reactive_length + 2.0 / p * (math.log(1.0 / FAILURE) + k * math.log(2.0))


def _smallest_b(switched_at: Sequence[tuple[int, bool]]) -> float:
    """Return the smallest b for which b exp(-beta / r) is at least the share of switches, from every age on."""
    b = total = switches = 0.0
    for age, switched in sorted(switched_at, reverse=True):
        total += math.exp(-age / REACTIVE_LENGTH)
        switches += switched
        if total > 0.0:
            b = max(b, switches / total)
    return b
