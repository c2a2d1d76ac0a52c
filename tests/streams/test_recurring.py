"""Recurring concepts: equal to a readable twin, with the promised turns and shares."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from stream_rows import equal

from driftsurf.core.numeric import word
from driftsurf.errors import OptionError
from driftsurf.streams import Recurring, base


@pytest.mark.parametrize(("positive", "noise", "seed"), [(0.5, 0.0, 1), (0.05, 0.2, 7), (0.9, 3.0, 2**63)])
def test_rows_equal_those_of_a_twin(positive: float, noise: float, seed: int) -> None:
    stream = Recurring(4, 30, positive, noise, 6, seed, n_rows=500)
    X, y = stream.arrays()
    draws = [np.random.default_rng(word(word(seed, k), 0)) for k in range(3)]
    directions = [[draws[0].standard_normal() for _ in range(6)] for _ in range(4)]
    limit = NormalDist(sigma=math.sqrt(1 + noise**2)).inv_cdf(1 - positive)
    for t in range(500):
        x = [draws[1].standard_normal() for _ in range(6)]
        w = directions[t // 30 % 4]
        margin = sum(a * b for a, b in zip(w, x, strict=True)) / math.sqrt(sum(a * a for a in w))
        assert X[t].tolist() == x
        assert y[t] == (1 if margin + noise * draws[2].standard_normal() > limit else -1)


def test_the_size_of_blocks_does_not_change_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Recurring(n_rows=1_000, period=130)
    whole = stream.arrays()
    monkeypatch.setattr(base, "BLOCK_ROWS", 77)
    assert equal(stream.arrays(), whole)


def test_a_concept_that_returns_is_the_same() -> None:
    stream = Recurring(noise=0.0, n_rows=12_000)
    X, y = stream.arrays()
    directions = stream.directions()
    for turn in range(4):
        rows = slice(3_000 * turn, 3_000 * (turn + 1))
        wrong = [np.mean((X[rows] @ w > 0) != (y[rows] > 0)) for w in directions]
        assert wrong[turn % 3] == 0.0
        assert min(wrong[: turn % 3] + wrong[turn % 3 + 1 :]) > 0.2
    assert [drift.start for drift in stream.drifts] == [3_000, 6_000, 9_000]
    assert Recurring(concepts=1).drifts == ()


@pytest.mark.parametrize("positive", [0.01, 0.5, 0.8])
def test_every_concept_has_the_wanted_share_of_positive_rows(positive: float) -> None:
    _, y = Recurring(positive=positive, n_rows=60_000, noise=0.7).arrays()
    shares = (y.reshape(-1, 3_000) > 0).mean(axis=1)
    assert shares.mean() == pytest.approx(positive, abs=4 * math.sqrt(positive * (1 - positive) / 60_000))
    assert shares == pytest.approx(np.full(20, positive), abs=5 * math.sqrt(positive * (1 - positive) / 3_000))


@pytest.mark.parametrize(
    ("option", "value"),
    [("concepts", 0), ("period", 1.5), ("positive", 1.0), ("positive", "half"), ("noise", -1.0), ("noise", math.inf)],
)
def test_errors_for_bad_options_name_the_value(option: str, value: Any) -> None:
    with pytest.raises(OptionError, match=option) as error:
        Recurring(**{option: value})
    assert repr(value) in str(error.value)
