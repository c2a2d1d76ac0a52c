"""Models of DriftSurf in a cell: made from those of the generic path, stepped by compiled code, and turned back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from driftsurf.core.contracts import Batch, FloatArray, IncrementalState, Rows, Segment
from driftsurf.core.decisions import Decision
from driftsurf.learners._linear import diverged
from driftsurf.strategies._pool import Member, Pool
from driftsurf.strategies._reaction import Contest, Credit, Live
from driftsurf.strategies._unit import RiskUnit
from driftsurf.strategies.compiled.layout import (
    CONTEST,
    CREDIT,
    CREDIT_GAIN,
    EVIDENCE,
    LEARNED,
    NO_RIVAL,
    REACTIVE,
    STABLE,
    TRANSITIONS,
    UNIT_CENTRE,
    UNITS,
    UNSUITED,
    Rule,
)
from driftsurf.strategies.compiled.models import CellModels
from driftsurf.strategies.compiled.outcome import ROLES, Outcome
from driftsurf.strategies.compiled.step import learn, learn_sparse


class CompiledModels(CellModels):
    """Rows and models of a DriftSurf around a linear learner, in the arrays of a cell.

    It is made from a pool and its models, takes the same steps with the same bits, and gives them back.

    Parameters
    ----------
    pool
        Pool with the rows, which are copied.
    live
        Models and counts.
    rule
        Parameters of DriftSurf.
    details
        Fields of every decision that do not change.
    """

    def __init__(self, pool: Pool, live: Live, rule: Rule, details: dict[str, Any]) -> None:
        super().__init__(pool, rule, sides=2, longest=max(map(len, live.trial), default=0))
        self._details = details
        self._learn = learn_sparse if pool.samples.sparse else learn
        self._fill(live)

    def _fill(self, live: Live) -> None:
        """Copy the counts and the models."""
        cell, counts = self._cell, self._cell.counts
        for name in ("step", "reactive_step", "challenged", "reacted"):
            counts[name] = getattr(live, name)
        counts["rival"] = REACTIVE if live.reactive is not None else NO_RIVAL if live.stable is None else STABLE
        for place, part in enumerate(live.trial):
            cell.bounds[place], cell.bounds[place + 1] = part.lo, part.hi
        counts["chosen"], counts["units"] = live.credit.chosen, len(live.unit.recent)
        cell.judged[:EVIDENCE] = *live.contest.numbers, live.credit.value, live.credit.gain, live.unit.centre
        cell.judged[UNITS : UNITS + len(live.unit.recent)] = live.unit.recent
        for side, member in enumerate(live.members):
            self._put(side, member)

    # -------------------------------------------------------------------- learning

    def step(
        self, batch: Batch, tested: FloatArray | None = None, fading: Callable[[int, int], FloatArray] | None = None
    ) -> Decision | None:
        """Learn one batch, and return the decision; None if only the generic step can go on, and nothing was changed.

        A single model may learn with other weights of the rows: ``fading`` returns factors for rows from the first
        number to the second. An error leaves everything as it was.
        """
        count, end = len(batch.y), self._end
        if self._outgrown(count, end):
            return None
        mark = self.mark()
        try:
            steps = self._steps(count)
            self._store(batch, steps, end)
            if fading is not None:
                self._fade(count, fading)
            scratch = self._scratch
            scored = count * self._training.outputs
            known = tested is not None and tested.size == scored
            if tested is not None and known:
                scratch.scores[:scored] = tested.reshape(-1)
            status = self._run_learn(count, steps, known)
            if status == LEARNED:
                return self._outcome(count, scratch.whole[TRANSITIONS].item()).decision()
            if status != UNSUITED:
                raise diverged(*scratch.real[:2].tolist())
        except BaseException:
            self.put_back(mark)
            raise
        self.put_back(mark)
        return None

    def _run_learn(self, count: int, steps: int, known: bool) -> int:
        """Learn rows that are in their places; with ``known``, so are their scores. Return the result of ``learn``."""
        how = self._rule, self._training, self._scratch, self._kernels
        status: int = self._learn(self._cell, count, steps, known, *how)
        return status

    def _fade(self, count: int, fading: Callable[[int, int], FloatArray]) -> None:
        """Write the weights with which a single model learns to the gradient table of side 1, which has no model."""
        cell, counts = self._cell, self._cell.counts
        base, first = counts["base"].item(), counts["first"].item()
        hi = counts["next"].item() + count
        lo = max(first, hi - self._rule.span)
        weight = cell.weight[lo - base : hi - base]
        np.multiply(weight, fading(lo, hi), out=cell.tables[1, lo - base : hi - base])

    def _steps(self, count: int) -> int:
        """Return rho, the number of gradient steps for a batch of ``count`` rows."""
        template: Any = self._pool.template
        row = self._counts["next"].item()
        steps: int = template._budget(row, row + count)
        return steps

    def _outcome(self, count: int, transitions: int) -> Outcome:
        """Return the outcome of the step that has just been taken."""
        self._log_touched()
        numbers = self._counts["step"].item() - 1, self._counts["next"].item() - count, count
        return Outcome(self._scratch, numbers, transitions, self._rule, self._details)

    def decision_of(self, whole: list[int], real: list[float], step: int, first_row: int, count: int) -> Decision:
        """Return the decision of a step that left these numbers behind."""
        return Outcome.decision_of(whole, real, step, first_row, count, self._rule, self._details)

    # -------------------------------------------------------------------- predicting, and the generic path

    def scorer(self) -> Callable[[Rows], FloatArray]:
        """Return the function that scores rows with the model that predicts now; later steps do not affect it."""
        return self._scorer_of(self._predictor)

    @property
    def _predictor(self) -> int:
        side: int = self._counts["predictive"].item() ^ self._counts["challenged"].item()
        return side

    def generic(self) -> tuple[Pool, Live]:
        """Return pool and models of the generic path, with copies of everything."""
        return self.generic_pool(), self._live(self.trained)

    def without_rows(self) -> tuple[Pool, Live]:
        """Return a pool without rows and untrained models, to replace those that the cell was made from."""
        return self._pool, self._live(lambda side: self._pool.untrained())

    def _live(self, learner: Callable[[int], Any]) -> Live:
        """Return models and counts; ``learner`` makes the learner on a side."""
        counts = self._cell.counts
        old = counts["predictive"].item()
        rival = counts["rival"].item()
        members: dict[str, Any] = {ROLES[rival]: self._member(1 - old, learner)} if rival else {}
        reacting = rival == REACTIVE and not self._rule.prequential
        judged = self._cell.judged.tolist()
        bounds = self._cell.bounds.tolist() if reacting else []
        ends = bounds[: counts["reactive_step"].item() + 1]
        return Live(
            self._member(old, learner),
            **members,
            step=counts["step"].item(),
            reactive_step=counts["reactive_step"].item(),
            trial=tuple(Segment(*pair) for pair in itertools.pairwise(ends)),
            challenged=bool(counts["challenged"].item()),
            reacted=bool(counts["reacted"].item()),
            unit=RiskUnit(tuple(judged[UNITS : UNITS + counts["units"].item()]), judged[UNIT_CENTRE]),
            contest=Contest(*judged[CONTEST:CREDIT]),
            credit=Credit(judged[CREDIT], judged[CREDIT_GAIN], bool(counts["chosen"].item())),
        )

    def _member(self, side: int, learner: Callable[[int], Any]) -> Member:
        model = self._cell.models[side : side + 1]
        born, first_row = model["born"].item(), model["first_row"].item()
        return Member(model["id"].item(), learner(side), born, first_row, model["best"].item())

    @property
    def predicting(self) -> Any:
        """Copy of the model that predicts now."""
        return self.trained(self._predictor)

    # -------------------------------------------------------------------- state

    def incremental_state(self) -> tuple[Live, IncrementalState]:
        """Return the models and counts, whose learners are their saved states, and the saved state of the pool."""
        return self._live(lambda side: _Saved(self.learner_state(side))), self.pool_state()


class _Saved:
    """Stands for a learner where it is saved."""

    def __init__(self, state: IncrementalState) -> None:
        self._state = state

    def incremental_state(self) -> IncrementalState:
        """Return the saved entries."""
        return self._state
