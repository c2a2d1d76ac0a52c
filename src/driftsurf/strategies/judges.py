"""Judges of DriftSurf: they decide about the start of a reactive state, about its predictions and about its end.

``TrainingJudge`` is the judge of the paper, ``PrequentialJudge`` another one. Both are options of
:class:`driftsurf.strategies.DriftSurf`; so are ``RequireClasses``, ``RelativeThresholds`` and ``GreedyCredit``, which
wrap one of them. All comparisons are functions of ``driftsurf.native.rule``, which the native step calls too.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftsurf.core import changes
from driftsurf.core.contracts import Segment
from driftsurf.core.samples import Samples
from driftsurf.errors import Option, OptionError
from driftsurf.native.linear import pairwise_sum
from driftsurf.native.rule import (
    REGRESSION_LEAD,
    REGRESSION_MARGIN,
    challenger_predicts,
    counts_classes,
    entering,
    is_missed,
    needed_lead,
    reference_risk,
    remembered_rows,
    switching,
    usual_batches,
)
from driftsurf.strategies._pool import Member
from driftsurf.strategies.driftsurf_state import DriftSurfState, DriftSurfStep, RiskUnit


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """Answer of a judge, with the risks that were compared and all else that the journal has about it."""

    answer: int
    """1 for yes, 0 for no; for ``enters`` the number of the condition."""
    left: float = math.nan
    """Risk of the model that is measured: of w for ``enters``, otherwise of w'."""
    right: float = math.nan
    """Risk of the model that it is compared with."""
    margin: float = 0.0
    """Difference that was needed."""
    over: int = 1
    """Number of batches that the risks are means of."""
    absent: int = -1
    """Code of the class for lack of which the answer is no; -1 for none."""


class RiskJudge(ABC):
    """What DriftSurf asks a judge. A judge changes nothing but the step that it is given."""

    name: str

    @abstractmethod
    def thresholds(self, unit: float | None) -> tuple[float, float]:
        """Return delta and delta' in units of the risk."""

    def unit(self, state: DriftSurfState) -> float | None:
        """Return the unit of the thresholds; None if they are in units of the risk already."""
        return None

    @abstractmethod
    def best(self, best: float, risk: float, age: int) -> float:
        """Return R_b of a model that has learned ``age`` batches, after its risk on one more; NaN is no evidence."""

    @abstractmethod
    def enters(self, now: DriftSurfStep) -> JudgeAnswer:
        """Return which of the two conditions to enter the reactive state holds."""

    @abstractmethod
    def add(self, now: DriftSurfStep) -> None:
        """Add X_t to T."""

    @abstractmethod
    def prefers(self, now: DriftSurfStep) -> JudgeAnswer:
        """Return whether w' predicts the next batch of the reactive state."""

    @abstractmethod
    def switches(self, now: DriftSurfStep) -> JudgeAnswer:
        """Return whether w' replaces w at the end of the reactive state."""

    def unit_after(self, now: DriftSurfStep) -> RiskUnit:
        """Return the unit of the next step."""
        return now.state.unit

    @abstractmethod
    def native_rule(self) -> dict[str, Any] | None:
        """Return this judge as parameters of the native step; None if that does not have it."""


class TrainingJudge(RiskJudge):
    """The judge of the paper: w and w' are compared on rows that both have just learned."""

    name: str = "training"

    def __init__(self, threshold: float, stable_threshold: float, *, greedy: bool) -> None:
        self.threshold: float = threshold
        self.stable_threshold: float = stable_threshold
        self.greedy: bool = greedy

    def thresholds(self, unit: float | None) -> tuple[float, float]:
        """Return delta and delta'; they are in units of the risk already."""
        return self.threshold, self.stable_threshold

    def best(self, best: float, risk: float, age: int) -> float:
        """Return the lowest risk so far."""
        return reference_risk(best, risk, age, noisy=False)

    def enters(self, now: DriftSurfStep) -> JudgeAnswer:
        """Return which condition holds: the risk of w exceeds R_b by delta, or that of w'' by delta'."""
        risk, best, stable_risk = now.before["predictive"], now.state.predictive.best_risk, now.risk_before("stable")
        condition = entering(risk, best, stable_risk, *now.thresholds)
        return JudgeAnswer(condition, risk, best if condition == 1 else stable_risk, now.thresholds[condition - 1])

    def add(self, now: DriftSurfStep) -> None:
        """Add the rows of X_t to T."""
        now.state = changes.replace(now.state, trial=(*now.state.trial, now.segment))

    def prefers(self, now: DriftSurfStep) -> JudgeAnswer:
        """Return whether w' has the lower risk on X_t, after learning it."""
        old, new = now.risks_after()
        return JudgeAnswer(challenger_predicts(old, new, self.greedy), new, old)

    def switches(self, now: DriftSurfStep) -> JudgeAnswer:
        """Return whether w' has the lower risk over the rows of T."""
        now.risks_after()
        old, new = now.risks_over_trial()
        return JudgeAnswer(switching(old, new), new, old, over=len(now.state.trial))

    def native_rule(self) -> dict[str, Any] | None:
        """Return the thresholds, and that nothing else is judged."""
        numbers = {"threshold": self.threshold, "stable_threshold": self.stable_threshold, "greedy": self.greedy}
        usual = {"relative": False, "lead": 0.0, "significance": 0.0, "class_share": 0.0}
        return numbers | usual | {"prequential": False}


