"""Connections with deadlines: a client that sends or reads too slowly, or too much, is closed."""

from __future__ import annotations

import asyncio
import re
import types
from collections.abc import Coroutine, Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from driftsurf.service.http.limits import MIB, Limits
from driftsurf.service.http.problems import HttpProblem
from driftsurf.service.http.responses import ABORT, RESPOND, SECURITY_HEADERS, problem_response

if TYPE_CHECKING:
    from driftsurf.service.http.app import App

__all__ = ["GuardedProtocol", "guarded", "sweep"]

SWEEP_SECONDS = 0.25
"""How often deadlines are looked at; no connection has a timer of its own."""
_AUTHORITY = re.compile(rb"[/?#]")
"""What ends the authority of an address."""


class _OneWrite:
    """A transport that keeps the head of an answer until its body comes: one packet wakes the client once."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.head = b""

    def write(self, data: bytes) -> None:
        """Write bytes, after the head that was kept; a new head is kept."""
        if data.startswith(b"HTTP/1.1 ") and not self.head and not data.startswith(b"HTTP/1.1 100"):
            self.head = data
        else:
            self.transport.write(self.head + data if self.head else data)
            self.head = b""

    def whole(self, data: bytes) -> None:
        """Write an answer with its head and body."""
        self.transport.write(data)

    def flush(self) -> None:
        """Write the head, if it is still kept: an answer may have no body."""
        if self.head:
            self.transport.write(self.head)
            self.head = b""

    def is_closing(self) -> bool:
        """Return whether the connection is being closed."""
        return self.transport.is_closing()

    def close(self) -> None:
        """Close the connection after everything was written."""
        self.flush()
        self.transport.close()


class _Body:
    """The part of a body that has come and was not taken yet: joined once, instead of copied with each part."""

    __slots__ = ("parts", "size")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def __iadd__(self, part: bytes) -> Self:
        self.parts.append(part)
        self.size += len(part)
        return self

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


async def _continued(running: Coroutine[Any, Any, None], awaited: Any) -> None:
    """Go on with a coroutine that has been run until it waits for something."""
    await _rest(running, awaited)


@types.coroutine
def _rest(running: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """Pass on what a coroutine waits for; no task takes a generator from Python 3.12 on."""
    while True:
        raised: BaseException | None = None
        value = None
        try:
            value = yield awaited
        except BaseException as error:
            raised = error
        try:
            awaited = running.send(value) if raised is None else running.throw(raised)
        except StopIteration:
            return


def _lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def _names_one_host(target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether the Host header of a request names one host, and an absolute target names the same.

    Whoever checks one of two names cannot know which one the client, or a proxy, has used.
    """
    hosts = [value.lower() for name, value in headers if name == b"host"]
    if target[:1] in (b"/", b"*"):
        return len(hosts) < 2
    # A target such as http://localhost/healthz, which clients send to proxies.
    return hosts == [_AUTHORITY.split(target.partition(b"://")[2])[0].lower()]


