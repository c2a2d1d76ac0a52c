"""What all streams have in common: passes, batches, representations, and refused arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_rows import X_SMALL, Y_SMALL, equal, joined

from driftsurf.data import catalogue
from driftsurf.errors import LabelError, NonFiniteError, OptionError, ShapeError, ValueTypeError
from driftsurf.streams import (
    SEA,
    SINE1,
    ArrayStream,
    Circles,
    Drift,
    Friedman,
    Hyperplane,
    Mixed,
    Stream,
    base,
    change_prior,
    mix,
    rotate,
    shift_features,
    swap_labels,
)

STREAMS: dict[str, Callable[[], Stream]] = {
    **{name: entry.make for name, entry in catalogue.CATALOGUE.items() if entry.dataset is None},
    "arrays": lambda: ArrayStream(X_SMALL, Y_SMALL),
    "swap_labels": lambda: swap_labels(SEA(n_rows=1_000), 100, 900),
    "rotate": lambda: rotate(SEA(n_rows=1_000), 100),
    "shift_features": lambda: shift_features(SEA(n_rows=1_000), 0, 10),
    "change_prior": lambda: change_prior(SEA(n_rows=1_000), 500, positive=0.1),
    "mix": lambda: mix(SEA(n_rows=1_000), SEA(seed=2, n_rows=500), position=400, width=100),
    "rotated values": lambda: rotate(Friedman(n_rows=1_000), 100),
    "mixed values": lambda: mix(Friedman(n_rows=1_000), Friedman("local", n_rows=500), position=400, width=100),
}


@pytest.fixture(params=STREAMS)
def stream(request: pytest.FixtureRequest) -> Stream:
    return STREAMS[request.param]()


def test_two_passes_are_identical(stream: Stream) -> None:
    assert equal(stream.arrays(), stream.arrays())
    assert equal(stream.arrays(), joined(stream.blocks()))


def test_rows_have_the_announced_shape_and_labels(stream: Stream) -> None:
    X, y = stream.arrays()
    assert X.shape == (stream.n_rows, stream.n_features) == (len(stream), stream.n_features)
    assert np.isfinite(X).all()
    assert not stream.classes or set(np.unique(y)) == set(stream.classes)
    assert np.isfinite(y).all()
    for block_X, block_y in stream.blocks():
        assert 0 < len(block_X) == len(block_y) <= base.BLOCK_ROWS
        assert block_X.dtype == np.float64
        assert block_X.flags.c_contiguous
        assert block_y.dtype == (np.int64 if stream.classes else np.float64)
    assert stream.name
    assert all(0 <= drift.start <= drift.end <= stream.n_rows for drift in stream.drifts)
    assert list(stream.drifts) == sorted(stream.drifts)


@pytest.mark.parametrize("size", [1_000, 40_007, 10**6])
def test_batches_cut_the_same_rows(stream: Stream, size: int) -> None:
    batches = list(stream.batches(size))
    assert equal(joined(iter(batches)), stream.arrays())
    assert [len(y) for _, y in batches[:-1]] == [size] * (len(batches) - 1)
    assert all(X.flags.c_contiguous for X, _ in batches)


def test_rows_one_by_one(stream: Stream) -> None:
    X, y = stream.arrays()
    for (x, label), expected_x, expected in zip(islice(stream, 200), X, y, strict=False):
        assert np.array_equal(x, expected_x)
        assert label == expected
        assert isinstance(label, int if stream.classes else float)
    assert sum(1 for _ in stream.rows()) == len(stream)


def test_the_repr_names_the_arguments(stream: Stream) -> None:
    text = repr(stream)
    assert text.endswith(")")
    if isinstance(stream, SEA | Hyperplane | SINE1 | Mixed | Circles | Friedman):
        assert equal(eval(text).arrays(), stream.arrays())


@given(st.integers(1, 130))
def test_batches_of_every_size(size: int) -> None:
    stream = ArrayStream(X_SMALL, Y_SMALL)
    assert equal(joined(stream.batches(size)), (X_SMALL, Y_SMALL))


def test_batches_may_span_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BLOCK_ROWS", 7)
    stream = ArrayStream(X_SMALL, Y_SMALL)
    assert [len(y) for _, y in stream.batches(30)] == [30, 30, 30, 10]
    assert equal(joined(stream.batches(30)), (X_SMALL, Y_SMALL))
    assert [len(y) for _, y in stream.portions([20, 0, 60, 100])] == [20, 60, 20]


def test_drift_steps_leave_out_the_first_batch_and_the_end() -> None:
    drifts = (Drift(0, 30), Drift(9, 9), Drift(35, 35), Drift(90, 100))
    stream = ArrayStream(X_SMALL, Y_SMALL, drifts=drifts)
    assert stream.drift_steps(10) == (3, 9)
    assert stream.drift_steps(7) == (1, 4, 5, 12)
    assert stream.drift_steps(1_000) == ()


SMALL = SEA(n_rows=100)


@pytest.mark.parametrize(
    ("attempt", "named"),
    [
        (lambda: SEA(noise=-0.1), "noise.*-0.1"),
        (lambda: SEA(noise=10), "noise.*10"),
        (lambda: SEA(noise=float("nan")), "noise.*nan"),
        (lambda: SEA(noise=0.125), "noise.*0.01.*0.125"),
        (lambda: SEA(noise=True), "noise.*True"),
        (lambda: SEA(n_rows=0), "n_rows.*0"),
        (lambda: SEA(n_rows=1e5), "n_rows.*100000.0"),  # type: ignore[arg-type]
        (lambda: SEA(seed=-1), "seed.*-1"),
        (lambda: Hyperplane(magnitude=-1.0), "magnitude.*-1.0"),
        (lambda: Hyperplane(magnitude=math.inf), "magnitude.*inf"),
        (lambda: Hyperplane(n_features=0), "n_features.*0"),
        (lambda: Hyperplane(reversal=0.005), "reversal.*0.01.*0.005"),
        (lambda: SINE1(noise=2.0), "noise.*2.0"),
        (lambda: Mixed(n_rows=-5), "n_rows.*-5"),
        (lambda: Circles(seed=True), "seed.*True"),
        (lambda: SMALL.batches(0), "size.*0"),
        (lambda: SMALL.batches(2.5), "size.*2.5"),  # type: ignore[arg-type]
        (lambda: SMALL.drift_steps(0), "batch_size.*0"),
        (lambda: Drift(-1, 5), "start.*-1"),
        (lambda: Drift(5, 4), "end.*5.*4"),
        (lambda: ArrayStream(X_SMALL, Y_SMALL, drifts=[Drift(5, 101)]), "101.*100"),
        (lambda: swap_labels(SMALL, 100), "<= 100.*100.*None"),
        (lambda: swap_labels(SMALL, 50, 50), "<= 100.*50.*50"),
        (lambda: swap_labels(SMALL, 50, 101), "<= 100.*50.*101"),
        (lambda: swap_labels(SMALL, -1), "start.*-1"),
        (lambda: swap_labels([1, 2], 1), "stream.*list"),  # type: ignore[arg-type]
        (lambda: rotate(SMALL, 1, columns=(0, 3)), "column.*0.*2.*3"),
        (lambda: rotate(SMALL, 1, columns=(1, 1)), r"columns.*\(1, 1\)"),
        (lambda: rotate(SMALL, 1, angle=math.nan), "angle.*nan"),
        (lambda: shift_features(SMALL, 1, columns=[-1]), "column.*-1"),
        (lambda: shift_features(SMALL, 1, by=math.inf), "by.*inf"),
        (lambda: change_prior(SMALL, 1, positive=1.5), "positive.*1.5"),
        (lambda: change_prior(SMALL, 0, 1, positive=0.5), r"positive.*0 to 1.*\+1"),
        (lambda: change_prior(SMALL, 1, 2, positive=0.5), "positive.*1 to 2.*-1"),
        (lambda: mix(SMALL, SMALL, position=-1, width=1), "position.*-1"),
        (lambda: mix(SMALL, SMALL, position=1, width=0), "width.*0"),
        (lambda: mix(SMALL, SINE1(), position=1, width=1), "3 and 2"),
    ],
)
def test_bad_arguments_are_refused_by_name(attempt: Callable[[], object], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        attempt()


@pytest.mark.parametrize(
    ("X", "y", "error", "named"),
    [
        ([1.0, 2.0], [1, -1], ShapeError, r"X.*\(2,\)"),
        (np.empty((0, 2)), [], ShapeError, r"X.*\(0, 2\)"),
        (np.empty((2, 0)), [1, 1], ShapeError, r"X.*\(2, 0\)"),
        ([[1.0], [2.0]], [1], ShapeError, r"y.*2.*\(1,\)"),
        ([[1.0], [math.nan]], [1, -1], NonFiniteError, "row 1 of X"),
        ([[1.0], [2.0]], [1, 0], LabelError, "-1.*1.*0.*row 1"),
        ([[1.0], [2.0]], ["a", "b"], LabelError, "'a'.*row 0"),
        ([["a"], ["b"]], [1, -1], ValueTypeError, "X"),
    ],
)
def test_bad_arrays_are_refused(X: Any, y: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        ArrayStream(X, y)


def test_views_of_arrays_cannot_be_written() -> None:
    X, _ = next(ArrayStream(X_SMALL, Y_SMALL).batches(10))
    with pytest.raises(ValueError, match="read-only"):  # numpy's own message
        X[0, 0] = 1.0


def test_labels_may_be_floats_and_rows_may_be_lists() -> None:
    X, y = ArrayStream([[1, 2], [3, 4]], [1.0, -1.0]).arrays()
    assert X.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert y.tolist() == [1, -1]
    assert repr(ArrayStream([[1]], [1])) == "ArrayStream(X=<1 x 1>, y=<1>, drifts=(), name='arrays')"
