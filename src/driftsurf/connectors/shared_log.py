"""Logs of served models that several processes reach: what those in brokers and databases share."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from driftsurf.core.changes import RenewedLock
from driftsurf.core.files import parse_json
from driftsurf.errors import LogError, LogUnreachableError, SourceError, SourceUnreachableError, StateError

POLL_SECONDS = 0.03
"""How often a process asks for the records of others while it waits for one."""
TRIED_SECONDS = 5.0
"""How long a call goes on trying to reach the system."""
RECENT_BYTES = 2**24
"""Bytes of own records that are kept in memory, because the model of this process reads them next."""
FORMAT = 1


class LogEnds(NamedTuple):
    """Where a log begins and ends."""

    first: int = 0
    next: int = 0
    dropped: int = 0
    total: int = 0
    """Bytes of all records since the log was made; those of the records that were dropped are ``dropped``."""


class Holder(NamedTuple):
    """The process that has the lease of a log."""

    token: str
    address: str
    """Where it answers requests; empty if it did not tell."""


class SharedLog(ABC):
    """A :class:`~driftsurf.data.log.contract.Log` in a system that several processes reach.

    Calls that fail are repeated for a few seconds with new connections, and then raise LogUnreachableError. Records are
    durable when the system has acknowledged them.

    A forked process cannot use the log: both would speak on the same connections, and hold the same lease. Calls
    raise LogError there, and closing leaves the connections of the first process as they are.

    Parameters
    ----------
    location
        Address of the log.
    about
        What the log is for, such as a digest of settings. The process that makes the log stores it; StateError if a
        log that exists has another one.
    """

    kept_at_append: ClassVar[bool] = False
    largest: int = 2**30

    def __init__(self, location: str, about: str = "") -> None:
        self.location = location
        self.token: str = uuid.uuid4().hex
        """Unique token of this process."""
        self._about = about
        self._recent: deque[tuple[int, bytes]] = deque()
        """The last records of this process, without a gap."""
        self._recent_bytes = 0
        self._known = LogEnds()
        self._closed = False
        self._process = os.getpid()
        self._grown = threading.Condition(RenewedLock())  # type: ignore[arg-type]
        self._writing, self._reading = RenewedLock(), RenewedLock()
        with self._reached():
            saved = parse_json(self._make(json.dumps({"format": FORMAT, "id": uuid.uuid4().hex, "about": about})))
        if saved["format"] > FORMAT:
            self.close()
            raise StateError(f"the log {self.name} has format {saved['format']}; this version reads {FORMAT} at most")
        if saved["about"] != about:
            self.close()
            raise StateError(
                f"the log {self.name} belongs to a model with other settings; give all replicas the same settings, or "
                "name another log"
            )
        self.id: str = saved["id"]
        """Identity of the log; one that is made under its address later has another."""
        self._look()

    @property
    @abstractmethod
    def name(self) -> str:
        """Where the log is, without secrets."""

    @property
    def first(self) -> int:
        """Number of the first record that has not been dropped."""
        return self._known.first

    @property
    def next(self) -> int:
        """Number of the next record, as far as this process knows."""
        return self._known.next

    @property
    def durable(self) -> int:
        """All records below this number have been acknowledged by the system."""
        return self._known.next

    @property
    def size(self) -> int:
        """Bytes of the records."""
        return self._known.total - self._known.dropped

    @property
    def _forked(self) -> bool:
        """Whether this process was forked from the one that opened the log."""
        return os.getpid() != self._process

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        """Context in which errors of the client become those of a log."""
        if self._forked:
            raise LogError(
                f"the log {self.name} was opened by process {self._process}, from which this one was forked; open it "
                "here, too"
            )
        if self._closed:
            raise LogError(f"the log {self.name} is closed")
        try:
            yield
        except SourceUnreachableError as error:
            raise LogUnreachableError(*error.args) from error
        except SourceError as error:
            raise LogError(*error.args) from error

    def _look(self) -> LogEnds:
        with self._reading, self._reached():
            found = self._ends()
        with self._grown:
            if found.next > self._known.next or found.first > self._known.first:
                self._known = found
                self._grown.notify_all()
            return self._known

    # ------------------------------------------------------------------------ records

    def append(self, payloads: Sequence[bytes], expected: int) -> None:
        """Append records; LogConflictError unless the first of them gets the number ``expected``."""
        with self._writing, self._reached():
            try:
                self._append(payloads, expected)
            except BaseException:
                self._forget()
                raise
            with self._grown:
                if self._recent and self._recent[-1][0] != expected - 1:
                    self._forget()
                size = sum(map(len, payloads))
                self._recent.extend(enumerate(payloads, expected))
                self._recent_bytes += size
                while self._recent_bytes > RECENT_BYTES:
                    self._recent_bytes -= len(self._recent.popleft()[1])
                known = self._known
                if followed := known.next == expected:
                    self._known = known._replace(next=expected + len(payloads), total=known.total + size)
                self._grown.notify_all()
        if not followed:  # others have written since this process has looked
            self._look()

    def _forget(self) -> None:
        with self._grown:
            self._recent.clear()
            self._recent_bytes = 0

    def commit(self) -> int:
        """Return the number below which records are durable: the system has acknowledged what was appended."""
        return self.durable

    def read(self, start: int, most_bytes: int = 2**20) -> list[tuple[int, bytes]]:
        """Return numbers and payloads of the records from ``start`` on; LogError if ``start`` has been dropped."""
        with self._grown:
            recent = list(self._recent) if self._recent and start >= self._recent[0][0] else []
            if recent and start == recent[-1][0] + 1 == self._known.next:
                return []
        found = [one for one in recent if one[0] >= start]
        if not found:
            with self._reading, self._reached():
                found = self._fetch(start, most_bytes)
        first = found[0][0] if found else self._known.first
        if start < max(first, self._known.first):
            raise LogError(f"record {start} of {self.name} has been dropped; the first one is {first}")
        left = most_bytes
        for place, (_, payload) in enumerate(found):
            left -= len(payload)
            if left < 0 and place:
                return found[:place]
        return found

    def wait(self, number: int, seconds: float | None) -> bool:
        """Wait until record ``number`` exists; return False after this time, or when the log is closed or forked."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            with self._grown:
                if self._closed or self._forked or self._known.next > number:
                    return not (self._closed or self._forked)
                left = POLL_SECONDS if end is None else min(POLL_SECONDS, end - time.monotonic())
                if left <= 0:
                    return False
                self._grown.wait(left)
            with contextlib.suppress(LogError):  # reading tells of it
                self._look()

    def truncate(self, before: int, spare_bytes: int = 0) -> None:
        """Drop records below ``before``, but none of the last ones with so many bytes."""
        ends = self._look()
        low, high = ends.first, min(before, ends.next)
        with self._reading, self._reached():
            while spare_bytes and low < high:  # the largest number before which enough may go
                middle = (low + high + 1) // 2
                if ends.total - self._total_before(middle) >= spare_bytes:
                    low = middle
                else:
                    high = middle - 1
            if high > ends.first:
                self._drop(high)
        self._look()

    # ------------------------------------------------------------------------ the lease

    def acquire(self, seconds: float, address: str = "") -> SharedLease | None:
        """Return the lease for so many seconds; None if another process has it."""
        with self._writing, self._reached():
            return SharedLease(self, seconds, address) if self._take(seconds, Holder(self.token, address)) else None

    def leader(self) -> str:
        """Return where the process that has the lease answers requests; empty if nobody has it, or it did not tell."""
        with self._reading, self._reached():
            holder = self._holder()
        return "" if holder is None else holder.address

    def close(self) -> None:
        """Disconnect; a second call does nothing."""
        with self._grown:
            closed, self._closed = self._closed, True
            self._grown.notify_all()
        if not (closed or self._forked):
            with self._writing, self._reading:
                self._leave()

    # ------------------------------------------------------------------------ what a system has to do

    @abstractmethod
    def _make(self, about: str) -> str:
        """Store a text with the log, which is made if there is none, unless it has one; return the one that it has."""

    @abstractmethod
    def _ends(self) -> LogEnds:
        """Return where the log begins and ends now."""

    @abstractmethod
    def _append(self, payloads: Sequence[bytes], expected: int) -> None:
        """Append records, once; LogConflictError if the next record has another number."""

    @abstractmethod
    def _fetch(self, start: int, most_bytes: int) -> list[tuple[int, bytes]]:
        """Return about so many bytes of records, or those from the first one on if ``start`` has been dropped."""

    @abstractmethod
    def _total_before(self, number: int) -> int:
        """Return how many bytes the records below a number have at most, those included that were dropped."""

    @abstractmethod
    def _drop(self, before: int) -> None:
        """Drop records below a number, or fewer."""

    @abstractmethod
    def _take(self, seconds: float, holder: Holder) -> bool:
        """Let a process hold the lease for so many seconds from now, if it has it or nobody has."""

    @abstractmethod
    def _holder(self) -> Holder | None:
        """Return who has the lease."""

    @abstractmethod
    def _give_up(self) -> None:
        """End the lease of this process, if it has it."""

    @abstractmethod
    def _leave(self) -> None:
        """Disconnect."""


class SharedLease:
    """The lease of a shared log."""

    def __init__(self, log: SharedLog, seconds: float, address: str) -> None:
        self.held: bool = True
        self._log = log
        self._seconds = seconds
        self._address = address

    def renew(self) -> bool:
        """Hold the lease for as long again; return False if another process has it."""
        self.held = self.held and self._log.acquire(self._seconds, self._address) is not None
        return self.held

    def release(self) -> None:
        """Give the lease up; a second call does nothing."""
        if self.held:
            self.held = False
            with contextlib.suppress(LogError), self._log._writing, self._log._reached():  # it ends by itself, too
                self._log._give_up()
