"""Rows of requests that come as columns: CSV and Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.data.tables import LARGEST_EXACT, Column, Table, empty_column
from driftsurf.errors import InputError, LabelError
from driftsurf.runs.predictions import label_text
from driftsurf.service.wire.format import (
    MOST_FAULTS,
    Fault,
    OnBadRow,
    RowsRead,
    WireFormat,
    id_fault,
    label_fault,
    refuse_first,
)

__all__ = ["ColumnarRows", "TooManyRowsError", "check_count"]


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

    def rows(self, table: Table, faults: Sequence[Fault], on_bad_row: OnBadRow) -> RowsRead:
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

    def _ids(self, name: str, column: Column) -> tuple[list[str], list[Fault]]:
        """Return the ids, and what is wrong with some of them."""
        text = column.as_text()
        words = [*text.words, ""]
        ids = [words[code] for code in text.values.tolist()]
        found = (id_fault(row, name, one) for row, one in enumerate(ids))
        return ids, [fault for fault in found if fault is not None]

    def _labels(self, name: str, column: Column) -> tuple[list[Any], list[Fault]]:
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
