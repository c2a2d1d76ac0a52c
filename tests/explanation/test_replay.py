"""Replays of recorded decisions with other thresholds."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from noisy_decisions import STEPS, decisions_of, differs, entered

from driftsurf import DriftSurfRegressor, explain
from driftsurf.core.decisions import Decision
from driftsurf.errors import InputError, OptionError
from driftsurf.runs.explanation.replay import Replay, replay, same_decisions


@pytest.mark.parametrize("variant", ["algorithm-1", "authors"])
@pytest.mark.parametrize("budget", ["each", "divided"])
@pytest.mark.parametrize("seed", range(4))
def test_a_replay_agrees_with_a_run_that_has_the_other_threshold(variant: Any, budget: Any, seed: int) -> None:
    options = {"variant": variant, "budget": budget, "seed": seed}
    runs = {delta: decisions_of(delta, **options) for delta in (0.03, 0.06, 0.1, 0.15, 0.3, 9.0)}
    known = 0
    for run in runs.values():
        for delta, other in runs.items():
            answer = replay(run, delta)
            until = STEPS if answer.known_until is None else answer.known_until
            begun = [*answer.entered, *([] if answer.added is None else [answer.added])]
            assert begun == [step for step in entered(other) if step <= until]
            assert all(step in entered(run) for step in answer.left_out)
            known += until
    assert known > 36 * STEPS / 8  # replays that end at once would be useless


def test_a_replay_with_the_threshold_of_the_run_finds_no_difference() -> None:
    run = decisions_of()
    answer = replay(run, 0.1)
    assert answer == Replay(0.1, None, tuple(entered(run)), (), None, None, "")


def test_only_thresholds_in_the_range_lead_to_the_same_decisions() -> None:
    run = decisions_of()
    low, high = same_decisions(run)
    assert low <= 0.1 < high
    for delta in (low, np.nextafter(high, 0.0) - 1e-12):
        assert differs(run, float(delta)) is False
    for delta in (low - 1e-6, high + 1e-6):
        assert differs(run, delta) is True
    assert same_decisions(decisions_of(9.0))[1] == math.inf


def test_a_separate_stable_threshold_is_replayed() -> None:
    run = decisions_of(0.3, seed=3, stable_threshold=0.01)
    second = next(decision for decision in run if decision.condition == 2)
    assert " 0.01" in " ".join(explain(run, step=second.step).split())
    answer = replay(run, 0.3, 9.0)
    assert second.step not in answer.entered
    other = decisions_of(0.3, seed=3, stable_threshold=9.0)
    until = STEPS if answer.known_until is None else answer.known_until
    assert list(answer.entered) == [step for step in entered(other) if step <= until]
    assert re.findall(r"[\d.]+\d|\d+", answer.describe())[:2] == ["0.3", "9"]


def regression_journal(delta: float) -> list[Decision]:
    rng = np.random.default_rng(0)
    model = DriftSurfRegressor(threshold=delta, random_state=0)
    for step in range(40):
        X = rng.normal(size=(80, 2))
        model.partial_fit(X, 1e4 + 300.0 * X[:, step // 20] + 100.0 * rng.normal(size=80))
    return list(model.journal_)


def test_relative_thresholds_are_replayed_in_the_unit_of_the_option() -> None:
    run = regression_journal(0.1)
    assert len({decision.threshold for decision in run}) > 10
    for delta in (0.02, 0.05, 0.2):
        answer = replay(run, delta)
        until = 40 if answer.known_until is None else answer.known_until
        begun = [*answer.entered, *([] if answer.added is None else [answer.added])]
        assert begun == [step for step in entered(regression_journal(delta)) if step <= until]
    low, high = same_decisions(run)
    assert f" {low:.4g} " in explain(run)
    later = same_decisions(run[5:])
    assert later[0] <= low < 0.1 < high <= later[1]  # a part of the record says the same of its own steps
    assert replay(run[5:], 0.1).known_until is None


def test_decisions_of_an_earlier_version_are_replayed_from_step_0_only() -> None:
    run = [replace(decision, risk_unit=None) for decision in regression_journal(0.1)]
    assert replay(run, 0.2) == replay(regression_journal(0.1), 0.2)
    with pytest.raises(InputError):
        replay(run[5:], 0.2)
    low, _ = same_decisions(run)
    assert f" {low:.4g} " not in explain(run[5:])


def test_a_threshold_is_named_in_the_unit_of_the_option() -> None:
    run = regression_journal(0.1)
    reaction = next(decision for decision in run if decision.condition)
    assert reaction.risk_unit is not None
    assert reaction.threshold == 0.1 * reaction.risk_unit
    text = " ".join(explain(run, step=reaction.step).split())
    named = {1: "0.10", 2: "0.05"}[reaction.condition]
    assert f"threshold, {named} times the risk unit, {reaction.risk_unit:,.0f}" in text
    assert explain(run).count("ln 2") == 1


def test_a_replay_ends_before_an_order_of_an_operator() -> None:
    answer = replay(decisions_of(9.0), 5.0, orders=[30])
    assert answer.known_until == 29
    assert "30" in answer.describe()
    assert answer.why in answer.describe()


def test_wrong_arguments_of_a_replay_are_refused() -> None:
    with pytest.raises(InputError, match="DriftSurf"):
        replay([], 0.1)
    with pytest.raises(OptionError, match=r"\bthreshold\b.*-1"):
        replay(decisions_of(), -1.0)
    with pytest.raises(OptionError, match=r"stable_threshold.*-1"):
        replay(decisions_of(), 0.1, -1.0)


def test_zero_and_infinite_thresholds_are_replayed() -> None:
    for delta in (0.0, math.inf):
        run = decisions_of(delta)
        assert differs(run, delta) is False
        low, high = same_decisions(run)
        assert low <= delta
        assert delta <= high


def test_a_long_list_of_steps_is_shortened() -> None:
    text = Replay(0.1, None, tuple(range(20)), (40,), None, None, "").describe()
    shown = re.findall(r"\d+", text.partition("0, 1")[2])
    assert shown[:11] == [*map(str, range(2, 12)), "8"]  # eight more
    assert "40" in shown
