"""Limits of the HTTP door: what a client may send, how fast, and how long it may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from driftsurf.core.option_fields import option

__all__ = ["InFlight", "Limits", "TokenBucket"]

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of requests and connections."""

    body_bytes: int = option(16 * MIB, "Bytes of a body that is taken as a whole, at most.", at_least=1024)
    stream_bytes: int = option(1024 * MIB, "Bytes of a body that is learned in parts, at most.", at_least=1024)
    part_bytes: int = option(4 * MIB, "Approximate size of each part.", at_least=1024)
    rows: int = option(100_000, "Rows of a request, or of a part, at most.", at_least=1)
    flight_bytes: int = option(256 * MIB, "Bytes of bodies in memory at a time, at most.", at_least=1024)
    head_bytes: int = option(16 * 1024, "Bytes of the address and the headers of a request, at most.", at_least=256)
    head_seconds: float = option(5.0, "Seconds in which the headers of a request must come.", above=0.0)
    request_seconds: float = option(
        30.0, "Seconds in which a body must come, and an answer must be read; one more for each MiB.", above=0.0
    )
    idle_seconds: int = option(30, "Seconds after which a connection without a request is closed.", at_least=1)
    connections: int = option(1024, "Connections at a time, at most.", at_least=1)
    event_clients: int = option(1000, "Readers of event streams at a time, at most.", at_least=0)
    drain_seconds: int = option(
        20, "Seconds that requests under way have to end after SIGTERM, before models are saved.", at_least=1
    )


class TokenBucket:
    """Allows ``rate`` requests a second in the long run, and ``burst`` at once.

    Examples
    --------
    >>> now = [0.0]
    >>> bucket = TokenBucket(2.0, 1, clock=lambda: now[0])
    >>> bucket.take(), bucket.take()
    (0.0, 0.5)
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.burst = burst
        self.clock = clock
        self._left = float(burst)
        self._last = clock()

    def take(self) -> float:
        """Take one token; return 0, or the seconds after which there is one."""
        now = self.clock()
        self._left = min(float(self.burst), self._left + (now - self._last) * self.rate)
        self._last = now
        if self._left >= 1.0:
            self._left -= 1.0
            return 0.0
        return (1.0 - self._left) / self.rate


class InFlight:
    """Counts the bytes of bodies that are in memory."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes: int = 0

    def add(self, count: int) -> bool:
        """Count more bytes; return False, and count nothing, if they were too many."""
        if self.bytes + count > self.most:
            return False
        self.bytes += count
        return True

    def remove(self, count: int) -> None:
        """Count fewer bytes."""
        self.bytes -= count
