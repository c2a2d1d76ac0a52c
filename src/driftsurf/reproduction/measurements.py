"""The measured runs of a reproduction, looked up by table, stream and algorithm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftsurf.core.contracts import FloatArray
from driftsurf.data.datasets.known import DATASETS
from driftsurf.reproduction import plan
from driftsurf.reproduction.cells import ErrorCell, outcomes_of
from driftsurf.reproduction.trials import Trial, TrialResult


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
