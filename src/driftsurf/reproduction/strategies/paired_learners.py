"""Paired learners: a stable model predicts; a reactive one, trained on recent rows, shows when it is outdated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.changes import UndoStack, replace
from driftsurf.core.contracts import Learner, Segment, State
from driftsurf.core.decisions import Decision, Role, Transition
from driftsurf.core.fields import Array, FieldRule, Fields
from driftsurf.core.options import number, whole
from driftsurf.core.state import nest, pick
from driftsurf.registry import CLASSIFICATION, Example, register
from driftsurf.strategies._base import PooledStrategy, declared, make_decision
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, Member, Pool
from driftsurf.strategies._votes import row_errors


@dataclass(frozen=True)
class _Live:
    """Everything that a step replaces."""

    stable: Member
    reactive: Member
    beaten: npt.NDArray[np.bool_]
    """C: for each of the last rows, at most ``window``, whether only the reactive model was right; oldest first."""
    step: int = 0

    @property
    def members(self) -> tuple[Member, ...]:
        return self.stable, self.reactive

    @property
    def predictor(self) -> Member:
        return self.stable


@register(
    "strategy",
    "paired-learners",
    title="Paired Learners",
    tasks=CLASSIFICATION,
    needs={"exact_state"},
    family="ensemble",
    batches={"window": 4},
    examples=[Example({"window": 100})],
)
class PairedLearners(PooledStrategy[_Live]):
    r"""Paired learners: a stable model that predicts, and a reactive one that is trained on the last w rows.

    C is a circular list of the last w rows: 1 where the stable model was wrong and the reactive one right, else 0. When
    more than :math:`\theta w` of them are 1, recent rows alone make the better model: the stable model becomes a copy
    of the reactive one, and C is cleared.

    The published algorithm works row by row. Here neither model changes while a batch is evaluated, and C is followed
    through its rows; if it ever exceeds the threshold, the reactive model takes over before the batch is learned and
    continues as the stable one, with a copy of itself as the new reactive model. Then both learn the batch, with the
    full budget each. The first batch, which untrained models predict, and rows without weight count as 0.

    Parameters
    ----------
    learner
        Template of both models. It must be a classifier with the capability ``exact_state``.
    window
        w, in rows: the sample set of the reactive model, and the length of C. A few batches are a good choice.
    threshold
        theta, the share of w above which the reactive model takes over.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> strategy = PairedLearners(LogisticRegression(), window=200, seed=1)
    >>> strategy.begin(n_features=2, sparse=False, n_classes=2)
    >>> for step in range(20):  # the labels are inverted from step 10 on
    ...     X = rng.normal(size=(100, 2))
    ...     y = ((X[:, 0] > 0) == (step < 10)).astype(float)
    ...     for transition in strategy.step(Batch(X, y, np.ones(100))).transitions:
    ...         print(transition.describe())
    step 11: only the reactive model was right on 74 of the last 200 rows: promoted the newer model

    References
    ----------
    S. H. Bach, M. A. Maloof. Paired learners for concept drift. ICDM 2008.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        window: int = 1_000,
        threshold: float = 0.1,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.window = window
        self.threshold = threshold

    def _check(self) -> None:
        whole("window", self.window, at_least=1)
        number("threshold", self.threshold, at_least=0.0, below=1.0)
        self._require_classes()
        self._require("exact_state")

    def _first(self) -> _Live:
        return _Live(self._pool.make(0, 0), self._pool.make(0, 0), np.zeros(0, np.bool_))

    def _advance(self, live: _Live, segment: Segment, undo: UndoStack) -> tuple[_Live, Decision]:
        step = live.step
        risks = {member.id: self._pool.risk(member, segment) for member in live.members}
        old, reactive = (member.after_batch(risks[member.id]) for member in live.members)
        stable, transitions = old, list[Transition]()
        beaten, most = self._follow(live, segment)
        if most > self.threshold * self.window:
            why = f"only the reactive model was right on {most} of the last {self.window} rows"
            transitions.append(Transition("replaced", step, old=old.id, new=reactive.id, why=why))
            stable, reactive, beaten = reactive, self._pool.copy(reactive, step), beaten[:0]
        budget, oldest = self.learner.budget(segment), segment.hi - int(self.window)
        undo.callback(reactive.learner.forget(self._pool.samples, oldest))
        reactive = replace(reactive, first_row=max(reactive.first_row, oldest))
        pair = stable, reactive
        gradients = self._pool.train_all(pair, segment, (budget, budget), undo)
        spent = {member.id: count for member, count in zip(pair, gradients, strict=True)}
        cast: list[tuple[Role, Member]] = [("predictive", old), ("stable", stable), ("reactive", reactive)]
        records = [
            member.record(role, step, risk_before=risks.get(member.id), gradients=spent.get(member.id, 0))
            for role, member in cast
            if role != "stable" or transitions  # otherwise the stable model is the predictive one
        ]
        decision = make_decision(step, segment, old, stable, records, transitions)
        return _Live(stable, reactive, beaten, step + 1), decision

    def _follow(self, live: _Live, segment: Segment) -> tuple[npt.NDArray[np.bool_], int]:
        """Return C after the rows of a batch, and the largest number of ones it had after any of them."""
        batch = self._pool.samples.view(segment)
        stable, reactive = (row_errors(member.learner.scores(batch.X), batch.y) for member in live.members)
        beaten = np.append(live.beaten, (stable > reactive) & (batch.weight > 0.0) & (live.step > 0))
        ones = np.append(0, np.cumsum(beaten))
        ends = np.arange(len(live.beaten) + 1, len(ones))
        running = ones[ends] - ones[np.maximum(ends - int(self.window), 0)]
        return beaten[-int(self.window) :], int(running.max(initial=0))

    # -------------------------------------------------------------------- state

    @property
    def nbytes(self) -> int:
        """Bytes held for rows, models and C."""
        return super().nbytes + self._live.beaten.nbytes

    def _saved(self, live: _Live) -> State:
        own: State = {"step": live.step, "beaten": live.beaten}
        return own | nest("stable", live.stable.state()) | nest("reactive", live.reactive.state())

    def _fields(self) -> Fields:
        window = int(self.window)
        short = FieldRule("beaten", f"must have at most {window} values", lambda known: len(known["beaten"]) <= window)
        return declared({"beaten": Array(np.bool_, ("*",))}, parts=["stable", "reactive"], rules=[short])

    def _loaded(self, state: Mapping[str, Any], pool: Pool) -> _Live:
        step = state["step"]
        stable, reactive = (pool.restore_member(pick(role, state), step) for role in ("stable", "reactive"))
        return _Live(stable, reactive, state["beaten"], step)
