"""Which columns a request may have, and what reading its rows gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from driftsurf.core.contracts import FloatArray
from driftsurf.core.input import listed
from driftsurf.core.options import shown
from driftsurf.data.kinds import Kind
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.data.tables import Column, Table, which_columns
from driftsurf.errors import BadRowError, Message

__all__ = ["Fault", "OnBadRow", "RowsRead", "WireColumn", "WireFormat", "refuse_first"]

OnBadRow: TypeAlias = Literal["fail", "skip"]
MOST_FAULTS = 100
"""Bad rows that an answer lists; further ones are only counted."""
LONGEST_ID = 256
"""Characters of an id at most."""


class Fault(NamedTuple):
    """Why a row of a request cannot be taken."""

    row: int
    """Number of the row in the request, from 0."""
    column: str | None
    value: str
    """The value, as text that is short enough to be shown."""
    problem: str
    """What is wrong, as a clause after the place and the value."""
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

    def unknown(self, row: int, names: Sequence[str]) -> Fault | None:
        """Return the fault of a row that has columns which the model does not know; None if that is allowed."""
        if self.takes_others or self.columns is None:
            return None
        known = self.known
        others = [name for name in names if name not in known]
        if not others:
            return None
        names = [one.name for one in self.columns]
        remedy = f"leave the column out; {self.hints.get(others[0]) or which_columns(others, names)}"
        return Fault(row, others[0], "", "the model has no such column", remedy)

    def absent(self, row: int, names: Mapping[str, Any] | Sequence[str]) -> Fault | None:
        """Return the fault of a row that lacks a column; None if it has all."""
        gone = [one.name for one in self.columns or () if one.name not in names and self.is_required(one)]
        if len(gone) > 1:
            remedy = "pass these columns; null where a value is not known"
            return Fault(row, gone[0], "", f"the columns {listed(gone)} are missing", remedy)
        if gone:
            return Fault(row, gone[0], "", "the column is missing", "pass the column; null if its value is not known")
        if self.label is not None and self.label not in names:
            return Fault(row, self.label, "", "the label is missing", "pass it, or pass rows with ids and labels later")
        if self.id_required and self.id is not None and self.id not in names:
            return Fault(row, self.id, "", "the id is missing", "pass the id of the row")
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
    faults: tuple[Fault, ...] = ()
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


def refuse_first(faults: Sequence[Fault], on_bad_row: OnBadRow) -> None:
    """Raise BadRowError for the first fault, unless bad rows are skipped."""
    if faults and on_bad_row == "fail":
        first = faults[0]
        error = BadRowError(
            first.message(), "; ", first.remedy, row=first.row, column=first.column, value=first.value or None
        )
        error.reason = "bad-row"
        raise error


def id_fault(row: int, column: str, value: Any) -> Fault | None:
    """Return what is wrong with an id; None if it can be used."""
    if type(value) is int and abs(value) < 2**63:
        return None
    if not isinstance(value, str):
        return Fault(row, column, shown(value), "is not an id", "pass text or a whole number")
    if not value or len(value) > LONGEST_ID or "\0" in value:
        problem = f"must have 1 to {LONGEST_ID} characters, none of which is NUL"
        return Fault(row, column, shown(value), problem, "pass another id")
    return None


def label_fault(row: int, column: str, value: Any) -> Fault | None:
    """Return what is wrong with a label; None if it can be used, as far as that is known without the model."""
    if value is None:
        remedy = "pass the label, or pass rows with ids and their labels later"
        return Fault(row, column, "null", "is not a label", remedy)
    if not isinstance(value, str | bool | int | float):
        return Fault(row, column, shown(value), "is not a label", "pass text, a number or a boolean")
    if isinstance(value, str) and (not value or "\0" in value or len(value) > LONGEST_ID):
        problem = f"must have 1 to {LONGEST_ID} characters, none of which is NUL"
        return Fault(row, column, shown(value), problem, "pass another label")
    if not isinstance(value, str):
        try:
            fits = math.isfinite(float(value))
        except OverflowError:
            fits = False
        if not fits:
            return Fault(row, column, shown(value), "is too large for a number", "pass a number below 1.8e308")
    return None
