"""Reactions of models and of portfolios: how they are counted, and described in one line."""

from __future__ import annotations

from driftsurf.core.decisions import Transition, alike, describe_alike, merge_reactions, phrase_of

STABLE, REACTIVE = "stable", "reactive"


def merged(*steps: tuple[str, list[str]]) -> list[list[str]]:
    return list(merge_reactions(steps))


def test_the_reactions_of_one_model_stay_as_they_are() -> None:
    steps = [
        (REACTIVE, ["entered", "greedy"]),
        (REACTIVE, ["switched"]),
        (REACTIVE, ["entered"]),  # at once again
        (REACTIVE, ["kept"]),
        (STABLE, ["reset"]),
        (STABLE, ["replaced"]),
        (REACTIVE, ["entered", "kept", "entered", "switched"]),  # several time steps in one line of a trace
    ]
    assert merged(*steps) == [kinds for _, kinds in steps]


def test_reactions_of_experts_that_overlap_are_one() -> None:
    assert merged(
        (REACTIVE, ["entered"]),
        (REACTIVE, ["entered"]),
        (REACTIVE, ["switched"]),
        (REACTIVE, ["switched"]),
        (STABLE, []),
        (REACTIVE, ["entered", "entered"]),
        (REACTIVE, ["kept", "switched"]),
    ) == [["entered"], [], ["switched"], [], [], ["entered"], ["kept", "switched"]]


def test_a_reactive_state_that_was_given_up_does_not_swallow_the_next_one() -> None:
    """A reset or a rollback ends it without a winner."""
    assert merged((REACTIVE, ["entered"]), (STABLE, ["reset"]), (REACTIVE, ["entered"])) == [
        ["entered"],
        ["reset"],
        ["entered"],
    ]


def test_what_several_experts_did_is_one_line() -> None:
    entered = [Transition("entered", 5, 1, left=0.6, right=0.4, margin=0.1, expert=name) for name in "ab"]
    greedy = [Transition("greedy", 5, left=0.1, right=0.4, old=k, new=9, expert=name) for k, name in enumerate("ab")]
    alone = Transition("greedy", 5, left=0.4, right=0.1, old=9, new=1, expert="c")
    groups = alike([entered[0], greedy[0], entered[1], greedy[1], alone])
    assert [phrase_of(group) for group in groups] == [
        "2 experts began to test a new model",
        "2 experts predict with the new model",
        "the old model predicts (c)",
    ]
    line = describe_alike(groups[0])
    assert all(f"{one.expert} ({one.reason})" in line for one in entered)
    assert describe_alike(groups[2]) == alone.describe()
    plain = [Transition("entered", 5, 1, left=0.6, right=0.4), Transition("entered", 5, 1, left=0.7, right=0.4)]
    assert [len(group) for group in alike(plain)] == [1, 1]
