"""State of DriftSurf between time steps, and the working values of one step."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from driftsurf.core.changes import UndoStack, replace
from driftsurf.core.contracts import Batch, Learner, Segment, State
from driftsurf.core.decisions import ModelRecord, Role, Transition, TransitionKind
from driftsurf.core.fields import Array, FieldEntry, FieldRule, Fields, Real, Truth, Values, Whole, misfit
from driftsurf.core.state import nest, pick
from driftsurf.native.linear import weighted_sum
from driftsurf.native.rule import closed_credit, contest_after, contest_risks, lead_error
from driftsurf.strategies._base import declared
from driftsurf.strategies._pool import Member, Pool

if TYPE_CHECKING:
    from driftsurf.strategies.judges import JudgeAnswer, RiskJudge

WINDOW = 25
"""Number of batches whose trivial risks make the unit of the risk."""


@dataclass(frozen=True, slots=True)
class RiskUnit:
    """Risk of a trivial model over the last 25 batches, divided by ln 2.

    The trivial model predicts, for every row of a batch, the mean target of the batch before. The median of its risks,
    in the learner's own loss, is to a regression what ln 2, the log loss of a coin toss, is to two classes. So a
    threshold of 0.1 is the same share of it in both.

    >>> RiskUnit(recent=(8.0, 9.0, 1e6)).value * math.log(2)
    9.0
    """

    recent: tuple[float, ...] = ()
    """Risks of the trivial model on the last batches, oldest first."""
    centre: float = math.nan
    """Mean target of the last batch."""

    @property
    def value(self) -> float:
        """Factor of the thresholds; 1 before the first batch."""
        return statistics.median(self.recent) / math.log(2) if self.recent else 1.0

    def after_batch(self, batch: Batch, learner: Learner) -> RiskUnit:
        """Return the unit after one more batch; a batch without weight changes nothing."""
        total, mass = weighted_sum(batch.y, batch.weight)
        if mass <= 0.0:
            return self
        mean = total / mass
        guess = np.full(len(batch.y), mean if math.isnan(self.centre) else self.centre)
        lost, _ = weighted_sum(learner.row_losses(guess, batch.y), batch.weight)
        return RiskUnit((*self.recent, lost / mass)[-WINDOW:], mean)

    def state(self) -> State:
        """Return the state as flat entries."""
        return {"recent": np.array(self.recent, np.float64), "centre": self.centre}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RiskUnit:
        """Return the unit that ``state()`` was called on."""
        known = UNIT_FIELDS.read(state)
        return cls(tuple(known["recent"].tolist()), known["centre"])


ContestNumbers = tuple[float, float, float, float, float, float, float, float, float]
"""Fields of ``Contest``."""


@dataclass(frozen=True, slots=True)
class Contest:
    """Summed losses of w and w' over T, each batch before learning it, for the prequential judge."""

    old: float = 0.0
    new: float = 0.0
    weight: float = 0.0
    """Weight of the rows summed over."""
    least_old: float = math.nan
    """Risk of w on the batch on which w' led by the least, ..."""
    least_new: float = math.nan
    """... that of w' ..."""
    least_margin: float = math.nan
    """... and the lead that w' needed there."""
    squares: float = 0.0
    """Sum over batches of the squared weight, ..."""
    leads: float = 0.0
    """... of the squared weight times the lead of w' ..."""
    squared_leads: float = 0.0
    """... and of the squared weight times the squared lead."""

    def after_batch(self, old_risk: float, new_risk: float, weight: float, margin: float = 0.0) -> Contest:
        """Return the contest after one more batch, on which w' needs a lead; one without both risks is no evidence.

        >>> contest = Contest().after_batch(0.5, math.nan, 100.0).after_batch(0.4, 0.2, 100.0)
        >>> contest.risks, contest.least
        ((0.4, 0.2), (0.4, 0.2, 0.0))
        """
        return Contest(*contest_after(self.numbers, old_risk, new_risk, weight, margin))

    @property
    def numbers(self) -> ContestNumbers:
        """All fields."""
        least = self.least_old, self.least_new, self.least_margin
        return self.old, self.new, self.weight, *least, self.squares, self.leads, self.squared_leads

    @property
    def least(self) -> tuple[float, float, float]:
        """Risks of w and w' on the batch on which w' led by the least, and the lead that it needed."""
        return self.least_old, self.least_new, self.least_margin

    @property
    def risks(self) -> tuple[float, float]:
        """Mean risks of w and w'; NaN without evidence."""
        return contest_risks(self.old, self.new, self.weight)

    @property
    def error(self) -> float:
        """Standard error of the mean lead of w'; infinite for a single batch."""
        return lead_error(self.numbers)


