"""The content of a run's page."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import invoke
from drifting import BEGAN, OVER
from run_pages import HOSTILE, Made, hostile_run, regression_in, uneven_run
from table_files import mixed_rows, write_csv, write_inverted

from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Trace, prequential, run
from driftsurf.core.drifts import Drift
from driftsurf.errors import InputError, SmallBatchWarning
from driftsurf.errors.visible import visible
from driftsurf.evaluation.column_moves import ColumnMove
from driftsurf.evaluation.summary import Baselines, ClassificationSummary, baselines, summarise, summarise_regression
from driftsurf.learners import LogisticRegression
from driftsurf.report.figure import LEFT, RIGHT, WIDTH, Chart, Curve, Figure, Overlay, TransitionMark, as_json
from driftsurf.report.index import list_runs
from driftsurf.report.run_page import render, render_record
from driftsurf.report.run_summary import print_run
from driftsurf.report.sections import RunView, Section, classes, events_of, sections
from driftsurf.report.sections.events import changes, drifts, tables
from driftsurf.report.sections.settings import command_line, settings
from driftsurf.runs.explanation.explain import explain
from driftsurf.runs.explanation.records import RunRecord, read_run
from driftsurf.runs.orders import OrderRecord
from driftsurf.session.session import Session
from driftsurf.strategies import AUE
from driftsurf.streams import SEA


def data_of(page: str) -> dict[str, Any]:
    """Return the data that the script gets."""
    found = re.search(r'<script type="application/json" id="run">(.*?)</script>', page, re.S)
    assert found is not None
    read: dict[str, Any] = json.loads(found[1])
    return read


def test_the_data_of_the_script_are_those_of_the_run(mixed_run: tuple[Path, str]) -> None:
    record, data = read_run(mixed_run[0]), data_of((mixed_run[0] / "report.html").read_text())
    assert record.trace is not None
    figures = {figure["id"]: figure for figure in data["figures"]}
    assert list(figures) == ["error", "estimate", "risk", "models", "classes", "quality", "calibration", "costs"]
    error = {series["name"]: series["values"] for series in figures["error"]["series"]}
    assert error["driftsurf"] == pytest.approx(record.trace.of("driftsurf")["error"], rel=1e-4)
    assert [change["text"] for change in data["changes"]] == [
        transition.describe() for decision in record.decisions for transition in decision.transitions
    ]
    assert len(data["reactive"]) == 11
    assert [drift[0] for drift in data["drifts"]] == [20, 40, 60, 80]
    by_class = {series["name"]: series["values"] for series in figures["classes"]["series"]}
    run = record.trace.of("driftsurf")
    assert by_class["-1"][3] == pytest.approx(run["wrong:-1"][3] / run["true:-1"][3], rel=1e-4)
    assert run["wrong:-1"].sum() + run["wrong:1"].sum() == run["errors"].sum()


def test_the_risk_figure_follows_the_model_that_predicted(mixed_run: tuple[Path, str]) -> None:
    record, data = read_run(mixed_run[0]), data_of((mixed_run[0] / "report.html").read_text())
    figure = next(figure for figure in data["figures"] if figure["id"] == "risk")
    limits, _, risks = (series["values"] for series in figure["series"])
    reacted = 0
    for decision, limit, risk in zip(record.decisions, limits, risks, strict=True):
        own = next(model.risk_before for model in decision.models if model.id == decision.predicted_by)
        assert risk == (None if own is None else pytest.approx(own, rel=1e-4))
        if decision.reactive_step > 1:
            assert limit is None  # no limit applies inside a reactive state
        else:
            assert (limit is not None and risk > limit) == bool(decision.condition)
            reacted += bool(decision.condition)
    assert reacted == 11
    assert any(decision.state == "reactive" and decision.predicted_by > 0 for decision in record.decisions)


def test_values_beyond_the_axis_are_pointed_out() -> None:
    overlay = Overlay(4)
    whole = Figure("a", "curves", "error", 2.0, [Curve("b", "curve", [1.0, 2.0, math.nan, 0.0])])
    cut = replace(whole, series=[Curve("b", "curve", [1.0, 2.5, math.nan, -1.0])])
    assert "edge" not in whole.render(overlay)
    assert re.findall(r"-?[\d.]+\d|-?\d", cut.render(overlay).rpartition("<p")[2])[:4] == ["2", "2.5", "0", "-1"]


def test_marks_stand_at_their_step_if_steps_have_different_sizes() -> None:
    trace, decisions = uneven_run()
    page = render(RunView(trace, decisions, "model"))
    data = data_of(page)
    made = {decision.step: kind for decision in decisions for kind in decision.transitions}
    assert [drift[0] for drift in data["drifts"]] == [45]
    assert [change["at"] for change in data["changes"]] == [
        transition.step for decision in decisions for transition in decision.transitions
    ]
    assert 45 in made
    assert any(start <= 45 <= stop for start, stop, _ in data["reactive"])
    figures = {figure["id"]: figure for figure in data["figures"]}
    assert figures["risk"]["series"][-1]["at"] == [decision.step for decision in decisions]
    assert all(bar["to"] <= 59 for bar in figures["models"]["bars"])
    assert "10 to 200 rows" in page


def test_page_terminal_and_explanation_agree_on_the_mean_error() -> None:
    trace, decisions = uneven_run()
    run = trace.of("model")
    mean = run["errors"].sum() / run["rows"].sum()
    assert abs(mean - run["error"].mean()) > 0.001
    summary = summarise(trace, "model")
    assert isinstance(summary, ClassificationSummary)
    assert summary.mean_error == baselines(trace, "model").own == mean
    assert f"<b>{mean:.4f}</b>mean error" in render(RunView(trace, decisions, "model"))
    assert f"60 steps, 4,400 rows, {run['gradients'].sum():,} gradient steps. Mean error {mean:.4f}" in explain(
        RunRecord(decisions, trace=trace)
    )


def test_seconds_are_on_the_page_only_if_asked_for(mixed_run: tuple[Path, str], tmp_path: Path) -> None:
    assert "timings.json" in (mixed_run[0] / "report.html").read_text()
    page = tmp_path / "page.html"
    result = invoke("explain", str(mixed_run[0]), "--html", str(page))
    assert result.output == f"report: {page}\n"
    assert '<th class="number">seconds</th>' in page.read_text()
    assert '"name":"aware (oracle)"' in page.read_text()
    journal = mixed_run[0] / "journal.jsonl"
    before = journal.read_bytes()
    for file, *more in ((page,), (journal,), (journal, "--overwrite")):
        refused = invoke("explain", mixed_run[0], "--html", file, *more)
        assert (refused.exit_code, Path(file).name in refused.output) == (1, True)
    assert journal.read_bytes() == before
    assert invoke("explain", mixed_run[0], "--html", page, "--overwrite").exit_code == 0


def test_hostile_names_are_escaped() -> None:
    trace, decisions = hostile_run()
    move = ColumnMove(decisions[-1].step, 4, 0, HOSTILE, 0.0, 1.0, 1.0, HOSTILE, 0.5, -0.5, 0.01)
    page = render(RunView(trace, decisions, HOSTILE, moves=[move]))
    assert "<img" not in page
    assert page.count("</script>") == 2
    assert "\u2028" not in data_of_raw(page)
    assert [series["name"] for series in data_of(page)["figures"][0]["series"] if series.get("marked")] == [
        visible(HOSTILE)
    ]


def data_of_raw(page: str) -> str:
    return page[page.index('id="run">') : page.index("</script>")]


def test_a_regression_run_has_a_page() -> None:
    stream: Any = Made(lambda X, step: X[:, step // 15] + 0.1 * X[:, 2], name="numbers")
    model = DriftSurfRegressor(random_state=0)
    trace = prequential(stream, model, batch_size=100)
    page = render(RunView(trace, list(model.journal_), "model", seconds={"model": 0.5, "other": 1.0}))
    late = render(RunView(trace, [], "model", seconds={"model": 0.5}, seconds_from=20))
    assert re.search(r"step 20\b", late)
    assert '<td class="number">2,000</td>' in late  # rows per second since then
    assert f"{summarise_regression(trace, 'model').skill:.3f}" in page
    assert titles(page) == ["error", "drifts", "events", "numbers", "risk", "models", "changes", "costs"]
    move = ColumnMove(10, 4, 0, "x0", 0.0, 0.0, 0.0, "", 1.0, 0.0, 0.01)
    _, table = tables([move])
    assert "(" not in table.partition("</tr>")[2]


def titles(page: str) -> list[str]:
    """Return the names of the sections of a page, by their titles."""
    names = {section.title: name for name, section in named_sections().items()}
    return [names[title] for title in re.findall(r"<h2>(.*?)</h2>", page)]


def named_sections() -> dict[str, Section]:
    return {vars(section)["build"].__name__: section for section in sections()}


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**-10, 2.0**20, 2.0**40])
def test_curves_are_the_same_in_every_unit(unit: float) -> None:
    curves = r'<path class="(?:curve|limit|rival)" d="[^"]*"'
    (page, why), (other, _) = regression_in(unit), regression_in(1.0)
    assert re.findall(curves, page) == re.findall(curves, other)
    assert len(why) < 90
    for chart in re.findall(r"<svg viewBox.*?</svg>", page, re.S):
        names = re.findall(r'text-anchor="end">([^<]*)</text>', chart)
        assert len(set(names)) == len(names)


def test_a_run_without_any_error_is_drawn() -> None:
    stream: Any = Made(lambda X, step: 0.0 * X[:, 0], name="zeros")
    trace = prequential(stream, DriftSurfRegressor(random_state=0), batch_size=100)
    assert re.search(r'class="curve" d="M[0-9. LM]+"', render(RunView(trace, [], "model")))


def test_ensembles_and_traces_without_counts_by_class_have_pages() -> None:
    session = Session(AUE(LogisticRegression()), classes=(-1, 1))
    trace = prequential(
        SEA(n_rows=6000), {"aue": session, "other": DriftSurfClassifier(random_state=0)}, batch_size=100
    )
    page = render(RunView(trace, list(session.journal), "aue"))
    assert "risk" not in titles(page)
    assert '"css":"series-0"' in page
    older = {name: column for name, column in trace.columns.items() if not name.startswith("wrong:")}
    assert titles(render(RunView(replace(trace, columns=older), [], "aue"))) == [
        "error",
        "numbers",
        "costs",
        "recovery",
    ]
    assert titles(render(RunView(trace, [], "aue"))) == ["error", "numbers", "classes", "costs", "recovery"]
    with pytest.raises(InputError, match=r"trace\.csv"):
        render_record(RunRecord([]))


def test_long_lists_are_cut_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    trace, decisions = hostile_run()
    changed = next(decision for decision in decisions if decision.transitions)
    listed = "".join(map(str, changes.build(RunView(trace, [changed] * 401, HOSTILE))))
    assert listed.count('class="go"') == 400
    assert "400" in listed
    moved = [ColumnMove(k, 4, 0, "x", 0.0, 0.0, 0.0, "", 0.0, 0.0, 0.1) for k in range(61)]
    _, table, note = tables(moved)
    assert table.count("<tr>") == 61  # with the heads
    assert [number in note for number in ("60", "61")] == [True, True]
    monkeypatch.setattr(classes, "MOST_CLASSES", 2)
    assert table_of_classes(trace).count("<tr>") == 3
    nothing = trace.columns | {f"true:{label}": 0 * trace.columns[f"true:{label}"] for label in trace.labels}
    assert '<td class="number">-</td>' in table_of_classes(replace(trace, columns=nothing))
    long = [replace(decision, step=k, first_row=100 * k) for k, decision in enumerate(decisions * 80)]
    kinds = {change["kind"] for change in data_of(render(RunView(trace, long, HOSTILE)))["changes"]}
    assert "entered" not in kinds
    many = [replace(changed, models=(replace(changed.models[0], id=k),), predicted_by=k) for k in range(45)]
    assert len(data_of(render(RunView(trace, many, HOSTILE)))["figures"][2]["bars"]) == 40


def table_of_classes(trace: Trace) -> str:
    _, _, table, *_ = classes.classes.build(RunView(trace, [], HOSTILE))
    return str(table)


def test_every_section_has_its_own_place() -> None:
    assert list(named_sections()) == [
        *("error", "estimates", "drifts", "events", "numbers", "risk", "belief", "models", "classes", "confusion"),
        *("calibration", "residuals", "changes", "inputs", "columns", "costs", "recovery", "run_settings"),
    ]
    assert len({section.position for section in sections()}) == len(sections())


def test_a_run_without_scored_rows_has_a_page() -> None:
    trace, decisions = hostile_run()
    empty = replace(trace, columns={name: column[:0] for name, column in trace.columns.items()})
    page = render(RunView(empty, decisions, HOSTILE))
    assert titles(page) == []
    assert "<img" not in page


def test_places_in_a_long_run_are_not_rounded() -> None:
    changes = [TransitionMark(123_457, "entered", "x"), TransitionMark(1_234_567.5, "kept", "y")]
    overlay = Overlay(2_000_000, [], [(123_456, 123_459.25, "r")], [(765_431, 765_432, "d")], changes)
    figure = Figure("f", "", "error", 1.0, [Curve("a", "curve", [0.123456789], [123_458])])
    data = json.loads(as_json(overlay, [figure]))
    assert data["reactive"] == [[123_456, 123_459.25, "r"]]
    assert data["drifts"] == [[765_431, 765_432, "d"]]
    assert [change["at"] for change in data["changes"]] == [123_457, 1_234_567.5]
    assert (data["figures"][0]["series"][0]["at"], data["figures"][0]["series"][0]["values"]) == ([123_458], [0.12346])


def test_a_value_without_neighbours_is_drawn() -> None:
    single = Chart(steps=1, top=1.0, y_label="error")
    single.line([0.5], css="curve", title="a model")
    assert f"M{LEFT}.0 141.0 L{WIDTH - RIGHT}.0 141.0" in single.render("one step")
    chart = Chart(steps=4, top=1.0, y_label="error")
    chart.line([0.5, math.nan, 0.2, 0.1], css="curve", title="a model")
    drawn = chart.render("four steps")
    assert drawn.count(" a3 3 ") == 2  # one ring of two arcs
    assert drawn.count(" L") == 1


@pytest.mark.parametrize(
    ("model", "trees"), [("recommended-linear", False), ("recommended-trees", True), ("recommended", True)]
)
def test_the_work_of_trees_is_not_called_gradients(model: str, trees: bool, tmp_path: Path) -> None:
    if trees:
        pytest.importorskip("lightgbm")
    rows = "".join(f"{i % 7},{'yes' if i % 7 > 3 else 'no'}\n" for i in range(300))
    (tmp_path / "rows.csv").write_text("x,y\n" + rows)
    folder = tmp_path / "run"
    command = ["run", tmp_path / "rows.csv", "--label", "y", "--batch-size", 100, "--model", model, "--out", folder]
    output, page = invoke(*command).output, (folder / "report.html").read_text()
    for text in (output, page, invoke("explain", folder).output):
        words = " ".join(text.split())
        assert ("gradient steps" in words, "rows read in training" in words) == (not trees, trees)
        assert "visits" not in words


def test_values_that_are_not_finite_are_gaps() -> None:
    figure = Figure("f", "about", "u", 1.0, [Curve("s", "curve", [0.5, float("nan"), 2.0], marked=True)])
    assert json.loads(as_json(Overlay(3), [figure]))["figures"][0]["series"][0]["values"] == [0.5, None, 2]
    assert figure.render(Overlay(3)).count("<path") == 1


@pytest.mark.parametrize(
    ("model", "claims", "rows"),
    [
        ("adwin", True, {"fresh starts"}),
        ("aue", False, set()),
        ("sliding-window", False, set()),
        ("driftsurf", True, {"reactions", "switches to a new model"}),
    ],
)
def test_page_terminal_list_and_explanation_count_the_same_reactions(
    model: str, claims: bool, rows: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They agree with the journal, and only a strategy that looks for drift says that there was none."""
    table = write_inverted(tmp_path)
    result = run(table, label="label", model=model, batch_size=50, out=tmp_path / "run", progress=False)
    kinds = [one.kind for one in result.transitions]
    summary = result.summary
    assert summary is not None
    counts = {
        "reactions": kinds.count("entered"),
        "switches to a new model": kinds.count("switched"),
        "fresh starts": kinds.count("reset"),
    }
    assert (summary.reactions, summary.switches, summary.fresh_starts) == tuple(counts.values())
    print_run(result)
    printed = dict(re.findall(r"^ (\D+?) +(\d+) *$", capsys.readouterr().out, re.MULTILINE))
    shown = {name: int(printed[name]) for name in counts if name in printed}
    assert shown == {name: counts[name] for name in rows}
    page = (tmp_path / "run" / "report.html").read_text()
    assert all((f">{name}<" in page) == (name in rows) for name in counts)
    assert ("dotted line is a sign of drift" in page) == (model == "driftsurf")
    quiet = not any(counts.values())
    assert ("no sign of drift" in page) == (claims and quiet)
    assert ("No reaction" in explain(tmp_path / "run")) == (claims and quiet)
    [entry] = list_runs(tmp_path).runs
    assert entry.drifts == len(result.drifts)  # drifts are events of the whole model, not reactions


