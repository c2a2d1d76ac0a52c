"""HTTP/1.1 server of one ASGI application: connections with deadlines and limits, a port, signals, a graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import ipaddress
import logging
import re
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import httptools

from driftsurf.errors import DriftsurfError, Option, OptionError, reason
from driftsurf.service.committer import in_turns
from driftsurf.service.http.app import App
from driftsurf.service.http.problems import HttpProblem
from driftsurf.service.http.requests import PIECE, WRITE_FRAME, AsgiMessage, Scope, problem_response
from driftsurf.service.settings import MIB

log: logging.Logger = logging.getLogger("driftsurf.service")
SWITCH_SECONDS = 0.0001
"""How long another thread may hold the interpreter lock; a fiftieth of the default of Python."""
SWEEP_SECONDS = 0.25
"""Interval at which deadlines are checked; no connection has a timer of its own."""
ACCEPT_TURNS = 8
"""Turns of the event loop within which an accepted connection is made, however slow the machine."""
BUFFERED = 2**16
"""Bytes of a body that are buffered before the application reads them; the connection is then not read."""
_ASGI = {"version": "3.0", "spec_version": "2.3"}
_AUTHORITY = re.compile(rb"[/?#]")
"""What ends the authority of an address."""
_NO_HEADER = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that would end the value of a header."""
_STATUS_LINES = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}


class _Date:
    """Line of the Date header, formatted once a second."""

    def __init__(self) -> None:
        self._second = 0
        self._line = b""

    def line(self) -> bytes:
        """Return the line for now."""
        second = int(time.time())
        if second != self._second:
            self._second, self._line = second, f"date: {formatdate(second, usegmt=True)}\r\n".encode()
        return self._line


_DATE = _Date()


