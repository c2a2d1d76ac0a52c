"""Files that a command is asked to write: none replaces what is read, nor another file without being asked to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from driftsurf.data.source import Source
from driftsurf.data.sources.files import FileSource
from driftsurf.errors import Option, RunFolderError
from driftsurf.runs.options import StrPath

__all__ = ["check_new", "check_not_input", "files_of"]


def check_new(option: str, path: StrPath, *, overwrite: bool | None) -> None:
    """Raise RunFolderError if a file that an option names exists, and is not to be replaced.

    ``overwrite`` is None for a command without that option.
    """
    if not overwrite and os.path.exists(path):
        remedy = () if overwrite is None else (", or replace it with ", Option("overwrite", True))
        raise RunFolderError(f"{str(path)!r} already exists; choose another file for ", Option(option), *remedy)


def check_not_input(option: str, path: StrPath, inputs: Iterable[StrPath]) -> None:
    """Raise RunFolderError if a file that an option names for writing is one of the files that are read."""
    if os.path.exists(path) and any(os.path.exists(one) and os.path.samefile(path, one) for one in inputs):
        raise RunFolderError(f"{str(path)!r} is also read; choose another file for ", Option(option))


def files_of(*sources: Source) -> Iterable[Path]:
    """Yield the files that sources read."""
    for source in sources:
        if isinstance(source, FileSource):
            yield from map(Path, source.files())
