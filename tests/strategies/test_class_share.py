"""A new model of DriftSurf is not used before it has seen the classes that matter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from generic_steps import stepping_generically as generic

import driftsurf
from driftsurf import explain
from driftsurf.core.contracts import Batch
from driftsurf.core.decisions import Decision
from driftsurf.core.journal import read_lines
from driftsurf.core.samples import Samples
from driftsurf.errors import OptionError
from driftsurf.learners import LogisticRegression, NaiveBayes, SoftmaxRegression
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf, Oblivious
from driftsurf.strategies._pool import Member
from driftsurf.strategies.judges import missed_class

ROWS = 100


def nights(
    days: int, *, day: int = 4, night: int = 4, flip: int = -1, gone: int = -1, kinds: int = 2, seed: int = 1
) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Yield batches whose rows are all of class 0 by night, when the inputs are shifted as well.

    At the batch ``flip`` the concept is inverted, and from the batch ``gone`` on there is nothing but class 0.
    """
    rng = np.random.default_rng(seed)
    w = rng.normal(size=5)
    for step in range(days * (day + night)):
        w = -w if step == flip else w
        X = rng.normal(size=(ROWS, 5))
        margin = X @ w + 0.3 * rng.normal(size=ROWS)
        y = np.where(margin > 0, 1 + np.arange(ROWS) % (kinds - 1), 0).astype(float)
        dark = step % (day + night) >= day
        if dark or 0 <= gone <= step:
            wrong = y > 0
            X[wrong] -= 2 * np.outer(X[wrong] @ w, w) / (w @ w)
            y[:] = 0
        X[:, 0] += dark
        yield X, y


def run(strategy: Any, rows: Iterator[tuple[Any, Any]], kinds: int = 2) -> tuple[list[Decision], float]:
    """Return the decisions, and the mean error without the first batch."""
    strategy.begin(5, sparse=False, n_classes=kinds)
    decisions, errors = [], []
    for X, y in rows:
        batch = Batch(X, y, np.ones(len(y)))
        scores = strategy.test_scores(batch)
        errors.append(float(np.mean((scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)) != y)))
        decisions.append(strategy.step(batch, scores))
    return decisions, float(np.mean(errors[1:]))


def refused(decisions: Sequence[Decision]) -> list[int]:
    return [one.step for decision in decisions for one in decision.transitions if one.absent >= 0]


