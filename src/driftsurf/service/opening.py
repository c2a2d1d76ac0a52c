"""Models that are being opened while the service listens already, and the thread that opens them."""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from driftsurf.core.changes import Background
from driftsurf.data.tables import Table, empty_column
from driftsurf.errors import (
    DriftsurfError,
    LockedError,
    LogUnreachableError,
    MissingExtraError,
    OptionError,
    UnavailableError,
)
from driftsurf.service.config import ModelConfig, ServiceConfig
from driftsurf.service.connections import Connections
from driftsurf.service.contract import UNJUDGED, Event, Judgement, ModelStatus, Phase, ServedColumn
from driftsurf.service.model import ServedModel, add_challengers, open_model
from driftsurf.service.replicas import set_aside
from driftsurf.service.settings import SETTINGS_FILE, Keeping, ModelSettings
from driftsurf.service.storage import can_write, storage_problem
from driftsurf.service.versions import Version
from driftsurf.session.label_counts import LabelCounts

SECONDS = 2.0
"""Time from one line to the next."""


class Progress(Background):
    """Context in which a thread says what is being done, and for how long, as long as it is being done.

    Parameters
    ----------
    note
        Called with each line, from any thread.
    seconds
        Time from one line to the next; two seconds by default.

    Examples
    --------
    >>> with Progress(print) as progress:
    ...     progress.begin("opening sales")
    opening sales
    """

    def __init__(self, note: Callable[[str], None], seconds: float | None = None) -> None:
        super().__init__("progress")
        self.note = note
        self.seconds: float = SECONDS if seconds is None else seconds
        self._what = self._part = ""
        self._began = time.monotonic()

    def begin(self, what: str) -> None:
        """Say what is done from now on."""
        self._what, self._part, self._began = what, "", time.monotonic()
        self.note(what)

    def part(self, name: str) -> None:
        """Take a part of the work as the one that is done now; it is named only if it takes long."""
        self._part = f" ({name})"

    def _work(self) -> None:
        while not self._ended.wait(self.seconds):
            if self._what:
                self.note(f"{self._what}{self._part}: {time.monotonic() - self._began:.0f} s so far")


log: logging.Logger = logging.getLogger("driftsurf.service")
POLL_SECONDS = 0.1
"""How often the thread looks whether a model has applied its log."""
RETRY_SECONDS = 2.0
"""How often the thread looks whether a model can be opened whose disk was full or could not be written."""
WAITS = (
    "Nothing is lost: the model is opened as soon as its folder can be written, and needs neither a restart nor a "
    "backup. Other models are served"
)
REMEDY = (
    "Other models are served. Restore the folder from a backup, or move it away to begin a new model, and restart the "
    "service; docs/operating.md says more under 'When a model does not open'"
)


