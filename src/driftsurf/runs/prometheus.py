"""Metrics of a run in the text format of Prometheus: as text, in a file, or behind a port."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import logging
import math
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from driftsurf.core import files
from driftsurf.core.decisions import Decision
from driftsurf.core.drifts import DriftNews
from driftsurf.errors import Option, OptionError, RunFolderError, reason
from driftsurf.errors.visible import visible, without_secrets
from driftsurf.runs.live import LiveRun
from driftsurf.session.protocols import LateLabelled, Model

log: logging.Logger = logging.getLogger("driftsurf.run")
DRIFTS = "drifts_total", "counter", "Drifts that were detected."
DRIFTING = "drifting", "gauge", "1 while a drift goes on, else 0."
"""Name, type and meaning of the metrics of drifts, of runs and of served models."""
SECONDS_BETWEEN = 1.0
"""A file of metrics is written at most this often."""


@dataclass
class _Counts:
    """Counts of one model since this process began."""

    error: float = math.nan
    """Error of the last step; NaN if it is not known."""
    reactive: bool = False
    labelled: int | None = None
    """Number of rows whose label came; None if labels come with their rows."""
    steps: int = 0
    rows: int = 0
    gradients: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    news: DriftNews = field(default_factory=DriftNews)
    drifts: int = 0


class RunMetrics:
    """Counts the steps of a run as they are reported, and gives the counts as text at any time, from any thread.

    The counts are those of this process: as Prometheus expects, they start at 0 when a run resumes.

    Parameters
    ----------
    live
        The run.
    clock
        Returns the time in seconds since 1970.
    """

    def __init__(self, live: LiveRun, clock: Callable[[], float] = time.time) -> None:
        self.live = live
        self.clock = clock
        self._began = clock()
        self._last_label: float | None = None
        self._models = {name: _Counts(labelled=_labelled(model)) for name, model in live.models.items()}
        self._models[live.leading].news = DriftNews(live.drifts.known)
        self._lock = threading.Lock()

    def __call__(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Count one step of one model."""
        with self._lock:
            counts = self._models[model]
            if counts.labelled is None:
                self._last_label = self.clock()
            counts.error = error
            counts.steps += 1
            for decision in decisions:
                counts.reactive = decision.state == "reactive"
                counts.rows += decision.rows
                counts.gradients += decision.gradients
                counts.kinds.update(transition.kind for transition in decision.transitions)
                counts.drifts += sum(phase == "began" for phase, _ in counts.news.take(decision.drifts))

    def batch(self) -> None:
        """Note whether labels came with a batch, where they come late."""
        with self._lock:
            for name, counts in self._models.items():
                labelled = _labelled(self.live.models[name])
                if labelled != counts.labelled:
                    self._last_label, counts.labelled = self.clock(), labelled

    def text(self) -> str:
        """Return all metrics as they are now."""
        with self._lock:
            return "".join(self._lines())

    def _lines(self) -> Iterable[str]:
        live, models = self.live, self._models

        def each(value: Callable[[_Counts], float]) -> dict[str, float]:
            return {metric_labels(name): value(counts) for name, counts in models.items()}

        errors = {labels: one for labels, one in each(lambda counts: counts.error).items() if not math.isnan(one)}
        what = "Error of the last step: share of wrong rows, or root mean squared error."
        yield from family("error", "gauge", what, errors)
        if (estimate := live.estimated_error) is not None:
            own, what = metric_labels(live.leading), "Error of the newest rows, as estimated before their labels came."
            yield from family("estimated_error", "gauge", what, {own: estimate.value})
            ends = {"low": estimate.low, "high": estimate.high}
            what = "Ends of the interval that holds the true error of the newest rows for 90 % of the estimates."
            found = {metric_labels(live.leading, end=end): value for end, value in ends.items()}
            yield from family("estimated_error_interval", "gauge", what, found)
        yield from family(
            "reactive", "gauge", "1 in the reactive state, else 0.", each(lambda counts: int(counts.reactive))
        )
        yield from family("steps_total", "counter", "Steps taken.", each(lambda counts: counts.steps))
        yield from family("rows_total", "counter", "Rows learned.", each(lambda counts: counts.rows))
        yield from family("gradients_total", "counter", "Gradients spent.", each(lambda counts: counts.gradients))
        kinds = {
            metric_labels(name, kind=kind): count
            for name, counts in models.items()
            for kind, count in sorted(counts.kinds.items())
        }
        yield from family("transitions_total", "counter", "Transitions by kind.", kinds)
        yield from family(*DRIFTS, each(lambda counts: counts.drifts))
        yield from family(*DRIFTING, each(lambda counts: int(counts.news.drifting)))
        lag = live.models[live.leading].rows_pending
        yield from family("lag_rows", "gauge", "Rows that came and are not learned yet.", {"": lag})
        yield from family("step", "gauge", "Number of the next step.", {"": live.step})
        skipped = live.plan.source.skipped
        yield from family("skipped_rows", "gauge", "Bad rows skipped since the beginning of the run.", {"": skipped})
        age = self.clock() - (self._began if self._last_label is None else self._last_label)
        what = "Seconds since the last labels came, or since the process began."
        yield from family("last_label_age_seconds", "gauge", what, {"": age})
        if self._last_label is not None:
            what = "When the last labels came, in seconds since 1970."
            yield from family("last_label_timestamp_seconds", "gauge", what, {"": self._last_label})
        yield from family("done", "gauge", "1 when the source has ended.", {"": int(live.done)})


