"""Any number of classes, and regression, from raw input to predictions: sessions, estimators, evaluation."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from estimator_checks import EXPECTED_FAILURES
from generic_steps import stepping_generically
from live_runs import live_run, run_to_end
from scipy.sparse import csr_matrix
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from driftsurf import DriftSurfClassifier, DriftSurfRegressor, prequential
from driftsurf.core.state import to_bytes
from driftsurf.core.targets import ClassTargets, RegressionTargets, targets_of
from driftsurf.errors import CapabilityError, DivergenceError, InputError, LabelError, NonFiniteError, OptionError
from driftsurf.evaluation import Trace, summarise_classification, summarise_regression
from driftsurf.evaluation.scoring import TraceRecorder
from driftsurf.learners import LinearRegression, LinearSVM, LogisticRegression, SoftmaxRegression
from driftsurf.runs.batches import StreamBatches
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.folder import TRACE
from driftsurf.runs.live import LiveRun
from driftsurf.session.late import DelayedLabels
from driftsurf.session.session import Session
from driftsurf.strategies import AUE, DriftSurf
from driftsurf.streams import SEA

NAMES = np.array(["d", "b", "a", "c"])
Rows = npt.NDArray[np.float64]


def rows_of_classes(n: int, k: int = 3, seed: int = 0) -> tuple[Rows, npt.NDArray[Any]]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4))
    return X, NAMES[(X @ np.random.default_rng(9).normal(size=(4, k))).argmax(axis=1)]


def rows_of_values(n: int, seed: int = 0, sign: float = 1.0) -> tuple[Rows, npt.NDArray[np.float64]]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4))
    return X, 500.0 + 10.0 * sign * X[:, 0] + random.normal(size=n)


def session(learner: Any = None, **options: Any) -> Session:
    return Session(DriftSurf(SoftmaxRegression() if learner is None else learner, seed=0), **options)


# ---------------------------------------------------------------------------- scores and targets


def test_the_class_with_the_largest_score_is_predicted_and_ties_go_to_the_smaller_label() -> None:
    classes = ClassTargets(("c", "a", "b"))
    scores = np.log(np.array([[0.2, 0.5, 0.3], [0.4, 0.2, 0.4], [1.0, 1.0, 1.0]]))
    assert classes.decode(classes.predicted(scores)).tolist() == ["a", "b", "a"]
    two = ClassTargets(("b", "a"))
    assert two.decode(two.predicted(np.zeros((1, 2)))).tolist() == ["a"]
    assert two.decode(two.predicted(np.log([[0.7, 0.3]]))).tolist() == ["b"]


def test_a_class_that_was_not_learned_is_not_predicted() -> None:
    classes = ClassTargets(("c", "a", "b"))
    scores = np.log(np.array([[0.2, 0.5, 0.3]]))
    assert np.exp(classes.restrict(scores, n_classes_learned=0)) == pytest.approx(np.full((1, 3), 1 / 3))
    assert np.exp(classes.restrict(scores, n_classes_learned=2)) == pytest.approx(np.array([[2 / 7, 5 / 7, 0.0]]))
    assert np.exp(classes.restrict(scores[:, :2], n_classes_learned=2)) == pytest.approx(np.array([[0.2, 0.5, 0.0]]))
    assert classes.restrict(scores, n_classes_learned=3) is scores


@pytest.mark.parametrize(
    ("y", "error"),
    [
        (None, LabelError),
        ([1.0], InputError),
        ([[1.0, 2.0]], InputError),
        ([1.0, np.nan], NonFiniteError),
        ([1.0, np.inf], NonFiniteError),
        (["a", "b"], InputError),
        (np.array([1.0, "x"], object), InputError),
        (np.array([1.0, 2j]), InputError),
    ],
)
def test_targets_of_a_regression_must_be_finite_numbers(y: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        RegressionTargets().read(y, 2)


def test_targets_of_any_number_type_are_accepted() -> None:
    for y in ([1, 2], np.array([[1], [2]]), np.array([1, 2], object), np.array([1, 2], np.float32)):
        assert RegressionTargets().read(y, 2)[1].tolist() == [1.0, 2.0]
    assert RegressionTargets.from_state(RegressionTargets().state()) == RegressionTargets()


def test_targets_whose_squares_overflow_are_refused() -> None:
    for y in ([1.0, -1e200], [1.0, 10**200]):
        with pytest.raises(LabelError, match=r"y\[1\].* -?1e\+200.* 1e\+150"):
            RegressionTargets().read(y, 2)
    assert RegressionTargets().read([1e150], 1)[1].tolist() == [1e150]


def test_a_regression_has_no_classes() -> None:
    with pytest.raises(LabelError, match="classes"):
        targets_of(LinearRegression.capabilities, [1, 2])
    with pytest.raises(LabelError, match="classes"):
        session(LinearRegression()).learn(*rows_of_values(10), classes=[1])


# ---------------------------------------------------------------------------- many classes


def test_an_open_set_of_classes_grows_with_the_rows_and_so_do_the_models() -> None:
    X, y = rows_of_classes(600, 4)
    one = session()
    order = np.argsort(np.isin(y, ["a", "c"]), kind="stable")  # a and c come last
    X, y = X[order], y[order]
    first = int(np.isin(y, ["b", "d"]).sum())
    one.learn(X[:first], y[:first])
    assert one.strategy.scores(X).shape == (600, 2)
    seen = one.observe(X[first:], y[first:])
    assert set(seen.labels) <= {"b", "d"}
    assert seen.scores.shape == (600 - first, 4)
    assert np.allclose(seen.log_losses(), -np.log(1e-15))
    for _ in range(5):
        one.learn(X, y)
    assert np.mean(one.predict(X) == y) > 0.8
    assert np.exp(one.scores(X)).sum(axis=1) == pytest.approx(np.ones(600))


def test_a_failing_step_undoes_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows_of_classes(300)
    one, undisturbed = session(), session()
    stepping_generically(one.strategy)
    two = np.isin(y, np.unique(y)[:2])
    for each in (one, undisturbed):
        each.learn(X[two], y[two])
    before = to_bytes(one.state())

    def fail(*_: Any) -> None:
        raise DivergenceError("on purpose")

    monkeypatch.setattr(one.strategy, "_decision", fail)
    with pytest.raises(DivergenceError):
        one.learn(X, y)
    assert to_bytes(one.state()) == before
    monkeypatch.undo()
    for each in (one, undisturbed):
        each.learn(X, y)
    assert to_bytes(one.state()) == to_bytes(undisturbed.state())


@pytest.mark.parametrize("sizes", [[300], [1] * 300, [7, 150, 143]])
def test_with_a_buffer_the_split_over_calls_does_not_matter(sizes: list[int]) -> None:
    X, y = rows_of_classes(300)
    order = np.argsort(y == "a", kind="stable")
    X, y = X[order], y[order]
    whole, parts = session(batch_size=50), session(batch_size=50)
    expected = whole.observe(X, y).labels
    ends = np.cumsum(sizes)
    got = [
        parts.observe(X[end - size : end], y[end - size : end]).labels for size, end in zip(sizes, ends, strict=True)
    ]
    assert to_bytes(parts.state()) == to_bytes(whole.state())
    assert np.concatenate(got)[50:].tolist() == expected[50:].tolist()


def test_a_restored_session_continues_bit_for_bit() -> None:
    X, y = rows_of_classes(400)
    for learner, target in ((SoftmaxRegression(), y), (LinearRegression(), rows_of_values(400)[1])):
        one, other = session(learner), session(learner)
        one.learn(X[:200], target[:200])
        other.restore(one.state())
        for each in (one, other):
            each.learn(X[200:], target[200:])
        assert to_bytes(one.state()) == to_bytes(other.state())


def test_a_binary_learner_accepts_at_most_two_classes() -> None:
    X, y = rows_of_classes(100)
    with pytest.raises(LabelError, match="Only binary"):
        session(LinearSVM()).learn(X, y)


def test_columns_of_probabilities_follow_the_sorted_classes() -> None:
    X, y = rows_of_classes(2000, 4)
    model = DriftSurfClassifier(SoftmaxRegression(), random_state=0)
    for start in range(0, 2000, 200):
        model.partial_fit(X[start : start + 200], y[start : start + 200])
    shares = model.predict_proba(X)
    assert model.classes_.tolist() == ["a", "b", "c", "d"]
    assert model.classes_[shares.argmax(axis=1)].tolist() == model.predict(X).tolist()
    assert np.array_equal(model.decision_function(X).argmax(axis=1), shares.argmax(axis=1))
    assert model.score(X, y) > 0.9
    assert model.from_bytes(model.to_bytes()).predict_proba(X).tolist() == shares.tolist()
    assert pickle.loads(pickle.dumps(model)).predict_proba(X).tolist() == shares.tolist()


@pytest.mark.parametrize("labels", [["b", "a"], ["b"]])
def test_log_probabilities_of_one_and_two_classes_give_margins(labels: list[str]) -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = np.where(X[:, 0] > 0, labels[0], labels[-1])
    model = DriftSurfClassifier(SoftmaxRegression(), random_state=0).partial_fit(X, y)
    margins = model.decision_function(X)
    assert margins.shape == (200,)
    assert model.predict(X).tolist() == model.classes_[(margins > 0).astype(int) * (len(labels) - 1)].tolist()
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(200))


def test_a_learner_without_probabilities_has_no_predict_proba() -> None:
    X, y = rows_of_classes(200, 2)
    model = DriftSurfClassifier(LinearSVM(), random_state=0)
    assert not hasattr(model, "predict_proba")
    seen = model.observe(X, y)
    assert not hasattr(model, "predict_proba")
    assert np.isnan(seen.log_losses()).all()
    assert model.partial_fit(X, y).score(X, y) > 0.9
    assert hasattr(DriftSurfClassifier(), "predict_proba")


# ---------------------------------------------------------------------------- regression


def test_a_regressor_learns_and_adapts() -> None:
    model = DriftSurfRegressor(random_state=0)
    errors = []
    for step in range(30):
        X, y = rows_of_values(200, seed=step, sign=1.0 if step < 15 else -1.0)
        seen = model.observe(X, y)
        assert np.array_equal(seen.squared_errors(), (seen.labels - y) ** 2)
        assert seen.errors == 200
        assert np.isnan(seen.log_losses()).all()
        errors.append(seen.squared_errors().mean())
    assert [(t.kind, t.step) for t in model.journal_.transitions] == [("entered", 15), ("greedy", 16), ("switched", 18)]
    assert errors[14] < 2.0
    assert errors[15] > 100.0
    assert errors[-1] < 2.0
    X, y = rows_of_values(200, seed=99, sign=-1.0)
    assert model.score(X, y) > 0.95
    again = DriftSurfRegressor.from_bytes(model.to_bytes())
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert model.test_then_train(csr_matrix(X), y).tolist() == again.test_then_train(X, y).tolist()


def test_a_regressor_accepts_rows_of_any_kind_and_weights() -> None:
    X, y = rows_of_values(500)
    wrong = y.copy()
    wrong[::2] = 0.0
    model = DriftSurfRegressor(random_state=0, batch_size=50)
    for _ in range(3):
        model.partial_fit(csr_matrix(X), wrong, sample_weight=np.tile([0.0, 1.0], 250))
    model.flush()
    assert model.score(X, y) > 0.9


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [DriftSurfRegressor(), DriftSurfClassifier(SoftmaxRegression()), DriftSurfClassifier(DecisionTreeClassifier())],
    expected_failed_checks=lambda model: {} if isinstance(model.learner, DecisionTreeClassifier) else EXPECTED_FAILURES,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (DriftSurfRegressor(LogisticRegression()), "'regression'"),
        (DriftSurfClassifier(LinearRegression()), "'binary'"),
        (DriftSurfRegressor(SGDClassifier()), "'regression'"),
    ],
)
def test_a_learner_for_another_task_is_refused_by_name(model: Any, error: str) -> None:
    with pytest.raises(CapabilityError, match=error):
        model.fit(np.zeros((2, 1)), [0, 1])


def test_a_regressor_works_in_a_pipeline() -> None:
    X, y = rows_of_values(2000)
    assert make_pipeline(StandardScaler(), DriftSurfRegressor(random_state=0)).fit(X, y).score(X, y) > 0.95


def test_a_vote_of_regressors_is_their_weighted_mean() -> None:
    one = Session(AUE(LinearRegression(), experts=3, seed=0), guard=None)
    X, y = rows_of_values(100)
    assert one.observe(X, y).predicted.tolist() == [0.0] * 100
    for seed in range(1, 6):
        one.learn(*rows_of_values(100, seed))
    live = one.strategy._live  # type: ignore[attr-defined]
    mean = sum(w * e.learner.scores(X) for w, e in zip(live.weights, live.experts, strict=True))
    assert one.scores(X) == pytest.approx(mean)
    assert np.mean((one.predict(X) - y) ** 2) < 3.0


# ---------------------------------------------------------------------------- evaluation


class ValueStream:
    """A stream with numbers as targets."""

    name, n_rows, classes, drifts = "values", 1000, (), ()

    def __len__(self) -> int:
        return self.n_rows

    def batches(self, size: int) -> Iterator[tuple[Rows, npt.NDArray[np.float64]]]:
        for step in range(1000 // size):
            yield rows_of_values(size, seed=step)


def test_a_regression_stream_has_squared_and_absolute_errors() -> None:
    models = {"ours": DriftSurfRegressor(random_state=0), "theirs": SGDRegressor(random_state=0)}
    steps: list[float] = []
    trace = prequential(ValueStream(), models, batch_size=100, on_step=lambda *a: steps.append(a[2]))
    assert trace.labels == ()
    ours = trace.of("ours")
    assert steps[::2] == np.sqrt(ours["squared_error"]).tolist()
    assert ours["squared_error"][0] > 1e5
    assert (ours["squared_error"][1:] < 50.0).all()
    assert (np.square(ours["absolute_error"]) <= ours["squared_error"]).all()
    (_, first), (_, second) = rows_of_values(100), rows_of_values(100, seed=1)
    assert ours["persistence_error"][0] == pytest.approx(np.square(first).mean())  # nothing is known: it predicts 0
    assert ours["persistence_error"][1] == pytest.approx(np.square(second - first[-1]).mean())
    again = Trace.from_csv(trace.to_csv())
    assert all(np.array_equal(again.columns[name], column) for name, column in trace.columns.items())
    summary = summarise_regression(trace, "ours")
    assert summary.mean_squared_error == pytest.approx(ours["squared_error"].mean())
    assert summary.root_mean_squared_error == pytest.approx(ours["squared_error"].mean() ** 0.5)
    assert summary.skill == pytest.approx(1 - ours["squared_error"].mean() / ours["persistence_error"].mean())
    with pytest.raises(OptionError, match="summarise_regression"):
        summarise_classification(trace, "ours")
    with pytest.raises(OptionError, match="summarise_classification"):
        summarise_regression(prequential(SEA(n_rows=200), DriftSurfClassifier(), batch_size=100), "model")


def test_a_resumed_run_of_a_regression_has_the_trace_of_prequential(tmp_path: Path) -> None:
    stream: Any = ValueStream()
    reported: list[float] = []

    def begun(folder: CheckpointFolder) -> LiveRun:
        sessions = {"model": Session(DriftSurf(LinearRegression(), seed=0))}
        return live_run(StreamBatches(stream, 100), sessions, TraceRecorder(stream, 100), folder, every=2)

    class Enough(Exception):
        pass

    def report(step: int, model: str, error: float, decisions: object) -> None:
        reported.append(error)
        if step == 4 and len(reported) == 5:
            raise Enough

    with CheckpointFolder(tmp_path) as folder, begun(folder) as run:
        run.begin()
        with pytest.raises(Enough):
            run_to_end(run, report)
    with CheckpointFolder(tmp_path) as folder, begun(folder) as run:
        saved = folder.load()
        assert saved is not None
        run.resume(saved)
        run_to_end(run, report)
        text = run.text(TRACE)
    trace = prequential(stream, Session(DriftSurf(LinearRegression(), seed=0)), batch_size=100)
    assert text == trace.to_csv()
    assert reported[:5] + reported[6:] == np.sqrt(trace.of("model")["squared_error"]).tolist()


def test_a_regressor_is_saved_to_a_file(tmp_path: Path) -> None:
    model = DriftSurfRegressor(random_state=0).fit(*rows_of_values(300))
    model.save(tmp_path / "model.state")
    assert DriftSurfRegressor.load(tmp_path / "model.state").to_bytes() == model.to_bytes()


def test_rows_can_be_judged_without_learning() -> None:
    X, y = rows_of_classes(200, k=4)
    some = session()
    some.learn(X[:100], np.where(y[:100] == "c", "a", y[:100]))
    seen = some.judge(X[100:], y[100:])
    assert seen.scores.shape == (100, 4)
    assert seen.error == pytest.approx(np.mean(seen.labels != y[100:]))
    values = session(LinearRegression())
    values.learn(*rows_of_values(100))
    X, z = rows_of_values(100, seed=1)
    assert values.judge(X, z).error == pytest.approx(np.sqrt(np.mean((values.predict(X) - z) ** 2)))


def test_targets_of_a_regression_may_arrive_late() -> None:
    X, y = rows_of_values(200)
    delayed, plain = DelayedLabels(session(LinearRegression())), session(LinearRegression())
    for at in range(0, 200, 50):
        delayed.predict(range(at, at + 50), X[at : at + 50])
        joined = delayed.label(range(at, at + 50), y[at : at + 50])
        plain.learn(X[at : at + 50], y[at : at + 50])
        assert joined.true.tolist() == y[at : at + 50].tolist()
    assert to_bytes(delayed.model.state()) == to_bytes(plain.state())
    assert (delayed.counts.scored, delayed.counts.errors) == (150, None)
    assert np.isnan(delayed.counts.error)
    again = DelayedLabels(session(LinearRegression()))
    again.restore(delayed.state())
    assert again.counts == delayed.counts
