"""What the paper's tables do not say: recovery from each drift, false reactions, regret, cost, ranks, places.

Everything is worked out from what was run anyway. Differences between algorithms are taken trial by trial, the
same seed for both, and then as medians over the trials.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from driftsurf.evaluation import metrics
from driftsurf.evaluation.ranks import Ranking, place, ranking
from driftsurf.experiments import plan
from driftsurf.experiments.algorithms import ALGORITHMS
from driftsurf.experiments.published import STREAMS, TABLES
from driftsurf.experiments.results import Cell
from driftsurf.experiments.timelines import Timeline, timeline
from driftsurf.experiments.trials import Outcome
from driftsurf.experiments.verdicts import Measured
from driftsurf.streams.datasets import DATASETS

__all__ = [
    "Account",
    "Place",
    "Recovery",
    "accounts",
    "full_title",
    "places",
    "rankings",
    "recoveries",
    "typical",
]

ORACLE = "aware"
RANKED = "equal-model", "rho-4m", "rho-2m"
"""The tables whose algorithms are ranked over the streams."""
_REACTS_BY = {"driftsurf": "entered", "detector": "reset"}
"""The transition by which an algorithm of this kind reacts to what it takes for a drift."""


def full_title(dataset: str) -> str:
    """What a figure calls a stream; a stand-in says whose place it takes.

    >>> full_title("newsgroups20")
    '20 Newsgroups, in place of RCV1'
    >>> full_title("sea0")
    'SEA0'
    """
    real = DATASETS.get(dataset)
    if real is None or real.stands_for is None:
        return STREAMS[dataset].title
    return f"{real.label}, in place of {STREAMS[real.stands_for].title}"


# ---------------------------------------------------------------------------- recovery


@dataclass(frozen=True)
class Recovery:
    """How long an algorithm took to recover from one drift, trial by trial; None: not before the next drift."""

    dataset: str
    algorithm: str
    drift: tuple[int, int]
    """Its first and its last step."""
    by_error: tuple[int | None, ...]
    """Steps from its start until the error is within 10 % of Aware's median until the next drift."""
    by_training: tuple[int | None, ...] | None
    """Steps from its end until the predicting model knows only rows from after it; None for the algorithms
    that never let go of old rows, or predict by many models."""


def typical(times: Sequence[int | None]) -> float:
    """The median; infinite if half of the trials or more did not recover.

    >>> typical([2, None, 4]), typical([2, None, None])
    (4.0, inf)
    """
    return float(statistics.median(math.inf if time is None else time for time in times))


def recoveries(measured: Measured, table: str = "equal-model") -> list[Recovery]:
    """All algorithms of a table on all streams with drifts that end, Aware left out."""
    found: list[Recovery] = []
    columns = [column for column in plan.TABLES[table].columns if column.name != ORACLE]
    for dataset in measured.datasets:
        line, oracle = timeline(dataset), measured.runs(table, dataset, ORACLE)
        if not (line.bounded and oracle):
            continue
        for column in columns:
            runs = measured.runs(table, dataset, column.name)
            found += _recoveries_of(column.name, line, runs, oracle, ALGORITHMS[column.algorithm].kind in _REACTS_BY)
    return found


def _recoveries_of(
    algorithm: str, line: Timeline, runs: list[Outcome], oracle: list[Outcome], resets: bool
) -> list[Recovery]:
    first_row = line.batch_size * np.arange(len(runs[0].error))
    by_error = [
        metrics.recovery_by_error(first_row, run.error, aware.error, line.bounded)
        for run, aware in zip(runs, oracle, strict=True)
    ]
    by_training = [metrics.recovery_by_training(first_row, run.trained_from, line.bounded) for run in runs]
    return [
        Recovery(line.dataset, algorithm, span, errors, training if resets else None)
        for span, errors, training in zip(
            (span for span, drift in zip(line.spans, line.drifts, strict=True) if drift in line.bounded),
            zip(*by_error, strict=True),
            zip(*by_training, strict=True),
            strict=True,
        )
    ]


# ---------------------------------------------------------------------------- cost and regret


@dataclass(frozen=True)
class Account:
    """One algorithm on one stream: what it reached, and what that took; medians over the trials."""

    table: str
    dataset: str
    algorithm: str
    error: float
    spread: float
    regret: float
    """The sum over the steps of its error less Aware's."""
    gradients_per_row: float
    seconds: float
    reactions: float | None
    """How often it took something for a drift; None for those that do not say."""
    false_reactions: float | None
    """Of these, with no drift under way and a model that knew the present concept alone; None where nobody
    knows when the stream drifts."""


