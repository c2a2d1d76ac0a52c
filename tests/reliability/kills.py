"""kill -9 at random moments, of processes that use the library and of the command line."""

from __future__ import annotations

import filecmp
import gc
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.reliability.faults import clear, fast_folder
from tests.reliability.harness import Outcome
from tests.reliability.workload import Workload

MOST_KILLS = 10
"""Most kills of one run, before it may run to its end."""
LATEST = 0.8
"""A child is killed after at most this share of the time of a whole run; one that resumes has less left to do."""


def library(scale: float, seed: int, kills: int | None = None) -> Outcome:
    """Kill children of a warm process during runs with checkpoints; each run resumes and ends with the same bytes."""
    outcome = Outcome("kill -9 in the library", seed)
    wanted = round(10_000 * scale) if kills is None else kills
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(dir=fast_folder()) as place:
        expected = {}
        for every in (1, 2, 5):
            work = Workload(steps=12, rows=10, every=every, seed=seed)
            expected[every], _ = work.reference(Path(place) / f"reference-{every}")
        usual = min(_finished(work, Path(place) / f"timed-{trial}") for trial in range(5))
        gc.collect()
        gc.freeze()  # otherwise the garbage collector of each child would touch, and so copy, all memory
        killed = 0
        while killed < wanted:
            every = chance.choice(sorted(expected))
            work, path = Workload(steps=12, rows=10, every=every, seed=seed), Path(place) / "run"
            delays: list[float] = []
            for _ in range(chance.randint(1, MOST_KILLS)):
                delays.append(chance.uniform(0.0, LATEST * usual))
                if not _killed(work, path, delays[-1]):
                    break
                killed += 1
            ended = _child(work, path)
            _, status = os.waitpid(ended, 0)
            same = status == 0 and json.loads((path / "outcome").read_text()) == expected[every]
            outcome.check(same, {"every": every, "delays": delays, "status": status})
            clear(path)
        gc.unfreeze()
        outcome.figures = {"kills": killed, "runs": outcome.tried, "seconds of an undisturbed run": usual}
    return outcome


def _finished(work: Workload, path: Path) -> float:
    """Return the seconds that an undisturbed run takes."""
    begin = time.perf_counter()
    work.finish(path)
    return time.perf_counter() - begin


def _child(work: Workload, path: Path) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            got = work.finish(path)
            (path / "outcome").write_text(json.dumps(got))
            code = 0
        finally:
            os._exit(code)
    return child


def _killed(work: Workload, path: Path, delay: float) -> bool:
    """Begin or resume a run and kill it after ``delay`` seconds; return False if it ended before."""
    child = _child(work, path)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def command_line(scale: float, seed: int, kills: int | None = None) -> Outcome:
    """Kill ``driftsurf run --checkpoint``; the same command with ``--resume`` ends with the same files."""
    outcome = Outcome("kill -9 through the command line", seed)
    wanted = max(1, round(100 * scale)) if kills is None else kills
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "driftsurf", "run", "mixed", "--batch-size", "100", "--quiet", "--every", "3"]
        short = [[*command, "--rows", "200", "--checkpoint", f"short-{trial}"] for trial in range(2)]
        start = min(_seconds(one, place) for one in short)
        command += ["--rows", "20000"]
        usual = _seconds([*command, "--checkpoint", "whole"], place)
        command += ["--checkpoint", "killed", "--resume"]
        killed = 0
        while killed < wanted:
            path = Path(place) / "killed"
            delays: list[float] = []
            for _ in range(chance.randint(2, 6)):
                # Before ``start`` the command only imports modules; a run that resumes has less left to do.
                delays.append(chance.uniform(0.9 * start, start + 0.5 * (usual - start)))
                if not _command_killed(command, place, delays[-1]):
                    break
                killed += 1
            code = _quiet(command, place)
            names = ["trace.csv", "journal.jsonl", "report.html", "run.json"]
            _, other, missing = filecmp.cmpfiles(Path(place) / "whole/result", path / "result", names, shallow=False)
            outcome.check(code == 0 and not other and not missing, {"delays": delays, "code": code, "differ": other})
            clear(path)
        outcome.figures = {"kills": killed, "runs": outcome.tried, "seconds of an undisturbed run": usual}
    return outcome


def _seconds(command: list[str], place: str) -> float:
    begin = time.perf_counter()
    _quiet(command, place)
    return time.perf_counter() - begin


def _quiet(command: list[str], place: str) -> int:
    silent = subprocess.DEVNULL
    return subprocess.run(command, cwd=place, stdout=silent, stderr=silent, check=False).returncode


def _command_killed(command: list[str], place: str, delay: float) -> bool:
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(delay)
    except subprocess.TimeoutExpired:
        process.kill()
    return process.wait() == -signal.SIGKILL
