"""Server-sent events of a model: its history once, then one frame a second; the id is the line of the journal."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from driftsurf.service.contract import Event
from driftsurf.service.http.endpoints import info
from driftsurf.service.http.problems import HttpProblem
from driftsurf.service.http.requests import SECURITY_HEADERS, WRITE_FRAME, AsgiMessage, HttpRequest

if TYPE_CHECKING:
    from driftsurf.service.http.app import ServedEntry

log: logging.Logger = logging.getLogger("driftsurf.service")
FRAME_SECONDS = 1.0
HISTORY_SECONDS = 5.0
"""Readers that come within this time share a history."""
MOST_BUCKETS = 600
"""Points of each curve of the history at most."""
MOST_LINES = 1000
"""Lines of the journal in one frame at most; the next frame has the next ones."""
TOGETHER = 50
"""Readers that a frame is written to before other requests have their turn."""
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


@dataclass(eq=False, slots=True)
class _EventReader:
    """A client that has everything up to the newest frame, and waits for the next ones."""

    write: Callable[[bytes], bool] | None
    """Function of the server that writes a frame at once, or not at all; None for a server that has none."""
    behind: asyncio.Future[tuple[int, bytes]]
    """Ends when the task of the reader must go on: after a line of the journal, and with a frame to write first."""


@dataclass(slots=True)
class _EventStream:
    """The frames of one model, made once for all of its readers."""

    line: int
    """Last line of the journal that the newest frame includes."""
    first: int
    """Line after which the newest frame begins."""
    frame: bytes = b""
    readers: int = 0
    waiting: set[_EventReader] = field(default_factory=set)
    """Readers that have the newest frame."""
    ended: bool = False
    """Whether no more frames are made; its readers connect again."""
    task: asyncio.Task[None] | None = None
    history: tuple[float, int, bytes] | None = None
    """When the history was made, its last line, and its frame; readers that come together share it."""
    making: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the history is made."""


