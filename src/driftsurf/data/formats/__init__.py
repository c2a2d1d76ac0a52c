"""File formats: one module for each, registered with the endings of its files.

A reader of a format reads one file front to back in chunks, and can continue from any position that it gave. Where a
cell of text becomes a number, a date or a boolean is decided in ``_cells.py`` (and, for many CSV cells at a time, in
``csv.py``). Which files are read, and how rows become batches, is decided in :mod:`driftsurf.data.sources`.

A new format is a new file with a class derived from ``TextReader`` (``_text.py``), ``ColumnarReader``
(``columnar.py``, for files with a schema) or ``Reader`` (``_reader.py``), whose docstring has the arguments of
``@register``.
"""

from __future__ import annotations

from pathlib import PurePath

from driftsurf import registry
from driftsurf.data.formats._bytes import COMPRESSION_ENDINGS, member_of_zip

__all__ = ["format_of_file", "list_endings"]


def format_of_file(path: str) -> str | None:
    """Return the name of the format that the ending of a file tells, or None.

    The ending of a compression is passed over; an archive such as ``sales.zip`` is what the file in it is.

    >>> [format_of_file(name) for name in ("sales.CSV.gz", "sales.parquet", "notes.md")]
    ['csv', 'parquet', None]
    """
    name = PurePath(path.lower())
    compressed = name.suffix in COMPRESSION_ENDINGS
    plain = name.with_suffix("") if compressed else name
    entry = registry.with_mark("format", plain.suffix)
    if name.suffix == ".zip" and entry is None:
        plain = PurePath((member_of_zip(path) or "").lower())
        entry = registry.with_mark("format", plain.suffix)
    if entry is None or (compressed and not entry.details.get("streamed", False)):
        return None
    return entry.name


def list_endings() -> str:
    """List the endings of all formats, for messages."""
    endings = [ending for entry in registry.entries("format") for ending in entry.details.get("endings", ())]
    return f"{', '.join(endings)}; text also compressed: {', '.join(COMPRESSION_ENDINGS)}"
