"""The outcome of a compiled step: numbers that the step leaves behind, and the decision that they make.

numba does not notice changes to this file: remove the ``__pycache__`` folders (``make clean``) after changing it.
"""

from __future__ import annotations

import math
from typing import Any

from driftsurf.core.decisions import Decision, ModelRecord, Role, Transition, TransitionKind
from driftsurf.kernels.compile import uncounted
from driftsurf.strategies.compiled.layout import (
    ABSENT,
    COMPARED,
    COMPARISON,
    CONDITION,
    ENTERED,
    LEAD_ERROR,
    PREDICTED_BY,
    PREDICTS_NEXT,
    REACTIVE_STEP,
    RECORD,
    RECORD_SIZE,
    RECORDS,
    RISKS,
    TRAINED_FROM,
    TRANSITION,
    TRANSITION_SIZE,
    TRANSITIONS,
    UNIT,
    Rule,
    Scratch,
)

ROLES: tuple[Role, ...] = ("predictive", "stable", "reactive")
"""Roles by their codes; that of the predictive model is NO_RIVAL."""
KINDS: tuple[TransitionKind, ...] = ("entered", "greedy", "switched", "kept")
"""Kinds of transitions by their codes."""


@uncounted
def add_record(cell: Any, side: Any, role: Any, scratch: Any) -> Any:
    """Add a record of this model to the outcome; return its number."""
    whole, model = scratch.whole, cell.models[side]
    number = whole[RECORDS]
    at = RECORD + number * RECORD_SIZE
    whole[at] = role
    whole[at + 1] = model["id"]
    whole[at + 2] = model["born"]
    whole[at + 3] = model["first_row"]
    whole[at + 4] = 0
    whole[at + 5] = 0
    whole[RECORDS] = number + 1
    scratch.real[number * RISKS + 3] = model["best"]
    return number


@uncounted
def add_risk(scratch: Any, number: Any, which: Any, risk: Any) -> None:
    """Add a risk to the record of a model: 0 before learning, 1 after learning, 2 over T."""
    scratch.real[number * RISKS + which] = risk
    scratch.whole[RECORD + number * RECORD_SIZE + 5] |= 1 << which


@uncounted
def add_transition(
    scratch: Any, kind: Any, over: Any, left: Any, right: Any, margin: Any, ids: Any, absent: Any
) -> None:
    """Add a transition to the outcome; ``ids`` are the numbers of the old and the new model."""
    number = scratch.whole[TRANSITIONS]
    at = TRANSITION + number * TRANSITION_SIZE
    scratch.whole[at] = kind
    scratch.whole[at + 1] = over
    scratch.whole[at + 2] = ids[0]
    scratch.whole[at + 3] = ids[1]
    scratch.whole[at + 4] = absent
    at = COMPARISON + number * COMPARED
    scratch.real[at] = left
    scratch.real[at + 1] = right
    scratch.real[at + 2] = margin
    scratch.whole[TRANSITIONS] = number + 1


class Outcome:
    """The numbers that a step left behind, from which its decision is made when somebody asks for it.

    Making a decision takes longer than learning a few rows, and most decisions are never looked at.
    """

    __slots__ = ("_details", "_numbers", "_real", "_rule", "_whole", "transitions")

    def __init__(
        self, scratch: Scratch, numbers: tuple[int, int, int], transitions: int, rule: Rule, details: dict[str, Any]
    ) -> None:
        self._whole, self._real = scratch.whole.copy(), scratch.real[: LEAD_ERROR + 1].copy()
        self._numbers, self._rule, self._details = numbers, rule, details
        self.transitions: int = transitions
        """Number of transitions."""

    @property
    def rows_seen(self) -> int:
        """Number of rows up to and including this step."""
        _, first_row, rows = self._numbers
        return first_row + rows

    def decision(self) -> Decision:
        """Return the decision."""
        return self.decision_of(self._whole.tolist(), self._real.tolist(), *self._numbers, self._rule, self._details)

    @staticmethod
    def decision_of(
        whole: list[int],
        real: list[float],
        step: int,
        first_row: int,
        rows: int,
        rule: Rule,
        details: dict[str, Any],
    ) -> Decision:
        """Return the decision of a step that left these numbers behind."""
        if rule.relative:
            unit = real[UNIT]
            thresholds = {"threshold": rule.threshold * unit, "stable_threshold": rule.stable_threshold * unit}
            details = details | thresholds | {"risk_unit": unit}
        return decision_of(whole, real, step, first_row, rows, details)


def decision_of(
    whole: list[int], real: list[float], step: int, first_row: int, rows: int, details: dict[str, Any]
) -> Decision:
    """Return the decision of a step, given its outcome; ``details`` are the fields that follow from the options."""
    return Decision(
        step,
        first_row,
        rows,
        "reactive" if whole[REACTIVE_STEP] else "stable",
        whole[PREDICTED_BY],
        whole[TRAINED_FROM],
        whole[PREDICTS_NEXT],
        tuple([_model_record(whole, real, number, step) for number in range(whole[RECORDS])]),
        whole[REACTIVE_STEP],
        whole[CONDITION],
        absent=whole[ABSENT] if whole[ABSENT] >= 0 else None,
        transitions=tuple([_transition(whole, real, number, step) for number in range(whole[TRANSITIONS])]),
        lead_error=real[LEAD_ERROR] if whole[REACTIVE_STEP] > 1 and details["significance"] is not None else None,
        **details,
    )


def _model_record(whole: list[int], real: list[float], number: int, step: int) -> ModelRecord:
    at = RECORD + number * RECORD_SIZE
    role, id, born, first_row, gradients, measured = whole[at : at + RECORD_SIZE]
    before, after, trial, best = real[number * RISKS : (number + 1) * RISKS]
    return ModelRecord(
        ROLES[role],
        id,
        step - born,
        first_row,
        before if measured & 1 else None,
        after if measured & 2 else None,
        trial if measured & 4 else None,
        None if best == math.inf else best,
        gradients,
    )


def _transition(whole: list[int], real: list[float], number: int, step: int) -> Transition:
    at = TRANSITION + number * TRANSITION_SIZE
    kind, over, old, new, absent = whole[at : at + TRANSITION_SIZE]
    left, right, margin = real[COMPARISON + number * COMPARED : COMPARISON + (number + 1) * COMPARED]
    condition = whole[CONDITION] if kind == ENTERED else 0
    return Transition(KINDS[kind], step, condition, left, right, margin, over, old, new, absent=absent)
