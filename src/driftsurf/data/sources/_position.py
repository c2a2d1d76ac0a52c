"""Positions in files, as plain values, and how one that was saved is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from driftsurf.data.kinds import KINDS, Kind
from driftsurf.data.source import Position
from driftsurf.errors import StateError

__all__ = ["FilePosition", "read_position"]


class FilePosition(TypedDict):
    """Position of a :class:`FileSource`: plain values, ready for JSON."""

    file: str
    offset: int
    line: int
    rows: int
    """Number of rows before it."""
    skipped: int
    """Number of bad rows before it."""
    columns: list[tuple[str, Kind]]
    n_features: int
    tail: str
    """Digest of what stands before the position, to recognise the file; '' accepts any file."""
    earlier: int | None
    """Number of files before it; None in a position of an earlier version."""


def read_position(position: Position) -> FilePosition:
    """Return a position that may have been through JSON; raise StateError if it is not one."""
    if not isinstance(position, Mapping):
        raise StateError(f"not a position of a file source: {position!r}. Pass a position that tables() gave")
    try:
        read = FilePosition(
            file=position["file"],
            offset=position["offset"],
            line=position["line"],
            rows=position["rows"],
            skipped=position["skipped"],
            columns=[(name, kind) for name, kind in position["columns"]],
            n_features=position["n_features"],
            tail=position["tail"],
            earlier=position.get("earlier"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"not a position of a file source ({error}). Pass a position that tables() gave") from error
    counts = read["offset"], read["line"], read["rows"], read["skipped"], read["n_features"], read["earlier"] or 0
    if not (
        isinstance(read["file"], str)
        and isinstance(read["tail"], str)
        and all(type(value) is int and value >= 0 for value in counts)
        and all(isinstance(name, str) and kind in KINDS for name, kind in read["columns"])
    ):
        raise StateError(f"not a position of a file source: {dict(position)!r}. Pass a position that tables() gave")
    return read
