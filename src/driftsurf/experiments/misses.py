"""Cells that are far from the paper's: what was tried to explain them, as ``misses.toml`` beside this file lists it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from driftsurf.experiments.results import Cell

__all__ = ["EXPLANATIONS", "Explanation", "explain"]


@dataclass(frozen=True)
class Explanation:
    """What was tried on a cell, what each of it gave, and what follows."""

    cells: tuple[tuple[str, str, str], ...]
    """Table, stream and algorithm of each cell that it is about."""
    tried: tuple[tuple[str, str], ...]
    """Pairs of what was tried and what it gave."""
    conclusion: str


def explain(cell: Cell) -> Explanation | None:
    """What is known of a cell, if it was looked into.

    >>> explain(Cell("sgd-rho-2m", "circles", "aware", "algorithm-1", (0.37,), 0.37, 0.306, 0)).tried[0][0]
    'the printed numbers'
    """
    place = cell.table, cell.dataset, cell.algorithm
    return next((known for known in EXPLANATIONS if place in known.cells), None)


def _read(entry: dict[str, Any]) -> Explanation:
    cells = ((table, entry["stream"], entry["algorithm"]) for table in entry["tables"])
    return Explanation(tuple(cells), tuple(map(tuple, entry["tried"])), entry["conclusion"])


_TEXT = files("driftsurf.experiments").joinpath("misses.toml").read_text(encoding="utf-8")
EXPLANATIONS: Final = tuple(_read(entry) for entry in tomllib.loads(_TEXT)["explanations"])
