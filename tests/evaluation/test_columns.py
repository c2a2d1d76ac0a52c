"""Which columns changed around a reaction."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from live_runs import live_run, run_to_end
from scipy import sparse
from scipy.sparse import csr_array

import driftsurf
from driftsurf import explain
from driftsurf.errors import InputError, StateError
from driftsurf.evaluation import column_moves
from driftsurf.evaluation.column_moves import ColumnMove, ColumnMoves, name_counters, read_moves, without_counters
from driftsurf.evaluation.scoring import TraceRecorder
from driftsurf.learners import LinearRegression, LogisticRegression, SoftmaxRegression
from driftsurf.report.sections import events as section
from driftsurf.runs.batches import StreamBatches
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.live import LiveRun
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf
from driftsurf.streams import Mixed

NAMES = ["steady", "jumps", 'turns "<b>,', "noise"]


def batches(task: str, steps: int = 30, rows: int = 200) -> Iterator[tuple[Any, Any]]:
    """Yield batches; from step 15 on one column is shifted, and the sign of another one's effect is reversed."""
    rng = np.random.default_rng(0)
    for step in range(steps):
        X = rng.normal(size=(rows, 4))
        signal = X[:, 2] * (1 if step < 15 else -1) + 0.5 * X[:, 0]
        X[:, 1] += 3.0 * (step >= 15)
        if task == "values":
            y: Any = 50.0 + signal
        else:
            cuts = [0.0] if task == "two" else [-0.6, 0.6]
            y = np.array(["a", "b", "c"])[np.digitize(signal, cuts)]
        yield pd.DataFrame(X, columns=NAMES), y


def learner(task: str) -> Any:
    return {"two": LogisticRegression, "three": SoftmaxRegression, "values": LinearRegression}[task]()


def moved(task: str, change: Any = lambda X: X) -> list[ColumnMove]:
    session = Session(DriftSurf(learner(task)), classes=("a", "b") if task == "two" else None)
    writer = ColumnMoves(session)
    text = writer.head()
    for X, y in batches(task):
        X = change(X)
        text += writer.lines(X, {"model": session.observe(X, y)})
    return read_moves(text)


def test_a_first_batch_that_overflows_does_not_spoil_other_columns() -> None:
    values = iter([1.5e308])

    def huge_at_first(X: Any) -> Any:
        return X.assign(noise=next(values, X["noise"]))

    (jump,) = [move for move in moved("two", huge_at_first) if move.step == 15 and move.name == "jumps"]
    assert jump.mean_after == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize("task", ["two", "three", "values"])
def test_columns_with_the_largest_changes_come_first(task: str) -> None:
    found = [move for move in moved(task) if move.step == 15]
    assert {move.name for move in found[:2]} == {"jumps", NAMES[2]}
    by_name = {move.name: move for move in found}
    jump, turn = by_name["jumps"], by_name[NAMES[2]]
    assert jump.mean_before == pytest.approx(0.0, abs=0.1)
    assert jump.mean_after == pytest.approx(3.0, abs=0.1)
    assert jump.shift == pytest.approx(3.0 / np.sqrt(1.0 + 1.5**2), rel=0.05)
    assert abs(turn.shift) < 3.0 * turn.noise
    assert abs(turn.correlation_change) > 0.6
    assert turn.correlation_before * turn.correlation_after < 0.0
    assert jump.beyond_chance
    assert turn.beyond_chance
    assert not by_name["noise"].beyond_chance
    assert turn.label in {"two": {"b"}, "three": {"a", "c"}, "values": {""}}[task]
    assert f"{turn.correlation_before:+.2f}" in turn.describe()
    assert jump.describe().startswith("jumps: ")


def test_the_numbers_are_those_of_numpy() -> None:
    found = [move for move in moved("two", change=lambda X: X.to_numpy()) if move.step == 15]
    parts = list(batches("two"))
    before, after = parts[11:15], parts[15:19]
    for move in found:
        assert move.name == f"x{move.column}"
        for part, mean, correlation in (
            (before, move.mean_before, move.correlation_before),
            (after, move.mean_after, move.correlation_after),
        ):
            x = np.concatenate([X.to_numpy()[:, move.column] for X, _ in part])
            y = np.concatenate([y for _, y in part]) == "b"
            assert mean == pytest.approx(x.mean(), abs=1e-5)
            assert correlation == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-5)
        both = np.concatenate([X.to_numpy()[:, move.column] for X, _ in before + after])
        assert move.shift == pytest.approx((move.mean_after - move.mean_before) / both.std(), abs=1e-4)
        assert move.noise == pytest.approx(np.sqrt(2 / 800), rel=1e-4)


