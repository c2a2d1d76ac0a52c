"""Judge tasks in processes. Results are appended to a file, so that a run that is stopped goes on where it was."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, source
from benchmarks.verdict.judging import Task, judged
from benchmarks.verdict.real import changed
from benchmarks.verdict.streams import make

__all__ = ["STORE", "read", "run"]

STORE = RESULTS / "verdict.jsonl"
"""One line of JSON for each finished task."""
SHOWN_SECONDS = 10.0
THREADS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"


def read(path: Path = STORE) -> dict[str, dict[str, Any]]:
    """Return the results by key; a line that was cut off is left out."""
    found = dict[str, dict[str, Any]]()
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[record["key"]] = record
    return found


def run(tasks: Sequence[Task], processes: int, path: Path = STORE) -> dict[str, dict[str, Any]]:
    """Judge the tasks that have no result yet; return the results of all of them by key."""
    known = read(path)
    todo = [task for task in tasks if task.key not in known or "failed" in known[task.key]]
    print(
        f"{len(tasks):,} streams, {len(tasks) - len(todo):,} of them finished before; {processes} processes", flush=True
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    version = source()
    start = shown = time.monotonic()
    with path.open("a") as file:
        for done, record in enumerate(_results(todo, processes), 1):
            record["source"] = version
            known[record["key"]] = record
            file.write(json.dumps(record) + "\n")
            file.flush()
            now = time.monotonic()
            if now - shown >= SHOWN_SECONDS or done == len(todo):
                shown, passed = now, now - start
                rest = passed * (len(todo) - done) / done
                print(f"{done:,} of {len(todo):,} in {passed / 60:.1f} min, about {rest / 60:.0f} min left", flush=True)
    return {task.key: known[task.key] for task in tasks if task.key in known}


def _results(todo: Sequence[Task], processes: int) -> Iterator[dict[str, Any]]:
    if processes == 1:
        yield from map(_one, todo)
        return
    os.environ.update(dict.fromkeys(THREADS, "1"))  # read by the new processes
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_one, todo)


def _one(task: Task) -> dict[str, Any]:
    """Judge one task. An exception becomes a result, so that it is seen and the others run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = changed(task) if task.part == "real" else make(task.kind, task.family, task.seed, task.rows)
            return {"key": task.key, **judged(task, made)}
        except Exception as failure:
            return {"key": task.key, "failed": f"{type(failure).__name__}: {failure}"}
