"""Requests that the OpenAPI document allows, and others: every answer is one that the document describes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served_models import MemoryModel

httpx = pytest.importorskip("httpx")

from driftsurf.service.http.app import _KEYED, _PUBLIC, App  # noqa: E402
from driftsurf.service.http.openapi import openapi  # noqa: E402
from driftsurf.service.wire.formats import MEDIA, ModelFormats  # noqa: E402

DOCUMENT = openapi()
PATHS = sorted(path for path in DOCUMENT["paths"] if not path.endswith("/events"))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(["Rome", "yes", "no", "2026-05-01", "pin", "rollback"]),
)
NAMES = st.sampled_from(["id", "price", "city", "new", "day", "sold", "rows", "labels", "kind", "to", "inputs", "name"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6), max_leaves=12
)
ROWS = st.lists(st.dictionaries(NAMES, SCALARS, max_size=6), max_size=3)
TENSORS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["price", "city", "new", "day", "other"]),
            "shape": st.lists(st.integers(-1, 3), max_size=3),
            "datatype": st.sampled_from(["FP64", "BYTES"]),
            "data": st.lists(SCALARS, max_size=3),
        }
    ),
    max_size=4,
)
BODIES = st.one_of(
    VALUES,
    st.fixed_dictionaries({"rows": ROWS}),
    st.fixed_dictionaries({"labels": st.dictionaries(st.text(max_size=3), SCALARS, max_size=3)}),
    st.fixed_dictionaries({"inputs": TENSORS}),
)
QUERIES = st.dictionaries(
    st.sampled_from(["on_bad_row", "probabilities", "step", "since", "most", "other"]),
    st.sampled_from(["fail", "skip", "best", "all", "0", "7", "-1", "x", "", "99999999999999999999"]),
    max_size=3,
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "content-type": st.sampled_from([*MEDIA.values(), "application/x-www-form-urlencoded", "image/png", ";;;"]),
        "inference-header-content-length": st.sampled_from(["0", "2", "40", "-1", "x", "9" * 30]),
        "accept": st.sampled_from([*MEDIA.values(), "*/*", "image/png", "text/plain", ",;q=x"]),
        "idempotency-key": st.sampled_from(["k", "k" * 500, "\u00e9"]),
    },
)


def test_the_examples_of_the_document_are_taken() -> None:
    app = App([(MemoryModel(kinds={"price": "number", "city": "text"}), ModelFormats(label="sold"))])
    taken = 0
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {"content": {}})["content"].get("application/json", {})
            if "example" in content:
                answer = send(app, method.upper(), path.replace("{name}", "sales"), json=content["example"])
                assert answer.status_code == 200
                taken += 1
    assert taken == 3


def test_the_document_has_every_address() -> None:
    found = {*APP.pages, *_KEYED, *_PUBLIC, "/v1/login", "/v1/logout"}
    assert found <= {*DOCUMENT["paths"]}


def test_every_array_says_what_is_in_it() -> None:
    def look(schema: Any) -> int:
        if isinstance(schema, list):
            return sum(map(look, schema))
        if not isinstance(schema, dict):
            return 0
        assert schema.get("type") != "array" or "items" in schema, schema
        return (schema.get("type") == "array") + look(list(schema.values()))

    assert look(DOCUMENT) > 10


def send(app: App, method: str, path: str, **options: Any) -> Any:
    async def run() -> Any:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, **options)

    return asyncio.run(run())


MODEL = MemoryModel()
APP = App([(MODEL, ModelFormats(label="sold"))])


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(PATHS),
    st.sampled_from(["get", "post", "delete"]),
    st.sampled_from(["sales", "other", "..", "%00"]),
    QUERIES,
    HEADERS,
    BODIES | st.binary(max_size=50),
)
def test_answers_are_those_of_the_document(
    path: str, method: str, name: str, query: dict[str, str], headers: dict[str, str], body: Any
) -> None:
    content = {"content": body} if isinstance(body, bytes) else {"json": body}
    encoded = {key: value.encode("latin-1") for key, value in headers.items()}
    answer = send(APP, method.upper(), path.replace("{name}", name), params=query, headers=encoded, **content)
    media = answer.headers["content-type"].partition(";")[0]
    operation = DOCUMENT["paths"][path].get(method)
    if operation is None or answer.status_code == 404:
        assert answer.status_code in (404, 405)
        assert media == ("application/json" if path.startswith("/v2") else "application/problem+json")
        return
    described = operation["responses"][str(answer.status_code)]
    if "$ref" in described:
        described = DOCUMENT["components"]["responses"][described["$ref"].rpartition("/")[2]]
    assert media in described["content"]
    assert answer.status_code < 500
