"""Requests that are passed on to another replica: the one that takes rows, labels and orders."""

from __future__ import annotations

import asyncio
import http.client
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from urllib.parse import urlsplit

from driftsurf.errors import NotLeadingError, UnavailableError, reason
from driftsurf.service.committer import LEASE_SECONDS
from driftsurf.service.http.requests import HttpRequest, Response

PASSED = "driftsurf-passed"
"""Header of a request that a replica has passed on: it is not passed on again."""
COPIED = "authorization", "accept", "content-type", "idempotency-key"
RETURNED = "retry-after", "x-rows-skipped", "driftsurf-position", "driftsurf-lag"
THREADS = 16
IDLE_SECONDS = 10.0
"""Time after which a connection is not used again, because the other side may be closing it."""
SECONDS = LEASE_SECONDS + 1.0
"""Time for an answer: later than that, another replica may lead."""


class Passing:
    """Sends requests to another replica, in threads with a connection each."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="passing")
        self._own = threading.local()

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(cancel_futures=True)

    async def response(self, request: HttpRequest, leader: str) -> Response:
        """Return what the replica at an address answers to a request.

        UnavailableError if nobody leads or it cannot be reached, and NotLeadingError if the body is gone, because it
        was to be taken in parts.
        """
        if not leader or PASSED in request.headers:
            raise UnavailableError("no replica takes rows now; send the request again")
        if request.content is None:
            raise NotLeadingError(leader)
        body = request.content
        headers = {name: request.headers[name] for name in COPIED if name in request.headers} | {PASSED: "1"}
        query = request.scope["query_string"].decode("ascii", "replace")
        raw = request.scope.get("raw_path") or request.path.encode()
        path = f"{raw.decode('ascii', 'replace')}?{query}" if query else raw.decode("ascii", "replace")
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, self._send, leader, request.method, path, body, headers
            )
        except (OSError, http.client.HTTPException) as error:
            why = reason(error) if isinstance(error, OSError) else type(error).__name__
            raise UnavailableError(
                f"the replica at {leader}, which takes rows, does not answer ({why}); send the request again, with the "
                "same idempotency key if it has one"
            ) from error

    def _send(self, leader: str, method: str, path: str, body: bytes, headers: dict[str, str]) -> Response:
        connection = self._connection(leader)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        except BaseException:
            connection.close()
            self._own.known = None
            raise
        self._own.known = leader, connection, time.monotonic()
        kept = {name: value for name in RETURNED if (value := answer.getheader(name)) is not None}
        media = answer.getheader("content-type", "application/json")
        return Response(content, media, HTTPStatus(answer.status), kept)

    def _connection(self, leader: str) -> http.client.HTTPConnection:
        known = getattr(self._own, "known", None)
        if known is not None:
            at, connection, used = known
            if at == leader and time.monotonic() - used < IDLE_SECONDS:
                found: http.client.HTTPConnection = connection
                return found
            connection.close()
        url = urlsplit(leader)
        if url.scheme == "https":
            return http.client.HTTPSConnection(url.netloc, timeout=SECONDS, context=ssl.create_default_context())
        return http.client.HTTPConnection(url.netloc, timeout=SECONDS)
