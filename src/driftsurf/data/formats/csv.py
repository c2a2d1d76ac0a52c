"""CSV, TSV and other delimited text. ``CsvReader._convert`` is where cells become numbers."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.data.formats._bytes import COMPRESSION_ENDINGS, UTF8, ByteFile, can_decode
from driftsurf.data.formats._cells import cell_reader, infer_kind, suggest_number_options
from driftsurf.data.formats._reader import PYARROW, Mark, Shape, extra
from driftsurf.data.formats._text import (
    Parsed,
    Records,
    TextReader,
    automatic_names,
    complete_names,
    find_records,
    given_names,
    looks_like_data,
    no_header_remark,
    trim_cells,
)
from driftsurf.data.reading_options import Kind, ReadingOptions
from driftsurf.data.source import Misfit
from driftsurf.data.tables import Column, Table, arrow_column, empty_column
from driftsurf.errors import Option, SourceError
from driftsurf.registry import register

DELIMITERS = ",;\t|"
HEAD_COMMENT = "#"
"""Lines before the header that begin with it are comments, whatever the options say."""
PROBED_ROWS = 20
"""Lines that decide between delimiters, the header included."""
COLUMNS_AT_A_TIME = 2_000
"""Columns that pyarrow converts at a time."""
_SEPARATOR_LINE = re.compile(rb"sep=([,;\t|])\r?\n?")


@register("format", "csv", endings=(".csv", ".tsv", ".txt"), streamed=True, cells="text", **PYARROW)
class CsvReader(TextReader):
    """Delimited text with a header line, quoted as in RFC 4180. Blanks around cells do not count, quoted or not.

    Records are found by a compiled loop, which knows the line of each and what is wrong with it. pyarrow converts the
    cells of the valid records to values, many rows at a time. If it refuses a cell, the records are halved until the
    bad ones stand alone, so that the same rule decides about a row whatever stands beside it.
    """

    def __init__(self, file: ByteFile, reading: ReadingOptions) -> None:
        super().__init__(file, reading)
        self._arrow: Any = extra("pyarrow")
        self._csv: Any = extra("pyarrow.csv")
        self._null_values = list(reading.missing_cells)
        self._names: list[str] = []
        self._comment = reading.comment
        self._zoned: set[str] = set()
        # pyarrow does not know thousands separators, and its strptime reads 30 February as 2 March.
        needs_own_reader: dict[Kind, object] = {"number": reading.thousands, "date": reading.date_formats}
        self._own_readers = {kind: cell_reader(kind, reading) for kind, needed in needs_own_reader.items() if needed}

    def split(self, data: bytes, *, final: bool) -> Records:
        """Return the complete records of ``data``; a record is a line unless a quoted cell holds a line end."""
        return find_records(data, self._delimiter, final=final, limit=self.reading.max_row_bytes, comment=self._comment)

    # -------------------------------------------------------------------- the head

    def read_head(self) -> tuple[Mark, Shape]:
        """Read the header line, if there is one, and infer the kinds from the first rows."""
        body, announced = self._separator_line(self._body)
        body, remarked = self._head_comments(body)
        self._delimiter = self.reading.delimiter or announced or self._most_frequent_delimiter(body)
        first = self.head_records(body, 1)
        if not len(first):
            raise SourceError(f"{self.file.name} is empty: it has no header line")
        rows = Mark(body.offset + int(first.ends[0]), body.line + int(first.lines[0]))
        sample = self.head_records(rows, self.sample_rows)
        end = rows.offset + (int(sample.ends[-1]) if len(sample) else 0)
        self.decide_encoding(self._head[:end])
        if self.reading.header is False or (self.reading.names is not None and self.reading.header is None):
            return self._without_header(body, int(first.cells[0]))
        if first.faults[0]:
            raise SourceError(f"{self.file.name}, line {body.line}: {first.reasons()[0]}")
        cells = self._aligned(self._header_cells(first[0], body.line), sample)
        self._names = automatic_names(len(cells))
        columns = self._text_columns(sample)
        kinds = self._kinds(columns)
        asked_for = {*self.reading.drop, *self.reading.kinds, *self.reading.categorical}
        undecided = self.reading.header is None and not asked_for.intersection(cells)
        if undecided and looks_like_data(cells, list(columns.values()), list(kinds.values()), self.reading):
            commented = self._commented_names(remarked)
            if commented is None:
                self.remarks.append(no_header_remark(self.file.name, self._names))
                return self._without_header(body, len(cells))
            cells, rows, sample = commented, body, self.head_records(body, self.sample_rows)
            kinds = self._kinds(self._text_columns(sample))
        names = given_names(self.reading, len(cells), self.file.name)
        if names is None:
            names, remarks = complete_names(cells, self.file.name)
            self.remarks.extend(remarks)
        self._zoned = {name for name, automatic in zip(names, self._names, strict=True) if automatic in self._zoned}
        self._names = names
        return rows, Shape(dict(zip(names, kinds.values(), strict=True)), empty=not len(sample))

    def _without_header(self, body: Mark, width: int) -> tuple[Mark, Shape]:
        self._names = given_names(self.reading, width, self.file.name) or automatic_names(width)
        self._zoned.clear()
        sample = self.head_records(body, self.sample_rows)
        return body, Shape(self._kinds(self._text_columns(sample)), empty=not len(sample))

    def _aligned(self, cells: list[str], sample: Records) -> list[str]:
        """Return the header with an empty name if every row has one cell more: R writes the names of rows so."""
        if not len(sample) or not (sample.cells == len(cells) + 1).all():
            return cells
        delimiter = self._delimiter.encode()
        if all(sample[i].rstrip().endswith(delimiter) for i in range(len(sample))):
            return [*cells, ""]
        # Names of rows occur once; others are cells with a delimiter in them that are not quoted, such as 1,5.
        names = {sample[i].partition(delimiter)[0].strip() for i in range(len(sample))}
        return ["", *cells] if len(names) == len(sample) else cells

    def _header_cells(self, record: bytes, line: int) -> list[str]:
        try:
            text = trim_cells(record, self._delimiter).decode(self.encoding)
            return next(csv.reader([text], delimiter=self._delimiter))
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{self.file.name}, line {line}: the header is not encoded in {self.encoding}; try ",
                Option("encoding", "cp1252"),
            ) from error
        except csv.Error as error:
            raise SourceError(f"{self.file.name}, line {line}: the header cannot be read ({error})") from error

    def _head_comments(self, body: Mark) -> tuple[Mark, bytes]:
        """Return the place after the comments at the top of the file, and the last of them."""
        last = b""
        while True:
            self._comment = HEAD_COMMENT
            after = self._next_row(body)
            self._comment = self.reading.comment
            found = _last_line(self._head[body.offset : after.offset])
            if not found.startswith(HEAD_COMMENT.encode()):
                return body, last
            body, last = self._next_row(after), found

    def _next_row(self, start: Mark) -> Mark:
        """Return the place of the next line that is neither blank nor a comment; of the last line, if all are."""
        first = self.head_records(start, 1)
        rest = self._head[start.offset :]
        passed = rest[: int(first.starts[0])] if len(first) else rest[: rest.rfind(_last_line(rest))]
        lines = passed.count(b"\n") + passed.count(b"\r") - passed.count(b"\r\n")
        return Mark(start.offset + len(passed), start.line + lines)

    def _commented_names(self, comment: bytes) -> list[str] | None:
        """Return the names of columns in the comment above the first row, as NumPy writes them; None if it has none."""
        line = comment.lstrip(HEAD_COMMENT.encode())
        found = find_records(line, self._delimiter, final=True)
        if len(found) != 1 or found.faults[0] or found.cells[0] != len(self._names):
            return None
        return self._header_cells(line, 1)

    def _separator_line(self, body: Mark) -> tuple[Mark, str | None]:
        """Return the delimiter of a first line ``sep=;``, as Excel writes it, and the place after that line."""
        self._delimiter = ","
        first = self.head_records(body, 1)
        found = _SEPARATOR_LINE.fullmatch(first[0]) if len(first) else None
        if found is None:
            return body, None
        return Mark(body.offset + int(first.ends[0]), body.line + 1), found[1].decode()

    def _most_frequent_delimiter(self, body: Mark) -> str:
        path = PurePath(self.file.path.lower())
        if (path.with_suffix("") if path.suffix in COMPRESSION_ENDINGS else path).suffix == ".tsv":
            return "\t"
        first = self.head_records(body, 1)
        line = re.sub(rb'"[^"]*"', b"", first[0]).decode("latin-1") if len(first) else ""
        likely = sorted((one for one in DELIMITERS if one in line), key=line.count, reverse=True)
        return next((one for one in likely if self._cuts_alike(body, one)), likely[0] if likely else DELIMITERS[0])

    def _cuts_alike(self, body: Mark, delimiter: str) -> bool:
        """Whether the first rows have as many cells as the header with this delimiter, or one more as R writes them."""
        self._delimiter = delimiter
        found = self.head_records(body, PROBED_ROWS)
        widths = set((found.cells[1:] - found.cells[0]).tolist())
        return len(widths) <= 1 and widths <= {0, 1}

    def _text_columns(self, sample: Records) -> dict[str, list[str | None]]:
        """Return the cells of each column, without rows that cannot be read; None for a missing cell."""
        valid, _ = self._valid(sample)
        kept = sample.take(valid)
        if not len(kept):
            return {name: [] for name in self._names}
        found = self._arrow_table(kept, dict.fromkeys(self._names, self._arrow.string()))
        cells = (column.to_pylist() for column in found.columns)
        return {
            name: [None if cell is None else cell.strip() for cell in own]
            for name, own in zip(self._names, cells, strict=True)
        }

    def _kinds(self, columns: Mapping[str, list[str | None]]) -> dict[str, Kind | None]:
        kinds: dict[str, Kind | None] = {}
        for name, cells in columns.items():
            kinds[name] = infer_kind(cells, self.reading)
            if kinds[name] == "date" and any(map(_has_zone, {cell for cell in cells if cell})):
                self._zoned.add(name)
        return kinds

    # -------------------------------------------------------------------- rows

    def parse(self, records: Records, wanted: Shape, *, ignore_added: bool) -> Parsed:
        """Return valid records as a table, and the reasons why others are not rows."""
        valid, reasons = self._valid(records)
        present = set(self._names)
        kinds = {name: kind for name, kind in wanted.kinds.items() if name in present and kind is not None}
        parts: list[tuple[npt.NDArray[np.int64], dict[str, Column]]] = []
        self._convert_or_halve(records, valid, kinds, parts, reasons)
        rows = np.concatenate([part[0] for part in parts]) if parts else np.zeros(0, np.int64)
        tables = [Table(columns) for _, columns in parts if columns]
        table = Table.concatenate(tables) if tables else Table({n: empty_column(k, 0) for n, k in kinds.items()})
        columns = dict(table.columns)
        for name, kind in wanted.kinds.items():
            if name not in columns and kind is not None:
                columns[name] = empty_column(kind, len(rows))
        return Parsed(Table({name: columns[name] for name in wanted.kinds}), rows, reasons)

    def _valid(self, records: Records) -> tuple[npt.NDArray[np.int64], dict[int, str]]:
        """Return the places of records with the right number of cells in the right encoding; why others are bad."""
        width = len(self._names)
        reasons = records.reasons()
        for place in np.flatnonzero((records.faults == 0) & (records.cells != width)).tolist():
            reasons[place] = f"the row has the wrong number of cells: {records.cells[place]} instead of {width}"
        if not can_decode(records.data, self.encoding):
            for place in range(len(records)):
                if place not in reasons and not can_decode(records[place], self.encoding):
                    reasons[place] = self.wrong_encoding()
        valid = np.ones(len(records), bool)
        valid[list(reasons)] = False
        return np.flatnonzero(valid), reasons

    def _convert_or_halve(
        self,
        records: Records,
        places: npt.NDArray[np.int64],
        kinds: dict[str, Kind],
        parts: list[tuple[npt.NDArray[np.int64], dict[str, Column]]],
        reasons: dict[int, str],
    ) -> None:
        """Convert the records at ``places`` and append them to ``parts``; find bad ones by halving."""
        if not len(places):
            return
        try:
            columns = self._values(records.take(places), kinds)
        except ValueError:  # pyarrow's ArrowInvalid is a ValueError
            if len(places) > 1:
                middle = len(places) // 2
                self._convert_or_halve(records, places[:middle], kinds, parts, reasons)
                self._convert_or_halve(records, places[middle:], kinds, parts, reasons)
            else:
                reasons[int(places[0])] = self._reason(records.take(places), kinds)
            return
        infinite = np.zeros(len(places), bool)
        for name, column in columns.items():
            # A sum would tell faster, but it can overflow where no number is infinite.
            if column.kind == "number" and (beyond := np.isinf(column.values)).any():
                for row in np.flatnonzero(beyond & ~infinite).tolist():
                    infinite[row] = True
                    reasons[int(places[row])] = f"the number in column {name!r} is infinite or too large"
        if infinite.any():
            places = places[~infinite]
            columns = {name: column[~infinite] for name, column in columns.items()}
        parts.append((places, columns))

    def _values(self, records: Records, kinds: dict[str, Kind]) -> dict[str, Column]:
        """Return the columns of ``kinds``; raise ValueError if a cell does not fit its kind."""
        try:
            return self._convert(records, kinds, self._own_readers)
        except ValueError:
            if "date" in self._own_readers or "date" not in kinds.values():
                raise
            # pyarrow wants a time zone in all cells of a column or in none.
            return self._convert(records, kinds, self._own_readers | {"date": cell_reader("date", self.reading)})

    def _convert(
        self, records: Records, kinds: dict[str, Kind], own_readers: Mapping[Kind, Callable[[str], Any]]
    ) -> dict[str, Column]:
        """Convert cells with pyarrow; cells of a kind in ``own_readers`` are read by that function instead."""
        if not kinds or not len(records):
            return {name: empty_column(kind, 0) for name, kind in kinds.items()}
        pa = self._arrow
        types: dict[Kind, Any] = {
            "number": pa.float64(),
            "boolean": pa.bool_(),
            "date": pa.timestamp("us"),
            "text": pa.dictionary(pa.int32(), pa.string()),
        }
        types |= dict.fromkeys(own_readers, types["text"])
        zoned = types["date"] if "date" in own_readers else pa.timestamp("us", "UTC")
        table = self._arrow_table(
            records, {n: zoned if k == "date" and n in self._zoned else types[k] for n, k in kinds.items()}
        )
        columns = {name: arrow_column(name, table.column(name)) for name in kinds}
        return {
            name: _read_words(column, kinds[name], own_readers[kinds[name]]) if kinds[name] in own_readers else column
            for name, column in columns.items()
        }

    def _arrow_table(self, records: Records, types: Mapping[str, Any]) -> Any:
        """Return the cells of some columns as values of types of pyarrow; raise ValueError if one does not fit."""
        pa, pa_csv = self._arrow, self._csv
        data = records.bytes()
        if records.padded.any():
            data = trim_cells(data, self._delimiter)
        if self.encoding != UTF8:
            data = data.decode(self.encoding).encode()
        # pyarrow takes 10 KB for each column while it reads: of a wide table, some columns are read at a time.
        names, parts = list(types), []
        for first in range(0, len(names), COLUMNS_AT_A_TIME):
            some = names[first : first + COLUMNS_AT_A_TIME]
            parts += pa_csv.read_csv(
                pa.py_buffer(data),
                read_options=pa_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=self._names),
                parse_options=pa_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                convert_options=pa_csv.ConvertOptions(
                    column_types={name: types[name] for name in some},
                    include_columns=some,
                    null_values=self._null_values,
                    strings_can_be_null=True,
                    decimal_point=self.reading.decimal,
                    timestamp_parsers=[pa_csv.ISO8601],
                ),
            ).columns
        if len(names) > COLUMNS_AT_A_TIME:
            pa.default_memory_pool().release_unused()
        table = pa.Table.from_arrays(parts, names)
        assert len(table) == len(records), "pyarrow found other records than find_records"
        return table

    def _reason(self, record: Records, kinds: dict[str, Kind]) -> str:
        """Return why one record cannot be converted; the column is found by halving too."""
        names = list(kinds)
        while len(names) > 1:
            half = names[: len(names) // 2]
            try:
                self._values(record, {name: kinds[name] for name in half})
            except ValueError:
                names = half
            else:
                names = names[len(half) :]
        word = self._convert(record, {names[0]: "text"}, {})[names[0]].words[0]
        kind = kinds[names[0]]
        if kind == "date":
            formats = " (besides ISO 8601, dates are read in the formats of ", Option("date_formats"), ")"
            return Misfit.of(names[0], kind, word, *formats)
        ways = suggest_number_options([word], self.reading) if kind == "number" else []
        return Misfit.of(names[0], kind, word, *([" (try ", *ways[0], ")"] if ways else []))


def _last_line(text: bytes) -> bytes:
    """Return the last line that is not blank."""
    lines = text.rstrip(b" \t\r\n")
    return lines[max(lines.rfind(b"\n"), lines.rfind(b"\r")) + 1 :]


def _read_words(column: Column, kind: Kind, read: Callable[[str], Any]) -> Column:
    """Return a text column as another kind; each different word is read once. Raise ValueError if one does not fit."""
    gap = empty_column(kind, 1).values
    values = np.array([*(read(word) for word in column.words), gap[0]], gap.dtype)
    return Column(kind, values[column.values])


def _has_zone(cell: str) -> bool:
    return len(cell) > 10 and (cell.endswith("Z") or cell[-6:-5] in ("+", "-") or cell[-5:-4] in ("+", "-"))
