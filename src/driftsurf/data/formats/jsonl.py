"""JSON lines: one object per line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

from driftsurf.core.files import repeated_keys
from driftsurf.core.input import listed
from driftsurf.data.formats._cells import (
    LARGEST_EXACT,
    MISFIT_SHARE,
    date_reader,
    infer_kind,
    make_columns,
    number_reader,
)
from driftsurf.data.formats._reader import Mark, Shape
from driftsurf.data.formats._text import Parsed, Records, TextReader, read_each
from driftsurf.data.reading_options import Kind
from driftsurf.data.source import Misfit
from driftsurf.data.tables import Table
from driftsurf.errors import Option, SchemaError
from driftsurf.registry import register


@register("format", "jsonl", endings=(".jsonl", ".ndjson"), streamed=True, cells="json")
class JsonLinesReader(TextReader):
    """An object on each line. A key that is absent is a missing value, as null is.

    Numbers, booleans and text keep their type, with three exceptions: text that means "no value" by the reading
    options; text columns in which all values look like dates; and text that holds numbers, if the reading options set
    how numbers are written. A text column accepts numbers and booleans as they are written. Lines are parsed by
    Python's own parser, which is exact about what is JSON and tells where it is not.
    """

    ragged: ClassVar[bool] = True

    @property
    def _numbers_as_text(self) -> bool:
        return self.reading.decimal != "." or self.reading.thousands is not None

    @cached_property
    def _missing(self) -> frozenset[str]:
        return frozenset(self.reading.missing_cells)

    def _is_missing(self, value: Any) -> bool:
        return value is None or (isinstance(value, str) and value.strip() in self._missing)

    def read_head(self) -> tuple[Mark, Shape]:
        """Return the keys of the first rows in the order of their appearance, with the kinds of their values."""
        cells: dict[str, list[Any]] = {}
        sample = self.head_records(self._body, self.sample_rows)
        for row in read_each(sample, self.read_record)[0]:
            for name, value in row.items():
                cells.setdefault(name, []).append(value)
        kinds = {name: self._kind(values) for name, values in cells.items()}
        return self._body, Shape(kinds, empty=not len(sample))

    def _kind(self, values: list[Any]) -> Kind | None:
        present = [value for value in values if not self._is_missing(value)]
        nested = sum(isinstance(value, dict | list) for value in present)
        if nested > MISFIT_SHARE * len(present):  # a column of them; a few are bad rows
            return None
        if present and all(isinstance(value, bool) for value in present):
            return "boolean"
        texts = [value.strip() for value in present if isinstance(value, str)]
        kind = infer_kind(texts, self.reading)
        misfits = sum(isinstance(value, bool) or not isinstance(value, int | float) for value in present)
        if self._numbers_as_text and kind == "number":
            misfits -= len(texts)
        if present and misfits <= MISFIT_SHARE * len(present):
            return "text" if any(isinstance(v, int) and abs(v) > LARGEST_EXACT for v in present) else "number"
        return "date" if kind == "date" and len(texts) >= (1 - MISFIT_SHARE) * len(present) else "text"

    def read_record(self, record: bytes) -> dict[str, Any] | None:
        """Return the object of a record, or None for white space; raise ValueError for anything else."""
        return _object(record)

    def parse(self, records: Records, wanted: Shape, *, ignore_added: bool) -> Parsed:
        """Return the lines that are objects with values of the right kinds as a table."""
        kinds = {name: kind for name, kind in wanted.kinds.items() if kind is not None}
        readers = {name: self._value_reader(name, kind) for name, kind in kinds.items()}
        known = kinds.keys() | wanted.dropped

        def read(record: bytes) -> list[Any] | None:
            row = self.read_record(record)
            if row is None:
                return None
            if not ignore_added and not row.keys() <= known:
                raise SchemaError(
                    f"{self.file.name}: a row has the added column {listed(sorted(row.keys() - known))}: "
                    f"{record[:100]!r}. Leave added columns out with ",
                    Option("on_schema_change", "ignore-added"),
                )
            return [
                None if self._is_missing(row.get(name)) else read_value(row[name])
                for name, read_value in readers.items()
            ]

        rows, places, reasons, ended = read_each(records, read)
        return Parsed(Table(make_columns(kinds, rows)), places, reasons, ended)

    def _value_reader(self, name: str, kind: Kind) -> Callable[[Any], Any]:
        read_date, read_number = date_reader(self.reading), number_reader(self.reading)

        def read(value: Any) -> Any:
            if isinstance(value, str):
                value = value.strip()
            if isinstance(value, str) and (kind == "date" or (kind == "number" and self._numbers_as_text)):
                try:
                    return read_date(value) if kind == "date" else read_number(value)
                except ValueError:
                    raise ValueError(Misfit.of(name, kind, value)) from None
            if kind == "text" and isinstance(value, str | bool | int | float):
                return value if isinstance(value, str) else json.dumps(value)
            if kind == "boolean" and isinstance(value, bool):
                return float(value)
            if kind == "number" and isinstance(value, int | float) and not isinstance(value, bool):
                return _finite(value)
            raise ValueError(Misfit.of(name, kind, str(value)))

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
    """Return the object of a line, or None for white space; raise ValueError for anything else."""
    if not record.strip():
        return None
    try:
        row = json.loads(record, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("the line is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise ValueError("the line is not encoded in UTF-8") from error
    if not isinstance(row, dict):
        raise ValueError(f"the line holds a {type(row).__name__}, expected an object with one value per column")
    if record.count(b":") != len(row) and (twice := repeated_keys(record).outermost) is not None:
        raise ValueError(f"the column {twice!r} occurs more than once; pass each column once")
    return row


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON; write null for a missing value")
