"""Comma-separated text and its relatives."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.errors import Option, Said, SchemaError, SourceError
from driftsurf.sources._base import Dialect, Mark, Shape, extra
from driftsurf.sources._bytes import ByteFile
from driftsurf.sources._cells import infer, read_cell
from driftsurf.sources._look_alikes import number_options
from driftsurf.sources._records import Records, find_records
from driftsurf.sources._text import Parsed, TextReader
from driftsurf.tables import Column, Kind, Table, arrow_column, empty_column

__all__ = ["DelimitedReader"]

DELIMITERS = ",;\t|"
_SEPARATOR = re.compile(rb"sep=([,;\t|])\r?\n?")


class DelimitedReader(TextReader):
    """A CSV or TSV file, with quotes as in RFC 4180.

    Records are found by a loop of our own, which knows the line of each and what is wrong with it; pyarrow
    turns the cells of the sound ones into values, many rows at a time. When it refuses a cell, the
    records are halved until the bad ones are alone, so one rule decides about a row whatever stands
    beside it.
    """

    def __init__(self, file: ByteFile, dialect: Dialect) -> None:
        super().__init__(file, dialect)
        self._csv: Any = extra("pyarrow.csv")
        self._names: list[str] = []
        self._zoned: set[str] = set()
        # pyarrow knows no groups of digits, and its own strptime takes 30 February for 2 March.
        by_word: dict[Kind, object] = {"number": dialect.thousands, "date": dialect.date_formats}
        self._by_word = {kind: read_cell(kind, dialect) for kind, asked in by_word.items() if asked}

    def split(self, data: bytes, *, final: bool) -> Records:
        """Records, which are lines unless a quoted cell holds the end of one."""
        return find_records(data, self._delimiter, final=final)

    def read_head(self) -> tuple[Mark, Shape]:
        """The header line, and the kinds of the first rows."""
        body, said = self._said_delimiter(self._body)
        self._delimiter = self.dialect.delimiter or said or self._sniff(body)
        if self.dialect.names is not None:
            self._names = _distinct(self.dialect.names, self.file.name)
        else:
            header = self.head_records(body, 1)
            if not len(header):
                raise SourceError(f"{self.file.name} is empty: it has no header line.")
            if header.faults[0]:
                raise SourceError(f"{self.file.name}, line 1: in the header {header.reasons()[0]}.")
            cells = self._header_cells(header[0])
            self._names = _distinct([cell.strip() or f"column_{i + 1}" for i, cell in enumerate(cells)], self.file.name)
            body = Mark(body.offset + int(header.ends[0]), body.line + int(header.lines[0]))
        sample = self.head_records(body, self.dialect.sample_rows)
        return body, Shape(self._kinds(sample), empty=not len(sample))

    def _header_cells(self, record: bytes) -> list[str]:
        try:
            return next(csv.reader([record.decode(self.dialect.encoding)], delimiter=self._delimiter))
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{self.file.name}, line 1: the header is not in {self.dialect.encoding}; try ",
                Option("encoding", "latin-1"),
                ".",
            ) from error
        except csv.Error as error:
            raise SourceError(f"{self.file.name}, line 1: the header cannot be read ({error}).") from error

    def _said_delimiter(self, body: Mark) -> tuple[Mark, str | None]:
        """The delimiter of a line ``sep=;`` such as Excel writes and reads, and where the file goes on."""
        self._delimiter = ","
        first = self.head_records(body, 1)
        found = _SEPARATOR.fullmatch(first[0]) if len(first) else None
        if found is None:
            return body, None
        return Mark(body.offset + int(first.ends[0]), body.line + 1), found[1].decode()

    def _sniff(self, body: Mark) -> str:
        if self.file.path.lower().removesuffix(".gz").removesuffix(".zst").endswith(".tsv"):
            return "\t"
        first = self.head_records(body, 1)
        line = re.sub(rb'"[^"]*"', b"", first[0]).decode("latin-1") if len(first) else ""
        return max(DELIMITERS, key=line.count)

    def _kinds(self, sample: Records) -> dict[str, Kind | None]:
        sound, _ = self._sound(sample)
        words = self._convert(sample.take(sound), dict.fromkeys(self._names, "text"), {})
        kinds: dict[str, Kind | None] = {}
        for name in self._names:
            cells = [words[name].words[code] if code >= 0 else None for code in words[name].values.tolist()]
            kinds[name] = infer(cells, self.dialect)
            if kinds[name] == "date" and any(_has_zone(cell) for cell in cells if cell is not None):
                self._zoned.add(name)
        return kinds

    # -------------------------------------------------------------------- rows

    def parse(self, records: Records, wanted: Shape, *, ignore_added: bool) -> Parsed:
        """Sound records as a table; why the others are not."""
        sound, reasons = self._sound(records)
        kinds = {name: kind for name, kind in wanted.kinds.items() if name in self._names and kind is not None}
        parts: list[tuple[npt.NDArray[np.int64], dict[str, Column]]] = []
        self._try(records, sound, kinds, parts, reasons)
        rows = np.concatenate([part[0] for part in parts]) if parts else np.zeros(0, np.int64)
        tables = [Table(columns) for _, columns in parts if columns]
        table = Table.concatenate(tables) if tables else Table({n: empty_column(k, 0) for n, k in kinds.items()})
        columns = dict(table.columns)
        for name, kind in wanted.kinds.items():
            if name not in columns and kind is not None:
                columns[name] = empty_column(kind, len(rows))
        return Parsed(Table({name: columns[name] for name in wanted.kinds}), rows, reasons)

    def _sound(self, records: Records) -> tuple[npt.NDArray[np.int64], dict[int, str]]:
        """The places of records that have the right number of cells and can be decoded; why others are bad."""
        width = len(self._names)
        reasons = records.reasons()
        for place in np.flatnonzero((records.faults == 0) & (records.cells != width)).tolist():
            reasons[place] = f"it has {records.cells[place]} cells, where {width} are expected"
        if self.dialect.encoding == "utf-8" and not _is_utf8(records.data):
            for place in range(len(records)):
                if place not in reasons and not _is_utf8(records[place]):
                    reasons[place] = Said(
                        "it is not in UTF-8; if the whole file is not, give ", Option("encoding", "latin-1")
                    )
        sound = np.ones(len(records), bool)
        sound[list(reasons)] = False
        return np.flatnonzero(sound), reasons

    def _try(
        self,
        records: Records,
        places: npt.NDArray[np.int64],
        kinds: dict[str, Kind],
        parts: list[tuple[npt.NDArray[np.int64], dict[str, Column]]],
        reasons: dict[int, str],
    ) -> None:
        """Convert the records at ``places``; those that cannot be converted are found by halving."""
        if not len(places):
            return
        try:
            columns = self._values(records.take(places), kinds)
        except ValueError:  # ArrowInvalid is one
            if len(places) > 1:
                middle = len(places) // 2
                self._try(records, places[:middle], kinds, parts, reasons)
                self._try(records, places[middle:], kinds, parts, reasons)
            else:
                reasons[int(places[0])] = self._reason(records.take(places), kinds)
            return
        infinite = np.zeros(len(places), bool)
        for name, column in columns.items():
            if column.kind == "number":  # their sum would tell faster, and overflow where each of them is fine
                for row in np.flatnonzero(np.isinf(column.values) & ~infinite).tolist():
                    infinite[row] = True
                    reasons[int(places[row])] = f"the number in column {name!r} is infinite or too large"
        if infinite.any():
            places = places[~infinite]
            columns = {name: column[~infinite] for name, column in columns.items()}
        parts.append((places, columns))

    def _values(self, records: Records, kinds: dict[str, Kind]) -> dict[str, Column]:
        """The columns of ``kinds``; ValueError if a cell does not fit."""
        try:
            return self._convert(records, kinds, self._by_word)
        except ValueError:
            if "date" in self._by_word or "date" not in kinds.values():
                raise
            # pyarrow wants a zone in all cells of a column or in none.
            return self._convert(records, kinds, self._by_word | {"date": read_cell("date", self.dialect)})

    def _convert(
        self, records: Records, kinds: dict[str, Kind], by_word: Mapping[Kind, Callable[[str], Any]]
    ) -> dict[str, Column]:
        """The same, of the kinds in ``by_word`` each word by itself."""
        pa, options = extra("pyarrow"), self._csv
        data = records.bytes() if kinds else b""
        if not data:
            return {name: empty_column(kind, 0) for name, kind in kinds.items()}
        if self.dialect.encoding != "utf-8":
            data = data.decode(self.dialect.encoding).encode()
        types: dict[Kind, Any] = {
            "number": pa.float64(),
            "boolean": pa.bool_(),
            "date": pa.timestamp("us"),
            "text": pa.dictionary(pa.int32(), pa.string()),
        }
        types |= dict.fromkeys(by_word, types["text"])
        zoned = types["date"] if "date" in by_word else pa.timestamp("us", "UTC")
        table = options.read_csv(
            pa.py_buffer(data),
            read_options=options.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=self._names),
            parse_options=options.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            convert_options=options.ConvertOptions(
                column_types={n: zoned if k == "date" and n in self._zoned else types[k] for n, k in kinds.items()},
                include_columns=list(kinds),
                null_values=list(self.dialect.missing),
                strings_can_be_null=True,
                decimal_point=self.dialect.decimal,
                timestamp_parsers=[options.ISO8601],
            ),
        )
        assert len(table) == len(records), "pyarrow sees other records than we do"
        columns = {name: arrow_column(name, table.column(name)) for name in kinds}
        return {
            name: _read_words(column, kinds[name], by_word[kinds[name]]) if kinds[name] in by_word else column
            for name, column in columns.items()
        }

    def _reason(self, record: Records, kinds: dict[str, Kind]) -> str:
        """Why one record cannot be converted: the column is found by halving, too."""
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
        reason = f"column {names[0]!r} is a {kind}, and {word[:200]!r} is none"
        if kind == "date":
            return Said(reason, " (beside ISO 8601 those are read that ", Option("date_formats"), " tells of)")
        ways = number_options([word], self.dialect) if kind == "number" else []
        return Said(reason, " (try ", *ways[0], ")") if ways else reason


def _read_words(column: Column, kind: Kind, read: Callable[[str], Any]) -> Column:
    """Text as values of a kind, each word read once; ValueError if one does not fit."""
    gap = empty_column(kind, 1).values
    values = np.array([*(read(word) for word in column.words), gap[0]], gap.dtype)
    return Column(kind, values[column.values])


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _has_zone(cell: str) -> bool:
    return len(cell) > 10 and (cell.endswith("Z") or cell[-6:-5] in ("+", "-") or cell[-5:-4] in ("+", "-"))


def _distinct(names: Sequence[str], file: str) -> list[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SchemaError(f"{file}: the column name {name!r} stands more than once: rename one of them.")
        seen.add(name)
    return list(names)
