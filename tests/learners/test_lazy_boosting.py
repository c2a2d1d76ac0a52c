"""Lazily refitted trees: when they are fitted, on which rows, and resuming in the middle."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from driftsurf.checks import check_learner
from driftsurf.core.contracts import Batch, Segment
from driftsurf.core.samples import Samples
from driftsurf.core.state import to_bytes
from driftsurf.errors import OptionError, StateError
from driftsurf.learners.foreign.lazy_boosting import LazyBoostedTrees, Pace
from driftsurf.strategies import Oblivious

pytest.importorskip("lightgbm")
PATIENT: dict[str, Any] = {"tolerance": 0.05, "least_new": 0.2, "renewed": 0.75}


def batches(count: int, flip: int, seed: int = 0, size: int = 100) -> Any:
    random = np.random.default_rng(seed)
    for step in range(count):
        X = random.normal(size=(size, 3))
        yield X, ((X[:, 0] > 0) == (step < flip)).astype(float)


def taught(learner: LazyBoostedTrees, stream: Any) -> tuple[Any, Samples, list[int]]:
    """Return a model, its store, and the steps at which it was fitted."""
    samples, fits = Samples(3), list[int]()
    model = learner.fresh(seed=0, n_features=3, n_classes=0 if learner.task == "regression" else 2)
    for step, (X, y) in enumerate(stream):
        before = model._fitted.fit
        model.update(samples, samples.append(X, y), 10_000)
        if model._fitted.fit is not before:
            fits.append(step)
    return model, samples, fits


@pytest.mark.parametrize("options", [{}, {"batches": 4}, {"task": "regression"}])
def test_it_is_a_learner(options: Any) -> None:
    check_learner(LazyBoostedTrees(**options))


def test_the_pace_follows_its_rule() -> None:
    pace = Pace().after_fit()
    pace = pace.after_loss(0.5, falls=False)
    assert (pace.reference, pace.excess, pace.judged) == (0.5, 0.0, True)
    pace = pace.after_loss(0.515, falls=False)
    assert pace.excess == pytest.approx(0.015)
    assert pace.after_loss(0.3, falls=False).excess == 0.0
    assert pace.after_loss(math.nan, falls=True) == pace
    fallen = pace.after_loss(0.3, falls=True)
    assert fallen.reference == 0.3
    assert fallen.excess == pytest.approx(0.015)
    assert fallen.after_loss(0.4, falls=True).excess == pytest.approx(0.115)
    pace = pace.after_fit().after_loss(1.0, falls=False)
    assert pace.reference == pytest.approx(0.6)
    assert pace.excess == pytest.approx(0.4)


def test_it_is_fitted_when_its_loss_rises_and_seldom_otherwise() -> None:
    _, _, fits = taught(LazyBoostedTrees(), batches(60, 50))
    calm = [step for step in fits if 20 <= step < 50]
    assert len(calm) < 15
    assert 50 in fits


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_batch_that_was_tested_is_not_predicted_again(task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [0]

    def counted(self: Any, fitted: Any, X: Any, scored: Any = LazyBoostedTrees._scored) -> Any:
        counts[0] += 1
        return scored(self, fitted, X)

    monkeypatch.setattr(LazyBoostedTrees, "_scored", counted)
    K = 0 if task == "regression" else 2
    told, untold = (Oblivious(LazyBoostedTrees(task=task)) for _ in range(2))
    for strategy in (told, untold):
        strategy.begin(3, sparse=False, n_classes=K)
    for X, y in batches(12, 6):
        batch = Batch(X, y, np.ones(len(y)))
        scores = told.test_scores(batch)
        before = counts[0]
        told.step(batch, scores)
        assert counts[0] == before
        untold.step(batch)
    assert counts[0] > before
    assert to_bytes(told.state()) == to_bytes(untold.state())


def test_scores_of_other_rows_are_not_used() -> None:
    samples, other = Samples(3), Samples(3)
    model, twin = (LazyBoostedTrees().fresh(seed=0, n_features=3, n_classes=2) for _ in range(2))
    for step, (X, y) in enumerate(batches(6, 3)):
        new = samples.append(X, y)
        model.set_scores(Segment(0, 7), np.zeros((7, 2)))
        if step % 2:
            model.set_scores(new, None)
        model.update(samples, new, 10_000)
        twin.update(other, other.append(X, y), 10_000)
    assert model._fitted.memory == twin._fitted.memory


@pytest.mark.parametrize(("classes", "columns"), [(0, 3), (2, 3), (4, 3), (2, 80)])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_fits_what_lightgbm_fits_through_scikit_learn(classes: int, columns: int, weighted: bool) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(600, columns))
    y = X[:, 0] if not classes else np.digitize(X[:, 0] * X[:, 1], np.linspace(-1, 1, classes + 1)[1:-1]).astype(float)
    model: Any = LazyBoostedTrees(task="classification" if classes else "regression").fresh(5, columns, classes)
    samples = Samples(columns)
    new = samples.append(X, y, weight=random.uniform(0.5, 2.0, 600) if weighted else None)
    model.update(samples, new, 10_000)
    known = model._fitted
    weight = {"sample_weight": samples.view(new).weight} if weighted else {}
    expected = model._new(known).fit(X, y if not classes else y.astype(int), **weight)
    found = expected.predict_proba(X) if classes else expected.predict(X)
    assert (np.exp(model.scores(X)) if classes else model.scores(X)) == pytest.approx(found, rel=1e-12)


def test_its_options_say_how_patient_it_is() -> None:
    usual, patient = (taught(LazyBoostedTrees(**options), batches(60, 50))[2] for options in ({}, PATIENT))
    assert len(patient) < len(usual)
    assert all((after - before) / (after + 1) >= 0.2 for before, after in itertools.pairwise(patient))
    model, _, _ = taught(LazyBoostedTrees(bins=7), batches(3, 9))
    assert model._fitted.model.booster_.params["max_bin"] == 7
    wrong: dict[str, Any] = {"tolerance": -1.0, "least_new": 1.0, "renewed": 0.0, "bins": 1}
    for name, bad in wrong.items():
        with pytest.raises(OptionError) as caught:
            LazyBoostedTrees(**{name: bad}).fresh(seed=0, n_features=2, n_classes=2)
        assert name in str(caught.value)


def test_a_short_window_is_fitted_at_once_after_a_sudden_change() -> None:
    _, _, fits = taught(LazyBoostedTrees(batches=4), batches(20, 11))
    assert fits[:7] == [0, 2, 4, 6, 8, 10, 11]


def test_a_short_window_has_the_rows_of_the_last_batches() -> None:
    model, _, fits = taught(LazyBoostedTrees(batches=4), batches(11, 99))
    assert fits == [0, 2, 4, 6, 8, 10]
    assert (model._fitted.fit.lo, model._fitted.fit.hi) == (700, 1100)
    assert model.needs() == 700


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("batches_", [None, 1, 4])
def test_small_batches_are_gathered(batches_: int | None, size: int) -> None:
    stream = list(batches(700 // size, 10_000, size=size))
    model, _, fits = taught(LazyBoostedTrees(batches=batches_), stream)
    starts = [step * size for step in fits]
    early = [start for start in starts if start < 64]
    assert early[:2] == [0, size]
    assert len(early) <= 8
    assert starts[-1] > 400
    assert all(after - before >= 64 for before, after in itertools.pairwise(starts[len(early) :]))
    if batches_ is not None:
        assert batches_ * 64 <= model._fitted.fit.hi - model._fitted.fit.lo < batches_ * (64 + size)


def test_gathered_batches_decide_as_one() -> None:
    """What is decided after 64 rows is what would be decided if they came together."""
    learner, samples, other = LazyBoostedTrees(task="regression"), Samples(3), Samples(3)
    model, twin = (learner.fresh(seed=0, n_features=3, n_classes=0) for _ in range(2))
    for X, y in batches(12, 6, size=64):
        twin.update(other, other.append(X, y), 10_000)
        rows = range(64) if model._fitted.fit is not None else [slice(None)]
        for one in rows:
            model.update(samples, samples.append(X[one].reshape(-1, 3), y[one].reshape(-1)), 10_000)
        assert model._fitted.fit is not None
        assert twin._fitted.fit is not None
        assert model._fitted.fit.hi == twin._fitted.fit.hi
        found, expected = ([*vars(one._fitted.memory).values()] for one in (model, twin))
        assert found[:4] == pytest.approx(expected[:4], nan_ok=True)


@pytest.mark.parametrize("size", [100, 9])
@pytest.mark.parametrize("batches_", [None, 4])
def test_resumed_in_the_middle_it_is_the_same(batches_: int | None, size: int) -> None:
    learner = LazyBoostedTrees(batches=batches_)
    model, samples, _ = taught(learner, batches(13, 7, size=size))
    again = LazyBoostedTrees.from_state(learner, model.state())
    again.refit(samples)
    for X, y in batches(16, 2, seed=1, size=size):
        new = samples.append(X, y)
        for one in (model, again):
            one.update(samples, new, 10_000)
        assert np.array_equal(model.scores(X), again.scores(X))
        assert model._fitted.memory == again._fitted.memory


def test_a_damaged_pace_is_refused() -> None:
    learner = LazyBoostedTrees(batches=3)
    state = taught(learner, batches(5, 9))[0].state()
    for name, bad in (("pace.excess", -1.0), ("pace.starts", np.array([3, 2])), ("pace.waited", -1), ("pace.rows", -1)):
        with pytest.raises(StateError):
            LazyBoostedTrees.from_state(learner, state | {name: bad})
    with pytest.raises(OptionError):
        LazyBoostedTrees(batches=0).fresh(seed=0, n_features=2, n_classes=2)


def test_damaged_trees_of_a_frozen_model_are_refused() -> None:
    with pytest.raises(StateError, match="saved trees cannot be read"):
        LazyBoostedTrees().frozen_scorer({"n_features": 2, "n_classes": 2, "trees": "no trees"})
