"""Predictions as Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driftsurf.registry import register
from driftsurf.runs.predictions import LabelType, PredictionBatch
from driftsurf.runs.sinks._files import FileSink, Write

__all__ = ["ParquetEncoder", "ParquetSink"]


class ParquetEncoder:
    """Encodes predictions as Parquet, with a type for each column."""

    def __init__(self, write: Write, columns: Mapping[str, LabelType]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        types = {"text": pa.string(), "integer": pa.int64(), "boolean": pa.bool_(), "value": pa.float64()}
        self._schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
        self._table_of = pa.Table.from_pylist
        self._writer = pq.ParquetWriter(pa.PythonFile(_AppendOnly(write), "w"), self._schema)

    def add(self, predictions: PredictionBatch) -> None:
        """Encode the rows of a batch as one group of rows."""
        rows = list(predictions.rows())
        if predictions.ids is not None:
            for row in rows:
                row["id"] = str(row["id"])  # ids may be numbers in one batch and text in the next
        self._writer.write_table(self._table_of(rows, self._schema))

    def close(self) -> None:
        """Encode the footer."""
        self._writer.close()


class _AppendOnly:
    """File object for pyarrow that passes on what is written; the owner of the bytes flushes and closes them."""

    closed = False

    def __init__(self, write: Write) -> None:
        self._write, self._size = write, 0

    def write(self, data: Any) -> int:
        """Append bytes."""
        self._write(bytes(data))
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes so far."""
        return self._size

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


@register("sink", "parquet", endings=(".parquet",), requires=("pyarrow",), install="pip install pyarrow")
class ParquetSink(FileSink):
    """Parquet file with typed columns."""

    def encoder(self, write: Write) -> ParquetEncoder:
        """Return an encoder of Parquet."""
        return ParquetEncoder(write, self.context.columns)
