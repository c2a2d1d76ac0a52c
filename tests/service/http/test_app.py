"""The application through an in-process client: every endpoint, every format, every refusal."""

from __future__ import annotations

import asyncio
import csv
import errno
import io
import json
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served_models import MemoryModel

from driftsurf.data.tables import Table
from driftsurf.errors import LogError, MissingExtraError, OverloadedError, StorageFullError, UnavailableError
from driftsurf.service.contract import Answer, Order

httpx = pytest.importorskip("httpx")
pa = pytest.importorskip("pyarrow")

from driftsurf.service.http.app import App  # noqa: E402
from driftsurf.service.http.requests import PartReader  # noqa: E402
from driftsurf.service.settings import Limits  # noqa: E402
from driftsurf.service.wire.formats import MEDIA, ModelFormats  # noqa: E402

ROW = {"price": 1.5, "city": "Rome", "new": True, "day": "2026-05-01"}
PREDICT, LEARN, LABEL = "/v1/models/sales/predict", "/v1/models/sales/learn", "/v1/models/sales/label"


def app_of(model: MemoryModel | None = None, limits: Limits | None = None) -> App:
    return App([(model or MemoryModel(), ModelFormats(label="sold"))], limits=limits)


def talk(app: App, *requests: tuple[str, str, dict[str, Any]], headers: dict[str, str] | None = None) -> list[Any]:
    """Send requests one after the other and return the responses."""

    async def run() -> list[Any]:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            return [await client.request(method, path, **options) for method, path, options in requests]

    return asyncio.run(run())


def ask(app: App, method: str, path: str, **options: Any) -> Any:
    return talk(app, (method, path, options))[0]


def learned(app: App, count: int = 40) -> None:
    rows = [ROW | {"price": float(i % 7), "sold": "yes" if i % 7 > 3 else "no"} for i in range(count)]
    assert ask(app, "POST", LEARN, json={"rows": rows}).status_code == 200


def test_predict_learn_and_label() -> None:
    model = MemoryModel()
    app = app_of(model)
    first = ask(app, "POST", PREDICT, json={"rows": [ROW]}).json()
    assert first == {"model": "sales", "version": 0, "predictions": [None]}
    learned(app)
    answer = ask(app, "POST", PREDICT, json={"rows": [ROW | {"id": "o-17"}]})
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    assert (found["version"], found["ids"], len(found["predictions"])) == (1, ["o-17"], 1)
    assert 0.5 <= found["probabilities"][0] <= 1
    assert isinstance(found["position"], int)
    taken = ask(app, "POST", LABEL, json={"labels": {"o-17": "yes"}}).json()
    assert (taken["count"], taken["durability"], model.labels_given) == (1, "disk", {"o-17": "yes"})


def test_a_body_as_curl_sends_it_is_json() -> None:
    headers = {"content-type": "application/x-www-form-urlencoded", "accept": "*/*"}
    assert ask(app_of(), "POST", PREDICT, content=json.dumps({"rows": [ROW]}), headers=headers).status_code == 200


def test_probabilities_of_all_classes() -> None:
    app = app_of()
    learned(app)
    found = ask(app, "POST", PREDICT + "?probabilities=all", json={"rows": [ROW, ROW]}).json()
    assert set(found["probabilities"]) == {"no", "yes"}
    assert np.allclose(np.sum(list(found["probabilities"].values()), axis=0), 1)


