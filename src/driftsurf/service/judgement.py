"""What is said of a served model first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from driftsurf.core.drifts import Drift, InputChange
from driftsurf.evaluation.verdict import Verdict

__all__ = ["UNJUDGED", "Judgement"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a served model, and the drifts behind it."""

    verdict: Verdict
    drifts: tuple[Drift, ...] = ()
    """The newest drifts, oldest first."""
    changes: tuple[InputChange, ...] = ()
    """The newest moves of the inputs without harm, oldest first."""


UNJUDGED: Final = Judgement(Verdict("waiting", "No row was scored yet.", ""))
"""What is said before the first row was scored."""
