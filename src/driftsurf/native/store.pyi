from typing import Any

OUTCOME_SIZES: tuple[int, int]

class KeyLoop:
    def __init__(
        self,
        layout: dict[str, Any],
        rule: Any,
        training: Any,
        per_row: float,
        per_batch: int,
        guard: tuple[float, bool, float, float],
    ) -> None: ...
    def observe(
        self,
        memory: tuple[Any, ...],
        batch: tuple[Any, ...],
        groups: tuple[Any, ...],
        log: tuple[Any, ...],
        room: Room,
    ) -> None: ...
    def predict(self, memory: tuple[Any, ...], rows: Any, slots: Any, predicted: Any, room: Room) -> None: ...
    def begin(self, blocks: Any, slots: Any, seeds: Any, judged: Any, room: Room) -> None: ...
    def complete(self, memory: tuple[Any, ...], stop: int, room: Room) -> None: ...
    def needed(self, blocks: Any, slots: Any, starts: Any, rows: Any, norms: Any, steps: Any) -> None: ...

class Room:
    def __init__(self, loop: KeyLoop) -> None: ...
