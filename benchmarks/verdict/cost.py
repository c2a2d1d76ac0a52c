"""What the watch for drifts costs: the same rows learned with it and without, in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from benchmarks.verdict.models import build
from benchmarks.verdict.streams import FIRST_JUDGED, Made, make

__all__ = ["lines"]

CASES = (
    ("default", 1, 20_000),
    ("default", 100, 200_000),
    ("default", 1_000, 500_000),
    ("light", 1, 1_500),
    ("light", 100, 20_000),
    ("light", 1_000, 60_000),
    ("recommended", 100, 6_000),
    ("recommended", 1_000, 30_000),
)
"""Model, rows of a step, and rows."""
ROUNDS, QUICK_ROUNDS, FIRST = 9, 3, 1_000


def lines(quick: bool) -> Iterator[str]:
    """Yield a table of the CPU time of learning with the watch over that without."""
    yield "CPU time of `test_then_train` with the watch for drifts over that without; rounds in turns, steady rows.\n"
    yield "| model | rows a step | rows | us/row without | ratio, median | least, most |"
    yield "|---|---:|---:|---:|---:|---:|"
    for model, batch, rows in CASES:
        made = make("steady", "linear", FIRST_JUDGED, FIRST + rows // (5 if quick else 1))
        ratios, base = list[float](), list[float]()
        for turn in range((QUICK_ROUNDS if quick else ROUNDS) + 1):
            order = (True, False) if turn % 2 else (False, True)
            seconds = {watched: _seconds(model, batch, made, watched) for watched in order}
            if turn:  # the first round warms up
                ratios.append(seconds[True] / seconds[False])
                base.append(1e6 * seconds[False] / (made.n_rows - FIRST))
        yield (
            f"| {model} | {batch:,} | {made.n_rows - FIRST:,} | {statistics.median(base):.2f} | "
            f"{statistics.median(ratios):.3f} | {min(ratios):.3f}, {max(ratios):.3f} |"
        )


def _seconds(name: str, batch: int, made: Made, watched: bool) -> float:
    model = build(name, 2, batch, dense=True).set_params(batch_size=None).set_drift_monitor(enabled=watched)
    model.partial_fit(*made.rows(0, FIRST), classes=[0, 1])
    parts = [made.rows(first, first + batch) for first in range(FIRST, made.n_rows, batch)]
    start = time.process_time()
    for X, y in parts:
        model.test_then_train(X, y)
    return time.process_time() - start
