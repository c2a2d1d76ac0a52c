"""Every file call of the package: whole files, files that grow, locks, run folders.

The calls to the operating system are the methods of ``Disk``. Tests put another disk in its place
(``using``) to make each of them fail, or to forget what was not flushed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from driftsurf.errors import LockedError, RunFolderError, StateError

__all__ = [
    "AppendedFile",
    "Disk",
    "FolderLock",
    "RunFolder",
    "holder",
    "is_folder",
    "keep_previous",
    "make_folder",
    "names",
    "next_run_folder",
    "previous_path",
    "read_bytes",
    "read_text",
    "remove",
    "sync_folder",
    "using",
    "write_bytes",
    "write_new",
    "write_text",
]

RUN_FILES = "run.json", "trace.csv", "journal.jsonl", "timings.json", "report.html"
PARTIAL = ".partial"
PREVIOUS = ".previous"
LOCK = "lock"


class Disk:
    """The calls to the operating system that touch files."""

    def create(self, path: Path) -> int:
        """Make a file that must not exist yet, open for writing."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def append(self, path: Path) -> int:
        """Open a file for writing at its end; make it if need be."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

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

    def unlock(self, handle: int) -> None:
        """Let others have it."""
        os.ftruncate(handle, 0)
        os.close(handle)


_disk = Disk()


@contextlib.contextmanager
def using(disk: Disk) -> Iterator[None]:
    """Make every file call through another disk. For tests: it holds for all threads."""
    global _disk
    before, _disk = _disk, disk
    try:
        yield
    finally:
        _disk = before


# ---------------------------------------------------------------------------- whole files


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: to a temporary one, flushed, then renamed over ``path``."""
    _through_temporary(path, data, lambda temporary: _disk.replace(temporary, path))


def write_text(path: Path, text: str) -> None:
    """The same with text."""
    write_bytes(path, text.encode())


def write_new(path: Path, data: bytes) -> None:
    """The same, and FileExistsError if there is such a file."""

    def publish(temporary: Path) -> None:
        _disk.link(temporary, path)
        _disk.remove(temporary)

    _through_temporary(path, data, publish)


def _through_temporary(path: Path, data: bytes, publish: Callable[[Path], None]) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    handle = _disk.create(temporary)
    try:
        try:
            _write_all(handle, data)
            _disk.sync(handle)
        finally:
            _disk.close(handle)
        publish(temporary)
    except BaseException:
        with contextlib.suppress(OSError):
            _disk.remove(temporary)
        raise


def _write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        written = _disk.write(handle, rest)
        if written <= 0:
            raise OSError(errno.EIO, "the file takes no more bytes")
        rest = rest[written:]


def read_bytes(path: Path) -> bytes:
    """All of a file."""
    return _disk.read(path)


def read_text(path: Path) -> str:
    """The text of a file."""
    return _disk.read(path).decode()


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    _disk.remove(path)


def make_folder(path: Path) -> None:
    """Make a folder, unless it is there."""
    _disk.make_folder(path)


def names(path: Path) -> list[str]:
    """The names in a folder, sorted."""
    return sorted(_disk.names(path))


def is_folder(path: Path) -> bool:
    """Whether there is a folder of this name."""
    return _disk.is_folder(path)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the medium."""
    _disk.sync_folder(path)


def previous_path(path: Path) -> Path:
    """Where the file that ``path`` replaced is kept."""
    return path.with_name(path.name + PREVIOUS)


def keep_previous(path: Path, data: bytes, good: Callable[[bytes], object]) -> None:
    """Write a file whole, flushed with its name; the one it replaces stays beside it if it is ``good``.

    There is a good file under one of the two names at every moment, once there has been one.
    """
    try:
        good(_disk.read(path))
    except (OSError, StateError):
        pass  # a damaged file must not take the place of a good one
    else:
        second = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        _disk.link(path, second)
        _disk.replace(second, previous_path(path))
    write_bytes(path, data)
    _disk.sync_folder(path.parent)


# ---------------------------------------------------------------------------- files that grow


class AppendedFile:
    """A file that grows line by line. What was flushed is known by its size and digest.

    Parameters
    ----------
    path
        The file; what is in it beyond ``size`` is cut off.
    size, digest
        What was known of it when it was last flushed; StateError if it is not so any more.
    """

    def __init__(self, path: Path, size: int = 0, digest: str = "") -> None:
        self.path = path
        self.size = size
        self._sha = hashlib.sha256()
        if size:
            kept = _disk.read(path)[:size]
            self._sha.update(kept)
            if len(kept) < size or self.digest != digest:
                raise StateError(f"{path.name} does not begin with the {size} bytes that were written to it")
        self._handle: int | None = _disk.append(path)
        _disk.truncate(self._handle, size)

    @property
    def digest(self) -> str:
        """SHA-256 of all that was written."""
        return self._sha.hexdigest()

    def write(self, text: str) -> None:
        """Add text at the end."""
        assert self._handle is not None
        data = text.encode()
        _write_all(self._handle, data)
        self._sha.update(data)
        self.size += len(data)

    def sync(self) -> None:
        """Wait until all that was written is on the medium."""
        assert self._handle is not None
        _disk.sync(self._handle)

    def text(self) -> str:
        """All that was written."""
        return _disk.read(self.path)[: self.size].decode()

    def close(self) -> None:
        """Let go of the file."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            _disk.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FolderLock:
    """One process at a time: held as long as the process lives, whatever becomes of it.

    The operating system frees the lock of a process that has ended, so a stale one cannot be; the
    file says who holds it, for people.
    """

    def __init__(self, folder: Path) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        me = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
        try:
            self._handle = _disk.lock(folder / LOCK, json.dumps(me).encode())
        except BlockingIOError:
            raise LockedError(
                f"{str(folder)!r} is held by {holder(folder) or 'another process'}. Wait for it or stop it, or take "
                "another folder."
            ) from None

    def release(self) -> None:
        """Let others have the folder."""
        _disk.unlock(self._handle)


