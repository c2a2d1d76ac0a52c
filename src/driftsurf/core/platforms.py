"""Calls that are not the same on Linux, macOS and Windows: positions, flushes and locks of files, and priorities.

``core/disk.py`` is the only module that calls files, and it calls these where platforms differ.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading

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
