"""Folders in which the files of data sets are found."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

FOLDER_VARIABLE = "DRIFTSURF_DATA"
COMPRESSIONS = "", ".gz", ".bz2", ".xz", ".zip", ".zst"


def cache_folder() -> Path:
    """Return the user's folder for downloaded data sets; it need not exist yet.

    On Linux it is $XDG_CACHE_HOME/driftsurf/data, by default ~/.cache/driftsurf/data; elsewhere it is in the system's
    folder for caches.
    """
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
        base = chosen if chosen.is_absolute() else Path.home() / ".cache"  # XDG declares relative paths invalid
    return base / "driftsurf" / "data"


def folders() -> tuple[Path, ...]:
    """Return where files are looked for: the folder that DRIFTSURF_DATA names, then the cache."""
    named = os.environ.get(FOLDER_VARIABLE)
    return (*([Path(named)] if named else []), cache_folder())


def find(names: Iterable[str]) -> Path | None:
    """Return the first file that has one of these names, compressed or not; None if there is none.

    >>> find(["no-such-file.csv"]) is None
    True
    """
    candidates = (folder / f"{name}{ending}" for folder in folders() for name in names for ending in COMPRESSIONS)
    return next((path for path in candidates if path.is_file()), None)
