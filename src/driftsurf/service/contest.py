"""Challengers against the leading model: errors on the same rows, each predicted before it was learned."""

from __future__ import annotations

import json
import math
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftsurf.core.contracts import FloatArray, State
from driftsurf.core.fields import Array, Fields, Json
from driftsurf.evaluation.resampling import interval, resampled_means
from driftsurf.session.observation import Observation

__all__ = ["ChallengerStatus", "Contest"]

MOST_STEPS = 1000
"""Last steps that are compared."""
LEAST_STEPS = 8
"""Steps below which there is no interval."""
RESAMPLES = 500


@dataclass(frozen=True, slots=True)
class ChallengerStatus:
    """A challenger, compared with the leading model on the same rows, each predicted before it was learned."""

    name: str
    version: int
    error: float
    """Error over the compared steps."""
    leading_error: float
    """Error of the leading model over the same steps."""
    difference: float
    """``error - leading_error``; below 0 the challenger is better."""
    low: float
    high: float
    """95 % interval of the difference, by a paired block bootstrap; NaN with too few steps."""
    steps: int
    """Number of compared steps."""
    failed: str = ""
    """Why it learns no more; empty as long as it learns."""


class Contest:
    """Errors of every model at the last steps, and paired intervals of their differences.

    The errors are those of predictions made just before a step was learned, for all models alike. What users were
    answered is another matter: it also depends on how late labels come.

    Examples
    --------
    >>> contest = Contest()
    >>> for step in range(20):
    ...     contest.add({"old": 0.3 + 0.01 * (step % 2), "new": 0.2})
    >>> found = contest.compare("old", "new", version=20)
    >>> found.steps, round(found.difference, 3), found.high < 0
    (20, -0.105, True)
    """

    def __init__(self) -> None:
        self._steps: deque[dict[str, float]] = deque(maxlen=MOST_STEPS)
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[int, ChallengerStatus]] = {}
        self._added = 0

    def observe(self, seen: Mapping[str, Observation]) -> None:
        """Note the errors of a step that all models have predicted before they learned it."""
        if len(seen) > 1 or self._steps:
            self.add({name: one.mean_loss for name, one in seen.items() if len(one.true)})

    def add(self, errors: Mapping[str, float]) -> None:
        """Note the errors of a step: shares of wrong rows, or mean squared errors."""
        with self._lock:
            self._steps.append(dict(errors))
            self._added += 1

    def forget(self, name: str) -> None:
        """Forget the errors of a model that is gone, or has been replaced by another one of that name."""
        with self._lock:
            for errors in self._steps:
                errors.pop(name, None)
            self._known = {}

    def compare(
        self, leading: str, name: str, *, version: int, failed: str = "", regression: bool = False
    ) -> ChallengerStatus:
        """Return how a challenger compares, in the unit of the label.

        The interval is computed again once there is a twentieth more of steps.
        """
        with self._lock:
            pairs = [(one[leading], one[name]) for one in self._steps if leading in one and name in one]
            added = self._added
        since, known = self._known.get((leading, name), (-1, None))
        if known is not None and added - since < max(1, known.steps // 20) and not failed:
            return known
        errors: FloatArray = np.array(pairs).reshape(len(pairs), 2)
        shown = np.sqrt if regression else np.asarray
        means = shown(errors.mean(axis=0)).tolist() if len(pairs) else [math.nan, math.nan]
        low = high = math.nan
        if len(pairs) >= LEAST_STEPS:
            resampled = shown(resampled_means([errors[:, :1].T, errors[:, 1:].T], resamples=RESAMPLES))
            found = interval(means[1] - means[0], resampled[:, 1] - resampled[:, 0])
            low, high = found.low, found.high
        status = ChallengerStatus(name, version, means[1], means[0], means[1] - means[0], low, high, len(pairs), failed)
        self._known[leading, name] = added, status
        return status

    def state(self) -> State:
        """Return the errors, for a checkpoint."""
        names = sorted({name for errors in self._steps for name in errors})
        table = np.array([[errors.get(name, math.nan) for name in names] for errors in self._steps])
        return {"names": json.dumps(names), "errors": table.reshape(len(self._steps), len(names))}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` returned."""
        known = FIELDS.read(state)
        names = known["names"]
        rows: Iterable[list[float]] = known["errors"].tolist()
        with self._lock:
            self._steps = deque(
                ({name: error for name, error in zip(names, row, strict=True) if error == error} for row in rows),
                maxlen=MOST_STEPS,
            )
            self._known = {}


def _read_names(saved: Any) -> list[str]:
    """Return saved names of models; ValueError if they are not valid."""
    if not (isinstance(saved, list) and all(isinstance(name, str) for name in saved)):
        raise ValueError("must be a list of names")
    return saved


FIELDS = Fields({"names": Json(_read_names), "errors": Array(np.float64, ("*", "*"), missing=True)})
"""Saved entries of a contest."""
