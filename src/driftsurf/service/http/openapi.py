"""The OpenAPI 3.1 document, from the routes and the types of the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from driftsurf import __version__
from driftsurf.service.http.answers import Models
from driftsurf.service.http.endpoints import MODEL_ROUTES, V2_ROUTES, ModelRoute, OrderBody
from driftsurf.service.http.infer import BINARY, HEAD_LENGTH, InferRequest, ServerMetadata
from driftsurf.service.http.problems import KINDS, InferenceError, Problem
from driftsurf.service.wire.formats import MEDIA

_SCALAR: Final[dict[str, Any]] = {"type": ["string", "number", "boolean", "null"]}
_ROW: Final[dict[str, Any]] = {"type": "object", "additionalProperties": _SCALAR}
_QUERY: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "on_bad_row": ("What becomes of rows that cannot be used.", {"enum": ["fail", "skip"], "default": "fail"}),
    "probabilities": (
        "Probability of the prediction, or of all classes.",
        {"enum": ["best", "all"], "default": "best"},
    ),
    "step": ("Step of the decision; the last change if it is not given.", {"type": "integer", "minimum": 0}),
    "all": (
        "1 for the whole history of the model, which grows with its steps.",
        {"enum": ["0", "1"], "default": "0"},
    ),
    "since": ("Line of the journal after which to begin.", {"type": "integer", "minimum": 0}),
    "most": ("Lines at most.", {"type": "integer", "minimum": 0, "maximum": 10_000, "default": 1000}),
}
_EXAMPLES: Final[Mapping[str, dict[str, Any]]] = {
    "rows": {"rows": [{"id": "o-17", "price": 99, "city": "Rome"}]},
    "learn": {"rows": [{"price": 99, "city": "Rome", "sold": "yes"}]},
    "labels": {"labels": {"o-17": "yes"}},
}


def openapi() -> dict[str, Any]:
    """Return the document as plain values."""
    routes = [*MODEL_ROUTES.values(), *V2_ROUTES.values()]
    types = [route.answer for route in routes if route.answer is not None]
    types += [Models, Problem, InferenceError, OrderBody, InferRequest, ServerMetadata]
    _, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    _say_items(components)
    paths: dict[str, Any] = {
        "/v1/models": {"get": _operation("models", "List the models, and what the key may do.", _content(Models))},
    }
    for prefix, group in (("/v1/models/{name}", MODEL_ROUTES), ("/v2/models/{name}", V2_ROUTES)):
        for name, route in group.items():
            path = f"{prefix}/{name}" if name else prefix
            paths[path] = {route.method.lower(): _model_operation(f"{prefix[1:3]}-{name or 'model'}", route)}
    paths |= _service_paths()
    return {
        "openapi": "3.1.0",
        "info": {"title": "driftsurf serve", "version": __version__, "description": "Models that go on learning."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Problem": {"description": "A problem.", "content": _problem_content()},
                "InferenceError": {"description": "A problem.", "content": _content(InferenceError)},
            },
        },
        "security": [{"key": []}, {}],
    }


def _say_items(schema: Any) -> None:
    """Add ``items`` to arrays of any values: generators of clients leave a type out that has an array without them."""
    if isinstance(schema, dict):
        if schema.get("type") == "array":
            schema.setdefault("items", {})
        schema = list(schema.values())
    for one in schema if isinstance(schema, list) else ():
        _say_items(one)


def _ref(kind: type) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _content(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": _ref(kind)}}


def _problem_content() -> dict[str, Any]:
    return {"application/problem+json": {"schema": _ref(Problem)}}


def _operation(id: str, summary: str, content: Mapping[str, Any], *, scope: str = "") -> dict[str, Any]:
    statuses = sorted({status for status, _ in KINDS.values() if status != 500})
    responses: dict[str, Any] = {"200": {"description": "The answer.", "content": dict(content)}}
    form = "InferenceError" if id.startswith("v2") else "Problem"
    responses |= {str(status): {"$ref": f"#/components/responses/{form}"} for status in statuses}
    found: dict[str, Any] = {"operationId": id, "summary": summary, "responses": responses}
    if scope:
        found["description"] = f"Needs a key with the scope {scope}, where there are keys."
    return found


def _model_operation(id: str, route: ModelRoute) -> dict[str, Any]:
    media = {"schema": {"type": "string"}} if route.media != "application/json" else {"schema": _ref(route.answer)}
    content: dict[str, Any] = {route.media: media}
    if route.body == "rows":
        content |= {one: {"schema": {"type": "string"}} for one in MEDIA.values() if one != route.media}
    if id == "v1-explain":
        content["text/plain"] = {"schema": {"type": "string"}}
    if route.body == "infer":
        content[BINARY] = {"schema": {"type": "string"}}
    found = _operation(id, route.summary, content, scope=route.scope)
    if id == "v1-orders":
        later = "The order is in the log, and is carried out later: a model takes most orders with its first step."
        found["responses"]["202"] = {"description": later, "content": content}
        found["responses"]["409"] = {
            "description": "The order was refused, or a request with the same key is under way.",
            "content": content | _problem_content(),
        }
    found["parameters"] = [
        {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}, "description": "The model."},
        *(
            {"name": name, "in": "query", "description": _QUERY[name][0], "schema": _QUERY[name][1]}
            for name in route.query
        ),
    ]
    if route.body:
        found["requestBody"] = {"required": True, "content": _body(route.body)}
    if route.body == "infer":
        found["parameters"].append(
            {
                "name": HEAD_LENGTH,
                "in": "header",
                "description": "Length of the JSON object, where the bytes of tensors follow it.",
                "schema": {"type": "integer", "minimum": 0},
            }
        )
    elif route.body:
        found["parameters"].append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "A request that is repeated with the same key and body is carried out once.",
                "schema": {"type": "string", "maxLength": 180, "pattern": "^[ -~]*$"},
            }
        )
    return found


def _body(kind: str) -> dict[str, Any]:
    if kind == "order":
        return {"application/json": {"schema": _ref(OrderBody)}}
    if kind == "infer":
        return {"application/json": {"schema": _ref(InferRequest)}, BINARY: {"schema": {"type": "string"}}}
    rows: dict[str, Any] = {
        "type": "object",
        "required": ["rows"],
        "additionalProperties": False,
        "properties": {"rows": {"type": "array", "items": _ROW, "minItems": 1}},
    }
    labels: dict[str, Any] = {
        "type": "object",
        "required": ["labels"],
        "additionalProperties": False,
        "properties": {
            "labels": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"type": ["string", "number", "boolean"]},
            }
        },
    }
    json: dict[str, Any] = {"schema": labels if kind == "labels" else rows, "example": _EXAMPLES[kind]}
    others = {media: {"schema": {"type": "string"}} for name, media in MEDIA.items() if name != "json"}
    return {MEDIA["json"]: json, **others}


def _service_paths() -> dict[str, Any]:
    text = {"text/plain": {"schema": {"type": "string"}}}
    plain = {"application/json": {"schema": {"type": "object"}}}
    key = {"type": "object", "required": ["key"], "properties": {"key": {"type": "string"}}}
    login = _operation("login", "Give a browser a session for a key, as a cookie.", plain)
    login["requestBody"] = {"required": True, "content": {"application/json": {"schema": key}}}
    return {
        "/v1/login": {"post": login},
        "/v1/logout": {"post": _operation("logout", "End the session of a browser.", plain)},
        "/v1/alerts": {"get": _operation("alerts", "Show active alerts and their channels.", plain, scope="read")},
        "/metrics": {"get": _operation("metrics", "Show metrics for Prometheus.", text, scope="read")},
        "/openapi.json": {"get": _operation("openapi", "Show this document.", plain)},
        "/healthz": {"get": _operation("healthz", "Tell whether the process answers.", plain)},
        "/readyz": {"get": _operation("readyz", "Tell whether all models are ready.", plain)},
        "/v2": {"get": _operation("v2", "Describe the server.", _content(ServerMetadata))},
        "/v2/health/live": {"get": _operation("v2-live", "Tell whether the process answers.", plain)},
        "/v2/health/ready": {"get": _operation("v2-ready", "Tell whether all models are ready.", plain)},
        "/v2/models/{name}/ready": {
            "get": _operation("v2-model-ready", "Tell whether a model is ready.", plain)
            | {"parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]}
        },
    }
