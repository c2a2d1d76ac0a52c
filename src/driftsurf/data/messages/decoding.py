"""Messages as tables: a JSON object or a line of CSV for each row, or rows in the streaming format of Arrow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from driftsurf import registry
from driftsurf.data.arrow import messages
from driftsurf.data.formats._bytes import ByteFile
from driftsurf.data.formats._cells import date_reader
from driftsurf.data.formats._reader import RAW_LIMIT, Reader, Shape, extra
from driftsurf.data.messages.contract import BrokerMessage, Messages
from driftsurf.data.reading_options import Kind, ReadingOptions
from driftsurf.data.source import BadRow, Cells
from driftsurf.data.sources.files import first_shape
from driftsurf.data.tables import Column, Table, arrow_column, empty_column
from driftsurf.errors import DriftsurfError, OptionError

_WHOLE_ZERO = re.compile(rb"-0(?![.eE0-9])")
"""A whole number, which has no sign for the exact reader, and has one for pyarrow; or the same in text."""


def json_columns(values: Sequence[bytes], kinds: Mapping[str, Kind], reading: ReadingOptions) -> Table | None:
    """Return a table of messages, each of which is an object with no other keys than ``kinds``; None if one is unusual.

    The table is the one that :class:`~driftsurf.data.formats.jsonl.JsonLinesReader` makes.

    >>> table = json_columns([b'{"n": 1}', b'{"n": null}'], {"n": "number"}, ReadingOptions())
    >>> table is None or table["n"].values.tolist()
    [1.0, nan]
    """
    data = b"\n".join(values)
    # One object on each line: an object that ends elsewhere would need a brace inside of text or of another object.
    whole = data[:1] == b"{" and data[-1:] == b"}" and data.count(b"}\n{") == data.count(b"\n") == len(values) - 1
    if not whole or b"\r" in data or (len(data) > reading.max_row_bytes < max(map(len, values))):
        return None
    try:  # imported here, because it takes longer than everything else of a short run
        import pyarrow as pa
        from pyarrow import json as pa_json
    except ImportError:  # the exact reader does without
        return None
    types = {"number": pa.float64(), "boolean": pa.bool_(), "text": pa.string(), "date": pa.string()}
    schema = pa.schema([(name, types[kind]) for name, kind in kinds.items()])
    try:
        data.decode()  # pyarrow does not check text that it does not keep
        found = pa_json.read_json(
            pa.BufferReader(data),
            pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
        ).combine_chunks()
    except (ValueError, pa.ArrowException):
        return None
    if found.num_rows != len(values):
        return None
    if _WHOLE_ZERO.search(data):
        return None
    columns = dict[str, Column]()
    for name, kind in kinds.items():
        column = _column(found[name], kind, reading)
        if column is None:
            return None
        columns[name] = column
    return Table(columns)


def _column(found: Any, kind: Kind, reading: ReadingOptions) -> Column | None:
    chunk = found.chunk(0) if found.num_chunks else found.combine_chunks()
    if kind == "number":
        values = chunk.to_numpy(zero_copy_only=False)
        # The exact reader tells which number is too large.
        return None if np.count_nonzero(~np.isfinite(values)) != chunk.null_count else Column(kind, np.array(values))
    if kind == "boolean":
        return Column(kind, np.array(chunk.cast("float64").to_numpy(zero_copy_only=False)))
    coded = chunk.dictionary_encode()
    words = [word.strip() for word in coded.dictionary.to_pylist()]
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    if kind == "date":
        return _dates(words, codes, reading)
    return _text(words, codes, reading)


def _text(words: Sequence[str], codes: Any, reading: ReadingOptions) -> Column:
    """Return text without the words that mean a missing value, and with those that differ in blanks as one."""
    missing = frozenset(reading.missing_cells)
    known: dict[str, int] = {}
    place = [-1 if word in missing else known.setdefault(word, len(known)) for word in words]
    if place != list(range(len(words))):
        codes = np.array([*place, -1], np.int32)[codes]
    return Column("text", codes, tuple(known))


def _dates(words: Sequence[str], codes: Any, reading: ReadingOptions) -> Column | None:
    missing, read = frozenset(reading.missing_cells), date_reader(reading)
    nothing = np.datetime64("NaT", "us")
    try:
        moments = [nothing if word in missing else read(word) for word in words]
    except ValueError:
        return None
    return Column("date", np.array([*moments, nothing], "datetime64[us]")[codes])


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
    _place: dict[int, BrokerMessage] = field(default_factory=dict)

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

    def table(self, messages: Sequence[BrokerMessage]) -> tuple[Table, list[BadRow]]:
        """Return the rows of the messages that can be read, and why others cannot."""
        quick = self._read_quickly(messages)
        if quick is not None:
            return quick, []
        usable, bad = list[BrokerMessage](), list[BadRow]()
        for message in messages:
            fault = message_fault(message.value, self.format, self.reading.max_row_bytes)
            if fault:
                bad.append(self._bad(message, fault))
            else:
                usable.append(message)
        read = self._read_arrow if self.format == "arrow" else self._read_lines
        table, more = read(usable)
        return table, bad + more

    def _read_quickly(self, messages: Sequence[BrokerMessage]) -> Table | None:
        """Return the rows if all of them are usual JSON; None if they have to be looked at one by one."""
        kinds = dict(self.columns)
        usual = self.format == "jsonl" and self.reading.on_schema_change == "fail" and not self.reading.drop
        if not usual or not kinds:
            return None
        values = messages.values if isinstance(messages, Messages) else [one.value for one in messages]
        return json_columns(values, kinds, self.reading)

    # -------------------------------------------------------------------- lines

    def _read_lines(self, messages: list[BrokerMessage]) -> tuple[Table, list[BadRow]]:
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

    def _read_arrow(self, messages: list[BrokerMessage]) -> tuple[Table, list[BadRow]]:
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

    def _bad(self, message: BrokerMessage, reason: str) -> BadRow:
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
