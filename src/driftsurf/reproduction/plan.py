"""The plan of the reproduction: the paper's tables and ours as data, and the trials that each table needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from driftsurf.comparison.models import ALGORITHMS
from driftsurf.data.catalogue import CATALOGUE
from driftsurf.reproduction import published
from driftsurf.reproduction.published import Update
from driftsurf.reproduction.trials import Trial
from driftsurf.strategies import BudgetRule, Variant


@dataclass(frozen=True)
class AlgorithmColumn:
    """A column of a table: an algorithm, with options that differ from the paper's."""

    name: str
    title: str
    algorithm: str
    options: tuple[tuple[str, float | bool | str], ...] = ()


@dataclass(frozen=True)
class PaperTable:
    """A table: algorithms that are run with the same budget and update process."""

    name: str
    title: str
    columns: tuple[AlgorithmColumn, ...]
    budget: BudgetRule = "each"
    steps_per_row: float = 2.0
    update: Update = "strsaga"
    only: tuple[str, ...] | None = None
    """The streams of the table; None for all."""

    def among(self, datasets: Iterable[str]) -> tuple[str, ...]:
        """Return those of these streams that belong to the table."""
        return tuple(name for name in datasets if self.only is None or name in self.only)

    @property
    def printed(self) -> bool:
        """Whether it is one of the paper's tables."""
        return self.name in published.TABLES


def _plain(*names: str) -> tuple[AlgorithmColumn, ...]:
    return tuple(AlgorithmColumn(name, ALGORITHMS[name].title, name) for name in names)


def _sensitivity() -> tuple[AlgorithmColumn, ...]:
    """Return columns of DriftSurf with one option changed at a time."""
    changes: list[tuple[str, str, float | bool | str]] = [
        *((f"r = {r}", "reactive_length", r) for r in (1, 2, 3, 6, 8, 12)),
        *((f"delta = {delta:g}", "threshold", delta) for delta in (0.02, 0.05, 0.2, 0.4)),
        *((f"delta' = {delta:g}", "stable_threshold", delta) for delta in (0.0, 0.025, 0.1)),
        ("condition 2 off", "stable_threshold", math.inf),
        ("zero-one risk", "risk", "zero-one"),
    ]
    paper = AlgorithmColumn("driftsurf", "r = 4, delta = 0.1, delta' = 0.05", "driftsurf")
    return paper, *(AlgorithmColumn(title, title, "driftsurf", ((option, value),)) for title, option, value in changes)


PAPER_TABLES: Final[dict[str, PaperTable]] = {
    name: PaperTable(name, table.title, _plain(*table.algorithms), table.budget, table.steps_per_row, table.update)
    for name, table in published.TABLES.items()
}
"""The six tables of the paper."""

# Streams of text have forty thousand columns, which makes every trial slow; the paper's tables cover sparse data.
_WITHOUT_TEXT = tuple(name for name in CATALOGUE.for_experiments if name not in ("newsgroups20", "spam-assassin"))

_OURS = (
    PaperTable(
        "noise",
        "SEA with 0 to 30 % noise, rho = 2m for each model",
        _plain("aware", "driftsurf", "mddm-g", "aue"),
        only=("sea0", "sea10", "sea20", "sea30"),
    ),
    PaperTable(
        "detectors",
        "drift detectors, rho = 2m for each model",
        _plain("aware", "driftsurf", "mddm-g", "mddm-a", "mddm-e", "ddm", "eddm", "adwin", "fhddm", "perm"),
        only=_WITHOUT_TEXT,
    ),
    PaperTable(
        "aware-alternative",
        "Aware reset before or after the first batch of a drift",
        _plain("aware", "aware-alternative"),
    ),
    PaperTable(
        "baselines",
        "other strategies that the paper builds on or names, rho = 2m for each model",
        _plain(
            "aware",
            "driftsurf",
            "sliding-window",
            "linear-decay",
            "exponential-decay",
            "paired-learners",
            "dwm",
            "learn-nse",
            "dwmil",
            "dtel",
            "diversity-pool",
        ),
        only=_WITHOUT_TEXT,
    ),
    PaperTable(
        "equal-shares",
        "AUE with rho = 4m divided by weight (the authors' code) or equally (the paper's text)",
        _plain("aue", "aue-equal"),
        budget="divided",
        steps_per_row=4.0,
    ),
    PaperTable(
        "sensitivity",
        "DriftSurf with one option changed at a time, rho = 2m for each model",
        _sensitivity(),
        only=_WITHOUT_TEXT,
    ),
)

TABLES: Final[dict[str, PaperTable]] = PAPER_TABLES | {table.name: table for table in _OURS}
"""All tables by name: the paper's six in its order, then ours."""


def variants_of(column: AlgorithmColumn) -> tuple[Variant, ...]:
    """Return the variants to run: Algorithm 1 and the authors' published code for DriftSurf, one for the others."""
    both = ALGORITHMS[column.algorithm].family == "driftsurf" and not column.options
    return ("algorithm-1", "authors") if both else ("algorithm-1",)


def trial(table: PaperTable, column: AlgorithmColumn, dataset: str, variant: Variant, seed: int) -> Trial:
    """Return one trial of one cell."""
    return Trial(
        dataset, column.algorithm, variant, table.budget, table.steps_per_row, table.update, column.options, seed
    )


def trials_of(tables: Iterable[PaperTable], datasets: Iterable[str], seeds: Iterable[int]) -> Iterator[Trial]:
    """Iterate over every trial that these tables need on these streams."""
    seeds, datasets = tuple(seeds), tuple(datasets)
    for table in tables:
        for column in table.columns:
            for variant in variants_of(column):
                for dataset in table.among(datasets):
                    yield from (trial(table, column, dataset, variant, seed) for seed in seeds)
