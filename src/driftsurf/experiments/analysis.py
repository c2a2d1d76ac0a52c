r"""The paper's bounds beside what is measured, on the streams with abrupt drifts.

H(n) = h n^-alpha bounds the statistical error of n rows; DriftSurf's model is to be
7 / 4^(1-alpha)-risk-competitive with Aware's. A *recovered state* is the time after a drift from the moment
that a model begun after the drift has taken over. In it, theta is the rate of false
entries into the reactive state, and beta the age of the model, in steps, at an entry. After a drift, p is
the probability of entering at a step and p* that of switching at the end of a reactive state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from driftsurf.base import FloatArray
from driftsurf.experiments.algorithms import ALGORITHMS, Setting
from driftsurf.experiments.paper import REACTIVE_LENGTH, settings_of
from driftsurf.experiments.trials import Outcome, Trial, prepared
from driftsurf.runtime.session import Session

__all__ = ["Bounds", "Competition", "CompetitionTask", "bounds", "competition", "recovery_bound"]

FAILURE = 0.05
"""epsilon_1 and epsilon_2: how improbable a violation of the bounds is to be."""
ALPHAS = 0.5, 1.0
EVERY = 5
"""Sub-optimality is taken at every so many steps: the exact minimum costs more than the run."""


# ---------------------------------------------------------------------------- sub-optimality


@dataclass(frozen=True)
class Competition:
    """Sub-optimality of DriftSurf and Aware over the rows since the last drift, means over the trials."""

    dataset: str
    steps: tuple[int, ...]
    rows: tuple[int, ...]
    """n: rows since the last drift."""
    aware: tuple[float, ...]
    driftsurf: tuple[float, ...]
    stable: tuple[bool, ...]
    """Whether DriftSurf was in the stable state and recovered, in every trial: where the bound is meant to hold."""
    h: float
    alpha: float

    @property
    def bound(self) -> float:
        """7 / 4^(1 - alpha)."""
        return 7.0 / math.pow(4.0, 1.0 - self.alpha)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @property
    def ratios(self) -> FloatArray:
        """DriftSurf's sub-optimality over Aware's."""
        return np.divide(self.driftsurf, self.aware)

    @property
    def share_within(self) -> float:
        """Of the steps where the bound is meant to hold, the share where it does; NaN without any."""
        meant = np.array(self.stable)
        return float(np.mean(self.ratios[meant] <= self.bound)) if meant.any() else math.nan


@dataclass(frozen=True)
class CompetitionTask:
    """DriftSurf and Aware side by side on one stream, with these seeds."""

    dataset: str
    seeds: tuple[int, ...]

    kind: ClassVar[str] = "competition"

    def perform(self) -> Competition:
        """Run it."""
        return competition(self.dataset, self.seeds)

    @staticmethod
    def decode(values: Mapping[str, Any]) -> Competition:
        """The result that gave ``values``."""
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return Competition(**(dict(values) | lists))


def competition(dataset: str, seeds: Sequence[int]) -> Competition:
    """Run DriftSurf and Aware side by side and compare their risks with the smallest there is."""
    stream, size, aware_steps = prepared(dataset)
    l2 = settings_of(dataset).l2
    sessions = []
    for seed in seeds:
        at, learner = Setting(aware_steps, size, seed=seed), Trial(dataset, "driftsurf").learner()
        pair = [ALGORITHMS[name].make(learner, at) for name in ("driftsurf", "aware")]
        sessions.append([Session(strategy, classes=(-1, 1), guard=None) for strategy in pair])
    steps, rows, stable = [], [], []
    gaps: list[list[float]] = []
    start, minimiser = 0, None
    for step, (X, y) in enumerate(stream.batches(size)):
        if step in aware_steps:
            start, minimiser = step, None
        decisions = [[session.observe(X, y).decisions[0] for session in pair] for pair in sessions]
        # At the last step of a concept Aware has been told already: its model is the next one.
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
    """h and alpha of h n^-alpha, by least squares in logarithms, alpha within [1/2, 1].

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
    """The minimum of the regularised logistic risk over these rows, and where it is."""
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
    learner = session.strategy.predicting  # type: ignore[attr-defined]
    losses = np.logaddexp(0.0, -y * session.scores(X))
    return float(losses.mean() + learner.penalty())


# ---------------------------------------------------------------------------- states and switches


