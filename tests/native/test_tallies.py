"""Counts over scores: as numpy counts them, to the bit."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftsurf.evaluation.scores import BINS, LARGEST_LOGIT, LOGIT_BINS, ScoreRecorder, _calibration, _score_counts
from driftsurf.native.scores import mean_auc, tally_margins
from driftsurf.session.observation import Observation, probability_of_second

MARGINS = st.one_of(st.floats(-15.0, 15.0), st.sampled_from([0.0, -0.0, np.inf, -np.inf, 1e300, -10.0, 10.0]))


@settings(deadline=None)
@given(st.lists(st.tuples(MARGINS, st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_margins_are_counted_as_with_numpy(rows: list[tuple[float, int, int]]) -> None:
    margins = np.array([row[0] for row in rows])
    true, predicted = (np.array([row[k] for row in rows], np.int64) for k in (1, 2))
    pairs, scores = np.zeros((3, 3), np.int64), np.zeros((2, LOGIT_BINS), np.int64)
    hits, sums = np.zeros((2, BINS), np.int64), np.zeros(BINS)
    shares = probability_of_second(margins)
    assert tally_margins(margins, shares, true, predicted, LARGEST_LOGIT, pairs, scores, hits, sums)
    known, said = (np.where(codes < 2, codes, -1) for codes in (true, predicted))
    expected = np.zeros((3, 3), np.int64)
    np.add.at(expected, (known + 1, said + 1), 1)
    np.testing.assert_array_equal(pairs, expected)
    np.testing.assert_array_equal(scores, _score_counts(margins, known)[0])
    curve = [(k, hits[:, k].sum(), hits[1, k], sums[k]) for k in range(BINS) if hits[:, k].any()]
    # Sums are rounded to six digits, and may end on either side of a half.
    np.testing.assert_allclose(curve, _calibration(margins, known, said)["calibration"], rtol=0, atol=1e-6)


def test_a_probability_that_is_no_number_is_noticed() -> None:
    nothing = np.zeros(1, np.int64)
    outs = np.zeros((3, 3), np.int64), np.zeros((2, LOGIT_BINS), np.int64), np.zeros((2, BINS), np.int64)
    assert not tally_margins(np.zeros(1), np.full(1, np.nan), nothing, nothing, 10.0, *outs, np.zeros(BINS))
    assert sum(int(out.sum()) for out in outs) == 2  # the pair and the bin of the margin


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_the_auc_is_that_of_numpy(seed: int, classes: int) -> None:
    draw = np.random.default_rng(seed)
    counts = draw.integers(0, 5, (classes, 2, 12)) * draw.integers(0, 2, (classes, 2, 1))
    found = []
    for others, own in counts.astype(np.float64):
        below = np.cumsum(others)
        if own.sum() and below[-1]:
            found.append(float(own @ (below - others / 2)) / float(own.sum()) / float(below[-1]))
    expected = sum(found) / len(found) if found else np.nan
    np.testing.assert_equal(mean_auc(counts), expected)


def test_two_classes_are_recorded_as_other_scores_are() -> None:
    """The same margins as log-probabilities of two classes take the path for any number of classes."""
    draw = np.random.default_rng(3)
    margins, true = draw.normal(size=500) * 3.0, draw.integers(0, 2, 500)
    predicted = (margins > 0).astype(np.int64)
    logs = -np.logaddexp(0.0, np.column_stack([margins, -margins]))
    lines = []
    for scores in (margins, logs):
        recorder = ScoreRecorder(lambda: ("no", "yes"))
        line = recorder.lines(None, {"model": Observation(predicted, predicted, true, scores, ())})
        lines.append(json.loads(line))
    for name in ("labels", "confusion", "probability_of", "calibration"):
        assert lines[0][name] == lines[1][name]
    assert lines[0]["auc"] == pytest.approx(lines[1]["auc"], abs=2e-3)
