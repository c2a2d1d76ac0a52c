"""Where rows, decisions and orders are among the steps of a trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from driftsurf.core.decisions import Decision
from driftsurf.evaluation.trace import StepMap

FIRST, ROWS = np.array([0, 10, 40, 45]), np.array([10, 30, 5, 100])


def decision(step: int, first_row: int, rows: int) -> Decision:
    return Decision(step, first_row, rows, "stable", 0, 0, 0, models=())


@pytest.mark.parametrize(
    ("row", "place"), [(-3, 0.0), (0, 0.0), (5, 0.5), (10, 1.0), (44, 2.8), (45, 3.0), (145, 4.0), (900, 4.0)]
)
def test_a_row_is_in_the_step_that_scored_it(row: int, place: float) -> None:
    assert StepMap(FIRST, ROWS).of_row(row) == place


def test_a_decision_is_where_its_rows_are() -> None:
    steps = StepMap(FIRST, ROWS)
    assert steps.places([decision(0, 0, 10), decision(1, 10, 30), decision(2, 40, 5)]) == {0: 0.0, 1: 1.0, 2: 2.0}
    assert steps.around(decision(1, 10, 30), decision(2, 40, 5)) == (0.5, 2.5)
    assert steps.around(decision(1, 0, 40), decision(1, 0, 40)) == (-1.0, 1.0)  # it is about two steps
    assert steps.of_batch(2) == 2


def test_recorded_numbers_tell_the_step_of_a_decision_whose_rows_do_not() -> None:
    # Nothing was learned in step 1, and two time steps were completed in step 3, which scored the sixth batch.
    steps = StepMap(FIRST, ROWS, np.array([0, 0, 1, 3]), np.array([1, 0, 1, 2]), taken=np.array([1, 2, 4, 5]))
    assert steps.places([decision(k, 7 * k, 7) for k in range(4)]) == {0: 0.0, 1: 2.0, 2: 3.0, 3: 3.5}
    assert steps.around(decision(1, 7, 7), decision(1, 7, 7)) == (1.5, 2.5)
    # A run that continues another one counts its decisions from where that ended.
    later = replace(steps, last_decision=np.array([100, 100, 101, 103]))
    assert later.places([decision(100 + k, 700 + 7 * k, 7) for k in (0, 1, 3)]) == {100: 0.0, 101: 2.0, 103: 3.5}
    assert [steps.of_batch(number) for number in (0, 2, 3, 9)] == [0, 1, 2, 4]
