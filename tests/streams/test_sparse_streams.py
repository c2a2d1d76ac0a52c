"""Sparse streams have the same rows and labels as dense ones, and models make the same errors on them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array
from sklearn.linear_model import SGDClassifier

from driftsurf import prequential
from driftsurf.errors import CapabilityError, LabelError, NonFiniteError, ShapeError
from driftsurf.learners import paper_learner
from driftsurf.runs.plan_streams import driftsurf_session
from driftsurf.streams import SEA, ArrayStream, Stream, base, change_prior, mix, rotate, shift_features, swap_labels

RNG = np.random.default_rng(0)
X = RNG.random((500, 6)) * (RNG.random((500, 6)) < 0.4)
Y = np.where(X @ np.array([1.0, -1.0, 2.0, -2.0, 0.5, 0.0]) > 0, 1, -1)


def dense() -> ArrayStream:
    return ArrayStream(X, Y)


def sparse() -> ArrayStream:
    return ArrayStream(csr_array(X), Y)


def equal(left: Any, right: Any) -> bool:
    return np.array_equal(left[0].toarray(), right[0]) and np.array_equal(left[1], right[1])


PAIRS = {
    "arrays": (sparse, dense),
    "swap_labels": (lambda: swap_labels(sparse(), 100, 200), lambda: swap_labels(dense(), 100, 200)),
    "change_prior": (lambda: change_prior(sparse(), 50, positive=0.9), lambda: change_prior(dense(), 50, positive=0.9)),
    "both": (
        lambda: swap_labels(change_prior(sparse(), 50, positive=0.9), 10),
        lambda: swap_labels(change_prior(dense(), 50, positive=0.9), 10),
    ),
}


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest) -> tuple[Stream, Stream]:
    left, right = PAIRS[request.param]
    return left(), right()


@pytest.mark.parametrize("block", [64, 65_536])
def test_every_way_to_read_gives_the_rows_of_the_dense_stream(
    pair: tuple[Stream, Stream], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "BLOCK_ROWS", block)
    mine, other = pair
    assert mine.sparse
    assert not other.sparse
    assert (mine.n_rows, mine.n_features, mine.drifts) == (other.n_rows, other.n_features, other.drifts)
    assert equal(mine.arrays(), other.arrays())
    for size in (1, 7, 100, 1_000):
        for left, right in zip(mine.batches(size), other.batches(size), strict=True):
            assert isinstance(left[0], csr_array)
            assert equal(left, right)
    for (row, label), (expected, same) in islice(zip(mine, other, strict=True), 50):
        assert row.shape == (1, mine.n_features)
        assert np.array_equal(row.toarray()[0], expected)
        assert label == same


def test_other_formats_become_csr_with_sorted_columns() -> None:
    rows = coo_array(([1.0, 2.0, 3.0], ([0, 0, 1], [2, 2, 0])), shape=(2, 3))
    stream = ArrayStream(rows, [1, -1])
    assert equal(stream.arrays(), (np.array([[0, 0, 3.0], [3.0, 0, 0]]), [1, -1]))
    assert repr(stream) == "ArrayStream(X=<2 x 3>, y=<2>, drifts=(), name='arrays')"


@pytest.mark.parametrize(
    ("rows", "labels", "error"),
    [
        (csr_array([[np.nan, 1.0]]), [1], NonFiniteError),
        (csr_array(X), Y[:-1], ShapeError),
        (csr_array(X), np.zeros(500), LabelError),
        (csr_array((0, 3)), [], ShapeError),
    ],
)
def test_bad_sparse_input_is_refused(rows: Any, labels: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        ArrayStream(rows, labels)


def test_changes_of_sparse_rows_are_refused() -> None:
    attempts: list[Callable[[], Stream]] = [
        lambda: rotate(sparse(), 10),
        lambda: shift_features(sparse(), 10),
        lambda: mix(sparse(), SEA(n_rows=10), position=1, width=1),
        lambda: mix(dense(), sparse(), position=1, width=1),
    ]
    for attempt in attempts:
        with pytest.raises(CapabilityError, match="'arrays'"):
            attempt()


def test_a_model_makes_the_same_errors_on_sparse_and_dense_rows() -> None:
    learner = paper_learner(0.1, 1e-3)
    traces = [
        prequential(swap_labels(stream, 250), driftsurf_session(learner, seed=1), batch_size=50)
        for stream in (sparse(), dense())
    ]
    assert np.array_equal(traces[0].columns["errors"], traces[1].columns["errors"])
    assert traces[0].columns["error"].mean() < 0.5


def test_a_model_of_scikit_learn_learns_from_a_sparse_stream() -> None:
    trace = prequential(sparse(), SGDClassifier(random_state=0), batch_size=50)
    assert trace.columns["error"][-1] < 0.3
