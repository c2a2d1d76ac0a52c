"""Oblivious: one model trained on all rows, without any adaptation to drift."""

from __future__ import annotations

from typing import Any, NamedTuple

from driftsurf.core.abilities import ScoresReused, abilities_of
from driftsurf.core.changes import UndoStack, replace
from driftsurf.core.contracts import CSR, Batch, FloatArray, Segment
from driftsurf.core.decisions import Decision
from driftsurf.core.journal import Outcome
from driftsurf.learners._online import OnlineLearner
from driftsurf.native.linear import largest
from driftsurf.registry import ALL_TASKS, register
from driftsurf.strategies._base import make_decision
from driftsurf.strategies._pool import Member, risk
from driftsurf.strategies._single import SingleModel


@register("strategy", "oblivious", tasks=ALL_TASKS)
class Oblivious(SingleModel):
    """One model that is trained on all rows and never replaced.

    The paper's OBL: it shows how much an algorithm loses by not adapting. The paper trains it with SAGA, where every
    gradient is at a row drawn uniformly from the sample set (``LogisticRegression(optimizer="saga")``); any learner
    can be used.

    Parameters
    ----------
    learner
        Template of the model.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`. A bound on the rows forgets slowly; None stores all.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> strategy = Oblivious(LogisticRegression(optimizer="saga"))
    >>> strategy.begin(n_features=1, sparse=False, n_classes=2)
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> for sign in (1, 1, 1, -1):  # the labels are inverted at the end; it hardly adapts
    ...     decision = strategy.step(Batch(X, (sign * X[:, 0] > 0).astype(float), np.ones(100)))
    >>> bool(strategy.scores(np.array([[0.5]]))[0] > 0)
    True
    """

    def learned(self, batch: Batch, tested: FloatArray | None = None) -> Outcome:
        """Learn one batch as ``step`` does, and return what its decision is made of."""
        if not self._learns_at_once(batch):
            return super().learned(batch, tested)
        mark = self.mark()
        try:
            return self.learn_marked(batch, tested)
        except BaseException:
            self.put_back(mark)
            raise

    def learn_marked(self, batch: Batch, tested: FloatArray | None) -> Outcome:
        """Do what ``learned`` does for a caller who has made a mark, to which it returns after an error."""
        if not self._learns_at_once(batch):
            return super().learned(batch, tested)
        pool, live, count = self._stored_pool, self._stored_live, len(batch.y)
        model, rows = live.model, pool.samples
        learner: Any = model.learner
        segment = Segment(rows.next_row, rows.next_row + count)
        fits = tested is not None and tested.shape[1:] == ((pool.n_classes,) if pool.n_classes else ())
        scores = tested if fits else learner.scores(batch.X)
        before = risk(learner, batch, scores=scores)
        spent, gradients = learner.budget(segment), learner.gradients
        if isinstance(learner, OnlineLearner):  # it keeps no rows, so that they need not be stored
            learner.learn(batch, segment.hi, spent)
            rows.skip(count)
        else:
            rows.append(batch.X, batch.y, batch.weight)
            learner.set_scores(segment, scores)
            learner.update(rows, segment, spent)
            pool.cap(model, undo=UndoStack())
        after = model.after_batch(before)
        self._publish(replace(live, model=after, step=live.step + 1))
        if len(rows):  # they are released only now: an undone step still needs them
            pool.release(after)
        return Unchanged(after, live.step, segment, before, learner.gradients - gradients)

    def _learns_at_once(self, batch: Batch) -> bool:
        """Return whether the learner learns this batch from its rows and scores alone, without the generic step."""
        online = isinstance(self.learner, OnlineLearner)
        if not (online or ScoresReused in abilities_of(self.learner)) or type(self) is not Oblivious:
            return False
        pool = self._stored_pool
        rows, X = pool.samples, batch.X
        if isinstance(X, CSR) or rows.sparse or X.dtype != rows.dtype or (online and len(rows)):
            return False
        return not pool.grows or largest(batch.y) < pool.n_classes


class Unchanged(NamedTuple):
    """What a step leaves behind in which one model has learned."""

    model: Member
    step: int
    segment: Segment
    risk: float
    gradients: int
    transitions: int = 0
    switched: bool = False

    @property
    def rows_seen(self) -> int:
        """Number of rows up to and including this step."""
        return self.segment.hi

    def decision(self) -> Decision:
        """Return the decision."""
        record = self.model.record("predictive", self.step, risk_before=self.risk, gradients=self.gradients)
        return make_decision(self.step, self.segment, self.model, self.model, [record])