@pytest.mark.parametrize("format", ["json", "ndjson", "csv", "arrow"])
def test_answers_in_every_format_are_the_same(format: str) -> None:
    app = app_of()
    learned(app)
    rows = [ROW | {"id": "a"}, ROW | {"id": "b", "price": 6.0}]
    expected = ask(app, "POST", PREDICT, json={"rows": rows}).json()
    answer = ask(app, "POST", PREDICT, json={"rows": rows}, headers={"accept": MEDIA[format]})  # type: ignore[index]
    assert answer.headers["content-type"] == MEDIA[format]  # type: ignore[index]
    if format == "json":
        records = [dict(zip(("id", "prediction"), pair, strict=True)) for pair in zip(*_pairs(answer), strict=True)]
    elif format == "ndjson":
        records = [json.loads(line) for line in answer.text.splitlines()]
    elif format == "csv":
        records = list(csv.DictReader(io.StringIO(answer.text)))
    else:
        records = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert [record["id"] for record in records] == expected["ids"]
    assert [record["prediction"] for record in records] == expected["predictions"]
    if format != "json":
        assert np.allclose([float(record["probability"]) for record in records], expected["probabilities"])


def _pairs(answer: Any) -> tuple[list[Any], list[Any]]:
    return answer.json()["ids"], answer.json()["predictions"]


def test_rows_come_in_every_format() -> None:
    model = MemoryModel()
    app = app_of(model)
    lines = json.dumps(ROW | {"sold": "yes"})
    table = "price,city,new,day,sold\r\n1.5,Rome,true,2026-05-01,yes\r\n"
    batch = pa.table(
        {"price": [1.5], "city": ["Rome"], "new": [True], "day": pa.array(["2026-05-01"]), "sold": ["yes"]}
    )
    batch = batch.set_column(3, "day", batch["day"].cast(pa.timestamp("us")))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_table(batch)
    for media, body in (
        ("application/x-ndjson", lines),
        ("text/csv", table),
        ("application/vnd.apache.arrow.stream", sink.getvalue().to_pybytes()),
    ):
        assert ask(app, "POST", LEARN, content=body, headers={"content-type": media}).status_code == 200
    assert [len(one) for one in model.tables] == [1, 1, 1]
    assert {str(one["day"].values[0]) for one in model.tables} == {"2026-05-01T00:00:00.000000"}
    labels = ask(app, "POST", LABEL, content="id,sold\no-1,yes\no-2,no\n", headers={"content-type": "text/csv"})
    assert (labels.json()["count"], model.labels_given) == (2, {"o-1": "yes", "o-2": "no"})


def test_a_bad_row_is_a_problem_with_row_column_value_and_remedy() -> None:
    model = MemoryModel()
    answer = ask(
        app_of(model), "POST", LEARN, json={"rows": [ROW | {"sold": "yes"}, ROW | {"price": "dear", "sold": "no"}]}
    )
    problem = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert problem["type"].endswith(":bad-row")
    assert (problem["row"], problem["column"], problem["value"]) == (1, "price", "'dear'")
    assert "null" in problem["detail"]
    assert not model.tables


def test_bad_rows_are_skipped_with_a_list() -> None:
    model = MemoryModel()
    app = app_of(model)
    rows = [ROW | {"sold": "yes"}, ROW | {"price": "dear", "sold": "no"}, ROW | {"sold": None}]
    found = ask(app, "POST", LEARN + "?on_bad_row=skip", json={"rows": rows}).json()
    assert (found["count"], found["skipped"]) == (1, 2)
    assert [(one["row"], one["column"]) for one in found["bad_rows"]] == [(1, "price"), (2, "sold")]
    predicted = ask(app, "POST", PREDICT + "?on_bad_row=skip", json={"rows": rows[:2]})
    assert predicted.headers["x-rows-skipped"] == "1"
    nothing = ask(app, "POST", LEARN + "?on_bad_row=skip", json={"rows": rows[1:2]}).json()
    assert (nothing["count"], nothing["durability"], len(model.tables)) == (0, "none", 1)


