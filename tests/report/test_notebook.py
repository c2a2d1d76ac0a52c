"""What notebooks show: pages of estimators, tables and figures of traces and runs, progress."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import driftsurf
from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Trace
from driftsurf.core.decisions import plain_expert
from driftsurf.core.drifts import Drift
from driftsurf.errors import MissingExtraError
from driftsurf.evaluation.summary import RegressionSummary, baselines
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
    assert page.partition('class="cards"')[0].count("The first batch is left out") == 1


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


def test_the_page_of_a_model_that_predicted_nothing_begins_with_its_drift(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 2))
    y = (X[:, 0] > 0) == (np.arange(2_000) < 1_200)
    model = DriftSurfClassifier(random_state=0)
    for start in range(0, 2_000, 50):
        if start == 1_000:
            assert f"No drift in 1,000 rows. {NOTHING_SCORED}" in model.report(tmp_path / "page.html").read_text()
        model.partial_fit(X[start : start + 50], y[start : start + 50], classes=[False, True])
    told = model.drifts_.describe()
    assert told
    page = model.report(tmp_path / "page.html").read_text()
    assert html.escape(f"{told} {NOTHING_SCORED}", quote=False) in page
    assert "Drifts and their causes" in page


def test_a_journal_is_a_table_of_its_last_transitions() -> None:
    model = learned(lambda model, X, y: model.partial_fit(X, y))
    text = model.journal_._repr_html_()
    last = model.journal_.transitions[-1]
    assert last.phrase in text
    assert last.reason.replace(">", "&gt;").replace("<", "&lt;") in text
    assert 2 <= text.count("<tr>") <= 21
    assert "<table>" not in driftsurf.DriftSurfClassifier().partial_fit([[0.0], [1.0]], [0, 1]).journal_._repr_html_()


# ---------------------------------------------------------------------------- traces and runs


def steady(result: driftsurf.RunResult) -> driftsurf.RunResult:
    """Return the result of a run in which no drift was found."""
    assert len(result.drifts) > 0
    return replace(result, decisions=[replace(one, drifts=()) for one in result.decisions])


def drifted(result: driftsurf.RunResult) -> driftsurf.RunResult:
    """Return the result of a run with two drifts, the second of which goes on."""
    first = Drift(0, 500, 25, 540, "new rule", "error", 0.1, 0.4, 0.12, 120, 620, ("price <b>",), evidence=1e4)
    second = Drift(1, 1_600, 80, 1_660, "harm", "error", 0.1, 0.3)
    decisions = [replace(one, drifts={27: (first,), 83: (second,)}.get(one.step, ())) for one in result.decisions]
    return replace(result, decisions=decisions)


def test_a_run_is_shown_with_its_verdict_first(result: driftsurf.RunResult) -> None:
    assert steady(result)._repr_html_().startswith("<div><p><b>No drift in 2,000 rows.")
    found = drifted(result)
    text = found._repr_html_()
    assert text.startswith("<div><p><b>Drifting now: from row 1,600 on, the error rose from 10 % to 30 %")
    assert found.drifts._repr_html_() in text
    assert text.index("price &lt;b&gt;") < text.index("<svg") < text.index("<a href=") < text.index("<details>")
    assert text.count('fill="#d55e00" fill-opacity="0.2"') == 2
    assert found.drifts.to_frame()["row"].tolist() == [500, 1_600]


def test_a_run_links_to_its_page_below_the_notebook_or_elsewhere(
    result: driftsurf.RunResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert result.page.is_file()
    monkeypatch.chdir(result.folder.parent)
    assert '<a href="run/report.html">' in result._repr_html_()
    (result.folder.parent / "other").mkdir(exist_ok=True)
    monkeypatch.chdir(result.folder.parent / "other")
    assert f'<a href="{result.page.as_uri()}">' in result._repr_html_()


def test_parts_of_a_result_are_tables(result: driftsurf.RunResult) -> None:
    frame = result.transitions.to_frame()
    assert isinstance(result.transitions, list)
    assert frame["step"].tolist() == [one.step for one in result.transitions]
    assert frame["what"][0] == "began to test a new model"
    assert result.summary is not None
    (row,) = result.summary.to_frame().to_dict("records")
    assert row["mean_error"] == result.summary.mean_error
    assert result.explain() == driftsurf.explain(result.folder)
    assert result.explain(step=3) == driftsurf.explain(result.folder, step=3)
    assert len(result.experts) == 0
    assert list(result.experts.to_frame().columns) == ["name", "share", "loss", "first_row", "reacting"]
    assert "no experts" in result.experts._repr_html_()
    squared = RegressionSummary(**{one.name: 4.0 for one in fields(RegressionSummary)})  # type: ignore[arg-type]
    assert squared.to_frame()["root_mean_squared_error"].tolist() == [2.0]


def test_the_experts_of_a_portfolio_have_shares(tmp_path: Path) -> None:
    model = driftsurf.recommended("light", random_state=0)
    with pytest.raises(NotFittedError):
        _ = model.experts_
    for X, y in Mixed(n_rows=1_000).batches(100):
        model.partial_fit(X, y)
    frame = model.experts_.to_frame()
    assert frame["share"].sum() == pytest.approx(1.0)
    assert frame["share"].is_monotonic_decreasing
    assert sorted(frame["name"]) == sorted(map(plain_expert, model.journal_[-1].experts))
    assert model.experts_[0].name in model.experts_._repr_html_()
    driftsurf.save(model, tmp_path / "model")
    assert len(driftsurf.load(tmp_path / "model").experts_) == 0
    assert model.journal_.transitions.to_frame().columns[0] == "step"


def test_a_run_is_shown_with_its_models_trivial_rules_and_transitions(result: driftsurf.RunResult) -> None:
    text = result._repr_html_()
    assert result.summary is not None
    assert f"{result.summary.mean_error:.4f}" in text
    for word in ("driftsurf", "aware", "most frequent class", "last label", "<svg", result.transitions[-1].phrase):
        assert word in text
    assert str(result.folder) in text
    assert notebook.trace_html(result.trace, {result.model: result.drifts}) in text
    assert result.trace._repr_html_() in steady(result)._repr_html_()


def test_a_run_with_a_rare_class_is_shown_with_its_figures(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=4_000)
    rows = {"x": x, "fraud": np.where(x + rng.normal(size=4_000) / 2 > 2.2, "yes", "no")}
    found = driftsurf.run(rows, label="fraud", model="recommended-linear", out=tmp_path / "run", progress=False)
    text = found._repr_html_()
    assert found.trace is not None
    headline = baselines(found.trace, found.model, found.scores).headline
    assert headline[0][0] == "average precision of class yes"
    for name, own, (chance, *_) in headline:
        assert all(f">{one}</" in text for one in (name, own, chance))


def test_a_trace_without_rows_is_shown_in_words() -> None:
    columns: dict[str, Any] = {"step": np.zeros(0, int), "model": np.zeros(0, str)}
    assert "no row was scored" in Trace("shop", 10, (), (0, 1), columns)._repr_html_()


def test_a_plot_has_a_curve_for_each_model_and_marks(result: driftsurf.RunResult) -> None:
    figure = pytest.importorskip("matplotlib.figure")
    axes: Any = figure.Figure().subplots()
    assert result.trace.plot(axes) is axes
    labels = axes.get_legend_handles_labels()[1]
    assert labels[:2] == ["driftsurf", "aware"]
    assert "began to test a new model" in labels
    assert np.asarray(axes.lines[0].get_ydata()).tolist() == result.trace.of("driftsurf")["error"].tolist()


def test_a_plot_of_a_run_marks_the_drifts_that_were_found(result: driftsurf.RunResult) -> None:
    figure = pytest.importorskip("matplotlib.figure")
    axes: Any = figure.Figure().subplots()
    assert drifted(result).plot(axes) is axes
    assert axes.get_legend_handles_labels()[1] == ["driftsurf", "aware", "drift", "drift that was found"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "error")
    spans: Any = axes.patches
    first, second = spans
    assert (first.get_x(), first.get_width()) == (25.0, 6.0)
    assert second.get_x() + second.get_width() == 99.0  # it goes on
    assert "drift that was found" not in steady(result).plot(figure.Figure().subplots()).get_legend_handles_labels()[1]


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
    assert any("to test a new model" in one for one in shown)
    shown.clear()
    driftsurf.run("mixed", rows=1_000, out=tmp_path / "two", progress=False)
    assert shown == []


def test_a_run_elsewhere_shows_its_progress_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    driftsurf.run("mixed", rows=1_000, out=tmp_path / "one")
    assert capsys.readouterr().err == ""
    driftsurf.run("mixed", rows=1_000, out=tmp_path / "two", progress=True)
    assert "step 99 of 100: " in capsys.readouterr().err
