"""SEA and Hyperplane equal the generators of MOA, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_rows import Golden, equal, moa_bytes, twin

from driftsurf.native.streams import hyperplane
from driftsurf.streams import SEA, Drift, Hyperplane, base

GOLDEN = [
    Golden(SEA(), "a860fe114983e6c8", "91729a962fa1a96b"),
    Golden(SEA(noise=0.1), "a860fe114983e6c8", "977513c013a9440e"),
    Golden(SEA(noise=0.2), "a860fe114983e6c8", "a3ab54b0edc27f11"),
    Golden(SEA(noise=0.3), "a860fe114983e6c8", "cfb0009fa18c1d03"),
    Golden(SEA(noise=0.1, gradual=True), "337ba67b9aa08f7e", "90db0834132df9f8"),
    Golden(Hyperplane(magnitude=0.001), "c9647d989735b2de", "b7250f55f305f63b"),
    Golden(Hyperplane(magnitude=0.1), "c9647d989735b2de", "951498ce83ea7f3e"),
]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case.stream.name)
def test_all_rows_equal_those_of_moa(case: Golden) -> None:
    assert moa_bytes(case.stream) == (case.X, case.y)


def test_the_first_row_of_sea() -> None:
    x, y = next(iter(SEA()))
    assert x.tolist() == [7.308781907032909, 4.100808114922017, 2.077148413097171]
    assert y == -1


@given(noise=st.integers(0, 100), gradual=st.booleans(), seed=st.integers(0, 2**63), n_rows=st.integers(1, 300))
@settings(max_examples=30, deadline=None)
def test_sea_equals_its_twin(noise: int, gradual: bool, seed: int, n_rows: int) -> None:
    stream = SEA(noise=noise / 100, gradual=gradual, seed=seed, n_rows=n_rows)
    assert equal(stream.arrays(), twin(reference.sea(noise, gradual, seed, n_rows), n_rows))


@given(
    magnitude=st.sampled_from([0.0, 0.001, 0.1, 3.0]),
    noise=st.integers(0, 100),
    n_features=st.integers(1, 12),
    reversal=st.integers(0, 100),
    seed=st.integers(0, 2**63),
)
@settings(max_examples=30, deadline=None)
def test_hyperplane_equals_its_twin(magnitude: float, noise: int, n_features: int, reversal: int, seed: int) -> None:
    stream = Hyperplane(magnitude, noise / 100, n_features, reversal / 100, seed, n_rows=300)
    rows = reference.hyperplane(magnitude, noise, n_features, reversal, seed)
    assert equal(stream.arrays(), twin(rows, 300))


@pytest.mark.parametrize("seed", [0, 1, 2, 12345])
def test_twins_on_the_streams_of_the_paper(seed: int) -> None:
    assert equal(SEA(seed=seed, n_rows=400).arrays(), twin(reference.sea(0, False, seed, 400), 400))
    slow = reference.hyperplane(0.001, 5, 10, 10, seed)
    assert equal(Hyperplane(seed=seed, n_rows=400).arrays(), twin(slow, 400))


def test_a_draw_of_a_percentage_is_repeated_where_it_would_be_biased() -> None:
    """The last 48 of the 2**31 words of nextInt(100) are rejected: rare, so lead the generator to one."""
    rejected = (2**31 - 1) << 17  # a state whose top 31 bits are the last word
    start = rejected
    for _ in range(3):  # a row of one value takes two words, the third one decides about the noise
        start = (start - 0xB) * pow(0x5DEECE66D, -1, 2**48) % 2**48
    random = reference.JavaRandom(0)
    random.state = start
    x = random.next_double()
    percentage = 1 + random.next_int(100)
    assert (random.state - 0xB) * pow(0x5DEECE66D, -1, 2**48) % 2**48 == rejected
    random.next_int(100)  # for the direction of the weight
    for noise, flipped in ((percentage - 1, False), (percentage, True)):
        state = np.array([start], dtype=np.int64)
        X, y = np.empty((1, 1)), np.empty(1, dtype=np.int64)
        hyperplane(X, y, state, np.ones(1), np.ones(1), 0.0, noise, 0)
        assert (X[0, 0], state[0]) == (x, random.state)
        assert (y[0] == 1) == ((x < 0.5) != flipped)


def test_the_size_of_blocks_does_not_change_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [SEA(noise=0.1, n_rows=1_000), SEA(gradual=True, n_rows=1_000), Hyperplane(n_rows=1_000)]
    whole = [stream.arrays() for stream in streams]
    monkeypatch.setattr(base, "BLOCK_ROWS", 77)
    for stream, rows in zip(streams, whole, strict=True):
        assert max(len(y) for _, y in stream.blocks()) == 77
        assert equal(stream.arrays(), rows)


def test_noise_flips_labels_and_leaves_rows() -> None:
    clean, noisy = SEA(n_rows=20_000), SEA(noise=0.2, n_rows=20_000)
    assert np.array_equal(clean.arrays()[0], noisy.arrays()[0])
    assert np.mean(clean.arrays()[1] != noisy.arrays()[1]) == pytest.approx(0.2, abs=0.01)
    all_flipped = SEA(noise=1.0, n_rows=1_000).arrays()[1]
    assert np.array_equal(all_flipped, -SEA(n_rows=1_000).arrays()[1])


def test_positions_scale_with_the_length() -> None:
    X, y = SEA(n_rows=2_000).arrays()
    for quarter, theta in enumerate((7, 9, 9.5, 8)):
        rows = slice(quarter * 500 + 10, quarter * 500 + 490)
        assert np.array_equal(np.where(X[rows, 0] + X[rows, 1] <= theta, 1, -1), y[rows])
    assert SEA(n_rows=2_000).drifts == (Drift(500, 500), Drift(1_000, 1_000), Drift(1_500, 1_500))
    assert SEA(gradual=True, n_rows=2_000).drifts == (Drift(800, 1_200),)
