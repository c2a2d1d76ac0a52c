"""One JSON object a line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, ClassVar

from driftsurf.errors import Option, SchemaError
from driftsurf.sources import _cells
from driftsurf.sources._base import Mark, Shape
from driftsurf.sources._records import Records
from driftsurf.sources._text import Parsed, TextReader, read_each
from driftsurf.tables import Kind, Table
from driftsurf.validation import listed

__all__ = ["JsonLinesReader"]


class JsonLinesReader(TextReader):
    """A file with an object on each line. A key that is not there is a gap, as null is.

    Numbers, booleans and text are what they are, but for text that the dialect says means no value, text that looks
    like dates throughout, and, where the dialect says how numbers are written, such text. A text column takes numbers
    and booleans as they are written. Python's own parser reads the lines: it is exact about what is
    JSON and says where it is not.
    """

    ragged: ClassVar[bool] = True

    @property
    def _numbers_as_text(self) -> bool:
        return self.dialect.decimal != "." or self.dialect.thousands is not None

    def _is_gap(self, value: Any) -> bool:
        return value is None or (isinstance(value, str) and value in self.dialect.missing)

    def read_head(self) -> tuple[Mark, Shape]:
        """The keys of the first rows in the order of their appearance."""
        cells: dict[str, list[Any]] = {}
        sample = self.head_records(self._body, self.dialect.sample_rows)
        for row in read_each(sample, _object)[0]:
            for name, value in row.items():
                cells.setdefault(name, []).append(value)
        kinds = {name: self._kind(values) for name, values in cells.items()}
        return self._body, Shape(kinds, empty=not len(sample))

    def _kind(self, values: list[Any]) -> Kind | None:
        present = [value for value in values if not self._is_gap(value)]
        if any(isinstance(value, dict | list) for value in present):
            return None
        if present and all(isinstance(value, bool) for value in present):
            return "boolean"
        texts = [value for value in present if isinstance(value, str)]
        kind = _cells.infer(texts, self.dialect)
        wrong = sum(isinstance(value, bool) or not isinstance(value, int | float) for value in present)
        if self._numbers_as_text and kind == "number":
            wrong -= len(texts)
        if present and wrong <= _cells.MISFITS * len(present):
            return "text" if any(isinstance(v, int) and abs(v) > _cells.EXACT for v in present) else "number"
        return "date" if kind == "date" and len(texts) >= (1 - _cells.MISFITS) * len(present) else "text"

    def parse(self, records: Records, wanted: Shape, *, ignore_added: bool) -> Parsed:
        """Lines that are objects with values of the right kinds."""
        kinds = {name: kind for name, kind in wanted.kinds.items() if kind is not None}
        readers = {name: self._reader(kind) for name, kind in kinds.items()}
        known = kinds.keys() | wanted.dropped

        def read(record: bytes) -> list[Any] | None:
            row = _object(record)
            if row is None:
                return None
            if not ignore_added and not row.keys() <= known:
                raise SchemaError(
                    f"{self.file.name}: a row has the added column {listed(sorted(row.keys() - known))}: "
                    f"{record[:100]!r}. Leave it out with ",
                    Option("on_schema_change", "ignore-added"),
                    ".",
                )
            return [
                None if self._is_gap(row.get(name)) else read_value(row[name]) for name, read_value in readers.items()
            ]

        rows, places, reasons, ended = read_each(records, read)
        return Parsed(Table(_cells.columns(kinds, rows)), places, reasons, ended)

    def _reader(self, kind: Kind) -> Callable[[Any], Any]:
        read_date, read_number = _cells.date_reader(self.dialect), _cells.number_reader(self.dialect)

        def read(value: Any) -> Any:
            if kind == "number" and self._numbers_as_text and isinstance(value, str):
                return read_number(value)
            fits = isinstance(value, str) if kind in ("date", "text") else isinstance(value, bool | int | float)
            if isinstance(value, bool) and kind == "number":
                fits = False
            if kind == "text" and isinstance(value, bool | int | float):
                return json.dumps(value)
            if not fits or (kind == "boolean" and not isinstance(value, bool)):
                raise ValueError(f"{str(value)[:100]!r} is no {kind}")
            if kind == "text":
                return value
            return read_date(value) if kind == "date" else _finite(value)

        return read


def _finite(value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"the number {str(value)[:50]} is too large")
    return number


def _object(record: bytes) -> dict[str, Any] | None:
    """The object of a line; None for white space; ValueError for anything else."""
    if not record.strip():
        return None
    try:
        row = json.loads(record, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise ValueError("it is not in UTF-8") from error
    if not isinstance(row, dict):
        raise ValueError(f"it holds {type(row).__name__}, not an object with one value for each column")
    return row


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON; write null for a gap")
