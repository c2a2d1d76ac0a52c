"""Endpoints that show models: status, journal, trace, columns, explanations, reports, state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import msgspec

from driftsurf.errors import UnavailableError
from driftsurf.service.http.answers import ModelInfo, model_info
from driftsurf.service.http.entry import Entry
from driftsurf.service.http.problems import HttpProblem
from driftsurf.service.http.request import HttpRequest
from driftsurf.service.http.responses import Response, json_response, text_response

__all__ = [
    "Explanation",
    "JournalLine",
    "JournalPage",
    "columns",
    "explain",
    "info",
    "journal",
    "page",
    "report",
    "state",
    "status",
    "trace",
]

P = ParamSpec("P")
T = TypeVar("T")
MOST_LINES = 10_000
"""Lines of the journal in one answer at most."""
PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


class Explanation(msgspec.Struct):
    """A decision in words."""

    model: str
    text: str


class JournalLine(msgspec.Struct):
    """A line of the journal."""

    line: int
    record: dict[str, Any]


class JournalPage(msgspec.Struct):
    """Lines of the journal; ``since`` of the next request is ``last``."""

    model: str
    events: list[JournalLine]
    last: int


def info(entry: Entry) -> ModelInfo:
    """Return the state of a model as plain values; it may take as long as reading the trace."""
    return model_info(entry.served.status(), entry.served.judge(), entry.columns(), entry.classes(), entry.formats.id)


async def _shown(entry: Entry, show: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Return what a model shows of itself; HttpProblem if it is ready and has learned nothing yet."""
    try:
        return await entry.in_thread(show, *arguments, **options)
    except UnavailableError as error:
        if entry.served.status().ready:
            raise HttpProblem("not-yet", *error.args) from error
        raise


async def status(entry: Entry, request: HttpRequest) -> Response:
    """Show the state of a model."""
    return json_response(await entry.in_thread(info, entry))


async def journal(entry: Entry, request: HttpRequest) -> Response:
    """Show lines of the journal: every decision and order, with all numbers."""
    since, most = request.whole("since", 0), request.whole("most", 1000, MOST_LINES)
    found = await entry.in_thread(entry.served.journal, since, most)
    lines = [JournalLine(one.line, dict(one.record)) for one in found]
    return json_response(JournalPage(entry.served.name, lines, lines[-1].line if lines else since))


async def trace(entry: Entry, request: HttpRequest) -> Response:
    """Show the error of every step as CSV."""
    return text_response(await entry.in_thread(entry.served.trace), "text/csv; charset=utf-8")


async def columns(entry: Entry, request: HttpRequest) -> Response:
    """Show which columns moved around each reaction as CSV."""
    return text_response(await entry.in_thread(entry.served.moves), "text/csv; charset=utf-8")


async def explain(entry: Entry, request: HttpRequest) -> Response:
    """Explain a decision in words: that of a step, the last change of the model, or all of them."""
    step = request.whole("step", 0) if "step" in request.query else None
    everything = request.choice("all", ("0", "1")) == "1"
    if everything and step is not None:
        raise HttpProblem("bad-option", "step and all exclude each other; leave one out")
    text = await _shown(entry, entry.served.explain, step, everything=everything)
    if "text/plain" in request.headers.get("accept", ""):
        return text_response(text if text.endswith("\n") else text + "\n")
    return json_response(Explanation(entry.served.name, text))


async def report(entry: Entry, request: HttpRequest) -> Response:
    """Show the report page of the model so far."""
    page = await _shown(entry, entry.served.report)
    return Response(page.encode(), "text/html; charset=utf-8", 200, {"content-security-policy": PAGE_POLICY})


async def page(entry: Entry, request: HttpRequest) -> Response:
    """Show the parts of the report page as data, as the live page needs them."""
    version, body = await entry.content.body(entry.in_thread)
    tag = f'"{version}"'
    if request.headers.get("if-none-match") == tag:
        return Response(b"", "application/json", 304, {"etag": tag})
    return Response(body, "application/json", 200, {"etag": tag})


async def state(entry: Entry, request: HttpRequest) -> Response:
    """Download the model, as ``driftsurf.load`` reads it."""
    data = await _shown(entry, entry.served.state)
    attachment = {"content-disposition": 'attachment; filename="model.state"'}
    return Response(data, "application/octet-stream", 200, attachment)