def test_labels_that_the_model_refuses_are_problems() -> None:
    answer = ask(app_of(), "POST", LEARN, json={"rows": [ROW | {"sold": "perhaps"}]})
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:driftsurf:problem:bad-label")
    assert answer.json()["value"] == "perhaps"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OverloadedError("too much", retry_after=7), 429),
        (StorageFullError("the disk is full"), 507),
        (UnavailableError("closed"), 503),
        (MissingExtraError("the learner 'lightgbm' needs lightgbm: pip install lightgbm"), 422),
        (OSError(errno.ENOSPC, "No space left on device", "log/7"), 507),
    ],
)
def test_errors_of_the_model_have_their_status(error: Exception, status: int) -> None:
    answer = ask(app_of(MemoryModel(refuse=error)), "POST", LABEL, json={"labels": {"a": "yes"}})
    assert answer.status_code == status
    assert answer.headers.get("retry-after") == {429: "7", 503: "1"}.get(status)


def test_a_full_disk_behind_another_error_is_a_full_disk() -> None:
    error = LogError("the log takes nothing more")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    answer = ask(app_of(MemoryModel(refuse=error)), "POST", LABEL, json={"labels": {"a": "yes"}})
    assert (answer.status_code, answer.json()["type"]) == (507, "urn:driftsurf:problem:disk-full")


def test_every_failure_of_the_service_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    app = app_of(MemoryModel(refuse=LogError("the log is damaged")))
    row = ROW | {"sold": "yes"}
    streamed = {"content": chunked(json.dumps(row).encode()), "headers": {"content-type": MEDIA["ndjson"]}}
    for options in ({"json": {"rows": [row]}}, streamed):
        caplog.clear()
        assert ask(app, "POST", LEARN, **options).status_code == 500
        assert "the log is damaged" in caplog.text
        assert "Traceback" in caplog.text


def test_an_unexpected_error_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    answer = ask(
        app_of(MemoryModel(refuse=ZeroDivisionError("a secret"))), "POST", LABEL, json={"labels": {"a": "yes"}}
    )
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "a secret" in caplog.text


def test_idempotency() -> None:
    model = MemoryModel()
    app = app_of(model)
    headers = {"idempotency-key": "k-1"}
    body = {"rows": [ROW | {"sold": "yes"}]}
    first = ask(app, "POST", LEARN, json=body, headers=headers).json()
    second = ask(app, "POST", LEARN, json=body, headers=headers).json()
    assert (second["position"], second["repeated"], len(model.tables)) == (first["position"], True, 1)
    other = ask(app, "POST", LEARN, json={"rows": [ROW | {"sold": "no"}]}, headers=headers)
    assert (other.status_code, other.json()["type"]) == (422, "urn:driftsurf:problem:key-reused")
    long = ask(app, "POST", LEARN, json=body, headers={"idempotency-key": "k" * 300})
    assert long.status_code == 422


def test_a_request_with_the_same_key_under_way_is_a_conflict() -> None:
    hold = threading.Event()
    app = app_of(MemoryModel(hold=hold))
    body = {"labels": {"a": "yes"}}

    async def run() -> list[int]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            first = asyncio.create_task(client.post(LABEL, json=body, headers={"idempotency-key": "k"}))
            while not app.entries["sales"]._keys:
                await asyncio.sleep(0.001)
            second = await client.post(LABEL, json=body, headers={"idempotency-key": "k"})
            hold.set()
            return [second.status_code, (await first).status_code]

    assert asyncio.run(run()) == [409, 200]


def test_limits_of_bodies_and_rows() -> None:
    app = app_of(limits=Limits(body_bytes=1024, rows=3, part_bytes=1024))
    many = ask(app, "POST", PREDICT, json={"rows": [ROW] * 4})
    assert (many.status_code, many.json()["type"]) == (413, "urn:driftsurf:problem:too-large")
    large = ask(app, "POST", PREDICT, json={"rows": [ROW | {"city": "x" * 2000}]})
    assert large.status_code == 413
    assert app.flight.bytes == 0


def chunked(text: bytes, size: int = 700) -> Any:
    async def chunks() -> Any:
        for start in range(0, len(text), size):
            yield text[start : start + size]

    return chunks()


