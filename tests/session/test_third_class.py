"""A third class in mid-stream turns logistic regression into softmax regression and is learned by every classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from driftsurf import DriftSurfClassifier, Fleet, estimators
from driftsurf.core.contracts import Segment
from driftsurf.core.samples import Samples
from driftsurf.core.state import to_bytes
from driftsurf.errors import CapabilityError, LabelError, OptionError
from driftsurf.learners import LogisticRegression, SoftmaxRegression
from driftsurf.learners._linear import Linear
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

CLASSIFIERS = sorted(
    name for name in estimators.__all__ if name.endswith("Classifier") and name not in ("AdaptiveClassifier",)
)
SIZE = 100


def three(rows: int = 2400, third_from: int = 600) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return rows of three classes; the third one appears later than the others."""
    X = np.random.default_rng(0).normal(size=(rows, 3))
    y = np.array(["b", "a", "c"])[np.argmax(np.column_stack([X[:, :2], -X[:, :2].sum(axis=1)]), axis=1)]
    y[:third_from][y[:third_from] == "c"] = "a"
    return X, y


@pytest.mark.parametrize("optimizer", ["strsaga", "sgd"])
def test_a_grown_model_predicts_as_before_and_its_undo_is_exact(optimizer: Any) -> None:
    X, y = three(500, 500)
    samples = Samples(3)
    new = samples.append(X, (y == "a").astype(float))
    template = LogisticRegression(optimizer=optimizer)
    model = template.fresh(0, 3, 2)
    model.update(samples, new, 900)
    before, margins = to_bytes(model.state()), model.scores(X)
    model.grow(3)()  # the undo
    assert to_bytes(model.state()) == before
    model.grow(3)
    scores = model.scores(X)
    assert np.allclose(scores[:, 1] - scores[:, 0], margins, rtol=1e-12)
    assert np.exp(scores[:, 2]).max() <= 1 / 3
    again = LogisticRegression.from_state(template, model.state())
    assert np.array_equal(again.scores(X), scores)
    more = samples.append(X[:100], np.full(100, 2.0))
    for each in (model, again):
        each.update(samples, more, 200)
        each.forget(samples, 50)
    assert to_bytes(model.state()) == to_bytes(again.state())


def test_a_model_that_cannot_grow_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = three(200, 200)
    samples = Samples(3)
    model = LogisticRegression().fresh(0, 3, 2)
    model.update(samples, samples.append(X, (y == "a").astype(float)), 400)
    before = to_bytes(model.state())

    def exhausted(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(Linear, "widened", exhausted)
    with pytest.raises(MemoryError):
        model.grow(3)
    assert to_bytes(model.state()) == before
    model.grow(2)()
    assert to_bytes(model.state()) == before


def test_the_gradients_of_a_grown_model_are_those_of_softmax_regression() -> None:
    X, y = three(300, 300)
    samples = Samples(3)
    new = samples.append(X, (y == "a").astype(float))
    model = LogisticRegression().fresh(0, 3, 2)
    model.update(samples, new, 600)
    model.grow(3)
    state: dict[str, Any] = model.state()
    table, factor, centre = state["table"], state["factor"], state["centre"]
    rows = np.column_stack([X[: len(table)], np.ones(len(table))]) - centre
    rows[:, -1] = 1.0
    expected = np.square(factor)[:, None] * (rows.T @ np.nan_to_num(table))
    assert np.allclose(state["gradient_sum"], expected, atol=1e-9)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_learns_a_third_class_and_resumes_exactly(name: str) -> None:
    X, y = three()
    kind = getattr(estimators, name)
    model, saved = kind(random_state=0), kind(random_state=0)
    errors = []
    for i in range(0, len(y), SIZE):
        rows, labels = X[i : i + SIZE], y[i : i + SIZE]
        if name == "CandorClassifier" and "c" in labels:
            before = model.to_bytes()
            with pytest.raises(CapabilityError, match="'multiclass'"):
                model.partial_fit(rows, labels)
            assert model.to_bytes() == before
            return
        seen = model.observe(rows, labels)
        errors.append(seen.error)
        # A portfolio has a score for each class from the start.
        assert seen.scores.ndim == (2 if "c" in model.classes_ or name == "PortfolioClassifier" else 1)
        assert np.isfinite(seen.log_losses()).all()
        assert saved.test_then_train(rows, labels).tolist() == seen.labels.tolist()
        saved = kind.from_bytes(saved.to_bytes())
    assert saved.to_bytes() == model.to_bytes()
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert np.allclose(model.predict_proba(X[:5]).sum(axis=1), 1.0)
    assert np.mean(errors[-4:]) < 0.25


def test_more_than_two_classes_from_the_start_are_softmax_regression() -> None:
    X, y = three(1000, 0)
    one, other = (Session(DriftSurf(kind(), seed=0)) for kind in (LogisticRegression, SoftmaxRegression))
    for i in range(0, 1000, SIZE):
        seen = [each.observe(X[i : i + SIZE], y[i : i + SIZE]).scores for each in (one, other)]
        assert np.array_equal(seen[0], seen[1])


def test_a_failed_step_leaves_a_model_of_two_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = three()
    one = Session(DriftSurf(LogisticRegression(), seed=0))
    one.learn(X[:500], y[:500])
    before = to_bytes(one.state())

    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("on purpose")

    monkeypatch.setattr(one.strategy, "_from_cell", fail)  # after the batch was learned
    with pytest.raises(ValueError, match="on purpose"):
        one.observe(X[600:700], y[600:700])
    monkeypatch.undo()
    assert to_bytes(one.state()) == before
    assert one.scores(X[:3]).shape == (3,)


def test_a_third_class_may_wait_in_the_buffer() -> None:
    X, y = three(1000, 250)
    plain = DriftSurfClassifier(random_state=0, batch_size=100)
    single = DriftSurfClassifier(random_state=0, batch_size=100)
    shown = plain.test_then_train(X, y)
    one_by_one = [single.test_then_train(X[i : i + 1], y[i : i + 1])[0] for i in range(len(y))]
    # The first batch is predicted before its labels are known; whole calls know the names of all their labels.
    assert shown[100:].tolist() == one_by_one[100:]
    assert plain.to_bytes() == single.to_bytes()
    assert plain.predict_proba(X[:2]).shape == (2, 3)


def test_the_sets_of_classes_that_stay_closed() -> None:
    X, y = three(300, 0)
    with pytest.raises(LabelError, match="'c'"):
        DriftSurfClassifier(classes=["a", "b"]).partial_fit(X, y)
    with pytest.raises(OptionError, match=r"\(0, 1, 2\)"):
        Fleet(n_features=3, classes=(0, 1, 2), step_size=0.1, l2=1e-3).observe(["key"], X[:1], [0])


def test_segments_of_grown_models_are_released() -> None:
    X, y = three()
    one = Session(DriftSurf(LogisticRegression(), max_rows=300, seed=0))
    for i in range(0, len(y), SIZE):
        one.learn(X[i : i + SIZE], y[i : i + SIZE])
    samples = one.strategy._pool.samples  # type: ignore[attr-defined]
    assert len(samples.view(Segment(samples.first_row, samples.next_row)).y) <= 300
