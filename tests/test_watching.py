"""What a run tells others while it runs: a command, Prometheus, the log."""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from driftsurf.cli import main
from driftsurf.decisions import Decision, ModelRecord, Transition
from driftsurf.errors import OptionError
from driftsurf.evaluation.scoring import TraceRecorder
from driftsurf.learners import LogisticRegression
from driftsurf.runtime.hooks import TransitionCommand, TransitionLog
from driftsurf.runtime.late import Arrived, DelayedSession
from driftsurf.runtime.prometheus import MetricsFile, MetricsServer, RunMetrics
from driftsurf.runtime.run import Run
from driftsurf.runtime.session import Session
from driftsurf.runtime.source import StreamSource
from driftsurf.strategies import DriftSurf
from driftsurf.streams import Mixed

CHANGE = Transition("entered", 7, 1, left=0.6, right=0.3, margin=0.1, old=0, new=1)
DECISION = Decision(
    7, 70, 10, "reactive", 0, 0, 1, (ModelRecord("predictive", 0, 7, 0, gradients=20),), transitions=(CHANGE,)
)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    stream = Mixed(n_rows=2000)
    sessions = {
        name: Session(DriftSurf(LogisticRegression()), classes=(-1, 1), batch_size=size)
        for name, size in (("model", 150), ('a "b"\n\\', None))
    }
    recorder = TraceRecorder(stream, 100)
    with Run(StreamSource(stream, 100), sessions, recorder, tmp_path.joinpath) as live:
        live.begin()
        yield live


# ---------------------------------------------------------------------------- a command


def test_the_command_gets_the_transition_on_its_input_and_in_its_environment(tmp_path: Path) -> None:
    tell = TransitionCommand(f'cat > "{tmp_path}/in"; env | grep ^DRIFTSURF_ | sort > "{tmp_path}/env"', "mine")
    tell(7, "other", 0.5, (DECISION,))
    assert not list(tmp_path.iterdir())
    tell(7, "mine", 0.5, (DECISION,))
    told = json.loads((tmp_path / "in").read_text())
    assert (told["model"], told["kind"], told["step"], told["left"]) == ("mine", "entered", 7, 0.6)
    assert told["text"] == CHANGE.describe()
    environment = [line for line in (tmp_path / "env").read_text().splitlines() if "_DATA=" not in line]
    assert environment == [
        "DRIFTSURF_KIND=entered",
        "DRIFTSURF_MODEL=mine",
        "DRIFTSURF_STEP=7",
        f"DRIFTSURF_TEXT={CHANGE.describe()}",
    ]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("exit 3", "step 7: the command left with exit code 3"),
        ("sleep 60 & sleep 60", "step 7: the command took more than 0.2 s and was killed"),
        ("no-such-command-at-all 2> /dev/null", "exit code 127"),
    ],
)
def test_a_command_that_fails_is_logged_and_nothing_else(
    command: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    TransitionCommand(command, "m", timeout=0.2 if "sleep" in command else 30.0)(7, "m", 0.5, (DECISION,))
    assert [said in record.message for record in caplog.records] == [True]


def test_a_command_that_does_not_read_is_fine(caplog: pytest.LogCaptureFixture) -> None:
    TransitionCommand("true", "m")(7, "m", 0.5, (DECISION,))
    assert not caplog.records


def test_a_command_that_cannot_be_started_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr("driftsurf.runtime.hooks.subprocess.Popen", refuse)
    TransitionCommand("true", "m")(7, "m", 0.5, (DECISION,))
    assert "cannot be run: no more processes" in caplog.text


def test_a_time_of_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="timeout is 0"):
        TransitionCommand("true", "m", timeout=0.0)


def test_transitions_and_steps_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="driftsurf")
    TransitionLog()(7, "m", 0.5, (DECISION,))
    assert [record.levelname for record in caplog.records] == ["DEBUG", "INFO"]
    assert caplog.records[1].message == f"m: {CHANGE.describe()}"


# ---------------------------------------------------------------------------- Prometheus


def values(text: str) -> dict[str, float]:
    """What Prometheus reads: each family has help and type before it, and a name stands once."""
    found: dict[str, float] = {}
    declared = ""
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            declared, kind = line.split()[2:]
            assert kind in ("gauge", "counter")
        elif not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            assert name.partition("{")[0] == declared
            assert name not in found
            found[name] = float(value)
    return found


def test_metrics_count_what_a_run_does(run: Run) -> None:
    now = [1000.0]
    metrics = RunMetrics(run, clock=lambda: now[0])
    now[0] += 5.0
    empty = values(metrics.text())
    assert empty["driftsurf_last_label_age_seconds"] == 5.0
    assert "driftsurf_last_label_timestamp_seconds" not in empty
    run.go(metrics)
    now[0] += 7.0
    found = values(metrics.text())
    assert found["driftsurf_last_label_age_seconds"] == 7.0
    assert found["driftsurf_last_label_timestamp_seconds"] == 1005.0
    strange = '{model="a \\"b\\"\\n\\\\"}'
    assert found[f"driftsurf_rows_total{strange}"] == 2000
    assert found['driftsurf_rows_total{model="model"}'] == 1950
    assert found["driftsurf_lag_rows"] == 50
    assert found['driftsurf_steps_total{model="model"}'] == 20
    leading: Any = run.sessions['a "b"\n\\']
    assert found[f"driftsurf_gradients_total{strange}"] == sum(d.gradients for d in leading.journal)
    assert 0.0 <= found['driftsurf_error{model="model"}'] <= 1.0
    assert found["driftsurf_skipped_rows"] == 0
    assert (found["driftsurf_step"], found["driftsurf_done"]) == (20, 1)
    metrics(20, "model", 0.5, (DECISION,))
    again = values(metrics.text())
    key = 'driftsurf_transitions_total{model="model",kind="entered"}'
    assert again[key] == found.get(key, 0.0) + 1
    assert again['driftsurf_reactive{model="model"}'] == 1


