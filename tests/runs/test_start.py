"""Runs that start with the model of a finished run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from table_files import csv_text
from table_runs import ROWS, good, killed, split

import driftsurf
from driftsurf.errors import OptionError, RunFolderError, SchemaError, StateError
from driftsurf.runs.explanation.lineage import lineages
from driftsurf.runs.explanation.records import BEGAN_REACTIVE

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.ColumnWarning")  # columns tell the label
LABEL: dict[str, Any] = {"label": "sold", "drop": ["id"], "batch_size": 100, "model": "driftsurf"}
NAMES = list(ROWS[0])


def write(folder: Path, name: str, rows: list[Any], columns: list[str] = NAMES) -> Path:
    (folder / name).write_text(csv_text(rows, columns))
    return folder / name


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """Return the folder of a run over the first 900 rows."""
    source = write(tmp_path, "first.csv", ROWS[:900])
    return driftsurf.run(source, **LABEL, threshold=0.2, out=tmp_path / "first").folder


def test_two_runs_learn_the_same_as_one(first: Path, tmp_path: Path) -> None:
    result = driftsurf.run(write(tmp_path, "more.csv", ROWS[900:]), start_from=first, out=tmp_path / "second")
    whole = driftsurf.run(write(tmp_path, "all.csv", ROWS), **LABEL, threshold=0.2, out=tmp_path / "whole")
    session, other = result.models["driftsurf"], whole.models["driftsurf"]
    assert session.steps == other.steps == 15
    frame = pd.DataFrame(ROWS)
    both = [driftsurf.load(folder) for folder in (result.folder, whole.folder)]
    assert np.array_equal(*(model.predict_proba(frame) for model in both))
    later = whole.trace.of("driftsurf")
    mine = result.trace.of("driftsurf")
    assert mine["errors"].tolist() == later["errors"][9:].tolist()
    assert result.trace.warmup_steps == 0  # the first batch was predicted by a model that had learned
    assert [one.step for one in result.decisions] == list(range(6))
    assert [one.first_row for one in result.decisions] == list(range(0, 600, 100))
    assert [one.threshold for one in result.decisions] == [0.2] * 6
    assert [one.trained_from for one in result.decisions] == [one.trained_from - 900 for one in whole.decisions[9:]]


@pytest.mark.parametrize("rows", [100, 1900])
def test_a_run_that_begins_in_a_reactive_state_says_so(tmp_path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2200, 2)).round(3)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=(X[:, 0] > 0) == (np.arange(2200) < 1200))
    parts = {"first.csv": table[:1300], "more.csv": table[1300 : 1300 + rows]}
    for name, part in parts.items():
        part.to_csv(tmp_path / name, index=False)
    options: dict[str, Any] = {"label": "y", "batch_size": 100, "model": "driftsurf"}
    before = driftsurf.run(tmp_path / "first.csv", **options, out=tmp_path / "before")
    after = driftsurf.run(tmp_path / "more.csv", start_from=before.folder, out=tmp_path / "after")
    assert before.decisions[-1].reactive_step == 1
    assert after.decisions[0].reactive_step == 2
    page, text = (after.folder / "report.html").read_text(), driftsurf.explain(after.folder)
    assert BEGAN_REACTIVE in page
    assert BEGAN_REACTIVE in text
    assert "There was no sign of drift" not in page
    old, new, *_ = lineages(after.decisions)
    assert (old.first_row, new.first_row) == (-1300, -100)
    assert {"1,300", "100"} <= {word for model in (old, new) for word in model.describe().split()}


def test_a_killed_run_that_started_from_another_ends_with_the_same_bytes(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(tmp_path, "more.csv", ROWS[900:])
    ends = []
    for name, kills in (("whole", ()), ("killed", (0, 2, 4))):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        command = [source, "--start-from", first, "--checkpoint", "live", "--every", "2", "--resume", "--quiet"]
        for step in kills:
            killed(step, *command)
        good(*command)
        files = sorted(Path("live/result").iterdir())
        ends.append({path.name: path.read_bytes() for path in files if path.name != "timings.json"})
    assert ends[0] == ends[1]
    assert "model.state" in ends[0]


def test_settings_can_be_changed_and_dropped_columns_may_be_absent(first: Path, tmp_path: Path) -> None:
    source = write(tmp_path, "more.csv", ROWS[900:], [name for name in NAMES if name != "id"])
    result = driftsurf.run(source, start_from=first, threshold=0.4, batch_size=200, out=tmp_path / "second")
    assert [(one.rows, one.threshold) for one in result.decisions] == [(200, 0.4)] * 3
    again = driftsurf.run(source, start_from=result.folder, out=tmp_path / "third")
    assert again.decisions[0].threshold == 0.4


def test_late_labels_continue_with_late_labels(tmp_path: Path) -> None:
    late: dict[str, Any] = {"label": "sold", "key": "id", "batch_size": 100, "model": "driftsurf"}
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    rows, labels = split(tmp_path / "a", ROWS[:700])
    first = driftsurf.run(rows, **late, labels=str(labels), out=tmp_path / "first")
    rows, labels = split(tmp_path / "b", ROWS[700:])
    second = driftsurf.run(rows, labels=str(labels), key="id", start_from=first.folder, out=tmp_path / "second")
    assert second.models["driftsurf"].steps == 15
    with pytest.raises(OptionError, match="start_from"):
        driftsurf.run(write(tmp_path, "all.csv", ROWS), start_from=first.folder, out=tmp_path / "third")


def test_another_model_other_columns_and_other_folders_are_refused(first: Path, tmp_path: Path) -> None:
    source = write(tmp_path, "more.csv", ROWS[900:])
    with pytest.raises(StateError, match="LogisticRegression, not LinearSVM"):
        driftsurf.run(source, start_from=first, model="driftsurf:svm", out=tmp_path / "svm")
    with pytest.raises(StateError, match=r"\(l2=0\.0001\).*\(l2=0\.5\)"):
        driftsurf.run(source, start_from=first, parameters={"l2": 0.5}, out=tmp_path / "l2")
    bad = write(tmp_path, "bad.csv", ROWS[900:], [name for name in NAMES if name != "city"])
    with pytest.raises(SchemaError, match="'city'"):
        driftsurf.run(bad, start_from=first, out=tmp_path / "bad")
    stream = driftsurf.run("sea10", rows=1_000, out=tmp_path / "sea").folder
    for folder in (stream, tmp_path):
        with pytest.raises(RunFolderError, match=str(folder)):
            driftsurf.run(source, start_from=folder, out=tmp_path / "other")
    with pytest.raises(OptionError, match="start_from"):
        driftsurf.run("sea10", start_from=first, out=tmp_path / "sea2")
    with pytest.raises(OptionError, match="start_from"):
        driftsurf.run(source, start_from=first, key="city", sequence="id", label="sold", out=tmp_path / "keys")


def test_another_label_is_refused(first: Path, tmp_path: Path) -> None:
    source = write(tmp_path, "more.csv", ROWS[900:])
    with pytest.raises(OptionError, match="'city'"):
        driftsurf.run(source, start_from=first, label="city", out=tmp_path / "other")


def test_no_command_and_no_output_is_taken_from_the_settings_of_a_run(first: Path, tmp_path: Path) -> None:
    about = json.loads((first / "run.json").read_text())
    forged = {"on_transition": f"touch {tmp_path / 'called'}", "predictions": str(tmp_path / "written.csv")}
    (first / "run.json").write_text(json.dumps(about | forged))
    source = write(tmp_path, "more.csv", ROWS[900:])
    driftsurf.run(source, start_from=first, out=tmp_path / "more")
    assert not (tmp_path / "called").exists()
    assert not (tmp_path / "written.csv").exists()


def test_what_is_a_drift_is_a_matter_of_each_run(first: Path, tmp_path: Path) -> None:
    source = write(tmp_path, "more.csv", ROWS[900:])
    options: dict[str, Any] = {"smallest_rise": 0.4, "drift_risk": 0.2}
    for given in (options, {}):
        result = driftsurf.run(source, start_from=first, out=tmp_path / f"after-{len(given)}", **given)
        (session,) = result.models.values()
        state: Any = session.state()
        known = {name: state[f"monitor.{name}"] for name in options}
        assert known == (given or {"smallest_rise": 0.02, "drift_risk": 0.01})
        assert {name: result.about[name] for name in options} == known
