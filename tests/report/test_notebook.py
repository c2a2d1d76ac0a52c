"""What notebooks show: pages of estimators, tables and figures of traces and runs, progress."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import driftsurf
from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Trace
from driftsurf.errors import MissingExtraError
from driftsurf.evaluation.baselines import baselines
from driftsurf.report import notebook
from driftsurf.report.model_page import NOTHING_SCORED, journal_trace
from driftsurf.streams import Mixed

MODEL = "DriftSurfClassifier"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> driftsurf.RunResult:
    return driftsurf.run("mixed", rows=2_000, out=tmp_path_factory.mktemp("run") / "run")


def learned(call: Callable[[Any, Any, Any], Any], rows: int = 2_000, size: int = 50, **options: Any) -> Any:
    model = DriftSurfClassifier(random_state=0, **options)
    for X, y in Mixed(n_rows=rows).batches(size):
        call(model, X, y)
    return model


# ---------------------------------------------------------------------------- estimators


def test_the_page_of_a_model_has_the_errors_of_its_predictions(tmp_path: Path) -> None:
    wrong = list[float]()
    model = learned(lambda model, X, y: wrong.append(float(np.mean(model.test_then_train(X, y) != y))))
    trace, decisions, _ = journal_trace(MODEL, "mixed", model.journal_, model.classes_.tolist())
    assert trace.of(MODEL)["error"].tolist() == wrong
    assert trace.warmup_steps == 1
    assert [one.step for one in decisions] == list(range(40))
    path = model.report(tmp_path / "page.html", data="shop")
    page = path.read_text()
    assert f"{MODEL} on shop" in page
    assert f"{np.mean(wrong[1:]):.4f}" in page


def test_rows_that_were_buffered_one_by_one_are_scored_with_their_time_step(tmp_path: Path) -> None:
    model = DriftSurfRegressor(random_state=0, batch_size=50)
    squares = list[float]()
    for X, y in Mixed(n_rows=120).batches(1):
        squares.append(float(np.square(model.observe(X, y).labels - y)[0]))
    trace, _, _ = journal_trace("model", "data", model.journal_, ())
    expected = [np.mean(squares[:50]), np.mean(squares[50:100])]
    assert trace.of("model")["squared_error"].tolist() == pytest.approx(expected)
    assert "root mean squared error" in model.report(tmp_path / "page.html").read_text()


@pytest.mark.parametrize("third_from", [160, 400])
def test_the_page_of_a_model_says_what_the_page_of_a_run_says(third_from: int, tmp_path: Path) -> None:
    X = np.random.default_rng(3).normal(size=(400, 2)).round(3)
    y = np.array(["c", "a", "b"])[np.argmax(np.column_stack([X, -X.sum(axis=1)]), axis=1)]
    y[:third_from][y[:third_from] == "b"] = "a"
    model = DriftSurfClassifier(random_state=0, guard=2.0, dtype="float64")
    for start in range(0, 400, 50):
        model.observe(X[start : start + 50], y[start : start + 50])
    session = model._session
    trace, _, scores = journal_trace(MODEL, "rows", model.journal_, session.targets.labels)
    rows = "".join(f"{one},{two},{label}\n" for (one, two), label in zip(X.tolist(), y.tolist(), strict=True))
    (tmp_path / "rows.csv").write_text("x,z,label\n" + rows)
    found = driftsurf.run(tmp_path / "rows.csv", label="label", batch_size=50, model="driftsurf", out=tmp_path / "run")
    assert found.scores is not None
    assert found.trace.labels == trace.labels
    for name, column in trace.columns.items():
        if name not in ("model", "log_loss"):
            assert column.tolist() == found.trace.columns[name].tolist(), name
    assert baselines(trace, MODEL).others == baselines(found.trace, "driftsurf").others
    assert scores.auc == pytest.approx(found.scores.auc, abs=1e-6)
    assert scores.confusion()[1].tolist() == found.scores.confusion()[1].tolist()
    assert scores.probability_of == found.scores.probability_of
    for one, other in zip(scores.calibration(), found.scores.calibration(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert f"{found.scores.auc:.3f}" in model.report(tmp_path / "page.html").read_text()


def test_a_page_without_scores_says_so_and_shows_what_the_model_watched(tmp_path: Path) -> None:
    model = learned(lambda model, X, y: model.partial_fit(X, y))
    page = model.report(tmp_path / "page.html").read_text()
    assert NOTHING_SCORED in page
    assert "What the model watched" in page
    for transition in model.journal_.transitions[:3]:
        assert transition.phrase in page
    model.test_then_train(*next(iter(Mixed(n_rows=50).batches(50))))
    trace, decisions, _ = journal_trace(MODEL, "data", model.journal_, model.classes_.tolist())
    assert len(decisions) == len(trace.of(MODEL)["step"]) == 1
    assert NOTHING_SCORED not in model.report(tmp_path / "page.html").read_text()


def test_a_journal_is_a_table_of_its_last_transitions() -> None:
    model = learned(lambda model, X, y: model.partial_fit(X, y))
    text = model.journal_._repr_html_()
    last = model.journal_.transitions[-1]
    assert last.phrase in text
    assert last.reason.replace(">", "&gt;").replace("<", "&lt;") in text
    assert 2 <= text.count("<tr>") <= 21
    assert "<table>" not in driftsurf.DriftSurfClassifier().partial_fit([[0.0], [1.0]], [0, 1]).journal_._repr_html_()


# ---------------------------------------------------------------------------- traces and runs


def test_a_run_is_shown_with_its_models_trivial_rules_and_transitions(result: driftsurf.RunResult) -> None:
    text = result._repr_html_()
    assert result.summary is not None
    assert f"{result.summary.mean_error:.4f}" in text  # type: ignore[union-attr]
    for word in ("driftsurf", "aware", "majority", "persistence", "<svg", result.transitions[-1].phrase):
        assert word in text
    assert str(result.folder) in text
    assert result.trace._repr_html_() in text


def test_a_trace_without_rows_is_shown_in_words() -> None:
    columns: dict[str, Any] = {"step": np.zeros(0, int), "model": np.zeros(0, str)}
    assert "no row was scored" in Trace("shop", 10, (), (0, 1), columns)._repr_html_()


def test_a_plot_has_a_curve_for_each_model_and_marks(result: driftsurf.RunResult) -> None:
    figure = pytest.importorskip("matplotlib.figure")
    axes: Any = figure.Figure().subplots()
    assert result.plot(axes) is axes
    labels = axes.get_legend_handles_labels()[1]
    assert labels[:2] == ["driftsurf", "aware"]
    assert "entered the reactive state" in labels
    assert np.asarray(axes.lines[0].get_ydata()).tolist() == result.trace.of("driftsurf")["error"].tolist()


def test_a_plot_without_matplotlib_names_the_extra(
    result: driftsurf.RunResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"driftsurf\[figures\]"):
        result.trace.plot()


# ---------------------------------------------------------------------------- progress


class ZMQInteractiveShell:
    """Stand-in for the shell of a notebook."""


def test_a_run_in_a_notebook_shows_its_progress_unless_it_should_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = list[str]()

    def display(html: str, display_id: bool) -> Any:
        shown.append(html)
        return SimpleNamespace(update=shown.append)

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(HTML=str, display=display))
    assert notebook.in_notebook()
    driftsurf.run("mixed", rows=1_000, out=tmp_path / "one")
    assert 'value="0" max="100"' in shown[0]
    assert "100 of 100 steps" in shown[-1]
    assert any("reactive" in one for one in shown)
    shown.clear()
    driftsurf.run("mixed", rows=1_000, out=tmp_path / "two", progress=False)
    assert shown == []


def test_a_run_elsewhere_shows_its_progress_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    driftsurf.run("mixed", rows=1_000, out=tmp_path / "one")
    assert capsys.readouterr().err == ""
    driftsurf.run("mixed", rows=1_000, out=tmp_path / "two", progress=True)
    assert "step 99 of 100: " in capsys.readouterr().err
