"""Listeners of a run: the log, and commands that are called for every transition, or for the news of drifts."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from driftsurf.core.decisions import Decision
from driftsurf.core.drifts import Drift, DriftNews
from driftsurf.core.options import number
from driftsurf.errors.visible import visible
from driftsurf.runs.live import LiveRun
from driftsurf.runs.options import LogLevel, WatchOptions

log: logging.Logger = logging.getLogger("driftsurf.run")


class TransitionLog:
    """Logs every transition at level INFO and every step at level DEBUG, to the logger ``driftsurf.run``."""

    def __call__(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Log one step of one model."""
        log.debug("%s: step %d, error %.4f", model, step, error)
        for decision in decisions:
            for transition in decision.transitions:
                log.info("%s: %s", model, transition.describe())


class DriftLog:
    """Logs the beginning and the end of every drift of one model at level INFO, to the logger ``driftsurf.run``."""

    def __init__(self, model: str, known: Iterable[Drift] = ()) -> None:
        self.model = model
        self._news = DriftNews(known)

    def __call__(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Log the news of one step."""
        for decision in decisions if model == self.model else ():
            for phase, drift in self._news.take(decision.drifts):
                log.info("%s: %s", model, drift.news(phase))


class _Command(ABC):
    """Runs a shell command for what happens to one model, and waits for it.

    A command that fails or takes too long is logged and never stops the run. A run that was killed repeats what came
    after its last checkpoint, so the command may be called twice for the same event.
    """

    what: ClassVar[str]

    def __init__(self, command: str, model: str, timeout: float = 30.0) -> None:
        self.command = command
        self.model = model
        self.timeout: float = number(f"on_{self.what}_timeout", timeout, above=0.0)

    def __call__(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Run the command for what happened at one step."""
        if model != self.model:
            return
        for decision in decisions:
            for variables, record in self.events(decision):
                self._call(decision.step, variables, json.dumps({"model": model, **record}) + "\n")

    @abstractmethod
    def events(self, decision: Decision) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Yield the variables of the environment and the record for each event of a step."""

    def _call(self, step: int, variables: Mapping[str, Any], line: str) -> None:
        given = {"MODEL": self.model, "STEP": step, **variables}
        try:
            child = subprocess.Popen(
                self.command,
                shell=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=os.environ | {f"DRIFTSURF_{name}": str(value) for name, value in given.items()},
                # A session of its own: Ctrl-C is for the run, and a late command is killed with its children.
                start_new_session=True,
            )
        except OSError as error:
            log.warning("the command for %ss cannot be started: %s", self.what, error)
            return
        try:
            child.communicate(line.encode(), timeout=self.timeout)
        except subprocess.TimeoutExpired:
            _kill(child)
            child.wait()
            log.warning(
                "step %d: the command for %ss took more than %g s and was killed", step, self.what, self.timeout
            )
            return
        if child.returncode:
            log.warning("step %d: the command for %ss returned exit code %d", step, self.what, child.returncode)


class TransitionCommand(_Command):
    """Runs a shell command for every transition of one model, and waits for it.

    The command gets the transition on its standard input, as a line of JSON like that in the journal with the name of
    the model added, and the variables DRIFTSURF_MODEL, DRIFTSURF_STEP, DRIFTSURF_KIND and DRIFTSURF_TEXT in its
    environment. A command that fails or takes too long is logged and never stops the run. A run that was killed
    repeats what came after its last checkpoint, so the command may be called twice for the same transition.

    Parameters
    ----------
    command
        Command for the shell.
    model
        Name of the model whose transitions count.
    timeout
        Seconds after which the command is killed, together with the processes it started.
    """

    what: ClassVar[str] = "transition"

    def events(self, decision: Decision) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Yield the transitions of a step."""
        for transition, record in zip(decision.transitions, decision.transition_dicts(), strict=True):
            yield {"STEP": transition.step, "KIND": transition.kind, "TEXT": transition.describe()}, record


class DriftCommand(_Command):
    """Runs a shell command when a drift of one model is detected and when it is over, and waits for it.

    The command gets the drift on its standard input, as a line of JSON like that in the journal with the name of the
    model and ``news``, "began" or "over", added; and the variables DRIFTSURF_MODEL, DRIFTSURF_NEWS, DRIFTSURF_STEP,
    DRIFTSURF_ROW (the first row of the drift), DRIFTSURF_KIND, DRIFTSURF_CAUSE, DRIFTSURF_COLUMNS (with commas
    between them), DRIFTSURF_ERROR_BEFORE, DRIFTSURF_ERROR_PEAK and DRIFTSURF_TEXT in its environment. A command that
    fails or takes too long is logged and never stops the run. A run that was killed repeats what came after its last
    checkpoint, so the command may be called twice for the same news.

    Parameters
    ----------
    command
        Command for the shell.
    model
        Name of the model whose drifts count.
    timeout
        Seconds after which the command is killed, together with the processes it started.
    known
        Drifts that were told before.
    """

    what: ClassVar[str] = "drift"

    def __init__(self, command: str, model: str, timeout: float = 30.0, known: Iterable[Drift] = ()) -> None:
        super().__init__(command, model, timeout)
        self._news = DriftNews(known)

    def events(self, decision: Decision) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Yield the news of a step."""
        for phase, drift in self._news.take(decision.drifts):
            shared = {name: getattr(drift, name) for name in ("row", "kind", "cause", "error_before", "error_peak")}
            columns, text = ",".join(drift.columns), drift.describe()
            variables = {name.upper(): value for name, value in shared.items()}
            yield (
                variables | {"NEWS": phase, "COLUMNS": columns, "TEXT": text},
                drift.record(decision.step) | {"news": phase},
            )


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a command with the processes it has started; on Windows, which has no sessions, the command alone."""
    if sys.platform == "win32":
        child.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


@contextlib.contextmanager
def watching(live: LiveRun, options: WatchOptions) -> Iterator[None]:
    """Context in which every step of a run is logged, counted and reported as the options say."""
    with contextlib.ExitStack() as stack:
        if options.log_level is not None:
            stack.enter_context(logging_to_stderr(options.log_level))
        model, known = live.plan.model, live.drifts.known
        if log.isEnabledFor(logging.INFO):
            live.listeners += [TransitionLog(), DriftLog(model, known)]
        if options.on_drift is not None:
            live.listeners.append(DriftCommand(options.on_drift, model, options.on_drift_timeout, known))
        if options.on_transition is not None:
            live.listeners.append(TransitionCommand(options.on_transition, model, options.on_transition_timeout))
        if options.metrics is not None:
            from driftsurf.runs.prometheus import MetricsFile, MetricsServer, RunMetrics  # loads a web server

            counts = RunMetrics(live)
            live.listeners.append(counts)
            live.batch_listeners.append(counts.batch)
            address = options.metrics_address
            if address is None:
                live.batch_listeners.append(stack.enter_context(MetricsFile(Path(options.metrics), counts)).batch)
            else:
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