def test_metrics_know_rows_that_wait_for_late_labels(run: Run) -> None:
    session = DelayedSession(Session(DriftSurf(LogisticRegression()), batch_size=50))
    run.sessions = {"m": session}
    now = [0.0]
    metrics = RunMetrics(run, clock=lambda: now[0])
    X = np.linspace(-1.0, 1.0, 40).reshape(-1, 1)

    def step(at: float, rows: Arrived | None, labels: list[Any]) -> dict[str, float]:
        now[0] = at
        seen = session.observe(rows, labels)
        metrics(0, "m", seen.error, seen.decisions)
        now[0] += 1.0
        return values(metrics.text())

    found = step(100.0, Arrived(list(range(40)), X, False), [])
    assert found["driftsurf_lag_rows"] == 40
    assert found["driftsurf_last_label_age_seconds"] == 101.0  # since the beginning
    assert "driftsurf_last_label_timestamp_seconds" not in found
    found = step(200.0, None, [(list(range(10)), X[:10, 0] > -0.8)])
    assert found["driftsurf_lag_rows"] == 40  # 30 without a label, 10 in a step that is not full
    assert found["driftsurf_last_label_timestamp_seconds"] == 200.0
    found = step(300.0, Arrived(list(range(40, 80)), X, False), [])
    assert found["driftsurf_last_label_age_seconds"] == 101.0
    found = step(400.0, None, [(list(range(10, 60)), np.arange(50) > 20)])
    assert found["driftsurf_lag_rows"] == 30
    assert found["driftsurf_last_label_timestamp_seconds"] == 400.0


def test_the_file_is_written_once_a_second_and_at_both_ends(run: Run, tmp_path: Path) -> None:
    now, path = [0.0], tmp_path / "m.prom"
    metrics = RunMetrics(run)
    with MetricsFile(path, metrics, clock=lambda: now[0]) as file:
        first = path.read_text()
        metrics(0, "model", 0.25, ())
        file(0, "model", 0.25, ())
        assert path.read_text() == first
        now[0] = 1.0
        file(0, "model", 0.25, ())
        assert values(path.read_text())['driftsurf_error{model="model"}'] == 0.25
        metrics(0, "model", 0.75, ())
    assert values(path.read_text())['driftsurf_error{model="model"}'] == 0.75
    assert not list(tmp_path.glob(".m.prom*"))


def test_a_file_that_cannot_be_written_is_said_once(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with MetricsFile(tmp_path / "no" / "m.prom", RunMetrics(run)):
        pass
    assert caplog.text.count("metrics cannot be written") == 1


def test_the_port_answers_with_the_metrics_alone(run: Run) -> None:
    metrics = RunMetrics(run)
    with MetricsServer(0, metrics) as server:
        run.go(metrics)
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert values(answer.read().decode())['driftsurf_steps_total{model="model"}'] == 20
        with pytest.raises(OptionError, match=f"cannot be served at 127.0.0.1:{server.port}: .* give another port"):
            MetricsServer(server.port, metrics)
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/")
        refused.value.close()


# ---------------------------------------------------------------------------- the command line

RUN = ["run", "mixed", "--rows", "4000", "--batch-size", "100", "--quiet"]


def test_watching_changes_nothing_of_the_run(tmp_path: Path) -> None:
    plain, seen = tmp_path / "plain", tmp_path / "seen"
    assert invoke(*RUN, "--out", str(plain)).exit_code == 0
    told = ["--on-transition", f"cat >> {tmp_path}/told; exit 1", "--metrics", str(tmp_path / "m.prom")]
    result = invoke(*RUN, "--out", str(seen), *told, "--log-level", "info")
    assert result.exit_code == 0
    for name in ("journal.jsonl", "trace.csv", "columns.csv", "run.json", "report.html"):
        assert (plain / name).read_bytes() == (seen / name).read_bytes()
    transitions = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    lines = [json.loads(line) for line in (seen / "journal.jsonl").read_text().splitlines()]
    assert [{"model": "driftsurf", **line} for line in lines if line["type"] == "transition"] == transitions
    assert values((tmp_path / "m.prom").read_text())['driftsurf_rows_total{model="driftsurf"}'] == 4000
    assert "WARNING step" in result.stderr
    assert "INFO driftsurf: step" in result.stderr
    assert logging.getLogger("driftsurf").handlers == []


def test_a_port_is_asked_for_by_its_number(tmp_path: Path) -> None:
    result = invoke(*RUN, "--out", str(tmp_path / "a"), "--metrics", "127.0.0.1:0", "--log-level", "info")
    assert result.exit_code == 0
    assert "metrics: http://127.0.0.1:" in result.stderr
    assert "ports go up to 65535" in invoke(*RUN, "--metrics", "99999").output
