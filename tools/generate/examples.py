"""Examples in the docstrings of generated estimators. A strategy without one of its own gets the general example."""

from __future__ import annotations

import textwrap

from driftsurf.registry import Entry

__all__ = ["example"]

STREAMS = {"Classifier": ("SEA", "0.7"), "Regressor": ("Friedman", "0.0")}
OWN = {
    "DriftSurfClassifier": """
        >>> import numpy as np
        >>> from driftsurf.streams import Mixed
        >>> model = DriftSurfClassifier(random_state=0)
        >>> errors = [(model.test_then_train(X, y) != y).mean() for X, y in Mixed().batches(1000)]
        >>> print(f"{np.mean(errors):.2f}")
        0.20
        >>> [(transition.kind, transition.step) for transition in model.journal_.transitions[:2]]
        [('entered', 20), ('greedy', 20)]
        """,
    "DriftSurfRegressor": """
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> model = DriftSurfRegressor(random_state=0)
        >>> for step in range(30):  # the slope turns around at step 15
        ...     X = rng.normal(size=(100, 1))
        ...     y = 1e6 + (2e3 if step < 15 else -2e3) * X[:, 0] + rng.normal(size=100)
        ...     model = model.partial_fit(X, y)
        >>> [(transition.kind, transition.step) for transition in model.journal_.transitions]
        [('entered', 15), ('greedy', 16), ('switched', 18)]
        """,
    "AwareClassifier": """
        >>> from driftsurf.streams import SEA
        >>> stream = SEA(n_rows=20_000)
        >>> model = AwareClassifier(drift_steps=stream.drift_steps(500), random_state=0)
        >>> errors = [(model.test_then_train(X, y) != y).mean() for X, y in stream.batches(500)]
        >>> [transition.step for transition in model.journal_.transitions]
        [10, 20, 30]
        """,
    "ResetOnDriftClassifier": """
        >>> from driftsurf.detectors import DDM
        >>> from driftsurf.streams import Mixed
        >>> model = ResetOnDriftClassifier(detector=DDM(drift_level=4.0), random_state=0)
        >>> for X, y in Mixed(n_rows=30_000).batches(500):
        ...     model = model.partial_fit(X, y)
        >>> model.journal_.transitions[0].step
        12
        >>> model.set_params(detector__drift_level=3.0).detector
        DDM(min_rows=30, warning_level=2.0, drift_level=3.0)
        """,
}


def example(entry: Entry, suffix: str, name: str) -> str:
    """Return the example of an estimator class: learn a stream, and predict better than chance."""
    if name in OWN:
        return textwrap.dedent(OWN[name]).strip()
    stream, chance = STREAMS[suffix]
    return textwrap.dedent(
        f"""
        >>> from driftsurf.streams import {stream}
        >>> model = {name}(random_state=0)
        >>> for X, y in {stream}(n_rows=2_000).batches(200):
        ...     model = model.partial_fit(X, y)
        >>> model.score(X, y) > {chance}
        True
        """
    ).strip()
