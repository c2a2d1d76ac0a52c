"""Rows of a body: what the readers of all formats return, and how cells and labels become values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray
from driftsurf.core.files import repeated_keys
from driftsurf.core.input import listed
from driftsurf.core.options import shown
from driftsurf.data.formats._cells import date_reader, infer_kind, make_column
from driftsurf.data.reading_options import Kind, ReadingOptions
from driftsurf.data.tables import LARGEST_EXACT, Column, Table, empty_column, which_columns
from driftsurf.errors import BadRowError, InputError, LabelError, Message
from driftsurf.runs.predictions import label_text

DATE_FORMAT = "other formats are named with driftsurf serve --date-format"
TOO_LARGE = "is too large for a number", "pass a number below 1.8e308"


def check_number(value: Any) -> tuple[str, str] | None:
    """Return what is wrong with a value of a column of numbers, and the remedy; None if it is good."""
    if isinstance(value, str) and _is_numeral(value):
        return "is text", f"send {value.strip()} without quotes"
    if not isinstance(value, bool | int | float):
        return "is not a number", "pass a number, or null if it is not known"
    try:
        finite = math.isfinite(float(value))
    except OverflowError:
        finite = False
    return None if finite else TOO_LARGE


def check_value(kind: Kind, value: Any, read_date: Callable[[str], Any]) -> tuple[str, str] | None:
    """Return what is wrong with a value of a column, and the remedy; None if it is good."""
    if kind in ("number", "boolean") or (kind == "text" and isinstance(value, bool | int | float)):
        return check_number(value)
    if not isinstance(value, str):
        what = "a date" if kind == "date" else "text"
        return f"is not {what}", "pass text, or null if it is not known"
    if kind == "date":
        try:
            read_date(value)
        except ValueError:
            remedy = f"pass a date such as 2026-05-01T10:00:00Z, or null if it is not known; {DATE_FORMAT}"
            return "is not a date", remedy
    return ("holds a NUL character", "leave it out") if "\0" in value else None


def _is_numeral(text: str) -> bool:
    """Return whether a text is a number as JSON writes it.

    >>> _is_numeral(" 3.5"), _is_numeral("3,5"), _is_numeral("nan")
    (True, False, False)
    """
    try:
        return type(json.loads(text, parse_constant=str)) in (int, float)
    except (ValueError, RecursionError):
        return False


def loosely(body: bytes) -> Any:
    """Return JSON as Python reads it, which takes NaN and too large numbers; None if it is something else."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def odd_number(row: Any) -> tuple[str, str, str, str] | None:
    """Return the first column of a row with NaN or infinity, its value, what is wrong and the remedy; None without one.

    >>> odd_number(loosely(b'{"price": 1e400}'))
    ('price', 'inf', 'is too large for a number', 'pass a number below 1.8e308')
    """
    for name, value in row.items() if isinstance(row, dict) else ():
        if isinstance(value, float) and not math.isfinite(value):
            if math.isnan(value):
                return name, "NaN", "is not a number that JSON has", "pass null for a number that is not known"
            return name, str(value), *TOO_LARGE
    return None


