"""Served models that read from Redis and PostgreSQL and write to PostgreSQL, killed again and again."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.services.kills import orders
from tests.integration.services.servers import require
from tests.integration.services.services import Serving, until

pytest.importorskip("msgspec")
psycopg = pytest.importorskip("psycopg")
redis = pytest.importorskip("redis")
DATABASE = "postgresql://postgres@127.0.0.1/test"
TUTORIAL = Path(__file__).parents[3] / "docs/tutorial-connectors.md"
MODEL = '[models.sales]\nlabel = "sold"\ntask = "binary"\nmodel = "driftsurf"\nbatch-size = 50\n'
COLUMNS = 'column = { price = "number", age = "number" }\n'


@pytest.fixture
def broker(unique: str) -> Iterator[Any]:
    """A client of Redis, which removes the stream of the test."""
    require("redis")
    with redis.Redis() as client:
        yield client
        client.delete(unique)


@pytest.fixture
def database(unique: str) -> Iterator[Any]:
    """A connection to PostgreSQL, which removes the tables of the test."""
    require("postgresql")
    with psycopg.connect(DATABASE, autocommit=True) as client:
        yield client
        for (name,) in client.execute("select tablename from pg_tables where tablename like %s", [f"{unique}%"]):
            client.execute(f"drop table {name}")


def send(broker: Any, stream: str, messages: list[bytes]) -> None:
    pipeline = broker.pipeline(transaction=False)
    for one in messages:
        pipeline.xadd(stream, {"value": one})
    pipeline.execute()


def connection(service: Serving, name: str) -> dict[str, Any]:
    return next(one for one in service.status("sales")["connections"] if one["name"] == name)


def taken(service: Serving, rows: int) -> None:
    until(lambda: connection(service, "o")["rows"] >= rows)


def learned(service: Serving, rows: int) -> None:
    until(lambda: service.status("sales")["rows"] >= rows)


def journal(database: Any, table: str) -> list[Any]:
    """Return the lines of a copied journal without the times at which things happened."""
    found = []
    for row, record in database.execute(f"select row, record from {table} order by row"):
        line = json.loads(record)
        found.append((row, {name: value for name, value in line.items() if name != "time"}))
    return found


def test_a_model_that_is_killed_ends_like_one_that_is_not(
    broker: Any, database: Any, unique: str, tmp_path: Path
) -> None:
    """With one source the order of the records is that of the stream: model and journal are the same."""
    rows = orders(6_000)
    rows[100:100] = [b"{", b"\xff", b'{"price": "dear", "age": 1, "sold": "no"}']
    found = []
    for name, kills in (("calm", 0), ("killed", 3)):
        text = MODEL + COLUMNS
        text += f'[models.sales.sources.o]\naddress = "redis://127.0.0.1/0/{unique}"\nkind = "learn"\nbatch-size = 20\n'
        text += f'[models.sales.sinks.j]\naddress = "{DATABASE}/{unique}_{name}"\nkind = "journal"\n'
        broker.delete(unique)
        send(broker, unique, rows[:1_000])
        service = Serving(tmp_path / name, text + "[keeping]\ncheckpoint-seconds = 0.3\nleast-free-bytes = 0\n")
        chance = random.Random(3)
        for part in range(kills):
            with service:
                start = connection(service, "o")["rows"]
                # Sent before the wait: everything sent earlier may have been read by now.
                send(broker, unique, rows[1_000 + part * 500 : 1_500 + part * 500])
                taken(service, start + 1)
                time.sleep(chance.random())
        send(broker, unique, rows[1_000 + kills * 500 :])
        with service:
            taken(service, 6_000)
            learned(service, 6_000)
            source = connection(service, "o")
            assert (source["rows"], source["bad_rows"], source["error"]) == (6_000, 3, "")
            state = service.get("/v1/models/sales/state")
            service.end()
        side = (tmp_path / name / "models/sales/sources/o/bad_rows.jsonl").read_text(encoding="utf-8").splitlines()
        assert len(side) == 3
        found.append((state, journal(database, f"{unique}_{name}")))
    assert found[0][0] == found[1][0]
    assert [row for row, _ in found[1][1]] == list(range(len(found[1][1])))
    assert found[0][1] == found[1][1]


def test_rows_and_labels_of_two_systems_are_neither_lost_nor_taken_twice(
    broker: Any, database: Any, unique: str, tmp_path: Path
) -> None:
    """With two sources the order of the records depends on when they come: what is the same is what was taken."""
    count = 3_000
    given = [json.loads(row) | {"order": f"o-{n}"} for n, row in enumerate(orders(count))]
    database.execute(
        f"create table {unique}_labels (id bigint generated always as identity primary key, o text, y text)"
    )
    text = MODEL + COLUMNS + 'id = "order"\n'
    text += f'[models.sales.sources.o]\naddress = "redis://127.0.0.1/0/{unique}"\nkind = "predict"\nbatch-size = 37\n'
    text += f'[models.sales.sources.l]\naddress = "{DATABASE}/{unique}_labels"\nkind = "label"\nid = "o"\nlabel = "y"\n'
    text += f'[models.sales.sinks.s]\naddress = "{DATABASE}/{unique}_scores"\nkind = "predictions"\n'
    service = Serving(tmp_path / "served", text + "[keeping]\ncheckpoint-seconds = 0.3\nleast-free-bytes = 0\n")
    chance = random.Random(4)
    for part in range(4):
        with service:
            for start in range(part * 750, part * 750 + 750, 75):
                rows = given[start : start + 75]
                send(
                    broker, unique, [json.dumps({k: v for k, v in row.items() if k != "sold"}).encode() for row in rows]
                )
                with database.cursor() as cursor:
                    labels = [(row["order"], row["sold"]) for row in rows]
                    cursor.executemany(f"insert into {unique}_labels (o, y) values (%s, %s)", labels)
                time.sleep(chance.random() / 5)
            if part == 3:
                until(lambda: service.status("sales")["labels"]["labelled"] == count)
                until(lambda: [one["rows"] for one in service.status("sales")["connections"]] == [count] * 3)
                status = service.status("sales")
                assert (status["labels"]["predicted"], status["labels"]["waiting"], status["early"]) == (count, 0, 0)
                assert status["rows"] == count
                service.end()
    scores = database.execute(f"select row, id from {unique}_scores order by row").fetchall()
    assert scores == [(n, f"o-{n}") for n in range(count)]  # one stream of rows has one order


def test_the_tutorial(broker: Any, database: Any, unique: str, tmp_path: Path) -> None:
    page = TUTORIAL.read_text(encoding="utf-8")
    page = page.replace("127.0.0.1/dw", "127.0.0.1/test").replace("/0/orders", f"/0/{unique}")
    page = page.replace('xadd("orders"', f'xadd("{unique}"')
    page = re.sub(r"(into |join |table |test/)outcomes", rf"\1{unique}_outcomes", page)
    page = re.sub(r"(from |test/)scores", rf"\1{unique}_scores", page).replace("scores.id", f"{unique}_scores.id")
    blocks = dict[str, list[str]]()
    for language, text in re.findall(r"```(sql|toml|py)\n(.*?)```", page, re.S):
        blocks.setdefault(language, []).append(text)
    make, ask = blocks["sql"]
    database.execute(make)
    script, sent = blocks["py"][0].replace("time.sleep(0.3)", "wait()"), 0

    def wait() -> None:
        """Wait as the script does, as long as this machine takes to predict 100 orders and to learn those before."""
        nonlocal sent
        sent += 100
        until(lambda: service.status("payments")["labels"]["predicted"] == sent)
        until(lambda: service.status("payments")["labels"]["labelled"] == sent - 100)

    with Serving(tmp_path / "served", blocks["toml"][0].replace("port = 8470\n", "")) as service:
        assert b"Sources and sinks" in service.get("/")
        exec(script, {"wait": wait})
        assert sent == 4_000
        until(lambda: service.status("payments")["labels"]["labelled"] == 4_000)
        until(lambda: all(one["rows"] == 4_000 for one in service.status("payments")["connections"]))
        assert {one["state"] for one in service.status("payments")["connections"]} == {"running"}
        metrics = service.get("/metrics").decode()
        assert 'driftsurf_connection_rows_total{model="payments",direction="sink",name="scores"} 4000' in metrics
        events = json.loads(service.get("/v1/models/payments/journal"))["events"]
        assert any(one["record"]["type"] == "transition" for one in events)
        service.end()
    rows = database.execute(ask).fetchall()
    assert sum(count for _, count, _ in rows) == 4_000
    last = rows[-10:]  # a version may have predicted a few rows only
    assert sum(count * float(accuracy) for _, count, accuracy in last) > 0.8 * sum(count for _, count, _ in last)
