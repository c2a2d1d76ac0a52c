"""Range guard: weights of ordinary and extreme rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from driftsurf.errors import OptionError, StateError
from driftsurf.native.guard import MEMORY, RangeGuard
from driftsurf.session.guard import guard_from_state, guard_state, new_guard

RNG = np.random.default_rng(0)


def weigh(guard: RangeGuard, rows: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], RangeGuard]:
    _, weights, after = guard.admit(rows)
    return np.ones(len(rows)) if weights is None else weights, after


def test_ordinary_rows_have_weight_one() -> None:
    weights, guard = weigh(RangeGuard(), RNG.normal(size=(5000, 3)))
    assert (weights == 1.0).all()
    assert guard.admit(RNG.normal(size=(5, 3)))[1] is None
    assert len(guard.recent) == MEMORY


@pytest.mark.parametrize("value", [1e6, 1e150, 1e200, 1e300])
def test_an_extreme_row_has_almost_no_weight(value: float) -> None:
    rows = np.ones((50, 3))
    rows[10, 1] = value
    weights, _ = weigh(RangeGuard(), rows)
    assert weights[10] == pytest.approx(12 / value**2 if value < 1e150 else 0.0, rel=0.2, abs=1e-290)
    assert np.delete(weights, 10).tolist() == [1.0] * 49


def test_a_single_row_is_weighed_by_the_rows_before_it() -> None:
    guard = RangeGuard()
    for _ in range(30):
        weights, guard = weigh(guard, np.ones((1, 2)))
        assert weights.tolist() == [1.0]
    weights, guard = weigh(guard, np.full((1, 2), 1e6))
    assert weights[0] < 1e-10


def test_a_lasting_change_of_scale_is_followed() -> None:
    guard = RangeGuard()
    _, guard = weigh(guard, np.ones((5000, 2)))
    weights = np.concatenate([part for part, guard in _weighed(guard, 30)])
    assert weights[0] < 1e-3
    assert (weights[200:] == 1.0).all()


def _weighed(guard: RangeGuard, batches: int) -> list[tuple[Any, RangeGuard]]:
    parts = []
    for _ in range(batches):
        weights, guard = weigh(guard, np.full((10, 2), 1000.0))
        parts.append((weights, guard))
    return parts


def test_zero_rows_do_not_affect_the_usual_norm() -> None:
    rows = np.zeros((100, 2))
    rows[0] = 5.0
    weights, guard = weigh(RangeGuard(), rows)
    assert (weights == 1.0).all()
    weights, _ = weigh(guard, np.zeros((4, 2)))
    assert (weights == 1.0).all()


def test_a_first_row_that_overflows_has_no_weight() -> None:
    weights, guard = weigh(RangeGuard(), np.full((1, 2), 1e300))
    assert weights.tolist() == [0.0]
    assert math.isinf(guard.recent[0])


def test_the_guard_saves_and_loads() -> None:
    _, _, guard = RangeGuard(3.0).admit(np.ones((10, 2)))
    again = guard_from_state(guard_state(guard), 2)
    assert again.factor == 3.0
    assert np.array_equal(again.recent, guard.recent)


def test_sizes_of_columns_before_the_first_step_are_refused() -> None:
    state = guard_state(new_guard(2.0))
    assert guard_from_state(state, None).total is None
    for name in ("total", "mass", "excess"):
        with pytest.raises(StateError):
            guard_from_state(state | {name: np.zeros(3)}, None)


def test_a_factor_whose_square_overflows_is_refused() -> None:
    with pytest.raises(OptionError, match="1e\\+200"):
        new_guard(1e200)
    with pytest.raises(StateError) as error:
        guard_from_state({"factor": 1e200, "recent": np.zeros(0)}, None)
    assert error.value.entry == "factor"