def test_one_drift_is_one_reaction_of_a_portfolio(tmp_path: Path) -> None:
    """Its two experts that react to drift do so at the same step; the journal has a transition of each."""
    table = write_inverted(tmp_path)
    result = run(table, label="label", model="recommended-light", batch_size=50, out=tmp_path / "run", progress=False)
    entered = [one for one in result.transitions if one.kind == "entered"]
    summary = result.summary
    assert summary is not None
    assert len(entered) > summary.reactions == 1
    assert summary.switches == 1
    assert list_runs(tmp_path).runs[0].drifts == len(result.drifts)
    assert "1 reaction, 1 switch to the new model" in explain(tmp_path / "run")
    assert f"{len(entered)} experts began to test a new model" in (tmp_path / "run" / "report.html").read_text()


def test_a_page_begins_with_the_verdict_and_marks_the_drift(mixed_run: tuple[Path, str]) -> None:
    record = read_run(mixed_run[0])
    for ended, status in ((None, "drifting"), (4_600, "fine")):
        back = 500 if ended else None
        found = Drift(0, 4_100, 20, 4_300, "new rule", "error", 0.1, 0.9, 0.1, back, ended, (HOSTILE,), evidence=1e3)
        decisions = [replace(one, drifts=()) for one in record.decisions]
        decisions[21] = replace(decisions[21], drifts=(found,))
        page = render_record(replace(record, decisions=decisions))
        assert "<img" not in page
        [verdict] = re.findall(r'<p class="verdict (\w+)">(.*?)</p>', page)
        assert (verdict[0], html.escape(found.cause_sentence(), quote=False) in verdict[1]) == (status, True)
        assert page.index('class="verdict') < page.index('data-figure="error"') < page.index('class="cards"')
        shown, _, details = page.partition('<details class="more">')
        assert [title in shown for title in ("Drifts and their causes", "What happened", "All numbers")] == [1, 1, 0]
        assert "Every reaction of the model" in details
        data = data_of(page)
        assert [mark[:2] for mark in data["found"]] == [[20.5, 99 if ended is None else 23]]
        assert [event["kind"] for event in data["events"] if event["kind"] in ("drift", "over")] == (
            ["drift"] + ["over"] * bool(ended)
        )
        assert "new model" in next(event["text"] for event in data["events"] if event["kind"] == "model")
        assert "the highest of 100 rows in a row" in shown
        assert "when the labels came" not in page
        assert ("last news of the drift" in shown) == (ended is None)
        assert "when the labels came" in render_record(
            replace(record, decisions=decisions, about=record.about | {"served": True})
        )


