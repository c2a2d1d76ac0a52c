"""Durable files: atomic writes, files that grow, backups and locks.

A file is either written whole or not at all. The recipe: write a temporary file in the same folder, flush it, rename it
over the target, flush the folder. A crash at any point leaves the old file or the new one, never a part of one. Only
the owner may read a new file, because models, checkpoints and logs hold rows and secrets of models; ``shared`` files
are results for others, such as pages, journals, traces and predictions, and follow the umask.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

from driftsurf.core import disk
from driftsurf.errors import InputError, LockedError, StateError, StateVersionError, StateWarning

NEW_RUNS = Path("runs")
"""Where folders of results are made if no place is given."""
PARTIAL = ".partial"
PREVIOUS = ".previous"
LOCK = "lock"
FENCE = "fence"


# ---------------------------------------------------------------------------- whole files


def write_bytes(path: Path, data: bytes, *, shared: bool = False) -> None:
    """Write a file atomically: to a temporary file, flushed, then renamed over ``path``.

    The folder is not flushed; see ``sync_folder``.
    """
    write_parts(path, [data], shared=shared)


def write_parts(path: Path, parts: Iterable[bytes | memoryview], *, shared: bool = False) -> None:
    """Write a file atomically, as ``write_bytes`` does, from bytes that follow each other."""
    _through_temporary(path, parts, lambda temporary: disk.calls.replace(temporary, path), shared=shared)


def write_text(path: Path, text: str, *, shared: bool = False) -> None:
    """Write a text file atomically."""
    write_bytes(path, text.encode(), shared=shared)


def write_new(path: Path, data: bytes) -> None:
    """Write a file atomically; raise FileExistsError if it exists."""

    def publish(temporary: Path) -> None:
        # A rename would silently replace the target; a link fails if it exists.
        disk.calls.link(temporary, path)
        disk.calls.remove(temporary)

    _through_temporary(path, [data], publish)


def _through_temporary(
    path: Path, parts: Iterable[bytes | memoryview], publish: Callable[[Path], None], *, shared: bool = False
) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    with _named(path):
        handle = disk.calls.create(temporary, shared)
        try:
            try:
                for part in parts:
                    _write_all(handle, part)
                disk.calls.sync(handle)
            finally:
                disk.calls.close(handle)
            publish(temporary)
        except BaseException:
            with contextlib.suppress(OSError):
                disk.calls.remove(temporary)
            raise


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Context whose errors name this file: those of a write name none, and others name the temporary file."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def _write_all(handle: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:  # a call may write less than it was given
        written = disk.calls.write(handle, rest)
        if written <= 0:
            raise OSError(errno.EIO, "the file accepts no more bytes")
        rest = rest[written:]


def read_bytes(path: Path) -> bytes:
    """Return the content of a file."""
    return disk.calls.read(path)


def read_text(path: Path) -> str:
    """Return the content of a text file."""
    return disk.calls.read(path).decode()


def remove(path: Path) -> None:
    """Remove a file, if it exists."""
    disk.calls.remove(path)


def remove_tree(path: Path) -> None:
    """Remove a folder with everything in it."""
    for name in names(path):
        entry = path / name
        if is_folder(entry) and not entry.is_symlink():
            remove_tree(entry)
        else:
            remove(entry)
    disk.calls.remove_folder(path)


def make_folder(path: Path) -> None:
    """Create a folder and its parents, unless they exist."""
    disk.calls.make_folder(path)


def names(path: Path) -> list[str]:
    """Return the names in a folder, sorted."""
    return sorted(disk.calls.names(path))


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder."""
    return disk.calls.is_folder(path)


