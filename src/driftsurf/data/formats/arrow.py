"""Arrow files, which include Feather files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from driftsurf.data.formats._columnar import ColumnarReader
from driftsurf.data.formats._reader import PYARROW, extra
from driftsurf.registry import register

__all__ = ["ArrowReader"]


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