def test_an_order_is_among_the_events_before_the_next_step_is_scored(mixed_run: tuple[Path, str]) -> None:
    record = read_run(mixed_run[0])
    orders = [
        OrderRecord(1, "pin", 100, "done", "", True, text="driftsurf is pinned from step 100 on", by="anna"),
        OrderRecord(2, "mark", 100, "refused", "no-such-drift", True, text="there is no such drift"),
    ]
    events = data_of(render_record(replace(record, orders=orders)))["events"]
    assert [(event["at"], event["text"]) for event in events if event["kind"] == "order"] == [
        (99, "Pin by anna: driftsurf is pinned from step 100 on."),
        (99, "Mark by an operator (refused): there is no such drift."),
    ]


def test_a_page_says_which_model_the_errors_of_a_drift_are_of_if_labels_come_late(tmp_path: Path) -> None:
    table = write_inverted(tmp_path)
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    columns = [f"{k},{row['a']},{row['b']}" for k, row in enumerate(rows)]
    (tmp_path / "rows.csv").write_text("\n".join(["id,a,b", *columns]))
    labels = [f"{k},{row['label']}" for k, row in enumerate(rows)]
    (tmp_path / "labels.csv").write_text("\n".join(["id,label", *labels]))
    found = run(
        tmp_path / "rows.csv",
        labels=tmp_path / "labels.csv",
        key="id",
        label="label",
        model="recommended-light",
        batch_size=50,
        out=tmp_path / "late",
        progress=False,
    )
    assert len(found.drifts)
    page = (found.folder / "report.html").read_text()
    assert "when the labels came" in page
    assert f">{found.drifts[0].number}</button>" in page
    assert found.drifts[0].number == 1


