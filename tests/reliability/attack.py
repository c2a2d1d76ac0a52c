"""Forced resets: bursts of flipped labels that try to make a strategy discard a good model."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from tests.reliability.harness import Outcome

from driftsurf.detectors import ADWIN, DDM
from driftsurf.learners import LogisticRegression
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf
from driftsurf.strategies.reset_on_drift import ResetOnDrift

STEPS = 60
BURSTS = (20, 30, 40, 50)
"""Batches that are attacked; each burst ends with its batch."""
SETTINGS = (100, 20), (100, 50), (500, 25), (500, 50), (500, 250), (1_000, 100), (1_000, 200), (1_000, 500)
"""Rows of a batch, and number of labels flipped at its start: from a twentieth to a half."""
LEARNER = LogisticRegression()
DEFENDED, PLAIN = "judge='prequential'", "Algorithm 1"
STRATEGIES: dict[str, Callable[[], Any]] = {
    DEFENDED: lambda: DriftSurf(LEARNER, judge="prequential"),
    PLAIN: lambda: DriftSurf(LEARNER),
    "DDM resetting": lambda: ResetOnDrift(LEARNER, DDM()),
    "ADWIN resetting": lambda: ResetOnDrift(LEARNER, ADWIN()),
}
RIVALS = "DDM resetting", "ADWIN resetting"
MOST_LOST, FEWER = 1.0, 5


def _stream(seed: int, rows: int, flipped: int) -> tuple[Any, Any, Any]:
    """Return a stream without drift: rows, true labels, and the labels with the flipped ones."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(STEPS, rows, 10))
    weights = generator.normal(size=10)
    y = np.where(X @ weights + 0.5 * generator.normal(size=(STEPS, rows)) > 0, 1, -1)
    given = y.copy()
    for step in BURSTS:
        given[step, :flipped] *= -1
    return X, y, given


@cache
def _run(name: str, seed: int, rows: int, flipped: int) -> tuple[float, int]:
    """Return the error rate from the first burst on, by the true labels, and the number of models discarded."""
    X, y, given = _stream(seed, rows, flipped)
    session = Session(STRATEGIES[name](), classes=(-1, 1))
    wrong = resets = 0
    for step in range(STEPS):
        seen = session.observe(X[step], given[step])
        if step >= BURSTS[0]:
            wrong += int(np.count_nonzero(seen.labels != y[step]))
            kinds = [transition.kind for decision in seen.decisions for transition in decision.transitions]
            resets += kinds.count("switched") + kinds.count("reset")
    return wrong / (rows * (STEPS - BURSTS[0])), resets


def forced_resets(scale: float, seed: int, count: int | None = None) -> Outcome:
    """Measure the accuracy lost to bursts of flipped labels, and how often a good model was discarded."""
    outcome = Outcome("forced-reset attack", seed)
    streams = max(1, round(200 / len(SETTINGS) * scale)) if count is None else count
    totals = dict.fromkeys(STRATEGIES, 0)
    outcome.figures["streams of each setting"] = streams
    for rows, flipped in SETTINGS:
        results = []
        for name in STRATEGIES:
            pairs = [(_run(name, seed + k, rows, flipped), _run(name, seed + k, rows, 0)) for k in range(streams)]
            lost = 100 * float(np.mean([attacked[0] - calm[0] for attacked, calm in pairs]))
            resets = sum(attacked[1] for attacked, _ in pairs)  # there is no drift, so each of them does harm
            totals[name] += resets
            results.append(f"{lost:.2f}/{resets}")
            if name == DEFENDED:
                outcome.check(lost <= MOST_LOST, {"rows": rows, "flipped": flipped, "lost": lost})
        outcome.figures[f"{flipped} of {rows}: points lost/resets"] = " ".join(results)
    outcome.figures |= {f"resets, {name}": total for name, total in totals.items()}
    outcome.check(all(FEWER * totals[DEFENDED] <= totals[rival] for rival in RIVALS), {"resets": totals})
    outcome.tried = streams * len(SETTINGS)
    return outcome
