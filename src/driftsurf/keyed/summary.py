"""The summary of a key: an entry of the table of keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from driftsurf.core.decisions import Decision
from driftsurf.core.targets import RegressionTargets
from driftsurf.core.values import replace
from driftsurf.keyed.quarantine import Fault, Reason
from driftsurf.keyed.serving import Served, Serving

__all__ = ["KeySummary", "after_visit", "chained", "key_columns", "next_state"]

MESSAGE_LENGTH = 300
VALUE_LENGTH = 100


@dataclass(frozen=True)
class KeySummary:
    """Rows, errors and state of one key so far.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.keyed import KeyedOptions, KeyRows
    >>> learner = KeyedOptions(batch_size=16, classes=("no", "yes")).learner(["price"])
    >>> X = np.arange(32.0)[:, None] % 7
    >>> rows = KeyRows(np.arange(32), X, np.where(X[:, 0] > 3, "yes", "no").tolist())
    >>> found = learner.visit("Rome", None, rows).summary
    >>> found.rows, found.steps, found.scored, found.errors, found.state
    (32, 2, 32, 9, 'stable')
    """

    rows: int = 0
    """Rows taken, including labels that came alone, but neither duplicates nor refused rows."""
    steps: int = 0
    """Time steps learned."""
    state: str = "stable"
    """The state in which the next batch will be learned: "stable" or "reactive"."""
    scored: int = 0
    """Predictions whose true label is known."""
    errors: int = 0
    """Wrong predictions; 0 for regression."""
    deviation: float = 0.0
    """For regression, the sum of absolute errors; else 0."""
    duplicates: int = 0
    """Rows at or below the high-water mark, which were dropped."""
    refused: int = 0
    """Rows that were not learned: they came in quarantine, or had started a time step when the key was readmitted."""
    gaps: int = 0
    """Cells without a value, which were filled."""
    transitions: int = 0
    last_transition: str = ""
    last_transition_at: int | None = None
    """The sequence number at which it happened."""
    digest: str = ""
    """Checksum of the records of all time steps. Keys with the same one made the same time steps, with the same risks
    to the last bit."""
    high_water: int | None = None
    """The largest sequence number so far."""
    waiting: int = 0
    """Rows that wait for their label."""
    quarantine: str = ""
    """Why the key no longer learns, a :data:`~driftsurf.keyed.quarantine.Reason`; empty if it does."""
    quarantined_at: int | None = None
    """The sequence number of the row that could not be learned."""
    quarantine_column: str = ""
    """The feature that is to blame, if it is one."""
    quarantine_value: str = ""
    """The value that is to blame, as text, if it is one."""
    quarantine_message: str = ""
    """The reason of the quarantine as a sentence."""
    bytes: int = 0
    """Bytes of the rows, models and other arrays in the saved state."""
    expired: bool = False
    """Whether the key was silent for so long that its model was dropped."""

    @property
    def error(self) -> float | None:
        """The share of wrong predictions; for regression the mean absolute error; None if nothing was scored."""
        return (self.errors + self.deviation) / self.scored if self.scored else None

    def quarantined(self, at: int, fault: Fault) -> KeySummary:
        """Return the summary of the key in quarantine since the row ``at``."""
        return replace(
            self,
            quarantine=fault.reason,
            quarantined_at=at,
            quarantine_column=fault.column,
            quarantine_value=fault.value[:VALUE_LENGTH],
            quarantine_message=fault.message[:MESSAGE_LENGTH],
        )

    def readmitted(self, dropped: int) -> KeySummary:
        """Return the summary of the key out of quarantine; ``dropped`` rows of a time step were taken back."""
        reason: Reason = ""
        return replace(
            self,
            quarantine=reason,
            quarantined_at=None,
            quarantine_column="",
            quarantine_value="",
            quarantine_message="",
            rows=self.rows - dropped,
            refused=self.refused + dropped,
        )


_TYPES = {"int": "int64", "str": "string", "bool": "bool_", "float": "float64"}


def key_columns() -> dict[str, str]:
    """Return the columns of the table of keys beside the key, and their types as pyarrow names them."""
    own = {entry.name: _TYPES[str(entry.type).split(" ")[0]] for entry in fields(KeySummary)}
    return own | {"error": "float64"}


def chained(digest: str, records: Iterable[str]) -> str:
    """Return the checksum of the records so far, and of these.

    >>> chained(chained("", ["a"]), ["b"]) == chained("", ["a", "b"]) != chained("", ["b", "a"])
    True
    """
    for record in records:
        digest = hashlib.blake2b(record.encode(), digest_size=8, key=digest.encode()).hexdigest()
    return digest


def after_visit(summary: KeySummary, served: Served, serving: Serving, *, taken: int, refused: int) -> KeySummary:
    """Return the summary with the counts of a visit added."""
    happened = [
        (at, transition.kind)
        for at, decision in zip(served.decided_at, served.decisions, strict=True)
        for transition in decision.transitions
    ]
    changes: dict[str, Any] = {}
    if happened:
        at, kind = happened[-1]
        changes = {"last_transition": kind, "last_transition_at": at}
    if served.decisions:
        changes["state"] = next_state(served.decisions[-1])
    if isinstance(serving.session.targets, RegressionTargets):
        changes["deviation"] = _deviation(summary.deviation, served)
    else:
        changes["errors"] = summary.errors + served.errors
    return replace(
        summary,
        rows=summary.rows + taken,
        steps=serving.session.steps,
        scored=summary.scored + served.scored,
        refused=summary.refused + refused,
        transitions=summary.transitions + len(happened),
        waiting=serving.waiting,
        **changes,
    )


def _deviation(total: float, served: Served) -> float:
    """Add absolute errors one by one, so that rounding does not depend on how rows are spread over visits."""
    for predicted, true in zip(served.predicted, served.true, strict=True):
        total += 0.0 if predicted is None or true is None else abs(predicted - true)
    return total


def next_state(decision: Decision) -> str:
    """Return the state in which the next batch will be learned."""
    ended = {one.expert for one in decision.transitions if one.kind in ("switched", "kept")}
    if decision.reacting:
        return "reactive" if set(decision.reacting) - ended else "stable"
    return "stable" if ended else decision.state
