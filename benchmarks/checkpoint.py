"""What a checkpoint costs when the store is a hundred times as large, for the same new batch."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contender, Contest
from driftsurf.learners import LogisticRegression
from driftsurf.runtime.checkpoint import CheckpointFolder
from driftsurf.runtime.session import Session
from driftsurf.state import to_bytes
from driftsurf.strategies import DriftSurf

BATCH_ROWS = 1_000
CHECKPOINTS = 25
SMALL = 10_000


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """A batch and a checkpoint again and again, at two sizes of the store; and the bytes of the whole state."""
    sizes = (SMALL, 50_000 if quick else 1_000_000)
    anchor = _name(SMALL)
    title = f"learn a batch of {BATCH_ROWS:,} rows, then a checkpoint"
    yield Contest(title, "checkpoint", anchor, [_checkpoints(size) for size in sizes])
    note("The remark is of the checkpoints alone, without the learning; wall time is mostly the waiting for flushes.")
    note("A gradient table is written whole once in rows / 2,000 checkpoints, which adds as many bytes as its changes.")


def _name(size: int) -> str:
    return f"store of {size:,} rows"


@dataclass
class _Live:
    """A session with a full store, a folder that has it, the batches to come, and what was measured."""

    session: Session
    folder: CheckpointFolder
    batches: list[tuple[Any, Any]]
    cpu: float = 0.0
    wall: float = 0.0
    written: int = 0


def _checkpoints(size: int) -> Contender:
    """Checkpoints of a store of ``size`` rows that stays at this size: old rows leave as new ones come."""

    def prepare() -> _Live:
        generator = np.random.default_rng(0)
        rows = [generator.normal(size=(BATCH_ROWS, 5)) for _ in range(CHECKPOINTS)]
        batches = [(X, np.where(X[:, 0] + X[:, 1] > 0, 1, -1)) for X in rows]
        session = Session(DriftSurf(LogisticRegression(), max_rows=size), classes=(-1, 1))
        for _ in range(size // BATCH_ROWS // CHECKPOINTS + 1):
            for X, y in batches:
                session.observe(X, y)
        folder = CheckpointFolder(Path(tempfile.mkdtemp()))
        folder.save(session.parts())
        return _Live(session, folder, batches)

    def run(live: _Live) -> _Live:
        for X, y in live.batches:
            live.session.observe(X, y)
            cpu, wall, written = time.process_time(), time.perf_counter(), _written()
            live.folder.save(live.session.parts())
            live.cpu += time.process_time() - cpu
            live.wall += time.perf_counter() - wall
            live.written += _written() - written
        return live

    return Contender(_name(size), CHECKPOINTS, prepare, run, _remark)


def _remark(live: _Live) -> str:
    each = (live.cpu, 1e3, "ms of CPU"), (live.wall, 1e3, "ms"), (live.written, 1 / 1024, "KiB written")
    said = ", ".join(f"{value * unit / CHECKPOINTS:.1f} {name}" for value, unit, name in each)
    whole = len(to_bytes(live.session.state()))
    shutil.rmtree(live.folder.path)
    return f"{said} a checkpoint; whole state {whole / 2**20:.1f} MiB"


def _written() -> int:
    """Bytes that this process has given to files so far."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))
