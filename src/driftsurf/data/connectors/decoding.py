"""Messages as tables: a JSON object or a line of CSV for each row, or rows in the streaming format of Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from driftsurf import registry
from driftsurf.data.arrow_columns import arrow_column
from driftsurf.data.arrow_messages import messages
from driftsurf.data.connectors._json_columns import json_columns
from driftsurf.data.connectors.contract import Message, Messages
from driftsurf.data.formats._bytes import ByteFile
from driftsurf.data.formats._reader import RAW_LIMIT, Reader, Shape, extra
from driftsurf.data.kinds import Kind
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.data.source import BadRow, Cells
from driftsurf.data.sources._columns import first_shape
from driftsurf.data.tables import Table, empty_column
from driftsurf.errors import DriftsurfError, OptionError

__all__ = ["FORMATS", "MessageDecoder", "message_fault", "one_line"]

LINES = "jsonl", "csv"
"""Formats in which every message is one line."""
FORMATS = (*LINES, "arrow")


@dataclass(frozen=True)
class Lines(ByteFile):
    """Messages as the lines of a file in memory."""

    data: bytes = b""

    def blocks(self, start: int = 0) -> Iterator[bytes]:  # type: ignore[override]
        """Yield the bytes from ``start`` on."""
        yield self.data[start:]


@dataclass(slots=True)
class MessageDecoder:
    """Makes tables of messages. The columns and their kinds are those of the first messages, and never change.

    Parameters
    ----------
    name
        Name of the stream, for error messages.
    reading
        How cells are read. ``format`` is "jsonl" unless it says otherwise; CSV needs ``names``.
    """

    name: str
    reading: ReadingOptions
    shape: Shape | None = None
    """Columns; None before the first message."""
    _place: dict[int, Message] = field(default_factory=dict)

    @property
    def format(self) -> str:
        """Name of the format."""
        return self.reading.format or "jsonl"

    @property
    def cells(self) -> Cells:
        """How values arrive."""
        cells: Cells = registry.get("format", self.format).details.get("cells", "typed")
        return cells

    def check(self) -> None:
        """Raise OptionError if the messages of a stream cannot be read in this way."""
        self.reading.check()
        if self.format not in FORMATS:
            raise OptionError(f"messages must be in one of the formats {', '.join(FORMATS)}; got {self.format!r}")
        if self.format == "csv" and self.reading.names is None:
            raise OptionError("messages that are lines of CSV have no header; name their columns with --names")
        if self.reading.header:
            raise OptionError("messages that are lines of CSV have no header; leave header out")

    def fix(self, columns: Sequence[tuple[str, Kind]]) -> None:
        """Take over the columns of an earlier process."""
        self.shape = Shape(dict(columns), 0, frozenset(self.reading.drop))

    @property
    def columns(self) -> list[tuple[str, Kind]]:
        """Names and kinds of the columns, for a saved position."""
        return [] if self.shape is None else [(name, kind) for name, kind in self.shape.kinds.items() if kind]

    def table(self, messages: Sequence[Message]) -> tuple[Table, list[BadRow]]:
        """Return the rows of the messages that can be read, and why others cannot."""
        quick = self._read_quickly(messages)
        if quick is not None:
            return quick, []
        usable, bad = list[Message](), list[BadRow]()
        for message in messages:
            fault = message_fault(message.value, self.format, self.reading.max_row_bytes)
            if fault:
                bad.append(self._bad(message, fault))
            else:
                usable.append(message)
        read = self._read_arrow if self.format == "arrow" else self._read_lines
        table, more = read(usable)
        return table, bad + more

    def _read_quickly(self, messages: Sequence[Message]) -> Table | None:
        """Return the rows if all of them are usual JSON; None if they have to be looked at one by one."""
        kinds = dict(self.columns)
        usual = self.format == "jsonl" and self.reading.on_schema_change == "fail" and not self.reading.drop
        if not usual or not kinds:
            return None
        values = messages.values if isinstance(messages, Messages) else [one.value for one in messages]
        return json_columns(values, kinds, self.reading)

    # -------------------------------------------------------------------- lines

    def _read_lines(self, messages: list[Message]) -> tuple[Table, list[BadRow]]:
        lines = [one_line(one.value) for one in messages]
        reading = replace(self.reading, header=False if self.format == "csv" else None, encoding="utf-8")
        data = b"\n".join(lines) + b"\n" * bool(lines)
        entry = registry.get("format", self.format)
        reader: Reader = entry.make(Lines(self.name, self.reading.block_bytes, data=data), reading)
        found = reader.shape()
        if self.shape is None:
            if found.empty:
                return Table({}), []
            self.shape = first_shape(self.name, found, self.reading)
        parts, bad = list[Table](), list[BadRow]()
        for chunk in reader.chunks(self.shape, None, ignore_added=self.reading.on_schema_change != "fail"):
            parts.append(chunk.table)
            bad += [self._bad(messages[one.line - 1], one.reason) for one in chunk.bad]
            if chunk.error is not None:
                raise chunk.error
        return Table.concatenate(parts) if parts else self._empty(), bad

    # -------------------------------------------------------------------- Arrow

    def _read_arrow(self, messages: list[Message]) -> tuple[Table, list[BadRow]]:
        parts, bad = list[Table](), list[BadRow]()
        for message in messages:
            try:
                parts.append(self._arrow_rows(message.value))
            # Kinds of these are what pyarrow raises.
            except (DriftsurfError, OSError, ValueError, LookupError, NotImplementedError) as error:
                bad.append(self._bad(message, f"the message is no stream of Arrow with these columns: {error}"))
        return Table.concatenate(parts) if parts else self._empty(), bad

    def _arrow_rows(self, value: bytes) -> Table:
        ipc: Any = extra("pyarrow.ipc")
        if sum(one.rows for one in messages(value)) > 8 * len(value):  # a value takes one bit at least
            raise ValueError("it claims more rows than it has room for")
        found = ipc.open_stream(value).read_all()
        found.validate(full=True)  # offsets in a damaged message may point anywhere
        if len(set(found.column_names)) < found.num_columns:
            raise ValueError("two columns have the same name")
        columns = {name: arrow_column(name, found[name]) for name in found.column_names}
        if self.shape is None:
            self.shape = first_shape(self.name, Shape({name: one.kind for name, one in columns.items()}), self.reading)
        rows, kept = found.num_rows, dict[str, Any]()
        for name, kind in self.columns:
            column = columns.get(name)
            if column is None:
                column = empty_column(kind, rows)
            elif kind == "text":
                column = column.as_text()
            if column.kind != kind:
                raise ValueError(f"the column {name!r} must be a {kind}; it is a {column.kind}")
            if kind == "number" and np.isinf(column.values).any():
                raise ValueError(f"the column {name!r} holds infinity")
            kept[name] = column
        return Table(kept)

    # -------------------------------------------------------------------- both

    def _empty(self) -> Table:
        return Table({name: empty_column(kind, 0) for name, kind in self.columns})

    def _bad(self, message: Message, reason: str) -> BadRow:
        raw = message.value[:RAW_LIMIT].decode("utf-8", "backslashreplace")
        return BadRow(f"{self.name}, {message.place}", 0, reason, raw)


def message_fault(value: bytes, format: str, most_bytes: int) -> str:
    """Return why a message is no row whatever its columns are; "" if it may be one."""
    if not value.strip():
        return "the message is empty"
    if len(value) > most_bytes and format in LINES:
        return f"the message is longer than {most_bytes} bytes; allow more with --max-row-bytes"
    if format == "csv" and b"\n" in value.strip():
        return "the message has several lines; send one row in each message"
    return ""


def one_line(value: bytes) -> bytes:
    """Return a message as one line: a line end inside of JSON is white space, since text cannot hold one."""
    return value.strip().replace(b"\r", b" ").replace(b"\n", b" ")
