"""Predictions as comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable
from typing import Any

from driftsurf.registry import register
from driftsurf.runs.predictions import PredictionBatch
from driftsurf.runs.sinks._files import FileSink, Write

__all__ = ["CsvEncoder", "CsvSink"]


class CsvEncoder:
    """Encodes predictions as CSV with a header line."""

    def __init__(self, write: Write, columns: Collection[str]) -> None:
        self._write_bytes = write
        self._write([columns])

    def _write(self, lines: Iterable[Collection[Any]]) -> None:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(lines)
        self._write_bytes(out.getvalue().encode())

    def add(self, predictions: PredictionBatch) -> None:
        """Encode one line for each row."""
        self._write([list(row.values()) for row in predictions.rows()])

    def close(self) -> None:
        """Do nothing: CSV has no footer."""


@register("sink", "csv", endings=(".csv",))
class CsvSink(FileSink):
    """CSV file with a header line."""

    def encoder(self, write: Write) -> CsvEncoder:
        """Return an encoder of CSV."""
        return CsvEncoder(write, self.context.columns)
