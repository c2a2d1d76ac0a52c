"""What strategies share: the options, the step that is whole or not at all, the saved state."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from driftsurf.base import Batch, Capabilities, FloatArray, Learner, Parts, Rows, Segment, State
from driftsurf.decisions import Decision, Transition
from driftsurf.errors import CapabilityError, OptionError, StateError
from driftsurf.state import nest, pick, resolved
from driftsurf.strategies._pool import Member, Pool

Scorer = Callable[[Rows], FloatArray]


class LiveState(Protocol):
    """Everything that a step replaces, as one frozen value."""

    @property
    def step(self) -> int:
        """The time step to come."""
        ...

    @property
    def members(self) -> tuple[Member, ...]:
        """All models."""
        ...

    @property
    def predictor(self) -> Member | None:
        """The model that predicts the next batch, if it is one."""
        ...


L = TypeVar("L", bound=LiveState)


class PooledStrategy(ABC, Generic[L]):
    """A strategy over a pool of models. A subclass says how it begins, advances and is saved.

    ``_advance`` may change models (each change goes on the undo stack) but not ``self``; what it
    returns is published at the end, when nothing can fail any more.
    """

    learner: Learner
    max_rows: int | None
    dtype: str
    seed: int

    @abstractmethod
    def _check(self) -> None:
        """Raise OptionError if an option of its own cannot be used."""

    @abstractmethod
    def _first(self) -> L:
        """What is there before the first batch."""

    @abstractmethod
    def _advance(self, live: L, segment: Segment, undo: contextlib.ExitStack) -> tuple[L, Decision]:
        """Learn the rows of ``segment``."""

    @abstractmethod
    def _saved(self, live: L) -> State:
        """``live`` as a flat dictionary."""

    @abstractmethod
    def _loaded(self, state: Mapping[str, Any]) -> L:
        """The value that ``_saved`` gave."""

    def _scoring(self, live: L) -> Scorer:
        """How the next batch is predicted, as the models are now."""
        assert live.predictor is not None
        return live.predictor.learner.scorer()

    def _keep(self, live: L) -> int | None:
        """The oldest row that the strategy itself needs, beside its models."""
        return None

    def _learning(self, live: L) -> tuple[Member, ...]:
        """The models that will learn on; others are retired and need no rows."""
        return live.members

    # -------------------------------------------------------------------- the contract of a strategy

    def check(self) -> None:
        """Raise OptionError if an option cannot be used."""
        if not hasattr(self.learner, "capabilities"):
            raise OptionError(f"learner is {self.learner!r}, which does not meet driftsurf.base.Learner")
        self._check()
        self._new_pool().check()

    def begin(self, n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Make the store and the first models."""
        self._pool = self._new_pool()
        self._pool.begin(n_features, sparse=sparse, n_classes=n_classes)
        self._publish(self._first())

    @property
    def predicting(self) -> Learner | None:
        """The model that predicts now; None where several vote."""
        return None if self._live.predictor is None else self._live.predictor.learner

    def scores(self, X: Rows) -> FloatArray:
        """The scores for rows to come, as the last whole step left the models."""
        return self._scorer(X)

    def test_scores(self, batch: Batch) -> FloatArray:
        """The scores by which a batch is judged before it is learnt."""
        return self._scorer(batch.X)

    def step(self, batch: Batch, tested: FloatArray | None = None) -> Decision:
        """Learn one batch. An error leaves everything as it was."""
        with contextlib.ExitStack() as undo:
            undo.callback(self._publish, self._live)  # runs last, when the models are as they were
            segment = self._pool.admit(batch, undo)
            if self._pool.grows:
                self._pool.grow(batch, self._live.members, undo)
            self._pool.tested(self._live.predictor, segment, tested)
            after, decision = self._advance(self._live, segment, undo)
            learning = self._learning(after)
            self._pool.cap(*learning, undo=undo)
            self._publish(after)
            undo.pop_all()
        self._pool.release(*learning, keep=self._keep(after))
        return decision

    @property
    def nbytes(self) -> int:
        """Bytes held for rows and models."""
        return self._pool.nbytes(*self._live.members)

    def state(self) -> State:
        """Everything that learning changes, as views that hold until the next step."""
        return resolved(self.parts())

    def parts(self) -> Parts:
        """The same, with what grows with the rows as ``Growing``."""
        own: Parts = {"strategy": type(self).__name__}
        return own | self._saved(self._live) | nest("pool", self._pool.parts())

    def renew(self, why: str) -> Transition:
        """Begin anew with fresh models and none of the rows so far, because somebody asks for it."""
        old, made = self._live, self._pool.made
        self._pool.restart(old.step)
        live: L = replace(self._first(), step=old.step)  # type: ignore[type-var]  # every live state is a dataclass
        self._publish(live)
        self._pool.release(*self._learning(live), keep=self._keep(live))
        before = old.members[0].id if old.members else -1
        return Transition("reset", old.step, old=before, new=made, why=why)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        saved = state.get("strategy", type(self).__name__)  # the first saved states do not name it
        if saved != type(self).__name__:
            raise StateError(f"the saved state is that of a {saved}, not of a {type(self).__name__}")
        self._pool = self._new_pool()
        self._pool.restore(pick("pool", state))
        self._publish(self._loaded(state))

    def _new_pool(self) -> Pool:
        return Pool(self._template(), seed=self.seed, max_rows=self.max_rows, dtype=self.dtype)

    @property
    def _can(self) -> Capabilities:
        """What the models can do: asked once, for a foreign learner may look it up in many places."""
        return self._pool.capabilities if hasattr(self, "_pool") else self.learner.capabilities

    def _check_classes(self) -> None:
        """CapabilityError unless the learner tells classes apart: then there are right and wrong predictions."""
        if self._can.values:
            raise CapabilityError(
                "the learner predicts values (its only task is 'regression'), and the strategy counts wrong "
                "predictions; use a learner of classes, or a strategy that compares risks, such as DriftSurf"
            )

    def _template(self) -> Learner:
        """What models are made after: the learner, or the learner turned to the strategy's purpose."""
        return self.learner

    def _publish(self, live: L) -> None:
        self._live, self._scorer = live, self._scoring(live)

    _pool: Pool
    _live: L
    _scorer: Scorer
