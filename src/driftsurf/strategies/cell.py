"""Base class of strategies whose time step is native around linear learners, with the same result to the bit."""

from __future__ import annotations

import functools
import itertools
import math
from abc import abstractmethod
from typing import Any, cast

from driftsurf.core.abilities import TakenStep
from driftsurf.core.contracts import Batch, Capabilities, FloatArray, IncrementalState, Learner, Rows, Segment
from driftsurf.core.decisions import Decision, Transition
from driftsurf.core.journal import Decided, Outcome
from driftsurf.core.state import nest
from driftsurf.learners._linear import Linear
from driftsurf.learners.logistic import LogisticRegression
from driftsurf.learners.regression import LinearRegression
from driftsurf.learners.softmax import SoftmaxRegression
from driftsurf.learners.svm import LinearSVM
from driftsurf.native.guard import RangeGuard
from driftsurf.strategies._base import L, PooledStrategy, saved_class
from driftsurf.strategies._cell_arrays import StepRule
from driftsurf.strategies._cell_models import COPIED, CellModels
from driftsurf.strategies._pool import Member, Pool
from driftsurf.strategies.driftsurf_state import DriftSurfState

SUPPORTED = LogisticRegression, SoftmaxRegression, LinearSVM, LinearRegression
WIDEST = 2**11
"""Most columns of sparse rows. A step copies several numbers for each column, to be able to go back."""
MOST = 2**62
"""Counts of models in a cell are below this, far from overflow."""


