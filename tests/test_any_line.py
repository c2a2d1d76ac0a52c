"""An exception at any line leaves the state before or after the call, and comes out, whatever was called."""

from __future__ import annotations

import copy
import functools

import pytest
from tests.reliability.calls import CALLS, X, Y, delayed
from tests.reliability.lines import Alarm, Injector, Interruption, broken_off, lines_of

from driftsurf.core.state import to_bytes
from driftsurf.session.late import DelayedLabels

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


@pytest.mark.parametrize("persistent", [False, True], ids=["once", "persistently"])
@pytest.mark.parametrize("name", CALLS)
def test_an_exception_at_a_line_leaves_the_state_before_or_after(name: str, persistent: bool) -> None:
    """A sample of the lines; ``python -m tests.reliability lines`` takes all of them."""
    for line, found in broken_off(name, share=25, persistent=persistent):
        assert found == "", f"line {line}"


@pytest.mark.parametrize(
    "name", ["observe", "restore", "late labels", "fleet", "visit", "visit with late labels", "epoch"]
)
def test_an_ordinary_exception_from_outside_is_not_taken_for_an_error_of_the_data(name: str) -> None:
    for line, found in broken_off(name, share=25, kind=Alarm):
        assert found == "", f"line {line}"


@pytest.mark.parametrize("persistent", [False, True], ids=["once", "persistently"])
def test_late_labels_of_several_steps_are_learned_step_by_step(persistent: bool) -> None:
    def call(one: DelayedLabels) -> None:
        one.label(range(400, 440), Y[400:440], time=401.0)

    made = delayed()
    made.predict(range(400, 440), X[400:440], time=400.0)
    whole, half = copy.deepcopy(made), copy.deepcopy(made)
    before = to_bytes(made.state())
    lines = lines_of(functools.partial(call, whole))
    left = whole.model.rows_pending
    half.label(range(400, 440 - left), Y[400 : 440 - left], time=401.0)
    assert half.model.steps == whole.model.steps == made.model.steps + 1
    assert half.model.rows_pending == 0 < left
    states = [before, to_bytes(half.state()), to_bytes(whole.state())]
    found = set()
    for line in range(1, lines + 1, max(1, lines // 40)):
        one = copy.deepcopy(made)
        assert Injector(Interruption, line, persistent=persistent).broke(functools.partial(call, one))
        found.add(states.index(to_bytes(one.state())))
    assert found >= {0, 1}


def test_the_injector_breaks_off_handlers_too_if_it_is_persistent() -> None:
    from driftsurf.core.changes import UndoStack

    seen = list[int]()

    def call() -> None:
        undo = UndoStack()
        undo.callback(seen.append, 1)
        try:
            undo.callback(seen.append, 2)
        finally:
            undo.close()

    for persistent, expected in ((False, [1]), (True, [])):
        seen.clear()
        assert Injector(Interruption, 3, persistent=persistent).broke(call)
        assert seen == expected


def test_a_lock_that_nobody_releases_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.reliability.calls.PATIENCE", 0.1)
    one = CALLS["one row"]
    session = one.make()
    assert one.looked(session) == one.look(session)
    with session.lock:
        assert one.looked(session) is None
