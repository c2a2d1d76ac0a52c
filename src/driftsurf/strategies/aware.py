"""Aware: the oracle that is told when drifts occur."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from driftsurf._options import whole
from driftsurf.base import Batch, Decision, FloatArray, Learner, Rows, State, Transition
from driftsurf.state import nest, pick
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, Member, Pool

__all__ = ["Aware"]


class Aware:
    """One model, replaced by a fresh one at each drift, before the first batch of the new concept.

    What it reaches is what an algorithm that is not told can hope for: the paper calls an algorithm
    risk-competitive if its sub-optimality is within a constant factor of this one's. With no drift
    steps it is a single model trained on everything.

    Parameters
    ----------
    learner
        The template of all models.
    drift_steps
        The steps (from 0) whose batch is predicted and learnt by a fresh model.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.learners import LogisticRegression
    >>> strategy = Aware(LogisticRegression(), drift_steps=[2])
    >>> strategy.begin(n_features=1, sparse=False, n_classes=2)
    >>> batch = Batch(np.ones((5, 1)), np.ones(5), np.ones(5))
    >>> [strategy.step(batch).predicted_by for _ in range(4)]
    [0, 0, 1, 1]
    """

    def __init__(
        self,
        learner: Learner,
        drift_steps: Collection[int] = (),
        *,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        self.learner = learner
        self.drift_steps = drift_steps
        self.max_rows = max_rows
        self.dtype = dtype
        self.seed = seed

    def check(self) -> None:
        """Raise OptionError if an option cannot be used."""
        for step in self.drift_steps:
            whole("drift_steps", step, at_least=0)
        self._new_pool().check()

    def begin(self, n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Make the store and the first model."""
        self._pool = self._new_pool()
        self._pool.begin(n_features, sparse=sparse, n_classes=n_classes)
        self._publish(self._pool.make(step=0, first_row=0), 0)

    def _new_pool(self) -> Pool:
        return Pool(self.learner, seed=self.seed, max_rows=self.max_rows, dtype=self.dtype)

    def scores(self, X: Rows) -> FloatArray:
        """The scores of the current model, as the last whole step left it."""
        return self._scorer(X)

    def _publish(self, model: Member, step: int) -> None:
        self._model, self._step, self._scorer = model, step, model.learner.scorer()

    def step(self, batch: Batch) -> Decision:
        """Learn one batch; make a fresh model if the next step is told to be a drift."""
        step, model = self._step, self._model
        transitions: tuple[Transition, ...] = ()
        with contextlib.ExitStack() as undo:
            undo.callback(self._publish, model, step)
            segment = self._pool.admit(batch, undo)
            before = self._pool.risk(model, segment)
            met = model.met(before)
            spent = self._pool.train(met, segment, self.learner.budget(segment), undo)
            after = met
            if step + 1 in self.drift_steps:
                after = self._pool.make(step + 1, segment.hi)
                transitions = (Transition("reset", step + 1, old=model.id, new=after.id),)
            self._pool.cap(after, undo=undo)
            record = met.record("predictive", step, risk_before=before, gradients=spent)
            decision = Decision(
                step=step,
                first_row=segment.lo,
                rows=len(segment),
                state="stable",
                predicted_by=model.id,
                trained_from=model.first_row,
                predicts_next=after.id,
                models=(record,),
                transitions=transitions,
            )
            self._publish(after, step + 1)
            undo.pop_all()
        self._pool.release(after)
        return decision

    @property
    def nbytes(self) -> int:
        """Bytes held for rows and models."""
        return self._pool.nbytes(self._model)

    def state(self) -> State:
        """Everything that learning changes."""
        own: State = {"step": self._step}
        return own | nest("pool", self._pool.state()) | nest("model", self._model.state())

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        self._pool = self._new_pool()
        self._pool.restore(pick("pool", state))
        self._publish(self._pool.restore_member(pick("model", state)), int(state["step"]))

    _pool: Pool
    _model: Member
    _step: int
    _scorer: Callable[[Rows], FloatArray]
