"""Base class of strategies whose time step is compiled for some learners, with the same result to the bit."""

from __future__ import annotations

import functools
from abc import abstractmethod
from typing import Any, cast

import numba
import numpy.typing as npt

from driftsurf.core.abilities import Taken
from driftsurf.core.contracts import Batch, Capabilities, FloatArray, IncrementalState, Learner
from driftsurf.core.decisions import Decision, Transition
from driftsurf.core.state import nest
from driftsurf.kernels.guard import Admission
from driftsurf.strategies._base import L, PooledStrategy
from driftsurf.strategies._pool import Pool
from driftsurf.strategies._reaction import Live
from driftsurf.strategies.compiled.cell import CompiledModels
from driftsurf.strategies.compiled.direct import DirectModels
from driftsurf.strategies.compiled.layout import Rule
from driftsurf.strategies.compiled.suitable import fits_cell, is_supported, step_is_at_hand, training_of


class CompiledStrategy(PooledStrategy[L]):
    """A strategy with a generic step for every learner, and a compiled one around linear learners.

    Either of them is in charge at a time. Where the compiled one cannot go on, such as when a new class appears, the
    generic one takes over.
    """

    _compiled: CompiledModels | None = None
    """Rows and models of the compiled step; None if the generic one is in charge."""
    _stored_pool: Pool
    _stored_live: L

    @abstractmethod
    def _compiled_rule(self) -> tuple[Rule, dict[str, Any]] | None:
        """Return the parameters of the rule, and the fields of a decision that follow from the options.

        None if the options do not allow the compiled step.
        """

    def _to_cell(self, live: L) -> Live:
        """Return models and counts as a cell holds them: those of DriftSurf, which a subclass may use in part."""
        same: Any = live
        return cast("Live", same)

    def _from_cell(self, live: Live) -> L:
        """Return the models and counts of a cell as the strategy has them."""
        same: Any = live
        return cast("L", same)

    def _compiled_step(self, compiled: CompiledModels, batch: Batch, tested: FloatArray | None) -> Decision | None:
        """Take a compiled step; None if the generic one has to, and nothing was changed."""
        return compiled.step(batch, tested)

    def _compiled_take(
        self, compiled: DirectModels, X: npt.NDArray[Any], codes: FloatArray, admission: Admission, shown: bool
    ) -> Taken | None:
        """Learn one usual batch as ``take`` does."""
        return compiled.take(X, codes, admission, shown)

    def step(self, batch: Batch, tested: FloatArray | None = None) -> Decision:
        """Learn one batch. An error leaves everything as it was.

        Around logistic or softmax regression, a linear SVM or linear regression, the whole step is one call of compiled
        code, with the same result.
        """
        compiled = self._compiled or self._compile()
        if compiled is None:
            return super().step(batch, tested)
        decision = self._compiled_step(compiled, batch, tested)
        if decision is None:  # for instance, the batch has a new class
            self._leave_compiled()
            return super().step(batch, tested)
        begins = self._compiled is None
        self._compiled, self._scorer = compiled, compiled.scorer()
        if begins:  # otherwise the rows would be held twice
            self._stored_pool, live = compiled.without_rows()
            self._stored_live = self._from_cell(live)
        return decision

    def take(self, X: npt.NDArray[Any], codes: FloatArray, admission: Admission, *, shown: bool) -> Taken | None:
        """Learn one usual batch of dense rows in one call; None if ``step`` has to, once all is back at its mark."""
        compiled = self._compiled
        if not isinstance(compiled, DirectModels):
            return None
        taken = self._compiled_take(compiled, X, codes, admission, shown)
        if taken is not None:
            self._scorer = compiled.scorer()
        return taken

    def _compile(self) -> CompiledModels | None:
        """Return the models for the compiled step, if they suit it and it is at hand or pays to be compiled."""
        pool = self._pool
        if not self._suits or not (pool.grows or pool.n_classes == self._can.min_classes):
            return None
        known, rows = self._compiled_rule(), pool.samples
        if known is None:
            return None
        training = training_of(pool.template, pool.n_classes, rows.n_features, sparse=rows.sparse)
        if not step_is_at_hand(known[0], training, sparse=rows.sparse):
            return None
        live = self._to_cell(self._live)
        if not fits_cell(pool, live, prequential=known[0].prequential):
            return None
        if rows.sparse or numba.config.DISABLE_JIT:
            return CompiledModels(pool, live, *known)
        return DirectModels(pool, live, *known)

    @functools.cached_property
    def _suits(self) -> bool:
        """Whether the options allow the compiled step."""
        return is_supported(self._template()) and self._compiled_rule() is not None

    def _leave_compiled(self) -> None:
        """Return to the generic path, if the models are compiled."""
        if self._compiled is not None:
            self._pool, live = self._compiled.generic()
            self._publish(self._from_cell(live))

    def _publish(self, live: L) -> None:
        super()._publish(live)
        self._compiled = None

    @property
    def _pool(self) -> Pool:
        """Rows and counts of the generic path: copies while the compiled step is in charge."""
        return self._stored_pool if self._compiled is None else self._compiled.generic()[0]

    @_pool.setter
    def _pool(self, pool: Pool) -> None:
        self._stored_pool, self._compiled = pool, None

    @property
    def _live(self) -> L:
        """Models of the generic path: copies while the compiled step is in charge."""
        return self._stored_live if self._compiled is None else self._from_cell(self._compiled.generic()[1])

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
        compiled = self._compiled
        return super().predicting if compiled is None else compiled.predicting

    @property
    def nbytes(self) -> int:
        """Bytes held for rows and models."""
        compiled = self._compiled  # read once: another thread may learn
        return super().nbytes if compiled is None else compiled.nbytes

    def mark(self) -> Any:
        """Return a mark of the models and their rows, for ``put_back``. The strategy has to have begun."""
        place = self._pool.mark(*self._live.members) if self._compiled is None else self._compiled.mark()
        return vars(self).copy(), place

    def put_back(self, mark: Any) -> None:
        """Return to the marked models and rows, from any point of a step, a reset or a restore."""
        entries, place = mark
        rows: Any = entries["_stored_pool"] if entries.get("_compiled") is None else entries["_compiled"]
        rows.put_back(place)
        vars(self).update(entries)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled or copied: always the generic path.

        The compiled step may not work where a pickle is loaded, and a copy must not share its arrays.
        """
        entries = vars(self).copy()
        if self._compiled is not None:
            entries["_stored_pool"], live = self._compiled.generic()
            entries["_stored_live"] = self._from_cell(live)
            entries["_compiled"] = None
        return entries

    def reset(self, why: str) -> Transition:
        """Start over with fresh models and without any of the rows so far, at the request of a user."""
        self._leave_compiled()
        return super().reset(why)

    def incremental_state(self) -> IncrementalState:
        """Return the entries of ``state()``, with arrays that grow with the rows as ``AppendOnlyArray``."""
        if self._compiled is None:
            return super().incremental_state()
        live, pool = self._compiled.incremental_state()
        return {"strategy": type(self).__name__} | self._saved(self._from_cell(live)) | nest("pool", pool)
