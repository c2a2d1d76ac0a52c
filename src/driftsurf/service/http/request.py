"""A request as the endpoints see it, and its body within the limits."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl

from driftsurf.service.contract import Request
from driftsurf.service.http.limits import InFlight, Limits
from driftsurf.service.http.problems import HttpProblem
from driftsurf.service.http.security import EVERYBODY, Caller

if TYPE_CHECKING:
    from driftsurf.service.http.entry import Entry

__all__ = ["AsgiMessage", "HttpRequest", "Receive", "Scope", "Send"]

Scope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]

LONGEST_KEY = 180
"""Characters of an idempotency key at most; parts of a body add a few."""


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
        self.entry: Entry | None = None
        """The model that was asked, once the request is known to be allowed."""
        self.rows: int = 0
        """Rows, or labels, of the body that were taken."""
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
            return data
        parts = bytearray()
        while True:
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            part = message.get("body", b"")
            self._count(len(part), most)
            parts += part
            if not message.get("more_body"):
                return bytes(parts)
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
