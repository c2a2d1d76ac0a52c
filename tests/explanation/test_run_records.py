"""Run folders and folders of checkpoints, read while they are written and after orders."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from table_runs import good, killed

from driftsurf import explain
from driftsurf.core.decisions import Decision, ModelRecord, Transition
from driftsurf.errors import InputError
from driftsurf.report.run_page import render_record
from driftsurf.report.sections import RunView, overlay_of
from driftsurf.runs import orders
from driftsurf.runs.explanation.lineage import lineages
from driftsurf.runs.explanation.records import RunRecord, pinned, read_run
from driftsurf.runs.numbering import Numbering


@pytest.fixture
def run_folder(mixed_run: tuple[Path, str]) -> Path:
    return mixed_run[0]


def test_a_folder_without_a_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"journal\.jsonl"):
        read_run(tmp_path)
    (tmp_path / "journal.jsonl").write_text("[1]\n")
    with pytest.raises(InputError, match=r"journal\.jsonl"):
        read_run(tmp_path)


def test_an_incomplete_last_line_is_ignored(run_folder: Path, tmp_path: Path) -> None:
    for name in ("journal.jsonl", "trace.csv", "columns.csv"):
        whole = (run_folder / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) * 2 // 3])
    head = (run_folder / "trace.csv").read_bytes().split(b"\n")[:2]
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "journal.jsonl").touch()
    (tmp_path / "empty" / "trace.csv").write_bytes(b"\n".join(head) + b"\n")
    assert read_run(tmp_path / "empty").trace is None
    record = read_run(tmp_path)
    assert 50 < len(record.decisions) < 80
    assert record.trace is not None
    assert record.about == {}
    assert "model 0" in explain(record)


def test_a_journal_in_parts_is_read_in_their_order(run_folder: Path, tmp_path: Path) -> None:
    lines = (run_folder / "journal.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "journal.jsonl").write_text("".join(lines[:40]))
    (tmp_path / "journal.jsonl-000001").write_text("".join(lines[40:]))
    (tmp_path / "run.json").write_text("no json\n")
    assert read_run(tmp_path).decisions == read_run(run_folder).decisions


def test_orders_appear_in_the_text_and_on_the_page(run_folder: Path, tmp_path: Path) -> None:
    given: list[tuple[int, str, bool, orders.Refusal]] = [(10, "pin", True, ""), (12, "pin", True, "")]
    given += [
        (20, "unpin", False, ""),
        (22, "unpin", False, ""),
        (25, "reset", False, ""),
        (30, "pin", False, "late-labels"),
    ]
    given += [(30, "pin", False, "late-labels"), (60, "pin", True, ""), (9999, "reset", True, "")]
    lines = [
        orders.OrderRecord(
            number, kind, step, "refused" if reason else "done", reason, pinned, text=f"a <text> about {step}"
        ).line()
        for number, (step, kind, pinned, reason) in enumerate(given, start=1)
    ]
    (tmp_path / "journal.jsonl").write_text((run_folder / "journal.jsonl").read_text() + "".join(lines))
    (tmp_path / "trace.csv").write_text((run_folder / "trace.csv").read_text())
    orders.submit(tmp_path, "pin")
    record = read_run(tmp_path)
    assert record.waiting == []  # order 1 is done
    assert pinned(record.orders) == [(10, 20), (60, None)]
    undone = orders.OrderRecord(9, "unpin", 60, "done", "", False, text="learns again")
    assert pinned([*record.orders, undone]) == [(10, 20)]
    text = explain(record)
    for step, *_ in given:
        assert f"a <text> about {step}" in text
    spans = [line for line in text.splitlines() if "PINNED" in line]
    assert [re.findall(r"\d+", line) for line in spans] == [["10", "19"], ["60"]]
    assert record.trace is not None
    overlay = overlay_of(RunView(record.trace, record.decisions, "driftsurf", orders=record.orders))
    last = overlay.steps - 1
    assert [mark[:2] for mark in overlay.orders] == [(10, 20), (60, last), (25, 25)]
    page = render_record(record)
    assert 'class="order"' in page
    assert page.count('class="pinned"') > page.count('class="order"')  # two spans and one line on each figure
    assert "Reset by an operator: a &lt;text&gt; about 25.</td>" in page
    plain = render_record(read_run(run_folder))
    assert 'class="order"' not in plain
    assert 'class="pinned"' not in plain
    waits = replace(record, waiting=["rollback"])
    assert "rollback" in explain(waits)
    assert "rollback" not in explain(record)


def test_a_running_run_and_its_orders_are_explained(tmp_path: Path) -> None:
    folder = tmp_path / "live"
    command = ["run", "mixed", "--rows", "4000", "--batch-size", "100", "--quiet", "--checkpoint", str(folder)]
    assert invoke(*command).exit_code == 0
    record = read_run(folder)
    assert json.loads(json.dumps(record.about))["batch_size"] == 100
    assert invoke("reset", str(folder)).exit_code == 1  # the run is finished
    orders.submit(folder, "reset")
    assert invoke(*command, "--resume", "--overwrite").exit_code == 0
    assert re.search(r" step 40\b.* reset\b", " ".join(invoke("explain", str(folder)).output.split()))
    head = max(folder.glob("head-*"))
    head.write_bytes(head.read_bytes()[:-1] + b"x")
    assert read_run(folder).about["batch_size"] == 100  # from the checkpoint before


def test_numbers_of_steps_rows_and_models_continue_after_a_rollback(tmp_path: Path) -> None:
    folder = tmp_path / "live"
    command = ["run", "mixed", "--rows", "4000", "--batch-size", "100", "--quiet", "--checkpoint", str(folder)]
    command += ["--every", "5", "--keep", "20", "--resume"]

    def stop(at: int) -> None:
        def die(self: Any, step: int, *_: object) -> None:
            if step == at:
                raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("driftsurf.report.terminal.ProgressBar.__call__", die)
            assert invoke(*command).exit_code == 130

    stop(22)
    assert invoke("rollback", str(folder), "--to", "3").exit_code == 0  # before step 10
    stop(32)
    assert invoke("rollback", str(folder), "--to", "7").exit_code == 0  # after the first rollback
    assert invoke(*command).exit_code == 0
    record = read_run(folder)
    assert record.trace is not None
    run = record.trace.of(record.trace.models[0])
    assert [decision.step for decision in record.decisions] == run["step"].tolist() == list(range(40))
    assert [decision.first_row for decision in record.decisions] == run["first_row"].tolist()
    assert [decision.predicted_by for decision in record.decisions] == run["predicted_by"].tolist()
    assert [order.step for order in record.orders] == [20, 30]
    assert {model.id for model in lineages(record.decisions[:20])}.isdisjoint(
        model.id for model in lineages(record.decisions[20:])
    )
    for model in lineages(record.decisions):
        in_use = [*model.predicted, (model.born, model.last_step)]
        assert not any(first < order.step <= last for first, last in in_use for order in record.orders)
    assert all(decision.trained_from <= decision.first_row for decision in record.decisions)
    reactions = {decision.step for decision in record.decisions if decision.transitions}
    assert {move.step for move in record.moves} <= reactions
    assert max(move.step for move in record.moves) > 20
    overview = explain(folder).split("\n\n")[1 + bool(record.drifts)]
    assert re.findall(r"[\d,]*\d", overview)[:2] == ["40", "4,000"]
    spans = [
        (start, stop) for start, stop, _ in overlay_of(RunView(record.trace, record.decisions, "driftsurf")).reactive
    ]
    assert spans == sorted(spans)
    assert all(0 < stop - start <= 4 for start, stop in spans)


def test_models_that_were_rolled_back_get_new_numbers() -> None:
    def decided(step: int, ids: tuple[int, int], trained_from: int, *, age: int = 0) -> Decision:
        models = (ModelRecord("predictive", ids[0], age, trained_from),)
        change = Transition("replaced", step, old=ids[0], new=ids[1])
        return Decision(step, 10 * step, 10, "stable", ids[0], trained_from, ids[1], models, transitions=(change,))

    numbering = Numbering()
    own = [decided(0, (-1, 0), -1), decided(1, (0, 0), 0, age=1), decided(2, (0, 1), 0, age=2)]
    assert list(numbering.of(own)) == own
    early = Numbering.from_json(numbering.to_json())
    assert list(numbering.of([decided(3, (1, 1), 20)])) == [decided(3, (1, 1), 20)]
    numbering.roll_back(early)  # before step 3
    again = numbering.of([decided(3, (1, 2), 20, age=1), decided(4, (2, 2), 30)])
    assert [(one.step, one.first_row, one.predicted_by, one.predicts_next) for one in again] == [
        (4, 40, 3, 4),
        (5, 50, 4, 4),
    ]
    assert [one.trained_from for one in again] == [20, 40]  # a row from before the rollback, and one after it
    assert (again[0].models[0].age, again[0].transitions[0].step, again[0].transitions[0].new) == (0, 4, 4)
    second = Numbering.from_json(numbering.to_json())
    assert second == numbering
    numbering.of([decided(5, (2, 2), 30)])
    numbering.roll_back(second)
    (last,) = numbering.of([decided(5, (-1, 2), 30)])
    assert (last.step, last.first_row, last.trained_from, last.predicted_by) == (7, 70, 40, -1)


def decisions_are_at_their_steps(record: RunRecord) -> int:
    """Check that the trace names every transition at the step where the record places it; return their number."""
    assert record.trace is not None
    assert record.steps is not None
    made = record.trace.transitions(record.trace.models[0])
    changed = [decision for decision in record.decisions if decision.transitions]
    for decision in changed:
        assert [one.kind for one in decision.transitions] == list(made[int(record.steps.of_decision(decision))])
    return len(changed)


def test_decisions_of_a_pinned_run_are_at_their_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["mixed", "--rows", "8000", "--quiet", "--checkpoint", "live", "--every", "5", "--resume"]
    killed(10, *command)
    assert invoke("pin", "live").exit_code == 0
    killed(18, *command)
    assert invoke("pin", "live", "--off").exit_code == 0
    good(*command)
    record = read_run(tmp_path / "live")
    assert [order.kind for order in record.orders] == ["pin", "unpin"]
    first = record.orders[1].step
    assert record.decisions[-1].step < 99  # nothing was decided while the model was pinned
    assert decisions_are_at_their_steps(record) > 3
    assert record.steps is not None
    assert record.steps.of_batch(first) == first
    good(*command[:-1], "--overwrite")  # without orders
    assert decisions_are_at_their_steps(read_run(tmp_path / "live")) > 3


def test_decisions_on_late_labels_are_at_their_steps(tmp_path: Path) -> None:
    source = tmp_path / "flips.csv"
    values = [(k * 7919 % 1000) / 1000 for k in range(6000)]
    lines = (f"{value},{'yes' if (value > 0.5) == (k < 3000) else 'no'}\n" for k, value in enumerate(values))
    source.write_text("x,sold\n" + "".join(lines))
    for delay in (1, 3):
        out = tmp_path / f"run-{delay}"
        good(source, "--label", "sold", "--batch-size", "100", "--delay", delay, "--quiet", "--out", out)
        assert decisions_are_at_their_steps(read_run(out)) > 1
