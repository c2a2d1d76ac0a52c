"""What every strategy needs: the sample store, numbered models, their training and their risks."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from driftsurf import _kernels
from driftsurf._options import choice, whole
from driftsurf._random import derive
from driftsurf._values import replace
from driftsurf.base import Batch, FloatArray, Learner, Parts, SampleStore, Segment, State
from driftsurf.decisions import ModelRecord, Role
from driftsurf.errors import StateError
from driftsurf.samples import Samples
from driftsurf.state import nest, pick
from driftsurf.strategies._votes import errors

BudgetRule = Literal["each", "divided"]
RiskName = Literal["loss", "zero-one"]
DEFAULT_MAX_ROWS = 100_000


@dataclass(frozen=True)
class Member:
    """A model of a strategy: its learner, and what the strategy remembers about it."""

    id: int
    learner: Learner
    born: int
    """The step at which it was made."""
    first_row: int
    """The first row that it is trained on."""
    best_risk: float = math.inf
    """R_b: the smallest risk on a batch that it had not learnt yet."""

    def met(self, risk: float) -> Member:
        """The same model after the risk on a new batch was taken; NaN is no evidence."""
        return replace(self, best_risk=risk) if risk < self.best_risk else self

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
        """How it enters the journal."""
        best = None if self.best_risk == math.inf else self.best_risk
        who = role, self.id, step - self.born, self.first_row
        return ModelRecord(*who, risk_before, risk_after, risk_reactive, best, gradients, weight)

    def state(self) -> State:
        """Everything but the template, with what grows with the rows as ``Growing``."""
        own: State = {
            "id": self.id,
            "born": self.born,
            "first_row": self.first_row,
            "best_risk": self.best_risk,
        }
        # A learner whose state grows with the rows can say so; for all others there is nothing to spare.
        return own | nest("learner", getattr(self.learner, "parts", self.learner.state)())


class Pool:
    """The rows and the models made from one template; model i draws from the i-th child of ``seed``."""

    def __init__(
        self, learner: Learner, *, seed: int, max_rows: int | None, dtype: str, risk: RiskName = "loss"
    ) -> None:
        self.template = learner
        self.capabilities = learner.capabilities
        self.grows = "multiclass" in self.capabilities.tasks
        self._risk = risk
        self.seed = seed
        self.max_rows = None if max_rows is None else whole("max_rows", max_rows, at_least=1, otherwise=", or None")
        self.dtype = dtype
        self.made = 0
        self.n_classes = self.capabilities.least_classes
        self._from_step = self._from_row = 0
        self.samples: Samples
        self._tested: tuple[Learner, Segment, FloatArray] | None = None

    def check(self) -> None:
        """Raise OptionError if an option cannot be used, those of the learner included."""
        choice("dtype", self.dtype, ("float64", "float32"))
        self.seed = whole("seed", self.seed, at_least=0)
        self.template.fresh(seed=0, n_features=1, n_classes=self.n_classes)

    def begin(self, n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Make an empty store."""
        self.n_classes = n_classes
        self.samples = Samples(n_features, sparse=sparse, dtype=self.dtype)

    def make(self, step: int, first_row: int) -> Member:
        """A fresh model, the next in number; ``admit`` has seen to it that an undone step gives the number back."""
        learner = self.untrained(derive(self.seed, self.made))
        self.made += 1
        return Member(self.made - 1, learner, max(step, self._from_step), max(first_row, self._from_row))

    def restart(self, step: int) -> None:
        """Models made from now on know nothing from before ``step``; those made for step 0 are meant for it."""
        self._from_step, self._from_row = step, self.samples.next_row

    def untrained(self, seed: int = 0) -> Learner:
        """A model for these rows and classes that is no member."""
        return self.template.fresh(seed, self.samples.n_features, self.n_classes)

    def admit(self, batch: Batch, undo: contextlib.ExitStack) -> Segment:
        """Append a batch to the store."""
        undo.callback(setattr, self, "made", self.made)
        undo.callback(self.samples.truncate, self.samples.next_row)
        return self.samples.append(batch.X, batch.y, batch.weight)

    def grow(self, batch: Batch, members: tuple[Member, ...], undo: contextlib.ExitStack) -> None:
        """Make room for classes that this batch brings; codes go by appearance."""
        known = int(batch.y.max(initial=0.0)) + 1
        if known <= self.n_classes:
            return
        undo.callback(setattr, self, "n_classes", self.n_classes)
        for member in members:
            undo.callback(member.learner.grow(n_classes=known))
        self.n_classes = known

    def tested(self, member: Member | None, segment: Segment, scores: FloatArray | None) -> None:
        """Note the scores that a model gave for new rows, for ``risk``; they hold until a model learns."""
        self._tested = None
        if member is not None and scores is not None and scores.shape[1:] in ((), (self.n_classes,)):
            self._tested = member.learner, segment, scores

    def train(
        self,
        member: Member,
        segment: Segment,
        steps: int,
        undo: contextlib.ExitStack,
        *,
        seen_as: SampleStore | None = None,
    ) -> int:
        """Update one model; returns the gradients it spent. ``seen_as`` shows it the rows with other weights."""
        return self.train_all((member,), segment, (steps,), undo, seen_as=seen_as)[0]

    def train_all(
        self,
        members: Sequence[Member],
        segment: Segment,
        steps: Sequence[int],
        undo: contextlib.ExitStack,
        *,
        seen_as: SampleStore | None = None,
    ) -> list[int]:
        """``train`` of several models, together if their learner knows how to."""
        self._tested = None
        store = self.samples if seen_as is None else seen_as
        learners = [member.learner for member in members]
        spent = [learner.gradients for learner in learners]
        segments = [self._unseen(member, segment) for member in members]
        together = getattr(learners[0], "update_all", None)
        if together is not None and len(learners) > 1:
            undo.callback(together(learners, store, segments, steps))
        else:
            for learner, new, count in zip(learners, segments, steps, strict=True):
                undo.callback(learner.update(store, new, count))
        return [learner.gradients - before for learner, before in zip(learners, spent, strict=True)]

    def _unseen(self, member: Member, segment: Segment) -> Segment:
        """The rows up to the end of ``segment`` that are new to a model: some may have come since it was made."""
        if member.learner.needs() is not None:
            return segment
        return Segment(max(member.first_row, self.samples.first_row), segment.hi)

    def risk(self, member: Member, *segments: Segment) -> float:
        """The risk of a model over stored rows."""
        known = self._known_scores(member, *segments)
        return risk(member.learner, *map(self.samples.view, segments), name=self._risk, scores=known)

    def scores(self, member: Member, segment: Segment) -> FloatArray:
        """The scores of a model for stored rows."""
        known = self._known_scores(member, segment)
        return member.learner.scores(self.samples.view(segment).X) if known is None else known

    def _known_scores(self, member: Member, *segments: Segment) -> FloatArray | None:
        tested = self._tested
        if tested is None or tested[0] is not member.learner or segments != tested[1:2]:
            return None
        return tested[2]

    def copy(self, member: Member, step: int) -> Member:
        """A model that is as ``member`` is now, its random draws included, with a number of its own."""
        learner = self._revived(member.learner.state())
        self.made += 1
        return Member(self.made - 1, learner, step, member.first_row)

    def retire(self, member: Member, undo: contextlib.ExitStack) -> None:
        """Let go of a model's rows: it votes on, but learns no more."""
        undo.callback(member.learner.forget(self.samples, self.samples.next_row))

    def cap(self, *members: Member, undo: contextlib.ExitStack) -> None:
        """First in, first out: rows beyond ``max_rows`` leave every model's sample set."""
        if self.max_rows is None or len(self.samples) <= self.max_rows:
            return
        for member in members:
            undo.callback(member.learner.forget(self.samples, self.samples.next_row - self.max_rows))

    def release(self, *members: Member, keep: int | None = None) -> None:
        """Free the rows that no model needs, nor the strategy itself from ``keep`` on."""
        floor = 0 if self.max_rows is None else self.samples.next_row - self.max_rows
        needed = [self.samples.next_row if keep is None else keep]
        for member in members:
            oldest = member.learner.needs()
            needed.append(max(member.first_row, floor) if oldest is None else oldest)
        self.samples.release(min(needed))

    def nbytes(self, *members: Member) -> int:
        """Bytes of the rows and of the models."""
        return self.samples.nbytes + sum(member.learner.nbytes for member in members)

    def parts(self) -> Parts:
        """The store and the count of models."""
        own: State = {"made": self.made, "seed": self.seed, "n_classes": self.n_classes}
        return own | nest("samples", self.samples.parts())

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``parts()`` gave, with whole arrays."""
        self.made, self.seed, self.n_classes = int(state["made"]), int(state["seed"]), int(state["n_classes"])
        least = self.capabilities.least_classes
        if self.n_classes < least or (self.n_classes > least and not self.grows):
            raise StateError(f"the saved models are for {self.n_classes} classes, which {self.template!r} cannot be")
        self.samples = Samples.from_state(pick("samples", state), self.n_classes)

    def restore_member(self, state: Mapping[str, Any]) -> Member:
        """The member that gave ``state``."""
        learner = self._revived(pick("learner", state))
        best = float(state["best_risk"])
        return Member(int(state["id"]), learner, int(state["born"]), int(state["first_row"]), best)

    def _revived(self, state: Mapping[str, Any]) -> Learner:
        """The model that gave ``state``."""
        learner = type(self.template).from_state(self.template, state)
        n_features, n_classes = self.samples.n_features, self.n_classes
        if hasattr(learner, "fits") and not learner.fits(n_features, n_classes):
            raise StateError(f"a saved model is not for the {n_features} columns and {n_classes} classes of its rows")
        if hasattr(learner, "refit"):  # it is saved by its rows, which are in the store
            learner.refit(self.samples)
        return learner


def risk(learner: Learner, *batches: Batch, name: RiskName = "loss", scores: FloatArray | None = None) -> float:
    """Weighted mean loss over the batches plus the penalty, or share of errors: the one place where risk is computed.

    NaN when no row has weight: no evidence either way. ``scores`` are those of a single batch, if they are known.
    """
    total = mass = 0.0
    for batch in batches:
        known = learner.scores(batch.X) if scores is None else scores
        values = learner.row_losses(known, batch.y) if name == "loss" else errors(known, batch.y)
        part = _kernels.weighted_sum(values, batch.weight)
        total, mass = total + part[0], mass + part[1]
    penalty = learner.penalty() if name == "loss" else 0.0
    return total / mass + penalty if mass > 0.0 else math.nan
