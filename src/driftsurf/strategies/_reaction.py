"""State of DriftSurf between steps, and the working values of one step."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any, Literal

import numpy as np

from driftsurf.core.contracts import Segment, State
from driftsurf.core.decisions import ModelRecord, Role, Transition, TransitionKind
from driftsurf.core.fields import Array, Entry, Fields, Rule, Truth, Values, Whole, misfit
from driftsurf.core.state import nest, pick
from driftsurf.core.values import replace
from driftsurf.native.rule import closed_credit, contest_after, contest_risks, lead_error
from driftsurf.strategies._base import declared
from driftsurf.strategies._pool import Member, Pool
from driftsurf.strategies._unit import RiskUnit

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
class Live:
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
    challenged: bool = False
    """Whether w' predicts the next batch (greedy policy)."""
    reacted: bool = False
    """Whether there has been a reactive state."""
    unit: RiskUnit = field(default_factory=RiskUnit)
    contest: Contest = field(default_factory=Contest)
    credit: Credit = field(default_factory=Credit)

    @property
    def predictor(self) -> Member:
        """Model that predicts the next batch."""
        return self.reactive if self.challenged and self.reactive is not None else self.predictive

    @property
    def members(self) -> tuple[Member, ...]:
        """All models."""
        if self.reactive is None:
            return (self.predictive,) if self.stable is None else (self.predictive, self.stable)
        if self.stable is None:
            return self.predictive, self.reactive
        return self.predictive, self.reactive, self.stable

    def state(self, *, contest: int, relative: bool) -> State:
        """Return everything that a step replaces as a flat state; for the arguments see ``live_fields``."""
        state: State = {
            "step": self.step,
            "reactive_step": self.reactive_step,
            "trial": np.array([(part.lo, part.hi) for part in self.trial], np.int64).reshape(-1, 2),
            "challenged": self.challenged,
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

    def without_old_batches(self, end: int, max_rows: int | None) -> Live:
        """Drop batches of T beyond ``max_rows``, where T outlives a reactive state (variant "authors")."""
        if max_rows is None:
            return self
        former = len(self.trial) - self.reactive_step
        kept = [part for part in self.trial[:former] if part.lo >= end - max_rows]
        return replace(self, trial=(*kept, *self.trial[former:]))


@dataclass(slots=True)
class Step:
    """Working values of one step: risks, gradients and transitions, by the role of each model."""

    segment: Segment
    """X_t."""
    live: Live
    thresholds: tuple[float, float]
    """delta and delta' in units of the risk."""
    prequential: bool = False
    """Whether models are compared by their risks on batches before learning them."""
    noisy: bool = False
    """Whether the noise of the risks is taken into account."""
    risk_unit: float | None = None
    """Risk that the thresholds were multiplied by; None if they are in units of the risk already."""
    condition: int = 0
    reactive_step: int = 0
    cast: dict[Role, Member] = field(default_factory=dict)
    before: dict[Role, float] = field(default_factory=dict)
    """Risks on X_t before learning it."""
    after: dict[Role, float] = field(default_factory=dict)
    """Risks on X_t after learning it."""
    trial: dict[Role, float] = field(default_factory=dict)
    """Risks over T."""
    lead_error: float | None = None
    """Standard error of the mean lead of w' over T, if noise is taken into account."""
    absent: int | None = None
    """Code of a class for lack of which w' is not used."""
    spent: dict[Role, int] = field(default_factory=dict)
    """Gradients computed."""
    transitions: list[Transition] = field(default_factory=list)

    def measure(self, pool: Pool, when: Literal["before", "after"], role: Role, member: Member) -> Member:
        """Compute a model's risk on X_t; before learning, also update its best risk R_b."""
        risk = pool.risk(member, self.segment)
        if when == "before":
            self.before[role] = risk
            member = member.after_batch(risk, self.live.step, noisy=self.noisy)
        else:
            self.after[role] = risk
        self.cast[role] = member
        return member

    def note(self, kind: TransitionKind, left: float, right: float, **more: Any) -> None:
        """Record a transition, by default from the predictive to the reactive model."""
        assert self.live.reactive is not None
        ids = {"old": self.live.predictive.id, "new": self.live.reactive.id}
        self.transitions.append(Transition(kind, self.live.step, left=left, right=right, **(ids | more)))

    def records(self) -> Iterator[ModelRecord]:
        """Yield the record of each model."""
        for role, member in self.cast.items():
            yield member.record(
                role,
                self.live.step,
                risk_before=self.before.get(role),
                risk_after=self.after.get(role),
                risk_reactive=self.trial.get(role),
                gradients=self.spent.get(role, 0),
            )


# ---------------------------------------------------------------------------- saved state

ROLES = "predictive", "reactive", "stable"


@functools.cache
def live_fields(reactive_length: int, *, contest: int, relative: bool) -> Fields:
    """Return the declaration of the saved state between steps.

    ``contest`` is how many fields of ``Contest`` are saved, 0 for the training judge; ``relative`` says whether the
    thresholds are relative.
    """
    entries: dict[str, Entry] = {
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
            Rule("trial", "must be ranges of the saved rows", _are_stored),
            Rule(
                "challenged",
                "must be false outside of a reactive state",
                lambda known: known["reactive_step"] > 0 or not known["challenged"],
            ),
        ],
    )


def _are_stored(known: Values) -> bool:
    first_row, next_row = known["first_row"], known["next_row"]
    return all(first_row <= first <= last <= next_row for first, last in known["trial"].tolist())


def restored_live(state: Mapping[str, Any], pool: Pool, *, contest: int, relative: bool) -> Live:
    """Return what ``Live.state`` was called on."""
    value, gain, chosen = state["credit"].tolist() if contest else (0.0, 0.0, 0.0)
    return Live(
        **restored_members(state, pool),
        step=state["step"],
        reactive_step=state["reactive_step"],
        trial=tuple(Segment(lo, hi) for lo, hi in state["trial"].tolist()),
        challenged=state["challenged"],
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
