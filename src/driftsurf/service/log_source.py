"""The log of a served model as a source: its rows with their labels, in the order in which the service joined them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from driftsurf.core import files
from driftsurf.core.options import whole
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.data.frames import read_table
from driftsurf.data.log.records import UNJOINED, ColumnKind, Record, decode, read_rows
from driftsurf.data.log.segments import filled_segments, read_records
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.data.source import BadRow, Cells, Position, is_log
from driftsurf.data.tables import Table, which_columns
from driftsurf.errors import Option, OptionError, SchemaError, SourceError, StateError
from driftsurf.registry import register
from driftsurf.service.joining import StepJoiner, StepRows
from driftsurf.service.settings import CHECKPOINTS, SETTINGS_FILE, ModelSettings

JOINED_ROWS = 1000
"""Labelled rows that are taken from the join at a time."""


class LogPosition(TypedDict):
    """Position of a :class:`LogSource`: plain values, ready for JSON."""

    file: str
    """Name of the file of the log with which reading began."""
    rows: int
    """Number of labelled rows before the position."""


@register("source", "log", schemes=(), opens=is_log)
class LogSource:
    """Rows of the log of a served model with their labels, in the order in which they became labelled.

    Labels find their rows as they did in the service: with its limits, in the time of the log. Rows without a label are
    left out. The log is only read; a service may go on writing it.

    A position is a number of labelled rows. To resume, the log is joined again from the file with which reading began,
    so the service must not have dropped that file meanwhile.

    Parameters
    ----------
    path
        The folder ``log`` of a served model.
    reading
        ``rows`` and ``drop`` are used; kinds of columns are those of the model.
    batch_size
        Number of rows in a batch.
    batch_seconds, time, follow
        Not possible here; a value other than None is an error.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        reading: ReadingOptions | None = None,
        *,
        batch_size: int | None = 1000,
        batch_seconds: float | None = None,
        time: str | None = None,
        follow: Callable[[], bool] | None = None,
    ) -> None:
        self.path: Path = Path(path)
        self.reading: ReadingOptions = ReadingOptions() if reading is None else reading
        self.batch_size: int | None = batch_size
        self._unusable = {"batch_seconds": batch_seconds, "time": time, "follow": follow}

    @property
    def name(self) -> str:
        """The folder."""
        return str(self.path)

    @property
    def cells(self) -> Cells:
        """Values have their types."""
        return "typed"

    @property
    def seekable(self) -> bool:
        """True: a log can be read again."""
        return True

    def describe(self, position: Position) -> str:
        """Return the folder."""
        return self.name

    def check(self) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        for option, value in self._unusable.items():
            if value is not None:
                raise OptionError(
                    Option(option), f" cannot be used with {self.name!r}, the log of a served model; leave it out"
                )
        if self.reading.kinds:
            raise OptionError(
                Option("kinds"), f" cannot be used with {self.name!r}: the columns of a served model have their kinds"
            )
        whole("batch_size", self.batch_size, at_least=1)
        self.reading.check()

    def tables(
        self, position: Position = None, *, on_skip: Callable[[BadRow], None] | None = None
    ) -> Iterator[tuple[Table, LogPosition]]:
        """Yield batches of labelled rows from ``position`` on, each with the position after it."""
        self.check()
        segments, start = filled_segments(self.path), 0
        if position is not None:
            begun, start = _read_position(position)
            place = next((place for place, one in enumerate(segments) if one.path.name == begun), None)
            if place is None:
                raise SourceError(
                    f"{self.name!r} no longer has the file {begun!r}, with which reading began: the service has "
                    "dropped it; start a new run, or let the service keep more with retain-bytes"
                )
            segments = segments[place:]
        if not segments:
            raise SourceError(f"{self.name!r} has no records yet; send rows and labels to the service first")
        settings = ModelSettings.from_json(files.read_text(self.path.parent / SETTINGS_FILE))
        columns = [ColumnKind(name, kind) for name, kind in settings.columns.items()]
        if not columns and segments[0].first:
            columns = self._saved_columns()
        joined = _Join(settings, tuple(columns)).tables(read_records(segments))
        return self._cut(joined, segments[0].path.name, start)

    def _saved_columns(self) -> list[ColumnKind]:
        """Return the columns that the newest checkpoint knows: the record that told them has been dropped."""
        from driftsurf.runs.explanation.records import newest_head  # most logs need no checkpoint

        about = json.loads(str(newest_head(self.path.parent / CHECKPOINTS)["about"]))
        return [ColumnKind(name, kind) for name, kind in about["columns"]]

    def _cut(self, joined: Iterator[Table], file: str, start: int) -> Iterator[tuple[Table, LogPosition]]:
        """Cut labelled rows into batches; those before number ``start`` are passed over."""
        size, most = int(self.batch_size or 0), self.reading.rows
        waiting: list[Table] = []
        passed = rows = 0
        for table in joined:
            # Rows that were yielded or wait have all been passed: after the first ones this is the whole table.
            kept = self._visible(table.rows(min(len(table), max(0, start - passed)), len(table)))
            passed += len(table)
            if most is not None:
                kept = kept.rows(0, max(0, min(len(kept), most - start - rows)))
            rows += len(kept)
            waiting.append(kept)
            if sum(map(len, waiting)) >= size:
                whole_table, at = Table.concatenate(waiting), 0
                while len(whole_table) - at >= size:
                    at += size
                    start += size
                    rows -= size
                    yield whole_table.rows(at - size, at), LogPosition(file=file, rows=start)
                waiting = [whole_table.rows(at, len(whole_table))]
            if most is not None and start + rows >= most:
                break
        if rows:
            yield Table.concatenate(waiting), LogPosition(file=file, rows=start + rows)

    def _visible(self, table: Table) -> Table:
        """Return the columns that are not dropped."""
        unknown = [name for name in self.reading.drop if name not in table.columns]
        if unknown and not self.reading.lenient:
            raise SchemaError(Option("drop"), f" names {unknown[0]!r}; {which_columns(unknown, table.columns)}")
        return table.without(*[name for name in self.reading.drop if name in table.columns])


