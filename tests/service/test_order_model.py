"""Exhaustive search over a small model of orders that need checkpoints or records, with crashes at every point.

A rollback needs the checkpoint that it names when it is carried out, also again after a crash; an order to learn the
log needs its records. ``Rules`` are the decisions of the design: each is needed, and with all of them nothing is
missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

RECORDS, CRASHES, KEPT = 4, 2, 2
PLAIN = -1


class Rules(NamedTuple):
    """Decisions of the design."""

    held_before_logging: bool = True
    recovery_holds_all: bool = True
    drops: str = "what no checkpoint and no order needs"


class State(NamedTuple):
    """The log, whose records are plain or orders that name a position, and what is kept."""

    log: tuple[tuple[str, int], ...] = ()
    first: int = 0
    """Records below it are dropped."""
    applied: int = 0
    checkpoints: tuple[int, ...] = (0,)
    held: frozenset[tuple[int, int]] = frozenset()
    """Pairs of a position that is needed and of the order that needs it."""
    asked: tuple[str, int] | None = None
    """An order that was checked and is not logged yet."""
    ready: bool = True
    crashes: int = 0


class Missing(AssertionError):
    """An order cannot be carried out."""


def running(state: State, rules: Rules) -> Iterator[State]:
    """Yield the states after one step."""
    end = len(state.log)
    if state.ready and end < RECORDS:
        if state.asked is None:
            yield state._replace(log=(*state.log, ("plain", PLAIN)))
            choices = [("rollback", at) for at in state.checkpoints] + [("warm", state.first)]
            for asked in choices:
                held = state.held | {(asked[1], 2**30)} if rules.held_before_logging else state.held
                yield state._replace(asked=asked, held=held)
        else:
            held = frozenset(one for one in state.held if one[1] < 2**30) | {(state.asked[1], end)}
            yield state._replace(log=(*state.log, state.asked), asked=None, held=held)
    if state.applied < end:
        kind, needed = state.log[state.applied]
        if kind == "rollback" and needed not in state.checkpoints:
            raise Missing(state)
        if kind == "warm" and needed < state.first:
            raise Missing(state)
        yield state._replace(applied=state.applied + 1, ready=state.ready or state.applied + 1 == end)
    elif not state.ready:
        yield state._replace(ready=True)
    if state.applied not in state.checkpoints and state.applied >= state.checkpoints[-1]:
        yield saved(state, rules)


def saved(state: State, rules: Rules) -> State:
    """Return the state after a checkpoint, and after what nobody needs is gone."""
    needed = {at for at, _ in state.held}
    every = [*state.checkpoints, state.applied]
    recovering = not state.ready and rules.recovery_holds_all
    kept = tuple(at for place, at in enumerate(every) if recovering or place >= len(every) - KEPT or at in needed)
    held = frozenset(one for one in state.held if one[1] >= state.applied)
    first = state.first
    if not recovering:
        limits = [kept[0]] + ([at for at, _ in held] if rules.drops.startswith("what") else [])
        first = max(first, min(limits) if rules.drops != "all before the newest checkpoint" else kept[-1])
    return state._replace(checkpoints=kept, held=held, first=first)


def crashed(state: State) -> Iterator[State]:
    """Yield the state after a crash, which finds the newest checkpoint."""
    if state.crashes < CRASHES:
        newest = state.checkpoints[-1]
        down = state._replace(held=frozenset(), asked=None, crashes=state.crashes + 1)
        yield down._replace(applied=newest, ready=newest == len(state.log))


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
        ("held_before_logging", False),
        ("recovery_holds_all", False),
        ("drops", "all before the newest checkpoint"),
    ],
)
def test_every_rule_is_needed(rule: str, otherwise: object) -> None:
    with pytest.raises(Missing):
        search(Rules()._replace(**{rule: otherwise}))  # type: ignore[arg-type]