@pytest.mark.parametrize("format", ["ndjson", "csv", "arrow"])
@pytest.mark.parametrize("size", [333, 10_000])
def test_a_stream_is_learned_in_parts_that_depend_on_its_bytes_alone(format: str, size: int) -> None:
    rows = [ROW | {"price": float(i), "city": f'a "city",\nwith {i}', "sold": "yes"} for i in range(200)]
    if format == "ndjson":
        body = b"\n".join(json.dumps(row).encode() for row in rows)
    elif format == "csv":
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows([row | {"new": "true"} for row in rows])
        body = text.getvalue().encode()
    else:
        table = pa.Table.from_pylist(rows)
        table = table.set_column(3, "day", table["day"].cast(pa.timestamp("us")))
        table = table.set_column(1, "city", table["city"].dictionary_encode())
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table, max_chunksize=10)
        body = sink.getvalue().to_pybytes()
    model = MemoryModel()
    app = app_of(model, Limits(body_bytes=65536, part_bytes=4096))
    headers = {"content-type": MEDIA[format], "idempotency-key": "k"}  # type: ignore[index]
    found = ask(app, "POST", LEARN, content=chunked(body, size), headers=headers).json()
    assert found["count"] == 200
    assert found["parts"] == len(model.tables) > 2
    assert np.concatenate([one["price"].values for one in model.tables]).tolist() == list(map(float, range(200)))
    words = [one["city"].words[code] for one in model.tables for code in one["city"].values.tolist()]
    assert words == [row["city"] for row in rows]
    assert app.flight.bytes == 0
    again = ask(app, "POST", LEARN, content=chunked(body, size + 100), headers=headers).json()
    assert (again["repeated"], len(model.tables)) == (True, found["parts"])


@given(st.text('a",\n', max_size=60), st.integers(1, 20))
def test_parts_of_csv_end_at_the_last_line_break_outside_quotes(text: str, size: int) -> None:
    data = text.encode()
    reader = PartReader(cast("Any", SimpleNamespace(limits=Limits(part_bytes=size))), "csv")
    reader._data = bytearray(data)
    ends = [place + 1 for place in range(min(size, len(data))) if data[place : place + 1] == b"\n"]
    outside = [end for end in ends if data.count(b'"', 0, end) % 2 == 0]
    assert reader._line_end(last=False) == (outside[-1] if outside else data.find(b"\n") + 1)


def test_a_part_counts_as_in_flight_as_long_as_it_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = MemoryModel(), list[int]()
    app, learn = app_of(model, Limits(body_bytes=65536, part_bytes=4096)), model.learn

    def noted(*given: Any) -> Any:
        seen.append(app.flight.bytes)
        return learn(*given)

    monkeypatch.setattr(model, "learn", noted)
    body = "\n".join([json.dumps(ROW | {"sold": "yes"})] * 100).encode()
    headers = {"content-type": MEDIA["ndjson"]}
    assert ask(app, "POST", LEARN, content=chunked(body), headers=headers).json()["count"] == 100
    assert len(seen) > 1
    assert min(seen[:-1]) >= 4096 - 200
    assert app.flight.bytes == 0


def test_a_stream_that_breaks_says_how_many_rows_were_taken() -> None:
    lines = [json.dumps(ROW | {"sold": "yes"})] * 100 + [json.dumps(ROW | {"sold": 5})] + [json.dumps(ROW)] * 50
    app = app_of(limits=Limits(body_bytes=65536, part_bytes=4096))
    headers = {"content-type": MEDIA["ndjson"]}
    answer = ask(app, "POST", LEARN, content=chunked("\n".join(lines).encode()), headers=headers)
    assert answer.status_code == 422
    assert 0 < answer.json()["rows_taken"] <= 100


def test_a_stream_that_is_too_long_is_refused() -> None:
    line = json.dumps(ROW | {"sold": "yes"}).encode() + b"\n"
    limits = Limits(body_bytes=65536, part_bytes=4096, stream_bytes=8192)
    headers = {"content-type": MEDIA["ndjson"]}
    answer = ask(app_of(limits=limits), "POST", LEARN, content=chunked(line * 200), headers=headers)
    assert answer.status_code == 413
    one = app_of(limits=Limits(body_bytes=8192, part_bytes=1024))
    answer = ask(one, "POST", LEARN, content=chunked(b"x" * 20_000), headers=headers)
    assert answer.status_code in (413, 422)


