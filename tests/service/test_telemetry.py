"""Traces and metrics as a collector gets them: a small one in this process, which reads them with OTLP's own types."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from served_models import MemoryModel

from driftsurf.core.secrets import Secret
from driftsurf.errors import MissingExtraError, OptionError
from driftsurf.service.config import ModelConfig, ServiceConfig, read_config
from driftsurf.service.settings import ServedOptions, ServiceOptions, require_telemetry
from driftsurf.service.telemetry import Telemetry, TelemetryOptions

httpx = pytest.importorskip("httpx")
from driftsurf.service.http.app import App  # noqa: E402
from driftsurf.service.http.security import new_key  # noqa: E402
from driftsurf.service.serve import Service  # noqa: E402
from driftsurf.service.wire.formats import ModelFormats  # noqa: E402

ROW = {"price": 1.5, "city": "Rome", "new": True, "day": "2026-05-01"}
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
MODEL = '[models.sales]\nlabel = "sold"\n'


class Collector:
    """Takes what an exporter sends, by path."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        taken = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                taken.bodies.append((self.path, body))
                taken.headers.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def spans(self) -> list[Any]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        sent = [ExportTraceServiceRequest.FromString(body) for path, body in self.bodies if path == "/v1/traces"]
        return [
            span for one in sent for group in one.resource_spans for scope in group.scope_spans for span in scope.spans
        ]

    def metrics(self) -> dict[str, Any]:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        sent = [ExportMetricsServiceRequest.FromString(body) for path, body in self.bodies if path == "/v1/metrics"]
        groups = [group for one in sent for group in one.resource_metrics]
        return {metric.name: metric for group in groups for scope in group.scope_metrics for metric in scope.metrics}


@pytest.fixture
def collector() -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra service is not installed")
    found = Collector()
    found.thread.start()
    yield found
    found.server.shutdown()
    found.thread.join()
    found.server.server_close()


def values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def told(app: App, options: TelemetryOptions, *requests: tuple[str, str, dict[str, Any]]) -> list[Any]:
    """Send requests to an application that tells a collector of them; return the answers."""

    async def run() -> list[Any]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return [await client.request(method, path, **rest) for method, path, rest in requests]

    with closing(Telemetry(options, lambda: app.families(app.entries.values()))) as telemetry:
        app.record = telemetry.record
        return asyncio.run(run())


def test_requests_become_spans_without_anything_secret(collector: Collector) -> None:
    key, secret = new_key("shop", ["admin"])
    app = App([(MemoryModel(), ModelFormats(label="sold"))], [key])
    headers = {"authorization": f"Bearer {secret}", "idempotency-key": "my-key"}
    parent = headers | {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1"}
    options = TelemetryOptions(endpoint=collector.address + "/", headers={"x-token": Secret("collector-secret")})
    rows = {"rows": [ROW | {"id": "o-1", "city": "Atlantis"}, ROW | {"id": "o-2"}]}
    answers = told(
        app, options,
        ("POST", "/v1/models/sales/predict?probabilities=all", {"json": rows, "headers": parent}),
        ("POST", "/v1/models/sales/predict", {"json": {"rows": [{"price": "dear"}]}, "headers": headers}),
        ("GET", "/v1/models/hidden-name", {"headers": headers}),
        ("GET", "/v1/models/sales", {}),
        ("BREW", "/secret-path", {"headers": headers}),
        ("GET", "/healthz", {}),
        ("GET", "/v1/models", {"headers": headers}),
    )  # fmt: skip
    assert [one.status_code for one in answers] == [200, 422, 404, 401, 404, 200, 200]
    spans = collector.spans()
    assert [(span.name, values(span.attributes).get("http.response.status_code")) for span in spans] == [
        ("POST /v1/models/{name}/predict", 200),
        ("POST /v1/models/{name}/predict", 422),
        ("GET", 404),
        ("GET", 401),
        ("_OTHER", 404),
        ("GET /v1/models", 200),
    ]
    first = spans[0]
    assert (first.trace_id.hex(), first.parent_span_id.hex(), first.trace_state) == (TRACE, PARENT, "vendor=1")
    assert values(first.attributes) == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": "/v1/models/{name}/predict",
        "driftsurf.model": "sales",
        "driftsurf.rows": 2,
    }
    assert first.kind == first.SPAN_KIND_SERVER
    assert 0 < first.end_time_unix_nano - first.start_time_unix_nano < 3600 * 10**9
    assert spans[1].parent_span_id == b""
    sent = b"".join(body for _, body in collector.bodies)
    for word in (secret, "my-key", "Atlantis", "o-1", "dear", "hidden-name", "secret-path", "collector-secret", "shop"):
        assert word.encode() not in sent
    assert all(one["x-token"] == "collector-secret" for one in collector.headers)
    assert "collector-secret" not in repr(options)


