"""ARFF, the attribute-relation files of Weka and MOA."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from driftsurf.data.formats._cells import cell_reader, make_columns
from driftsurf.data.formats._reader import Mark, Shape
from driftsurf.data.formats._text import Parsed, Records, TextReader, find_records, read_each
from driftsurf.data.reading_options import Kind
from driftsurf.data.source import Misfit
from driftsurf.data.tables import Table, empty_column
from driftsurf.errors import SchemaError, SourceError
from driftsurf.registry import register

HEADER_STEP = 64
_NAME = r"""\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{,'"]+)"""
_ATTRIBUTE = re.compile(rf"@attribute\s{_NAME}\s*(.*)", re.IGNORECASE | re.DOTALL)
# Nothing is tried twice (*+), so that a cell of blanks takes no longer than another.
_CELL = re.compile(r"""\s*+(?:'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)"|([^,'"{}]*+))\s*+(?:,|$)""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_KINDS: dict[str, Kind] = {"numeric": "number", "real": "number", "integer": "number", "string": "text", "date": "date"}


@register("format", "arff", endings=(".arff",), streamed=True, cells="declared")
class ArffReader(TextReader):
    """A header of ``@attribute`` lines, then rows, dense or sparse (``{1 2.5, 4 red}``).

    The header declares the kinds: numbers, text, dates (in ISO 8601 or a format of the reading options) and sets of
    names, which are text and accept no other value. ``?`` is a missing value, ``%`` begins a comment. Values that a
    sparse row leaves out are 0, or the first name of a set.
    """

    def split(self, data: bytes, *, final: bool) -> Records:
        """Return the complete lines of ``data``; comments are as blank lines."""
        return find_records(data, None, final=final, limit=self.reading.max_row_bytes, comment="%")

    def read_head(self) -> tuple[Mark, Shape]:
        """Read the attributes up to ``@data``."""
        self._sets: dict[str, tuple[str, ...]] = {}
        kinds: dict[str, Kind | None] = {}
        records, data_place = self._records_up_to_data()
        for place in range(data_place):
            line = records[place].decode(self.encoding, "replace").strip()
            if line.lower().startswith("@attribute"):
                name, kind = self._attribute(line)
                if name in kinds:
                    raise SchemaError(f"{self.file.name}: the attribute {name!r} occurs more than once; rename one")
                kinds[name] = kind
        if not kinds:
            raise SourceError(f"{self.file.name} has no @attribute line before @data")
        self._names = list(kinds)
        self._declared = kinds
        data = records.take(np.array([data_place]))
        body = Mark(self._body.offset + int(data.ends[0]), self._body.line + int(data.lines[0]))
        return body, Shape(kinds)

    def _records_up_to_data(self) -> tuple[Records, int]:
        """Return the first records, and the place of the ``@data`` line among them."""
        count, known = HEADER_STEP, 0
        while True:
            records = self.head_records(self._body, count)
            for place in range(known, len(records)):
                line = records[place].strip()
                if line[:5].lower() == b"@data":
                    return records, place
                if not line.startswith((b"@", b"%")):
                    shown = line[:100].decode(self.encoding, "backslashreplace")
                    raise SourceError(f"{self.file.name} is not an ARFF file: {shown!r} stands before its @data line")
            if len(records) < count:
                raise SourceError(f"{self.file.name} has no @data line: it is not an ARFF file, or it is truncated")
            count, known = 2 * count, len(records)

    def _attribute(self, line: str) -> tuple[str, Kind]:
        found = _ATTRIBUTE.fullmatch(line)
        if found is None:
            raise SourceError(f"{self.file.name}: expected '@attribute NAME TYPE'; got {line[:200]!r}")
        name, rest = _unquote(found[1]), found[2].strip()
        if rest.startswith("{") and "}" in rest:
            cells = _split(rest[1 : rest.rindex("}")])
            self._sets[name] = tuple(cell for cell in cells or () if cell is not None)
            return name, "text"
        word = rest.split()[0].lower() if rest else ""
        if word not in _KINDS:
            raise SourceError(
                f"{self.file.name}: the attribute {name!r} has the unknown type {rest[:50]!r}; choices: "
                f"{', '.join(_KINDS)}, or names in braces"
            )
        return name, _KINDS[word]

    # -------------------------------------------------------------------- rows

    def parse(self, records: Records, wanted: Shape, *, ignore_added: bool) -> Parsed:
        """Return the records with a cell of the right kind for each attribute as a table."""
        kinds = {name: kind for name, kind in wanted.kinds.items() if kind is not None}
        present = {name: kinds[name] for name in self._names if name in kinds}
        at = {name: place for place, name in enumerate(self._names)}
        readers = [(at[name], self._cell_reader(name, kind)) for name, kind in present.items()]

        def read(record: bytes) -> list[Any] | None:
            row = self._row(record)
            if row is None:
                return None
            return [None if (cell := row[place]) is None else read_value(cell) for place, read_value in readers]

        rows, places, reasons, ended = read_each(records, read)
        columns = make_columns(present, rows)
        columns |= {name: empty_column(kind, len(rows)) for name, kind in kinds.items() if name not in present}
        return Parsed(Table({name: columns[name] for name in kinds}), places, reasons, ended)

    def _row(self, record: bytes) -> list[str | None] | None:
        """Return the cells of a row, None for a missing value; None for a comment; ValueError for a bad row."""
        try:
            line = record.decode(self.encoding).strip()
        except UnicodeDecodeError as error:
            raise ValueError(f"the row is not encoded in {self.encoding}") from error
        if not line or line.startswith("%"):
            return None
        if line.startswith("{"):
            return self._sparse_row(line)
        row = _split(line)
        if row is None:
            raise ValueError("a quote is missing")
        if len(row) != len(self._names):
            raise ValueError(f"the row has the wrong number of cells: {len(row)} instead of {len(self._names)}")
        return row

    def _sparse_row(self, line: str) -> list[str | None]:
        if not line.endswith("}"):
            raise ValueError("a sparse row must end with }")
        row: list[str | None] = [
            self._sets[name][0] if self._sets.get(name) else "0" if self._declared[name] == "number" else None
            for name in self._names
        ]
        for cell in line[1:-1].split(","):
            index, _, value = cell.strip().partition(" ")
            if not index and not value:
                continue
            if not (index.isascii() and index.isdigit() and len(index) < 10 and int(index) < len(row)):
                raise ValueError(f"{cell.strip()[:100]!r} is not an index and a value")
            parts = _split(value)
            if parts is None or len(parts) != 1:
                raise ValueError(f"{cell.strip()[:100]!r} is not an index and a value")
            row[int(index)] = parts[0]
        return row

    def _cell_reader(self, name: str, kind: Kind) -> Callable[[str], Any]:
        read = cell_reader(kind, self.reading)
        allowed = frozenset(self._sets[name]) if kind == "text" and name in self._sets else None

        def read_cell(cell: str) -> Any:
            if allowed is not None and cell not in allowed:
                raise ValueError(f"{cell[:100]!r} is not one of the declared values of {name!r}")
            try:
                return read(cell)
            except ValueError:
                raise ValueError(Misfit.of(name, kind, cell)) from None

        return read_cell


def _split(line: str) -> list[str | None] | None:
    """Return the cells between commas without their quotes, None for ``?``; or None if a quote is missing.

    >>> _split("1, 'it''s', ?, a")  is None
    True
    >>> _split("1, 'a, b', ?, c")
    ['1', 'a, b', None, 'c']
    """
    if "'" not in line and '"' not in line:
        return [None if cell.strip() == "?" else cell.strip() for cell in line.split(",")]
    cells: list[str | None] = []
    at = 0
    while at <= len(line):
        found = _CELL.match(line, at)
        if found is None:
            return None
        bare = None if found[3] is None else found[3].rstrip()
        quoted = found[1] if found[1] is not None else found[2]
        cells.append(_ESCAPE.sub(r"\1", quoted) if quoted is not None else None if bare == "?" else bare)
        if not found[0].endswith(","):
            break
        at = found.end()
    return cells


def _unquote(name: str) -> str:
    return _ESCAPE.sub(r"\1", name[1:-1]) if name[:1] in ("'", '"') else name
