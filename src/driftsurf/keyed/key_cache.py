"""Serves the rows of many keys, with the results of a visit to each, and keeps their models open.

Most keys are served in cells, in one call. What a cell cannot do, such as a row without a label, a third class or a bad
value, is left to ``KeyedLearner.visit``, which starts from the saved bytes of the key. Both save the same bytes, and so
results do not depend on which of them served a key.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from driftsurf.core.contracts import IntArray
from driftsurf.errors import ShapeError
from driftsurf.keyed.open_cells import OpenCells
from driftsurf.keyed.results import Results, ServedPart
from driftsurf.keyed.rows import RowsByKey
from driftsurf.keyed.visit import KeyedLearner

MOST_BYTES = 2**28
"""Memory for the cells of keys that are kept open, roughly."""
UNBOUNDED = 2**62


class SavedKeys(Protocol):
    """Saved states of keys: the bytes of each key, and the rows that came after these bytes were written."""

    def get(self, key: Any) -> bytes | None:
        """Return the saved bytes of a key, or None."""
        ...

    def tails(self, keys: Collection[Any]) -> Iterator[RowsByKey]:
        """Yield the rows of keys that came after their saved bytes, in the order in which they came."""
        ...


class KeyCache:
    """Serves the rows of many keys in one call, and keeps their models open.

    Parameters
    ----------
    learner
        How every key is learned. If cells do not suit its options, every key is visited on its own.
    most_bytes
        Memory for keys that are kept open, roughly.
    """

    def __init__(self, learner: KeyedLearner, most_bytes: int = MOST_BYTES) -> None:
        self._learner = learner
        self._most_bytes = most_bytes
        self._cells: OpenCells | None = None
        self._suits = learner.suits_cells

    @contextlib.contextmanager
    def _used_cells(self) -> Iterator[OpenCells]:
        """Context with the cells; after an exception they are of no use, and saved bytes are read again."""
        cells = self._cells or OpenCells(self._learner, self._most_bytes)
        self._cells = None
        yield cells
        self._cells = cells

    def serve(self, rows: RowsByKey, states: SavedKeys) -> Results:
        """Predict and learn the rows of some keys; the results are those of a visit to each.

        Saved bytes are not read for keys that are open: nobody else may change them as long as this cache is in use.
        """
        self._check_columns(rows)
        parts = self._serve_in_cells(rows, states) if self._suits else []
        served = np.zeros(len(rows), np.bool_)
        for part in parts:
            served[part.keys] = True
        left = [rows.names[number] for number in np.flatnonzero(~served).tolist()]
        before = self.states(left, states)
        self.forget(left)
        return Results({key: self._learner.visit(key, before[key], rows[key]) for key in left}, parts)

    def states(
        self, keys: Collection[Any], states: SavedKeys, served: Collection[ServedPart] = ()
    ) -> dict[Any, bytes | None]:
        """Return the bytes of keys with all rows that they have had, None for new keys.

        ``served`` are results whose rows are not in ``states`` yet.
        """
        found: dict[Any, bytes | None] = {}
        if self._cells is not None:
            own = [key for key in keys if key in self._cells]
            found.update(zip(own, self._cells.states(own), strict=True))
        left = [key for key in keys if key not in found]
        return found | self._replayed(left, states, served)

    def _replayed(
        self, keys: Collection[Any], states: SavedKeys, served: Collection[ServedPart]
    ) -> dict[Any, bytes | None]:
        """Return the bytes of keys that are not open, in visits."""
        found = {key: states.get(key) for key in keys}
        lenient = replace(self._learner, max_bytes=UNBOUNDED, readmit={})  # these rows were taken before
        own_rows = (part.rows.only(found.keys() & set(part.names)) for part in served)
        for tail in itertools.chain(states.tails(keys), own_rows):
            for key, own in tail.items():
                found[key] = lenient.visit(key, found[key], own).state
        return found

    def open(self, keys: Collection[Any], states: SavedKeys) -> None:
        """Open keys that have rows after their saved bytes, as far as they can be served in cells and have room."""
        left = [key for key in keys if self._cells is None or key not in self._cells]
        if self._suits and any(len(tail.order) for tail in states.tails(left)):
            with self._used_cells() as cells:
                self._open_again(set(left[: cells.most]), states, cells)

    def follow(self, rows: RowsByKey) -> None:
        """Learn rows that another cache has taken, with those of their keys that are open; all others stay closed."""
        self._check_columns(rows)
        with self._used_cells() as cells:
            parts, _ = _serve_open(rows, cells, np.arange(len(rows)))
            cells.close(set(rows).difference(*(part.names for part in parts)))

    def forget(self, keys: Collection[Any]) -> None:
        """Close keys, whose saved bytes are read again when they come back."""
        if self._cells is not None:
            self._cells.close(keys)

    def _check_columns(self, rows: RowsByKey) -> None:
        """Raise ShapeError unless there is a column for each feature: the native loop relies on it."""
        columns = len(self._learner.features)
        if len(rows) and rows.X.shape[1:] != (columns,):
            raise ShapeError(f"the rows have shape {rows.X.shape}; there are {columns} features")

    def _serve_in_cells(self, rows: RowsByKey, states: SavedKeys) -> list[ServedPart]:
        """Serve keys in cells as far as that is possible: first those that are open, then the others."""
        with self._used_cells() as cells:
            parts, left = _serve_open(rows, cells, np.arange(len(rows)))
            for start in range(0, len(left), cells.most):
                chosen = left[start : start + cells.most]
                wanted = {rows.names[number] for number in chosen.tolist()}
                saved = self._open_again(wanted, states, cells)
                parts += _serve_all(rows, cells, chosen, saved, wanted)
        return parts

    def _open_again(self, wanted: set[Any], states: SavedKeys, cells: OpenCells) -> dict[Any, bytes | None]:
        """Return the saved bytes of keys; those that had rows after these are opened, and learn them again."""
        closed = {key for key in wanted if key not in cells}
        saved = {key: states.get(key) for key in closed}
        for tail in states.tails(closed):
            self._check_columns(tail)
            again = tail.only(saved.keys())
            parts = _serve_all(again, cells, np.arange(len(again)), saved, wanted)
            left = set(again).difference(*(part.names for part in parts))  # left to visits
            cells.close(left)
            saved = {key: state for key, state in saved.items() if key not in left}
        return saved


def _serve_all(
    rows: RowsByKey, cells: OpenCells, chosen: IntArray, saved: dict[Any, bytes | None], wanted: Collection[Any]
) -> list[ServedPart]:
    """Serve keys that are open, and those that are saved, for which keys that are not wanted make room."""
    parts, left = _serve_open(rows, cells, chosen)
    closed = [name for number in left.tolist() if (name := rows.names[number]) in saved]
    states = [saved[key] for key in closed]
    cells.make_room(states, wanted)
    cells.open(closed, states)
    return parts + _serve_open(rows, cells, left)[0]


def _serve_open(rows: RowsByKey, cells: OpenCells, chosen: IntArray) -> tuple[list[ServedPart], IntArray]:
    """Serve keys that are open; return what came of it, and the numbers of the other keys."""
    slots = cells.slots_of(rows.names[number] for number in chosen.tolist())
    is_open = slots >= 0
    parts = [cells.serve(rows, chosen[is_open], slots[is_open])] if is_open.any() else []
    return parts, chosen[~is_open]
