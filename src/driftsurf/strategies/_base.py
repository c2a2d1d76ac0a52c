"""Base class of all strategies: parameters, the all-or-nothing step, saved state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Generic, Protocol, Self, TypeVar

from driftsurf import registry
from driftsurf.core.abilities import check_contract
from driftsurf.core.changes import UndoStack
from driftsurf.core.contracts import Batch, Capabilities, FloatArray, IncrementalState, Learner, Rows, Segment, State
from driftsurf.core.decisions import Decision, ModelRecord, StateName, Transition
from driftsurf.core.fields import FieldEntry, FieldRule, Fields, Text, Whole, misfit
from driftsurf.core.options import Parameterised, parameter_names
from driftsurf.core.state import nest, pick, resolved
from driftsurf.errors import CapabilityError
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, Member, Pool

Scorer = Callable[[Rows], FloatArray]

NEEDED_FOR = {
    "weights": "learn with weighted rows; use one that can, such as LogisticRegression",
    "anchor": "pull its weights towards a given point; use a linear learner, such as LogisticRegression",
    "one_pass": "learn in one pass over the rows; use one that can, such as LogisticRegression",
    "exact_state": "be copied through its saved state; use a learner of driftsurf.learners",
}
"""What a learner without a capability cannot do, and which learner to use instead."""


NOTHING = Fields({})
"""Declaration of a part without entries."""


class LiveState(Protocol):
    """Everything that a step replaces, as one frozen value."""

    @property
    def step(self) -> int:
        """Number of the next time step."""
        ...

    @property
    def members(self) -> tuple[Member, ...]:
        """All models."""
        ...

    @property
    def predictor(self) -> Member | None:
        """Model that predicts the next batch; None if several models vote."""
        ...


L = TypeVar("L", bound=LiveState)


def declared(
    entries: Mapping[str, FieldEntry],
    *,
    optional: Iterable[str] = (),
    parts: Iterable[str] = (),
    rules: Iterable[FieldRule] = (),
) -> Fields:
    """Return the declaration of a strategy's state, with the entries that every strategy has.

    Rules may use the sizes ``first_row`` and ``next_row`` of the store.
    """
    every: dict[str, FieldEntry] = {"strategy": Text(), "step": Whole()}
    return Fields(every | dict(entries), optional=list(optional), parts=["pool", *parts], rules=list(rules))


def make_decision(
    step: int,
    segment: Segment,
    old: Member | None,
    new: Member | None,
    models: Iterable[ModelRecord],
    transitions: Iterable[Transition] = (),
    *,
    state: StateName = "stable",
    **details: Any,
) -> Decision:
    """Return the decision of a step: ``old`` predicted the batch, ``new`` predicts the next one; None if models vote.

    ``details`` are the fields of :class:`~driftsurf.core.decisions.Decision` that only some strategies have.
    """
    return Decision(
        step=step,
        first_row=segment.lo,
        rows=len(segment),
        state=state,
        predicted_by=-1 if old is None else old.id,
        trained_from=segment.lo if old is None else old.first_row,
        predicts_next=-1 if new is None else new.id,
        models=tuple(models),
        transitions=tuple(transitions),
        **details,
    )


def saved_class(strategy: Any) -> type:
    """Return the class under whose name the states of a strategy are saved.

    It is the class of the strategy, unless that declares a former one as ``_saved_as``. Subclasses do not inherit this.
    """
    kind = type(strategy)
    saved: type = vars(kind).get("_saved_as", kind)
    return saved


def saved_params(strategy: Any) -> dict[str, Any]:
    """Return the parameters of a strategy under the names that its saved class has for them."""
    kind: Any = saved_class(strategy)
    if kind is type(strategy):
        return dict(strategy.get_params(deep=False))
    return {name: getattr(strategy, name) for name in parameter_names(kind)}


class PooledStrategy(Parameterised, ABC, Generic[L]):
    """A strategy whose models share one pool of rows. A subclass defines how it begins, advances and is saved.

    ``_advance`` may change models (each change goes on the undo stack) but not ``self``; the value it returns is
    published at the end of the step, when nothing can fail any more.
    """

    _pool: Pool
    _live: L
    _scorer: Scorer

    def __init__(
        self,
        learner: Learner,
        *,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        self.learner = learner
        self.max_rows = max_rows
        self.dtype = dtype
        self.seed = seed

    # -------------------------------------------------------------------- defined by a subclass

    def _check(self) -> None:
        """Raise OptionError or CapabilityError if a parameter of the subclass is invalid."""

    @abstractmethod
    def _first(self) -> L:
        """Return the live state before the first batch."""

    @abstractmethod
    def _advance(self, live: L, segment: Segment, undo: UndoStack) -> tuple[L, Decision]:
        """Learn the rows of ``segment``; return the next live state and the decision."""

    @abstractmethod
    def _saved(self, live: L) -> State:
        """Return the live state as a flat dictionary."""

    @abstractmethod
    def _fields(self) -> Fields:
        """Return the declaration of what ``_saved`` writes, made by ``declared``."""

    @abstractmethod
    def _loaded(self, state: Mapping[str, Any], pool: Pool) -> L:
        """Return the live state that ``_saved`` wrote; its own entries have been checked."""

    def _scoring(self, live: L) -> Scorer:
        """Return the function that scores the next batch, with the models as they are now."""
        assert live.predictor is not None
        return live.predictor.learner.scorer()

    def _keep(self, live: L) -> int | None:
        """Return the oldest row that the strategy itself needs, in addition to its models."""
        return None

    def _learning(self, live: L) -> tuple[Member, ...]:
        """Return the models that will be trained again; retired models need no rows."""
        return live.members

    def _template(self) -> Learner:
        """Return the template of the models: the learner, or the learner adapted to the strategy."""
        return self.learner

    # -------------------------------------------------------------------- the contract of a strategy

    def check(self) -> None:
        """Raise OptionError or CapabilityError if a parameter is invalid."""
        check_contract(self.learner, Learner, "learner", "one of driftsurf.learners, such as LogisticRegression()")
        self._check()
        self._new_pool().check()

    def fresh(self, seed: int) -> Self:
        """Return a strategy with the same parameters and another seed, which has learned nothing."""
        return type(self)(**(self.get_params(deep=False) | {"seed": seed}))

    def begin(self, n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Create the store and the first models."""
        self._pool = self._new_pool()
        self._pool.begin(n_features, sparse=sparse, n_classes=n_classes)
        self._publish(self._first())

    @property
    def predicting(self) -> Learner | None:
        """Model that predicts now; None if several models vote."""
        return None if self._live.predictor is None else self._live.predictor.learner

    def scores(self, X: Rows) -> FloatArray:
        """Return the scores of new rows, by the models as the last complete step left them."""
        return self._scorer(X)

    def test_scores(self, batch: Batch) -> FloatArray:
        """Return the scores by which a batch is evaluated before it is learned."""
        return self._scorer(batch.X)

    def step(self, batch: Batch, tested: FloatArray | None = None) -> Decision:
        """Learn one batch. An error leaves everything as it was."""
        undo = UndoStack()
        try:
            # The first callback runs last, when the models are as they were: a scorer may hold what it read from them.
            undo.callback(self._publish, self._live)
            segment = self._pool.admit(batch, undo)
            if self._pool.grows and self._pool.grow(batch.y, self._live.members, undo):
                self._publish(self._live)  # its scores have a column for each class from now on
            self._pool.tested(self._live.predictor, segment, tested)
            after, decision = self._advance(self._live, segment, undo)
            learning = self._learning(after)
            self._pool.cap(*learning, undo=undo)
            self._publish(after)
        except BaseException:
            undo.close()
            raise
        # Rows are released only now: an undone step still needs them.
        self._pool.release(*learning, keep=self._keep(after))
        return decision

    def scorer(self) -> Scorer:
        """Return ``scores`` of the models as the last complete step left them; later steps do not affect it."""
        return self._scorer

    def mark(self) -> Any:
        """Return a mark of the models and their rows, for ``put_back``. The strategy has to have begun."""
        return vars(self).copy(), self._pool.mark(*self._live.members)

    def put_back(self, mark: Any) -> None:
        """Return to the marked models and rows, from any point of a step, a reset or a restore."""
        entries, pool = mark
        entries["_pool"].put_back(pool)
        vars(self).update(entries)

    @property
    def nbytes(self) -> int:
        """Bytes held for rows and models."""
        return self._pool.nbytes(*self._live.members)

    def reset(self, why: str) -> Transition:
        """Start over with fresh models and without any of the rows so far, at the request of a user."""
        old, made = self._live, self._pool.made
        self._pool.restart(old.step)
        live: L = replace(self._first(), step=old.step)  # type: ignore[type-var]  # every live state is a dataclass
        self._publish(live)
        self._pool.release(*self._learning(live), keep=self._keep(live))
        before = old.members[0].id if old.members else -1
        return Transition("reset", old.step, old=before, new=made, why=why)

    def state(self) -> State:
        """Return everything that learning changes, as views that are valid until the next step."""
        return resolved(self.incremental_state())

    def incremental_state(self) -> IncrementalState:
        """Return the entries of ``state()``, with arrays that grow with the rows as ``AppendOnlyArray``."""
        own: IncrementalState = {"strategy": saved_class(self).__name__}
        return own | self._saved(self._live) | nest("pool", self._pool.incremental_state())

    def restore(self, state: Mapping[str, Any], n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Take over a state that ``state()`` returned; StateError if it is not for rows of this shape."""
        name = saved_class(self).__name__
        if str(state.get("strategy")) != name:
            raise misfit(state, "strategy", f"is {state.get('strategy')!r}, not {name!r}")
        pool = self._new_pool()
        pool.restore(pick("pool", state), n_features, sparse=sparse, n_classes=n_classes)
        self._fields().read(state, first_row=pool.samples.first_row, next_row=pool.samples.next_row)
        live = self._loaded(state, pool)
        pool.check_learning(*self._learning(live))
        self._pool = pool
        self._publish(live)

    # -------------------------------------------------------------------- helpers

    def _new_pool(self) -> Pool:
        return Pool(self._template(), seed=self.seed, max_rows=self.max_rows, dtype=self.dtype)

    @property
    def _can(self) -> Capabilities:
        """Capabilities of the models, cached in the pool: a foreign learner may need long to work them out."""
        pool: Pool | None = vars(self).get("_pool")
        return self.learner.capabilities if pool is None else pool.capabilities

    def _require(self, capability: str) -> None:
        """Raise CapabilityError unless the learner has a capability."""
        if not getattr(self.learner.capabilities, capability):
            raise CapabilityError(
                f"the strategy {registry.name_of('strategy', self)} needs a learner with the capability "
                f"{capability!r}; the learner {registry.name_of('learner', self.learner)} cannot "
                f"{NEEDED_FOR[capability]}"
            )

    def _require_classes(self) -> None:
        """Raise CapabilityError unless the learner is a classifier, whose predictions are right or wrong."""
        if self._can.regression:
            raise CapabilityError(
                f"the strategy {registry.name_of('strategy', self)} counts wrong predictions, but the only task of the "
                f"learner {registry.name_of('learner', self.learner)} is 'regression'; use a classifier, or a strategy "
                "that compares risks, such as driftsurf"
            )

    def _publish(self, live: L) -> None:
        self._live, self._scorer = live, self._scoring(live)
