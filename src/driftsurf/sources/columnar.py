"""Parquet and Arrow files, which know the types of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import numpy as np

from driftsurf.errors import SourceError
from driftsurf.sources._base import (
    RAW_LIMIT,
    BadRow,
    Chunk,
    Dialect,
    Mark,
    Reader,
    Shape,
    check_tail,
    extra,
    tail_digest,
)
from driftsurf.sources._bytes import ByteFile
from driftsurf.tables import Column, Table, arrow_column, arrow_kind, empty_column

__all__ = ["ArrowReader", "ParquetReader"]

ROWS = 8192
"""Rows of a chunk."""


class ColumnarReader(Reader):
    """A file with typed columns. Marks are row numbers; a row with an infinite number is bad."""

    typed: ClassVar[bool] = True

    def __init__(self, file: ByteFile, dialect: Dialect) -> None:
        self.file = file

    def _schema(self) -> Any:
        raise NotImplementedError

    def _batches(self, columns: list[str], first_row: int) -> Iterator[tuple[int, Any]]:
        """Record batches with the number of their first row, from the one that holds ``first_row`` on."""
        raise NotImplementedError

    def shape(self) -> Shape:
        """What the file says."""
        with self._named():
            schema = self._schema()
        nothing = frozenset(field.name for field in schema if str(field.type) == "null")
        return Shape({field.name: arrow_kind(field.type) for field in schema}, untyped=nothing)

    def chunks(self, wanted: Shape, start: Mark | None, *, ignore_added: bool) -> Iterator[Chunk]:
        """The rows from ``start`` on."""
        first = 0 if start is None else start.offset
        with self._named():
            schema = self._schema()
            there = [name for name in wanted.kinds if name in schema.names]
            top = str(schema.remove_metadata()).encode()
            for at, batch in self._batches(there, max(0, first - 1)):
                if start is not None and at < first <= at + len(batch):
                    check_tail(self.file.name, start, _tail(top, batch, at, first))
                for lo in range(max(0, first - at), len(batch), ROWS):
                    chunk = self._chunk(batch.slice(lo, ROWS), at + lo, wanted)
                    chunk.tail = partial(_tail, top, batch, at)
                    yield chunk

    def _chunk(self, batch: Any, at: int, wanted: Shape) -> Chunk:
        count = len(batch)
        columns: dict[str, Column] = {}
        reasons: dict[int, str] = {}
        for name, kind in wanted.kinds.items():
            assert kind is not None
            if name not in batch.schema.names or str(batch.column(name).type) == "null":
                columns[name] = empty_column(kind, count)
                continue
            columns[name] = arrow_column(name, batch.column(name), kind)
            if kind == "number":
                for row in np.flatnonzero(np.isinf(columns[name].values)).tolist():
                    reasons.setdefault(row, f"the number in column {name!r} is infinite")
        bad = [
            BadRow(self.file.name, at + i + 1, reason, str(batch.slice(i, 1).to_pylist()[0])[:RAW_LIMIT], at + i + 1)
            for i, reason in sorted(reasons.items())
        ]
        good = np.setdiff1d(np.arange(count), list(reasons))
        if reasons:
            columns = {name: column[good] for name, column in columns.items()}
        ends = (at + 1 + good).astype(np.int64)
        return Chunk(Table(columns), ends, ends + 1, Mark(at + count, at + count + 1), bad)

    def _too_short(self, row: int) -> SourceError:
        return SourceError(f"{self.file.name} ends before row {row}, where the saved position is: it is another file.")

    @contextmanager
    def _named(self) -> Iterator[None]:
        pa = extra("pyarrow")
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, SourceError):
                raise
            raise SourceError(
                f"{self.file.name} cannot be read: it is damaged, cut off or of another format ({error})."
            ) from error


def _tail(top: bytes, batch: Any, first: int, row: int) -> str:
    """A digest of the columns, and of the row before ``row`` in a batch that begins with row ``first``."""
    return tail_digest(top, repr(batch.slice(row - 1 - first, 1).to_pylist()).encode("utf-8", "backslashreplace"))


class ParquetReader(ColumnarReader):
    """A Parquet file, read one row group at a time and of it some rows at a time."""

    def _file(self) -> Any:
        return extra("pyarrow.parquet").ParquetFile(self.file.path, buffer_size=2**20, pre_buffer=False)

    def _schema(self) -> Any:
        with self._file() as file:
            return file.schema_arrow

    def _batches(self, columns: list[str], first_row: int) -> Iterator[tuple[int, Any]]:
        with self._file() as file:
            at = 0
            for group in range(file.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                if at + count > first_row:
                    place = at
                    for batch in file.iter_batches(ROWS, [group], columns, use_threads=False):
                        if place + len(batch) > first_row:
                            yield place, batch
                        place += len(batch)
                at += count
            if at < first_row:
                raise self._too_short(first_row)


class ArrowReader(ColumnarReader):
    """An Arrow (Feather) file, or a stream of Arrow batches in a file."""

    def _schema(self) -> Any:
        with self._opened() as reader:
            return reader.schema

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        pa = extra("pyarrow")
        with pa.OSFile(self.file.path) as source:
            magic = source.read(6)
            source.seek(0)
            yield pa.ipc.open_file(source) if magic == b"ARROW1" else pa.ipc.open_stream(source)

    def _batches(self, columns: list[str], first_row: int) -> Iterator[tuple[int, Any]]:
        with self._opened() as reader:
            at = 0
            batches = (
                (reader.get_batch(i) for i in range(reader.num_record_batches))
                if hasattr(reader, "get_batch")
                else iter(reader)
            )
            for batch in batches:
                if at + len(batch) > first_row:
                    batch.validate(full=True)  # offsets in the file may point anywhere
                    yield at, batch.select(columns)
                at += len(batch)
            if at < first_row:
                raise self._too_short(first_row)
