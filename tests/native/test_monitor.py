"""The loops of the detection of drifts, compared with their twins in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.native.twins import drift_signs as plain

from driftsurf.core.contracts import DenseRows
from driftsurf.native import monitor as scan
from driftsurf.native.monitor import Follower, may_have_moved
from driftsurf.session.drift_evidence import DriftContest
from driftsurf.session.drift_monitor import DriftMonitor


def follower(kind: str, **given: float) -> Follower:
    """Return what follows numbers, or classes, with some values of its scan."""
    made = Follower(kind == "numbers")
    values = np.frombuffer(made.values).copy()
    for name, value in given.items():
        values[getattr(scan, name)] = value
    made.set_numbers(values=values)
    return made


def losses_of(made: Follower, scores: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    losses = np.empty(len(y))
    made.losses_into(scores, y, losses)
    return losses


@pytest.mark.parametrize("kind", ["margins", "numbers", "classes"])
def test_a_sign_is_seen_soon_after_the_losses_rise_and_not_before(kind: str) -> None:
    draw, made = np.random.default_rng(0), follower(kind, SCALE=4.0)
    found = list[int]()
    for batch in range(43):
        risen = batch >= 40
        if kind == "margins":
            targets = (draw.random(37) < 0.5).astype(float)
            scores = (2 * targets - 1) * np.where(draw.random(37) < (0.5 if risen else 0.1), -1, 1)
            expected = (scores > 0) != (targets > 0.5)
        elif kind == "numbers":
            targets = draw.normal(size=37)
            scores = targets + draw.normal(size=37) * (3 if risen else 1)
            expected = np.minimum(np.abs(scores - targets) / made.unit, 1.0)
        else:
            targets = draw.integers(0, 3, 37).astype(float)
            scores = 2.0 * (targets[:, None] == np.arange(3)) + draw.random((37, 3)) * (5 if risen else 2.3)
            expected = scores.argmax(axis=1) != targets
        losses = losses_of(made, scores, targets)
        np.testing.assert_array_equal(losses, expected)
        found.append(made.scan_losses(losses, targets))
    assert max(found[:40]) == -1
    assert max(found[40:]) >= 0


def values(scale: float = 0.0, labels: float = -1.0) -> npt.NDArray[np.float64]:
    """Return the values of a model that is judged itself."""
    made = np.zeros(scan.JUDGED)
    made[[scan.LOW, scan.HIGH, scan.RANGE]] = 1.0
    made[[scan.SPREAD, scan.SPREADS, scan.NEAR, scan.NEARS]] = 2.0
    made[scan.SCALE], made[scan.LABELS : scan.LABELS + 2] = scale, labels
    return made


@pytest.mark.parametrize("kind", ["margins", "numbers"])
@pytest.mark.parametrize("rare", [0.5, 0.02])
def test_scans_and_bets_equal_their_twins(kind: str, rare: float) -> None:
    # To 12 digits: the twin takes logarithms and powers of the C library.
    rng = np.random.default_rng(0)
    made, mode = follower(kind, SCALE=4.0), plain.NUMBERS if kind == "numbers" else plain.MARGINS
    if kind == "margins" and rare < 0.1:
        made = follower(kind, SCALE=4.0, HIGH=rare / (1.0 - rare), RANGE=2.0 * rare, SHIFT=-1.0)
    twin = np.frombuffer(made.values).copy()
    signs = 0
    for batch in range(60):
        targets = (rng.random(90) < rare).astype(float)
        scores = rng.normal(2.0 * targets - 1.0, 0.6 if batch < 40 else 2.0)
        losses = losses_of(made, scores, targets)
        unit = np.frombuffer(made.values)
        assert losses.tolist() == [plain.loss_of(mode, s, t, unit) for s, t in zip(scores, targets, strict=True)]
        found = made.scan_losses(losses, targets)
        least, half_life = (
            max(200.0, 40.0 / made.span if made.span < 1.0 else 0.0),
            5_000.0 * min(10.0, 1.0 / made.span),
        )
        assert found == plain.scan_losses(scores, targets, twin, mode, 0, least, 5_000.0, half_life)
        np.testing.assert_allclose(np.frombuffer(made.values), twin, rtol=1e-12, atol=1e-12)
        signs += found >= 0
        other, limits = np.zeros(6), (float(losses.mean()), 1.2, 4.6, 0.0, 0.2, 3_000.0)
        made.contest = DriftContest(1, 0, 0, None, 0.0, reference=limits[0], spread=1.2, before=0.0)
        made.set_numbers(capitals=other.tolist())
        for part, looks in ((losses[:50], True), (losses[40:], False)):
            stop = made.bet_on_losses(part, looks, needed=4.6, least=0.2)
            assert stop == plain.bet_on_losses(part, 0, max(mode, 1) + (mode == 0), twin, other, looks, *limits)
        np.testing.assert_allclose(made.capitals, other, rtol=1e-12, atol=1e-12)
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
        for module, judged in ((scan, native), (plain, twin)):
            module.judge_models(*parts, predicted, true, judged, limits, numbers, 4.6, 0.02)
        np.testing.assert_allclose(native, twin, rtol=1e-11, atol=1e-11)
    assert (native[:, scan.PROVEN] > 0.0).any()


def test_arrays_that_do_not_fit_are_refused() -> None:
    two, three, limits, made = np.zeros(2), np.zeros(3), np.zeros(7), Follower()
    with pytest.raises(ValueError, match="lengths"):
        made.losses_into(two, three, three)
    with pytest.raises(ValueError, match="lengths"):
        made.scan_losses(two, three)
    with pytest.raises(ValueError, match="values of a scan"):
        made.set_numbers(values=two)
    with pytest.raises(IndexError):
        made.bet(0.1, 0.09, 3)
    with pytest.raises(IndexError, match="no such rows"):
        made.moments(0, 1, two)
    with pytest.raises(ValueError, match="outside"):
        scan.judge_models(np.array([1]), np.array([2]), two, two, values()[None], limits, False, 1.0, 0.0)


def test_columns_may_have_moved_where_their_means_differ() -> None:
    before = np.tile([0.0, 5.0, 1.0, 4.0], (3, 1))  # means of two columns, and their variances
    assert not may_have_moved(before, np.array([0.2, 5.5, 1.0, 4.0]), 0.3)
    assert may_have_moved(before, np.array([0.2, 5.7, 1.0, 4.0]), 0.3)
    with pytest.raises(ValueError, match="do not fit"):
        may_have_moved(before, np.zeros(3), 0.3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_of_columns_are_those_of_numpy(dtype: Any) -> None:
    X: DenseRows = np.random.default_rng(0).normal(3.0, 2.0, size=(500, 5)).astype(dtype)
    made, found = DriftMonitor(regression=False), np.empty(10)
    made.hold(0, 0, 1, X, np.zeros(500), np.zeros(500), closed=True)
    made.moments(100, 400, found)
    part = X[100:400].astype(np.float64)
    np.testing.assert_allclose(found, [*part.mean(axis=0), *part.var(axis=0)], rtol=1e-12)
