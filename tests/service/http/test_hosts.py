"""What a service without keys answers, through a real socket: hosts that are not this machine, keys given twice."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from served_models import MemoryModel

pytest.importorskip("httptools")

from driftsurf.runs.prometheus import MetricsServer
from driftsurf.service.http.app import App
from driftsurf.service.http.security import ApiKey, new_key
from driftsurf.service.http.server import HttpServer
from driftsurf.service.wire.formats import ModelFormats

WAIT = 120.0
FOREIGN = (
    *("evil.example", "evil.example:8470", "169.254.169.254", "169.254.169.254:80", "10.0.0.7", "[2001:db8::1]"),
    *("0.0.0.0", "[::]", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:x", "[127.0.0.1", "2130706433"),
    *("evil.example#localhost", "user@localhost", "", " "),
)
LOCAL = "localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8470", "[::1]", "[::1]:8470", "127.1.2.3", "localhost."
PATHS = (
    *("/", "/healthz", "/readyz", "/openapi.json", "/metrics", "/v1/models", "/v1/models/sales", "/v1/alerts"),
    *("/v1/models/sales/journal", "/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/sales/ready", "/nothing"),
)
ROW = {"price": 1.5, "city": "Rome", "new": True, "day": "2026-05-01"}


@contextmanager
def serving(*keys: ApiKey) -> Iterator[int]:
    """Return the port of a server in a thread of its own."""
    app = App([(MemoryModel(), ModelFormats(label="sold"))], keys)
    server = HttpServer(app, port=0)
    opened = threading.Event()
    thread = threading.Thread(target=server.run, args=[opened.set])
    thread.start()
    try:
        assert opened.wait(WAIT)
        yield server.port
    finally:
        server.stop()
        thread.join(WAIT)


def answered(port: int, *lines: str) -> tuple[int, bytes]:
    """Return status and body of the answer to the lines of a head."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT) as connection:
        connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status, response.read()


def test_no_path_answers_another_host() -> None:
    with serving() as port:
        for path in PATHS:
            for host in FOREIGN if path in ("/readyz", "/v1/models") else FOREIGN[:3]:
                status, body = answered(port, f"GET {path} HTTP/1.1", f"Host: {host}")
                assert status == 403, (path, host)
                assert b"sales" not in body
        for host in LOCAL:
            assert answered(port, "GET /v1/models HTTP/1.1", f"Host: {host}")[0] == 200, host


def test_an_absolute_target_must_name_the_same_local_host() -> None:
    with serving() as port:
        here = f"localhost:{port}"
        assert answered(port, f"GET http://{here}/v1/models HTTP/1.1", f"Host: {here}")[0] == 200
        for target, host in [
            ("http://169.254.169.254/v1/models", here),
            ("http://169.254.169.254/v1/models", "169.254.169.254"),
            (f"http://{here}/v1/models", "evil.example"),
            (f"http://{here}@evil.example/v1/models", here),
            (f"http://evil.example?http://{here}/v1/models", here),
            (f"evil.example//{here}", here),
        ]:
            status, body = answered(port, f"GET {target} HTTP/1.1", f"Host: {host}")
            assert status in (400, 403), (target, host)
            assert b"price" not in body
        assert answered(port, "GET /v1/models HTTP/1.1", f"Host: {here}", "Host: evil.example")[0] == 400
        assert answered(port, "GET /v1/models HTTP/1.1", "Host: evil.example", f"Host: {here}")[0] == 400


def test_keys_stand_for_the_host_but_not_for_two_of_them() -> None:
    key, secret = new_key("shop", ["admin"])
    bearer = f"Authorization: Bearer {secret}"
    with serving(key) as port:
        assert answered(port, "GET /v1/models HTTP/1.1", "Host: models.example", bearer)[0] == 200
        target = "GET http://169.254.169.254/v1/models HTTP/1.1"
        assert answered(port, target, "Host: models.example", bearer)[0] == 400


