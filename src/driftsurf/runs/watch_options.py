"""Options of monitoring a run, which belong to those in ``options.py``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from driftsurf.core.drifts import DRIFT_RISK, SMALLEST_RISE
from driftsurf.core.option_fields import check_bounds, option
from driftsurf.core.options import number
from driftsurf.errors import Option, OptionError

if TYPE_CHECKING:
    from driftsurf.session.drift_monitor import DriftMonitor

__all__ = ["LogLevel", "WatchOptions"]

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
StrPath: TypeAlias = str | os.PathLike[str]
LAST_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """Monitoring of a run: commands for drifts and transitions, Prometheus metrics, the log."""

    fail_on_drift: bool = option(False, "End with exit code 3 if a drift was found; one that is marked does not count.")
    smallest_rise: float = option(
        SMALLEST_RISE,
        "Smallest rise of the error that is a drift: a share of rows, or of four times the usual error in regression.",
        at_least=0.0,
    )
    drift_risk: float = option(
        DRIFT_RISK, "Largest probability with which a run without a change reports a drift.", above=0.0
    )
    on_drift: str | None = option(
        None,
        "Shell command to run when a drift is detected and when it is over, with JSON on its input.",
        metavar="COMMAND",
        runs_code="always",
    )
    on_drift_timeout: float = option(30.0, "Seconds after which that command is killed.", above=0.0)
    on_transition: str | None = option(
        None, "Shell command to run for each transition, with JSON on its input.", metavar="COMMAND", runs_code="always"
    )
    on_transition_timeout: float = option(30.0, "Seconds after which that command is killed.", above=0.0)
    metrics: StrPath | None = option(
        None,
        "Metrics in Prometheus' text format: a file, a port of this machine, or HOST:PORT.",
        metavar="FILE|PORT",
    )
    log_level: LogLevel | None = option(
        None, "Level of the log on standard error.  [default on the command line: warning]", choices=get_args(LogLevel)
    )

    def check(self) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        check_bounds(self)
        number("smallest_rise", self.smallest_rise, at_least=0.0, below=1.0)
        number("drift_risk", self.drift_risk, above=0.0, below=1.0)
        address = None if self.metrics is None else self.metrics_address
        if address is not None and address[1] > LAST_PORT:
            raise OptionError(
                Option("metrics"), f" must be a file, or a port from 0 to {LAST_PORT}; got {self.metrics!r}"
            )

    @property
    def of_drifts(self) -> dict[str, float]:
        """Options that define a drift. They are fixed for a run, because saved states of models depend on them."""
        return {"smallest_rise": self.smallest_rise, "drift_risk": self.drift_risk}

    def monitor(self, *, regression: bool) -> DriftMonitor:
        """Return a monitor for drifts of a new model."""
        from driftsurf.session.drift_monitor import DriftMonitor  # loads the learners

        return DriftMonitor(regression=regression, **self.of_drifts)

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Host and port on which metrics are served; None if they go to a file.

        >>> WatchOptions(metrics="9100").metrics_address, WatchOptions(metrics="metrics.prom").metrics_address
        (('127.0.0.1', 9100), None)
        """
        host, _, port = os.fspath(self.metrics or "").rpartition(":")
        return (host or "127.0.0.1", int(port)) if port.isdecimal() else None
