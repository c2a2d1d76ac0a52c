"""Runs between brokers that are killed again and again: files and destinations have the bytes of an undisturbed run."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.integration.services.kills import PATIENCE, Command, compare, orders, survives_kills
from tests.integration.services.private_servers import NatsServer, PostgresServer, RedisServer
from tests.integration.services.systems import Kafka, Nats, Postgres, RabbitStream, Redis

ROWS = 12_000


SYSTEMS = {"kafka": Kafka, "redis": Redis, "nats": Nats, "postgresql": Postgres, "rabbitmq": RabbitStream}
PRIVATE = {"redis": RedisServer, "nats": NatsServer, "postgresql": PostgresServer}
"""Servers that a test can kill; RabbitMQ and MQTT have tests of their own."""
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
            first.reads(rows),
            (last.writes(whole), last.writes(killed)),
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


@pytest.mark.parametrize("name", PRIVATE)
def test_a_run_ends_with_the_same_bytes_although_its_server_is_killed(
    name: str, names: list[str], tmp_path: Path
) -> None:
    place = tmp_path / "server"
    place.mkdir()
    server = PRIVATE[name](place)
    system = SYSTEMS[name](server.port)
    rows, whole_sink, other_sink = names
    try:
        system.send(rows, orders(8_000))
        whole = Command(tmp_path / "whole", system.reads(rows), system.writes(whole_sink))
        whole.finish()
        other = Command(tmp_path / "other", system.reads(rows), system.writes(other_sink))
        process = other.start()
        kills = 0
        while kills < 3 and other.until_checkpoint(process, other.checkpoints()):
            server.kill()
            time.sleep(0.2)
            server.start()
            kills += 1
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        assert kills, "the server was not killed before the end of the run: send more rows"
        compare(whole, other, system.held(whole_sink), system.held(other_sink))
    finally:
        server.close()


def test_rows_and_labels_of_two_systems_survive_kills(names: list[str], tmp_path: Path) -> None:
    orders_in, outcomes_in = Redis(), Postgres()
    rows, whole, killed = names
    labels = f"{rows}_labels"
    made = [json.loads(one) | {"order": n} for n, one in enumerate(orders(ROWS))]
    try:
        orders_in.send(rows, [_without(row, "sold") for row in made])
        outcomes_in.send(labels, [_without(row, "price", "age") for row in reversed(made[:-500])])
        survives_kills(
            tmp_path,
            orders_in.reads(rows),
            (outcomes_in.writes(whole), outcomes_in.writes(killed)),
            lambda url: outcomes_in.held(url.rpartition("/")[2]),
            options=("--labels", outcomes_in.reads(labels), "--id", "order"),
            kills=3,
        )
    finally:
        orders_in.remove(rows)
        for name in (labels, whole, killed):
            outcomes_in.remove(name)


def _without(row: dict[str, Any], *names: str) -> bytes:
    return json.dumps({name: value for name, value in row.items() if name not in names}).encode()
