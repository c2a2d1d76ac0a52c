"""Nearest centroid: predict the class whose mean is nearest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from driftsurf.core.contracts import CSR, Capabilities, FloatArray, Rows, SampleStore, Segment, State, Undo
from driftsurf.core.options import number
from driftsurf.errors import CapabilityError, StateError
from driftsurf.registry import CLASSIFICATION, register


@register("learner", "centroid", title="Nearest centroid", tasks=CLASSIFICATION)
class NearestCentroid:
    """Classifier by the distance to the mean of each class, for any number of classes.

    The log-probability of a class falls with the squared distance to its mean. The means are updated with every row,
    so there is nothing to tune but ``scale``.

    Parameters
    ----------
    scale
        Distance at which the probability of a class is clearly smaller than that of a class at distance 0.
    """

    capabilities: Capabilities = Capabilities(tasks=CLASSIFICATION, sparse=False, weights=True, grows_classes=True)

    def __init__(self, *, scale: float = 1.0) -> None:
        self.scale = scale

    def __repr__(self) -> str:
        return f"NearestCentroid(scale={self.scale})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {"scale": self.scale}

    def fresh(self, seed: int, n_features: int, n_classes: int) -> Self:
        """Return a new model; it draws no random numbers, so that the seed does not matter."""
        if n_classes < 2:
            raise CapabilityError(f"NearestCentroid is for two or more classes, not for n_classes={n_classes}")
        number("scale", self.scale, above=0.0)
        made = type(self)(scale=self.scale)
        made._sums, made._weights = np.zeros((n_classes, n_features)), np.zeros(n_classes)
        made._rows, made._learned = (0, 0), 0
        return made

    _sums: FloatArray
    """Weighted sum of the rows of each class."""
    _weights: FloatArray
    """Sum of the weights of the rows of each class."""
    _rows: tuple[int, int]
    """Row numbers of the training set."""
    _learned: int
    """Number of rows ever learned."""

    def budget(self, new: Segment) -> int:
        """Return the number of new rows: each is visited once."""
        return len(new)

    def update(self, samples: SampleStore, new: Segment, steps: int) -> Undo:
        """Add the new rows to the means."""
        undo = self._undo()
        first = self._rows[0] if self._learned else new.lo
        self._add(samples, new, 1.0)
        self._rows, self._learned = (first, new.hi), self._learned + len(new)
        return undo

    def forget(self, samples: SampleStore, before_row: int) -> Undo:
        """Remove the rows before ``before_row`` from the means."""
        undo = self._undo()
        first, last = self._rows
        if first < before_row:
            self._add(samples, Segment(first, min(before_row, last)), -1.0)
            self._rows = max(first, min(before_row, last)), last
        return undo

    def _add(self, samples: SampleStore, segment: Segment, sign: float) -> None:
        """Add rows to the sums, or remove them. The arrays are replaced, never changed: a scorer may hold them."""
        batch = samples.view(segment)
        assert not isinstance(batch.X, CSR)  # the capability 'sparse' is false
        codes = batch.y.astype(np.int64)
        sums, weights = self._sums.copy(), self._weights.copy()
        np.add.at(sums, codes, sign * batch.weight[:, None] * batch.X)
        np.add.at(weights, codes, sign * batch.weight)
        self._sums, self._weights = sums, weights

    def _undo(self) -> Undo:
        before = self._sums, self._weights, self._rows, self._learned

        def undo() -> None:
            self._sums, self._weights, self._rows, self._learned = before

        return undo

    def scores(self, X: Rows) -> FloatArray:
        """Return log-probabilities, one column for each class."""
        return self.scorer()(X)

    def scorer(self) -> Callable[[Rows], FloatArray]:
        """Return the scoring function of the model as it is now."""
        known = self._weights > 1e-9
        means = self._sums / np.where(known, self._weights, 1.0)[:, None]
        scale = self.scale

        def scores(X: Rows) -> FloatArray:
            assert not isinstance(X, CSR)
            squares = np.square(X[:, None, :].astype(np.float64) - means).sum(axis=2)
            # A class without rows is as far away as the farthest class that has some.
            farthest = squares[:, known].max(axis=1, initial=0.0)
            logits = -np.where(known, squares, farthest[:, None]) / scale**2
            return np.asarray(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))

        return scores

    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """Return the log loss of each row."""
        return np.asarray(-scores[np.arange(len(y)), y.astype(np.int64)])

    def penalty(self) -> float:
        """Return 0: the means are not regularised."""
        return 0.0

    def needs(self) -> int | None:
        """Return the first row of the training set; ``forget`` reads it again."""
        return self._rows[0] if self._learned else None

    def grow(self, n_classes: int) -> Undo:
        """Make room for more classes."""
        undo = self._undo()
        more = n_classes - len(self._weights)
        self._sums = np.vstack([self._sums, np.zeros((more, self._sums.shape[1]))])
        self._weights = np.append(self._weights, np.zeros(more))
        return undo

    @property
    def gradients(self) -> int:
        """Number of rows that were visited."""
        return self._learned

    @property
    def nbytes(self) -> int:
        """Bytes of the means."""
        return self._sums.nbytes + self._weights.nbytes

    def state(self) -> State:
        """Return everything that changes while learning."""
        first, last = self._rows
        return {
            "sums": self._sums,
            "weights": self._weights,
            "first_row": first,
            "next_row": last,
            "learned": self._learned,
        }

    @classmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """Return the model that ``state()`` was called on."""
        sums, weights = np.array(state["sums"], np.float64), np.array(state["weights"], np.float64)
        if sums.ndim != 2 or weights.shape != sums.shape[:1] or not np.isfinite(sums).all():
            raise StateError(f"the saved means have the shapes {sums.shape} and {weights.shape}")
        made = cls(**template.get_params())
        made._sums, made._weights = sums, weights
        made._rows = int(state["first_row"]), int(state["next_row"])
        made._learned = int(state["learned"])
        return made
