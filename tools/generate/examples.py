"""Examples in the docstrings of generated estimators."""

from __future__ import annotations

import textwrap

from driftsurf.estimators.docstrings import learning_example

__all__ = ["example"]

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
}


def example(suffix: str, name: str) -> str:
    """Return the example of an estimator class: its own, or one that learns a stream."""
    return textwrap.dedent(OWN[name]).strip() if name in OWN else learning_example(suffix, name)
