"""The journal: bounded in memory, complete in its sink, as JSON lines and in words."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest

from driftsurf.core.decisions import TRANSITION_WORDS, Decision, ModelRecord, Transition
from driftsurf.core.journal import Journal, json_lines, read_lines
from driftsurf.learners import LogisticRegression
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf
from driftsurf.streams import Mixed

ENTERED = Transition("entered", 25, 1, left=0.61, right=0.38, margin=0.1)


def decision(step: int, *transitions: Transition, **changes: Any) -> Decision:
    models = (
        ModelRecord("predictive", 0, step, 0, risk_before=0.5, best_risk=0.25, gradients=20),
        ModelRecord("stable", 1, step, 0, risk_before=0.75, gradients=4),
    )
    made = Decision(step, 10 * step, 10, "stable", 0, 0, 0, models, threshold=0.1, transitions=transitions)
    return replace(made, **changes)


def parsed(text: str) -> list[dict[str, Any]]:
    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is no JSON")

    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


# ---------------------------------------------------------------------------- memory and sink


def test_memory_is_bounded_and_the_sink_receives_everything() -> None:
    sunk: list[Decision] = []
    journal = Journal(limit=5, sink=sunk.append)
    for step in range(100):
        journal.record(decision(step, replace(ENTERED, step=step), replace(ENTERED, kind="greedy", step=step)))
    assert [made.step for made in journal] == [95, 96, 97, 98, 99]
    assert len(journal) == len(journal.transitions) == 5
    assert [transition.step for transition in journal.transitions] == [97, 98, 98, 99, 99]
    assert [made.step for made in sunk] == [*range(100)]
    assert journal.steps_recorded == 100


def test_transitions_are_kept_longer_than_their_steps() -> None:
    journal = Journal(limit=3)
    journal.record(decision(25, ENTERED))
    for step in range(26, 40):
        journal.record(decision(step))
    assert journal.transitions == [ENTERED]
    assert journal.explain() == ENTERED.describe()


def test_a_journal_is_a_sequence() -> None:
    journal = Journal()
    assert len(journal) == 0
    assert (journal.explain(), journal.to_jsonl()) == ("", "")
    for step in range(3):
        journal.record(decision(step))
    assert (journal[0].step, journal[-1].step) == (0, 2)
    assert repr(journal) == "<Journal: 3 steps, 0 transitions>"
    with pytest.raises(IndexError):
        journal[3]


def test_decisions_are_read_while_others_are_recorded() -> None:
    journal = Journal()
    journal.record(decision(0))
    reader = iter(journal)
    journal.record(decision(1))
    assert [one.step for one in reader] == [0]


def test_an_error_of_the_sink_is_raised_and_the_step_is_recorded() -> None:
    def full(_: Decision) -> None:
        raise OSError("no space left")

    journal = Journal(sink=full)
    with pytest.raises(OSError, match="no space left"):
        journal.record(decision(0))
    assert journal.steps_recorded == len(journal) == 1


# ---------------------------------------------------------------------------- JSON lines


def test_each_line_is_an_object_and_transitions_follow_their_step() -> None:
    journal = Journal()
    journal.record(decision(24))
    journal.record(decision(25, ENTERED))
    lines = parsed(journal.to_jsonl())
    assert [(line["type"], line["step"]) for line in lines] == [("step", 24), ("step", 25), ("transition", 25)]
    assert lines[0]["rows_seen"] == 250
    assert lines[0]["threshold"] == 0.1
    assert [model["role"] for model in lines[0]["models"]] == ["predictive", "stable"]
    assert lines[0]["models"][1]["best_risk"] is None
    assert lines[2]["text"] == ENTERED.describe_in_journal()
    assert "transitions" not in lines[1]
    assert journal.to_jsonl() == "".join(json_lines(journal))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_become_null(value: float) -> None:
    odd = decision(
        3,
        replace(ENTERED, left=value),
        models=(ModelRecord("predictive", 0, 3, 0, risk_before=value),),
        threshold=value,
    )
    step, transition = parsed("".join(json_lines([odd])))
    assert step["threshold"] is None
    assert step["models"][0]["risk_before"] is None
    assert transition["left"] is None
    assert transition["right"] == 0.38


def test_a_decision_sums_gradients_and_rows() -> None:
    made = decision(4)
    assert made.gradients == 24
    assert made.rows_seen == 50


# ---------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("transition", "compared"),
    [
        (ENTERED, "0.61 > 0.38 + 0.10"),
        (replace(ENTERED, condition=2), "0.61 > 0.38 + 0.10"),
        (Transition("switched", 28, left=0.41, right=0.52, over=4), "0.41 < 0.52 4"),
        (Transition("kept", 28, left=0.52, right=0.41, over=4), "0.52 >= 0.41 4"),
        (Transition("greedy", 26, left=0.3, right=0.4, old=1, new=2), "0.30 < 0.40"),
        (Transition("greedy", 27, left=0.4, right=0.3, old=2, new=1), "0.40 >= 0.30"),
        (Transition("entered", 3, 1, left=0.484, right=0.381, margin=0.1), "0.484 > 0.381 + 0.100"),
        (Transition("entered", 3, 2, left=0.485, right=0.48, margin=0.004), "0.485 > 0.480 + 0.004"),
        (Transition("entered", 5, 1, left=0.0182, right=0.0085, margin=0.0014), "0.018 > 0.009 + 0.001"),
        (Transition("switched", 3, left=1e-12, right=2e-12, over=2), "1e-12 < 2e-12 2"),
        (Transition("entered", 3, 1, left=1e300, right=0.5, margin=0.1), "1e300 > 0.5 + 0.1"),
        (
            Transition("entered", 3, 1, left=48363182405.41581, right=5641231694.6420107, margin=4e9),
            "4.836e10 > 5.641e9 + 4e9",
        ),
        (Transition("entered", 3, 1, left=3.0004e-4, right=2.0001e-5, margin=1.3e-5), "0.0003 > 2e-5 + 1.3e-5"),
        (Transition("switched", 3, left=12345.678, right=12345.679, over=4), "12345.678 < 12345.679 4"),
        (Transition("reset", 30, why="97"), "97"),
        (Transition("replaced", 30, why="98"), "98"),
        (Transition("switched", 1, left=0.4101, right=0.4102, over=4), "0.4101 < 0.4102 4"),
        (Transition("kept", 1, left=0.5, right=0.5, over=4), "0.50 >= 0.50 4"),
        (Transition("kept", 1, left=math.nan, right=None, over=4), ">= 4"),
    ],
    ids=lambda value: value.kind if isinstance(value, Transition) else "",
)
def test_a_transition_is_described_with_the_numbers_that_decided_it(transition: Transition, compared: str) -> None:
    assert " ".join(re.findall(r"[<>]=?|\+|\d[\d.e-]*", transition.reason)) == compared
    text = transition.describe()
    assert "\n" not in text
    assert f" {transition.step}:" in text
    assert transition.reason in text
    assert transition.phrase in text


def test_words_of_a_transition_depend_on_its_kind_and_its_models() -> None:
    greedy = [Transition("greedy", 1, left=0.3, right=0.4, old=old, new=new) for old, new in ((1, 2), (2, 1))]
    others = [Transition(kind, 1, left=0.3, right=0.4) for kind in TRANSITION_WORDS if kind != "greedy"]
    assert len({transition.phrase for transition in greedy + others}) == len(TRANSITION_WORDS) + 1
    assert replace(ENTERED, condition=2).reason != ENTERED.reason


def test_explain_has_one_line_for_each_transition() -> None:
    journal = Journal()
    journal.record(decision(25, ENTERED))
    journal.record(decision(28, Transition("switched", 28, left=0.41, right=0.52, over=4)))
    assert journal.explain().splitlines() == [transition.describe() for transition in journal.transitions]


def test_lines_are_read_back_as_the_same_decisions() -> None:
    session = Session(DriftSurf(LogisticRegression()), classes=(-1, 1))
    for X, y in Mixed(n_rows=6_000).batches(100):
        session.observe(X, y)
    text = session.journal.to_jsonl()
    again = read_lines('{"type":"order","order":"pin"}\n' + text)
    assert "".join(json_lines(again)) == text
    assert again[5] == session.journal[5]
