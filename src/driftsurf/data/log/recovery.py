"""Opening of a log after any end of the last process: the torn tail is cut off, and damage is told from it.

A kill loses nothing that was written, but may leave part of a frame. A power loss may lose or tear any frame that had
not been flushed, and keep later ones. So what follows the first frame that is missing or not good is cut off, unless a
later frame says that the missing one had been flushed: then the file is damaged, and nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from driftsurf.core import disk, files
from driftsurf.data.log.segments import LogSegment, segments_of, write_all_at
from driftsurf.errors import LogError

COPIED = 2**20
"""Bytes that are written again at a time."""


class Opened(NamedTuple):
    """Segments of a log of which every record is on the storage device; the last one is open for writing."""

    segments: tuple[LogSegment, ...]
    next: int
    """The number of the next record."""
    size: int
    """The number of bytes of the last segment."""
    cut: int
    """The number of bytes that were cut off."""


@dataclass
class _Scan:
    """Frames that were found in a segment."""

    segment: LogSegment
    handle: int
    size: int
    next: int
    """The number after the last frame of the unbroken row of frames at the beginning."""
    end: int = 0
    """The byte at which this row ends."""
    durable: int = 0
    lowest_stray: int = 2**64
    """The lowest number of the good frames that come after the row and do not continue it."""
    stray_durable: int = 0


def open_segments(folder: Path, known: int) -> Opened:
    """Return the segments in a folder without a torn tail; LogError if one of them is damaged.

    Only the end of the log is read: the segments that may hold records that were not flushed. Damage before them is
    found when they are read. Records below ``known`` are known to have been flushed.
    """
    segments = _without_empty_twins(segments_of(folder))
    if not segments:
        segments = [LogSegment.create(folder, 0)]
        files.sync_folder(folder)
        segments[0].named = True
        _not_below(known, 0, segments[0])
        return Opened(tuple(segments), 0, 0, 0)
    scans: list[_Scan] = []
    try:
        for segment in reversed(segments):
            scans.insert(0, _scan(segment))
            if max(max(one.durable, one.stray_durable) for one in scans) >= segment.first:
                break  # all segments before this one had been flushed
        kept = _unbroken(scans, known)
        cut = _cut(scans, kept)
        _flush(scans[:kept])
        files.sync_folder(folder)
        last = scans[kept - 1]
        last.segment.handle = last.handle
    except BaseException:
        for scan in scans:
            disk.calls.close(scan.handle)
        raise
    for scan in scans:
        if scan is not last:
            disk.calls.close(scan.handle)
    gone = len(scans) - kept
    return Opened(tuple(segments[: len(segments) - gone]), last.next, last.end, cut)


def _without_empty_twins(segments: list[LogSegment]) -> list[LogSegment]:
    """Return the segments without empty ones that another one replaces; a process may have ended while it made one."""
    kept: list[LogSegment] = []
    for segment in segments:
        if kept and kept[-1].first == segment.first:
            empty = next((one for one in (segment, kept[-1]) if not files.read_bytes(one.path)), None)
            if empty is None:
                raise LogError(
                    f"{kept[-1].path.name} and {segment.path.name} in {str(segment.path.parent)!r} both begin with "
                    f"record {segment.first}; move the one that does not belong there elsewhere"
                )
            files.remove(empty.path)
            if empty is segment:
                continue
            kept.pop()
        kept.append(segment)
    return kept


def _scan(segment: LogSegment) -> _Scan:
    """Read all frames of a segment."""
    handle = disk.calls.open(segment.path)
    try:
        found = _Scan(segment, handle, disk.calls.size(handle), segment.first)
        for block in segment.walk(handle, segment.first, 0):
            found.next, found.end, found.durable = block.records[-1][0] + 1, block.end, block.durable
            segment.mark(found.next, found.end)
        if found.end < found.size:
            for block in segment.strays(handle, found.end + 1):
                found.lowest_stray = min(found.lowest_stray, block.records[0][0])
                found.stray_durable = max(found.stray_durable, block.durable)
    except BaseException:
        disk.calls.close(handle)
        raise
    return found


def _unbroken(scans: list[_Scan], known: int) -> int:
    """Return how many of the segments belong to the unbroken row of records; LogError if what follows it is damage."""
    kept = 1
    while kept < len(scans) and scans[kept - 1].end == scans[kept - 1].size:
        if scans[kept].segment.first != scans[kept - 1].next:
            break
        kept += 1
    last, later = scans[kept - 1], scans[kept:]
    flushed = max([last.stray_durable] + [max(one.durable, one.stray_durable) for one in later])
    lowest = min([last.lowest_stray] + [one.segment.first for one in later])
    if flushed > last.next or lowest <= last.next:
        raise LogError(
            f"the log is damaged: record {last.next} should be at byte {last.end} of {str(last.segment.path)!r}, and "
            "later records show that it was there. Restore the file from a copy."
        )
    _not_below(known, last.next, last.segment)
    return kept


def _not_below(known: int, number: int, segment: LogSegment) -> None:
    if number < known:
        raise LogError(
            f"the log in {str(segment.path.parent)!r} ends before record {number}, but it had {known} records: files "
            "were removed or damaged. Restore them from a copy."
        )


def _cut(scans: list[_Scan], kept: int) -> int:
    """Remove what follows the unbroken row; return its number of bytes.

    Whole files go first, the last one before the others, so that what a second crash leaves is a torn tail again.
    """
    last, later = scans[kept - 1], scans[kept:]
    for scan in reversed(later):
        files.remove(scan.segment.path)
    if later:
        files.sync_folder(last.segment.path.parent)
    if last.end < last.size:
        disk.calls.truncate(last.handle, last.end)
    return last.size - last.end + sum(scan.size for scan in later)


def _flush(scans: list[_Scan]) -> None:
    """Flush all records, after writing those again of which no frame says that they had been flushed.

    The last process may have ended because a flush had failed. The system then shows bytes that are not on the device
    and that no further flush writes, because it takes them for written.
    """
    durable = max(scan.durable for scan in scans)
    for scan in scans:
        if scan.next <= durable and scan is not scans[-1]:
            continue
        place = scan.segment.marked(durable)[1] if durable > scan.segment.first else 0
        while place < scan.end:
            data = disk.calls.read_at(scan.handle, min(COPIED, scan.end - place), place)
            if not data:
                raise OSError(5, "the file became shorter while it was read", str(scan.segment.path))
            write_all_at(scan.handle, data, place)
            place += len(data)
        disk.calls.sync(scan.handle)
