"""Checks that every strategy of the package passes."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from generic_steps import stepping_generically
from row_arrays import as_rows

from driftsurf import strategies
from driftsurf.core.contracts import Batch
from driftsurf.core.decisions import Decision
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.detectors import MDDM
from driftsurf.errors import DivergenceError, OptionError
from driftsurf.learners import LogisticRegression
from driftsurf.learners._learner import Update
from driftsurf.session.session import Session
from driftsurf.strategies._base import PooledStrategy

M, STEPS, FLIPS = 25, 24, (8, 16)
KINDS = [
    kind
    for name in strategies.__all__
    if isinstance(kind := getattr(strategies, name), type)
    and kind not in (strategies.Portfolio, strategies.SingleModel)
]
"""All strategies whose models share one pool; the experts of a portfolio have stores of their own."""
KEEP_NOTHING = (strategies.Candor, strategies.DTEL, strategies.DWMIL, strategies.LearnNSE, strategies.OnePass)
every = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
optimizers = pytest.mark.parametrize("optimizer", ["strsaga", "saga", "sgd", "one-pass"])
layouts = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])

SMALL: dict[str, Any] = {
    "detector": MDDM(window=40, delta=1e-3),
    "drift_steps": FLIPS,
    "informed": "after",
    "window": 60,
    "half_life": 15,
    "permutations": 19,
    "significance": 0.05,
    "period": 5,
    "experts": 4,
    "bags": 3,
    "pool_size": 3,
    "test_rows": 40,
}
"""Options for a small stream; a strategy gets those that it has."""


def make(kind: Any, sparse: bool = False, *, optimizer: Any = "strsaga", seed: int = 3, **options: Any) -> Any:
    known = inspect.signature(kind).parameters
    learner = LogisticRegression(step_size=0.1, l2=1e-3, start="uniform", optimizer=optimizer)
    chosen = {name: value for name, value in SMALL.items() if name in known} | options
    strategy = kind(learner, seed=seed, **chosen)
    strategy.check()
    strategy.begin(3, sparse=sparse, n_classes=2)
    return strategy


def batches(sparse: bool = False, *, steps: int = STEPS, m: int = M, seed: int = 1) -> Iterator[Batch]:
    """Return batches whose labels are inverted at the flips."""
    random = np.random.default_rng(seed)
    for step in range(steps):
        X = random.normal(size=(m, 3)) * (random.random((m, 3)) < 0.7)
        side = X @ [1.0, -1.0, 0.5] + 0.2 * random.normal(size=m) > 0
        y = (side != (sum(flip <= step for flip in FLIPS) % 2 == 1)).astype(float)
        yield Batch(as_rows(X, sparse), y, random.choice([1.0, 1.0, 0.5, 2.0], m))


def run(strategy: Any, given: list[Batch]) -> list[Decision]:
    return [strategy.step(batch) for batch in given]


def snapshot(strategy: Any) -> bytes:
    return to_bytes(strategy.state())


def test_all_strategies_of_the_package_are_covered() -> None:
    assert set(PooledStrategy.__subclasses__()) & set(KINDS)
    assert len(KINDS) >= 14
    assert all(issubclass(kind, PooledStrategy) for kind in KINDS)


# ---------------------------------------------------------------------------- state


@every
@optimizers
@layouts
def test_a_restored_strategy_continues_bit_for_bit(kind: Any, optimizer: str, sparse: bool) -> None:
    given = list(batches(sparse))
    whole = make(kind, sparse, optimizer=optimizer)
    expected = run(whole, given)
    for cut in (0, 1, 9, 17):
        first, second = (make(kind, sparse, optimizer=optimizer) for _ in range(2))
        run(first, given[:cut])
        second.restore(from_bytes(snapshot(first)), 3, sparse=sparse, n_classes=2)
        assert snapshot(second) == snapshot(first)
        assert run(second, given[cut:]) == expected[cut:]
        assert snapshot(second) == snapshot(whole)
        assert np.array_equal(second.scores(given[0].X), whole.scores(given[0].X))
        assert np.array_equal(second.test_scores(given[0]), whole.test_scores(given[0]))


@every
def test_a_saved_state_is_not_affected_by_later_steps(kind: Any) -> None:
    given = list(batches())
    strategy = make(kind)
    run(strategy, given[:12])
    saved = snapshot(strategy)
    run(strategy, given[12:])
    assert snapshot(strategy) != saved
    strategy.restore(from_bytes(saved), 3, sparse=False, n_classes=2)
    assert snapshot(strategy) == saved


@every
def test_the_seed_decides_the_bytes_of_the_state(kind: Any) -> None:
    given = list(batches())
    one, same, other = make(kind), make(kind), make(kind, seed=4)
    assert run(one, given) == run(same, given)
    run(other, given)
    assert snapshot(one) == snapshot(same) != snapshot(other)
    one.begin(3, sparse=False, n_classes=2)
    assert snapshot(one) == snapshot(make(kind))


# ---------------------------------------------------------------------------- all or nothing


@every
@layouts
@pytest.mark.parametrize("cut", [5, 9])
def test_an_error_in_any_update_of_a_step_changes_nothing(
    kind: Any, sparse: bool, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the step of a drift, the k-th model fails after others have learned already."""
    given = list(batches(sparse))
    undisturbed = make(kind, sparse)
    expected = run(undisturbed, given)
    strategy = stepping_generically(make(kind, sparse))
    run(strategy, given[:cut])
    before, scores = snapshot(strategy), strategy.scores(given[0].X)
    end = Update.end
    calls = 0

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise DivergenceError("on purpose")
        return end(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Update, "end", counted)
        for failing in range(1, 6):
            calls = 0
            try:
                strategy.step(given[cut])
            except DivergenceError:
                assert snapshot(strategy) == before
                assert np.array_equal(strategy.scores(given[0].X), scores)
            else:
                assert 1 <= calls < failing, "it has fewer models than that"
                break
    if snapshot(strategy) == before:
        strategy.step(given[cut])
    assert run(strategy, given[cut + 1 :]) == expected[cut + 1 :]
    assert snapshot(strategy) == snapshot(undisturbed)