def test_the_metrics_of_a_run_are_for_this_machine() -> None:
    with MetricsServer(0, SimpleNamespace(text=str)) as server:  # type: ignore[arg-type]
        for host in ("evil.example", "169.254.169.254", "10.0.0.7"):
            assert answered(server.port, "GET /metrics HTTP/1.1", f"Host: {host}")[0] == 403
        assert answered(server.port, "GET http://169.254.169.254/metrics HTTP/1.1", "Host: localhost")[0] == 404
        assert answered(server.port, "GET /metrics HTTP/1.1", f"Host: localhost:{server.port}")[0] == 200


# ---------------------------------------------------------------------------- keys that are given twice

TWICE = [
    ("predict", "json", '{"rows": [%s, {"price": 1, "price": 2, "city": "Rome", "new": true, "day": "2026-05-01"}]}'),
    ("predict", "json", '{"rows": [%s, {"price": "dear", "price": 2, "city": "a", "new": true, "day": "2026-05-01"}]}'),
    ("predict", "json", '{"rows": [%s, {"price": 1, "city": "Rome", "c\\u0069ty": ":", "new": true, "day": null}]}'),
    ("predict", "json", '{"rows": [%s], "rows": [%s]}'),
    ("predict", "x-ndjson", '%s\n{"price": 1, "price" : 2, "city": "Rome", "new": true, "day": "2026-05-01"}\n'),
    ("predict", "json", '{"rows": [{"id": "a", "id": "b", "price": 1, "city": "x", "new": true, "day": null}]}'),
    ("learn", "json", '{"rows": [{"price": 1, "city": "x", "new": true, "day": null, "sold": "y", "sold": "n"}]}'),
    ("label", "json", '{"labels": {"a": "yes", "a": "no"}}'),
    ("label", "json", '{"labels": {"a:1": "yes", "b": "no", "a:\\u0031": "no"}}'),
    ("label", "json", '{"labels": {"a": "yes"}, "labels": {"b": "no"}}'),
    ("orders", "json", '{"kind": "pin", "kind": "unpin"}'),
    ("orders", "json", '{"kind": "challenge", "model": "m", "options": {"seed": 1, "seed": 2}}'),
]


def posted(port: int, path: str, body: str, media: str = "application/json") -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
    try:
        connection.request("POST", path, body.encode(), {"content-type": media})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_a_key_that_occurs_twice_is_refused() -> None:
    with serving() as port:
        for path, kind, body in TWICE:
            body = body.replace("%s", json.dumps(ROW))
            status, told = posted(port, f"/v1/models/sales/{path}", body, f"application/{kind}")
            assert status == 400 or status == 422, (body, told)
            assert any(word in told["detail"] for word in ("more than once", "occurs twice", "two labels")), (
                body,
                told,
            )


def test_rows_with_colons_and_gaps_are_taken() -> None:
    rows = [
        ROW,
        {**ROW, "city": '": ":'},
        {**ROW, "day": "2026-05-01T10:00:00Z", "city": None},
        {"id": "x:1", **ROW},
    ]
    with serving() as port:
        for row in rows:
            for text in (json.dumps({"rows": [row]}), json.dumps({"rows": [row]}, indent=1).replace(":", " :", 1)):
                assert posted(port, "/v1/models/sales/predict", text)[0] == 200, text


def test_skipped_rows_are_those_with_a_column_twice() -> None:
    good = json.dumps(ROW)
    body = f'{{"rows": [{good}, {good[:-1]}, "price": 2}}, {good}]}}'
    with serving() as port:
        status, told = posted(port, "/v1/models/sales/predict?on_bad_row=skip", body)
        assert status == 200
        assert len(told["predictions"]) == 2
        assert [one["column"] for one in told["bad_rows"]] == ["price"]


def test_tensors_with_a_key_twice_are_refused() -> None:
    body = '{"inputs": [{"name": "price", "name": "city", "shape": [1], "datatype": "FP64", "data": [1]}]}'
    with serving() as port:
        status, told = posted(port, "/v2/models/sales/infer", body)
        assert status in (400, 422)
        assert "more than once" in json.dumps(told)
