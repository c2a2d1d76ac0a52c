"""Attach the listeners of a run: the log, commands, Prometheus metrics."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from driftsurf.runs.hooks import DriftCommand, DriftLog, TransitionCommand, TransitionLog
from driftsurf.runs.live import LiveRun
from driftsurf.runs.prometheus import MetricsFile, RunMetrics
from driftsurf.runs.watch_options import LogLevel, WatchOptions
from driftsurf.visible import visible

__all__ = ["logging_to_stderr", "watching"]


@contextlib.contextmanager
def watching(live: LiveRun, options: WatchOptions) -> Iterator[None]:
    """Context in which every step of a run is logged, counted and reported as the options say."""
    with contextlib.ExitStack() as stack:
        if options.log_level is not None:
            stack.enter_context(logging_to_stderr(options.log_level))
        model, known = live.plan.model, live.drifts.known
        live.listeners += [TransitionLog(), DriftLog(model, known)]
        if options.on_drift is not None:
            live.listeners.append(DriftCommand(options.on_drift, model, options.on_drift_timeout, known))
        if options.on_transition is not None:
            live.listeners.append(TransitionCommand(options.on_transition, model, options.on_transition_timeout))
        if options.metrics is not None:
            counts = RunMetrics(live)
            live.listeners.append(counts)
            live.batch_listeners.append(counts.batch)
            address = options.metrics_address
            if address is None:
                live.batch_listeners.append(stack.enter_context(MetricsFile(Path(options.metrics), counts)).batch)
            else:
                from driftsurf.runs.metrics_server import MetricsServer  # loads a web server

                host, port = address
                stack.enter_context(MetricsServer(port, counts, host))
        yield


class _OneLine(logging.Formatter):
    """Writes each record on one line, in which no character controls a terminal or forges another record."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


@contextlib.contextmanager
def logging_to_stderr(level: LogLevel) -> Iterator[None]:
    """Write the log of this package to standard error, with time and level, while the context lasts."""
    logger = logging.getLogger("driftsurf")
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
