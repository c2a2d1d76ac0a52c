"""Contract of the log of a served model: where its records live, and what a model may rely on.

The records decide everything that a served model is, so a log that is replicated makes the model replicated. One
process at a time writes; the numbers that records get are what keeps others out: an append says which number it
expects, and is refused if another process has written meanwhile. Leases only say who should try.
:func:`driftsurf.checks.check_log` checks an implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Lease(Protocol):
    """The right to write to a log, which one process has at a time. Only expected numbers keep a late writer out."""

    @property
    def held(self) -> bool:
        """Whether the lease was held when it was last renewed."""
        ...

    def renew(self) -> bool:
        """Hold the lease for as long again; return False if another process may have it."""
        ...

    def release(self) -> None:
        """Give the lease up; a second call does nothing."""
        ...


class Log(Protocol):
    """Records of bytes, numbered from 0 without gaps. Every method may be called from any thread."""

    @property
    def name(self) -> str:
        """Where the log is, for messages and names of threads."""
        ...

    @property
    def id(self) -> str:
        """Identity of the log, which one made in its place later does not share; empty for the log of a folder."""
        ...

    @property
    def first(self) -> int:
        """Number of the first record that has not been dropped."""
        ...

    @property
    def next(self) -> int:
        """Number of the next record, as far as this process knows."""
        ...

    @property
    def durable(self) -> int:
        """All records below this number survive what the log promises to survive."""
        ...

    @property
    def size(self) -> int:
        """Bytes that the log takes, about."""
        ...

    @property
    def largest(self) -> int:
        """Bytes of a record at most."""
        ...

    @property
    def kept_at_append(self) -> bool:
        """Whether ``append`` is fast, and its records survive a kill of this process; otherwise only after ``commit``.

        Records of a log that is elsewhere are appended by one thread, many at a time.
        """
        ...

    def append(self, payloads: Sequence[bytes], expected: int) -> None:
        """Append records, of which the first gets the number ``expected``.

        LogConflictError if the next record has another number, and OSError if there is no room; nothing has changed
        then. After another error it is not known whether the records, or the first of them, are in the log.
        """
        ...

    def commit(self) -> int:
        """Make all records that were appended before durable; return the number below which they are."""
        ...

    def read(self, start: int, most_bytes: int = ...) -> list[tuple[int, bytes]]:
        """Return numbers and payloads of the records from ``start`` on, as many as have ``most_bytes``, at least one.

        They may have been appended by another process. The list is empty if there is no such record yet; LogError if it
        has been dropped or is damaged.
        """
        ...

    def wait(self, number: int, seconds: float | None) -> bool:
        """Wait until record ``number`` exists; return False after this time, or when the log is closed."""
        ...

    def truncate(self, before: int, spare_bytes: int = 0) -> None:
        """Drop records below ``before`` that are durable, but none of the last ones with so many bytes; or fewer."""
        ...

    def acquire(self, seconds: float, address: str = "") -> Lease | None:
        """Return a lease that another process can take after so many seconds without a renewal; None if one has it.

        ``address`` is where this process answers requests, which :meth:`leader` tells others.
        """
        ...

    def leader(self) -> str:
        """Return where the process that has the lease answers requests; empty if nobody has it, or it did not tell."""
        ...

    def close(self) -> None:
        """Close the log; a second call does nothing."""
        ...
