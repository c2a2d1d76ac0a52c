"""Prequential evaluation, its trace and its metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import cohen_kappa_score, log_loss

import driftsurf
from driftsurf import AwareClassifier, DriftSurfClassifier, Trace, prequential
from driftsurf.core.decisions import Decision
from driftsurf.errors import InputError, OptionError
from driftsurf.evaluation import metrics, summarise, summarise_classification
from driftsurf.report.sections import RunView, overlay_of
from driftsurf.streams import SEA, ArrayStream, Drift, Mixed


@pytest.fixture(scope="module")
def stream() -> Mixed:
    return Mixed(n_rows=40_000)


@pytest.fixture(scope="module")
def trace(stream: Mixed) -> Trace:
    aware = AwareClassifier(drift_steps=stream.drift_steps(400), random_state=0)
    return prequential(stream, {"driftsurf": DriftSurfClassifier(random_state=0), "aware": aware}, batch_size=400)


def test_models_in_one_pass_do_the_same_as_each_alone(stream: Mixed, trace: Trace) -> None:
    alone = prequential(stream, DriftSurfClassifier(random_state=0), batch_size=400)
    together = trace.of("driftsurf")
    for name, column in alone.of("model").items():
        if name != "model":
            assert column.tolist() == together[name].tolist()


def test_errors_and_losses_are_those_of_the_predictions(stream: Mixed, trace: Trace) -> None:
    model = DriftSurfClassifier(random_state=0)
    run = trace.of("driftsurf")
    for step, (X, y) in enumerate(stream.batches(400)):
        if step:
            share = model.predict_proba(X)
            assert run["log_loss"][step] == pytest.approx(log_loss(y, share, labels=[-1, 1]), rel=1e-6)
        predicted = model.test_then_train(X, y, classes=[-1, 1])
        assert run["errors"][step] == np.count_nonzero(predicted != y)
        assert run["predicted:1"][step] == np.count_nonzero(predicted == 1)


def test_a_trace_saves_and_loads_exactly(trace: Trace, tmp_path: Path) -> None:
    trace.save(tmp_path / "trace.csv")
    again = Trace.load(tmp_path / "trace.csv")
    assert again.to_csv() == trace.to_csv()
    assert (again.stream, again.batch_size, again.drifts, again.labels) == (
        trace.stream,
        trace.batch_size,
        trace.drifts,
        trace.labels,
    )
    for name, column in trace.columns.items():
        assert again.columns[name].tolist() == column.tolist()
    assert again.columns["errors"].dtype == np.int64


def test_a_trace_becomes_a_frame(trace: Trace) -> None:
    frame = trace.to_frame()
    assert len(frame) == 200
    assert frame.groupby("model")["error"].mean()["aware"] == pytest.approx(trace.of("aware")["error"].mean())


def test_the_repr_of_a_trace_names_models_stream_and_steps(trace: Trace) -> None:
    assert repr(trace) == "<Trace of driftsurf, aware on Mixed: 100 steps of 400 rows>"


def test_measured_times_are_not_part_of_the_trace(stream: Mixed, trace: Trace) -> None:
    assert set(trace.seconds) == {"driftsurf", "aware"}
    ticks = iter(range(10_000))
    slow = prequential(stream, DriftSurfClassifier(random_state=0), batch_size=400, clock=lambda: float(next(ticks)))
    assert slow.seconds["model"] == 100.0
    assert "seconds" not in slow.to_csv()


@pytest.mark.parametrize("text", ["", "not a trace", "# {}\nstep\n1\n", '# {"drifts": 3}\n'])
def test_text_that_is_not_a_trace_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Trace.from_csv(text)


def test_an_unknown_model_is_named(trace: Trace) -> None:
    with pytest.raises(OptionError, match=r"'x'.*driftsurf, aware"):
        trace.of("x")


def test_scikit_learn_models_can_be_evaluated(stream: Mixed) -> None:
    trace = prequential(stream, {"sgd": SGDClassifier(loss="log_loss", random_state=0)}, batch_size=400)
    run = trace.of("sgd")
    assert 0.4 < run["error"][0] < 0.6  # it cannot predict before its first batch, so one class is assumed for all rows
    assert run["error"][1:20].mean() < 0.35
    assert np.isfinite(run["log_loss"][1:]).all()
    assert summarise(trace, "sgd").reactions == 0


def test_a_model_with_its_own_batch_size_is_recorded(stream: Mixed) -> None:
    """A step that completes none of its batches repeats the latest state; every transition is counted."""
    trace = prequential(stream, {"m": DriftSurfClassifier(random_state=0, batch_size=400)}, batch_size=80)
    whole = prequential(stream, {"m": DriftSurfClassifier(random_state=0)}, batch_size=400)
    mine, theirs = summarise(trace, "m"), summarise(whole, "m")
    assert (mine.reactions, mine.switches) == (theirs.reactions, theirs.switches)
    assert mine.share_reactive == pytest.approx(theirs.share_reactive, abs=0.05)
    many = prequential(stream, {"m": DriftSurfClassifier(random_state=0, batch_size=400)}, batch_size=8000)
    assert (summarise(many, "m").reactions, summarise(many, "m").switches) == (theirs.reactions, theirs.switches)
    assert summarise(many, "m").recovery_by_training[0] != 0  # its rows came while the old model predicted


@pytest.mark.parametrize("sizes", [(50, 170), (170, 50)])
def test_a_report_places_a_models_own_steps_among_those_of_the_trace(sizes: tuple[int, int]) -> None:
    made: list[Decision] = []
    model = DriftSurfClassifier(random_state=0, batch_size=sizes[0])

    def on_step(step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        made.extend(decisions)

    trace = prequential(Mixed(n_rows=4000), model, batch_size=sizes[1], on_step=on_step)
    overlay = overlay_of(RunView(trace, made, "model"))
    places = [change.at for change in overlay.changes if change.kind in ("switched", "kept")]
    ends = [d.first_row / 4000 for d in made if {"switched", "kept"} & {t.kind for t in d.transitions}]
    assert len(places) == len(ends) > 0
    for x, share in zip(places, ends, strict=True):
        assert x / (overlay.steps - 1) == pytest.approx(share, abs=0.06)


def test_one_model_under_two_names_is_refused() -> None:
    model = DriftSurfClassifier()
    with pytest.raises(OptionError, match="models"):
        prequential(SEA(n_rows=1000), {"a": model, "b": model})


@pytest.mark.parametrize("models", [{}, object()])
def test_models_that_cannot_be_evaluated_are_refused(models: Any) -> None:
    with pytest.raises(OptionError):
        prequential(SEA(n_rows=1000), models)


def test_the_last_batch_may_be_shorter() -> None:
    trace = prequential(SEA(n_rows=1050), driftsurf.paper(1e-3, 1e-2, random_state=0), batch_size=100)
    assert trace.of("model")["rows"].tolist() == [100] * 10 + [50]


# ---------------------------------------------------------------------------- metrics


def test_kappa_equals_that_of_scikit_learn(stream: Mixed, trace: Trace) -> None:
    model = DriftSurfClassifier(random_state=0)
    pairs = [(y, model.test_then_train(X, y, classes=[-1, 1])) for X, y in stream.batches(400)]
    true, predicted = (np.concatenate(part) for part in zip(*pairs, strict=True))
    summary = summarise_classification(trace, "driftsurf")
    assert summary.kappa == pytest.approx(cohen_kappa_score(true, predicted))
    last = np.append(-1, true[399:-400:400])  # the last label before each batch; before any, the first class
    persistence = np.mean(true.reshape(-1, 400) != last[:, np.newaxis])
    assert summary.kappa_temporal == pytest.approx(1 - np.mean(true != predicted) / persistence)


def test_kappa_is_nan_without_a_reference() -> None:
    assert np.isnan(metrics.kappa(5, np.array([5, 0]), np.array([5, 0])))
    assert np.isnan(metrics.kappa_temporal(3, 0))


def test_recovery_by_training() -> None:
    first_row = 100 * np.arange(10)
    trained_from = np.array([0, 0, 0, 0, 300, 300, 300, 300, 300, 300])
    drifts = [Drift(300, 300), Drift(700, 800)]
    assert metrics.recovery_by_training(first_row, trained_from, drifts) == [1, None]


def test_recovery_ends_where_the_next_drift_begins() -> None:
    first_row = 100 * np.arange(6)
    late = np.array([0, 0, 0, 0, 100, 100])
    assert metrics.recovery_by_training(first_row, late, [Drift(100, 100), Drift(300, 300)]) == [None, None]


def test_recovery_by_error() -> None:
    first_row = 100 * np.arange(6)
    error = np.array([0.1, 0.1, 0.5, 0.25, 0.11, 0.1])
    untrained = np.array([0.1, 0.1, 0.5, 0.1, 0.1, 0.1])
    assert metrics.recovery_by_error(first_row, error, untrained, [Drift(200, 200)]) == [2]
    assert metrics.recovery_by_error(first_row, error, np.full(6, 0.1), [Drift(200, 200)]) == [2]
    assert metrics.recovery_by_error(first_row, error, np.full(6, 0.01), [Drift(200, 200)]) == [None]


@pytest.mark.parametrize(
    ("step", "trained_from", "expected"),
    [(1, 0, 1), (3, 0, 0), (4, 0, 0), (5, 300, 1), (6, 300, 0), (7, 300, 0), (9, 300, 0), (9, 800, 1)],
)
def test_a_reaction_is_false_without_a_drift_to_recover_from(step: int, trained_from: int, expected: int) -> None:
    """An abrupt drift at row 300 and a gradual one from 650 to 800."""
    first_row, rows = 100 * np.arange(10), np.full(10, 100)
    transitions = [("entered",) if k == step else () for k in range(10)]
    drifts = [Drift(300, 300), Drift(650, 800)]
    origin = np.full(10, trained_from)
    assert metrics.false_reactions(first_row, rows, origin, transitions, drifts) == expected


def test_aware_recovers_at_once(trace: Trace) -> None:
    summary = summarise(trace, "aware", "aware")
    assert summary.recovery_by_training == (0, 0, 0, 0)
    assert summary.recovery_by_error is not None
    for time in summary.recovery_by_error:
        assert time in (1, 2)  # its first batch is predicted by an untrained model


def test_driftsurf_recovers_within_a_reactive_state(trace: Trace) -> None:
    summary = summarise(trace, "driftsurf", "aware")
    assert all(time is not None and time <= 4 for time in summary.recovery_by_training)
    assert summary.drift_steps == ((20, 20), (40, 40), (60, 60), (80, 80))
    assert 0.0 < summary.share_reactive < 0.6
    assert summary.gradients > 20_000


def test_an_endless_drift_has_no_recovery_and_no_false_reaction() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    y = np.where((X[:, 0] > 0) == (np.arange(3000) // 700 % 2 == 0), 1, -1)
    stream = ArrayStream(X, y, drifts=(Drift(0, 3000),))
    trace = prequential(stream, {"m": DriftSurfClassifier(random_state=0)}, batch_size=100)
    summary = summarise(trace, "m")
    assert summary.reactions > 0
    assert summary.false_reactions == 0
    assert summary.recovery_by_training == ()
    unknown = prequential(ArrayStream(X, y), {"m": DriftSurfClassifier(random_state=0)}, batch_size=100)
    assert summarise(unknown, "m").reactions > 0
    assert summarise(unknown, "m").false_reactions is None


@pytest.mark.parametrize("stream", ["sine1", SEA, (np.ones((2, 1)), np.ones(2))])
def test_something_that_is_not_a_stream_is_refused(stream: Any) -> None:
    with pytest.raises(OptionError, match="stream"):
        prequential(stream, DriftSurfClassifier())
