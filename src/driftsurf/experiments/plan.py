"""What is run: the paper's tables and ours, as data, and the trials that each of them takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from driftsurf.experiments import published
from driftsurf.experiments.algorithms import ALGORITHMS
from driftsurf.experiments.published import Update
from driftsurf.experiments.trials import Trial
from driftsurf.strategies import BudgetRule, Variant
from driftsurf.streams.catalogue import CLASSES

__all__ = ["PAPER_TABLES", "TABLES", "Column", "Table", "trials_of", "variants_of"]


@dataclass(frozen=True)
class Column:
    """An algorithm in a table, perhaps with other options than the paper's."""

    name: str
    title: str
    algorithm: str
    options: tuple[tuple[str, float | bool | str], ...] = ()


@dataclass(frozen=True)
class Table:
    """Algorithms that are run under the same budget and update process."""

    name: str
    title: str
    columns: tuple[Column, ...]
    budget: BudgetRule = "each"
    steps_per_row: float = 2.0
    update: Update = "strsaga"
    only: tuple[str, ...] | None = None
    """The streams it is about; None for all."""

    def among(self, datasets: Iterable[str]) -> tuple[str, ...]:
        """Those of these streams that it is about."""
        return tuple(name for name in datasets if self.only is None or name in self.only)

    @property
    def printed(self) -> bool:
        """Whether it is one of the paper's."""
        return self.name in published.TABLES


def _plain(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, ALGORITHMS[name].title, name) for name in names)


def _sensitivity() -> tuple[Column, ...]:
    """DriftSurf with one option changed at a time."""
    changes: list[tuple[str, str, float | bool | str]] = [
        *((f"r = {r}", "reactive_length", r) for r in (1, 2, 3, 6, 8, 12)),
        *((f"delta = {delta:g}", "threshold", delta) for delta in (0.02, 0.05, 0.2, 0.4)),
        *((f"delta' = {delta:g}", "stable_threshold", delta) for delta in (0.0, 0.025, 0.1)),
        ("condition 2 off", "stable_threshold", math.inf),
        ("zero-one risk", "risk", "zero-one"),
    ]
    paper = Column("driftsurf", "r = 4, delta = 0.1, delta' = 0.05", "driftsurf")
    return paper, *(Column(title, title, "driftsurf", ((option, value),)) for title, option, value in changes)


PAPER_TABLES: Final[dict[str, Table]] = {
    name: Table(name, table.title, _plain(*table.algorithms), table.budget, table.steps_per_row, table.update)
    for name, table in published.TABLES.items()
}
"""The six tables of the paper."""

# Forty thousand columns make every step of every model cost; the paper's tables show the sparse regime.
_WITHOUT_TEXT = tuple(name for name in CLASSES if name not in ("newsgroups20", "spam-assassin"))

_OURS = (
    Table(
        "noise",
        "SEA with 0 to 30 % noise, rho = 2m for each model",
        _plain("aware", "driftsurf", "mddm-g", "aue"),
        only=("sea0", "sea10", "sea20", "sea30"),
    ),
    Table(
        "detectors",
        "drift detectors, rho = 2m for each model",
        _plain("aware", "driftsurf", "mddm-g", "mddm-a", "mddm-e", "ddm", "eddm", "adwin", "fhddm", "perm"),
        only=_WITHOUT_TEXT,
    ),
    Table("aware-alternative", "Aware told before or after the drift batch", _plain("aware", "aware-alternative")),
    Table(
        "baselines",
        "systems the paper builds on or contrasts, rho = 2m for each model",
        _plain(
            "aware",
            "driftsurf",
            "sliding-window",
            "linear-decay",
            "exponential-decay",
            "paired-learners",
            "dwm",
            "learn-nse",
        ),
        only=_WITHOUT_TEXT,
    ),
    Table(
        "equal-shares",
        "AUE with rho = 4m divided by weight (the authors' code) or equally (the paper's text)",
        _plain("aue", "aue-equal"),
        budget="divided",
        steps_per_row=4.0,
    ),
    Table(
        "sensitivity",
        "DriftSurf with one option changed at a time, rho = 2m for each model",
        _sensitivity(),
        only=_WITHOUT_TEXT,
    ),
)

TABLES: Final[dict[str, Table]] = PAPER_TABLES | {table.name: table for table in _OURS}
"""All tables by name: the paper's six in its order, then ours."""


def variants_of(column: Column) -> tuple[Variant, ...]:
    """DriftSurf is run as Algorithm 1 and as the authors' published code; of the others there is one."""
    both = ALGORITHMS[column.algorithm].kind == "driftsurf" and not column.options
    return ("algorithm-1", "authors") if both else ("algorithm-1",)


def trial(table: Table, column: Column, dataset: str, variant: Variant, seed: int) -> Trial:
    """One trial of one cell."""
    return Trial(
        dataset, column.algorithm, variant, table.budget, table.steps_per_row, table.update, column.options, seed
    )


def trials_of(tables: Iterable[Table], datasets: Iterable[str], seeds: Iterable[int]) -> Iterator[Trial]:
    """Every trial that these tables take on these streams."""
    seeds, datasets = tuple(seeds), tuple(datasets)
    for table in tables:
        for column in table.columns:
            for variant in variants_of(column):
                for dataset in table.among(datasets):
                    yield from (trial(table, column, dataset, variant, seed) for seed in seeds)
