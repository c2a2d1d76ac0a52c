"""Keys, scopes, sessions, foreign pages and rates."""

from __future__ import annotations

import asyncio
import datetime
from dataclasses import replace
from typing import Any

import pytest
from served_models import MemoryModel

from driftsurf.errors import OptionError

httpx = pytest.importorskip("httpx")
pytest.importorskip("httptools")

from driftsurf.service.http.app import App  # noqa: E402
from driftsurf.service.http.requests import InFlight  # noqa: E402
from driftsurf.service.http.security import (  # noqa: E402
    ApiKey,
    Gate,
    TokenBucket,
    new_key,
)
from driftsurf.service.http.server import check_address  # noqa: E402
from driftsurf.service.wire.formats import ModelFormats  # noqa: E402

ROW = {"price": 1.5, "city": "Rome", "new": True, "day": "2026-05-01"}


def app_of(*keys: ApiKey) -> App:
    models = [(MemoryModel(name), ModelFormats(label="sold")) for name in ("sales", "other")]
    return App(models, keys)


def ask(app: App, method: str, path: str, **options: Any) -> Any:
    async def run() -> Any:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, **options)

    return asyncio.run(run())


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def test_missing_unknown_and_expired_keys_are_refused() -> None:
    key, secret = new_key("shop", ["predict"])
    old, old_secret = new_key("old", ["predict"])
    gone = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    app = app_of(key, replace(old, expires=gone))
    path = "/v1/models/sales/predict"
    assert ask(app, "POST", path, json={"rows": [ROW]}, headers=bearer(secret)).status_code == 200
    for headers in (
        {},
        bearer("ds_wrong"),
        bearer(old_secret),
        {"authorization": "Basic abc"},
        {"cookie": "driftsurf=x"},
    ):
        answer = ask(app, "POST", path, json={"rows": [ROW]}, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert not any(one in answer.text for one in (secret, old_secret, "ds_wrong"))


def test_scopes_and_models_of_a_key() -> None:
    key, secret = new_key("shop", ["predict"])
    app = app_of(replace(key, models=("sal*",)))
    headers = bearer(secret)
    assert ask(app, "POST", "/v1/models/sales/learn", json={"rows": [ROW]}, headers=headers).status_code == 403
    assert ask(app, "POST", "/v1/models/sales/orders", json={"kind": "pin"}, headers=headers).status_code == 403
    assert ask(app, "GET", "/v1/models/sales", headers=headers).status_code == 403
    assert ask(app, "GET", "/v1/models", headers=headers).json() == {"models": [], "scopes": {"sales": ["predict"]}}
    assert ask(app, "GET", "/v1/alerts", headers=headers).status_code == 403
    hidden = ask(app, "POST", "/v1/models/other/predict", json={"rows": [ROW]}, headers=headers)
    missing = ask(app, "POST", "/v1/models/third/predict", json={"rows": [ROW]}, headers=headers)
    assert (hidden.status_code, missing.status_code) == (404, 404)
    assert hidden.json()["detail"].replace("other", "third") == missing.json()["detail"]
    admin, secret = new_key("admin", ["admin"])
    assert ask(
        app_of(admin), "POST", "/v1/models/other/orders", json={"kind": "pin"}, headers=bearer(secret)
    ).is_success


def test_metrics_are_those_of_the_models_that_a_key_may_read() -> None:
    key, secret = new_key("shop", ["read"])
    text = ask(app_of(replace(key, models=("sal*",))), "GET", "/metrics", headers=bearer(secret)).text
    assert 'model="sales"' in text
    assert 'model="other"' not in text


@pytest.mark.parametrize(
    "options",
    [
        {"learner": "subprocess:Popen", "parameters": {"args": ["true"]}},
        {"model": "driftsurf:subprocess.Popen(args=['true'])"},
    ],
)
def test_no_request_names_a_class_to_import(options: dict[str, Any]) -> None:
    order = {"kind": "challenge", "model": "x", "options": options}
    answer = ask(app_of(), "POST", "/v1/models/sales/orders", json=order)
    assert answer.status_code == 422
    assert "subprocess" in answer.json()["detail"]


def test_probes_and_the_document_need_no_key_and_name_no_model() -> None:
    key, _ = new_key("shop", ["predict"])
    app = app_of(key)
    for path in ("/healthz", "/readyz", "/openapi.json", "/v2/health/live", "/v2"):
        answer = ask(app, "GET", path)
        assert answer.status_code == 200
        assert "sales" not in answer.text or path == "/openapi.json"
    assert ask(app, "GET", "/metrics").status_code == 401


def test_a_session_of_the_page() -> None:
    key, secret = new_key("ops", ["read", "operate"])
    app = app_of(key)
    answer = ask(app, "POST", "/v1/login", json={"key": secret})
    cookie = answer.headers["set-cookie"]
    assert answer.json()["scopes"] == ["read", "operate"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert secret not in cookie
    headers = {"cookie": cookie.partition(";")[0]}
    assert ask(app, "GET", "/v1/models", headers=headers).status_code == 200
    assert ask(app, "POST", "/v1/login", json={"key": "wrong"}).status_code == 401
    assert ask(app, "POST", "/v1/login", content=b"[").status_code == 422
    app.change([], app.limits)
    app.change([new_key("new", ["read"])[0]], app.limits)
    assert ask(app, "GET", "/v1/models", headers=headers).status_code == 401  # its key is gone
    app.change([key], app.limits)
    ask(app, "POST", "/v1/logout", headers=headers)
    assert ask(app, "GET", "/v1/models", headers=headers).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"host": "evil.example"},
    ],
)
def test_requests_of_foreign_pages_are_refused(headers: dict[str, str]) -> None:
    answer = ask(app_of(), "POST", "/v1/models/sales/orders", json={"kind": "reset"}, headers=headers)
    assert answer.status_code == 403


