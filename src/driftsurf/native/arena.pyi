from typing import Any

def move(
    source: Any, target: Any, old: Any, new: Any, old_pieces: tuple[int, ...], new_pieces: tuple[int, ...]
) -> None: ...
def copy(
    memory: Any,
    codes: Any,
    parts: Any,
    first: Any,
    counts: Any,
    pieces: tuple[int, ...],
    values: Any,
    into: bool,
) -> None: ...
