"""Forced resets: bursts of flipped labels that try to make a model throw away what it knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from driftsurf.learners import LogisticRegression
from driftsurf.runtime.session import Session
from driftsurf.strategies import DriftSurf
from torture.harness import Outcome

ROWS, STEPS = 500, 60
BURSTS = (20, 30, 40, 50)
BURST_ROWS = 50
"""Rows of one batch whose labels are flipped: enough to look like a drift, over before the next batch."""


def _strategies() -> dict[str, Callable[[], Any]]:
    learner = LogisticRegression()
    made: dict[str, Callable[[], Any]] = {"DriftSurf": lambda: DriftSurf(learner)}
    try:
        from driftsurf.detectors import ADWIN, DDM
        from driftsurf.strategies.reset_on_drift import ResetOnDrift
    except ImportError:
        return made
    return made | {
        f"{kind.__name__} resetting": lambda kind=kind: ResetOnDrift(learner, kind()) for kind in (DDM, ADWIN)
    }


def _stream(seed: int, attacked: bool) -> tuple[Any, Any, Any]:
    """A world without drift: rows, true labels, and the labels that the model is told."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(STEPS, ROWS, 10))
    world = generator.normal(size=10)
    y = np.where(X @ world + 0.5 * generator.normal(size=(STEPS, ROWS)) > 0, 1, -1)
    told = y.copy()
    if attacked:
        for step in BURSTS:
            told[step, :BURST_ROWS] *= -1
    return X, y, told


def _run(make: Callable[[], Any], seed: int, attacked: bool) -> tuple[float, int]:
    """The error against the truth from the first burst on, and how often the model was thrown away."""
    X, y, told = _stream(seed, attacked)
    session = Session(make(), classes=(-1, 1))
    wrong = resets = 0
    for step in range(STEPS):
        seen = session.observe(X[step], told[step])
        if step >= BURSTS[0]:
            wrong += int(np.count_nonzero(seen.labels != y[step]))
            kinds = [transition.kind for decision in seen.decisions for transition in decision.transitions]
            resets += kinds.count("switched") + kinds.count("reset")
    return wrong / (ROWS * (STEPS - BURSTS[0])), resets


def forced_resets(scale: float, seed: int, count: int | None = None) -> Outcome:
    """Bursts of flipped labels in a world without drift: what they cost, and how often a model was thrown away."""
    outcome = Outcome("forced-reset attack", seed)
    streams = max(1, round(200 * scale)) if count is None else count
    lost: dict[str, float] = {}
    resets: dict[str, int] = {}
    for name, make in _strategies().items():
        pairs = [(_run(make, seed + k, True), _run(make, seed + k, False)) for k in range(streams)]
        lost[name] = 100 * float(np.mean([attacked[0] - calm[0] for attacked, calm in pairs]))
        resets[name] = sum(max(0, attacked[1] - calm[1]) for attacked, calm in pairs)
        outcome.figures[f"{name}: points lost"] = lost[name]
        outcome.figures[f"{name}: harmful resets"] = resets[name]
        outcome.tried += streams
    others = [value for name, value in resets.items() if name != "DriftSurf"]
    if not others:
        outcome.figures["beside"] = "nothing: this version has no detectors"
    elif 5 * resets["DriftSurf"] > min(others):
        outcome.short = "not five times fewer resets"
    outcome.tried -= 1
    outcome.check(lost["DriftSurf"] <= 1.0, {"lost": lost, "resets": resets})
    return outcome
