"""Runs between brokers that are killed again and again: files and destinations have the bytes of an undisturbed run."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests_services.kills import orders, survives_kills
from tests_services.servers import require

ROWS = 12_000


@dataclass
class System:
    """A broker: how rows are sent to a stream, and what a stream holds."""

    url: Callable[[str], str]
    send: Callable[[str, list[bytes]], None]
    held: Callable[[str], list[Any]]
    remove: Callable[[str], None]


def kafka() -> System:
    pytest.importorskip("confluent_kafka")
    from kafka_broker import Broker

    broker = Broker()

    def held(name: str) -> list[Any]:
        return [(one.value(), one.headers()) for one in broker.held(name)]

    return System(lambda name: f"kafka://{broker.servers}/{name}", broker.send, held, lambda name: None)


def redis() -> System:
    library = pytest.importorskip("redis")
    require("redis")
    client: Any = library.Redis()

    def send(name: str, messages: list[bytes]) -> None:
        pipeline = client.pipeline()
        for one in messages:
            pipeline.xadd(name, {"value": one})
        pipeline.execute()

    return System(lambda name: f"redis://localhost/0/{name}", send, client.xrange, client.delete)


def nats() -> System:
    pytest.importorskip("nats")
    require("nats")
    from tests_services.nats_streams import held, remove, send

    server = "nats://127.0.0.1:4222"
    return System(
        lambda name: f"{server}/{name}",
        lambda name, messages: asyncio.run(send(server, name, messages)),
        lambda name: asyncio.run(held(server, name)),
        lambda name: asyncio.run(remove(server, name)),
    )


def postgresql() -> System:
    library = pytest.importorskip("psycopg")
    require("postgresql")
    server = "postgresql://postgres@127.0.0.1/test"

    def act(statement: str) -> Any:
        with library.connect(server, autocommit=True) as client:
            done = client.execute(statement)
            return done.fetchall() if done.description else None

    def send(name: str, messages: list[bytes]) -> None:
        with library.connect(server) as client:
            client.execute(f"create table {name} (id bigint generated always as identity primary key, body bytea)")
            with client.cursor().copy(f"copy {name} (body) from stdin") as copy:
                for one in messages:
                    copy.write_row([one])

    return System(
        lambda name: f"{server}/{name}" + "?value=body" * name.endswith("_in"),
        send,
        lambda name: list(act(f"select * from {name} order by row")),
        lambda name: act(f"drop table if exists {name}"),
    )


def rabbitmq() -> System:
    pytest.importorskip("pika")
    require("rabbitmq")
    from tests_services.rabbit_queues import Broker, held

    def send(name: str, messages: list[bytes]) -> None:
        with contextlib.closing(Broker()) as broker:
            broker.declare(name, "stream")
            broker.made.clear()  # it outlives this connection
            broker.send(name, messages)

    def remove(name: str) -> None:
        with contextlib.closing(Broker()) as broker:
            broker.delete(name)

    return System(lambda name: f"amqp://127.0.0.1/{name}", send, lambda name: held(name, "stream"), remove)


SYSTEMS = {"kafka": kafka, "redis": redis, "nats": nats, "postgresql": postgresql, "rabbitmq": rabbitmq}
PAIRS = [
    ("kafka", "kafka"),
    ("redis", "nats"),
    ("nats", "redis"),
    ("postgresql", "postgresql"),
    ("rabbitmq", "postgresql"),
    ("redis", "rabbitmq"),
]


@pytest.fixture
def names(unique: str) -> list[str]:
    return [f"{unique}_in", f"{unique}_whole", f"{unique}_killed"]


@pytest.mark.parametrize(("source", "sink"), PAIRS)
def test_a_run_survives_kills(source: str, sink: str, names: list[str], tmp_path: Path) -> None:
    first, last = SYSTEMS[source](), SYSTEMS[sink]()
    rows, whole, killed = names
    try:
        first.send(rows, [*orders(ROWS), b"{", b"\x00\xff", b"[" * 9_000])
        survives_kills(
            tmp_path,
            first.url(rows),
            (last.url(whole), last.url(killed)),
            lambda url: last.held(url.rpartition("/")[2]),
            options=("--on-bad-row", "skip"),
            kills=3,
            seed=len(source),
        )
        bad = (tmp_path / "killed" / "result" / "bad_rows.jsonl").read_text(encoding="utf-8").splitlines()
        assert len(bad) == 3
    finally:
        first.remove(rows)
        last.remove(whole)
        last.remove(killed)


def test_rows_and_labels_of_two_systems_survive_kills(names: list[str], tmp_path: Path) -> None:
    orders_in, outcomes_in = redis(), postgresql()
    rows, whole, killed = names
    labels = f"{rows}_labels_in"
    made = [json.loads(one) | {"order": n} for n, one in enumerate(orders(ROWS))]
    try:
        orders_in.send(rows, [_without(row, "sold") for row in made])
        outcomes_in.send(labels, [_without(row, "price", "age") for row in reversed(made[:-500])])
        survives_kills(
            tmp_path,
            orders_in.url(rows),
            (outcomes_in.url(whole), outcomes_in.url(killed)),
            lambda url: outcomes_in.held(url.rpartition("/")[2]),
            options=("--labels", outcomes_in.url(labels), "--id", "order"),
            kills=3,
        )
    finally:
        orders_in.remove(rows)
        for name in (labels, whole, killed):
            outcomes_in.remove(name)


def _without(row: dict[str, Any], *names: str) -> bytes:
    return json.dumps({name: value for name, value in row.items() if name not in names}).encode()
