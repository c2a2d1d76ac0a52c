"""Rows that are already in memory, as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from driftsurf.errors import LabelError, NonFiniteError, OptionError, ShapeError, ValueTypeError
from driftsurf.streams.base import Block, Drift, Stream, block_sizes


class ArrayStream(Stream):
    """A stream over arrays, in the order of their rows.

    Parameters
    ----------
    X
        Rows of numbers, without a constant column.
    y
        Labels -1 and +1.
    drifts
        Where the rows drift, if known.
    name
        What tables and figures call it.

    Notes
    -----
    Arrays of float64 and int64 are not copied; blocks and batches are read-only views of them.

    Examples
    --------
    >>> stream = ArrayStream([[0.0], [1.0], [2.0]], [-1, 1, 1], name="tiny")
    >>> [(float(x[0]), y) for x, y in stream]
    [(0.0, -1), (1.0, 1), (2.0, 1)]
    """

    name: str
    drifts: tuple[Drift, ...]

    def __init__(
        self, X: npt.ArrayLike, y: npt.ArrayLike, *, drifts: Sequence[Drift] = (), name: str = "arrays"
    ) -> None:
        try:
            self.X = np.ascontiguousarray(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            message = f"X cannot be read as numbers ({error}); give a dense array, text columns encoded"
            raise ValueTypeError(message) from error
        labels = np.asarray(y)
        self.drifts = tuple(drifts)
        self.name = name
        self._check(labels)
        self.y = np.ascontiguousarray(labels, dtype=np.int64)

    def _check(self, labels: npt.NDArray[np.generic]) -> None:
        if self.X.ndim != 2 or 0 in self.X.shape:
            raise ShapeError(f"X has shape {self.X.shape}; give at least one row and one column, (rows, columns)")
        if labels.shape != self.X.shape[:1]:
            raise ShapeError(f"y has shape {labels.shape} for {len(self.X)} rows; give one label per row")
        bad = ~np.isfinite(self.X).all(axis=1)
        if bad.any():
            raise NonFiniteError(f"row {bad.argmax()} of X holds NaN or infinity; drop or fill such rows")
        unknown = ~np.isin(labels, self.classes)
        if unknown.any():
            label = labels[unknown.argmax()]
            remedy = "give numpy.where(y == positive, 1, -1)"
            raise LabelError(f"label {label!r} in row {unknown.argmax()} of y; choices: -1, 1; {remedy}")
        for drift in self.drifts:
            if drift.end > len(self.X):
                raise OptionError(f"{drift} lies beyond the {len(self.X)} rows; give positions up to there")

    @property
    def n_rows(self) -> int:
        """Rows of X."""
        return len(self.X)

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return int(self.X.shape[1])

    def blocks(self) -> Iterator[Block]:
        """Views of the arrays."""
        X, y = self.X.view(), self.y.view()
        X.flags.writeable = y.flags.writeable = False
        at = 0
        for size in block_sizes(self.n_rows):
            yield X[at : at + size], y[at : at + size]
            at += size
