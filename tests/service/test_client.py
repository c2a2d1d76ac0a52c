"""The client against the application in this process, and against answers that fail."""

from __future__ import annotations

import asyncio
import datetime
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served_models import MemoryModel
from tests.integration.services.ports import free_port

from driftsurf.errors import InputError, OptionError

httpx = pytest.importorskip("httpx")
pa = pytest.importorskip("pyarrow")

from driftsurf.client import Client, ServiceRefusal, UnreachableError  # noqa: E402
from driftsurf.service.http.app import App  # noqa: E402
from driftsurf.service.wire.formats import ModelFormats  # noqa: E402

ROW = {"price": 1.5, "city": "Rome", "new": True, "day": "2026-05-01"}


class Bridge(httpx.BaseTransport):  # type: ignore[misc, name-defined]
    """Sends requests of a client to an application in this process; some of them are lost on the way."""

    def __init__(self, app: App, lost: Callable[[int], str] = lambda number: "") -> None:
        self.app = app
        self.lost = lost
        self.sent = 0

    def handle_request(self, request: Any) -> Any:
        self.sent += 1
        what = self.lost(self.sent)
        if what == "request":
            raise httpx.ConnectError("lost")
        answer = asyncio.run(self._answer(request))
        if what == "answer":
            raise httpx.ReadError("lost")
        return answer

    async def _answer(self, request: Any) -> Any:
        transport = httpx.ASGITransport(app=self.app)
        sent = httpx.Request(request.method, request.url, headers=request.headers, content=request.read())
        answer = await transport.handle_async_request(sent)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())


def client_of(model: MemoryModel, lost: Callable[[int], str] = lambda number: "") -> Client:
    app = App([(model, ModelFormats(label="sold"))])
    return Client("http://localhost", transport=Bridge(app, lost), sleep=lambda seconds: None)


def test_predict_label_learn_and_look() -> None:
    model = MemoryModel()
    with client_of(model) as client:
        sales = client.model("sales")
        rows = [ROW | {"price": float(i % 7), "sold": "yes" if i % 7 > 3 else "no"} for i in range(40)]
        receipt = sales.learn(rows)
        sales.wait_applied(receipt["position"])
        found = sales.predict([ROW | {"id": "o-1"}], all_classes=True)
        assert (len(found), found.ids, found.version) == (1, ["o-1"], 1)
        assert list(found) == found.predictions
        assert sales.label({"o-1": "yes"})["count"] == 1
        assert model.labels_given == {"o-1": "yes"}
        assert client.models() == [sales.status()]
        assert sales.explain(3).startswith("Step 3")
        assert [event["line"] for event in sales.journal()] == [1]
        assert sales.order("pin")["done"]
        assert sales.state()


def test_tables_go_as_arrow() -> None:
    model = MemoryModel()
    table = pa.Table.from_pylist([ROW | {"sold": "yes"}] * 3)
    table = table.set_column(3, "day", table["day"].cast(pa.timestamp("us")))
    with client_of(model) as client:
        assert client.model("sales").learn(table)["count"] == 3
        assert len(client.model("sales").predict(table.drop_columns(["sold"]))) == 3


def test_the_numbers_of_the_rows_of_a_frame_are_not_sent() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([ROW] * 5).assign(day=pandas.Timestamp("2026-05-01"))
    with client_of(MemoryModel()) as client:
        assert len(client.model("sales").predict(frame.iloc[[0, 1, 4]])) == 3


def test_a_frame_of_polars_with_text_is_sent() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame([{**ROW, "day": None, "id": f"order {n}"} for n in range(3)])
    with client_of(MemoryModel()) as client:
        assert len(client.model("sales").predict(frame)) == 3


@pytest.mark.parametrize("what", ["request", "answer"])
def test_a_request_that_is_lost_is_repeated_and_carried_out_once(what: str) -> None:
    model = MemoryModel()
    with client_of(model, lambda number: what if number < 3 else "") as client:
        receipt = client.model("sales").learn([ROW | {"sold": "yes"}])
    assert receipt["count"] == 1
    assert len(model.tables) == 1
    assert receipt.get("repeated", False) == (what == "answer")


def test_the_former_name_of_the_time_for_repeating_is_accepted() -> None:
    with pytest.warns(FutureWarning, match="retry_seconds"), Client(patience=3.0) as client:
        assert client.retry_seconds == 3.0


def test_a_network_that_stays_away_is_an_error_that_names_the_address() -> None:
    pauses: list[float] = []
    with client_of(MemoryModel(), lambda number: "request") as client:
        client._sleep = pauses.append
        with pytest.raises(UnreachableError, match=r"http://localhost .*60 seconds.*ConnectError: lost.*retry_seconds"):
            client.models()
        assert sum(pauses) == client.retry_seconds == 60.0
        assert max(pauses) <= 10.0
        with pytest.raises(UnreachableError, match="http://localhost"):
            next(client.model("sales").events())
        client.retry_seconds, pauses[:] = 0.0, []
        with pytest.raises(UnreachableError):
            client.models()
        assert pauses == []


