"""Unusual bodies: compressed, announced as too large, of many short rows, of many dictionaries."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from served_models import MemoryModel

httpx = pytest.importorskip("httpx")
pa = pytest.importorskip("pyarrow")

from driftsurf.service.http.app import App  # noqa: E402
from driftsurf.service.http.security import new_key  # noqa: E402
from driftsurf.service.settings import Limits  # noqa: E402
from driftsurf.service.wire.formats import MEDIA, ModelFormats  # noqa: E402

ROW = {"price": 1.5, "city": "Rome", "new": True, "day": "2026-05-01", "sold": "yes"}
PREDICT, LEARN = "/v1/models/sales/predict", "/v1/models/sales/learn"


def ask(app: App, method: str, path: str, **options: Any) -> Any:
    async def run() -> Any:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, **options)

    return asyncio.run(run())


async def pieces(data: bytes, size: int = 5000) -> AsyncIterator[bytes]:
    for place in range(0, len(data), size):
        yield data[place : place + size]


def app_of(model: MemoryModel | None = None, **limits: Any) -> App:
    return App([(model or MemoryModel(), ModelFormats(label="sold"))], limits=Limits(**limits))


@pytest.mark.parametrize("path", [PREDICT, LEARN])
@pytest.mark.parametrize("format", ["json", "ndjson"])
def test_a_compressed_body_is_refused_by_name(path: str, format: str) -> None:
    data = gzip.compress(json.dumps({"rows": [ROW]} if format == "json" else ROW).encode())
    headers = {"content-type": MEDIA[format], "content-encoding": "gzip"}  # type: ignore[index]
    for content in (data, pieces(data)):
        answer = ask(app_of(), "POST", path, content=content, headers=headers)
        assert (answer.status_code, "gzip" in answer.json()["detail"]) == (415, True)


def test_a_stream_that_is_announced_as_too_large_is_refused_before_it_is_read() -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"{}\n"
        raise AssertionError("more of the body was read")

    headers = {"content-type": MEDIA["ndjson"], "content-length": str(10**12)}
    answer = ask(app_of(), "POST", LEARN, content=body(), headers=headers)
    assert (answer.status_code, answer.json()["rows_taken"]) == (413, 0)


@pytest.mark.parametrize("format", ["ndjson", "csv", "arrow"])
def test_a_part_has_as_many_rows_as_a_request_may_have(format: str) -> None:
    model, rows = MemoryModel(), [ROW | {"price": float(place)} for place in range(1000)]
    if format == "ndjson":
        data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    elif format == "csv":
        lines = [",".join(str(value).lower() for value in row.values()) for row in rows]
        data = "\n".join([",".join(ROW), *lines, ""]).encode()
    else:
        table = pa.Table.from_pylist([row | {"day": None} for row in rows])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table, max_chunksize=30)
        data = sink.getvalue().to_pybytes()
    app = app_of(model, rows=70, part_bytes=2**20)
    answer = ask(app, "POST", LEARN, content=pieces(data), headers={"content-type": MEDIA[format]})  # type: ignore[index]
    assert answer.status_code == 200, answer.text
    assert answer.json()["count"] == 1000
    assert 1000 / 70 < answer.json()["parts"] < 20


def dictionaries(count: int, words: int, *, delta: bool) -> bytes:
    """Return a stream whose column of text has another dictionary, or a longer one, in each batch."""
    kind = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("price", pa.float64()), ("city", kind), ("sold", pa.string())])
    sink, known = pa.BufferOutputStream(), list[str]()
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=delta)
    with pa.ipc.new_stream(sink, schema, options=options) as stream:
        for number in range(count):
            new = [f"w{number}-{place}" for place in range(words)]
            known = known + new if delta else new
            city = pa.DictionaryArray.from_arrays(pa.array([len(known) - 1] * 10, pa.int32()), pa.array(known))
            stream.write_batch(pa.record_batch([pa.array([1.0] * 10), city, pa.array(["yes"] * 10)], schema=schema))
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("delta", [False, True])
def test_dictionaries_of_a_stream_are_those_of_their_batch(delta: bool) -> None:
    data, found = dictionaries(20, 10, delta=delta), list[Any]()
    model = MemoryModel()
    learn = model.learn

    def keep(table: Any, *more: Any) -> Any:
        city = table.columns["city"]
        found.extend(city.words[code] for code in city.values)
        return learn(table, *more)

    model.learn = keep  # type: ignore[method-assign, assignment]
    app = App([(model, ModelFormats(label="sold", reading=_lenient()))], limits=Limits(part_bytes=2048))
    answer = ask(app, "POST", LEARN, content=pieces(data), headers={"content-type": MEDIA["arrow"]})
    assert answer.status_code == 200, answer.text
    assert answer.json()["parts"] > 5
    assert found == [f"w{number}-9" for number in range(20) for _ in range(10)]


def _lenient() -> Any:
    from driftsurf.data.reading_options import ReadingOptions

    return ReadingOptions(on_schema_change="fill-removed")


def test_dictionaries_that_are_replaced_are_forgotten_and_others_are_limited() -> None:
    headers = {"content-type": MEDIA["arrow"]}
    limits = Limits(part_bytes=2048, body_bytes=16384)
    for delta, status in ((False, 200), (True, 413)):
        app = App([(MemoryModel(), ModelFormats(label="sold", reading=_lenient()))], limits=limits)
        answer = ask(app, "POST", LEARN, content=pieces(dictionaries(100, 20, delta=delta)), headers=headers)
        assert answer.status_code == status, answer.text


def test_who_is_not_known_may_not_fill_the_memory() -> None:
    key, _ = new_key("reader", ["read"])
    app = App([(MemoryModel(), ModelFormats(label="sold"))], [key])
    for content in (b"x" * 5000, pieces(b"x" * 5000)):
        assert ask(app, "POST", "/v1/login", content=content).status_code == 413
    assert ask(app, "POST", LEARN, content=b"x" * 20 * 2**20).status_code == 401


@pytest.mark.parametrize("method", ["TRACE", "POST", "DELETE"])
def test_the_readiness_of_a_model_is_only_read(method: str) -> None:
    assert ask(app_of(), method, "/v2/models/sales/ready").status_code == 405
