"""Boosted trees of LightGBM as a base learner, with sizes that need no tuning: the recommended learner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, csr_matrix

from driftsurf.core.contracts import Capabilities, Categories, FloatArray, Rows, SampleStore, Segment
from driftsurf.core.options import choice
from driftsurf.learners.foreign._base import FittedModel, Risk
from driftsurf.learners.foreign._boosted import INSTALL, lacks, lightgbm
from driftsurf.learners.foreign.sklearn import SklearnLearner
from driftsurf.registry import ALL_TASKS, CLASSIFICATION, REGRESSION, Example, register


class Size(NamedTuple):
    """Size of a model, and the largest number of rows it is fitted on."""

    trees: int
    leaves: int
    least: int
    """Smallest number of rows of a leaf, for a model that has seen few rows; it grows with them to ``GROWN_LEAF``."""
    rows: int


USUAL = Size(trees=50, leaves=31, least=5, rows=10_000)
"""With LightGBM's default of 20 rows per leaf, a model that has seen a small batch or two has no split at all."""
GROWN_LEAF = 20
"""LightGBM's default; a model of 1,000 rows or more with smaller leaves fits the noise."""
LEAVES_FED = 50
"""A leaf has at least one row in this many, between ``Size.least`` and ``GROWN_LEAF``."""
MOST_DENSE = 64
"""Sparse rows with no more columns than this, once their categories are codes, are made dense: few cells are zero."""
HISTOGRAMS = 128
"""Megabytes of histograms that LightGBM keeps. Those of a thousand columns fit; those of tens of thousands, which would
take several times as much, are computed again."""
MANY_CLASSES = Size(trees=20, leaves=15, least=20, rows=4_000)
"""A boosting round grows a tree for each class, so there are fewer rounds, smaller trees and fewer rows."""


@dataclass(frozen=True)
class CategoryColumns:
    """Replaces the columns of each category, of which one is 1 in each row, by a column of codes after all others."""

    categories: Categories
    n_features: int

    @property
    def coded(self) -> list[int]:
        """Numbers of the columns of codes."""
        return list(range(self.width - len(self.categories), self.width))

    @property
    def width(self) -> int:
        """Number of columns with codes in place of the categories."""
        return int(self._matrix.shape[1])

    @cached_property
    def _matrix(self) -> Any:
        """Matrix that rows are multiplied by; each product has one term, so that it is exact."""
        column = np.full(self.n_features, -1, np.int32)
        value = np.ones(self.n_features)
        for first, stop in self.categories:
            column[first:stop] = 0
            value[first:stop] = np.arange(stop - first)
        others = np.flatnonzero(column < 0)
        column[others] = np.arange(len(others))
        for place, (first, stop) in enumerate(self.categories):
            column[first:stop] = len(others) + place
        shape = self.n_features, len(others) + len(self.categories)
        each = np.arange(self.n_features, dtype=np.int32)
        return csr_array((value, (each, column)), shape=shape)

    def coded_rows(self, X: Any) -> Any:
        """Return rows, dense or CSR, with codes; they are dense if only few columns are left."""
        coded = X @ self._matrix
        return coded.toarray() if isinstance(X, csr_array) and coded.shape[1] <= MOST_DENSE else coded


