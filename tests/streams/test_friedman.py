"""Friedman's regression stream: equal to its readable twin, with the documented drifts."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_rows import equal

from driftsurf.errors import OptionError
from driftsurf.streams import Friedman, base
from driftsurf.streams.friedman import KINDS


@given(
    drift=st.sampled_from(["abrupt", "gradual", "local"]),
    noise=st.sampled_from([0.0, 1.0, 7.5]),
    seed=st.integers(0, 2**63),
    n_rows=st.integers(1, 200),
)
@settings(max_examples=40, deadline=None)
def test_friedman_equals_its_twin(drift: Any, noise: float, seed: int, n_rows: int) -> None:
    X, y = Friedman(drift, noise, seed, n_rows).arrays()
    rows, values = zip(*reference.friedman(drift, noise, seed, n_rows), strict=True)
    assert np.array_equal(X, rows)
    assert y == pytest.approx(np.array(values), rel=1e-12, abs=1e-12)


def test_kinds_of_friedman_have_no_row_in_common() -> None:
    rows = [Friedman(kind, n_rows=1_000).arrays() for kind in KINDS]
    for (X, y), (other_X, other_y) in combinations(rows, 2):
        assert not (other_X == X).any()
        assert not (y == other_y).any()


def test_the_size_of_blocks_does_not_change_friedman(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [Friedman(kind, n_rows=1_000) for kind in KINDS]
    whole = [stream.arrays() for stream in streams]
    monkeypatch.setattr(base, "BLOCK_ROWS", 77)
    assert all(equal(stream.arrays(), rows) for stream, rows in zip(streams, whole, strict=True))


def test_the_abrupt_drift_of_friedman_goes_to_another_concept_and_back() -> None:
    X, y = Friedman(noise=0.0, n_rows=4_000).arrays()
    first, second = np.arange(5), np.array([3, 4, 1, 0, 2])
    for rows, columns in ((slice(0, 2_000), first), (slice(2_000, 3_000), second), (slice(3_000, None), first)):
        a, b, c, d, e = X[rows][:, columns].T
        assert y[rows] == pytest.approx(10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e)


def test_the_local_drift_of_friedman_grows() -> None:
    X, y = Friedman("local", noise=0.0, n_rows=40_000).arrays()
    a, b, c, d, e = X[:, :5].T
    changed = ~np.isclose(y, 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e)
    shares = changed.reshape(4, -1).mean(axis=1)
    assert shares[0] == 0.0
    assert shares[1:] == pytest.approx([2 * 0.3**4, 2 * 0.3**3, 2 * 0.3**2], rel=0.3)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"drift": "sudden"}, "drift.*'sudden'.*'abrupt', 'gradual', 'local'"),
        ({"noise": -1.0}, "noise.*-1.0"),
        ({"n_rows": 0}, "n_rows.*0"),
        ({"seed": -1}, "seed.*-1"),
    ],
)
def test_friedman_refuses_bad_arguments_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        Friedman(**options)
