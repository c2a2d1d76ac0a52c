"""Nearest neighbours among the last rows, as a value that never changes."""

from collections.abc import Mapping
from typing import Any

from driftsurf.native.online import OnlineModel

class NeighboursModel(OnlineModel):
    neighbours: int
    window: int
    smoothing: float
    def __init__(
        self, known: Mapping[str, Any], *, neighbours: int = 5, window: int = 500, smoothing: float = 0.5
    ) -> None: ...