def test_requests_of_the_own_page_are_taken() -> None:
    headers = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    assert ask(app_of(), "POST", "/v1/models/sales/orders", json={"kind": "pin"}, headers=headers).status_code == 200


def test_a_key_with_a_rate_waits() -> None:
    key, secret = new_key("shop", ["read"])
    app = app_of(replace(key, rate=0.001, burst=2))
    found = [ask(app, "GET", "/v1/models", headers=bearer(secret)) for _ in range(3)]
    assert [one.status_code for one in found] == [200, 200, 429]
    assert int(found[2].headers["retry-after"]) > 1


def test_sessions_end_and_are_bounded() -> None:
    now = [0.0]
    key, secret = new_key("ops", ["read"])
    gate = Gate([key], clock=lambda: now[0])
    _, cookie = gate.log_in(secret, secure=True)
    assert "Secure" in cookie
    headers = {"cookie": cookie.partition(";")[0], "host": "localhost"}
    assert gate.admit(headers, "GET").name == "ops"
    now[0] = 10**6
    with pytest.raises(Exception, match="key"):
        gate.admit(headers, "GET")
    for _ in range(1100):
        gate.log_in(secret, secure=False)
    assert len(gate._sessions) == 1000


@pytest.mark.parametrize(
    "key",
    [
        ApiKey("", "0" * 64, ("read",)),
        ApiKey("a", "zz", ("read",)),
        ApiKey("a", "0" * 64, ()),
        ApiKey("a", "0" * 64, ("fly",)),  # type: ignore[arg-type]
        ApiKey("a", "0" * 64, ("read",), rate=0.0),
        ApiKey("a", "0" * 64, ("read",), burst=0),
    ],
)
def test_keys_that_cannot_be_used(key: ApiKey) -> None:
    with pytest.raises(OptionError):
        key.check()


def test_without_keys_only_this_machine_is_served() -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        check_address(host, has_keys=False)
    check_address("0.0.0.0", has_keys=True)
    for host in ("0.0.0.0", "example.org", "192.168.1.7"):
        with pytest.raises(OptionError, match="keys"):
            check_address(host, has_keys=False)


def test_buckets_and_bytes_in_flight() -> None:
    now = [0.0]
    bucket = TokenBucket(1.0, 2, clock=lambda: now[0])
    assert [bucket.take(), bucket.take()] == [0.0, 0.0]
    assert bucket.take() == 1.0
    now[0] = 1.0
    assert bucket.take() == 0.0
    flight = InFlight(10)
    assert flight.add(6)
    assert not flight.add(5)
    flight.remove(6)
    assert flight.add(10)
