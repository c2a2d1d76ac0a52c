"""Read a source for a run: look at the first table in advance, count rows, and record rows that are left out."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from driftsurf.data.source import STANDARD_INPUT, AsText, BadRow, Locating, Planning, Position, Source
from driftsurf.data.tables import Table
from driftsurf.errors import BadRowError, DriftsurfError, Option, SourceError, StateError

__all__ = ["ReadTable", "SourceReader"]


PAUSE = 0.2
"""Seconds between two looks for the first rows of a live source."""


class ReadTable(NamedTuple):
    """A table as it was read from a source."""

    table: Table
    position: dict[str, Any]
    """Position of the reader after the table, as plain JSON values."""
    first_row: int
    """Number of its first row in the source, from 0."""
    origin: str
    """Where the source was after it, for messages: the file, or the topic."""


class SourceReader:
    """Tables of a source with their row numbers, and the rows that were left out as lines of JSON.

    Parameters
    ----------
    source
        Where the tables come from.
    raw
        Whether the text of a bad row is recorded.
    hidden
        Columns that are needed to read, but are not passed on.
    """

    def __init__(self, source: Source, *, raw: bool = True, hidden: Collection[str] = ()) -> None:
        self.source = source
        self.raw = raw
        self.hidden = hidden
        self.skipped: int = 0
        """Number of rows that were left out so far."""
        self.numbers: str = ""
        """Column that cannot be read as text: the target of a regression; "" if there is none."""
        self._bad: list[str] = []
        self._peeked: tuple[ReadTable, Iterator[ReadTable]] | None = None

    def peek(self) -> Table:
        """Return the first table without taking it; raise SourceError if the source has no rows."""
        if self._peeked is None:
            tables = self._read(None)
            first = next((one for one in tables if _came(one.table)), None)
            if first is None:
                raise SourceError(f"{self.source.name} has no row that can be used")
            self._peeked = first, tables
        return self._peeked[0].table

    def tables(self, position: Position = None) -> Iterator[ReadTable]:
        """Yield the tables after a position."""
        if position is None and self._peeked is not None:
            (first, rest), self._peeked = self._peeked, None
            return chain([first], rest)
        return self._read(position)

    def _read(self, position: Position) -> Iterator[ReadTable]:
        start, rows = _split_position(position)
        for table, place in self._tables(start):
            visible = table.without(*self.hidden) if self.hidden else table
            first_row, rows = rows, rows + len(table)
            yield ReadTable(visible, {"source": place, "rows": rows}, first_row, self.source.describe(place))

    def _tables(self, start: Position) -> Iterator[tuple[Table, Position]]:
        """Yield the tables of the source; an error about a number advises no text where there must be one."""
        try:
            yield from self.source.tables(start, on_skip=self._record)
        except BadRowError as error:
            message = error.args[0]
            kept = [part for part in message.parts if not (isinstance(part, AsText) and part.column == self.numbers)]
            if len(kept) == len(message.parts):
                raise
            raise BadRowError(*kept) from None

    def committed(self, position: Position) -> None:
        """Note that a checkpoint at this position is on disk."""
        if isinstance(self.source, Planning):
            self.source.committed(_split_position(position)[0])

    def place_of(self, position: Position, row: int) -> str:
        """Return where a row, counted from 0 after a position, stands: its line and file, or its number."""
        start, before = _split_position(position)
        source = self.source
        if isinstance(source, Locating) and source.seekable:
            with contextlib.suppress(DriftsurfError, OSError, StopIteration):  # the file may have changed since
                return source.place_of(start, row)
        return f"row {before + row + 1:,} of {'standard input' if source.name == STANDARD_INPUT else source.name}"

    # -------------------------------------------------------------------- bad rows

    def _record(self, bad: BadRow) -> None:
        place = {"line": bad.line} if bad.line else {}
        self.skip({"file": bad.file, **place, "reason": bad.reason}, bad.raw)

    def skip(self, record: dict[str, Any], raw: str | None = None) -> None:
        """Record that a row was left out; raise BadRowError if that is one more than allowed."""
        self.skipped += 1
        self._bad.append(json.dumps(record | ({"raw": raw} if self.raw else {}), ensure_ascii=False) + "\n")
        allowed = self.source.reading.on_bad_row
        if allowed not in ("fail", "skip") and self.skipped > int(allowed):
            place = next((f", {name} {record[name]}" for name in ("line", "row") if name in record), "")
            raise BadRowError(
                f"{self.skipped} rows could not be used, more than ",
                Option("on_bad_row", allowed),
                f"; the last one: {record['file']}{place}: ",
                record["reason"],
            )

    def bad_rows(self) -> str:
        """Return the rows left out since the last call, as lines of JSON."""
        lines, self._bad = "".join(self._bad), []
        return lines


def _came(table: Table) -> bool:
    """Return whether a table has rows, after a moment if it has none: a live source is asked again."""
    if not len(table):
        time.sleep(PAUSE)
    return len(table) > 0


def _split_position(position: Position) -> tuple[Position, int]:
    """Return the position of the source and the number of rows before it."""
    if position is None:
        return None, 0
    if not isinstance(position, Mapping) or not {"source", "rows"} <= position.keys():
        raise StateError(f"not a position of a source reader: {position!r}")
    return position["source"], int(position["rows"])
