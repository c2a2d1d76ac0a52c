"""Listeners of a run: a command, Prometheus, the log."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import invoke
from live_runs import live_run, run_to_end

import driftsurf
from driftsurf.core.decisions import Decision, ModelRecord, Transition
from driftsurf.errors import OptionError, RunFolderError
from driftsurf.evaluation.scoring import TraceRecorder
from driftsurf.learners import LogisticRegression
from driftsurf.runs import prometheus
from driftsurf.runs.batches import StreamBatches
from driftsurf.runs.hooks import TransitionCommand, TransitionLog
from driftsurf.runs.late import Arrived, LateSession
from driftsurf.runs.live import LiveRun
from driftsurf.runs.prometheus import MetricsFile, MetricsServer, RunMetrics
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf
from driftsurf.streams import Mixed

CHANGE = Transition("entered", 7, 1, left=0.6, right=0.3, margin=0.1, old=0, new=1)
DECISION = Decision(
    7, 70, 10, "reactive", 0, 0, 1, (ModelRecord("predictive", 0, 7, 0, gradients=20),), transitions=(CHANGE,)
)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[LiveRun]:
    stream = Mixed(n_rows=2000)
    sessions = {
        name: Session(DriftSurf(LogisticRegression()), classes=(-1, 1), batch_size=size)
        for name, size in (("model", 150), ('a "b"\n\\', None))
    }
    recorder = TraceRecorder(stream, 100)
    with live_run(StreamBatches(stream, 100), sessions, recorder, tmp_path) as live:
        live.begin()
        yield live


# ---------------------------------------------------------------------------- a command


def test_command_gets_the_transition_as_input_and_in_its_environment(tmp_path: Path) -> None:
    tell = TransitionCommand(f'cat > "{tmp_path}/in"; env | grep ^DRIFTSURF_ | sort > "{tmp_path}/env"', "mine")
    tell(7, "other", 0.5, (DECISION,))
    assert not list(tmp_path.iterdir())
    tell(7, "mine", 0.5, (DECISION,))
    received = json.loads((tmp_path / "in").read_text())
    assert (received["model"], received["kind"], received["step"], received["left"]) == ("mine", "entered", 7, 0.6)
    assert received["text"] == CHANGE.describe_in_journal()
    environment = [line for line in (tmp_path / "env").read_text().splitlines() if "_DATA=" not in line]
    assert environment == [
        "DRIFTSURF_KIND=entered",
        "DRIFTSURF_MODEL=mine",
        "DRIFTSURF_STEP=7",
        f"DRIFTSURF_TEXT={CHANGE.describe()}",
    ]


@pytest.mark.parametrize(
    ("command", "named"),
    [("exit 3", "3"), ("sleep 60 & sleep 60", "0.2"), ("no-such-command-at-all 2> /dev/null", "127")],
)
def test_command_that_fails_is_logged_with_its_exit_code_or_timeout(
    command: str, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    TransitionCommand(command, "m", timeout=0.2 if "sleep" in command else 30.0)(7, "m", 0.5, (DECISION,))
    (record,) = caplog.records
    assert named in record.message


def test_command_may_ignore_its_input(caplog: pytest.LogCaptureFixture) -> None:
    TransitionCommand("true", "m")(7, "m", 0.5, (DECISION,))
    assert not caplog.records


def test_command_that_cannot_be_started_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr("driftsurf.runs.hooks.subprocess.Popen", refuse)
    TransitionCommand("true", "m")(7, "m", 0.5, (DECISION,))
    assert "no more processes" in caplog.text


def test_timeout_must_be_positive() -> None:
    with pytest.raises(OptionError, match="on_transition_timeout"):
        TransitionCommand("true", "m", timeout=0.0)


def test_transitions_and_steps_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="driftsurf")
    TransitionLog()(7, "m", 0.5, (DECISION,))
    assert [record.levelname for record in caplog.records] == ["DEBUG", "INFO"]
    assert caplog.records[1].message == f"m: {CHANGE.describe()}"


# ---------------------------------------------------------------------------- Prometheus


def values(text: str) -> dict[str, float]:
    """Parse metrics as Prometheus does: help and type come before each family, and each name appears once."""
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


def test_metrics_count_what_a_run_does(run: LiveRun) -> None:
    now = [1000.0]
    metrics = RunMetrics(run, clock=lambda: now[0])
    now[0] += 5.0
    empty = values(metrics.text())
    assert empty["driftsurf_last_label_age_seconds"] == 5.0
    assert "driftsurf_last_label_timestamp_seconds" not in empty
    run_to_end(run, metrics)
    now[0] += 7.0
    found = values(metrics.text())
    assert found["driftsurf_last_label_age_seconds"] == 7.0
    assert found["driftsurf_last_label_timestamp_seconds"] == 1005.0
    strange = '{model="a \\"b\\"\\n\\\\"}'
    assert found[f"driftsurf_rows_total{strange}"] == 2000
    assert found['driftsurf_rows_total{model="model"}'] == 1950
    assert found["driftsurf_lag_rows"] == 50
    assert found['driftsurf_steps_total{model="model"}'] == 20
    leading: Any = run.models['a "b"\n\\']
    assert found[f"driftsurf_gradients_total{strange}"] == sum(d.gradients for d in leading.journal)
    assert 0.0 <= found['driftsurf_error{model="model"}'] <= 1.0
    assert found["driftsurf_skipped_rows"] == 0
    assert (found["driftsurf_step"], found["driftsurf_done"]) == (20, 1)
    metrics(20, "model", 0.5, (DECISION,))
    again = values(metrics.text())
    key = 'driftsurf_transitions_total{model="model",kind="entered"}'
    assert again[key] == found.get(key, 0.0) + 1
    assert again['driftsurf_reactive{model="model"}'] == 1


def test_metrics_have_the_estimated_error_of_a_run_that_estimates_it(run: LiveRun, tmp_path: Path) -> None:
    run_to_end(run)
    assert run.estimated_error is None
    assert "estimated_error" not in RunMetrics(run).text()
    stream = Mixed(n_rows=2000)
    sessions = {"model": Session(DriftSurf(LogisticRegression()), classes=(-1, 1))}
    recorder, folder = TraceRecorder(stream, 100, estimated=True), tmp_path / "other"
    folder.mkdir()
    with live_run(StreamBatches(stream, 100), sessions, recorder, folder) as live:
        live.begin()
        run_to_end(live)
        estimate, found = live.estimated_error, values(RunMetrics(live).text())
    assert estimate is not None
    low, high = (found[f'driftsurf_estimated_error_interval{{model="model",end="{end}"}}'] for end in ("low", "high"))
    assert 0.0 <= low <= found['driftsurf_estimated_error{model="model"}'] <= high <= 1.0
    assert (estimate.low, estimate.high, estimate.rows) == (low, high, 100)


def test_metrics_count_rows_that_wait_for_late_labels(run: LiveRun) -> None:
    session = LateSession(Session(DriftSurf(LogisticRegression()), batch_size=50))
    run.models = {"m": session}
    run.plan = replace(run.plan, models=run.models)
    now = [0.0]
    metrics = RunMetrics(run, clock=lambda: now[0])
    X = np.linspace(-1.0, 1.0, 40).reshape(-1, 1)

    def step(at: float, rows: Arrived | None, labels: list[Any]) -> dict[str, float]:
        now[0] = at
        seen = session.observe(rows, labels)
        metrics(0, "m", seen.error, seen.decisions)
        metrics.batch()
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


def test_metrics_file_is_written_at_most_once_a_second_and_at_both_ends(run: LiveRun, tmp_path: Path) -> None:
    now, path = [0.0], tmp_path / "m.prom"
    metrics = RunMetrics(run)
    with MetricsFile(path, metrics, clock=lambda: now[0]) as file:
        first = path.read_text()
        metrics(0, "model", 0.25, ())
        file.batch()
        assert path.read_text() == first
        now[0] = 1.0
        file.batch()
        assert values(path.read_text())['driftsurf_error{model="model"}'] == 0.25
        metrics(0, "model", 0.75, ())
    assert values(path.read_text())['driftsurf_error{model="model"}'] == 0.75
    assert not list(tmp_path.glob(".m.prom*"))


def test_metrics_file_that_cannot_be_written_is_logged_once(
    run: LiveRun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with MetricsFile(tmp_path / "no" / "m.prom", RunMetrics(run)):
        pass
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "m.prom" in caplog.text


def test_a_metrics_file_replaces_metrics_only(tmp_path: Path) -> None:
    path = tmp_path / "metrics.prom"
    path.touch()
    for number in range(2):
        driftsurf.run("sea10", rows=1_000, out=tmp_path / str(number), metrics=str(path))
        assert values(path.read_text())["driftsurf_done"] == 1
    path.write_text("my notes")
    for other in (path, tmp_path):
        with pytest.raises(RunFolderError, match=re.escape(repr(str(other)))):
            driftsurf.run("sea10", rows=1_000, out=tmp_path / "refused", metrics=str(other))
    assert path.read_text() == "my notes"
    assert not (tmp_path / "refused").exists()


def test_metrics_port_answers_with_metrics_only(run: LiveRun) -> None:
    metrics = RunMetrics(run)
    with MetricsServer(0, metrics) as server:
        run_to_end(run, metrics)
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert values(answer.read().decode())['driftsurf_steps_total{model="model"}'] == 20
        with pytest.raises(OptionError, match=f"127.0.0.1:{server.port}"):
            MetricsServer(server.port, metrics)
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/")
        refused.value.close()


def answer(server: MetricsServer, request: bytes) -> bytes:
    """Send bytes, and return all that comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("127.0.0.1", 200),
        ("[::1]:9", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example:80", 403),
        ("", 403),
    ],
)
def test_metrics_port_answers_to_names_of_this_machine_only(run: LiveRun, host: str, status: int) -> None:
    with MetricsServer(0, RunMetrics(run)) as server:
        found = answer(server, f"GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
    assert found.startswith(f"HTTP/1.0 {status} ".encode())
    assert (b"driftsurf_step" in found) == (status == 200)


@pytest.mark.parametrize("which", ["the connection", "its deadline"])
def test_metrics_port_answers_again_after_threads_could_not_be_started(
    run: LiveRun, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    monkeypatch.setattr(prometheus, "MOST_CONNECTIONS", 2)
    request = b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n"

    def fail(thread: threading.Thread) -> None:
        if isinstance(thread, threading.Timer) == (which == "its deadline"):
            raise RuntimeError("can't start new thread")
        start(thread)

    start = threading.Thread.start
    with MetricsServer(0, RunMetrics(run)) as server:
        with monkeypatch.context() as changed:
            changed.setattr(threading.Thread, "start", fail)
            for _ in range(3):
                with contextlib.suppress(OSError):  # closed before the request was read
                    assert answer(server, request) == b""
        found, deadline = b"", time.monotonic() + 60.0
        while not found and time.monotonic() < deadline:  # a connection is closed a moment before it is counted out
            with contextlib.suppress(OSError):
                found = answer(server, request)
        assert b"driftsurf_step" in found


def test_metrics_port_ends_slow_connections_and_bounds_their_number(
    run: LiveRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "MOST_CONNECTIONS", 3)
    monkeypatch.setattr(prometheus, "DEADLINE", 0.3)
    with MetricsServer(0, RunMetrics(run)) as server, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(3)]
        for connection in slow:
            connection.sendall(b"GET /metrics HTTP/1.0\r\nX-Slow: ")
        with socket.create_connection(("127.0.0.1", server.port)) as fourth:
            fourth.settimeout(60)
            assert fourth.recv(1) == b""  # closed at once
        for connection in slow:
            connection.settimeout(60)
            with contextlib.suppress(ConnectionError):  # a byte now and then does not help
                connection.sendall(b"a")
                while connection.recv(4096):
                    pass
        found = b""
        while b"driftsurf_step" not in found:  # the threads that were cut off make room
            with contextlib.suppress(ConnectionError):  # closed before the request was read
                found = answer(server, b"GET /metrics HTTP/1.0\r\n\r\n")


# ---------------------------------------------------------------------------- the command line

RUN = ["run", "mixed", "--rows", "4000", "--batch-size", "100", "--quiet"]


def test_listeners_do_not_change_the_run(tmp_path: Path) -> None:
    plain, seen = tmp_path / "plain", tmp_path / "seen"
    assert invoke(*RUN, "--out", str(plain)).exit_code == 0
    listeners = ["--on-transition", f"cat >> {tmp_path}/received; exit 1", "--metrics", str(tmp_path / "m.prom")]
    result = invoke(*RUN, "--out", str(seen), *listeners, "--log-level", "info")
    assert result.exit_code == 0
    for name in ("journal.jsonl", "trace.csv", "columns.csv", "run.json", "report.html"):
        assert (plain / name).read_bytes() == (seen / name).read_bytes()
    transitions = [json.loads(line) for line in (tmp_path / "received").read_text().splitlines()]
    lines = [json.loads(line) for line in (seen / "journal.jsonl").read_text().splitlines()]
    assert [{"model": "driftsurf", **line} for line in lines if line["type"] == "transition"] == transitions
    assert values((tmp_path / "m.prom").read_text())['driftsurf_rows_total{model="driftsurf"}'] == 4000
    assert "WARNING step" in result.stderr
    assert "INFO driftsurf: step" in result.stderr
    assert logging.getLogger("driftsurf").handlers == []


def test_metrics_port_is_checked(tmp_path: Path) -> None:
    result = invoke(*RUN, "--out", str(tmp_path / "a"), "--metrics", "127.0.0.1:0", "--log-level", "info")
    assert result.exit_code == 0
    assert "metrics: http://127.0.0.1:" in result.stderr
    refused = invoke(*RUN, "--metrics", "99999")
    assert refused.exit_code == 2
    assert "99999" in refused.output
