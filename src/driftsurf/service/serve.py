"""A service: models that are opened, an HTTP server, and a graceful end."""

from __future__ import annotations

import contextlib
import difflib
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Self

from driftsurf.core import files
from driftsurf.errors import Option, OptionError
from driftsurf.runs.alerts import AlertThread
from driftsurf.runs.start import FinishedRun
from driftsurf.service.alert_readings import ModelReadings
from driftsurf.service.config import ModelConfig, ServiceConfig, formats_of
from driftsurf.service.connections import Connections
from driftsurf.service.http.app import App
from driftsurf.service.http.server import HttpServer, check_address
from driftsurf.service.model import ServedModel
from driftsurf.service.opening import Opener, OpeningModel, Served
from driftsurf.service.page.pages import PAGES
from driftsurf.service.settings import SETTINGS_FILE, require_telemetry
from driftsurf.service.telemetry import Telemetry
from driftsurf.service.wire.formats import ModelFormats

log: logging.Logger = logging.getLogger("driftsurf.service")
ALERTS = "alerts.json"
"""File of the alerts, in the folder of the models."""
TAKEN, REFUSED = ("predicted", "learned", "labelled"), ("skipped", "refused")
"""What the service counts of rows, by whether they were taken."""


class Service:
    """Context of a service; :meth:`run` listens, opens the models, and serves them over HTTP until a signal comes.

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
            for name, one in config.models.items():
                if not (folder / name / SETTINGS_FILE).exists():
                    self.note(announced(folder, name, one))
            files.make_folder(folder)
            self.places: list[OpeningModel] = [OpeningModel(folder / name, one) for name, one in config.models.items()]
            self.models.update({place.name: place for place in self.places})
            self.app: App = App([(place, ModelFormats()) for place in self.places], config.keys, config.limits, PAGES)
            for place in self.places:
                self.app.entries[place.name].refuse = place.refuse
            self._open.callback(self._close_models)
            self.alerts: AlertThread = AlertThread(
                config.linked_alerts, folder / ALERTS, ModelReadings(self.models, self._counts)
            )
            self.app.alerts = lambda: self.alerts.status
            if config.telemetry.endpoint is not None:
                telemetry = Telemetry(config.telemetry, lambda: self.app.families(self.app.entries.values()))
                self._open.callback(telemetry.close)
                self.app.record = telemetry.record
            self._open.enter_context(self.alerts)
            self._open.callback(self.app.readers.shutdown)
            self._open.callback(self.app.passing.close)
            self.server: HttpServer = HttpServer(self.app, config.service.host, config.service.port, self._reload)
            self._open.callback(self.server.socket.close)
            self._open.callback(self._close_connections)
            self._close = self._open.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._close.close()

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until SIGTERM or SIGINT, or until :meth:`stop` is called.

        The port is open at once. ``ready`` is called, by any thread, when every model has applied its log or failed.
        """

        def done() -> None:
            if opener.error is None:
                ready()
            else:
                self.stop()

        opener = Opener(
            self.config,
            self.places,
            self._opened,
            done,
            self.note,
            self._closed,
            self.config.service.address or self.address,
        )

        def closing() -> None:
            opener.stop()
            for _, connections in self._connections:
                connections.stop_reading()

        self.app.when_closing = closing
        with contextlib.ExitStack() as opening:

            def listening() -> None:
                self.note(f"listening at {self.address}; models are being opened")
                opening.enter_context(opener)

            self.server.run(listening)
        if opener.error is not None:
            raise opener.error

    def stop(self) -> None:
        """End the service; from any thread."""
        self.server.stop()

    def described(self) -> Iterator[str]:
        """Yield a line for each model that is open: where its ids are, and how many rows are a step."""
        for served, _ in self._connections:
            id = self.app.entries[served.name].formats.id
            ids = f"ids are in the column `{id}`" if id else "rows have no ids"
            yield f"{served.name}: {ids}; steps of {served.blueprint.batch_size:,} rows"

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

    def _opened(self, served: ServedModel, connections: Connections) -> None:
        """Serve a model that has been opened."""
        formats = formats_of(served.blueprint, self.config.models[served.name].options)
        self.models[served.name] = served
        self.app.entries[served.name].serve(served, formats)
        self._connections.append((served, connections))
        connections.start(served, formats)

    def _closed(self, served: ServedModel, place: OpeningModel) -> None:
        """Close a model that could not write to its disk; ``place`` stands for it until it is open again."""
        entry = self.app.entries[served.name]
        self.models[served.name] = place
        entry.serve(place, ModelFormats())
        entry.refuse = place.refuse
        for one in [one for one in self._connections if one[0] is served]:
            one[1].close()
            self._connections.remove(one)
        served.close()

    def _close_connections(self) -> None:
        with contextlib.ExitStack() as closing:
            for _, connections in self._connections:
                closing.callback(connections.close)

    def _close_models(self) -> None:
        with contextlib.ExitStack() as closing:
            for served in self.models.values():
                closing.callback(served.close)
        log.info("models are saved")

    def _reload(self) -> None:
        if self.reread is None:
            return
        config = self.reread()
        if bool(config.keys) != bool(self.config.keys):
            check_address(self.config.service.host, has_keys=bool(config.keys))
        self.app.change(config.keys, config.limits)
        self.alerts.change(config.linked_alerts)
        # Some models may still have to be opened: as they were asked for when the service began.
        self.config = replace(config, models=self.config.models)


def announced(folder: Path, name: str, model: ModelConfig) -> str:
    """Return what is said before a model is made; OptionError unless enough is known of it to be no slip."""
    others = [one.parent.name for one in folder.glob(f"*/{SETTINGS_FILE}")]
    similar = next(iter(difflib.get_close_matches(name, others, 1)), None)
    there = "" if similar is None else f"; there is {similar!r}"
    if not model.options.label and model.options.start_from is None:
        raise OptionError(
            f"there is no model {name!r} in {folder}{there}. A new one needs ",
            Option("label"),
            ", the name of its labels, or ",
            Option("start_from"),
            ", a finished run",
        )
    if model.options.start_from is not None:
        FinishedRun.read(Path(model.options.start_from))  # raises an error unless it is one
    return f"making a new model {name!r} in {folder}{there}"
