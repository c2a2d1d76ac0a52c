"""Rows of one key, in the order of their sequence numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.errors import InputError, ShapeError

__all__ = ["KeyRows", "new_rows"]


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows:
    """Rows of one key, in any order."""

    sequence: IntArray
    """A number, or a time, that grows along the rows of a key. A row that is not above all earlier ones is a
    duplicate."""
    X: FloatArray
    """Features, one row each; a row that brings a late label only is NaN throughout."""
    y: list[Any]
    """Labels, or numbers to predict; None where there is none."""
    ids: list[Any] | None = None
    """Ids by which late labels find their rows."""

    def __post_init__(self) -> None:
        counts = {len(self.sequence), len(self.X), len(self.y)} | ({len(self.ids)} if self.ids is not None else set())
        if len(counts) > 1 or self.X.ndim != 2:
            raise ShapeError(
                f"the sequence, X, y and ids of a key must have the same length, and X two dimensions; the lengths are "
                f"{sorted(counts)}, and X has {self.X.ndim} dimensions"
            )

    def __len__(self) -> int:
        return len(self.y)

    def take(self, places: IntArray) -> KeyRows:
        """Return the rows at these places."""
        chosen = places.tolist()
        ids = None if self.ids is None else [self.ids[i] for i in chosen]
        return KeyRows(self.sequence[places], self.X[places], [self.y[i] for i in chosen], ids)

    def split(self, place: int) -> tuple[KeyRows, KeyRows]:
        """Return the rows before a place, and the rest."""
        return self.take(np.arange(place)), self.take(np.arange(place, len(self)))


def new_rows(rows: KeyRows, high_water: int | None) -> KeyRows:
    """Return the rows above the high-water mark in order; of rows with the same number, the first one that came.

    >>> rows = KeyRows(np.array([3, 1, 2, 2]), np.zeros((4, 1)), ["d", "a", "b", "c"])
    >>> new_rows(rows, high_water=1).y
    ['b', 'd']
    """
    sequence = np.asarray(rows.sequence)
    if sequence.dtype.kind not in "iu":
        raise InputError(
            f"sequence numbers have type {sequence.dtype}; they must be integers, such as counts or milliseconds"
        )
    if _in_order(sequence, high_water):
        return rows
    order = np.argsort(sequence, kind="stable")
    ordered = sequence[order].astype(np.int64)
    new = np.ones(len(ordered), np.bool_)
    new[1:] = ordered[1:] > ordered[:-1]
    if high_water is not None:
        new &= ordered > high_water
    return rows.take(order[new])


def _in_order(sequence: IntArray, high_water: int | None) -> bool:
    """Return whether all rows are new and in order already, which is the usual case."""
    if sequence.dtype != np.int64 or not len(sequence) or (high_water is not None and sequence[0] <= high_water):
        return False
    return int(np.count_nonzero(sequence[1:] > sequence[:-1])) == len(sequence) - 1
