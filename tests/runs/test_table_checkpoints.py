"""Files beside the checkpoints of a run over tables: parts, damaged and foreign checkpoints, orders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from table_files import write_csv
from table_runs import LATE, LEARN, ROWS, SAVED, broken, files_of, good, killed, split

from driftsurf import Trace
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.runs.explanation.explain import explain
from driftsurf.runs.explanation.records import pinned, read_run


def test_output_parts_rotate_and_old_parts_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "sales.csv"
    source.write_text(broken(ROWS))
    ends = {}
    for name, kills in (("whole", ()), ("killed", (5, 11))):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        command = [source, *LEARN, *SAVED, "--on-bad-row", "skip", "--keep", 2, "--part-mb", 0.0005, "--resume"]
        for step in kills:
            killed(step, *command)
        good(*command)
        ends[name] = files_of(tmp_path / name)
    assert ends["whole"] == ends["killed"]
    names = sorted(ends["whole"])
    assert [name for name in names if name.startswith("predictions")] == [
        "predictions/p-000000000900.csv",
        "predictions/p-000000001200.csv",
    ]
    assert [name for name in names if name.startswith("live/journal")] == [
        "live/journal.jsonl-000003",
        "live/journal.jsonl-000004",
        "live/journal.jsonl-000005",
    ]
    assert oct(Path("live/bad_rows.jsonl").stat().st_mode)[-3:] == "600"
    assert len((tmp_path / "whole" / "live" / "result" / "journal.jsonl").read_text().splitlines()) < 15


@pytest.mark.filterwarnings("always::driftsurf.errors.StateWarning")
def test_every_kept_checkpoint_has_the_parts_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sales.csv").write_text(broken(ROWS))
    monkeypatch.chdir(tmp_path)
    command = ["sales.csv", *LEARN, "--checkpoint", "live", "--every", 1, "--on-bad-row", "skip", "--part-mb", 1e-7]
    command += ["--keep", 3, "--resume"]
    killed(6, *command)
    heads = sorted(Path("live").glob("head-*"))
    for number in (1, 2):
        damaged = bytearray(heads[-number].read_bytes())
        damaged[len(damaged) // 2] ^= 1
        heads[-number].write_bytes(damaged)
    assert len(heads) == 3
    output = good(*command).output
    for head in heads:  # the warning names the damaged checkpoints and the one that is used
        assert f"checkpoint {int(head.name.split('-')[1].split('.')[0])}" in output


@pytest.mark.filterwarnings("always::driftsurf.errors.StateWarning")
@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("outputs", '{"..": [0, ""]}'),
        ("outputs", '{"%s": [0, ""]}' % ("x" * 300)),
        ("state.strange", 1),
        ("state.models.driftsurf.strange", 1),
        ("state.models.driftsurf.strategy.predictive.learner.hi", 10**9),
        ("state.source.skipped", "many"),
    ],
)
def test_a_checkpoint_with_an_entry_that_cannot_be_used_is_replaced_by_the_one_before(
    entry: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sales.csv").write_text(broken(ROWS[:600]))
    ends = {}
    for name in ("whole", "forged"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        command = ["../sales.csv", *LEARN, "--checkpoint", "live", "--every", 1, "--on-bad-row", "skip", "--resume"]
        if name == "forged":
            killed(4, *command)
            head = max(Path("live").glob("head-*"))
            state = from_bytes(head.read_bytes())
            assert entry in state or "strange" in entry
            head.write_bytes(to_bytes(state | {entry: value}))
            output = good(*command).output
            assert f"checkpoint {int(head.stem.split('-')[1])} cannot be used" in output.replace("\n", " ")
        else:
            good(*command)
        ends[name] = (tmp_path / name / "live" / "result" / "journal.jsonl").read_bytes()
    assert ends["whole"] == ends["forged"]


def test_checkpoint_of_another_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = write_csv(tmp_path, ROWS[:300])
    good("mixed", "--rows", 2000, "--quiet", "--checkpoint", "live")
    assert invoke("run", source, *LEARN, "--checkpoint", "live", "--resume").exit_code == 1
    good(source, *LEARN, "--checkpoint", "mine")
    other = invoke("run", source, *LEARN, "--checkpoint", "mine", "--resume", "--seed", 4)
    assert other.exit_code == 1
    assert "--seed" in other.output
    learner = "sklearn.naive_bayes:GaussianNB"
    inexact = invoke("run", source, *LEARN, "--checkpoint", "new", "--model", f"aue:{learner}")
    assert inexact.exit_code != 0
    assert learner in inexact.output


def test_refused_pin_is_not_reported_as_a_pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = split(tmp_path, ROWS[:600])
    monkeypatch.chdir(tmp_path)
    command = [rows, "--labels", labels, *LATE, *SAVED, "--resume"]
    killed(4, *command)
    assert invoke("pin", "live").exit_code == 0
    assert invoke("reset", "live").exit_code == 0
    printed = good(*command).output
    record = read_run(Path("live"))
    outcomes = [(order.kind, order.outcome, order.reason, order.pinned) for order in record.orders]
    assert outcomes == [("pin", "refused", "late-labels", False), ("reset", "done", "", False)]
    assert pinned(record.orders) == []
    assert "PINNED" not in explain(record)
    assert 'class="pinned"' not in Path("live/result/report.html").read_text()
    assert "pinned" not in invoke("inspect", "live").output.partition("\n")[0]
    assert "refused" in printed
    # A refused order changes nothing, so a replay does not stop at it.
    assert record.orders[0].step <= record.orders[1].step
    assert explain(replace(record, orders=record.orders[:1]), threshold=1e9) == explain(
        replace(record, orders=[]), threshold=1e9
    )


@pytest.mark.parametrize("how", ["at once", "delayed", "keyed"])
def test_rollback_restores_the_model_and_loses_no_row(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if how == "keyed":
        rows, labels = split(tmp_path, ROWS)
        command = [rows, "--labels", labels, *LATE]
    else:
        command = [write_csv(tmp_path, ROWS), *LEARN, *(["--delay", 1] if how == "delayed" else [])]
    command += [*SAVED, "--keep", 20, "--resume"]
    killed(10, *command)
    assert invoke("rollback", "live", "--to", 2).exit_code == 0
    good(*command)
    parts = [part.read_text().splitlines()[1:] for part in sorted(Path("predictions").iterdir())]
    assert [int(line.split(",")[0]) for part in parts for line in part] == list(range(1500))
    trace = Trace.from_csv(Path("live/result/trace.csv").read_text())
    unscored = {"at once": 0, "delayed": 200, "keyed": 100}  # predicted before there was a model
    assert trace.of(trace.models[0])["rows"].sum() == 1500 - unscored[how]


def test_a_followed_run_resumes_with_other_ways_of_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    source = write_csv(tmp_path, ROWS[:600])
    command = [source, *LEARN, *SAVED]
    killed(4, *command, "--follow", "--follow-for", "0.2")
    good(*command, "--resume")  # to the end of the file, without waiting
    write_csv(tmp_path, ROWS)
    good(*command, "--resume", "--follow", "--follow-for", "0.2")  # the finished run continues
    resumed = files_of(tmp_path)
    (tmp_path / "whole").mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    good(*command)
    whole = files_of(tmp_path / "whole")
    assert {name: resumed[name] for name in whole if name != "model"} == {
        name: found for name, found in whole.items() if name != "model"
    }
