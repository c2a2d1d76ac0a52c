"""Predictions on standard output."""

from __future__ import annotations

import sys

from driftsurf.registry import register
from driftsurf.runs.predictions import PredictionBatch
from driftsurf.runs.sinks._base import STANDARD_OUTPUT, SinkContext
from driftsurf.runs.sinks.delimited import CsvEncoder
from driftsurf.visible import visible

__all__ = ["StandardOutputSink"]


@register("sink", "standard-output", schemes=(STANDARD_OUTPUT,))
class StandardOutputSink:
    """CSV on standard output, written at once. On a terminal, characters that would control it are shown escaped.

    Nothing can be taken back: after a resume rows since the checkpoint appear again, with the same numbers.
    """

    def __init__(self, destination: str, context: SinkContext) -> None:
        self.context = context

    def begin(self) -> None:
        """Write the header line."""
        self._encoder = CsvEncoder(_write, self.context.columns)

    def resume(self, row: int) -> int:
        """Write the header line again."""
        self.begin()
        return row

    def take(self, predictions: PredictionBatch) -> None:
        """Write the predictions of a batch."""
        self._encoder.add(predictions)

    def flush(self) -> None:
        """Do nothing: every batch is flushed."""

    def finish(self) -> None:
        """Do nothing: standard output belongs to the process."""


def _write(data: bytes) -> None:
    if sys.stdout.isatty():
        data = visible(data.decode(), lines=True).encode()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
