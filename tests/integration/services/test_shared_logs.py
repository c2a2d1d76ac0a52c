"""Logs of served models in JetStream and PostgreSQL: the contract, late and lost writers, and the broker killed."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("nats")
pytest.importorskip("psycopg")

import psycopg
from tests.integration.services.nats_streams import remove
from tests.integration.services.private_servers import NatsServer, PostgresServer
from tests.integration.services.servers import require

from driftsurf.checks import LogCase, check_log
from driftsurf.connectors.nats.client import Interrupted
from driftsurf.connectors.nats.log import NatsLog
from driftsurf.connectors.postgresql.log import PostgresLog
from driftsurf.connectors.shared_log import SharedLog
from driftsurf.data.frames import read_table
from driftsurf.errors import (
    LogConflictError,
    LogError,
    LogUnreachableError,
    OptionError,
    SourceError,
    StateError,
    UnavailableError,
)
from driftsurf.service.model import ServedModel, open_model
from driftsurf.service.settings import Keeping, ModelSettings

SETTINGS = ModelSettings(label="sold", model="driftsurf", learner="logistic", batch_size=10, task="binary")
KEEPING = Keeping(least_free_bytes=0)


class System:
    """A system with logs of one test."""

    def __init__(self, kind: type[SharedLog], base: str, prefix: str) -> None:
        self.kind = kind
        self.base = base
        self.prefix = prefix
        self.names = list[str]()

    def location(self, name: str = "") -> str:
        """Return the address of a log, another one each time without a name."""
        own = f"{self.prefix}_{name or len(self.names)}"
        self.names.append(own)
        return f"{self.base}/{own}"

    def new(self) -> Callable[[], SharedLog]:
        """Return what opens a new log."""
        return partial(self.kind, self.location())

    def clear(self) -> None:
        """Remove the logs."""
        for name in {*self.names}:
            if self.kind is NatsLog:
                for one in (name, f"KV_{name}_lease"):
                    asyncio.run(remove(self.base, one))
            else:
                with psycopg.connect(self.base, autocommit=True) as client:
                    client.execute(f"drop table if exists {name}, {name}_head")


@pytest.fixture(params=["nats", "postgresql"])
def system(request: pytest.FixtureRequest, unique: str) -> Iterator[System]:
    require(request.param)
    kind: type[SharedLog] = NatsLog if request.param == "nats" else PostgresLog
    base = "nats://127.0.0.1:4222" if request.param == "nats" else "postgresql://root@127.0.0.1:5432/test"
    made = System(kind, base, unique)
    yield made
    made.clear()


def test_it_keeps_the_contract(system: System) -> None:
    check_log(LogCase(new=system.new, shared=True))


def test_two_processes_read_what_was_written_whatever_its_size(system: System) -> None:
    chance, open_again, written = random.Random(0), system.new(), list[bytes]()
    with ExitStack() as stack:
        logs = [stack.enter_context(closing(open_again())) for _ in range(2)]
        for _ in range(60):
            log = chance.choice(logs)
            match chance.randrange(4):
                case 0 | 1:
                    sizes = [chance.choice((0, 5, 300, 70_000)) for _ in range(chance.randrange(1, 40))]
                    if chance.random() < 0.1:
                        sizes += [chance.randrange(2**20, 3 * 2**20), 10]
                    group = [chance.randbytes(size) for size in sizes]
                    log.append(group, len(written))
                    written += group
                case 2:
                    log.truncate(chance.randrange(len(written) + 1), chance.choice((0, 10**5, 10**7)))
                case 3:
                    start = chance.randrange(max(log.first, len(written) - 50), len(written) + 1)
                    most = chance.choice((1, 10**4, 10**6))
                    found = log.read(start, most)
                    assert found == [*enumerate(written[start : start + len(found)], start)]
                    assert (start == len(written)) == (not found)
                    assert len(found) <= 1 or sum(len(one) for _, one in found) <= most
        assert all(log.wait(len(written) - 1, 30) for log in logs)
        for log in logs:
            ends = log._look()
            assert (ends.next, ends.total) == (len(written), sum(map(len, written)))
            found = _all(log)
            assert found == [*enumerate(written[log.first :], log.first)]
            assert log.size == sum(map(len, written[log.first :]))


def _all(log: SharedLog) -> list[tuple[int, bytes]]:
    found = list[tuple[int, bytes]]()
    while part := log.read(log.first + len(found)):
        found += part
    return found


def test_the_last_bytes_stay_and_no_more(system: System) -> None:
    with closing(system.new()()) as log:
        for number in range(30):
            log.append([bytes(1_000)], number)
        log.truncate(25, spare_bytes=10_000)
        assert log.first == 20
        log.truncate(25, spare_bytes=1_000)
        assert log.first == 25
        assert log.size == 5_000


def test_a_lease_of_a_silent_process_ends(system: System) -> None:
    open_again = system.new()
    with closing(open_again()) as one, closing(open_again()) as other:
        lease = one.acquire(2.0, "http://one")
        assert lease is not None
        for _ in range(4):
            time.sleep(0.7)
            assert lease.renew()
            assert other.acquire(2.0) is None
        assert other.leader() == "http://one"
        end = time.monotonic() + 30
        while (taken := other.acquire(2.0, "http://other")) is None:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert not lease.renew()
        assert not lease.held
        lease.release()
        assert one.leader() == "http://other"
        taken.release()
        assert one.leader() == ""
        assert one.acquire(2.0) is not None


def test_of_two_writers_at_once_one_wins_each_number(system: System) -> None:
    open_again = system.new()
    with ExitStack() as stack:
        logs = [stack.enter_context(closing(open_again())) for _ in range(3)]
        kept: list[list[tuple[int, bytes]]] = [[] for _ in logs]

        def write(place: int) -> None:
            log, chance = logs[place], random.Random(place)
            for turn in range(30):
                group = [f"{place} {turn} {one}".encode() for one in range(chance.randrange(1, 4))]
                at = log._look().next
                try:
                    log.append(group, at)
                except LogConflictError:
                    continue
                kept[place] += enumerate(group, at)

        threads = [threading.Thread(target=write, args=(place,)) for place in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert sorted(one for part in kept for one in part) == _all(logs[0])


def test_an_append_whose_answer_is_lost_is_not_written_twice(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(system.new()()) as log:
        log.append([b"first"], 0)
        _lose_answers(log, monkeypatch)
        log.append([b"a" * 2**20, b"b", b"c" * 2**20], 1)
        assert [payload[:1] for _, payload in _all(log)] == [b"f", b"a", b"b", b"c"]
        log.append([b"last"], 4)


def _lose_answers(log: SharedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every second answer to something that was written get lost."""
    count = iter(range(10**6))
    if isinstance(log, NatsLog):
        kind = type(log._writer.streams)
        publish = kind.publish

        async def publish_and_lose(self: Any, *arguments: Any, **options: Any) -> Any:
            found = await publish(self, *arguments, **options)
            if next(count) % 2 == 0:
                raise Interrupted("the connection is lost")
            return found

        monkeypatch.setattr(kind, "publish", publish_and_lose)
    else:
        assert isinstance(log, PostgresLog)
        run = log._run

        def run_and_lose(own: Any, statement: str, *values: Any) -> Any:
            found = run(own, statement, *values)
            if statement.startswith("with head") and next(count) == 0:
                raise psycopg.OperationalError("the connection is lost")
            return found

        monkeypatch.setattr(log, "_run", run_and_lose)


