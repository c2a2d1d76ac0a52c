"""DriftSurf, Algorithm 1 of the paper: a sign of drift starts a reactive state, whose end decides about the model.

A step reads like the algorithm. ``_watch`` takes the risks on the new batch X_t before it is learned and enters the
reactive state on a sign of drift; ``_train`` updates the models; ``_compare`` applies the greedy policy; ``_exit``
ends the reactive state and decides about the switch. The three comparisons themselves are the functions ``entering``,
``challenger_predicts`` and ``switching``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from driftsurf.core.changes import UndoStack
from driftsurf.core.contracts import Learner, Segment, State
from driftsurf.core.decisions import Decision, Role
from driftsurf.core.fields import Fields
from driftsurf.core.values import replace
from driftsurf.native.linear import pairwise_sum
from driftsurf.native.rule import (
    REGRESSION_LEAD,
    REGRESSION_MARGIN,
    challenger_predicts,
    counts_classes,
    entering,
    needed_lead,
    switching,
    usual_batches,
)
from driftsurf.registry import ALL_TASKS, CLASSIFICATION, Example, register
from driftsurf.strategies._base import make_decision
from driftsurf.strategies._cell_arrays import LONGEST, UNLIMITED, Rule
from driftsurf.strategies._classes import missed_class
from driftsurf.strategies._options import Judge, ThresholdUnit, Variant, check_options, check_prequential
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, BudgetRule, Member, Pool, RiskName
from driftsurf.strategies._reaction import Contest, Live, Step, live_fields, restored_live
from driftsurf.strategies.cell import CellStrategy

__all__ = ["DriftSurf", "Judge", "ThresholdUnit", "Variant", "challenger_predicts", "entering", "switching"]


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
        Example({"variant": "authors", "budget": "divided"}, "authors"),
        Example({"risk": "zero-one"}, "zero-one", CLASSIFICATION),
    ],
)
class DriftSurf(CellStrategy[Live]):
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
        "algorithm-1", or "authors" for the authors' published code, which differs: the greedy policy uses the risks
        before the update; a stable model is made only at a switch, pauses in reactive states and later catches up on
        its rows; T keeps the batches since the last switch; a divided budget stays halved after a reactive state.
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
        far as the learner keeps them. 0 is the paper's rule; the variant "authors" always has that.
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

    def _check(self) -> None:
        check_options(self)
        if self.risk == "zero-one":
            self._require_classes()
        if self._prequential:
            check_prequential(self.judge, self.variant, self.reactive_length, self.significance)

    def _new_pool(self) -> Pool:
        return Pool(self.learner, seed=self.seed, max_rows=self.max_rows, dtype=self.dtype, risk=self.risk)

    @property
    def _prequential(self) -> bool:
        if self.judge == "auto" and not self._noisy:
            return (self._can.can_memorise or self._can.regression) and self.variant == "algorithm-1"
        return self._noisy or self.judge == "prequential"

    @property
    def _noisy(self) -> bool:
        return self.significance > 0.0

    @property
    def _class_share(self) -> float:
        """Share of rows from which on w' has to know a class; 0 if classes are not counted."""
        return 0.0 if self._can.regression or self.variant == "authors" else float(self.class_share)

    @property
    def _contest(self) -> int:
        """How many fields of ``Contest`` are saved."""
        return 9 if self._noisy else 6 if self._prequential else 0

    def _cautious(self, now: Step) -> bool:
        """Whether w' needs more evidence: a learner that can memorise is mostly refitted to its last rows."""
        return now.prequential and self._can.can_memorise

    def _lead(self, prequential: bool) -> float:
        """Return the share of the risk of w by which w' must be better to predict the next batch."""
        return REGRESSION_LEAD if prequential and self._can.regression else 0.0

    @property
    def _relative(self) -> bool:
        if self.threshold_unit == "auto":
            return self._can.regression
        return self.threshold_unit == "trivial"

    def _first(self) -> Live:
        return Live(self._pool.make(step=0, first_row=0))

    def _thresholds(self, unit: float) -> tuple[float, float]:
        """Return delta and delta' in units of the risk, as multiples of the given unit."""
        stable = self.threshold / 2 if self.stable_threshold is None else self.stable_threshold
        return float(self.threshold) * unit, float(stable) * unit

    def _advance(self, live: Live, segment: Segment, undo: UndoStack) -> tuple[Live, Decision]:
        """Process the batch X_t: watch for a sign of drift, train, compare the models."""
        relative, unit_value = self._relative, live.unit.value
        unit = unit_value if relative else None
        now = Step(segment, live, self._thresholds(unit_value), self._prequential, self._noisy, unit)
        self._watch(now)
        if relative:
            rows = self._pool.samples.view(segment)
            now.live = replace(now.live, unit=live.unit.after_batch(rows, self.learner))
        self._train(now, undo)
        after = self._compare(now)
        if self.variant == "authors":
            after = after.without_old_batches(segment.hi, self._pool.max_rows)
        return after, self._decision(now, live.predictor, after)

    def _keep(self, live: Live) -> int | None:
        return min((part.lo for part in live.trial), default=None)

    def _cell_rule(self) -> tuple[Rule, dict[str, Any]] | None:
        # A subclass may change any part of the step.
        unusual = self.variant == "authors" or self.risk == "zero-one" or self.reactive_length > LONGEST
        if unusual or type(self) is not DriftSurf:
            return None
        thresholds, prequential = self._thresholds(1.0), self._prequential
        rule = Rule(
            *thresholds,
            reactive_length=int(self.reactive_length),
            greedy=bool(self.greedy),
            divided=self.budget == "divided",
            max_rows=UNLIMITED if self._pool.max_rows is None else self._pool.max_rows,
            prequential=prequential,
            relative=self._relative,
            lead=self._lead(prequential),
            significance=float(self.significance),
            class_share=self._class_share,
        )
        return rule, self._details(thresholds, prequential=prequential)

    # -------------------------------------------------------------------- the parts of a step

    def _watch(self, now: Step) -> None:
        """Compute the risks on X_t before learning it; enter the reactive state on a sign of drift."""
        live = now.live
        predictive = now.measure(self._pool, "before", "predictive", live.predictive)
        if live.reactive is not None:
            reactive = now.measure(self._pool, "before", "reactive", live.reactive)
            now.live = replace(live, predictive=predictive, reactive=reactive)
            return
        if live.stable is not None:
            live = replace(live, stable=now.measure(self._pool, "before", "stable", live.stable))
        risk, stable_risk = now.before["predictive"], now.before.get("stable", math.nan)
        best = predictive.best_risk
        now.live = replace(live, predictive=predictive)
        now.condition = entering(risk, best, stable_risk, *now.thresholds)
        if now.condition:
            self._enter(now)

    def _enter(self, now: Step) -> None:
        """Enter the reactive state: an untrained w', an empty T, no w'' any more."""
        live, authors = now.live, self.variant == "authors"
        reactive = self._pool.make(live.step, now.segment.lo)
        now.cast["reactive"] = reactive
        now.live = replace(
            live,
            reactive=reactive,
            stable=live.stable if authors else None,
            trial=live.trial if authors else (),
            reacted=True,
            contest=Contest(),
        )
        if authors:
            now.measure(self._pool, "before", "reactive", reactive)
        right = live.predictive.best_risk if now.condition == 1 else now.before["stable"]
        margin = now.thresholds[now.condition - 1]
        over = usual_batches(live.step - live.predictive.born) if now.noisy and now.condition == 1 else 1
        now.note("entered", now.before["predictive"], right, margin=margin, over=over, condition=now.condition)

    def _train(self, now: Step, undo: UndoStack) -> None:
        """Update w together with w' (reactive state) or w'' (stable state), within the budget."""
        live = now.live
        rival: Role = "stable" if live.reactive is None else "reactive"
        other = live.stable if live.reactive is None else live.reactive
        rho = self.learner.budget(now.segment)
        shares = rho, rho
        if self.budget == "divided" and self.variant == "authors" and live.reacted:
            shares = rho // 2, rho // 2
        elif self.budget == "divided" and other is not None:
            shares = rho - rho // 2, rho // 2
        if other is None:
            now.spent["predictive"] = self._pool.train(live.predictive, now.segment, shares[0], undo)
        else:
            spent = self._pool.train_all((live.predictive, other), now.segment, shares, undo)
            now.spent["predictive"], now.spent[rival] = spent

    def _compare(self, now: Step) -> Live:
        """In a reactive state, compare w and w': who predicts the next batch, or at the end, which one stays."""
        live = now.live
        old, new = live.predictive, live.reactive
        if new is None:
            return replace(live, step=live.step + 1)
        live = replace(live, reactive_step=live.reactive_step + 1)
        now.reactive_step = live.reactive_step
        if counts_classes(self._class_share, now.before["predictive"]):
            when = live.reactive_step, int(self.reactive_length)
            now.absent = missed_class(self._pool.samples, old, new, self._class_share, *when)
        if now.prequential:
            weight = pairwise_sum(self._pool.samples.view(now.segment).weight)
            risks = now.before["predictive"], now.before.get("reactive", math.nan)
            live = replace(
                live, contest=live.contest.after_batch(*risks, weight, REGRESSION_MARGIN * now.thresholds[0])
            )
            if self._cautious(now):
                credit = live.credit.after_batch(*risks, 1.0 if now.risk_unit is None else now.risk_unit)
                live = replace(live, credit=credit)
            if now.noisy and live.reactive_step > 1:
                now.trial["predictive"], now.trial["reactive"] = live.contest.risks
                now.lead_error = live.contest.error
        else:
            now.measure(self._pool, "after", "predictive", old)
            now.measure(self._pool, "after", "reactive", new)
            live = replace(live, trial=(*live.trial, now.segment))
        if live.reactive_step == self.reactive_length:
            return self._exit(now, live)
        judged = now.trial or (now.before if now.prequential or self.variant == "authors" else now.after)
        # NaN: an untrained w' without a risk before learning is no evidence, so w predicts on.
        challenger, defender = judged.get("reactive", math.nan), judged["predictive"]
        lead = needed_lead(self._lead(now.prequential), defender) + self._noise(now)
        chosen = challenger_predicts(defender - lead, challenger, bool(self.greedy)) and now.absent is None
        challenged = chosen and live.credit.trusted
        if challenged != live.challenged:
            ids = {"old": old.id, "new": new.id} if challenged else {"old": new.id, "new": old.id}
            over = live.reactive_step - 1 if now.trial else 1
            now.note("greedy", challenger, defender, margin=0.0 - lead, over=over, **ids)
        return replace(live, step=live.step + 1, challenged=challenged, credit=live.credit.choosing(chosen))

    def _noise(self, now: Step) -> float:
        """Return by how much w' must lead over T so that this is not by chance; infinite after a single batch."""
        return 0.0 if now.lead_error is None else float(self.significance) * now.lead_error

    def _exit(self, now: Step, live: Live) -> Live:
        """Return to the stable state with the model that has the lower risk over T."""
        old, new = live.predictive, live.reactive
        assert new is not None
        if now.prequential:
            risks, over = live.contest.risks, live.reactive_step - 1
        else:
            risks, over = (self._pool.risk(old, *live.trial), self._pool.risk(new, *live.trial)), len(live.trial)
        now.trial["predictive"], now.trial["reactive"] = risks
        switched, margin = switching(risks[0] - self._noise(now), risks[1]), self._noise(now)
        if switched and self._lead(now.prequential):  # one batch with large errors may have outweighed the others
            last = now.before["predictive"], now.before.get("reactive", math.nan), 0.0
            old_risk, new_risk, needed = live.contest.least if self._cautious(now) else last
            if not switching(old_risk - needed, new_risk):
                risks, over, switched, margin = (old_risk, new_risk), 1, False, needed
        absent, switched = -1 if now.absent is None or not switched else now.absent, switched and now.absent is None
        more = {"margin": 0.0 - margin, "over": over, "absent": absent}
        now.note("switched" if switched else "kept", risks[1], risks[0], **more)
        after = Live(
            new if switched else old, step=live.step + 1, reacted=True, unit=live.unit, credit=live.credit.closed()
        )
        if self.variant == "authors" and not switched:
            return replace(after, stable=live.stable, trial=live.trial)
        return replace(after, stable=self._pool.make(after.step, now.segment.hi))

    def _decision(self, now: Step, predictor: Member, after: Live) -> Decision:
        who = now.live.step, now.segment, predictor, after.predictor, now.records()
        return make_decision(
            *who,
            state="reactive" if now.reactive_step else "stable",
            reactive_step=now.reactive_step,
            condition=now.condition,
            risk_unit=now.risk_unit,
            lead_error=now.lead_error,
            absent=now.absent,
            greedy_credit=now.live.credit.value if self._cautious(now) else None,
            transitions=tuple(now.transitions),
            **self._details(now.thresholds, prequential=now.prequential),
        )

    def _details(self, thresholds: tuple[float, float], *, prequential: bool) -> dict[str, Any]:
        """Return the fields of a decision that follow from the options."""
        return {
            "threshold": thresholds[0],
            "stable_threshold": thresholds[1],
            "reactive_length": int(self.reactive_length),
            "greedy": bool(self.greedy),
            "variant": self.variant,
            "judge": "prequential" if prequential else "training",
            "significance": float(self.significance) if self._noisy else None,
        }

    # -------------------------------------------------------------------- state

    def _saved(self, live: Live) -> State:
        return live.state(contest=self._contest, relative=self._relative)

    def _fields(self) -> Fields:
        return live_fields(int(self.reactive_length), contest=self._contest, relative=self._relative)

    def _loaded(self, state: Mapping[str, Any], pool: Pool) -> Live:
        return restored_live(state, pool, contest=self._contest, relative=self._relative)
