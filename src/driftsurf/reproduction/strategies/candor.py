"""Candor: one new expert per batch, pulled towards the ensemble it joins; votes that follow the losses row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftsurf.core import numeric
from driftsurf.core.changes import UndoStack, replace
from driftsurf.core.contracts import Batch, FloatArray, Learner, Segment
from driftsurf.core.decisions import Decision
from driftsurf.core.options import number, whole
from driftsurf.errors import CapabilityError
from driftsurf.native.experts import follow_losses
from driftsurf.registry import Example, register
from driftsurf.reproduction.strategies._ensemble import Ensemble, VotingStrategy
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, Member
from driftsurf.strategies._votes import log_odds, repeated


@register(
    "strategy", "candor", tasks={"binary"}, needs={"anchor"}, family="ensemble", examples=[Example({"experts": 3})]
)
class Candor(VotingStrategy):
    r"""Candor: each batch trains one expert, whose penalty pulls it towards the weighted sum of the others.

    The new expert starts from fresh weights and minimises the mean loss over its batch plus
    :math:`\frac{\mu}{2} \|w - w_p\|^2`, in place of the L2 penalty, where w_p is the sum of the experts' weight vectors
    under the weights of their votes at the end of this batch (0 for the first expert). If there are K experts, the
    oldest is removed.

    Within a batch the weights of the votes start equal and follow the losses row by row,

    .. math:: \beta_k \leftarrow \beta_k \exp(-\eta\, \ell_k(x, y)).

    So **the votes for row i depend on the labels of the rows before it in the same batch**, which holds for no other
    strategy here. ``test_scores`` does that; ``scores``, for rows without labels, is the vote with equal weights.

    Parameters
    ----------
    learner
        Template of all experts. It needs the capability ``anchor``.
    experts
        K, the largest number of experts.
    decay
        eta, the rate at which a loss lowers the weight of a vote.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> strategy = Candor(LogisticRegression(), seed=1)
    >>> strategy.begin(n_features=2, sparse=False, n_classes=2)
    >>> for step in range(6):  # the labels are inverted from step 3 on
    ...     X = rng.normal(size=(100, 2))
    ...     batch = Batch(X, ((X[:, 0] > 0) == (step < 3)).astype(float), np.ones(100))
    ...     wrong = np.mean((strategy.test_scores(batch) > 0) != batch.y)
    ...     decision = strategy.step(batch)
    >>> bool(wrong < 0.1), len(decision.models)
    (True, 6)

    References
    ----------
    P. Zhao, L.-W. Cai, Z.-H. Zhou. Handling concept drift via model reuse. Machine Learning, 2020.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        experts: int = 25,
        decay: float = 0.75,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.experts = experts
        self.decay = decay

    def _check(self) -> None:
        whole("experts", self.experts, at_least=1)
        number("decay", self.decay, at_least=0.0)
        self._require("anchor")

    def begin(self, n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Create the store; CapabilityError for more than two classes."""
        _check_classes(n_classes)
        super().begin(n_features, sparse=sparse, n_classes=n_classes)

    _tested: tuple[Ensemble, Batch, FloatArray] | None = None
    """Ensemble and batch of the last ``test_scores``, and the vote weights after it, for the step that learns it."""

    def test_scores(self, batch: Batch) -> FloatArray:
        """Return the scores of labelled rows, each by votes that depend on the labels of the rows before it."""
        scores, shares = self._follow(batch)
        self._tested = self._live, batch, shares
        return scores

    def step(self, batch: Batch, tested: FloatArray | None = None) -> Decision:
        """Learn one batch. An error leaves everything as it was."""
        _check_classes(int(batch.y.max(initial=0.0)) + 1)
        if self._tested is not None and (self._tested[0] is not self._live or self._tested[1] is not batch):
            self._tested = None
        return super().step(batch, tested)

    def mark(self) -> Any:
        """Return a mark of the models and their rows, for ``put_back``. The strategy has to have begun."""
        return vars(self).copy(), self._pool.mark()  # no expert ever changes once it has joined

    def _learning(self, live: Ensemble) -> tuple[Member, ...]:
        return ()

    def _follow(self, batch: Batch) -> tuple[FloatArray, FloatArray]:
        """Return the scores of the rows of a batch, and the weights of the votes after its last row."""
        experts = self._live.experts
        scores, logs = np.zeros(len(batch.y)), np.zeros(len(experts))
        if experts:
            margins = np.asarray(self._ballots(batch.X))
            losses = experts[0].learner.row_losses(margins.reshape(-1), repeated(batch.y, len(experts)))
            balance, logs = follow_losses(margins, losses.reshape(margins.shape), batch.weight, float(self.decay))
            scores = log_odds(balance)
        shares = numeric.exp(logs - logs.max(initial=0.0))
        return scores, shares / max(shares.sum(), 1.0)

    def _advance(self, live: Ensemble, segment: Segment, undo: UndoStack) -> tuple[Ensemble, Decision]:
        batch = self._pool.samples.view(segment)
        known, self._tested = self._tested, None
        shares = self._follow(batch)[1] if known is None else known[2]
        newcomer = self._pool.make(live.step, segment.lo)
        if live.experts:
            anchorable: Any = newcomer.learner  # checked: its learner has the capability 'anchor'
            models = [expert.learner for expert in live.experts]
            newcomer = replace(newcomer, learner=anchorable.anchored(models, shares))
        spent = self._pool.train(newcomer, segment, self.learner.budget(segment), undo)
        self._pool.retire(newcomer, undo=undo)
        experts = (*live.experts, newcomer)
        newest = experts[-int(self.experts) :]
        after = Ensemble(newest, (1.0 / len(newest),) * len(newest), live.step + 1)
        records = [e.record("expert", live.step, weight=w) for e, w in zip(live.experts, shares.tolist(), strict=True)]
        records.append(newcomer.record("expert", live.step, gradients=spent))
        return after, self._decision(live, after, segment, records)


def _check_classes(n_classes: int) -> None:
    if n_classes > 2:
        raise CapabilityError(
            f"Only binary classification is supported by Candor, whose models are pulled towards one weight vector; "
            f"there are {n_classes} classes. Merge classes, or use a strategy with the task 'multiclass', such as AUE"
        )
