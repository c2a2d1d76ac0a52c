"""Replicas of ``driftsurf serve`` on one broker: the leader is killed, and stopped for longer than its lease."""

from __future__ import annotations

import json
import signal
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("nats")
pytest.importorskip("psycopg")
pytest.importorskip("httpx")

from tests.integration.services.servers import require
from tests.integration.services.services import Serving, until
from tests.integration.services.test_shared_logs import System

from driftsurf.client import Client
from driftsurf.connectors.nats.log import NatsLog
from driftsurf.connectors.postgresql.log import PostgresLog
from driftsurf.connectors.shared_log import SharedLog
from driftsurf.data.log.records import ColumnKind, Kinds, decode
from driftsurf.service.replicas import about_model
from driftsurf.service.settings import SETTINGS_FILE, ModelSettings

COLUMNS = ColumnKind("n", "number"), ColumnKind("x", "number")
CONFIG = """
[limits]
drain-seconds = 1
[keeping]
least-free-bytes = 0
checkpoint-seconds = 1.0
digest-records = 50
[models.sales]
label = "sold"
model = "driftsurf"
learner = "logistic"
batch-size = 10
column = {{ n = "number", x = "number" }}
classes = ["no", "yes"]
log = "{location}"
"""


@pytest.fixture(params=["nats", "postgresql"])
def system(request: pytest.FixtureRequest, unique: str) -> Iterator[System]:
    require(request.param)
    kind: type[SharedLog] = NatsLog if request.param == "nats" else PostgresLog
    base = "nats://127.0.0.1:4222" if request.param == "nats" else "postgresql://root@127.0.0.1:5432/test"
    made = System(kind, base, unique)
    yield made
    made.clear()


@contextmanager
def replicas(folder: Path, location: str, count: int) -> Iterator[list[Serving]]:
    made = [Serving(folder / str(place), CONFIG.format(location=location)) for place in range(count)]
    try:
        for one in made:
            one.start()
            until(partial(is_served, one), 60)
        yield made
    finally:
        for one in made:
            one.kill()


def status(one: Serving) -> dict[str, Any]:
    with urllib.request.urlopen(f"{one.address}/v1/models/sales", timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def is_served(one: Serving) -> bool:
    return status(one)["phase"] in ("ready", "following")


def has_applied(one: Serving, logged: int) -> bool:
    return bool(status(one)["applied"] >= logged)


def leaders(made: list[Serving]) -> list[Serving]:
    return [one for one in made if one.process is not None and status(one)["phase"] == "ready"]


def row(number: int) -> dict[str, Any]:
    return {"n": number, "x": (number * 7919 % 101) / 50 - 1, "sold": "yes" if number * 7919 % 101 > 50 else "no"}


class Load:
    """Clients that learn rows of their own, and predict, until they are ended."""

    def __init__(self, addresses: list[str], learners: int = 3) -> None:
        self.addresses = addresses
        self.acknowledged = set[int]()
        self.longest = 0.0
        """Longest time between two predictions."""
        self.predictions = 0
        self.last = 0.0
        """When the last row was acknowledged."""
        self.failures = list[BaseException]()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._learn, args=(place, learners)) for place in range(learners)]
        self._threads.append(threading.Thread(target=self._predict))

    def _learn(self, place: int, step: int) -> None:
        try:
            with Client(self.addresses, retry_seconds=120.0) as client:
                number = place
                while not self._ended.is_set():
                    client.model("sales").learn([row(number)])
                    self.acknowledged.add(number)
                    self.last = time.monotonic()
                    number += step
        except BaseException as error:
            self.failures.append(error)

    def _predict(self) -> None:
        try:
            with Client(self.addresses, retry_seconds=120.0) as client:
                before = time.monotonic()
                while not self._ended.is_set():
                    client.model("sales").predict([{"n": 1, "x": 0.5}])
                    now = time.monotonic()
                    self.longest, before, self.predictions = max(self.longest, now - before), now, self.predictions + 1
                    time.sleep(0.005)
        except BaseException as error:
            self.failures.append(error)

    def __enter__(self) -> Load:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for one in self._threads:
            one.join()


