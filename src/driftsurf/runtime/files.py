"""What the package does with files: whole ones, ones that grow, locks, run folders."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import socket
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from driftsurf.errors import LockedError, RunFolderError, StateError, StateVersionError, StateWarning
from driftsurf.runtime import disk

__all__ = [
    "AppendedFile",
    "FolderLock",
    "RunFolder",
    "holder",
    "is_folder",
    "is_held",
    "keep_previous",
    "make_folder",
    "names",
    "next_run_folder",
    "previous_path",
    "publish",
    "read_bytes",
    "read_kept",
    "read_text",
    "remove",
    "sync_folder",
    "write_bytes",
    "write_new",
    "write_private",
    "write_text",
]

RUN_FILES = "run.json", "trace.csv", "journal.jsonl", "columns.csv", "bad_rows.jsonl", "timings.json", "report.html"
PARTIAL = ".partial"
PREVIOUS = ".previous"
LOCK = "lock"


# ---------------------------------------------------------------------------- whole files


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: to a temporary one, flushed, then renamed over ``path``."""
    _through_temporary(path, data, lambda temporary: disk.calls.replace(temporary, path))


def write_text(path: Path, text: str) -> None:
    """The same with text."""
    write_bytes(path, text.encode())


def write_private(path: Path, text: str) -> None:
    """Text that nobody but its owner may read, in a file that must not exist yet."""
    with AppendedFile(path, mode=0o600) as file:
        file.write(text)
        file.sync()


def write_new(path: Path, data: bytes) -> None:
    """The same, and FileExistsError if there is such a file."""

    def publish(temporary: Path) -> None:
        disk.calls.link(temporary, path)
        disk.calls.remove(temporary)

    _through_temporary(path, data, publish)


def _through_temporary(path: Path, data: bytes, publish: Callable[[Path], None]) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    handle = disk.calls.create(temporary)
    try:
        try:
            _write_all(handle, data)
            disk.calls.sync(handle)
        finally:
            disk.calls.close(handle)
        publish(temporary)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.calls.remove(temporary)
        raise


def _write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        written = disk.calls.write(handle, rest)
        if written <= 0:
            raise OSError(errno.EIO, "the file takes no more bytes")
        rest = rest[written:]


def read_bytes(path: Path) -> bytes:
    """All of a file."""
    return disk.calls.read(path)


def read_text(path: Path) -> str:
    """The text of a file."""
    return disk.calls.read(path).decode()


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    disk.calls.remove(path)


def make_folder(path: Path) -> None:
    """Make a folder, unless it is there."""
    disk.calls.make_folder(path)


def names(path: Path) -> list[str]:
    """The names in a folder, sorted."""
    return sorted(disk.calls.names(path))


def is_folder(path: Path) -> bool:
    """Whether there is a folder of this name."""
    return disk.calls.is_folder(path)


