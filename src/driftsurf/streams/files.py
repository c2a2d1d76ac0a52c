"""Where files of data are looked for, and how they are opened whatever packs them."""

from __future__ import annotations

import bz2
import gzip
import os
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, cast

__all__ = ["FOLDER_VARIABLE", "cache_folder", "find", "folders", "open_bytes"]

FOLDER_VARIABLE = "DRIFTSURF_DATA"
PACKINGS = "", ".gz", ".bz2", ".zip"


def cache_folder() -> Path:
    """The user's folder for what ``driftsurf datasets fetch`` gets; it need not exist yet.

    On Linux $XDG_CACHE_HOME/driftsurf/data, by default ~/.cache/driftsurf/data; elsewhere the folder that
    the system has for caches.
    """
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
        base = chosen if chosen.is_absolute() else Path.home() / ".cache"  # relative ones are invalid by XDG
    return base / "driftsurf" / "data"


def folders() -> tuple[Path, ...]:
    """Where files are looked for, in this order: the folder that DRIFTSURF_DATA names, and the cache."""
    named = os.environ.get(FOLDER_VARIABLE)
    return (*([Path(named)] if named else []), cache_folder())


def find(names: Iterable[str]) -> Path | None:
    """The first file of one of these names, packed or not, in the folders.

    >>> find(["no-such-file.csv"]) is None
    True
    """
    places = (folder / f"{name}{packing}" for folder in folders() for name in names for packing in PACKINGS)
    return next((path for path in places if path.is_file()), None)


def open_bytes(path: Path) -> IO[bytes]:
    """The file's bytes, unpacked if it is gzip, bzip2 or a zip archive of one file, whatever its name."""
    with path.open("rb") as file:
        head = file.read(4)
    if head.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.open(path))
    if head.startswith(b"BZh"):
        return bz2.open(path)
    if head == b"PK\x03\x04":
        archive = zipfile.ZipFile(path)
        members = [name for name in archive.namelist() if not name.endswith("/") and "__MACOSX" not in name]
        if len(members) != 1:
            raise zipfile.BadZipFile(f"the archive holds {len(members)} files instead of one")
        return archive.open(members[0])
    return path.open("rb")
