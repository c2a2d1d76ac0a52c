"""What a run tells others while it runs: options that any command with a run can take."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from driftsurf.runtime.run import Run, StepReport

__all__ = ["OPTIONS", "Watch"]

LEVELS = "debug", "info", "warning", "error"


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is to be told of a run."""

    on_transition: str | None = None
    on_transition_timeout: float = 30.0
    metrics: str | None = None
    log_level: str = "warning"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Watch:
        """What the options of a command say."""
        return cls(**{field.name: options[field.name] for field in fields(cls)})

    @contextlib.contextmanager
    def over(self, run: Run, *reports: StepReport) -> Iterator[StepReport]:
        """The reports of a run to all of them, ``reports`` first, as long as it runs."""
        from driftsurf.runtime.hooks import TransitionCommand, TransitionLog
        from driftsurf.runtime.prometheus import MetricsFile, MetricsServer, RunMetrics

        told: list[StepReport] = [*reports, TransitionLog()]
        with contextlib.ExitStack() as stack:
            stack.enter_context(_logging(self.log_level))
            if self.on_transition is not None:
                told.append(TransitionCommand(self.on_transition, next(iter(run.sessions)), self.on_transition_timeout))
            if self.metrics is not None:
                counts = RunMetrics(run)
                told.append(counts)
                host, _, port = self.metrics.rpartition(":")
                if port.isdecimal():
                    stack.enter_context(MetricsServer(int(port), counts, host or "127.0.0.1"))
                else:
                    told.append(stack.enter_context(MetricsFile(Path(self.metrics), counts)))

            def report(step: int, model: str, error: float, decisions: Any) -> None:
                for one in told:
                    one(step, model, error, decisions)

            yield report


def _metrics(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    port = "" if value is None else value.rpartition(":")[2]
    if port.isdecimal() and int(port) > 65_535:
        raise click.BadParameter(f"{value!r}: ports go up to 65535")
    return value


OPTIONS = (
    click.option("--on-transition", metavar="COMMAND", help="Run it for each transition, with JSON on its input."),
    click.option(
        "--on-transition-timeout",
        type=click.FloatRange(min=0.0, min_open=True),
        default=30.0,
        show_default=True,
        help="Seconds after which that command is killed.",
    ),
    click.option(
        "--metrics",
        metavar="FILE|PORT",
        callback=_metrics,
        help="Prometheus text: a file, a port of this machine, or HOST:PORT.",
    ),
    click.option("--log-level", type=click.Choice(LEVELS), default="warning", show_default=True, help="To stderr."),
)


@contextlib.contextmanager
def _logging(level: str) -> Iterator[None]:
    """Lines with time and level on standard error, from our loggers alone, and only meanwhile."""
    logger = logging.getLogger("driftsurf")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
