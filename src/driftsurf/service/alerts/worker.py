"""The thread of alerts: it reads the models, keeps the book, and delivers notices."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from driftsurf.errors import DeliveryError
from driftsurf.service.alerts.book import AlertBook
from driftsurf.service.alerts.channels import Channel
from driftsurf.service.alerts.notice import Notice
from driftsurf.service.alerts.options import AlertOptions
from driftsurf.service.alerts.outbox import Outbox
from driftsurf.service.alerts.rules import Reading
from driftsurf.service.background import Background

__all__ = ["AlertThread"]

log: logging.Logger = logging.getLogger("driftsurf.alerts")
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