def test_readers_of_a_model() -> None:
    app = app_of()
    learned(app)
    base = "/v1/models/sales"
    models = ask(app, "GET", "/v1/models").json()["models"]
    info = ask(app, "GET", base).json()
    assert models == [info]
    assert (info["name"], info["phase"], info["error"], info["trivial_error"]) == ("sales", "ready", 0.25, None)
    assert info["columns"][0] == {"name": "price", "kind": "number"}
    assert ask(app, "GET", f"{base}/journal").json()["events"][0]["line"] == 1
    assert ask(app, "GET", f"{base}/journal?since=1").json() == {"model": "sales", "events": [], "last": 1}
    assert ask(app, "GET", f"{base}/trace").text.startswith("step,model")
    assert ask(app, "GET", f"{base}/columns").headers["content-type"] == "text/csv; charset=utf-8"
    assert ask(app, "GET", f"{base}/explain?step=3").json()["text"] == "Step 3: nothing happened."
    assert ask(app, "GET", f"{base}/explain", headers={"accept": "text/plain"}).text.endswith(".\n")
    report = ask(app, "GET", f"{base}/report")
    assert "default-src 'none'" in report.headers["content-security-policy"]
    assert ask(app, "GET", f"{base}/state").content == app.entries["sales"].served.state()
    assert ask(app, "HEAD", base).status_code == 200
    assert ask(app, "HEAD", f"{base}/events").status_code == 405


def test_a_model_that_has_learned_nothing_has_no_report_yet() -> None:
    def fail() -> str:
        raise UnavailableError("the model has learned nothing yet")

    model = MemoryModel()
    model.report = fail  # type: ignore[method-assign]
    assert ask(app_of(model), "GET", "/v1/models/sales/report").status_code == 409
    model.phase = "failed"
    assert ask(app_of(model), "GET", "/v1/models/sales/report").status_code == 503


def test_a_model_that_has_learned_nothing_cannot_be_downloaded_yet() -> None:
    answer = ask(app_of(), "GET", "/v1/models/sales/state")
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:driftsurf:problem:not-yet")


def test_an_order_that_is_not_carried_out_soon_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftsurf.service.http.endpoints.ORDER_SECONDS", 0.01)
    hold = threading.Event()
    answer = ask(app_of(MemoryModel(hold=hold)), "POST", "/v1/models/sales/orders", json={"kind": "pin"})
    hold.set()
    assert (answer.status_code, answer.json()["done"], answer.json()["reason"]) == (202, False, "not-yet")
    assert answer.json()["position"] is None


