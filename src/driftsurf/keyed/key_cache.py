"""Serves the rows of many keys, with the results of a visit to each, and keeps their models open.

Most keys are served in cells, in one call. What a cell cannot do, such as a row without a label, a third class or a bad
value, is left to ``KeyedLearner.visit``, which starts from the saved bytes of the key. Both save the same bytes, and so
results do not depend on which of them served a key.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from driftsurf.core.contracts import IntArray
from driftsurf.errors import ShapeError
from driftsurf.keyed.cell_store import cell_models, key_shape, suits_cells
from driftsurf.keyed.key_labels import LONGEST_LABEL
from driftsurf.keyed.open_cells import OpenCells
from driftsurf.keyed.results import Part, Results
from driftsurf.keyed.rows import RowsByKey
from driftsurf.keyed.serving import BESIDE_ARRAYS, ESCAPED
from driftsurf.keyed.visit import KeyedLearner
from driftsurf.session.session import WARN_BELOW_ROWS

__all__ = ["MOST_BYTES", "KeyCache", "SavedKeys"]

MOST_BYTES = 2**28
"""Memory for the cells of one size of keys that are kept open, roughly."""
FEW_STEPS = 5
"""Time steps whose rows fit into the smallest cells."""
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

    There are cells of several sizes: with room for few rows, twice as many, and so on, up to what a key may ever need.

    Parameters
    ----------
    learner
        How every key is learned. If cells do not suit its options, every key is visited on its own.
    most_bytes
        Memory for keys of each size that are kept open, roughly.
    """

    def __init__(self, learner: KeyedLearner, most_bytes: int = MOST_BYTES) -> None:
        self._learner = learner
        self._most_bytes = most_bytes
        self._sizes: list[OpenCells] = []
        self._suits = _suits(learner)
        self._row_bytes = len(learner.features) * 4 + 16
        """Bytes that each row takes at least in a saved state."""

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
        self, keys: Collection[Any], states: SavedKeys, served: Collection[Part] = ()
    ) -> dict[Any, bytes | None]:
        """Return the bytes of keys with all rows that they have had, None for new keys.

        ``served`` are results whose rows are not in ``states`` yet.
        """
        found: dict[Any, bytes | None] = {}
        for cells in self._sizes:
            own = [key for key in keys if key in cells]
            found.update(zip(own, cells.states(own), strict=True))
        left = [key for key in keys if key not in found]
        return found | self._replayed(left, states, served)

    def _replayed(self, keys: Collection[Any], states: SavedKeys, served: Collection[Part]) -> dict[Any, bytes | None]:
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
        left = [key for key in keys if not any(key in cells for cells in self._sizes)]
        if self._suits and any(len(tail.order) for tail in states.tails(left)):
            sizes = self._sizes or self._make_sizes()
            self._sizes = []
            self._opened_again(set(left[: min(cells.most for cells in sizes)]), states, sizes)
            self._sizes = sizes

    def follow(self, rows: RowsByKey) -> None:
        """Learn rows that another cache has taken, with those of their keys that are open; all others stay closed."""
        self._check_columns(rows)
        sizes, self._sizes = self._sizes, []
        parts, _ = self._serve_open(rows, sizes, np.arange(len(rows)))
        for cells in sizes:
            cells.close(set(rows).difference(*(part.names for part in parts)))
        self._sizes = sizes

    def forget(self, keys: Collection[Any]) -> None:
        """Close keys, whose saved bytes are read again when they come back."""
        for cells in self._sizes:
            cells.close(keys)

    def _check_columns(self, rows: RowsByKey) -> None:
        """Raise ShapeError unless there is a column for each feature: the native loop relies on it."""
        columns = len(self._learner.features)
        if len(rows) and rows.X.shape[1:] != (columns,):
            raise ShapeError(f"the rows have shape {rows.X.shape}; there are {columns} features")

    def _serve_in_cells(self, rows: RowsByKey, states: SavedKeys) -> list[Part]:
        """Serve keys in cells as far as that is possible: first those that are open, then the others."""
        sizes = self._sizes or self._make_sizes()
        self._sizes = []  # after an exception the cells are of no use, and saved bytes are read again
        parts, left = self._serve_open(rows, sizes, np.arange(len(rows)))
        size = min(cells.most for cells in sizes)
        for start in range(0, len(left), size):
            chosen = left[start : start + size]
            wanted = {rows.names[number] for number in chosen.tolist()}
            saved = self._opened_again(wanted, states, sizes)
            parts += self._serve_all(rows, sizes, chosen, saved, wanted)
        self._sizes = sizes
        return parts

    def _opened_again(self, wanted: set[Any], states: SavedKeys, sizes: list[OpenCells]) -> dict[Any, bytes | None]:
        """Return the saved bytes of keys; those that had rows after these are opened, and learn them again."""
        closed = {key for key in wanted if not any(key in cells for cells in sizes)}
        saved = {key: states.get(key) for key in closed}
        for tail in states.tails(closed):
            self._check_columns(tail)
            again = tail.only(saved.keys())
            parts = self._serve_all(again, sizes, np.arange(len(again)), saved, wanted)
            for key in set(again).difference(*(part.names for part in parts)):  # left to visits
                del saved[key]
                for cells in sizes:
                    cells.close([key])
        return saved

    def _serve_all(
        self,
        rows: RowsByKey,
        sizes: list[OpenCells],
        chosen: IntArray,
        saved: dict[Any, bytes | None],
        wanted: Collection[Any],
    ) -> list[Part]:
        """Serve keys that are open, and those that are saved, for which keys that are not wanted make room."""
        parts, left = self._serve_open(rows, sizes, chosen)
        if not len(left):
            return parts
        counts = dict(zip((rows.names[number] for number in left.tolist()), rows.counts[left].tolist(), strict=True))
        for cells in sizes:
            own = [key for key in counts if key in cells]  # they have outgrown it
            saved.update(zip(own, cells.states(own), strict=True))
            cells.close(own)
        groups: list[list[Any]] = [[] for _ in sizes]
        for key in counts.keys() & saved.keys():
            most = counts[key] + len(saved[key] or b"") // self._row_bytes
            groups[next(number for number, cells in enumerate(sizes) if cells.has_places(most))].append(key)
        for cells, keys in zip(sizes, groups, strict=True):
            cells.make_room(len(keys), wanted)
            cells.open(keys, [saved[key] for key in keys])
        return parts + self._serve_open(rows, sizes, left)[0]

    def _serve_open(self, rows: RowsByKey, sizes: list[OpenCells], chosen: IntArray) -> tuple[list[Part], IntArray]:
        """Serve keys that are open and have room; return what came of it, and the numbers of the other keys."""
        counts, parts = rows.counts[chosen], list[Part]()
        left, unknown = np.ones(len(chosen), np.bool_), np.arange(len(chosen))
        for cells in sizes:
            slots = cells.slots_of(rows.names[number] for number in chosen[unknown].tolist())
            own, slots, unknown = unknown[slots >= 0], slots[slots >= 0], unknown[slots < 0]
            roomy = cells.have_room(slots, counts[own]) if len(own) else np.zeros(0, np.bool_)
            if roomy.any():
                parts.append(cells.serve(rows, chosen[own[roomy]], slots[roomy]))
                left[own[roomy]] = False
            if not len(unknown):  # a key has one cell at most
                break
        return parts, chosen[left]

    def _make_sizes(self) -> list[OpenCells]:
        largest = OpenCells(self._learner, None, self._most_bytes)
        sizes, size = list[int](), FEW_STEPS * (self._learner.batch_size or 0)
        while size < largest.places:
            sizes.append(size)
            size *= 2
        return [*(OpenCells(self._learner, size, self._most_bytes) for size in sizes), largest]


def _suits(learner: KeyedLearner) -> bool:
    """Return whether cells serve keys with these options."""
    template, columns, rows = learner.session(0), len(learner.features), learner.batch_size
    strategy: Any = template.strategy
    if learner.delay is not None or learner.guard is not None or rows is None or rows < WARN_BELOW_ROWS:
        return False  # with shorter time steps, a session warns of them
    if not suits_cells(template):
        return False
    if learner.classes is not None and len(set(learner.classes)) != 2:
        return False
    shape = key_shape(template, columns)
    models = cell_models(strategy, columns, strategy.learner.capabilities.min_classes)
    # As many places as a session may allocate, each with a row, a label, a weight and two gradients.
    largest = models.nbytes + 4 * shape.places * (columns * 8 + 32)
    names = 2 * ESCAPED * LONGEST_LABEL
    small = BESIDE_ARRAYS + 2 * largest + names <= learner.max_bytes
    return small and models._training.outputs == 1
