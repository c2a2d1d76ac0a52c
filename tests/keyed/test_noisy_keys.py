"""Default models of keys with noisy labels: they are not replaced without a drift, and flipped labels are found."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.noise import SIZE, WITHIN, key, learn, strategies


@pytest.mark.parametrize("noise", [0.1, 0.25, 0.4])
def test_noise_does_not_replace_models(noise: float) -> None:
    """At most one switch in 5,000 rows, and an error within 2 % of that of the same learner never reset."""
    ratios = []
    for width in (3, 8):
        templates = strategies(width)
        for seed in range(4):
            rows = key(width, noise, seed)
            never, _ = learn(templates["never replaced"], *rows, seed)
            error, changes = learn(templates["now"], *rows, seed)
            assert sum(kind == "switched" for kind, _ in changes) <= 1
            ratios.append(error / never)
    assert np.mean(ratios) <= 1.02


@pytest.mark.parametrize("noise", [0.1, 0.2])
def test_flipped_labels_are_found(noise: float) -> None:
    for width in (3, 8):
        for seed in (1, 2):
            flip = SIZE * (60 + seed)
            _, changes = learn(strategies(width)["now"], *key(width, noise, seed, flip), seed)
            first = min(step for kind, step in changes if kind == "switched" and step * SIZE >= flip)
            assert first - flip // SIZE + 1 <= WITHIN
