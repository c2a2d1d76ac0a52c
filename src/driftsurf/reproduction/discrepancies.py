"""Cells that differ from the paper's, with the attempts to explain them that ``discrepancies.toml`` lists."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from driftsurf.reproduction.cells import ErrorCell


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
