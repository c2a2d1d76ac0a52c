"""Serves the rows of many keys: those that suit cells in one call, the others in visits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from driftsurf.core.contracts import IntArray
from driftsurf.errors import ShapeError
from driftsurf.keyed.blocks.block import Block
from driftsurf.keyed.blocks.labels import LONGEST_LABEL
from driftsurf.keyed.cell_store import cell_models, key_shape, suits_cells
from driftsurf.keyed.results import Part, Results
from driftsurf.keyed.rows import RowsByKey
from driftsurf.keyed.serving import BESIDE_ARRAYS, ESCAPED
from driftsurf.keyed.visit import KeyedLearner
from driftsurf.session.session import WARN_BELOW_ROWS

__all__ = ["MOST_BYTES", "BlockServer", "SavedStates", "States"]

MOST_BYTES = 2**28
"""Memory of a block for the cells of keys that are kept open, roughly."""
FEW_STEPS = 5
"""Time steps whose rows fit into the smallest cells."""
UNBOUNDED = 2**62


class States(Protocol):
    """Saved states of keys: the bytes of each key, and the rows that came after these bytes were written."""

    def get(self, key: Any) -> bytes | None:
        """Return the saved bytes of a key, or None."""
        ...

    def tails(self, keys: Collection[Any]) -> Iterator[RowsByKey]:
        """Yield the rows of keys that came after their saved bytes, in the order in which they came."""
        ...


class SavedStates:
    """Saved bytes without rows after them.

    Parameters
    ----------
    get
        Returns the saved bytes of a key, or None.
    """

    def __init__(self, get: Callable[[Any], bytes | None]) -> None:
        self.get = get

    def tails(self, keys: Collection[Any]) -> Iterator[RowsByKey]:
        """Yield nothing."""
        return iter(())


class BlockServer:
    """Serves the rows of many keys in one call, and keeps their models open.

    Keys are in blocks whose cells have room for few rows, twice as many, and so on, up to what a key may ever need.

    Parameters
    ----------
    learner
        How every key is learned. If the compiled loop does not suit its options, every key is visited on its own.
    most_bytes
        Memory of each block for keys that are kept open, roughly.
    """

    def __init__(self, learner: KeyedLearner, most_bytes: int = MOST_BYTES) -> None:
        self._learner = learner
        self._most_bytes = most_bytes
        self._blocks: list[Block] = []
        self._suits = _suits(learner)
        self._row_bytes = len(learner.features) * 4 + 16
        """Bytes that each row takes at least in a saved state."""

    def serve(self, rows: RowsByKey, states: States) -> Results:
        """Predict and learn the rows of some keys; the results are those of a visit to each.

        Saved bytes are not read for keys that are open: nobody else may change them as long as this server is in use.
        """
        self._check_columns(rows)
        parts = self._serve_in_blocks(rows, states) if self._suits else []
        served = np.zeros(len(rows), np.bool_)
        for part in parts:
            served[part.keys] = True
        left = [rows.names[number] for number in np.flatnonzero(~served).tolist()]
        before = self.states(left, states)
        self.forget(left)
        return Results({key: self._learner.visit(key, before[key], rows[key]) for key in left}, parts)

    def states(self, keys: Collection[Any], states: States, served: Collection[Part] = ()) -> dict[Any, bytes | None]:
        """Return the bytes of keys with all rows that they have had, None for new keys.

        ``served`` are results whose rows are not in ``states`` yet.
        """
        found: dict[Any, bytes | None] = {}
        for block in self._blocks:
            own = [key for key in keys if key in block]
            found.update(zip(own, block.states(own), strict=True))
        left = [key for key in keys if key not in found]
        return found | self._replayed(left, states, served)

    def _replayed(self, keys: Collection[Any], states: States, served: Collection[Part]) -> dict[Any, bytes | None]:
        """Return the bytes of keys that are not open, in visits."""
        found = {key: states.get(key) for key in keys}
        lenient = replace(self._learner, max_bytes=UNBOUNDED, readmit={})  # these rows were taken before
        own_rows = (part.rows.only(found.keys() & set(part.names)) for part in served)
        for tail in itertools.chain(states.tails(keys), own_rows):
            for key, own in tail.items():
                found[key] = lenient.visit(key, found[key], own).state
        return found

    def open(self, keys: Collection[Any], states: States) -> None:
        """Open keys that have rows after their saved bytes, as far as they can be served in blocks and have room."""
        left = [key for key in keys if not any(key in block for block in self._blocks)]
        if self._suits and any(len(tail.order) for tail in states.tails(left)):
            blocks = self._blocks or self._make_blocks()
            self._blocks = []
            self._opened_again(set(left[: min(block.most for block in blocks)]), states, blocks)
            self._blocks = blocks

    def follow(self, rows: RowsByKey) -> None:
        """Learn rows that another server has taken, with those of their keys that are open; all others stay closed."""
        self._check_columns(rows)
        blocks, self._blocks = self._blocks, []
        parts, _ = self._serve_open(rows, blocks, np.arange(len(rows)))
        for block in blocks:
            block.close(set(rows).difference(*(part.names for part in parts)))
        self._blocks = blocks

    def forget(self, keys: Collection[Any]) -> None:
        """Close keys, whose saved bytes are read again when they come back."""
        for block in self._blocks:
            block.close(keys)

    def _check_columns(self, rows: RowsByKey) -> None:
        """Raise ShapeError unless there is a column for each feature: compiled code relies on it."""
        columns = len(self._learner.features)
        if len(rows) and rows.X.shape[1:] != (columns,):
            raise ShapeError(f"the rows have shape {rows.X.shape}; there are {columns} features")

    def _serve_in_blocks(self, rows: RowsByKey, states: States) -> list[Part]:
        """Serve keys in blocks as far as that is possible: first those that are open, then the others."""
        blocks = self._blocks or self._make_blocks()
        self._blocks = []  # after an exception the cells are of no use, and saved bytes are read again
        parts, left = self._serve_open(rows, blocks, np.arange(len(rows)))
        size = min(block.most for block in blocks)
        for start in range(0, len(left), size):
            chosen = left[start : start + size]
            wanted = {rows.names[number] for number in chosen.tolist()}
            saved = self._opened_again(wanted, states, blocks)
            parts += self._serve_all(rows, blocks, chosen, saved, wanted)
        self._blocks = blocks
        return parts

    def _opened_again(self, wanted: set[Any], states: States, blocks: list[Block]) -> dict[Any, bytes | None]:
        """Return the saved bytes of keys; those that had rows after these are opened, and learn them again."""
        closed = {key for key in wanted if not any(key in block for block in blocks)}
        saved = {key: states.get(key) for key in closed}
        for tail in states.tails(closed):
            self._check_columns(tail)
            again = tail.only(saved.keys())
            parts = self._serve_all(again, blocks, np.arange(len(again)), saved, wanted)
            for key in set(again).difference(*(part.names for part in parts)):  # left to visits
                del saved[key]
                for block in blocks:
                    block.close([key])
        return saved

    def _serve_all(
        self,
        rows: RowsByKey,
        blocks: list[Block],
        chosen: IntArray,
        saved: dict[Any, bytes | None],
        wanted: Collection[Any],
    ) -> list[Part]:
        """Serve keys that are open, and those that are saved, for which keys that are not wanted make room."""
        parts, left = self._serve_open(rows, blocks, chosen)
        if not len(left):
            return parts
        counts = dict(zip((rows.names[number] for number in left.tolist()), rows.counts[left].tolist(), strict=True))
        for block in blocks:
            own = [key for key in counts if key in block]  # they have outgrown it
            saved.update(zip(own, block.states(own), strict=True))
            block.close(own)
        groups: list[list[Any]] = [[] for _ in blocks]
        for key in counts.keys() & saved.keys():
            most = counts[key] + len(saved[key] or b"") // self._row_bytes
            groups[next(number for number, block in enumerate(blocks) if block.has_places(most))].append(key)
        for block, keys in zip(blocks, groups, strict=True):
            block.make_room(len(keys), wanted)
            block.open(keys, [saved[key] for key in keys])
        return parts + self._serve_open(rows, blocks, left)[0]

    def _serve_open(self, rows: RowsByKey, blocks: list[Block], chosen: IntArray) -> tuple[list[Part], IntArray]:
        """Serve keys that are open and have room; return what came of it, and the numbers of the other keys."""
        counts, parts = rows.counts[chosen], list[Part]()
        left, unknown = np.ones(len(chosen), np.bool_), np.arange(len(chosen))
        for block in blocks:
            slots = block.slots_of(rows.names[number] for number in chosen[unknown].tolist())
            own, slots, unknown = unknown[slots >= 0], slots[slots >= 0], unknown[slots < 0]
            roomy = block.have_room(slots, counts[own]) if len(own) else np.zeros(0, np.bool_)
            if roomy.any():
                parts.append(block.serve(rows, chosen[own[roomy]], slots[roomy]))
                left[own[roomy]] = False
            if not len(unknown):  # a key is in one block at most
                break
        return parts, chosen[left]

    def _make_blocks(self) -> list[Block]:
        largest = Block(self._learner, None, self._most_bytes)
        sizes, size = list[int](), FEW_STEPS * (self._learner.batch_size or 0)
        while size < largest.places:
            sizes.append(size)
            size *= 2
        return [*(Block(self._learner, size, self._most_bytes) for size in sizes), largest]


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
