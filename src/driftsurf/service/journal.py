"""The journal of a served model: its last lines in memory, numbered, for readers that follow it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from driftsurf.core.json_text import parse_json
from driftsurf.runs.rolled import RolledFile, Rotation
from driftsurf.service.contract import Event

__all__ = ["JournalFeed", "JournalFile"]

KEPT = 10_000
"""Lines that are kept in memory."""


class JournalFeed:
    """The last lines of a journal with their numbers; one thread adds them, any number of threads read.

    >>> feed = JournalFeed()
    >>> feed.add('{"type":"order"}\\n')
    >>> feed.since(0, 10)
    [Event(line=1, record={'type': 'order'})]
    """

    def __init__(self) -> None:
        self.lines: int = 0
        """Number of the last line."""
        self._last: deque[tuple[int, str]] = deque(maxlen=KEPT)
        self.lock: Any = threading.RLock()
        """Held while a line is written to the file and added, and while the files are read."""
        self.older: Callable[[], str] = str
        """Returns the text of the files of the journal, as far as they are kept."""

    def begin(self, lines: int) -> None:
        """Go on after a number of lines that are in the files."""
        with self.lock:
            self.lines = lines
            self._last.clear()

    def add(self, text: str) -> None:
        """Add whole lines."""
        with self.lock:
            for line in text.splitlines():
                self.lines += 1
                self._last.append((self.lines, line))

    def since(self, line: int, most: int) -> list[Event]:
        """Return the lines after a number as objects, the oldest first, at most ``most``."""
        return [Event(number, parse_json(one)) for number, one in self.texts(line, most)]

    def texts(self, line: int, most: int) -> list[tuple[int, str]]:
        """Return the lines after a number as text, with their numbers."""
        with self.lock:
            known = list(self._last) if self.lines > line else []
            if self.lines > line and (not known or known[0][0] > line + 1):
                # The last line of the files has the number ``lines``: nothing is written meanwhile.
                text = self.older().splitlines()
                known = list(enumerate(text, start=self.lines - len(text) + 1))
        return [(number, one) for number, one in known if number > line][:most]


class JournalFile(RolledFile):
    """The file of the journal, whose lines also go to a feed."""

    def __init__(self, place: Callable[[str], Path], name: str, rotation: Rotation, feed: JournalFeed) -> None:
        super().__init__(place, name, rotation)
        self._feed = feed

    def write(self, text: str) -> None:
        """Append text."""
        with self._feed.lock:
            super().write(text)
            if text:
                self._feed.add(text)
