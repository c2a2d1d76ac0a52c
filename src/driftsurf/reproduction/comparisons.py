"""Comparisons of algorithms that the paper's tables do not have: recovery, false reactions, regret, cost, ranks.

They are computed from the trials of the tables. Differences between algorithms are taken trial by trial, with the same
seed for both; the median over the trials is reported.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from driftsurf.comparison.models import ALGORITHMS
from driftsurf.data.datasets.known import DATASETS
from driftsurf.evaluation import metrics
from driftsurf.evaluation.ranks import Ranking, place, ranking
from driftsurf.reproduction import plan
from driftsurf.reproduction.cells import ErrorCell, Measurements
from driftsurf.reproduction.published import STREAMS, TABLES
from driftsurf.reproduction.trials import Timeline, TrialResult, timeline

ORACLE = "aware"
RANKED = "equal-model", "rho-4m", "rho-2m"
"""Tables whose algorithms are ranked over the streams."""
_REACTS_BY = {"driftsurf": "entered", "detector": "reset"}
"""The kind of transition by which an algorithm of this kind reacts to a sign of drift."""


def full_title(dataset: str) -> str:
    """Return the title of a stream for figures; that of a stand-in says what it stands in for.

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
    """Recovery times of an algorithm from one drift, one for each trial; None if the next drift came first."""

    dataset: str
    algorithm: str
    drift: tuple[int, int]
    """First and last step of the drift."""
    by_error: tuple[int | None, ...]
    """Steps from its start until the error is within 10 % of Aware's median error until the next drift."""
    by_training: tuple[int | None, ...] | None
    """Steps from its end until the predicting model is trained on later rows alone; None for algorithms that never
    drop old rows, or predict with several models."""


def typical(times: Sequence[int | None]) -> float:
    """Return the median recovery time; infinite if at least half of the trials did not recover.

    >>> typical([2, None, 4]), typical([2, None, None])
    (4.0, inf)
    """
    return float(statistics.median(math.inf if time is None else time for time in times))


def recoveries(measured: Measurements, table: str = "equal-model") -> list[Recovery]:
    """Return the recoveries of all algorithms of a table but Aware, from all drifts that end within a stream."""
    found: list[Recovery] = []
    columns = [column for column in plan.TABLES[table].columns if column.name != ORACLE]
    for dataset in measured.datasets:
        line, oracle = timeline(dataset), measured.runs(table, dataset, ORACLE)
        if not (line.bounded and oracle):
            continue
        for column in columns:
            runs = measured.runs(table, dataset, column.name)
            found += _recoveries_of(column.name, line, runs, oracle, ALGORITHMS[column.algorithm].family in _REACTS_BY)
    return found


def _recoveries_of(
    algorithm: str, line: Timeline, runs: list[TrialResult], oracle: list[TrialResult], resets: bool
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
    """Error and cost of one algorithm on one stream, medians over the trials."""

    table: str
    dataset: str
    algorithm: str
    error: float
    spread: float
    regret: float
    """Sum over the steps of its error minus Aware's."""
    gradients_per_row: float
    seconds: float
    reactions: float | None
    """How often it reacted to a sign of drift; None for algorithms that do not detect drift."""
    false_reactions: float | None
    """Reactions without a drift, by a model that had recovered from all earlier ones; None if the drifts of the
    stream are not known."""


def accounts(measured: Measurements, table: str = "equal-model") -> list[Account]:
    """Return an account for each algorithm of a table on each stream."""
    found = []
    for cell in measured.cells:
        if cell.table != table or cell.variant != "algorithm-1":
            continue
        runs, oracle = (measured.runs(table, cell.dataset, name) for name in (cell.algorithm, ORACLE))
        column = next(column for column in plan.TABLES[table].columns if column.name == cell.algorithm)
        kind = _REACTS_BY.get(ALGORITHMS[column.algorithm].family)
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
                _median(len(metrics.reactions(run.transitions, kind)) for run in runs) if kind else None,
                _median(_false_reactions(run, line, kind) for run in runs) if kind and line.known else None,
            )
        )
    return found


def _false_reactions(run: TrialResult, line: Timeline, kind: str) -> int:
    first_row = line.batch_size * np.arange(len(run.error))
    rows = np.full(len(run.error), line.batch_size)
    return metrics.false_reactions(first_row, rows, run.trained_from, run.transitions, line.drifts, kind)


def _median(values: Iterable[float]) -> float:
    return float(statistics.median(values))


# ---------------------------------------------------------------------------- places and ranks


@dataclass(frozen=True)
class TablePlace:
    """DriftSurf's place among the algorithms of a table on one stream, Aware aside; 1 is the lowest error."""

    table: str
    dataset: str
    ours: tuple[int, int]
    """Best and worst place with errors in three decimals; they differ if algorithms tie."""
    within_spread: tuple[int, int]
    """Best and worst place if algorithms tie whose medians differ by less than the larger spread of their trials."""
    paper: tuple[int, int]
    """Best and worst place in print."""
    reordered: tuple[str, ...]
    """Algorithms that are better than DriftSurf in print and worse in our numbers, or the other way round, by more than
    the spread."""

    @property
    def verdict(self) -> Literal["agrees", "within the spread", "differs"]:
        """Whether our place agrees with the paper's."""
        if _overlap(self.ours, self.paper):
            return "agrees"
        return "within the spread" if _overlap(self.within_spread, self.paper) else "differs"


def places(cells: Iterable[ErrorCell], algorithm: str = "driftsurf") -> list[TablePlace]:
    """Return the place of one algorithm in each of the paper's tables, on each stream of the paper that was run."""
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
            reordered = tuple(
                name
                for i, name in enumerate(rivals)
                if (printed[i] - printed[index]) * (medians[i] - medians[index]) < 0.0
                and abs(medians[i] - medians[index]) >= max(spreads[i], spreads[index])
            )
            here = place(index, errors), place(index, medians, spreads), place(index, printed)
            found.append(TablePlace(table.name, dataset, *here, reordered))
    return found


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def rankings(cells: Iterable[ErrorCell]) -> dict[str, tuple[Ranking, Ranking]]:
    """Return the rankings of the tables in RANKED over the paper's streams: by plain ranks, and with ties by spread."""
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


def _rows(cells: Iterable[ErrorCell], table: str) -> dict[str, dict[str, ErrorCell]]:
    """Return the cells of Algorithm 1 on the paper's own streams, by stream and algorithm."""
    rows: dict[str, dict[str, ErrorCell]] = {}
    for cell in cells:
        if cell.table == table and cell.variant == "algorithm-1" and cell.paper is not None:
            rows.setdefault(cell.dataset, {})[cell.algorithm] = cell
    return rows
