"""One numbering of the steps of a run whose labels come late, in its journal, trace, charts and explanations."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import invoke
from table_runs import LATE, ROWS, SAVED, files_of, good, killed, split

import driftsurf
from driftsurf.errors import StateError
from driftsurf.learners import LogisticRegression
from driftsurf.report.sections import RunView, overlay_of
from driftsurf.runs.explanation.explain import explain
from driftsurf.runs.explanation.lineage import lineages
from driftsurf.runs.explanation.records import read_run
from driftsurf.runs.late import Arrived, LateSession, LateSteps
from driftsurf.runs.numbering import Numbering
from driftsurf.runs.orders import submit
from driftsurf.runs.result import RunResult
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

Predictor = tuple[int, int]


@pytest.fixture
def predictors(monkeypatch: pytest.MonkeyPatch) -> list[Predictor]:
    """Return a list that a run fills with the model that predicts each row: its number and its first row."""
    found: list[Predictor] = []
    predict = LateSession._predict

    def noted(self: LateSession, arrived: Arrived) -> Any:
        strategy: Any = self.session.strategy
        model = strategy._live.predictor if self.steps else None
        found.extend([(-1, -1) if model is None else (model.id, model.first_row)] * len(arrived.keys))
        return predict(self, arrived)

    monkeypatch.setattr(LateSession, "_predict", noted)
    return found


def flips(folder: Path, count: int = 4000, every: int = 101) -> tuple[Path, Path, list[int]]:
    """Write rows whose concept changes in the middle, and labels out of order; return the rows as they are labelled."""
    values = [(k * 7919 % 1000) / 1000 for k in range(count)]
    order = [k for k in sorted(range(count), key=lambda k: k + k * 6151 % 250) if k % every != 3]
    label = ["yes" if (value > 0.5) == (k < count // 2) else "no" for k, value in enumerate(values)]
    (folder / "rows.csv").write_text("id,x\n" + "".join(f"r{k},{value}\n" for k, value in enumerate(values)))
    (folder / "labels.csv").write_text("id,sold\n" + "".join(f"r{k},{label[k]}\n" for k in order))
    return folder / "rows.csv", folder / "labels.csv", order


def run_flips(folder: Path, rows: Path, labels: Path, **more: Any) -> RunResult:
    return driftsurf.run(
        rows, labels=str(labels), key="id", label="sold", batch_size=100, model="driftsurf", delay=3,
        predictions=str(folder / "p.csv"), **more,
    )  # fmt: skip


def expected(order: list[int], predictors: list[Predictor], steps: int, size: int = 100) -> list[Predictor]:
    """Return the model that predicted most rows of each step, the newest of several."""
    found = []
    for step in range(steps):
        models = [predictors[row] for row in order[size * step : size * (step + 1)] if predictors[row] != (-1, -1)]
        counts = Counter(models)
        found.append(max(counts, key=lambda model: (counts[model], model)) if counts else (-1, -1))
    return found


def test_a_step_is_the_same_in_journal_trace_charts_and_reports(tmp_path: Path) -> None:
    rows, labels, order = flips(tmp_path)
    reported: list[tuple[int, tuple[int, ...]]] = []

    def on_step(step: int, model: str, error: float, decisions: Any) -> None:
        reported.append((step, tuple(decision.step for decision in decisions)))

    result = run_flips(tmp_path, rows, labels, out=tmp_path / "run", on_step=on_step)
    steps, rest = divmod(len(order), 100)
    assert reported == [(step, (step,)) for step in range(steps)]
    run = result.trace.of("driftsurf")
    assert run["step"].tolist() == list(range(steps + 1))  # the last one is not full
    decisions = result.decisions
    assert [decision.step for decision in decisions] == list(range(steps))
    assert run["first_row"].tolist() == [*(decision.first_row for decision in decisions), 100 * steps]
    assert run["learned"].tolist() == [100] * steps + [0]
    assert (run["rows"][0], run["rows"][-1]) == (0, rest)
    assert run["rows"].sum() == result.label_counts.scored  # type: ignore[union-attr]
    assert run["errors"].sum() == result.label_counts.errors  # type: ignore[union-attr]
    assert np.isnan(run["error"][0])
    kinds = [tuple(one.kind for one in decision.transitions) for decision in decisions]
    assert list(result.trace.transitions("driftsurf")) == [*kinds, ()]
    assert sum(map(bool, kinds)) > 3
    assert result.scores is not None
    assert [line["step"] for line in result.scores.lines] == list(range(steps + 1))
    view = RunView(result.trace, decisions, "driftsurf", scores=result.scores)
    assert overlay_of(view).steps == steps + 1
    assert [change.at for change in overlay_of(view).changes] == [
        decision.step for decision in decisions for _ in decision.transitions
    ]


def test_the_trace_and_the_explanation_name_the_models_that_predicted(
    tmp_path: Path, predictors: list[Predictor]
) -> None:
    rows, labels, order = flips(tmp_path)
    result = run_flips(tmp_path, rows, labels, out=tmp_path / "run")
    run = result.trace.of("driftsurf")
    wanted = expected(order, predictors, len(run["step"]))
    assert list(zip(run["predicted_by"].tolist(), run["trained_from"].tolist(), strict=True)) == wanted
    assert len(set(wanted)) > 2
    in_use = [(decision.predicted_by, decision.trained_from) for decision in result.decisions]
    assert wanted[:-1] != in_use
    versions = [int(line.split(",")[-1]) for line in (tmp_path / "p.csv").read_text().splitlines()[1:]]
    for step in range(len(run["step"])):
        found = [versions[row] for row in order[100 * step : 100 * (step + 1)] if versions[row]] or [-1]
        assert (run["oldest_version"][step], run["newest_version"][step]) == (min(found), max(found))
    for model in lineages(result.decisions, result.trace.late_predictors("driftsurf")):
        spans = [step for first, last in model.predicted for step in range(first, last + 1)]
        assert spans == [step for step, one in enumerate(wanted[:-1]) if one[0] == model.id]
    changed = next(step for step, one in enumerate(wanted[:-1]) if step and one != in_use[step] and one[0] >= 0)
    text = " ".join(explain(tmp_path / "run", step=changed).split())
    assert f"model {wanted[changed][0]} (trained from row {wanted[changed][1]:,})" in text
    assert f"model {in_use[changed][0]} was in use" in text


def test_rows_before_an_order_were_predicted_by_the_model_before_it(
    tmp_path: Path, predictors: list[Predictor]
) -> None:
    rows, labels, order = flips(tmp_path)

    def on_step(step: int, model: str, error: float, decisions: Any) -> None:
        if step == 8:
            submit(tmp_path / "live", "reset")

    result = run_flips(tmp_path, rows, labels, checkpoint=tmp_path / "live", every=2, on_step=on_step)
    run = result.trace.of("driftsurf")
    assert [(one.kind, one.outcome) for one in result.orders] == [("reset", "done")]
    assert result.orders[0].step in (9, 10)  # the number of the next step
    wanted = expected(order, predictors, len(run["step"]))
    assert list(zip(run["predicted_by"].tolist(), run["trained_from"].tolist(), strict=True)) == wanted


def test_a_model_that_is_rolled_back_predicts_under_a_new_number(tmp_path: Path) -> None:
    rows, labels, _ = flips(tmp_path)

    def on_step(step: int, model: str, error: float, decisions: Any) -> None:
        if step == 12:
            submit(tmp_path / "live", "rollback", to=4)

    result = run_flips(tmp_path, rows, labels, checkpoint=tmp_path / "live", every=2, keep=9, on_step=on_step)
    (order,) = result.orders
    assert order.outcome == "done"
    run, decisions = result.trace.of("driftsurf"), result.decisions
    assert [decision.step for decision in decisions] == run["step"].tolist()[: len(decisions)]
    assert [decision.first_row for decision in decisions] == run["first_row"].tolist()[: len(decisions)]
    known = {(decision.predicted_by, decision.trained_from) for decision in decisions} | {(-1, -1)}
    named = list(zip(run["predicted_by"].tolist(), run["trained_from"].tolist(), strict=True))
    assert set(named) <= known
    before = {decision.predicted_by for decision in decisions[: order.step]}
    assert run["predicted_by"][order.step] in before  # its rows came before the order
    assert run["predicted_by"][-1] not in before
    assert run["rows"].sum() == result.label_counts.scored  # type: ignore[union-attr]


@pytest.mark.parametrize("orders", [False, True])
def test_killed_run_has_the_same_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orders: bool) -> None:
    rows, labels = split(tmp_path, ROWS, shuffled=300)
    lines = labels.read_text().splitlines()
    labels.write_text("\n".join(line for place, line in enumerate(lines) if place % 9 != 4) + "\n")
    ends = {}
    for name, kills in (("whole", (6,)), ("killed", (1, 6, 9, 12))):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        command = [rows, "--labels", labels, *LATE, "--delay", "1", *SAVED, "--drop", "when", "--resume"]
        for step in kills:
            killed(step, *command)
            if orders and step == 6:
                assert invoke("reset", "live").exit_code == 0
        good(*command)
        ends[name] = files_of(tmp_path / name)
        good(*command)  # a finished run writes the same result again
        assert files_of(tmp_path / name) == ends[name]
    assert ends["killed"] == ends["whole"]
    record = read_run(tmp_path / "killed" / "live")
    assert record.trace is not None
    run = record.trace.of("driftsurf")
    assert run["learned"][-1] == 0  # rows that were scored, and whose step is not full
    assert run["step"].tolist() == list(range(len(record.decisions) + 1))


def test_a_run_that_continues_another_may_score_rows_and_learn_none(tmp_path: Path) -> None:
    rows, labels, _ = flips(tmp_path, count=600)
    run_flips(tmp_path, rows, labels, out=tmp_path / "first")
    labels.write_text("".join(labels.read_text().splitlines(keepends=True)[:5]))  # the step under way lacks six rows
    command = [rows, "--labels", labels, "--key", "id", "--label", "sold", "--batch-size", "100"]
    good(*command, "--start-from", tmp_path / "first", "--out", tmp_path / "second")
    trace = read_run(tmp_path / "second").trace
    assert trace is not None
    run = trace.of("driftsurf")
    assert (run["rows"].tolist(), run["learned"].tolist()) == ([4], [0])
    assert np.isnan(trace.gradients_per_row("driftsurf"))
    assert (tmp_path / "second" / "report.html").exists()


def test_saved_steps_that_are_none_are_refused() -> None:
    model = LateSession(Session(DriftSurf(LogisticRegression()), batch_size=20))
    steps = LateSteps("m", model)
    state = steps.state()
    assert not list(steps.unfinished(Numbering()))
    for name, value in (
        ("scored", [[1, 0, -1, 0]]),
        ("scored", [[None, 0, 1, 0]]),
        ("predictors", [[5, None], [7, [0, 0]]]),
        ("predictors", [[7, [0, 0]], [5, [1, 0]]]),
        ("next", [0, "a"]),
    ):
        with pytest.raises(StateError, match=name):
            steps.restore(state | {name: json.dumps(value)})
    assert steps.state() == state
