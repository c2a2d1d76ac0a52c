"""Standard streams that are closed, are full, or have lost their reader."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

__all__ = ["usable_streams"]


class _Output(io.FileIO):
    """Standard output, whose errors say that they are about it."""

    def write(self, data: Any, /) -> int:
        """Write some of the data; return the number of bytes written."""
        try:
            return super().write(data)
        except OSError as error:
            error.filename = "standard output"
            raise


class _Errors(io.FileIO):
    """Standard error, where what cannot be written is lost: no work ends because nobody can be told about it."""

    def write(self, data: Any, /) -> int:
        """Write some of the data; return the number of bytes that need not be written again."""
        try:
            return super().write(data)
        except OSError:
            return len(data)


@contextlib.contextmanager
def usable_streams() -> Iterator[None]:
    """Context in which a command can use the standard streams, whatever they are.

    The null device is opened for those that are closed: a file must not take the place of one. Nothing is left for
    Python to write at its end, where an error would have an exit code of its own.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if vars(sys)[name] is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    before = sys.stdout, sys.stderr
    if sys.stdout is sys.__stdout__:
        sys.stdout = _over(sys.stdout, _Output)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _over(sys.stderr, _Errors)
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.stdout.flush()
        sys.stdout, sys.stderr = before


def _over(stream: Any, kind: type[io.FileIO]) -> TextIO:
    """Return a stream that writes to the same file in its own way."""
    raw = io.BufferedWriter(kind(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(
        raw, stream.encoding, stream.errors, line_buffering=stream.line_buffering, write_through=stream.write_through
    )