class EventStreams:
    """Sends events to many readers: each frame is made once a second for a model and written to all of its readers.

    One loop writes a frame to all readers, so that a reader costs a write and no task. A reader whose connection is
    full misses the frame; its own task then sends it the lines that it has missed, as fast as it reads.
    """

    def __init__(self, most: int, seconds: float = FRAME_SECONDS) -> None:
        self.most = most
        self.seconds = seconds
        self.readers: int = 0
        self._streams: dict[str, _EventStream] = {}
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def close(self) -> None:
        """End all streams; from any thread."""
        self._closing = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for stream in self._streams.values():
            _wake_all(stream)

    async def send(self, entry: ServedEntry, request: HttpRequest) -> None:
        """Answer a request with events until the client or the service ends."""
        if self.readers >= self.most:
            raise HttpProblem("busy", f"{self.most:,} readers of events are connected already; try again later")
        since = self._since(request)
        self._loop = asyncio.get_running_loop()
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

    async def _send(self, entry: ServedEntry, request: HttpRequest, stream: _EventStream, since: int | None) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no"), *SECURITY_HEADERS]
        await request.send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            if since is None:
                line, history = await self._history(entry, stream)
                await request.send(_message(history))
            else:
                line = since
            while not (self._closing or stream.ended or gone.done()):
                line = min(line, stream.line)  # a reader may know lines of a journal that was replaced
                if line == stream.line:
                    line, data = await self._wait(request, stream, gone)
                    if data:
                        await request.send(_message(data))
                    continue
                if line == stream.first:
                    data, line = stream.frame, stream.line
                else:
                    data, line = await self._missed(entry, line, stream.line)
                await request.send(_message(data))
        finally:
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gone
        with contextlib.suppress(Exception):
            await request.send({"type": "http.response.body", "body": b""})

    async def _wait(self, request: HttpRequest, stream: _EventStream, gone: asyncio.Future[None]) -> tuple[int, bytes]:
        """Let frames be written to a reader until one cannot be; return the last line that it has, and a frame."""
        write = request.scope.get("extensions", {}).get(WRITE_FRAME)
        reader = _EventReader(write, asyncio.get_running_loop().create_future())
        stream.waiting.add(reader)
        try:
            waited: list[asyncio.Future[Any]] = [reader.behind, gone]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stream.waiting.discard(reader)
        return reader.behind.result() if reader.behind.done() else (stream.line, b"")

    async def _missed(self, entry: ServedEntry, line: int, until: int) -> tuple[bytes, int]:
        """Return the lines that a reader has missed, as a frame of its own, and the last of them."""
        found = await entry.in_thread(entry.served.journal, line, MOST_LINES)
        events = [event for event in found if event.line <= until]  # the next frame has the later ones
        last = events[-1].line if events else until
        return _frame("frame", last, {"events": _lines(events)}), last

    async def _history(self, entry: ServedEntry, stream: _EventStream) -> tuple[int, bytes]:
        """Return the history as a frame, and its last line.

        It is made once in some seconds however many readers come: each of them then gets the lines after it.
        """
        now = asyncio.get_running_loop().time
        async with stream.making:
            known = stream.history
            if known is None or now() - known[0] > HISTORY_SECONDS:
                line = stream.line
                known = stream.history = (now(), line, await entry.in_thread(_history_frame, entry, line))
        return known[1:]

    async def _opened(self, entry: ServedEntry) -> _EventStream:
        """Return the stream of a model; the first reader starts it."""
        name = entry.served.name
        if name not in self._streams:
            line = await entry.in_thread(lambda: entry.served.journal_lines)
            if name not in self._streams:  # another reader may have been faster
                self._streams[name] = stream = _EventStream(line, line)
                stream.task = asyncio.create_task(self._tick(entry, stream))
        return self._streams[name]

    async def _tick(self, entry: ServedEntry, stream: _EventStream) -> None:
        """Make a frame every second as long as there are readers."""
        idle = 0
        try:
            while not self._closing and (stream.readers or idle < 60):
                await asyncio.sleep(self.seconds)
                idle = idle + 1 if not stream.readers else 0
                events = await entry.in_thread(entry.served.journal, stream.line, MOST_LINES)
                last = events[-1].line if events else stream.line
                status = await entry.in_thread(_short_status, entry)
                frame = _frame("frame", last, {"events": _lines(events), "status": status})
                stream.first, stream.line, stream.frame = stream.line, last, frame
                await self._write_all(stream)
        except Exception:
            log.exception("events of %s failed; its readers connect again", entry.served.name)
        finally:
            stream.ended = True
            self._streams.pop(entry.served.name, None)
            _wake_all(stream)

    async def _write_all(self, stream: _EventStream) -> None:
        """Write the newest frame to all readers that wait for it."""
        for number, reader in enumerate(list(stream.waiting), 1):
            if reader in stream.waiting and not (reader.write and reader.write(stream.frame)):
                stream.waiting.discard(reader)
                # A full connection misses the frame. Where the server has no function, the task of the reader writes.
                _wake(reader, *((stream.first, b"") if reader.write else (stream.line, stream.frame)))
            if number % TOGETHER == 0:
                await asyncio.sleep(0)


def _history_frame(entry: ServedEntry, line: int) -> bytes:
    """Return the history of a model up to a line of its journal as a frame."""
    events = entry.served.journal(max(0, line - MOST_LINES), MOST_LINES)
    shown = [event for event in events if event.line <= line]
    history = {"curves": curves(entry.served.trace()), "events": _lines(shown), "status": info(entry)}
    return _frame("history", line, history)


def _wake_all(stream: _EventStream) -> None:
    for reader in stream.waiting:
        _wake(reader, stream.line, b"")


def _wake(reader: _EventReader, line: int, frame: bytes) -> None:
    if not reader.behind.done():
        reader.behind.set_result((line, frame))


def _lines(events: Sequence[Event]) -> list[dict[str, Any]]:
    return [{"line": one.line, "record": dict(one.record)} for one in events]


def _frame(kind: str, line: int, value: Any) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (line, kind.encode(), _encode(value))


def _short_status(entry: ServedEntry) -> dict[str, Any]:
    """Return the state of a model without its columns and classes, which the history has and which may be many."""
    status = msgspec.structs.asdict(info(entry))
    del status["columns"], status["classes"]
    return status


def _message(data: bytes) -> AsgiMessage:
    return {"type": "http.response.body", "body": data, "more_body": True}


async def _disconnected(request: HttpRequest) -> None:
    """Wait until the client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
