"""What DriftSurf remembers between steps, and one step in the making."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from driftsurf.base import Segment
from driftsurf.decisions import Role, Transition, TransitionKind
from driftsurf.strategies._pool import Member, Pool
from driftsurf.strategies._unit import RiskUnit


@dataclass(frozen=True, slots=True)
class Contest:
    """Of the prequential judge: what the two models lost over T before learning it, and the weight of those rows."""

    old: float = 0.0
    new: float = 0.0
    weight: float = 0.0

    def met(self, old_risk: float, new_risk: float, weight: float) -> Contest:
        """After one more batch; without a risk of both it is no evidence.

        >>> Contest().met(0.5, math.nan, 100.0).met(0.4, 0.2, 100.0).risks
        (0.4, 0.2)
        """
        if math.isnan(old_risk + new_risk):
            return self
        return Contest(self.old + weight * old_risk, self.new + weight * new_risk, self.weight + weight)

    @property
    def risks(self) -> tuple[float, float]:
        """The mean risks; NaN where there was no evidence."""
        return (self.old / self.weight, self.new / self.weight) if self.weight > 0.0 else (math.nan, math.nan)


@dataclass(frozen=True)
class Live:
    """Everything that a step replaces. There is a reactive state iff there is a reactive model."""

    predictive: Member
    reactive: Member | None = None
    stable: Member | None = None
    step: int = 0
    reactive_step: int = 0
    """i: batches learnt in the current reactive state."""
    trial: tuple[Segment, ...] = ()
    """T: the rows over which the two models are compared at the end."""
    challenged: bool = False
    """The reactive model predicts (greedy policy)."""
    reacted: bool = False
    """There has been a reactive state."""
    unit: RiskUnit = field(default_factory=RiskUnit)
    contest: Contest = field(default_factory=Contest)

    @property
    def predictor(self) -> Member:
        """The model that predicts the next batch."""
        return self.reactive if self.challenged and self.reactive is not None else self.predictive

    @property
    def members(self) -> tuple[Member, ...]:
        """All models."""
        rivals = [member for member in (self.reactive, self.stable) if member is not None]
        return (self.predictive, *rivals)


@dataclass(slots=True)
class Step:
    """One step in the making: what was measured, of whom, and what followed."""

    segment: Segment
    live: Live
    thresholds: tuple[float, float]
    """Delta and delta' in units of the risk."""
    condition: int = 0
    reactive_step: int = 0
    cast: dict[Role, Member] = field(default_factory=dict)
    before: dict[Role, float] = field(default_factory=dict)
    after: dict[Role, float] = field(default_factory=dict)
    trial: dict[Role, float] = field(default_factory=dict)
    spent: dict[Role, int] = field(default_factory=dict)
    transitions: list[Transition] = field(default_factory=list)

    def measure(self, pool: Pool, when: Literal["before", "after"], role: Role, member: Member) -> Member:
        """Take the risk on this batch; one taken before learning enters the model's record R_b."""
        risk = pool.risk(member, self.segment)
        if when == "before":
            self.before[role] = risk
            member = member.met(risk)
        else:
            self.after[role] = risk
        self.cast[role] = member
        return member

    def say(self, kind: TransitionKind, left: float, right: float, **more: Any) -> None:
        """Note a transition; by default from the predictive to the reactive model."""
        assert self.live.reactive is not None
        ids = {"old": self.live.predictive.id, "new": self.live.reactive.id}
        self.transitions.append(Transition(kind, self.live.step, left=left, right=right, **(ids | more)))
