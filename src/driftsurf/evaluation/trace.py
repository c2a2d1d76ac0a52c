"""The trace of an evaluation: one row for each step and model, saved as a CSV file."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from driftsurf import registry
from driftsurf.core import files
from driftsurf.core.decisions import Decision
from driftsurf.core.drifts import Drifts, InputChanges
from driftsurf.core.files import parse_json
from driftsurf.core.frames import new_frame
from driftsurf.core.input import listed
from driftsurf.errors import InputError, OptionError
from driftsurf.streams.base import DriftSpan

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class StepMap:
    """Finds the step of a row, of a decision and of an order.

    Places are numbers of steps with a fraction: 3.5 is the middle of the rows of step 3.

    Examples
    --------
    >>> steps = StepMap(first_row=np.array([0, 10, 40]), rows=np.array([10, 30, 5]))
    >>> steps.of_row(10), steps.of_row(25), steps.of_row(45)
    (1.0, 1.5, 3.0)
    """

    first_row: npt.NDArray[Any]
    """The first row of each step."""
    rows: npt.NDArray[Any]
    """The number of rows of each step."""
    last_decision: npt.NDArray[Any] | None = None
    """The number of the last decision made up to each step, where the run recorded it. A model may learn fewer rows
    than are scored, or other ones: one that is pinned, or whose labels come late. Then rows do not tell the step."""
    decisions: npt.NDArray[Any] | None = None
    """How many decisions were made since the step before, where the run recorded it."""
    taken: npt.NDArray[Any] | None = None
    """The number of the batch that each step scored, where the run recorded it: a batch without labels has no step."""

    @classmethod
    def of(cls, columns: Mapping[str, npt.NDArray[Any]]) -> StepMap:
        """Return the map for the columns of one model of a trace."""
        return cls(columns["first_row"], columns["rows"])

    def of_row(self, row: float) -> float:
        """Return the place of a row; that of a row after the last one is the number of steps."""
        step = int(np.searchsorted(self.first_row, row, side="right")) - 1
        step = min(max(step, 0), len(self.first_row) - 1)
        share = (row - self.first_row[step]) / max(int(self.rows[step]), 1)
        return float(step + min(max(share, 0.0), 1.0))

    def of_batch(self, number: float) -> float:
        """Return the place of a batch of the run, counted from 0."""
        return number if self.taken is None else float(np.searchsorted(self.taken, number))

    def of_decision(self, decision: Decision) -> float:
        """Return the place at which a decision was made."""
        return self._span(decision)[0]

    def around(self, first: Decision, last: Decision) -> tuple[float, float]:
        """Return where the span of two decisions begins and ends: half a decision before and after them."""
        (start, wide), (stop, wide_too) = self._span(first), self._span(last)
        return start - wide / 2, stop + wide_too / 2

    def places(self, decisions: Sequence[Decision]) -> dict[int, float]:
        """Return the place of each decision, by its number."""
        return {decision.step: self.of_decision(decision) for decision in decisions}

    def _span(self, decision: Decision) -> tuple[float, float]:
        """Return the place of a decision, and the number of steps that it is about."""
        last = self.last_decision
        if last is None or self.decisions is None:
            start = self.of_row(decision.first_row)
            return start, self.of_row(decision.rows_seen) - start
        step = min(int(np.searchsorted(last, decision.step)), len(last) - 1)
        made = max(int(self.decisions[step]), 1)
        place = decision.step - (int(last[step]) - made + 1)
        return step + min(max(place, 0), made) / made, 1.0 / made


Timed = TypeVar("Timed", Drifts, InputChanges)


COLUMNS: dict[str, type] = {
    "step": int,
    "model": str,
    "first_row": int,
    "rows": int,
    "errors": int,
    "error": float,
    "log_loss": float,
    "majority_errors": int,
    "persistence_errors": int,
    "state": str,
    "transition": str,
    "predicted_by": int,
    "trained_from": int,
    "gradients": int,
}
"""Columns of a classification trace, with their types. For each class there are three more: ``true:LABEL`` counts its
rows, ``predicted:LABEL`` the rows predicted as it, ``wrong:LABEL`` its rows that were predicted wrongly."""
PER_CLASS = "true", "predicted", "wrong"
"""Prefixes of the columns that each class has in a trace."""
_CLASSIFICATION_ONLY = "errors", "error", "log_loss", "majority_errors", "persistence_errors"
REGRESSION_COLUMNS: dict[str, type] = {
    **{name: kind for name, kind in COLUMNS.items() if name not in _CLASSIFICATION_ONLY},
    "squared_error": float,
    "absolute_error": float,
    "persistence_error": float,
    "constant_error": float,
}
"""Columns of a regression trace, with their types. Errors are means over the rows of a step. The last two are squared
errors of trivial predictions: the target of the row before, and the mean target of all rows before the step."""
OTHER = "(other)"
"""Label under which classes are counted together: those beyond the ones that are counted one by one, and a class of
this name. As the last label of a new trace it says that more classes may appear."""
LATER = "later_classes"
"""Column of a saved trace to which classes may be added: the counts of the classes that were not known when the trace
began, as a JSON list of ``[label, true, predicted, wrong]``; empty in steps without them."""
TIME = "time"
"""Column with the time of the first row of each step in ISO format, in traces of rows that have a time."""
LATE_COLUMNS = "learned", "oldest_version", "newest_version"
"""Columns of traces whose labels came late: the number of rows that a step learned, while ``rows`` counts those that
had a prediction; and how many time steps the oldest and the newest of the models that predicted them had learned, -1 if
there is none."""
ESTIMATE_COLUMNS = "estimated_error", "estimated_low", "estimated_high"
"""Columns with the error as it was estimated before the labels came, and the ends of its interval, in traces of runs
that estimate it. Steps of few rows are estimated together, at the last of them; NaN at the others."""
TYPES = COLUMNS | REGRESSION_COLUMNS | {TIME: str, LATER: str} | dict.fromkeys(ESTIMATE_COLUMNS, float)
LaterClasses: TypeAlias = Sequence[tuple[Any, int, int, int]]
"""Counts of the classes that appeared later, for one step: label, rows, rows predicted as it, wrong rows."""
KIND_SEPARATOR = "+"
"""Stands between the kinds of several transitions of one step in the column ``transition``."""


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """What each model did at each step.

    Everything but ``seconds`` is reproducible: the same evaluation gives the same trace to the last bit.

    Attributes
    ----------
    stream
        Name of the stream.
    batch_size
        Rows in a time step.
    drifts
        The true drifts, as row positions; empty if they are not known.
    labels
        The classes; empty for regression.
    columns
        Arrays of equal length, ordered by step and then by model.
    seconds
        Measured time of each model; not saved with the trace.
    warmup_steps
        Steps at the beginning that were predicted before anything was learned; mean errors leave them out.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier, prequential
    >>> from driftsurf.streams import Mixed
    >>> trace = prequential(Mixed(n_rows=20_000), DriftSurfClassifier(random_state=0), batch_size=250)
    >>> trace
    <Trace of model on Mixed: 80 steps of 250 rows>
    >>> trace.of("model")["error"][:4].round(2)
    array([0.5 , 0.24, 0.18, 0.16])
    >>> [step for step, kinds in enumerate(trace.transitions("model")) if "switched" in kinds]
    [16, 20, 37, 51, 67]
    """

    stream: str
    batch_size: int
    drifts: tuple[DriftSpan, ...]
    labels: tuple[Any, ...]
    columns: dict[str, npt.NDArray[Any]]
    seconds: dict[str, float] = field(default_factory=dict)
    warmup_steps: int = 0

    def __repr__(self) -> str:
        steps = len(np.unique(self.columns["step"]))
        return f"<Trace of {', '.join(self.models)} on {self.stream}: {steps} steps of {self.batch_size} rows>"

    def _repr_html_(self) -> str:
        """Return the trace as HTML, for notebooks: a curve, and a table of the models."""
        text: str = registry.get("page", "trace-html").make(self)
        return text

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the error of each model at each step with matplotlib (extra ``figures``), on ``ax`` or a new figure."""
        axes: Axes = registry.get("page", "plot").make(self, ax)
        return axes

    @property
    def is_empty(self) -> bool:
        """Whether no row was scored. Where labels come late, there may be steps all the same."""
        return not (self.models and self.columns["rows"].any())

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, in the order in which they were given."""
        return tuple(dict.fromkeys(self.columns["model"].tolist()))

    def of(self, model: str) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of one model, with one entry for each step."""
        chosen = self.columns["model"] == model
        if not chosen.any():
            raise OptionError(f"the trace has no model {model!r}; choices: {', '.join(self.models)}")
        return {name: column[chosen] for name, column in self.columns.items()}

    def counted(self, model: str) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of one model without the warm-up steps; with them if there are no other steps."""
        run = self.of(model)
        later = {name: column[self.warmup_steps :] for name, column in run.items()}
        return later if len(later["step"]) else run

    def learned(self, model: str) -> npt.NDArray[Any]:
        """Return how many rows each step of a model learned; where labels come with their rows, those it scored."""
        run = self.of(model)
        return run[LATE_COLUMNS[0]] if LATE_COLUMNS[0] in run else run["rows"]

    def gradients_per_row(self, model: str) -> float:
        """Return the gradients of a model per row that it learned; NaN if it learned none."""
        rows = int(self.learned(model).sum())
        return int(self.of(model)["gradients"].sum()) / rows if rows else math.nan

    def late_predictors(self, model: str) -> dict[int, int] | None:
        """Return the model that predicted most rows of each step, if labels came late; None if they did not.

        Then a step was learned after its rows had been predicted, maybe by an earlier model than the one in use.
        """
        if LATE_COLUMNS[0] not in self.columns:
            return None
        run = self.of(model)
        return dict(zip(run["step"].tolist(), run["predicted_by"].tolist(), strict=True))

    def transitions(self, model: str) -> tuple[tuple[str, ...], ...]:
        """Return the kinds of the transitions of one model, a tuple for each step."""
        column = self.of(model)["transition"].tolist()
        return tuple(tuple(kinds.split(KIND_SEPARATOR)) if kinds else () for kinds in column)

    def times(self, model: str) -> npt.NDArray[np.datetime64] | None:
        """Return when each step of a model began; None if that is not known, or if times go back."""
        if TIME not in self.columns or "" in (written := self.of(model)[TIME]).tolist():
            return None
        found = written.astype("datetime64[s]")
        return None if np.any(np.diff(found) < np.timedelta64(0, "s")) else found

    def time_texts(self, model: str) -> list[str]:
        """Return when each step of a model began, as exactly as it is known; empty if ``times`` returns None."""
        times = self.times(model)
        if times is None:
            return []
        units = "datetime64[D]", "datetime64[m]"
        shown = next((times.astype(unit) for unit in units if (times == times.astype(unit)).all()), times)
        return [text.replace("T", " ") for text in shown.astype(str).tolist()]

    def timed(self, events: Timed, model: str) -> Timed:
        """Return drifts or moves of the inputs with the time of the step that each began in, if steps have times.

        Steps of late labels have the time at which labels came, not that of their rows: then events have no time.
        """
        late = LATE_COLUMNS[0] in self.columns
        texts = self.time_texts(model) if len(events) and not late else []
        if not texts:
            return events
        columns = self.of(model)
        ends = columns["first_row"] + columns["rows"]
        places = [min(int(np.searchsorted(ends, one.row, side="right")), len(ends) - 1) for one in events]
        first = max(0, int(columns["first_row"][0]))  # the first steps may have been removed, or be of an earlier run
        return events.with_times(
            texts[place] if one.row >= first else one.time for one, place in zip(events, places, strict=True)
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the columns as a pandas DataFrame; needs the extra ``pandas``."""
        return new_frame(self.columns, "Trace.to_frame")

    def to_csv(self) -> str:
        """Return the trace as text: a comment line with JSON (stream, batch size, drifts, labels), then a CSV table."""
        out = io.StringIO()
        out.write(csv_head(self.stream, self.batch_size, self.drifts, self.labels, self.warmup_steps))
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*(column.tolist() for column in self.columns.values()), strict=True))
        return out.getvalue()

    @classmethod
    def from_csv(cls, text: str) -> Trace:
        """Read a trace that :meth:`to_csv` wrote."""
        first, _, rest = text.partition("\n")
        try:
            head = parse_json(first.removeprefix("#"))
            table = list(csv.reader(io.StringIO(rest)))
            names, lines = table[0], table[1:]
            columns = {
                name: np.array([TYPES.get(name, int)(line[k]) for line in lines]) for k, name in enumerate(names)
            }
            labels = tuple(head["labels"])
            if LATER in columns:
                later = [parse_json(cell) if cell else [] for cell in columns.pop(LATER).tolist()]
                labels, columns = _with_later_classes(labels, columns, later)
            drifts = tuple(DriftSpan(**drift) for drift in head["drifts"])
            begun = int(columns["step"][0]) if lines else 0  # of a trace whose first steps were removed
            warmup_steps = max(0, int(head.get("warmup_steps", 0)) - begun)
            trace = cls(head["stream"], head["batch_size"], drifts, labels, columns, warmup_steps=warmup_steps)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise InputError(f"the text is not a trace that Trace.save wrote: {error}") from error
        missing = [name for name in _own_columns(labels) if name not in columns]
        if missing:
            raise InputError(
                f"the trace has no column {listed(missing)}: an older version of driftsurf wrote it; run it again"
            )
        return trace

    def save(self, path: str | Path) -> None:
        """Write the trace to a CSV file."""
        files.write_text(Path(path), self.to_csv(), shared=True)

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a trace that :meth:`save` wrote."""
        return cls.from_csv(files.read_text(Path(path)))


def csv_head(
    stream: str, batch_size: int, drifts: tuple[DriftSpan, ...], labels: tuple[Any, ...], warmup_steps: int = 0
) -> str:
    """Return the comment line that a saved trace begins with."""
    head = {
        "stream": stream,
        "batch_size": batch_size,
        "drifts": [asdict(drift) for drift in drifts],
        "labels": list(labels),
    }
    head |= {"warmup_steps": warmup_steps} if warmup_steps else {}
    return f"# {json.dumps(head)}\n"


def column_names(
    labels: tuple[Any, ...], *, timed: bool = False, late: bool = False, estimated: bool = False
) -> list[str]:
    """Return the names of the columns of a trace, in their order.

    ``timed`` if its steps have a time, ``late`` if labels came late, ``estimated`` if the error was estimated.
    """
    named = [label for label in labels if label != OTHER]
    by_class = [f"{what}:{label}" for what in PER_CLASS for label in named]
    beside = [*LATE_COLUMNS * late, *ESTIMATE_COLUMNS * estimated, *[TIME] * timed]
    return [*_own_columns(labels), *beside, *by_class, *[LATER] * (len(named) < len(labels))]


def _own_columns(labels: tuple[Any, ...]) -> Mapping[str, type]:
    """Return the columns that every trace of these labels has, with their types."""
    return COLUMNS if labels else REGRESSION_COLUMNS


def open_labels(known: Iterable[Any]) -> tuple[Any, ...]:
    """Return the labels of a trace that begins with these classes, and to which classes may be added.

    >>> open_labels(["no", "(other)", "yes"])
    ('no', 'yes', '(other)')
    """
    return *(label for label in known if label != OTHER), OTHER


def _with_later_classes(
    labels: tuple[Any, ...], columns: dict[str, npt.NDArray[Any]], later: Sequence[LaterClasses]
) -> tuple[tuple[Any, ...], dict[str, npt.NDArray[Any]]]:
    """Return all classes of a trace in order, and its columns with those of the classes that appeared later."""
    named, found = open_labels(labels)[:-1], {label for cell in later for label, *_ in cell}
    counts = {label: np.zeros((len(later), len(PER_CLASS)), np.int64) for label in found}
    for line, cell in enumerate(later):
        for label, *numbers in cell:
            counts[label][line] += numbers
    every = (*sorted((*named, *found - {OTHER})), *[OTHER] * (OTHER in found or not (named or found)))
    rows = len(columns["step"])
    for place, what in enumerate(PER_CLASS):
        for label in every:
            known = columns.pop(f"{what}:{label}", None)  # taken out and put back, so that columns are in order
            own = counts[label][:, place] if label in counts else np.zeros(rows, np.int64)
            columns[f"{what}:{label}"] = own if known is None else known
    return every, columns


class TraceBuilder:
    """Collect rows and make a trace of them."""

    def __init__(self, labels: tuple[Any, ...]) -> None:
        self.labels = labels
        self._columns: dict[str, list[Any]] = {name: [] for name in column_names(labels)}

    def add(self, row: Mapping[str, Any]) -> None:
        """Append one row, which must have every column."""
        for name, column in self._columns.items():
            column.append(row[name])

    def build(self, stream: str, batch_size: int, drifts: tuple[DriftSpan, ...], seconds: dict[str, float]) -> Trace:
        """Return the finished trace."""
        columns = {
            name: np.array(values, {int: np.int64, float: np.float64}.get(TYPES.get(name, int), np.str_))
            for name, values in self._columns.items()
            if name != LATER
        }
        labels = self.labels
        if LATER in self._columns:
            labels, columns = _with_later_classes(labels, columns, self._columns[LATER])
        return Trace(stream, batch_size, drifts, labels, columns, seconds)
