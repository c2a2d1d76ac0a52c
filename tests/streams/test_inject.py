"""Injected drift changes exactly the rows that it names."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from stream_rows import X_SMALL, Y_SMALL, equal

from driftsurf.errors import CapabilityError, OptionError
from driftsurf.streams import (
    SEA,
    ArrayStream,
    Drift,
    Friedman,
    Hyperplane,
    Stream,
    base,
    change_prior,
    mix,
    rotate,
    shift_features,
    swap_labels,
)


def test_targets_of_regression_are_not_swapped_thinned_or_mixed_with_classes() -> None:
    stream = Friedman(n_rows=1_000)
    with pytest.raises(CapabilityError, match=r"swap_labels.*'Friedman-abrupt'.*rotate, shift_features or mix"):
        swap_labels(stream, 10)
    with pytest.raises(CapabilityError, match=r"change_prior.*'Friedman-abrupt'"):
        change_prior(stream, 10)
    with pytest.raises(OptionError, match=r"Friedman-abrupt.*Hyper-slow"):
        mix(stream, Hyperplane(n_rows=1_000), position=100, width=10)


def changed_rows(before: Stream, after: Stream) -> list[int]:
    X, y = before.arrays()
    new_X, new_y = after.arrays()
    return np.flatnonzero((new_X != X).any(axis=1) | (y != new_y)).tolist()


@pytest.mark.parametrize("make", [swap_labels, rotate, shift_features])
@pytest.mark.parametrize("block", [7, 65_536])
def test_only_the_rows_of_the_interval_change(
    make: Callable[..., Stream], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ArrayStream(X_SMALL, Y_SMALL, drifts=(Drift(50, 50),))
    monkeypatch.setattr(base, "BLOCK_ROWS", block)
    assert changed_rows(source, make(source, 20, 40)) == list(range(20, 40))
    assert make(source, 20, 40).drifts == (Drift(20, 20), Drift(40, 40), Drift(50, 50))
    assert changed_rows(source, make(source, 60)) == list(range(60, 100))
    assert make(source, 60).drifts == (Drift(50, 50), Drift(60, 60))
    assert make(source, 0, 10).drifts == (Drift(10, 10), Drift(50, 50))
    assert np.array_equal(source.X, X_SMALL)  # the source itself is untouched


def test_swapping_labels_twice_changes_nothing() -> None:
    source = SEA(n_rows=500)
    assert changed_rows(source, swap_labels(swap_labels(source, 100), 100)) == []


def test_rotate_keeps_lengths_and_other_columns() -> None:
    X, y = rotate((X_SMALL, Y_SMALL), 0, columns=(2, 0), angle=1.0).arrays()
    assert np.array_equal(X[:, 1], X_SMALL[:, 1])
    assert np.array_equal(y, Y_SMALL)
    assert np.allclose(np.hypot(X[:, 0], X[:, 2]), np.hypot(X_SMALL[:, 0], X_SMALL[:, 2]))
    assert np.allclose(X[:, 2], math.cos(1) * X_SMALL[:, 2] - math.sin(1) * X_SMALL[:, 0])


def test_shift_features() -> None:
    X, _ = shift_features((X_SMALL, Y_SMALL), 10, 20, columns=[1], by=-2.5).arrays()
    expected = X_SMALL.copy()
    expected[10:20, 1] -= 2.5
    assert np.array_equal(X, expected)


@pytest.mark.parametrize("positive", [0.0, 0.1, 1 / 3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("block", [7, 65_536])
def test_change_prior_keeps_real_rows_in_order(positive: float, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BLOCK_ROWS", block)
    source = ArrayStream(X_SMALL, Y_SMALL, drifts=(Drift(5, 5), Drift(90, 95)))
    stream = change_prior(source, 10, 80, positive=positive)
    X, y = stream.arrays()
    kept = (X[:, 0] / 3).astype(int)
    assert (np.diff(kept) > 0).all()
    assert np.array_equal(X, X_SMALL[kept])
    assert np.array_equal(y, Y_SMALL[kept])
    inside = (kept >= 10) & (kept < 80)
    assert np.count_nonzero(~inside) == 30
    assert np.mean(y[inside] == 1) == pytest.approx(positive, abs=0.02)
    dropped = 100 - len(y)
    ends = {Drift(10, 10), Drift(80 - dropped, 80 - dropped)}
    assert set(stream.drifts) == {Drift(5, 5), Drift(90 - dropped, 95 - dropped), *ends}


def test_change_prior_depends_on_its_seed() -> None:
    source = SEA(n_rows=1_000)
    first, second = (change_prior(source, 0, positive=0.2, seed=seed) for seed in (0, 1))
    assert len(first) == len(second)
    assert not np.array_equal(first.arrays()[0], second.arrays()[0])


@pytest.mark.parametrize("block", [7, 65_536])
def test_mix_takes_only_the_rows_that_it_shows(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BLOCK_ROWS", block)
    first = ArrayStream(np.arange(300.0)[:, None], [-1] * 300, drifts=(Drift(10, 10), Drift(250, 260)))
    second = ArrayStream(np.arange(200.0)[:, None], [1] * 200, drifts=(Drift(150, 160), Drift(0, 200)))
    stream = mix(first, second, position=100, width=20, seed=4)
    X, y = stream.arrays()
    for label, n in ((-1, first.n_rows), (1, second.n_rows)):
        shown = X[y == label, 0]
        assert np.array_equal(shown, np.arange(len(shown)))
        assert len(shown) <= n
    assert np.count_nonzero(y == 1) == 200  # it ends because the second stream does
    assert np.mean(y[:70] == 1) < 0.05
    assert np.mean(y[130:] == 1) > 0.95
    places = {int(row): place for place, row in enumerate(X[:, 0]) if y[place] == 1}
    assert stream.drifts == (
        Drift(10, 10),
        Drift(places[0], stream.n_rows),
        Drift(90, 110),
        Drift(places[150], places[160]),
    )


def test_mix_ends_when_a_stream_has_no_rows_left() -> None:
    stream = mix((X_SMALL, Y_SMALL), SEA(n_rows=1_000), position=500, width=1)
    assert equal(stream.arrays(), (X_SMALL, Y_SMALL))
    assert stream.drifts == ()


def test_mix_at_width_one_is_abrupt() -> None:
    stream = mix(SEA(n_rows=100), Hyperplane(n_features=3, n_rows=100), position=50, width=1)
    assert Drift(50, 50) in stream.drifts


def test_a_mixture_of_two_concepts_follows_the_sigmoid_of_moa() -> None:
    zeros, ones = ([[0.0]] * 20_000, [-1] * 20_000), ([[1.0]] * 20_000, [1] * 20_000)
    X, _ = mix(zeros, ones, position=10_000, width=4_000).arrays()
    t = np.arange(1, 20_001)
    expected = 1 / (1 + np.exp(-4.0 * (t - 10_000) / 4_000))
    difference = X[:20_000, 0] - expected
    assert np.abs(difference.reshape(20, -1).mean(axis=1)).max() < 0.05
