"""Memory of a comparison, which holds all rows of a source at once: an error in place of a killed process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf.data.tables import Table
from driftsurf.errors import InputError, Option

__all__ = ["LIMIT", "available", "check_fits", "rows_bytes", "table_bytes"]

LIMIT = 700_000_000
"""Bytes that the rows of a source may need if nobody has said how many are compared; the command then takes 1 GiB."""
WORD_BYTES = 64
"""Bytes of a word beside its characters."""
GROUP = Path("/sys/fs/cgroup")
"""Folder in which Linux describes the limits of a container (version 2 of control groups)."""
COPIES = 2
"""Copies of the encoded rows at the peak: while they are encoded, and in models that keep rows."""


def table_bytes(table: Table) -> int:
    """Return about how many bytes a table takes, and takes again when tables are put together."""
    columns = table.columns.values()
    values = sum(column.values.nbytes for column in columns)
    words = sum(len(column.words) * WORD_BYTES + sum(map(len, column.words)) for column in columns)
    sparse = 0 if table.features is None else table.features.data.nbytes + table.features.indices.nbytes
    return 2 * (values + words + sparse)


def rows_bytes(count: int, like: Any) -> int:
    """Return about how many bytes rows such as those of a matrix, dense or CSR, take at the peak of a comparison."""
    size = like.nbytes if isinstance(like, np.ndarray) else like.data.nbytes + like.indices.nbytes
    return int(COPIES * count * size // max(1, like.shape[0]))


def check_fits(source: str, rows: int, needed: int, *, chosen: bool) -> None:
    """Raise InputError if the first ``rows`` of a source need too much memory.

    If the number of rows was ``chosen``, all memory that is free may be used; otherwise ``LIMIT``.
    """
    limit = available() if chosen else LIMIT
    if limit is None or needed <= limit:
        return
    fitting = max(1, rows * limit // needed)
    fitting -= fitting % 10 ** (len(str(fitting)) - 1)  # rounded down to one digit
    why = "are free" if chosen else "are used unless the number of rows is chosen"
    raise InputError(
        f"{source} is compared in memory, and its first {rows:,} rows need about {needed / 1e9:.2g} GB, where "
        f"{limit / 1e9:.2g} GB {why}: compare the first rows with ",
        Option("rows", fitting),
        "" if chosen else ", or all of them with a number that is large enough",
    )


def available() -> int | None:
    """Return the bytes of memory that this process can still take; None if the system does not say."""
    found = [*_free(), *_left_of_group()]
    return min(found, default=None)


def _free() -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        yield from (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def _left_of_group() -> Iterator[int]:
    """Yield what the limit of a container leaves, if there is one."""
    with contextlib.suppress(OSError, ValueError):  # "max" is no number
        limit, used = (int((GROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        parts = dict(line.split() for line in (GROUP / "memory.stat").read_text().splitlines())
        # The system drops the contents of files that were read when memory is needed.
        files = sum(int(parts.get(name, 0)) for name in ("active_file", "inactive_file"))
        yield max(0, limit - used + files)
