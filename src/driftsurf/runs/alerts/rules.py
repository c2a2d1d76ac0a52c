"""Rules of alerts: pure functions from a reading of a model to what is wrong with it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from driftsurf.core.drifts import Drift
from driftsurf.core.options import check_bounds, choice, option, option_fields, shown
from driftsurf.core.wording import BASELINE_WORDS, shown_bytes, significant
from driftsurf.errors import DriftsurfWarning, OptionError
from driftsurf.runs.alerts.channels import Channel, Severity, channel_of

RENAMED: Final[Mapping[str, str]] = {"error-noise": "trivial-noise"}
"""Options of earlier versions that still are read, with their new names."""


@dataclass(frozen=True, kw_only=True)
class AlertOptions:
    """Limits of the rules; a condition has to last for ``hold`` seconds before an alert is sent.

    Examples
    --------
    >>> AlertOptions(lag_rows=1000).lag_rows
    1000
    """

    interval: float = option(5.0, "Seconds between two readings of a model.", above=0.0)
    hold: float = option(30.0, "Seconds that a condition has to last, or to be over, before it counts.", at_least=0.0)
    drifts: bool = option(True, "Whether the beginning and the end of each drift of a model are sent.")
    trivial_noise: float = option(
        3.0, "Standard errors by which the error has to be above that of a rule without a model.", above=0.0
    )
    label_silence: float = option(3600.0, "Seconds without a label while a row waits for one.", above=0.0)
    lag_rows: int = option(100_000, "Rows that may wait to be learned.", at_least=1)
    refused_share: float = option(0.05, "Share of the rows of an interval that may be refused.", at_least=0.0)
    challenger_gain: float = option(
        0.01, "Share of the model's error by which that of a challenger has to be lower.", at_least=0.0
    )
    disk_free: float = option(
        2 * 2**30, "Free bytes on the disk of a model below which an alert is raised.", at_least=0
    )
    transitions: bool = option(False, "Whether each transition of a model, and each order, is sent.")
    address: str = option(
        "", "Address of this service in links, such as https://models.example.org.  [default: of host and port]"
    )
    channels: Mapping[str, Channel] = field(default_factory=dict)
    """Receivers, by name."""

    def check(self) -> None:
        """Raise OptionError if a limit cannot be used."""
        check_bounds(self)


def read_alerts(table: Mapping[str, Any]) -> AlertOptions:
    """Return the options of a table ``[alerts]``, with its channels ``[alerts.channels.NAME]``.

    Examples
    --------
    >>> options = read_alerts({"lag-rows": 1000, "channels": {"ops": {"kind": "webhook", "url": "https://ops.example"}}})
    >>> options.lag_rows, options.channels["ops"].kind
    (1000, 'webhook')
    """
    names = {one.toml_name: name for name, one in option_fields(AlertOptions).items()}
    channels = table.get("channels", {})
    if not isinstance(channels, Mapping) or not all(isinstance(one, Mapping) for one in channels.values()):
        raise OptionError(f"alerts.channels must be tables [alerts.channels.NAME]; got {shown(channels)}")
    for name in table:
        choice("option of [alerts]", name, (*names, *RENAMED, "channels"))
    for name, new in RENAMED.items():
        if name in table:
            if new in table:
                raise OptionError(f"[alerts] has both {name!r} and {new!r}, which replaces it; leave {name!r} out")
            text = f"[alerts] has {name!r}, which is deprecated: drifts are told without a limit. Write {new!r} instead"
            warnings.warn(text, DriftsurfWarning, stacklevel=2)
            table = {**{key: value for key, value in table.items() if key != name}, new: table[name]}
    options = AlertOptions(
        **{names[name]: value for name, value in table.items() if name != "channels"},
        channels={name: channel_of(name, settings) for name, settings in channels.items()},
    )
    options.check()
    return options


@dataclass(frozen=True, slots=True)
class Change:
    """A line of the journal that users want to hear of: about a drift, a transition, or an order carried out."""

    line: int
    """Number of the line in the journal."""
    text: str
    """What happened and why, in words."""
    drift: Drift | None = None
    """The drift as it is with this line, if the line is about one."""


class Lead(NamedTuple):
    """How a challenger compares with the model."""

    difference: float
    """Error of the challenger minus that of the model, on the same rows."""
    low: float
    high: float
    """Interval of the difference."""
    error: float
    """Error of the model on these rows."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """State of one served model at one moment, as far as alerts are about it. NaN stands for an unknown number."""

    model: str
    time: float
    """Seconds since 1970."""
    changes: Sequence[Change] = ()
    """Changes since the last reading, at least; those that are known are dropped."""
    error: float = math.nan
    """Mean error of the most recent rows with a label."""
    error_noise: float = math.nan
    """Standard error of this mean if nothing has changed."""
    trivial_error: float = math.nan
    """Mean error of the best rule without a model, such as the most frequent class, on the most recent rows."""
    trivial_rule: str = "majority"
    label_age: float = math.nan
    """Seconds since the last label came, or since the oldest row that waits for one came, whichever is later; NaN while
    no row waits."""
    lag_rows: int = 0
    """Rows that are in the log and not learned yet."""
    rows: int = 0
    """Rows taken since the service began."""
    refused_rows: int = 0
    """Rows refused since the service began."""
    disk_free: float = math.nan
    """Free bytes on the disk of the model."""
    challengers: Mapping[str, Lead] = field(default_factory=dict)
    """How each challenger compares, by name."""
    failure: str = ""
    """Why the model has stopped learning; empty while it learns."""
    cut_off: Mapping[str, str] = field(default_factory=dict)
    """Sources and sinks that have stopped or cannot be reached, by name, with the reason."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is wrong with a model now."""

    rule: str
    severity: Severity
    summary: str
    """One sentence for people."""
    value: float = math.nan
    """The number that the rule compared, if it compared one."""
    limit: float = math.nan
    subject: str = ""
    """What it is about within the model, such as the name of a challenger; empty for the model itself."""


