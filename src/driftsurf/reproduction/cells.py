"""The cells of the tables: medians over trials, their agreement with the paper, explanations of differences."""

from __future__ import annotations

import csv
import io
import statistics
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

import numpy as np

from driftsurf.core.contracts import FloatArray
from driftsurf.data.datasets.known import DATASETS
from driftsurf.reproduction import plan
from driftsurf.reproduction.plan import AlgorithmColumn, PaperTable, trial, variants_of
from driftsurf.reproduction.published import STREAMS, best, published
from driftsurf.reproduction.trials import Trial, TrialResult
from driftsurf.strategies import Variant

MODEL_CHANGES = "reset", "switched", "replaced"
"""Kinds of transitions after which another model predicts for good."""


@dataclass(frozen=True)
class ErrorCell:
    """One cell of a table: the median over the trials of the mean error over the steps."""

    table: str
    dataset: str
    algorithm: str
    variant: Variant
    trials: tuple[float, ...]
    median: float
    paper: float | None
    """The printed error; None if the paper has none, or if the data are not the paper's."""
    gradients: int
    """Gradients of one trial, the median over the trials."""
    resets: float | None = None
    """How often another model took over in a trial, the median over the trials."""

    @property
    def rounded(self) -> float:
        """The median in three decimals, as a table prints it."""
        return round(self.median, 3)

    @property
    def difference(self) -> float | None:
        """Our rounded error minus the printed one; None if there is no printed one."""
        return None if self.paper is None else round(self.rounded - self.paper, 3)

    @property
    def spread(self) -> float:
        """The difference of the worst and the best trial."""
        return max(self.trials) - min(self.trials)


def outcomes_of(
    table: PaperTable,
    column: AlgorithmColumn,
    dataset: str,
    variant: Variant,
    done: Mapping[Trial, TrialResult],
    seeds: Iterable[int],
) -> list[TrialResult]:
    """Return the trials of one cell, in the order of their seeds."""
    return [done[trial(table, column, dataset, variant, seed)] for seed in seeds]


def cells_of(
    tables: Iterable[PaperTable], datasets: Iterable[str], done: Mapping[Trial, TrialResult], seeds: Iterable[int]
) -> list[ErrorCell]:
    """Return all cells of these tables."""
    datasets, seeds = tuple(datasets), tuple(seeds)
    cells = []
    for table in tables:
        for dataset in table.among(datasets):
            for column in table.columns:
                for variant in variants_of(column):
                    outcomes = outcomes_of(table, column, dataset, variant, done, seeds)
                    cells.append(_cell(table, column, dataset, variant, outcomes))
    return cells


def _cell(
    table: PaperTable, column: AlgorithmColumn, dataset: str, variant: Variant, outcomes: list[TrialResult]
) -> ErrorCell:
    errors = tuple(outcome.mean_error for outcome in outcomes)
    paper = published(table.name, dataset, column.name) if table.printed and dataset in STREAMS else None
    changes = [sum(kind in MODEL_CHANGES for kinds in o.transitions for kind in kinds) for o in outcomes]
    return ErrorCell(
        table.name,
        dataset,
        column.name,
        variant,
        errors,
        statistics.median(errors),
        paper,
        int(statistics.median(outcome.gradients for outcome in outcomes)),
        statistics.median(changes),
    )


@dataclass(frozen=True)
class Agreement:
    """How many cells of Algorithm 1 are near the paper's."""

    cells: int
    within_10: int
    """Cells with |ours - paper| of at most 0.010, ours rounded to three decimals."""
    within_20: int
    misses: tuple[ErrorCell, ...]
    """Cells that differ by more than 0.020."""

    def describe(self) -> str:
        """Return one line of text."""
        if not self.cells:
            return "no cell of the paper was run"
        near, far = self.within_10 / self.cells, self.within_20 / self.cells
        return (
            f"{self.cells} cells of the paper: {self.within_10} ({near:.1%}) within 0.010, "
            f"{self.within_20} ({far:.1%}) within 0.020"
        )


def agreement(cells: Iterable[ErrorCell]) -> Agreement:
    """Count the cells of Algorithm 1 that are near the paper's."""
    judged = [(cell, abs(cell.difference)) for cell in cells if cell.difference is not None]
    ours = [(cell, off) for cell, off in judged if cell.variant == "algorithm-1"]
    return Agreement(
        len(ours),
        sum(off <= 0.010 + 1e-9 for _, off in ours),
        sum(off <= 0.020 + 1e-9 for _, off in ours),
        tuple(cell for cell, off in ours if off > 0.020 + 1e-9),
    )


