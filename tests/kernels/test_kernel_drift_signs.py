"""The scan of losses for signs of drift, compiled and as plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from driftsurf.kernels import drift_signs as scan
from driftsurf.session.drift_monitor import DriftMonitor

pytestmark = pytest.mark.python_kernels


@pytest.mark.parametrize("mode", [scan.MARGINS, scan.NUMBERS, scan.LOSSES])
def test_a_sign_is_seen_soon_after_the_losses_rise_and_not_before(mode: int) -> None:
    draw, values, losses = np.random.default_rng(mode), DriftMonitor(regression=False)._scan.copy(), np.empty(37)
    values[scan.SCALE] = 4.0
    found = list[int]()
    for batch in range(43):
        risen = batch >= 40
        if mode == scan.MARGINS:
            targets = (draw.random(37) < 0.5).astype(float)
            scores = (2 * targets - 1) * np.where(draw.random(37) < (0.5 if risen else 0.1), -1, 1)
            expected = (scores > 0) != (targets > 0.5)
        elif mode == scan.NUMBERS:
            targets = draw.normal(size=37)
            scores = targets + draw.normal(size=37) * (3 if risen else 1)
            expected = np.minimum(np.abs(scores - targets) / values[scan.SCALE], 1.0)
        else:
            targets, scores = np.zeros(37), draw.random(37) ** (1 if risen else 3)
            expected = scores
        scan.row_losses(scores, targets, values, losses, mode)
        np.testing.assert_array_equal(losses, expected)
        found.append(int(scan.scan_losses(scores, targets, values, mode, 0, 500.0, 100_000.0, 2_000.0)))
    assert max(found[:40]) == -1
    assert max(found[40:]) >= 0
