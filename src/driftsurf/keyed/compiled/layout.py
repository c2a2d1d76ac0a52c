"""Memory layout of the compiled backend: one block per key, its parts one after the other.

Each key has a *slot*, the index of its block. A block holds a ring of rows: the rows to train on, oldest first,
followed by rows that wait until their time step is full. It also holds two models, on *side* 0 and side 1. One is the
predictive model. The other is the reactive model during a reactive state; outside of one it is the stable model, if
there has ever been a reactive state. (A stable model ends when a reactive one starts, so there are never three.) The
gradient-table entry of a row has the same place in its table as the row has in the ring.

Rows are numbered from 0 in the order in which they arrive at their key. Every time step has ``batch_size`` rows, and so
most numbers follow from a few counts: a model born at step s is trained from row s * batch_size on, and so forth. Row r
has place r % n_rows of the ring. The ring holds a whole number of batches, so that no batch wraps around its end.

A block starts with what a time step changes (counts, models, weights, tables); the rows follow. A key therefore spans
two or three pages of memory, and one contiguous copy is enough to undo a step.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray

__all__ = [
    "KEY",
    "MODEL",
    "TRANSITION",
    "Batch",
    "Blocks",
    "Groups",
    "Places",
    "Rule",
    "Scratch",
    "Shape",
    "Store",
    "Training",
    "TransitionLog",
    "make_scratch",
]

LINE = 64
"""Bytes of a cache line. The size of a block is a multiple of the sizes of KEY and MODEL."""

Bytes = npt.NDArray[np.uint8]
Records = npt.NDArray[np.void]


def _record(size: int, fields: list[tuple[str, type]]) -> np.dtype[Any]:
    """Return a record of these fields, eight bytes each, padded to ``size`` bytes."""
    names, formats = zip(*fields, strict=True)
    offsets = [8 * place for place in range(len(fields))]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size}, align=True)


KEY = _record(
    2 * LINE,
    [
        ("seed", np.uint64),
        ("first", np.int64),  # the number of the oldest row
        ("step", np.int64),  # time steps learned
        ("pending", np.int64),  # rows that wait until the next time step is full
        ("made", np.int64),  # models made so far
        ("reactive_step", np.int64),  # batches learned in the current reactive state; 0 in the stable state
        ("predictive", np.int64),  # the side of the predictive model
        ("challenged", np.int64),  # 1 if the reactive model predicts
        ("errors", np.int64),  # rows predicted wrongly
        ("refused", np.int64),  # rows not learned
        ("quarantine", np.int64),  # the code of the reason; 0 if the key is not in quarantine
        ("transitions", np.int64),
        ("last_kind", np.int64),  # the code of the last transition
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
        ("best", np.float64),  # the smallest risk on a batch so far: R_b in the paper
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
    """The sizes that all keys share.

    >>> Shape(n_features=10, batch_size=32, max_rows=128, reactive_length=4).bytes_per_key
    9728
    """

    n_features: int
    batch_size: int
    max_rows: int
    reactive_length: int

    @property
    def n_rows(self) -> int:
        """Places for rows: the sample set, or the earlier batches of a reactive state if they are more, and a batch."""
        former = max(math.ceil(self.max_rows / self.batch_size), self.reactive_length - 1)
        return (former + 1) * self.batch_size

    @property
    def parts(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """The type and the shape of each part of a block, in order."""
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
        """The offset of each part of a block, in bytes."""
        sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in self.parts.values()]
        return dict(zip(self.parts, itertools.accumulate(sizes, initial=0), strict=False))

    @property
    def bytes_per_key(self) -> int:
        """The size of a block."""
        return -(-(self.offsets["labels"] + self.n_rows) // KEY.itemsize) * KEY.itemsize


class Store:
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
        self.models: Records = view("models")
        self.weights: FloatArray = view("weights")
        self.sums: FloatArray = view("sums")
        """The gradient sum of each model."""
        self.tables: FloatArray = view("tables")
        self.rows: npt.NDArray[np.float32] = view("rows")
        self.labels: Bytes = view("labels")
        self.shape = shape
        self.bytes: Bytes = room[: n_keys * size]

    def grown(self, n_keys: int, live: int) -> Store:
        """Return a larger store with copies of the first ``live`` blocks."""
        larger = Store(n_keys, self.shape)
        used = live * self.shape.bytes_per_key
        larger.bytes[:used] = self.bytes[:used]
        return larger

    def begin(self, start: int, stop: int) -> None:
        """Zero the blocks of new keys, except for their rows and tables, which hold no entries yet."""
        for array in (self.keys, self.models, self.weights, self.sums):
            array[start:stop] = np.zeros((), array.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks."""
        return self.bytes.nbytes

    @functools.cached_property
    def compiled(self) -> Blocks:
        """The blocks as compiled loops take them."""
        shape, offsets, flat = self.shape, self.shape.offsets, self.bytes

        def place(name: str) -> int:
            return offsets[name] // shape.parts[name][0].itemsize

        places = Places(
            shape.bytes_per_key,
            place("weights"),
            place("sums"),
            place("tables"),
            place("rows"),
            place("labels"),
            shape.n_rows,
            shape.n_features,
        )
        return Blocks(flat.view(np.float32), flat, flat.view(np.float64), flat.view(MODEL), flat.view(KEY), places)