def test_sparse_rows_give_the_same_as_dense_ones() -> None:
    dense = moved("two", change=lambda X: X.to_numpy())
    thin = moved("two", change=lambda X: sparse.csr_array(X.to_numpy()))
    key = [(move.step, move.column) for move in dense if move.step == 15]
    assert [(move.step, move.column) for move in thin if move.step == 15] == key
    for a, b in zip(dense, thin, strict=False):
        if a.step == b.step == 15:
            assert a.shift == pytest.approx(b.shift, abs=1e-4)
            assert a.correlation_after == pytest.approx(b.correlation_after, abs=1e-4)


@pytest.mark.parametrize("change", [lambda X: X.to_numpy(), lambda X: sparse.csr_array(X.to_numpy())])
def test_only_the_first_of_very_many_columns_are_watched(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_moves, "MOST_NUMBERS", 2 * 5 * 12)
    assert {move.column for move in moved("two", change=change)} <= {0, 1}


def test_constant_and_overflowing_columns_are_left_out() -> None:
    def spoilt(X: Any) -> Any:
        rows = X.to_numpy().copy()
        rows[:, 3] = 7.1
        rows[5, 0] = 1e300
        return rows

    found = [move for move in moved("two", change=spoilt) if move.step == 15]
    assert {1, 2} <= {move.column for move in found}
    assert all(move.column not in (0, 3) for move in found)


def test_a_reaction_at_the_very_first_steps_or_the_last_is_not_compared() -> None:
    session = Session(DriftSurf(LogisticRegression(), threshold=0.0, reactive_length=20))
    writer = ColumnMoves(session)
    text = "".join(writer.lines(X, {"m": session.observe(X, y)}) for X, y in batches("two", steps=10))
    assert text == ""


def test_a_reaction_before_a_second_class_appears_compares_the_means_only() -> None:
    session = Session(DriftSurf(LogisticRegression(), threshold=0.0))
    writer = ColumnMoves(session)
    text = writer.head()
    rng = np.random.default_rng(0)
    for step in range(30):
        X = rng.normal(size=(100, 2)) + (3.0 if step < 15 else -9.0)
        text += writer.lines(X, {"m": session.observe(X, np.full(100, "yes"))})
    found = read_moves(text)
    assert found
    assert {(move.label, move.correlation_before, move.correlation_after) for move in found} == {("", 0.0, 0.0)}
    assert found[0].describe().startswith("x")
    assert f"{0:+.2f}" not in found[0].describe()  # no correlation to report


def test_the_state_resumes_in_another_process() -> None:
    parts = list(batches("two"))
    whole, halves = Session(DriftSurf(LogisticRegression())), Session(DriftSurf(LogisticRegression()))
    first, second = ColumnMoves(whole), ColumnMoves(halves)
    expected = got = ""
    for X, y in parts:
        expected += first.lines(X, {"m": whole.observe(X, y)})
        got += second.lines(X, {"m": halves.observe(X, y)})
        again = ColumnMoves(halves)
        again.restore(second.state())
        second = again
    assert expected == got
    assert expected


def test_column_names_may_be_given() -> None:
    session = Session(DriftSurf(LogisticRegression()))
    writer = ColumnMoves(session, names=lambda: ["p", "q", "r", "s"])
    text = writer.head()
    for X, y in batches("two"):
        text += writer.lines(X.to_numpy(), {"m": session.observe(X.to_numpy(), y)})
    assert {"q", "r"} <= {move.name for move in read_moves(text)}


def test_text_of_another_kind_is_refused() -> None:
    assert read_moves(ColumnMoves(Session(DriftSurf(LogisticRegression()))).head()) == []
    with pytest.raises(InputError):
        read_moves("a,b\n1,2\n")


def test_an_error_in_the_recorder_does_not_stop_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(ColumnMoves):
        def lines(self, X: Any, seen: Any) -> str:
            raise IndexError("out of range")

    stream = Mixed(n_rows=300)
    session = Session(DriftSurf(LogisticRegression()), classes=(-1, 1))
    beside = {"columns.csv": Failing(session)}
    recorder = TraceRecorder(stream, 100)
    with live_run(StreamBatches(stream, 100), {"m": session}, recorder, tmp_path, sidecars=beside) as live:
        live.begin()
        run_to_end(live)
        assert live.step == 3
    assert [record.args for record in caplog.records] == [(k, "columns.csv") for k in range(3)]


def test_a_checkpoint_without_the_file_is_refused(tmp_path: Path) -> None:
    stream = Mixed(n_rows=1000)

    def run(folder: CheckpointFolder, *, beside: bool) -> LiveRun:
        session = Session(DriftSurf(LogisticRegression()), classes=(-1, 1))
        files = {"columns.csv": ColumnMoves(session)} if beside else {}
        recorder = TraceRecorder(stream, 100)
        return live_run(StreamBatches(stream, 100), {"m": session}, recorder, folder, sidecars=files)

    with CheckpointFolder(tmp_path) as folder:
        with run(folder, beside=False) as live:
            live.begin()
            run_to_end(live)
        saved = folder.load()
        assert saved is not None
        with run(folder, beside=True) as live, pytest.raises(StateError):
            live.resume(saved)


