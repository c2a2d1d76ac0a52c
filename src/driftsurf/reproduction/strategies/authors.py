"""DriftSurf as in the code that the paper's authors published, which departs from Algorithm 1."""

from __future__ import annotations

from typing import ClassVar

from driftsurf.core.changes import UndoStack, replace
from driftsurf.core.contracts import Learner, Segment
from driftsurf.core.decisions import Decision
from driftsurf.core.options import shown
from driftsurf.errors import Option, OptionError
from driftsurf.native.rule import challenger_predicts
from driftsurf.registry import ALL_TASKS, Example, register
from driftsurf.strategies import judges
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, BudgetRule, RiskName
from driftsurf.strategies.driftsurf import DriftSurf, Judge, ThresholdUnit, Variant
from driftsurf.strategies.driftsurf_state import DriftSurfState, DriftSurfStep


class AuthorsJudge(judges.TrainingJudge):
    """The training judge, but for the greedy policy, which compares the risks before learning the batch."""

    def prefers(self, now: DriftSurfStep) -> judges.JudgeAnswer:
        """Return whether w' had the lower risk on X_t, before learning it."""
        now.risks_after()
        old, new = now.risks_before()
        return judges.JudgeAnswer(challenger_predicts(old, new, self.greedy), new, old)


@register(
    "strategy",
    "driftsurf-authors",
    title="DriftSurf (authors' code)",
    tasks=ALL_TASKS,
    family="driftsurf",
    shares_budget=True,
    examples=[Example(), Example({"budget": "divided"}, "divided")],
)
class AuthorsDriftSurf(DriftSurf):
    """DriftSurf as in the code that the paper's authors published, which departs from Algorithm 1 in four places.

    The greedy policy uses the risks before the update; a stable model is made only at a switch, pauses in reactive
    states and later catches up on its rows; T keeps the batches since the last switch; a divided budget stays halved
    after a reactive state. The models are compared on rows that they have learned, by the risk alone.

    Parameters
    ----------
    learner
        Template of all models.
    threshold, stable_threshold, reactive_length, greedy, risk, threshold_unit
        As for :class:`driftsurf.strategies.DriftSurf`.
    budget
        "each" gives rho gradients to every model in training, "divided" splits rho between them.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> from driftsurf.estimators import AuthorsDriftSurfClassifier
    >>> from driftsurf.streams import SINE1
    >>> model = AuthorsDriftSurfClassifier(random_state=0)
    >>> for X, y in SINE1(n_rows=4_000).batches(200):
    ...     _ = model.test_then_train(X, y)
    >>> model.journal_[-1].variant
    'authors'
    """

    _saved_as: ClassVar[type] = DriftSurf
    judge: Judge = "training"
    significance: float = 0.0
    class_share: float = 0.0

    def __init__(
        self,
        learner: Learner,
        *,
        threshold: float = 0.1,
        stable_threshold: float | None = None,
        reactive_length: int = 4,
        greedy: bool = True,
        risk: RiskName = "loss",
        threshold_unit: ThresholdUnit = "auto",
        budget: BudgetRule = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super(DriftSurf, self).__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.threshold = threshold
        self.stable_threshold = stable_threshold
        self.reactive_length = reactive_length
        self.greedy = greedy
        self.risk = risk
        self.threshold_unit = threshold_unit
        self.budget = budget

    @property
    def variant(self) -> Variant:
        """The authors' published code; Algorithm 1 is the class :class:`driftsurf.strategies.DriftSurf`."""
        return "authors"

    @variant.setter
    def variant(self, variant: Variant) -> None:
        if variant != "authors":
            raise OptionError(
                Option("variant"), f" is {shown(variant)}, but an AuthorsDriftSurf is always 'authors'; use DriftSurf"
            )

    def _check(self) -> None:
        super()._check()
        if self.judge == "prequential" or self.significance > 0.0:
            why = "judge is 'prequential'" if self.judge == "prequential" else f"significance is {self.significance:g}"
            raise OptionError(
                why + ", but the variant 'authors' compares models on their training rows; use ",
                *(Option("variant", "algorithm-1"), ", or ", Option("judge", "training")),
            )

    def _judge(self) -> judges.RiskJudge:
        judge = AuthorsJudge(*self._deltas(), greedy=bool(self.greedy))
        return judges.RelativeThresholds(judge) if self._relative else judge

    @property
    def _prequential(self) -> bool:
        return False

    def _enter(self, now: DriftSurfStep, sign: judges.JudgeAnswer) -> None:
        before = now.state
        super()._enter(now, sign)
        now.state = replace(now.state, stable=before.stable, trial=before.trial)
        _, new = now.pair
        now.before["reactive"] = now.pool.risk(new, now.segment)  # the greedy policy compares it

    def _shares(self, now: DriftSurfStep, rho: int, models: int) -> tuple[int, ...]:
        if self.budget == "divided" and now.state.reacted:
            return (rho // 2,) * models
        return super()._shares(now, rho, models)

    def _leave(self, now: DriftSurfStep, verdict: judges.JudgeAnswer) -> None:
        if verdict.answer:
            super()._leave(now, verdict)
            return
        now.record("kept", verdict, *now.pair)  # the stable model goes on, and so does T
        now.state = replace(now.state, reactive=None, reactive_step=0, reactive_predicts=False)

    def _advance(self, state: DriftSurfState, segment: Segment, undo: UndoStack) -> tuple[DriftSurfState, Decision]:
        after, decision = super()._advance(state, segment, undo)
        return self._without_old_batches(after, segment.hi), decision

    def _without_old_batches(self, state: DriftSurfState, end: int) -> DriftSurfState:
        """Drop batches of T beyond ``max_rows``, but those of the current reactive state."""
        if self.max_rows is None:
            return state
        former = len(state.trial) - state.reactive_step
        recent = [part for part in state.trial[:former] if part.lo >= end - self.max_rows]
        return replace(state, trial=(*recent, *state.trial[former:]))
