"""Statistics of each step: confusion, ROC AUC, calibration, residuals, and precision, recall and F1 of a trace."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn import metrics

from driftsurf import DriftSurfClassifier, prequential
from driftsurf.errors import InputError
from driftsurf.evaluation.scores import ScoreRecorder, Scores
from driftsurf.evaluation.summary import class_metrics, class_metrics_over_time
from driftsurf.evaluation.trace import OTHER
from driftsurf.learners import LinearRegression, LogisticRegression, SoftmaxRegression
from driftsurf.session.observation import Observation
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf
from driftsurf.streams import SEA

RNG = np.random.default_rng(5)


def observed(n_classes: int, batches: int = 4, rows: int = 400) -> tuple[ScoreRecorder, list[Observation]]:
    """Return a recorder and observations of a session that learned blobs, one for each class, with noise."""
    learner = LogisticRegression() if n_classes == 2 else SoftmaxRegression()
    session = Session(DriftSurf(learner), classes=[f"c{k}" for k in range(n_classes)])
    centres = RNG.normal(size=(n_classes, 3))
    seen = []
    for _ in range(batches):
        y = RNG.integers(n_classes, size=rows)
        X = centres[y] + RNG.normal(size=(rows, 3))
        seen.append(session.observe(X, [f"c{k}" for k in y]))
    return ScoreRecorder(lambda: session.targets.labels, warmup_steps=1), seen


def recorded(recorder: ScoreRecorder, seen: list[Observation]) -> Scores:
    text = recorder.head() + "".join(recorder.lines(None, {"model": one}) for one in seen)
    return Scores.from_text(text, recorder.warmup_steps)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_statistics_of_classes_are_those_of_scikit_learn(n_classes: int) -> None:
    recorder, seen = observed(n_classes)
    scores = recorded(recorder, seen)
    true = np.concatenate([one.true for one in seen[1:]]).astype(int)
    predicted = np.concatenate([one.predicted for one in seen[1:]]).astype(int)
    raw = np.concatenate([one.scores for one in seen[1:]])
    labels, table = scores.confusion()
    assert labels == [f"c{k}" for k in range(n_classes)]
    np.testing.assert_array_equal(table, metrics.confusion_matrix(true, predicted))
    probability = 1 / (1 + np.exp(-raw)) if n_classes == 2 else np.exp(raw)
    assert scores.auc == pytest.approx(metrics.roc_auc_score(true, probability, multi_class="ovr"), abs=2e-3)
    last = seen[-1]
    own = probability[-len(last.true) :]
    expected = metrics.roc_auc_score(last.true.astype(int), own, multi_class="ovr")
    assert scores.column("auc")[-1] == pytest.approx(expected, abs=5e-3)
    mean, share, rows = scores.calibration()
    assert rows.sum() == len(true)
    hits, chosen = (true == 1, probability) if n_classes == 2 else (true == predicted, probability.max(axis=1))
    assert np.dot(share, rows) == pytest.approx(hits.sum())
    assert np.dot(mean, rows) == pytest.approx(chosen.sum())
    assert np.all(np.diff(mean) > 0)
    places = np.minimum(20 * chosen, 19).astype(int)
    gaps = [abs((chosen - hits)[places == place].sum()) for place in range(20)]
    assert scores.calibration_error() == pytest.approx(sum(gaps) / len(true), abs=1e-5)
    means, shares = scores.calibration_over_time()
    assert (means[-1], shares[-1]) == (pytest.approx(chosen[-400:].mean()), hits[-400:].mean())


@pytest.mark.parametrize("learner", [LogisticRegression, SoftmaxRegression])
def test_statistics_count_the_rows_before_a_class_appeared(learner: Any) -> None:
    session, rng = Session(DriftSurf(learner())), np.random.default_rng(2)
    recorder = ScoreRecorder(lambda: session.targets.labels)
    seen = []
    text = ""
    for step in range(6):
        y = rng.integers(1 if step == 0 else 2 if step < 3 else 3, size=100)
        seen.append(session.observe(rng.normal(size=(100, 3)) + 1.5 * np.eye(3)[y], y))
        text += recorder.lines(None, {"model": seen[-1]})
        recorder.restore(recorder.state())
    scores = Scores.from_text(text)
    true = np.concatenate([one.true for one in seen]).astype(int)
    shares = np.vstack([_probabilities(one) for one in seen])
    each = [metrics.roc_auc_score(true == k, shares[:, k]) for k in range(3)]
    assert scores.auc == pytest.approx(np.mean(each), abs=2e-3)
    chosen, hits = shares.max(axis=1), np.concatenate([one.true == one.predicted for one in seen])
    mean, share, rows = scores.calibration()
    assert scores.probability_of == "predicted"
    assert (np.dot(mean, rows), np.dot(share, rows), rows.sum()) == (
        pytest.approx(chosen.sum(), abs=1e-3),
        pytest.approx(hits.sum()),
        600,
    )
    with pytest.raises(InputError, match="second"):
        scores.calibration("second")


def _probabilities(one: Observation) -> Any:
    """Return the probabilities of three classes; 0 for those that had not appeared."""
    logs = one.scores
    if logs.ndim == 1:
        logs = -np.logaddexp(0.0, np.column_stack([logs, -logs]))
    return np.pad(np.exp(logs), ((0, 0), (0, 3 - logs.shape[1])))


def test_recording_continues_from_its_state() -> None:
    recorder, seen = observed(3)
    whole = "".join(recorder.lines(None, {"model": one}) for one in seen)
    first, second = ScoreRecorder(recorder.labels, 1), ScoreRecorder(recorder.labels, 1)
    text = "".join(first.lines(None, {"model": one}) for one in seen[:2])
    second.restore(first.state())
    assert text + "".join(second.lines(None, {"model": one}) for one in seen[2:]) == whole


def test_classes_without_a_place_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftsurf.evaluation.scores.MOST_CLASSES", 2)
    recorder, seen = observed(4)
    labels, table = recorded(recorder, seen).confusion()
    assert labels == ["c0", "c1", OTHER]
    assert table.sum() == 1200
    assert table[:, 2].sum() == sum(int((one.predicted >= 2).sum()) for one in seen[1:])


def test_a_class_called_other_is_counted_with_those_without_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftsurf.evaluation.scores.MOST_CLASSES", 2)
    recorder, seen = observed(4)
    recorder.labels = lambda: (OTHER, "c1", "c2", "c3")
    labels, table = recorded(recorder, seen).confusion()
    codes = [[np.where(column == 1, 0, 1) for column in (one.true, one.predicted)] for one in seen[1:]]
    true, predicted = np.concatenate(codes, axis=1)
    assert labels == ["c1", OTHER]
    np.testing.assert_array_equal(table, metrics.confusion_matrix(true, predicted))


def test_a_run_of_warm_up_steps_has_all_statistics_of_them() -> None:
    recorder, seen = observed(2)
    recorder.warmup_steps = 2
    scores, whole = recorded(recorder, seen[:2]), recorded(ScoreRecorder(recorder.labels), seen[:2])
    assert scores.auc == whole.auc
    assert scores.confusion()[1].sum() == scores.calibration()[2].sum() == 800


def test_batches_without_labels_have_no_line_and_late_labels_have_no_scores() -> None:
    recorder, (one, *_) = observed(2)
    assert recorder.lines(None, {"model": replace(one, true=one.true[:0], labels=one.labels[:0])}) == ""
    line = json.loads(recorder.lines(None, {"model": replace(one, scores=np.zeros(0), probabilities=False)}))
    assert (line["step"], line["batch"], "auc" in line, "calibration" in line) == (0, 1, False, False)
    scores = Scores([line])
    assert np.isnan(scores.auc)
    assert not len(scores.calibration()[2])


def test_residuals_of_a_regression() -> None:
    session = Session(DriftSurf(LinearRegression()))
    recorder = ScoreRecorder(lambda: session.targets.labels, warmup_steps=1)
    seen: list[Observation] = []
    for rows in (50, 300, 20):
        X = RNG.normal(size=(rows, 2))
        seen.append(session.observe(X, 3 * X[:, 0] + 10 + RNG.normal(size=rows)))
    scores = recorded(recorder, seen)
    true, predicted = (np.concatenate([getattr(one, name) for one in seen[1:]]) for name in ("true", "predicted"))
    squared = float(np.mean(np.square(predicted - true)))
    assert scores.r_squared(squared) == pytest.approx(metrics.r2_score(true, predicted))
    assert scores.column("residual")[1] == pytest.approx(np.mean(seen[1].predicted - seen[1].true))
    assert scores.lines[1]["quantiles"][2] == pytest.approx(np.median(seen[1].predicted - seen[1].true))
    assert scores.labels == []


def test_precision_recall_and_f1_are_those_of_scikit_learn() -> None:
    kept: dict[str, list[Any]] = {"true": [], "predicted": []}

    class Kept(DriftSurfClassifier):
        def observe(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Observation:
            seen: Observation = super().observe(X, y, classes=classes)
            kept["true"] += y.tolist()
            kept["predicted"] += seen.labels.tolist()
            return seen

    trace = prequential(SEA(n_rows=4000), Kept(random_state=0), batch_size=100)
    report = metrics.classification_report(kept["true"], kept["predicted"], output_dict=True)
    for label, found in class_metrics(trace, "model").items():
        expected = report[str(label)]
        assert found.rows == expected["support"]
        got = found.precision, found.recall, found.f1
        assert got == pytest.approx((expected["precision"], expected["recall"], expected["f1-score"]))
    precision, recall, f1 = class_metrics_over_time(trace, "model", 1)
    assert len(precision) == len(recall) == len(f1) == 40


def test_other_text_is_refused() -> None:
    with pytest.raises(InputError, match="scores"):
        Scores.from_text('{"step": 1}\n')
    assert Scores.from_text('{"step": 1').lines == []


def test_two_classes_are_calibrated_alike_by_learners_of_two_and_of_any_number() -> None:
    recorder, seen = observed(2)
    logs = [
        replace(one, scores=np.column_stack([-np.logaddexp(0, one.scores), -np.logaddexp(0, -one.scores)]))
        for one in seen
    ]
    again = ScoreRecorder(recorder.labels, warmup_steps=1)
    for one, two in zip(recorded(recorder, seen).calibration(), recorded(again, logs).calibration(), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)
