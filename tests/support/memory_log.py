"""A log in memory that several processes can reach: records are kept at commit, and faults come on demand."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from driftsurf.errors import LogConflictError, LogError


@dataclass
class MemoryStore:
    """What is shared: the records, and who has the lease."""

    records: list[bytes] = field(default_factory=list)
    first: int = 0
    holder: MemoryLog | None = None
    address: str = ""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def write(self, *payloads: bytes) -> None:
        """Write records as another process."""
        with self.changed:
            self.records += payloads
            self.changed.notify_all()


class MemoryLog:
    """A :class:`~driftsurf.data.log.contract.Log` of which a record exists only once it is committed."""

    largest = 2**20
    id = "memory"
    kept_at_append = False

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.name = "memory"
        self.fault: Exception | None = None
        """What the next commit raises, after it has kept the records if ``keeps``."""
        self.keeps = False
        self.permission: threading.Semaphore | None = None
        """Each commit waits for a permission, if there is one."""
        self.groups: list[int] = []
        """Sizes of the groups that were committed."""
        self._pending: list[bytes] = []
        self._expected = 0
        self._closed = False

    @property
    def first(self) -> int:
        return self.store.first

    @property
    def next(self) -> int:
        return self.store.first + len(self.store.records)

    @property
    def durable(self) -> int:
        return self.next

    @property
    def size(self) -> int:
        return sum(map(len, self.store.records))

    def append(self, payloads: Sequence[bytes], expected: int) -> None:
        self._check(expected - len(self._pending))
        if not self._pending:
            self._expected = expected
        self._pending += payloads

    def _check(self, expected: int) -> None:
        if expected != self.next:
            self._pending = []
            raise LogConflictError(f"the next record is {self.next}, and not {expected}")

    def commit(self) -> int:
        if self.permission is not None:
            self.permission.acquire()
        if self._pending:
            self._check(self._expected)
        pending, self._pending = self._pending, []
        fault, self.fault = self.fault, None
        if fault is None or self.keeps:
            self.groups += [len(pending)] * bool(pending)
            self.store.write(*pending)
        if fault is not None:
            raise fault
        return self.next

    def read(self, start: int, most_bytes: int = 2**20) -> list[tuple[int, bytes]]:
        found = list[tuple[int, bytes]]()
        with self.store.changed:
            if start < self.first:
                raise LogError(f"record {start} has been dropped; the first one is {self.first}")
            for number, payload in enumerate(self.store.records[start - self.first :], start):
                most_bytes -= len(payload)
                if found and most_bytes < 0:
                    break
                found.append((number, payload))
        return found

    def wait(self, number: int, seconds: float | None) -> bool:
        with self.store.changed:
            self.store.changed.wait_for(lambda: self._closed or self.next > number, seconds)
            return self.next > number and not self._closed

    def truncate(self, before: int, spare_bytes: int = 0) -> None:
        with self.store.changed:
            while self.first < min(before, self.next) and self.size - len(self.store.records[0]) >= spare_bytes:
                del self.store.records[0]
                self.store.first += 1

    def acquire(self, seconds: float, address: str = "") -> MemoryLease | None:
        with self.store.changed:
            if self.store.holder not in (None, self):
                return None
            self.store.holder = self
            self.store.address = address
        return MemoryLease(self)

    def leader(self) -> str:
        return self.store.address if self.store.holder is not None else ""

    def close(self) -> None:
        with self.store.changed:
            self._closed = True
            self.store.changed.notify_all()


class MemoryLease:
    def __init__(self, log: MemoryLog) -> None:
        self.log = log

    @property
    def held(self) -> bool:
        return self.log.store.holder is self.log

    def renew(self) -> bool:
        return self.held

    def release(self) -> None:
        if self.held:
            self.log.store.holder = None
