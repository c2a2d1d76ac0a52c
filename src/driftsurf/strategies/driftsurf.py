"""DriftSurf: a stable state that watches for a sign of drift, a reactive state that settles it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any, Literal

import numpy as np

from driftsurf._kernels import inline
from driftsurf._options import choice, number, truth, whole
from driftsurf._values import replace
from driftsurf.base import Learner, Segment, State
from driftsurf.decisions import Decision, Role, TransitionKind
from driftsurf.errors import CapabilityError, Option, OptionError
from driftsurf.state import nest, pick
from driftsurf.strategies._base import PooledStrategy
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, BudgetRule, Member, Pool, RiskName
from driftsurf.strategies._reaction import Contest, Live, Step
from driftsurf.strategies._unit import RiskUnit

__all__ = ["DriftSurf", "challenger_predicts", "entering", "switching"]

Variant = Literal["algorithm-1", "authors"]
Judge = Literal["auto", "training", "prequential"]
ThresholdUnit = Literal["auto", "risk", "trivial"]


# The rule itself: pure functions of scalars, which a fleet compiles. A comparison with NaN (no evidence) is false.


@inline
def entering(risk: float, best: float, stable_risk: float, threshold: float, stable_threshold: float) -> int:
    """Which condition to enter the reactive state holds: 1, 2, or 0 for neither.

    Condition 1: the risk on the new batch exceeds the best one of this model (R_b) by ``threshold``
    (delta). Condition 2: it exceeds the stable model's by ``stable_threshold`` (delta').

    >>> entering(0.61, 0.38, math.nan, 0.1, 0.05), entering(0.45, 0.38, 0.39, 0.1, 0.05)
    (1, 2)
    """
    if risk > best + threshold:
        return 1
    if risk > stable_risk + stable_threshold:
        return 2
    return 0


@inline
def challenger_predicts(old_risk: float, new_risk: float, greedy: bool) -> bool:
    """Inside a reactive state: whether the reactive model predicts the next batch."""
    return greedy and new_risk < old_risk


@inline
def switching(old_risk: float, new_risk: float) -> bool:
    """At its end: whether the reactive model, strictly better over T, takes over."""
    return new_risk < old_risk


class DriftSurf(PooledStrategy[Live]):
    r"""Algorithm 1 of the paper, generic in its base learner.

    In the **stable state** the predictive model w, trained on S, and (after the first reactive
    state) a stable model w'', trained on the rows since that state, learn each batch X_t. Before
    learning it, DriftSurf enters the **reactive state** if

    .. math::
        R_{X_t}(w_{t-1}) > R_b + \delta \qquad\text{or}\qquad
        R_{X_t}(w_{t-1}) > R_{X_t}(w''_{t-1}) + \delta',

    where R_b is the best risk of this model on a batch before learning it. It then drops w'' and
    trains a fresh reactive model w' beside w for r batches, T. The next batch is predicted by
    whichever was better on the last one (greedy). After r batches w' takes over if
    :math:`R_T(w') < R_T(w)`; either way a fresh stable model starts with the next batch.

    Parameters
    ----------
    learner
        The template of all models.
    threshold
        delta, the tolerated rise of the risk.
    stable_threshold
        delta'; None means threshold / 2.
    reactive_length
        r, the number of batches in a reactive state.
    greedy
        Whether the better of the two models predicts inside a reactive state; else the old one does.
    variant
        "algorithm-1", or "authors" for the authors' published code, which differs: the greedy choice
        uses the risks before the update; a stable model is made only at a switch, rests during
        reactive states and later catches up on the rows it missed; T keeps the batches of all
        reactive states since the last switch; a divided budget stays halved after the first reaction.
    risk
        What the models are compared by: "loss", the learner's own loss with its penalty (the paper's), or
        "zero-one", the share of errors.
    judge
        By which risks the two models of a reactive state are compared. "training" is the paper's: on the last
        batch and on T after learning them. "prequential" takes what each model lost on a batch before learning
        it, summed over T without its first batch, which the reactive model met untrained; so it needs a
        ``reactive_length`` of 2 or more, and until the second batch the old model predicts. A learner that can
        fit its training rows perfectly is always good on them, and must be judged so: "auto" does that iff the
        learner's capabilities say ``can_memorise``.
    threshold_unit
        "risk" takes the thresholds in units of the learner's risk. "trivial" multiplies them by the risk of
        predicting each batch by the mean of the one before, over ln 2 (the risk of tossing a coin): then 0.1
        means for a regression in any unit what it means for log loss. "auto" does that iff targets are values.
    budget
        "each" gives rho gradients to every model in training, "divided" splits rho between them.
    max_rows
        At most this many rows are kept, first in, first out; None keeps all. The rows of T are kept
        to the end of the reactive state regardless.
    dtype
        Type of the stored rows, "float64" or "float32".
    seed
        Fixes every random number.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.base import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> strategy = DriftSurf(LogisticRegression(), seed=1)
    >>> strategy.begin(n_features=2, sparse=False, n_classes=2)
    >>> for step in range(30):  # the labels turn around at step 15
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
        budget: BudgetRule = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        self.learner = learner
        self.threshold = threshold
        self.stable_threshold = stable_threshold
        self.reactive_length = reactive_length
        self.greedy = greedy
        self.variant = variant
        self.risk = risk
        self.judge = judge
        self.threshold_unit = threshold_unit
        self.budget = budget
        self.max_rows = max_rows
        self.dtype = dtype
        self.seed = seed

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
        if self.risk == "zero-one":
            self._check_classes()
        if self._prequential and self.reactive_length < 2:
            raise OptionError(
                Option("reactive_length"),
                " is 1, but the prequential judge needs a batch that the reactive model has met before; give at least "
                "2, or ",
                Option("judge", "training"),
            )
        if self._prequential and self.variant == "authors":
            raise OptionError(
                "judge is 'prequential', but the variant 'authors' compares models on their training rows; use ",
                *(Option("variant", "algorithm-1"), ", or ", Option("judge", "training")),
            )
        if self.threshold_unit == "trivial" and not self._can.values:
            raise CapabilityError(
                f"threshold_unit='trivial' is for values to predict (the task 'regression'), which "
                f"{type(self.learner).__name__} does not; use 'auto'"
            )

    def _new_pool(self) -> Pool:
        return Pool(self.learner, seed=self.seed, max_rows=self.max_rows, dtype=self.dtype, risk=self.risk)

    @property
    def predicting(self) -> Learner:
        """The model that predicts now."""
        return self._live.predictor.learner

    @property
    def _prequential(self) -> bool:
        if self.judge == "auto":
            return self._can.can_memorise and self.variant == "algorithm-1"
        return self.judge == "prequential"

    @property
    def _relative(self) -> bool:
        if self.threshold_unit == "auto":
            return self._can.values
        return self.threshold_unit == "trivial"

    def _first(self) -> Live:
        return Live(self._pool.make(step=0, first_row=0))

    def _thresholds(self, live: Live) -> tuple[float, float]:
        """Delta and delta', in units of the risk."""
        stable = self.threshold / 2 if self.stable_threshold is None else self.stable_threshold
        return float(self.threshold) * live.unit.value, float(stable) * live.unit.value

    def _advance(self, live: Live, segment: Segment, undo: contextlib.ExitStack) -> tuple[Live, Decision]:
        """Watch, train, judge."""
        now = Step(segment, live, self._thresholds(live))
        self._watch(now)
        if self._relative:
            unit = live.unit.met(self._pool.samples.view(segment), self.learner)
            now.live = replace(now.live, unit=unit)
        self._train(now, undo)
        after = self._bounded(self._judge(now), segment.hi)
        return after, self._decision(now, live.predictor, after)

    def _keep(self, live: Live) -> int | None:
        return min((part.lo for part in live.trial), default=None)

    # -------------------------------------------------------------------- the three parts of a step

    def _watch(self, now: Step) -> None:
        """Take the risks on the new batch before learning it; enter the reactive state on a sign of drift."""
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
        if now.condition == 1:
            right, margin = live.predictive.best_risk, now.thresholds[0]
        else:
            right, margin = now.before["stable"], now.thresholds[1]
        now.say("entered", now.before["predictive"], right, margin=margin, condition=now.condition)

    def _train(self, now: Step, undo: contextlib.ExitStack) -> None:
        """Update the models in training within the budget: at most two, the stable one resting for the reactive."""
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

    def _judge(self, now: Step) -> Live:
        """Who predicts the next batch, and what becomes of a reactive state."""
        live = now.live
        old, new = live.predictive, live.reactive
        if new is None:
            return replace(live, step=live.step + 1)
        live = replace(live, reactive_step=live.reactive_step + 1)
        now.reactive_step = live.reactive_step
        if self._prequential:
            weight = float(self._pool.samples.view(now.segment).weight.sum())
            contest = live.contest.met(now.before["predictive"], now.before.get("reactive", math.nan), weight)
            live = replace(live, contest=contest)
        else:
            now.measure(self._pool, "after", "predictive", old)
            now.measure(self._pool, "after", "reactive", new)
            live = replace(live, trial=(*live.trial, now.segment))
        if live.reactive_step == self.reactive_length:
            return self._leave(now, live)
        judged = now.before if self._prequential or self.variant == "authors" else now.after
        # On the batch that brought it the reactive model has no risk before learning: no evidence, no challenge.
        challenger = judged.get("reactive", math.nan)
        challenged = challenger_predicts(judged["predictive"], challenger, bool(self.greedy))
        if challenged != live.challenged:
            ids = {"old": old.id, "new": new.id} if challenged else {"old": new.id, "new": old.id}
            now.say("greedy", challenger, judged["predictive"], **ids)
        return replace(live, step=live.step + 1, challenged=challenged)

    def _leave(self, now: Step, live: Live) -> Live:
        """Back to the stable state, with the model that was better over T."""
        old, new = live.predictive, live.reactive
        assert new is not None
        if self._prequential:
            risks, over = live.contest.risks, live.reactive_step - 1
        else:
            risks, over = (self._pool.risk(old, *live.trial), self._pool.risk(new, *live.trial)), len(live.trial)
        now.trial["predictive"], now.trial["reactive"] = risks
        switched = switching(*risks)
        kind: TransitionKind = "switched" if switched else "kept"
        now.say(kind, risks[1], risks[0], over=over)
        after = Live(new if switched else old, step=live.step + 1, reacted=True, unit=live.unit)
        if self.variant == "authors" and not switched:
            return replace(after, stable=live.stable, trial=live.trial)
        return replace(after, stable=self._pool.make(after.step, now.segment.hi))

    def _bounded(self, live: Live, end: int) -> Live:
        """Where T outlives a reactive state (authors), the cap holds for the batches of former ones."""
        cap = self._pool.max_rows
        if self.variant != "authors" or cap is None:
            return live
        former = len(live.trial) - live.reactive_step
        kept = [part for part in live.trial[:former] if part.lo >= end - cap]
        return replace(live, trial=(*kept, *live.trial[former:]))

    def _decision(self, now: Step, predictor: Member, after: Live) -> Decision:
        records = tuple(
            member.record(
                role,
                now.live.step,
                risk_before=now.before.get(role),
                risk_after=now.after.get(role),
                risk_reactive=now.trial.get(role),
                gradients=now.spent.get(role, 0),
            )
            for role, member in now.cast.items()
        )
        return Decision(
            step=now.live.step,
            first_row=now.segment.lo,
            rows=len(now.segment),
            state="reactive" if now.reactive_step else "stable",
            predicted_by=predictor.id,
            trained_from=predictor.first_row,
            predicts_next=after.predictor.id,
            models=records,
            reactive_step=now.reactive_step,
            condition=now.condition,
            threshold=now.thresholds[0],
            stable_threshold=now.thresholds[1],
            reactive_length=int(self.reactive_length),
            greedy=bool(self.greedy),
            variant=self.variant,
            judge="prequential" if self._prequential else "training",
            transitions=tuple(now.transitions),
        )

    # -------------------------------------------------------------------- state

    def _saved(self, live: Live) -> State:
        state: State = {
            "step": live.step,
            "reactive_step": live.reactive_step,
            "trial": np.array([(part.lo, part.hi) for part in live.trial], np.int64).reshape(-1, 2),
            "challenged": live.challenged,
            "reacted": live.reacted,
        }
        if self._prequential:
            state["contest"] = np.array(astuple(live.contest))
        if self._relative:
            state |= nest("unit", live.unit.state())
        for role in ("predictive", "reactive", "stable"):
            member = getattr(live, role)
            if member is not None:
                state |= nest(role, member.state())
        return state

    def _loaded(self, state: Mapping[str, Any]) -> Live:
        members = {role: pick(role, state) for role in ("predictive", "reactive", "stable")}
        restored = {role: self._pool.restore_member(entry) for role, entry in members.items() if entry}
        trial = tuple(Segment(int(lo), int(hi)) for lo, hi in state["trial"])
        for part in trial:
            self._pool.samples.view(part)  # IndexError unless its rows are there
        return Live(
            **restored,
            step=int(state["step"]),
            reactive_step=int(state["reactive_step"]),
            trial=trial,
            challenged=bool(state["challenged"]),
            reacted=bool(state["reacted"]),
            unit=RiskUnit.from_state(pick("unit", state)) if self._relative else RiskUnit(),
            contest=Contest(*(float(value) for value in state["contest"])) if self._prequential else Contest(),
        )