@register(
    "learner",
    "lightgbm",
    title="LightGBM",
    tasks=ALL_TASKS,
    requires=["lightgbm"],
    install=INSTALL,
    lacks=lacks,
    task_options={"regression": {"task": "regression"}},
    draws=False,
    examples=[Example({}, "classes", CLASSIFICATION), Example({"task": "regression"}, "regression", REGRESSION)],
)
class BoostedTrees(SklearnLearner):
    """LightGBM, refitted at each step on the last rows of the model's own sample set.

    Two classes or regression: 50 trees of 31 leaves on the last 10,000 rows, and at least 20 rows per leaf; with fewer
    than 1,000 rows a leaf has at least 2 % of them, and never fewer than 5. More classes: 20 rounds of trees of 15
    leaves on the last 4,000 rows, and at least 20 per leaf. Columns need no scaling, and the same settings suit all
    streams; docs/evidence.md has the table. Text in a table becomes one categorical column of LightGBM, whose splits
    can group any words, instead of a column for each word. It uses one thread, so that models beside each other do not
    compete for cores. For other sizes use ``SklearnLearner(LGBMClassifier(...))``.

    Parameters
    ----------
    task
        "classification" or "regression".
    passes, risk
        As for :class:`driftsurf.learners.foreign.SklearnLearner`; a finite budget makes it wait between fits.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf import DriftSurfClassifier
    >>> from driftsurf.streams import SEA
    >>> model = DriftSurfClassifier(BoostedTrees(), random_state=0)
    >>> errors = [(model.test_then_train(X, y) != y).mean() for X, y in SEA(n_rows=2_000).batches(400)]
    >>> print(f"{np.mean(errors[1:]):.1f}")
    0.1
    """

    sizes: ClassVar[tuple[Size, Size]] = USUAL, MANY_CLASSES
    """Sizes for two classes or regression, and for more classes."""

    def __init__(
        self,
        *,
        task: Literal["classification", "regression"] = "classification",
        passes: float | None = None,
        risk: Risk = "auto",
    ) -> None:
        self.task = task
        choice("task", task, ("classification", "regression"))
        package = lightgbm()
        kind = package.LGBMRegressor if task == "regression" else package.LGBMClassifier
        # Otherwise it measures which histogram is faster, and equal runs may differ.
        same_twice = {"deterministic": True, "force_col_wise": True}
        template = kind(n_jobs=1, verbose=-1, histogram_pool_size=HISTOGRAMS, **same_twice, **self._settings())
        super().__init__(template, mode="refit", passes=passes, rows=self.sizes[0].rows, risk=risk)

    _categories: Categories = ()

    def _settings(self) -> Mapping[str, Any]:
        """Return further parameters of LightGBM."""
        return {}

    def _capabilities(self) -> Capabilities:
        return replace(super()._capabilities(), categories=True)

    def with_categories(self, categories: Categories) -> Self:
        """Return a template with the same parameters for rows with these categories."""
        template = type(self)(**self.get_params(deep=False))
        template._categories = categories
        return template

    def fresh(self, seed: int, n_features: int, n_classes: int) -> Self:
        """Return a new model; ``seed`` is not used, because this learner draws no random numbers."""
        model = super().fresh(seed, n_features, n_classes)
        model._categories = self._categories
        return model

    @classmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """Return the model that ``state()`` was called on; it is ready after ``refit``."""
        model = super().from_state(template, state)
        model._categories = template._categories
        return model

    @cached_property
    def _coding(self) -> CategoryColumns:
        return CategoryColumns(self._categories, self._fitted.n_features)

    @property
    def _width(self) -> int:
        """Number of columns of the rows that LightGBM gets."""
        return self._coding.width if self._categories else self._fitted.n_features

    def _learn(self, known: FittedModel, samples: SampleStore, new: Segment, steps: int) -> FittedModel:
        return self._refitted(replace(known, lo=max(known.lo, known.hi - self._size(known).rows)), samples, steps)

    def _new(self, known: FittedModel) -> Any:
        return super()._new(known).set_params(**self._chosen(known))

    def _chosen(self, known: FittedModel) -> dict[str, int]:
        """Return the parameters of LightGBM that depend on the rows of a fit."""
        assert known.fit is not None
        size, rows = self._size(known), known.fit.hi - known.fit.lo
        least = min(max(size.least, rows // LEAVES_FED), GROWN_LEAF)
        return {"n_estimators": size.trees, "num_leaves": size.leaves, "min_child_samples": least}

    def _fit(self, known: FittedModel, X: Any, y: npt.NDArray[Any], weights: Mapping[str, FloatArray]) -> Any:
        if not self._categories:
            return super()._fit(known, X, y, weights)
        coding = self._coding
        return self._new(known).fit(coding.coded_rows(X), y, categorical_feature=coding.coded, **weights)

    def _outputs(self, fitted: FittedModel, X: Rows) -> npt.NDArray[Any]:
        # Bypasses the scikit-learn interface of LightGBM, whose overhead exceeds the time of a small batch.
        matrix = self._matrix(X)
        if self._categories:
            matrix = self._coding.coded_rows(matrix)
        if not isinstance(matrix, np.ndarray):
            matrix = csr_matrix(matrix)  # it warns about csr_array
        return self._predicted(fitted.model, matrix)

    @staticmethod
    def _predicted(model: Any, matrix: Any) -> npt.NDArray[Any]:
        return np.asarray(model.booster_.predict(matrix, num_threads=1))

    def _size(self, fitted: FittedModel) -> Size:
        return self.sizes[fitted.n_classes > 2]