Rule: TypeAlias = Callable[[Reading, AlertOptions], Iterator[Condition]]


def worse_than_trivial(reading: Reading, options: AlertOptions) -> Iterator[Condition]:
    """Yield a condition if a rule that needs no model would have made fewer errors recently."""
    if reading.error > reading.trivial_error + options.trivial_noise * reading.error_noise:
        yield Condition(
            "worse-than-trivial",
            "critical",
            f"the error is {significant(reading.error)}, and that of {BASELINE_WORDS[reading.trivial_rule]} is "
            f"{significant(reading.trivial_error)}",
            reading.error,
            reading.trivial_error,
        )


def label_silence(reading: Reading, options: AlertOptions) -> Iterator[Condition]:
    """Yield a condition if rows wait for labels and none has come for a long time."""
    if reading.label_age > options.label_silence:
        yield Condition(
            "label-silence",
            "warning",
            f"no label has come for {reading.label_age:,.0f} seconds, and rows wait for theirs",
            reading.label_age,
            options.label_silence,
        )


def lag(reading: Reading, options: AlertOptions) -> Iterator[Condition]:
    """Yield a condition if the model learns more slowly than rows come."""
    if reading.lag_rows > options.lag_rows:
        summary = f"{reading.lag_rows:,} rows wait to be learned"
        yield Condition("lag", "warning", summary, reading.lag_rows, options.lag_rows)


def disk_space(reading: Reading, options: AlertOptions) -> Iterator[Condition]:
    """Yield a condition if the disk of the model is nearly full; learning stops before predicting does."""
    if reading.disk_free < options.disk_free:
        summary = f"{shown_bytes(reading.disk_free)} are free on the disk of the model"
        yield Condition("disk", "critical", summary, reading.disk_free, options.disk_free)


def challenger_better(reading: Reading, options: AlertOptions) -> Iterator[Condition]:
    """Yield a condition for each challenger whose error is certainly lower, and by enough to matter."""
    for name, lead in reading.challengers.items():
        limit = -options.challenger_gain * lead.error
        if lead.high < 0.0 and lead.difference <= limit:
            yield Condition(
                "challenger-better",
                "info",
                f"the challenger {name!r} has an error that is lower by {significant(-lead.high)} to "
                f"{significant(-lead.low)}; that of the model is {significant(lead.error)}",
                lead.difference,
                limit,
                subject=name,
            )


def learner_failed(reading: Reading, options: AlertOptions) -> Iterator[Condition]:
    """Yield a condition if the model has stopped learning because of an error."""
    if reading.failure:
        summary = f"the model predicts but no longer learns: {reading.failure}"
        yield Condition("learner-failed", "critical", summary)


def connection_lost(reading: Reading, options: AlertOptions) -> Iterator[Condition]:
    """Yield a condition for each source or sink that has stopped or cannot be reached."""
    for name, why in reading.cut_off.items():
        yield Condition("connection-lost", "critical", f"the {name} is not connected: {why}", subject=name)


RULES: tuple[Rule, ...] = (
    worse_than_trivial,
    label_silence,
    lag,
    disk_space,
    challenger_better,
    learner_failed,
    connection_lost,
)
"""Every rule of a condition that lasts. Drifts, transitions and refused rows need a memory, which the book has."""


def conditions(reading: Reading, options: AlertOptions) -> list[Condition]:
    """Return everything that is wrong with a model according to the rules.

    A comparison with NaN is false, so that an unknown number raises no alert.

    Examples
    --------
    >>> [found.summary for found in conditions(Reading(model="sales", time=0.0, lag_rows=500_000), AlertOptions())]
    ['500,000 rows wait to be learned']
    """
    return [found for rule in RULES for found in rule(reading, options)]


def ending(condition: Condition, reading: Reading, options: AlertOptions) -> str:
    """Return what holds now that a condition is over, in words.

    Examples
    --------
    >>> over = Reading(model="sales", time=0.0, lag_rows=12)
    >>> ending(Condition("lag", "warning", "500,000 rows wait to be learned"), over, AlertOptions())
    'only 12 rows wait to be learned'
    """
    subject = condition.subject
    error, trivial = map(significant, (reading.error, reading.trivial_error))
    rule = BASELINE_WORDS[reading.trivial_rule]
    texts = {
        "worse-than-trivial": f"the error is {error} now, and that of {rule} is {trivial}",
        "label-silence": "no row waits for a label" if math.isnan(reading.label_age) else "labels come again",
        "lag": f"only {reading.lag_rows:,} rows wait to be learned",
        "disk": f"{shown_bytes(reading.disk_free)} are free on the disk of the model again",
        "refused-rows": f"at most {options.refused_share:.0%} of the last rows were refused",
        "challenger-better": f"the challenger {subject!r} is no longer clearly better, or is gone",
        "learner-failed": "the model learns again",
        "connection-lost": f"the {subject} is connected again",
    }
    return texts.get(condition.rule, "the rule no longer exists")  # an earlier version may have raised the alert
