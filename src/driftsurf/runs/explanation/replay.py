"""Replay of recorded decisions with another threshold, as far as the record shows what would have happened.

The journal holds the risks of the models that the run trained. As soon as another threshold would have led to a model
that the run never trained, the risks of that model are unknown and the replay ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from driftsurf.core.decisions import Decision, ModelRecord
from driftsurf.core.options import number
from driftsurf.core.wording import in_words, plural
from driftsurf.errors import InputError
from driftsurf.native.rule import entering

RISK_UNIT = (
    "Thresholds are shares of the risk unit: the risk of predicting the mean label of the batch before, over ln 2."
)


@dataclass(frozen=True, slots=True)
class Replay:
    """What DriftSurf would have decided with another threshold."""

    threshold: float
    stable_threshold: float | None
    """Threshold against the stable model; None keeps the recorded ratio to the threshold."""
    entered: tuple[int, ...]
    """Steps at which both the run and the replay start a reactive state."""
    left_out: tuple[int, ...]
    """Steps at which only the run starts a reactive state."""
    added: int | None
    """Step at which only the replay starts a reactive state; None if there is none."""
    known_until: int | None
    """Last step whose decision is known; None if all are known."""
    why: str
    """Why later decisions are not known."""

    def describe(self) -> str:
        """Describe in a few sentences how the replay differs from the run."""
        stable = "" if self.stable_threshold is None else f" (and {self.stable_threshold:g} against the stable model)"
        begin = f"With a threshold of {self.threshold:g}{stable}"
        if not self.left_out and self.added is None and self.known_until is None:
            return f"{begin}, every decision would have been the same."
        differences = []
        if self.entered:
            differences.append(f"a new model would still have been tested from {_listed(self.entered)} on")
        if self.left_out:
            differences.append(f"no new model would have been tested from {_listed(self.left_out)} on")
        if self.added is not None:
            differences.append(f"another new model would have been tested from step {self.added} on")
        if self.known_until is None:
            differences.append("every decision to the end of the record is known")
        elif not differences:
            differences.append(f"every decision up to step {self.known_until} would have been the same")
        text = f"{begin}: {'; '.join(differences)}."
        if self.known_until is not None:
            text += f" Decisions from step {self.known_until + 1} on are unknown: {self.why}."
        return text


def replay(
    decisions: Sequence[Decision],
    threshold: float,
    stable_threshold: float | None = None,
    *,
    orders: Sequence[int] = (),
) -> Replay:
    """Replay the recorded decisions of DriftSurf under another ``threshold``.

    As long as the replay decides as the run did, the record has every number. Where the run entered a reactive state
    and the replay does not, the old model continues to learn in both, so its risks are known until the run drops it.
    The run has dropped its stable model, however, and without that model's risk the second condition cannot be
    evaluated. Where the replay enters a reactive state and the run did not, the run has not trained the fresh model.

    Parameters
    ----------
    decisions
        The decisions of a journal, in order.
    threshold
        The threshold delta, in the unit of the run's own ``threshold``.
    stable_threshold
        The stable threshold delta'; None keeps its ratio to delta.
    orders
        Steps at which an operator changed the model, so that later decisions do not follow from the rule alone.
    """
    number("threshold", threshold, at_least=0.0, infinite=True)
    if stable_threshold is not None:
        number("stable_threshold", stable_threshold, at_least=0.0, infinite=True, otherwise=", or None")
    scale = _scale(decisions)
    entered, left_out = list[int](), list[int]()
    # diverged: the run is in a reactive state that the replay has not entered, or kept its old model after one.
    diverged = had_stable = False
    budget: float | None = None

    def end(known_until: int | None = None, why: str = "", added: int | None = None) -> Replay:
        return Replay(threshold, stable_threshold, tuple(entered), tuple(left_out), added, known_until, why)

    before = -1
    for decision in decisions:
        step, roles = decision.step, {record.role: record for record in decision.models}
        model, stable = roles["predictive"], roles.get("stable")
        if any(before < order <= step for order in orders):
            return end(before, "an operator changed the model")
        if not diverged and decision.state == "stable" and stable is None:
            # Gradients of a model that learns alone. With fewer, the old model has shared its budget with the fresh
            # one, which it would not have done in the replay: its recorded risks are those of a less trained model.
            budget = model.gradients / decision.rows
        elif diverged and budget is not None and model.gradients < budget * decision.rows - 1:
            return end(
                before,
                "the run divided its gradients between two models, so the old one learned less than alone",
            )
        reacted = decision.condition != 0
        if diverged or reacted or decision.state == "stable":
            deltas = _thresholds(decision, threshold, stable_threshold, scale)
            reacts = _condition(model, None if diverged else stable, deltas) != 0
            # Condition 1 alone can say that the replay reacts. That it does not react would need condition 2 as well.
            if diverged and had_stable and not reacts:
                return end(before, f"the run dropped the stable model at step {left_out[0]}")
            if reacts and not reacted:
                return end(step, "the run did not train the new model of that test", added=step)
            if reacted:
                (entered if reacts else left_out).append(step)
            if reacts and diverged:
                return end(step, "the new model would have drawn other random numbers")
            if reacted and not reacts and not diverged:
                diverged, had_stable = True, stable is not None
        if diverged and any(transition.kind in ("switched", "reset") for transition in decision.transitions):
            return end(step, f"the run dropped the old model at step {step}")
        before = step
    return end()


def same_decisions(decisions: Sequence[Decision]) -> tuple[float, float]:
    """Return the thresholds that lead to the recorded decisions: from the first number (included) to the second (not).

    delta' is assumed to keep its ratio to delta.
    """
    scale = _scale(decisions)
    low, high = 0.0, math.inf
    for decision in decisions:
        if decision.state == "reactive" and decision.reactive_step != 1:
            continue  # inside a reactive state the threshold is not used
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
    """Return the rise of a risk over another; minus infinity if one of them is unknown."""
    return -math.inf if risk is None or over is None else risk - over


def _condition(model: ModelRecord, stable: ModelRecord | None, deltas: tuple[float, float]) -> int:
    """Return the condition (1 or 2) that starts a reactive state under these thresholds, or 0."""
    nan = math.nan
    risks = model.risk_before, model.best_risk, None if stable is None else stable.risk_before
    risk, best, other = (nan if value is None else value for value in risks)
    return int(entering(risk, best, other, *deltas))


def _scale(decisions: Sequence[Decision]) -> float:
    """Return the threshold that the run was started with.

    A run may multiply its threshold by the typical size of its risks. Earlier versions did not record that size: it
    is 1 until the second step, so their first threshold is the original one, if the record begins at step 0.
    """
    if not decisions or any(decision.threshold is None for decision in decisions):
        raise InputError(
            "only decisions of DriftSurf can be replayed with another threshold, not those of a portfolio or of "
            "another strategy; run the data with the model recommended-linear, and replay that run"
        )
    given = decisions[0].threshold
    assert given is not None
    if decisions[0].risk_unit is not None:
        return share_of(given, decisions[0].risk_unit)
    if decisions[0].step and any(decision.threshold != given for decision in decisions):
        raise InputError(
            "the decisions start after step 0 and their thresholds vary, so the threshold of the run is unknown; "
            "pass all its decisions"
        )
    return given


def share_of(threshold: float, unit: float) -> float:
    """Return a recorded threshold as the option that it was made of: a share of the risk unit.

    >>> share_of(0.1 * 304.7, 304.7)
    0.1
    """
    return float(f"{threshold / unit:.12g}") if unit > 0.0 else math.nan


def _unit(decision: Decision, given: float) -> tuple[float, float]:
    """Return the ratio of this step's thresholds to the original ones, and the ratio of delta' to delta."""
    assert decision.threshold is not None
    assert decision.stable_threshold is not None
    unit = decision.risk_unit
    if unit is None:
        unit = decision.threshold / given if given > 0.0 and math.isfinite(given) else 1.0
    proportion = decision.stable_threshold / decision.threshold if decision.threshold > 0.0 else 0.5
    return unit, proportion if math.isfinite(proportion) else 0.5


def _thresholds(
    decision: Decision, threshold: float, stable_threshold: float | None, given: float
) -> tuple[float, float]:
    """Return delta and delta' of the replay at this step, in the unit of the recorded risks."""
    unit, proportion = _unit(decision, given)
    return threshold * unit, (threshold * proportion if stable_threshold is None else stable_threshold) * unit


def _listed(steps: Sequence[int]) -> str:
    """Return the first steps of a list."""
    return f"{plural('step', len(steps))} {in_words(steps, most=12)}"


def describe_tolerance(decisions: Sequence[Decision]) -> str:
    """Describe the range of thresholds with the same decisions; "" if the strategy has no threshold."""
    try:
        low, high = same_decisions(decisions)
    except InputError:
        return ""
    until = "upwards" if math.isinf(high) else f"up to {high:.4g}"
    unit = "" if decisions[-1].risk_unit is None else f" {RISK_UNIT}"
    return f"Any threshold from {low:.4g} {until} would have led to the same decisions.{unit}"
