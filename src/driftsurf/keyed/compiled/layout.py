"""Memory layout of the compiled backend: one block per key, its parts one after the other.

Each key has a *slot*, the index of its block. A block holds a cell (``strategies/compiled/layout.py``) with room for a
fixed number of rows, and what a fleet counts for a key beside it. Behind the rows that were learned are the rows that
wait until their time step is full. When there is no room for another time step, the rows move to the front.

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
from driftsurf.kernels.guard import ROWS_OF_GUARD
from driftsurf.keyed.compiled.guard_memory import Guarding, GuardScratch, make_guard_scratch
from driftsurf.strategies.compiled import layout as cells
from driftsurf.strategies.compiled.layout import COUNTS, MODEL

__all__ = [
    "KEY",
    "TRANSITION",
    "Batch",
    "Blocks",
    "GappyBatch",
    "Groups",
    "Places",
    "Scratch",
    "Shape",
    "Steps",
    "Store",
    "TransitionLog",
    "make_scratch",
]

LINE = 64
"""Bytes of a cache line."""
_NO_CLASSES = np.zeros((0, 4), np.uint8)
"""Counts of classes that are named."""
_NO_NORMS = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
"""Norms, starts and counts without a guard."""

Bytes = npt.NDArray[np.uint8]
Records = npt.NDArray[np.void]

KEY: np.dtype[Any] = np.dtype(
    [
        ("pending", np.int64),  # rows that wait until the next time step is full
        ("errors", np.float64),  # of the rows of complete time steps: wrong classes, or absolute errors of numbers
        ("refused", np.int64),  # rows not learned
        ("quarantine", np.int64),  # the code of the reason; 0 if the key is not in quarantine
        ("transitions", np.int64),
        ("last_kind", np.int64),  # 1 + the code of the last transition; 0 if there was none
        ("last_step", np.int64),
        ("waiting", np.float64),  # errors of the rows that wait
    ],
    align=True,
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
        ("absent", np.int64),
    ],
    align=True,
)
MODEL_ARRAYS = "w", "G", "factor", "gain", "centre", "raw"
"""Arrays of a cell with a row for each of its two models."""
BY_OUTPUT = {"w", "G", "raw"}
"""Those of them that have numbers for each output."""


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
    plain: bool = True
    """Whether this is logistic regression for two classes, judged by training risks."""
    filled: bool = False
    """Whether missing values are filled with the means of the columns so far, which a key then keeps."""
    guarded: bool = False
    """Whether a range guard limits values and reduces weights; rows then have weights."""
    growing: bool = False
    """Whether each key learns its classes, at most two, as they appear."""

    @property
    def label_type(self) -> np.dtype[Any]:
        """Type of stored labels: codes of classes, or numbers."""
        return np.dtype(np.float64 if self.valued else np.uint8)

    @property
    def places(self) -> int:
        """Places for rows: the sample set, or the earlier batches of a reactive state if they are more, and a batch."""
        return max(self.max_rows, (self.reactive_length - 1) * self.batch_size) + self.batch_size

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

    def grown(self, n_keys: int, live: int) -> Store:
        """Return a larger store with copies of the first ``live`` blocks."""
        larger = Store(n_keys, self.shape)
        used = live * self.shape.bytes_per_key
        larger.bytes[:used] = self.bytes[:used]
        return larger

    def with_weights(self, live: int) -> Store:
        """Return a store with a weight for each row, 1 for those of the first ``live`` blocks."""
        other = Store(len(self.keys), dataclasses.replace(self.shape, weighted=True))
        start, stop = self.shape.offsets["weight"], self.shape.offsets["end"]
        moved = other.shape.offsets["X"]
        mine, theirs = (one.bytes.reshape(-1, one.shape.bytes_per_key)[:live] for one in (self, other))
        theirs[:, :start] = mine[:, :start]
        theirs[:, moved : moved + stop - start] = mine[:, start:stop]
        other.weight[:live] = 1.0
        return other

    def begin(self, start: int, stop: int) -> None:
        """Zero the blocks of new keys, except for their rows and tables, which hold no entries yet."""
        size = self.shape.bytes_per_key
        self.bytes.reshape(-1, size)[start:stop, : self.shape.offsets["tables"]] = 0
        self.means[start:stop] = 0.0
        self.guard[start:stop] = 0.0
        if self.range.shape[1]:
            self.range[start:stop] = -math.inf, math.inf

    def cell(self, slot: int) -> cells.Cell:
        """Return the cell of a key, as views except for the labels; only a step changes it."""
        names = *MODEL_ARRAYS, "bounds", "centred", "judged", "models", "X"
        own = {name: getattr(self, name)[slot] for name in names}
        return cells.Cell(
            y=self.y[slot].astype(np.float64),
            weight=self.weight[slot] if self.shape.weighted else np.ones(self.shape.places),
            tables=self.tables[slot].reshape(2, -1),
            counts=self.counts[slot : slot + 1],
            ahead=np.empty(0, np.uint8),
            **own,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks."""
        return self.bytes.nbytes

    @functools.cached_property
    def compiled(self) -> Blocks:
        """The blocks as compiled loops take them."""
        shape, offsets, flat = self.shape, self.shape.offsets, self.bytes
        places = Places(
            size=shape.bytes_per_key,
            n_features=shape.n_features,
            n_places=shape.places,
            outputs=shape.outputs,
            weighted=shape.weighted,
            filled=shape.filled,
            guarded=shape.guarded,
            growing=shape.growing,
            X=offsets["X"] // np.dtype(shape.row_type).itemsize,
            y=offsets["y"] // shape.label_type.itemsize,
            **{name: offsets[name] // 8 for name in Places._fields[10:]},
        )
        values, labels, whole, real = (
            flat.view(kind) for kind in (shape.row_type, shape.label_type, np.int64, np.float64)
        )
        form = Blocks if shape.plain else OtherBlocks
        records = flat.view(KEY), flat.view(COUNTS), flat.view(MODEL)
        return form(values, labels, flat, whole, real, *records, _NO_CLASSES, *_NO_NORMS, Guarding(0.0, False), places)


# ---------------------------------------------------------------------------- arguments of the compiled loops


class Places(NamedTuple):
    """Where the parts of a block are: each in units of its own element."""

    size: int
    """Bytes of a block."""
    n_features: int
    n_places: int
    """Places for rows."""
    outputs: int
    weighted: bool
    filled: bool
    guarded: bool
    growing: bool
    X: int
    y: int
    bounds: int
    w: int
    G: int
    factor: int
    gain: int
    centre: int
    raw: int
    centred: int
    judged: int
    tables: int
    means: int
    guard: int
    range: int
    weight: int


class Blocks(NamedTuple):
    """All blocks, viewed as elements of each type; ``block.py`` finds the parts of one key in them."""

    values: npt.NDArray[Any]
    """Elements of the type of rows."""
    labels: npt.NDArray[Any]
    """Elements of the type of labels."""
    uint8: Bytes
    int64: IntArray
    float64: FloatArray
    keys: Records
    counts: Records
    models: Records
    classes: Bytes
    """Counts of the classes of each key (``label_sets.py``); empty if the classes are named."""
    norms: FloatArray
    """Norms of the last rows of all keys, for the range guard; empty without one."""
    norm_starts: IntArray
    norm_counts: IntArray
    """Where the norms of each key start, and how many it has."""
    guarding: Guarding
    places: Places


class OtherBlocks(Blocks):
    """Blocks of any learner but logistic regression for two classes: loops over them are compiled on their own."""


class Batch(NamedTuple):
    """The rows of a call."""

    rows: npt.NDArray[Any]
    codes: npt.NDArray[Any]
    """The code of the class of each row, or the number to predict."""
    weight: FloatArray
    """The weight of each row; empty if all have the weight 1."""
    bad: Bytes
    """Why each row cannot be learned, 0 if it can; empty if all can."""
    predicted: npt.NDArray[Any]
    """Filled by the loop, like the codes."""


class GappyBatch(Batch):
    """The rows of a call, as float64, with NaN where a value is missing: loops over them are compiled on their own."""


class Groups(NamedTuple):
    """The rows of a call by key."""

    slots: IntArray
    starts: IntArray
    """Where the rows of each slot start in ``order``, and where the last ones end."""
    order: npt.NDArray[np.int32]
    """The rows, slot by slot, in order of arrival."""
    diverged: npt.NDArray[np.bool_]
    """Filled by the loop: whether training diverged, for each slot."""


class Steps(NamedTuple):
    """How many rows and how many gradients a time step has."""

    batch_size: int
    per_row: float
    per_batch: int
    """-1 if the number of gradients follows from ``per_row``."""


class TransitionLog(NamedTuple):
    """Transitions of a call."""

    entries: Records
    length: IntArray
    """How many there are, and 1 if the loop over the rows of the call is complete."""


class Scratch(NamedTuple):
    """Working memory of one thread."""

    y: FloatArray
    """Labels of the key in use, as a step reads them."""
    ones: FloatArray
    margins: FloatArray
    saved: IntArray
    """What a time step changes, as it was before the step."""
    judged: FloatArray
    """Numbers of a cell that no key needs after a step of the training judge."""
    guard: GuardScratch
    step: cells.Scratch
    """Working memory of a step."""


def make_scratch(shape: Shape, steps: Steps) -> Scratch:
    """Allocate the working memory of one thread."""
    size, places = shape.batch_size, shape.places
    most_steps = steps.per_batch if steps.per_batch >= 0 else math.ceil(steps.per_row * size) + 1
    return Scratch(
        y=np.empty(places),
        ones=np.ones(places),
        margins=np.empty(size * shape.outputs),
        saved=np.empty(shape.offsets["tables"] // 8, np.int64),
        judged=np.zeros(cells.UNITS),
        guard=make_guard_scratch(size if shape.guarded else 0, shape.n_features, shape.row_type),
        step=cells.make_scratch(shape.n_features, size, places, most_steps, shape.outputs),
    )
