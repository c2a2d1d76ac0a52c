"""DriftSurf, Algorithm 1 of the paper: a sign of drift starts a reactive state, whose end decides about the model.

``DriftSurf._advance`` is the algorithm, line by line: read it beside the paper. What it asks about risks, a judge of
``judges.py`` answers; the default judge is the paper's ``TrainingJudge`` within ``RequireClasses``. The judges compare
with functions of ``native/rule.pyx``. Around linear learners, ``native/step.pyx`` takes the same step with the same
functions, and tests compare the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from driftsurf.core.changes import UndoStack, replace
from driftsurf.core.contracts import Learner, Segment, State
from driftsurf.core.decisions import Decision, Role
from driftsurf.core.fields import Fields
from driftsurf.core.options import choice, number, truth, whole
from driftsurf.errors import CapabilityError, Option, OptionError
from driftsurf.errors._runs import warn_of_former_spelling
from driftsurf.registry import ALL_TASKS, CLASSIFICATION, Example, get, name_of, register
from driftsurf.strategies import judges
from driftsurf.strategies._base import make_decision
from driftsurf.strategies._cell_arrays import LONGEST, UNLIMITED, StepRule
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, BudgetRule, Pool, RiskName
from driftsurf.strategies.cell import CellStrategy
from driftsurf.strategies.driftsurf_state import Contest, DriftSurfState, DriftSurfStep, restored_state, state_fields

Variant = Literal["algorithm-1", "authors"]
Judge = Literal["auto", "training", "prequential"]
ThresholdUnit = Literal["auto", "risk", "trivial"]


@register(
    "strategy",
    "driftsurf",
    tasks=ALL_TASKS,
    family="driftsurf",
    shares_budget=True,
    examples=[
        Example(),
        Example({"judge": "prequential"}, "prequential"),
        Example({"judge": "training"}, "training"),
        Example({"significance": 1.0, "reactive_length": 5}, "noisy"),
        Example({"risk": "zero-one"}, "zero-one", CLASSIFICATION),
    ],
)
class DriftSurf(CellStrategy[DriftSurfState]):
    r"""DriftSurf: learn a second model at a sign of drift, and keep the better of the two.

    A rise of the risk is only a *sign* of drift. Instead of discarding a long-trained model on a sign, DriftSurf trains
    a new model beside it for r batches and then decides with more evidence. There are up to three models:

    * w, the **predictive** model, trained on its sample set S;
    * w', the **reactive** model, trained on the rows S' since the reactive state began;
    * w'', the **stable** model, trained on the rows S'' since the last reactive state ended. It never predicts; it
      shows when old rows harm w.

    In the **stable state** w and w'' learn each batch X_t. Before that, DriftSurf enters the reactive state if

    .. math::
        R_{X_t}(w_{t-1}) > R_b + \delta \qquad\text{(condition 1), or}\qquad
        R_{X_t}(w_{t-1}) > R_{X_t}(w''_{t-1}) + \delta' \qquad\text{(condition 2)},

    where R is the risk (the mean loss plus the penalty) and R_b the lowest risk of w so far on a batch that it had not
    learned yet.

    In the **reactive state** w'' is dropped, w' starts untrained, and w and w' learn r batches, which form T. After
    each of them, the model with the lower risk on the last batch predicts the next one (greedy policy). At the end w'
    replaces w if

    .. math:: R_T(w') < R_T(w).

    Otherwise w stays, with all its rows: a false alarm costs nothing but compute. Either way a new stable model w''
    starts with the next batch.

    Parameters
    ----------
    learner
        Template of all models.
    threshold
        delta, the tolerated rise of the risk.
    stable_threshold
        delta'; None means threshold / 2.
    reactive_length
        r, the number of batches in a reactive state.
    greedy
        Whether the better model predicts inside a reactive state. If False, w predicts until the end of it.
    variant
        "algorithm-1". "authors" is the old spelling of the strategy "driftsurf-authors", the authors' published code.
    risk
        Risk by which models are compared: "loss" with the penalty, as in the paper, or "zero-one", the share of errors.
    judge
        Risks by which w and w' are compared in a reactive state. "training", as in the paper: the risks on the last
        batch and on T after learning them. "prequential": the risks on each batch before learning it, summed over T
        without the first one, when w' was untrained, so that r must be at least 2, and w predicts until the second. A
        regression, whose risks vary more, needs a risk a third lower to predict, and to replace w a lower one on the
        last batch, too. A learner that can fit its training rows perfectly always has a low risk on them, and a new
        regression has one because it knows the level of the last rows; so "auto" is "prequential" for regression, for
        learners with the capability ``can_memorise`` and with ``significance``, else "training". A learner with that
        capability often forgets by itself, so that w' needs more evidence: the greedy policy is not applied while it
        has lost more than it gained in earlier reactive states, and a regression needs a risk that is lower by
        delta / 5 on every batch to replace w.
    threshold_unit
        "risk": thresholds are in units of the learner's risk. "trivial": they are multiplied by the risk of predicting
        the mean of the previous batch and divided by ln 2, the log loss of a coin toss, so that 0.1 means the same for
        a regression in any unit as for log loss. "auto" is "trivial" for regression, else "risk".
    significance
        For batches of few rows, whose risks are noisy; try 1. Then R_b is the usual risk of w, its mean over the last
        32 batches or so, since the lowest of many noisy risks is low by chance; and w' replaces w, or predicts in its
        place, only if its mean lead over T so far is more than this many standard errors of that mean. It needs the
        prequential judge and r of at least 3. 0 is the paper's rule.
    class_share
        w' neither predicts nor replaces w before it has seen every class that makes up this share of the last rows of
        w, unless w is worse than a coin toss (a risk above ln 2). Where a class is absent for a while, a model that
        does not know it looks better, until the class returns. The last rows are those of eight reactive states, as
        far as the learner keeps them. 0 is the paper's rule.
    budget
        "each" gives rho gradients to every model in training, "divided" splits rho between them.
    max_rows
        Keep at most this many rows and drop the oldest first; None keeps all. The rows of T are kept until the end of
        the reactive state in any case.
    dtype
        Type of the stored rows, "float64" or "float32".
    seed
        Seed of all random numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> strategy = DriftSurf(LogisticRegression(), seed=1)
    >>> strategy.begin(n_features=2, sparse=False, n_classes=2)
    >>> for step in range(30):  # the labels are inverted from step 15 on
    ...     X = rng.normal(size=(100, 2))
    ...     y = ((X[:, 0] > 0) == (step < 15)).astype(float)
    ...     decision = strategy.step(Batch(X, y, np.ones(100)))
    ...     for transition in decision.transitions:
    ...         print(transition.kind, transition.step)
    entered 15
    greedy 15
    switched 18

    References
    ----------
    A. Tahmasbi, E. Jothimurugesan, S. Tirthapura, P. B. Gibbons. DriftSurf: A Risk-competitive
    Learning Algorithm under Concept Drift. 2020.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        threshold: float = 0.1,
        stable_threshold: float | None = None,
        reactive_length: int = 4,
        greedy: bool = True,
        variant: Variant = "algorithm-1",
        risk: RiskName = "loss",
        judge: Judge = "auto",
        threshold_unit: ThresholdUnit = "auto",
        significance: float = 0.0,
        class_share: float = 0.01,
        budget: BudgetRule = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.threshold = threshold
        self.stable_threshold = stable_threshold
        self.reactive_length = reactive_length
        self.greedy = greedy
        self.variant = variant
        self.risk = risk
        self.judge = judge
        self.threshold_unit = threshold_unit
        self.significance = significance
        self.class_share = class_share
        self.budget = budget

    @property
    def variant(self) -> Variant:
        """Algorithm 1, or the authors' published code, which is another class."""
        variant: Variant = vars(self)["variant"]
        return variant

    @variant.setter
    def variant(self, variant: Variant) -> None:
        if variant == "authors":
            if type(self) is not DriftSurf:
                raise OptionError(
                    Option("variant", "authors"),
                    f" is for DriftSurf itself; derive {type(self).__name__} from AuthorsDriftSurf",
                )
            warn_of_former_spelling(
                "variant='authors' is now the strategy 'driftsurf-authors', and this spelling will be removed"
            )
            vars(self).pop("variant", None)
            self.__class__ = get("strategy", "driftsurf-authors").part  # type: ignore[assignment]
        else:
            vars(self)["variant"] = variant

    # -------------------------------------------------------------------- Algorithm 1

    def _advance(self, state: DriftSurfState, segment: Segment, undo: UndoStack) -> tuple[DriftSurfState, Decision]:
        """Process the batch X_t that arrives in step t: Algorithm 1, with its lines on the right."""
        judge = self._judge()
        now = DriftSurfStep(self._pool, judge, state, segment, undo)
        for role in self._compared(state):
            now.measure(role)  # R(w), and R(w') or R(w''), on X_t
        if now.state.reactive is None:  # if state == stable
            sign = judge.enters(now)
            if sign.answer:  # if condition 1 or condition 2 holds
                self._enter(now, sign)  # state = reactive, T = {}, w' = w_0, S' = {}, i = 0
            else:
                self._train(now, "stable")  # Update(w, S, X_t), Update(w'', S'', X_t)
        if now.state.reactive is not None:  # if state == reactive
            judge.add(now)  # add X_t to T
            self._train(now, "reactive")  # Update(w, S, X_t), Update(w', S', X_t)
            now.i += 1  # i = i + 1
            if now.i == self.reactive_length:  # if i == r
                self._leave(now, judge.switches(now))  # state = stable, w'' = w_0; if R_T(w') < R_T(w): w = w'
            else:
                self._choose(now, judge.prefers(now))  # if R(w') < R(w) on X_t: use w' at the next step
        after = replace(now.state, step=state.step + 1, unit=judge.unit_after(now))
        return after, self._decision(now, after)

    def _enter(self, now: DriftSurfStep, sign: judges.JudgeAnswer) -> None:
        """Enter the reactive state: an untrained w', an empty T, no w'' any more."""
        state = now.state
        new = now.members["reactive"] = self._pool.make(now.number, now.segment.lo)
        now.state = replace(state, reactive=new, stable=None, trial=(), reacted=True, contest=Contest())
        now.condition = sign.answer
        now.record("entered", sign, state.predictive, new, condition=sign.answer)

    def _train(self, now: DriftSurfStep, rival: Role) -> None:
        """Update w together with w' or w'', if there is one, within the budget rho."""
        other = getattr(now.state, rival)
        models = (now.state.predictive,) if other is None else (now.state.predictive, other)
        shares = self._shares(now, self.learner.budget(now.segment), len(models))
        spent = self._pool.train_all(models, now.segment, shares, now.undo)
        now.spent |= zip(("predictive", rival), spent, strict=False)

    def _shares(self, now: DriftSurfStep, rho: int, models: int) -> tuple[int, ...]:
        """Return the gradients of each of the models that learn."""
        return (rho - rho // 2, rho // 2) if self.budget == "divided" and models == 2 else (rho,) * models

    def _choose(self, now: DriftSurfStep, verdict: judges.JudgeAnswer) -> None:
        """Let the model that is better on X_t predict the next batch (greedy policy), unless that has lost before."""
        old, new = now.pair
        credit = now.state.credit
        chosen = bool(verdict.answer)
        predicts = chosen and credit.trusted
        if predicts != now.state.reactive_predicts:
            now.record("greedy", verdict, *((old, new) if predicts else (new, old)))
        now.state = replace(now.state, reactive_predicts=predicts, reactive_step=now.i, credit=credit.choosing(chosen))

    def _leave(self, now: DriftSurfStep, verdict: judges.JudgeAnswer) -> None:
        """Return to the stable state with the model that has the lower risk over T, and with a fresh w''."""
        old, new = now.pair
        now.record("switched" if verdict.answer else "kept", verdict, old, new, absent=verdict.absent)
        now.state = DriftSurfState(
            new if verdict.answer else old,
            stable=self._pool.make(now.number + 1, now.segment.hi),
            reacted=True,
            unit=now.state.unit,
            credit=now.state.credit.closed(),
        )

    # -------------------------------------------------------------------- the judge

    def _judge(self) -> judges.RiskJudge:
        """Return the judge that the options ask for."""
        thresholds, greedy = self._deltas(), bool(self.greedy)
        judge: judges.RiskJudge = judges.TrainingJudge(*thresholds, greedy=greedy)
        if self._prequential:
            judge = judges.PrequentialJudge(
                *thresholds,
                greedy=greedy,
                regression=self._can.regression,
                every_batch=self._can.can_memorise,
                significance=float(self.significance),
            )
        if self.class_share and not self._can.regression:
            judge = judges.RequireClasses(judge, float(self.class_share), int(self.reactive_length))
        if self._relative:
            judge = judges.RelativeThresholds(judge)
        # A learner that can memorise is mostly refitted to its last rows, so that w' needs more evidence.
        return judges.GreedyCredit(judge) if self._prequential and self._can.can_memorise else judge

    def _deltas(self) -> tuple[float, float]:
        """Return delta and delta'."""
        stable = self.threshold / 2 if self.stable_threshold is None else self.stable_threshold
        return float(self.threshold), float(stable)

    @property
    def _prequential(self) -> bool:
        if self.judge == "auto" and not self.significance > 0.0:
            return self._can.can_memorise or self._can.regression
        return self.judge != "training"

    @property
    def _relative(self) -> bool:
        return self._can.regression if self.threshold_unit == "auto" else self.threshold_unit == "trivial"

    def _compared(self, state: DriftSurfState) -> tuple[Role, ...]:
        """Return the models whose risks on X_t are compared before it is learned."""
        if state.reactive is not None:
            return "predictive", "reactive"
        return ("predictive",) if state.stable is None else ("predictive", "stable")

    # -------------------------------------------------------------------- options, the native step, decisions

    def _check(self) -> None:
        choice("variant", self.variant, ("algorithm-1", "authors"))
        choice("risk", self.risk, ("loss", "zero-one"))
        choice("budget", self.budget, ("each", "divided"))
        truth("greedy", self.greedy)
        whole("reactive_length", self.reactive_length, at_least=1)
        number("threshold", self.threshold, at_least=0.0, infinite=True)
        if self.stable_threshold is not None:
            number("stable_threshold", self.stable_threshold, at_least=0.0, infinite=True, otherwise=", or None")
        choice("judge", self.judge, ("auto", "training", "prequential"))
        choice("threshold_unit", self.threshold_unit, ("auto", "risk", "trivial"))
        number("significance", self.significance, at_least=0.0)
        number("class_share", self.class_share, at_least=0.0, below=1.0)
        if self.threshold_unit == "trivial" and not self._can.regression:
            raise CapabilityError(
                f"threshold_unit='trivial' is for the task 'regression', which the learner "
                f"{name_of('learner', self.learner)} does not support; use 'auto'"
            )
        if self.risk == "zero-one":
            self._require_classes()
        judges.check_judge(self.judge, self.reactive_length, self.significance, prequential=self._prequential)

    def _new_pool(self) -> Pool:
        return Pool(self.learner, seed=self.seed, max_rows=self.max_rows, dtype=self.dtype, risk=self.risk)

    def _first(self) -> DriftSurfState:
        return DriftSurfState(self._pool.make(step=0, first_row=0))

    def _keep(self, state: DriftSurfState) -> int | None:
        return min((part.lo for part in state.trial), default=None)

    def _cell_rule(self) -> tuple[StepRule, dict[str, Any]] | None:
        judge = self._judge()
        rule = judge.native_rule()
        # A subclass may change any part of the step.
        if rule is None or self.risk == "zero-one" or self.reactive_length > LONGEST or type(self) is not DriftSurf:
            return None
        limit = UNLIMITED if self._pool.max_rows is None else self._pool.max_rows
        rule |= {"reactive_length": int(self.reactive_length), "divided": self.budget == "divided", "max_rows": limit}
        return StepRule(**rule), self._details(judge.name, judge.thresholds(None))

    def _decision(self, now: DriftSurfStep, after: DriftSurfState) -> Decision:
        return make_decision(
            now.number,
            now.segment,
            now.predictor,
            after.predictor,
            now.records(),
            state="reactive" if now.i else "stable",
            reactive_step=now.i,
            condition=now.condition,
            risk_unit=now.risk_unit,
            lead_error=now.lead_error,
            absent=now.absent,
            greedy_credit=now.credit if isinstance(now.judge, judges.GreedyCredit) else None,
            transitions=tuple(now.transitions),
            **self._details(now.judge.name, now.thresholds),
        )

    def _details(self, judge: str, thresholds: tuple[float, float]) -> dict[str, Any]:
        """Return the fields of a decision that follow from the options."""
        return {
            "threshold": thresholds[0],
            "stable_threshold": thresholds[1],
            "reactive_length": int(self.reactive_length),
            "greedy": bool(self.greedy),
            "variant": self.variant,
            "judge": judge,
            "significance": float(self.significance) if self.significance > 0.0 else None,
        }

    # -------------------------------------------------------------------- state

    @property
    def _contest(self) -> int:
        """How many fields of ``Contest`` are saved."""
        return 9 if self.significance > 0.0 else 6 if self._prequential else 0

    def _saved(self, state: DriftSurfState) -> State:
        return state.state(contest=self._contest, relative=self._relative)

    def _fields(self) -> Fields:
        return state_fields(int(self.reactive_length), contest=self._contest, relative=self._relative)

    def _loaded(self, state: Mapping[str, Any], pool: Pool) -> DriftSurfState:
        return restored_state(state, pool, contest=self._contest, relative=self._relative)
