"""The book of alerts: which conditions and drifts are known, which have ended, and whom to tell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import quote

from driftsurf.core.drifts import Drift, DriftNews, DriftPhase
from driftsurf.service.alerts.notice import Notice, NoticeKind
from driftsurf.service.alerts.options import AlertOptions
from driftsurf.service.alerts.rules import Condition, Reading, conditions, ending

__all__ = ["AlertBook"]

LEAST_ROWS = 20
"""Rows below which the share of refused ones says nothing."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A condition that is known, from when it began until it has been over for long enough."""

    condition: Condition
    since: float
    seen: float
    """When it held last."""
    told: bool = False


@dataclass(frozen=True, slots=True)
class _Told:
    """A drift as it was when it was last heard of."""

    since: float
    """When its beginning was heard of."""
    drift: Drift


class AlertBook:
    """Remembers the conditions and drifts of all models, and returns a notice when one of them begins or ends.

    Parameters
    ----------
    options
        Limits of the rules.
    state
        What ``state`` returned earlier, to continue there.

    Examples
    --------
    >>> book = AlertBook(AlertOptions(hold=10.0))
    >>> times = 0.0, 5.0, 10.0, 15.0, 25.0
    >>> lags = 10**6, 10**6, 10**6, 0, 0
    >>> readings = [Reading(model="sales", time=time, lag_rows=lag) for time, lag in zip(times, lags)]
    >>> [[notice.kind for notice in book.update(reading)] for reading in readings]
    [[], [], ['firing'], [], ['resolved']]
    """

    def __init__(self, options: AlertOptions, state: Mapping[str, Any] | None = None) -> None:
        self.options = options
        known = state or {}
        self._entries: dict[tuple[str, str, str], _Entry] = {
            (model, rule, subject): _Entry(_condition(entry["condition"]), entry["since"], entry["seen"], entry["told"])
            for model, rule, subject, entry in known.get("entries", ())
        }
        self._lines: dict[str, int] = dict(known.get("lines", {}))
        self._drifts: dict[str, dict[int, _Told]] = {}
        """Drifts of each model that go on, and its newest one, by number."""
        for model, since, record in known.get("drifts", ()):
            drift = Drift.from_dict(record)
            self._drifts.setdefault(model, {})[drift.number] = _Told(since, drift)
        self._refused: dict[str, tuple[int, int, list[Condition]]] = {}
        """Rows and refused rows of each model when they were last judged, and the judgement; of this process, as the
        counters are."""

    def update(self, reading: Reading) -> list[Notice]:
        """Take a reading of a model, and return what to tell."""
        notices = list(self._changes(reading))
        held = [*conditions(reading, self.options), *self._refusals(reading)]
        for condition in held:
            key = reading.model, condition.rule, condition.subject
            entry = self._entries.get(key)
            since, told = (reading.time, False) if entry is None else (entry.since, entry.told)
            fires = not told and reading.time - since >= self.options.hold
            self._entries[key] = _Entry(condition, since, reading.time, told or fires)
            if fires:
                notices.append(self._notice(reading.model, condition, since, None))
        return notices + self._ended(reading)

    def active(self) -> list[Notice]:
        """Return the alerts that somebody has been told of and that have not ended."""
        drifts = [
            self._of_drift(model, "began", one.drift, one.since, None)
            for model, known in self._drifts.items()
            for one in known.values()
            if self.options.drifts and not one.drift.ended
        ]
        return drifts + [
            self._notice(model, entry.condition, entry.since, None)
            for (model, _, _), entry in self._entries.items()
            if entry.told
        ]

    def state(self) -> dict[str, Any]:
        """Return the book as plain values, for the argument ``state`` of another book."""
        entries = [
            [*key, {**asdict(entry), "condition": _plain(asdict(entry.condition))}]
            for key, entry in self._entries.items()
        ]
        drifts = [
            [model, one.since, one.drift.to_dict()] for model, known in self._drifts.items() for one in known.values()
        ]
        return {"entries": entries, "lines": dict(self._lines), "drifts": drifts}

    def _ended(self, reading: Reading) -> list[Notice]:
        """Forget the conditions of this model that have been over for long enough, and return what to tell of them."""
        notices = []
        for key, entry in list(self._entries.items()):
            over = reading.time - entry.seen
            if key[0] != reading.model or not over or (entry.told and over < self.options.hold):
                continue  # one that nobody was told of ends at once
            del self._entries[key]
            if entry.told:
                now = replace(entry.condition, summary=ending(entry.condition, reading, self.options))
                notices.append(self._notice(reading.model, now, entry.since, entry.seen))
        return notices

    def _changes(self, reading: Reading) -> Iterable[Notice]:
        """Yield notices for new lines of the journal. Lines before the first reading are history."""
        newest = max((change.line for change in reading.changes), default=-1)
        history = reading.model not in self._lines
        last = -1 if history else self._lines[reading.model]
        new = [change for change in reading.changes if change.line > last]
        drifts = list(self._heard(reading, [change.drift for change in new if change.drift is not None]))
        if history:  # a drift that goes on is news, whenever it began
            going_on = (one for one in self._drifts.get(reading.model, {}).values() if not one.drift.ended)
            drifts = [self._of_drift(reading.model, "began", one.drift, one.since, None) for one in going_on]
        yield from drifts if self.options.drifts else ()
        for change in new if self.options.transitions and not history else ():
            if change.drift is None:
                name = f"{reading.model}/change/{change.line}"
                link = self._link(reading.model)
                yield Notice(name, "event", reading.model, "transition", "info", change.text, reading.time, link=link)
        self._lines[reading.model] = max(last, newest)

    def _heard(self, reading: Reading, updates: Iterable[Drift]) -> Iterable[Notice]:
        """Take updates of drifts, and yield a notice for each beginning and each end."""
        known = self._drifts.get(reading.model, {})
        news = DriftNews(one.drift for one in known.values())
        for update in updates:
            before = known.get(update.number)
            since = reading.time if before is None else before.since
            for phase, drift in news.take([update]):
                yield self._of_drift(reading.model, phase, drift, since, reading.time if phase == "over" else None)
            known = {**known, update.number: _Told(since, update)}
        newest = max(known, default=-1)
        kept = {number: one for number, one in known.items() if number == newest or not one.drift.ended}
        if kept:
            self._drifts[reading.model] = kept

    def _of_drift(self, model: str, phase: DriftPhase, drift: Drift, since: float, until: float | None) -> Notice:
        kind: NoticeKind = "firing" if phase == "began" else "resolved"
        peak, before = (None if math.isnan(number) else number for number in (drift.error_peak, drift.error_before))
        return Notice(
            f"{model}/drift/{drift.number}/{since:.3f}/{kind}",
            kind,
            model,
            "drift",
            "warning",
            drift.news(phase),
            since,
            until,
            f"drift {drift.number}",
            peak,
            before,
            {"news": phase, **drift.to_dict()},
            self._link(model),
        )

    def _link(self, model: str) -> str:
        """Return the address of the live page of a model; "" if that of the service is not known."""
        return f"{self.options.address.rstrip('/')}/#{quote(model, safe='')}" if self.options.address else ""

    def _refusals(self, reading: Reading) -> list[Condition]:
        """Return a condition if too many rows are refused, judged whenever enough new rows have come."""
        now = reading.rows, reading.refused_rows
        rows, refused, judged = self._refused.get(reading.model, (*now, []))
        bad = reading.refused_rows - refused
        new = reading.rows - rows + bad
        if new >= LEAST_ROWS:
            summary = f"{bad:,} of the last {new:,} rows were refused"
            share, limit = bad / new, self.options.refused_share
            judged = [Condition("refused-rows", "warning", summary, share, limit)] if share > limit else []
            rows, refused = now
        self._refused[reading.model] = rows, refused, judged
        return judged

    def _notice(self, model: str, condition: Condition, since: float, until: float | None) -> Notice:
        kind: NoticeKind = "firing" if until is None else "resolved"
        # Not the summary: a condition keeps its name while its numbers change.
        name = "/".join((model, condition.rule, condition.subject, f"{since:.3f}", kind))
        value, limit = (None if math.isnan(number) else number for number in (condition.value, condition.limit))
        return Notice(
            name,
            kind,
            model,
            condition.rule,
            condition.severity,
            condition.summary,
            since,
            until,
            condition.subject,
            value,
            limit,
            link=self._link(model),
        )


def _plain(condition: dict[str, Any]) -> dict[str, Any]:
    """Replace NaN by None, which JSON can hold."""
    return {name: None if isinstance(x, float) and math.isnan(x) else x for name, x in condition.items()}


def _condition(values: Mapping[str, Any]) -> Condition:
    """Return a condition from the values of ``_plain``."""
    numbers = {name: math.nan for name in ("value", "limit") if values[name] is None}
    return Condition(**{**values, **numbers})
