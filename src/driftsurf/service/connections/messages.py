"""Messages as rows of a request: read in the same way as bodies of HTTP, so that both mean the same."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from driftsurf.data.connectors.contract import Message
from driftsurf.data.connectors.decoding import message_fault, one_line
from driftsurf.errors import InputError
from driftsurf.service.connections.options import SourceOptions
from driftsurf.service.contract import Served, ServedColumn
from driftsurf.service.http.formats import Format, ModelFormats, Purpose
from driftsurf.service.wire.format import RowsRead

__all__ = ["Bad", "MessageRows"]

Bad = tuple[Message, str]
"""A message that cannot be used, and why."""
_FORMATS: dict[str, Format] = {"jsonl": "ndjson", "csv": "csv", "arrow": "arrow"}
MOST_ROWS = 1_000_000
"""Rows of one Arrow message at most."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The columns and classes that the next rows must have; they may be ahead of the newest version of the model."""

    columns: tuple[ServedColumn, ...]
    classes: tuple[Any, ...]


class MessageRows:
    """Reads the messages of a source.

    Parameters
    ----------
    options
        How messages are read.
    formats
        Readers of rows, for this source alone.
    """

    def __init__(self, options: SourceOptions, purpose: Purpose, formats: ModelFormats) -> None:
        self.purpose = purpose
        self.formats = formats
        self._format = options.format
        self._most_bytes = formats.reading.max_row_bytes
        header = io.StringIO()
        csv.writer(header, lineterminator="\n").writerow(options.names)
        self._header = header.getvalue().encode() if options.format == "csv" else b""

    def read(self, served: Served, messages: Sequence[Message]) -> tuple[RowsRead | None, list[Message], list[Bad]]:
        """Return the rows of the messages that can be read, these messages, and the others."""
        known = _Known(tuple(served.columns), tuple(served.snapshot.classes))
        try:
            return self._rows(known, messages), list(messages), []
        except InputError:
            pass
        if not known.columns:
            known = self._first_columns(known, messages)
        good, bad, seen = list[Message](), list[Bad](), set[str]()
        for one in messages:
            try:
                ids = self._rows(known, [one]).ids or []
                ids = [] if self.purpose == "learn" else ids
                _check_ids([*seen.intersection(ids), *ids])
            except InputError as error:
                bad.append((one, str(error)))
            else:
                seen.update(ids)
                good.append(one)
        if not good:
            return None, [], bad
        try:
            return self._rows(known, good), good, bad
        except InputError as error:  # each can be read, and all of them cannot
            return None, [], [*bad, *((one, str(error)) for one in good)]

    def _rows(self, known: _Known, messages: Sequence[Message]) -> RowsRead:
        fault = next((one for one in map(self._plain_fault, messages) if one), "")
        if fault:
            raise InputError(fault)
        read = self.formats.reader(known, self.purpose, _FORMATS[self._format])
        body = messages[0].value
        if self._format != "arrow":
            body = self._header + b"\n".join(one_line(one.value) for one in messages) + b"\n"
        rows = read(body, "fail", MOST_ROWS)
        if self._format != "arrow" and len(rows) != len(messages):
            raise InputError("the message is not a row")
        if not len(rows):
            raise InputError("the message has no rows")
        if self.purpose == "predict" and rows.ids is None:
            raise InputError(f"the column {self.formats.id!r} is missing; rows that are predicted need an id")
        if self.purpose != "learn":
            _check_ids(rows.ids or [])
        return rows

    def _plain_fault(self, message: Message) -> str:
        return message_fault(message.value, self._format, self._most_bytes)

    def _first_columns(self, known: _Known, messages: Sequence[Message]) -> _Known:
        """Let the first message that can be read decide the columns, if all of them together cannot be read."""
        for one in messages:
            try:
                table = self._rows(known, [one]).table
            except InputError:
                continue
            found = tuple(ServedColumn(name, column.kind) for name, column in table.columns.items())
            return _Known(found, known.classes)
        return known


def _check_ids(ids: Sequence[str]) -> None:
    """Raise InputError if an id occurs twice."""
    if len(set(ids)) < len(ids):
        seen = set[str]()
        twice = next(id for id in ids if id in seen or seen.add(id))  # type: ignore[func-returns-value]
        raise InputError(f"the id {twice!r} occurs twice in a batch; only the first is taken", value=twice)