def test_a_curve_of_single_rows_is_drawn_from_means() -> None:
    with pytest.warns(SmallBatchWarning):
        trace = prequential(SEA(n_rows=500), DriftSurfClassifier(random_state=0), batch_size=1)
    page = render(RunView(trace, [], "model"))
    curve = next(one for one in data_of(page)["figures"][0]["series"] if one.get("marked"))
    assert len(curve["values"]) == 10
    assert np.mean(curve["values"]) == pytest.approx(trace.of("model")["error"].mean(), abs=0.01)
    assert "mean of 50 steps" in page


def test_many_classes_are_told_by_their_confusions(tmp_path: Path) -> None:
    rows = "".join(f"{k % 12 // 2},c{k % 12:02}\n" for k in range(600))
    (tmp_path / "rows.csv").write_text(f"x,y\n{rows}")
    run(
        tmp_path / "rows.csv",
        label="y",
        model="oblivious:naive-bayes",
        batch_size=100,
        out=tmp_path / "run",
        progress=False,
    )
    page = (tmp_path / "run" / "report.html").read_text()
    table = page.partition("were predicted as")[2].partition("</table>")[0]
    assert 0 < table.count("<td>c") <= 20
    assert "8 classes with the most wrong predictions" in page


def test_an_error_that_tells_nothing_is_not_compared_with_trivial_rules() -> None:
    nothing_learned = Baselines("mean error", 0.5, {"majority": 0.5, "persistence": 0.4}, learned=False)
    assert not nothing_learned.warning
    one_value = Baselines("mean error", 0.0, {"majority": 0.0, "persistence": 0.0})
    assert "same value" in one_value.warning
    assert "no better" not in one_value.warning