class _Defaults:
    """Lines of the headers that all answers have: the list is another one when the date changes, once a second."""

    def __init__(self) -> None:
        self._made: tuple[Any, bytes] = None, b""

    def lines(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the lines of headers."""
        known, lines = self._made
        if known is not headers:
            lines = _lines([*headers, *SECURITY_HEADERS])
            self._made = headers, lines
        return lines


_DEFAULTS = _Defaults()


def respond(cycle: Any, status: int, media: str, body: bytes) -> bool:
    """Write a whole answer at once, as uvicorn would in two steps; False, and nothing is written, if it has to wait."""
    if cycle.response_started or cycle.disconnected or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
        return False
    close = b"" if cycle.keep_alive else b"connection: close\r\n"
    head = b"%b%bcontent-type: %b\r\ncontent-length: %d\r\n%b\r\n%b"
    more = _DEFAULTS.lines(cycle.default_headers)
    cycle.transport.whole(head % (STATUS_LINE[status], more, media.encode("latin-1"), len(body), close, body))
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = cycle.chunked_encoding = False
    cycle.scope["extensions"] = {}  # it refers to the cycle, which only a garbage collection would free
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


class GuardedProtocol(HttpToolsProtocol):
    """HTTP/1.1 of uvicorn, with deadlines for the head, the body and the reading of the answer.

    The limits are those of the application at this moment, so that a reload changes them for open connections, too.
    """

    guarded_app: App

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: float | None = None
        """When the connection is closed, unless what is waited for comes."""
        self._awaited = "head"
        self._head = 0
        """Bytes since the last head or part of a body was complete: of a head, of trailers, or between chunks."""
        self._heads = 0
        """Number of complete heads."""
        self._began = 0.0
        self._received = 0
        """Bytes of the body so far."""
        self._checked = 0.0
        """When the deadlines were looked at last."""
        self._write_deadline: float | None = None
        self._unstarted: tuple[RequestResponseCycle, Any] | None = None
        """The request that is being received, as long as the application has not been called for it."""
        self._may_run_now = self._in_head = False

    @property
    def limits(self) -> Limits:
        """The limits that hold now."""
        return self.guarded_app.limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection, or refuse it if there are too many."""
        super().connection_made(transport)
        self._writer: Any = _OneWrite(transport)
        if len(self.connections) > self.limits.connections:
            self._refuse(HttpProblem("busy", f"{self.limits.connections:,} connections are open already"))
            return
        self._deadline, self._awaited = self.loop.time() + self.limits.head_seconds, "head"

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        if self._awaited == "idle":
            self._deadline, self._awaited, self._head = self.loop.time() + self.limits.head_seconds, "head", 0
        self._may_run_now, before = True, (self._heads, self._received)
        super().data_received(data)
        if self._unstarted is not None:  # the rest of the body is still to come
            started, self._unstarted = self._unstarted, None
            super()._start_asgi_task(*started)
        if (self._heads, self._received) == before and self._awaited in ("head", "body", "answer"):
            # The parser keeps such bytes: of the head, of trailers, or of the head of the next request.
            self._head += len(data)
            if self._head > self.limits.head_bytes:
                self._refuse(HttpProblem("head-too-large", f"send at most {self.limits.head_bytes:,} bytes"))

    def on_headers_complete(self) -> None:
        """Wait for the body from now on."""
        size = len(self.url)
        for name, value in self.headers:
            size += len(name) + len(value)
        if size > self.limits.head_bytes:
            self._refuse(HttpProblem("head-too-large", f"send at most {self.limits.head_bytes:,} bytes"))
            return
        if not _names_one_host(self.url, self.headers):
            self._refuse(HttpProblem("bad-request", "the request names more than one host"))
            return
        self._heads, self._head = self._heads + 1, 0
        self._began, self._received, self._awaited = self.loop.time(), 0, "body"
        self._deadline = self._began + self.limits.request_seconds
        self._in_head = True
        super().on_headers_complete()
        self._in_head = False
        self.cycle.transport, self.cycle.body = self._writer, cast("bytearray", _Body())
        self.scope["extensions"] = cast(
            "dict[str, Any]", {RESPOND: partial(respond, self.cycle), ABORT: self.transport.abort}
        )

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Start the application; a request whose body is here is answered at once, without a task, if nothing waits.

        Only the first request of what was received is, so that a client that sends many holds nobody up.
        """
        if self._in_head and self._may_run_now:
            self._unstarted, self._may_run_now = (cycle, app), False
        else:
            super()._start_asgi_task(cycle, app)

    def _run_now(self, cycle: RequestResponseCycle, app: Any) -> None:
        running = cycle.run_asgi(app)
        try:
            awaited = running.send(None)
        except StopIteration:
            return
        task = self.loop.create_task(_continued(running, awaited))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body; each MiB gives one more second."""
        if self.transport.is_closing():
            return
        self._received, self._head = self._received + len(body), 0
        if self._awaited == "body":
            self._deadline = self._began + self.limits.request_seconds + self._received / MIB
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the application from now on, which has deadlines of its own."""
        if self.transport.is_closing():
            return
        self._deadline, self._awaited, self._head = None, "answer", 0
        if self.cycle.response_complete:
            self._deadline, self._awaited = self.loop.time() + self.limits.idle_seconds, "idle"
        super().on_message_complete()
        if self._unstarted is not None:
            started, self._unstarted = self._unstarted, None
            self._run_now(*started)

    def on_response_complete(self) -> None:
        """Wait for the next request from now on, or for the rest of a body that was refused, which is thrown away."""
        if self._awaited in ("answer", "idle") and not self.pipeline:
            self._deadline, self._awaited = self.loop.time() + self.limits.idle_seconds, "idle"
        elif self._awaited == "answer":
            self._awaited = "idle"
        elif self._awaited == "body" and not self.pipeline:
            self._deadline, self._awaited = self.loop.time() + self.limits.request_seconds, "rest"
        self._writer.flush()
        if not self.pipeline:  # what uvicorn does, without a timer: deadlines of idle connections are looked at as well
            self.server_state.total_requests += 1
            if not self.transport.is_closing():
                self.flow.resume_reading()
            return
        super().on_response_complete()
        if self.pipeline:  # otherwise each answer would let more requests in than it takes out
            self.flow.pause_reading()

    def pause_writing(self) -> None:
        """Give a client that does not read its answer a deadline; each MiB gives one more second."""
        waiting = self.transport.get_write_buffer_size()
        self._write_deadline = self.loop.time() + self.limits.request_seconds + waiting / MIB
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client has read."""
        self._write_deadline = None
        super().resume_writing()

    def check(self, now: float) -> None:
        """Close the connection if it is too slow."""
        if self._awaited == "body" and self.flow.read_paused and self._deadline is not None:
            # The service does not read now, because it is busy with what it has: the client is not to blame.
            waited = now - max(self._checked, self._began)
            self._began, self._deadline = self._began + waited, self._deadline + waited
        self._checked = now
        if self._write_deadline is not None and now >= self._write_deadline:
            self.transport.abort()
        elif self._deadline is not None and now >= self._deadline:
            self._deadline = None
            if self._awaited == "idle":
                self._close()
                return
            if self._awaited == "rest":
                self.transport.abort()
                return
            self._refuse(HttpProblem("timeout", f"the {self._awaited} of the request did not come in time"))

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: a request for another protocol is answered in this one, as HTTP allows."""

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is no HTTP with a problem."""
        self._refuse(HttpProblem("bad-request", "the request is no HTTP/1.1"))

    def _refuse(self, problem: HttpProblem) -> None:
        """Answer with a problem, if nothing was answered, and close the connection."""
        self._deadline, self._awaited = None, "closed"
        if self.transport.is_closing():
            return
        started = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not started:
            response = problem_response(problem)
            head = (
                f"HTTP/1.1 {response.status} {response.status}\r\ncontent-type: {response.media}\r\n"
                f"content-length: {len(response.body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + response.body)
            if self.cycle is not None and not self.cycle.response_complete:
                self.cycle.disconnected = True
                self.cycle.message_event.set()
        self._close()

    def _close(self) -> None:
        """Close the connection once what was written is sent, and after a while in any case."""
        self.transport.close()
        # A client that does not read would keep the connection open for as long as bytes wait to be sent.
        self.loop.call_later(self.limits.head_seconds, self.transport.abort)


def guarded(app: App) -> type[GuardedProtocol]:
    """Return the protocol for an application."""
    return type("GuardedProtocol", (GuardedProtocol,), {"guarded_app": app})


async def sweep(connections: set[Any]) -> None:
    """Close slow connections, for ever."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        now = loop.time()
        for connection in list(connections):
            connection.check(now)
