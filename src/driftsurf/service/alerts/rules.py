"""Rules of alerts: pure functions from a reading of a model to what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from driftsurf.core.drifts import Drift
from driftsurf.core.measures import significant
from driftsurf.core.sizes import shown_bytes
from driftsurf.evaluation.baselines import BASELINE_WORDS
from driftsurf.service.alerts.notice import Severity
from driftsurf.service.alerts.options import AlertOptions

__all__ = ["RULES", "Change", "Condition", "Lead", "Reading", "conditions", "ending"]


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