@dataclass(frozen=True)
class Bounds:
    """What the paper bounds about states and switches, over all trials on one stream."""

    dataset: str
    theta: float
    """False entries for each stable step of recovered states."""
    stable_share: float
    """Of the steps of recovered states."""
    stable_share_bound: float
    """1 / (1 + r theta)"""
    false_entries: int
    false_switches: tuple[tuple[int, bool], ...]
    """(beta, switched) of each false entry."""
    smallest_b: float
    """The smallest b with which b exp(-beta / r) covers the false switches of every age."""
    large_sample_share: float
    """P(|S| > n/2) at stable steps of recovered states, n the rows since recovery."""
    p: float
    p_star: float
    recovery: tuple[int | None, ...]
    """Steps from each drift to recovery, over all trials; None: not before the next drift."""
    recovery_bound: float
    entries: tuple[int, ...]
    """Reactive states before recovery, for each drift and trial."""
    entries_bound: float


def bounds(dataset: str, outcomes: Sequence[Outcome]) -> Bounds:
    """Estimate theta, p and p*, and put what was measured beside what they imply."""
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
    p = tried / max(sum(drift.looks for drift in after), 1)
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
class _AfterDrift:
    """From a drift to the recovery from it, or to the next drift."""

    recovery: int | None
    """Steps until a model that was begun after the drift has taken over."""
    entries: int
    """Reactive states that were entered and decided meanwhile."""
    looks: int
    """Steps at which one could have been entered."""


def _after_drift(run: Outcome, start: int, end: int) -> _AfterDrift:
    entries = looks = 0
    for step in range(start, end):
        entered = "entered" in run.transition[step]
        looks += entered or not run.reactive[step]
        last = step + REACTIVE_LENGTH - 1
        if entered and last < end:
            entries += 1
            if "switched" in run.transition[last]:
                return _AfterDrift(last + 1 - start, entries, looks)
    return _AfterDrift(None, entries, looks)


def _recovered_states(run: Outcome, aware_steps: Sequence[int]) -> list[tuple[int, int]]:
    """First and last step of each; the first one begins with the stream."""
    ends = (*aware_steps, len(run.error))
    states = [(0, ends[0])]
    for start, end in zip(aware_steps, ends[1:], strict=True):
        recovery = _after_drift(run, start, end).recovery
        if recovery is not None:
            states.append((start + recovery, end))
    return states


@dataclass(frozen=True)
class _Recovered:
    steps: int
    stable: int
    large: int
    """Stable steps with |S| > n / 2, n the rows since recovery."""
    false_entries: list[tuple[int, bool]]
    """beta, and whether it switched; those that the next drift left undecided are left out."""


def _in_recovered_state(run: Outcome, start: int, end: int, size: int) -> _Recovered:
    calm = [step for step in range(start, end) if not run.reactive[step]]
    own = [step * size - int(run.trained_from[step]) for step in calm]
    large = sum(step == start or 2 * rows > (step - start) * size for step, rows in zip(calm, own, strict=True))
    false = [
        (step - int(run.trained_from[step]) // size, "switched" in run.transition[step + REACTIVE_LENGTH - 1])
        for step in range(start, end - REACTIVE_LENGTH + 1)
        if "entered" in run.transition[step]
    ]
    return _Recovered(end - start, len(calm), large, false)


def recovery_bound(p: float, p_star: float, reactive_length: int) -> tuple[float, float]:
    """The paper's bounds on the number of reactive states and on the recovery time, each with epsilon = 0.05.

    >>> entries, steps = recovery_bound(p=1.0, p_star=1.0, reactive_length=4)
    >>> print(f"{entries:.1f} {steps:.1f}")
    1.0 11.4
    """
    if p == 0.0 or p_star == 0.0:
        return math.inf, math.inf
    k = 1.0 / p_star + math.sqrt((1.0 - FAILURE) / FAILURE * (1.0 - p_star) / p_star**2)
    return k, k * reactive_length + 2.0 / p * (math.log(1.0 / FAILURE) + k * math.log(2.0))


def _smallest_b(switched_at: Sequence[tuple[int, bool]]) -> float:
    """The smallest b for which, up to every age, the mean of b exp(-beta / r) covers the share of switches."""
    b = total = switches = 0.0
    for age, switched in sorted(switched_at, reverse=True):
        total += math.exp(-age / REACTIVE_LENGTH)
        switches += switched
        if total > 0.0:
            b = max(b, switches / total)
    return b
