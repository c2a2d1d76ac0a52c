"""All calls to the operating system that read, write, rename or lock files, as methods of one object.

Durability can only be tested if every call can be made to fail. Tests replace the disk (``using``) by one that fails at
the n-th call, or that loses what was not flushed, as a power failure does. No other module calls the file system.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from driftsurf.core import platforms
from driftsurf.core.platforms import CLOSED_ON_EXEC, NOT_A_LINK
from driftsurf.errors import InputError

PRIVATE, SHARED = 0o600, 0o666


def private(path: str | Path, flags: int) -> int:
    """Open a file that only its owner may read, if it has to be created; an ``opener`` for :func:`open`.

    Models, checkpoints and copies hold rows, and nobody else needs them; results are shared.
    """
    return os.open(path, flags | CLOSED_ON_EXEC, PRIVATE)


def refuse_device(path: Path) -> None:
    """Raise InputError if a path is a device, a pipe or a socket.

    A rename would replace ``/dev/null`` by a file, for every program of the machine, and ``/dev/zero`` has no end.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # no such file, or no path of a file: the call itself says so
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{str(path)!r} is a device, a pipe or a socket; name a file")


class Disk:
    """Calls to the operating system that touch files, each as thin as possible."""

    def create(self, path: Path, shared: bool = False) -> int:
        """Create a file that must not exist, and open it; only its owner may read it unless ``shared``."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | CLOSED_ON_EXEC
        return os.open(path, flags, SHARED if shared else PRIVATE)

    def open(self, path: Path) -> int:
        """Open a file that exists, to read and write at any place; a link is not followed."""
        return os.open(path, os.O_RDWR | NOT_A_LINK | CLOSED_ON_EXEC)

    def append(self, path: Path, shared: bool = False) -> int:
        """Open a file for appending; if it does not exist, create one that only its owner may read unless ``shared``.

        A link is not followed: the file is cut to a length, and a file elsewhere must not be.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | NOT_A_LINK | CLOSED_ON_EXEC
        return os.open(path, flags, SHARED if shared else PRIVATE)

    def write(self, handle: int, data: bytes | memoryview) -> int:
        """Write some of the data; return the number of bytes written."""
        return os.write(handle, data)

    def write_at(self, handle: int, data: bytes | memoryview, place: int) -> int:
        """Write some of the data from byte ``place`` of a file on; return the number of bytes written."""
        return platforms.write_at(handle, data, place)

    def read_at(self, handle: int, size: int, place: int) -> bytes:
        """Return at most ``size`` bytes from byte ``place`` of a file on; none if the file ends there."""
        return platforms.read_at(handle, size, place)

    def size(self, handle: int) -> int:
        """Return the number of bytes of a file."""
        return os.fstat(handle).st_size

    def truncate(self, handle: int, size: int) -> None:
        """Truncate a file to its first ``size`` bytes."""
        os.ftruncate(handle, size)

    def sync(self, handle: int) -> None:
        """Flush a file to the storage device."""
        platforms.flush(handle)

    def sync_data(self, handle: int) -> None:
        """Flush the content of a file to the storage device, without its times."""
        platforms.flush(handle, content_only=True)

    def close(self, handle: int) -> None:
        """Close a file."""
        os.close(handle)

    def sync_folder(self, path: Path) -> None:
        """Flush the entries of a folder to the storage device.

        A new or renamed file survives a power failure only if its folder was flushed, too.
        """
        platforms.flush_folder(path)

    def replace(self, old: Path, new: Path) -> None:
        """Rename a file or folder atomically, replacing the target; InputError if that is a device or a pipe."""
        refuse_device(new)
        os.replace(old, new)

    def link(self, old: Path, new: Path) -> None:
        """Create a hard link; raise FileExistsError if ``new`` exists."""
        os.link(old, new)

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""
        path.unlink(missing_ok=True)

    def make_folder(self, path: Path) -> None:
        """Create a folder and its parents, unless they exist."""
        path.mkdir(parents=True, exist_ok=True)

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder."""
        path.rmdir()

    def read(self, path: Path) -> bytes:
        """Return the content of a file; InputError for a device or a pipe, which may have no end."""
        refuse_device(path)
        return path.read_bytes()

    def names(self, path: Path) -> list[str]:
        """Return the names in a folder, in any order."""
        return os.listdir(path)

    def is_folder(self, path: Path) -> bool:
        """Return whether a path is a folder."""
        return path.is_dir()

    def lock(self, path: Path, who: bytes) -> int:
        """Lock a file and write the holder into it; raise BlockingIOError if another process holds it.

        The operating system releases the lock when the process ends, however it ends, so there are no stale locks.
        """
        handle = private(path, os.O_RDWR | os.O_CREAT | NOT_A_LINK)
        try:
            platforms.lock(handle)
            os.ftruncate(handle, 0)
            platforms.write_at(handle, who, 0)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def is_locked(self, path: Path) -> bool:
        """Return whether a living process holds the lock on a file."""
        try:
            handle = os.open(path, os.O_RDONLY | CLOSED_ON_EXEC)
        except FileNotFoundError:
            return False
        try:
            platforms.lock(handle, shared=True)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)  # releases the shared lock, too
        return False

    def unlock(self, handle: int) -> None:
        """Release a lock, and erase the name of its holder."""
        os.ftruncate(handle, 0)
        os.close(handle)


calls: Disk = Disk()
"""The disk that all file calls use."""


@contextlib.contextmanager
def using(disk: Disk) -> Iterator[None]:
    """Use another disk for all file calls, in all threads; for tests."""
    global calls
    before, calls = calls, disk
    try:
        yield
    finally:
        calls = before
