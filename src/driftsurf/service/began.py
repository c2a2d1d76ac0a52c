"""Errors and last change of the run that a served model started from, shown until the served model has learned."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from driftsurf.core import files
from driftsurf.core.files import parse_json
from driftsurf.errors import InputError
from driftsurf.evaluation.trace import Trace
from driftsurf.runs.explanation.explain import explain_last_change
from driftsurf.runs.explanation.records import read_run
from driftsurf.service.replayed_state import AnswerErrors, ErrorFigures

FILE = "began.json"
"""File of these figures beside the model of the run."""


@dataclass(frozen=True, slots=True)
class Began:
    """Errors and last change of a finished run."""

    errors: ErrorFigures = field(default_factory=ErrorFigures)
    text: str = ""
    """The last change in words; empty if the run has no record of its decisions."""

    @classmethod
    def of_run(cls, folder: Path) -> Self:
        """Read them from the folder of a run, as far as it has them."""
        try:
            record = read_run(folder)
            text = explain_last_change(record)
        except (InputError, OSError):
            return cls()
        return cls(ErrorFigures() if record.trace is None else _errors(record.trace), text)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what ``write`` wrote; nothing is known if it was written by an earlier version."""
        try:
            saved = parse_json(files.read_text(folder / FILE))
            numbers = (math.nan if one is None else float(one) for one in saved["errors"][1:])
            return cls(ErrorFigures(int(saved["errors"][0]), *numbers), str(saved["text"]))
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            return cls()

    def write(self, folder: Path) -> None:
        """Write them into the folder of a served model."""
        errors = [one if math.isfinite(one) else None for one in self.errors]
        files.write_text(folder / FILE, json.dumps(asdict(self) | {"errors": errors}) + "\n")


def _errors(trace: Trace) -> ErrorFigures:
    """Return the errors of the last steps of a trace and of all, as those of answers are reported."""
    own, regression = trace.counted(trace.models[0]), not trace.labels
    found = AnswerErrors()
    columns = ("squared_error", "constant_error") if regression else ("errors", "majority_errors")
    for rows, error, trivial in zip(*(own[name].tolist() for name in ("rows", *columns)), strict=True):
        if rows:
            shares = (error, trivial) if regression else (error / rows, trivial / rows)
            found = found.after(rows, shares[0], {"majority": shares[1]})
    return found.figures(regression=regression)
