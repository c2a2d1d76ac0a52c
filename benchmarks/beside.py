"""Predictions beside learning in one process: the latency of a row while another thread learns, and alone.

A prediction of a few rows keeps the interpreter lock, and a step of many rows releases it. A thread that comes in the
middle of a shorter step waits until the interpreter lets it run, five milliseconds at most.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness import Contest
from driftsurf import DriftSurfClassifier, recommended

SHAPES = (1, 10), (100, 10), (1_000, 10), (1_000, 54)
"""Rows of a step that another thread learns, and columns."""
MODELS: dict[str, Callable[[], Any]] = {
    "linear": lambda: DriftSurfClassifier(random_state=0),
    "light": lambda: recommended("light", random_state=0),
}
ROUNDS, CALLS, PAUSE = 5, 2_000, 0.002


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Note the latency of predictions alone and beside learning, in turns."""
    for name, make in MODELS.items():
        for rows, columns in SHAPES:
            note(_latency(name, make(), rows, columns, CALLS // 10 if quick else CALLS))
    yield from ()


def _latency(name: str, model: Any, rows: int, columns: int, calls: int) -> str:
    random = np.random.default_rng(0)
    X = random.normal(size=(50, rows, columns))
    y = (X[:, :, 0] > 0).astype(int)
    first = random.normal(size=(200, columns))
    model.partial_fit(first, (first[:, 0] > 0).astype(int), classes=[0, 1])
    one, steps = X[0, :1], 0
    stop = threading.Event()

    def learn() -> None:
        nonlocal steps
        while not stop.is_set():
            model.partial_fit(X[steps % len(X)], y[steps % len(X)])
            steps += 1

    at_once, paced = (list[float](), list[float]()), (list[float](), list[float]())  # alone, and beside learning
    for _ in range(ROUNDS):
        at_once[0].extend(_seconds(model, one, calls))
        paced[0].extend(_seconds(model, one, calls // 20, PAUSE))
        stop.clear()
        thread = threading.Thread(target=learn)
        thread.start()
        at_once[1].extend(_seconds(model, one, calls))
        paced[1].extend(_seconds(model, one, calls // 20, PAUSE))
        stop.set()
        thread.join()
    return (
        f"{name}, steps of {rows:,} rows, {columns} columns, while another thread took {steps:,} of them: predict of a "
        f"row, median / p99 in us: {_compared(at_once)}; of a row every {1e3 * PAUSE:.0f} ms, from its arrival on: "
        f"{_compared(paced)}."
    )


def _compared(times: tuple[list[float], list[float]]) -> str:
    alone, beside = (" / ".join(f"{1e6 * np.quantile(one, share):,.0f}" for share in (0.5, 0.99)) for one in times)
    ratio = np.quantile(times[1], 0.99) / np.quantile(times[0], 0.99)
    return f"alone {alone}, beside learning {beside}, {ratio:.1f} times the p99"


def _seconds(model: Any, one: Any, calls: int, pause: float = 0.0) -> list[float]:
    """Return how long predictions take, one after the other or with a pause before each."""
    found = list[float]()
    for _ in range(calls):
        began = time.perf_counter() + pause
        if pause:
            time.sleep(pause)
        model.predict(one)
        found.append(time.perf_counter() - began)
    return found
