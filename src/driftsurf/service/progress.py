"""Progress of a service that starts, reported every two seconds: applying a long log takes a while."""

from __future__ import annotations

import time
from collections.abc import Callable

from driftsurf.service.background import Background

__all__ = ["Progress"]

SECONDS = 2.0
"""Time from one line to the next."""


class Progress(Background):
    """Context in which a thread says what is being done, and for how long, as long as it is being done.

    Parameters
    ----------
    note
        Called with each line, from any thread.
    seconds
        Time from one line to the next; two seconds by default.

    Examples
    --------
    >>> with Progress(print) as progress:
    ...     progress.begin("opening sales")
    opening sales
    """

    def __init__(self, note: Callable[[str], None], seconds: float | None = None) -> None:
        super().__init__("progress")
        self.note = note
        self.seconds: float = SECONDS if seconds is None else seconds
        self._what = self._part = ""
        self._began = time.monotonic()

    def begin(self, what: str) -> None:
        """Say what is done from now on."""
        self._what, self._part, self._began = what, "", time.monotonic()
        self.note(what)

    def part(self, name: str) -> None:
        """Take a part of the work as the one that is done now; it is named only if it takes long."""
        self._part = f" ({name})"

    def _work(self) -> None:
        while not self._ended.wait(self.seconds):
            if self._what:
                self.note(f"{self._what}{self._part}: {time.monotonic() - self._began:.0f} s so far")
