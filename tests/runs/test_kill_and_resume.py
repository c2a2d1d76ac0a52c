"""A run over tables that is killed or stopped and resumed ends with the same bytes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from table_files import FORMS, csv_text, write_csv
from table_runs import LATE, LEARN, ROWS, SAVED, Killed, broken, files_of, good, killed, split

from driftsurf.core import disk
from driftsurf.report import terminal


@pytest.mark.parametrize("form", FORMS)
def test_killed_run_ends_with_the_same_bytes(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = FORMS[form](tmp_path, ROWS)
    if form == "csv":
        source.write_text(broken(ROWS))
    ends = {}
    for name, kills in (("whole", ()), ("killed", (0, 4, 4, 11))):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        command = [source, *LEARN, *SAVED, "--on-bad-row", "skip"]
        for step in kills:
            killed(step, *command, "--resume")
        good(*command, "--resume")
        ends[name] = files_of(tmp_path / name)
    assert ends["killed"] == ends["whole"]
    assert len([name for name in ends["whole"] if name.startswith("predictions")]) == 5
    again = files_of(tmp_path / "killed")
    good(*command, "--resume")  # the run was finished
    assert files_of(tmp_path / "killed") == again


@pytest.mark.parametrize(
    "model",
    [
        "driftsurf:sklearn.tree:DecisionTreeClassifier(max_depth=4)",
        "aue(experts=3):sklearn.tree:DecisionTreeClassifier(max_features=1)",
        "mddm:sklearn.naive_bayes:GaussianNB(mode='refit')",
        "recommended",
        "recommended-light",
        pytest.param("recommended-trees", marks=pytest.mark.skipif(not find_spec("lightgbm"), reason="needs lightgbm")),
    ],
)
def test_killed_run_of_a_refitted_learner_ends_with_the_same_bytes(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_csv(tmp_path, ROWS)
    ends = {}
    for name, kills in (("whole", ()), ("killed", (1, 4, 11))):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        command = [source, *LEARN, *SAVED, "--model", model, "--resume"]
        for step in kills:
            killed(step, *command)
        good(*command)
        ends[name] = files_of(tmp_path / name)
    assert ends["killed"] == ends["whole"]


def test_killed_run_of_a_portfolio_for_numbers_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_csv(tmp_path, ROWS)
    ends = {}
    for name, kills in (("whole", ()), ("killed", (1, 7))):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        command = [source, "--label", "price", "--drop", "id", "--batch-size", "100", "--quiet", *SAVED]
        command += ["--model", "portfolio", "--resume"]
        for step in kills:
            killed(step, *command)
        good(*command)
        ends[name] = files_of(tmp_path / name)
    assert ends["killed"] == ends["whole"]


class DyingDisk(disk.Disk):
    """Disk that fails at its ``at``-th call; later calls only close and unlock, as the system does after a kill."""

    def __init__(self, at: int) -> None:
        self.at, self.calls = at, 0

    def sync(self, handle: int) -> None: ...

    def sync_data(self, handle: int) -> None: ...

    def sync_folder(self, path: Path) -> None: ...

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in vars(disk.Disk) or name in ("close", "unlock", "__init__"):
            return found
        self.calls += 1
        if 0 <= self.at < self.calls:
            raise Killed
        return found


def test_kill_at_any_file_call_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = split(tmp_path, ROWS[:600], shuffled=90)
    broken_rows = rows.read_text().splitlines()
    broken_rows[130] += ",more"
    rows.write_text("\n".join(broken_rows) + "\n")
    late = ["--labels", labels, *LATE, "--delay", 1, "--on-bad-row", "skip"]
    command = [rows, *late, "--checkpoint", "live", "--every", 2, "--predictions", "predictions/p.parquet"]
    command += ["--keep", 2, "--part-mb", 0.001, "--resume"]

    def end(name: str, at: int) -> tuple[dict[str, bytes], int]:
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        dying = DyingDisk(at)
        with disk.using(dying), contextlib.suppress(Killed):
            invoke("run", *command)
        good(*command)
        return files_of(tmp_path / name), dying.calls

    whole, calls = end("whole", -1)
    assert calls > 100
    for at in range(1, calls, 7):
        assert end(f"killed at {at}", at)[0] == whole


def test_parquet_parts_have_the_same_bytes_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_csv(tmp_path, ROWS[:800])
    monkeypatch.chdir(tmp_path)
    command = [source, *LEARN, "--every", "3", "--resume"]
    good(*command, "--checkpoint", "a", "--predictions", "a.parquet")
    killed(5, *command, "--checkpoint", "b", "--predictions", "b.parquet")
    good(*command, "--checkpoint", "b", "--predictions", "b.parquet")
    parts = sorted(tmp_path.glob("a-*.parquet"))
    assert [part.name[2:-8] for part in parts] == ["000000000000", "000000000300", "000000000600"]
    for part in parts:
        assert part.read_bytes() == (tmp_path / part.name.replace("a-", "b-")).read_bytes()
    refused = invoke("run", *command[:-1], "--checkpoint", "c", "--predictions", "b.parquet")
    assert refused.exit_code == 1
    assert "b-000000000000.parquet" in refused.output


def test_standard_input_resumes_only_if_the_same_rows_are_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = broken(ROWS)
    ends = {}
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        command = ["-", *LEARN, *SAVED, "--on-bad-row", "skip", "--resume"]
        if name == "killed":
            killed(7, *command, input=text)
            other = text.replace("city 3", "city 4")
            for wrong in (other, text[: len(text) // 4]):
                refused = invoke("run", *command, input=wrong)
                assert refused.exit_code == 1
                assert "600" in refused.output
        good(*command, input=text)
        ends[name] = files_of(tmp_path / name)
    assert ends["killed"] == ends["whole"]
    assert "skipped rows: 3" in good(*command, input=text).output


def test_sigterm_stops_between_steps_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_csv(tmp_path, ROWS)
    monkeypatch.chdir(tmp_path)
    good(source, *LEARN, "--predictions", "whole.csv", "--out", "whole")

    def ask(self: terminal.ProgressBar, step: int, *_: object) -> None:
        if step == 4:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(terminal.ProgressBar, "__call__", ask)
        result = invoke("run", source, *LEARN, *SAVED)
    assert result.exit_code == 143
    good(source, *LEARN, *SAVED, "--resume")
    parts = [part.read_text().splitlines()[1:] for part in sorted(Path("predictions").iterdir())]
    assert [line for part in parts for line in part] == Path("whole.csv").read_text().splitlines()[1:]
    assert Path("live/result/trace.csv").read_bytes() == Path("whole/trace.csv").read_bytes()


def test_waiting_pipe_can_be_terminated_or_killed_and_resumed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "driftsurf", "run", "-", *LEARN, *SAVED, "--resume"]
    text = csv_text(ROWS).encode()
    cut = text.index(b"r01250")
    ends = []
    for number in (signal.SIGTERM, signal.SIGKILL):
        folder = tmp_path / number.name
        folder.mkdir()
        with subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            process.stdin.write(text[:cut])
            process.stdin.flush()
            deadline = time.monotonic() + 300
            while len(list((folder / "predictions").glob("p-*"))) < 4 and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(number)
            assert len(list((folder / "predictions").iterdir())) == 4
            assert process.wait(300) == (143 if number == signal.SIGTERM else -9)
            process.stdin.close()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            good(*command[4:], input=text.decode())
        ends.append({name: (folder / "live" / "result" / name).read_bytes() for name in ("trace.csv", "journal.jsonl")})
    assert ends[0] == ends[1]
