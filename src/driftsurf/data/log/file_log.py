"""Durable, ordered log of the records of one model: the only way in for rows, labels and orders."""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, Self
from zlib import crc32

from driftsurf.core import disk, files
from driftsurf.data.log.recovery import open_segments
from driftsurf.data.log.segments import BLOCK, CHECKED, HEAD, LogSegment, write_all_at
from driftsurf.errors import InputError, LogConflictError, LogError, OptionError

LARGEST = 2**30
"""Bytes of a payload at most."""
RECENT = 4 * 2**20
"""Bytes of the last records that are kept in memory."""
OVERHEAD = 150
"""Bytes of memory that a record takes beside its payload, about."""


class FileLog:
    """Records of bytes in files, numbered from 0 without gaps, which survive kills and power losses.

    It is a :class:`~driftsurf.data.log.contract.Log`. ``append`` writes records before it returns, so that they survive
    a kill of the process. ``commit`` flushes, so that all records so far survive a power loss. One process at a time
    opens a log.

    Opening it cuts off a torn tail, which is what a crash leaves of records that had not been flushed, and flushes the
    rest. LogError if a record that had been flushed is missing or damaged at the end of the log; damage elsewhere is
    found by ``read``. After a failed flush, nobody knows what is on the storage device: every later ``append`` and
    ``commit`` raises LogError until the log is opened again.

    Parameters
    ----------
    folder
        The folder of the files, which is created.
    segment_bytes
        Number of bytes of a file after which the next one begins.
    known
        Number of records that are known to have been flushed, such as the position of a checkpoint. LogError if
        opening the log would leave fewer.

    Attributes
    ----------
    durable
        All records below this number are on the storage device.
    cut
        Number of bytes of a torn tail that were cut off when the log was opened.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, FileLog(Path(folder)) as log:
    ...     log.append([b"a row", b"its label"], expected=0)
    ...     log.commit(), log.read(1)
    (2, [(1, b'its label')])
    """

    def __init__(self, folder: Path, *, segment_bytes: int = 64 * 2**20, known: int = 0) -> None:
        if segment_bytes < 1:
            raise OptionError(f"segment_bytes is {segment_bytes}; it must be positive")
        self.folder = folder
        self.segment_bytes = segment_bytes
        _make_durable_folder(folder)
        self._owner = files.FolderLock(folder)
        try:
            segments, end, size, cut = open_segments(folder, known)
        except BaseException:
            self._owner.release()
            raise
        self.cut: int = cut
        self._state: tuple[tuple[LogSegment, ...], int, int] = segments, end, size
        """The segments, the number of the next record and the size of the last segment, replaced as a whole."""
        self.durable: int = end
        self._recent: list[tuple[int, bytes]] = []
        self._recent_bytes = 0
        self._lock = threading.Lock()
        self._grown = threading.Condition(self._lock)
        self._waiting = 0
        self._flushing = threading.Lock()
        self._refusal = ""
        """Why nothing more is taken; empty as long as records are taken."""
        self._closed = False

    @property
    def first(self) -> int:
        """Number of the first record that has not been dropped."""
        return self._state[0][0].first

    @property
    def next(self) -> int:
        """Number of the next record."""
        return self._state[1]

    @property
    def name(self) -> str:
        """The folder."""
        return str(self.folder)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(size for _, size in self.sizes())

    largest: int = LARGEST
    id: str = ""
    """Bytes of a record at most."""
    kept_at_append: bool = True
    """True: the system has every record that was appended."""

    def sizes(self) -> list[tuple[int, int]]:
        """Return the number of the first record and the bytes of each file, in order; a dropped one may be missing."""
        segments, _, size = self._state
        found: list[tuple[int, int]] = []
        for segment in segments[:-1]:
            with contextlib.suppress(FileNotFoundError):
                handle = disk.calls.open(segment.path)
                try:
                    found.append((segment.first, disk.calls.size(handle)))
                finally:
                    disk.calls.close(handle)
        return [*found, (segments[-1].first, size)]

    # ------------------------------------------------------------------------ writing

    def append(self, payloads: Sequence[bytes], expected: int) -> None:
        """Write records; OSError if there is no room, and then nothing has changed.

        LogConflictError if the first one would have another number than ``expected``.
        """
        with self._lock:
            if expected != self._state[1] and not self._refusal:
                raise LogConflictError(
                    f"the next record of {str(self.folder)!r} is {self._state[1]}, and not {expected}: another process "
                    "writes to it"
                )
            self._write(payloads)

    def add(self, payload: bytes) -> int:
        """Write a record after the last one, and return its number."""
        with self._lock:
            number = self._state[1]
            self._write((payload,))
        return number

    def _write(self, payloads: Sequence[bytes]) -> None:
        """Write records, all or none. The caller holds the lock."""
        for payload in payloads:
            if len(payload) > LARGEST:
                raise InputError(
                    f"a record of {len(payload)} bytes is too large; split it into parts of at most {LARGEST} bytes"
                )
        if self._refusal:
            raise LogError(self._refusal)
        if self._state[2] >= self.segment_bytes:
            self._begin_segment()
        segments, number, place = self._state
        segment, durable, frames = segments[-1], self.durable, list[bytes]()
        magic, seed = segment.magic, segment.seed
        for next_number, payload in enumerate(payloads, number):
            blank = HEAD.pack(magic, len(payload), 0, next_number, durable)
            checksum = crc32(payload, crc32(blank[CHECKED:], seed))
            frames += HEAD.pack(magic, len(payload), checksum, next_number, durable), payload
        written = b"".join(frames)
        assert segment.handle is not None
        try:
            if disk.calls.write_at(segment.handle, written, place) != len(written):
                write_all_at(segment.handle, written, place)  # from the beginning: rare, and the same bytes
        except OSError as error:
            self._cut_back(segment, place, error)
            raise
        if place - segment.marks[-1][1] >= BLOCK:
            segment.marks.append((number, place))
        self._state = segments, number + len(payloads), place + len(written)
        for payload in payloads:
            self._remember(number, payload)
            number += 1
        if self._waiting:
            self._grown.notify_all()

    def _begin_segment(self) -> None:
        """Begin the next segment; its name and the bytes of the last one are flushed by the next ``commit``."""
        segments, number, _ = self._state
        self._state = (*segments, LogSegment.create(self.folder, number)), number, 0

    def _cut_back(self, segment: LogSegment, place: int, cause: OSError) -> None:
        """Remove part of a frame that could not be written whole, which frees its room, too."""
        cause.filename = str(segment.path)
        assert segment.handle is not None
        try:
            disk.calls.truncate(segment.handle, place)
        except OSError as error:
            self._refuse(f"part of a record could not be removed again ({error})")

    def _refuse(self, cause: str) -> None:
        self._refusal = (
            f"the log in {str(self.folder)!r} takes nothing more: {cause}. Check the storage device, then open the log "
            "again."
        )

    def _remember(self, number: int, payload: bytes) -> None:
        """Keep a record in memory for readers that follow closely, and forget the oldest ones."""
        recent = self._recent
        if recent and recent[-1][0] != number - 1:  # an exception came between two records
            self._recent, self._recent_bytes = [], 0
            recent = self._recent
        recent.append((number, payload))
        self._recent_bytes += len(payload) + OVERHEAD
        if self._recent_bytes > RECENT:
            del recent[: len(recent) // 2 + 1]
            self._recent_bytes = sum(len(one) + OVERHEAD for _, one in recent)

    def commit(self) -> int:
        """Flush all records that were appended before; return the number below which all are durable.

        Calls that come while another thread flushes share the next flush.
        """
        wanted = self.next
        with self._flushing:
            if self.durable >= wanted:
                return self.durable
            with self._lock:
                if self._refusal:
                    raise LogError(self._refusal)
                segments, end, _ = self._state
            self._flush(segments)
            self.durable = end
        return end

    def _flush(self, segments: tuple[LogSegment, ...]) -> None:
        unflushed = [one for one in segments if one.handle is not None]
        try:
            self._owner.check()
            for segment in unflushed:
                assert segment.handle is not None
                disk.calls.sync_data(segment.handle)
        except OSError as error:
            self._fail(error)
        if not all(segment.named for segment in unflushed):
            self._flush_names(segments)
        for segment in unflushed[:-1]:
            _close(segment)

    def _flush_names(self, segments: tuple[LogSegment, ...]) -> None:
        """Flush the folder, and with it the names of segments that are new."""
        try:
            files.sync_folder(self.folder)
        except OSError as error:
            self._fail(error)
        for segment in segments:
            segment.named = True

    def _fail(self, error: OSError) -> NoReturn:
        with self._lock:
            self._refuse(f"it could not be flushed ({error})")
        raise LogError(self._refusal) from error

    # ------------------------------------------------------------------------ reading

    def read(self, start: int, most_bytes: int = 2**20) -> list[tuple[int, bytes]]:
        """Return numbers and payloads of the records from ``start`` on, as many as have ``most_bytes``, at least one.

        The list is empty if record ``start`` does not exist yet; LogError if it has been dropped or is damaged.
        """
        with self._lock:
            if self._closed:
                raise LogError(f"the log in {str(self.folder)!r} is closed")
            segments, end, _ = self._state
            if start >= end:
                return []
            if start < segments[0].first:
                raise LogError(f"record {start} has been dropped; the first one is {segments[0].first}")
            recent = self._recent
            if recent and recent[0][0] <= start:
                return _at_most(recent, start - recent[0][0], most_bytes)
        return self._read_files(segments, start, end, most_bytes)

    def _read_files(
        self, segments: tuple[LogSegment, ...], start: int, end: int, most_bytes: int
    ) -> list[tuple[int, bytes]]:
        records, asked = list[tuple[int, bytes]](), most_bytes
        place = bisect_right(segments, start, key=lambda segment: segment.first) - 1
        for segment, after in zip(segments[place:], (*segments[place + 1 :], None), strict=True):
            stop = end if after is None else after.first
            most_bytes, number, byte = self._read_segment(segment, start, stop, most_bytes, records)
            if number < stop:
                if not records:
                    raise LogError(
                        f"the log is damaged: record {number} at byte {byte} of {str(segment.path)!r} is missing or "
                        "not as it was written. Restore the file from a copy."
                    )
                break
            if records and most_bytes <= 0:
                break
            start = number
        return _at_most(records, 0, asked)

    def _read_segment(
        self, segment: LogSegment, start: int, stop: int, most_bytes: int, records: list[tuple[int, bytes]]
    ) -> tuple[int, int, int]:
        """Add the records of a segment from ``start`` to ``stop``; return the bytes left, and where reading ended."""
        number, place = segment.marked(start)
        try:
            handle = disk.calls.open(segment.path)
        except FileNotFoundError:
            raise LogError(f"record {start} has been dropped, or {str(segment.path)!r} was removed") from None
        try:
            for block in segment.walk(handle, number, place):
                new = block.records[max(0, start - number) : stop - number]
                number, place = block.records[-1][0] + 1, block.end
                records += new
                most_bytes -= sum(len(payload) for _, payload in new)
                if number >= stop or (records and most_bytes <= 0):
                    break
                with self._lock:
                    segment.mark(number, place)
        finally:
            disk.calls.close(handle)
        return most_bytes, min(number, stop), place

    def wait(self, number: int, seconds: float | None) -> bool:
        """Wait until record ``number`` exists; return False after this time, or when the log is closed."""
        with self._grown:
            self._waiting += 1
            try:
                self._grown.wait_for(lambda: self._closed or self._state[1] > number, seconds)
            finally:
                self._waiting -= 1
            return self._state[1] > number and not self._closed

    # ------------------------------------------------------------------------ ending

    def truncate(self, before: int, spare_bytes: int = 0) -> None:
        """Remove the files whose records are all durable and below a number, but none of the last ``spare_bytes``."""
        kept = 0
        for first, size in reversed(self.sizes() if spare_bytes else []):
            kept += size
            if kept >= spare_bytes:
                before = min(before, first)
                break
        else:
            if spare_bytes:
                return
        while self._drop_first(before):
            pass

    def acquire(self, seconds: float, address: str = "") -> FileLease:
        """Return the lease that this process has for as long as the log is open: opening it takes a lock."""
        return FileLease(self._owner)

    def leader(self) -> str:
        """Return nothing: no other process has the log."""
        return ""

    def _drop_first(self, number: int) -> bool:
        """Remove the first file if it has no record that is needed; return whether it did."""
        with self._flushing:
            if self._closed:
                raise LogError(f"the log in {str(self.folder)!r} is closed")
            segments, _, _ = self._state
            if len(segments) < 2 or segments[1].first > min(number, self.durable):
                return False
            # The name of the next file tells the number of its first record, so it has to outlive this one. And one
            # after the other, the oldest first: after a power loss the files that are left have no gap.
            if not segments[1].named:
                self._flush_names(segments)
            files.remove(segments[0].path)
            self._flush_names(())
            with self._lock:
                present, end, size = self._state
                self._state = present[1:], end, size
            _close(segments[0])
            return True

    def close(self) -> None:
        """Flush the log and close it; a second call does nothing."""
        with self._lock:
            broken, self._refusal = self._refusal, self._refusal or f"the log in {str(self.folder)!r} is closed"
        with self._flushing:
            if self._closed:
                return
            segments, end, _ = self._state
            try:
                if not broken and self.durable < end:
                    self._flush(segments)
                    self.durable = end
            finally:
                with self._lock:
                    self._closed = True
                    self._grown.notify_all()
                for segment in segments:
                    _close(segment)
                self._owner.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileLease:
    """The lock of a folder, which the process that opened the log holds until it closes it."""

    def __init__(self, lock: files.FolderLock) -> None:
        self._lock = lock

    @property
    def held(self) -> bool:
        """Whether nobody has replaced the lock."""
        return self.renew()

    def renew(self) -> bool:
        """Return whether nobody has replaced the lock."""
        try:
            self._lock.check()
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Do nothing: the lock ends with the log."""


def _at_most(records: list[tuple[int, bytes]], start: int, most_bytes: int) -> list[tuple[int, bytes]]:
    """Return the records from an index on that have ``most_bytes`` in all, at least one."""
    stop = start
    for stop in range(start, len(records)):
        most_bytes -= len(records[stop][1])
        if most_bytes < 0 and stop > start:
            return records[start:stop]
    return records[start:]


def _close(segment: LogSegment) -> None:
    """Close the file of a segment, if it is open."""
    handle, segment.handle = segment.handle, None
    if handle is not None:
        with contextlib.suppress(OSError):  # everything is flushed by now, or the log is broken
            disk.calls.close(handle)


def _make_durable_folder(folder: Path) -> None:
    """Create a folder and its parents, and flush their names."""
    new = [one for one in (folder, *folder.parents) if not files.is_folder(one)]
    files.make_folder(folder)
    for one in new:
        files.sync_folder(one.parent)