class PrequentialJudge(TrainingJudge):
    """A judge that compares w and w' by their risks on each batch before learning it, summed over T.

    Parameters
    ----------
    regression
        Whether the models are regressions, whose risks vary more: w' needs a risk that is lower by a third to predict,
        and a lower one on the last batch, too, to replace w.
    every_batch
        Whether a regression w' needs a risk that is lower by delta / 5 on every batch, not on the last one, to
        replace w.
    significance
        How many standard errors of its mean lead w' must lead by; 0 does not take noise into account.
    """

    name: str = "prequential"

    def __init__(
        self,
        threshold: float,
        stable_threshold: float,
        *,
        greedy: bool,
        regression: bool,
        every_batch: bool,
        significance: float,
    ) -> None:
        super().__init__(threshold, stable_threshold, greedy=greedy)
        self.lead: float = REGRESSION_LEAD if regression else 0.0
        self.every_batch: bool = every_batch
        self.significance: float = significance

    @property
    def noisy(self) -> bool:
        """Whether the noise of the risks is taken into account."""
        return self.significance > 0.0

    def best(self, best: float, risk: float, age: int) -> float:
        """Return the lowest risk so far, or with noise the usual one."""
        return reference_risk(best, risk, age, self.noisy)

    def enters(self, now: DriftSurfStep) -> JudgeAnswer:
        """Return which condition holds, and how many batches a usual risk is the mean of."""
        verdict = super().enters(now)
        usual = self.noisy and verdict.answer == 1
        return replace(verdict, over=usual_batches(now.age(now.state.predictive))) if usual else verdict

    def add(self, now: DriftSurfStep) -> None:
        """Add the risks on X_t to the sums over T."""
        # An untrained w' has no risk before learning, so its first batch is no evidence, and w predicts the second.
        weight = pairwise_sum(now.rows.weight)
        risks, margin = now.risks_before(), REGRESSION_MARGIN * now.thresholds[0]
        now.state = changes.replace(now.state, contest=now.state.contest.after_batch(*risks, weight, margin))

    def prefers(self, now: DriftSurfStep) -> JudgeAnswer:
        """Return whether w' had the lower risk on X_t, or with noise over T so far, by the lead that it needs."""
        old, new, over, noise = *now.risks_before(), 1, 0.0
        if self.noisy and now.i > 1:
            old, new, over, noise = *self._record_risks(now), now.i - 1, self._noise(now)
        lead = needed_lead(self.lead, old) + noise
        return JudgeAnswer(challenger_predicts(old - lead, new, self.greedy), new, old, 0.0 - lead, over)

    def switches(self, now: DriftSurfStep) -> JudgeAnswer:
        """Return whether w' had the lower risk over T, and for a regression on the last batch, too."""
        (old, new), noise = self._record_risks(now), self._noise(now)
        switched = switching(old - noise, new)
        if switched and self.lead:  # one batch with large errors may have outweighed the others
            old_once, new_once, needed = now.state.contest.least if self.every_batch else (*now.risks_before(), 0.0)
            if not switching(old_once - needed, new_once):
                return JudgeAnswer(False, new_once, old_once, 0.0 - needed)
        return JudgeAnswer(switched, new, old, 0.0 - noise, now.i - 1)

    def native_rule(self) -> dict[str, Any] | None:
        """Return the thresholds, the needed lead and the significance."""
        numbers = super().native_rule() or {}
        return numbers | {"prequential": True, "lead": self.lead, "significance": self.significance}

    def _record_risks(self, now: DriftSurfStep) -> tuple[float, float]:
        old, new = now.trial["predictive"], now.trial["reactive"] = now.state.contest.risks
        return old, new

    def _noise(self, now: DriftSurfStep) -> float:
        """Return by how much w' must lead over T so that this is not by chance; infinite after a single batch."""
        if not self.noisy:
            return 0.0
        now.lead_error = now.state.contest.error
        return self.significance * now.lead_error


class _JudgeWrapper(RiskJudge):
    """A judge that changes some answers of the judge that it wraps."""

    def __init__(self, judge: RiskJudge) -> None:
        self.judge: RiskJudge = judge
        self.name: str = judge.name

    def thresholds(self, unit: float | None) -> tuple[float, float]:
        return self.judge.thresholds(unit)

    def unit(self, state: DriftSurfState) -> float | None:
        return self.judge.unit(state)

    def best(self, best: float, risk: float, age: int) -> float:
        return self.judge.best(best, risk, age)

    def enters(self, now: DriftSurfStep) -> JudgeAnswer:
        return self.judge.enters(now)

    def add(self, now: DriftSurfStep) -> None:
        self.judge.add(now)

    def prefers(self, now: DriftSurfStep) -> JudgeAnswer:
        return self.judge.prefers(now)

    def switches(self, now: DriftSurfStep) -> JudgeAnswer:
        return self.judge.switches(now)

    def unit_after(self, now: DriftSurfStep) -> RiskUnit:
        return self.judge.unit_after(now)

    def native_rule(self) -> dict[str, Any] | None:
        return self.judge.native_rule()


