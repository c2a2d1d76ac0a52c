"""Run folders: the names of their files, and how a folder appears under its name only when it is complete."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Self

from driftsurf.core import disk
from driftsurf.core.files import NEW_RUNS, PARTIAL, backup_path, usable
from driftsurf.core.input import listed
from driftsurf.data.source import NAME_LETTERS, Source
from driftsurf.errors import Option, RunFolderError
from driftsurf.registry import nearest


def check_new(option: str, path: str | os.PathLike[str], *, overwrite: bool | None) -> None:
    """Raise RunFolderError if a file that an option names exists, and is not to be replaced.

    ``overwrite`` is None for a command without that option.
    """
    if not overwrite and os.path.exists(path):
        remedy = () if overwrite is None else (", or replace it with ", Option("overwrite", True))
        raise RunFolderError(f"{str(path)!r} already exists; choose another file for ", Option(option), *remedy)


def check_not_input(option: str, path: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Raise RunFolderError if a file that an option names for writing is one of the files that are read."""
    if os.path.exists(path) and any(os.path.exists(one) and os.path.samefile(path, one) for one in inputs):
        raise RunFolderError(f"{str(path)!r} is also read; choose another file for ", Option(option))


def files_of(*sources: Source) -> Iterable[Path]:
    """Yield the files that sources read."""
    from driftsurf.data.sources.files import FileSource

    for source in sources:
        if isinstance(source, FileSource):
            yield from map(Path, source.files())


ABOUT = "run.json"
"""What was run: the source, the settings, what the first rows decided."""
TRACE = "trace.csv"
"""One line for each step and model: rows, errors, state."""
JOURNAL = "journal.jsonl"
"""Every decision, every transition and every order, in the order in which they were made."""
MODEL = "model.state"
"""The model as it is at the end, with the encoding of its columns."""
SERVED_SETTINGS, SERVED_CHECKPOINTS = "model.json", "checkpoints"
"""File of settings and folder of checkpoints in the folder of a model of ``driftsurf serve``."""
NEWEST = 5_000
"""Time steps of a served model, and lines of its files, that are read and shown: the newest ones."""
SAVED = ".state"
"""Usual ending of a saved model."""
COLUMNS = "columns.csv"
"""The columns that moved most around each reaction."""
SCORES = "scores.jsonl"
"""One line for each step: confusion of classes, ROC AUC and calibration, or residuals."""
BAD_ROWS = "bad_rows.jsonl"
"""Rows that could not be read, with the reason."""
TIMINGS = "timings.json"
"""Measured seconds, kept apart from everything that is reproducible."""
REPORT = "report.html"
"""The page that shows the run."""
RUN_FILES = ABOUT, TRACE, JOURNAL, MODEL, COLUMNS, SCORES, BAD_ROWS, TIMINGS, REPORT

RESULT = "result"
"""Name of the run folder below a folder of checkpoints, unless another place is given."""