class Exchange:
    """A request and its answer: the ``receive`` and ``send`` that the application is called with."""

    __slots__ = (
        "answered",
        "chunked",
        "connection",
        "gone",
        "head",
        "is_continued",
        "keep_alive",
        "left",
        "method",
        "more",
        "parts",
        "read",
        "scope",
        "size",
        "started",
        "task",
        "waiter",
    )

    def __init__(self, connection: HttpConnection, scope: Scope, *, keep_alive: bool, is_continued: bool) -> None:
        self.connection: HttpConnection = connection
        self.scope: Scope = scope
        self.method: str = scope["method"]
        self.keep_alive: bool = keep_alive
        self.is_continued: bool = is_continued
        """Whether the client waits for "100 Continue" before it sends the body."""
        self.parts: list[bytes] = []
        """Parts of the body that the application has not read."""
        self.size: int = 0
        """Bytes of these parts."""
        self.more: bool = True
        """Whether more of the body will come."""
        self.read: bool = False
        """Whether the application has read the end of the body."""
        self.gone: bool = False
        """Whether the client has closed the connection, or was refused."""
        self.started: bool = False
        self.answered: bool = False
        self.head: bytes = b""
        """Head of the answer until its body comes: one packet wakes the client once."""
        self.chunked: bool = False
        self.left: int = 0
        """Bytes of the announced body that are still to be written."""
        self.waiter: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None

    async def receive(self) -> AsgiMessage:
        """Return the next part of the body, or that the exchange is over."""
        connection = self.connection
        if self.is_continued:
            self.is_continued = False
            if not (self.started or connection.transport.is_closing()):
                connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self.gone or self.answered):
            if self.parts or not (self.more or self.read):
                body = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
                self.parts, self.size, self.read = [], 0, not self.more
                connection.read_on()
                return {"type": "http.request", "body": body, "more_body": self.more}
            self.waiter = connection.loop.create_future()
            await self.waiter
        return {"type": "http.disconnect"}

    def wake(self) -> None:
        """Let a waiting ``receive`` look again."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def send(self, message: AsgiMessage) -> None:
        """Write a part of the answer as soon as the client has room for it."""
        connection = self.connection
        while connection.room is not None and not self.gone:
            await connection.room.wait()
        if self.gone:
            return
        if self.answered:
            raise RuntimeError("the answer was already complete")
        expected = "http.response.body" if self.started else "http.response.start"
        if message["type"] != expected:
            raise RuntimeError(f"the message is {message['type']!r}; it must be {expected!r}")
        if self.started:
            self._write(message.get("body", b""), more=message.get("more_body", False))
        else:
            self._start(message["status"], message.get("headers", ()))

    def write_frame(self, data: bytes) -> bool:
        """Write a part of an answer without waiting; False, and nothing is written, if the client has no room."""
        if self.connection.room is not None or self.gone or self.answered or not self.started:
            return False
        self._write(data, more=True)
        return True

    def _start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        lines, length, close = [_STATUS_LINES[status], _DATE.line()], None, False
        for name, value in headers:
            if _NO_HEADER.search(value):
                raise RuntimeError(f"the value of the header {name!r} has control characters")
            if name == b"content-length":
                length = int(value)
            elif name == b"connection":
                close = value.lower() == b"close"
            lines.append(b"%b: %b\r\n" % (name, value))
        if close:
            self.keep_alive = False
        elif not self.keep_alive:
            lines.append(b"connection: close\r\n")
        if length is None and self.method != "HEAD" and status not in (204, 304):
            self.chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        self.head, self.left, self.started = b"".join(lines), length or 0, True
        if self.left > PIECE:
            self.connection.expect_read(self.left)

    def _write(self, body: bytes, *, more: bool) -> None:
        if self.method == "HEAD":
            self.left = 0
            body = b""
        elif self.chunked:
            if body:
                body = b"%x\r\n%b\r\n" % (len(body), body)
            if not more:
                body += b"0\r\n\r\n"
        else:
            self.left -= len(body)
        if self.left < 0 or (self.left and not more):
            raise RuntimeError("the body is not as long as its Content-Length")
        data = self.head + body if self.head else body
        self.head = b""
        if data and not self.connection.transport.is_closing():
            self.connection.transport.write(data)
        if not more:
            self.answered = True
            self.wake()
            self.connection.ended(self)

    async def run(self, app: App) -> None:
        """Call the application; an answer that it does not complete is an error of the application."""
        try:
            await app(self.scope, self.receive, self.send)
        except Exception:
            log.exception("the application failed")
        except asyncio.CancelledError:
            self.connection.transport.abort()
            raise
        finally:
            self.connection.server.tasks.discard(self.task)
            self.task, self.scope = None, {}  # what refers to itself is freed by a garbage collection only
        if not (self.answered or self.gone):
            self.connection.fail(self)


class HttpConnection(asyncio.Protocol):
    """A connection of HTTP/1.1 with deadlines for the head, the body and the reading of the answer.

    Requests that come together are answered one after the other, in order. The limits are those of the application at
    this moment, so that a reload changes them for open connections, too.
    """

    transport: asyncio.Transport

    def __init__(self, server: HttpServer) -> None:
        self.server: HttpServer = server
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.room: asyncio.Event | None = None
        """Set when the client has read again what was written; None as long as there is room."""
        self.waiting: deque[Exchange] = deque()
        """Requests behind the one that is being answered."""
        self._client: tuple[str, int] | None = None
        self._server: tuple[str, int] | None = None
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._parser: Any = httptools.HttpRequestParser(self)
        # So that bytes after a request with "Connection: close" do not take away its answer.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._answering: Exchange | None = None
        self._receiving: Exchange | None = None
        """The request whose body is being received."""
        self._awaited = "head"
        """What the deadline is for: "head", "body", the "rest" of a body that was answered, "answer", "idle", "end"."""
        self._deadline: float | None = None
        """When the connection is closed, unless what is awaited has come."""
        self._write_deadline: float | None = None
        """When the client must have read again, because it has no room."""
        self._answer_deadline: float | None = None
        """When the client must have read a large answer."""
        self._head = 0
        """Bytes since the last head or part of a body was complete: of a head, of trailers, or between chunks."""
        self._moved = False
        """Whether a head or a part of a body was complete in the bytes that are being parsed."""
        self._received = 0
        """Bytes of the body so far."""
        self._began = self._checked = 0.0
        """When the body began, and when the deadlines were checked last."""
        self._reads = True
        self._refusal: HttpProblem | None = None
        """Written after the answers to the requests before; nothing is parsed any more."""
        self._closing = False

    # -------------------------------------------------------------------- the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection, or refuse it if there are too many."""
        self.transport = transport
        self._client = (transport.get_extra_info("peername") or ())[:2] or None
        self._server = (transport.get_extra_info("sockname") or ())[:2] or None
        self.server.connections.add(self)
        limits = self.server.app.limits
        self._deadline = self.loop.time() + limits.head_seconds
        if len(self.server.connections) > limits.connections:
            self._refuse(HttpProblem("busy", f"{limits.connections:,} connections are open already"))

    def connection_lost(self, exc: Exception | None) -> None:
        """End the requests under way: their client is gone."""
        self.server.connections.discard(self)
        self._closing = True
        for exchange in (self._answering, *self.waiting):
            if exchange is not None:
                exchange.gone = True
                exchange.wake()
        self._answering = self._receiving = self._parser = None
        self.waiting.clear()
        self.resume_writing()

    def pause_writing(self) -> None:
        """Give a client that does not read its answer a deadline; each MiB gives one more second."""
        size = self.transport.get_write_buffer_size()
        self._write_deadline = self.loop.time() + self.server.app.limits.request_seconds + size / MIB
        self.room = asyncio.Event()

    def resume_writing(self) -> None:
        """The client has read."""
        self._write_deadline, room, self.room = None, self.room, None
        if room is not None:
            room.set()

    def expect_read(self, size: int) -> None:
        """Give the client a deadline for reading a large answer; each MiB gives one more second."""
        self._answer_deadline = self.loop.time() + self.server.app.limits.request_seconds + size / MIB

    def read_on(self) -> None:
        """Read from the client, unless requests or parts of a body wait."""
        size = 0 if self._receiving is None else self._receiving.size
        reads = not (self.waiting or size > BUFFERED or self._closing or self._refusal is not None)
        if reads != self._reads:
            self._reads = reads
            if not self.transport.is_closing():
                (self.transport.resume_reading if reads else self.transport.pause_reading)()

    # -------------------------------------------------------------------- parsing

    def data_received(self, data: bytes) -> None:
        """Parse bytes of requests."""
        limits = self.server.app.limits
        if self._awaited == "idle":
            self._deadline, self._awaited, self._head = self.loop.time() + limits.head_seconds, "head", 0
        self._moved = False
        rest = data
        while rest and not self._closing and self._refusal is None:
            try:
                self._parser.feed_data(rest)
                break
            except httptools.HttpParserUpgrade as upgrade:
                # A request for another protocol is answered in this one, as HTTP allows; so are those after it.
                rest = rest[upgrade.args[0] :]
            except httptools.HttpParserError:
                self._refuse(HttpProblem("bad-request", "the request is no HTTP/1.1"))
        if not self._moved and self._awaited in ("head", "body", "answer"):
            # The parser keeps such bytes: of the head, of trailers, or of the head of the next request.
            self._head += len(data)
            if self._head > limits.head_bytes:
                self._refuse(HttpProblem("head-too-large", f"send at most {limits.head_bytes:,} bytes"))

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._url, self._headers = b"", []

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Call the application for a request, or queue it behind the one that is being answered."""
        if self._closing or self._refusal is not None:
            return
        limits, headers, target = self.server.app.limits, self._headers, self._url
        size, is_continued, hosts = len(target), False, []
        for name, value in headers:
            size += len(name) + len(value)
            if name == b"host":
                hosts.append(value.lower())
            elif name == b"expect":
                is_continued = value.lower() == b"100-continue"
        if size > limits.head_bytes:
            self._refuse(HttpProblem("head-too-large", f"send at most {limits.head_bytes:,} bytes"))
            return
        if not _names_one_host(target, hosts):
            self._refuse(HttpProblem("bad-request", "the request names more than one host"))
            return
        parser, url = self._parser, httptools.parse_url(target)
        path, version = url.path.decode("ascii"), parser.get_http_version()
        exchange = Exchange(
            self,
            {
                "type": "http",
                "asgi": _ASGI,
                "http_version": version,
                "server": self._server,
                "client": self._client,
                "scheme": "http",
                "root_path": "",
                "method": parser.get_method().decode("ascii"),
                "path": unquote(path) if "%" in path else path,
                "raw_path": url.path,
                "query_string": url.query or b"",
                "headers": headers,
            },
            keep_alive=version != "1.0" and parser.should_keep_alive(),
            is_continued=is_continued,
        )
        exchange.scope["extensions"] = {WRITE_FRAME: exchange.write_frame}
        self._moved, self._head, self._received, self._awaited = True, 0, 0, "body"
        self._began = self.loop.time()
        self._deadline = self._began + limits.request_seconds
        self._receiving = exchange
        if self._answering is None:
            self._answer(exchange)
        else:
            self.waiting.append(exchange)
            self.read_on()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body; each MiB gives one more second."""
        exchange = self._receiving
        if exchange is None or self._closing:
            return
        self._moved, self._head = True, 0
        self._received += len(body)
        if self._awaited == "body":
            self._deadline = self._began + self.server.app.limits.request_seconds + self._received / MIB
        if not exchange.answered:
            exchange.parts.append(body)
            exchange.size += len(body)
            exchange.wake()
            if exchange.size > BUFFERED:
                self.read_on()

    def on_message_complete(self) -> None:
        """Wait for the application from now on, which has deadlines of its own."""
        exchange, self._receiving = self._receiving, None
        if exchange is None or self._closing:
            return
        self._moved, self._head = True, 0
        exchange.more = False
        exchange.wake()
        if exchange.answered:
            self._become_idle()
        else:
            self._deadline, self._awaited = None, "answer"

    # -------------------------------------------------------------------- answers

    def _answer(self, exchange: Exchange) -> None:
        self._answering = exchange
        exchange.task = self.loop.create_task(exchange.run(self.server.app))
        self.server.tasks.add(exchange.task)

    def ended(self, exchange: Exchange) -> None:
        """Go on after an answer is complete: with the next request, the rest of a body that was refused, or none."""
        exchange.parts, exchange.size = [], 0
        self._answering = self._answer_deadline = None
        self.server.answered += 1
        if not exchange.keep_alive:
            self._close()
        elif self.waiting:
            self._answer(self.waiting.popleft())
        elif self._refusal is not None:
            self._write_refusal(self._refusal)
        elif self._awaited == "answer":
            self._become_idle()
        elif self._awaited == "body":
            self._deadline, self._awaited = self.loop.time() + self.server.app.limits.request_seconds, "rest"
        self.read_on()

    def _become_idle(self) -> None:
        self._deadline, self._awaited = self.loop.time() + self.server.app.limits.idle_seconds, "idle"

    def fail(self, exchange: Exchange) -> None:
        """Close the connection because the application has not completed an answer."""
        if not exchange.started and not self.transport.is_closing():
            self.transport.write(_refusing(HttpProblem("failed", "the service has an error")))
        self._close()

    def _refuse(self, problem: HttpProblem) -> None:
        """Answer with a problem after the requests before, and close the connection.

        A request whose body is still coming is the one that is refused.
        """
        if self._closing or self._refusal is not None:
            return
        exchange, self._receiving = self._receiving, None
        current = self._answering
        if self.waiting and exchange is self.waiting[-1]:
            self.waiting.pop()
        if current is not None and exchange is current:
            self._answering = None
            current.gone = True
            current.wake()
            if current.started:  # nothing else can be said on this connection
                self._close()
                return
        if self._answering is None:
            self._write_refusal(problem)
        else:
            self._refusal = problem
            self._deadline, self._awaited = self.loop.time() + self.server.app.limits.request_seconds, "rest"
            self.read_on()

    def _write_refusal(self, problem: HttpProblem) -> None:
        if not self.transport.is_closing():
            self.transport.write(_refusing(problem))
        self._close()

    def _close(self) -> None:
        """Close the connection once what was written is sent, and after a while in any case."""
        # A client that does not read would keep the connection open for as long as bytes wait to be sent.
        self._deadline, self._awaited = self.loop.time() + self.server.app.limits.head_seconds, "end"
        self._closing = True
        self.transport.close()

    def shut_down(self) -> None:
        """Close the connection after the requests that have come; at once if there are none."""
        if self._answering is None and not self._closing:
            self._close()
        elif self._answering is not None:
            (self.waiting[-1] if self.waiting else self._answering).keep_alive = False

    def check(self, now: float) -> None:
        """Close the connection if its client is too slow."""
        if self._awaited == "body" and not self._reads and self._deadline is not None:
            # The service does not read now, because it is busy with what it has: the client is not to blame.
            waited = now - max(self._checked, self._began)
            self._began, self._deadline = self._began + waited, self._deadline + waited
        self._checked = now
        for deadline in (self._write_deadline, self._answer_deadline):
            if deadline is not None and now >= deadline:
                self.transport.abort()
                return
        if self._deadline is None or now < self._deadline:
            return
        if self._awaited in ("rest", "end"):
            self.transport.abort()
        elif self._awaited == "idle":
            self._close()
        else:
            self._refuse(HttpProblem("timeout", f"the {self._awaited} of the request did not come in time"))


