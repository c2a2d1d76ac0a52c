"""What a stream is: rows in a fixed order, with the places where they drift."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf._options import is_number, whole
from driftsurf.errors import OptionError

BLOCK_ROWS = 65_536
"""Rows a generator makes at a time: enough to forget Python's overhead, little to hold."""

Block: TypeAlias = tuple[Any, Any]
"""Rows without the constant and their labels -1 and +1 (int64), or values (float64). Rows are a C-contiguous array
of floats, or a scipy CSR matrix where the stream is sparse."""


@dataclass(frozen=True, slots=True, order=True)
class Drift:
    """A change of concept: it begins with row ``start`` and is complete with row ``end``.

    Parameters
    ----------
    start, end
        Row positions, from 0. An abrupt drift has ``end == start``.

    Examples
    --------
    >>> Drift(40_000, 60_000).gradual, Drift(25_000, 25_000).gradual
    (True, False)
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        whole("start", self.start, at_least=0)
        if whole("end", self.end, at_least=0) < self.start:
            raise OptionError(f"end is {self.end!r}, before start {self.start!r}; give a row from start on")

    @property
    def gradual(self) -> bool:
        """Whether the old and the new concept overlap."""
        return self.end > self.start


class Stream(ABC):
    """Labelled rows in a fixed order. Two passes give the same rows.

    A subclass stores its arguments, says its ``name``, ``n_rows``, ``n_features`` and ``drifts``,
    and gives ``blocks()``; everything else is here.

    Examples
    --------
    >>> from driftsurf.streams import SEA
    >>> stream = SEA(n_rows=1_000)
    >>> [len(y) for X, y in stream.batches(400)]
    [400, 400, 200]
    >>> stream.drift_steps(batch_size=100)
    (2, 5, 7)
    """

    classes: tuple[int, ...] = (-1, 1)
    """The labels; none where values are to be predicted."""

    if TYPE_CHECKING:  # a subclass stores these or computes them; a reader only reads

        @property
        def name(self) -> str:
            """What tables and figures call it."""

        @property
        def n_rows(self) -> int:
            """Its length."""

        @property
        def n_features(self) -> int:
            """Columns of a row."""

        @property
        def drifts(self) -> tuple[Drift, ...]:
            """Where the concept changes, in order."""

        @property
        def sparse(self) -> bool:
            """Whether rows come as CSR matrices."""

    else:
        sparse = False

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """All rows from the first one on, in blocks of bounded size."""

    def batches(self, size: int, *, drop_last: bool = False) -> Iterator[Block]:
        """Batches of ``size`` rows; the last one is shorter, or dropped.

        Batches may share memory with the stream: copy before writing into them.
        """
        whole("size", size, at_least=1)
        return (batch for batch in self.portions(repeat(size)) if not drop_last or len(batch[1]) == size)

    def poisson(self, rate: float, *, seed: int = 0) -> Iterator[Block]:
        """Batches as they arrive in equal times at ``rate`` rows a time step on average.

        Sizes are Poisson(rate); time steps without a row are skipped, and the last batch holds what is left.
        """
        if not (is_number(rate) and 0 < rate < math.inf):
            raise OptionError(f"rate is {rate!r}; give a number of rows above 0")
        whole("seed", seed, at_least=0)
        return self.portions(_poisson_sizes(rate, seed))

    def portions(self, sizes: Iterable[int]) -> Iterator[Block]:
        """The rows cut into these sizes; a size of 0 gives nothing, the last batch what is left."""
        blocks = self.blocks()
        X, y = np.empty((0, self.n_features)), self._labels(0)
        at = 0
        for size in sizes:
            pieces: list[Block] = []
            missing = size
            while missing:
                if at == len(y):
                    following = next(blocks, None)
                    if following is None:
                        break
                    X, y = following
                    at = 0
                taken = min(missing, len(y) - at)
                pieces.append((X[at : at + taken], y[at : at + taken]))
                at += taken
                missing -= taken
            if len(pieces) == 1:
                yield pieces[0]
            elif pieces:
                yield stacked(pieces)
            if missing:
                return

    def rows(self) -> Iterator[tuple[Any, Any]]:
        """One row and its label at a time; a sparse row is a CSR matrix of one row."""
        for X, y in self.blocks():
            each = (X[i : i + 1] for i in range(len(y))) if self.sparse else X
            yield from zip(each, y.tolist(), strict=True)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self.rows()

    def arrays(self) -> Block:
        """All rows at once."""
        if self.sparse:
            return stacked(list(self.blocks()))
        X = np.empty((self.n_rows, self.n_features))
        y = self._labels(self.n_rows)
        at = 0
        for block_X, block_y in self.blocks():
            X[at : at + len(block_y)] = block_X
            y[at : at + len(block_y)] = block_y
            at += len(block_y)
        return X, y

    def _labels(self, count: int) -> npt.NDArray[Any]:
        return np.empty(count, np.int64 if self.classes else np.float64)

    def __len__(self) -> int:
        return self.n_rows

    def drift_steps(self, batch_size: int) -> tuple[int, ...]:
        """The time steps at which an oracle starts anew, for batches of ``batch_size`` rows.

        That is the batch in which a drift begins and, if it is gradual, the one in which it ends. A
        change at the first batch or after the last row is none.

        >>> from driftsurf.streams import SEA
        >>> SEA(noise=0.1, gradual=True).drift_steps(1_000)
        (40, 60)
        """
        whole("batch_size", batch_size, at_least=1)
        places = {place for drift in self.drifts for place in (drift.start, drift.end)}
        return tuple(sorted({place // batch_size for place in places if place < self.n_rows} - {0}))

    def __repr__(self) -> str:
        names = [name for name in inspect.signature(type(self).__init__).parameters if name != "self"]
        return f"{type(self).__name__}({', '.join(f'{name}={_brief(getattr(self, name))}' for name in names)})"


def block_sizes(n_rows: int) -> Iterator[int]:
    """The sizes of the blocks in which a generator makes ``n_rows``.

    >>> list(block_sizes(100_000))
    [65536, 34464]
    """
    for first in range(0, n_rows, BLOCK_ROWS):
        yield min(BLOCK_ROWS, n_rows - first)


def stacked(blocks: Sequence[Block]) -> Block:
    """Blocks, all dense or all sparse, one below the other."""
    rows, labels = [X for X, _ in blocks], np.concatenate([y for _, y in blocks])
    if isinstance(rows[0], np.ndarray):
        return np.concatenate(rows), labels
    from scipy.sparse import vstack

    return vstack(rows, format="csr"), labels


def fraction(name: str, value: Any) -> float:
    """``value`` as a float between 0 and 1, or OptionError."""
    if not (is_number(value) and 0 <= value <= 1):
        raise OptionError(f"{name} is {value!r}; give a fraction from 0 to 1, such as 0.1 for 10 %")
    return float(value)


def percent(name: str, value: Any) -> int:
    """The fraction ``value`` in whole per cent, the only ones MOA knows, or OptionError.

    >>> percent("noise", 0.29)
    29
    """
    exact = 100 * fraction(name, value)
    if abs(exact - round(exact)) > 1e-9:
        raise OptionError(f"{name} is {value!r}; MOA draws whole per cents: give a multiple of 0.01 from 0 to 1")
    return round(exact)


def _poisson_sizes(rate: float, seed: int) -> Iterator[int]:
    generator = np.random.default_rng(seed)
    while True:
        yield from generator.poisson(rate, size=1024).tolist()


def _brief(value: Any) -> str:
    """An argument in a repr; arrays by their shape."""
    return f"<{' x '.join(map(str, value.shape))}>" if hasattr(value, "shape") else repr(value)