def publish(partial: Path, path: Path) -> None:
    """Give a file that is whole its name, in place of what has it."""
    disk.calls.replace(partial, path)
    disk.calls.sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the medium."""
    disk.calls.sync_folder(path)


def previous_path(path: Path) -> Path:
    """Where the file that ``path`` replaced is kept."""
    return path.with_name(path.name + PREVIOUS)


def keep_previous(path: Path, data: bytes, good: Callable[[bytes], object]) -> None:
    """Write a file whole, flushed with its name; the one it replaces stays beside it if it is ``good``.

    There is a good file under one of the two names at every moment, once there has been one.
    """
    try:
        good(disk.calls.read(path))
    except (OSError, StateError):
        pass  # a damaged file must not take the place of a good one
    else:
        second = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        disk.calls.link(path, second)
        disk.calls.replace(second, previous_path(path))
    write_bytes(path, data)
    disk.calls.sync_folder(path.parent)


def read_kept(path: Path, good: Callable[[bytes], object]) -> bytes:
    """What ``keep_previous`` wrote; if that is damaged, the file before it, with a StateWarning that says so."""
    try:
        data = disk.calls.read(path)
        good(data)
        return data
    except (StateError, FileNotFoundError, OSError) as error:
        if isinstance(error, StateVersionError) or (
            isinstance(error, OSError) and error.errno not in (errno.ENOENT, errno.EIO)
        ):
            raise
        previous = previous_path(path)
        try:
            data = disk.calls.read(previous)
            good(data)
        except (StateError, OSError) as second:
            if isinstance(second, FileNotFoundError):
                raise error from None
            raise StateError(f"{path} cannot be used: {error}; and neither can {previous.name}: {second}") from error
        warnings.warn(f"{path} cannot be used: {error}. {previous}, saved before it, is used.", StateWarning, 3)
        return data


# ---------------------------------------------------------------------------- files that grow


class AppendedFile:
    """A file that grows line by line. What was flushed is known by its size and digest.

    Parameters
    ----------
    path
        The file; what is in it beyond ``size`` is cut off.
    size, digest
        What was known of it when it was last flushed; StateError if it is not so any more.
    mode
        Who may read and write it, if it has to be made.
    """

    def __init__(self, path: Path, size: int = 0, digest: str = "", *, mode: int = 0o666) -> None:
        self.path = path
        self.size = size
        self._sha = hashlib.sha256()
        if size:
            kept = disk.calls.read(path)[:size]
            self._sha.update(kept)
            if len(kept) < size or self.digest != digest:
                raise StateError(f"{path.name} does not begin with the {size} bytes that were written to it")
        self._handle: int | None = disk.calls.append(path, mode)
        disk.calls.truncate(self._handle, size)

    @property
    def digest(self) -> str:
        """SHA-256 of all that was written."""
        return self._sha.hexdigest()

    def write(self, text: str) -> None:
        """Add text at the end."""
        self.write_bytes(text.encode())

    def write_bytes(self, data: bytes) -> None:
        """Add bytes at the end."""
        assert self._handle is not None
        _write_all(self._handle, data)
        self._sha.update(data)
        self.size += len(data)

    def sync(self) -> None:
        """Wait until all that was written is on the medium."""
        assert self._handle is not None
        disk.calls.sync(self._handle)

    def text(self) -> str:
        """All that was written."""
        return disk.calls.read(self.path)[: self.size].decode()

    def close(self) -> None:
        """Let go of the file."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            disk.calls.close(handle)

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
            self._handle = disk.calls.lock(folder / LOCK, json.dumps(me).encode())
        except BlockingIOError:
            raise LockedError(
                f"{str(folder)!r} is held by {holder(folder) or 'another process'}. Wait for it or stop it, or take "
                "another folder."
            ) from None

    def release(self) -> None:
        """Let others have the folder."""
        disk.calls.unlock(self._handle)


def holder(folder: Path) -> str:
    """Who said last that it holds a folder, in words; '' if nobody does. One that was killed could not take it back."""
    try:
        said: dict[str, Any] = json.loads(disk.calls.read(folder / LOCK))
        return f"process {said['pid']} on {said['host']} since {said['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def is_held(folder: Path) -> bool:
    """Whether a process that lives holds a folder."""
    return disk.calls.is_locked(folder / LOCK)


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
        self.partial = self.check(path, overwrite=overwrite)
        self._overwrite = overwrite
        _remove_own(self.partial)
        disk.calls.make_folder(self.partial)
        # Held open, so that no folder that somebody else makes under this name can be taken for it.
        self._handle = os.open(self.partial, os.O_RDONLY)

    @staticmethod
    def check(path: Path, *, overwrite: bool) -> Path:
        """RunFolderError if no run can be put here; returns where it is made."""
        if not path.name or path.name in (".", ".."):
            raise RunFolderError(f"--out is {str(path)!r}; give the name of a folder for this run alone")
        partial = path.with_name(path.name + PARTIAL)
        for folder, what in ((path, "the run folder"), (partial, "an unfinished run (running, or interrupted)")):
            if not folder.exists() and not folder.is_symlink():
                continue
            if not overwrite:
                raise RunFolderError(
                    f"{what} {str(folder)!r} exists already; choose another with --out, or replace it with --overwrite"
                )
            _check_own(folder)
        return partial

    def __truediv__(self, name: str) -> Path:
        if name not in RUN_FILES:
            raise ValueError(f"{name!r} is not one of the files of a run: {', '.join(RUN_FILES)}")
        self._check_ours()
        return self.partial / name

    def finish(self) -> None:
        """Put the whole run in its place."""
        self._check_ours()
        disk.calls.sync_folder(self.partial)
        if self.path.exists():
            if not self._overwrite:
                raise RunFolderError(f"{str(self.path)!r} has come to exist meanwhile; this run is in {self.partial}")
            _check_own(self.path)
            _remove_own(self.path)
        disk.calls.replace(self.partial, self.path)
        disk.calls.sync_folder(self.path.parent)
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
            disk.calls.remove(entry)
        disk.calls.remove_folder(folder)
