"""Every call to the operating system that reads, writes, names or locks a file.

Tests put another disk in the place of this one (``using``) to make each call fail, or to forget what was
not flushed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Disk", "using"]


class Disk:
    """The calls to the operating system that touch files."""

    def create(self, path: Path) -> int:
        """Make a file that must not exist yet, open for writing."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def append(self, path: Path, mode: int = 0o666) -> int:
        """Open a file for writing at its end; make it if need be, for those whom ``mode`` and the umask allow."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, mode)

    def write(self, handle: int, data: bytes | memoryview) -> int:
        """Write some of the data; returns how much."""
        return os.write(handle, data)

    def truncate(self, handle: int, size: int) -> None:
        """Cut a file to its first ``size`` bytes."""
        os.ftruncate(handle, size)

    def sync(self, handle: int) -> None:
        """Wait until what was written is on the medium."""
        os.fsync(handle)

    def close(self, handle: int) -> None:
        """Let go of a file."""
        os.close(handle)

    def sync_folder(self, path: Path) -> None:
        """Wait until the names in a folder are on the medium."""
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def replace(self, old: Path, new: Path) -> None:
        """Give a file or folder another name, in place of what has it."""
        os.replace(old, new)

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name."""
        os.link(old, new)

    def remove(self, path: Path) -> None:
        """Take a name away from a file."""
        path.unlink(missing_ok=True)

    def make_folder(self, path: Path) -> None:
        """Make a folder, with those above it."""
        path.mkdir(parents=True, exist_ok=True)

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder."""
        path.rmdir()

    def read(self, path: Path) -> bytes:
        """All of a file."""
        return path.read_bytes()

    def names(self, path: Path) -> list[str]:
        """The names in a folder."""
        return os.listdir(path)

    def is_folder(self, path: Path) -> bool:
        """Whether there is a folder of this name."""
        return path.is_dir()

    def lock(self, path: Path, who: bytes) -> int:
        """Hold a file until ``unlock`` or the end of the process, and say in it who does; else BlockingIOError."""
        import fcntl  # absent where there are no such locks; nothing else needs it

        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.pwrite(handle, who, 0)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def is_locked(self, path: Path) -> bool:
        """Whether a living process holds a file."""
        import fcntl

        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)  # frees the lock, too
        return False

    def unlock(self, handle: int) -> None:
        """Let others have it."""
        os.ftruncate(handle, 0)
        os.close(handle)


calls = Disk()
"""Through which all file calls go."""


@contextlib.contextmanager
def using(disk: Disk) -> Iterator[None]:
    """Make every file call through another disk. For tests: it holds for all threads."""
    global calls
    before, calls = calls, disk
    try:
        yield
    finally:
        calls = before