def test_orders() -> None:
    app = app_of()
    done = ask(app, "POST", "/v1/models/sales/orders", json={"kind": "pin"})
    assert (done.status_code, done.json()["done"]) == (200, True)
    refused = ask(app, "POST", "/v1/models/sales/orders", json={"kind": "rollback", "to": 5})
    assert (refused.status_code, refused.json()["reason"]) == (409, "no-checkpoints")
    unknown = ask(app, "POST", "/v1/models/sales/orders", json={"kind": "promote", "model": "bushes"})
    assert (unknown.status_code, unknown.json()["type"]) == (422, "urn:driftsurf:problem:bad-option")
    assert ask(app, "POST", "/v1/models/sales/orders", json={"kind": "destroy"}).status_code == 422
    assert ask(app, "POST", "/v1/models/sales/orders", content=b"{").status_code == 422


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/v1/models/other", 404),
        ("GET", "/v1/models/sales/other", 404),
        ("GET", "/v1/models/sales/predict", 405),
        ("DELETE", "/v1/models/sales", 405),
        ("POST", "/healthz", 405),
        ("GET", "/v1/models/sales/journal?since=-1", 422),
        ("GET", "/v1/models/sales/journal?most=999999", 422),
        ("GET", "/v1/models/sales/explain?step=x", 422),
        ("GET", "/v1/models/sales/explain?stpe=3", 422),
        ("GET", "/v1/models/sales/explain?step=3&all=1", 422),
        ("GET", "/v1/models/sales?step=3", 422),
        ("GET", "/v1/models?most=3", 422),
        ("POST", "/v1/models/sales/predict?on_bad_rows=skip", 422),
    ],
)
def test_addresses_that_cannot_be_answered(method: str, path: str, status: int) -> None:
    answer = ask(app_of(), method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["status"] == status


def test_known_parameters_are_listed_and_probes_may_have_any() -> None:
    detail = ask(app_of(), "GET", "/v1/models/sales/explain?stpe=3").json()["detail"]
    assert "'stpe'" in detail
    assert "step, all" in detail
    assert ask(app_of(), "GET", "/healthz?probe=1").status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "application/python-pickle"}, 415),
        ({"accept": "image/png"}, 406),
    ],
)
def test_formats_that_are_not_known(headers: dict[str, str], status: int) -> None:
    assert ask(app_of(), "POST", PREDICT, content=b"{}", headers=headers).status_code == status


def test_a_model_that_is_slow_predicts_in_another_thread() -> None:
    model = MemoryModel(slow=True)
    app = app_of(model)
    learned(app)
    threads: list[str] = []
    predict: Callable[[Table], Answer] = model.snapshot.answer

    def noted(table: Table) -> Answer:
        threads.append(threading.current_thread().name)
        return predict(table)

    object.__setattr__(model.snapshot, "answer", noted)
    assert ask(app, "POST", PREDICT, json={"rows": [ROW]}).status_code == 200
    assert threads[0].startswith("reader")


def test_health_and_metrics() -> None:
    model = MemoryModel()
    app = app_of(model)
    learned(app)
    assert ask(app, "GET", "/healthz").json() == {"alive": True}
    found = ask(app, "GET", "/readyz").json()
    assert found == {"ready": True, "models": {"sales": {"phase": "ready", "applied": 1, "logged": 1}}}
    text = ask(app, "GET", "/metrics").text
    assert 'driftsurf_rows_total{model="sales"} 40\n' in text
    assert 'driftsurf_http_requests_total{endpoint="learn",status="200"} 1\n' in text
    assert 'driftsurf_request_rows_total{model="sales",kind="learned"} 40\n' in text
    model.phase = "recovering"
    assert ask(app, "GET", "/readyz").status_code == 503
    model.phase = "ready"
    app.close()
    assert ask(app, "GET", "/readyz").status_code == 503
    assert ask(app, "GET", "/healthz").status_code == 200


