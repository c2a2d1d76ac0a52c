"""The records of time steps as lines of a journal, written straight from the numbers that a step of a cell leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from driftsurf.core.decisions import Decision, ModelRecord
from driftsurf.core.journal import json_lines
from driftsurf.strategies._cell_models import CellModels
from driftsurf.strategies._cell_outcome import (
    ABSENT,
    CONDITION,
    PREDICTED_BY,
    PREDICTS_NEXT,
    REACTIVE_STEP,
    RECORD,
    RECORD_SIZE,
    RECORDS,
    RISKS,
    ROLES,
    TRAINED_FROM,
    TRANSITIONS,
    Outcome,
)

__all__ = ["RecordWriter"]

MARK = 900_000_000
"""Numbers from here on mark the places of numbers in a line."""


class RecordWriter:
    """Writes the lines of usual steps as ``json_lines`` does, ten times as fast.

    Usual steps have no transitions, and are not in a reactive state with further numbers. The text between the numbers
    is that of a line that ``json_lines`` has written. ``check`` compares a line with that of ``json_lines``, which
    writes all lines if they differ.
    """

    def __init__(self, models: CellModels, rows: int) -> None:
        self._models = models
        self._rows = rows
        self._fast = not models._rule.relative
        self._stable_only = models.about[1].get("significance") is not None
        marks = [MARK + place for place in range(8)]
        step, first, by, trained, following, reactive, condition, one = marks
        decision = Decision(
            step, first, rows, "stable", by, trained, following, (), reactive, condition, **models.about[1]
        )
        line = "".join(json_lines([decision]))
        seen = str(first + rows)
        self._step = _between(line, [str(step), str(first), '"stable"', *map(str, (by, trained, following)), "[]"])
        last = self._step.pop()
        self._step += _between(last, [str(reactive), str(condition), seen])
        risks = [0.5 + place for place in marks[:4]]
        record = ModelRecord("predictive", step, first, by, risks[0], risks[1], risks[2], risks[3], one)
        text = "".join(json_lines([Decision(0, 0, 0, "stable", 0, 0, 0, (record,))]))
        model = text[text.index('"models":[') + len('"models":[') : text.index("]")]
        values = ['"predictive"', *map(str, (step, first, by, *risks, one))]
        self._model = _between(model, values)

    def check(self, whole: list[int], real: list[float], step: int) -> None:
        """Compare a line with that of ``json_lines``."""
        if self._is_usual(whole):
            self._fast = self._line(whole, real, step) == "".join(json_lines([self.decision(whole, real, step)]))

    def decision(self, whole: list[int], real: list[float], step: int) -> Decision:
        """Return the decision of a step that left these numbers."""
        left = np.array(whole, np.int64).tobytes(), np.array(real).tobytes()
        return Outcome(
            (*left, whole[TRANSITIONS], step, (step + 1) * self._rows), self._rows, self._models.about
        ).decision()

    def line(self, whole: list[int], real: list[float], step: int) -> str | None:
        """Return the line of a usual step; None if ``json_lines`` has to write it."""
        return self._line(whole, real, step) if self._is_usual(whole) else None

    def _is_usual(self, whole: list[int]) -> bool:
        further = whole[ABSENT] >= 0 or (self._stable_only and whole[REACTIVE_STEP])
        return self._fast and not whole[TRANSITIONS] and not further

    def _line(self, whole: list[int], real: list[float], step: int) -> str:
        models = []
        texts = self._model
        for number in range(whole[RECORDS]):
            at = RECORD + number * RECORD_SIZE
            role, id, born, first_row, gradients, measured = whole[at : at + RECORD_SIZE]
            before, after, trial, best = real[number * RISKS : (number + 1) * RISKS]
            models.append(
                f'{texts[0]}"{ROLES[role]}"{texts[1]}{id}{texts[2]}{step - born}{texts[3]}{first_row}{texts[4]}'
                f"{_number(before) if measured & 1 else 'null'}{texts[5]}{_number(after) if measured & 2 else 'null'}"
                f"{texts[6]}{_number(trial) if measured & 4 else 'null'}{texts[7]}{_number(best)}{texts[8]}{gradients}"
                f"{texts[9]}"
            )
        first, texts = step * self._rows, self._step
        state = "reactive" if whole[REACTIVE_STEP] else "stable"
        return (
            f'{texts[0]}{step}{texts[1]}{first}{texts[2]}"{state}"{texts[3]}{whole[PREDICTED_BY]}{texts[4]}'
            f"{whole[TRAINED_FROM]}{texts[5]}{whole[PREDICTS_NEXT]}{texts[6]}[{','.join(models)}]{texts[7]}"
            f"{whole[REACTIVE_STEP]}{texts[8]}{whole[CONDITION]}{texts[9]}{first + self._rows}{texts[10]}"
        )


def _number(value: float) -> str:
    return repr(value) if math.isfinite(value) else "null"


def _between(text: str, values: Sequence[str]) -> list[str]:
    """Return the parts of a text before, between and after these values, each at its first place after the others."""
    parts = []
    for value in values:
        before, _, text = text.partition(value)
        parts.append(before)
    return [*parts, text]
