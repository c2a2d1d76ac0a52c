"""Which sources the core was compiled from, so that a stale core is not used in silence.

``hatch_build.py`` runs this file too, without the package around it.
"""

import os

RECORD = "compiled-from.txt"
"""File beside the compiled modules: a digest of their sources, and the name, size and time of each."""
KINDS = ".pyx", ".pxd", ".c", ".h", ".inc"


def listing(folder: str) -> str:
    """Return a line with the name, size and time of change of each source of the core."""
    lines = []
    for part in ("", "c/"):
        with os.scandir(f"{folder}/{part}") as entries:
            for entry in entries:
                if entry.name.endswith(KINDS):
                    about = entry.stat()
                    lines.append(f"{part}{entry.name} {about.st_size} {about.st_mtime_ns}\n")
    return "".join(sorted(lines))


def digest(folder: str) -> str:
    """Return a digest of the content of all sources of the core."""
    from hashlib import sha256

    found = sha256()
    for line in listing(folder).splitlines():
        name = line.rsplit(" ", 2)[0]
        with open(f"{folder}/{name}", "rb") as file:
            found.update(name.encode() + b"\0" + file.read() + b"\0")
    return found.hexdigest()


def compiled_from(folder: str) -> str:
    """Return the digest of the sources that the core in a folder was compiled from."""
    with open(f"{folder}/{RECORD}") as file:
        return file.readline().strip()


def check(folder: str) -> None:
    """Raise an ImportError if the sources lie in the folder and the core was compiled from others."""
    if not os.path.isdir(f"{folder}/c"):
        return  # an installed wheel has no sources
    try:
        with open(f"{folder}/{RECORD}") as file:
            compiled_digest, _, compiled_listing = file.read().partition("\n")
    except FileNotFoundError:
        state = "has not been compiled"
    else:
        if compiled_listing == listing(folder) or compiled_digest == digest(folder):
            return
        state = "was compiled from other sources than those in this folder"
    raise ImportError(f"the native core {state}; run `make core`, or `python hatch_build.py`, in the source tree")
