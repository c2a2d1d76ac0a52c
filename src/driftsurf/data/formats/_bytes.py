"""Bytes of one file or of standard input: decompressed, read block by block, followed while the file grows."""

from __future__ import annotations

import bz2
import codecs
import io
import logging
import lzma
import os
import select
import stat
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import PurePath
from typing import IO, Any

from driftsurf.core.options import number
from driftsurf.data.formats._reader import extra
from driftsurf.data.reading_options import STANDARD_INPUT
from driftsurf.errors import OptionError, SourceError
from driftsurf.registry import nearest

UTF8 = "utf-8"
FALLBACK = "cp1252"
"""The encoding of Windows in Western Europe and America: the usual one of files that are not UTF-8."""
_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF16_LE: "utf-16"}
_MARKS |= {codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF8: UTF8}
_INVALID = "driftsurf-invalid"
"""Name under which Python knows what to do with bytes that are not text."""
MARK_BYTES = max(map(len, _MARKS))


def marked_encoding(head: bytes) -> str | None:
    """Return the encoding that a byte order mark tells, or None.

    >>> marked_encoding("größe".encode("utf-16"))
    'utf-16'
    """
    return next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)


def guess_encoding(head: bytes) -> str:
    """Return "utf-8", or "cp1252" if the bytes are not UTF-8 at all. A few wrong bytes in UTF-8 are bad rows.

    >>> guess_encoding("größe".encode()), guess_encoding("größe".encode("cp1252"))
    ('utf-8', 'cp1252')
    """
    if can_decode(head, UTF8) or not head.decode(UTF8, "ignore").isascii() or not can_decode(head, FALLBACK):
        return UTF8
    return FALLBACK


def can_decode(data: bytes, encoding: str) -> bool:
    """Whether bytes are text of an encoding."""
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def decode_blocks(blocks: Iterable[bytes], encoding: str) -> Generator[bytes]:
    """Yield text of any encoding as UTF-8. What is not text of the encoding becomes a byte that is not UTF-8 either."""
    decoder = codecs.getincrementaldecoder(encoding)(_INVALID)
    for block in chain(blocks, [None]):
        try:
            text = decoder.decode(block or b"", final=block is None)
        except UnicodeError as error:
            raise SourceError(f"the text is not encoded in {encoding} ({error}); try {encoding}-le") from error
        if text:
            yield text.encode(UTF8, "surrogateescape")


def _invalid(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\udcff", error.end


codecs.register_error(_INVALID, _invalid)


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


COMPRESSION_ENDINGS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd", ".zstd": "zstd", ".zip": "zip"}
"""Compressions by the ending of a file."""
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ\x00": "xz",
    # "BZh" alone may be the start of a header line; a block or the end of the data follows in a compressed file.
    **{b"BZh%d%s" % (level, block): "bzip2" for level in range(1, 10) for block in (b"1AY&SY", b"\x17rE8P\x90")},
}
"""Compressions by the first bytes of a file."""
_MAGIC_BYTES = max(map(len, _MAGIC))
_GZIP_WINDOW = 31
"""zlib's code for a gzip header and checksum around the largest window."""
XZ_MEMORY = 2**28
"""Bytes that the decompression of xz may take; what xz writes at its highest level takes a quarter of it."""
_UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError, RuntimeError)
"""What damaged, truncated, encrypted or exotic files raise while they are read and decompressed."""


