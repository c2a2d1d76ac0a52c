"""Server-sent events of a model: its history once, then one frame a second; the id is the line of the journal."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from driftsurf.service.contract import Event
from driftsurf.service.http.entry import Entry
from driftsurf.service.http.problems import HttpProblem
from driftsurf.service.http.reading import info
from driftsurf.service.http.request import HttpRequest
from driftsurf.service.http.responses import SECURITY_HEADERS

__all__ = ["EventStreams", "curves"]

log: logging.Logger = logging.getLogger("driftsurf.service")
FRAME_SECONDS = 1.0
MOST_BUCKETS = 600
"""Points of each curve of the history at most."""
MOST_LINES = 1000
"""Lines of the journal in one frame at most; the next frame has the next ones."""
_encode = msgspec.json.Encoder().encode


def curves(trace: str, most: int = MOST_BUCKETS) -> dict[str, dict[str, list[float | None]]]:
    """Return the numbers of a trace as curves by model and column, each with at most ``most`` points.

    A point is the mean of a bucket of consecutive steps; ``step`` is the last step of the bucket.

    >>> curves("step,model,error\\n0,driftsurf,0.5\\n1,driftsurf,0.25\\n", 1)
    {'driftsurf': {'step': [1.0], 'error': [0.375]}}
    """
    by_model: dict[str, dict[str, list[float]]] = {}
    lines = [line for line in trace.splitlines() if not line.startswith("#")]
    for row in csv.DictReader(lines):
        own = by_model.setdefault(row.get("model") or "", {})
        for name, cell in row.items():
            if name is not None and name != "model":
                own.setdefault(name, []).append(_number(cell))
    return {
        model: {name: _thinned(values, most, last=name == "step") for name, values in columns.items()}
        for model, columns in by_model.items()
    }


def _number(cell: str | None) -> float:
    try:
        return float(cell or "nan")
    except ValueError:
        return math.nan


def _thinned(values: list[float], most: int, *, last: bool) -> list[float | None]:
    size = max(1, math.ceil(len(values) / most))
    found: list[float | None] = []
    for start in range(0, len(values), size):
        known = [value for value in values[start : start + size] if math.isfinite(value)]
        found.append(None if not known else known[-1] if last else sum(known) / len(known))
    return found


@dataclass(slots=True)
class _Stream:
    """The frames of one model, made once for all of its readers."""

    line: int
    """Last line of the journal that the newest frame includes."""
    first: int
    """Line after which the newest frame begins."""
    frame: bytes
    next: asyncio.Future[None]
    readers: int = 0
    ended: bool = False
    """Whether no more frames are made; readers connect again."""
    task: asyncio.Task[None] | None = None
    history: tuple[int, bytes] | None = None
    """The history up to a line, which readers that come together share."""


class EventStreams:
    """Sends events to many readers: each frame is made once a second for a model and written to all of its readers."""

    def __init__(self, most: int, seconds: float = FRAME_SECONDS) -> None:
        self.most = most
        self.seconds = seconds
        self.readers: int = 0
        self._streams: dict[str, _Stream] = {}
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End all streams."""
        self._closing.set()
        for stream in self._streams.values():
            if not stream.next.done():
                stream.next.set_result(None)

    async def send(self, entry: Entry, request: HttpRequest) -> None:
        """Answer a request with events until the client or the service ends."""
        if self.readers >= self.most:
            raise HttpProblem("busy", f"{self.most:,} readers of events are connected already; try again later")
        since = self._since(request)
        self.readers += 1
        try:
            stream = await self._opened(entry)
            stream.readers += 1
            try:
                await self._send(entry, request, stream, since)
            finally:
                stream.readers -= 1
        finally:
            self.readers -= 1

    def _since(self, request: HttpRequest) -> int | None:
        """Return the last line that the client has; None if it has none."""
        text = request.headers.get("last-event-id", "")
        if text.isascii() and text.isdecimal() and len(text) <= 16:
            return int(text)
        return request.whole("since", 0) if "since" in request.query else None

    async def _send(self, entry: Entry, request: HttpRequest, stream: _Stream, since: int | None) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no"), *SECURITY_HEADERS]
        await request.send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            line = stream.line if since is None else since
            if since is None:
                await _write(request, await self._history(entry, stream))
            while not (self._closing.is_set() or gone.done() or stream.ended):
                line = min(line, stream.line)  # a reader may know lines of a journal that was replaced
                if line == stream.first and stream.line > stream.first:
                    data, line = stream.frame, stream.line
                elif line < stream.line:
                    data, line = await self._missed(entry, line, stream.line)
                else:
                    await asyncio.wait({stream.next, gone}, return_when=asyncio.FIRST_COMPLETED)
                    data = stream.frame if line == stream.first and not stream.ended else b""
                    line = stream.line if data else line
                if data:
                    await _write(request, data)
        finally:
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gone
        with contextlib.suppress(Exception):
            await request.send({"type": "http.response.body", "body": b""})

    async def _missed(self, entry: Entry, line: int, until: int) -> tuple[bytes, int]:
        """Return the lines that a reader has missed, as a frame of its own, and the last of them."""
        found = await entry.in_thread(entry.served.journal, line, MOST_LINES)
        events = [event for event in found if event.line <= until]  # the next frame has the later ones
        last = events[-1].line if events else until
        return _frame("frame", last, {"events": _lines(events)}), last

    async def _history(self, entry: Entry, stream: _Stream) -> bytes:
        line = stream.line
        if stream.history is not None and stream.history[0] == line:
            return stream.history[1]
        trace = await entry.in_thread(entry.served.trace)
        events = await entry.in_thread(entry.served.journal, max(0, line - MOST_LINES), MOST_LINES)
        shown = [event for event in events if event.line <= line]
        history = {"curves": curves(trace), "events": _lines(shown), "status": info(entry)}
        stream.history = line, _frame("history", line, history)
        return stream.history[1]

    async def _opened(self, entry: Entry) -> _Stream:
        """Return the stream of a model; the first reader starts it."""
        name = entry.served.name
        if name not in self._streams:
            line = await entry.in_thread(_last_line, entry)
            if name not in self._streams:  # another reader may have been faster
                loop = asyncio.get_running_loop()
                self._streams[name] = stream = _Stream(line, line, b"", loop.create_future())
                stream.task = asyncio.create_task(self._tick(entry, stream))
        return self._streams[name]

    async def _tick(self, entry: Entry, stream: _Stream) -> None:
        """Make a frame every second as long as there are readers."""
        loop = asyncio.get_running_loop()
        idle = 0
        try:
            while not self._closing.is_set() and idle < 60:
                await asyncio.sleep(self.seconds)
                idle = idle + 1 if not stream.readers else 0
                events = await entry.in_thread(entry.served.journal, stream.line, MOST_LINES)
                last = events[-1].line if events else stream.line
                frame = _frame("frame", last, {"events": _lines(events), "status": info(entry)})
                stream.first, stream.line, stream.frame = stream.line, last, frame
                done, stream.next = stream.next, loop.create_future()
                if not done.done():
                    done.set_result(None)
        except Exception:
            log.exception("events of %s failed; its readers connect again", entry.served.name)
        finally:
            stream.ended = True
            self._streams.pop(entry.served.name, None)
            if not stream.next.done():
                stream.next.set_result(None)


def _last_line(entry: Entry) -> int:
    """Return the number of the last line of the journal."""
    line = 0
    while events := entry.served.journal(line, 10_000):
        line = events[-1].line
    return line


def _lines(events: Sequence[Event]) -> list[dict[str, Any]]:
    return [{"line": one.line, "record": dict(one.record)} for one in events]


def _frame(kind: str, line: int, value: Any) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (line, kind.encode(), _encode(value))


async def _write(request: HttpRequest, data: bytes) -> None:
    await request.send({"type": "http.response.body", "body": data, "more_body": True})


async def _disconnected(request: HttpRequest) -> None:
    """Wait until the client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
