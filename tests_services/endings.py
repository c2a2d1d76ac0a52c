"""Runs in processes of their own, which are killed in the middle and resumed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SCRIPT = """
import json, os, signal, sys
import driftsurf
source, options, after = json.loads(sys.argv[1])
steps = []
def count(*_):
    steps.append(1)
    if len(steps) == after:
        os.kill(os.getpid(), signal.SIGKILL)
driftsurf.run(source, on_step=count, **options)
"""
LEFT_OUT = "timings.json", "lock", "fence", "report.html", "run.json"
"""Files that may differ: measured times, who held the folder, and where predictions went."""


def run(source: str, place: Path, *, kills: Sequence[int] = (), **options: Any) -> dict[str, bytes]:
    """Run to the end, killed after some steps of each process; return the files of the run by their names.

    A process that has fewer steps than that ends by itself, which is an error: then nothing was killed.
    """
    known = {"checkpoint": str(place), "resume": True, "batch_size": 50, "every": 3, **options}
    for after in (*kills, None):
        command = [sys.executable, "-c", SCRIPT, json.dumps([source, known, after])]
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        assert done.returncode == (0 if after is None else -9), done.stderr.decode()
    folder = place / "result"
    return {one.name: one.read_bytes() for one in sorted(folder.iterdir()) if one.name not in LEFT_OUT}


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Return rows whose label follows a column, the other way round from the middle on."""
    return [
        {
            "id": n,
            "price": round((n * 37 % 101) / 50 - 1, 3),
            "city": ("Rome", "Oslo", "Zürich")[n % 3],
            "sold": "yes" if (n * 37 % 101 > 50) == (n < first + count // 2) else "no",
        }
        for n in range(first, first + count)
    ]
