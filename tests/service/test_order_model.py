"""Exhaustive search over a small model of orders that need earlier records, with crashes at every point.

A rollback needs the records with its state, an order to learn the log those before it: when it is carried out, and
again after a crash, which may also damage the newest checkpoint. ``Rules`` are the decisions of the design: each is
needed, and with all of them nothing is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

RECORDS, CRASHES = 5, 2


class Rules(NamedTuple):
    """Decisions of the design."""

    noted_before_logging: bool = True
    noted_when_applied: bool = True
    noted_until: str = "two checkpoints are behind it"


class State(NamedTuple):
    """The log, whose records are plain (-1) or orders that need the records from a number on, and what is known."""

    log: tuple[int, ...] = ()
    first: int = 0
    """Records below it are dropped."""
    applied: int = 0
    checkpoints: tuple[int, ...] = (0,)
    noted: frozenset[tuple[int, int]] = frozenset()
    """Pairs of an order and the first record that it needs."""
    asked: int = -1
    """The first record that an order needs which is not logged yet."""
    ready: bool = True
    crashes: int = 0


class Missing(AssertionError):
    """An order cannot be carried out."""


def running(state: State, rules: Rules) -> Iterator[State]:
    """Yield the states after one step."""
    end = len(state.log)
    if state.ready and end < RECORDS:
        if state.asked < 0:
            yield state._replace(log=(*state.log, -1))
            yield state._replace(asked=state.first)
        else:
            noted = state.noted | {(end, state.asked)} if rules.noted_before_logging else state.noted
            yield state._replace(log=(*state.log, state.asked), asked=-1, noted=noted)
    if state.applied < end:
        needed, noted = state.log[state.applied], state.noted
        if 0 <= needed < state.first:
            raise Missing(state)
        if needed >= 0 and rules.noted_when_applied:
            noted |= {(state.applied, needed)}
        yield state._replace(applied=state.applied + 1, noted=noted, ready=state.ready or state.applied + 1 == end)
    elif not state.ready:
        yield state._replace(ready=True)
    if state.applied > state.checkpoints[-1]:
        yield saved(state, rules)


def saved(state: State, rules: Rules) -> State:
    """Return the state after a checkpoint, and after records that nothing needs are dropped."""
    checkpoints = (state.checkpoints[-1], state.applied)
    if not state.ready or state.asked >= 0:  # while the log is applied again, or an order is being logged
        return state._replace(checkpoints=checkpoints)
    behind = checkpoints[0] if rules.noted_until.startswith("two") else checkpoints[1]
    noted = frozenset(one for one in state.noted if one[0] >= behind)
    first = max(state.first, min([checkpoints[0], *(first for _, first in noted)]))
    return state._replace(checkpoints=checkpoints, noted=noted, first=first)


def crashed(state: State) -> Iterator[State]:
    """Yield the states after a crash: the newest checkpoint is found, or is damaged."""
    if state.crashes < CRASHES:
        down = state._replace(noted=frozenset(), asked=-1, crashes=state.crashes + 1)
        for place in range(1, len(state.checkpoints) + 1):
            left = state.checkpoints[:place]
            yield down._replace(applied=left[-1], checkpoints=left, ready=left[-1] == len(state.log))


def search(rules: Rules) -> int:
    """Visit every state that can be reached, and return their number; Missing if an order lacks what it needs."""
    begin = State()
    seen, stack = {begin}, [begin]
    while stack:
        state = stack.pop()
        for after in (*running(state, rules), *crashed(state)):
            if after not in seen:
                seen.add(after)
                stack.append(after)
    return len(seen)


def test_every_order_finds_what_it_needs_in_any_reachable_state() -> None:
    assert search(Rules()) > 1_000


@pytest.mark.parametrize(
    ("rule", "otherwise"),
    [
        ("noted_before_logging", False),
        ("noted_when_applied", False),
        ("noted_until", "one checkpoint is behind it"),
    ],
)
def test_every_rule_is_needed(rule: str, otherwise: object) -> None:
    with pytest.raises(Missing):
        search(Rules()._replace(**{rule: otherwise}))  # type: ignore[arg-type]
