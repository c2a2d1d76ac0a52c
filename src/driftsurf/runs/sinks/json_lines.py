"""Predictions as JSON lines."""

from __future__ import annotations

import json

from driftsurf.registry import register
from driftsurf.runs.predictions import PredictionBatch
from driftsurf.runs.sinks._files import FileSink, Write

__all__ = ["JsonLinesEncoder", "JsonLinesSink"]


class JsonLinesEncoder:
    """Encodes each prediction as a JSON object on a line."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def add(self, predictions: PredictionBatch) -> None:
        """Encode one line for each row."""
        lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in predictions.rows())
        self._write("".join(lines).encode())

    def close(self) -> None:
        """Do nothing: JSON lines have no footer."""


@register("sink", "jsonl", endings=(".jsonl",))
class JsonLinesSink(FileSink):
    """File with a JSON object for each row."""

    def encoder(self, write: Write) -> JsonLinesEncoder:
        """Return an encoder of JSON lines."""
        return JsonLinesEncoder(write)
