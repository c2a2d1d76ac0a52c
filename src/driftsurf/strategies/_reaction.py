"""State of DriftSurf between steps, and the working values of one step."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from driftsurf.core.contracts import Segment
from driftsurf.core.decisions import ModelRecord, Role, Transition, TransitionKind
from driftsurf.core.fields import Array, Entry, Fields, Rule, Truth, Values, Whole, misfit
from driftsurf.core.state import pick
from driftsurf.strategies._base import declared
from driftsurf.strategies._pool import Member, Pool
from driftsurf.strategies._unit import RiskUnit

REGRESSION_LEAD = 1.0 / 3.0
"""Share of the risk of w by which a regression w' must be better to predict, under the prequential judge."""


@dataclass(frozen=True, slots=True)
class Contest:
    """Summed losses of w and w' over T, each batch before learning it, for the prequential judge."""

    old: float = 0.0
    new: float = 0.0
    weight: float = 0.0
    """Weight of the rows summed over."""

    def after_batch(self, old_risk: float, new_risk: float, weight: float) -> Contest:
        """Return the contest after one more batch; a batch without both risks is no evidence.

        >>> Contest().after_batch(0.5, math.nan, 100.0).after_batch(0.4, 0.2, 100.0).risks
        (0.4, 0.2)
        """
        if math.isnan(old_risk + new_risk):
            return self
        return Contest(self.old + weight * old_risk, self.new + weight * new_risk, self.weight + weight)

    @property
    def risks(self) -> tuple[float, float]:
        """Mean risks of w and w'; NaN without evidence."""
        return (self.old / self.weight, self.new / self.weight) if self.weight > 0.0 else (math.nan, math.nan)


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

    @property
    def predictor(self) -> Member:
        """Model that predicts the next batch."""
        return self.reactive if self.challenged and self.reactive is not None else self.predictive

    @property
    def members(self) -> tuple[Member, ...]:
        """All models."""
        rivals = [member for member in (self.reactive, self.stable) if member is not None]
        return (self.predictive, *rivals)


@dataclass(slots=True)
class Step:
    """Working values of one step: risks, gradients and transitions, by the role of each model."""

    segment: Segment
    """X_t."""
    live: Live
    thresholds: tuple[float, float]
    """delta and delta' in units of the risk."""
    risk_unit: float | None = None
    """What the thresholds were multiplied by; None if they are used as they are."""
    condition: int = 0
    reactive_step: int = 0
    cast: dict[Role, Member] = field(default_factory=dict)
    before: dict[Role, float] = field(default_factory=dict)
    """Risks on X_t before learning it."""
    after: dict[Role, float] = field(default_factory=dict)
    """Risks on X_t after learning it."""
    trial: dict[Role, float] = field(default_factory=dict)
    """Risks over T."""
    spent: dict[Role, int] = field(default_factory=dict)
    """Gradients computed."""
    transitions: list[Transition] = field(default_factory=list)

    def measure(self, pool: Pool, when: Literal["before", "after"], role: Role, member: Member) -> Member:
        """Compute a model's risk on X_t; before learning, also update its best risk R_b."""
        risk = pool.risk(member, self.segment)
        if when == "before":
            self.before[role] = risk
            member = member.after_batch(risk)
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
def live_fields(reactive_length: int, *, prequential: bool, relative: bool) -> Fields:
    """Return the declaration of the saved state between steps, for a prequential judge and relative thresholds."""
    entries: dict[str, Entry] = {
        "reactive_step": Whole(0, reactive_length - 1),
        "trial": Array(np.int64, ("*", 2), least=0),
        "challenged": Truth(),
        "reacted": Truth(),
    }
    if prequential:
        entries["contest"] = Array(np.float64, (3,))
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
    first, last = known["trial"].T
    return bool(((known["first_row"] <= first) & (first <= last) & (last <= known["next_row"])).all())


def restored_members(state: Mapping[str, Any], pool: Pool) -> dict[str, Member]:
    """Return the saved models by role; there is a reactive one in a reactive state and only there."""
    saved = {role: entries for role in ROLES if (entries := pick(role, state)) or role == "predictive"}
    if ("reactive" in saved) != (state["reactive_step"] > 0):
        where = "missing" if state["reactive_step"] else "there"
        raise misfit(state, "reactive_step", f"is {state['reactive_step']}, but the reactive model is {where}")
    return {role: pool.restore_member(entries, state["step"]) for role, entries in saved.items()}
