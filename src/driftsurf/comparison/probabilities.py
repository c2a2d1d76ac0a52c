"""Predictions of every match, row by row, in files: mixtures of models can be evaluated without running them again."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf.comparison.matches import Match, Predictions, Score
from driftsurf.core import files

__all__ = ["FOLDER", "KeptPredictions", "keep", "kept_path", "read_predictions"]

FOLDER = "probabilities"
"""Folder of these files in that of a comparison."""


@dataclass(frozen=True, eq=False)
class KeptPredictions(Predictions):
    """Predictions of one model on one source with one seed, each made before its row was learned."""

    source: str
    model: str
    seed: int


def kept_path(folder: Path, match: Match) -> Path:
    """Return the file of a match in the folder of a comparison."""
    name = hashlib.sha256(json.dumps(asdict(match)).encode()).hexdigest()[:16]
    return folder / FOLDER / f"{name}.npz"


def keep(folder: Path, match: Match, score: Score) -> None:
    """Write the predictions of a match; the file is complete or not there."""
    seen = score.predictions
    assert seen is not None
    about = {"source": match.what.title, "model": match.model, "seed": match.seed, "labels": list(seen.labels)}
    arrays: dict[str, Any] = {"about": np.array(json.dumps(about)), "true": seen.true, "predicted": seen.predicted}
    if seen.probabilities is not None:
        arrays["probabilities"] = seen.probabilities.astype(np.float32)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    path = kept_path(folder, match)
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
    place = Path(folder) / FOLDER
    found = []
    for name in files.names(place):
        with np.load(io.BytesIO(files.read_bytes(place / name)), allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            labels = tuple(about.pop("labels"))
            shares = arrays["probabilities"] if "probabilities" in arrays.files else None
            found.append(KeptPredictions(labels, arrays["true"], arrays["predicted"], shares, **about))
    return sorted(found, key=lambda one: (one.source, one.model, one.seed))
