"""A linear support vector machine with the squared hinge loss."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from driftsurf.core.contracts import Capabilities, FloatArray
from driftsurf.errors import CapabilityError
from driftsurf.learners._multi import MultiLearner
from driftsurf.native.linear import SQUARED_HINGE, output_losses
from driftsurf.registry import register


@register("learner", "svm", title="Linear SVM", tasks={"binary"})
class LinearSVM(MultiLearner):
    r"""Linear support vector machine with the squared hinge loss, for two classes.

    It minimises the mean of max(0, 1 - s w.x)^2 plus mu/2 w.w, where s is -1 or +1. Rows beyond the margin have no
    gradient. The square makes the loss smooth, as variance-reduced steps require. Scores are margins, not log-odds, so
    there are no probabilities.

    Parameters
    ----------
    optimizer, step_size, scale, l2, steps_per_row, steps_per_batch, fit_intercept, start
        As for :class:`driftsurf.learners.LogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.samples import Samples
    >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
    >>> samples = Samples(n_features=1)
    >>> new = samples.append(X, (X[:, 0] > 0).astype(float))
    >>> model = LinearSVM().fresh(seed=0, n_features=1, n_classes=2)
    >>> _ = model.update(samples, new, steps=2000)
    >>> bool(np.mean((model.scores(X) > 0) == (X[:, 0] > 0)) > 0.97)
    True
    """

    capabilities: Capabilities = Capabilities(linear=True, one_pass=True, quadratic_loss=True, probabilities=False)
    curvature: ClassVar[float] = 2.0
    kind: ClassVar[int] = SQUARED_HINGE

    def _outputs(self, n_classes: int) -> int | None:
        if n_classes != 2:
            raise CapabilityError(
                f"LinearSVM supports 2 classes, not {n_classes}; use a learner whose tasks include 'multiclass', such "
                "as SoftmaxRegression."
            )
        return 1

    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """Return the squared hinge loss of each row."""
        losses = np.empty(len(y))
        output_losses(scores, y, self.kind, 0.0, losses)
        return losses
