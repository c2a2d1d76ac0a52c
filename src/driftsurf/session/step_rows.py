"""Default number of rows in a time step, if the number of all rows is known."""

from __future__ import annotations

__all__ = ["FEWEST_ROWS", "MOST_ROWS", "STEPS", "step_rows"]

STEPS = 50
"""``fit``, and a run over files, cut the rows into about this many time steps if there is no ``batch_size``."""
FEWEST_ROWS, MOST_ROWS = 100, 1000
"""Bounds of the number of rows in such a time step."""


def step_rows(count: int) -> int:
    """Return the number of rows in a time step of a table with ``count`` rows.

    >>> [step_rows(count) for count in (300, 11_055, 80_000)]
    [100, 221, 1000]
    """
    return min(max(count // STEPS, FEWEST_ROWS), MOST_ROWS)