class CellStrategy(PooledStrategy[L]):
    """A strategy with a generic step for every learner, and a native one around linear learners.

    Either of them is in charge at a time. A batch with a new class is learned in a cell with more room.
    """

    learns_whole_batches = True
    """Whether ``observe`` is a single call of the native core, with which a session may take its steps."""
    _cell: CellModels | None = None
    """Rows and models of the native step; None if the generic one is in charge."""
    _stored_pool: Pool
    _stored_live: L

    @abstractmethod
    def _cell_rule(self) -> tuple[StepRule, dict[str, Any]] | None:
        """Return the parameters of the rule, and the fields of a decision that follow from the options.

        None if the options do not allow the native step.
        """

    def _to_cell(self, live: L) -> DriftSurfState:
        """Return models and counts as a cell holds them: those of DriftSurf, which a subclass may use in part."""
        same: Any = live
        return cast("DriftSurfState", same)

    def _from_cell(self, live: DriftSurfState) -> L:
        """Return the models and counts of a cell as the strategy has them."""
        same: Any = live
        return cast("L", same)

    def _cell_observe(
        self,
        cell: CellModels,
        X: Rows,
        y: FloatArray,
        weight: FloatArray | None,
        guard: RangeGuard | None,
        tested: FloatArray | None = None,
        *,
        predict: bool = False,
        test: bool = False,
    ) -> TakenStep | None:
        """Let a cell learn a batch; None if the generic step has to, and nothing was changed."""
        return cell.observe(X, y, weight, guard, tested, predict=predict, test=test)

    def step(self, batch: Batch, tested: FloatArray | None = None) -> Decision:
        """Learn one batch. An error leaves everything as it was.

        Around logistic or softmax regression, a linear SVM or linear regression, the whole step is one call of the
        native core, with the same result.
        """
        return self.learned(batch, tested).decision()

    def learned(self, batch: Batch, tested: FloatArray | None = None) -> Outcome:
        """Learn one batch as ``step`` does, and return what its decision is made of."""
        taken = self.observe(*batch[:3], None, tested)
        if taken is not None:
            return taken.outcome
        self._leave_cell()
        return Decided(super().step(batch, tested))

    def observe(
        self,
        X: Rows,
        y: FloatArray,
        weight: FloatArray | None,
        guard: RangeGuard | None,
        tested: FloatArray | None = None,
        *,
        predict: bool = False,
        test: bool = False,
    ) -> TakenStep | None:
        """Check, guard, predict and learn a batch in one call; None if ``step`` has to, and nothing was changed."""
        cell = self._cell
        if cell is not None:
            cell.native.mark()
        elif (cell := self._enter_cell()) is None:
            return None
        taken = self._cell_observe(cell, X, y, weight, guard, tested, predict=predict, test=test)
        if taken is None and (larger := cell.with_classes_of(y)) is not None:
            cell, taken = larger, self._learn_in_larger(larger, X, y, weight, guard, predict=predict, test=test)
        if taken is None:
            return None
        assert taken.scorer is not None
        self._scorer = taken.scorer
        if self._cell is not cell:  # learn with its models from now on
            self._cell = cell
            self._stored_pool, live = cell.without_rows()  # otherwise the rows would be held twice
            self._stored_live = self._from_cell(live)
        return taken

    def _learn_in_larger(
        self,
        cell: CellModels,
        X: Rows,
        y: FloatArray,
        weight: FloatArray | None,
        guard: RangeGuard | None,
        *,
        predict: bool,
        test: bool,
    ) -> TakenStep | None:
        """Learn a batch with a new class in a cell that has room for it; None if that cannot be."""
        taken, scorer = None, self._scorer
        shown = scorer(X if guard is None else guard.limited(X)) if predict else None
        try:
            self._scorer = cell.scorer()  # with a score of the new class
            taken = self._cell_observe(cell, X, y, weight, guard)
        finally:
            if taken is None:
                self._scorer = scorer
        if taken is None:
            return None
        return taken._replace(predicted=shown, tested=scorer(taken.rows) if test else None)

    def _enter_cell(self) -> CellModels | None:
        """Return the models in a cell, if they suit it."""
        pool = self._pool
        if not self._suits or not (pool.grows or pool.n_classes == self._can.min_classes):
            return None
        known = self._cell_rule()
        if known is None:
            return None
        live = self._to_cell(self._live)
        if not fits_cell(pool, live, prequential=known[0].prequential):
            return None
        return CellModels(pool, live, *known)

    @functools.cached_property
    def _suits(self) -> bool:
        """Whether the options allow the native step."""
        return is_supported(self._template()) and self._cell_rule() is not None

    def _leave_cell(self) -> None:
        """Return to the generic step, if the models are in a cell."""
        if self._cell is not None:
            self._pool, live = self._cell.generic()
            self._publish(self._from_cell(live))

    def _publish(self, live: L) -> None:
        super()._publish(live)
        self._cell = None

    @property
    def _pool(self) -> Pool:
        """Rows and counts of the generic step: copies while the native one is in charge."""
        return self._stored_pool if self._cell is None else self._cell.generic()[0]

    @_pool.setter
    def _pool(self, pool: Pool) -> None:
        self._stored_pool, self._cell = pool, None

    @property
    def _live(self) -> L:
        """Models of the generic step: copies while the native one is in charge."""
        return self._stored_live if self._cell is None else self._from_cell(self._cell.generic()[1])

    @_live.setter
    def _live(self, live: L) -> None:
        self._stored_live = live

    @property
    def _can(self) -> Capabilities:
        pool: Pool | None = vars(self).get("_stored_pool")
        return self.learner.capabilities if pool is None else pool.capabilities

    @property
    def predicting(self) -> Learner | None:
        """Model that predicts now."""
        cell = self._cell
        return super().predicting if cell is None else cell.predicting

    @property
    def nbytes(self) -> int:
        """Bytes held for rows and models."""
        cell = self._cell  # read once: another thread may learn
        return super().nbytes if cell is None else cell.nbytes

    def mark(self) -> Any:
        """Return a mark of the models and their rows, for ``put_back``. The strategy has to have begun."""
        place: Any = None
        if self._cell is None:
            place = self._stored_pool.mark(*self._stored_live.members)
        else:
            self._cell.native.mark()
        return self.__dict__.copy(), place

    def put_back(self, mark: Any) -> None:
        """Return to the marked models and rows, from any point of a step, a reset or a restore."""
        entries, place = mark
        cell: CellModels | None = entries.get("_cell")
        if cell is None:
            entries["_stored_pool"].put_back(place)
        else:
            cell.put_back()
        vars(self).update(entries)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled or copied: always models of the generic step, which share no arrays."""
        entries = vars(self).copy()
        if self._cell is not None:
            entries["_stored_pool"], live = self._cell.generic()
            entries["_stored_live"] = self._from_cell(live)
            entries["_cell"] = None
        return entries

    def reset(self, why: str) -> Transition:
        """Start over with fresh models and without any of the rows so far, at the request of a user."""
        self._leave_cell()
        return super().reset(why)

    def incremental_state(self) -> IncrementalState:
        """Return the entries of ``state()``, with arrays that grow with the rows as ``AppendOnlyArray``."""
        if self._cell is None:
            return super().incremental_state()
        live, pool = self._cell.incremental_state()
        return {"strategy": saved_class(self).__name__} | self._saved(self._from_cell(live)) | nest("pool", pool)


def is_supported(learner: Learner) -> bool:
    """Return whether the native step can train models of this learner. A subclass may change any part of it."""
    known: Any = learner
    return type(learner) in SUPPORTED and known._tabled


def fits_cell(pool: Pool, live: DriftSurfState, *, prequential: bool) -> bool:
    """Return whether models and counts are such as steps leave them behind.

    A forged state may have others, with which generic steps still stay within their arrays. The native core checks no
    bounds, so such models are left to the generic step.
    """
    samples = pool.samples
    if samples.sparse and samples.n_features > WIDEST:
        return False
    if live.reactive is not None and live.stable is not None:
        return False
    ends = [samples.next_row - sum(map(len, live.trial)), *(part.hi for part in live.trial)]
    trial = tuple(Segment(*pair) for pair in itertools.pairwise(ends))
    expected = 0 if live.reactive is None or prequential else live.reactive_step
    if live.trial != trial or len(trial) != expected or ends[0] < samples.first_row:
        return False
    if any(map(math.isnan, live.unit.recent)):  # no order
        return False
    if not all(_fits(pool, member) for member in live.members):
        return False
    return max(pool.made, live.step, samples.next_row) < MOST


def _fits(pool: Pool, member: Member) -> bool:
    samples = pool.samples
    learner: Any = member.learner
    fitted: Linear = learner._fitted
    trained = samples.first_row <= fitted.lo <= fitted.admitted <= fitted.hi == samples.next_row
    if len(fitted.anchor) or not (fitted.lo < 0 or (trained and len(learner._table) == fitted.admitted - fitted.lo)):
        return False
    # There is room for the evidence of one batch: a new model of a regression must not have to meet more rows.
    if fitted.lo < 0 and max(member.first_row, samples.first_row) < samples.next_row:
        return False
    ranged = learner.capabilities.regression and learner._scaled
    if len(fitted.low) + len(fitted.evidence) and not ranged:
        return False
    if (len(fitted.evidence) and not fitted.evidence[0] > 0.0) or not samples.n_features:
        return False
    return _is_counted(member)


def _is_counted(member: Member) -> bool:
    """Return whether the counts of a model are far from overflow."""
    learner: Any = member.learner
    fitted: Linear = learner._fitted
    numbers: list[int] = [member.id, member.born, *(getattr(fitted, name) for name in COPIED[:-2])]
    return max(numbers) < MOST
