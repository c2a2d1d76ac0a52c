"""Diversity Pool: diverse old models; after a drift the one that fits the new rows is used again."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftsurf.core.abilities import check_contract
from driftsurf.core.changes import UndoStack
from driftsurf.core.contracts import Batch, Detector, FloatArray, Learner, Segment, State
from driftsurf.core.decisions import Decision, ModelRecord, Transition
from driftsurf.core.fields import Array, FieldEntry, FieldRule, Fields, Real, Values, Whole
from driftsurf.core.options import whole
from driftsurf.core.state import nest, pick
from driftsurf.detectors.mddm import MDDM
from driftsurf.registry import CLASSIFICATION, Example, register
from driftsurf.reproduction.strategies._diversity import most_alike, right_together
from driftsurf.reproduction.strategies._ensemble import restored, saved, vote
from driftsurf.strategies._base import PooledStrategy, Scorer, declared, make_decision
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, Member, Pool
from driftsurf.strategies._votes import joint_scorer, row_errors, weighted_vote
from driftsurf.strategies.reset_on_drift import watched

SPREAD = 1.96
"""Standard errors by which the new model must be better than an old one, for a confidence of 95 %."""


@dataclass(frozen=True)
class PoolContest:
    """Right predictions since a drift, of the old models and of the new one."""

    joint: FloatArray
    """Weight of the rows on which both of two old models were right; on the diagonal, each alone."""
    right: float = 0.0
    """Weight of the rows on which the new model was right."""
    mass: float = 0.0
    """Weight of all rows."""
    rows: int = 0
    """Number of rows with weight."""

    @property
    def votes(self) -> FloatArray:
        """Weight of the rows on which each model was right, the new one last."""
        return np.append(np.diag(self.joint), self.right)


@dataclass(frozen=True)
class DiversityPoolState:
    """Everything that a step replaces."""

    model: Member
    """The current model; during a contest, the new one."""
    detector: Any
    old: tuple[Member, ...] = ()
    """Old models, oldest first; during a contest, the last one predicted until the drift."""
    contest: PoolContest | None = None
    step: int = 0

    @property
    def members(self) -> tuple[Member, ...]:
        """All models."""
        return *self.old, self.model

    @property
    def predictor(self) -> Member | None:
        """The current model; None while all models vote."""
        return self.model if self.contest is None else None


@register(
    "strategy",
    "diversity-pool",
    title="Diversity Pool",
    tasks=CLASSIFICATION,
    family="ensemble",
    examples=[Example({"pool_size": 3, "test_rows": 30})],
)
class DiversityPool(PooledStrategy[DiversityPoolState]):
    r"""Diversity Pool: old models are kept if they are diverse, and the best one returns if its concept does.

    A detector watches the errors of the current model, as in :class:`driftsurf.strategies.ResetOnDrift`. On a signal
    the model is put into the pool, and a fresh one learns this batch and those that follow. Until b rows have arrived,
    the old models and the new one vote, each with the number of these rows on which it is right (the new one after it
    has learned them). Then the old model with the highest accuracy a on the b rows, the last one not included, becomes
    the current model again and continues to learn, unless the new one is better by more than

    .. math:: 1.96 \sqrt{a (1 - a) / b}.

    If it is, the concept is new, and the new model is the current one. If there are more than ``pool_size`` models
    then, the old one whose removal leaves the others most diverse is removed: their mean Q over all pairs is
    lowest, where
    :math:`Q_{ij} = (N^{11} N^{00} - N^{01} N^{10}) / (N^{11} N^{00} + N^{01} N^{10})` counts the b rows on which both,
    none or one of two models are right (Yule's Q).

    The published algorithm works row by row, with DDM, whose warnings start the new model. It looks for an old model
    only when the pool is full, and takes it only if the new one is within the interval on both sides; here it looks
    after every drift, and an old model may be better by any amount. A learner that can memorise its rows, such as
    trees, is right on nearly all rows that it has learned: around it, old models hardly ever return.

    Parameters
    ----------
    learner
        Template of all models. It must be a classifier.
    detector
        Template of the detector, as for :class:`driftsurf.strategies.ResetOnDrift`. None means ``MDDM()``.
    pool_size
        The largest number of models, the current one included.
    test_rows
        b, the number of rows after which a model is chosen, rounded up to whole batches.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> strategy = DiversityPool(LogisticRegression(), seed=1)
    >>> strategy.begin(n_features=2, sparse=False, n_classes=2)
    >>> for step in range(30):  # the labels are inverted from step 10 to 20
    ...     X = rng.normal(size=(500, 2))
    ...     y = ((X[:, 0] > 0) == (step // 10 != 1)).astype(float)
    ...     for transition in strategy.step(Batch(X, y, np.ones(500))).transitions:
    ...         print(transition.describe())
    step 10: MDDM signalled at row 5018: started a fresh model
    step 20: MDDM signalled at row 10018: started a fresh model
    step 20: right on 99.8 % of 500 rows, the new model on 99.8 %: returned to an old model

    References
    ----------
    C. W. Chiu, L. L. Minku. Diversity-based pool of models for dealing with recurring concepts. IJCNN 2018.
    """

    def __init__(
        self,
        learner: Learner,
        detector: Detector | None = None,
        *,
        pool_size: int = 10,
        test_rows: int = 400,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.detector = detector
        self.pool_size = pool_size
        self.test_rows = test_rows

    def _check(self) -> None:
        check_contract(self._watcher, Detector, "detector", "one of driftsurf.detectors, such as MDDM()")
        self._watcher.check()
        whole("pool_size", self.pool_size, at_least=1)
        whole("test_rows", self.test_rows, at_least=1)
        self._require_classes()

    @property
    def _watcher(self) -> Detector:
        """Template of the detector."""
        return MDDM() if self.detector is None else self.detector

    def _first(self) -> DiversityPoolState:
        return DiversityPoolState(self._pool.make(step=0, first_row=0), self._watcher.fresh())

    def _learning(self, live: DiversityPoolState) -> tuple[Member, ...]:
        return (live.model,)

    def _scoring(self, live: DiversityPoolState) -> Scorer:
        if live.contest is None or not live.contest.votes.any():
            return live.model.learner.scorer()
        ballots = joint_scorer([member.learner for member in live.members])
        return functools.partial(vote, ballots, functools.partial(weighted_vote, weights=live.contest.votes))

    def _advance(
        self, live: DiversityPoolState, segment: Segment, undo: UndoStack
    ) -> tuple[DiversityPoolState, Decision]:
        step, batch = live.step, self._pool.samples.view(segment)
        model, old, contest, detector = live.model, live.old, live.contest, live.detector
        transitions, records = list[Transition](), list[ModelRecord]()
        before = None
        if contest is None:
            before = self._pool.risk(model, segment)
            model = model.after_batch(before)
            why, detector = watched(detector, self._pool.scores(model, segment), batch, first=step == 0)
            if why:
                records.append(model.record("predictive", step, risk_before=before))
                self._pool.retire(model, undo=undo)
                old, contest = (*old, model), PoolContest(np.zeros((len(old) + 1, len(old) + 1)))
                model = self._pool.make(step, segment.lo)
                transitions.append(Transition("reset", step, old=old[-1].id, new=model.id, why=why))
        spent = self._pool.train(model, segment, self.learner.budget(segment), undo)
        if contest is None:
            records.append(model.record("predictive", step, risk_before=before, gradients=spent))
        else:
            records.append(model.record("reactive", step, gradients=spent))
        after = DiversityPoolState(model, detector, old, contest, step + 1)
        if contest is not None:
            after = self._compared(after, batch, transitions, undo)
        return after, make_decision(step, segment, live.predictor, after.predictor, records, transitions)

    def _compared(
        self, live: DiversityPoolState, batch: Batch, transitions: list[Transition], undo: UndoStack
    ) -> DiversityPoolState:
        """Return the state after a batch of a contest, of which it may be the last."""
        before, old, new = live.contest, live.old, live.model
        assert before is not None
        ballots = joint_scorer([member.learner for member in live.members])(batch.X)
        right = batch.weight * (1.0 - row_errors(ballots[-1], batch.y))
        contest = PoolContest(
            before.joint + right_together(ballots[:-1], batch),
            before.right + float(right.sum()),
            before.mass + float(batch.weight.sum()),
            before.rows + int(np.count_nonzero(batch.weight)),
        )
        if contest.rows < self.test_rows:
            return DiversityPoolState(new, live.detector, old, contest, live.step)
        best = recurring(contest)
        if best is not None:
            model = old[best]
            shares = (100.0 * contest.votes / contest.mass).tolist()
            why = f"right on {shares[best]:.1f} % of {contest.rows} rows, the new model on {shares[-1]:.1f} %"
            transitions.append(Transition("recalled", live.step - 1, old=new.id, new=model.id, why=why))
            self._pool.retire(model, undo=undo)  # its rows start with the next batch
            return DiversityPoolState(model, live.detector, old[:best] + old[best + 1 :], None, live.step)
        if len(old) + 1 > self.pool_size:
            gone = most_alike(contest.joint, contest.mass)
            old = old[:gone] + old[gone + 1 :]
        return DiversityPoolState(new, live.detector, old, None, live.step)

    # -------------------------------------------------------------------- state

    @property
    def nbytes(self) -> int:
        """Bytes held for rows, models and detector."""
        memory = self._live.detector.state().values()
        return super().nbytes + sum(np.asarray(value).nbytes for value in memory)

    def _saved(self, live: DiversityPoolState) -> State:
        contest = PoolContest(np.zeros((0, 0))) if live.contest is None else live.contest
        own: State = {"step": live.step, "olds": len(live.old), **vars(contest)}
        own |= saved("old", live.old) | nest("model", live.model.state())
        return own | nest("detector", live.detector.state())

    def _fields(self) -> Fields:
        entries: dict[str, FieldEntry] = {
            "olds": Whole(0, int(self.pool_size)),
            "joint": Array(np.float64, ("judged", "judged"), least=0.0),
            "right": Real(0.0),
            "mass": Real(0.0),
            "rows": Whole(0),
        }
        all_or_none = FieldRule("joint", "must be empty or have a row for each old model", _judges_all_or_none)
        return declared(entries, parts=["old*", "model", "detector"], rules=[all_or_none])

    def _loaded(self, state: Mapping[str, Any], pool: Pool) -> DiversityPoolState:
        contest = None
        if state["joint"].size:
            contest = PoolContest(state["joint"], state["right"], state["mass"], state["rows"])
        detector = type(self._watcher).from_state(self._watcher, pick("detector", state))
        model = pool.restore_member(pick("model", state), state["step"])
        return DiversityPoolState(model, detector, restored(state, "old", state["olds"], pool), contest, state["step"])


def recurring(contest: PoolContest) -> int | None:
    """Return the place of the old model whose concept has returned; None if the new model is needed.

    The last old model, which predicted until the drift, is no candidate.
    """
    accuracy = contest.votes / contest.mass
    if len(accuracy) < 3:
        return None
    best = int(np.argmax(accuracy[:-2]))
    share = float(accuracy[best])
    error = math.sqrt(max(share * (1.0 - share), 0.0) / contest.rows)
    return best if accuracy[-1] <= share + SPREAD * error else None


def _judges_all_or_none(known: Values) -> bool:
    return known["judged"] in (0, known["olds"])