class RequireClasses(_JudgeWrapper):
    """A judge that does not let w' predict or replace w before it has seen the classes of w.

    Parameters
    ----------
    share
        Share of the last rows of w from which on a class counts.
    reactive_length
        r; classes are counted in the rows of eight reactive states.
    """

    def __init__(self, judge: RiskJudge, share: float, reactive_length: int) -> None:
        super().__init__(judge)
        self.share: float = share
        self.reactive_length: int = reactive_length

    def prefers(self, now: DriftSurfStep) -> JudgeAnswer:
        """Return the answer, or no if w' lacks a class."""
        return self._checked(now, super().prefers(now))

    def switches(self, now: DriftSurfStep) -> JudgeAnswer:
        """Return the answer, or no if w' lacks a class."""
        return self._checked(now, super().switches(now))

    def _checked(self, now: DriftSurfStep, verdict: JudgeAnswer) -> JudgeAnswer:
        if counts_classes(self.share, now.before["predictive"]):
            old, new = now.pair
            now.absent = missed_class(now.pool.samples, old, new, self.share, now.i, self.reactive_length)
        return verdict if now.absent is None or not verdict.answer else replace(verdict, answer=0, absent=now.absent)

    def native_rule(self) -> dict[str, Any] | None:
        """Return the parameters with the share of a class."""
        rule = super().native_rule()
        return None if rule is None else rule | {"class_share": self.share}


class RelativeThresholds(_JudgeWrapper):
    """A judge whose thresholds are multiples of the risk of a trivial model."""

    def thresholds(self, unit: float | None) -> tuple[float, float]:
        """Return delta and delta' times the unit."""
        threshold, stable_threshold = super().thresholds(None)
        return (threshold, stable_threshold) if unit is None else (threshold * unit, stable_threshold * unit)

    def unit(self, state: DriftSurfState) -> float | None:
        """Return the unit from the last batches."""
        return state.unit.value

    def unit_after(self, now: DriftSurfStep) -> RiskUnit:
        """Return the unit with the trivial risk on X_t."""
        return now.state.unit.after_batch(now.rows, now.pool.template)

    def native_rule(self) -> dict[str, Any] | None:
        """Return the parameters, which are relative."""
        rule = super().native_rule()
        return None if rule is None else rule | {"relative": True}


class GreedyCredit(_JudgeWrapper):
    """A judge that counts what the greedy policy gained or lost in earlier reactive states.

    While it has lost more than it gained, the policy is not applied. It counts also then what the policy would have
    gained, so it is the outermost wrapper.
    """

    def add(self, now: DriftSurfStep) -> None:
        """Add X_t, and what the greedy policy gained on it."""
        super().add(now)
        credit = now.state.credit.after_batch(*now.risks_before(), 1.0 if now.risk_unit is None else now.risk_unit)
        now.state = changes.replace(now.state, credit=credit)

    def native_rule(self) -> dict[str, Any] | None:
        """Return None: the learners of the native step cannot memorise."""
        return None


def missed_class(
    samples: Samples, old: Member, new: Member, share: float, batches: int, reactive_length: int
) -> int | None:
    """Return the code of the largest class that w' lacks, after so many batches of a reactive state; None for none.

    A class counts if it makes up ``share`` of the last rows of w, those of w' included, as far as they are stored.
    Rows without weight teach nothing and are left out.
    """
    end = samples.next_row
    first = end - remembered_rows(end - new.first_row, batches, reactive_length)
    first = max(first, old.first_row, samples.first_row)
    rows = samples.view(Segment(first, end))
    learned = rows.weight > 0.0
    codes = rows.y.astype(np.int64)
    counts = np.bincount(codes[learned])
    own = max(0, new.first_row - first)
    seen = np.bincount(codes[own:][learned[own:]], minlength=len(counts)).tolist()
    total = int(counts.sum())
    for code in np.argsort(-counts, kind="stable").tolist():
        if is_missed(int(counts[code]), total, seen[code], share):
            return int(code)
    return None


def check_judge(judge: str, reactive_length: int, significance: float, *, prequential: bool) -> None:
    """Raise OptionError if the options of DriftSurf do not fit its judge."""
    why = "judge is 'prequential'" if judge == "prequential" else f"significance is {significance:g}"
    if significance > 0.0 and judge == "training":
        raise OptionError(
            why + ", but the training judge does not compare models batch by batch; use ",
            *(Option("judge", "prequential"), ", or ", Option("significance", 0)),
        )
    if not prequential:
        return
    least = 3 if significance > 0.0 else 2
    if reactive_length < least:
        raise OptionError(
            Option("reactive_length"),
            f" is {reactive_length}, but the prequential judge leaves out the first batch"
            f"{' and measures how the others vary' * (least == 3)}, and needs at least {least}; raise it, or use ",
            Option("judge", "training") if least == 2 else Option("significance", 0),
        )