def test_a_service_that_restarts_is_waited_for(tmp_path: Path) -> None:
    """A real process is killed, and started again at the same port while the client waits for it."""
    port = free_port()
    command = [sys.executable, "-m", "driftsurf", "serve", "--name", "sales", "--label", "sold", "--task", "binary"]
    command += ["--column", "price=number", "--port", str(port)]
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"serving")
        return process

    def sleep(seconds: float) -> None:
        if len(running) == 1:
            start()  # returns when the port is open

    try:
        first = start()
        with Client(f"http://127.0.0.1:{port}", sleep=sleep) as client:
            assert client.model("sales").learn([{"price": 1, "sold": "yes"}])["count"] == 1
            first.kill()
            first.wait(60)
            assert client.model("sales").learn([{"price": 2, "sold": "no"}])["count"] == 1
            assert client.scopes() == {"sales": ["predict", "learn", "read", "operate", "admin"]}
            assert client.model("sales").status()["logged"] == 2
    finally:
        for process in running:
            process.kill()
            process.wait(60)
            assert process.stdout is not None
            process.stdout.close()


@pytest.mark.parametrize(
    ("address", "named"),
    [
        *((address, repr(address)) for address in ("localhost:8470", "ftp://localhost", "http://")),
        ("http://[::1", "which is no address: Invalid port"),  # it is not shown: its parts cannot be told apart
    ],
)
def test_an_address_that_is_none_is_refused_at_once(address: str, named: str) -> None:
    with pytest.raises(OptionError, match=re.escape(named)):
        Client(address)


def test_a_key_from_a_file_may_end_with_a_line_break_and_is_never_shown() -> None:
    with Client("http://localhost", "ds_secret\n") as client:
        assert client._https[0].headers["authorization"] == "Bearer ds_secret"
    for key in ("ds_secret\nx: y", "ds_s\u00e9cret", " "):
        with pytest.raises(OptionError) as caught:
            Client("http://localhost", key)
        assert "ds_" not in str(caught.value)


def test_a_password_in_the_address_is_sent_and_never_shown() -> None:
    asked: list[Any] = []

    def lose(request: Any) -> Any:
        asked.append(request)
        raise httpx.ConnectError("lost")

    with Client("http://me:hunter2@localhost:1", retry_seconds=0, transport=httpx.MockTransport(lose)) as client:
        with pytest.raises(UnreachableError, match="http://localhost:1") as caught:
            client.models()
        assert "hunter2" not in f"{caught.value} {client.address}"
    assert asked[0].headers["authorization"].startswith("Basic ")


def test_values_of_numpy_and_dates_are_sent_and_others_are_refused() -> None:
    model = MemoryModel()
    with client_of(model) as client:
        sales = client.model("sales")
        row = {"price": np.float64(1.5), "city": "Rome", "new": np.bool_(True), "day": datetime.date(2026, 5, 1)}
        assert sales.learn([row | {"sold": "yes"}])["count"] == 1
        for bad in ([row | {"price": float("nan")}], [row | {"price": object()}], [1, 2], "rows"):
            with pytest.raises(InputError):
                sales.predict(bad)
        with pytest.raises(InputError):
            sales.label({"a": float("inf")})
    assert len(model.tables) == 1


def test_a_refusal_that_stays_is_not_repeated_and_one_that_passes_is() -> None:
    pauses: list[float] = []

    def client(*answers: Any) -> Client:
        left = iter(answers)
        return Client("http://localhost", transport=httpx.MockTransport(lambda _: next(left)), sleep=pauses.append)

    refused = httpx.Response(409, json={"done": False, "text": "there is no restore point"})
    not_yet = httpx.Response(409, json={"type": "urn:driftsurf:problem:not-yet", "detail": "nothing learned"})
    with pytest.raises(ServiceRefusal):
        client(refused).model("sales").order("rollback", to=1)
    with pytest.raises(ServiceRefusal, match="nothing learned"):
        client(not_yet).model("sales").explain()
    assert pauses == []
    under_way = httpx.Response(409, json={"type": "urn:driftsurf:problem:under-way"})
    assert client(under_way, httpx.Response(200, json={"count": 1})).model("sales").label({"a": "yes"}) == {"count": 1}
    assert len(pauses) == 1
    with pytest.raises(ServiceRefusal, match=r"http://localhost answers '<html>'"):
        client(httpx.Response(200, text="<html>")).models()


