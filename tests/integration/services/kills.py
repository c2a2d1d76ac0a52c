"""Runs of the command line that are killed, or whose broker is, and resume: they end with the same bytes."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

NAMES = "model.state", "journal.jsonl", "trace.csv", "columns.csv", "bad_rows.jsonl"
"""Files of a run folder that depend on nothing but the rows."""
PATIENCE = 600.0
"""Seconds in which a run has to end, also on a machine that does much else."""
OPTIONS = "--label", "sold", "--model", "driftsurf", "--batch-size", "100", "--every", "3"


def orders(count: int, seed: int = 0) -> list[bytes]:
    """Return rows with a drift in the middle."""
    rng = np.random.default_rng(seed)
    found = []
    for place, (price, age) in enumerate(rng.normal(size=(count, 2)).round(4).tolist()):
        sold = price + age > 0 if place < count // 2 else price - age > 0
        found.append(json.dumps({"price": price, "age": age, "sold": "yes" if sold else "no"}).encode())
    return found


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files of a finished run with this folder of checkpoints."""
    result = folder / "result"
    return {name: (result / name).read_bytes() for name in NAMES if (result / name).exists()}


def checkpoints_of(folder: Path) -> set[str]:
    """Return the names of the checkpoints in a folder."""
    return {one.name for one in folder.glob("head-*.state")}


class Command:
    """One ``driftsurf run``, and what it leaves behind."""

    def __init__(self, folder: Path, source: str, sink: str, options: Sequence[str] = ()) -> None:
        self.folder = folder
        self.words = [sys.executable, "-m", "driftsurf", "run", source, "--predictions", sink, *OPTIONS, *options]
        self.words += ["--checkpoint", str(folder), "--resume", "--quiet"]

    def start(self) -> subprocess.Popen[bytes]:
        """Start the command, or let it resume."""
        return subprocess.Popen(self.words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)

    def finish(self) -> None:
        """Run the command to its end."""
        process = self.start()
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors.decode(errors="replace")[-2000:]

    def files(self) -> dict[str, bytes]:
        """Return the files of the finished run."""
        return files_of(self.folder)

    def checkpoints(self) -> set[str]:
        """Return the names of the checkpoints that are there."""
        return checkpoints_of(self.folder)

    def until_checkpoint(self, process: subprocess.Popen[bytes], known: set[str]) -> bool:
        """Wait for another checkpoint than the known ones; return whether the process still runs then."""
        while process.poll() is None and not self.checkpoints() - known:
            time.sleep(0.01)
        return process.poll() is None

    def killed(self, chance: random.Random) -> bool:
        """Run, and kill -9 at any moment between two checkpoints; return False if the run ended before.

        Between two checkpoints passes as much time as between those before, so that the kill does not come after the
        end of the run on a fast machine.
        """
        process = self.start()
        if self.until_checkpoint(process, self.checkpoints()):
            began = time.monotonic()
            if self.until_checkpoint(process, self.checkpoints()):
                time.sleep(chance.random() * (time.monotonic() - began))
                os.kill(process.pid, signal.SIGKILL)
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors.decode(errors="replace")[-2000:]
        return process.returncode != 0


def survives_kills(
    folder: Path,
    source: str,
    sinks: tuple[str, str],
    held: Callable[[str], Sequence[Any]],
    *,
    options: Sequence[str] = (),
    kills: int = 4,
    seed: int = 0,
) -> None:
    """Assert that a run that is killed several times leaves the bytes of an undisturbed one, in files and sink.

    Parameters
    ----------
    folder
        An empty folder.
    source
        Address of the rows, which are there already.
    sinks
        Two empty destinations: for an undisturbed run and for one that is killed.
    held
        Returns what a destination holds.
    options
        Further options of the command.
    kills, seed
        How often to kill, at moments that the seed decides.
    """
    whole = Command(folder / "whole", source, sinks[0], options)
    whole.finish()
    other = Command(folder / "killed", source, sinks[1], options)
    chance = random.Random(seed)
    count = sum(other.killed(chance) for _ in range(kills))
    assert count, "no process was killed before its end: send more rows"
    other.finish()
    compare(whole, other, held(sinks[0]), held(sinks[1]))


def compare(whole: Command, other: Command, expected: Sequence[Any], found: Sequence[Any]) -> None:
    """Assert that two runs left the same files, and the same rows in their sinks."""
    files, others = whole.files(), other.files()
    assert files.keys() == others.keys()
    assert {"model.state", "journal.jsonl"} <= files.keys()
    assert [name for name in files if files[name] != others[name]] == []
    assert len(expected) > 0
    assert list(found) == list(expected)


def rows_of(path: Path) -> list[Any]:
    """Return the predictions in a file of SQLite."""
    connection = sqlite3.connect(path)
    try:
        return list(connection.execute("select * from predictions order by row"))
    finally:
        connection.close()