def test_a_model_that_is_no_better_than_a_trivial_rule_is_pointed_out() -> None:
    stream: Any = Made(lambda X, step: np.where(np.arange(len(X)) % 5, "a", "b"), name="coin", classes=("a", "b"))
    trace = prequential(stream, DriftSurfClassifier(random_state=0), batch_size=100)
    page = render(RunView(trace, [], "model"))
    assert baselines(trace, "model").warning in page
    assert "most frequent class" in [series["name"] for series in data_of(page)["figures"][0]["series"]]
    good, decisions = hostile_run()
    assert 'class="warning"' not in render(RunView(good, decisions, HOSTILE))


def test_the_page_of_a_table_shows_its_dates_and_what_was_run(tmp_path: Path) -> None:
    source = write_csv(tmp_path, mixed_rows(900))
    command = [
        "run",
        str(source),
        "--label",
        "sold",
        "--batch-size",
        "100",
        "--drop",
        "id",
        "--model",
        "driftsurf",
        "--threshold",
        "0.2",
        "--quiet",
    ]
    result = invoke(*command, "--out", str(tmp_path / "run"))
    assert result.exit_code == 0, result.output
    page, record = (tmp_path / "run" / "report.html").read_text(), read_run(tmp_path / "run")
    assert record.trace is not None
    times = record.trace.times("driftsurf")
    assert times is not None
    assert data_of(page)["times"] == times.astype(int).tolist()
    assert str(times[0]) == mixed_rows(1)[0]["when"].replace(" ", "T")
    assert Trace.from_csv(record.trace.to_csv()).times("driftsurf") is not None
    assert titles(page)[-1] == "run_settings"
    assert "no true drift" not in page  # nobody knows the drifts of a file
    written = command_line(record.about, "sales")
    assert (
        written == f"driftsurf run {source} --label sold --drop id --model driftsurf --batch-size 100 --threshold 0.2"
    )
    assert html.escape(written) in page
    known = dict(settings(record.about, "sales"))
    assert (known["label"], known["learner"], known["task"]) == ("sold", "LogisticRegression", "binary")
    again = render_record(replace(record, seconds={}))
    assert again == page


