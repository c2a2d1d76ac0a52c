"""Weka's and MOA's attribute-relation files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from driftsurf.errors import SchemaError, SourceError
from driftsurf.sources import _cells
from driftsurf.sources._base import Mark, Shape
from driftsurf.sources._records import Records
from driftsurf.sources._text import Parsed, TextReader, read_each
from driftsurf.tables import Kind, Table, empty_column

__all__ = ["ArffReader"]

HEADER_STEP = 64
_NAME = r"""\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{,'"]+)"""
_ATTRIBUTE = re.compile(rf"@attribute\s{_NAME}\s*(.*)", re.IGNORECASE | re.DOTALL)
_CELL = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^,'"{}]*?))\s*(?:,|$)""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_KINDS: dict[str, Kind] = {"numeric": "number", "real": "number", "integer": "number", "string": "text", "date": "date"}


class ArffReader(TextReader):
    """A header of ``@attribute`` lines, then rows, dense or sparse (``{1 2.5, 4 red}``).

    The header says the kinds: numbers, text, dates (in ISO form or one of the dialect's) and sets of names, which
    are text and take no other value. ``?`` is a gap, ``%`` begins a remark. What a sparse row leaves out is 0,
    or the first name of a set.
    """

    typed: ClassVar[bool] = True

    def read_head(self) -> tuple[Mark, Shape]:
        """The attributes up to ``@data``."""
        self._names: list[str] = []
        self._sets: dict[str, tuple[str, ...]] = {}
        kinds: dict[str, Kind | None] = {}
        count = HEADER_STEP
        while True:
            records = self.head_records(self._body, count)
            places = [i for i in range(len(records)) if records[i].strip().lower().startswith(b"@data")]
            if places or len(records) < count:
                break
            count *= 2
        if not places:
            raise SourceError(f"{self.file.name} has no @data line: it is no ARFF file, or is cut off.")
        for place in range(places[0]):
            line = records[place].decode(self.dialect.encoding, "replace").strip()
            if line.lower().startswith("@attribute"):
                name, kind = self._attribute(line)
                if name in kinds:
                    raise SchemaError(f"{self.file.name}: the attribute {name!r} stands more than once: rename one.")
                kinds[name] = kind
        if not kinds:
            raise SourceError(f"{self.file.name} has no @attribute line before @data.")
        self._names = list(kinds)
        self._file_kinds = kinds
        data = records.take(np.array([places[0]]))
        body = Mark(self._body.offset + int(data.ends[0]), self._body.line + int(data.lines[0]))
        return body, Shape(kinds)

    def _attribute(self, line: str) -> tuple[str, Kind]:
        found = _ATTRIBUTE.fullmatch(line)
        if found is None:
            raise SourceError(f"{self.file.name}: the line {line[:200]!r} is no attribute: @attribute NAME TYPE.")
        name, rest = _plain(found[1]), found[2].strip()
        if rest.startswith("{") and "}" in rest:
            cells = _split(rest[1 : rest.rindex("}")])
            self._sets[name] = tuple(cell for cell in cells or () if cell is not None)
            return name, "text"
        word = rest.split()[0].lower() if rest else ""
        if word not in _KINDS:
            raise SourceError(
                f"{self.file.name}: the attribute {name!r} has the type {rest[:50]!r}; choices: {', '.join(_KINDS)}, "
                "or names in braces."
            )
        return name, _KINDS[word]

    # -------------------------------------------------------------------- rows

    def parse(self, records: Records, wanted: Shape, *, ignore_added: bool) -> Parsed:
        """Rows with a cell for each attribute, of its kind."""
        kinds = {name: kind for name, kind in wanted.kinds.items() if kind is not None}
        there = {name: kinds[name] for name in self._names if name in kinds}
        readers = [(self._names.index(name), self._reader(name, kind)) for name, kind in there.items()]

        def read(record: bytes) -> list[Any] | None:
            row = self._row(record)
            if row is None:
                return None
            return [None if (cell := row[place]) is None else read_value(cell) for place, read_value in readers]

        rows, places, reasons, ended = read_each(records, read)
        columns = _cells.columns(there, rows)
        columns |= {name: empty_column(kind, len(rows)) for name, kind in kinds.items() if name not in there}
        return Parsed(Table({name: columns[name] for name in kinds}), places, reasons, ended)

    def _row(self, record: bytes) -> list[str | None] | None:
        try:
            line = record.decode(self.dialect.encoding).strip()
        except UnicodeDecodeError as error:
            raise ValueError(f"it is not in {self.dialect.encoding}") from error
        if not line or line.startswith("%"):
            return None
        if line.startswith("{"):
            return self._sparse_row(line)
        row = _split(line)
        if row is None:
            raise ValueError("its quotes are not in order")
        if len(row) != len(self._names):
            raise ValueError(f"it has {len(row)} cells, where {len(self._names)} are expected")
        return row

    def _sparse_row(self, line: str) -> list[str | None]:
        if not line.endswith("}"):
            raise ValueError("a sparse row ends with }")
        row: list[str | None] = [
            self._sets[name][0] if self._sets.get(name) else "0" if self._file_kinds[name] == "number" else None
            for name in self._names
        ]
        for cell in line[1:-1].split(","):
            index, _, value = cell.strip().partition(" ")
            if not index and not value:
                continue
            if not (index.isascii() and index.isdigit() and len(index) < 10 and int(index) < len(row)):
                raise ValueError(f"{cell.strip()[:100]!r} is no index and value")
            parts = _split(value)
            if parts is None or len(parts) != 1:
                raise ValueError(f"{cell.strip()[:100]!r} is no index and value")
            row[int(index)] = parts[0]
        return row

    def _reader(self, name: str, kind: Kind) -> Callable[[str], Any]:
        read = _cells.read_cell(kind, self.dialect)
        if name not in self._sets or kind != "text":
            return read
        allowed = frozenset(self._sets[name])

        def named(cell: str) -> str:
            if cell not in allowed:
                raise ValueError(f"{cell[:100]!r} is not one of the values of {name!r}")
            return cell

        return named


def _split(line: str) -> list[str | None] | None:
    """Cells between commas, without their quotes; None if quotes are not in order. ``?`` is a gap.

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
        bare = found[3]
        quoted = found[1] if found[1] is not None else found[2]
        cells.append(_ESCAPE.sub(r"\1", quoted) if quoted is not None else None if bare == "?" else bare)
        if not found[0].endswith(","):
            break
        at = found.end()
    return cells


def _plain(name: str) -> str:
    return _ESCAPE.sub(r"\1", name[1:-1]) if name[:1] in ("'", '"') else name
