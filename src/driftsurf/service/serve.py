"""A service: models that are opened, an HTTP server, and a graceful end."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Self

from driftsurf.core import files
from driftsurf.data.tables import Table, empty_column
from driftsurf.errors import UnavailableError
from driftsurf.service.alerts import AlertThread
from driftsurf.service.alerts.readings import ModelReadings
from driftsurf.service.config import ModelConfig, ServiceConfig
from driftsurf.service.connections.connections import Connections
from driftsurf.service.contract import Served
from driftsurf.service.extra import require_telemetry
from driftsurf.service.http.app import App
from driftsurf.service.http.formats import ModelFormats
from driftsurf.service.http.server import HttpServer, check_address
from driftsurf.service.model import ServedModel, open_model
from driftsurf.service.page.pages import PAGES
from driftsurf.service.progress import Progress
from driftsurf.service.settings import SETTINGS_FILE, Keeping, ModelSettings
from driftsurf.service.telemetry import Telemetry

__all__ = ["Service"]

log: logging.Logger = logging.getLogger("driftsurf.service")
ALERTS = "alerts.json"
"""File of the alerts, in the folder of the models."""
TAKEN, REFUSED = ("predicted", "learned", "labelled"), ("skipped", "refused")
"""What the service counts of rows, by whether they were taken."""


class Service:
    """Context in which models are open; :meth:`run` serves them over HTTP until a signal comes.

    Parameters
    ----------
    config
        What is served, and how.
    reread
        Returns the configuration as it is now, for SIGHUP: keys, limits and alerts are taken from it.
    note
        Called with what is being done while the service starts, from any thread.
    """

    def __init__(
        self,
        config: ServiceConfig,
        reread: Callable[[], ServiceConfig] | None = None,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        config.check()
        check_address(config.service.host, has_keys=bool(config.keys))
        if config.telemetry.endpoint is not None:
            require_telemetry()
        self.config: ServiceConfig = config
        self.reread = reread
        self.note = note
        self._open = contextlib.ExitStack()
        self.models: dict[str, Served] = {}
        self._connections: list[tuple[ServedModel, Connections]] = []

    def __enter__(self) -> Self:
        config = self.config
        with self._open:
            folder = Path(config.service.folder)
            files.make_folder(folder)
            with Progress(self.note) as progress:
                for name, one in config.models.items():
                    progress.begin(f"opening {name}")
                    served, connections = open_served(folder / name, one, config.keeping)
                    self._open.callback(served.close)
                    self.models[name] = served
                    self._connections.append((served, connections))
                self._warm(progress)
            self.app: App = App(
                [(served, formats_of(served, config.models[name])) for name, served in self.models.items()],
                config.keys,
                config.limits,
                PAGES,
            )
            self.alerts: AlertThread = AlertThread(
                config.alerts, folder / ALERTS, ModelReadings(self.models, self._counts)
            )
            self.app.alerts = lambda: self.alerts.status
            if config.telemetry.endpoint is not None:
                telemetry = Telemetry(config.telemetry, lambda: self.app.families(self.app.entries.values()))
                self._open.callback(telemetry.close)
                self.app.record = telemetry.record
            self._open.enter_context(self.alerts)
            self._open.callback(self.app.readers.shutdown)
            self.server: HttpServer = HttpServer(self.app, config.service.host, config.service.port, self._reload)
            self._open.callback(self.server.socket.close)
            self.app.when_closing = self._stop_reading
            for served, connections in self._connections:
                self._open.callback(connections.close)
                connections.start(served, formats_of(served, config.models[served.name]))
            self._close = self._open.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._close.close()

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until SIGTERM or SIGINT, or until :meth:`stop` is called."""
        self.server.run(ready)
        log.info("models are saved")

    def stop(self) -> None:
        """End the service; from any thread."""
        self.server.stop()

    @property
    def address(self) -> str:
        """Where the service is reached."""
        return self.server.address

    def _counts(self, name: str) -> tuple[int, int]:
        """Return how many rows of a model were taken and refused since the service began."""
        counts = self.app.entries[name].counts
        sources = [one for one in self.models[name].status().connections if one.direction == "source"]
        return (
            sum(counts.get(kind, 0) for kind in TAKEN) + sum(one.rows for one in sources),
            sum(counts.get(kind, 0) for kind in REFUSED) + sum(one.bad_rows for one in sources),
        )

    def _stop_reading(self) -> None:
        for _, connections in self._connections:
            connections.stop_reading()

    def _warm(self, progress: Progress) -> None:
        """Compile or load what learning and predicting need, before anybody can connect."""
        progress.begin("loading compiled code")
        if any(not served.snapshot.version for served in self.models.values()):
            from driftsurf.report.doctor import warm

            warm(progress.part)
        for served in self.models.values():
            warm_up(served)

    def _reload(self) -> None:
        if self.reread is None:
            return
        config = self.reread()
        if bool(config.keys) != bool(self.config.keys):
            check_address(self.config.service.host, has_keys=bool(config.keys))
        self.app.change(config.keys, config.limits)
        self.alerts.change(config.alerts)
        self.config = config


def settings_of(model: ModelConfig, folder: Path) -> ModelSettings | None:
    """Return the settings of a model; None for one that exists, if nothing is said of it."""
    settings = model.options.settings()
    return None if settings == ModelSettings() and (folder / SETTINGS_FILE).exists() else settings


def open_served(folder: Path, model: ModelConfig, keeping: Keeping) -> tuple[ServedModel, Connections]:
    """Open a model with its sources and sinks, which are not connected yet."""
    connections = Connections(folder, model.sources, model.sinks)
    settings = settings_of(model, folder)
    served = open_model(folder, settings, keeping, challengers=model.challengers, connections=connections)
    return served, connections


def formats_of(served: Served, model: ModelConfig) -> ModelFormats:
    """Return how the rows of a model are read."""
    return ModelFormats(model.options.id, served.status().label, model.options.reading())


def warm_up(served: Served) -> None:
    """Predict one row without values, so that the first request waits for nothing."""
    columns = served.snapshot.columns
    if columns:
        with contextlib.suppress(UnavailableError):
            served.snapshot.predict(Table({one.name: empty_column(one.kind, 1) for one in columns}))
