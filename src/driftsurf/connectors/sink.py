"""Predictions in brokers and databases: the base of the sinks of connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, TypeAlias

from driftsurf.data.messages.contract import Writer
from driftsurf.errors import Option, RunFolderError
from driftsurf.runs.predictions import PredictionBatch
from driftsurf.runs.sinks import SinkContext

WriterFactory: TypeAlias = Callable[[str, Mapping[str, str]], Writer]
"""Makes the writer of an address, from the names and types of the columns."""


class ConnectorSink:
    """Predictions as rows of a broker or database, which is asked after a crash how many it holds.

    A writer that cannot tell gets the rows after the last checkpoint a second time.
    """

    writer: ClassVar[WriterFactory]
    """Class of the writer."""

    def __init__(self, destination: str, context: SinkContext) -> None:
        self.context = context
        self._writer: Writer = type(self).writer(destination, context.columns)

    def begin(self) -> None:
        """Connect, and make sure that no rows of another run are there."""
        there = self._writer.open()
        if there and not self.context.overwrite:
            raise RunFolderError(
                f"{self._writer.name} already holds {there:,} rows; choose another destination for ",
                Option(self.context.option),
                ", or remove them with ",
                Option("overwrite", True),
            )
        if there:
            self._writer.clear()

    def resume(self, row: int) -> int:
        """Connect; return the first row that the destination lacks."""
        there = self._writer.open()
        if not self._writer.exact:
            return row
        if there < row:
            raise RunFolderError(
                f"{self._writer.name} holds {there:,} rows, but the checkpoint counts {row:,} as written: rows were "
                "removed. Restore them, or start a new run"
            )
        return there

    def take(self, predictions: PredictionBatch) -> None:
        """Write the predictions of a batch."""
        self._writer.write(predictions.first_row, list(predictions.rows()))

    def flush(self) -> None:
        """Return when everything is durable that was taken."""
        self._writer.flush()

    def finish(self) -> None:
        """Disconnect after the last batch."""
        self._writer.flush()
        self.close()

    def close(self) -> None:
        """Disconnect."""
        self._writer.close()
