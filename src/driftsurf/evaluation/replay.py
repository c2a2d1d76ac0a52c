"""The recorded decisions under another threshold, as far as they determine what would have happened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from driftsurf._options import number
from driftsurf.decisions import Decision, ModelRecord
from driftsurf.errors import InputError
from driftsurf.strategies.driftsurf import entering

__all__ = ["Replay", "replay", "same_decisions"]


@dataclass(frozen=True, slots=True)
class Replay:
    """What would have been decided."""

    threshold: float
    stable_threshold: float | None
    """None: as far from the threshold as it was in the run."""
    entered: tuple[int, ...]
    """The steps at which a reactive state would have begun, as far as is known."""
    left_out: tuple[int, ...]
    """Those of the run at which it would not have."""
    added: int | None
    """The step at which one would have begun that did not in the run, if it comes to that."""
    known_until: int | None
    """The last step whose decision is known; None if all are."""
    why: str
    """Why no later one is."""

    def describe(self) -> str:
        """A few sentences for a person."""
        stable = "" if self.stable_threshold is None else f" (and {self.stable_threshold:g} against the stable model)"
        begin = f"With a threshold of {self.threshold:g}{stable} instead"
        if not self.left_out and self.added is None and self.known_until is None:
            return f"{begin}, every decision would have been the same."
        said = []
        if self.entered:
            said.append(f"a reactive state would have begun at step{_listed(self.entered)}")
        if self.left_out:
            said.append(f"none would have begun at step{_listed(self.left_out)}, where one did")
        if self.added is not None:
            said.append(f"at step {self.added} one would have begun, where none did")
        if self.known_until is None:
            said.append("and the record determines all of it, to its end")
        elif not said:
            said.append(f"all is the same up to step {self.known_until}")
        text = f"{begin}: {'; '.join(said)}."
        if self.known_until is not None:
            text += f" From step {self.known_until + 1} on the record does not say what would come: {self.why}."
        return text


def replay(
    decisions: Sequence[Decision],
    threshold: float,
    stable_threshold: float | None = None,
    *,
    orders: Sequence[int] = (),
) -> Replay:
    """Replay the recorded decisions of DriftSurf under another ``threshold``.

    As long as both runs decide alike, the record has every number. Where the run reacted and the other
    one would not have, the old model goes on learning in both, so its risks stay known until the run
    gives it up; but a stable model that the run dropped is not on record any more, and without it the
    second condition cannot be told. Where the other one would have reacted and the run did not, the
    fresh model it would have made was never there.

    Parameters
    ----------
    decisions
        Of a journal, in their order.
    threshold
        delta, in the unit in which the run was given it.
    stable_threshold
        delta'; None keeps its proportion to delta.
    orders
        Steps at which an operator changed the model: nothing after them follows from the rule.
    """
    number("threshold", threshold, at_least=0.0, infinite=True)
    if stable_threshold is not None:
        number("stable_threshold", stable_threshold, at_least=0.0, infinite=True, otherwise=", or None")
    scale = _scale(decisions)
    entered, left_out = list[int](), list[int]()
    apart = had_stable = False  # apart: the run is in, or comes from, a reactive state that the other never entered
    budget: float | None = None

    def end(known_until: int | None = None, why: str = "", added: int | None = None) -> Replay:
        return Replay(threshold, stable_threshold, tuple(entered), tuple(left_out), added, known_until, why)

    before = -1
    for decision in decisions:
        step, roles = decision.step, {record.role: record for record in decision.models}
        model, stable = roles["predictive"], roles.get("stable")
        if any(before < order <= step for order in orders):
            return end(before, "an operator changed the model")
        if not apart and decision.state == "stable" and stable is None:
            budget = model.gradients / decision.rows
        elif apart and budget is not None and model.gradients < budget * decision.rows - 1:
            return end(before, "the models shared their gradients, so the old one learnt less than it would have alone")
        reacted = decision.condition != 0
        if apart or reacted or decision.state == "stable":
            deltas = _thresholds(decision, threshold, stable_threshold, scale)
            reacts = _condition(model, None if apart else stable, deltas) != 0
            if apart and had_stable and not reacts:
                return end(before, f"the stable model it would have watched was given up at step {left_out[0]}")
            if reacts and not reacted:
                return end(step, "that fresh model was never made", added=step)
            if reacted:
                (entered if reacts else left_out).append(step)
            if reacts and apart:
                return end(step, "the fresh model would have drawn other random numbers")
            if reacted and not reacts and not apart:
                apart, had_stable = True, stable is not None
        if apart and any(transition.kind in ("switched", "reset") for transition in decision.transitions):
            return end(step, f"the run gave the old model up at step {step}")
        before = step
    return end()


def same_decisions(decisions: Sequence[Decision]) -> tuple[float, float]:
    """From which threshold on (included) and up to which one (not included) every decision is as recorded.

    delta' is taken to keep its proportion to delta.
    """
    scale = _scale(decisions)
    low, high = 0.0, math.inf
    for decision in decisions:
        if decision.state == "reactive" and decision.reactive_step != 1:
            continue
        roles = {record.role: record for record in decision.models}
        model, stable = roles["predictive"], roles.get("stable")
        unit, proportion = _unit(decision, scale)
        rises = [_rise(model.risk_before, model.best_risk)]
        if stable is not None and proportion > 0.0:
            rises.append(_rise(model.risk_before, stable.risk_before) / proportion)
        level = max(rises) / unit if unit > 0.0 else math.nan
        if decision.condition:
            high = min(high, level)
        elif level > low:
            low = level
    return low, high


def _rise(risk: float | None, over: float | None) -> float:
    return -math.inf if risk is None or over is None else risk - over


def _condition(model: ModelRecord, stable: ModelRecord | None, deltas: tuple[float, float]) -> int:
    nan = math.nan
    risks = model.risk_before, model.best_risk, None if stable is None else stable.risk_before
    risk, best, other = (nan if value is None else value for value in risks)
    return int(entering(risk, best, other, *deltas))


def _scale(decisions: Sequence[Decision]) -> float:
    """The threshold as the run was given it: the unit of its risks is 1 until the second step."""
    if not decisions or any(decision.threshold is None for decision in decisions):
        raise InputError("there are no decisions of DriftSurf here: only it has a threshold to replay")
    given = decisions[0].threshold
    assert given is not None
    if decisions[0].step and any(decision.threshold != given for decision in decisions):
        raise InputError("the record begins in the middle, and its thresholds vary: which one was given is not known")
    return given


def _unit(decision: Decision, given: float) -> tuple[float, float]:
    """What the thresholds of this step are multiplied by, and delta' over delta."""
    assert decision.threshold is not None
    assert decision.stable_threshold is not None
    unit = decision.threshold / given if given > 0.0 and math.isfinite(given) else 1.0
    proportion = decision.stable_threshold / decision.threshold if decision.threshold > 0.0 else 0.5
    return unit, proportion if math.isfinite(proportion) else 0.5


def _thresholds(
    decision: Decision, threshold: float, stable_threshold: float | None, given: float
) -> tuple[float, float]:
    unit, proportion = _unit(decision, given)
    return threshold * unit, (threshold * proportion if stable_threshold is None else stable_threshold) * unit


def _listed(steps: Sequence[int]) -> str:
    shown = [str(step) for step in steps[:12]]
    more = len(steps) - len(shown)
    text = ", ".join(shown) + (f" and {more} more" if more else "")
    return f"{'s' * (len(steps) > 1)} {text}"
