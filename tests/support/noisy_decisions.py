"""Decisions of DriftSurf on a small noisy stream, and the numbers in their explanations."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from driftsurf.core.contracts import Batch
from driftsurf.core.decisions import Decision
from driftsurf.learners import LogisticRegression
from driftsurf.runs.explanation.replay import replay
from driftsurf.strategies import AuthorsDriftSurf, DriftSurf

STEPS, ROWS = 60, 60


def decisions_of(threshold: float = 0.1, *, seed: int = 0, **options: Any) -> list[Decision]:
    """Run DriftSurf on a small stream with two drifts and enough noise that thresholds lead to other decisions."""
    rng = np.random.default_rng(seed)
    kind = AuthorsDriftSurf if options.pop("variant", "algorithm-1") == "authors" else DriftSurf
    strategy = kind(LogisticRegression(), threshold=threshold, seed=seed, **options)
    strategy.begin(n_features=3, sparse=False, n_classes=2)
    made = []
    for step in range(STEPS):
        X = rng.normal(size=(ROWS, 3))
        turn = (step // 20) % 2
        y = (X[:, turn] + 0.7 * rng.normal(size=ROWS) > 0).astype(float)
        made.append(strategy.step(Batch(X, y, np.ones(ROWS))))
    return made


def entered(decisions: list[Decision]) -> list[int]:
    """Return the steps at which a reactive state begins."""
    return [decision.step for decision in decisions if decision.condition]


def numbers(text: str) -> list[int]:
    """Return the whole numbers in a text."""
    return [int(number) for number in re.findall(r"\d+", text)]


def differs(decisions: list[Decision], threshold: float) -> bool:
    """Return whether the replay decides differently, or does not know a decision."""
    answer = replay(decisions, threshold)
    return bool(answer.left_out) or answer.added is not None or answer.known_until is not None