def test_a_change_that_rounds_to_nothing_has_no_minus() -> None:
    move = ColumnMove(9, 4, 0, "x", 0.5, 0.4999, -0.001, "", -0.002, 0.6, 0.05)
    assert "-0.00" not in move.describe()
    assert "+0.00 sd" in move.describe()


def test_a_column_that_only_grows_is_told_apart() -> None:
    def move(step: int, column: int, shift: float, counts: bool = False) -> ColumnMove:
        return ColumnMove(step, 4, column, f"x{column}", 0.0, 1.0, shift, "", 0.0, 0.0, 0.05, counts)

    run = [move(9, 0, 1.73), move(9, 1, 1.2), move(9, 2, -1.7), move(20, 0, 1.74), move(20, 1, 1.0), move(20, 2, 1.7)]
    others, counters = without_counters(run[:3], run)
    assert ([one.column for one in others], [one.column for one in counters]) == ([1, 2], [0])
    others, counters = without_counters(run[:3], run[:3])
    assert (len(others), counters) == (3, [])  # one reaction is not enough
    others, counters = without_counters([move(9, 3, 1.1, True), move(9, 4, 1.0)], [])
    assert ([one.column for one in others], name_counters(counters)) == ([4], name_counters([move(9, 3, 1.1)]))


@pytest.mark.filterwarnings("ignore::driftsurf.errors.ColumnWarning")  # a column tells the label
def test_parts_of_the_calendar_never_head_the_list(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2)).round(3)
    when = np.datetime64("2024-01-01T00:00") + 30 * np.arange(3000).astype("timedelta64[m]")
    weekend = (when.astype("datetime64[D]").astype(int) + 3) % 7 > 4
    turned = np.arange(3000) >= 1500
    for name, label in (("turn", (x[:, 0] > 0) != turned), ("weekend", (x[:, 0] > 0) != (turned & weekend))):
        table = pd.DataFrame({"when": when, "x": x[:, 0], "z": x[:, 1], "y": label})
        table.to_csv(tmp_path / "rows.csv", index=False)
        run = driftsurf.run(tmp_path / "rows.csv", label="y", model="driftsurf", batch_size=100, out=tmp_path / name)
        assert any(move.calendar for move in run.column_moves)
        for _, group in groupby(run.column_moves, key=lambda move: move.step):
            moves = [move for move in without_counters(list(group), run.column_moves)[0] if move.beyond_chance]
            places = [move.calendar for move in moves]
            assert places == sorted(places)  # all others come first
        page = (run.folder / "report.html").read_text()
        assert not re.search(r'<tr><td class="number">\d+</td><td>when ', page)
        assert not re.search(r"columns +when ", explain(run.folder))
    calendar = ColumnMove(9, 4, 0, "when Friday", 0.0, 1.0, 1.7, "", 0.0, 0.1, 0.05, calendar=True)
    assert not calendar.beyond_chance  # a shift of its mean says nothing
    assert replace(calendar, correlation_after=0.5).beyond_chance
    assert "but the calendar" in "".join(section.tables([replace(calendar, correlation_after=0.5)]))


@pytest.mark.parametrize("sparse", [False, True])
def test_clocks_and_counters_never_head_the_list_also_after_a_resume(sparse: bool) -> None:
    rng = np.random.default_rng(0)

    def rows(step: int) -> tuple[Any, Any]:
        X = np.column_stack([rng.normal(size=(100, 2)), np.zeros((100, 5))])
        X[:, 2] = np.arange(step * 100, step * 100 + 100)  # a number of the row
        X[:, 3] = -np.floor(X[:, 2] / 3) - 1  # counts down
        X[:, 4] = 1.0 + (step >= 15)  # a switch, which is news
        X[:, 5] = 1.0 + (X[:, 2] % 50)  # begins again and again
        X[:, 6] = 1.0 + X[:, 2] // 110  # a calendar
        y = np.where((X[:, 0] > 0) == (step < 15), "a", "b")
        return (csr_array(X) if sparse else X), y

    learned = Session(DriftSurf(LogisticRegression()), classes=("a", "b"), guard=None)
    writer = ColumnMoves(learned)
    text = writer.head()
    for step in range(24):
        X, y = rows(step)
        text += writer.lines(X, {"m": learned.observe(X, y)})
        again = ColumnMoves(learned)
        again.restore(writer.state())
        writer = again
    found = [move for move in read_moves(text) if move.step >= 14]
    assert found
    assert {move.column for move in found if move.counts} == {2, 3, 6}
    assert {found[0].column, found[1].column} <= {0, 4}
    others, counters = without_counters(found, found)
    assert 4 in {move.column for move in others}
    assert {move.column for move in counters} == {2, 3, 6}
