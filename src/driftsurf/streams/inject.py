"""Inject drift: functions that take a stream and return one that changes at known rows.

A stream can also be given as a pair of arrays ``(X, y)``. Positions count rows from 0; ``stop`` is the first row after
the change (None: there is none). Each change is a drift: one at ``start``, unless that is the first row, and one at
``stop``, unless that is the end. Sparse streams stay sparse: labels can be swapped and rows left out, but rows cannot
be changed or mixed.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.options import shown, whole
from driftsurf.errors import CapabilityError, OptionError
from driftsurf.streams.arrays import ArrayStream
from driftsurf.streams.base import Block, DriftSpan, Stream, block_sizes, fraction

StreamLike: TypeAlias = Stream | tuple[Any, npt.ArrayLike]
"""A stream, or rows and labels."""
Change: TypeAlias = Callable[[FloatArray, IntArray], None]
"""Changes rows and labels in place."""
Mask: TypeAlias = npt.NDArray[np.bool_]

_SIGMOID_LIMIT = 700.0
"""Largest exponent of the sigmoid: exp of more would overflow."""


def swap_labels(stream: StreamLike, start: int, stop: int | None = None) -> Stream:
    """Exchange the two labels in rows ``start`` to ``stop``: the most severe drift.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.streams import SEA, swap_labels
    >>> stream = swap_labels(SEA(n_rows=100), 40, 60)
    >>> before, after = SEA(n_rows=100).arrays()[1], stream.arrays()[1]
    >>> np.flatnonzero(before != after)[[0, -1]]
    array([40, 59])
    >>> stream.drift_steps(10)
    (2, 4, 5, 6, 7)
    """

    def change(X: FloatArray, y: IntArray) -> None:
        np.negative(y, out=y)

    return _Changed(_labelled(stream, "swap_labels"), start, stop, change, "swap_labels", "")


def rotate(
    stream: StreamLike,
    start: int,
    stop: int | None = None,
    *,
    columns: tuple[int, int] = (0, 1),
    angle: float = math.pi,
) -> Stream:
    """Rotate rows ``start`` to ``stop`` around the origin, in the plane of two columns.

    Parameters
    ----------
    stream, start, stop
        The stream, and the rows that change.
    columns
        The two columns (a, b) of the plane.
    angle
        Angle in radians, from a towards b.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.streams import rotate
    >>> X, y = rotate(([[1.0, 0.0], [1.0, 0.0]], [1, -1]), 1, angle=np.pi / 2).arrays()
    >>> np.round(X)
    array([[1., 0.],
           [0., 1.]])
    """
    source = _dense(stream, "rotate")
    if not (isinstance(columns, Sequence) and len(columns) == 2 and columns[0] != columns[1]):
        raise OptionError(f"columns must be two different column numbers, such as (0, 1); got {shown(columns)}")
    a, b = _columns(columns, source.n_features)
    cosine, sine = math.cos(_finite("angle", angle)), math.sin(angle)

    def change(X: FloatArray, y: IntArray) -> None:
        old_a, old_b = X[:, a].copy(), X[:, b].copy()
        X[:, a] = cosine * old_a - sine * old_b
        X[:, b] = sine * old_a + cosine * old_b

    return _Changed(source, start, stop, change, "rotate", f", columns={columns!r}, angle={angle!r}")


def shift_features(
    stream: StreamLike,
    start: int,
    stop: int | None = None,
    *,
    columns: Sequence[int] | None = None,
    by: float = 1.0,
) -> Stream:
    """Add a constant to columns of rows ``start`` to ``stop``, as when a sensor is moved.

    Parameters
    ----------
    stream, start, stop
        The stream, and the rows that change.
    columns
        The columns; None for all.
    by
        The constant that is added.

    Examples
    --------
    >>> from driftsurf.streams import shift_features
    >>> X, y = shift_features(([[0.0, 0.0]] * 3, [1, -1, 1]), 1, 2, columns=[1], by=5).arrays()
    >>> X[:, 1]
    array([0., 5., 0.])
    """
    source = _dense(stream, "shift_features")
    chosen = _columns(range(source.n_features) if columns is None else columns, source.n_features)
    _finite("by", by)

    def change(X: FloatArray, y: IntArray) -> None:
        X[:, chosen] += by

    return _Changed(source, start, stop, change, "shift_features", f", columns={columns!r}, by={by!r}")


def change_prior(
    stream: StreamLike, start: int, stop: int | None = None, *, positive: float = 0.5, seed: int = 0
) -> Stream:
    """Drop rows of one class between ``start`` and ``stop``, so that the share of +1 becomes ``positive``.

    The other rows stay unchanged and in order: of the class that has too many rows, just enough are dropped at random.
    The stream becomes shorter, and later drifts come earlier. Counting the classes takes one pass over the stream,
    which is made at once.

    Parameters
    ----------
    stream, start, stop
        The stream, and the rows between which rows are dropped.
    positive
        Share of +1 to reach, up to rounding to a row.
    seed
        Seed of the choice of rows to drop.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.streams import SEA, change_prior
    >>> stream = change_prior(SEA(n_rows=1_000), 500, positive=0.2)
    >>> X, y = stream.arrays()
    >>> len(y), round(float(np.mean(y[:500] == 1)), 2), round(float(np.mean(y[500:] == 1)), 2)
    (814, 0.5, 0.2)
    """
    return _Thinned(stream, start, stop, positive, seed)


def mix(first: StreamLike, second: StreamLike, *, position: int, width: int, seed: int = 0) -> Stream:
    """Change from one stream to another along a sigmoid.

    Row t (from 1) comes from ``second`` with probability 1 / (1 + exp(-4 (t - position) / width)), otherwise from
    ``first``. Each stream advances only when a row is taken from it, as in MOA's ConceptDriftStream. The mixture ends
    when a row is to be taken from a stream that has none left. Its drift is ``width`` rows wide around ``position``,
    and abrupt if ``width`` is 1; the drifts of the two streams move with their rows.

    Parameters
    ----------
    first, second
        The streams, which have the same number of columns.
    position
        The row at which both streams are equally likely.
    width
        Number of rows of the change; the steepness of the sigmoid is 4 / width.
    seed
        Seed of the choices between the two streams.

    Examples
    --------
    >>> from driftsurf.streams import mix
    >>> zeros, ones = ([[0.0]] * 300, [-1] * 300), ([[1.0]] * 300, [1] * 300)
    >>> stream = mix(zeros, ones, position=200, width=100)
    >>> [round(float(X.mean()), 2) for X, y in stream.batches(50)]
    [0.0, 0.0, 0.06, 0.22, 0.72, 0.92, 0.98, 1.0, 1.0, 1.0, 1.0]
    >>> stream.drifts
    (DriftSpan(start=150, end=250),)
    """
    return _Mixture(first, second, position, width, seed)


class _Changed(Stream):
    """A stream with ``change`` applied to copies of the rows ``start`` to ``stop``."""

    name: str
    n_rows: int
    n_features: int
    sparse: bool
    drifts: tuple[DriftSpan, ...]

    def __init__(
        self, stream: StreamLike, start: int, stop: int | None, change: Change, call: str, options: str
    ) -> None:
        self.source = _as_stream(stream)
        self.classes = self.source.classes
        self.start, self.stop = _interval(start, stop, self.source.n_rows)
        self.change = change
        self.name = f"{self.source.name}+{call}"
        self.n_rows = self.source.n_rows
        self.n_features = self.source.n_features
        self.sparse = self.source.sparse
        self.drifts = _with_interval(self.source.drifts, self.start, self.stop, self.n_rows)
        self._call, self._options = call, options

    def blocks(self) -> Iterator[Block]:
        for X, y, inside, _ in _parts(self.source, self.start, self.stop):
            if inside.start < inside.stop:
                X, y = X.copy(), y.copy()
                self.change(X[inside], y[inside])
            yield X, y

    def __repr__(self) -> str:
        return f"{self._call}({self.source!r}, {self.start}, {self.stop}{self._options})"


class _Thinned(Stream):
    """A stream without some rows of one class in an interval."""

    name: str
    n_rows: int
    n_features: int
    sparse: bool
    drifts: tuple[DriftSpan, ...]

    def __init__(self, stream: StreamLike, start: int, stop: int | None, positive: float, seed: int) -> None:
        self.source = _labelled(stream, "change_prior")
        self.start, self.stop = _interval(start, stop, self.source.n_rows)
        self.positive = fraction("positive", positive)
        self.seed = whole("seed", seed, at_least=0, at_most=None)
        self.name = f"{self.source.name}+change_prior"
        self.n_features = self.source.n_features
        self.sparse = self.source.sparse
        self._kept = self._choose()
        self.n_rows = self._place(self.source.n_rows)
        moved = tuple(DriftSpan(self._place(d.start), self._place(d.end)) for d in self.source.drifts)
        self.drifts = _with_interval(moved, self.start, self._place(self.stop), self.n_rows)

    def _choose(self) -> Mask:
        """Return which rows of the interval are kept."""
        is_positive = np.empty(self.stop - self.start, dtype=bool)
        for _, y, inside, of_interval in _parts(self.source, self.start, self.stop):
            is_positive[of_interval] = y[inside] == 1
        positives = int(is_positive.sum())
        negatives = len(is_positive) - positives
        share = self.positive
        if (share > 0 and positives == 0) or (share < 1 and negatives == 0):
            missing = "+1" if positives == 0 else "-1"
            raise OptionError(
                f"positive cannot be {share!r}: rows {self.start} to {self.stop} have no label {missing}. Use a longer "
                "interval or another share"
            )
        too_many_positives = positives * (1 - share) > negatives * share
        if too_many_positives:
            thinned, wanted = is_positive, round(negatives * share / (1 - share))
        else:
            thinned, wanted = ~is_positive, round(positives * (1 - share) / share) if share else negatives
        kept = ~thinned
        kept[np.random.default_rng(self.seed).permutation(np.flatnonzero(thinned))[:wanted]] = True
        return kept

    def _place(self, row: int) -> int:
        """Return the new number of row ``row`` of the source."""
        inside = min(max(row - self.start, 0), len(self._kept))
        return row - int(np.count_nonzero(~self._kept[:inside]))

    def blocks(self) -> Iterator[Block]:
        for X, y, inside, of_interval in _parts(self.source, self.start, self.stop):
            kept = np.ones(len(y), dtype=bool)
            kept[inside] = self._kept[of_interval]
            if kept.any():
                yield X[kept], y[kept]

    def __repr__(self) -> str:
        options = f"positive={self.positive!r}, seed={self.seed!r}"
        return f"change_prior({self.source!r}, {self.start}, {self.stop}, {options})"


class _Mixture(Stream):
    """A stream that changes from one stream to another."""

    name: str
    n_rows: int
    n_features: int
    drifts: tuple[DriftSpan, ...]

    def __init__(self, first: StreamLike, second: StreamLike, position: int, width: int, seed: int) -> None:
        self.first, self.second = _dense(first, "mix"), _dense(second, "mix")
        self.position = whole("position", position, at_least=0)
        self.width = whole("width", width, at_least=1)
        self.seed = whole("seed", seed, at_least=0, at_most=None)
        if self.first.n_features != self.second.n_features:
            raise OptionError(
                f"the streams must have the same number of columns; got {self.first.n_features} and "
                f"{self.second.n_features}"
            )
        if self.first.classes != self.second.classes:
            raise OptionError(
                "the streams must both have classes or both be for regression; got "
                f"{self.first.name} and {self.second.name}"
            )
        self.classes = self.first.classes
        self.name = f"{self.first.name}~{self.second.name}"
        self.n_features = self.first.n_features
        self.n_rows = sum(map(len, self._choices()))
        half = self.width // 2
        own = DriftSpan(max(self.position - half, 0), self.position + half)
        inherited = [
            *_moved(self.first.drifts, self._choices()),
            *_moved(self.second.drifts, (~choice for choice in self._choices())),
        ]
        found = (DriftSpan(d.start, min(d.end, self.n_rows)) for d in [own, *inherited] if d.start < self.n_rows)
        self.drifts = tuple(sorted(set(found)))

    def _choices(self) -> Iterator[Mask]:
        """Yield masks that are true for rows of ``first``, up to the last row of the mixture."""
        generator = np.random.default_rng(self.seed)
        left = np.array([self.second.n_rows, self.first.n_rows])
        at = 0
        for size in block_sizes(self.first.n_rows + self.second.n_rows):
            t = np.arange(at + 1, at + size + 1)
            exponent = np.clip(-4.0 * (t - self.position) / self.width, -_SIGMOID_LIMIT, _SIGMOID_LIMIT)
            from_first = generator.random(size) > 1.0 / (1.0 + np.exp(exponent))
            too_many = (np.cumsum(from_first) > left[1]) | (np.cumsum(~from_first) > left[0])
            if too_many.any():
                yield from_first[: too_many.argmax()]
                return
            yield from_first
            taken = np.count_nonzero(from_first)
            left -= (size - taken, taken)
            at += size

    def blocks(self) -> Iterator[Block]:
        first = self.first.portions(int(np.count_nonzero(choice)) for choice in self._choices())
        second = self.second.portions(int(np.count_nonzero(~choice)) for choice in self._choices())
        for from_first in self._choices():
            X = np.empty((len(from_first), self.n_features))
            y = self._labels(len(from_first))
            for portions, rows in ((first, from_first), (second, ~from_first)):
                if rows.any():  # portions of 0 rows are skipped
                    X[rows], y[rows] = next(portions)
            if len(y):
                yield X, y

    def __repr__(self) -> str:
        options = f"position={self.position}, width={self.width}, seed={self.seed}"
        return f"mix({self.first!r}, {self.second!r}, {options})"


def _as_stream(source: StreamLike) -> Stream:
    if isinstance(source, Stream):
        return source
    if isinstance(source, tuple) and len(source) == 2:
        return ArrayStream(*source)
    raise OptionError(f"stream must be a Stream or a pair of arrays (X, y); got a {type(source).__name__}")


def _labelled(source: StreamLike, call: str) -> Stream:
    """Return the stream; CapabilityError if it is for regression."""
    stream = _as_stream(source)
    if not stream.classes:
        raise CapabilityError(
            f"{call} changes labels, but {stream.name!r} is for regression; use rotate, shift_features or mix"
        )
    return stream


def _dense(source: StreamLike, call: str) -> Stream:
    stream = _as_stream(source)
    if stream.sparse:
        raise CapabilityError(
            f"{call} changes rows, but those of {stream.name!r} are sparse; use a dense stream, or swap_labels or "
            "change_prior"
        )
    return stream


def _interval(start: int, stop: int | None, n_rows: int) -> tuple[int, int]:
    first = whole("start", start, at_least=0)
    end = n_rows if stop is None else whole("stop", stop, at_least=0)
    if not first < end <= n_rows:
        raise OptionError(f"the rows must satisfy 0 <= start < stop <= {n_rows}; got {shown(start)} and {shown(stop)}")
    return first, end


def _parts(stream: Stream, start: int, stop: int) -> Iterator[tuple[Any, IntArray, slice, slice]]:
    """Yield the blocks of a stream, with the place of rows ``start`` to ``stop`` in the block and among these rows."""
    at = 0
    for X, y in stream.blocks():
        low, high = (min(max(row - at, 0), len(y)) for row in (start, stop))
        yield X, y, slice(low, high), slice(at + low - start, at + high - start)
        at += len(y)


def _with_interval(drifts: Iterable[DriftSpan], start: int, stop: int, n_rows: int) -> tuple[DriftSpan, ...]:
    """Return ``drifts`` and those at the ends of an interval that are inside of the stream."""
    own = (DriftSpan(row, row) for row in (start, stop) if 0 < row < n_rows)
    return tuple(sorted({*drifts, *own}))


def _moved(drifts: Iterable[DriftSpan], masks: Iterable[Mask]) -> Iterator[DriftSpan]:
    """Yield the drifts of a stream at the new places of its rows, which are the true entries of the masks."""
    places: dict[int, int] = {}
    wanted = {row for drift in drifts for row in (drift.start, drift.end)}
    at = used = 0
    for mask in masks:
        rows = np.flatnonzero(mask)
        places |= {row: at + int(rows[row - used]) for row in wanted if used <= row < used + len(rows)}
        at, used = at + len(mask), used + len(rows)
    for drift in drifts:
        if drift.start in places:
            yield DriftSpan(places[drift.start], places.get(drift.end, at))


def _columns(columns: Iterable[int], n_features: int) -> list[int]:
    chosen = list(columns)
    for column in chosen:
        if whole("column", column, at_least=0) >= n_features:
            raise OptionError(f"column must be from 0 to {n_features - 1}; got {shown(column)}")
    return chosen


def _finite(name: str, value: Any) -> float:
    if not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise OptionError(f"{name} must be a finite number; got {shown(value)}")
    return float(value)
