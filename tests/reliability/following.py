"""kill -9 of runs that follow a growing file, while rows are being appended to it."""

from __future__ import annotations

import csv
import gc
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

from tests.reliability.faults import clear, fast_folder
from tests.reliability.harness import Outcome

import driftsurf
from driftsurf.data.formats._bytes import polling
from driftsurf.runs import plan_tables

ROWS = 600
LEFT_OUT = "timings.json", "lock", "fence"
"""Files of a run that may differ: measured times, and who held the folder."""
OPTIONS: dict[str, Any] = {"label": "sold", "batch_size": 20, "every": 2, "model": "driftsurf", "on_bad_row": "skip"}
IN_PARTS = 40
"""A file is appended in about this many parts for each kill, cut anywhere."""


@dataclass(frozen=True)
class Form:
    """A form of file that grows."""

    name: str
    content: bytes


def forms(rows: int = ROWS) -> list[Form]:
    """Return the same rows as CSV with either line end, with quoted line ends and two bad rows, and as JSON lines."""
    chance = random.Random(rows)
    made: list[dict[str, Any]] = []
    for i in range(rows):
        price = round(chance.gauss(0, 1), 3)
        text = chance.choice(("Rome", "Zürich", "two\nlines", 'a "quote"', ""))
        sold = (price > 0) != (rows // 3 < i < 2 * rows // 3)
        made.append({"price": price, "city": text, "size": i % 7, "sold": "yes" if sold else "no"})
    written = [_csv(made, end) for end in ("\n", "\r\n")]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made)
    return [Form("rows.csv", written[0]), Form("rows.csv", written[1]), Form("rows.jsonl", lines.encode())]


def _csv(rows: list[dict[str, Any]], end: str) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator=end)
    writer.writeheader()
    for number, row in enumerate(rows):
        writer.writerow(row)
        if number in (200, 431):
            text.write(f"1,2,3,4,5,too many{end}")
    return text.getvalue().encode()


# ---------------------------------------------------------------------------- processes that follow a file


class Process(Protocol):
    """A process that can be killed."""

    def kill(self) -> None:
        """Kill it."""
        ...

    def wait(self) -> int:
        """Return its exit code, or minus the signal that ended it."""
        ...


Start = Callable[[Path, Path, float | None], Process]
"""Starts to follow a file from the last checkpoint in a folder on, for ever or until no byte has come for a while."""


