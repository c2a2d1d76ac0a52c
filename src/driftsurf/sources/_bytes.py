"""The bytes of one file or of standard input, decompressed, block by block."""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from driftsurf._options import number
from driftsurf.errors import OptionError, SourceError
from driftsurf.sources._base import STANDARD_INPUT, extra

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
ENDINGS = {".gz": GZIP, ".zst": ZSTD, ".zstd": ZSTD}
GZIP_WINDOW = 31
"""zlib's code for a gzip header and checksum around the largest window."""


def polling(seconds: float = 1.0, *, idle_seconds: float | None = None) -> Callable[[], bool]:
    """How to follow a growing file: look again every ``seconds``, and end after ``idle_seconds`` without a row.

    >>> follow = polling(0.001, idle_seconds=0.002)
    >>> follow(), follow(), follow()
    (True, True, False)
    """
    number("seconds", seconds, above=0.0)
    if idle_seconds is not None:
        number("idle_seconds", idle_seconds, above=0.0, otherwise=", or None to follow for ever")
    return _Polling(seconds, idle_seconds)


@dataclass
class _Polling:
    seconds: float
    idle_seconds: float | None
    waited: float = 0.0

    def __call__(self) -> bool:
        if self.idle_seconds is not None and self.waited >= self.idle_seconds:
            return False
        time.sleep(self.seconds)
        self.waited += self.seconds
        return True

    def found(self) -> None:
        """New bytes have come."""
        self.waited = 0.0


@dataclass(frozen=True)
class ByteFile:
    """A file whose bytes are read forward, as often as wanted (standard input once).

    ``follow`` is asked at the end of a growing file whether to look again.
    """

    path: str
    block_bytes: int
    follow: Callable[[], bool] | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return "standard input" if self.path == STANDARD_INPUT else self.path

    def blocks(self, start: int = 0) -> Generator[bytes]:
        """The decompressed bytes from ``start`` on; SourceError for a file that is damaged or cut off."""
        with self._named(), self._open() as file:
            first = file.read(len(ZSTD))
            promised = ENDINGS.get(Path(self.path).suffix.lower())
            magic = next((magic for magic in (GZIP, ZSTD) if first.startswith(magic)), None)
            if promised is not None and magic != promised:
                raise SourceError(f"{self.name} is not compressed as its ending says, or is empty: check the file.")
            if magic is not None and self.follow is not None:
                raise OptionError(f"{self.name} is compressed and cannot be followed: follow the plain file.")
            if magic is None:
                yield from self._plain(file, first, start)
                return
            unpacked = self._gunzip(file, first) if magic == GZIP else self._unzstd(file, first)
            yield from self.skip(start, unpacked)

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        if self.path == STANDARD_INPUT:
            yield sys.stdin.buffer
            return
        with open(self.path, "rb") as file:
            yield file

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (OSError, zlib.error) as error:
            if isinstance(error, SourceError):
                raise
            raise SourceError(f"{self.name} cannot be read: {getattr(error, 'strerror', None) or error}.") from error

    def _plain(self, file: IO[bytes], first: bytes, start: int) -> Iterator[bytes]:
        if self.path == STANDARD_INPUT or not file.seekable():
            yield from self.skip(start, self._pieces(file, first))
            return
        if start > os.fstat(file.fileno()).st_size:
            raise self.too_short(start)
        file.seek(start)
        while True:
            yield from self._pieces(file, b"")
            if self.follow is None or not self._look_again(file):
                return

    def _look_again(self, file: IO[bytes]) -> bool:
        assert self.follow is not None
        if not self.follow():
            return False
        grown = os.fstat(file.fileno()).st_size - file.tell()
        if grown < 0 or not os.path.samestat(os.fstat(file.fileno()), os.stat(self.path)):
            raise SourceError(f"{self.name} was cut or replaced while it was followed: begin anew with the new file.")
        if grown and isinstance(self.follow, _Polling):
            self.follow.found()
        return True

    def _pieces(self, file: IO[bytes], first: bytes) -> Iterator[bytes]:
        read = getattr(file, "read1", file.read)  # what a pipe has now is better than a full block later
        if first:
            yield first
        while block := read(self.block_bytes):
            yield block

    def skip(self, start: int, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """The blocks from byte ``start`` on: what cannot be sought in is read and thrown away."""
        at = 0
        for block in blocks:
            at += len(block)
            if at > start:
                yield block[max(0, len(block) - (at - start)) :]
        if at < start:
            raise self.too_short(start)

    def check_length(self, length: int) -> None:
        """SourceError if a file that is followed, at whose end one would wait, is shorter than this."""
        with self._named():
            if self.follow is not None and os.stat(self.path).st_size < length:
                raise self.too_short(length)

    def too_short(self, start: int) -> SourceError:
        """The error of a file without the place of a saved position."""
        return SourceError(f"{self.name} ends before byte {start}, where the saved position is: it is another file.")

    def _gunzip(self, file: IO[bytes], first: bytes) -> Iterator[bytes]:
        unpack = zlib.decompressobj(GZIP_WINDOW)
        for block in self._pieces(file, first):
            data = block
            while data:
                if unpack.eof:  # another member follows, or the zeros with which tapes were filled
                    data = data.lstrip(b"\0")
                    unpack = zlib.decompressobj(GZIP_WINDOW) if data else unpack
                    continue
                out = unpack.decompress(data, self.block_bytes)
                data = unpack.unused_data if unpack.eof else unpack.unconsumed_tail
                if out:
                    yield out
                while not unpack.eof and not data and len(out) == self.block_bytes:
                    out = unpack.decompress(b"", self.block_bytes)  # what it still holds
                    if out:
                        yield out
        if not unpack.eof:
            raise SourceError(f"{self.name} is cut off: the gzip data end too early.")

    def _unzstd(self, file: IO[bytes], first: bytes) -> Iterator[bytes]:
        pa = extra("pyarrow")
        stream = pa.CompressedInputStream(pa.PythonFile(_Rejoined(first, file), "r"), "zstd")
        while block := stream.read(self.block_bytes):
            yield block


class _Rejoined:
    """A file whose first bytes have been read already, for pyarrow."""

    def __init__(self, first: bytes, file: Any) -> None:
        self._first, self._file = first, file

    closed = False

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes."""
        if self._first:
            part, self._first = self._first[:size], self._first[size:]
            return part
        return bytes(self._file.read(size))

    def close(self) -> None:
        """Nothing: whoever opened it closes it."""
