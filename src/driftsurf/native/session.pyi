from typing import Any

from driftsurf.core.contracts import FloatArray
from driftsurf.native.cell import StepRecord

def usual_step(
    session: Any, known: Any, X: Any, y: Any, predict: bool
) -> tuple[Any, FloatArray, FloatArray | None, StepRecord] | None:
    """Take one step of a session; None if it is not usual, and nothing was changed."""
