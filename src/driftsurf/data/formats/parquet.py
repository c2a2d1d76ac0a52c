"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from driftsurf.data.formats._columnar import CHUNK_ROWS, ColumnarReader
from driftsurf.data.formats._reader import PYARROW, extra
from driftsurf.registry import register

__all__ = ["ParquetReader"]


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
