"""Memory of many keys: a block of fixed size for each, and a piece of memory for its rows that grows with them.

Each key has a *slot*, the index of its block. Block and piece together hold a cell (``native/layout.pxd``), and the
block what is counted for the key beside it. Behind the rows that were learned are the rows that wait until their time
step is full. When a piece has no room for another time step, the rows move to its front.

Every time step has ``batch_size`` rows, and so most numbers of a cell follow from a few counts: a model born at step s
is trained from row s * batch_size on, and so forth.

A block starts with all that a time step changes, except for the gradient tables. One contiguous copy of it, together
with the entries of the tables that the step overwrites, is enough to undo the step. The records come first, the largest
ones before the others: their sizes are powers of two, so that each is at a multiple of its size.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.fields import Array
from driftsurf.keyed.quarantine import Reason
from driftsurf.native.arena import copy, move
from driftsurf.native.guard import MEMORY
from driftsurf.native.store import OUTCOME_SIZES, KeyLoop
from driftsurf.strategies._cell_arrays import COUNTS, MODEL, Cell

ROWS_OF_GUARD = 5
"""Numbers of a range guard for each column: ``native/c/guard.h`` names them."""
LEAST_ROWS, LEAST_NORMS = 8, 64
"""Fewest rows, and norms of rows for a guard, for which a key takes memory."""
SPARE = 1.25
"""Size of newly allocated memory, as a multiple of what is needed at once."""
LINE = 64
"""Bytes of a cache line."""

Bytes = npt.NDArray[np.uint8]
Records = npt.NDArray[np.void]


def _aligned(size: int) -> Bytes:
    """Return memory that starts at a cache line; the system commits a page when it is first written."""
    room = np.empty(LINE + size, np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + size]


class Arena:
    """Memory with a piece for each key, which has places for some rows: none, ``least``, twice as many, up to ``most``.

    ``native/arena.pxd`` describes pieces. A key starts without one, and gets a larger one as it gets rows, so that keys
    with few rows take little memory. Pieces that are not in use any more are freed when the arena is full: the others
    then move to a new one.

    Parameters
    ----------
    n_keys
        Keys that may have a piece.
    pieces
        The fewest and the most places of a piece, and the bytes that a place takes in each part.
    size
        Bytes of the memory.

    Examples
    --------
    >>> norms = Arena(2, (64, 1024, 8)).with_places(np.array([1]), np.array([100]))
    >>> norms.places.tolist(), norms.bytes.nbytes
    ([0, 128], 1280)
    """

    def __init__(self, n_keys: int, pieces: tuple[int, ...], size: int = 0) -> None:
        self.pieces: tuple[int, ...] = pieces
        self.bytes: Bytes = _aligned(size)
        self.codes: IntArray = np.zeros(n_keys, np.int64)
        """Where the piece of each key starts, and its size; one number, so that it changes at once."""
        self.end: int = 0
        """The first line that belongs to no piece."""

    @functools.cached_property
    def _sizes(self) -> IntArray:
        """Places of pieces of each size."""
        least, most = self.pieces[:2]
        doubled = [least << step for step in range(max(0, -(-most // least) - 1).bit_length())]
        return np.array([0, *doubled, most], np.int64)

    @functools.cached_property
    def _lines(self) -> IntArray:
        """Lines of pieces of each size."""
        lines: IntArray = -(-self._sizes * sum(self.pieces[2:]) // LINE)
        return lines

    @property
    def places(self) -> IntArray:
        """Places that the piece of each key has."""
        places: IntArray = self._sizes[self.codes & 255]
        return places

    def used(self, slots: Any = slice(None)) -> int:
        """Return the bytes of the pieces of keys."""
        return LINE * int(self._lines[self.codes[slots] & 255].sum())

    def for_keys(self, n_keys: int) -> Arena:
        """Return the same pieces with entries for more keys, or fewer."""
        made = Arena(n_keys, self.pieces)
        known = min(n_keys, len(self.codes))
        made.bytes, made.end = self.bytes, self.end
        made.codes[:known] = self.codes[:known]
        return made

    def with_places(self, slots: IntArray, counts: IntArray) -> Arena:
        """Return an arena with places for this many rows of some keys, or as many as a piece has at most.

        If there is enough memory, this object is changed and returned. What it holds for any key stays valid at any
        point, so that an exception does no harm.
        """
        wanted = np.searchsorted(self._sizes, np.minimum(counts, self.pieces[1]))
        larger = wanted > self.codes[slots] & 255
        if not larger.any():
            return self
        slots, wanted = slots[larger], wanted[larger]
        lines = self._lines[wanted]
        total = int(lines.sum())
        if LINE * (self.end + total) > self.bytes.nbytes:
            sizes = self.codes & 255
            sizes[slots] = wanted
            return self._moved(sizes, SPARE)
        codes = (self.end + np.cumsum(lines) - lines) * 256 + wanted
        self.end += total
        move(self.bytes, self.bytes, self.codes[slots], codes, self.pieces, self.pieces)
        self.codes[slots] = codes
        return self

    def with_pieces(self, slots: IntArray, others: Arena) -> Arena:
        """Return an arena with copies of all pieces of another one for some keys, which had none."""
        made = self.with_places(slots, others.places)
        move(others.bytes, made.bytes, others.codes, np.ascontiguousarray(made.codes[slots]), self.pieces, self.pieces)
        return made

    def compact(self, n_keys: int) -> Arena:
        """Return a copy of the pieces of the first keys, without memory that is not in use."""
        return self.for_keys(n_keys)._moved(self.codes[:n_keys] & 255)

    def _moved(self, sizes: IntArray, spare: float = 1.0, pieces: tuple[int, ...] | None = None) -> Arena:
        """Return a copy of all pieces with these sizes, one after the other."""
        made = Arena(len(sizes), pieces or self.pieces)
        lines = made._lines[sizes]
        made.end = int(lines.sum())
        made.bytes = _aligned(LINE * int(spare * made.end))
        made.codes = (np.cumsum(lines) - lines) * 256 + sizes
        move(self.bytes, made.bytes, self.codes, made.codes, self.pieces, made.pieces)
        return made

    def with_parts(self, pieces: tuple[int, ...]) -> Arena:
        """Return a copy with other parts; in a part of numbers that is new, they are 1."""
        return self._moved(self.codes & 255, SPARE, pieces)

    def read(self, slots: Any, part: Any, first: Any, counts: IntArray, dtype: Any) -> npt.NDArray[Any]:
        """Return this many elements of a part of keys, from a place on, one key after the other."""
        size = self.pieces[2 + int(np.max(part, initial=0))]
        values = np.empty(int(counts.sum()) * size, np.uint8)
        self._copy(slots, part, first, counts, values, into=False)
        return values.view(dtype)

    def write(self, slots: Any, part: Any, first: Any, counts: IntArray, values: npt.NDArray[Any]) -> None:
        """Put back what ``read`` returned."""
        self._copy(slots, part, first, counts, np.ascontiguousarray(values).reshape(-1).view(np.uint8), into=True)

    def _copy(self, slots: Any, part: Any, first: Any, counts: IntArray, values: Bytes, *, into: bool) -> None:
        codes = np.ascontiguousarray(self.codes[slots])
        parts, starts = (np.ascontiguousarray(np.broadcast_to(np.int64(one), codes.shape)) for one in (part, first))
        copy(self.bytes, codes, parts, starts, np.ascontiguousarray(counts), self.pieces, values, into)

    def piece(self, slot: int) -> tuple[int, int]:
        """Return where the piece of a key starts, in bytes, and its places."""
        code = int(self.codes[slot])
        return LINE * (code >> 8), int(self._sizes[code & 255])


TWO: int = 2
"""Classes with which a key starts that learns its own."""
MOST_OWN: int = 255
"""Most classes of a key that learns its own: their codes are single bytes."""
Codes = npt.NDArray[np.uint8]
"""Classes by code, or reasons for quarantine by code."""
REASONS: tuple[Reason, ...] = "", "not_finite", "bad_label", "diverged", "continuous_label"
"""Reasons for quarantine by their codes, which ``native/store.pyx`` knows too."""
UNLABELLED = np.uint8(255)
"""Stands among these codes for a row without a label, which is only predicted."""


MEANS: Array = Array(np.float64, ("n_keys", 2, "n_features"), missing=True)
"""Saved numbers and sums of the values of each column, where gaps are filled; the sums may have overflowed."""

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
        # the end of the call, 1 if the second comes before the first by name, and the code of the first by name.
        ("known", np.uint8),
        ("learned", np.uint8),
        ("total", np.uint8),
        ("against", np.uint8),
        ("norms", np.uint16),  # norms that the guard remembers, oldest first
        ("lowest", np.uint8),
        ("unused", np.uint8, (3,)),
        ("newest", np.uint32),  # rows that wait and have come last
    ]
)
MODEL_ARRAYS = "w", "G", "factor", "gain", "centre", "raw"
"""Arrays of a cell with a row for each of its two models."""
BY_OUTPUT = {"w", "G", "raw"}
"""Arrays of a cell that have numbers for each output."""


@dataclass(frozen=True)
class KeyShape:
    """The sizes that all keys share.

    >>> shape = KeyShape(n_features=10, batch_size=32, max_rows=128, reactive_length=4)
    >>> shape.block_bytes, shape.most_bytes
    (1792, 10944)
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
    """Whether each key learns its classes as they appear."""
    classes: int = 0
    """The number of classes of a key, those that it may still learn not included."""

    @functools.cached_property
    def places(self) -> int:
        """Places for as many rows as a key may ever need.

        These are the sample set, or the earlier batches of a reactive state if they are more, and a batch.
        """
        return max(self.max_rows, (self.reactive_length - 1) * self.batch_size) + self.batch_size

    @functools.cached_property
    def label_type(self) -> np.dtype[Any]:
        """Type of stored labels: codes of classes, or numbers."""
        return np.dtype(np.float64 if self.valued else np.uint8)

    @functools.cached_property
    def parts(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """The type and the shape of each part of a block, in order."""
        number, whole, width = np.dtype(np.float64), np.dtype(np.int64), self.n_features + 1
        widths = {name: width * self.outputs if name in BY_OUTPUT else width for name in MODEL_ARRAYS}
        return {
            "models": (MODEL, (2,)),
            "counts": (COUNTS, ()),
            "keys": (KEY, ()),
            "bounds": (whole, (self.reactive_length + 1,)),
            **{name: (number, (2, own)) for name, own in widths.items()},
            "centred": (whole, (2, width)),
            "judged": (number, (self.judged,)),
            "means": (number, (2, self.n_features if self.filled else 0)),
            "guard": (number, (ROWS_OF_GUARD, self.n_features if self.guarded else 0)),
            "range": (number, (2 if self.guarded and self.valued else 0,)),
            "names": (np.dtype(np.uint8), (self.outputs if self.growing and self.classes > TWO else 0,)),
        }

    @functools.cached_property
    def row_pieces(self) -> tuple[int, ...]:
        """The pieces of memory for rows: tables of both models, numbers, weights, values and codes of a row.

        Codes come last: they need no alignment.
        """
        table, values = 8 * self.outputs, np.dtype(self.row_type).itemsize * self.n_features
        labels = (8, 8 * self.weighted, values, 0) if self.valued else (0, 8 * self.weighted, values, 1)
        return min(LEAST_ROWS, self.places), self.places, table, table, *labels

    @functools.cached_property
    def row_offsets(self) -> list[int]:
        """The bytes that a place takes in the parts before each part."""
        return list(itertools.accumulate(self.row_pieces[2:], initial=0))

    @functools.cached_property
    def y_part(self) -> int:
        """The part of labels."""
        return NUMBER if self.valued else CODE

    @functools.cached_property
    def offsets(self) -> dict[str, int]:
        """The offset of each part of a block, in bytes, and that of the end."""
        sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in self.parts.values()]
        return dict(zip([*self.parts, "end"], itertools.accumulate(sizes, initial=0), strict=True))

    @functools.cached_property
    def block_bytes(self) -> int:
        """The size of a block: a multiple of the sizes of all records, which are powers of two."""
        unit = max(KEY.itemsize, COUNTS.itemsize, MODEL.itemsize)
        return -(-self.offsets["end"] // unit) * unit

    @functools.cached_property
    def most_bytes(self) -> int:
        """Bytes that a key takes at most."""
        norms = 8 * MEMORY if self.guarded else 0
        return self.block_bytes + -(-self.places * sum(self.row_pieces[2:]) // LINE) * LINE + norms

    @functools.cached_property
    def native(self) -> dict[str, Any]:
        """Sizes, flags, offsets and pieces as ``native.store.KeyLoop`` takes them."""
        names = "n_features", "outputs", "classes", "batch_size", "weighted", "filled", "guarded", "growing", "valued"
        sizes: dict[str, Any] = {name: getattr(self, name) for name in names}
        sizes |= {"size": self.block_bytes, "judged_size": self.judged, "single": self.row_type == "float32"}
        return sizes | self.offsets | {"rows": self.row_pieces, "norms": NORMS}


TABLE, NUMBER, WEIGHT, VALUES, CODE = 0, 2, 3, 4, 5
"""Parts of the rows of a key; the gradients of the model on side 1 follow those on side 0."""
NORMS = LEAST_NORMS, MEMORY, 8
"""Pieces of memory for norms of rows."""


class Stored(NamedTuple):
    """Views of the rows of a key, with as many places as it has."""

    tables: FloatArray
    """Gradient tables (2, places, outputs)."""
    weight: FloatArray
    """Without places if rows have no weights."""
    X: npt.NDArray[Any]
    y: npt.NDArray[Any]


class Blocks:
    """The blocks of ``n_keys`` keys, of which each attribute is a view of one part, and the memory for their rows."""

    def __init__(self, n_keys: int, shape: KeyShape) -> None:
        self.rows: Arena = Arena(n_keys, shape.row_pieces)
        self.norms: Arena = Arena(n_keys if shape.guarded else 0, NORMS)
        """The norms of rows that a guard remembers."""
        self._set_up(shape, _aligned(n_keys * shape.block_bytes), n_keys)

    def _set_up(self, shape: KeyShape, room: Bytes, n_keys: int) -> None:
        size, offsets, parts = shape.block_bytes, shape.offsets, shape.parts

        def view(name: str) -> npt.NDArray[Any]:
            dtype, part = parts[name]
            strides = size, *np.empty(part, dtype).strides
            if not math.prod((n_keys, *part)):  # the memory may end before it
                return np.zeros((n_keys, *part), dtype)
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
        self.means: FloatArray = view("means")
        """The number of values of each column, and their sum; without columns if gaps are not filled."""
        self.guard: FloatArray = view("guard")
        """Numbers of each column by which values are guarded; without columns if there is no guard."""
        self.range: FloatArray = view("range")
        """Smallest and largest number learned, of a regression with a guard; infinite before the first."""
        self.names: Codes = view("names")
        """The codes of more than two classes in the order of their names, if each key learns its own."""
        self.shape: KeyShape = shape
        self.bytes: Bytes = room

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def memory(self) -> tuple[Any, ...]:
        """The memory of all keys, as ``native.store.KeyLoop`` takes it."""
        return self.bytes, self.rows.bytes, self.rows.codes, self.norms.bytes, self.norms.codes

    def grown(self, n_keys: int, live: int) -> Blocks:
        """Return more blocks, the first ``live`` of them copies."""
        larger = Blocks(n_keys, self.shape)
        used = live * self.shape.block_bytes
        larger.bytes[:used] = self.bytes[:used]
        larger.rows = self.rows.for_keys(n_keys)
        if self.shape.guarded:
            larger.norms = self.norms.for_keys(n_keys)
        return larger

    def compact(self, n_keys: int) -> Blocks:
        """Return a copy of the first blocks, without memory that is not in use."""
        made = Blocks(n_keys, self.shape)
        made.bytes[:] = self.bytes[: made.bytes.nbytes]
        made.rows = self.rows.compact(n_keys)
        if self.shape.guarded:
            made.norms = self.norms.compact(n_keys)
        return made

    def with_weights(self) -> Blocks:
        """Return the same blocks with a weight for each row, 1 for those that are stored."""
        other = Blocks.__new__(Blocks)
        vars(other).update(vars(self))
        other.shape = dataclasses.replace(self.shape, weighted=True)
        other.rows = self.rows.with_parts(other.shape.row_pieces)
        return other

    def make_room(self, loop: KeyLoop, slots: IntArray, starts: IntArray) -> IntArray:
        """Make room for the rows of a call, those of each key starting at ``starts``; return the time steps of keys."""
        rows, norms, steps = np.empty((3, len(slots)), np.int64)
        loop.needed(self.bytes, slots, starts, rows, norms, steps)
        self.rows = self.rows.with_places(slots, rows)
        if self.shape.guarded:
            self.norms = self.norms.with_places(slots, norms)
        return steps

    def put(self, slots: IntArray, others: Blocks) -> None:
        """Copy the keys of other blocks to these slots, which have no rows."""
        size = self.shape.block_bytes
        self.bytes.reshape(-1, size)[slots] = others.bytes.reshape(-1, size)
        self.rows = self.rows.with_pieces(slots, others.rows)
        if self.shape.guarded:
            self.norms = self.norms.with_pieces(slots, others.norms)

    def clear(self, slots: Any) -> None:
        """Free the memory for rows of some keys."""
        self.rows.codes[slots] = 0
        self.norms.codes[slots if self.shape.guarded else []] = 0

    def stored(self, slot: int) -> Stored:
        """Return the rows of a key."""
        shape, memory = self.shape, self.rows.bytes.data
        start, n = self.rows.piece(slot)
        number, weight, values, code = (start + n * shape.row_offsets[part] for part in (NUMBER, WEIGHT, VALUES, CODE))
        return Stored(
            np.ndarray((2, n, shape.outputs), np.float64, memory, start),
            np.ndarray(n * shape.weighted, np.float64, memory, weight),
            np.ndarray((n, shape.n_features), shape.row_type, memory, values),
            np.ndarray(n, shape.label_type, memory, number if shape.valued else code),
        )

    def cell(self, slot: int, judged: FloatArray) -> Cell:
        """Return the cell of a key, as views except for the labels; ``judged`` is for a key that keeps none."""
        names = *MODEL_ARRAYS, "bounds", "centred", "models"
        own, rows = {name: getattr(self, name)[slot] for name in names}, self.stored(slot)
        return Cell(
            X=rows.X,
            y=rows.y.astype(np.float64),
            weight=rows.weight if self.shape.weighted else np.ones(len(rows.y)),
            tables=rows.tables.reshape(2, -1),
            counts=self.counts[slot : slot + 1],
            judged=self.judged[slot] if self.shape.judged else judged,
            small=np.empty(0),
            **own,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks, and of the memory for rows."""
        return self.bytes.nbytes + self.rows.bytes.nbytes + self.norms.bytes.nbytes

    def used(self, slots: Any = slice(None)) -> int:
        """Return the bytes that some keys take."""
        norms = self.norms.used(slots) if self.shape.guarded else 0
        return len(self.keys[slots]) * self.shape.block_bytes + self.rows.used(slots) + norms

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied and pickled."""
        return {"shape": self.shape, "bytes": self.bytes, "rows": self.rows, "norms": self.norms}

    def __setstate__(self, state: dict[str, Any]) -> None:
        room = _aligned(len(state["bytes"]))
        room[:] = state["bytes"]
        self.rows, self.norms = state["rows"], state["norms"]
        self._set_up(state["shape"], room, len(self.rows.codes))


# ---------------------------------------------------------------------------- the outcomes of a call

COMPLETE = 1
"""Place in ``StepLog.length`` that the loop over a share sets last."""


class StepLog(NamedTuple):
    """Outcomes of time steps, as ``KeyLoop.observe`` takes them."""

    every: bool
    """Whether all time steps are noted, or only those with transitions."""
    whole: IntArray
    real: FloatArray
    group: IntArray
    """Number of the key in the groups of the call."""
    place: IntArray
    """Place in the order of the last row of the step; of steps with transitions only, the number of the step."""
    length: IntArray
    """How many there are, and 1 if the loop is complete."""

    @classmethod
    def of(cls, steps: int, *, every: bool) -> StepLog:
        """Return room for the outcomes of so many time steps."""
        whole, real = OUTCOME_SIZES
        numbers = np.empty((steps, whole), np.int64), np.empty((steps, real))
        return cls(every, *numbers, np.empty(steps, np.int64), np.empty(steps, np.int64), np.zeros(2, np.int64))
