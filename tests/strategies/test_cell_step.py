"""The native step of DriftSurf equals the generic one to the bit, over its options, saving, undoing and copying."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from generic_steps import stepping_generically
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_steps import LEARNERS, OPTIONS, WIDTHS, batches, made
from row_arrays import as_rows
from same_steps import check_same_steps, saved

from driftsurf.core.contracts import Batch, Learner
from driftsurf.core.state import to_bytes
from driftsurf.errors import DivergenceError
from driftsurf.learners import LogisticRegression, SoftmaxRegression
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf
from driftsurf.strategies.cell import WIDEST, CellStrategy


def begun(
    width: int, learner: dict[str, Any], options: dict[str, Any], *, compiled: bool, sparse: bool = False
) -> DriftSurf:
    strategy = made(learner, options)
    if not compiled:
        stepping_generically(strategy)
    strategy.begin(width, sparse=sparse, n_classes=strategy.learner.capabilities.min_classes)
    return strategy


@pytest.mark.parametrize("sparse", [False, True])
@given(
    width=WIDTHS,
    classes=st.sampled_from([2, 2, 3, 5]),
    learner=LEARNERS,
    options=OPTIONS,
    seed=st.integers(0, 999),
    data=st.data(),
)
@settings(max_examples=60)
def test_it_takes_the_same_steps(
    sparse: bool,
    width: int,
    classes: int,
    learner: dict[str, Any],
    options: dict[str, Any],
    seed: int,
    data: st.DataObject,
) -> None:
    values = learner["kind"] in ("linear", "huber")
    make = functools.partial(made, learner, options)
    check_same_steps(make, width, classes, seed, data, values=values, sparse=sparse)


def test_logistic_steps_become_softmax_steps_with_the_third_class() -> None:
    generic, compiled = (begun(2, {}, {"seed": 1}, compiled=choice) for choice in (False, True))
    for number, batch in enumerate(batches(2, 0, "float64", 12)):
        if number >= 6:
            batch = batch._replace(y=np.where(np.arange(len(batch.y)) % 3 == 0, 2.0, batch.y))
        assert repr(compiled.step(batch)) == repr(generic.step(batch))
        assert compiled._cell is not None
        assert saved(compiled) == saved(generic)


@pytest.mark.parametrize("sparse", [False, True])
def test_classes_are_scored_by_the_predicting_model_of_a_softmax_step(sparse: bool) -> None:
    compiled = begun(3, {"kind": "softmax"}, {"seed": 1}, compiled=True, sparse=sparse)
    for batch in batches(3, 0, "float64", 20, classes=4, sparse=sparse):
        compiled.step(batch)
        learner: Any = compiled.predicting
        expected = learner.scores(batch.X)
        assert expected.shape == (len(batch.y), compiled._pool.n_classes)
        assert compiled.scores(batch.X).tobytes() == expected.tobytes()
        np.testing.assert_allclose(np.exp(expected).sum(axis=1), 1.0)
    assert compiled._cell is not None


def test_an_order_to_start_over_is_followed_by_native_steps() -> None:
    generic, compiled = (begun(2, {}, {"seed": 1}, compiled=choice) for choice in (False, True))
    for number, batch in enumerate(batches(2, 0, "float64", 12)):
        if number == 6:
            assert compiled.reset("ordered") == generic.reset("ordered")
        assert repr(compiled.step(batch)) == repr(generic.step(batch))
        assert saved(compiled) == saved(generic)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_a_step_that_diverges_changes_nothing(sparse: bool, kind: str) -> None:
    learner = {"kind": kind, "step_size": 100.0, "l2": 0.0, "scale": False}
    compiled = begun(2, learner, {"seed": 1}, compiled=True, sparse=sparse)
    first, second = batches(2, 0, "float64", 2, sparse=sparse)
    compiled.step(first)
    before, scores = saved(compiled), compiled.scores(first.X)
    huge = second._replace(X=as_rows(np.full((len(second.y), 2), 1e200), sparse))
    with pytest.raises(DivergenceError):
        compiled.step(huge)
    assert saved(compiled) == before
    assert compiled.scores(first.X).tobytes() == scores.tobytes()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", [LogisticRegression, SoftmaxRegression])
@pytest.mark.parametrize("bad", range(4, 16))  # in some of these steps the rows move to the front of their arrays
def test_a_session_goes_back_twice_to_before_a_step_that_diverges(
    bad: int, kind: Callable[..., Learner], sparse: bool
) -> None:
    as_input: Any = scipy.sparse.csr_array if sparse else np.asarray
    learner = kind(step_size=100.0, l2=0.0, scale=False)
    session = Session(DriftSurf(learner, max_rows=50, seed=1), guard=None)
    rng = np.random.default_rng(0)
    for _ in range(bad):
        X = rng.normal(size=(20, 2))
        session.learn(as_input(X), X[:, 0] > 0.0)
    before = to_bytes(session.state())
    huge = np.where(np.arange(40).reshape(20, 2) % 4 < 2, 1e200, 1e199)
    with pytest.raises(DivergenceError):  # the step goes back, and then the session
        session.learn(as_input(huge), np.arange(20) % 2 == 0)
    assert to_bytes(session.state()) == before


def test_values_of_sparse_rows_keep_their_numbers_between_checkpoints() -> None:
    """A checkpoint saves the values that are new since the last one, by their numbers."""
    compiled = begun(3, {}, {"seed": 1, "max_rows": 100}, compiled=True, sparse=True)
    known: dict[str, dict[int, float]] = {}
    for batch in batches(3, 0, "float64", 40, sparse=True):
        compiled.step(batch)
        state = compiled.incremental_state()
        for name in ("data", "indices", "indptr", "y", "weight"):
            saved_array: Any = state[f"pool.samples.{name}"]
            entries = saved_array.read(saved_array.first, saved_array.stop).tolist()
            before = known.setdefault(name, {})
            now = dict(enumerate(entries, saved_array.first))
            assert all(before.get(number, value) == value for number, value in now.items())
            before |= now
    assert len(known["y"]) == len(known["indptr"]) > 1_000
    assert len(known["data"]) == sum(known["indptr"].values())


def test_wide_sparse_rows_are_left_to_the_generic_step() -> None:
    strategy = begun(WIDEST + 1, {}, {"seed": 1}, compiled=True, sparse=True)
    strategy.step(Batch(as_rows(np.eye(4, WIDEST + 1), True), np.array([0.0, 1.0, 0.0, 1.0]), np.ones(4)))
    assert strategy._cell is None


def test_rows_are_not_held_twice() -> None:
    first, second, third = batches(2, 0, "float64", 3)
    generic = begun(2, {}, {"seed": 1}, compiled=False)
    generic.step(first)
    compiled = begun(2, {}, {"seed": 1}, compiled=True)
    compiled.restore(generic.state(), 2, sparse=False, n_classes=2)
    rows, learner = weakref.ref(compiled._pool.samples), weakref.ref(compiled._live.predictive.learner)
    mark = compiled.mark()
    compiled.step(second)
    compiled.put_back(mark)
    assert saved(compiled) == saved(generic)
    del mark
    for batch in (second, third):
        compiled.step(batch)
        generic.step(batch)
    gc.collect()
    assert rows() is None
    assert learner() is None
    assert saved(compiled) == saved(generic)


def test_a_copy_holds_the_generic_path_and_shares_nothing() -> None:
    compiled = begun(2, {}, {"seed": 1}, compiled=True)
    first, *rest = batches(2, 0, "float64", 6)
    compiled.step(first)
    before = saved(compiled)
    for copied in (copy.copy(compiled), copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert compiled._cell is not None
        assert copied._cell is None
        for batch in rest:
            copied.step(batch)
        assert saved(compiled) == before


@pytest.mark.parametrize("options", [{"variant": "authors"}, {"risk": "zero-one"}, {"reactive_length": 10**12}])
@pytest.mark.filterwarnings("ignore:variant='authors':FutureWarning")
def test_other_options_use_the_generic_step(options: dict[str, Any]) -> None:
    strategy = begun(2, {}, options, compiled=True)
    for batch in batches(2, 0, "float64", 3):
        strategy.step(batch)
    assert strategy._cell is None


def test_the_predicting_model_scores_like_the_strategy() -> None:
    compiled = begun(2, {}, {"seed": 1}, compiled=True)
    for batch in batches(2, 0, "float64", 12):
        compiled.step(batch)
        assert isinstance(compiled, CellStrategy)
        learner: Any = compiled.predicting
        assert learner.scores(batch.X).tobytes() == compiled.scores(batch.X).tobytes()
    assert compiled.nbytes > 0


@pytest.mark.parametrize("max_rows", [None, 60, 300])
def test_many_rows_grow_without_being_copied(max_rows: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftsurf.strategies._cell_arrays.LARGE", 1)
    rng, starts = np.random.default_rng(1), set[int]()
    one, two = (DriftSurf(LogisticRegression(), max_rows=max_rows, seed=1) for _ in range(2))
    stepping_generically(two)
    for strategy in (one, two):
        strategy.begin(n_features=3, sparse=False, n_classes=2)
    for step in range(40):
        X = rng.normal(size=(20, 3))
        batch = Batch(X, (X[:, step // 15] > 0).astype(float), np.ones(20))
        if step > 0:  # a step that is undone may have made room
            mark, before = one.mark(), saved(one)
            one.step(batch)
            one.put_back(mark)
            assert saved(one) == before
        assert str(two.step(batch)) == str(one.step(batch))
        assert one._cell is not None
        starts.add(one._cell._cell.X.__array_interface__["data"][0])
    assert saved(one) == saved(two)
    assert len(starts) <= 4  # doubled each time, it would be copied more often


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20, 32])
@pytest.mark.parametrize("max_rows", [None, 20])
def test_short_batches_of_wide_rows_take_native_steps(
    count: int, max_rows: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftsurf.strategies._cell_arrays.LARGE", 1)
    rng, make = np.random.default_rng(1), functools.partial(DriftSurf, LogisticRegression(), max_rows=max_rows, seed=1)
    one, two = make(), stepping_generically(make())
    for strategy in (one, two):
        strategy.begin(n_features=9, sparse=False, n_classes=2)
    for step in range(30):
        X = rng.normal(size=(count, 9))
        batch = Batch(X, (X[:, step // 15] > 0).astype(float), np.ones(count))
        if step % 5 == 4:
            state = one.state()
            one = make()
            one.restore(state, 9, sparse=False, n_classes=2)
        mark, before = one.mark(), saved(one)
        one.step(batch)
        one.put_back(mark)
        assert saved(one) == before
        assert str(two.step(batch)) == str(one.step(batch))
    assert saved(one) == saved(two)