def _refusing(problem: HttpProblem) -> bytes:
    """Return a problem as an answer after which the connection is closed."""
    answer = problem_response(problem)
    head = f"content-type: {answer.media}\r\ncontent-length: {len(answer.body)}\r\nconnection: close\r\n\r\n".encode()
    return _STATUS_LINES[answer.status] + _DATE.line() + head + answer.body


def _names_one_host(target: bytes, hosts: list[bytes]) -> bool:
    """Return whether the Host headers of a request name one host, and an absolute target names the same.

    Whoever checks one of two names cannot know which one the client, or a proxy, has used.
    """
    if target[:1] in (b"/", b"*"):
        return len(hosts) < 2
    # A target such as http://localhost/healthz, which clients send to proxies.
    return hosts == [_AUTHORITY.split(target.partition(b"://")[2])[0].lower()]


def check_address(host: str, *, has_keys: bool) -> None:
    """Raise OptionError if others could reach a service without keys."""
    if has_keys or host.lower() == "localhost":
        return
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise OptionError(
            Option("host"),
            f" is {host!r}, and the service has no keys; add keys (driftsurf serve --make-key NAME), or serve this "
            "machine only with ",
            Option("host", "127.0.0.1"),
        )


class HttpServer:
    """Serves an application at a port until a signal ends it.

    SIGTERM and SIGINT end it: it takes no more connections, requests under way end, and event streams are closed.
    SIGHUP calls ``reload``.

    Parameters
    ----------
    app
        The application.
    host, port
        Where to listen; port 0 takes a free one. The port is bound at once, and opened by :meth:`run`.
    reload
        Called on SIGHUP.
    """

    def __init__(
        self, app: App, host: str = "127.0.0.1", port: int = 8470, reload: Callable[[], None] | None = None
    ) -> None:
        self.app: App = app
        self.reload: Callable[[], None] | None = reload
        check_address(host, has_keys=bool(app.gate.keys))
        self.socket: socket.socket = _bound(host, port)
        self.host: str = host
        self.port: int = self.socket.getsockname()[1]
        self.connections: set[HttpConnection] = set()
        self.tasks: set[asyncio.Task[None] | None] = set()
        """Tasks of requests under way."""
        self.answered: int = 0
        """Number of answers so far."""
        self._stopped = False
        self._stop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        app.connections = lambda: len(self.connections)

    @property
    def address(self) -> str:
        """Where the service is reached."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until a signal, or :meth:`stop`, ends it; ``ready`` is called when the port is open."""
        usual = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(self._run(ready))
        finally:
            sys.setswitchinterval(usual)

    def stop(self) -> None:
        """End the server; from any thread."""
        self.app.close()
        self._stopped = True
        if self._stop is not None:
            loop, event = self._stop
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(event.set)

    async def _run(self, ready: Callable[[], None]) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self._stop = loop, stop
        with self._signals(loop), in_turns(loop.call_soon):
            listener = await loop.create_server(
                lambda: HttpConnection(self), sock=self.socket, backlog=self.app.limits.connections
            )
            sweeper = asyncio.create_task(self._sweep())
            try:
                ready()
                if not self._stopped:  # by another thread, before it could be told to the loop
                    await stop.wait()
                # Python cannot make a connection that was accepted before, if its listener is closed by then.
                with contextlib.suppress(NotImplementedError):  # loops on Windows
                    loop.remove_reader(self.socket)
                for _ in range(ACCEPT_TURNS):
                    await asyncio.sleep(0)
                listener.close()
                await self._drain()
            finally:
                listener.close()
                sweeper.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await sweeper

    async def _sweep(self) -> None:
        """Close slow connections, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = loop.time()
            for connection in list(self.connections):
                connection.check(now)

    async def _drain(self) -> None:
        """Wait until the requests under way have ended and their answers are sent."""
        seconds, accepting = self.app.limits.drain_seconds, True
        try:
            async with asyncio.timeout(seconds):
                while accepting or self.connections or self.tasks:
                    for connection in list(self.connections):
                        connection.shut_down()
                    await asyncio.sleep(0.05)  # in which those that were accepted last are made
                    accepting = False
        except TimeoutError:
            log.error("%d requests were cut off, because they had not ended after %d s", len(self.tasks), seconds)
            for task in [one for one in self.tasks if one is not None]:
                task.cancel()
            for connection in list(self.connections):
                connection.transport.abort()

    def end(self, number: int) -> None:
        """End the server because of a signal."""
        log.info("%s: no more requests are taken; those under way end first", signal.Signals(number).name)
        self.stop()

    def read_again(self) -> None:
        """Read keys, limits and alerts again because of SIGHUP; an error is logged, and what was valid stays."""
        if self.reload is None:
            return
        try:
            self.reload()
        except (DriftsurfError, OSError) as error:
            log.error("SIGHUP: the configuration cannot be used, and the last one stays: %s", error)
        except Exception:
            log.exception("SIGHUP: the configuration cannot be used; the last one stays")
        else:
            log.info("SIGHUP: keys, limits and alerts were read again")

    @contextlib.contextmanager
    def _signals(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Context in which signals are handled, if this is the main thread."""
        numbers: list[int] = []
        before: dict[int, Any] = {}
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.end, number)
                numbers.append(number)
            if sys.platform != "win32":
                loop.add_signal_handler(signal.SIGHUP, self.read_again)
                numbers.append(signal.SIGHUP)
        except (RuntimeError, ValueError):  # not the main thread
            pass
        except NotImplementedError:  # loops on Windows: the interpreter calls the handler, in the main thread
            before = {n: signal.signal(n, lambda n, _: self.end(n)) for n in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for handled in numbers:
                loop.remove_signal_handler(handled)
            for handled, handler in before.items():
                signal.signal(handled, handler)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the event loop: that of uvloop where it is installed, as Windows does not have it."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return None
    return factory


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound and does not listen yet, so that nobody connects before models are warm."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise OptionError(Option("host"), f" is {host!r}, which is no address here: {reason(error)}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise OptionError(
            Option("port"), f" is {port}, which cannot be opened at {host}: {reason(error)}; choose another one"
        ) from error
    bound.set_inheritable(False)
    return bound
