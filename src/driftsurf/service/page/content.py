"""Content of the live page: the parts of a model's report as plain values, renewed when the model has learned."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from driftsurf.errors.visible import visible_values
from driftsurf.report.figure import Bars, Figure, Overlay, data
from driftsurf.report.run_page import PageParts
from driftsurf.report.sections.events import events

if TYPE_CHECKING:
    from driftsurf.service.opening import Served


MOST_BUCKETS = 600
"""Values of a curve at most."""
LEAST_SECONDS = 0.8
"""The content is made at most this often."""
MOST_CHANGES = 1000
"""Reactions and events that are marked and listed at most: the newest ones."""
SHARE = 0.1
"""Share of the time that making the content may take: a long history is renewed less often."""


def plain_parts(parts: PageParts) -> dict[str, Any]:
    """Return the parts of a page as plain values: HTML, and the data of the figures with thinned curves."""

    def plain(part: str | Figure | Bars) -> dict[str, str]:
        if isinstance(part, str):
            return {"html": part}
        # The script draws the figure, so that its still drawing would be sent for nothing.
        return {"figure": part.id, "html": _place(part)}

    sections = [
        {"title": section.title, "folded": section.folded, "parts": [plain(part) for part in contents]}
        for section, contents in parts.sections
        if section is not events  # the live page lists events itself, the newest first
    ]
    overlay = parts.overlay
    newest = replace(
        overlay,
        changes=overlay.changes[-MOST_CHANGES:],
        reactive=overlay.reactive[-MOST_CHANGES:],
        events=overlay.events[-MOST_CHANGES:],
    )
    figures = [part for _, contents in parts.sections for part in contents if not isinstance(part, str)]
    values = visible_values(data(newest, figures, MOST_BUCKETS))
    return {"head": "".join(parts.head), "sections": sections, "data": values}


def _place(figure: Figure | Bars) -> str:
    """Return the HTML in which the script draws a figure: that of a figure without any values."""
    empty = Overlay(1)
    if isinstance(figure, Bars):
        return Bars(figure.id, figure.description).render(empty)
    return Figure(figure.id, figure.description, figure.unit, 1.0, []).render(empty)


class PageContent(msgspec.Struct):
    """The parts of the report page of a model, as the live page needs them."""

    model: str
    version: int
    head: str = ""
    """HTML above the figures."""
    sections: list[dict[str, Any]] = []
    """Title and parts of each section; a part is HTML, and the place of a figure if it names one."""
    data: dict[str, Any] | None = None
    """Data of the figures; null if no row has been scored."""


@dataclass(slots=True)
class _Made:
    version: int
    body: bytes
    until: float
    """Before this moment the content is not made again."""


class LiveContent:
    """The content of one model, made once for all who look at it.

    Parameters
    ----------
    served
        The model.
    clock
        Returns seconds that only grow.
    """

    def __init__(self, served: Served, clock: Callable[[], float] = time.monotonic) -> None:
        self.served = served
        self.clock = clock
        self._made: _Made | None = None
        self._lock = asyncio.Lock()

    async def body(self, in_thread: Callable[[Callable[[], bytes]], Any]) -> tuple[int, bytes]:
        """Return the version and the content as JSON; ``in_thread`` calls a function in another thread."""
        async with self._lock:
            made, version = self._made, self.served.snapshot.version
            if made is None or (made.version != version and self.clock() >= made.until):
                began = self.clock()
                body: bytes = await in_thread(self._make)
                took = self.clock() - began
                made = self._made = _Made(version, body, self.clock() + max(LEAST_SECONDS, took * (1 / SHARE - 1)))
            return made.version, made.body

    def _make(self) -> bytes:
        version = self.served.snapshot.version
        parts = self.served.parts()
        shown = {} if parts is None else plain_parts(parts)
        return msgspec.json.encode(PageContent(self.served.name, version, **shown))
