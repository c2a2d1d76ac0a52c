"""Pool: the sample store and the numbered models of a strategy, their training and their risks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from driftsurf.core.abilities import (
    Copied,
    IncrementallySaved,
    JointlyTrained,
    Refittable,
    Reversible,
    RowsChecked,
    ScoresReused,
    ShapeChecked,
    abilities_of,
)
from driftsurf.core.changes import UndoStack, replace
from driftsurf.core.contracts import (
    Batch,
    Capabilities,
    FloatArray,
    IncrementalState,
    Learner,
    SampleStore,
    Segment,
    State,
)
from driftsurf.core.decisions import ModelRecord, Role
from driftsurf.core.fields import Fields, Real, Whole, misfit
from driftsurf.core.numeric import derive
from driftsurf.core.options import choice, whole
from driftsurf.core.samples import Samples
from driftsurf.core.state import name_in, nest, pick
from driftsurf.errors import StateError
from driftsurf.native.linear import largest, weighted_sum
from driftsurf.native.rule import reference_risk
from driftsurf.strategies._votes import JointScorer, joint_scorer, row_errors

BudgetRule = Literal["each", "divided"]
RiskName = Literal["loss", "zero-one"]
DEFAULT_MAX_ROWS = 100_000
FIELDS = Fields({"made": Whole(), "seed": Whole(0, 2**256), "n_classes": Whole(0, "known_classes")}, parts=["samples"])
"""Saved entries of a pool."""
MEMBER_FIELDS = Fields(
    {
        "id": Whole(0, "made-1"),
        "born": Whole(0, "step"),
        "first_row": Whole(0, "next_row"),
        "best_risk": Real(finite=False),
    },
    parts=["learner"],
)
"""Saved entries of a model of a pool."""


@dataclass(frozen=True)
class Member:
    """A model of a strategy: its learner and what the strategy records about it."""

    id: int
    learner: Learner
    born: int
    """Step at which the model was made."""
    first_row: int
    """First row that the model is trained on."""
    best_risk: float = math.inf
    """R_b: lowest, or usual, risk so far on a batch that the model had not learned yet."""

    def after_batch(self, risk: float, step: int = 0, *, noisy: bool = False) -> Member:
        """Return the model with R_b updated by its risk on the batch of this step; NaN is no evidence."""
        best = reference_risk(self.best_risk, risk, step - self.born, noisy)
        return self if best == self.best_risk else replace(self, best_risk=best)

    def record(
        self,
        role: Role,
        step: int,
        *,
        risk_before: float | None = None,
        risk_after: float | None = None,
        risk_reactive: float | None = None,
        gradients: int = 0,
        weight: float | None = None,
    ) -> ModelRecord:
        """Return the entry of the model in the journal."""
        best = None if self.best_risk == math.inf else self.best_risk
        who = role, self.id, step - self.born, self.first_row
        return ModelRecord(*who, risk_before, risk_after, risk_reactive, best, gradients, weight)

    def state(self) -> State:
        """Return the state, without the template; growing arrays are ``AppendOnlyArray`` if the learner can."""
        own: State = {
            "id": self.id,
            "born": self.born,
            "first_row": self.first_row,
            "best_risk": self.best_risk,
        }
        learner: Any = self.learner
        incremental = IncrementallySaved in abilities_of(learner)
        return own | nest("learner", learner.incremental_state() if incremental else learner.state())


class Pool:
    """Rows, and models made from one template. Model i draws its random numbers from the i-th child of ``seed``.

    A method that changes something takes an undo stack and pushes its undo onto it.
    """

    def __init__(
        self, learner: Learner, *, seed: int, max_rows: int | None, dtype: str, risk: RiskName = "loss"
    ) -> None:
        self.template = learner
        self.capabilities: Capabilities = learner.capabilities
        self.grows: bool = "multiclass" in self.capabilities.tasks
        self._risk = risk
        self._abilities = abilities_of(learner)
        self._reversible = Reversible in self._abilities
        self.seed: int = seed
        self.max_rows: int | None = (
            None if max_rows is None else whole("max_rows", max_rows, at_least=1, otherwise=", or None")
        )
        self.dtype = dtype
        self.made: int = 0
        self.n_classes: int = self.capabilities.min_classes
        self._from_step = self._from_row = 0
        self.samples: Samples
        self._tested: tuple[Learner, Segment, FloatArray] | None = None

    def check(self) -> None:
        """Raise OptionError if a parameter of the strategy or of the learner is invalid."""
        choice("dtype", self.dtype, ("float64", "float32"))
        self.seed = whole("seed", self.seed, at_least=0, at_most=None)
        self.template.fresh(seed=0, n_features=1, n_classes=self.n_classes)

    def begin(self, n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Create an empty store."""
        self.n_classes = n_classes
        self.samples = Samples(n_features, sparse=sparse, dtype=self.dtype)

    def make(self, step: int, first_row: int) -> Member:
        """Return a fresh model with the next number; undoing ``admit`` gives the number back."""
        learner = self.untrained(derive(self.seed, self.made))
        self.made += 1
        return Member(self.made - 1, learner, max(step, self._from_step), max(first_row, self._from_row))

    def restart(self, step: int) -> None:
        """Let no later model start before ``step`` and the next row, even if ``make`` is called with earlier ones."""
        self._from_step, self._from_row = step, self.samples.next_row

    def untrained(self, seed: int = 0) -> Learner:
        """Return an untrained model for these rows and classes that is not a member."""
        return self.template.fresh(seed, self.samples.n_features, self.n_classes)

    def admit(self, batch: Batch, undo: UndoStack) -> Segment:
        """Append a batch to the store; return its row numbers."""
        # With the number, a repeated step also draws the same random numbers: they derive from seed and number.
        undo.callback(setattr, self, "made", self.made)
        undo.callback(self.samples.truncate, self.samples.next_row)
        return self.samples.append(batch.X, batch.y, batch.weight)

    def grow(self, y: FloatArray, members: tuple[Member, ...], undo: UndoStack) -> bool:
        """Make room in all models for classes that first appear in a batch with these codes; return whether any do."""
        known = int(largest(y)) + 1
        if known <= self.n_classes:
            return False
        undo.callback(setattr, self, "n_classes", self.n_classes)
        for member in members:
            undo.callback(member.learner.grow(n_classes=known))
        self.n_classes = known
        return True

    def tested(self, member: Member | None, segment: Segment, scores: FloatArray | None) -> None:
        """Remember the scores that a model gave for new rows, until a model learns, so that ``risk`` reuses them."""
        self._tested = None
        # Scores with fewer columns were computed before the batch brought a new class: they cannot be compared with its
        # codes.
        known = () if self.n_classes <= 2 else None
        if member is not None and scores is not None and scores.shape[1:] in (known, (self.n_classes,)):
            self._tested = member.learner, segment, scores

    def train(
        self,
        member: Member,
        segment: Segment,
        steps: int,
        undo: UndoStack,
        *,
        seen_as: SampleStore | None = None,
    ) -> int:
        """Update one model; return the gradients spent. ``seen_as`` is a view of the rows with other weights."""
        return self.train_all((member,), segment, (steps,), undo, seen_as=seen_as)[0]

    def train_all(
        self,
        members: Sequence[Member],
        segment: Segment,
        steps: Sequence[int],
        undo: UndoStack,
        *,
        seen_as: SampleStore | None = None,
    ) -> list[int]:
        """Update several models, in one call if their learner supports it; return the gradients of each."""
        tested, self._tested = self._tested, None
        store = self.samples if seen_as is None else seen_as
        learners = [member.learner for member in members]
        spent = [learner.gradients for learner in learners]
        segments = [self._unseen(member, segment) for member in members]
        if JointlyTrained in self._abilities and len(learners) > 1:
            kind: Any = type(learners[0])
            undo.callback(kind.update_all(learners, store, segments, steps))
        else:
            for learner, new, count in zip(learners, segments, steps, strict=True):
                if ScoresReused in self._abilities:
                    reusing: Any = learner
                    known = tested is not None and tested[0] is learner and tested[1] == new
                    reusing.set_scores(new, tested[2] if tested is not None and known else None)
                undo.callback(learner.update(store, new, count))
        return [learner.gradients - before for learner, before in zip(learners, spent, strict=True)]

    def _unseen(self, member: Member, segment: Segment) -> Segment:
        """Return the rows up to the end of ``segment`` that a model has not seen, also those since it was made."""
        if member.learner.needs() is not None:
            return segment
        # A model may be made before its first update (``first_row`` in an earlier batch): then it starts there.
        return Segment(max(member.first_row, self.samples.first_row), segment.hi)

    def risk(self, member: Member, *segments: Segment) -> float:
        """Return the risk of a model over stored rows."""
        known = self._known_scores(member, *segments)
        return risk(member.learner, *map(self.samples.view, segments), name=self._risk, scores=known)

    def scores(self, member: Member, segment: Segment) -> FloatArray:
        """Return the scores of a model for stored rows."""
        known = self._known_scores(member, segment)
        return member.learner.scores(self.samples.view(segment).X) if known is None else known

    def joint_scorer(self, members: Sequence[Member]) -> JointScorer:
        """Return a function that scores rows with each model as it is now, in order."""
        return joint_scorer([member.learner for member in members])

    def _known_scores(self, member: Member, *segments: Segment) -> FloatArray | None:
        tested = self._tested
        if tested is None or tested[0] is not member.learner or segments != tested[1:2]:
            return None
        return tested[2]

    def copy_all(self, members: Sequence[Member], step: int) -> list[Member]:
        """Return copies of models, their random states included, with the next numbers."""
        return [self.copy(member, step) for member in members]

    def copy(self, member: Member, step: int) -> Member:
        """Return a copy of a model, its random state included, with the next number."""
        known: Any = member.learner
        learner = known.copied() if Copied in self._abilities else self._load(known.state())
        self.made += 1
        return Member(self.made - 1, learner, step, member.first_row)

    def retire(self, *members: Member, undo: UndoStack) -> None:
        """Drop the rows of models that keep voting but will not learn again."""
        self.forget(members, self.samples.next_row, undo)

    def forget(self, members: Sequence[Member], before_row: int, undo: UndoStack) -> None:
        """Drop the rows before number ``before_row`` from the sample sets of models."""
        for member in members:
            undo.callback(member.learner.forget(self.samples, before_row))

    def cap(self, *members: Member, undo: UndoStack) -> None:
        """Drop the oldest rows beyond ``max_rows`` from the sample set of every model."""
        if self.max_rows is not None and len(self.samples) > self.max_rows:
            self.forget(members, self.samples.next_row - self.max_rows, undo)

    def release(self, *members: Member, keep: int | None = None) -> None:
        """Free the rows that neither a model nor the strategy (from ``keep`` on) needs."""
        floor = 0 if self.max_rows is None else self.samples.next_row - self.max_rows
        needed = [self.samples.next_row if keep is None else keep]
        for member in members:
            oldest = member.learner.needs()
            needed.append(max(member.first_row, floor) if oldest is None else oldest)
        self.samples.release(min(needed))

    def mark(self, *members: Member) -> Any:
        """Return a mark of the rows and of these models, for ``put_back``."""
        learners: list[Any] = [member.learner for member in members] if self._reversible else []
        return vars(self).copy(), self.samples.mark(), [(learner, learner.mark()) for learner in learners]

    def put_back(self, mark: Any) -> None:
        """Return to the marked rows and models, from any point of a step.

        A learner that is not reversible is as its own undo has left it.
        """
        entries, rows, learners = mark
        entries["samples"].put_back(rows)
        for learner, place in learners:
            learner.put_back(place)
        vars(self).update(entries)

    def nbytes(self, *members: Member) -> int:
        """Return the bytes of the rows and of these models."""
        return self.samples.nbytes + sum(member.learner.nbytes for member in members)

    def incremental_state(self) -> IncrementalState:
        """Return the state of the store and the counters, with growing arrays as ``AppendOnlyArray``."""
        own: State = {"made": self.made, "seed": self.seed, "n_classes": self.n_classes}
        return own | nest("samples", self.samples.incremental_state())

    def restore(self, state: Mapping[str, Any], n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Take over what ``incremental_state()`` returned, with whole arrays; StateError if it is for other rows."""
        known = FIELDS.read(state, known_classes=n_classes)
        least = self.capabilities.min_classes
        if known["n_classes"] < least or (known["n_classes"] > least and not self.grows):
            raise misfit(state, "n_classes", f"is {known['n_classes']}, which {self.template!r} does not support")
        rows = pick("samples", state)
        samples = Samples.from_state(rows, known["n_classes"])
        if samples.n_features != n_features:
            raise misfit(rows, "n_features", f"is {samples.n_features}, but there are {n_features} columns")
        if samples.sparse != sparse:
            raise misfit(rows, "sparse", f"is {samples.sparse}, but that of the columns is {sparse}")
        if samples.dtype != self.dtype:
            raise misfit(rows, "dtype", f"is {samples.dtype}, but that of the strategy is {self.dtype}")
        self.made, self.seed, self.n_classes = known["made"], known["seed"], known["n_classes"]
        self.samples = samples

    def restore_member(self, state: Mapping[str, Any], step: int) -> Member:
        """Return the model whose state was saved before this step."""
        known = MEMBER_FIELDS.read(state, made=self.made, step=step, next_row=self.samples.next_row)
        learner = self._load(pick("learner", state))
        return Member(known["id"], learner, known["born"], known["first_row"], known["best_risk"])

    def check_learning(self, *members: Member) -> None:
        """Raise StateError unless the store has the rows of models that were loaded and will learn again."""
        for member in members:
            oldest = member.learner.needs()
            if oldest is not None and oldest < self.samples.first_row:
                raise StateError(
                    f"the saved model {member.id} needs the rows from {oldest} on, but the saved rows begin with "
                    f"{self.samples.first_row}"
                )

    def _load(self, state: Mapping[str, Any]) -> Learner:
        learner: Any = type(self.template).from_state(self.template, state)
        n_features, n_classes = self.samples.n_features, self.n_classes
        if ShapeChecked in self._abilities and not learner.fits(n_features, n_classes):
            part = name_in(state, "").removesuffix(".")
            raise StateError(
                f"the saved model {part!r} is not for {n_features} columns and {n_classes} classes", entry=part
            )
        if RowsChecked in self._abilities:
            stored = Segment(self.samples.first_row, self.samples.next_row)
            if entry := learner.outside(stored):
                raise misfit(state, entry, f"is not among the saved rows, {stored.lo} to {stored.hi}")
        if Refittable in self._abilities:
            learner.refit(self.samples)
        restored: Learner = learner
        return restored


def risk(learner: Learner, *batches: Batch, name: RiskName = "loss", scores: FloatArray | None = None) -> float:
    """Return the risk of a model over batches: the weighted mean loss plus the penalty, or the share of errors.

    This is the only place where a risk is computed. It is NaN if no row has weight. ``scores`` are the scores of a
    single batch, if they are known already.
    """
    total = mass = 0.0
    for batch in batches:
        known = learner.scores(batch.X) if scores is None else scores
        values = learner.row_losses(known, batch.y) if name == "loss" else row_errors(known, batch.y)
        part = weighted_sum(values, batch.weight)
        total, mass = total + part[0], mass + part[1]
    penalty = learner.penalty() if name == "loss" else 0.0
    # Without evidence the risk is NaN, not 0: every comparison with NaN is false, so that nothing is decided by it.
    return float(total / mass + penalty) if mass > 0.0 else math.nan