def test_v2_inference() -> None:
    app = app_of()
    learned(app)
    assert ask(app, "GET", "/v2").json()["name"] == "driftsurf"
    assert ask(app, "GET", "/v2/health/ready").json()["ready"] is True
    assert ask(app, "GET", "/v2/models/sales/ready").json() == {"ready": True}
    described = ask(app, "GET", "/v2/models/sales").json()
    assert described["inputs"][0] == {"name": "price", "datatype": "FP64", "shape": [-1]}
    inputs = [
        {"name": name, "shape": [2], "datatype": kind, "data": [value] * 2}
        for (name, value), kind in zip(ROW.items(), ("FP64", "BYTES", "BOOL", "BYTES"), strict=True)
    ]
    answer = ask(app, "POST", "/v2/models/sales/infer", json={"id": "42", "inputs": inputs}).json()
    same = ask(app, "POST", PREDICT, json={"rows": [ROW, ROW]}).json()
    assert (answer["id"], answer["model_version"]) == ("42", "1")
    assert [one["name"] for one in answer["outputs"]] == ["prediction", "probability"]
    assert answer["outputs"][0]["data"] == same["predictions"]
    assert answer["outputs"][1]["data"] == same["probabilities"]
    one = ask(
        app, "POST", "/v2/models/sales/infer", json={"inputs": inputs, "outputs": [{"name": "probability"}]}
    ).json()
    assert [output["name"] for output in one["outputs"]] == ["probability"]
    for bad in ([], inputs[:1], [inputs[0], inputs[0]], [inputs[0] | {"shape": [3]}], [inputs[0] | {"shape": [2, 7]}]):
        assert ask(app, "POST", "/v2/models/sales/infer", json={"inputs": bad}).status_code == 400
    other = ask(app, "POST", "/v2/models/sales/infer", json={"inputs": inputs, "outputs": [{"name": "scores"}]})
    assert (other.status_code, other.json()["type"]) == (400, "urn:driftsurf:problem:bad-input")
    assert "'scores'" in other.json()["error"]
    model = MemoryModel()
    model.snapshot = replace(model.snapshot, columns=())
    fresh = ask(app_of(model), "POST", "/v2/models/sales/infer", json={"inputs": inputs})
    assert (fresh.status_code, fresh.json()["type"]) == (409, "urn:driftsurf:problem:not-yet")


def test_a_matrix_as_a_tensor() -> None:
    app = App([(MemoryModel(kinds={"a": "number", "b": "number"}), ModelFormats(label="sold"))])
    rows = [{"a": float(i), "b": 1.0, "sold": "yes" if i > 3 else "no"} for i in range(8)]
    assert ask(app, "POST", LEARN, json={"rows": rows}).status_code == 200
    tensor = {"name": "rows", "shape": [2, 2], "datatype": "FP64", "data": [[1, 1], [7, 1]]}
    nested = ask(app, "POST", "/v2/models/sales/infer", json={"inputs": [tensor]}).json()
    flat = ask(app, "POST", "/v2/models/sales/infer", json={"inputs": [tensor | {"data": [1, 1, 7, 1]}]}).json()
    assert nested == flat
    assert len(nested["outputs"][0]["data"]) == 2


