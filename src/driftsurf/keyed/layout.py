"""Memory of many keys: one block for each, its parts one after the other.

Each key has a *slot*, the index of its block. A block holds a cell (``native/layout.pxd``) with room for a fixed number
of rows, and what is counted for the key beside it. Behind the rows that were learned are the rows that wait until their
time step is full. When there is no room for another time step, the rows move to the front.

Every time step has ``batch_size`` rows, and so most numbers of a cell follow from a few counts: a model born at step s
is trained from row s * batch_size on, and so forth.

A block starts with all that a time step changes, except for the gradient tables. One contiguous copy of it, together
with the entries of the tables that the step overwrites, is enough to undo the step. The records come first, the largest
ones before the others: their sizes are powers of two, so that each is at a multiple of its size.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.keyed.norms import ROWS_OF_GUARD
from driftsurf.strategies._cell_arrays import COUNTS, MODEL, Cell

__all__ = ["KEY", "Blocks", "Shape"]

LINE = 64
"""Bytes of a cache line."""

Bytes = npt.NDArray[np.uint8]
Records = npt.NDArray[np.void]

KEY: np.dtype[Any] = np.dtype(
    [
        ("pending", np.int64),  # rows that wait until the next time step is full
        ("errors", np.float64),  # of the rows of complete time steps: wrong classes, or absolute errors of numbers
        ("waiting", np.float64),  # errors of the rows that wait
        ("refused", np.int64),  # rows not learned
        ("transitions", np.int64),
        ("last_step", np.int64),
        ("quarantine", np.uint8),  # the code of the reason; 0 if the key is not in quarantine
        ("last_kind", np.uint8),  # 1 + the code of the last transition; 0 if there was none
        # If each key learns its own classes: how many are known, were known at the last time step, and will be known at
        # the end of the call, and 1 if the second of two comes before the first by name.
        ("known", np.uint8),
        ("learned", np.uint8),
        ("total", np.uint8),
        ("against", np.uint8),
        ("unused", np.uint8, (10,)),
    ]
)
MODEL_ARRAYS = "w", "G", "factor", "gain", "centre", "raw"
"""Arrays of a cell with a row for each of its two models."""
BY_OUTPUT = {"w", "G", "raw"}
"""Arrays of a cell that have numbers for each output."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes that all keys share.

    >>> Shape(n_features=10, batch_size=32, max_rows=128, reactive_length=4).bytes_per_key
    10880
    """

    n_features: int
    batch_size: int
    max_rows: int
    reactive_length: int
    row_type: str = "float32"
    weighted: bool = False
    """Whether rows have weights."""
    outputs: int = 1
    """Numbers by which a model scores a row: one for each class of softmax regression."""
    judged: int = 0
    """Numbers of a cell for judging models that a key keeps from one step to the next."""
    valued: bool = False
    """Whether numbers are predicted, not classes."""
    filled: bool = False
    """Whether missing values are filled with the means of the columns so far, which a key then keeps."""
    guarded: bool = False
    """Whether a range guard limits values and reduces weights; rows then have weights."""
    growing: bool = False
    """Whether each key learns its classes, at most two, as they appear."""
    places: int = 0
    """Places for rows; by default as many as a key may ever need: the sample set, or the earlier batches of a reactive
    state if they are more, and a batch."""

    def __post_init__(self) -> None:
        if not self.places:
            most = max(self.max_rows, (self.reactive_length - 1) * self.batch_size) + self.batch_size
            object.__setattr__(self, "places", most)

    @property
    def label_type(self) -> np.dtype[Any]:
        """Type of stored labels: codes of classes, or numbers."""
        return np.dtype(np.float64 if self.valued else np.uint8)

    @property
    def parts(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """The type and the shape of each part of a block, in order."""
        number, whole, width = np.dtype(np.float64), np.dtype(np.int64), self.n_features + 1
        widths = {name: width * self.outputs if name in BY_OUTPUT else width for name in MODEL_ARRAYS}
        labels = {"y": (self.label_type, (self.places,))}
        return {
            "models": (MODEL, (2,)),
            "counts": (COUNTS, ()),
            "keys": (KEY, ()),
            "bounds": (whole, (self.reactive_length + 1,)),
            **{name: (number, (2, own)) for name, own in widths.items()},
            "centred": (whole, (2, width)),
            "judged": (number, (self.judged,)),
            "tables": (number, (2, self.places, self.outputs)),
            "means": (number, (2, self.n_features if self.filled else 0)),
            "guard": (number, (ROWS_OF_GUARD, self.n_features if self.guarded else 0)),
            "range": (number, (2 if self.guarded and self.valued else 0,)),
            **(labels if self.valued else {}),
            "weight": (number, (self.places if self.weighted else 0,)),
            "X": (np.dtype(self.row_type), (self.places, self.n_features)),
            **({} if self.valued else labels),  # last: it needs no alignment
        }

    @property
    def offsets(self) -> dict[str, int]:
        """The offset of each part of a block, in bytes, and that of the end."""
        sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in self.parts.values()]
        return dict(zip([*self.parts, "end"], itertools.accumulate(sizes, initial=0), strict=True))

    @property
    def bytes_per_key(self) -> int:
        """The size of a block: a multiple of the sizes of all records, which are powers of two."""
        unit = max(KEY.itemsize, COUNTS.itemsize, MODEL.itemsize)
        return -(-self.offsets["end"] // unit) * unit

    @property
    def native(self) -> dict[str, int]:
        """Sizes, flags and offsets as ``native.store.KeyLoop`` takes them."""
        names = "n_features", "places", "outputs", "batch_size", "weighted", "filled", "guarded", "growing", "valued"
        sizes: dict[str, int] = {name: getattr(self, name) for name in names}
        sizes |= {"size": self.bytes_per_key, "judged_size": self.judged, "single": self.row_type == "float32"}
        return sizes | self.offsets


class Blocks:
    """The blocks of ``n_keys`` keys; each attribute is a view of one part of every block."""

    def __init__(self, n_keys: int, shape: Shape) -> None:
        size, offsets = shape.bytes_per_key, shape.offsets
        room = np.empty(LINE + (n_keys + 1) * size, np.uint8)  # the system commits a page when it is first written
        room = room[-room.ctypes.data % LINE :]

        def view(name: str) -> npt.NDArray[Any]:
            dtype, part = shape.parts[name]
            strides = size, *np.empty(part, dtype).strides
            return np.ndarray((n_keys, *part), dtype, room.data, offsets[name], strides)

        self.keys: Records = view("keys")
        self.counts: Records = view("counts")
        self.models: Records = view("models")
        self.bounds: IntArray = view("bounds")
        self.w: FloatArray = view("w")
        self.G: FloatArray = view("G")
        self.factor: FloatArray = view("factor")
        self.gain: FloatArray = view("gain")
        self.centre: FloatArray = view("centre")
        self.raw: FloatArray = view("raw")
        self.centred: IntArray = view("centred")
        self.judged: FloatArray = view("judged")
        self.tables: FloatArray = view("tables")
        self.means: FloatArray = view("means")
        """The number of values of each column, and their sum; without columns if gaps are not filled."""
        self.guard: FloatArray = view("guard")
        """Numbers of each column by which values are guarded; without columns if there is no guard."""
        self.range: FloatArray = view("range")
        """Smallest and largest number learned, of a regression with a guard; infinite before the first."""
        self.weight: FloatArray = view("weight")
        """The weight of each row; without places if rows have no weights."""
        self.X: npt.NDArray[Any] = view("X")
        self.y: npt.NDArray[Any] = view("y")
        self.shape = shape
        self.bytes: Bytes = room[: n_keys * size]

    def grown(self, n_keys: int, live: int) -> Blocks:
        """Return more blocks, the first ``live`` of them copies."""
        larger = Blocks(n_keys, self.shape)
        used = live * self.shape.bytes_per_key
        larger.bytes[:used] = self.bytes[:used]
        return larger

    def with_weights(self, live: int) -> Blocks:
        """Return blocks with a weight for each row, 1 for those of the first ``live`` blocks."""
        other = Blocks(len(self.keys), dataclasses.replace(self.shape, weighted=True))
        start, stop = self.shape.offsets["weight"], self.shape.offsets["end"]
        moved = other.shape.offsets["X"]
        mine, theirs = (one.bytes.reshape(-1, one.shape.bytes_per_key)[:live] for one in (self, other))
        theirs[:, :start] = mine[:, :start]
        theirs[:, moved : moved + stop - start] = mine[:, start:stop]
        other.weight[:live] = 1.0
        return other

    def clear(self) -> None:
        """Zero everything but rows and tables."""
        self.bytes.reshape(-1, self.shape.bytes_per_key)[:, : self.shape.offsets["tables"]] = 0
        self.means[:] = 0.0
        self.guard[:] = 0.0

    def cell(self, slot: int, judged: FloatArray) -> Cell:
        """Return the cell of a key, as views except for the labels; ``judged`` is for a key that keeps none."""
        names = *MODEL_ARRAYS, "bounds", "centred", "models", "X"
        own = {name: getattr(self, name)[slot] for name in names}
        return Cell(
            y=self.y[slot].astype(np.float64),
            weight=self.weight[slot] if self.shape.weighted else np.ones(self.shape.places),
            tables=self.tables[slot].reshape(2, -1),
            counts=self.counts[slot : slot + 1],
            judged=self.judged[slot] if self.shape.judged else judged,
            small=np.empty(0),
            **own,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks."""
        return self.bytes.nbytes