def test_a_command_hides_secrets_and_spells_every_kind_of_option() -> None:
    about = {
        "source": "https://me:password@host/rows.csv?token=1",
        "raw": False,
        "parameters": {"l2": 0.1, "judge": "training"},
        "batch_seconds": 60.0,
        "names": ["a", "b"],
        "max_pending": 100_000,
        "greedy": None,
    }
    assert command_line(about, "") == (
        "driftsurf run 'https://***@host/rows.csv?...' --batch-seconds 60 --no-raw --names a,b --set judge=training "
        "--l2 0.1"
    )
    given = {"name": "mixed", "stream": "Mixed()", "given": {"rows": 2000, "seed": 3}, "seed": 3, "batch_size": 20}
    assert command_line(given, "Mixed") == "driftsurf run mixed --rows 2000 --seed 3"
    assert command_line({}, "x") == ""


def test_every_part_of_the_page_says_alike_how_a_drift_ended() -> None:
    trace, decisions = hostile_run()
    replaced = replace(BEGAN, ended_at_row=900)
    other = replace(OVER, number=1, metric="balanced error", row=1000, ended_at_row=1400)
    told = [replace(one, drifts=()) for one in decisions]
    told[0] = replace(told[0], drifts=(replaced, other))
    view = RunView(trace, told, HOSTILE)
    table = html.unescape("".join(map(str, drifts.build(view))))
    events = [one.text for one in events_of(view) if one.kind == "over"]
    for one, event in zip((replaced, other), events, strict=True):
        assert one.end_text in table
        assert event.endswith(f"{one.end_text}.")
        assert one.end_text in one.describe()
    assert "recovered" not in events[0]
    assert "error 7 % to 30 %" in table  # errors of two kinds are not under one name
    assert "balanced error 7 % to 57 %" in table
    assert "balanced error 7 % to 57 %" in html.unescape(view.drifts._repr_html_())