def test_the_openapi_document_names_every_address_and_type() -> None:
    document = ask(app_of(), "GET", "/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert "/v1/models/{name}/predict" in document["paths"]
    text = json.dumps(document)
    for reference in set(text.split('"$ref": "')[1:]):
        target = reference.split('"', 1)[0]
        kind, name = target.removeprefix("#/components/").split("/")
        assert name in document["components"][kind]


def test_only_http_is_answered() -> None:
    async def nothing(*_: Any) -> Any:
        raise AssertionError

    asyncio.run(app_of()({"type": "websocket"}, nothing, nothing))


def first_frames(
    app: App, path: str, count: int, between: Callable[[int], None] = lambda number: None, **headers: str
) -> list[dict[str, Any]]:
    """Return the first frames of an event stream; the transport of httpx cannot stream, so this speaks ASGI."""
    frames: list[dict[str, Any]] = []

    async def run() -> None:
        ended = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await ended.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            for text in message.get("body", b"").decode().split("\n\n")[:-1]:
                fields = dict(line.split(": ", 1) for line in text.split("\n"))
                frames.append({"id": int(fields["id"]), "event": fields["event"], **json.loads(fields["data"])})
                between(len(frames))
                if len(frames) == count:
                    ended.set()

        path_only, _, query = path.partition("?")
        given = [(b"host", b"localhost"), *((k.replace("_", "-").encode(), v.encode()) for k, v in headers.items())]
        scope = {"type": "http", "method": "GET", "path": path_only, "query_string": query.encode(), "headers": given}
        answer: Awaitable[None] = app(scope, receive, send)
        await asyncio.wait_for(asyncio.ensure_future(answer), 120)

    asyncio.run(run())
    return frames


def test_events_have_the_history_and_then_every_line_once() -> None:
    model = MemoryModel()
    app = app_of(model)
    app.events.seconds = 0.01
    learned(app)

    def step(number: int) -> None:
        if number < 4:
            model.order(Order("pin"))

    frames = first_frames(app, "/v1/models/sales/events", 4, step)
    assert [frame["event"] for frame in frames] == ["history", "frame", "frame", "frame"]
    assert frames[0]["curves"]["driftsurf"]["error"] == [0.5]
    assert frames[0]["status"]["name"] == "sales"
    assert [event["line"] for frame in frames for event in frame["events"]] == [1, 2, 3, 4]
    assert [frame["id"] for frame in frames] == [1, 2, 3, 4]
    assert set(frames[0]["status"]) - set(frames[1]["status"]) == {"columns", "classes"}
    assert app.events.readers == 0


@pytest.mark.parametrize("since", [0, 1, 3])
def test_a_reconnect_gets_what_it_missed_and_nothing_twice(since: int) -> None:
    model = MemoryModel()
    app = app_of(model)
    app.events.seconds = 0.01
    for _ in range(3):
        model.order(Order("pin"))
    if since == 3:
        frames = first_frames(app, "/v1/models/sales/events", 1, last_event_id="3")
        assert frames[0]["events"] == []
        return
    frames = first_frames(app, "/v1/models/sales/events", 1, last_event_id=str(since))
    assert [event["line"] for event in frames[0]["events"]] == list(range(since + 1, 4))
    assert frames[0]["id"] == 3


def test_readers_of_events_that_fail_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MemoryModel()
    app = app_of(model)
    app.events.seconds = 0.01

    def fail(*_: Any) -> Any:
        raise OSError(5, "the disk is gone")

    def step(number: int) -> None:
        if number == 2:
            monkeypatch.setattr(model, "journal", fail)

    assert len(first_frames(app, "/v1/models/sales/events", 99, step)) == 2
    assert app.events.readers == 0


def test_event_readers_are_limited_and_end_with_the_service() -> None:
    app = app_of(limits=Limits(event_clients=0))
    assert ask(app, "GET", "/v1/models/sales/events").status_code == 503
    ending = app_of()
    ending.events.seconds = 0.01
    frames = first_frames(ending, "/v1/models/sales/events", 99, lambda number: ending.close() if number == 2 else None)
    assert len(frames) == 2


def test_a_reader_whose_connection_is_full_holds_nobody_up_and_loses_nothing() -> None:
    model = MemoryModel()
    app = app_of(model)
    app.events.seconds = 0.01
    got: dict[str, list[int]] = {"slow": [], "fast": []}

    async def read(name: str, room: asyncio.Event, ended: asyncio.Event) -> None:
        async def receive() -> dict[str, Any]:
            await ended.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            await room.wait()  # as uvicorn: a full connection is waited for before anything is written
            for text in message.get("body", b"").decode().split("\n\n")[:-1]:
                frame = json.loads(text.partition("data: ")[2])
                got[name] += [event["line"] for event in frame["events"]]

        given = [(b"host", b"localhost"), (b"last-event-id", b"0")]
        path = "/v1/models/sales/events"
        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": given}
        answer: Awaitable[None] = app(scope, receive, send)
        await answer

    async def until(name: str, line: int) -> None:
        while not got[name] or got[name][-1] < line:
            await asyncio.sleep(0.005)

    async def run() -> None:
        room, always, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        room.set()
        always.set()
        readers = [asyncio.ensure_future(read(*one, ended)) for one in (("slow", room), ("fast", always))]
        model.order(Order("pin"))
        await asyncio.gather(until("slow", 1), until("fast", 1))
        room.clear()
        for line in (2, 3, 4):
            model.order(Order("pin"))
            await until("fast", line)
        assert got["slow"] == [1]
        room.set()
        await until("slow", 4)
        ended.set()
        await asyncio.gather(*readers)

    asyncio.run(asyncio.wait_for(run(), 120))
    assert got == {"slow": [1, 2, 3, 4], "fast": [1, 2, 3, 4]}
    assert app.events.readers == 0
