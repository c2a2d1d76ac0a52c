"""The folder of a comparison: it belongs to the sources that were compared in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from driftsurf.comparison.inputs import Input
from driftsurf.core import files
from driftsurf.core.json_text import parse_json
from driftsurf.core.secrets import storable
from driftsurf.errors import Option, RunFolderError
from driftsurf.runs.folder import NAME_LETTERS, NEW_RUNS, short_name

__all__ = ["LEDGER", "check_folder", "default_folder"]

LEDGER = "ledger.jsonl"
"""Results of finished matches, by which an interrupted comparison continues."""
MOST_NAMED = 3
"""A folder is named after this many sources at most."""


def default_folder(sources: Sequence[Input]) -> Path:
    """Return the folder of an earlier comparison of the same sources and labels, or the first that does not exist.

    It is ``runs/compare-NAME``, then ``runs/compare-NAME-2`` and so on, so that the same command continues, and another
    source with the same file name has a folder of its own.
    """
    names = [short_name(one.source)[:NAME_LETTERS] for one in sources]
    name = "-".join(["compare", *names[:MOST_NAMED], *["and-more"] * (len(names) > MOST_NAMED)])
    path, number = NEW_RUNS / name, 1
    while path.exists() and _compared(path) != _identities(sources):
        number += 1
        path = NEW_RUNS / f"{name}-{number}"
    return path


def check_folder(folder: Path, sources: Sequence[Input]) -> None:
    """Raise RunFolderError if a folder holds anything but a comparison of these sources, or of some of them."""
    if not folder.exists() or not set(files.names(folder)) - {files.LOCK, files.FENCE}:
        return
    if not (folder / LEDGER).exists():
        raise RunFolderError(
            f"{str(folder)!r} contains other files; choose an empty folder, or one of a comparison, with ",
            Option("out"),
        )
    others = sorted(_compared(folder) - _identities(sources))
    if others:
        source, label = others[0]
        what = source if not label else f"{source} with the label {label!r}"
        raise RunFolderError(
            f"{str(folder)!r} holds a comparison of {what}; choose another folder with ", Option("out")
        )


def _identities(sources: Sequence[Input]) -> set[tuple[str, str]]:
    return {(storable(one.source), one.label or "") for one in sources}


def _compared(folder: Path) -> set[tuple[str, str]]:
    """Return the sources with results in a folder, each with its label."""
    found = set[tuple[str, str]]()
    ledger = folder / LEDGER
    for line in ledger.read_bytes().splitlines() if ledger.exists() else ():
        try:
            what = parse_json(line)["task"]["what"]
            found.add((storable(str(what["source"])), str(what["label"] or "")))
        except (ValueError, KeyError, TypeError):  # a crash may have cut the line short
            continue
    return found
