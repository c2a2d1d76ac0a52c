"""Options of predicting new rows, each defined once: the command line and the docs follow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from driftsurf.core.option_fields import option

__all__ = ["ALL_CLASSES", "PredictOptions"]

ALL_CLASSES: Final = "Write the probability of every class, not only of the predicted one."


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOptions:
    """Where predictions go, and which columns they have."""

    out: str | os.PathLike[str] = option(
        "-", "Write predictions to a .csv, .jsonl or .parquet file.  [default: CSV on standard output]", metavar="FILE"
    )
    overwrite: bool = option(False, "Replace an existing file.")
    id: str | None = option(
        None,
        "Column of ids, which predictions show.  [default: that of the run, if the rows have it]",
        metavar="COLUMN",
    )
    all_classes: bool = option(False, ALL_CLASSES)
    trust_config: bool = option(
        False, "Import and load a learner of another library, as run.json and model.state of RUN name it."
    )
