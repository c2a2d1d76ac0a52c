"""The base class of streams: labelled rows in a fixed order, with known drifts."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from driftsurf.core.options import is_number, safe_repr, shown, whole
from driftsurf.errors import OptionError
from driftsurf.registry import register

BLOCK_ROWS = 65_536
"""Number of rows that are generated at a time: enough to hide Python's overhead, and few enough to hold in memory."""

Block: TypeAlias = tuple[Any, Any]
"""Rows without a constant column, and their labels -1 and +1 (int64) or their targets (float64) for regression. Rows
are a C-contiguous array of floats, or a scipy CSR matrix if the stream is sparse."""

StreamClass = TypeVar("StreamClass", bound=Callable[..., Any])


@runtime_checkable
class SupportsShape(Protocol):
    """An array or a matrix."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and columns."""
        ...


@dataclass(frozen=True, slots=True, order=True)
class DriftSpan:
    """A change of concept, which begins with row ``start`` and is complete with row ``end``.

    Parameters
    ----------
    start, end
        Numbers of rows, from 0. An abrupt drift has ``end == start``.

    Examples
    --------
    >>> from driftsurf.streams import DriftSpan
    >>> DriftSpan(40_000, 60_000).gradual, DriftSpan(25_000, 25_000).gradual
    (True, False)
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        whole("start", self.start, at_least=0)
        if whole("end", self.end, at_least=0) < self.start:
            raise OptionError(f"end must not be before start, which is {self.start!r}; got {shown(self.end)}")

    @property
    def gradual(self) -> bool:
        """Whether the old and the new concept overlap."""
        return self.end > self.start


Drift = DriftSpan  # former name, which a detected drift has too: driftsurf.core.drifts.Drift


class Stream(ABC):
    """Labelled rows in a fixed order. Every pass gives the same rows.

    A subclass stores its arguments and defines ``name``, ``n_rows``, ``n_features``, ``drifts`` and ``blocks()``.

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
    """The labels; empty for regression."""

    if TYPE_CHECKING:  # a subclass stores these or computes them

        @property
        def name(self) -> str:
            """What tables and figures call it."""

        @property
        def n_rows(self) -> int:
            """Number of rows."""

        @property
        def n_features(self) -> int:
            """Number of columns."""

        @property
        def drifts(self) -> tuple[DriftSpan, ...]:
            """Drifts in the order of their start."""

        @property
        def sparse(self) -> bool:
            """Whether rows are CSR matrices."""

    else:
        sparse = False

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Yield all rows from the first one on, in blocks of bounded size."""

    def batches(self, size: int) -> Iterator[Block]:
        """Yield batches of ``size`` rows; the last one may be smaller.

        Batches may share memory with the stream: copy before writing into them.
        """
        whole("size", size, at_least=1)
        return self.portions(repeat(size))

    def portions(self, sizes: Iterable[int]) -> Iterator[Block]:
        """Yield the rows cut into batches of these sizes. Sizes of 0 are skipped; the last batch may be smaller."""
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
        """Yield one row and its label at a time; a sparse row is a CSR matrix of one row."""
        for X, y in self.blocks():
            each = (X[i : i + 1] for i in range(len(y))) if self.sparse else X
            yield from zip(each, y.tolist(), strict=True)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self.rows()

    def arrays(self) -> Block:
        """Return all rows and labels."""
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
        """Return the time steps at which an oracle resets its model, for batches of ``batch_size`` rows.

        These are the batch in which a drift begins and, if it is gradual, the batch in which it ends. The first batch,
        and changes after the last row, do not count.

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


def register_stream(
    name: str,
    description: str,
    *,
    tasks: Iterable[str] = ("binary",),
    table_row: int | None = None,
    paper_settings: tuple[float, float] | None = None,
    published: bool = False,
    **options: Any,
) -> Callable[[StreamClass], StreamClass]:
    """Register the decorated class under a name, which stands for these options of its constructor.

    Parameters
    ----------
    name
        What the command line and :func:`driftsurf.data.catalogue.get` call it.
    description
        One line for tables.
    tasks
        "binary", "multiclass" or "regression".
    table_row
        Row of the paper's tables, from 1, for a stream of the paper.
    paper_settings
        Step size and L2 regularisation of the paper's learner on this stream.
    published
        Whether the paper's authors published the rows as a file, which is used where it is found.
    options
        Arguments of the constructor.
    """
    details: dict[str, Any] = {"description": description, "published": published, "paper_settings": paper_settings}
    if table_row is not None:
        details["table_row"] = table_row
    return register("stream", name, tasks=tasks, options=options, **details)


def block_sizes(n_rows: int) -> Iterator[int]:
    """Yield the sizes of the blocks in which ``n_rows`` rows are generated.

    >>> list(block_sizes(100_000))
    [65536, 34464]
    """
    for first in range(0, n_rows, BLOCK_ROWS):
        yield min(BLOCK_ROWS, n_rows - first)


def stacked(blocks: Sequence[Block]) -> Block:
    """Concatenate blocks, which are all dense or all sparse."""
    rows, labels = [X for X, _ in blocks], np.concatenate([y for _, y in blocks])
    if isinstance(rows[0], np.ndarray):
        return np.concatenate(rows), labels
    from scipy.sparse import vstack

    return vstack(rows, format="csr"), labels


def fraction(name: str, value: Any) -> float:
    """Return ``value`` as a float; raise OptionError unless it is from 0 to 1."""
    if not (is_number(value) and 0 <= value <= 1):
        raise OptionError(f"{name} must be a fraction from 0 to 1, such as 0.1 for 10 %; got {shown(value)}")
    return float(value)


def percent(name: str, value: Any) -> int:
    """Return a fraction in per cent; raise OptionError unless that is an integer, because MOA draws integers only.

    >>> percent("noise", 0.29)
    29
    """
    exact = 100 * fraction(name, value)
    if abs(exact - round(exact)) > 1e-9:
        raise OptionError(f"{name} must be a multiple of 0.01 from 0 to 1, as in MOA; got {shown(value)}")
    return round(exact)


def _brief(value: Any) -> str:
    """Return an argument as it appears in a repr; arrays and matrices by their shape."""
    return f"<{' x '.join(map(str, value.shape))}>" if isinstance(value, SupportsShape) else safe_repr(value)
