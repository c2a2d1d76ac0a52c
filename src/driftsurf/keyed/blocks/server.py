"""Serves the rows of many keys: those that suit compiled code in one call, the others in visits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from driftsurf.keyed.blocks.block import Block, Read, begun, places_of
from driftsurf.keyed.blocks.labels import LONGEST_LABEL
from driftsurf.keyed.compiled.visits import serve_cells
from driftsurf.keyed.rows import KeyRows
from driftsurf.keyed.serving import BESIDE_ARRAYS, ESCAPED
from driftsurf.keyed.visit import KeyedLearner, Visit
from driftsurf.session.session import WARN_BELOW_ROWS
from driftsurf.strategies.compiled.addresses import calls_by_address
from driftsurf.strategies.compiled.cell import CompiledModels
from driftsurf.strategies.compiled.strategy import CompiledStrategy
from driftsurf.strategies.compiled.suitable import has_one_output, is_compiled, is_supported, outgrows_cell, training_of

__all__ = ["BlockServer"]

MOST_BYTES = 2**28
"""Memory of a block for the cells of keys that are kept open, roughly."""
FEW_STEPS = 5
"""Time steps whose rows fit into the smallest cells."""
WORTH_COMPILING = 50_000
"""Rows of a call for which the loop is compiled, which takes some seconds, if it is not in the cache."""


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

    def serve(self, rows: Mapping[Any, KeyRows], read: Read) -> dict[Any, Visit]:
        """Predict and learn the rows of some keys; return what visits to them would have returned, in the same order.

        ``read`` returns the saved bytes of a key, or None. It is not called for keys that are open: nobody else may
        change their bytes as long as this server is in use.
        """
        done = self._served_in_blocks(rows, read) if self._worthwhile(rows) else {}
        return {key: done[key] if key in done else self._visit(key, read(key), own) for key, own in rows.items()}

    def forget(self, keys: Collection[Any]) -> None:
        """Close keys, whose saved bytes are read again when they come back."""
        for block in self._blocks:
            block.close(keys)

    def _visit(self, key: Any, state: bytes | None, rows: KeyRows) -> Visit:
        self.forget([key])
        return self._learner.visit(key, state, rows)

    def _worthwhile(self, rows: Mapping[Any, KeyRows]) -> bool:
        """Return whether the loop suits the options and is at hand, or there is enough work to compile it."""
        if not self._suits:
            return False
        in_use = bool(self._blocks)
        return in_use or sum(map(len, rows.values())) >= WORTH_COMPILING or self._is_at_hand()

    def _is_at_hand(self) -> bool:
        """Return whether the loop can be called without being compiled first."""
        serve: Any = serve_cells
        strategy = begun(self._learner)
        training = training_of(strategy.learner, strategy._pool.n_classes, len(self._learner.features))
        return serve.is_at_hand() and is_compiled(strategy._compiled_rule()[0], training)

    def _served_in_blocks(self, rows: Mapping[Any, KeyRows], read: Read) -> dict[Any, Visit]:
        blocks = self._blocks or self._make_blocks()
        self._blocks = []  # after an exception the cells are of no use, and saved bytes are read again
        states = dict[Any, bytes | None]()
        chosen: list[dict[Any, KeyRows]] = [{} for _ in blocks]
        for key, own in rows.items():
            chosen[self._block_of(key, len(own), blocks, states, read)][key] = own
        done: dict[Any, Visit] = {}
        for block, part in zip(blocks, chosen, strict=True):
            if part:
                # An open key may be closed to make way for others, and is then read after all.
                done |= block.serve(part, lambda key: states[key] if key in states else read(key))
        self._blocks = blocks
        return done

    def _block_of(self, key: Any, count: int, blocks: list[Block], states: dict[Any, bytes | None], read: Read) -> int:
        """Return the number of the block that has room for ``count`` more rows of a key.

        The saved bytes of a key that is not open, or that has outgrown its block, are put into ``states``.
        """
        for number, block in enumerate(blocks):
            if key in block:
                if block.has_room(key, count):
                    return number
                block.close([key])
                break
        states[key] = state = read(key)
        most = count + len(state or b"") // self._row_bytes
        return next(number for number, block in enumerate(blocks) if block.has_places(most))

    def _make_blocks(self) -> list[Block]:
        largest = Block(self._learner, None, self._most_bytes)
        sizes, size = list[int](), FEW_STEPS * (self._learner.batch_size or 0)
        while size < largest.places:
            sizes.append(size)
            size *= 2
        return [*(Block(self._learner, size, self._most_bytes) for size in sizes), largest]


def _suits(learner: KeyedLearner) -> bool:
    """Return whether the compiled loop serves keys with these options."""
    strategy = learner.strategy
    if learner.delay is not None or learner.guard is not None:
        return False
    if not (isinstance(strategy, CompiledStrategy) and is_supported(strategy.learner)):
        return False
    if not has_one_output(strategy.learner):
        return False
    # With shorter time steps, a session warns of them.
    if learner.batch_size is None or learner.batch_size < WARN_BELOW_ROWS or strategy.max_rows is None:
        return False
    if learner.classes is not None and len(set(learner.classes)) != 2:
        return False
    strategy = begun(learner)
    known = strategy._compiled_rule() if strategy._suits else None
    if known is None or not calls_by_address():
        return False
    places = places_of(learner, known[0])
    numbers = CompiledModels(strategy._pool, strategy._live, *known).nbytes
    # As many places as a session may allocate, each with a row, a label, a weight and two gradients.
    largest = numbers + 4 * places * (len(learner.features) * 8 + 32)
    names = 2 * ESCAPED * LONGEST_LABEL
    small = BESIDE_ARRAYS + 2 * largest + names <= learner.max_bytes
    return small and not outgrows_cell(strategy._pool, 2 * places, len(learner.features))
