"""Requests and answers of the HTTP API: limits, bodies as a whole or in parts, and how answers are sent."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

import msgspec

from driftsurf.data.arrow import BATCH, DICTIONARY, ArrowMessage, messages
from driftsurf.errors import DriftsurfError, InputError
from driftsurf.errors.visible import visible
from driftsurf.service.contract import Request
from driftsurf.service.http.problems import HttpProblem, InferenceError, Problem, problem_of
from driftsurf.service.http.security import EVERYBODY, Caller
from driftsurf.service.settings import Limits
from driftsurf.service.wire.formats import Format

if TYPE_CHECKING:
    from driftsurf.service.http.app import ServedEntry


Scope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]

LONGEST_KEY = 180
"""Characters of an idempotency key at most; parts of a body add a few."""


class InFlight:
    """Counts the bytes of bodies that are in memory."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.bytes: int = 0

    def add(self, count: int) -> bool:
        """Count more bytes; return False, and count nothing, if they were too many."""
        if self.bytes + count > self.most:
            return False
        self.bytes += count
        return True

    def remove(self, count: int) -> None:
        """Count fewer bytes."""
        self.bytes -= count


class HttpRequest:
    """A request: its method, path, query and headers, and its body, which is read within the limits."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: Limits, flight: InFlight) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.limits = limits
        self.flight = flight
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.caller: Caller = EVERYBODY
        self.entry: ServedEntry | None = None
        """The model that was asked, once the request is known to be allowed."""
        self.rows: int = 0
        """Rows, or labels, of the body that were taken."""
        self.content: bytes | None = None
        """The body, once it has been read as a whole."""
        self.taken: int = 0
        """Bytes of the body that are counted as in flight."""
        self.headers: Mapping[str, str] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        """Headers by name in small letters; the last one of those with the same name."""

    @cached_property
    def query(self) -> Mapping[str, str]:
        """Parameters after the question mark."""
        try:
            return dict(
                parse_qsl(self.scope["query_string"].decode("ascii"), keep_blank_values=True, max_num_fields=50)
            )
        except (ValueError, UnicodeDecodeError):
            raise HttpProblem("bad-request", "the query of the address cannot be read") from None

    def check_query(self, known: tuple[str, ...]) -> None:
        """Raise HttpProblem if the query has a parameter that the address does not know."""
        if not self.scope["query_string"]:
            return
        for name in self.query:
            if name not in known:
                choices = f"parameters: {', '.join(known)}" if known else "it has none"
                raise HttpProblem("bad-option", f"the address has no parameter {name[:100]!r}; {choices}")

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Return a parameter of the query with one of some values; the first one if it is not given."""
        if not self.scope["query_string"]:
            return choices[0]
        value = self.query.get(name, choices[0])
        if value not in choices:
            raise HttpProblem("bad-option", f"{name} is {value[:100]!r}; choices: {', '.join(choices)}")
        return value

    def whole(self, name: str, default: int, most: int = 2**53) -> int:
        """Return a whole number among the parameters of the query."""
        text = self.query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal()) or len(text) > 16 or int(text) > most:
            raise HttpProblem("bad-option", f"{name} must be a whole number from 0 to {most}; got {text[:100]!r}")
        return int(text)

    @property
    def length(self) -> int | None:
        """Number of bytes of the body, if the client has announced it."""
        text = self.headers.get("content-length")
        return int(text) if text is not None and text.isascii() and text.isdecimal() else None

    async def body(self, most: int | None = None) -> bytes:
        """Return the whole body; HttpProblem if it is too large, or if too much is in flight."""
        most = self.limits.body_bytes if most is None else most
        self.check_encoding()
        length = self.length
        if length is not None and length > most:
            raise _too_large(most)
        message = await self.receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            data: bytes = message.get("body", b"")
            self._count(len(data), most)
            self.content = data
            return data
        parts = bytearray()
        while True:
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            part = message.get("body", b"")
            self._count(len(part), most)
            parts += part
            if not message.get("more_body"):
                self.content = bytes(parts)
                return self.content
            message = await self.receive()

    def check_encoding(self) -> None:
        """Raise HttpProblem if the body is compressed: a few bytes could then claim any amount of memory."""
        if "content-encoding" not in self.headers:
            return
        encoding = self.headers["content-encoding"].strip().lower()
        if encoding not in ("", "identity"):
            raise HttpProblem("no-format", f"Content-Encoding is {encoding[:100]!r}; send the body without compression")

    def _count(self, count: int, most: int) -> None:
        if self.taken + count > most:
            raise _too_large(most)
        if not self.flight.add(count):
            raise HttpProblem("busy", "too many bytes of other requests are in memory; try again")
        self.taken += count

    def release(self, count: int | None = None) -> None:
        """Count bytes of the body as no longer in flight; all of them by default."""
        count = self.taken if count is None else count
        self.flight.remove(count)
        self.taken -= count

    def to_core(self, body: bytes) -> Request:
        """Return what the model is told of the request."""
        key = self.headers.get("idempotency-key", "")
        if not key:
            return Request(by=self.caller.name)
        if len(key) > LONGEST_KEY or not key.isprintable():
            raise HttpProblem(
                "bad-option", f"Idempotency-Key must have 1 to {LONGEST_KEY} printable characters; got {key[:100]!r}"
            )
        digest = hashlib.sha256(self.path.encode() + b"?" + self.scope["query_string"] + b"\n" + body).digest()
        return Request(key=key, digest=digest, by=self.caller.name)