def test_a_part_of_a_record_whose_writer_ended_is_no_record(unique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require("nats")
    system = System(NatsLog, "nats://127.0.0.1:4222", unique)
    try:
        open_again = partial(NatsLog, system.location("parts"))
        with closing(open_again()) as log:
            log.append([b"whole"], 0)
            kind = type(log._writer.streams)
            publish, sent = kind.publish, list[Any]()

            async def publish_once(self: Any, *arguments: Any, **options: Any) -> Any:
                if sent:
                    raise SourceError("killed")
                sent.append(arguments)
                return await publish(self, *arguments, **options)

            with monkeypatch.context() as context:
                context.setattr(kind, "publish", publish_once)
                with pytest.raises(LogError, match="killed"):
                    log.append([b"x" * 3 * 2**20], 1)
        for turn in range(2):
            with closing(open_again()) as log:
                assert log.next == 1 + turn
                assert log.read(1 + turn) == []
                assert log.read(0, 2**30)[0] == (0, b"whole")
                log.append([b"y" * 3 * 2**20], 1 + turn)
                assert log.read(1, 2**30)[0] == (1, b"y" * 3 * 2**20)
            with closing(open_again()) as log:
                assert [len(payload) for _, payload in _all(log)] == [5] + [3 * 2**20] * (1 + turn)
    finally:
        system.clear()


@pytest.mark.parametrize("kind", [NatsLog, PostgresLog])
def test_the_server_is_killed_and_starts_again(kind: type[SharedLog], tmp_path: Path) -> None:
    server = NatsServer(tmp_path) if kind is NatsLog else PostgresServer(tmp_path)
    try:
        base = server.url if isinstance(server, PostgresServer) else f"nats://127.0.0.1:{server.port}"
        location = f"{base}/killed"
        with closing(kind(location)) as log:
            log.append([b"a"], 0)
            server.kill()
            began = time.monotonic()
            with pytest.raises(LogUnreachableError):
                log.append([b"b"], 1)
            with pytest.raises(LogUnreachableError):
                log.read(5)
            assert time.monotonic() - began < 60
            assert not log.wait(1, 0.1)
            server.start()
            end = time.monotonic() + 60
            while True:
                try:
                    log.append([b"c"], 1)
                    break
                except LogUnreachableError:
                    assert time.monotonic() < end
            assert _all(log) == [(0, b"a"), (1, b"c")]
    finally:
        server.kill()


def test_another_log_or_other_settings_are_refused(system: System, tmp_path: Path) -> None:
    location, folder = system.location("own"), tmp_path / "one" / "sales"
    with closing(open_model(folder, SETTINGS, KEEPING, log=location)) as model:
        assert model.wait_ready(60)
        model.learn(*rows(30, 0)).result(60)
    with pytest.raises(OptionError, match="log"):
        open_model(folder, None, KEEPING)
    with pytest.raises(StateError, match="other settings"):
        open_model(tmp_path / "two" / "sales", replace(SETTINGS, seed=5), KEEPING, log=location)
    with pytest.raises(StateError, match="another log"):
        open_model(folder, None, KEEPING, log=system.location("another"))
    with closing(open_model(tmp_path / "three" / "sales", SETTINGS, KEEPING)) as model:
        model.learn(*rows(30, 0)).result(60)
    with pytest.raises(OptionError, match="in its folder"):
        open_model(tmp_path / "three" / "sales", None, KEEPING, log=location)
    with pytest.raises(OptionError, match="begins with"):
        open_model(tmp_path / "four" / "sales", SETTINGS, KEEPING, log="ftp://host/log")


def rows(count: int, seed: int) -> tuple[Any, list[str]]:
    draws = np.random.default_rng(seed).normal(size=(count, 2))
    return read_table({"a": draws[:, 0], "b": draws[:, 1]}), ["yes" if one > 0 else "no" for one in draws[:, 0]]


def settled(model: ServedModel, until: int) -> ServedModel:
    while model.status().applied < until:
        assert model.status().phase != "failed", model.status().failure
        model.log.wait(until, 0.01)
    return model


def test_replicas_have_the_same_bytes_and_one_takes_over(system: System, tmp_path: Path) -> None:
    location = system.location("shared")
    with ExitStack() as stack:
        one, other = (
            stack.enter_context(
                closing(open_model(tmp_path / name / "sales", SETTINGS, KEEPING, log=location, clock=lambda: 5.0))
            )
            for name in ("one", "other")
        )
        assert one.wait_ready(60)
        with pytest.raises(UnavailableError):
            other.learn(*rows(1, 0))
        for turn in range(20):
            table, labels = rows(3, turn)
            ids = [f"{turn} {place}" for place in range(3)]
            assert one.predict(table, ids).position is not None
            one.label(dict(zip(ids, labels, strict=True))).result(60)
        logged = one.log.next
        assert settled(one, logged).state() == settled(other, logged).state()
        one.close()
        while other.status().phase != "ready":
            other.log.wait(2**40, 0.01)
        other.learn(*rows(40, 99)).result(60)
        state = settled(other, other.log.next).state()
    with closing(open_model(tmp_path / "third" / "sales", SETTINGS, KEEPING, log=location)) as third:
        assert third.wait_ready(60)
        assert settled(third, third.log.next).state() == state
        with pytest.raises(LogError):
            third.log.read(-1)