def test_refusals_have_their_problem() -> None:
    with client_of(MemoryModel()) as client:
        with pytest.raises(ServiceRefusal) as caught:
            client.model("sales").learn([ROW | {"price": "dear", "sold": "yes"}])
        assert (caught.value.status, caught.value.kind) == (422, "bad-row")
        assert (caught.value.problem["row"], caught.value.problem["column"]) == (0, "price")
        with pytest.raises(ServiceRefusal) as caught:
            client.model("other").status()
        assert caught.value.kind == "not-found"


def test_a_refusal_can_be_pickled() -> None:
    refusal = ServiceRefusal(422, {"type": "urn:driftsurf:problem:bad-row", "detail": "price must be a number"})
    again = pickle.loads(pickle.dumps(refusal))
    assert (str(again), again.status, again.kind) == ("price must be a number", 422, "bad-row")


def test_a_service_that_is_busy_is_asked_again_after_the_time_it_names() -> None:
    pauses: list[float] = []
    answers: Iterator[Any] = iter(
        [
            httpx.Response(429, headers={"retry-after": "3"}),
            httpx.Response(503, content=b"not json"),
            httpx.Response(200, json={"models": []}),
        ]
    )
    transport = httpx.MockTransport(lambda request: next(answers))
    with Client("http://localhost", transport=transport, sleep=pauses.append) as client:
        assert client.models() == []
    assert pauses[0] == 3.0
    always = httpx.MockTransport(lambda request: httpx.Response(503, content=b"not json"))
    with Client("http://localhost", transport=always, sleep=pauses.append) as client, pytest.raises(ServiceRefusal):
        client.models()


def test_events_go_on_over_several_connections() -> None:
    asked: list[str | None] = []

    def answer(request: Any) -> Any:
        asked.append(request.headers.get("last-event-id"))
        if len(asked) == 2:
            raise httpx.ReadError("lost")
        number = len(asked)
        return httpx.Response(200, content=f'id: {number}\nevent: frame\ndata: {{"n": {number}}}\n\n'.encode())

    with Client("http://localhost", transport=httpx.MockTransport(answer), sleep=lambda seconds: None) as client:
        found = list(islice(client.model("sales").events(), 2))
    assert [event.data["n"] for event in found] == [1, 3]
    assert asked == [None, "1", "1"]


def test_events_that_are_refused() -> None:
    transport = httpx.MockTransport(
        lambda request: httpx.Response(404, json={"type": "urn:driftsurf:problem:not-found"})
    )
    with Client("http://localhost", transport=transport) as client, pytest.raises(ServiceRefusal):
        next(client.model("sales").events())


# ---------------------------------------------------------------------------- several addresses


def replicas(answers: dict[str, Any], pauses: list[float]) -> tuple[Client, list[tuple[str, float]]]:
    """Return a client of three replicas, and what it asks of which, with its timeout."""
    asked = list[tuple[str, float]]()

    def answer(request: Any) -> Any:
        asked.append((request.url.host, request.extensions["timeout"]["read"]))
        found = answers[request.url.host]
        if isinstance(found, Exception):
            raise found
        return httpx.Response(found, json={"predictions": ["yes"], "version": 1, "position": 3})

    addresses = [f"http://{one}" for one in ("a", "b", "c")]
    return Client(addresses, transport=httpx.MockTransport(answer), sleep=pauses.append), asked


@pytest.mark.parametrize("failure", [httpx.ConnectError("gone"), httpx.ReadTimeout("stopped"), 503])
def test_a_replica_that_fails_is_left_for_the_next_one_at_once(failure: Any) -> None:
    pauses = list[float]()
    client, asked = replicas({"a": failure, "b": 200, "c": 200}, pauses)
    with client:
        for _ in range(2):
            assert client.model("sales").predict([ROW]).predictions == ["yes"]
        assert client.model("sales").learn([ROW])["position"] == 3
        assert client.address == "http://b"
    assert asked == [("a", 0.1), ("b", 0.1), ("b", 0.1), ("b", 8.0)]
    assert pauses == []


def test_a_pause_follows_when_all_replicas_have_failed() -> None:
    pauses = list[float]()
    client, asked = replicas({"a": 503, "b": httpx.ReadTimeout("stopped"), "c": 503}, pauses)
    with client, pytest.raises(ServiceRefusal):
        client.model("sales").predict([ROW])
    assert [host for host, _ in asked[:6]] == ["a", "b", "c"] * 2
    assert [timeout for _, timeout in asked[:6]] == [0.1] * 3 + [0.2] * 3
    assert sum(pauses) == pytest.approx(60.0)


def test_what_a_replica_refuses_for_good_is_not_asked_of_another() -> None:
    client, asked = replicas({"a": 422, "b": 200, "c": 200}, [])
    with client, pytest.raises(ServiceRefusal):
        client.model("sales").predict([ROW])
    assert len(asked) == 1
    with pytest.raises(OptionError, match="no address"):
        Client([])
