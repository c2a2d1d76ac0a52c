"""Sizes in bytes, as people read them."""

from __future__ import annotations

__all__ = ["shown_bytes"]

UNITS = "KiB", "MiB", "GiB", "TiB"


def shown_bytes(count: float) -> str:
    """Return a number of bytes in the largest unit of which it has at least one.

    >>> [shown_bytes(count) for count in (0, 1023, 1536, 900 * 2**20, 2**30, 5000 * 2**40)]
    ['0 bytes', '1,023 bytes', '1.5 KiB', '900 MiB', '1 GiB', '5,000 TiB']
    """
    unit = "bytes"
    for larger in UNITS:
        if count < 1024:
            break
        count, unit = count / 1024, larger
    return f"{f'{count:,.1f}'.removesuffix('.0')} {unit}"