class _Fork:
    """A child of this process, which has all modules and compiled loops in memory."""

    def __init__(self, source: Path, place: Path, idle: float | None) -> None:
        self.number = os.fork()
        if self.number == 0:
            code = 1
            try:
                silent = os.open(os.devnull, os.O_WRONLY)
                os.dup2(silent, 1)
                os.dup2(silent, 2)
                follow(source, place, idle)
                code = 0
            finally:
                os._exit(code)

    def kill(self) -> None:
        """Kill it."""
        os.kill(self.number, signal.SIGKILL)

    def wait(self) -> int:
        """Return its exit code, or minus the signal that ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.number, 0)[1])


def follow(source: Path, place: Path, idle: float | None) -> None:
    """Follow a file in this process, looking for new rows every two milliseconds."""

    def quicker(seconds: float, *, idle_seconds: float | None = None) -> Callable[[], bool]:
        return polling(0.002, idle_seconds=idle_seconds)

    with warnings.catch_warnings(), mock.patch.object(plan_tables, "polling", quicker):
        warnings.simplefilter("ignore")
        driftsurf.run(source, **OPTIONS, follow=True, follow_for=idle, checkpoint=place, resume=True)


def _command(source: Path, place: Path, idle: float | None) -> subprocess.Popen[bytes]:
    """Start the command line, which looks for new rows every second."""
    command = [sys.executable, "-m", "driftsurf", "run", str(source), "--quiet", "--follow", "--checkpoint", str(place)]
    for name, value in OPTIONS.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    command += ["--resume", *([] if idle is None else ["--follow-for", str(idle)])]
    silent = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=silent, stderr=silent)


# ---------------------------------------------------------------------------- kills


def killed(scale: float, seed: int, kills: int | None = None, commands: int | None = None) -> Outcome:
    """Kill processes that follow a file while it grows; each run resumes, and ends with the same files."""
    outcome = Outcome("kill -9 of runs that follow a file", seed)
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(dir=fast_folder()) as name:
        trial = _Trial(Path(name), chance, outcome)
        gc.collect()
        gc.freeze()  # otherwise the garbage collector of each child would touch, and so copy, all memory
        trial.kill("kills", _Fork, max(1, round(1_000 * scale)) if kills is None else kills)
        gc.unfreeze()
        trial.kill("kills of the command", _command, max(1, round(20 * scale)) if commands is None else commands)
    return outcome


class _Trial:
    """Runs that are killed, and the files of undisturbed ones."""

    def __init__(self, place: Path, chance: random.Random, outcome: Outcome) -> None:
        self.place, self.chance, self.outcome = place, chance, outcome
        self.forms = forms()
        for form in self.forms:  # once in this process, so that it is warm
            (place / form.name).write_bytes(form.content)
            follow(place / form.name, place / "run", 0.01)
            clear(place / "run")

    def kill(self, what: str, start: Start, wanted: int) -> None:
        """Kill runs until there were this many kills."""
        whole = [self._undisturbed(form, start) for form in self.forms]
        usual = min(seconds for _, seconds in whole)
        count = 0
        while count < wanted:
            number = self.chance.randrange(len(self.forms))
            delays, code = self._run(self.forms[number], start, min(12, wanted - count), usual)
            count += len(delays)
            found, expected = files_of(self.place / "run"), whole[number][0]
            differ = sorted(name for name in found | expected if found.get(name) != expected.get(name))
            case = {"what": what, "form": number, "delays": delays, "code": code, "differ": differ}
            self.outcome.check(code == 0 and not differ, case)
            clear(self.place / "run")
        self.outcome.figures |= {what: count, f"seconds of an undisturbed run ({what})": usual}

    def _run(self, form: Form, start: Start, most: int, usual: float) -> tuple[list[float], int]:
        """Write a file part by part, and kill the run that follows it; return when, and the last exit code."""
        source, run = self.place / form.name, self.place / "run"
        source.write_bytes(b"")
        parts = _parts(form.content, self.chance)
        delays: list[float] = []
        for _ in range(self.chance.randint(1, most)):
            delays.append(self.chance.uniform(0.0, usual))
            process = start(source, run, None)
            _append(source, parts, delays[-1], self.chance)
            process.kill()
            self.outcome.check(process.wait() == -signal.SIGKILL, {"form": form.name, "delays": delays})
            self.outcome.count("of them after a checkpoint", any(run.glob("head-*")))
        _append(source, parts, None, self.chance)
        return delays, start(source, run, 0.01).wait()

    def _undisturbed(self, form: Form, start: Start) -> tuple[dict[str, bytes], float]:
        """Return the files of a run over a whole file, and the seconds that it takes."""
        source, run = self.place / form.name, self.place / "run"
        source.write_bytes(form.content)
        begin = time.perf_counter()
        code = start(source, run, 0.01).wait()
        seconds = time.perf_counter() - begin
        if code:
            raise RuntimeError(f"an undisturbed run ended with {code}")
        found = files_of(run)
        clear(run)
        return found, seconds


def _parts(content: bytes, chance: random.Random) -> Iterator[bytes]:
    """Yield the bytes of a file in parts that are cut anywhere, also within rows and characters."""
    at = 0
    while at < len(content):
        end = at + chance.randint(1, 2 * len(content) // (6 * IN_PARTS))
        yield content[at:end]
        at = end


def _append(source: Path, parts: Iterator[bytes], seconds: float | None, chance: random.Random) -> None:
    """Append parts for some seconds, or all that are left."""
    end = None if seconds is None else time.perf_counter() + seconds
    with source.open("ab", buffering=0) as file:
        while end is None or time.perf_counter() < end:
            part = next(parts, b"")
            if part:
                file.write(part)
            elif end is None:
                return
            if end is not None:
                time.sleep(min(seconds or 0.0, chance.expovariate(IN_PARTS / (seconds or 1.0))))


def files_of(run: Path) -> dict[str, bytes]:
    """Return the files that must not differ: everything but measured times, checkpoints and who held the folder."""
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in sorted(run.rglob("*"))
        if path.is_file() and path.name not in LEFT_OUT and not path.name.startswith(("head-", "segment-", "."))
    }
