"""The columns of a served model: how the first rows decide them, and how later rows are checked against them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from driftsurf.core.contracts import FloatArray
from driftsurf.core.input import listed
from driftsurf.data.log.records import ColumnKind
from driftsurf.data.tables import Column, Table, empty_column, which_columns
from driftsurf.errors import NonFiniteError, Option, SchemaError, ShapeError

__all__ = ["conform", "find_columns"]

FEW = 20


def find_columns(table: Table, categorical: Collection[str]) -> tuple[ColumnKind, ...]:
    """Return the columns that the first rows have; SchemaError if the kind of one is not known.

    >>> from driftsurf.data.frames import read_table
    >>> find_columns(read_table({"price": [9.5], "city": ["Rome"]}), ())
    (ColumnKind(name='price', kind='number'), ColumnKind(name='city', kind='text'))
    """
    if table.features is not None or not table.columns:
        raise SchemaError("a served model needs rows with named columns")
    unknown = [name for name in categorical if name not in table.columns]
    if unknown:
        raise SchemaError(Option("categorical"), f" names {listed(unknown)}; {which_columns(unknown, table.columns)}")
    for name, column in table.columns.items():
        if column.missing().all() and name not in categorical:
            raise SchemaError(
                f"the column {name!r} has no value in the first rows, so that its kind is not known; say it with ",
                Option("columns"),
                column=name,
            )
    return tuple(
        ColumnKind(name, "text" if name in categorical else column.kind) for name, column in table.columns.items()
    )


def conform(table: Table, columns: Sequence[ColumnKind], categorical: Collection[str]) -> Table:
    """Return a table with exactly these columns, in this order and of these kinds; SchemaError if it has others."""
    if not len(table):
        raise ShapeError("there are no rows; send at least one")
    names = {one.name for one in columns}
    added = [name for name in table.columns if name not in names]
    removed = [one.name for one in columns if one.name not in table.columns]
    retyped: list[str] = []
    found: dict[str, Column] = {}
    for one in columns:
        column = table.columns.get(one.name)
        if column is None:
            continue
        if one.name in categorical:
            column = column.as_text()
        if column.kind != one.kind:
            if {column.kind, one.kind} == {"number", "boolean"}:
                column = Column(one.kind, column.values)
            elif column.missing().all():
                column = empty_column(one.kind, len(column))
            else:
                retyped.append(f"{one.name!r} from {one.kind} to {column.kind}")
        if one.kind == "number" and column.kind == "number" and _has_infinity(column.values):
            row = int(np.argmax(np.isinf(column.values)))
            raise NonFiniteError(
                f"the column {one.name!r} contains infinity (inf) in row {row}; correct it, or leave it out",
                row=row,
                column=one.name,
                value=float(column.values[row]),
            )
        found[one.name] = column
    faults = [f"added: {listed(added)}"] * bool(added) + [f"removed: {listed(removed)}"] * bool(removed)
    faults += [f"retyped: {', '.join(retyped)}"] * bool(retyped)
    if faults or table.features is not None:
        faults += ["sparse features"] * (table.features is not None)
        odd = next(iter([*added, *removed]), None)
        raise SchemaError(
            f"the columns differ from those of the model ({'; '.join(faults)}); the columns are "
            f"{', '.join(f'{one.name!r} ({one.kind})' for one in columns)}",
            column=odd,
        )
    return Table(found)


def _has_infinity(values: FloatArray) -> bool:
    """Return whether a number is infinite; for a few numbers the calls of numpy would take ten times as long."""
    return any(map(math.isinf, values.tolist())) if len(values) < FEW else bool(np.isinf(values).any())