BEGINNING = b"# HELP driftsurf_"


def _labelled(model: Model) -> int | None:
    return model.label_counts.labelled if isinstance(model, LateLabelled) else None


def family(name: str, kind: str, what: str, values: Mapping[str, float]) -> Iterable[str]:
    """Yield the lines of a metric, with a value for each set of labels; none if there is no value."""
    if values:
        yield f"# HELP driftsurf_{name} {what}\n# TYPE driftsurf_{name} {kind}\n"
        for labels, value in values.items():
            yield f"driftsurf_{name}{labels} {value:.16g}\n"


def metric_labels(model: str, **more: str) -> str:
    """Return labels in the text format, such as ``{model="sales"}``."""
    return label_text({"model": model} | more)


def label_text(labels: Mapping[str, str]) -> str:
    """Return labels in the text format; "" if there are none."""
    pairs = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(text: str) -> str:
    return visible(without_secrets(text), lines=True).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _may_be_metrics(path: Path) -> bool:
    """Return whether a file is empty, or begins as the metrics of a run do."""
    with path.open("rb") as file:
        return file.read(len(BEGINNING)) in (b"", BEGINNING)


class MetricsFile:
    """Context that keeps a file of metrics up to date, at most once a second. Write errors are logged, not raised."""

    def __init__(self, path: Path, metrics: RunMetrics, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.metrics = metrics
        self.clock = clock
        self._next = 0.0
        self._failed = False

    @staticmethod
    def check(path: Path) -> None:
        """Raise RunFolderError if the path is taken by something else than metrics, which would be replaced."""
        if path.exists() and not (path.is_file() and _may_be_metrics(path)):
            raise RunFolderError(
                f"{str(path)!r} already exists, and does not hold metrics; choose another file for ", Option("metrics")
            )

    def __enter__(self) -> Self:
        self._write()
        return self

    def __exit__(self, *_: object) -> None:
        self._write()

    def batch(self) -> None:
        """Write the file, unless it was written less than a second ago."""
        if self.clock() >= self._next:
            self._write()

    def _write(self) -> None:
        self._next = self.clock() + SECONDS_BETWEEN
        try:
            files.write_text(self.path, self.metrics.text(), shared=True)
            self._failed = False
        except OSError as error:
            if not self._failed:  # one line in the log for a failure that lasts, not one a second
                log.warning("metrics cannot be written: %s", error)
            self._failed = True


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_CONNECTIONS = 16
"""Connections at a time; further ones are closed at once."""
DEADLINE = 5.0
"""Seconds after which a connection is closed, whatever its client does."""


class MetricsServer:
    """Context that answers ``GET /metrics`` in a thread of its own.

    Parameters
    ----------
    port
        Port to listen on; 0 takes a free one.
    metrics
        What to answer with.
    host
        Address to listen on. The default serves this machine only, and answers only requests whose ``Host`` is
        localhost or a loopback address: a web page from elsewhere could send others under a name that leads here.
    """

    def __init__(self, port: int, metrics: RunMetrics, host: str = "127.0.0.1") -> None:
        try:
            self.server: _Server = _Server((host, port), _handler(metrics))
        except OSError as error:
            raise OptionError(
                Option("metrics"),
                f" cannot be served at {host}:{port}: {reason(error)}; choose another port, or a file",
            ) from error
        self.port: int = self.server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, daemon=True, name="driftsurf-metrics").start()
        log.info("metrics: http://%s:%d/metrics", self.server.server_address[0], self.port)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


class _Server(ThreadingHTTPServer):
    """A server with a bounded number of connections, each of which ends after a time."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(address, handler)
        self.local: bool = _is_loopback(str(self.server_address[0]))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, unless too many are at work."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, for as long as the deadline allows."""
        deadline = threading.Timer(DEADLINE, _end, [request])
        deadline.daemon = True
        try:
            deadline.start()
            super().process_request_thread(request, client_address)
        except RuntimeError:  # no thread for the deadline; what fails while answering does not come here
            self.handle_error(request, client_address)
            self.shutdown_request(request)
        finally:
            deadline.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what a client that went away or was cut off has caused."""
        log.debug("metrics: a connection was lost", exc_info=True)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may be closed by now
        connection.shutdown(socket.SHUT_RDWR)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


@functools.lru_cache(maxsize=64)
def names_this_machine(host: str) -> bool:
    """Return whether the Host of a request is localhost or a loopback address, with or without a port.

    >>> [names_this_machine(host) for host in ("localhost:9464", "127.0.0.1", "[::1]:9464")]
    [True, True, True]
    >>> [names_this_machine(host) for host in ("evil.example:9464", "169.254.169.254", "localhost.evil.example")]
    [False, False, False]
    """
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and not host.endswith("]") else host
    if name.startswith("[") != name.endswith("]"):
        return False
    return name.lower().removesuffix(".") == "localhost" or _is_loopback(name.removeprefix("[").removesuffix("]"))


def _handler(metrics: RunMetrics) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers ``GET /metrics`` and nothing else."""

        timeout = DEADLINE
        server_version = "driftsurf"
        sys_version = ""
        server: _Server

        def do_GET(self) -> None:
            if self.server.local and not names_this_machine(self.headers.get("Host", "localhost")):
                self.send_error(403)
                return
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            body = metrics.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            log.debug("metrics: " + format, *arguments)

    return Handler
