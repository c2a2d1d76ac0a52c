"""Frames of pandas, polars and pyarrow, and dictionaries of columns, as a source of tables."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from driftsurf.data.formats._reader import Chunk, Mark, Shape
from driftsurf.data.frames import column_names, read_table
from driftsurf.data.reading_options import FRAME, Kind, ReadingOptions
from driftsurf.data.source import Cells, Position
from driftsurf.data.sources.files import BatchCutter, BatchRule, OnSkip, first_shape
from driftsurf.data.tables import Column, Table
from driftsurf.errors import Option, OptionError, SourceError, StateError

APPLICABLE: Final = "categorical", "drop", "kinds", "rows", "lenient"
"""Reading options that apply to a frame, whose cells have types already."""


class FrameRows:
    """Rows of a frame, read once.

    Parameters
    ----------
    frame
        A frame of pandas or polars, a table of pyarrow, or a dictionary of columns.
    drop
        Columns that are not needed. They may hold what a table cannot, such as lists.

    Examples
    --------
    >>> rows = FrameRows({"price": [1.5, None], "tags": [["a"], []], "sold": ["yes", "no"]}, drop=["tags"])
    >>> list(rows.table.columns), rows.names
    (['price', 'sold'], ['price', 'tags', 'sold'])
    """

    def __init__(self, frame: Any, drop: Collection[str] = ()) -> None:
        self.names: list[str] = column_names(frame)
        """All columns of the frame."""
        self.table: Table = read_table(frame, drop)
        """The columns that are needed."""

    def __str__(self) -> str:
        return FRAME


class FrameSource:
    """The rows of a frame as tables of bounded size, which can be resumed after each.

    Parameters
    ----------
    rows
        The frame.
    reading
        How rows are read; None for the defaults. Of its options, ``categorical``, ``drop``, ``kinds`` and ``rows``
        apply to frames.
    batch_size, batch_seconds, time
        How rows are cut into batches, as for :class:`~driftsurf.data.FileSource`.

    Examples
    --------
    >>> rows = FrameRows({"price": [1.5, 2.0, 3.0], "sold": ["yes", "no", "no"]})
    >>> [(table["price"].values, position["row"]) for table, position in FrameSource(rows, batch_size=2).tables()]
    [(array([1.5, 2. ]), 2), (array([3.]), 3)]
    """

    cells: Cells = "typed"
    seekable: bool = True

    def __init__(
        self,
        rows: FrameRows,
        reading: ReadingOptions | None = None,
        *,
        batch_size: int | None = 1000,
        batch_seconds: float | None = None,
        time: str | None = None,
    ) -> None:
        self.rows = rows
        self.reading: ReadingOptions = ReadingOptions() if reading is None else reading
        self.batch_size = batch_size
        self.batch_seconds = batch_seconds
        self.time = time
        self.digests: bool = True
        """Whether positions recognise the rows before them; without that, reading is faster."""

    @property
    def name(self) -> str:
        """What messages call the frame."""
        return "the frame"

    def __len__(self) -> int:
        count, most = len(self.rows.table), self.reading.rows
        return count if most is None else min(count, most)

    def describe(self, position: Position) -> str:
        """Return the name of the frame."""
        return self.name

    def check(self) -> None:
        """Raise OptionError if an option has a value that cannot be used, or if it does not apply to frames."""
        BatchRule.checked(self.batch_size, self.batch_seconds, self.time)
        self.reading.check()
        usual = ReadingOptions()
        for one in fields(ReadingOptions):
            if one.name not in APPLICABLE and getattr(self.reading, one.name) != getattr(usual, one.name):
                raise OptionError(
                    Option(one.name), " says how text or files are read, and a frame has columns already; leave it out"
                )

    def tables(self, position: Position = None, *, on_skip: OnSkip | None = None) -> Iterator[tuple[Table, Position]]:
        """Yield batches of rows from ``position`` on, each with the position after it; no row is ever skipped."""
        self.check()
        table, start = self._table(), 0
        seen = {name: hashlib.sha256(f"{name}\0{column.kind}".encode()) for name, column in table.columns.items()}
        if position is not None:
            start, digest = _read_position(position)
            if start > len(table) or digest != self._digest(seen, table.rows(0, start)):
                raise SourceError(
                    f"the first {start:,} rows or the columns of the frame are not those that the run has learned. "
                    "Resume with the same frame, to which rows may have been appended, or start a new run"
                )
        count = len(self)
        places = np.arange(start, count, dtype=np.int64) + 1
        cutter = BatchCutter(BatchRule.checked(self.batch_size, self.batch_seconds, self.time), digests=False)
        cutter.add(0, Chunk(table.rows(start, count), places, places, Mark(count, count)))
        for batch, place, _ in cutter.batches():
            yield batch, {"row": place.mark.offset, "digest": self._digest(seen, batch)}
        last, place, _ = cutter.rest()
        if last is not None:
            yield last, {"row": place.mark.offset, "digest": self._digest(seen, last)}

    def _digest(self, seen: Mapping[str, Any], batch: Table) -> str:
        """Add the rows of a batch to the digests of their columns; return a digest of all rows so far."""
        if not self.digests:
            return ""
        for name, column in batch.columns.items():
            values: Any = np.ascontiguousarray(column.values).tobytes()
            if column.kind == "text":  # the codes of words depend on the rows that follow
                words = [f"{word}\0".encode() for word in column.words] + [b"\1"]
                values = b"".join(words[code] for code in column.values.tolist())
            seen[name].update(values)
        return hashlib.sha256("".join(one.hexdigest() for one in seen.values()).encode()).hexdigest()[:32]

    def _table(self) -> Table:
        """Return the columns that are used, with the kinds that the options ask for."""
        columns = self.rows.table.columns
        found = {name: columns[name].kind if name in columns else None for name in self.rows.names}
        shape = first_shape(self.name, Shape(found), self.reading, self.time)
        return Table({name: _of_kind(name, columns[name], kind) for name, kind in shape.kinds.items()})


def _of_kind(name: str, column: Column, kind: Kind | None) -> Column:
    if kind == column.kind:
        return column
    if kind == "text":
        return column.as_text()
    if (column.kind, kind) == ("boolean", "number"):
        return replace(column, kind="number")
    raise OptionError(
        Option("kinds", {name: kind}),
        f" cannot apply to the column {name!r} of a frame, whose kind is {column.kind}; convert it in the frame",
    )


def _read_position(position: Position) -> tuple[int, str]:
    """Return a position that may have been through JSON; raise StateError if it is not one."""
    row, digest = (position.get("row"), position.get("digest")) if isinstance(position, Mapping) else (None, None)
    if not (type(row) is int and row >= 0 and isinstance(digest, str)):
        raise StateError(f"not a position in a frame: {position!r}. Resume with the source that the run began with")
    return row, digest
