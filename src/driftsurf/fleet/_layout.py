"""How the learners of many keys lie in memory: one block for each key, the parts of it one after the other.

A key has a *slot*. Its rows stand in a ring, ``rows[slot]``: those to train on, the oldest first, and behind them
those that wait for their time step to be full. It has two *sides*, each with a model: one is the predictive model,
the other the reactive one while there is a reactive state, else the stable one, if there has ever been a reactive
state. (A stable model ends when a reactive one begins, so there are never three.) The entry of a model's gradient
table that belongs to a row stands where the row stands.

Rows have numbers, from 0 in the order of arrival at their key. Every time step has ``batch_size`` rows, so that
many numbers follow from few: a model born at step s is trained from row s * batch_size on, and so forth. Row number r
has place r % n_rows of the ring, which holds a whole number of batches: none of them goes over its end.

A block has first what a time step changes (counts, models, weights, tables) and then the rows: so a key is two or three
pages of memory, and what must be kept to take a step back is one piece.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["KEY", "MODEL", "TRANSITION", "Shape", "Store", "scratch"]

LINE = 64
"""Bytes of a line of the cache. The size of a block is a multiple of that of each of its parts."""


def _record(size: int, fields: list[tuple[str, type]]) -> np.dtype[Any]:
    """These fields, of eight bytes each, in so many bytes."""
    names, formats = zip(*fields, strict=True)
    offsets = [8 * place for place in range(len(fields))]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size}, align=True)


KEY = _record(
    2 * LINE,
    [
        ("seed", np.uint64),
        ("first", np.int64),  # the number of the oldest row
        ("step", np.int64),  # time steps learnt
        ("pending", np.int64),  # rows that wait for the next one to be full
        ("made", np.int64),  # models made so far
        ("reactive_step", np.int64),  # i: batches learnt in the current reactive state; 0 in the stable state
        ("predictive", np.int64),  # the side of the predictive model
        ("challenged", np.int64),  # 1 if the reactive model predicts
        ("errors", np.int64),  # rows predicted wrongly
        ("refused", np.int64),  # rows not learnt
        ("quarantine", np.int64),  # why the key is in quarantine; 0 if it is not
        ("transitions", np.int64),
        ("last_kind", np.int64),  # of the last transition
        ("last_step", np.int64),
    ],
)
MODEL = _record(
    LINE,
    [
        ("number", np.int64),
        ("born", np.int64),  # the step at which it was made
        ("admitted", np.int64),  # the number of the first row that is not in its sample set; -1 before its first update
        ("words", np.int64),  # random words used
        ("gradients", np.int64),
        ("best", np.float64),  # R_b
    ],
)
TRANSITION = np.dtype(
    [
        ("slot", np.int64),
        ("kind", np.int64),
        ("step", np.int64),
        ("condition", np.int64),
        ("left", np.float64),
        ("right", np.float64),
        ("margin", np.float64),
        ("over", np.int64),
        ("old", np.int64),
        ("new", np.int64),
    ],
    align=True,
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes that are the same for all keys.

    >>> Shape(n_features=10, batch_size=32, max_rows=128, reactive_length=4).bytes_per_key
    9728
    """

    n_features: int
    batch_size: int
    max_rows: int
    reactive_length: int

    @property
    def n_rows(self) -> int:
        """Places for rows: for the sample set or the former batches of T, if these are more, and a batch."""
        former = max(math.ceil(self.max_rows / self.batch_size), self.reactive_length - 1)
        return (former + 1) * self.batch_size

    @property
    def parts(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """What a block has, in this order: the type and the shape of each part."""
        number, width = np.dtype(np.float64), self.n_features + 1
        return {
            "keys": (KEY, ()),
            "models": (MODEL, (2,)),
            "weights": (number, (2, width)),
            "sums": (number, (2, width)),
            "tables": (number, (2, self.n_rows)),
            "rows": (np.dtype(np.float32), (self.n_rows, self.n_features)),
            "labels": (np.dtype(np.uint8), (self.n_rows,)),
        }

    @property
    def offsets(self) -> dict[str, int]:
        """Where in a block each part begins, in bytes."""
        sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in self.parts.values()]
        return dict(zip(self.parts, itertools.accumulate(sizes, initial=0), strict=False))

    @property
    def bytes_per_key(self) -> int:
        """The size of a block: what one key takes, the index that finds it aside."""
        return -(-(self.offsets["labels"] + self.n_rows) // KEY.itemsize) * KEY.itemsize


class Store:
    """The blocks of so many keys, and for each part an array that looks at the part in every block."""

    keys: npt.NDArray[Any]
    models: npt.NDArray[Any]
    weights: npt.NDArray[np.float64]
    sums: npt.NDArray[np.float64]
    """G of each model."""
    tables: npt.NDArray[np.float64]
    rows: npt.NDArray[np.float32]
    labels: npt.NDArray[np.uint8]

    def __init__(self, n_keys: int, shape: Shape) -> None:
        size, offsets = shape.bytes_per_key, shape.offsets
        room = np.empty(LINE + (n_keys + 1) * size, np.uint8)  # memory that is never written to is never taken
        room = room[-room.ctypes.data % LINE :]
        for name, (dtype, part) in shape.parts.items():
            strides = size, *np.empty(part, dtype).strides
            setattr(self, name, np.ndarray((n_keys, *part), dtype, room.data, offsets[name], strides))
        self.shape = shape
        self.bytes = room[: n_keys * size]

    def grown(self, n_keys: int, live: int) -> Store:
        """Room for ``n_keys``, the first ``live`` of them as they are here."""
        larger = Store(n_keys, self.shape)
        used = live * self.shape.bytes_per_key
        larger.bytes[:used] = self.bytes[:used]
        return larger

    def begin(self, start: int, stop: int) -> None:
        """Zeros for these keys, but for rows and tables, of which none count yet."""
        for array in (self.keys, self.models, self.weights, self.sums):
            array[start:stop] = np.zeros((), array.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the room."""
        return self.bytes.nbytes

    def compiled(self) -> tuple[Any, ...]:
        """As compiled loops take it: the blocks as values of each type, and where in them things are (``_block``)."""
        size, offsets, flat = self.shape.bytes_per_key, self.shape.offsets, self.bytes
        places = [offsets[name] // self.shape.parts[name][0].itemsize for name in ("weights", "sums", "tables", "rows")]
        sizes = self.shape.n_rows, self.shape.n_features
        values = flat.view(np.float32), flat, flat.view(np.float64), flat.view(MODEL), flat.view(KEY)
        return *values, (size, *places, offsets["labels"], *sizes)


def scratch(shape: Shape, steps_per_row: float) -> tuple[Any, ...]:
    """What serving needs beside the store, for one thread: see ``_kernels.SCRATCH``."""
    n_rows, width = shape.n_rows, shape.n_features + 1
    most_steps = math.ceil(steps_per_row * shape.batch_size) + 1
    frame = np.ones(width), np.zeros(width), np.zeros(0, np.int64)
    labels, margins, ones, factor = np.empty(n_rows), np.empty(n_rows), np.ones(n_rows), np.ones(width)
    orders, losses = np.empty((2, most_steps), np.int64), np.empty(n_rows)
    kept = np.empty(shape.offsets["rows"], np.uint8)
    return labels, margins, ones, factor, orders, frame, kept, losses
