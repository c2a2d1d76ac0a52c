"""The outbox of alerts: notices that have not reached everybody yet, and the book that made them, as one file."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from driftsurf.core import files
from driftsurf.core.json_text import parse_json
from driftsurf.errors import reason
from driftsurf.service.alerts.notice import Notice

__all__ = ["Outbox"]

log: logging.Logger = logging.getLogger("driftsurf.alerts")
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