@every
@optimizers
def test_an_interrupt_after_all_models_have_learned_changes_nothing(
    kind: Any, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prediction meanwhile is not affected by the step."""
    given = list(batches())
    strategy = stepping_generically(make(kind, optimizer=optimizer))
    run(strategy, given[:9])
    before, scores = snapshot(strategy), strategy.scores(given[0].X)

    def interrupt(*_: Any, **__: Any) -> None:
        assert np.array_equal(strategy.scores(given[0].X), scores)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(strategy._pool, "cap", interrupt)
        with pytest.raises(KeyboardInterrupt):
            strategy.step(given[9])
    assert snapshot(strategy) == before
    undisturbed = make(kind, optimizer=optimizer)
    assert run(strategy, given[9:]) == run(undisturbed, given)[9:]
    assert snapshot(strategy) == snapshot(undisturbed)


@every
def test_predicting_and_saving_change_nothing(kind: Any) -> None:
    given = list(batches())
    strategy = make(kind)
    run(strategy, given[:9])
    before = snapshot(strategy)
    first, second = (strategy.scores(given[9].X) for _ in range(2))
    strategy.test_scores(given[9])
    assert strategy.nbytes > 0
    assert np.array_equal(first, second)
    assert snapshot(strategy) == before
    assert not hasattr(strategy.learner, "_fitted"), "the template is a template"


# ---------------------------------------------------------------------------- rows


@every
@optimizers
@layouts
def test_max_rows_bounds_the_rows_of_every_model_and_of_the_store(kind: Any, optimizer: str, sparse: bool) -> None:
    strategy = make(kind, sparse, optimizer=optimizer, max_rows=130)
    for batch in batches(sparse, steps=40):
        strategy.step(batch)
        assert len(strategy._pool.samples) <= 130
        for member in strategy._learning(strategy._live):
            assert member.learner.rows_admitted + member.learner.rows_waiting <= 130
    assert strategy._pool.samples.next_row == 40 * M


@every
def test_a_max_rows_that_is_never_reached_changes_no_bit(kind: Any) -> None:
    given = list(batches())
    capped, free = make(kind, max_rows=10_000), make(kind, max_rows=None)
    assert run(capped, given) == run(free, given)
    assert snapshot(capped) == snapshot(free)


@every
def test_rows_that_are_not_needed_are_freed(kind: Any) -> None:
    strategy = make(kind)
    for batch in batches():
        strategy.step(batch)
        samples = strategy._pool.samples
        if kind in KEEP_NOTHING:
            assert len(samples) == 0
            assert snapshot(strategy).count(b"samples.X") == 1
        else:
            needed = [m.learner.needs() for m in strategy._learning(strategy._live)]
            # A model that was just reset needs no row yet.
            assert samples.first_row <= min((row for row in needed if row is not None), default=samples.first_row)
    assert strategy.nbytes < 200_000


@pytest.mark.parametrize("kind", KEEP_NOTHING, ids=lambda kind: kind.__name__)
def test_a_state_does_not_grow_if_no_rows_are_kept(kind: Any) -> None:
    given = list(batches(steps=40))
    strategy = make(kind)
    run(strategy, given[:20])
    grown = len(snapshot(strategy))
    run(strategy, given[20:])
    assert abs(len(snapshot(strategy)) - grown) < 100  # numbers with more digits


@every
def test_dense_and_sparse_rows_lead_to_the_same_decisions(kind: Any) -> None:
    results = []
    for sparse in (False, True):
        strategy = make(kind, sparse)
        predicted, transitions = [], []
        for batch in batches(sparse):
            predicted.append((strategy.test_scores(batch) > 0).tolist())
            transitions += [(t.kind, t.step, t.old, t.new) for t in strategy.step(batch).transitions]
        results.append((predicted, transitions))
    assert results[0] == results[1]


@every
def test_float32_rows_are_accepted(kind: Any) -> None:
    strategy = make(kind, dtype="float32")
    for batch in batches(steps=10):
        strategy.step(batch._replace(X=np.asarray(batch.X, np.float32)))
    assert np.isfinite(strategy.scores(np.ones((2, 3), np.float32))).all()
    with pytest.raises(OptionError, match=r"dtype.*'int8'"):
        make(kind, dtype="int8")


@every
def test_batches_of_any_size_and_of_one_class_work(kind: Any) -> None:
    strategy = make(kind)
    for batch in batches(steps=4):
        X = np.asarray(batch.X)
        for i in range(0, M, 5):
            strategy.step(Batch(X[i : i + 1], batch.y[i : i + 1], batch.weight[i : i + 1]))
        strategy.step(batch._replace(y=np.ones(M)))
        strategy.step(Batch(np.tile(X, (5, 1)), np.tile(batch.y, 5), np.ones(5 * M)))
    assert np.isfinite(strategy.scores(np.zeros((3, 3)))).all()


@every
@pytest.mark.parametrize("step", [0, 6])
def test_a_batch_without_weight_does_not_count_as_evidence(kind: Any, step: int) -> None:
    given = list(batches())[:8]
    strategy = make(kind)
    for number, batch in enumerate(given):
        if number == step:
            decision = strategy.step(batch._replace(y=1.0 - batch.y, weight=np.zeros(M)))
            assert not decision.transitions
        else:
            strategy.step(batch)
    assert np.isfinite(strategy.scores(given[0].X)).all()


# ---------------------------------------------------------------------------- decisions and sessions


@every
def test_decisions_are_consistent(kind: Any) -> None:
    strategy = make(kind)
    predicts_next, row = None, 0
    for step, batch in enumerate(batches()):
        decision = strategy.step(batch)
        assert (decision.step, decision.first_row, decision.rows) == (step, row, M)
        assert predicts_next in (None, decision.predicted_by)
        assert decision.gradients > 0
        assert len({model.id for model in decision.models}) == len(decision.models)
        for transition in decision.transitions:
            assert transition.describe().startswith(f"step {transition.step}: ")
            assert transition.old != transition.new
        assert json.loads(json.dumps([decision.to_dict(), *decision.transition_dicts()]))
        predicts_next, row = decision.predicts_next, row + M


@every
def test_a_constructor_stores_its_arguments_and_nothing_else(kind: Any) -> None:
    parameters = inspect.signature(kind).parameters
    options = {name: object() for name in parameters}
    assert vars(kind(**options)) == options


@every
def test_it_works_in_a_session(kind: Any) -> None:
    session, again = (Session(make(kind), batch_size=40) for _ in range(2))
    for batch in batches():
        session.observe(np.asarray(batch.X), np.where(batch.y > 0, "up", "down"), weight=batch.weight)
    assert session.rows_pending == STEPS * M % 40
    again.restore(session.state())
    assert to_bytes(again.state()) == to_bytes(session.state())
    assert set(session.predict(np.eye(3))) <= {"up", "down"}


@every
def test_it_learns(kind: Any) -> None:
    """Before the first drift the error rate falls far below chance."""
    wrong = []
    strategy = make(kind)
    for batch in batches():
        wrong.append(float(np.mean((strategy.test_scores(batch) > 0) != batch.y)))
        strategy.step(batch)
    assert np.mean(wrong[3:8]) < 0.3
