"""Files of a log: frames of records, their checksums, and what is found in them after a crash.

A frame is a header (magic, length, checksum, record number, ``durable``) and the payload. ``durable`` is the number
below which all records were on the storage device when the frame was written, so a frame is evidence about the frames
before it. Magic and checksum depend on a random number in the name of the file, so that no payload can look like a
frame."""

from __future__ import annotations

import re
import secrets
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from driftsurf.core import disk, files
from driftsurf.errors import LogError

HEAD = Struct("<4sIIQQ")
CHECKED = 12
"""Byte of a frame from which on the checksum covers it: number, ``durable``, payload."""
BLOCK = 2**16
"""Bytes that are read at a time, and the distance of two places of a segment that are kept in memory, about."""
NAME = re.compile(r"(\d{20})-([0-9a-f]{16})\.log")


class Block(NamedTuple):
    """Consecutive records of a segment."""

    records: list[tuple[int, bytes]]
    """Numbers and payloads; at least one."""
    durable: int
    """``durable`` of the last record, which is the highest: it never falls."""
    end: int
    """The byte after the last record."""


@dataclass(eq=False, slots=True)
class LogSegment:
    """One file of a log, with the records from number ``first`` on.

    Parameters
    ----------
    path
        The file; its name holds ``first`` and a random number.
    first
        The number of its first record.
    handle
        The open file, as long as it has bytes that may not be on the storage device.
    named
        Whether the name is on the storage device.
    """

    path: Path
    first: int
    handle: int | None = None
    named: bool = True
    magic: bytes = field(init=False)
    seed: int = field(init=False)
    marks: list[tuple[int, int]] = field(init=False)
    """Record numbers and the bytes at which their frames begin, both rising; for readers that begin in the middle."""

    def __post_init__(self) -> None:
        salt = bytes.fromhex(self.path.name[21:37])
        self.magic = salt[:4]
        self.seed = int.from_bytes(salt[4:], "little")
        self.marks = [(self.first, 0)]

    @classmethod
    def create(cls, folder: Path, first: int) -> LogSegment:
        """Create an empty segment and leave it open."""
        path = folder / f"{first:020}-{secrets.token_hex(8)}.log"
        return cls(path, first, disk.calls.create(path), named=False)

    def mark(self, number: int, place: int) -> None:
        """Remember where a record begins, if the last place that was kept is far enough away."""
        if place - self.marks[-1][1] >= BLOCK:
            self.marks.append((number, place))

    def marked(self, number: int) -> tuple[int, int]:
        """Return the last record at or before ``number`` of which the place is known, and this place."""
        return self.marks[bisect_right(self.marks, number, key=lambda mark: mark[0]) - 1]

    def walk(self, handle: int, number: int, place: int) -> Iterator[Block]:
        """Yield the records from a place on, many at a time, up to the first frame that is not good."""
        size, needed = disk.calls.size(handle), HEAD.size
        while place + needed <= size:  # checked before memory is taken: a length may be any number
            data = _read(handle, min(max(BLOCK, needed), size - place), place)
            if len(data) < needed:
                return
            records, durable, length, needed = self._parse(data, number)
            if records:
                number, place = number + len(records), place + length
                yield Block(records, durable, place)
            elif needed <= len(data):
                return

    def _parse(self, data: bytes, number: int) -> tuple[list[tuple[int, bytes]], int, int, int]:
        """Return the good records at the beginning of the data, the last ``durable``, their bytes, and those needed."""
        records: list[tuple[int, bytes]] = []
        push, unpack, magic, seed, head = records.append, HEAD.unpack_from, self.magic, self.seed, HEAD.size
        view, size = memoryview(data), len(data)
        at = last = 0
        while (end := at + head) <= size:
            found, length, checksum, named, durable = unpack(data, at)
            if found != magic or named != number or durable > number:
                break
            end += length
            if end > size or crc32(view[at + CHECKED : end], seed) != checksum:
                break
            push((number, data[at + head : end]))
            number, at, last = number + 1, end, durable
        return records, last, at, end - at

    def strays(self, handle: int, place: int) -> Iterator[Block]:
        """Yield all good records that begin anywhere after a place."""
        size = disk.calls.size(handle)
        while (place := self._find(handle, place, size)) + HEAD.size <= size:
            head = disk.calls.read_at(handle, HEAD.size, place)
            after = place + 1
            for block in self.walk(handle, HEAD.unpack(head)[3], place) if len(head) == HEAD.size else ():
                yield block
                after = block.end
            place = after

    def _find(self, handle: int, place: int, size: int) -> int:
        """Return the next place of the magic; the size of the file if there is none."""
        while place < size:
            data = disk.calls.read_at(handle, BLOCK, place)
            at = data.find(self.magic)
            if at >= 0:
                return place + at
            place += max(1, len(data) - len(self.magic) + 1)
        return size


def _read(handle: int, size: int, place: int) -> bytes:
    """Return ``size`` bytes, or those up to the end of the file."""
    data = disk.calls.read_at(handle, size, place)
    while len(data) < size and (more := disk.calls.read_at(handle, size - len(data), place + len(data))):
        data += more
    return data


def write_all_at(handle: int, data: bytes, place: int) -> None:
    """Write all of the data from a place on, in as many calls as it takes."""
    rest = memoryview(data)
    while rest:
        written = disk.calls.write_at(handle, rest, place)
        if written <= 0:
            raise OSError(5, "the file accepts no more bytes")
        rest, place = rest[written:], place + written


def segments_of(folder: Path) -> list[LogSegment]:
    """Return the segments in a folder in the order of their records; LogError for a log file of another kind."""
    found = []
    for name in files.names(folder):
        known = NAME.fullmatch(name)
        if known and int(known[1]) < 2**63:
            found.append(LogSegment(folder / name, int(known[1])))
        elif name.endswith(".log"):
            raise LogError(
                f"{str(folder / name)!r} is not a file of this log, whose files are called "
                "<20 digits>-<16 hexadecimal digits>.log; move it elsewhere, or undo its renaming"
            )
    return found


def filled_segments(folder: Path) -> list[LogSegment]:
    """Return the files of a log that have records, in their order."""
    return [segment for segment in segments_of(folder) if segment.path.stat().st_size]


def read_records(segments: list[LogSegment]) -> Iterator[list[tuple[int, bytes]]]:
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
