"""Cost of a checkpoint after the same batch, with a small sample store and with one a hundred times as large."""

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
from driftsurf.core.state import to_bytes
from driftsurf.learners import LogisticRegression
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

BATCH_ROWS = 1_000
CHECKPOINTS = 25
SMALL = 10_000


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield the contest: a batch and a checkpoint, repeatedly, for two sizes of the store."""
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
    """A session with a full store, its folder of checkpoints, the batches to come, and the measurements."""

    session: Session
    folder: CheckpointFolder
    batches: list[tuple[Any, Any]]
    cpu: float = 0.0
    wall: float = 0.0
    written: int = 0


def _checkpoints(size: int) -> Contender:
    """Return checkpoints of a store that stays at ``size`` rows: old rows are released as new ones arrive."""

    def prepare() -> _Live:
        generator = np.random.default_rng(0)
        rows = [generator.normal(size=(BATCH_ROWS, 5)) for _ in range(CHECKPOINTS)]
        batches = [(X, np.where(X[:, 0] + X[:, 1] > 0, 1, -1)) for X in rows]
        session = Session(DriftSurf(LogisticRegression(), max_rows=size), classes=(-1, 1))
        for _ in range(size // BATCH_ROWS // CHECKPOINTS + 1):
            for X, y in batches:
                session.observe(X, y)
        folder = CheckpointFolder(Path(tempfile.mkdtemp()))
        folder.save(session.incremental_state())
        return _Live(session, folder, batches)

    def run(live: _Live) -> _Live:
        for X, y in live.batches:
            live.session.observe(X, y)
            cpu, wall, written = time.process_time(), time.perf_counter(), _written()
            live.folder.save(live.session.incremental_state())
            live.cpu += time.process_time() - cpu
            live.wall += time.perf_counter() - wall
            live.written += _written() - written
        return live

    return Contender(_name(size), CHECKPOINTS, prepare, run, _remark)


def _remark(live: _Live) -> str:
    each = (live.cpu, 1e3, "ms of CPU"), (live.wall, 1e3, "ms"), (live.written, 1 / 1024, "KiB written")
    costs = ", ".join(f"{value * unit / CHECKPOINTS:.1f} {name}" for value, unit, name in each)
    whole = len(to_bytes(live.session.state()))
    shutil.rmtree(live.folder.path)
    return f"{costs} a checkpoint; whole state {whole / 2**20:.1f} MiB"


def _written() -> int:
    """Return the number of bytes that this process has written to files."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))
