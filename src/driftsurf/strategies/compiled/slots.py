"""Pool of an ensemble whose rows and models are in a bank, with the contract of ``Pool``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from driftsurf.core.changes import UndoStack
from driftsurf.core.contracts import Batch, FloatArray, IncrementalState, Rows, SampleStore, Segment
from driftsurf.core.samples import Samples
from driftsurf.core.values import replace
from driftsurf.kernels.losses import largest
from driftsurf.strategies._pool import Member, Pool
from driftsurf.strategies.compiled.bank import NO_ANCHOR, Bank, bank_of

__all__ = ["BankPool"]


class Slot:
    """The model on one side of a bank, in the place of its learner. Whatever is not defined here is read from a copy.

    A side is used again when no model of the ensemble is on it any more.
    """

    __slots__ = ("anchor", "bank", "side")

    def __init__(self, bank: Bank, side: int, anchor: FloatArray = NO_ANCHOR) -> None:
        self.bank: Bank = bank
        self.side: int = side
        self.anchor: FloatArray = anchor
        """Point that the penalty pulls towards; empty: none."""

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of a copy of the model."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.copied(), name)

    def anchored(self, models: Sequence[Slot], shares: FloatArray) -> Slot:
        """Return this unfitted model with a penalty that pulls towards the weighted sum of ``models``."""
        weights = self.bank.raw_weights([model.side for model in models])
        anchor = (shares[:, None] * weights).sum(axis=0)
        self.bank.anchor(self.side, anchor)
        return Slot(self.bank, self.side, anchor)

    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss of each row, given its score and its target."""
        template: Any = self.bank.template
        losses: FloatArray = template.row_losses(scores, y)
        return losses

    def copied(self) -> Any:
        """Return a copy of the model, as the generic path has it."""
        learner = self.bank.trained(self.side)
        if not len(self.anchor):
            return learner
        made = learner._make(replace(learner._fitted, anchor=self.anchor))
        made._table = learner._table
        return made

    def incremental_state(self) -> IncrementalState:
        """Return the saved entries of the model, with the gradient table as ``AppendOnlyArray``."""
        state = self.bank.learner_state(self.side)
        return state | {"anchor": self.anchor} if "anchor" in state else state


class StoredRows:
    """The rows of a bank, with the part of the contract of ``Samples`` that strategies use."""

    def __init__(self, bank: Bank, samples: Samples) -> None:
        self._bank = bank
        self.n_features: int = samples.n_features
        self.sparse: bool = samples.sparse
        self.dtype: Any = samples.dtype

    @property
    def first_row(self) -> int:
        """Number of the oldest row."""
        return self._bank.first_row

    @property
    def next_row(self) -> int:
        """Number of the next row to be appended."""
        return self._bank.next_row

    def __len__(self) -> int:
        return self.next_row - self.first_row

    def view(self, segment: Segment) -> Batch:
        """Return the rows of ``segment`` as views, which stay valid until the next row is appended."""
        return self._bank.view(segment)


