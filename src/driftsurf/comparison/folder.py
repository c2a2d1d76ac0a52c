"""The folder of a comparison, which belongs to its sources, and the files of predictions in it, row by row."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf.comparison.inputs import Input
from driftsurf.comparison.matches import Match, Score, SourcePredictions
from driftsurf.core import files
from driftsurf.core.files import NEW_RUNS, parse_json
from driftsurf.core.secrets import storable
from driftsurf.data.source import NAME_LETTERS, short_name
from driftsurf.errors import Option, RunFolderError

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


PROBABILITIES = "probabilities"
"""Folder of these files in that of a comparison."""


@dataclass(frozen=True, eq=False)
class KeptPredictions(SourcePredictions):
    """Predictions of one model on one source with one seed, each made before its row was learned."""

    source: str
    model: str
    seed: int


def predictions_path(folder: Path, match: Match) -> Path:
    """Return the file of a match in the folder of a comparison."""
    name = hashlib.sha256(json.dumps(asdict(match)).encode()).hexdigest()[:16]
    return folder / PROBABILITIES / f"{name}.npz"


def write_predictions(folder: Path, match: Match, score: Score) -> None:
    """Write the predictions of a match; the file is complete or not there."""
    seen = score.predictions
    assert seen is not None
    about = {"source": match.what.title, "model": match.model, "seed": match.seed, "labels": list(seen.labels)}
    arrays: dict[str, Any] = {"about": np.array(json.dumps(about)), "true": seen.true, "predicted": seen.predicted}
    if seen.probabilities is not None:
        arrays["probabilities"] = seen.probabilities.astype(np.float32)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    path = predictions_path(folder, match)
    files.make_folder(path.parent)
    files.write_bytes(path, buffer.getvalue(), shared=True)


def read_predictions(folder: str | Path) -> list[KeptPredictions]:
    """Return all predictions that a comparison with ``probabilities=True`` has written to its folder.

    Examples
    --------
    >>> import tempfile
    >>> from driftsurf.comparison.compare import compare
    >>> from driftsurf.comparison.inputs import Input
    >>> folder = tempfile.mkdtemp()
    >>> _ = compare(folder, [Input("sine1", rows=500, batch_size=100)], ["driftsurf", "majority"], probabilities=True)
    >>> found = {one.model: one for one in read_predictions(folder)}
    >>> mixture = np.mean([one.probabilities for one in found.values()], axis=0)
    >>> mixture.shape, bool(np.allclose(mixture.sum(axis=1), 1.0, atol=1e-6))
    ((500, 2), True)
    """
    place = Path(folder) / PROBABILITIES
    found = []
    for name in files.names(place):
        with np.load(io.BytesIO(files.read_bytes(place / name)), allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            labels = tuple(about.pop("labels"))
            shares = arrays["probabilities"] if "probabilities" in arrays.files else None
            found.append(KeptPredictions(labels, arrays["true"], arrays["predicted"], shares, **about))
    return sorted(found, key=lambda one: (one.source, one.model, one.seed))