def polling(seconds: float = 1.0, *, idle_seconds: float | None = None) -> Callable[[], bool]:
    """Follow a growing file: look for new rows every ``seconds``, and stop after ``idle_seconds`` without one.

    Examples
    --------
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
        """Start to count idle time again: new bytes have arrived."""
        self.waited = 0.0


@dataclass(frozen=True)
class ByteFile:
    """A file whose bytes are read front to back, as often as needed (standard input once).

    ``follow`` is called at the end of a growing file: whether to look again.
    """

    path: str
    block_bytes: int
    follow: Callable[[], bool] | None = None
    encoding: str | None = None
    """Encoding of the bytes, if they are converted to UTF-8 while they are read."""
    on_wait: Callable[[], None] = lambda: None
    """Called after every second in which no byte has arrived."""
    shown: str = ""
    """Name of the file in messages, if that is not its path, as for the copy of a file elsewhere."""

    @property
    def name(self) -> str:
        """Name of the file in messages."""
        return self.shown or ("standard input" if self.path == STANDARD_INPUT else self.path)

    def blocks(self, start: int = 0) -> Generator[bytes]:
        """Yield the decompressed bytes from ``start`` on; raise SourceError if the file is damaged or truncated."""
        if self.encoding is not None:
            yield from self.skip(start, decode_blocks(replace(self, encoding=None).blocks(), self.encoding))
            return
        with self._named_errors(), open_bytes(self.path, self.on_wait) as file:
            first = file.read(_MAGIC_BYTES)
            expected = COMPRESSION_ENDINGS.get(PurePath(self.path).suffix.lower())
            found = next((name for magic, name in _MAGIC.items() if first.startswith(magic)), None)
            if expected is not None and found != expected:
                raise SourceError(f"{self.name} is empty or not compressed with {expected}, as its ending says")
            if found is not None and self.follow is not None:
                raise OptionError(f"{self.name} is compressed and cannot be followed; follow the uncompressed file")
            if found is None:
                yield from self._plain(file, first, start)
                return
            decompressed = {"gzip": self._gunzip, "bzip2": self._bunzip2, "xz": self._unxz}
            decompressed |= {"zstd": self._unzstd, "zip": self._unzip}
            yield from self.skip(start, decompressed[found](file, first))

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Turn what the operating system and the decompressors raise into a SourceError that names the file."""
        try:
            yield
        except SourceError:
            raise
        except FileNotFoundError as error:
            raise no_such_file(self.path) from error
        except OSError as error:
            raise SourceError(f"{self.name} cannot be read: {error.strerror or error}") from error
        except _UNREADABLE as error:
            raise SourceError(f"{self.name} cannot be read: {error}") from error

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
            raise SourceError(
                f"{self.name} was truncated or replaced while it was followed; start over with the new file"
            )
        if not grown:
            self.on_wait()
        elif isinstance(self.follow, _Polling):
            self.follow.found()
        return True

    def _pieces(self, file: Any, first: bytes) -> Iterator[bytes]:
        # Files and pipes that are opened for reading are buffered: read1 returns what a pipe has now, without waiting
        # for a full block.
        if first:
            yield first
        while block := file.read1(self.block_bytes):
            yield block

    def skip(self, start: int, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the blocks from byte ``start`` on. Bytes that cannot be seeked in are read and discarded."""
        end = 0
        for block in blocks:
            end += len(block)
            if end > start:
                yield block[max(0, len(block) - (end - start)) :]
        if end < start:
            raise self.too_short(start)

    def check_length(self, length: int) -> None:
        """Raise SourceError if a followed file is shorter than this, instead of waiting for bytes at its end."""
        with self._named_errors():
            if self.follow is not None and os.stat(self.path).st_size < length:
                raise self.too_short(length)

    def too_short(self, start: int) -> SourceError:
        """Return the error of a file that ends before a saved position."""
        return SourceError(f"{self.name} ends before byte {start}, where the saved position is; it is another file")

    # -------------------------------------------------------------------- compression

    def _gunzip(self, file: IO[bytes], first: bytes) -> Iterator[bytes]:
        unpack = zlib.decompressobj(_GZIP_WINDOW)
        for block in self._pieces(file, first):
            data = block
            while data:
                if unpack.eof:  # another member follows, or the zeros with which tapes were padded
                    data = data.lstrip(b"\0")
                    unpack = zlib.decompressobj(_GZIP_WINDOW) if data else unpack
                    continue
                out = unpack.decompress(data, self.block_bytes)
                data = unpack.unused_data if unpack.eof else unpack.unconsumed_tail
                if out:
                    yield out
                while not unpack.eof and not data and len(out) == self.block_bytes:
                    out = unpack.decompress(b"", self.block_bytes)  # output that zlib still holds back
                    if out:
                        yield out
        if not unpack.eof:
            raise SourceError(f"{self.name} is truncated: the gzip data end too early")

    def _bunzip2(self, file: IO[bytes], first: bytes) -> Iterator[bytes]:
        return self._unpack(file, first, bz2.BZ2Decompressor, "bzip2")

    def _unxz(self, file: IO[bytes], first: bytes) -> Iterator[bytes]:
        return self._unpack(file, first, lambda: lzma.LZMADecompressor(memlimit=XZ_MEMORY), "xz")

    def _unpack(self, file: IO[bytes], first: bytes, make: Callable[[], Any], name: str) -> Iterator[bytes]:
        """Yield what decompressors of Python return, a block at a time; several streams may follow each other."""
        unpack = make()
        for block in self._pieces(file, first):
            data = block
            while data or not (unpack.eof or unpack.needs_input):
                if unpack.eof:  # another stream follows, or the zeros with which xz is padded
                    data = data.lstrip(b"\0")
                    unpack = make() if data else unpack
                    continue
                out = unpack.decompress(data, self.block_bytes)
                data = unpack.unused_data if unpack.eof else b""
                if out:
                    yield out
        if not unpack.eof:
            raise SourceError(f"{self.name} is truncated: the {name} data end too early")

    def _unzstd(self, file: IO[bytes], first: bytes) -> Iterator[bytes]:
        pa = extra("pyarrow")
        stream = pa.CompressedInputStream(pa.PythonFile(_Rejoined(first, file), "r"), "zstd")
        while block := stream.read(self.block_bytes):
            yield block

    def _unzip(self, file: IO[bytes], first: bytes) -> Iterator[bytes]:
        if not file.seekable():
            raise OptionError(f"{self.name} is a zip archive, which cannot be piped; decompress it first")
        with zipfile.ZipFile(file) as archive, archive.open(_only_member(self.name, archive)) as unpacked:
            yield from self._pieces(unpacked, b"")


class _Rejoined:
    """A file of which the first bytes have already been read."""

    closed = False

    def __init__(self, first: bytes, file: Any) -> None:
        self._first, self._file = first, file

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes."""
        if self._first:
            part, self._first = self._first[:size], self._first[size:]
            return part
        return bytes(self._file.read(size))

    def close(self) -> None:
        """Do nothing: the file is closed where it was opened."""


def member_of_zip(path: str, *, strict: bool = False) -> str | None:
    """Return the name of the only file in a zip archive, or None if there is no such archive.

    If the archive holds more files, ``strict`` raises a SourceError.
    """
    if not os.path.isfile(path):  # a pipe would be waited for
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            return _only_member(path, archive).filename
    except (OSError, zipfile.BadZipFile) as error:
        if strict and isinstance(error, SourceError):
            raise
        return None


def _only_member(name: str, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    members = [one for one in archive.infolist() if not one.is_dir() and "__MACOSX" not in one.filename]
    if len(members) != 1:
        raise SourceError(f"{name} must be a zip archive of one file; it holds {len(members)}")
    return members[0]


def no_such_file(path: str) -> SourceError:
    """Return the error of a file that does not exist, with the one that may have been meant."""
    return SourceError(f"{path or repr(path)} does not exist", _resembling(path))


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _resembling(path: str) -> str:
    """Return which file of the same folder may have been meant instead of one that does not exist, as a question."""
    folder, name = os.path.split(path)
    try:
        # An ending is no resemblance: every other CSV file of the folder has it too.
        alike = [one for one in os.listdir(folder or os.curdir) if nearest(_stem(name), [_stem(one)])]
        meant = nearest(name, alike)
    except OSError:
        return f"; there is no folder {folder!r} either"
    return f"; {meant.rstrip()}" if meant else ""