class BankPool(Pool):
    """Rows and models of an ensemble in a bank, made from those of another pool, which stays as it is.

    In each step a model is trained at most once.

    Parameters
    ----------
    pool
        Pool with the rows, which are copied.
    bank
        Bank with the rows and the models.
    members
        Models, in the order of the first sides of the bank.
    """

    samples: Samples
    made: int

    def __init__(self, pool: Pool, bank: Bank, members: Sequence[Member]) -> None:
        vars(self).update(vars(pool))
        self.bank: Bank = bank
        self.samples = cast("Samples", StoredRows(bank, pool.samples))
        self._taken = frozenset(range(len(members)))
        """Sides of the models in charge, which are not given to others."""

    @classmethod
    def of(
        cls, pool: Pool, members: Sequence[Member], sides: int, *, learning: bool
    ) -> tuple[BankPool, tuple[Member, ...]] | None:
        """Return a pool with the same rows, and the same models in its bank; None if they do not suit one.

        Models that are not ``learning`` vote, but will not be trained again.
        """
        bank = bank_of(pool, members, sides, learning=learning)
        if bank is None:
            return None
        moved = [replace(member, learner=_slot(bank, side, member)) for side, member in enumerate(members)]
        return cls(pool, bank, moved), tuple(moved)

    def generic(self, members: Sequence[Member]) -> tuple[Pool, tuple[Member, ...]]:
        """Return a pool and models of the generic path, with copies of everything."""
        pool = self.bank.generic_pool()
        pool._from_step, pool._from_row = self._from_step, self._from_row
        slots: list[Any] = [member.learner for member in members]
        return pool, tuple(replace(member, learner=slot.copied()) for member, slot in zip(members, slots, strict=True))

    def takes(self, batch: Batch) -> bool:
        """Return whether a batch can be learned here: there is room for it, and no class is new."""
        if not len(batch.y) or not self.bank.takes(len(batch.y)):
            return False
        return self.capabilities.regression or bool(largest(batch.y) < max(self.n_classes, 2))

    def publish(self, members: Sequence[Member]) -> None:
        """Note which models are in charge from now on."""
        self._taken = frozenset(_sides(members))

    # -------------------------------------------------------------------- the contract of a pool

    def make(self, step: int, first_row: int) -> Member:
        """Return a fresh model with the next number; undoing ``admit`` gives the number back."""
        (side,) = self._free(1)
        born, first = max(step, self._from_step), max(first_row, self._from_row)
        self.bank.make(side, born, first)
        self.made += 1
        return Member(self.made - 1, cast("Any", Slot(self.bank, side)), born, first)

    def _free(self, count: int) -> list[int]:
        """Return so many sides without a model, which are taken from now on."""
        taken = self._taken
        free = [side for side in range(len(taken) + count) if side not in taken][:count]
        self._taken = taken.union(free)
        return free

    def copy_all(self, members: Sequence[Member], step: int) -> list[Member]:
        """Return copies of models without rows, their random states included, with the next numbers."""
        sides, first = self._free(len(members)), self.made
        self.bank.copy(_sides(members), sides, step)
        self.made += len(sides)
        slots: list[Any] = [
            Slot(self.bank, side, cast("Any", one.learner).anchor) for one, side in zip(members, sides, strict=True)
        ]
        return [
            Member(first + place, slot, step, member.first_row)
            for place, (member, slot) in enumerate(zip(members, slots, strict=True))
        ]

    def admit(self, batch: Batch, undo: UndoStack) -> Segment:
        """Append a batch to the store; return its row numbers."""
        undo.callback(setattr, self, "made", self.made)
        undo.callback(self.bank.put_back, self.bank.mark())
        return self.bank.append(batch)

    def grow(self, batch: Batch, members: tuple[Member, ...], undo: UndoStack) -> bool:
        """Return False: ``takes`` has found no new class."""
        return False

    def train_all(
        self,
        members: Sequence[Member],
        segment: Segment,
        steps: Sequence[int],
        undo: UndoStack,
        *,
        seen_as: SampleStore | None = None,
    ) -> list[int]:
        """Update several models in one call; return the gradients of each. Undoing ``admit`` undoes it."""
        assert seen_as is None  # no ensemble learns with other weights
        slots: list[Any] = [member.learner for member in members]
        anchor: FloatArray = slots[0].anchor if len(slots) == 1 else NO_ANCHOR
        self.bank.train([slot.side for slot in slots], steps, anchor)
        return list(steps)

    def joint_scorer(self, members: Sequence[Member]) -> Callable[[Rows], Sequence[FloatArray]]:
        """Return a function that scores rows with each model as it is now, in order."""
        return self.bank.joint_scorer(_sides(members))

    def forget(self, members: Sequence[Member], before_row: int, undo: UndoStack) -> None:
        """Drop the rows before number ``before_row`` from the sample sets of models. Undoing ``admit`` undoes it."""
        if members:
            self.bank.forget(_sides(members), before_row)

    def release(self, *members: Member, keep: int | None = None) -> None:
        """Free the rows that neither a model nor the strategy (from ``keep`` on) needs."""
        row = self.bank.next_row
        floor = 0 if self.max_rows is None else row - self.max_rows
        oldest = self.bank.numbers("lo") if members else []
        needed = [row if keep is None else keep]
        for member, side in zip(members, _sides(members), strict=True):
            needed.append(max(member.first_row, floor) if oldest[side] < 0 else oldest[side])
        self.bank.release(min(needed))

    def mark(self, *members: Member) -> Any:
        """Return a mark of the rows and of all models, for ``put_back``."""
        return vars(self).copy(), self.bank.mark()

    def put_back(self, mark: Any) -> None:
        """Return to the marked rows and models, from any point of a step."""
        entries, place = mark
        self.bank.put_back(place)
        vars(self).update(entries)

    def nbytes(self, *members: Member) -> int:
        """Return the bytes of the rows and of all models."""
        return self.bank.nbytes

    def incremental_state(self) -> IncrementalState:
        """Return the state of the store and the counters, with growing arrays as ``AppendOnlyArray``."""
        return self.bank.pool_state()


def _slot(bank: Bank, side: int, member: Member) -> Any:
    learner: Any = member.learner
    return Slot(bank, side, np.array(learner._fitted.anchor))


def _sides(members: Sequence[Member]) -> list[int]:
    slots: list[Any] = [member.learner for member in members]
    return [slot.side for slot in slots]
