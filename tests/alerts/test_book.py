"""The book tells of the beginning and the end of each condition once, whatever happens in between."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace

from drifting import BEGAN, GREW, OVER
from hypothesis import given
from hypothesis import strategies as st

from driftsurf.core.drifts import Drift
from driftsurf.runs.alerts import AlertBook, AlertOptions, Reading
from driftsurf.runs.alerts.rules import Change

OPTIONS = AlertOptions(hold=10.0, lag_rows=5, transitions=True)


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


def test_transitions_are_not_told_by_default() -> None:
    book = AlertBook(AlertOptions())
    book.update(_reading(0.0))
    assert book.update(_reading(1.0, lines=(5,))) == []


def _drifting(time: float, *drifts: Drift, line: int) -> Reading:
    changes = [Change(line + k, one.describe(), one) for k, one in enumerate(drifts)]
    return Reading(model="sales", time=time, changes=changes)


def test_a_drift_is_told_when_it_begins_and_when_it_is_over() -> None:
    book = AlertBook(AlertOptions(address="https://models.example.org/"))
    book.update(_reading(0.0))
    (began,) = book.update(_drifting(5.0, BEGAN, line=1))
    assert (began.kind, began.rule, began.value, began.limit) == ("firing", "drift", 0.3, 0.07)
    assert "'price' and 'distance' no longer predict the label as before" in began.headline
    assert (began.link, began.drift) == ("https://models.example.org/#sales", {"news": "began", **BEGAN.to_dict()})
    assert book.update(_drifting(10.0, GREW, line=2)) == []
    assert [notice.drift for notice in book.active()] == [{"news": "began", **GREW.to_dict()}]
    book = AlertBook(book.options, json.loads(json.dumps(book.state(), allow_nan=False)))  # a restart
    (over,) = book.update(_drifting(15.0, OVER, line=3))
    assert (over.kind, over.since, over.until) == ("resolved", 5.0, 15.0)
    assert "was back at 9 % after 800 rows" in over.headline
    assert (book.active(), book.update(_drifting(20.0, replace(OVER, mark="false"), line=4))) == ([], [])
    later = replace(BEGAN, number=1, row=5000)
    both = book.update(_drifting(25.0, later, replace(OVER, number=1), line=5))  # within one reading
    assert [notice.kind for notice in both] == ["firing", "resolved"]
    assert len({notice.id for notice in (began, over, *both)}) == 4


def test_only_a_drift_that_goes_on_is_told_at_the_first_reading() -> None:
    history = [BEGAN, OVER, replace(BEGAN, number=1), replace(GREW, number=1)]
    (told,) = AlertBook(AlertOptions()).update(_drifting(0.0, *history, line=1))
    assert (told.kind, told.subject, told.link) == ("firing", "drift 1", "")
    assert AlertBook(AlertOptions()).update(_drifting(0.0, BEGAN, OVER, line=1)) == []


def test_drifts_can_be_left_out() -> None:
    book = AlertBook(AlertOptions(drifts=False))
    book.update(_reading(0.0))
    assert (book.update(_drifting(1.0, BEGAN, line=1)), book.active()) == ([], [])


def test_an_alert_of_a_rule_that_is_gone_ends() -> None:
    condition = {"rule": "error-above-usual", "severity": "warning", "summary": "", "value": 0.3, "limit": 0.2}
    entry = {"condition": condition, "since": 0.0, "seen": 0.0, "told": True}
    book = AlertBook(OPTIONS, {"entries": [["sales", "error-above-usual", "", entry]], "lines": {}})
    assert [notice.kind for notice in book.update(_reading(60.0))] == ["resolved"]


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
