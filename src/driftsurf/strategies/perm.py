"""PERM: a test by resampling says whether the order of the rows matters; if it does, a fresh model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from driftsurf import _kernels
from driftsurf._options import number, whole
from driftsurf._random import derive
from driftsurf.base import CSR, Batch, IntArray, Learner, Rows, Segment, State
from driftsurf.errors import OptionError
from driftsurf.samples import Samples
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, risk
from driftsurf.strategies._single import Single, SingleModel

__all__ = ["PERM"]

TESTS = 2**63
"""The child of the seed that tests draw from; no model ever has this number."""


class PERM(SingleModel):
    r"""Before a batch is learnt, a permutation test on the risk; on a drift a fresh model begins with it.

    The test takes the last rows before the batch and the batch itself. R_ord is the risk on the batch of a
    model trained on the rows before it; R_1 ... R_P are the risks if the same rows are first shuffled and then
    split in the same place. Without drift the order says nothing and R_ord is one of many alike, so

    .. math:: p = \frac{1 + \#\{j : R_j \ge R_{ord}\}}{P + 1}

    is the chance of a risk so high. A drift is signalled if p <= significance. A fresh model is not tested
    in its first batch.

    A test trains up to P + 1 models on at most ``window`` rows, each within the learner's own budget for
    so many. It ends as soon as p can only be too large: where nothing drifts, after about log P models
    with the defaults. What tests have cost is :attr:`test_gradients`; decisions count the model's own gradients.

    Parameters
    ----------
    learner
        The template of all models, and of those that a test trains.
    window
        The most rows before the batch that a test looks at.
    permutations
        P. It takes at least 1 / significance - 1 to signal at all.
    significance
        The chance of a false alarm, in each batch.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`. Draws of a test depend on the seed and the step alone.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> from driftsurf.learners import LogisticRegression
    >>> strategy = PERM(LogisticRegression(), window=500, seed=1)
    >>> strategy.begin(n_features=2, sparse=False, n_classes=2)
    >>> for step in range(20):  # the labels turn around at step 10
    ...     X = rng.normal(size=(100, 2))
    ...     y = ((X[:, 0] > 0) == (step < 10)).astype(float)
    ...     for transition in strategy.step(Batch(X, y, np.ones(100))).transitions:
    ...         print(transition.describe())
    step 10: the order of the rows matters (p <= 0.01): fresh model

    References
    ----------
    M. Harel, K. Crammer, R. El-Yaniv, S. Mannor. Concept drift detection through resampling. ICML 2014.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        window: int = 1_000,
        permutations: int = 99,
        significance: float = 0.01,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.window = window
        self.permutations = permutations
        self.significance = significance

    @property
    def test_gradients(self) -> int:
        """Gradients that tests have spent so far."""
        return int(self._live.memory)

    def _check(self) -> None:
        whole("window", self.window, at_least=1)
        whole("permutations", self.permutations, at_least=1)
        number("significance", self.significance, above=0.0, below=1.0)
        if 1.0 / (1 + self.permutations) > self.significance:
            raise OptionError(
                f"permutations is {self.permutations!r}, so that p is never below {1.0 / (1 + self.permutations):g}; "
                f"for a significance of {self.significance:g} give more of them"
            )

    def _memory(self) -> int:
        return 0

    def _keep(self, live: Single) -> int:
        cap = self.window if self._pool.max_rows is None else min(self.window, self._pool.max_rows)
        return max(live.model.first_row, self._pool.samples.next_row - cap)

    def _watch(self, live: Single, segment: Segment) -> tuple[str, int]:
        samples = self._pool.samples
        first = max(live.model.first_row, samples.first_row, segment.lo - self.window)
        if first == segment.lo:
            return "", live.memory
        key = derive(derive(self._pool.seed, TESTS), live.step)
        drift, spent = self._test(samples.view(Segment(first, segment.hi)), len(segment), key)
        why = f"the order of the rows matters (p <= {self.significance:g})" if drift else ""
        return why, live.memory + spent

    def _cost_of_looking(self, before: int, after: int) -> int:
        return after - before

    def _test(self, rows: Batch, held_out: int, key: int) -> tuple[bool, int]:
        """Whether p <= significance, and the gradients that it took to know."""
        order = np.arange(len(rows.y))
        ordered, spent = self._split(rows, order, held_out, derive(key, 0))
        words = np.empty(len(order))
        as_high = 0
        for j in range(self.permutations):
            _kernels.fill_uniform(words, key, j * len(words))
            shuffled, cost = self._split(rows, np.argsort(words, kind="stable"), held_out, derive(key, 1 + j))
            spent += cost
            as_high += not shuffled < ordered  # NaN, no evidence, is none for a drift
            if (1 + as_high) / (1 + self.permutations) > self.significance:
                return False, spent
        return True, spent

    def _split(self, rows: Batch, order: IntArray, held_out: int, seed: int) -> tuple[float, int]:
        """The risk on the last rows in this order of a model trained on the others, and the gradients spent."""
        own = self._pool.samples
        samples = Samples(own.n_features, sparse=own.sparse, dtype=own.dtype)
        samples.append(gathered(rows.X, order), rows.y[order], rows.weight[order])
        learner = self._pool.template.fresh(seed, own.n_features, self._pool.n_classes)
        given = Segment(0, len(order) - held_out)
        learner.update(samples, given, learner.budget(given))
        return risk(learner, samples.view(Segment(given.hi, len(order)))), learner.gradients

    def _memory_state(self, memory: int) -> State:
        return {"test_gradients": memory}

    def _memory_from(self, state: Mapping[str, Any]) -> int:
        return int(state["test_gradients"])


def gathered(X: Rows, order: IntArray) -> Rows:
    """The rows of X in another order."""
    if not isinstance(X, CSR):
        return X[order]
    starts, lengths = X.indptr[order], np.diff(X.indptr)[order]
    indptr = np.append(0, np.cumsum(lengths))
    taken = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
    return CSR(X.data[taken], X.indices[taken], indptr, X.n_features)
