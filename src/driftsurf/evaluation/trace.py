"""The trace of an evaluation: one row for each step and model, in a plain CSV file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from driftsurf.errors import InputError, OptionError
from driftsurf.runtime import files
from driftsurf.streams.base import Drift

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Trace"]

COLUMNS: dict[str, type] = {
    "step": int,
    "model": str,
    "first_row": int,
    "rows": int,
    "errors": int,
    "error": float,
    "log_loss": float,
    "persistence_errors": int,
    "state": str,
    "transition": str,
    "predicted_by": int,
    "trained_from": int,
    "gradients": int,
}
"""Then ``true:LABEL``, ``predicted:LABEL`` and ``wrong:LABEL``: how often each class came, was predicted, and came but
was predicted wrongly."""
_OF_CLASSES = "errors", "error", "log_loss", "persistence_errors"
VALUE_COLUMNS: dict[str, type] = {
    **{name: kind for name, kind in COLUMNS.items() if name not in _OF_CLASSES},
    "squared_error": float,
    "absolute_error": float,
    "persistence_error": float,
    "constant_error": float,
}
"""Where values are predicted: means over the rows of a step. The last two are squared: of predicting the value before,
and of predicting the mean of all rows before the step."""
OTHER = "(other)"
"""Stands for all classes that were not known when the trace began, where more may come."""
TYPES = COLUMNS | VALUE_COLUMNS


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """What each model did at each step. Measured times are kept apart, in ``seconds``.

    Attributes
    ----------
    stream
        Name of the stream.
    batch_size
        Rows in a time step.
    drifts
        The true drifts, as rows.
    labels
        The classes; none where values are predicted.
    columns
        Arrays of equal length, in the order of step and model.
    seconds
        Time each model took; no part of the saved trace.
    untaught
        Steps at the beginning that a model predicted before it had learnt anything, and that errors do not count.
    """

    stream: str
    batch_size: int
    drifts: tuple[Drift, ...]
    labels: tuple[Any, ...]
    columns: dict[str, npt.NDArray[Any]]
    seconds: dict[str, float] = field(default_factory=dict)
    untaught: int = 0

    def __repr__(self) -> str:
        steps = len(np.unique(self.columns["step"]))
        return f"<Trace of {', '.join(self.models)} on {self.stream}: {steps} steps of {self.batch_size} rows>"

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, in the order they were given."""
        return tuple(dict.fromkeys(self.columns["model"].tolist()))

    def of(self, model: str) -> dict[str, npt.NDArray[Any]]:
        """The columns of one model, one entry a step."""
        chosen = self.columns["model"] == model
        if not chosen.any():
            raise OptionError(f"there is no model {model!r} in this trace; choices: {', '.join(self.models)}")
        return {name: column[chosen] for name, column in self.columns.items()}

    def counted(self, model: str) -> dict[str, npt.NDArray[Any]]:
        """The same without the ``untaught`` steps; all of them if there are no others."""
        run = self.of(model)
        later = {name: column[self.untaught :] for name, column in run.items()}
        return later if len(later["step"]) else run

    def to_frame(self) -> pd.DataFrame:
        """A pandas DataFrame (the extra ``pandas``)."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("Trace.to_frame needs pandas: pip install 'driftsurf[pandas]'") from error
        return pd.DataFrame(self.columns)

    def to_csv(self) -> str:
        """One line of JSON behind ``#`` (stream, batch size, drifts, labels), then a CSV table."""
        out = io.StringIO()
        out.write(csv_head(self.stream, self.batch_size, self.drifts, self.labels, self.untaught))
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*(column.tolist() for column in self.columns.values()), strict=True))
        return out.getvalue()

    @classmethod
    def from_csv(cls, text: str) -> Trace:
        """The trace that gave ``text``."""
        first, _, rest = text.partition("\n")
        try:
            head = json.loads(first.removeprefix("#"))
            table = list(csv.reader(io.StringIO(rest)))
            names, lines = table[0], table[1:]
            columns = {
                name: np.array([TYPES.get(name, int)(line[k]) for line in lines]) for k, name in enumerate(names)
            }
            drifts = tuple(Drift(**drift) for drift in head["drifts"])
            untaught = int(head.get("untaught", 0))
            return cls(head["stream"], head["batch_size"], drifts, tuple(head["labels"]), columns, untaught=untaught)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise InputError(f"this is not a trace as Trace.save writes it: {error}") from error

    def save(self, path: str | Path) -> None:
        """Write the CSV file."""
        files.write_text(Path(path), self.to_csv())

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read it back."""
        return cls.from_csv(files.read_text(Path(path)))


def csv_head(
    stream: str, batch_size: int, drifts: tuple[Drift, ...], labels: tuple[Any, ...], untaught: int = 0
) -> str:
    """The line of JSON that a saved trace begins with."""
    head = {
        "stream": stream,
        "batch_size": batch_size,
        "drifts": [asdict(drift) for drift in drifts],
        "labels": list(labels),
    }
    head |= {"untaught": untaught} if untaught else {}
    return f"# {json.dumps(head)}\n"


def csv_line(values: Iterable[Any]) -> str:
    """One line of a CSV file."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(values)
    return out.getvalue()


def column_names(labels: tuple[Any, ...]) -> list[str]:
    """The columns of a trace, in their order."""
    own = COLUMNS if labels else VALUE_COLUMNS
    return [*own, *(f"{what}:{label}" for what in ("true", "predicted", "wrong") for label in labels)]


class TraceBuilder:
    """Collects rows and makes the trace."""

    def __init__(self, labels: tuple[Any, ...]) -> None:
        self.labels = labels
        self._columns: dict[str, list[Any]] = {name: [] for name in column_names(labels)}

    def add(self, row: Mapping[str, Any]) -> None:
        """Append one row; every column must be given."""
        for name, column in self._columns.items():
            column.append(row[name])

    def build(self, stream: str, batch_size: int, drifts: tuple[Drift, ...], seconds: dict[str, float]) -> Trace:
        """The finished trace."""
        columns = {
            name: np.array(values, {int: np.int64, float: np.float64}.get(TYPES.get(name, int), np.str_))
            for name, values in self._columns.items()
        }
        return Trace(stream, batch_size, drifts, self.labels, columns, seconds)