@dataclass(frozen=True, slots=True)
class Credit:
    """Gain of the greedy policy from letting w' predict, applied or not, in units of the risk: from -1 to 1.

    Where concepts last only a few batches, the model that was better on the last batch is worse on the next one. So the
    policy is applied in a reactive state only if it has not lost in the ones before. What it would have gained counts
    also while it is not applied.

    >>> after = Credit().choosing(True).after_batch(0.5, 0.9, 1.0).closed()
    >>> after.value, after.trusted
    (-0.4, False)
    """

    value: float = 0.0
    """Gain in earlier reactive states."""
    gain: float = 0.0
    """Gain in this one."""
    chosen: bool = False
    """Whether the greedy policy chose w' for the next batch."""

    @property
    def trusted(self) -> bool:
        """Whether the greedy policy is applied in this reactive state."""
        return self.value >= 0.0

    def choosing(self, chosen: bool) -> Credit:
        """Return the credit after the greedy policy has chosen the model for the next batch."""
        return Credit(self.value, self.gain, chosen)

    def after_batch(self, old_risk: float, new_risk: float, unit: float) -> Credit:
        """Return the credit after a batch; one without both risks is no evidence."""
        gain = (old_risk - new_risk) / unit if self.chosen and unit > 0.0 else 0.0
        return Credit(self.value, self.gain + gain, self.chosen) if math.isfinite(gain) else self

    def closed(self) -> Credit:
        """Return the credit after the end of a reactive state."""
        return Credit(closed_credit(self.value, self.gain))


@dataclass(frozen=True)
class DriftSurfState:
    """Everything that a step replaces. DriftSurf is in a reactive state iff there is a reactive model."""

    predictive: Member
    """w."""
    reactive: Member | None = None
    """w'."""
    stable: Member | None = None
    """w''."""
    step: int = 0
    reactive_step: int = 0
    """i: number of batches learned in the current reactive state."""
    trial: tuple[Segment, ...] = ()
    """T: the rows over which w and w' are compared at the end of the reactive state."""
    reactive_predicts: bool = False
    """Whether w' predicts the next batch (greedy policy)."""
    reacted: bool = False
    """Whether there has been a reactive state."""
    unit: RiskUnit = field(default_factory=RiskUnit)
    contest: Contest = field(default_factory=Contest)
    credit: Credit = field(default_factory=Credit)

    @property
    def predictor(self) -> Member:
        """Model that predicts the next batch."""
        return self.reactive if self.reactive_predicts and self.reactive is not None else self.predictive

    @property
    def members(self) -> tuple[Member, ...]:
        """All models."""
        if self.reactive is None:
            return (self.predictive,) if self.stable is None else (self.predictive, self.stable)
        if self.stable is None:
            return self.predictive, self.reactive
        return self.predictive, self.reactive, self.stable

    def state(self, *, contest: int, relative: bool) -> State:
        """Return everything that a step replaces as a flat state; for the arguments see ``state_fields``."""
        state: State = {
            "step": self.step,
            "reactive_step": self.reactive_step,
            "trial": np.array([(part.lo, part.hi) for part in self.trial], np.int64).reshape(-1, 2),
            "challenged": self.reactive_predicts,
            "reacted": self.reacted,
        }
        if contest:
            state["contest"] = np.array(self.contest.numbers[:contest])
            state["credit"] = np.array(astuple(self.credit), np.float64)
        if relative:
            state |= nest("unit", self.unit.state())
        for role in ROLES:
            member: Member | None = getattr(self, role)
            if member is not None:
                state |= nest(role, member.state())
        return state