def word_of(value: str | bool | int | float) -> str:
    """Return a value of a column of text as a word: whole numbers without a decimal point; OverflowError above 1.8e308.

    >>> word_of(" Rome "), word_of(8470.0), word_of(True), word_of(12345678901234567890)
    ('Rome', '8470', 'true', '12345678901234567890')
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    number = float(value)  # OverflowError for a number that no column takes
    if isinstance(value, int):
        return str(value)
    return str(int(number)) if number.is_integer() and abs(number) < LARGEST_EXACT else repr(number)


def column_of(name: str, values: list[Any], reading: ReadingOptions) -> Column:
    """Return the values of a column whose kind they decide; BadRowError if they are of several kinds."""
    present = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in present) and present:
        return make_column("boolean", [None if value is None else float(value) for value in values])
    if all(isinstance(value, int | float) for value in present) and present:
        for row, value in enumerate(values):
            problem = None if value is None else check_number(value)
            if problem:
                raise _bad(row, name, value, *problem)
        return make_column("number", [None if value is None else float(value) for value in values])
    for row, value in enumerate(values):
        if value is not None and not isinstance(value, str):
            raise _bad(row, name, value, "is not of the kind of the other values", "pass values of one kind")
        if value is not None and "\0" in value:
            raise _bad(row, name, value, "holds a NUL character", "leave it out")
    words = [None if value is None else value.strip() for value in values]
    if present and infer_kind(words, reading) == "date":
        read = date_reader(reading)
        try:
            return make_column("date", [None if word is None else read(word) for word in words])
        except ValueError:  # a few of the values are no dates
            pass
    return make_column("text", words)


def _bad(row: int, name: str, value: Any, problem: str, remedy: str) -> BadRowError:
    text = shown(value)
    return BadRowError(f"row {row}, column {name!r}: {text} {problem}; {remedy}", row=row, column=name, value=text)


OnBadRow: TypeAlias = Literal["fail", "skip"]
MOST_FAULTS = 100
"""Bad rows that an answer lists; further ones are only counted."""
LONGEST_ID = 256
"""Characters of an id at most."""


class RowFault(msgspec.Struct, frozen=True):
    """A row that was skipped."""

    row: int
    """Number of the row in the request, from 0."""
    column: str | None
    value: str
    problem: str
    remedy: str

    def message(self) -> Message:
        """Return the fault as one sentence."""
        place = f"row {self.row}" if self.column is None else f"row {self.row}, column {self.column!r}"
        return Message(f"{place}: {self.value} {self.problem}" if self.value else f"{place}: {self.problem}")


class WireColumn(NamedTuple):
    """A column of the rows of a request."""

    name: str
    kind: Kind
    required: bool = True


@dataclass(frozen=True, slots=True)
class WireFormat:
    """The columns that the rows of a request have.

    Parameters
    ----------
    columns
        The columns that are read; None before a model has seen its first batch, which then decides.
    id
        The column of ids; None if ids are not read.
    id_required
        Whether every row must have an id. Otherwise all rows of a request have one, or none.
    label
        The column of labels, which every row must have; None if labels are not read.
    classes
        The classes that are known, by which labels in text formats are told from each other.
    ignored
        Columns that a row may have and that are not read.
    reading
        How text becomes dates, which cells of CSV are missing, and what to do with added and missing columns.
    hints
        What to do about columns that a user may expect to be known, by name.
    """

    columns: tuple[WireColumn, ...] | None
    id: str | None = None
    id_required: bool = False
    label: str | None = None
    classes: tuple[Any, ...] = ()
    ignored: tuple[str, ...] = ()
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    hints: Mapping[str, str] = field(default_factory=dict)

    @property
    def known(self) -> set[str | None]:
        """Names of all columns that a row may have."""
        return {*(one.name for one in self.columns or ()), *self.ignored, self.id, self.label}

    @property
    def takes_others(self) -> bool:
        """Whether columns that are not known are left out instead of refused."""
        return self.reading.on_schema_change != "fail"

    def is_required(self, column: WireColumn) -> bool:
        """Return whether every row must have a column; its value may be null."""
        return column.required and self.reading.on_schema_change != "fill-removed"

    def unknown(self, row: int, names: Sequence[str]) -> RowFault | None:
        """Return the fault of a row that has columns which the model does not know; None if that is allowed."""
        if self.takes_others or self.columns is None:
            return None
        known = self.known
        others = [name for name in names if name not in known]
        if not others:
            return None
        names = [one.name for one in self.columns]
        remedy = f"leave the column out; {self.hints.get(others[0]) or which_columns(others, names)}"
        return RowFault(row, others[0], "", "the model has no such column", remedy)

    def absent(self, row: int, names: Mapping[str, Any] | Sequence[str]) -> RowFault | None:
        """Return the fault of a row that lacks a column; None if it has all."""
        gone = [one.name for one in self.columns or () if one.name not in names and self.is_required(one)]
        if len(gone) > 1:
            remedy = "pass these columns; null where a value is not known"
            return RowFault(row, gone[0], "", f"the columns {listed(gone)} are missing", remedy)
        if gone:
            return RowFault(
                row, gone[0], "", "the column is missing", "pass the column; null if its value is not known"
            )
        if self.label is not None and self.label not in names:
            return RowFault(
                row, self.label, "", "the label is missing", "pass it, or pass rows with ids and labels later"
            )
        if self.id_required and self.id is not None and self.id not in names:
            return RowFault(row, self.id, "", "the id is missing", "pass the id of the row")
        return None


@dataclass(slots=True)  # not frozen: that would make each of them cost as much as decoding a row
class NumberRows:
    """Rows all of whose columns are numbers or booleans: a model may take them as they are, without a table."""

    columns: tuple[WireColumn, ...]
    values: FloatArray
    """One row for each row and one column for each column; NaN where a value is missing."""

    def __len__(self) -> int:
        return len(self.values)

    def table(self) -> Table:
        """Return the same rows as a table."""
        return Table({one.name: Column(one.kind, own) for one, own in zip(self.columns, self.values.T, strict=True)})


@dataclass(slots=True)
class RowsRead:
    """The rows of a request, or of a part of it."""

    rows: Table | NumberRows
    ids: list[str] | None = None
    labels: list[Any] | None = None
    faults: tuple[RowFault, ...] = ()
    """Rows that were skipped, at most 100 of them."""
    n_skipped: int = 0

    def __len__(self) -> int:
        if isinstance(self.rows, NumberRows) or self.rows.columns:
            return len(self.rows)
        return len(self.ids or self.labels or ())

    @property
    def table(self) -> Table:
        """The rows as a table."""
        return self.rows.table() if isinstance(self.rows, NumberRows) else self.rows


def refuse_first(faults: Sequence[RowFault], on_bad_row: OnBadRow) -> None:
    """Raise BadRowError for the first fault, unless bad rows are skipped."""
    if faults and on_bad_row == "fail":
        first = faults[0]
        error = BadRowError(
            first.message(), "; ", first.remedy, row=first.row, column=first.column, value=first.value or None
        )
        error.reason = "bad-row"
        raise error


def id_fault(row: int, column: str, value: Any) -> RowFault | None:
    """Return what is wrong with an id; None if it can be used."""
    if type(value) is int and abs(value) < 2**63:
        return None
    if not isinstance(value, str):
        return RowFault(row, column, shown(value), "is not an id", "pass text or a whole number")
    if not value or len(value) > LONGEST_ID or "\0" in value:
        problem = f"must have 1 to {LONGEST_ID} characters, none of which is NUL"
        return RowFault(row, column, shown(value), problem, "pass another id")
    return None


def label_fault(row: int, column: str, value: Any) -> RowFault | None:
    """Return what is wrong with a label; None if it can be used, as far as that is known without the model."""
    if value is None:
        remedy = "pass the label, or pass rows with ids and their labels later"
        return RowFault(row, column, "null", "is not a label", remedy)
    if not isinstance(value, str | bool | int | float):
        return RowFault(row, column, shown(value), "is not a label", "pass text, a number or a boolean")
    if isinstance(value, str) and (not value or "\0" in value or len(value) > LONGEST_ID):
        problem = f"must have 1 to {LONGEST_ID} characters, none of which is NUL"
        return RowFault(row, column, shown(value), problem, "pass another label")
    if not isinstance(value, str):
        try:
            fits = math.isfinite(float(value))
        except OverflowError:
            fits = False
        if not fits:
            return RowFault(row, column, shown(value), "is too large for a number", "pass a number below 1.8e308")
    return None


class TooManyRowsError(InputError):
    """A request has more rows than the limits allow."""


def check_count(count: int, most: int) -> None:
    """Raise TooManyRowsError if a request has too many rows."""
    if count > most:
        raise TooManyRowsError(f"the request has more than {most:,} rows; send several requests, or a stream of rows")


class ColumnarRows:
    """Takes the columns of a format from a table, without bad rows or with an error for the first of them."""

    def __init__(self, format: WireFormat) -> None:
        self.format = format

    def rows(self, table: Table, faults: Sequence[RowFault], on_bad_row: OnBadRow) -> RowsRead:
        """Return the rows of a table whose columns have the kinds of the format already."""
        format, names = self.format, list(table.columns)
        fault = format.unknown(0, names) or format.absent(0, names)
        if fault is not None:  # of all rows, so that no row can be skipped
            refuse_first([fault], "fail")
        columns = self._wanted(table.columns, len(table))
        id = format.id if format.id is not None and format.id in table.columns else None
        given = None if id is None else self._ids(id, table.columns[id])
        labelled = None if format.label is None else self._labels(format.label, table.columns[format.label])
        more = [fault for found in (given, labelled) if found is not None for fault in found[1]]
        bad = sorted([*faults, *more], key=lambda one: one.row)
        refuse_first(bad, on_bad_row)
        ids = None if given is None else given[0]
        labels = None if labelled is None else labelled[0]
        rows = Table(columns)
        if bad:
            good = np.ones(len(table), bool)
            good[[fault.row for fault in bad]] = False
            rows = rows.select(good)
            ids = None if ids is None else _kept(ids, good)
            labels = None if labels is None else _kept(labels, good)
        skipped = len({fault.row for fault in bad})
        return RowsRead(rows, ids, labels, tuple(bad[:MOST_FAULTS]), skipped)

    def _wanted(self, columns: Mapping[str, Column], count: int) -> dict[str, Column]:
        if self.format.columns is None:
            others = {self.format.id, self.format.label, *self.format.ignored}
            return {name: one for name, one in columns.items() if name not in others}
        wanted = self.format.columns
        there = [one for one in wanted if one.name in columns or not self.format.is_required(one)]
        return {
            one.name: columns[one.name] if one.name in columns else empty_column(one.kind, count)
            for one in there
            if one.name in columns or one.required
        }

    def _ids(self, name: str, column: Column) -> tuple[list[str], list[RowFault]]:
        """Return the ids, and what is wrong with some of them."""
        text = column.as_text()
        words = [*text.words, ""]
        ids = [words[code] for code in text.values.tolist()]
        found = (id_fault(row, name, one) for row, one in enumerate(ids))
        return ids, [fault for fault in found if fault is not None]

    def _labels(self, name: str, column: Column) -> tuple[list[Any], list[RowFault]]:
        """Return the labels, as the classes that are written so, and what is wrong with some of them."""
        missing = column.missing().tolist()
        if column.kind == "text":
            classes = {label_text(one): one for one in self.format.classes}
            by_code = [classes.get(word, word) for word in column.words]
            labels = [None if code < 0 else by_code[code] for code in column.values.tolist()]
        elif column.kind == "boolean":
            labels = [None if gone else bool(one) for one, gone in zip(column.values, missing, strict=True)]
        elif column.kind == "number":
            labels = [None if gone else _whole(one) for one, gone in zip(column.values.tolist(), missing, strict=True)]
        else:
            raise LabelError(f"the label {name!r} is a date; send text, numbers or booleans", column=name)
        found = (label_fault(row, name, one) for row, one in enumerate(labels))
        return labels, [fault for fault in found if fault is not None]


def _whole(value: float) -> float:
    return int(value) if value.is_integer() and abs(value) < LARGEST_EXACT else value


def _kept(values: list[Any], good: npt.NDArray[np.bool_]) -> list[Any]:
    return [one for one, kept in zip(values, good.tolist(), strict=True) if kept]


class _Labels(msgspec.Struct, forbid_unknown_fields=True):
    labels: dict[str, Any]


_DECODER = msgspec.json.Decoder(_Labels)


def read_labels(body: bytes, on_bad_row: OnBadRow = "fail", most: int = 100_000) -> RowsRead:
    """Return the ids and labels of a body; the row of a fault is the place of its id.

    >>> read_labels(b'{"labels": {"o-17": "yes", "o-18": "no"}}').labels
    ['yes', 'no']
    """
    check_count(body.count(b":") // 2, most * 4)  # before memory is taken for them; ids may have colons
    try:
        given = _DECODER.decode(body).labels
    except RecursionError:
        raise InputError("the body is nested too deeply; pass labels by id") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f'the body is not as expected: {error}; pass {{"labels": {{"id": label}}}}') from None
    check_count(len(given), most)
    if body.count(b":") != 1 + len(given) and (twice := repeated_keys(body).anywhere) is not None:
        raise BadRowError(f"the id {twice!r} has two labels; send each id once", value=twice)
    ids, labels, faults = list[str](), list[Any](), list[RowFault]()
    for row, (id, label) in enumerate(given.items()):
        fault = id_fault(row, "id", id) or label_fault(row, id, label)
        if fault is None:
            ids.append(id)
            labels.append(label)
        else:
            refuse_first([fault], on_bad_row)
            faults.append(fault)
    if not given:
        raise InputError("the body has no labels; pass at least one")
    return RowsRead(Table({}), ids, labels, tuple(faults[:MOST_FAULTS]), len(faults))
