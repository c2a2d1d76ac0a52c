"""Losses of predictions, and the last predictions in memory."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.metrics import log_loss

from driftsurf.core.journal import MOST_CALLS, RecentPredictions, log_losses


@pytest.mark.parametrize("classes", [2, 4])
def test_log_losses_are_those_of_scikit_learn(classes: int) -> None:
    random = np.random.default_rng(0)
    shares = random.dirichlet(np.ones(classes), size=50)
    true = random.integers(classes, size=50)
    scores = np.log(shares[:, 1] / shares[:, 0]) if classes == 2 else np.log(shares)
    assert log_losses(scores, true).mean() == pytest.approx(log_loss(true, shares, labels=range(classes)))


def test_the_log_loss_of_an_impossible_class_is_finite() -> None:
    assert log_losses(np.array([[0.0, -np.inf, -np.inf]]), np.array([1])).tolist() == [-np.log(1e-15)]


@pytest.mark.parametrize("size", [1, 3, 400, 2_000])
@pytest.mark.parametrize("asked", [False, True])
def test_the_last_predictions_are_kept_and_not_copied(size: int, asked: bool) -> None:
    recent = RecentPredictions(limit=1_000)
    calls = 2 * MOST_CALLS + 100 if size < 10 else 10
    for call in range(calls):
        codes = np.full(size, call)
        recent.add(size * (call + 1), codes, codes + 1, np.full(size, 0.25 * call), probabilities=True)
        if asked and call % 7 == 0:
            recent.table()
    table = recent.table()
    stop = size * calls
    assert table["row"].tolist() == list(range(stop - 1_000, stop))
    assert (table["true"] == table["row"] // size).all()
    assert (table["predicted"] == table["true"] + 1).all()
    np.testing.assert_allclose(table["log_loss"], np.logaddexp(0.0, 0.25 * table["true"]))
    assert len(copy.deepcopy(recent).table()["row"]) == 0


def test_a_new_class_and_models_without_probabilities_fit_into_one_table() -> None:
    recent = RecentPredictions()
    one = np.array([1])
    recent.add(1, one, one, np.zeros(1), probabilities=True)
    recent.add(2, one, one, np.log([[0.5, 0.25, 0.25]]), probabilities=True)
    recent.add(3, one, one, np.zeros(1), probabilities=False)
    np.testing.assert_allclose(recent.table()["log_loss"], [np.log(2), np.log(4), np.nan])
    assert recent.table()["row"].tolist() == [0.0, 1.0, 2.0]


def test_scores_in_memory_follow_the_number_of_classes() -> None:
    recent, nothing = RecentPredictions(limit=100), np.zeros(10, int)
    for width in (1, 2, 3, 5):
        scores = np.zeros(10) if width == 1 else np.full((10, width), -np.log(width))
        recent.add(0, nothing, nothing, scores, probabilities=True)
        recent.table()
    shares = np.exp(recent.table()["scores"])
    expected = [[1 / width] * width + [0.0] * (5 - width) for width in (2, 2, 3, 5)]
    assert np.allclose(shares.reshape(4, 10, 5)[:, 0], expected)
    for _ in range(20):
        recent.add(0, nothing, nothing, np.zeros((10, 5)), probabilities=True)
    assert recent.table()["scores"].shape == (55, 5)  # as many numbers as 100 rows with one score
    recent.add(0, nothing, nothing, np.zeros((10, 30)), probabilities=True)
    recent.add(0, nothing, nothing, np.zeros(10), probabilities=True)
    assert recent.table()["scores"].shape == (75, 0)