# ---------------------------------------------------------------------------- arguments of the compiled loops


class Places(NamedTuple):
    """Where the parts of a block are: each in units of its own element."""

    size: int
    """Bytes of a block."""
    weights: int
    sums: int
    tables: int
    rows: int
    labels: int
    n_rows: int
    """Places of the ring of rows."""
    n_features: int


class Blocks(NamedTuple):
    """All blocks, viewed as elements of each type; ``block.py`` finds the parts of one key in them."""

    float32: npt.NDArray[np.float32]
    uint8: Bytes
    float64: FloatArray
    models: Records
    keys: Records
    places: Places


class Batch(NamedTuple):
    """The rows of a call."""

    rows: npt.NDArray[np.float32]
    codes: Bytes
    """The class of each row, 0 or 1."""
    bad: Bytes
    """Why each row cannot be learned, 0 if it can; empty if all can."""
    predicted: Bytes
    """Filled by the loop."""


class Groups(NamedTuple):
    """The rows of a call by key."""

    slots: IntArray
    starts: IntArray
    """Where the rows of each slot start in ``order``, and where the last ones end."""
    order: npt.NDArray[np.int32]
    """The rows, slot by slot, in order of arrival."""
    diverged: npt.NDArray[np.bool_]
    """Filled by the loop: whether training diverged, for each slot."""


class Rule(NamedTuple):
    """The parameters of DriftSurf's rule."""

    threshold: float
    stable_threshold: float
    reactive_length: int
    greedy: bool


class Training(NamedTuple):
    """How models are trained."""

    batch_size: int
    max_rows: int
    steps_per_row: float
    step_size: float
    l2: float
    uniform_start: bool


class TransitionLog(NamedTuple):
    """Transitions of a call."""

    entries: Records
    length: IntArray
    """How many there are, and 1 if the loop over the rows of the call is complete."""


class Scratch(NamedTuple):
    """Working memory of one thread."""

    labels: FloatArray
    margins: FloatArray
    ones: FloatArray
    factor: FloatArray
    orders: npt.NDArray[np.int64]
    """The places of the rows of each gradient step, for both sides."""
    frame: tuple[FloatArray, FloatArray, IntArray]
    """Scaling and centring of columns, which a fleet does not use."""
    saved: Bytes
    """What a time step changes, as it was before the step."""
    losses: FloatArray


def make_scratch(shape: Shape, steps_per_row: float) -> Scratch:
    """Allocate the working memory of one thread."""
    n_rows, width = shape.n_rows, shape.n_features + 1
    most_steps = math.ceil(steps_per_row * shape.batch_size) + 1
    return Scratch(
        labels=np.empty(n_rows),
        margins=np.empty(n_rows),
        ones=np.ones(n_rows),
        factor=np.ones(width),
        orders=np.empty((2, most_steps), np.int64),
        frame=(np.ones(width), np.zeros(width), np.zeros(0, np.int64)),
        saved=np.empty(shape.offsets["rows"], np.uint8),
        losses=np.empty(n_rows),
    )
