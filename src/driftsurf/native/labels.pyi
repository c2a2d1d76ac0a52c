"""Labels of classes to codes: one table for each set of classes, for arrays of any type and for lists."""

from typing import Any

from driftsurf.core.contracts import FloatArray

class LabelCodes:
    def __init__(self, labels: tuple[Any, ...]) -> None: ...
    def codes(self, y: Any, count: int) -> FloatArray | None: ...
