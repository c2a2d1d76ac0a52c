"""Excel files (.xlsx): the rows of one sheet."""

from __future__ import annotations

import datetime
import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from driftsurf.core.input import listed
from driftsurf.data.formats._bytes import ByteFile
from driftsurf.data.formats._reader import Mark, Shape
from driftsurf.data.formats._text import automatic_names, complete_names, given_names, no_header_remark
from driftsurf.data.formats.jsonl import JsonLinesReader
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.errors import DriftsurfError, Message, Option, OptionError, SourceError
from driftsurf.registry import nearest, register

BLOCK_LINES = 500
_ERRORS = frozenset(("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"))
"""What Excel shows in place of a value that it could not compute."""


@register(
    "format",
    "excel",
    endings=(".xlsx", ".xlsm"),
    streamed=False,
    cells="json",
    requires=("openpyxl",),
    install="pip install 'driftsurf[frames]'",
)
class ExcelReader(JsonLinesReader):
    """A sheet of an Excel file, with names in its first row. Formulas have the values that Excel saved.

    The sheet is read as JSON lines: an object for each row, with dates in ISO 8601. So the kinds of columns are
    inferred as for JSON, and the number of a line is that of the row in the sheet.
    """

    def __init__(self, file: ByteFile, reading: ReadingOptions) -> None:
        self._sheet = _Sheet(file.path, file.block_bytes, reading=reading)
        super().__init__(self._sheet, reading)

    def read_head(self) -> tuple[Mark, Shape]:
        """Return the names in the first row, and the kinds of the values below them."""
        body, shape = super().read_head()
        self.remarks.extend(self._sheet.remarks)
        return body, shape


@dataclass(frozen=True)
class _Sheet(ByteFile):
    """The bytes of a sheet as JSON lines, as many as the sheet has rows; those before the first row are empty."""

    reading: ReadingOptions = field(default_factory=ReadingOptions)
    remarks: list[Message] = field(default_factory=list, compare=False)
    """What users should know; filled while the names are read."""

    def blocks(self, start: int = 0) -> Generator[bytes]:
        """Yield the bytes from ``start`` on; raise SourceError if the file is damaged."""
        yield from self.skip(start, self._blocks())

    def _blocks(self) -> Iterator[bytes]:
        lines: list[str] = []
        with self._rows() as rows:
            for line in self._lines(rows):
                lines.append(line + "\n")
                if len(lines) == BLOCK_LINES:
                    yield "".join(lines).encode()
                    lines.clear()
        yield "".join(lines).encode()

    @contextmanager
    def _rows(self) -> Iterator[Iterator[Sequence[Any]]]:
        import openpyxl

        with ExitStack() as opened:
            with self._named_errors():
                file = opened.enter_context(open(self.path, "rb"))  # openpyxl leaves its own open if it fails
                book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            opened.callback(book.close)
            sheet = self._chosen(book)
            sheet.reset_dimensions()  # some programs write a wrong size
            yield self._guarded(sheet.iter_rows(values_only=True))

    def _guarded(self, rows: Iterator[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        """Yield the rows of a sheet, which is unpacked and parsed as they are read; SourceError if it is damaged."""
        with self._named_errors():
            yield from rows

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Turn whatever openpyxl, its XML parser and the zip archive raise for a damaged file into a SourceError."""
        try:
            yield
        except (MemoryError, DriftsurfError):
            raise
        except Exception as error:
            raise SourceError(f"{self.name} cannot be read: it is damaged or no Excel file ({error})") from error

    def _chosen(self, book: Any) -> Any:
        names = [sheet.title for sheet in book.worksheets]
        asked = self.reading.sheet
        if asked is not None and asked not in names:
            raise OptionError(
                Option("sheet"), f" is {asked!r}; {nearest(asked, names)}the sheets of {self.name} are {listed(names)}"
            )
        if not names:
            raise SourceError(f"{self.name} has no sheet with cells")
        if asked is None and len(names) > 1:
            told = (
                f"{self.name} has {len(names)} sheets, of which the first, {names[0]!r}, is read; choose another with "
            )
            self.remarks[:] = [Message(told, Option("sheet", names[1]))]
        return book[asked or names[0]]

    def _lines(self, rows: Iterator[Sequence[Any]]) -> Iterator[str]:
        names: list[str] = []
        for row in rows:
            cells = [_plain(cell) for cell in row]
            while cells and cells[-1] is None:
                cells.pop()
            if not cells:
                yield ""
            elif names:
                yield _line(names, cells)
            else:
                names, is_header = self._names(cells)
                yield "" if is_header else _line(names, cells)

    def _names(self, cells: Sequence[Any]) -> tuple[list[str], bool]:
        """Return the names of the columns, and whether the first row holds them."""
        reading = self.reading
        given = given_names(reading, len(cells), self.name)
        is_header = reading.header
        if is_header is None:
            is_header = given is None and any(isinstance(cell, str) for cell in cells)
        if given is not None:
            return given, is_header
        if not is_header:
            names = automatic_names(len(cells))
            if reading.header is None:
                self.remarks.append(no_header_remark(self.name, names))
            return names, False
        names, remarks = complete_names(["" if cell is None else str(cell).strip() for cell in cells], self.name)
        self.remarks.extend(remarks)
        return names, True


def _plain(value: Any) -> Any:
    """Return the value of a cell as a JSON value."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    return None if isinstance(value, str) and value in _ERRORS else value


def _line(names: Sequence[str], cells: Sequence[Any]) -> str:
    every = [*names, *automatic_names(len(cells))[len(names) :]]
    return json.dumps({name: cell for name, cell in zip(every, cells, strict=False) if cell is not None})