def accounts(measured: Measured, table: str = "equal-model") -> list[Account]:
    """An account for each algorithm of a table on each stream."""
    found = []
    for cell in measured.cells:
        if cell.table != table or cell.variant != "algorithm-1":
            continue
        runs, oracle = (measured.runs(table, cell.dataset, name) for name in (cell.algorithm, ORACLE))
        column = next(column for column in plan.TABLES[table].columns if column.name == cell.algorithm)
        kind = _REACTS_BY.get(ALGORITHMS[column.algorithm].kind)
        line = timeline(cell.dataset)
        found.append(
            Account(
                table,
                cell.dataset,
                cell.algorithm,
                cell.median,
                cell.spread,
                _median(float(np.sum(run.error - aware.error)) for run, aware in zip(runs, oracle, strict=True)),
                cell.gradients / line.n_rows,
                _median(run.seconds for run in runs),
                _median(len(metrics.reactions(_kinds(run), kind)) for run in runs) if kind else None,
                _median(_false_reactions(run, line, kind) for run in runs) if kind and line.known else None,
            )
        )
    return found


def _kinds(run: Outcome) -> metrics.Numbers:
    return np.array(run.transition, np.str_)


def _false_reactions(run: Outcome, line: Timeline, kind: str) -> int:
    first_row = line.batch_size * np.arange(len(run.error))
    rows = np.full(len(run.error), line.batch_size)
    return metrics.false_reactions(first_row, rows, run.trained_from, _kinds(run), line.drifts, kind)


def _median(values: Iterable[float]) -> float:
    return float(statistics.median(values))


# ---------------------------------------------------------------------------- places and ranks


@dataclass(frozen=True)
class Place:
    """DriftSurf's place among the algorithms of a table on one stream, Aware left out; 1 is the lowest error."""

    table: str
    dataset: str
    ours: tuple[int, int]
    """The best and the worst one with errors in three decimals; they differ by ties."""
    within_spread: tuple[int, int]
    """The same, where two algorithms tie whose medians differ by less than the larger spread of their trials."""
    paper: tuple[int, int]
    overtaken: tuple[str, ...]
    """Those that stand on the other side of DriftSurf than in print, by more than the spread."""

    @property
    def verdict(self) -> Literal["agrees", "within the spread", "differs"]:
        """Whether it is the paper's place."""
        if _overlap(self.ours, self.paper):
            return "agrees"
        return "within the spread" if _overlap(self.within_spread, self.paper) else "differs"


def places(cells: Iterable[Cell], algorithm: str = "driftsurf") -> list[Place]:
    """The place of one algorithm in each of the paper's tables on each stream of the paper that was run."""
    found = []
    for table in TABLES.values():
        if algorithm not in table.algorithms:
            continue
        rivals = [name for name in table.algorithms if name != ORACLE]
        index = rivals.index(algorithm)
        for dataset, row in _rows(cells, table.name).items():
            printed = [table.errors[dataset][name] for name in rivals]
            errors, spreads = [row[name].rounded for name in rivals], [row[name].spread for name in rivals]
            medians = [row[name].median for name in rivals]
            overtaken = tuple(
                name
                for i, name in enumerate(rivals)
                if (printed[i] - printed[index]) * (medians[i] - medians[index]) < 0.0
                and abs(medians[i] - medians[index]) >= max(spreads[i], spreads[index])
            )
            here = place(index, errors), place(index, medians, spreads), place(index, printed)
            found.append(Place(table.name, dataset, *here, overtaken))
    return found


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def rankings(cells: Iterable[Cell]) -> dict[str, tuple[Ranking, Ranking]]:
    """The average ranks in each of RANKED over the paper's streams at hand: plain, and respecting the spread."""
    found = {}
    for name in RANKED:
        rows = _rows(cells, name)
        rivals = [algorithm for algorithm in TABLES[name].algorithms if algorithm != ORACLE]
        if rows:
            errors = [{a: row[a].rounded for a in rivals} for row in rows.values()]
            medians = [{a: row[a].median for a in rivals} for row in rows.values()]
            spreads = [{a: row[a].spread for a in rivals} for row in rows.values()]
            found[name] = ranking(rivals, errors), ranking(rivals, medians, spreads)
    return found


def _rows(cells: Iterable[Cell], table: str) -> dict[str, dict[str, Cell]]:
    """The cells of Algorithm 1 on the paper's own streams, by stream and algorithm."""
    rows: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        if cell.table == table and cell.variant == "algorithm-1" and cell.paper is not None:
            rows.setdefault(cell.dataset, {})[cell.algorithm] = cell
    return rows
