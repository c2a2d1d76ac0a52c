"""Runs that are stopped and resumed from a checkpoint."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoint_cases import LEARNER, WORK, Unflushed
from commands import invoke
from live_runs import live_run, run_to_end
from tests.reliability.workload import digests

from driftsurf.core import disk
from driftsurf.errors import RunStopped, StateError
from driftsurf.runs.batches import StreamBatches
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.session.session import Session
from driftsurf.strategies import (
    Oblivious,
)
from driftsurf.streams import SEA


@pytest.fixture(autouse=True)
def _fast() -> Iterator[None]:
    with disk.using(Unflushed()):
        yield


def test_a_run_resumed_at_every_checkpoint_ends_the_same(tmp_path: Path) -> None:
    expected, states = WORK.reference(tmp_path / "whole")
    assert len(states) == 8
    path = tmp_path / "run"

    class Enough(Exception):
        pass

    def stop(step: int, model: str, error: float, decisions: object) -> None:
        if step % 3 == 2:
            raise Enough

    got = None
    for _ in range(30):
        with CheckpointFolder(path) as folder, WORK.run(folder) as run:
            saved = folder.load()
            if saved is None:
                run.begin()
            else:
                run.resume(saved)
            try:
                run_to_end(run, stop if run.step % 3 != 2 else None)
            except Enough:
                continue
            got = digests(run)
            break
    assert got == expected
    assert WORK.finish(path) == expected  # there is nothing left to do


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_run_after_a_checkpoint(number: signal.Signals, tmp_path: Path) -> None:
    expected = WORK.finish(tmp_path / "whole")
    with CheckpointFolder(tmp_path / "run") as folder, WORK.run(folder) as run:
        run.begin()

        def ask(step: int, model: str, error: float, decisions: object) -> None:
            if step == 4 and model == "aware":
                os.kill(os.getpid(), number)

        before = signal.getsignal(number)
        with pytest.raises(RunStopped, match=number.name) as stopped:
            run_to_end(run, ask)
        assert (stopped.value.exit_code, stopped.value.step) == (128 + number, 5)
        assert signal.getsignal(number) is before
        found = folder.load()
        assert found is not None
        assert found.state["step"] == 5
    assert WORK.finish(tmp_path / "run") == expected


def test_a_checkpoint_of_another_run_is_refused_with_the_difference(tmp_path: Path) -> None:
    stream = SEA(n_rows=200)
    sessions = {"one": Session(Oblivious(LEARNER), classes=(-1, 1))}
    source, recorder = StreamBatches(stream, 50), WORK.run(CheckpointFolder(tmp_path)).plan.recorder
    with CheckpointFolder(tmp_path) as folder:
        with live_run(source, sessions, recorder, folder, about='{"seed": 1}') as run:
            run.begin()
        saved = folder.load()
        assert saved is not None
        for about, difference in (('{"seed": 2}', "seed .*1.*2"), ("other", None)):
            with (
                live_run(source, sessions, recorder, folder, about=about) as run,
                pytest.raises(StateError, match=difference),
            ):
                run.resume(saved)
        saved.state.pop("position")
        with (
            live_run(source, sessions, recorder, folder, about='{"seed": 1}') as run,
            pytest.raises(StateError, match="position"),
        ):
            run.resume(saved)


@pytest.mark.parametrize("position", [-400, 100, 1_001, "400", 2.0])
def test_a_stream_resumes_only_between_two_batches(position: Any) -> None:
    with pytest.raises(StateError, match=repr(position)):
        next(StreamBatches(SEA(n_rows=1_000), 400).batches(position))


def test_a_finished_run_that_is_resumed_shows_no_speed_and_its_parts_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["run", "mixed", "--rows", 1_000, "--checkpoint", "live", "--predictions", "p.csv", "--resume"]
    speeds = []
    for _ in range(2):
        result = invoke(*command)
        assert result.exit_code == 0
        assert "p-000000000000.csv and so on\n" in result.output.replace("\n ", " ")
        speeds.append(next(line for line in result.output.splitlines() if "rows/s" in line).split()[1:])
    assert speeds[0] != ["-", "-"]
    assert speeds[1] == ["-", "-"]