def learned(system: System, location: str, folder: Path) -> Counter[int]:
    """Return how often each row is in the log of a model in a folder."""
    settings = ModelSettings.from_json((folder / "models" / "sales" / SETTINGS_FILE).read_text())
    log = system.kind(location, about_model(settings, folder))
    found = Counter[int]()
    at = log.first
    assert at == 0
    while numbered := log.read(at):
        for number, payload in numbered:
            at = number + 1
            record = decode(payload, COLUMNS)
            if record.kind == Kinds.LEARN and record.rows is not None:
                found.update(int(one) for one in np.frombuffer(record.rows.words).reshape(-1, 2)[:, 0])
    log.close()
    return found


def same(made: list[Serving]) -> None:
    """Wait until all replicas have applied everything, and compare their states."""
    running = [one for one in made if one.process is not None]
    logged = max(status(one)["logged"] for one in running)
    for one in running:
        until(partial(has_applied, one, logged), 60)
    states = set[bytes]()
    for one in running:
        with urllib.request.urlopen(f"{one.address}/v1/models/sales/state", timeout=30) as answer:
            states.add(answer.read())
            assert int(answer.headers["driftsurf-position"]) >= logged
            assert int(answer.headers["driftsurf-lag"]) <= 1  # a digest may have come since
    assert len(states) == 1


def test_every_replica_answers_and_passes_on_what_the_leader_takes(system: System, tmp_path: Path) -> None:
    location = system.location("passed")
    with replicas(tmp_path, location, 2) as (one, other):
        assert leaders([one, other]) == [one]
        assert status(other)["phase"] == "following"
        with Client(other.address) as client:
            sales = client.model("sales")
            for start in range(0, 60, 20):
                sales.learn([row(number) for number in range(start, start + 20)])
            given = sales.predict([{"id": "late", "n": 7, "x": 0.9}])
            assert sales.label({"late": "yes"})["position"] > 0
            assert sales.order("pin")["done"]
            assert given.ids == ["late"]
        same([one, other])
        assert status(one)["labels"]["labelled"] == status(other)["labels"]["labelled"] == 1


@pytest.mark.parametrize("fault", ["killed", "stopped"])
def test_another_replica_takes_over_and_nothing_acknowledged_is_lost(
    system: System, tmp_path: Path, fault: str
) -> None:
    location = system.location(fault)
    with replicas(tmp_path, location, 3) as made:
        (leader,) = leaders(made)
        with Load([one.address for one in made]) as load:
            until(lambda: len(load.acknowledged) > 60 and load.predictions > 20, 60)
            assert leader.process is not None
            process, began = leader.process, time.monotonic()
            if fault == "killed":
                leader.kill()
            else:
                process.send_signal(signal.SIGSTOP)
            before = len(load.acknowledged)
            others = [one for one in made if one is not leader]
            until(lambda: len(leaders(others)) == 1, 60)
            until(lambda: len(load.acknowledged) > before + 50, 60)
            took = load.last - began
            if fault == "stopped":
                process.send_signal(signal.SIGCONT)
                until(lambda: status(leader)["phase"] == "following", 60)
            else:
                leader.start()
                until(lambda: status(leader)["phase"] == "following", 60)
            before = len(load.acknowledged)
            until(lambda: len(load.acknowledged) > before + 50, 60)
        assert load.failures == []
        print(f"{fault}: {took:.1f} s until learning went on, longest pause of predictions {load.longest:.2f} s")
        same(made)
        found = learned(system, location, tmp_path / "0")
        assert set(found.values()) == {1}
        assert load.acknowledged <= set(found)
        assert not any(status(one)["failure"] for one in made)
