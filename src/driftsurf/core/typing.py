"""Types of what users pass in: rows, targets, weights, seeds and learners.

Rows are arrays, nested lists, pandas or polars frames, or SciPy sparse matrices; targets are one-dimensional. Frames
and sparse matrices are described by their methods, so that no frame library is imported.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import Detector, Learner
from driftsurf.core.frames import Frame, SparseMatrix


class Series(Protocol):
    """A column of a data frame."""

    def to_numpy(self) -> npt.NDArray[Any]:
        """Return the values as an array."""
        ...


class ScikitLearnModel(Protocol):
    """An estimator with scikit-learn's interface."""

    def fit(self, X: Any, y: Any, /) -> Any:
        """Learn rows and their targets."""
        ...

    def predict(self, X: Any, /) -> Any:
        """Return a prediction for each row."""
        ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments."""
        ...


class RiverModel(Protocol):
    """A model with river's interface."""

    def learn_one(self, x: Any, y: Any, /) -> Any:
        """Learn one row."""
        ...

    def predict_one(self, x: Any, /) -> Any:
        """Predict one row."""
        ...


class RiverDriftDetector(Protocol):
    """A drift detector with river's interface."""

    @property
    def drift_detected(self) -> bool:
        """Whether the last value gave a signal."""
        ...

    def update(self, x: Any, /) -> Any:
        """Take one value."""
        ...

    def clone(self) -> Any:
        """Return a new detector with the same parameters."""
        ...


if TYPE_CHECKING:

    class ScikitLearnBase:
        """Types of the base class of scikit-learn, which has no annotations."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the constructor's arguments by name."""
            ...

        def set_params(self, **params: Any) -> Self:
            """Change some of the constructor's arguments."""
            ...


MatrixLike: TypeAlias = npt.ArrayLike | Frame | SparseMatrix
"""Rows of numbers: a two-dimensional array, nested lists, a frame, or a sparse matrix."""
TargetLike: TypeAlias = npt.ArrayLike | Series
"""One label, number or weight for each row."""
TableLike: TypeAlias = MatrixLike | Mapping[str, Sequence[Any] | npt.NDArray[Any] | Series]
"""Rows of mixed columns (numbers, text, dates, missing cells): a frame, or a dictionary of columns."""
Classes: TypeAlias = Collection[Hashable] | npt.NDArray[Any]
"""Labels, without duplicates."""
RandomState: TypeAlias = int | np.integer[Any] | np.random.RandomState | None
"""A seed as in scikit-learn: an integer makes every run the same, None draws a new seed each time."""
LearnerLike: TypeAlias = Learner | ScikitLearnModel | RiverModel
"""What a strategy can be put around: a learner, or a model of scikit-learn or river, which is adapted."""
DetectorLike: TypeAlias = Detector | RiverDriftDetector
"""What can watch for drift: a detector, or one of river, which is adapted."""