@dataclass(slots=True)
class _Join:
    """Joins the records of a log. The join is given the numbers of rows in place of the rows."""

    settings: ModelSettings
    columns: tuple[ColumnKind, ...]
    next: int = 0
    """Number of the next row."""
    numbers: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    rows: Table | None = None
    """Rows for which something may wait, and their numbers."""

    def tables(self, parts: Iterator[list[tuple[int, bytes]]]) -> Iterator[Table]:
        """Yield the labelled rows of records, with their label as the last column."""
        asked = self.settings
        targets = RegressionTargets() if asked.task == "regression" else ClassTargets()
        joiner = StepJoiner(targets, batch_size=JOINED_ROWS, max_pending=asked.max_pending, timeout=asked.timeout)
        for part in parts:
            records: list[Record] = []
            for _, payload in part:
                record = decode(payload, self.columns)
                self.columns = record.columns or self.columns
                if record.kind not in UNJOINED:
                    records.append(record)
            yield from self._take(joiner, records)
        rest = joiner.cut_rest()
        if rest is not None:
            yield self._table(rest)

    def _take(self, joiner: StepJoiner, records: Sequence[Record]) -> Iterator[Table]:
        blocks = [record.rows for record in records if record.rows is not None]
        numbers = None
        if blocks:
            new = read_rows(blocks, self.columns)
            numbers = np.arange(self.next, self.next + len(new))
            self.next += len(new)
            self.numbers = np.concatenate([self.numbers, numbers])
            self.rows = new if self.rows is None else Table.concatenate([self.rows, new])
        for step in joiner.take(records, None if numbers is None else numbers[:, None].astype(float)):
            yield self._table(step)
        if self.rows is not None:
            needed = np.isin(self.numbers, joiner.stored[:, 0])
            self.numbers, self.rows = self.numbers[needed], self.rows.select(needed)

    def _table(self, step: StepRows) -> Table:
        assert self.rows is not None
        places = np.searchsorted(self.numbers, step.X[:, 0])
        label = self.settings.label or "label"
        columns = {name: column[places] for name, column in self.rows.columns.items()}
        return Table({**columns, **read_table({label: step.y}).columns})


def _read_position(position: Position) -> tuple[str, int]:
    """Return the file and the number of rows of a position; StateError if it is not one of a log."""
    match position:
        case {"file": str(file), "rows": int(rows)} if rows >= 0:
            return file, rows
    raise StateError(f"not a position of the log of a served model: {position!r}. Pass a position that tables() gave")
