"""Every file that the package writes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from driftsurf.base import Decision
from driftsurf.errors import RunFolderError
from driftsurf.journal import json_lines

__all__ = ["JournalWriter", "RunFolder", "next_run_folder", "read_text", "write_bytes", "write_text"]

RUN_FILES = "run.json", "trace.csv", "journal.jsonl", "timings.json", "report.html"
PARTIAL = ".partial"


def write_text(path: Path, text: str) -> None:
    """Write a file of text whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: to a temporary one, flushed, then renamed over ``path``."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_text(path: Path) -> str:
    """The text of a file."""
    return path.read_text(encoding="utf-8")


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
        self.partial.mkdir(parents=True)
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
        if self.path.exists():
            if not self._overwrite:
                raise RunFolderError(f"{str(self.path)!r} has come to exist meanwhile; this run is in {self.partial}")
            _check_own(self.path)
            _remove_own(self.path)
        os.replace(self.partial, self.path)
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
            entry.unlink()
        folder.rmdir()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class JournalWriter:
    """A journal's sink: appends every decision to a file of JSON lines as it is made."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")

    def __call__(self, decision: Decision) -> None:
        """Write one step and its transitions."""
        self._file.writelines(json_lines([decision]))
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
