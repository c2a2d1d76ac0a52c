"""Every file call of the package."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from driftsurf.base import Decision
from driftsurf.errors import RunFolderError
from driftsurf.journal import json_lines

__all__ = ["JournalWriter", "make_run_folder", "next_run_folder", "read_text", "write_text"]


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all: to a temporary one, flushed, then renamed over ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
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


def make_run_folder(path: Path, *, overwrite: bool = False) -> Path:
    """A new, empty folder for a run; an existing one is refused, or emptied if ``overwrite``."""
    if path.exists():
        if not overwrite:
            raise RunFolderError(
                f"the run folder {str(path)!r} exists already; choose another with --out, or replace it with "
                "--overwrite"
            )
        if not path.is_dir() or (any(path.iterdir()) and not (path / "trace.csv").exists()):
            raise RunFolderError(f"{str(path)!r} is not a run folder, so it is not replaced; choose another with --out")
        shutil.rmtree(path)
    path.mkdir(parents=True)
    return path


def next_run_folder(parent: Path, name: str) -> Path:
    """The first of ``name``, ``name-2``, ``name-3``, ... that does not exist below ``parent``."""
    path, number = parent / name, 1
    while path.exists():
        number += 1
        path = parent / f"{name}-{number}"
    return path


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