def publish(partial: Path, path: Path) -> None:
    """Rename a complete file to its final name, replacing the target, and flush the folder."""
    disk.calls.replace(partial, path)
    disk.calls.sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Flush the entries of a folder to the storage device."""
    disk.calls.sync_folder(path)


def usable(path: str | Path) -> Path:
    """Return a path; raise InputError if no file can have it."""
    if "\0" in str(path):
        raise InputError(f"{str(path)!r} holds a NUL character, so it is not the path of a file")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise InputError(f"{str(path)!r} holds half of a character, so it is not the path of a file") from error
    return Path(path)


def backup_path(path: Path) -> Path:
    """Return the path of the backup of ``path``."""
    return path.with_name(path.name + PREVIOUS)


def write_with_backup(path: Path, data: bytes, good: Callable[[bytes], object]) -> None:
    """Write a file atomically and durably, and keep the file that it replaces as a backup.

    ``good`` raises StateError for damaged content; a damaged file does not replace a good backup. Once a good file has
    been written, at least one of the two is good at every moment, even if the process or the power fails.
    """
    if not usable(path).name:
        raise InputError(f"{str(path)!r} is a folder; pass the path of a file")
    try:
        good(disk.calls.read(path))
    except (OSError, StateError):
        pass
    else:
        # A second link, renamed over the backup: ``path`` itself never disappears.
        second = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        disk.calls.link(path, second)
        disk.calls.replace(second, backup_path(path))
    write_bytes(path, data)
    disk.calls.sync_folder(path.parent)


def read_with_backup(path: Path, good: Callable[[bytes], object]) -> bytes:
    """Read a file that ``write_with_backup`` wrote; if it is damaged, return its backup and issue a StateWarning."""
    try:
        data = disk.calls.read(usable(path))
        good(data)
        return data
    except (StateError, FileNotFoundError, OSError) as error:
        if isinstance(error, StateVersionError) or (
            isinstance(error, OSError) and error.errno not in (errno.ENOENT, errno.EIO)
        ):
            raise
        previous = backup_path(path)
        try:
            data = disk.calls.read(previous)
            good(data)
        except (StateError, OSError) as second:
            if isinstance(second, FileNotFoundError):
                if isinstance(error, StateError):
                    raise StateError(f"{path} cannot be loaded: {error}") from None
                raise error from None
            raise StateError(
                f"{path} cannot be read ({error}), nor can its backup {previous.name} ({second})"
            ) from error
        warnings.warn(f"{path} cannot be read ({error}); its backup {previous} was loaded instead.", StateWarning, 3)
        return data


# ---------------------------------------------------------------------------- files that grow


class AppendedFile:
    """Append-only file whose size and digest are known, so that a checkpoint can refer to it.

    After a crash the file may be longer than the checkpoint says. Opened with the size and digest of the checkpoint, it
    is cut back to that length, and writing resumes there.

    Parameters
    ----------
    path
        The file. Anything beyond ``size`` is cut off.
    size, digest
        Size and SHA-256 of the content to keep; StateError if the file does not begin with that content.
    shared
        Whether a new file follows the umask; otherwise only its owner may read it.
    """

    def __init__(self, path: Path, size: int = 0, digest: str = "", *, shared: bool = False) -> None:
        self.path = path
        self.size: int = size
        self._sha = hashlib.sha256()
        if size:
            kept = disk.calls.read(path)[:size]
            self._sha.update(kept)
            if len(kept) < size or self.digest != digest:
                raise StateError(f"{path.name} does not begin with the {size} bytes that were written to it before")
        self._handle: int | None = disk.calls.append(path, shared)
        disk.calls.truncate(self._handle, size)

    @property
    def digest(self) -> str:
        """SHA-256 of the content, in hexadecimal digits."""
        return self._sha.hexdigest()

    def write(self, text: str) -> None:
        """Append text."""
        self.write_bytes(text.encode())

    def write_bytes(self, data: bytes) -> None:
        """Append bytes."""
        assert self._handle is not None
        try:  # without ``_named``, which takes a third of the time of a short line
            _write_all(self._handle, data)
        except OSError as error:
            error.filename = str(self.path)
            raise
        self._sha.update(data)
        self.size += len(data)

    def sync(self) -> None:
        """Flush the file to the storage device."""
        assert self._handle is not None
        with _named(self.path):
            disk.calls.sync(self._handle)

    def text(self) -> str:
        """Return the content as text, also while another thread appends to it."""
        size = self.size  # before reading: what is being appended may be there in part
        return disk.calls.read(self.path)[:size].decode()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            disk.calls.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FolderLock:
    """Lock on a folder, held until ``release`` or the end of the process.

    The operating system releases the lock of a process that has ended, so a stale lock is impossible. The lock file
    names the holder, for the error message that the next process gets.

    Network storage may not share locks between machines, or may drop one while its holder is cut off. Every holder
    therefore takes the next fencing number, and ``check`` refuses a holder after which another one has taken its own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        me = this_process()
        try:
            self._handle = disk.calls.lock(folder / LOCK, json.dumps(me).encode())
        except BlockingIOError:
            raise LockedError(
                f"{str(folder)!r} is locked by {holder(folder) or 'another process'}. Wait for it, stop it, or use "
                "another folder."
            ) from None
        try:
            self.number: int = _fence(folder).get("number", 0) + 1
            self._mark = json.dumps(me | {"number": self.number, "token": secrets.token_hex(8)}).encode()
            self._fence = folder / FENCE
            write_bytes(self._fence, self._mark)
        except BaseException:
            self.release()
            raise

    def check(self) -> None:
        """Raise LockedError if another process has taken the folder since; to be called before each write.

        OSError if the folder cannot be read: then nobody knows.
        """
        with contextlib.suppress(FileNotFoundError):
            if disk.calls.read(self._fence) == self._mark:
                return
        raise LockedError(
            f"{str(self.folder)!r} was taken over by {process_text(_fence(self.folder)) or 'another process'}; this "
            "process writes nothing more to it"
        )

    def release(self) -> None:
        """Release the lock."""
        disk.calls.unlock(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def holder(folder: Path) -> str:
    """Return the last holder of the lock on a folder as text; '' if there is none.

    A process that was killed could not erase its name, so the holder may have ended; see ``is_held``.
    """
    try:
        return process_text(read_object(folder / LOCK))
    except OSError:
        return ""


def this_process() -> dict[str, Any]:
    """Return this process, its machine and the time, as a lock names its holder."""
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def process_text(about: Mapping[str, Any]) -> str:
    """Return a process that ``this_process`` described as text; '' if it is not described."""
    known = {"pid", "host", "since"} <= about.keys()
    return f"process {about['pid']} on {about['host']} since {about['since']}" if known else ""


def _fence(folder: Path) -> dict[str, Any]:
    """Return the fencing number of a folder, and who took it."""
    found = read_object(folder / FENCE)
    return found if isinstance(found.get("number"), int) else {}


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a file, without entries if the file is missing or damaged."""
    try:
        found = parse_json(disk.calls.read(path))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def is_held(folder: Path) -> bool:
    """Return whether a living process holds the lock on a folder."""
    return disk.calls.is_locked(folder / LOCK)


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; ValueError also if it is nested more deeply than Python can read.

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: the JSON text is nested too deeply
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the JSON text is nested too deeply") from None


class Repeated(NamedTuple):
    """Keys that JSON text has more than once."""

    anywhere: str | None = None
    """The first such key of any object; None if every object has each of its keys once."""
    outermost: str | None = None
    """The first such key of the object that holds all others."""


def repeated_keys(text: str | bytes) -> Repeated:
    """Return keys that an object has twice, of which parsers keep the last one and tell nobody.

    Text that is no JSON has none: another parser tells what is wrong with it.

    >>> repeated_keys('{"rows": [{"price": 1, "price": 2}]}')
    Repeated(anywhere='price', outermost=None)
    """
    anywhere = last = None

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal anywhere, last
        last = None
        if len(dict(pairs)) < len(pairs):
            seen: set[str] = set()
            last = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            anywhere = last if anywhere is None else anywhere

    try:
        # Numbers are not read: Python refuses whole numbers of many digits.
        json.loads(text, object_pairs_hook=look, parse_int=len, parse_float=len)
    except (ValueError, RecursionError):
        return Repeated()
    return Repeated(anywhere, last)
