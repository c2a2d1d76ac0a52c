"""Where the results of a run go besides its own files: predictions, and copies of the journal and of the trace."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from driftsurf.evaluation.trace import TYPES
from driftsurf.runs.folder import JOURNAL, TRACE
from driftsurf.runs.predictions import LabelType, PredictionBatch
from driftsurf.runs.sinks import Closable, Sink

__all__ = ["JOURNAL_COLUMNS", "Outlets", "Records", "journal_records", "trace_columns"]

JOURNAL_COLUMNS: dict[str, LabelType] = {
    "row": "integer",
    "type": "text",
    "step": "integer",
    "text": "text",
    "record": "text",
}
"""Columns of a copied journal: the number of the line, and the line itself as JSON text beside its main entries."""
_KINDS: dict[type, LabelType] = {int: "integer", float: "value", str: "text"}


@dataclass(frozen=True, slots=True)
class Records:
    """Lines of the journal or of the trace, as a sink takes them."""

    first_row: int
    records: Sequence[Mapping[str, Any]]
    ids: None = None

    def __len__(self) -> int:
        return len(self.records)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one record for each line, which begins with its number."""
        for number, record in enumerate(self.records, start=self.first_row):
            yield {"row": number, **record}

    def from_row(self, row: int) -> Records:
        """Return the lines with this number and above."""
        start = max(0, row - self.first_row)
        return Records(self.first_row + start, self.records[start:]) if start else self


def trace_columns(head: str) -> dict[str, LabelType]:
    """Return the columns of a copied trace, from the text before its first line."""
    names = next(csv.reader([head.splitlines()[-1]]))
    kinds: dict[str, LabelType] = {"row": "integer"}
    return kinds | {name: _KINDS[TYPES.get(name, int)] for name in names}


def journal_records(text: str) -> list[dict[str, Any]]:
    """Return lines of a journal as records with the columns ``JOURNAL_COLUMNS``, without their numbers."""
    found = []
    for line in text.splitlines():
        record = json.loads(line)
        found.append(
            {"type": record.get("type"), "step": record.get("step"), "text": record.get("text"), "record": line}
        )
    return found


def _trace_records(columns: Mapping[str, LabelType], text: str) -> list[dict[str, Any]]:
    kinds = list(columns.items())[1:]  # without the number of the line
    return [
        {name: _value(kind, cell) for (name, kind), cell in zip(kinds, cells, strict=True)}
        for cells in csv.reader(io.StringIO(text))
    ]


def _value(kind: LabelType, cell: str) -> Any:
    if kind == "text":
        return cell
    number = float(cell) if cell else None
    return int(number) if kind == "integer" and number is not None else number


class Outlets:
    """The sinks of a run. All of them are flushed before a checkpoint counts their rows as written.

    Parameters
    ----------
    predictions
        Where predictions go; None for nowhere.
    copies
        Where lines of the journal and of the trace also go, by the name of the file.
    trace_head
        Text before the first line of the trace.
    """

    def __init__(self, predictions: Sink | None, copies: Mapping[str, Sink], trace_head: str) -> None:
        self.predictions = predictions
        self.copies = copies
        columns = trace_columns(trace_head) if TRACE in copies else {}
        self._read: dict[str, Callable[[str], list[dict[str, Any]]]] = {
            JOURNAL: journal_records,
            TRACE: lambda text: _trace_records(columns, text),
        }
        self._lines = dict.fromkeys(copies, 0)
        """Number of lines that were copied."""
        self._first = dict.fromkeys(copies, 0)
        """Lines below this number are in the sink already."""
        self._first_row = 0
        """Predictions below this number are in the sink already."""

    def begin(self) -> None:
        """Prepare for the first row."""
        for sink in self._sinks():
            sink.begin()

    def resume(self, rows: int, lines: Mapping[str, int]) -> None:
        """Prepare for a run that repeats what came after a checkpoint, which counts these rows and lines."""
        if self.predictions is not None:
            self._first_row = self.predictions.resume(rows)
        for name, sink in self.copies.items():
            self._lines[name] = lines.get(name, 0)
            self._first[name] = sink.resume(self._lines[name])

    def predicted(self, batch: PredictionBatch) -> None:
        """Write predictions, except those that the sink already has."""
        if self.predictions is not None and len(rest := batch.from_row(self._first_row)):
            self.predictions.take(rest)

    def written(self, name: str, text: str) -> None:
        """Copy lines that were written to a file, except those that the sink already has."""
        sink: Any = self.copies.get(name)
        if sink is None or not text:
            return
        records = Records(self._lines[name], self._read[name](text))
        self._lines[name] += len(records)
        if len(rest := records.from_row(self._first[name])):
            sink.take(rest)

    @property
    def lines(self) -> dict[str, int]:
        """Number of lines that were copied, by the name of the file."""
        return dict(self._lines)

    def flush(self) -> None:
        """Make everything durable; the checkpoint that follows relies on it."""
        for sink in self._sinks():
            sink.flush()

    def finish(self) -> None:
        """Close the sinks after the last batch."""
        for sink in self._sinks():
            sink.finish()

    def close(self) -> None:
        """Close the sinks of a run that failed."""
        for sink in self._sinks():
            if isinstance(sink, Closable):
                sink.close()

    def _sinks(self) -> list[Sink]:
        return [*([] if self.predictions is None else [self.predictions]), *self.copies.values()]
