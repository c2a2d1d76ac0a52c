"""The benchmarks run: those that reach into the package or into the tests, with small shapes."""

from __future__ import annotations

import pytest
from benchmarks import step, trial
from benchmarks.harness import hold


def test_the_twins_of_a_trial_make_the_same_errors() -> None:
    (contest,) = trial.contests(True, lambda note: None)
    sessions, ours, twins = hold(contest, 1).scores
    assert sessions.remark == ours.remark == twins.remark


def test_the_kernels_of_a_run_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "ROWS", 20_000)
    calls, gradients = step._recorded(step._batches(1_000), 500)
    assert {"saga_dense", "schedule", "weighted_sum"} <= {kernel.__name__ for kernel, _ in calls}
    assert gradients > 1.0
    result = hold(next(step.contests(True, lambda note: None)), 1)
    assert [score.units for score in result.scores] == [1_000] * 3
