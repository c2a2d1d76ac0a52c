"""All sources and sinks of a served model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from driftsurf.service.broker_thread import Connection, SinkOptions, SourceOptions
from driftsurf.service.contract import ConnectionStatus
from driftsurf.service.model import ServedModel
from driftsurf.service.served_sink import NOTHING, Shipper
from driftsurf.service.served_source import Feeder
from driftsurf.service.wire.formats import ModelFormats

SOURCES, SINKS = "sources", "sinks"
"""Tables of the configuration, and folders in the folder of a model."""


class Connections:
    """The sources and sinks of a model; nothing is connected before ``start``.

    Parameters
    ----------
    folder
        Folder of the model.
    sources, sinks
        Their options by name.
    """

    def __init__(
        self,
        folder: Path,
        sources: Mapping[str, SourceOptions],
        sinks: Mapping[str, SinkOptions],
    ) -> None:
        self.sources: list[Feeder] = [Feeder(name, one, folder / SOURCES / name) for name, one in sources.items()]
        self.sinks: list[Shipper] = [Shipper(name, one, folder / SINKS / name) for name, one in sinks.items()]

    @property
    def _all(self) -> list[Connection]:
        return [*self.sources, *self.sinks]

    def start(self, model: ServedModel, formats: ModelFormats) -> None:
        """Start all threads; rows are read like those of requests in these formats."""
        for source in self.sources:
            source.prepare(formats)
        for one in self._all:
            one.start(model)

    def stop_reading(self) -> None:
        """Let sources end soon; from any thread."""
        for one in self.sources:
            one.stopping.set()

    def close(self) -> None:
        """End sources, then sinks, which write what is left; a second call does nothing."""
        self.stop_reading()
        for one in self._all:
            one.close()

    def status(self) -> tuple[ConnectionStatus, ...]:
        """Return the state of each."""
        return tuple(one.status() for one in self._all)

    def needed(self) -> int:
        """Return the first record of the log that has not been written to every sink."""
        return min((one.needed() for one in self.sinks), default=NOTHING)
