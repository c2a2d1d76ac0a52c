"""The loops of the detection of drifts, compared with their twins in plain Python."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from tests.native.twins import drift_signs as plain

from driftsurf.native import monitor as scan
from driftsurf.session.drift_monitor import DriftMonitor


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


def values(scale: float = 0.0, labels: float = -1.0) -> npt.NDArray[np.float64]:
    """Return the values of a model that is judged itself."""
    made = np.zeros(scan.JUDGED)
    made[[scan.LOW, scan.HIGH, scan.RANGE]] = 1.0
    made[[scan.SPREAD, scan.SPREADS, scan.NEAR, scan.NEARS]] = 2.0
    made[scan.SCALE], made[scan.LABELS : scan.LABELS + 2] = scale, labels
    return made


@pytest.mark.parametrize("mode", [scan.MARGINS, scan.NUMBERS, scan.LOSSES])
@pytest.mark.parametrize("rare", [0.5, 0.02])
def test_scans_and_bets_equal_their_twins(mode: int, rare: float) -> None:
    # To 12 digits: the twin takes logarithms and powers of the C library.
    rng = np.random.default_rng(mode)
    native = values(4.0)
    if mode == scan.MARGINS and rare < 0.1:
        native[scan.HIGH], native[scan.RANGE], native[scan.SHIFT] = rare / (1.0 - rare), 2.0 * rare, -1.0
    twin = native.copy()
    signs = 0
    for batch in range(60):
        targets = (rng.random(90) < rare).astype(float)
        scores = rng.normal(2.0 * targets - 1.0, 0.6 if batch < 40 else 2.0)
        if mode == scan.LOSSES:
            scores = np.abs(np.clip(scores, -1.0, 1.0)) ** 3
        losses = np.empty(90)
        scan.row_losses(scores, targets, native, losses, mode)
        assert losses.tolist() == [plain.loss_of(mode, s, t, native) for s, t in zip(scores, targets, strict=True)]
        found = scan.scan_losses(scores, targets, native, mode, 0, 500.0, 5_000.0, 2_000.0)
        assert found == plain.scan_losses(scores, targets, twin, mode, 0, 500.0, 5_000.0, 2_000.0)
        np.testing.assert_allclose(native, twin, rtol=1e-12, atol=1e-12)
        signs += found >= 0
        kind = scan.NUMBERS if mode == scan.NUMBERS else scan.LOSSES
        bets, other = np.zeros(6), np.zeros(6)
        limits = float(losses.mean()), 1.2, 4.6, 0.0, 0.2, 3_000.0
        for start, looks in ((0, True), (40, False)):
            ends = (
                kernel.bet_on_losses(losses, start, kind, native, contest, looks, *limits)
                for kernel, contest in ((scan, bets), (plain, other))
            )
            assert next(ends) == next(ends)
        np.testing.assert_allclose(bets, other, rtol=1e-12, atol=1e-12)
    assert signs


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("rare", [0.4, 0.03])
def test_models_are_judged_as_by_the_twin(numbers: bool, rare: float) -> None:
    rng = np.random.default_rng(5)
    native = np.array([values() for _ in range(3)])
    twin = native.copy()
    limits = np.array([200.0, 20.0, 1_000.0, 5_000.0, 0.1, 0.2, 3_000.0])
    for batch in range(40):
        true = (rng.random(300) < rare).astype(float)
        wrong = rng.random(300) < (0.05 if batch < 25 else 0.4)
        predicted = true + rng.normal(size=300) * (1.0 + 3.0 * wrong) if numbers else np.where(wrong, 1.0 - true, true)
        parts = np.array([0, 1, 0, 2]), np.array([40, 180, 240, 300])
        for kernel, judged in ((scan, native), (plain, twin)):
            kernel.judge_models(*parts, predicted, true, judged, limits, numbers, 4.6, 0.02)
        np.testing.assert_allclose(native, twin, rtol=1e-11, atol=1e-11)
    assert (native[:, scan.PROVEN] > 0.0).any()


def test_arrays_that_do_not_fit_are_refused() -> None:
    two, three, limits = np.zeros(2), np.zeros(3), np.zeros(7)
    with pytest.raises(ValueError, match="lengths"):
        scan.row_losses(two, three, values(), three, scan.LOSSES)
    with pytest.raises(ValueError, match="lengths"):
        scan.scan_losses(two, three, values(), scan.LOSSES, 0, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="values of a scan"):
        scan.variance_of(0.1, scan.LOSSES, two)
    with pytest.raises(ValueError, match="outside"):
        scan.judge_models(np.array([1]), np.array([2]), two, two, values()[None], limits, False, 1.0, 0.0)
