"""The outcome of a native step: numbers that the step leaves behind, and the decision that they make."""

from __future__ import annotations

import math
import struct
from typing import Any

from driftsurf.core.decisions import Decision, ModelRecord, Role, Transition, TransitionKind
from driftsurf.strategies._cell_arrays import ENTERED, Rule

# Places among the whole numbers of an outcome: counts, a record for each model, and the transitions.
CONDITION, REACTIVE_STEP, RECORDS, TRANSITIONS, PREDICTED_BY, TRAINED_FROM, PREDICTS_NEXT, ABSENT = range(8)
PREDICTING = struct.Struct("=3q")
"""The numbers from ``PREDICTED_BY`` to ``PREDICTS_NEXT``."""
MOST_RECORDS, MOST_TRANSITIONS = 3, 2
"""Most models and most transitions: a stable model may end in the step that makes w'."""
RECORD, RECORD_SIZE = 8, 6
"""Role, id, born, first row, gradients, and which of the first three risks were measured, as bits 1, 2 and 4."""
TRANSITION, TRANSITION_SIZE = RECORD + MOST_RECORDS * RECORD_SIZE, 5
"""Kind, number of batches, old and new model, and the class for lack of which w was kept, or -1."""
# Places among the real numbers: four risks of each model (before, after, over T, best), three numbers of each
# transition, the unit of the thresholds, and the standard error of the lead of w'.
RISKS, COMPARED = 4, 3
COMPARISON = MOST_RECORDS * RISKS
UNIT = COMPARISON + MOST_TRANSITIONS * COMPARED
LEAD_ERROR = UNIT + 1
ROLES: tuple[Role, ...] = ("predictive", "stable", "reactive")
"""Roles by their codes; that of the predictive model is NO_RIVAL."""
KINDS: tuple[TransitionKind, ...] = ("entered", "greedy", "switched", "kept")
"""Kinds of transitions by their codes."""


class Outcome:
    """The numbers that a step left behind, from which its decision is made when somebody asks for it.

    Making a decision takes longer than learning a few rows, and most decisions are never looked at.
    """

    __slots__ = ("_about", "_count", "_numbers")

    def __init__(self, numbers: tuple[bytes, bytes, int, int, int], count: int, about: tuple[Rule, Any]) -> None:
        self._numbers, self._count, self._about = numbers, count, about

    @property
    def transitions(self) -> int:
        """Number of transitions."""
        return self._numbers[2]

    @property
    def switched(self) -> bool:
        """Whether another model predicts next than before."""
        before, _, after = PREDICTING.unpack_from(self._numbers[0], 8 * PREDICTED_BY)
        return bool(before != after)

    @property
    def rows_seen(self) -> int:
        """Number of rows up to and including this step."""
        return self._numbers[4]

    def decision(self) -> Decision:
        """Return the decision."""
        whole, real, _, step, end = self._numbers
        rule, details = self._about
        numbers: Any = memoryview(whole).cast("q").tolist()
        values: Any = memoryview(real).cast("d").tolist()
        if rule.relative:
            unit = values[UNIT]
            thresholds = {"threshold": rule.threshold * unit, "stable_threshold": rule.stable_threshold * unit}
            details = details | thresholds | {"risk_unit": unit}
        return decision_of(numbers, values, step, end - self._count, self._count, details)


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
