"""Exhaustive search over a small model of log, committer, learner, checkpoint and sink, with crashes at every point.

The model has the order of the steps and nothing else; ``Rules`` are the decisions of the design. With all of them kept
no reachable state breaks a promise, and each of them is needed: without it the search finds a state that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest

APPENDS, CRASHES, FAILURES = 3, 3, 2
DIRTY, LOST, SAFE = "dirty", "lost", "safe"
"""A frame is in the memory of the system; is there, but taken for written after a failed flush; is on the device."""


class Frame(NamedTuple):
    """A record in the file; the content of a torn frame is -1."""

    content: int
    durable: int = 0


TORN = Frame(-1)


class Cell(NamedTuple):
    """A place in the file, or behind its end: then there is no frame."""

    frame: Frame | None
    flag: str = DIRTY
    ghost: Frame = TORN
    """A frame that a cut has removed here, which a power loss may bring back until the cut is flushed."""


class Rules(NamedTuple):
    """Decisions of the design."""

    end_of_flush: str = "its beginning"
    """Records are durable after a flush that were there at its beginning, not those that came meanwhile."""
    acknowledged: str = "after the flush"
    checkpoint: str = "after a flush"
    sink: str = "durable records"
    opening_flushes: bool = True
    opening_writes_again: bool = True
    frames_claim: str = "what was flushed"


class State(NamedTuple):
    """Everything there is: the file, the running process, and what outlives both."""

    cells: tuple[Cell, ...] = ()
    phase: str = "down"
    """down, cut, open: opening takes two steps, the cut and the flush."""
    durable: int = 0
    flushing: int | None = None
    flushed: bool = False
    broken: bool = False
    learner: tuple[int, ...] = ()
    checkpoint: tuple[int, ...] = ()
    sink: tuple[int, ...] = ()
    promised: tuple[int, ...] = ()
    """Records of which somebody was told that they are durable."""
    written: tuple[int, ...] = ()
    """Records of which somebody was told that they survive a kill, until a power loss."""
    made: int = 0
    crashes: int = 0
    failures: int = 0

    def frames(self) -> list[Frame]:
        """Return the file as the system shows it."""
        return [cell.frame for cell in self.cells if cell.frame is not None]

    def contents(self) -> tuple[int, ...]:
        return tuple(frame.content for frame in self.frames())

    def put(self, frame: Frame) -> tuple[Cell, ...]:
        """Return the cells with one more frame in the file."""
        place = len(self.frames())
        ghost = self.cells[place].ghost if place < len(self.cells) else TORN
        return (*self.cells[:place], Cell(frame, DIRTY, ghost), *self.cells[place + 1 :])


class Broken(AssertionError):
    """A promise is broken."""


def check(state: State) -> None:
    """Raise Broken if a promise is broken."""
    if state.phase == "down":
        return
    found = state.contents()
    for told in (state.promised, state.written, state.checkpoint, state.sink, state.learner):
        if found[: len(told)] != told:
            raise Broken(told, found)
    if any(cell.flag != SAFE for cell in state.cells[: len(state.checkpoint)]):
        raise Broken("the checkpoint is ahead of what is on the device")


def running(state: State, rules: Rules) -> Iterator[State]:
    """Yield the states after one step of a running process."""
    contents = state.contents()
    count, known = len(contents), len(state.learner)
    if not state.broken and state.made < APPENDS:
        frame = Frame(state.made, state.durable if rules.frames_claim == "what was flushed" else count)
        yield state._replace(cells=state.put(frame), made=state.made + 1, written=(*contents, state.made))
    if not state.broken and state.flushing is None and state.durable < count:
        early = rules.acknowledged == "before the flush"
        yield state._replace(flushing=count, promised=contents[:count] if early else state.promised)
    if state.flushing is not None and not state.flushed:
        yield state._replace(cells=flushed(state.cells, state.flushing), flushed=True)
        if state.failures < FAILURES:
            yield state._replace(cells=lost(state.cells), broken=True, flushing=None, failures=state.failures + 1)
    if state.flushing is not None and state.flushed:
        end = state.flushing if rules.end_of_flush == "its beginning" else count
        yield state._replace(flushing=None, flushed=False, durable=end, promised=contents[:end])
    if known < count:
        yield state._replace(learner=contents[: known + 1])
    if known > len(state.checkpoint) and (known <= state.durable or rules.checkpoint == "at once"):
        yield state._replace(checkpoint=state.learner)
    if len(state.sink) < (known if rules.sink == "all records" else min(known, state.durable)):
        yield state._replace(sink=state.learner[: len(state.sink) + 1])


def flushed(cells: tuple[Cell, ...], end: int) -> tuple[Cell, ...]:
    """Return the cells after a flush: those below ``end`` are on the device, later ones may be, cuts are for good."""
    kept = [cell for cell in cells if cell.frame is not None]
    return tuple(
        Cell(cell.frame, SAFE if place < end and cell.flag != LOST else cell.flag) for place, cell in enumerate(kept)
    )


def lost(cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """Return the cells after a flush that failed."""
    return tuple(cell._replace(flag=LOST) if cell.flag == DIRTY else cell for cell in cells)


def opening(state: State, rules: Rules) -> Iterator[State]:
    """Yield the states after one step of opening the log: first the cut, then the flush."""
    frames, cells = state.frames(), state.cells
    if state.phase == "down":
        end = next((place for place, frame in enumerate(frames) if frame.content < 0), len(frames))
        if any(frame.durable > end for frame in frames[end:]):
            raise Broken("a torn tail was taken for damage")
        cut = (Cell(None, DIRTY, cell.frame or cell.ghost) for cell in cells[end:])
        yield state._replace(phase="cut", cells=(*cells[:end], *cut))
        return
    if rules.opening_writes_again:  # a frame that is on the device is overwritten with its own bytes
        cells = tuple(cell._replace(flag=DIRTY) if cell.flag == LOST else cell for cell in cells)
    if rules.opening_flushes:
        if state.failures < FAILURES:
            yield state._replace(phase="down", cells=lost(cells), failures=state.failures + 1)
        cells = flushed(cells, len(frames))
    promised = state.contents()
    yield state._replace(
        phase="open", cells=cells, durable=len(frames), promised=promised, learner=state.checkpoint, broken=False
    )


def crashes(state: State) -> Iterator[State]:
    """Yield the states after a kill, also in the middle of an append, and after all power losses."""
    if state.crashes == CRASHES:
        return
    down = state._replace(phase="down", learner=(), flushing=None, flushed=False, durable=0, crashes=state.crashes + 1)
    if state.phase != "down":
        yield down
    if state.phase == "open" and not state.broken and state.made < APPENDS:
        yield down._replace(cells=state.put(TORN), made=state.made + 1)
    choices = [{cell.frame} if cell.flag == SAFE else {cell.frame or TORN, TORN, cell.ghost} for cell in state.cells]
    for frames in product(*choices):
        yield down._replace(cells=tuple(Cell(frame, SAFE) for frame in frames), written=())


def search(rules: Rules) -> int:
    """Visit every state that can be reached, check each, and return their number."""
    begin = State()
    seen, stack = {begin}, [begin]
    while stack:
        state = stack.pop()
        check(state)
        steps = running(state, rules) if state.phase == "open" else opening(state, rules)
        for after in (*steps, *crashes(state)):
            if after not in seen:
                seen.add(after)
                stack.append(after)
    return len(seen)


def test_no_promise_is_broken_in_any_reachable_state() -> None:
    assert search(Rules()) > 10_000


@pytest.mark.parametrize(
    ("rule", "otherwise"),
    [
        ("end_of_flush", "its end"),
        ("acknowledged", "before the flush"),
        ("checkpoint", "at once"),
        ("sink", "all records"),
        ("opening_flushes", False),
        ("opening_writes_again", False),
        ("frames_claim", "that all before were flushed"),
    ],
)
def test_every_rule_is_needed(rule: str, otherwise: Any) -> None:
    with pytest.raises(Broken):
        search(Rules()._replace(**{rule: otherwise}))