def holder(folder: Path) -> str:
    """Who said last that it holds a folder, in words; '' if nobody does. One that was killed could not take it back."""
    try:
        said: dict[str, Any] = json.loads(_disk.read(folder / LOCK))
        return f"process {said['pid']} on {said['host']} since {said['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


# ---------------------------------------------------------------------------- run folders


class RunFolder:
    """A run folder in the making: written beside its place, and put there when it is whole.

    So what is under its name is always complete, and an old run is replaced only when the new one is
    there. Files that are not a run's own are never touched: a folder that has any is refused.

    Parameters
    ----------
    path
        Where the run will be.
    overwrite
        Replace a run that is there, and what an interrupted run left.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.path = path
        self.partial = path.with_name(path.name + PARTIAL) if path.name else path
        if not path.name or path.name in (".", ".."):
            raise RunFolderError(f"--out is {str(path)!r}; give the name of a folder for this run alone")
        for folder, what in ((path, "the run folder"), (self.partial, "an unfinished run (running, or interrupted)")):
            if not folder.exists() and not folder.is_symlink():
                continue
            if not overwrite:
                raise RunFolderError(
                    f"{what} {str(folder)!r} exists already; choose another with --out, or replace it with --overwrite"
                )
            _check_own(folder)
        self._overwrite = overwrite
        _remove_own(self.partial)
        _disk.make_folder(self.partial)
        # Held open, so that no folder that somebody else makes under this name can be taken for it.
        self._handle = os.open(self.partial, os.O_RDONLY)

    def __truediv__(self, name: str) -> Path:
        if name not in RUN_FILES:
            raise ValueError(f"{name!r} is not one of the files of a run: {', '.join(RUN_FILES)}")
        self._check_ours()
        return self.partial / name

    def finish(self) -> None:
        """Put the whole run in its place."""
        self._check_ours()
        _disk.sync_folder(self.partial)
        if self.path.exists():
            if not self._overwrite:
                raise RunFolderError(f"{str(self.path)!r} has come to exist meanwhile; this run is in {self.partial}")
            _check_own(self.path)
            _remove_own(self.path)
        _disk.replace(self.partial, self.path)
        _disk.sync_folder(self.path.parent)
        os.close(self._handle)

    def _check_ours(self) -> None:
        if not (self.partial.exists() and os.path.samestat(os.fstat(self._handle), self.partial.stat())):
            raise RunFolderError(f"{str(self.partial)!r} was taken away, perhaps by another run with --overwrite")


def next_run_folder(parent: Path, name: str) -> Path:
    """The first of ``name``, ``name-2``, ``name-3``, ... that does not exist below ``parent``, whole or partial."""
    path, number = parent / name, 1
    while path.exists() or path.with_name(path.name + PARTIAL).exists():
        number += 1
        path = parent / f"{name}-{number}"
    return path


def _check_own(folder: Path) -> None:
    strange = folder.is_symlink() or not folder.is_dir()
    names = [] if strange else sorted(entry.name for entry in folder.iterdir() if not _is_own(entry))
    if strange or names:
        what = f"it holds {names[0]!r}, which is no file of a run" if names else "it is no folder"
        raise RunFolderError(f"{str(folder)!r} is not replaced: {what}. Choose another with --out.")


def _is_own(entry: Path) -> bool:
    """Whether it is a file of a run, or what a killed one left half-written."""
    whole = entry.name in RUN_FILES
    half = any(entry.name.startswith(f".{name}.") for name in RUN_FILES)
    return (whole or half) and entry.is_file() and not entry.is_symlink()


def _remove_own(folder: Path) -> None:
    if folder.exists():
        for entry in [entry for entry in folder.iterdir() if _is_own(entry)]:
            _disk.remove(entry)
        _disk.remove_folder(folder)