class ClientGoneError(Exception):
    """The client has closed the connection before its request was complete."""


def _too_large(most: int) -> HttpProblem:
    return HttpProblem(
        "too-large",
        f"the body has more than {most:,} bytes; send several requests, or learn from lines of JSON, CSV or Arrow",
    )


log: logging.Logger = logging.getLogger("driftsurf.service")
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)
WRITE_FRAME = "driftsurf.write_frame"
"""Extension of the server: writes a part of an answer at once; False if the client has no room for it."""
PIECE = 2**16
"""Bytes of an answer that are written at a time; the next ones follow when the client has read."""
_encode = msgspec.json.Encoder().encode


class Response(NamedTuple):
    """An answer whose body is known."""

    body: bytes
    media: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] = {}


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a value as JSON; NaN becomes null."""
    return Response(_encode(value), "application/json", status, headers or {})


def text_response(text: str, media: str = "text/plain; charset=utf-8") -> Response:
    """Return text."""
    return Response(text.encode(), media)


def problem_response(error: BaseException, rows_taken: int | None = None) -> Response:
    """Return an error as problem details."""
    problem, headers = problem_of(error)
    if rows_taken is not None:
        problem = msgspec.structs.replace(problem, rows_taken=rows_taken)
    return _problem(problem, headers)


def failure_response(request: HttpRequest, error: BaseException, rows_taken: int | None = None) -> Response:
    """Return the error of a request as problem details; log one that the answer does not explain."""
    response = inference_error(error) if is_inference(request.path) else problem_response(error, rows_taken)
    what = visible(request.method), visible(request.path)
    if response.status == 500:
        log.error("%s %s failed", *what, exc_info=error)
    elif not isinstance(error, DriftsurfError):
        log.error("%s %s failed: %s", *what, visible(str(error)))
    return response


def is_inference(path: str) -> bool:
    """Return whether an address is one of the Open Inference Protocol."""
    return path == "/v2" or path.startswith("/v2/")


def inference_error(error: BaseException) -> Response:
    """Return an error in the form of the Open Inference Protocol."""
    problem, headers = problem_of(error)
    found = InferenceError.of(problem)
    return Response(_encode(found), "application/json", found.status, headers)


def _problem(problem: Problem, headers: Mapping[str, str]) -> Response:
    return Response(_encode(problem), "application/problem+json", problem.status, headers)


async def send_response(send: Send, response: Response) -> None:
    """Send an answer; a large one piece by piece, so that it is copied only as fast as the client reads."""
    body, media, status, more = response
    headers = [
        (b"content-type", media.encode("latin-1")),
        (b"content-length", b"%d" % len(body)),
        *SECURITY_HEADERS,
    ]
    for name, value in more.items():
        headers.append((name.encode("latin-1"), value.encode("latin-1", "replace")))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for place in range(0, len(body) - PIECE, PIECE):
        await send({"type": "http.response.body", "body": body[place : place + PIECE], "more_body": True})
    await send({"type": "http.response.body", "body": body[max(0, -(-len(body) // PIECE) - 1) * PIECE :]})


def is_streamed(request: HttpRequest, format: Format) -> bool:
    """Return whether a body is taken in parts: one that is larger than a body may be, or whose size is not known.

    JSON is never: where its rows end cannot be found without reading all of it.
    """
    if format == "json":
        return False
    return request.length is None or request.length > request.limits.body_bytes


class PartReader:
    """Cuts a body into parts of about the same size; where depends on its bytes alone, not on how they come."""

    def __init__(self, request: HttpRequest, format: Format) -> None:
        self.request = request
        self.format = format
        self.size: int = request.limits.part_bytes
        self._data = bytearray()
        self._head = b""
        """What every part begins with: the header line of CSV, the schema and the dictionaries of Arrow."""
        self._total = 0

    async def parts(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the parts with their numbers."""
        request, number, more, wanted = self.request, 0, True, self.size
        request.check_encoding()
        if request.length is not None and request.length > request.limits.stream_bytes:
            raise self._too_large()
        while more or self._data:
            if more:
                more = await self._fill(wanted)
            part = self._cut(last=not more)
            if part is not None:
                held = request.taken - len(self._data)
                yield number, part
                request.release(held)  # only now: the part was in memory as long as somebody learned it
                number, wanted = number + 1, self.size
            elif more:
                wanted = len(self._data) + self.size
            else:
                break
        if not number:
            raise InputError("the body has no rows; pass at least one")

    def _too_large(self) -> HttpProblem:
        return HttpProblem("too-large", f"the body has more than {self.request.limits.stream_bytes:,} bytes")

    async def _fill(self, wanted: int) -> bool:
        """Read until there are that many bytes; return whether more of the body follows."""
        request = self.request
        while len(self._data) < wanted:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            data = message.get("body", b"")
            self._total += len(data)
            if self._total > request.limits.stream_bytes:
                raise self._too_large()
            if not request.flight.add(len(data)):
                raise HttpProblem("busy", "too many bytes of other requests are in memory; try again")
            request.taken += len(data)
            self._data += data
            if not message.get("more_body"):
                return False
        return True

    def _cut(self, *, last: bool) -> bytes | None:
        """Take the next part from the data; None if they have no whole row."""
        cut = self._arrow_end(last=last) if self.format == "arrow" else self._line_end(last=last)
        if cut == 0:
            if len(self._data) > self.request.limits.body_bytes:
                raise HttpProblem("too-large", "a row, or a batch of an Arrow stream, is too large; write smaller ones")
            return None
        with memoryview(self._data) as data, data[:cut] as first:
            part = b"".join((self._head, first))
        del self._data[:cut]
        self._keep_head(part)
        return part

    def _line_end(self, *, last: bool) -> int:
        """Return where the last whole row within a part ends; a line break within quotes ends none."""
        data, rows = self._data, self.request.limits.rows
        if last and len(data) <= self.size and data.count(b"\n") < rows:
            return len(data)
        end = data.rfind(b"\n", 0, max(self.size, 1)) + 1
        if data.count(b"\n", 0, end) > rows:
            end = _end_of_line(data, rows, end)
        odd = self.format == "csv" and data.count(b'"', 0, end) % 2
        while odd:  # go back by one quote at least; no byte is counted twice, because there may be millions of lines
            before = data.rfind(b"\n", 0, data.rfind(b'"', 0, end)) + 1
            odd, end = (odd + data.count(b'"', before, end)) % 2, before
        return end or (self._data.find(b"\n") + 1) or (len(self._data) if last else 0)

    def _arrow_end(self, *, last: bool) -> int:
        """Return where the last whole batch within a part ends, or the first one if it is larger."""
        end = rows = 0
        for message in messages(self._data, whole=last):
            rows += message.rows
            if end and (message.end > self.size or rows > self.request.limits.rows):
                break
            if message.kind == BATCH:
                end = message.end
        return end

    def _keep_head(self, part: bytes) -> None:
        """Keep what the next part begins with, which is a part of this one."""
        if self.format == "csv" and not self._head:
            self._head = part[: part.find(b"\n") + 1]
        if self.format == "arrow":
            kept: list[ArrowMessage] = []
            for one in messages(part):
                if one.kind == DICTIONARY and not one.adds:  # nothing is left of the dictionary that it replaces
                    kept = [other for other in kept if other.dictionary != one.dictionary]
                if one.kind != BATCH:
                    kept.append(one)
            self._head = b"".join(part[one.start : one.end] for one in kept)
            if len(self._head) > self.request.limits.body_bytes:
                raise HttpProblem("too-large", "the dictionaries of the Arrow stream are too large; send plain columns")


def _end_of_line(data: bytearray, number: int, end: int) -> int:
    """Return where a line ends, the first one being 1; the data must have it before ``end``."""
    start = 0
    while end - start > 1:
        middle = (start + end) // 2
        count = data.count(b"\n", start, middle)
        if count >= number:
            end = middle
        else:
            start, number = middle, number - count
    return end
