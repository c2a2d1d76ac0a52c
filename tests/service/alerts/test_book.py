"""The book tells of the beginning and the end of each condition once, whatever happens in between."""

from __future__ import annotations

import json
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from driftsurf.service.alerts import AlertBook, AlertOptions, Reading
from driftsurf.service.alerts.rules import Change

OPTIONS = AlertOptions(hold=10.0, lag_rows=5)


def _reading(
    time: float, *, lag: bool = False, lines: tuple[int, ...] = (), rows: int = 0, refused: int = 0
) -> Reading:
    changes = [Change(line, f"change {line}") for line in lines]
    return Reading(model="sales", time=time, lag_rows=9 if lag else 0, changes=changes, rows=rows, refused_rows=refused)


@given(st.lists(st.tuples(st.integers(1, 12), st.booleans(), st.booleans()), max_size=60))
def test_alerts_follow_the_definition_and_survive_restarts(history: list[tuple[int, bool, bool]]) -> None:
    """Compare with a plain reading of the definition; a restart after any reading changes nothing."""
    book, time, told = AlertBook(OPTIONS), 0.0, list[tuple[str, float]]()
    expected, since, last, firing = list[tuple[str, float]](), None, 0.0, False
    for pause, lag, restart in history:
        time += pause
        told += [(notice.kind, time) for notice in book.update(_reading(time, lag=lag))]
        if restart:
            book = AlertBook(OPTIONS, json.loads(json.dumps(book.state(), allow_nan=False)))
        if lag:
            since, last = time if since is None else since, time
            if not firing and time - since >= OPTIONS.hold:
                firing = True
                expected.append(("firing", time))
        elif since is not None and (not firing or time - last >= OPTIONS.hold):
            expected += [("resolved", time)] if firing else []
            since, firing = None, False
        assert len(book.active()) == firing
    assert told == expected


def test_a_transition_is_told_once_and_history_is_not() -> None:
    book = AlertBook(OPTIONS)
    assert book.update(_reading(0.0, lines=(1, 2))) == []
    assert [notice.summary for notice in book.update(_reading(1.0, lines=(2, 3)))] == ["change 3"]
    book = AlertBook(OPTIONS, book.state())
    assert [notice.summary for notice in book.update(_reading(2.0, lines=(1, 2, 3, 7)))] == ["change 7"]
    assert book.update(_reading(3.0)) == []


def test_transitions_can_be_left_out() -> None:
    book = AlertBook(AlertOptions(transitions=False))
    book.update(_reading(0.0))
    assert book.update(_reading(1.0, lines=(5,))) == []


def test_refused_rows_are_judged_when_enough_rows_have_come() -> None:
    book = AlertBook(AlertOptions(hold=0.0))
    assert book.update(_reading(0.0, rows=1000, refused=500)) == []  # counted before the first reading
    assert book.update(_reading(1.0, rows=1005, refused=505)) == []  # ten rows say nothing
    fired = book.update(_reading(2.0, rows=1010, refused=520))
    assert [(notice.rule, notice.value) for notice in fired] == [("refused-rows", 20 / 30)]
    assert book.update(_reading(3.0, rows=1012, refused=520)) == []
    ended = book.update(_reading(4.0, rows=1110, refused=520))
    assert [notice.kind for notice in ended] == ["resolved"]
    assert ended[0].summary != fired[0].summary


def test_models_do_not_end_the_alerts_of_each_other() -> None:
    book = AlertBook(AlertOptions(hold=0.0, lag_rows=5))
    kinds = defaultdict(list)
    for time in range(5):
        for model in ("sales", "churn"):
            for notice in book.update(Reading(model=model, time=float(time), lag_rows=9 * (model == "sales"))):
                kinds[notice.model].append(notice.kind)
    assert kinds == {"sales": ["firing"]}


def test_the_id_of_a_notice_stays_the_same_while_its_numbers_change() -> None:
    book = AlertBook(AlertOptions(hold=0.0, lag_rows=5))
    first = book.update(Reading(model="sales", time=1.0, lag_rows=9))[0]
    book.update(Reading(model="sales", time=2.0, lag_rows=99))
    assert book.active()[0].id == first.id
    assert book.active()[0].summary != first.summary
