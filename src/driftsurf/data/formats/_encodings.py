"""Encodings of text files: which one a file has, and conversion of those whose bytes cannot be cut into lines."""

from __future__ import annotations

import codecs
from collections.abc import Generator, Iterable
from itertools import chain

from driftsurf.data.reading_options import is_ascii_based
from driftsurf.errors import SourceError

__all__ = ["FALLBACK", "UTF8", "can_decode", "decode_blocks", "guess_encoding", "is_ascii_based", "marked_encoding"]

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
