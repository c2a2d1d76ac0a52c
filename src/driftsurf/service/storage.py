"""Faults of a disk that end by themselves or by a hand of the operator: it is full, read-only, or not to be written."""

from __future__ import annotations

import errno
import secrets
from pathlib import Path

from driftsurf.core import disk, files

PROBE_BYTES = 2**20
"""Room that has to be there before a model is opened again: more than its first checkpoint usually takes."""


def storage_problem(error: BaseException, folder: Path) -> str:
    """Return what is the matter with the disk of a folder, and what to do; "" if the error has another cause.

    >>> print(storage_problem(OSError(errno.ENOSPC, "No space left on device"), Path("models/sales")))
    the disk of 'models/sales' is full; free some space on it
    """
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError):
            place = found.filename if isinstance(found.filename, str) else str(folder)
            match found.errno:
                case errno.ENOSPC:
                    return f"the disk of {str(folder)!r} is full; free some space on it"
                case errno.EDQUOT:
                    return f"the quota of the disk of {str(folder)!r} is used up; free some space on it, or raise it"
                case errno.EROFS:
                    return f"the disk of {str(folder)!r} is read-only; make it writable"
                case errno.EACCES | errno.EPERM:
                    return f"this process has no permission to use {place!r}; change its owner or its mode"
        found = found.__cause__ or found.__context__
    return ""


def can_write(folder: Path) -> bool:
    """Return whether a file can be written in a folder, or in the first of its parents that exists."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    probe = place / f".room-{secrets.token_hex(8)}"
    try:
        try:
            files.write_bytes(probe, bytes(PROBE_BYTES))
        finally:
            disk.calls.remove(probe)
    except OSError:
        return False
    return True
