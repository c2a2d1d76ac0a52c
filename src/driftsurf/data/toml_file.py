"""TOML files, which may hold anything."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from driftsurf.errors import InputError

MOST_BYTES = 2**20
"""Largest size of a TOML file."""
MOST_PARTS = 100
"""Largest number of names that dots may join in it."""
_PART = re.compile(r"""["' \t]*+[^"'\n]*+["' \t]*+""")


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; raise InputError if it cannot be read, is too long or nested too deeply."""
    import tomllib

    from driftsurf.data.formats._bytes import ByteFile  # here, since commands without a file need none of it

    data = bytearray()
    for block in ByteFile(str(path), MOST_BYTES).blocks():
        data += block
        if len(data) > MOST_BYTES:
            raise InputError(f"{path} cannot be read as TOML: it is longer than {MOST_BYTES:,} bytes")
    try:
        text = data.decode()
        if _longest_name(text) > MOST_PARTS:  # the time that tomllib takes grows with the square of it
            raise RecursionError
        return tomllib.loads(text)
    except RecursionError:
        raise InputError(f"{path} cannot be read as TOML: it is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{path} cannot be read as TOML: {error}") from error


def _longest_name(text: str) -> int:
    """Return the largest number of parts that are joined by dots, as in the name ``a.b.c``.

    >>> _longest_name('a.b."c d" = 1.5')
    3
    """
    longest = parts = 0
    for part in text.split("."):
        parts += 1
        longest = max(longest, parts)
        if not _PART.fullmatch(part):  # another name begins within it
            parts = 1
    return longest
