"""Delivery of notices: the book of what is wrong, the outbox on disk, and the thread that sends."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from driftsurf.core import files
from driftsurf.core.changes import Background
from driftsurf.core.drifts import Drift, DriftNews, DriftPhase
from driftsurf.core.files import parse_json
from driftsurf.errors import DeliveryError, reason
from driftsurf.runs.alerts.channels import Channel, Notice, NoticeKind
from driftsurf.runs.alerts.rules import AlertOptions, Condition, Reading, conditions, ending

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


log: logging.Logger = logging.getLogger("driftsurf.runs.alerts")
MOST_WAITING = 1000
"""Notices that wait for one channel at most; the oldest are dropped first."""


class Outbox:
    """Notices that wait for each channel, with the state of the book, in a file that is replaced as a whole.

    The book and its notices change together, so that after a crash each alert is told: at least once, because a crash
    between delivering a notice and writing that it was delivered repeats it, under the same id. While the file cannot
    be written, as on a full disk, notices are kept in memory alone.

    Parameters
    ----------
    path
        The file; it need not exist.
    channels
        Names of the channels. What waits for a channel that no longer exists is dropped.
    """

    def __init__(self, path: Path, channels: Sequence[str]) -> None:
        self.path = path
        self.dropped: int = 0
        """Notices that were dropped because too many waited."""
        self._unwritten = False
        """Whether the file could not be written; the memory then has what it lacks."""
        known = self._read()
        self.book: Mapping[str, Any] = known.get("book", {})
        waiting: Mapping[str, Any] = known.get("waiting", {})
        self.waiting: dict[str, list[Notice]] = {
            name: [Notice(**one) for one in waiting.get(name, ())] for name in channels
        }

    def put(self, notices: Sequence[Notice], book: Mapping[str, Any]) -> None:
        """Store new notices for every channel, with the state of the book after them."""
        self.book = book
        for queue in self.waiting.values():
            queue.extend(notices)
            excess = len(queue) - MOST_WAITING
            if excess > 0:
                del queue[:excess]
                self.dropped += excess
        self._write()

    def delivered(self, channel: str, count: int) -> None:
        """Remove the first notices of a channel."""
        del self.waiting[channel][:count]
        self._write()

    def write_again(self) -> None:
        """Write what could not be written before, if there is something."""
        if self._unwritten:
            self._write()

    def _write(self) -> None:
        """Write the file; if there is no room for it, notices are delivered from memory meanwhile."""
        waiting = {name: [asdict(notice) for notice in queue] for name, queue in self.waiting.items()}
        try:
            files.write_text(self.path, json.dumps({"book": self.book, "waiting": waiting}))
            files.sync_folder(self.path.parent)
        except OSError as error:
            if not self._unwritten:  # one line for a failure that lasts
                log.error("%s cannot be written (%s); alerts are delivered from memory", self.path, reason(error))
            self._unwritten = True
        else:
            if self._unwritten:
                log.info("%s can be written again", self.path)
            self._unwritten = False

    def _read(self) -> dict[str, Any]:
        try:
            found = parse_json(files.read_bytes(self.path))
        except FileNotFoundError:
            return {}
        except ValueError:
            found = None
        if not isinstance(found, dict):
            # Alerts are worth less than the service: it starts, and a condition that lasts is reported again.
            log.warning("%s cannot be read and is replaced; alerts may be sent again", self.path)
            return {}
        return found


MOST_AT_ONCE = 20
"""Notices that are delivered between two readings at most, per channel."""
LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "critical": logging.ERROR}
"""Level at which a notice of each severity is logged."""
END_SECONDS = 0.5
"""How long the end of the service waits for a delivery under way."""
LONGEST_PAUSE = 300.0
"""Seconds between two attempts to reach a receiver at most."""


class _Delivery:
    """One channel: what waits for it, and when it is tried next."""

    def __init__(self, name: str, channel: Channel, outbox: Outbox) -> None:
        self.name = name
        self.channel = channel
        self.outbox = outbox
        self.failures = 0
        self.next_try = 0.0
        self.problem = ""
        """Why the last attempt failed; empty if it did not."""
        self.refused = 0
        self._repeated = -float("inf")

    def work(self, now: float, active: Callable[[], list[Notice]], ended: Callable[[], bool]) -> None:
        """Deliver what waits, and repeat what has not ended, unless the receiver is given a pause.

        It stops early when ``ended`` says that the service ends; the rest is delivered after the next start.
        """
        if now < self.next_try:
            return
        waiting = self.outbox.waiting[self.name]
        try:
            # Notices leave one by one, so that a crash repeats one of them at most.
            for notice in waiting[:MOST_AT_ONCE]:
                if ended():
                    return
                self._send(notice)
            repeats = self.channel.repeats
            if repeats is not None and now - self._repeated >= repeats and not waiting and not ended():
                self.channel.send(active())
                self._repeated = now
        except DeliveryError as error:
            self.failures += 1
            self.next_try = now + min(LONGEST_PAUSE, 2.0 ** min(self.failures, 16))
            if not self.problem:  # one line for a failure that lasts
                log.warning("alerts cannot be delivered by %s: %s", self.name, error)
            self.problem = str(error)
        else:
            self.failures, self.problem = 0, ""

    def _send(self, notice: Notice) -> None:
        """Deliver one notice; one that the receiver will never take is dropped and counted."""
        try:
            self.channel.send([notice])
        except DeliveryError as error:
            if error.later:
                raise
            self.refused += 1
            log.error("alert %s was refused by %s and is dropped: %s", notice.id, self.name, error)
        self.outbox.delivered(self.name, 1)


class AlertThread(Background):
    """Context in which alerts of served models are found and delivered, in a thread of its own.

    A receiver that is slow or away delays other receivers by seconds and the models not at all.

    Parameters
    ----------
    options
        Limits and channels.
    path
        File of the outbox.
    readings
        Returns a reading of each model as it is now.
    clock
        Returns the time in seconds since 1970.
    """

    def __init__(
        self,
        options: AlertOptions,
        path: Path,
        readings: Callable[[], Iterable[Reading]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("alerts")
        self.readings = readings
        self.clock = clock
        self._next: AlertOptions | None = None
        """Options that the next reading begins with; None if they stay."""
        self._outbox = Outbox(path, list(options.channels))
        self._use(options, self._outbox.book)

    def _use(self, options: AlertOptions, book: Any) -> None:
        self.options = options
        self._book = AlertBook(options, book)
        self._deliveries = [_Delivery(name, channel, self._outbox) for name, channel in options.channels.items()]
        self.status: dict[str, Any] = self._described()
        """Active alerts and the state of each channel as plain values, replaced as a whole after each reading."""

    def change(self, options: AlertOptions) -> None:
        """Use other limits and channels from the next reading on; what is known and what waits stays.

        It does not wait for a delivery under way, so that any thread may call it.
        """
        self._next = options

    def _adopt(self, options: AlertOptions) -> None:
        for name in self._outbox.waiting.keys() - options.channels.keys():
            del self._outbox.waiting[name]
        for name in options.channels:
            self._outbox.waiting.setdefault(name, [])
        self._use(options, self._book.state())

    def __exit__(self, *_: object) -> None:
        """Ask the thread to end, and wait a moment: a receiver that does not answer must not delay saving models.

        The notice under way stays in the outbox until it is delivered, so that it is delivered after the next start.
        """
        self._ended.set()
        self._thread.join(END_SECONDS)

    def tick(self) -> None:
        """Read the models and deliver what is due, once; by one thread at a time."""
        options, self._next = self._next, None
        if options is not None:
            self._adopt(options)
        notices = [notice for reading in self.readings() for notice in self._book.update(reading)]
        state = self._book.state()
        if notices or state != self._outbox.book:
            self._outbox.put(notices, state)
        else:
            self._outbox.write_again()
        for notice in notices:
            log.log(logging.INFO if notice.kind == "resolved" else LEVELS[notice.severity], "%s", notice.headline)
        for delivery in self._deliveries:
            delivery.work(self.clock(), self._book.active, self._ended.is_set)
        self.status = self._described()

    def _described(self) -> dict[str, Any]:
        channels = {
            one.name: {
                "kind": one.channel.kind,
                "waiting": len(self._outbox.waiting[one.name]),
                "refused": one.refused,
                "problem": one.problem,
            }
            for one in self._deliveries
        }
        active = [
            {"model": one.model, "rule": one.rule, "severity": one.severity, "text": one.summary, "since": one.since}
            for one in self._book.active()
        ]
        return {"active": active, "channels": channels, "dropped": self._outbox.dropped}

    def _work(self) -> None:
        failed = False
        while True:
            try:
                self.tick()
                failed = False
            except Exception:
                # A fault of a reading must not end the watch; one line for a failure that lasts.
                if not failed:
                    log.exception("alerts failed; they are tried again")
                failed = True
            if self._ended.wait(self.options.interval):
                return
