"""A stream with a drift, and the scikit-learn checks that are expected to fail, for the tests of estimators."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Batches = list[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]]


def stream(steps: int = 24, m: int = 100, *, flip: int = 12, seed: int = 0) -> Batches:
    """Return batches of three columns, whose labels are inverted at step ``flip``."""
    rng = np.random.default_rng(seed)
    batches = []
    for step in range(steps):
        X = rng.normal(size=(m, 3))
        y = np.where((X[:, 0] - X[:, 1] > 0) == (step < flip), 1, -1)
        batches.append((X, y))
    return batches


EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a weight scales the gradient of a row, not how often it is drawn: STRSAGA with a weight of 2 and with "
        "the row twice take different steps to the same optimum"
    ),
    "check_sample_weight_equivalence_on_sparse_data": "as on dense data",
}
