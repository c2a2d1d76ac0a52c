"""The journal of a served model: its last lines in memory, numbered, for readers that follow it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from driftsurf.core import files
from driftsurf.core.json_text import parse_json
from driftsurf.runs.rolled import RolledFile, Rotation
from driftsurf.service.contract import Event

__all__ = ["JournalFeed", "JournalFile"]

Parts: TypeAlias = Sequence[tuple[Path, int | None]]
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
        self.parts: Callable[[], Parts] = list
        """Returns the files of the journal, the newest first, and of the one that grows how many bytes it has."""
        self._counts: dict[Path, int] = {}
        """Number of lines of the files that do not grow."""

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
            last, known = self.lines, list(self._last) if self.lines > line else []
            parts = self.parts() if last > line and (not known or known[0][0] > line + 1) else []
        if parts:
            known = []
            for part in reversed(list(self._spans(parts, last, line))):
                known += [one for one in part.numbered() if one[0] > line]
                if len(known) >= most:
                    break
        return [(number, one) for number, one in known if number > line][:most]

    def backwards(self) -> Iterator[tuple[int, str]]:
        """Yield all lines that are kept with their numbers, the newest first."""
        with self.lock:
            last, known, parts = self.lines, list(self._last), self.parts()
        yield from reversed(known)
        first = known[0][0] if known else last + 1
        for part in self._spans(parts, last, 0):
            if part.first < first:
                yield from (one for one in reversed(part.numbered()) if one[0] < first)

    def _spans(self, parts: Parts, last: int, after: int) -> Iterator[_Part]:
        """Yield the files that have lines after a number, the newest first; ``last`` is the number of the last line.

        Nothing is locked meanwhile: files only grow, and only the oldest are removed.
        """
        for path, size in parts:
            count = self._counts.get(path)
            if count is None:
                try:
                    count = files.read_bytes(path)[:size].count(b"\n")
                except FileNotFoundError:
                    return
                if size is None:
                    self._counts[path] = count
            yield _Part(path, size, last - count + 1)
            last -= count
            if last <= after:
                return


class _Part(NamedTuple):
    """A file of the journal."""

    path: Path
    size: int | None
    first: int
    """Number of its first line."""

    def numbered(self) -> list[tuple[int, str]]:
        """Return its lines with their numbers; none if it has been removed."""
        try:
            text = files.read_bytes(self.path)[: self.size].decode()
        except FileNotFoundError:
            return []
        return list(enumerate(text.splitlines(), start=self.first))


class JournalFile(RolledFile):
    """The file of the journal, whose lines also go to a feed."""

    def __init__(self, place: Callable[[str], Path], name: str, rotation: Rotation, feed: JournalFeed) -> None:
        super().__init__(place, name, rotation)
        self._feed = feed
        feed.parts = self._parts

    def _parts(self) -> Parts:
        """Return the files, the newest first, and of the one that grows how many bytes it has."""
        with self._turning:
            older = [number for number in reversed(self._numbers()) if number < self.number]
            return [(self.part.path, self.part.size), *((self._place(self._name(number)), None) for number in older)]

    def write(self, text: str) -> None:
        """Append text."""
        with self._feed.lock:
            super().write(text)
            if text:
                self._feed.add(text)
