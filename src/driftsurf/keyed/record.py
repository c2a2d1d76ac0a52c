"""Records of all keys: a bounded record of transitions, and the lines of a journal that steps of cells leave."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.decisions import Decision, ModelRecord, Transition
from driftsurf.core.journal import json_lines
from driftsurf.strategies import _cell_arrays as outcomes
from driftsurf.strategies._cell_arrays import (
    ABSENT,
    CONDITION,
    ENTERED,
    KINDS,
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
)
from driftsurf.strategies._cell_models import CellModels

LIMIT = 100_000
TRANSITION = np.dtype(
    [
        ("slot", np.int64),
        ("kind", np.int64),
        ("step", np.int64),
        ("condition", np.int64),
        ("left", np.float64),
        ("right", np.float64),
        ("margin", np.float64),
        ("over", np.int64),
        ("old", np.int64),
        ("new", np.int64),
        ("absent", np.int64),
    ],
    align=True,
)
FIELDS = tuple(name for name in TRANSITION.names or () if name not in ("slot", "kind"))
_NUMBERS = "kind", "over", "old", "new", "absent"
_RISKS = "left", "right", "margin"


def transitions_of(slots: IntArray, steps: IntArray, whole: IntArray, real: FloatArray) -> npt.NDArray[Any]:
    """Return the transitions of time steps, given the outcome of each as it is in a log."""
    counts = whole[:, outcomes.TRANSITIONS]
    owner = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    made = np.empty(len(owner), TRANSITION)
    made["slot"], made["step"] = slots[owner], steps[owner]
    for place, name in enumerate(_NUMBERS):
        made[name] = whole[owner, outcomes.TRANSITION + number * outcomes.TRANSITION_SIZE + place]
    for place, name in enumerate(_RISKS):
        made[name] = real[owner, outcomes.COMPARISON + number * outcomes.COMPARED + place]
    made["condition"] = np.where(made["kind"] == ENTERED, whole[owner, outcomes.CONDITION], 0)
    return made


class TransitionRecord:
    """The last ``limit`` transitions, and those of the same call as the oldest of them."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self._calls: deque[tuple[int, Any]] = deque()
        """The transitions of each call, and the number of all transitions up to them."""

    def add(self, transitions: npt.NDArray[Any] | Sequence[Any]) -> None:
        """Add the transitions of one call, as the loop gives them; those of the last call are not added twice.

        So a call that was broken off is recorded completely by calling this again.
        """
        calls = self._calls
        total, last = calls[-1] if calls else (0, None)
        if len(transitions) and last is not transitions:
            total += len(transitions)
            calls.append((total, transitions))
        while calls and total - calls[0][0] >= self.limit:
            calls.popleft()

    def table(self, keys: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """Return columns with one entry per transition; ``keys`` are the names by slot."""
        entries = np.concatenate([np.empty(0, TRANSITION), *(call for _, call in self._calls)])
        table: dict[str, npt.NDArray[Any]] = {
            "key": np.array(keys or [0])[entries["slot"]],
            "kind": np.array(KINDS)[entries["kind"]],
        }
        return table | {name: entries[name] for name in FIELDS}

    def of_slot(self, slot: int) -> list[Transition]:
        """Return the transitions of one key."""
        found = [entry for _, call in self._calls for entry in call[call["slot"] == slot].tolist()]
        return [Transition(KINDS[kind], **dict(zip(FIELDS, rest, strict=True))) for _, kind, *rest in found]


class SessionsRecord(TransitionRecord):
    """The last ``limit`` transitions of any strategy; those of a call are a list of slots and transitions."""

    def _entries(self) -> list[tuple[int, Transition]]:
        return [entry for _, call in self._calls for entry in call]

    def table(self, keys: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """Return columns with one entry per transition; ``keys`` are the names by slot."""
        found = self._entries()
        slots = np.array([slot for slot, _ in found], np.int64)
        table: dict[str, npt.NDArray[Any]] = {
            "key": np.array(keys or [0])[slots],
            "kind": np.array([one.kind for _, one in found], "U8"),
        }
        for name in FIELDS:  # a risk that was not computed is None, and becomes NaN
            values = [getattr(one, name) for _, one in found]
            table[name] = np.array(values, np.float64 if name in _RISKS else np.int64)
        return table

    def of_slot(self, slot: int) -> list[Transition]:
        """Return the transitions of one key."""
        return [one for own, one in self._entries() if own == slot]


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
        self._stable_only = models.reader.details.get("significance") is not None
        marks = [MARK + place for place in range(8)]
        step, first, by, trained, following, reactive, condition, one = marks
        decision = Decision(
            step, first, rows, "stable", by, trained, following, (), reactive, condition, **models.reader.details
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
        return self._models.reader.read(whole, real, step, step * self._rows, self._rows)

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
