"""PERM: a permutation test tells whether the order of the rows matters; if it does, a fresh model starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from driftsurf.core.contracts import Batch, IntArray, Learner, Segment, State, gathered
from driftsurf.core.fields import Fields, Whole
from driftsurf.core.numeric import derive
from driftsurf.core.options import number, whole
from driftsurf.core.samples import Samples
from driftsurf.errors import OptionError
from driftsurf.native.linear import fill_uniform
from driftsurf.registry import ALL_TASKS, Example, register
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, risk
from driftsurf.strategies._single import Single, SingleModel

TESTS = 2**63
"""Child of the seed that tests draw from; no model has this number."""


@register(
    "strategy",
    "perm",
    tasks=ALL_TASKS,
    family="detector",
    draws=True,
    examples=[Example({"window": 100, "permutations": 4, "significance": 0.25})],
)
class PERM(SingleModel):
    r"""PERM: a permutation test on the risk before each batch; on a drift a fresh model learns the batch.

    The test uses the last rows before the batch and the batch itself. R_ord is the risk on the batch of a model trained
    on the rows before it; R_1 ... R_P are the risks when the same rows are first shuffled and then split in the same
    place. Without drift the order does not matter and R_ord is like the others, so

    .. math:: p = \frac{1 + \#\{j : R_j \ge R_{ord}\}}{P + 1}

    is the probability of a risk as high. A drift is signalled if p <= significance. A fresh model is not tested in its
    first batch.

    A test trains up to P + 1 models on at most ``window`` rows, each within the learner's own budget for that many. It
    stops as soon as p can only be too large: without drift, after about log P models with the defaults. The attribute
    :attr:`test_gradients` counts the gradients that tests cost.

    Parameters
    ----------
    learner
        Template of all models, those of the tests included.
    window
        The largest number of rows before the batch that a test uses.
    permutations
        P. At least 1 / significance - 1 are needed to signal at all.
    significance
        Probability of a false alarm in each batch.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`. The draws of a test depend on the seed and the step alone.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> rng = np.random.default_rng(0)
    >>> from driftsurf.learners import LogisticRegression
    >>> strategy = PERM(LogisticRegression(), window=500, seed=1)
    >>> strategy.begin(n_features=2, sparse=False, n_classes=2)
    >>> for step in range(20):  # the labels are inverted from step 10 on
    ...     X = rng.normal(size=(100, 2))
    ...     y = ((X[:, 0] > 0) == (step < 10)).astype(float)
    ...     for transition in strategy.step(Batch(X, y, np.ones(100))).transitions:
    ...         print(transition.describe())
    step 10: the order of the rows matters (p <= 0.01): started a fresh model

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
        """Gradients spent on tests so far."""
        return int(self._live.memory)

    def _check(self) -> None:
        whole("window", self.window, at_least=1)
        whole("permutations", self.permutations, at_least=1)
        number("significance", self.significance, above=0.0, below=1.0)
        if 1.0 / (1 + self.permutations) > self.significance:
            raise OptionError(
                f"permutations is {self.permutations!r}, so p is never below {1.0 / (1 + self.permutations):g}; a "
                f"significance of {self.significance:g} needs more permutations"
            )

    def first_memory(self) -> int:
        """Return the gradients that tests have cost."""
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

    def _cost_of_watching(self, before: int, after: int) -> int:
        return after - before

    def _test(self, rows: Batch, held_out: int, key: int) -> tuple[bool, int]:
        """Return whether p <= significance, and the gradients spent."""
        order = np.arange(len(rows.y))
        ordered, spent = self._split(rows, order, held_out, derive(key, 0))
        words = np.empty(len(order))
        as_high = 0
        for j in range(self.permutations):
            fill_uniform(words, key, j * len(words))
            shuffled, cost = self._split(rows, np.argsort(words, kind="stable"), held_out, derive(key, 1 + j))
            spent += cost
            as_high += not shuffled < ordered  # NaN is no evidence for a drift
            if (1 + as_high) / (1 + self.permutations) > self.significance:
                return False, spent
        return True, spent

    def _split(self, rows: Batch, order: IntArray, held_out: int, seed: int) -> tuple[float, int]:
        """Return the risk on the last rows of a model trained on the others, and the gradients spent."""
        own = self._pool.samples
        samples = Samples(own.n_features, sparse=own.sparse, dtype=own.dtype)
        samples.append(gathered(rows.X, order), rows.y[order], rows.weight[order])
        learner = self._pool.template.fresh(seed, own.n_features, self._pool.n_classes)
        given = Segment(0, len(order) - held_out)
        learner.update(samples, given, learner.budget(given))
        return risk(learner, samples.view(Segment(given.hi, len(order)))), learner.gradients

    def memory_state(self, memory: int) -> State:
        """Return the gradients that tests have cost, as a state."""
        return {"test_gradients": memory}

    def memory_from(self, state: Mapping[str, Any]) -> int:
        """Return the saved number of gradients."""
        return int(MEMORY_FIELDS.read(state)["test_gradients"])


MEMORY_FIELDS = Fields({"test_gradients": Whole()})
"""Saved number of gradients that tests have cost."""