def test_an_error_of_the_service_marks_its_span(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    model = MemoryModel(refuse=ZeroDivisionError("a secret"))
    told(
        App([(model, ModelFormats(label="sold"))]), TelemetryOptions(endpoint=collector.address),
        ("POST", "/v1/models/sales/label", {"json": {"labels": {"a": "yes"}}}),
    )  # fmt: skip
    (span,) = collector.spans()
    assert span.status.code == span.status.STATUS_CODE_ERROR
    assert b"a secret" not in b"".join(body for _, body in collector.bodies)


@pytest.mark.parametrize(("ratio", "flags", "count"), [(0.0, "", 0), (0.0, "01", 1), (1.0, "00", 0), (1.0, "", 1)])
def test_a_share_is_traced_unless_the_client_decides(
    collector: Collector, ratio: float, flags: str, count: int
) -> None:
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-{flags}"} if flags else {}
    options = TelemetryOptions(endpoint=collector.address, sample_ratio=ratio)
    told(App([(MemoryModel(), ModelFormats(label="sold"))]), options, ("GET", "/v1/models", {"headers": headers}))
    assert len(collector.spans()) == count


def test_metrics_are_those_of_the_page_for_prometheus(collector: Collector) -> None:
    app = App([(MemoryModel(), ModelFormats(label="sold"))])
    rows = {"rows": [ROW | {"sold": "yes"}] * 3}
    options = TelemetryOptions(endpoint=collector.address, metrics_seconds=3600)
    answers = told(
        app, options, ("POST", "/v1/models/sales/learn", {"json": rows}), ("GET", "/metrics", {}), ("GET", "/none", {})
    )
    found = collector.metrics()
    # A metric without a value yet is sent no more than it is shown.
    shown = set(re.findall(r"^# TYPE (\S+) (?:gauge|counter)$", answers[1].text, re.MULTILINE))
    assert shown | {"http.server.request.duration", "driftsurf_http_requests_total"} == set(found)
    assert len(shown) > 15
    (learned,) = found["driftsurf_request_rows_total"].sum.data_points
    assert (learned.as_double, values(learned.attributes)) == (3.0, {"model": "sales", "kind": "learned"})
    (steps,) = found["driftsurf_steps_total"].sum.data_points
    assert found["driftsurf_steps_total"].sum.is_monotonic
    assert steps.as_double == 1.0
    (ready,) = found["driftsurf_ready"].gauge.data_points
    assert (ready.as_double, values(ready.attributes)) == (1.0, {"model": "sales"})
    times = found["http.server.request.duration"].histogram.data_points
    assert {values(one.attributes).get("http.route") for one in times} == {
        "/v1/models/{name}/learn", "/metrics", None,
    }  # fmt: skip
    assert sum(one.count for one in times) == 3


def test_a_collector_that_is_gone_changes_nothing(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # without listening, so that connections are refused
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        options = TelemetryOptions(endpoint=address, headers={"x-token": Secret("collector-secret")})
        (answer,) = told(App([(MemoryModel(), ModelFormats())]), options, ("GET", "/v1/models", {}))
    assert answer.status_code == 200
    assert caplog.records
    assert "collector-secret" not in caplog.text


def test_a_service_sends_as_its_configuration_says(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTLP_TOKEN", "collector-secret")
    (tmp_path / "serve.toml").write_text(
        f'folder = "{tmp_path}/models"\nport = 0\n{MODEL}[telemetry]\nendpoint = "{collector.address}"\n'
        'sample-ratio = 1\nservice-name = "shop"\n[telemetry.headers]\nauthorization = "env:OTLP_TOKEN"\n'
    )
    answers: list[Any] = []
    with Service(read_config(tmp_path / "serve.toml")) as service:

        def ask() -> None:
            answers.append(httpx.get(f"{service.address}/v1/models", timeout=60))
            service.stop()

        asking = threading.Thread(target=ask)
        service.run(asking.start)
        asking.join()
    assert answers[0].status_code == 200
    assert [span.name for span in collector.spans()] == ["GET /v1/models"]
    assert {one["authorization"] for one in collector.headers} == {"collector-secret"}
    assert any(b"service.name" in body and b"shop" in body for _, body in collector.bodies)


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ('endpoint = "localhost:4318"', "'localhost:4318'"),
        ("endpoint = 4318", "4318"),
        ('endpoint = "http://localhost:4318"\nsample-ratio = 2', "2"),
        ('endpoint = "http://localhost:4318"\nsample-ratio = "all"', "'all'"),
        ('endpoint = "http://localhost:4318"\nmetrics-seconds = 0', "0"),
        ('address = "http://localhost:4318"', "endpoint"),
        ('headers = "x"', "[telemetry.headers]"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, lines: str, named: str) -> None:
    (tmp_path / "serve.toml").write_text(f"{MODEL}[telemetry]\n{lines}\n")
    with pytest.raises(OptionError, match=re.escape(named)):
        read_config(tmp_path / "serve.toml")


def test_a_secret_in_the_configuration_is_refused_and_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "serve.toml").write_text(f'{MODEL}[telemetry.headers]\nauthorization = "Bearer hunter2"\n')
    with pytest.raises(OptionError, match="file:PATH") as caught:
        read_config(tmp_path / "serve.toml")
    assert "hunter2" not in str(caught.value)


def test_the_extra_is_named_if_it_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] == "opentelemetry":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    with pytest.raises(MissingExtraError, match=r"opentelemetry.sdk.*driftsurf\[service\]"):
        require_telemetry()
    config = ServiceConfig(
        ServiceOptions(folder=tmp_path / "models"),
        {"sales": ModelConfig(ServedOptions())},
        telemetry=TelemetryOptions(endpoint="http://localhost:4318"),
    )
    with pytest.raises(MissingExtraError):
        Service(config)
    assert not (tmp_path / "models").exists()