def to_csv(cells: Iterable[ErrorCell]) -> str:
    """Return a CSV table with one line for each cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ("table", "dataset", "algorithm", "variant", "median", "lowest", "highest", "paper", "difference", "gradients")
    )
    for cell in cells:
        row = cell.table, cell.dataset, cell.algorithm, cell.variant, f"{cell.median:.6f}"
        spread = f"{min(cell.trials):.6f}", f"{max(cell.trials):.6f}"
        writer.writerow((*row, *spread, cell.paper, cell.difference, cell.gradients))
    return out.getvalue()


def to_markdown(table: PaperTable, cells: Iterable[ErrorCell], titles: Mapping[str, str]) -> str:
    """Return a table in Markdown: our error, half the spread, the paper's; the best is bold, Aware aside."""
    by_place = {(cell.dataset, cell.algorithm, cell.variant): cell for cell in cells if cell.table == table.name}
    datasets = list(dict.fromkeys(dataset for dataset, _, _ in by_place))
    heads = [(column, variant) for column in table.columns for variant in variants_of(column)]
    names = [column.title + (" (authors' code)" if variant == "authors" else "") for column, variant in heads]
    lines = [f"## {table.title}", "", f"| | {' | '.join(names)} |", "|---" * (len(heads) + 1) + "|"]
    for dataset in datasets:
        row = {(column, variant): by_place[dataset, column.name, variant] for column, variant in heads}
        bold = best({c.name: cell.rounded for (c, variant), cell in row.items() if variant == "algorithm-1"})
        texts = [
            _text(cell, bold=column.name in bold and variant == "algorithm-1")
            for (column, variant), cell in row.items()
        ]
        lines.append(f"| {titles[dataset]} | {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def _text(cell: ErrorCell, *, bold: bool) -> str:
    number = f"**{cell.rounded:.3f}**" if bold else f"{cell.rounded:.3f}"
    paper = "" if cell.paper is None else f" / {cell.paper:.3f}"
    spread = f" ±{cell.spread / 2:.3f}" if len(cell.trials) > 1 else ""
    return f"{number}{spread}{paper}"


@dataclass(frozen=True)
class Discrepancy:
    """Attempts to explain the difference of some cells from the paper's, and the conclusion."""

    cells: tuple[tuple[str, str, str], ...]
    """Table, stream and algorithm of each cell."""
    tried: tuple[tuple[str, str], ...]
    """Pairs of an attempt and its result."""
    conclusion: str


def explain(cell: ErrorCell) -> Discrepancy | None:
    """Return the explanation of a cell; None if there is none.

    >>> explain(ErrorCell("sgd-rho-2m", "circles", "aware", "algorithm-1", (0.37,), 0.37, 0.306, 0)).tried[0][0]
    'the printed numbers'
    """
    place = cell.table, cell.dataset, cell.algorithm
    return next((known for known in EXPLANATIONS if place in known.cells), None)


def _read(entry: dict[str, Any]) -> Discrepancy:
    cells = ((table, entry["stream"], entry["algorithm"]) for table in entry["tables"])
    return Discrepancy(tuple(cells), tuple(map(tuple, entry["tried"])), entry["conclusion"])


_TEXT = files("driftsurf.reproduction").joinpath("discrepancies.toml").read_text(encoding="utf-8")
EXPLANATIONS: Final = tuple(_read(entry) for entry in tomllib.loads(_TEXT)["explanations"])


@dataclass(frozen=True)
class Measurements:
    """Cells and trials of the experiments that were run."""

    datasets: tuple[str, ...]
    seeds: tuple[int, ...]
    cells: tuple[ErrorCell, ...]
    outcomes: dict[Trial, TrialResult]

    def find(self, table: str, dataset: str, algorithm: str, variant: str = "algorithm-1") -> ErrorCell | None:
        """Return one cell; None if it was not run."""
        place = table, dataset, algorithm, variant
        return next((c for c in self.cells if (c.table, c.dataset, c.algorithm, c.variant) == place), None)

    def lookup(self, table: str, stream: str, algorithm: str) -> float | None:
        """Return the measured error in three decimals; None if it was not run."""
        cell = self.find(table, stream, algorithm)
        return None if cell is None else cell.rounded

    def runs(self, table: str, dataset: str, algorithm: str) -> list[TrialResult]:
        """Return the trials of a cell, in the order of their seeds; an empty list if they were not run."""
        where = plan.TABLES[table]
        column = next(column for column in where.columns if column.name == algorithm)
        first = plan.trial(where, column, dataset, "algorithm-1", self.seeds[0])
        if first not in self.outcomes:
            return []
        return outcomes_of(where, column, dataset, "algorithm-1", self.outcomes, self.seeds)

    def curve(self, table: str, dataset: str, algorithm: str) -> FloatArray | None:
        """Return the error at each step, the median over the trials; None if it was not run."""
        runs = self.runs(table, dataset, algorithm)
        return np.median([run.error for run in runs], axis=0) if runs else None

    def dataset_for(self, stream: str) -> str | None:
        """Return the data that a stream of the paper was run on: its own, or a stand-in; None if neither was run."""
        stand_ins = [name for name, entry in DATASETS.items() if entry.stands_for == stream]
        return next((name for name in (stream, *stand_ins) if name in self.datasets), None)