@pytest.mark.parametrize("judge", ["training", "prequential"])
@pytest.mark.parametrize("night", [4, 8, 18])
def test_a_class_that_is_absent_for_a_while_is_not_forgotten(judge: Any, night: int) -> None:
    learner = SoftmaxRegression(steps_per_row=8.0 if judge == "prequential" else 2.0)
    plain, guarded, single = (
        run(strategy, nights(160 // (4 + night), night=night))
        for strategy in (
            DriftSurf(learner, judge=judge, class_share=0.0),
            DriftSurf(learner, judge=judge),
            Oblivious(learner),
        )
    )
    assert refused(guarded[0])
    assert guarded[1] < plain[1] - 0.002
    assert guarded[1] - single[1] < min(0.011, (plain[1] - single[1]) / 2)


@pytest.mark.parametrize("judge", ["training", "prequential"])
def test_a_model_that_is_worse_than_a_coin_toss_is_not_protected(judge: Any) -> None:
    """The concept is inverted, and class 1 is gone for ever."""
    learner = SoftmaxRegression()
    plain, guarded = (
        run(DriftSurf(learner, judge=judge, class_share=share), nights(10, flip=60, gone=60, day=8, night=0))
        for share in (0.0, 0.01)
    )
    first = 60 + (judge == "prequential")
    for decisions, _ in (plain, guarded):
        assert [one.step for one in decisions[first].transitions if one.kind == "greedy"] == [first]
    assert guarded[1] < plain[1] + 0.01


def test_a_class_that_does_not_return_is_waited_for_only_so_long() -> None:
    """Only the rows of the last 8 * r batches count, and those of this class become fewer among them."""
    samples = Samples(1)
    for step in range(100):
        y = np.zeros(50)
        y[0] = step < 40  # 2 % of the rows
        samples.append(np.zeros((50, 1)), y)
        if step >= 43:
            old, new = (Member(id, LogisticRegression(), 0, row) for id, row in ((0, 0), (1, 50 * (step - 3))))
            found = missed_class(samples, old, new, 0.01, 4, 4)
            counted = [max(0, 40 - (step - 31)), 32]
            assert found == (1 if counted[0] / 50 >= 0.01 * counted[1] else None)
            assert missed_class(samples, old, old, 0.01, step + 1, 4) is None


@pytest.mark.parametrize("kinds", [2, 3])
@pytest.mark.parametrize("share", [0.01, 0.1])
@pytest.mark.parametrize("max_rows", [None, 250])
def test_the_class_that_is_missed_follows_from_the_rows(kinds: int, share: float, max_rows: int | None) -> None:
    learner: Any = SoftmaxRegression() if kinds > 2 else LogisticRegression()
    strategy = generic(DriftSurf(learner, threshold=0.03, class_share=share, max_rows=max_rows))
    rows = list(nights(12, kinds=kinds, night=6 if share < 0.05 else 3))
    strategy.begin(5, sparse=False, n_classes=kinds)
    found = 0
    for step, (X, y) in enumerate(rows):
        first = strategy._pool.samples.first_row
        decision = strategy.step(Batch(X, y, np.ones(ROWS)))
        if not decision.reactive_step:
            assert decision.absent is None
            continue
        models = {model.role: model for model in decision.models}
        seen, known = decision.first_row + ROWS, [one for _, part in rows[: step + 1] for one in part]
        back = 8 * 4 * ROWS
        own = known[models["reactive"].first_row : seen]
        theirs = known[max(seen - back, models["predictive"].first_row, first) : seen]
        missed = [c for c in range(kinds) if c not in own and theirs.count(c) >= max(1, share * len(theirs))]
        risk = models["predictive"].risk_before
        assert risk is not None
        expected = max(missed, key=lambda c: (theirs.count(c), -c)) if missed and risk <= math.log(2) else None
        assert decision.absent == expected
        if expected is not None:
            found += 1
            assert decision.predicts_next == models["predictive"].id
    assert found


@pytest.mark.parametrize("judge", ["training", "prequential"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("kinds", [2, 4])
def test_the_native_step_refuses_the_same_models(judge: Any, weighted: bool, kinds: int) -> None:
    learner: Any = SoftmaxRegression() if kinds > 2 else LogisticRegression()
    strategy = DriftSurf(learner, judge=judge, max_rows=900)
    other = generic(strategy.fresh(0))
    found = 0
    rng = np.random.default_rng(0)
    for one in (strategy, other):
        one.begin(5, sparse=False, n_classes=kinds)
    for X, y in nights(12, kinds=kinds):
        weight = (rng.random(ROWS) < 0.5).astype(float) if weighted else np.ones(ROWS)
        decisions = [one.step(Batch(X, y, weight)) for one in (strategy, other)]
        assert decisions[0] == decisions[1]
        found += decisions[0].absent is not None
    assert strategy._cell is not None
    assert other._cell is None
    assert found


def test_a_learner_without_rows_is_compared_on_the_last_batch_alone() -> None:
    decisions, _ = run(DriftSurf(NaiveBayes(), judge="training"), nights(12))
    assert not refused(decisions)


def test_the_journal_names_the_class() -> None:
    model = driftsurf.DriftSurfClassifier(SoftmaxRegression(steps_per_row=8.0), judge="prequential", guard=None)
    names = np.array(["empty", "occupied"])
    for X, y in nights(8):
        model.test_then_train(X, names[y.astype(int)])
    kept = [one for one in model.journal_.transitions if one.absent >= 0]
    assert kept[0].describe().endswith("class 'occupied' not yet seen by the new model: kept the old model")
    assert "absent" in explain(model.journal_, step=kept[0].step)
    lines = model.journal_.to_jsonl()
    assert read_lines(lines)[kept[0].step].transitions[-1] == kept[0]
    assert sum('"absent"' in line for line in lines.splitlines()) < len(lines.splitlines()) / 2


def test_a_saved_model_waits_on() -> None:
    strategy = DriftSurf(SoftmaxRegression(steps_per_row=8.0), judge="prequential")
    session = Session(strategy, guard=None)
    rows = list(nights(8))
    decisions = [session.observe(X, y.astype(int)).decisions[0] for X, y in rows]
    waiting = next(decision.step for decision in decisions if decision.absent is not None)
    again = Session(strategy.fresh(0), guard=None)
    for X, y in rows[: waiting + 1]:
        again.observe(X, y.astype(int))
    restored = Session(strategy.fresh(0), guard=None)
    restored.restore(again.state())
    later = [restored.observe(X, y.astype(int)).decisions[0] for X, y in rows[waiting + 1 :]]
    assert later == decisions[waiting + 1 :]


@pytest.mark.parametrize("share", [-0.1, 1.0, math.nan, "all"])
def test_a_share_that_is_none_is_an_error(share: Any) -> None:
    with pytest.raises(OptionError, match="class_share"):
        DriftSurf(LogisticRegression(), class_share=share).check()


def test_the_paper_does_not_ask_for_classes() -> None:
    assert driftsurf.paper(1e-3, 1e-2).class_share == 0.0