class OpeningModel:
    """Stands for a model until it is open, or for good if it cannot be opened: it has a state, and takes nothing.

    Parameters
    ----------
    folder
        The folder of the model.
    model
        What the configuration says of it.
    """

    def __init__(self, folder: Path, model: ModelConfig) -> None:
        self.folder: Path = folder
        self.name: str = folder.name
        self.columns: tuple[ServedColumn, ...] = ()
        self.journal_lines: int = 0
        self.snapshot: Version = Version()
        self.failure: str = ""
        """Why the model cannot be opened; empty as long as it is being opened."""
        self.differs: bool = False
        self.place: tuple[int, int] | None = None
        self.waits: bool = False
        """Whether it is opened as soon as its disk can be written."""
        self._label = model.options.label or ""
        self._model = model.options.model or ""

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Raise UnavailableError."""
        if self.failure:
            raise UnavailableError(f"the model {self.name!r} could not be opened: {self.failure}")
        raise UnavailableError(f"the model {self.name!r} is being opened; try again soon")

    predict: Callable[..., NoReturn] = refuse
    predict_logged: Callable[..., NoReturn] = refuse
    learn: Callable[..., NoReturn] = refuse
    label: Callable[..., NoReturn] = refuse
    order: Callable[..., NoReturn] = refuse
    trace: Callable[..., NoReturn] = refuse
    moves: Callable[..., NoReturn] = refuse
    explain: Callable[..., NoReturn] = refuse
    report: Callable[..., NoReturn] = refuse
    parts: Callable[..., NoReturn] = refuse
    state: Callable[..., NoReturn] = refuse

    def status(self) -> ModelStatus:
        """Return what is known before the model is open."""
        phase: Phase = "failed" if self.failure else "recovering"
        nan = float("nan")
        free = shutil.disk_usage(self.folder if self.folder.exists() else self.folder.parent).free
        return ModelStatus(
            name=self.name, phase=phase, failure=self.failure, model=self._model, task=None, label=self._label,
            version=0, steps=0, pinned=False, applied=0, logged=0, durable=0, lag_rows=0, lag_seconds=0.0, log_bytes=0,
            free_bytes=free, checkpoint=0, rows=0, labels=LabelCounts(), early=0, last_label=None, error=nan,
            error_rows=0, usual_error=nan, trivial_error=nan, restore_points=(), challengers=(),
        )  # fmt: skip

    def judge(self) -> Judgement:
        """Return that nothing was scored."""
        return UNJUDGED

    def journal(self, since: int = 0, most: int = 1000) -> list[Event]:
        """Return no lines."""
        return []

    def close(self) -> None:
        """Do nothing."""


Served: TypeAlias = ServedModel | OpeningModel
"""What a front end is given: a model, or what stands for it until it is open."""


class _StoppedError(Exception):
    """The service ends while models are being opened."""


class Opener(Background):
    """Context in which a thread opens models; a model that cannot be opened fails alone.

    A model is given to ``opened`` once it has predicted; what was logged after its last checkpoint is applied
    meanwhile. Errors of the configuration end the service: ``error`` has them.

    Parameters
    ----------
    config
        What is served.
    places
        What stands for each model until it is open.
    opened
        Called with each model and its connections.
    done
        Called when every model has applied its log or has failed, or with an ``error``.
    closed
        Called with a model that could not write to its disk, and its connections, before it is opened again.
    note
        Called with what is being done.
    address
        Where other replicas reach this service.
    """

    def __init__(
        self,
        config: ServiceConfig,
        places: Sequence[OpeningModel],
        opened: Callable[[ServedModel, Connections], object],
        done: Callable[[], object],
        note: Callable[[str], None],
        closed: Callable[[ServedModel, OpeningModel], object] = lambda model, place: None,
        address: str = "",
    ) -> None:
        super().__init__("opener")
        self.config = config
        self.places = places
        self.error: Exception | None = None
        self._opened = opened
        self._done = done
        self._note = note
        self._closed = closed
        self._address = address
        self._open: dict[str, ServedModel] = {}
        """Models that were given away, by name."""
        self._unopened: list[tuple[ServedModel, Connections]] = []
        """Models that are open, and were not given away yet."""

    def stop(self) -> None:
        """Ask the thread to end, without waiting for that."""
        self._ended.set()

    def _work(self) -> None:
        try:
            with Progress(self._note) as progress:
                self._open_all(self.places, progress)
        except _StoppedError:
            return
        except Exception as error:
            self.error = error
        finally:
            self._close_unopened()
        self._done()
        while self.error is None and not self._ended.wait(RETRY_SECONDS):
            try:
                self._open_again()
            except _StoppedError:
                return
            except Exception:  # one of the configuration, which was right before
                log.exception("a model cannot be opened again")
            finally:
                self._close_unopened()

    def _close_unopened(self) -> None:
        for served, _ in self._unopened:
            served.close()
        self._unopened.clear()

    def _open_again(self) -> None:
        """Open models again whose disk was full or could not be written, if it can be now."""
        again: list[OpeningModel] = []
        for place in self.places:
            served = self._open.get(place.name)
            waits = place.waits if served is None else served.storage_problem or served.differs
            if not waits or not can_write(place.folder):
                continue
            if served is not None:
                place.failure = ""
                self._closed(self._open.pop(place.name), place)
                if served.differs:
                    log.error("%s is built again: %s", place.name, served.status().failure)
                    set_aside(place.folder)
            again.append(place)
        if again:
            with Progress(self._note) as progress:
                self._open_all(again, progress)
            for place in again:
                if not place.failure:
                    log.warning("%s is open again", place.name)

    def _open_all(self, places: Sequence[OpeningModel], progress: Progress) -> None:
        for place in places:
            self._check_going()
            progress.begin(f"opening {place.name}")
            try:
                found = open_served(place.folder, self.config.models[place.name], self.config.keeping, self._address)
            except (OptionError, LockedError, MissingExtraError):  # of the configuration, or of a second service
                raise
            except Exception as error:
                known = isinstance(error, (DriftsurfError, OSError))
                problem = storage_problem(error, place.folder)
                place.waits = bool(problem) or isinstance(error, LogUnreachableError)
                failure = f"{problem}. {WAITS}" if problem else f"{error if known else repr(error)}. {REMEDY}"
                if failure != place.failure:
                    log.error("%s cannot be opened: %s", place.name, failure, exc_info=not known)
                place.failure = failure
                continue
            place.failure, place.waits = "", False
            self._unopened.append(found)
        waiting = [served for served, _ in self._unopened]
        self._give(list(self._unopened))
        self._wait_ready(waiting, progress)

    def _give(self, found: Sequence[tuple[ServedModel, Connections]]) -> None:
        for served, connections in found:
            self._check_going()
            warm_up(served)
            self._unopened.remove((served, connections))
            self._open[served.name] = served
            self._opened(served, connections)

    def _wait_ready(self, waiting: Sequence[ServedModel], progress: Progress) -> None:
        """Wait until models have applied their logs, and then add the challengers of the configuration."""
        said: list[str] = []
        while waiting:
            self._check_going()
            recovering: list[ServedModel] = []
            for served in waiting:
                if served.wait_ready(POLL_SECONDS):
                    add_challengers(served, self.config.models[served.name].challengers)
                elif served.status().phase in ("recovering", "ready"):  # ready since: it gets challengers next time
                    recovering.append(served)
            waiting = recovering
            names = [served.name for served in waiting]
            if names and names != said:
                said = names
                progress.begin(f"applying the log of {', '.join(names)}")
            found = [served.status() for served in waiting]
            progress.part(f"{sum(one.applied for one in found):,} of {sum(one.logged for one in found):,} records")

    def _check_going(self) -> None:
        if self._ended.is_set():
            raise _StoppedError


def settings_of(model: ModelConfig, folder: Path) -> ModelSettings | None:
    """Return the settings of a model; None for one that exists, if nothing is said of it."""
    settings = model.options.settings()
    return None if settings == ModelSettings() and (folder / SETTINGS_FILE).exists() else settings


def open_served(
    folder: Path, model: ModelConfig, keeping: Keeping, address: str = ""
) -> tuple[ServedModel, Connections]:
    """Open a model with its sources and sinks, which are not connected yet."""
    connections = Connections(folder, model.sources, model.sinks)
    served = open_model(
        folder, settings_of(model, folder), keeping, connections=connections, log=model.options.log, address=address
    )
    return served, connections


def warm_up(served: Served) -> None:
    """Predict one row without values, so that the first request waits for nothing."""
    columns = served.snapshot.columns
    if columns:
        with contextlib.suppress(UnavailableError):
            served.snapshot.predict(Table({one.name: empty_column(one.kind, 1) for one in columns}))
