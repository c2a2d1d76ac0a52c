"""Memory for the rows of many keys: what is stored stays as it is while pieces grow and move; nonsense is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from driftsurf.keyed.layout import Arena
from driftsurf.native.arena import copy, move

PIECES = 4, 50, 8, 0, 4
"""Places of a piece, and bytes of a place: numbers, a part that is not there, and small numbers."""


def test_rows_stay_as_they_are_while_pieces_grow_and_move() -> None:
    rng, n = np.random.default_rng(0), 40
    arena, made = Arena(0, PIECES), 0
    held: list[Any] = [(np.zeros(0), np.zeros(0, np.int32)) for _ in range(n)]
    for number in range(80):
        arena = arena.compact(len(arena.codes)) if number % 7 == 6 else arena
        arena = arena.for_keys(min(n, 1 + number))
        slots = np.unique(rng.integers(len(arena.codes), size=8))
        before = arena
        arena = arena.with_places(
            slots, np.array([len(held[slot][0]) for slot in slots]) + rng.integers(12, size=len(slots))
        )
        made += before is not arena
        for slot in slots.tolist():
            more = int(arena.places[slot]) - len(held[slot][0])
            own: list[Any] = [rng.random(more), rng.integers(99, size=more).astype(np.int32)]
            start = np.array([len(held[slot][0])])
            for part, values in zip((0, 2), own, strict=True):
                arena.write([slot], part, start, np.array([more]), values)
            held[slot] = np.append(held[slot][0], own[0]), np.append(held[slot][1], own[1])
        known = len(arena.codes)
        counts = np.array([len(values) for values, _ in held[:known]])
        for part, dtype in ((0, np.float64), (2, np.int32)):
            expected = np.concatenate([held[slot][part // 2] for slot in range(known)])
            np.testing.assert_array_equal(arena.read(slice(0, known), part, 0, counts, dtype), expected)
        assert arena.used() <= arena.bytes.nbytes
    assert 5 < made < 60
    assert set(arena.places.tolist()) <= {0, 4, 8, 16, 32, 50}
    weighted = arena.with_parts((4, 50, 8, 8, 4))
    np.testing.assert_array_equal(
        weighted.read(slice(0, n), 0, 0, arena.places, np.float64), np.concatenate([a for a, _ in held])
    )
    assert (weighted.read(slice(0, n), 1, 0, arena.places, np.float64) == 1.0).all()


def test_a_piece_has_no_more_places_than_it_may() -> None:
    arena = Arena(2, PIECES).with_places(np.array([1]), np.array([10**9]))
    assert arena.places.tolist() == [0, 50]
    assert arena.with_places(np.array([0, 1]), np.array([0, 60])) is arena
    assert Arena(1, (3, 3, 8)).with_places(np.array([0]), np.array([2])).places.tolist() == [3]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"codes": [-1]}, IndexError),
        ({"codes": [2**62]}, IndexError),
        ({"codes": [255]}, IndexError),
        ({"parts": [6]}, IndexError),
        ({"parts": [-1]}, IndexError),
        ({"first": [-1]}, IndexError),
        ({"first": [3]}, IndexError),
        ({"counts": [-1]}, IndexError),
        ({"counts": [5]}, IndexError),
        ({"counts": [2**60]}, IndexError),
        ({"counts": [1]}, ValueError),
        ({"counts": []}, ValueError),
        ({"pieces": (4, 2, 8)}, ValueError),
        ({"pieces": (0, 2, 8)}, ValueError),
        ({"pieces": (4, 50, -8)}, ValueError),
        ({"pieces": (4, 2**50, 8)}, ValueError),
        ({"pieces": (4, 50, *[8] * 7)}, ValueError),
        ({"pieces": (4,)}, ValueError),
    ],
)
def test_pieces_that_do_not_exist_are_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    memory, values = np.zeros(64, np.uint8), np.zeros(16, np.uint8)
    given: dict[str, Any] = {"codes": [1], "parts": [0], "first": [0], "counts": [2], "pieces": PIECES}
    for into in (True, False):
        one = given | changes
        codes, parts, first, counts = (np.array(one[name], np.int64) for name in ("codes", "parts", "first", "counts"))
        with pytest.raises(error):
            copy(memory, codes, parts, first, counts, one["pieces"], values, into)


def test_moves_outside_of_memory_are_refused() -> None:
    small, large = np.zeros(64, np.uint8), np.zeros(256, np.uint8)
    for old, new in ((-1, 1), (1, -1), (2, 1), (1, 257), (1, 2), (2**40, 1)):
        with pytest.raises(IndexError):
            move(small, small, np.array([old]), np.array([new]), PIECES, PIECES)
    with pytest.raises(ValueError, match="new place for each"):
        move(small, large, np.array([1]), np.array([1, 2]), PIECES, PIECES)
