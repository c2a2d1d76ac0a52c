"""Pipes and terminals as files: waiting for bytes announces itself, and a pipe without a writer is an error."""

from __future__ import annotations

import io
import logging
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from driftsurf.data.source import STANDARD_INPUT
from driftsurf.errors import SourceError

__all__ = ["Wait", "log", "open_bytes"]

log: logging.Logger = logging.getLogger("driftsurf.data")

LOOK_SECONDS = 1.0
"""Time between two calls of ``on_wait``."""
WRITER_SECONDS = 60.0
"""Time after which a named pipe to which nobody has written is an error."""
_CAN_WAIT = sys.platform != "win32"
"""Whether the operating system tells when bytes have arrived in a pipe."""


class Wait:
    """Message of a reader that waits for input, logged at most once."""

    def __init__(self, name: str) -> None:
        self.name = name
        """Name of the file or pipe."""
        self.purpose: str | None = "its first bytes"
        """Bytes or rows that the reader waits for, as named in the log; None to log nothing."""
        self._said = False

    def __call__(self) -> None:
        """Log what the reader waits for, unless that has been logged."""
        if self.purpose is not None and not self._said:
            self._said = True
            log.warning("%s: waiting for %s", self.name, self.purpose)


@contextmanager
def open_bytes(path: str, on_wait: Callable[[], None]) -> Iterator[Any]:
    """Open a file or standard input; ``on_wait`` is called after every second in which no byte has arrived."""
    if path == STANDARD_INPUT:
        waits = _CAN_WAIT and _is_stream(sys.stdin.buffer)
        yield _Stream(sys.stdin.buffer.fileno(), on_wait) if waits else sys.stdin.buffer
    elif _CAN_WAIT and stat.S_ISFIFO(os.stat(path).st_mode):
        # Opened like this, a pipe does not wait for somebody to write to it.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            yield _Stream(handle, on_wait, path)
        finally:
            os.close(handle)
    else:
        with open(path, "rb") as file:
            yield file


def _is_stream(file: IO[bytes]) -> bool:
    """Whether a file is a pipe, a socket or a terminal, and not a file on a disk or in memory."""
    try:
        mode = os.fstat(file.fileno()).st_mode
    except io.UnsupportedOperation:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISBLK(mode))


class _Stream:
    """Bytes that arrive at some time, read as from a buffered file that cannot be rewound."""

    def __init__(self, handle: int, on_wait: Callable[[], None], named: str | None = None) -> None:
        self._handle, self._on_wait, self._named = handle, on_wait, named

    def seekable(self) -> bool:
        """Return False: what has been read is gone."""
        return False

    def read1(self, size: int) -> bytes:
        """Return up to ``size`` bytes as soon as there are any; b"" at the end."""
        waited = 0.0
        while not select.select([self._handle], [], [], LOOK_SECONDS)[0]:
            waited += LOOK_SECONDS
            if self._named is not None and waited >= WRITER_SECONDS:
                raise SourceError(f"{self._named} is a pipe to which nobody has written for {waited:.0f} seconds")
            self._on_wait()
        self._named = None  # it has a writer, which may take its time
        return os.read(self._handle, size)

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes, or fewer at the end."""
        parts = []
        while size and (part := self.read1(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