class DriftSurfStep:
    """Working values of one time step: what is measured of the models, by role, and what the journal records.

    Parameters
    ----------
    pool
        Rows and models.
    judge
        Decides.
    state
        State before the step; ``state`` is replaced as the step goes on.
    segment
        X_t.
    undo
        Receives what undoes the training of models.
    """

    def __init__(self, pool: Pool, judge: RiskJudge, state: DriftSurfState, segment: Segment, undo: UndoStack) -> None:
        self.pool: Pool = pool
        self.judge: RiskJudge = judge
        self.segment: Segment = segment
        self.undo: UndoStack = undo
        self.state: DriftSurfState = state
        self.number: int = state.step
        self.predictor: Member = state.predictor
        self.credit: float = state.credit.value
        self.risk_unit: float | None = judge.unit(state)
        self.thresholds: tuple[float, float] = judge.thresholds(self.risk_unit)
        """delta and delta' in units of the risk."""
        self.i: int = state.reactive_step
        """Number of batches learned in the current reactive state."""
        self.condition: int = 0
        self.members: dict[Role, Member] = {}
        self.before: dict[Role, float] = {}
        """Risks on X_t before learning it."""
        self.after: dict[Role, float] = {}
        """Risks on X_t after learning it."""
        self.trial: dict[Role, float] = {}
        """Risks over T."""
        self.lead_error: float | None = None
        """Standard error of the mean lead of w' over T, if noise is taken into account."""
        self.absent: int | None = None
        """Code of a class for lack of which w' is not used."""
        self.spent: dict[Role, int] = {}
        """Gradients computed."""
        self.transitions: list[Transition] = []

    @property
    def rows(self) -> Batch:
        """Rows of X_t."""
        return self.pool.samples.view(self.segment)

    @property
    def pair(self) -> tuple[Member, Member]:
        """Models w and w' of a reactive state."""
        assert self.state.reactive is not None
        return self.state.predictive, self.state.reactive

    def age(self, member: Member) -> int:
        """Return the number of batches that a model has learned."""
        return self.number - member.born

    def measure(self, role: Role) -> None:
        """Compute the risk of a model on X_t before it learns it, which also changes its R_b."""
        member = getattr(self.state, role)
        self.before[role] = risk = self.pool.risk(member, self.segment)
        best = self.judge.best(member.best_risk, risk, self.age(member))
        self.members[role] = member = replace(member, best_risk=best) if best != member.best_risk else member
        self.state = replace(self.state, **{role: member})

    def risk_before(self, role: Role) -> float:
        """Return the risk of a model on X_t before learning it; NaN if it was not there."""
        return self.before.get(role, math.nan)

    def risks_before(self) -> tuple[float, float]:
        """Return the risks of w and w' on X_t before learning it; that of a model that is not trained is NaN."""
        return self.before["predictive"], self.risk_before("reactive")

    def risks_after(self) -> tuple[float, float]:
        """Return the risks of w and w' on X_t after learning it."""
        old, new = (self.pool.risk(member, self.segment) for member in self.pair)
        self.after |= {"predictive": old, "reactive": new}
        return old, new

    def risks_over_trial(self) -> tuple[float, float]:
        """Return the risks of w and w' on the rows of T."""
        old, new = (self.pool.risk(member, *self.state.trial) for member in self.pair)
        self.trial |= {"predictive": old, "reactive": new}
        return old, new

    def record(self, kind: TransitionKind, verdict: JudgeAnswer, old: Member, new: Member, **more: Any) -> None:
        """Record a transition from one model to another, with the risks that a judge compared."""
        self.transitions.append(
            Transition(
                kind,
                self.number,
                left=verdict.left,
                right=verdict.right,
                margin=verdict.margin,
                over=verdict.over,
                old=old.id,
                new=new.id,
                **more,
            )
        )

    def records(self) -> Iterator[ModelRecord]:
        """Yield the record of each model."""
        for role, member in self.members.items():
            yield member.record(
                role,
                self.number,
                risk_before=self.before.get(role),
                risk_after=self.after.get(role),
                risk_reactive=self.trial.get(role),
                gradients=self.spent.get(role, 0),
            )


# ---------------------------------------------------------------------------- saved state

UNIT_FIELDS = Fields(
    {"recent": Array(np.float64, ("*",)), "centre": Real(missing=True)},
    rules=[FieldRule("recent", f"must have at most {WINDOW} values", lambda known: len(known["recent"]) <= WINDOW)],
)
"""Saved entries of the unit of the risk."""
ROLES = "predictive", "reactive", "stable"


@functools.cache
def state_fields(reactive_length: int, *, contest: int, relative: bool) -> Fields:
    """Return the declaration of the saved state between steps.

    ``contest`` is how many fields of ``Contest`` are saved, 0 for the training judge; ``relative`` says whether the
    thresholds are relative.
    """
    entries: dict[str, FieldEntry] = {
        "reactive_step": Whole(0, reactive_length - 1),
        "trial": Array(np.int64, ("*", 2), least=0),
        "challenged": Truth(),
        "reacted": Truth(),
    }
    if contest:
        entries["contest"] = Array(np.float64, (contest,), missing=True)
        entries["credit"] = Array(np.float64, (3,))
    return declared(
        entries,
        parts=[*ROLES, *["unit"] * relative],
        rules=[
            FieldRule("trial", "must be ranges of the saved rows", _are_stored),
            FieldRule(
                "challenged",
                "must be false outside of a reactive state",
                lambda known: known["reactive_step"] > 0 or not known["challenged"],
            ),
        ],
    )


def _are_stored(known: Values) -> bool:
    first_row, next_row = known["first_row"], known["next_row"]
    return all(first_row <= first <= last <= next_row for first, last in known["trial"].tolist())


def restored_state(state: Mapping[str, Any], pool: Pool, *, contest: int, relative: bool) -> DriftSurfState:
    """Return what ``DriftSurfState.state`` was called on."""
    value, gain, chosen = state["credit"].tolist() if contest else (0.0, 0.0, 0.0)
    return DriftSurfState(
        **restored_members(state, pool),
        step=state["step"],
        reactive_step=state["reactive_step"],
        trial=tuple(Segment(lo, hi) for lo, hi in state["trial"].tolist()),
        reactive_predicts=state["challenged"],
        reacted=state["reacted"],
        unit=RiskUnit.from_state(pick("unit", state)) if relative else RiskUnit(),
        contest=Contest(*state["contest"].tolist()) if contest else Contest(),
        credit=Credit(value, gain, bool(chosen)),
    )


def restored_members(state: Mapping[str, Any], pool: Pool) -> dict[str, Member]:
    """Return the saved models by role; there is a reactive one in a reactive state and only there."""
    saved = {role: entries for role in ROLES if (entries := pick(role, state)) or role == "predictive"}
    if ("reactive" in saved) != (state["reactive_step"] > 0):
        where = "missing" if state["reactive_step"] else "there"
        raise misfit(state, "reactive_step", f"is {state['reactive_step']}, but the reactive model is {where}")
    return {role: pool.restore_member(entries, state["step"]) for role, entries in saved.items()}
