"""Read a log without opening it: a service may go on writing it meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from driftsurf.core import disk
from driftsurf.data.log.segments import Segment, segments_of
from driftsurf.errors import LogError

__all__ = ["filled_segments", "is_log", "read_records"]


def is_log(path: str) -> bool:
    """Return whether a path is the folder of a log, which has nothing but files of a log in it."""
    folder = Path(path)
    try:
        return folder.is_dir() and bool(segments_of(folder))
    except (LogError, OSError):
        return False


def filled_segments(folder: Path) -> list[Segment]:
    """Return the files of a log that have records, in their order."""
    return [segment for segment in segments_of(folder) if segment.path.stat().st_size]


def read_records(segments: list[Segment]) -> Iterator[list[tuple[int, bytes]]]:
    """Yield the numbers and payloads of the records in files of a log, many at a time.

    A torn record at the end of the last file is one that is being written, or that a crash left; there it ends.
    LogError if a record is missing or damaged elsewhere.
    """
    for segment, after in zip(segments, (*segments[1:], None), strict=True):
        try:
            handle = disk.calls.open(segment.path)
        except FileNotFoundError:
            raise LogError(
                f"the records from {segment.first} on have been dropped meanwhile; read the log again"
            ) from None
        number, place = segment.first, 0
        try:
            for block in segment.walk(handle, number, 0):
                number, place = block.records[-1][0] + 1, block.end
                yield block.records
        finally:
            disk.calls.close(handle)
        if after is not None and number != after.first:
            raise LogError(
                f"the log is damaged: record {number} should be at byte {place} of {str(segment.path)!r}. If the "
                "service was killed, start it once; otherwise restore the file from a copy."
            )
