"""Endurance: constant memory in a long run, and results that do not depend on threads, splits or restarts."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
from tests.reliability.harness import ROOT, Outcome

from driftsurf import DriftSurfClassifier
from driftsurf.core.journal import Journal
from driftsurf.errors import InputError

MIB = 2**20


def _memory() -> int:
    """Return the resident memory of this process in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def soak(scale: float, seed: int, rows: int | None = None) -> Outcome:
    """Learn millions of rows with drifts; bad batches are refused, and memory is constant once the journal is full."""
    outcome = Outcome("soak", seed)
    size, total = 1_000, round(20_000_000 * scale) if rows is None else rows
    generator = np.random.default_rng(seed)
    blocks = [generator.normal(size=(size, 5)) for _ in range(50)]
    model = DriftSurfClassifier(random_state=seed, max_rows=20_000, classes=(-1, 1))
    refused = bad = wrong = 0
    highest = after_warm_up = 0
    steps = total // size
    warm_up = min(Journal().limit, steps // 2) + 250  # the journal holds its last 10,000 steps in memory
    for step in range(steps):
        X = blocks[step % len(blocks)]
        y = np.where(X[:, step // 200 % 5] > 0, 1, -1)
        if step % 10 == 9:  # one row in a thousand is bad: ten rows after every tenth batch
            bad += 1
            try:
                model.partial_fit(np.where(np.arange(5) == 2, np.nan, X[:10]), y[:10])
            except InputError:
                refused += 1
        wrong += int(np.count_nonzero(model.test_then_train(X, y) != y))
        if step % 50 == 0:
            if step <= warm_up:
                after_warm_up = max(after_warm_up, _memory())
            highest = max(highest, _memory())
    grown = highest - after_warm_up
    outcome.figures = {
        "rows": steps * size,
        "bad batches refused": f"{refused} of {bad}",
        "error": wrong / (steps * size),
        "MiB in memory": after_warm_up / MIB,
        "MiB grown": grown / MIB,
    }
    flat = grown < 5 * MIB and grown < 0.01 * after_warm_up
    outcome.check(flat and refused == bad, outcome.figures)
    outcome.tried = steps * size
    return outcome


def _digest(seed: int, split: int, restart: int) -> str:
    """Return the digest of a model after 1,800 rows in time steps of 100, passed in pieces of ``split`` rows."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(1_800, 8))
    y = np.where((X[:, 0] > 0) == (np.arange(1_800) // 600 != 1), "up", "down")
    model: Any = DriftSurfClassifier(batch_size=100, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, start in enumerate(range(0, len(y), split)):
            model.partial_fit(X[start : start + split], y[start : start + split])
            if restart and number % restart == 0:
                model = DriftSurfClassifier.from_bytes(model.to_bytes())
    return hashlib.sha256(model.to_bytes()).hexdigest()


def determinism(scale: float, seed: int, processes: bool = True) -> Outcome:
    """Compare the bytes of models that learned the same rows in other splits, with restarts, threads and hash seeds."""
    outcome = Outcome("determinism", seed)
    expected = _digest(seed, 100, 0)
    splits = (1, 7, 100, 1_000, 1_800) if processes else (33, 100, 1_800)
    for split, restart in itertools.product(splits, (0, 1, 3)):
        if split == 1 and restart == 1:
            continue
        outcome.count("splits and restarts")
        outcome.check(_digest(seed, split, restart) == expected, {"split": split, "restart": restart})
    settings = itertools.product(("0", "1", "4294967295"), ("1", "2", "8")) if processes else ()
    for hash_seed, threads in settings:
        names = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"
        environment = os.environ | {"PYTHONHASHSEED": hash_seed} | dict.fromkeys(names, threads)
        ran = subprocess.run(
            [sys.executable, "-m", "tests.reliability.endurance", str(seed)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        outcome.count("processes with other hash seeds and threads")
        outcome.check(
            ran.stdout.strip() == expected, {"hash_seed": hash_seed, "threads": threads, "stderr": ran.stderr}
        )
    return outcome


if __name__ == "__main__":
    print(_digest(int(sys.argv[1]), 100, 0))
