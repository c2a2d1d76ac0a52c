"""A usual time step in one compiled call equals the generic step to the bit, with its guard, checks and records."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from generic_steps import stepping_generically
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_steps import LEARNERS, OPTIONS, WIDTHS, batches, made
from tests.reliability.lines import lines_of, raise_at

from driftsurf import DriftSurfClassifier
from driftsurf.core.contracts import Batch
from driftsurf.core.decisions import Decision
from driftsurf.core.state import to_bytes
from driftsurf.errors import DriftsurfError
from driftsurf.learners import LogisticRegression, SoftmaxRegression
from driftsurf.native.guard import RangeGuard
from driftsurf.native.session import usual_step
from driftsurf.session.session import Session
from driftsurf.strategies import Aware, DriftSurf, Oblivious
from driftsurf.strategies._cell_models import CellModels


def wild(batch: Batch, step: int, rng: np.random.Generator) -> Batch:
    """Return a batch with a value that is not finite, or with extreme values, at some steps."""
    X = np.asarray(batch.X).copy()
    row, column = rng.integers(len(X)), rng.integers(X.shape[1])
    if step % 7 == 3:
        X[row, column] *= 1e3  # limited, and its row has a small weight
    elif step % 7 == 4:
        X[row, column] = 7.0 * np.abs(X[:, column]).mean()  # at most limited
    elif step % 7 == 5:
        X[row, column] = rng.choice([np.nan, np.inf])
    return batch._replace(X=X)


def called(session: Session, how: str, X: Any, y: Any) -> str:
    """Learn a batch; return what the session says about it as text."""
    try:
        if how == "learn":
            return repr(session.learn(X, y))
        if how == "observe":
            seen = session.observe(X, y)
            return repr((seen.labels.tolist(), seen.scores.tobytes(), seen.true.tolist(), seen.decisions))
        return repr(session.learn(X, y, decided=False))
    except DriftsurfError as error:
        return str(error)


@given(
    width=WIDTHS,
    learner=LEARNERS,
    options=OPTIONS,
    guard=st.sampled_from([None, 2.0]),
    seed=st.integers(0, 999),
    labels=st.sampled_from([(0, 1), (7, 3), ("a", "b")]),
    data=st.data(),
)
@settings(max_examples=60)
def test_a_session_learns_the_same_in_one_call(
    width: int,
    learner: dict[str, Any],
    options: dict[str, Any],
    guard: float | None,
    seed: int,
    labels: tuple[Any, Any],
    data: st.DataObject,
) -> None:
    values = learner["kind"] in ("linear", "huber")
    one, other = (Session(made(learner, options), guard=guard) for _ in range(2))
    stepping_generically(other.strategy)
    rng = np.random.default_rng(seed)
    for step, batch in enumerate(batches(width, seed, options.get("dtype", "float64"), 30, values=values)):
        rows = wild(batch, step, rng)
        y = rows.y if values else np.array(labels)[rows.y.astype(int)]
        how = data.draw(st.sampled_from(["learn", "observe", "undecided"]))
        assert called(one, how, rows.X, y) == called(other, how, rows.X, y)
        assert to_bytes(one.state()) == to_bytes(other.state())
        if data.draw(st.integers(0, 9)) == 0:
            one.restore(one.state())
    assert one.journal.to_jsonl() == other.journal.to_jsonl()
    assert list(map(repr, one.journal)) == list(map(repr, other.journal))  # NaN: rows without weight


def usual_batches(count: int, rows: int = 40) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (count, rows, 3))
    return list(zip(X, (X[:, :, 0] > 0).astype(np.int64), strict=True))


def test_all_usual_steps_are_taken_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = list[bool]()

    def counted(*arguments: Any) -> Any:
        result = usual_step(*arguments)
        taken.append(result is not None)
        return result

    monkeypatch.setattr("driftsurf.session.session.usual_step", counted)
    model = DriftSurfClassifier(random_state=0)
    for X, y in usual_batches(60):
        model.partial_fit(X, y)
        model.test_then_train(X, y)
    assert len(taken) == 119
    assert taken.count(False) < 10  # steps for whose rows there was no room
    assert len(model.journal_) == model.journal_.steps_recorded == 120
    assert all(isinstance(decision, Decision) for decision in model.journal_)
    assert model.journal_.rows_seen == model.journal_[-1].rows_seen == 120 * 40


@pytest.mark.parametrize("how", ["learn", "observe"])
def test_an_exception_at_any_line_leaves_a_whole_step_or_none(how: str) -> None:
    def learned() -> Session:
        session = Session(DriftSurf(LogisticRegression(), seed=1))
        for X, y in usual_batches(12):
            session.learn(X, y)
        return session

    X, y = usual_batches(13)[-1]
    states = [to_bytes(learned().state())]
    done = learned()
    getattr(done, how)(X, y)
    states.append(to_bytes(done.state()))
    count = lines_of(functools.partial(getattr(learned(), how), X, y))
    seen = set[int]()
    for line in range(1, count + 1):
        session = learned()
        raised = raise_at(line, functools.partial(getattr(session, how), X, y))
        assert raised
        seen.add(states.index(to_bytes(session.state())))
    assert seen == {0, 1}


@given(
    width=WIDTHS,
    learner=st.sampled_from([LogisticRegression, SoftmaxRegression]),
    strategy=st.sampled_from([DriftSurf, Oblivious, functools.partial(Aware, drift_steps=[5, 12])]),
    guard=st.sampled_from([None, 2.0]),
    seed=st.integers(0, 999),
    data=st.data(),
)
@settings(max_examples=30)
def test_new_classes_are_learned_in_larger_cells(
    width: int, learner: Any, strategy: Any, guard: float | None, seed: int, data: st.DataObject
) -> None:
    one, other = (Session(strategy(learner(), max_rows=300, seed=seed), guard=guard) for _ in range(2))
    stepping_generically(other.strategy)
    rng = np.random.default_rng(seed)
    for step, batch in enumerate(batches(width, seed, "float64", 20, classes=5)):
        rows = wild(batch, step, rng) if step % 7 != 5 else batch
        how = data.draw(st.sampled_from(["learn", "observe", "undecided"]))
        assert called(one, how, rows.X, rows.y) == called(other, how, rows.X, rows.y)
        assert to_bytes(one.state()) == to_bytes(other.state())
        cell: Any = one.strategy
        assert cell._cell is not None
    assert one.journal.to_jsonl() == other.journal.to_jsonl()
    assert len(one.targets.labels) > 2


class BreakingMoves:
    """A native cell whose first moves to other arrays are made, and then broken off."""

    def __init__(self, native: Any, times: int) -> None:
        self._native, self.times = native, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def move(self, *arguments: Any) -> None:
        """Use other arrays."""
        self._native.move(*arguments)
        if self.times:
            self.times -= 1
            raise KeyboardInterrupt


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_session_learns_on_with_the_same_rows_when_making_room_was_broken_off(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftsurf.session.session.usual_step", lambda *_: None)  # makes no room
    whole, broken = (Session(DriftSurf(LogisticRegression(), seed=1)) for _ in range(2))
    native: BreakingMoves | None = None
    for X, y in usual_batches(40):
        whole.learn(X, y)
        try:
            broken.learn(X, y)
        except KeyboardInterrupt:
            broken.learn(X, y)
        cell: Any = broken.strategy
        if native is None:
            native = cell._cell.native = BreakingMoves(cell._cell.native, times)
    assert native is not None
    assert native.times == 0
    assert to_bytes(broken.state()) == to_bytes(whole.state())


@pytest.mark.parametrize("columns", [1, 4])
def test_a_guard_of_another_width_is_refused_before_it_limits_rows(columns: int) -> None:
    session = Session(DriftSurf(LogisticRegression(), seed=1))
    (X, y), later = usual_batches(2)
    session.learn(X, y)
    strategy: Any = session.strategy
    cell: CellModels = strategy._cell
    before = to_bytes(session.state())
    guard = RangeGuard(clips=True).admit(np.ones((9, columns)))[2]
    cell.mark()
    with pytest.raises(ValueError, match=f"the guard has {columns} columns, and the rows have 3"):
        cell.observe(later[0], np.asarray(later[1], np.float64), None, guard, predict=True)
    assert to_bytes(session.state()) == before
