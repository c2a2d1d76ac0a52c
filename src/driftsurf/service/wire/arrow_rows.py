"""Rows as an Arrow stream (IPC), checked before anything of it is decoded."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftsurf.core.options import shown
from driftsurf.data.arrow import messages
from driftsurf.data.reading_options import Kind
from driftsurf.data.tables import Column, Table, arrow_column, arrow_kind, arrow_memory, empty_column
from driftsurf.errors import DriftsurfError, InputError, ValueTypeError
from driftsurf.service.wire.rows import (
    ColumnarRows,
    NumberRows,
    OnBadRow,
    RowFault,
    RowsRead,
    WireColumn,
    WireFormat,
    check_count,
)


class ArrowRows:
    """Reads rows from an Arrow stream, as ``pyarrow.ipc.new_stream`` writes it, without compression."""

    def __init__(self, format: WireFormat) -> None:
        self.format = format
        self._table = ColumnarRows(format)
        self._kinds: dict[str, Kind] = {one.name: one.kind for one in format.columns or ()}
        self._numbers = _plain_numbers(format)

    def read(self, body: bytes, on_bad_row: OnBadRow = "fail", most: int = 100_000) -> RowsRead:
        """Return the rows of a body; BadRowError for a bad row unless bad rows are skipped."""
        import pyarrow as pa

        check_count(sum(message.rows for message in messages(body)), most)
        try:
            with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
                found = stream.read_all()
            found.validate(full=True)
        except (pa.ArrowException, OSError, ValueError, IndexError, KeyError, NotImplementedError) as error:
            raise InputError(f"the Arrow stream cannot be read: {error}"[:500]) from None
        names = found.column_names
        if len(set(names)) < len(names):
            raise InputError("two columns of the Arrow stream have the same name; rename one")
        numbers = self._number_rows(found)
        if numbers is not None:
            return RowsRead(numbers)
        columns, faults = dict[str, Column](), list[RowFault]()
        for name in names:
            special = name in (self.format.id, self.format.label)
            if self.format.columns is not None and name not in self._kinds and not special:
                columns[name] = Column("text", np.full(found.num_rows, -1, np.int32))  # not known, so not converted
                continue
            column, bad = self._column(name, found.column(name))
            columns[name] = column
            faults += bad
        return self._table.rows(Table(columns), faults, on_bad_row)

    def _number_rows(self, found: Any) -> NumberRows | None:
        """Return rows of doubles as one array; None if a column is missing, of another type, or has infinite values."""
        import pyarrow as pa

        wanted, batches = self._numbers, found.to_batches()
        if wanted is None or len(batches) != 1 or found.num_columns != len(wanted):
            return None
        arrays, double = dict(zip(found.column_names, batches[0].columns, strict=True)), pa.float64()
        values = np.empty((found.num_rows, len(wanted)))
        for place, one in enumerate(wanted):
            array = arrays.get(one.name)
            if array is None or array.type != double or array.null_count:
                return None
            values[:, place] = arrow_memory(array, np.float64)  # to_numpy would import pandas
        return NumberRows(wanted, values) if not np.isinf(values).any() else None

    def _column(self, name: str, array: Any) -> tuple[Column, list[RowFault]]:
        kind = "text" if name == self.format.id else self._kinds.get(name)
        own = arrow_kind(array.type)
        if own is None:
            raise ValueTypeError(
                f"the column {name!r} has the type {array.type}; send numbers, booleans, dates or text", column=name
            )
        try:
            column = arrow_column(name, array, "text" if kind == "text" else None)
        except DriftsurfError:
            raise
        except (ValueError, TypeError, OverflowError, NotImplementedError, ArithmeticError) as error:
            raise ValueTypeError(f"the column {name!r} cannot be read: {error}"[:500], column=name) from None
        numbers = "number", "boolean"
        if kind is not None and column.kind != kind and not (column.kind in numbers and kind in numbers):
            if not column.missing().all():
                raise ValueTypeError(
                    f"the column {name!r} has the type {array.type}, and the model takes it as {kind}", column=name
                )
            column = empty_column(kind, len(column))
        return column, _faults(name, column)


def _plain_numbers(format: WireFormat) -> tuple[WireColumn, ...] | None:
    """Return the columns of rows that have nothing but numbers; None if rows may have anything else."""
    columns = format.columns
    if not columns or format.label is not None or format.id_required or any(one.kind != "number" for one in columns):
        return None
    return columns


def _faults(name: str, column: Column) -> list[RowFault]:
    """Return the rows whose value a table cannot hold: infinity, and text with a NUL character."""
    if column.kind == "number":
        rows = np.flatnonzero(np.isinf(column.values)).tolist()
        return [
            RowFault(row, name, str(column.values[row]), "is not finite", "send a finite number or null")
            for row in rows
        ]
    if column.kind == "text" and any("\0" in word for word in column.words):
        rows = [row for row, code in enumerate(column.values.tolist()) if code >= 0 and "\0" in column.words[code]]
        return [
            RowFault(row, name, shown(column.words[column.values[row]]), "holds a NUL character", "leave it out")
            for row in rows
        ]
    return []
