"""The client against the application in this process, and against answers that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from served_models import MemoryModel

httpx = pytest.importorskip("httpx")
pa = pytest.importorskip("pyarrow")

from driftsurf.client import Client, ServiceRefusal  # noqa: E402
from driftsurf.service.http.app import App  # noqa: E402
from driftsurf.service.http.formats import ModelFormats  # noqa: E402

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


@pytest.mark.parametrize("what", ["request", "answer"])
def test_a_request_that_is_lost_is_repeated_and_carried_out_once(what: str) -> None:
    model = MemoryModel()
    with client_of(model, lambda number: what if number < 3 else "") as client:
        receipt = client.model("sales").learn([ROW | {"sold": "yes"}])
    assert receipt["count"] == 1
    assert len(model.tables) == 1
    assert receipt.get("repeated", False) == (what == "answer")


def test_a_network_that_stays_away_is_an_error() -> None:
    with client_of(MemoryModel(), lambda number: "request") as client, pytest.raises(httpx.ConnectError):
        client.models()


def test_refusals_have_their_problem() -> None:
    with client_of(MemoryModel()) as client:
        with pytest.raises(ServiceRefusal) as caught:
            client.model("sales").learn([ROW | {"price": "dear", "sold": "yes"}])
        assert (caught.value.status, caught.value.kind) == (422, "bad-row")
        assert (caught.value.problem["row"], caught.value.problem["column"]) == (0, "price")
        with pytest.raises(ServiceRefusal) as caught:
            client.model("other").status()
        assert caught.value.kind == "not-found"


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