class RunFolder:
    """A run folder that is being written: under the name ``PATH.partial`` until ``finish`` renames it to ``PATH``.

    Therefore a folder under its final name is always complete, and an old run is replaced only when the new one is
    complete. Only files of a run are ever removed: a folder that holds anything else is refused.

    Parameters
    ----------
    path
        Final path of the folder.
    overwrite
        Replace an existing run folder, and what an interrupted run left there.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.path = path
        self.partial: Path = self.check(path, overwrite=overwrite)
        self._overwrite = overwrite
        _remove_run(self.partial)
        disk.calls.make_folder(self.partial)
        # The open handle identifies our folder: another process may remove it and create one of the same name.
        self._handle: int | None = os.open(self.partial, os.O_RDONLY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the handle of the folder, complete or not; a second call does nothing."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            os.close(handle)

    def discard(self) -> None:
        """Remove the folder of a run that failed before it learned anything."""
        self._check_ours()
        _remove_run(self.partial)
        self.close()

    @staticmethod
    def check(path: Path, *, overwrite: bool) -> Path:
        """Return where the folder is written; RunFolderError if no run can be put at ``path``."""
        if not path.name or path.name in (".", ".."):
            raise RunFolderError(Option("out"), f" must be the path of a new folder; got {str(path)!r}")
        partial = partial_path(path)
        for folder, what in ((path, "the run folder"), (partial, "the folder of a running, interrupted or failed run")):
            if not folder.exists() and not folder.is_symlink():
                continue
            if not overwrite:
                raise RunFolderError(
                    f"{what} {str(folder)!r} already exists; choose another one with ",
                    Option("out"),
                    ", or replace it with ",
                    Option("overwrite", True),
                )
            _check_removable(folder)
        return partial

    def __truediv__(self, name: str) -> Path:
        if name not in RUN_FILES:
            raise ValueError(f"{name!r} is not a file of a run; choices: {', '.join(RUN_FILES)}")
        self._check_ours()
        return self.partial / name

    def finish(self) -> None:
        """Rename the complete folder to its final path."""
        self._check_ours()
        disk.calls.sync_folder(self.partial)
        if self.path.exists():
            if not self._overwrite:
                raise RunFolderError(
                    f"{str(self.path)!r} was created by another process in the meantime; this run is in {self.partial}"
                )
            _check_removable(self.path)
            _remove_run(self.path)
        disk.calls.replace(self.partial, self.path)
        disk.calls.sync_folder(self.path.parent)
        self.close()

    def _check_ours(self) -> None:
        assert self._handle is not None
        if not (self.partial.exists() and os.path.samestat(os.fstat(self._handle), self.partial.stat())):
            raise RunFolderError(
                f"{str(self.partial)!r} was removed by another process, perhaps by a run with ",
                Option("overwrite", True),
            )


def partial_path(path: Path) -> Path:
    """Return where a run folder is written before it is complete.

    >>> str(partial_path(Path("runs/sales")))
    'runs/sales.partial'
    """
    return path.with_name(path.name + PARTIAL)


def model_path(path: Path) -> Path:
    """Return the model file of a run folder, or of a folder of checkpoints; a file as it is, also if it was lost."""
    if not path.is_dir():
        if not usable(path).exists() and not backup_path(path).exists():
            raise _nothing_there(path)
        return path
    places = path / MODEL, path / RESULT / MODEL
    found = next((place for place in places if place.is_file()), None)
    served = next((one for one in (path, path.parent) if is_served(one)), None)
    if found is None and served is not None:
        raise RunFolderError(
            f"{str(path)!r} is the folder of a served model, which has no {MODEL}; let the service write one with "
            f"curl -o {MODEL} http://localhost:8470/v1/models/{served.name}/state, and pass it"
        )
    if found is None:
        raise RunFolderError(
            f"{str(path)!r} has no {MODEL}; pass the folder of a finished run that has one model for all rows, and "
            "whose model can be saved"
        )
    return found


def is_served(path: Path) -> bool:
    """Return whether a folder is that of a model of ``driftsurf serve``."""
    return (path / SERVED_SETTINGS).is_file() and (path / SERVED_CHECKPOINTS).is_dir()


def _nothing_there(path: Path) -> RunFolderError:
    """Return the error for a path that does not exist; it names the paths that are accepted, and those that exist."""
    takes = f"{str(path)!r} does not exist; pass the folder of a finished run, its checkpoints, or a saved model"
    parent = next(one for one in path.absolute().parents if one.is_dir())
    if parent != path.absolute().parent:
        return RunFolderError(f"{takes}. There is no folder {str(path.parent)!r}")
    names = sorted(entry.name for entry in parent.iterdir() if entry.is_dir() or entry.suffix == SAVED)
    meant = nearest(path.name, names)
    there = f"there are {listed(names)}" if names else "there is none"
    return RunFolderError(f"{takes}. {meant[:1].upper()}{meant[1:]}In {str(path.parent)!r} {there}")


def next_run_folder(name: str, parent: Path = NEW_RUNS) -> Path:
    """Return the first of ``name``, ``name-2``, ``name-3``, ... that does not exist below ``parent``."""
    name = name[:NAME_LETTERS]
    path, number = parent / name, 1
    while path.exists() or partial_path(path).exists():
        number += 1
        path = parent / f"{name}-{number}"
    return path


def _check_removable(folder: Path) -> None:
    strange = folder.is_symlink() or not folder.is_dir()
    names = [] if strange else sorted(entry.name for entry in folder.iterdir() if not _is_run_file(entry))
    if strange or names:
        what = f"it holds {names[0]!r}, which is not a file of a run" if names else "it is not a folder"
        raise RunFolderError(f"{str(folder)!r} is not replaced: {what}. Choose another folder with ", Option("out"))


def _is_run_file(entry: Path) -> bool:
    """Return whether an entry is a file of a run, or the temporary file that a killed run left of one."""
    complete = entry.name in RUN_FILES
    temporary = any(entry.name.startswith(f".{name}.") for name in RUN_FILES)
    return (complete or temporary) and entry.is_file() and not entry.is_symlink()


def _remove_run(folder: Path) -> None:
    if folder.exists():
        for entry in [entry for entry in folder.iterdir() if _is_run_file(entry)]:
            disk.calls.remove(entry)
        disk.calls.remove_folder(folder)


WORK: Final[Mapping[str, str]] = {"gradients": "gradient steps", "visits": "rows read in training"}
"""Names of the units of training work in tables and pages, by the unit in ``run.json``."""
WORK_PER_ROW: Final[Mapping[str, str]] = {unit: f"{words} per row" for unit, words in WORK.items()}
"""Names of the training work per row, by the unit in ``run.json``."""


def work_unit(about: Mapping[str, Any]) -> str:
    """Return what the work of learning was counted in: "gradients", or "visits" of rows for learners without them.

    ``WORK`` has the words for people.
    """
    return str(about.get("made", {}).get("work", "gradients"))
