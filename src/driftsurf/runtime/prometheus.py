"""A run in Prometheus' text format, in a file or behind a port."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from driftsurf.decisions import Decision
from driftsurf.errors import OptionError
from driftsurf.runtime import files
from driftsurf.runtime.run import Run

__all__ = ["MetricsFile", "MetricsServer", "RunMetrics"]

log = logging.getLogger("driftsurf.run")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS_BETWEEN = 1.0


@dataclass
class _Counts:
    """Of one model, since this process began."""

    error: float = 0.0
    reactive: bool = False
    labelled: int = 0
    """Rows whose label came, where labels come late."""
    steps: int = 0
    rows: int = 0
    gradients: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


class RunMetrics:
    """Counts the steps of a run as they are reported; gives them as text at any time, from any thread.

    Counters are of this process: as Prometheus has it, they begin at 0 when a run goes on.
    """

    def __init__(self, run: Run, clock: Callable[[], float] = time.time) -> None:
        self.run = run
        self.clock = clock
        self._began = clock()
        self._last: float | None = None
        self._models = {
            name: _Counts(labelled=getattr(session, "labelled", 0)) for name, session in run.sessions.items()
        }
        self._lock = threading.Lock()

    def __call__(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Count one step of one model."""
        with self._lock:
            counts = self._models[model]
            labelled = getattr(self.run.sessions[model], "labelled", None)
            if labelled is None or labelled != counts.labelled:
                self._last, counts.labelled = self.clock(), labelled or 0
            counts.error = error
            counts.steps += 1
            for decision in decisions:
                counts.reactive = decision.state == "reactive"
                counts.rows += decision.rows
                counts.gradients += decision.gradients
                counts.kinds.update(transition.kind for transition in decision.transitions)

    def text(self) -> str:
        """All of it, as it is now."""
        with self._lock:
            return "".join(self._lines())

    def _lines(self) -> Iterable[str]:
        models = self._models
        now = self.clock()
        yield from _family("error", "gauge", "Error of the last step.", {_of(m): c.error for m, c in models.items()})
        yield from _family(
            "reactive",
            "gauge",
            "1 in the reactive state, else 0.",
            {_of(m): int(c.reactive) for m, c in models.items()},
        )
        for name, what in (("steps", "Steps taken."), ("rows", "Rows learnt."), ("gradients", "Gradients spent.")):
            values = {_of(m): getattr(c, name) for m, c in models.items()}
            yield from _family(f"{name}_total", "counter", what, values)
        kinds = {_of(m, kind=k): n for m, c in models.items() for k, n in sorted(c.kinds.items())}
        yield from _family("transitions_total", "counter", "Transitions by their kind.", kinds)
        lag = getattr(next(iter(self.run.sessions.values())), "rows_pending", 0)
        yield from _family("lag_rows", "gauge", "Rows that came and are not learnt yet.", {"": lag})
        yield from _family("step", "gauge", "The step that comes next.", {"": self.run.step})
        skipped = getattr(self.run.source, "skipped", 0)  # a built-in stream has no bad rows
        yield from _family("skipped_rows", "gauge", "Bad rows passed over since the beginning.", {"": skipped})
        age = now - (self._began if self._last is None else self._last)
        yield from _family("last_label_age_seconds", "gauge", "Since labels last came, or counting began.", {"": age})
        if self._last is not None:
            what = "When labels last came, in seconds since 1970."
            yield from _family("last_label_timestamp_seconds", "gauge", what, {"": self._last})
        yield from _family("done", "gauge", "1 when the source has ended.", {"": int(self.run.done)})


def _family(name: str, kind: str, what: str, values: Mapping[str, float]) -> Iterable[str]:
    if values:
        yield f"# HELP driftsurf_{name} {what}\n# TYPE driftsurf_{name} {kind}\n"
        for labels, value in values.items():
            yield f"driftsurf_{name}{labels} {value:.16g}\n"


def _of(model: str, **more: str) -> str:
    pairs = {"model": model} | more
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in pairs.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class MetricsFile:
    """Keeps a file up to date, at most once a second; each time it is whole. What cannot be written is logged."""

    def __init__(self, path: Path, metrics: RunMetrics, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.metrics = metrics
        self.clock = clock
        self._next = 0.0
        self._failed = False

    def __enter__(self) -> Self:
        self._write()
        return self

    def __exit__(self, *_: object) -> None:
        self._write()

    def __call__(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Write it, if the last time is long enough ago."""
        if self.clock() >= self._next:
            self._write()

    def _write(self) -> None:
        self._next = self.clock() + SECONDS_BETWEEN
        try:
            files.write_text(self.path, self.metrics.text())
            self._failed = False
        except OSError as error:
            if not self._failed:  # once, not every second
                log.warning("metrics cannot be written: %s", error)
            self._failed = True


class MetricsServer:
    """Answers ``GET /metrics`` in a thread of its own, by default to this machine alone; port 0 takes a free one."""

    def __init__(self, port: int, metrics: RunMetrics, host: str = "127.0.0.1") -> None:
        try:
            self.server = ThreadingHTTPServer((host, port), _handler(metrics))
        except OSError as error:
            remedy = "give another port, or a file"
            raise OptionError(f"metrics cannot be served at {host}:{port}: {error}; {remedy}") from error
        self.server.daemon_threads = True
        self.port: int = self.server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, daemon=True, name="driftsurf-metrics").start()
        log.info("metrics: http://%s:%d/metrics", self.server.server_address[0], self.port)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def _handler(metrics: RunMetrics) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Knows one page."""

        timeout = 5  # a client that says nothing is not waited for

        def do_GET(self) -> None:
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
