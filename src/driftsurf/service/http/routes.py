"""All addresses of the service: method, path, scope, endpoint, and what the OpenAPI document says of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from driftsurf.service.http import infer, reading, writing
from driftsurf.service.http.answers import ModelInfo, OrderAnswer, Predictions, Taken
from driftsurf.service.http.entry import Entry
from driftsurf.service.http.request import HttpRequest
from driftsurf.service.http.responses import Response
from driftsurf.service.http.security import KeyScope
from driftsurf.service.page.content import PageContent

__all__ = ["EVENTS", "MODEL_ROUTES", "V2_ROUTES", "ModelRoute"]

Endpoint: TypeAlias = Callable[[Entry, HttpRequest], Awaitable[Response]]
EVENTS = "events"
"""The endpoint of event streams, which do not end with one answer."""


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """What is at ``/v1/models/NAME/...``."""

    method: str
    scope: KeyScope
    endpoint: Endpoint | None
    """None for event streams, which the application sends itself."""
    summary: str
    answer: Any = None
    """Type of the answer in JSON; None for other formats."""
    media: str = "application/json"
    body: str = ""
    """What the body is: "rows", "learn", "labels", "order" or "infer"; empty for none."""
    query: tuple[str, ...] = ()
    """Parameters after the question mark; they are described in the OpenAPI document."""


_ROWS = ("on_bad_row",)
MODEL_ROUTES: Final[Mapping[str, ModelRoute]] = {
    "": ModelRoute("GET", "read", reading.status, "Show the state of a model.", ModelInfo),
    "predict": ModelRoute(
        "POST",
        "predict",
        writing.predict,
        "Predict rows; those with ids are kept until their labels come.",
        Predictions,
        body="rows",
        query=(*_ROWS, "probabilities"),
    ),
    "learn": ModelRoute(
        "POST", "learn", writing.learn, "Learn rows with their labels.", Taken, body="learn", query=_ROWS
    ),
    "label": ModelRoute(
        "POST", "learn", writing.label, "Give labels of predicted rows, by id.", Taken, body="labels", query=_ROWS
    ),
    "explain": ModelRoute(
        "GET", "read", reading.explain, "Explain a decision in words.", reading.Explanation, query=("step", "all")
    ),
    "journal": ModelRoute(
        "GET",
        "read",
        reading.journal,
        "Show every decision and order with its numbers.",
        reading.JournalPage,
        query=("since", "most"),
    ),
    "trace": ModelRoute("GET", "read", reading.trace, "Show the error of every step.", media="text/csv"),
    "columns": ModelRoute("GET", "read", reading.columns, "Show which columns moved.", media="text/csv"),
    "report": ModelRoute("GET", "read", reading.report, "Show the report page.", media="text/html"),
    "page": ModelRoute("GET", "read", reading.page, "Show the parts of the report page as data.", PageContent),
    "state": ModelRoute("GET", "read", reading.state, "Download the model.", media="application/octet-stream"),
    "orders": ModelRoute(
        "POST", "operate", writing.order, "Carry out an order of an operator.", OrderAnswer, body="order"
    ),
    EVENTS: ModelRoute(
        "GET",
        "read",
        None,
        "Follow a model: its history, then a frame each second.",
        media="text/event-stream",
        query=("since",),
    ),
}
"""Endpoints of a model, by what follows its name in the address."""

V2_ROUTES: Final[Mapping[str, ModelRoute]] = {
    "": ModelRoute("GET", "predict", infer.metadata, "Describe the tensors of a model.", infer.ModelMetadata),
    "infer": ModelRoute("POST", "predict", infer.infer, "Predict tensors.", infer.InferResponse, body="infer"),
}
"""Endpoints of the Open Inference Protocol, by what follows ``/v2/models/NAME``."""
