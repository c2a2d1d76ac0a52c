"""Answers: a status, headers and a body, and how they are sent."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from driftsurf.errors import DriftsurfError
from driftsurf.service.http.problems import InferenceError, Problem, problem_of
from driftsurf.service.http.request import HttpRequest, Scope, Send
from driftsurf.visible import visible

__all__ = [
    "SECURITY_HEADERS",
    "Response",
    "failure_response",
    "json_response",
    "problem_response",
    "send_response",
    "text_response",
]

log: logging.Logger = logging.getLogger("driftsurf.service")
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)
RESPOND = "driftsurf.respond"
"""Extension of the server: a function that writes an answer of known headers at once."""
ABORT = "driftsurf.abort"
"""Extension of the server: a function that closes the connection at once."""
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


async def send_response(scope: Scope, send: Send, response: Response) -> None:
    """Send an answer; a large one piece by piece, so that it is copied only as fast as the client reads."""
    body, media, status, more = response
    respond = scope["extensions"].get(RESPOND) if "extensions" in scope else None
    if respond is not None and not more and len(body) <= PIECE and respond(status, media, body):
        return
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
