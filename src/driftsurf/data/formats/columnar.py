"""Files with a schema: Arrow (IPC) and Parquet, read through pyarrow."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from driftsurf.core.input import listed
from driftsurf.data.formats._bytes import ByteFile
from driftsurf.data.formats._reader import (
    PYARROW,
    RAW_LIMIT,
    Chunk,
    Mark,
    Reader,
    Shape,
    check_tail,
    extra,
    tail_digest,
)
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.data.source import BadRow
from driftsurf.data.tables import Column, Table, arrow_column, arrow_kind, empty_column
from driftsurf.errors import SourceError
from driftsurf.registry import register

CHUNK_ROWS = 8192


class ColumnarReader(Reader):
    """A file with typed columns. Marks are row numbers. A row with an infinite number is bad."""

    def __init__(self, file: ByteFile, reading: ReadingOptions) -> None:
        self.file = file

    @abstractmethod
    def _schema(self) -> Any:
        """Return the Arrow schema of the file."""

    @abstractmethod
    def _batches(self, columns: list[str], first_row: int) -> Iterator[tuple[int, Any]]:
        """Yield record batches with the number of their first row, from the one that holds ``first_row`` on."""

    def shape(self) -> Shape:
        """Return the columns that the file declares."""
        with self._named_errors():
            schema = self._checked_schema()
        without_values = frozenset(field.name for field in schema if str(field.type) == "null")
        return Shape({field.name: arrow_kind(field.type) for field in schema}, untyped=without_values)

    def chunks(self, wanted: Shape, start: Mark | None, *, ignore_added: bool) -> Iterator[Chunk]:
        """Yield the rows from ``start`` on."""
        first = 0 if start is None else start.offset
        with self._named_errors():
            schema = self._checked_schema()
            declared = set(schema.names)
            present = [name for name in wanted.kinds if name in declared]
            head = str(schema.remove_metadata()).encode()
            # The row before the first one is read too: its values tell whether it is still the same file.
            for at, batch in self._batches(present, max(0, first - 1)):
                if start is not None and at < first <= at + len(batch):
                    check_tail(self.file.name, start, _tail(head, batch, at, first))
                for lo in range(max(0, first - at), len(batch), CHUNK_ROWS):
                    chunk = self._chunk(batch.slice(lo, CHUNK_ROWS), at + lo, wanted)
                    chunk.tail = partial(_tail, head, batch, at)
                    yield chunk

    def _checked_schema(self) -> Any:
        """Return the schema; raise SourceError if two columns have one name, so that neither can be meant by it."""
        schema = self._schema()
        repeated = [name for name, count in Counter(schema.names).items() if count > 1]
        if repeated:
            raise SourceError(
                f"{self.file.name} has more than one column called {listed(repeated)}; rename them in the file"
            )
        return schema

    def _chunk(self, batch: Any, at: int, wanted: Shape) -> Chunk:
        count = len(batch)
        columns: dict[str, Column] = {}
        reasons: dict[int, str] = {}
        present = set(batch.schema.names)
        for name, kind in wanted.kinds.items():
            assert kind is not None
            if name not in present or str(batch.column(name).type) == "null":
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
        return SourceError(f"{self.file.name} ends before row {row}, where the saved position is; it is another file")

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Turn what pyarrow raises into a SourceError that names the file."""
        pa = extra("pyarrow")
        try:
            yield
        except SourceError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise SourceError(
                f"{self.file.name} cannot be read: it is damaged, truncated or of another format ({error})"
            ) from error


def _tail(head: bytes, batch: Any, first: int, row: int) -> str:
    """Return a digest of the columns, and of the row before ``row`` in a batch that begins with row ``first``."""
    return tail_digest(head, repr(batch.slice(row - 1 - first, 1).to_pylist()).encode("utf-8", "backslashreplace"))


@register(
    "format", "arrow", endings=(".arrow", ".arrows", ".feather", ".ipc"), streamed=False, cells="typed", **PYARROW
)
class ArrowReader(ColumnarReader):
    """An Arrow (Feather) file, or a file that holds a stream of Arrow batches."""

    def _schema(self) -> Any:
        with self._opened() as (reader, _):
            return reader.schema

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, Iterator[Any]]]:
        """Open the file; yield its reader and an iterator of its record batches."""
        pa = extra("pyarrow")
        with pa.OSFile(self.file.path) as source:
            magic = source.read(6)
            source.seek(0)
            if magic == b"ARROW1":
                reader = pa.ipc.open_file(source)
                yield reader, (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                reader = pa.ipc.open_stream(source)
                yield reader, iter(reader)

    def _batches(self, columns: list[str], first_row: int) -> Iterator[tuple[int, Any]]:
        with self._opened() as (_, batches):
            row = 0
            for batch in batches:
                if row + len(batch) > first_row:
                    batch.validate(full=True)  # offsets in a damaged file may point anywhere
                    yield row, batch.select(columns)
                row += len(batch)
            if row < first_row:
                raise self._too_short(first_row)


@register("format", "parquet", endings=(".parquet", ".pq"), streamed=False, cells="typed", **PYARROW)
class ParquetReader(ColumnarReader):
    """A Parquet file, read one row group at a time and within it some rows at a time."""

    def _file(self) -> Any:
        return extra("pyarrow.parquet").ParquetFile(self.file.path, buffer_size=2**20, pre_buffer=False)

    def _schema(self) -> Any:
        with self._file() as file:
            return file.schema_arrow

    def _batches(self, columns: list[str], first_row: int) -> Iterator[tuple[int, Any]]:
        with self._file() as file:
            group_start = 0
            for group in range(file.num_row_groups):
                n_rows = file.metadata.row_group(group).num_rows
                if group_start + n_rows > first_row:
                    row = group_start
                    for batch in file.iter_batches(CHUNK_ROWS, [group], columns, use_threads=False):
                        if row + len(batch) > first_row:
                            yield row, batch
                        row += len(batch)
                group_start += n_rows
            if group_start < first_row:
                raise self._too_short(first_row)
