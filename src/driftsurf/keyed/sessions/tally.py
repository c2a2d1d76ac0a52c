"""Counts of one key of a fleet: an entry of its table of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np

from driftsurf.core.contracts import State
from driftsurf.core.decisions import Decision, StateName, TransitionKind
from driftsurf.core.fields import Array, Entry
from driftsurf.keyed.quarantine import Reason
from driftsurf.keyed.sessions.session import TakenPart
from driftsurf.keyed.summary import next_state

__all__ = ["TALLY_FIELDS", "Tally", "restored_tallies", "tallies_state"]

CODED: dict[str, tuple[str, ...]] = {
    "state": get_args(StateName),
    "last_transition": ("", *get_args(TransitionKind)),
    "quarantine": get_args(Reason),
}
"""Texts, which are saved by their place here."""


class Tally(NamedTuple):
    """Counts of one key, beside those of its session. A new one replaces it."""

    errors: float = 0.0
    """Errors of the rows of complete time steps: wrong predictions, or absolute errors of numbers."""
    waiting_errors: float = 0.0
    """Errors of the rows in the buffer, which are taken back if their time step fails."""
    refused: int = 0
    models: int = 1
    """Number of models made so far."""
    transitions: int = 0
    last_step: int = -1
    state: str = "stable"
    last_transition: str = ""
    quarantine: Reason = ""

    def after(self, part: TakenPart) -> Tally:
        """Return the counts after rows were taken."""
        waiting = self.waiting_errors
        for error in _errors(part):  # one by one, so that rounding does not depend on calls
            waiting += error
        made = self._replace(waiting_errors=waiting)
        for decision in part.decisions:
            made = made._decided(decision)
        return made

    def _decided(self, decision: Decision) -> Tally:
        """Return the counts after a time step."""
        changes = decision.transitions
        models = (*decision.models, *decision.others)
        made = [model.id for model in models] + [one.new for one in changes] + [decision.predicts_next]
        return self._replace(
            errors=self.errors + self.waiting_errors,
            waiting_errors=0.0,
            models=max(self.models, 1 + max(made)),
            state=next_state(decision),
            transitions=self.transitions + len(changes),
            last_transition=changes[-1].kind if changes else self.last_transition,
            last_step=changes[-1].step if changes else self.last_step,
        )


def _errors(part: TakenPart) -> list[float]:
    """Return the error of each row."""
    predicted = part.known.predicted(part.scores)
    numbers = predicted.dtype.kind == "f"
    errors: list[float] = (np.abs(predicted - part.codes) if numbers else predicted != part.codes).tolist()
    return errors


def tallies_state(tallies: Sequence[Tally]) -> State:
    """Return the counts of all keys as arrays."""
    columns = {name: [getattr(tally, name) for tally in tallies] for name in Tally._fields}
    for name, texts in CODED.items():
        columns[name] = [texts.index(text) for text in columns[name]]
    kinds = {name: np.float64 if name.endswith("errors") else np.int64 for name in columns}
    return {name: np.array(column, kinds[name]) for name, column in columns.items()}


def restored_tallies(known: Mapping[str, Any]) -> list[Tally]:
    """Return the counts that were saved, by slot."""
    columns = {name: known[f"key.{name}"].tolist() for name in Tally._fields}
    for name, texts in CODED.items():
        columns[name] = [texts[code] for code in columns[name]]
    return [Tally(*values) for values in zip(*columns.values(), strict=True)]


_COUNT = Array(np.int64, ("n_keys",), least=0, most=2**40)
_ERRORS = Array(np.float64, ("n_keys",), least=0)
TALLY_FIELDS: dict[str, Entry] = {
    "key.errors": _ERRORS,
    "key.waiting_errors": _ERRORS,
    "key.refused": _COUNT,
    "key.models": Array(np.int64, ("n_keys",), least=1, most=2**40),
    "key.transitions": _COUNT,
    "key.last_step": Array(np.int64, ("n_keys",), least=-1, most=2**40),
    **{f"key.{name}": Array(np.int64, ("n_keys",), least=0, most=len(texts) - 1) for name, texts in CODED.items()},
}
"""Saved counts of the keys of a fleet."""
