"""All calls to the operating system that read, write, rename or lock files, as methods of one object.

Durability can only be tested if every call can be made to fail. Tests replace the disk (``using``) by one that fails at
the n-th call, or that loses what was not flushed, as a power failure does. No other module calls the file system.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from driftsurf.errors import InputError

CLOSED_ON_EXEC: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Flags for every file: programs that this one starts do not inherit it, and Windows does not translate line ends."""
NOT_A_LINK: int = getattr(os, "O_NOFOLLOW", 0)
"""Flag with which opening a link fails; 0 on Windows, where links need a privilege to be made."""
_LOCKED_BYTE = 2**30
"""Windows locks bytes, and nobody else may read them: one far behind the content of a lock file is locked."""
_LESS_URGENT = 2
"""Steps of niceness by which a thread gives way. More would hurt: a thread that holds the interpreter lock while other
programs have the processor keeps those waiting that it gives way to."""
_moving = threading.Lock()
"""Held on Windows while the position of a file is set and used."""


def read_at(handle: int, size: int, place: int) -> bytes:
    """Return at most ``size`` bytes from byte ``place`` of a file on."""
    if sys.platform == "win32":
        with _moving:
            os.lseek(handle, place, os.SEEK_SET)
            return os.read(handle, size)
    else:
        return os.pread(handle, size, place)


def write_at(handle: int, data: bytes | memoryview, place: int) -> int:
    """Write some of the data from byte ``place`` of a file on; return the number of bytes written."""
    if sys.platform == "win32":
        with _moving:
            os.lseek(handle, place, os.SEEK_SET)
            return os.write(handle, data)
    else:
        return os.pwrite(handle, data, place)


def flush(handle: int, *, content_only: bool = False) -> None:
    """Flush a file to the storage device, with ``content_only`` without its times where that is cheaper."""
    if sys.platform == "darwin":
        import fcntl

        try:  # fsync leaves the data in the cache of the drive there
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL):
                raise
            os.fsync(handle)  # the best that network storage and some file systems have
    elif sys.platform == "win32" or not content_only:
        os.fsync(handle)
    else:
        os.fdatasync(handle)


def flush_folder(path: str | os.PathLike[str]) -> None:
    """Flush the entries of a folder to the storage device. Windows cannot, and journals them itself."""
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY | CLOSED_ON_EXEC)
    try:
        flush(handle)
    finally:
        os.close(handle)


def lock(handle: int, *, shared: bool = False) -> None:
    """Lock a file until it is closed; raise BlockingIOError if another process holds it.

    A shared lock excludes only those that are not shared; on Windows all locks exclude each other.
    """
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    else:
        import msvcrt

        with _moving:
            os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
            try:
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            except OSError as error:
                raise BlockingIOError(error.errno, "another process holds the lock") from error
            finally:
                os.lseek(handle, 0, os.SEEK_SET)


def lower_priority() -> None:
    """Let other threads have the processor before this one, as far as the system allows; only Linux has it by thread.

    A thread that has been woken then does not interrupt the one that woke it, and the system places it accordingly.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            if os.sched_getscheduler(0) == os.SCHED_OTHER:
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
                os.nice(_LESS_URGENT)


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
        return write_at(handle, data, place)

    def read_at(self, handle: int, size: int, place: int) -> bytes:
        """Return at most ``size`` bytes from byte ``place`` of a file on; none if the file ends there."""
        return read_at(handle, size, place)

    def size(self, handle: int) -> int:
        """Return the number of bytes of a file."""
        return os.fstat(handle).st_size

    def truncate(self, handle: int, size: int) -> None:
        """Truncate a file to its first ``size`` bytes."""
        os.ftruncate(handle, size)

    def sync(self, handle: int) -> None:
        """Flush a file to the storage device."""
        flush(handle)

    def sync_data(self, handle: int) -> None:
        """Flush the content of a file to the storage device, without its times."""
        flush(handle, content_only=True)

    def close(self, handle: int) -> None:
        """Close a file."""
        os.close(handle)

    def sync_folder(self, path: Path) -> None:
        """Flush the entries of a folder to the storage device.

        A new or renamed file survives a power failure only if its folder was flushed, too.
        """
        flush_folder(path)

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
            lock(handle)
            os.ftruncate(handle, 0)
            write_at(handle, who, 0)
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
            lock(handle, shared=True)
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
