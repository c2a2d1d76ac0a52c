"""A reproduction with invented outcomes of every table, for tests that must not run or read anything."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from driftsurf.reproduction import plan
from driftsurf.reproduction.bounds import Bounds, Competition
from driftsurf.reproduction.cells import ErrorCell, cells_of
from driftsurf.reproduction.grid_search import L2S, STEP_SIZES, Tuning
from driftsurf.reproduction.published import STREAMS, published
from driftsurf.reproduction.reproduce import EXPERIMENTS, Reproduction
from driftsurf.reproduction.trials import Trial, TrialResult, timeline
from driftsurf.reproduction.verdicts import judge

SEEDS = 0, 1, 2
FAR = {
    ("rho-4m", "circles", "aue-2"): -0.027,
    ("sgd-rho-2m", "sine1", "driftsurf"): -0.115,
    ("equal-model", "sea0", "aue"): 0.03,
}
"""Differences of some cells from those of the paper."""


def outcome(error: list[float], **changes: Any) -> TrialResult:
    """Return the outcome of a trial with these errors and no transition."""
    n = len(error)
    plain = TrialResult(np.array(error), np.zeros(n, np.int64), ((),) * n, np.zeros(n, bool), 10, 0.5)
    return replace(plain, **changes)


def cell(table: str, dataset: str, algorithm: str, error: float, **changes: Any) -> ErrorCell:
    """Return a cell of two trials, with the printed error if there is one."""
    paper = published(table, dataset, algorithm) if dataset in STREAMS else None
    made = ErrorCell(table, dataset, algorithm, "algorithm-1", (error, error + 0.002), error, paper, 1000)
    return replace(made, **changes)


def synthetic(datasets: Iterable[str], tables: Iterable[str] = tuple(plan.TABLES)) -> Reproduction:
    """Return errors near those of the paper, which differ by about 0.002 between trials, and reactions at drifts."""
    datasets, chosen = tuple(datasets), tuple(plan.TABLES[name] for name in tables)
    done: dict[Trial, TrialResult] = {}
    for table in chosen:
        for column in table.columns:
            for dataset in table.among(datasets):
                printed = published(table.name, dataset, column.name) if table.printed and dataset in STREAMS else None
                mean = (0.25 if printed is None else printed) + FAR.get((table.name, dataset, column.name), 0.0)
                for variant in plan.variants_of(column):
                    for seed in SEEDS:
                        trial = plan.trial(table, column, dataset, variant, seed)
                        done.setdefault(trial, _outcome(trial, mean))
    cells = tuple(cells_of(chosen, datasets, done, SEEDS))
    return Reproduction(tuple(EXPERIMENTS), datasets, ("rcv1",), SEEDS, chosen, cells, done)


def judged(result: Reproduction) -> Reproduction:
    """Return the reproduction with verdicts, bounds and grid searches, as far as they need no data."""
    return replace(
        result,
        verdicts=tuple(judge(result.measured)),
        competitions=(_competition("sine1"), _competition("mixed", stable=False)),
        bounds=(_bounds("sine1"),),
        tunings=(_tuning("sine1"), _tuning("covertype-sample")),
    )


def _outcome(trial: Trial, mean: float) -> TrialResult:
    line = timeline(trial.dataset)
    n = line.n_rows // line.batch_size
    rng = np.random.default_rng(zlib.crc32(repr(trial).encode()))
    error = np.clip(mean + 0.002 * rng.standard_normal() + rng.normal(0.0, 0.02, n), 0.0, 1.0)
    trained_from, reactive = np.zeros(n, np.int64), np.zeros(n, bool)
    kinds: list[tuple[str, ...]] = [()] * n
    if trial.algorithm in ("driftsurf", "no-greedy", "mddm-g", "mddm-a", "mddm-e", "ddm"):
        resets = trial.algorithm not in ("driftsurf", "no-greedy")
        for first, _ in line.spans:
            if 0 < first < n - 4:
                kinds[first] = ("reset",) if resets else ("entered",)
                trained_from[first + 1 :] = first * line.batch_size
                if not resets:
                    kinds[first + 3] = ("switched",)
                    reactive[first : first + 4] = True
        kinds[n - 2] = ("reset",) if resets else ("entered",)
    return TrialResult(error, trained_from, tuple(kinds), reactive, 2 * line.n_rows, 0.05)


def _competition(dataset: str, *, stable: bool = True) -> Competition:
    steps = tuple(range(4, 100, 5))
    rows = tuple(100 * (step % 20 + 1) for step in steps)
    gaps = tuple(3.0 / row for row in rows)
    return Competition(dataset, steps, rows, gaps, tuple(2 * gap for gap in gaps), (stable,) * len(steps), 3.0, 1.0)


def _bounds(dataset: str) -> Bounds:
    return Bounds(
        dataset=dataset,
        theta=0.1,
        stable_share=0.7,
        stable_share_bound=0.71,
        false_entries=2,
        false_switches=((5, True), (9, False)),
        smallest_b=3.5,
        large_sample_share=0.9,
        p=0.8,
        p_star=0.0,
        recovery=(1, None, 2),
        recovery_bound=math.inf,
        entries=(1, 2, 1),
        entries_bound=math.inf,
    )


def _tuning(dataset: str) -> Tuning:
    errors = np.full((len(L2S), len(STEP_SIZES)), 0.3)
    errors[2, 3], errors[0, 0] = 0.2, np.nan
    return Tuning(dataset, tuple(map(tuple, errors.tolist())), L2S[2], STEP_SIZES[3], 0.2, 1e-3, 0.2, 0.3)
