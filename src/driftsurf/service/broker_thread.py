"""A thread that is connected to a broker or database, reconnects after outages, and reports its status."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from driftsurf.core import files
from driftsurf.core.disk import lower_priority
from driftsurf.core.files import parse_json
from driftsurf.core.options import check_bounds, choice, option
from driftsurf.data.messages.client import watched
from driftsurf.data.messages.decoding import FORMATS
from driftsurf.errors import DriftsurfError, OptionError, SourceUnreachableError, StateError
from driftsurf.errors.visible import safe_address, visible
from driftsurf.service.contract import ConnectionStatus
from driftsurf.service.model import ServedModel

SourceKind: TypeAlias = Literal["predict", "learn", "label"]
SinkKind: TypeAlias = Literal["predictions", "journal"]
LARGEST_BATCH = 10_000
LEAST_KEYS = 2 * LARGEST_BATCH
"""Idempotency keys that a model with sources has to remember: those of batches that are read again after a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """A broker or database from which a model reads rows or labels."""

    address: str = option("", "Address, such as redis://host/0/orders.")
    kind: str = option(
        "", "What is done with rows, as over HTTP: predict, learn or label.", choices=get_args(SourceKind)
    )
    format: str = option("jsonl", "Format of a message.", choices=FORMATS)
    names: tuple[str, ...] = option((), "Columns of a message that is a line of CSV.", repeated=True)
    id: str | None = option(None, "Column of ids.  [default: that of the model]")
    label: str | None = option(None, "Column of labels.  [default: that of the model]")
    drop: tuple[str, ...] = option((), "Columns that are left out.", repeated=True)
    batch_size: int = option(1000, "Messages of a batch at most.", at_least=1)
    batch_wait: float = option(0.2, "Seconds after which a batch is taken that is not full yet.", above=0.0)

    def check(self, where: str) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        check_bounds(self)
        _check_given(where, self.address, self.kind, get_args(SourceKind))
        choice(f"{where}: format", self.format, FORMATS)
        if self.batch_size > LARGEST_BATCH:
            raise OptionError(f"{where}: batch-size is {self.batch_size:,}; use at most {LARGEST_BATCH:,}")
        if self.format == "csv" and not self.names:
            raise OptionError(f'{where}: lines of CSV have no header; name their columns, names = ["price", "sold"]')
        if self.names and self.format != "csv":
            raise OptionError(f"{where}: names is for lines of CSV, and the format is {self.format!r}; leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """A broker or database to which a model writes its predictions or its journal."""

    address: str = option("", "Address, such as postgresql://host/dw/scores.")
    kind: str = option("", "What is written: predictions or journal.", choices=get_args(SinkKind))
    overwrite: bool = option(False, "Whether rows that are there when the sink is first used are removed.")

    def check(self, where: str) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        _check_given(where, self.address, self.kind, get_args(SinkKind))


def _check_given(where: str, address: str, kind: str, kinds: tuple[str, ...]) -> None:
    if not address:
        raise OptionError(f'{where} needs an address, such as address = "redis://host/0/orders"')
    choice(f"{where}: kind", kind, kinds)


log: logging.Logger = logging.getLogger("driftsurf.service")
AGAIN_SECONDS = 1.0
"""Time after which a system is asked again that could not be reached."""
END_SECONDS = 15.0
"""How long the end of a service waits for a connection; what it was doing is repeated at the next start."""


class Stopped(Exception):  # not an error: the service ends
    """The connection has to end now."""


class Connection:
    """A thread with a connection. A subclass does the work in :meth:`work`.

    Parameters
    ----------
    name
        Name in the configuration.
    direction, kind
        Whether it is a source or a sink, and of what.
    address
        The address without its parameters.
    folder
        Folder with what is saved.
    """

    def __init__(self, name: str, direction: Literal["source", "sink"], kind: str, address: str, folder: Path) -> None:
        self.name = name
        self.direction: Literal["source", "sink"] = direction
        self.kind = kind
        self.address: str = safe_address(address)
        self.folder = folder
        self.rows: int = 0
        self.bad_rows: int = 0
        self.stopping: threading.Event = threading.Event()
        self._state: Literal["connecting", "running", "reconnecting", "waiting", "stopped"] = "connecting"
        self._reconnects = 0
        self._error = ""
        self._thread: threading.Thread | None = None

    # ------------------------------------------------------------------------ what a subclass provides

    def work(self, model: ServedModel) -> None:
        """Connect and work until ``stopping`` is set; SourceUnreachableError if the system is lost meanwhile."""
        raise NotImplementedError

    def disconnect(self) -> None:
        """Close the connection; a second call does nothing."""

    def lag(self) -> int | None:
        """Return how much there is still to do; None if that is not known."""
        return None

    # ------------------------------------------------------------------------ the thread

    @property
    def title(self) -> str:
        """Direction, name and address, such as "source 'orders' (redis://host/0/orders)"."""
        return f"{self.direction} {self.name!r} ({self.address})"

    def start(self, model: ServedModel) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, args=(model,), name=self.title, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; a second call does nothing."""
        self.stopping.set()
        if self._thread is not None:
            self._thread.join(END_SECONDS)
            if self._thread.is_alive():
                log.warning("%s of %s has not ended yet; it is left alone", self.title, self.folder.parent.parent.name)

    def status(self) -> ConnectionStatus:
        """Return the state."""
        return ConnectionStatus(
            self.name, self.direction, self.kind, self.address, self._state, self.rows, self.bad_rows, self.lag(),
            self._reconnects, self._error,
        )  # fmt: skip

    def connected(self) -> None:
        """Note that the system was reached."""
        log.info("%s is connected", self.title)
        self.going()

    def going(self, error: str = "") -> None:
        """Note that the connection works; ``error`` is a problem to show all the same."""
        self._state, self._error = "running", error

    def wait(self, error: str, seconds: float) -> None:
        """Wait for the model; Stopped if the service ends."""
        if self._error != error:
            log.warning("%s waits: %s", self.title, error)
        self._state, self._error = "waiting", error
        if self.stopping.wait(seconds):
            raise Stopped

    def _failed(self, reason: str) -> None:
        """Note a failed attempt to reach the system."""
        self._reconnects += 1
        self._state, self._error = "reconnecting", str(visible(reason))
        if self.stopping.is_set():
            raise Stopped

    def _run(self, model: ServedModel) -> None:
        lower_priority()  # below the thread that answers requests
        try:
            files.make_folder(self.folder)
            while not self.stopping.is_set():
                try:
                    with watched(self._failed):
                        self.work(model)
                except SourceUnreachableError as error:
                    log.warning("%s: %s", self.title, error)
                    self._state, self._error = "reconnecting", str(error)
                    self.stopping.wait(AGAIN_SECONDS)
                finally:
                    self.disconnect()
        except Stopped:
            pass
        except DriftsurfError as error:
            log.error("%s of %s has stopped; the model continues without it: %s", self.title, model.name, error)
            self._error = str(error)
        except Exception as error:
            log.exception("%s of %s has stopped; the model continues without it", self.title, model.name)
            self._error = f"{type(error).__name__}: {visible(str(error))}"
        finally:
            self._state = "stopped"


class Due:
    """Tells when something should be saved again: after a second, or after a number of batches."""

    def __init__(self, seconds: float, batches: int) -> None:
        self.seconds = seconds
        self.batches = batches
        self._since = time.monotonic()
        self._done = 0

    def count(self, batches: int = 1) -> None:
        """Count batches that are not saved."""
        self._done += batches

    def __bool__(self) -> bool:
        return self._done >= self.batches or (self._done > 0 and time.monotonic() - self._since >= self.seconds)

    def saved(self) -> None:
        """Begin again."""
        self._since, self._done = time.monotonic(), 0


# ---------------------------------------------------------------------------- files


def read_state(path: Path, names: Mapping[str, type]) -> dict[str, Any] | None:
    """Return what ``write_state`` wrote; None if there is no such file, StateError if it is something else."""
    if not path.exists():
        return None
    try:
        found = parse_json(files.read_bytes(path))
        if not isinstance(found, dict) or not all(isinstance(found.get(name), kind) for name, kind in names.items()):
            raise ValueError("entries are missing")
    except ValueError as error:
        raise StateError(f"{str(path)!r} is damaged ({error}); restore it, or rename the connection") from error
    return found


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write plain values to a file, atomically and durably."""
    files.write_text(path, json.dumps(state) + "\n")
    files.sync_folder(path.parent)
