"""Rows per second of many learners in one process: ``Fleet`` compared with a dictionary of river's models."""

from __future__ import annotations

import importlib
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Contender, Contest
from driftsurf import DriftSurfClassifier, Fleet
from driftsurf.keyed import key_seed
from driftsurf.learners import LogisticRegression

N_FEATURES = 10
N_KEYS = 1, 1_000, 100_000, 1_000_000
STEP_SIZE = 0.4 / (N_FEATURES + 1)
RIVER_ROWS = 100_000
"""Number of rows per round for river, whose cost per row is constant."""
WARM_ROWS = 192
"""Number of rows after which a key has its full sample set and all of its models."""
WARM_SEED = 10_000

Rows = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.bool_]]


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield a contest for each number of keys; rows of all keys arrive in random order."""
    river = _river(note)
    for n_keys in N_KEYS[: 2 if quick else 4]:
        if not _fits(n_keys):
            note(f"{n_keys:,} keys: skipped, there is not enough memory left.")
            continue
        n_rows = 20_000 if quick else 1_000_000
        most = os.cpu_count() or 1
        # Of the largest fleet there is one only: two would not fit into many machines.
        threads = (1, most) if n_keys < N_KEYS[-1] else (most,)
        contenders = [_fleet(n_keys, n_rows, threads=number, warm=not quick) for number in threads]
        if 1 < n_keys < N_KEYS[-1]:
            scaled = (
                _fleet(n_keys, n_rows, threads=most, warm=not quick, scaled=True, drifts=d) for d in (False, True)
            )
            contenders += scaled
        anchor = contenders[0].name
        if n_keys <= 1_000:
            contenders.append(_separate(n_keys, 20_000))
        if river is not None and n_keys <= 100_000:
            contenders.append(_dictionary(river, n_keys, min(n_rows, RIVER_ROWS)))
            anchor = contenders[-1].name
        keys = f"{n_keys:,} key{'s' * (n_keys != 1)}"
        yield Contest(f"{keys}, {N_FEATURES} columns, predict, then learn", "row", anchor, contenders)


def stream(n_keys: int, n_rows: int, seed: int) -> Rows:
    """Return rows whose label follows the sign of the first column, which differs between keys.

    A tenth of the labels is wrong, and in every fifth call all of them are inverted.
    """
    rng = np.random.default_rng(seed)
    keys = rng.integers(n_keys, size=n_rows)
    X = rng.standard_normal((n_rows, N_FEATURES), np.float32)
    y = (X[:, 0] > 0) ^ (keys % 2 == seed // 5 % 2) ^ (rng.random(n_rows) < 0.1)
    return keys, X, y


def _fleet(
    n_keys: int, n_rows: int, *, threads: int, warm: bool, scaled: bool = False, drifts: bool = False
) -> Contender:
    """Return a fleet with a fixed step size, or with the default options (``scaled``).

    With ``drifts``, all labels mean the opposite from the first measured call on.
    """
    options: dict[str, Any] = {} if scaled else {"step_size": STEP_SIZE}
    fleet = Fleet(n_features=N_FEATURES, classes=(False, True), threads=threads, **options)
    rounds = itertools.count(5 if drifts else 0)
    clock: list[float] = []

    def prepare() -> Rows:
        if warm and len(fleet) == 0:
            for part in range(max(1, n_keys * WARM_ROWS // 4_000_000)):
                fleet.observe(*stream(n_keys, min(4_000_000, n_keys * WARM_ROWS), WARM_SEED + part))
        return stream(n_keys, n_rows, next(rounds))

    def run(rows: Rows) -> None:
        start = time.perf_counter()
        fleet.observe(*rows)
        clock.append(time.perf_counter() - start)

    def remark(_: object) -> str:
        table = fleet.table()
        models = np.minimum(table["models"], 2).mean()
        rate, size = n_rows / statistics.median(clock), fleet.bytes_per_key
        return f"{rate:,.0f} rows/s by the clock, {size:,} bytes a key, {models:.1f} models a key"

    kind = ", default options" * scaled + ", drift" * drifts
    return Contender(f"Fleet{kind}, {threads} thread{'s' * (threads > 1)}", n_rows, prepare, run, remark)


def _separate(n_keys: int, n_rows: int) -> Contender:
    models: dict[int, DriftSurfClassifier] = {}
    rounds = iter(range(1_000_000))

    def run(rows: Rows) -> None:
        keys, X, y = rows
        order = np.argsort(keys, kind="stable")
        bounds = np.flatnonzero(np.diff(keys[order], prepend=-1, append=-1))
        for a, b in itertools.pairwise(bounds):
            key = int(keys[order[a]])
            if key not in models:
                models[key] = DriftSurfClassifier(
                    LogisticRegression(step_size=STEP_SIZE),
                    threshold=0.3,
                    batch_size=32,
                    max_rows=128,
                    dtype="float32",
                    guard=None,
                    classes=(False, True),
                    random_state=key_seed(0, key),
                )
            models[key].test_then_train(X[order[a:b]], y[order[a:b]])

    return Contender("dictionary of DriftSurfClassifier", n_rows, lambda: stream(n_keys, n_rows, next(rounds)), run)


def _dictionary(river: Any, n_keys: int, n_rows: int) -> Contender:
    models: dict[int, Any] = {}
    names = [f"x{column}" for column in range(N_FEATURES)]
    rounds = iter(range(1_000_000))

    def run(rows: Rows) -> None:
        keys, X, y = rows
        for key, values, label in zip(keys.tolist(), X.tolist(), y.tolist(), strict=True):
            x = dict(zip(names, values, strict=True))
            pair = models.get(key)
            if pair is None:
                pair = models[key] = river()
            model, detector = pair
            predicted = model.predict_one(x)
            model.learn_one(x, label)
            detector.update(predicted != label)
            if detector.drift_detected:
                models[key] = river()

    return Contender(
        "dictionary of river LogisticRegression + DDM",
        n_rows,
        lambda: stream(n_keys, n_rows, next(rounds)),
        run,
        lambda _: f"{len(models):,} keys so far",
    )


def _river(note: Callable[[str], None]) -> Any:
    try:
        linear, drift = importlib.import_module("river.linear_model"), importlib.import_module("river.drift.binary")
    except ImportError as error:
        note(f"river: skipped, {error.name} is not installed (see benchmarks/README.md).")
        return None
    return lambda: (linear.LogisticRegression(), drift.DDM())


def _fits(n_keys: int) -> bool:
    """Return whether there is memory for the fleets of this size; True if that is not known."""
    needed = (
        (4 if n_keys < N_KEYS[-1] else 1.3) * n_keys * Fleet(n_features=N_FEATURES, step_size=STEP_SIZE).bytes_per_key
    )
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return True
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    return needed < 0.9 * free
