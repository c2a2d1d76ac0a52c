"""Boosted trees of LightGBM as a base learner, with sizes that need no tuning: the recommended learner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from driftsurf._options import choice
from driftsurf.adapters._foreign import Fitted, Risk, extra
from driftsurf.adapters.sklearn import SklearnLearner
from driftsurf.base import CSR, Rows, SampleStore, Segment

__all__ = ["BoostedTrees"]


class Size(NamedTuple):
    """How large a model is, and how many rows it is fitted on at most."""

    trees: int
    leaves: int
    least: int
    """Rows of a leaf, at least."""
    rows: int


USUAL = Size(trees=50, leaves=31, least=5, rows=10_000)
"""LightGBM's own 20 rows of a leaf leave a model that has seen a small batch or two without a single split."""
MANY_CLASSES = Size(trees=20, leaves=15, least=20, rows=4_000)
"""A round of boosting grows a tree for each class, so there are fewer and smaller ones, on fewer rows."""


class BoostedTrees(SklearnLearner):
    """LightGBM, fitted anew at each step on the last rows of the model's own sample set.

    Two classes or values: 50 trees of 31 leaves on the last 10,000 rows, at least 5 of them to a leaf; more classes:
    20 rounds of trees of 15 leaves on the last 4,000, at least 20 to a leaf. Columns need no scaling and no two streams
    other settings; docs/comparing.md has the table. One thread, so that models beside each other do not fight for
    cores. For other sizes use ``SklearnLearner(LGBMClassifier(...))``.

    It needs the extra ``lightgbm``.

    Parameters
    ----------
    task
        "classification" or "regression".
    passes, risk
        As for :class:`driftsurf.adapters.SklearnLearner`: a budget makes it wait between fits.
    """

    def __init__(
        self,
        *,
        task: Literal["classification", "regression"] = "classification",
        passes: float | None = None,
        risk: Risk = "auto",
    ) -> None:
        self.task = task
        choice("task", task, ("classification", "regression"))
        package = extra("lightgbm", "lightgbm")
        kind = package.LGBMRegressor if task == "regression" else package.LGBMClassifier
        # Else it tries out which histogram is faster, and equal runs might differ.
        same_twice = {"deterministic": True, "force_col_wise": True}
        template = kind(n_jobs=1, verbose=-1, **same_twice)
        super().__init__(template, mode="refit", passes=passes, rows=USUAL.rows, risk=risk)

    def _learnt(self, known: Fitted, samples: SampleStore, new: Segment, steps: int) -> Fitted:
        return self._refitted(replace(known, lo=max(known.lo, known.hi - _size(known).rows)), samples, steps)

    def _new(self, known: Fitted) -> Any:
        size = _size(known)
        chosen = {"n_estimators": size.trees, "num_leaves": size.leaves, "min_child_samples": size.least}
        return super()._new(known).set_params(**chosen)

    def _outputs(self, fitted: Fitted, X: Rows) -> npt.NDArray[Any]:
        # Past the scikit-learn face of LightGBM, which takes longer than small batches do.
        matrix = csr_matrix(self._matrix(X)) if isinstance(X, CSR) else X  # it warns of a csr_array
        found = np.asarray(fitted.model.booster_.predict(matrix, num_threads=1))
        return found if not fitted.n_classes or found.ndim == 2 else np.column_stack([1.0 - found, found])


def _size(fitted: Fitted) -> Size:
    return MANY_CLASSES if fitted.n_classes > 2 else USUAL
