"""Calls for a fleet, and the separate models that its keys must equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf import DriftSurfClassifier, Fleet
from driftsurf.core.contracts import State
from driftsurf.keyed import key_seed
from driftsurf.learners import LogisticRegression

Call = tuple[list[Any], npt.NDArray[Any], npt.NDArray[Any]]
SMALL: dict[str, Any] = {"step_size": 0.1, "batch_size": 10, "max_rows": 25, "threshold": 0.1}
LEARNER = "step_size", "l2", "steps_per_row", "start"


def calls(
    n_calls: int = 30, d: int = 3, keys: Sequence[Any] = range(5), most: int = 60, seed: int = 0
) -> Iterator[Call]:
    """Rows of keys in any order; the meaning of the first column flips now and then, at another time for each key."""
    rng = np.random.default_rng(seed)
    for call in range(n_calls):
        n = int(rng.integers(1, most))
        chosen = rng.integers(len(keys), size=n)
        X = rng.normal(size=(n, d))
        y = (X[:, 0] + 0.3 * rng.normal(size=n) > 0) == ((3 * call // n_calls + chosen) % 2 == 0)
        yield [keys[k] for k in chosen], X, y.astype(int)


def separate(key: Any, seed: int = 0, **options: Any) -> DriftSurfClassifier:
    """Return the separate model that a key must equal; the drifts of keys are found in their predictions instead."""
    learner = LogisticRegression(**{name: options.pop(name) for name in LEARNER if name in options})
    options = {"classes": (0, 1), "dtype": "float32", "guard": None, "random_state": key_seed(seed, key)} | options
    return DriftSurfClassifier(learner, **options).set_drift_monitor(enabled=False)


def same(mine: State, theirs: State) -> None:
    assert sorted(mine) == sorted(theirs)
    for name, value in mine.items():
        other = theirs[name]
        np.testing.assert_array_equal(np.asarray(value), np.asarray(other), err_msg=name, strict=True)


def served(many: Fleet, given: Iterator[Call]) -> Fleet:
    for call in given:
        many.observe(*call)
    return many
