"""Servers that answer and refuse: user, password, permission, or what the address names. They are not asked again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.services.private_servers import MqttServer, NatsServer, PostgresServer, RedisServer
from tests.integration.services.servers import require

from driftsurf.checks.connectors import COLUMNS
from driftsurf.data.messages.client import watched
from driftsurf.data.source import open_source
from driftsurf.errors import SourceError, SourceUnreachableError

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name a right and a wrong password."""
    monkeypatch.setenv("RIGHT", SECRET)
    monkeypatch.setenv("WRONG", "hunter3")


def refused(act: Callable[[], Any]) -> str:
    """Return what is told of a refusal."""

    def tried_again(reason: str) -> None:
        raise AssertionError(f"a refusal is tried again: {reason}")

    with watched(tried_again), pytest.raises(SourceError) as caught:
        act()
    assert not isinstance(caught.value, SourceUnreachableError)
    assert "hunter" not in str(caught.value)
    return str(caught.value)


def read(address: str) -> Callable[[], Any]:
    return lambda: next(open_source(address).tables())


def test_redis(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    from driftsurf.connectors.redis import RedisWriter

    server = RedisServer(tmp_path, f"--requirepass {SECRET} --user reader on >{SECRET} ~mine* +@all")
    try:
        host = f"127.0.0.1:{server.port}"
        for address in (
            f"redis://{host}/0/s",
            f"redis://{host}/0/s?password=env:WRONG",
            f"redis://nobody@{host}/0/s?password=env:RIGHT",
            f"redis://reader@{host}/0/s?password=env:WRONG",
            f"redis://reader@{host}/0/yours?password=env:RIGHT",
            f"redis://{host}/99/s?password=env:RIGHT",
        ):
            refused(read(address))
            refused(RedisWriter(address, COLUMNS).open)
        assert RedisWriter(f"redis://reader@{host}/0/mine?password=env:RIGHT", COLUMNS).open() == 0
    finally:
        server.close()


def test_postgresql(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    server = PostgresServer(tmp_path)
    try:
        import psycopg

        with psycopg.connect(server.url, autocommit=True) as client:
            client.execute(f"create role reader login password '{SECRET}'")
            client.execute("create table mine (n int primary key)")
        (server.folder / "data" / "pg_hba.conf").write_text(
            "host postgres reader 127.0.0.1/32 scram-sha-256\nhost postgres postgres 127.0.0.1/32 trust\n"
        )
        with psycopg.connect(server.url, autocommit=True) as client:
            client.execute("select pg_reload_conf()")
        host = f"127.0.0.1:{server.port}"
        for address in (
            f"postgresql://reader@{host}/postgres/mine?password=env:WRONG",
            f"postgresql://reader@{host}/postgres/mine",
            f"postgresql://reader@{host}/postgres/mine?password=env:RIGHT",
            f"postgresql://nobody@{host}/postgres/mine?password=env:RIGHT",
            f"postgresql://postgres@{host}/nothing/mine",
            f"postgresql://postgres@{host}/postgres/nothing",
            f"postgresql://postgres@{host}/postgres/mine?sslmode=require",
            f"postgresql://postgres@{host}/postgres/mine?sslmode=sometimes",
        ):
            refused(read(address))
    finally:
        server.close()


def test_nats(tmp_path: Path) -> None:
    pytest.importorskip("nats")
    from driftsurf.connectors.nats.sink import NatsWriter

    users = (
        f"{{ user: all, password: {SECRET} }}, "
        f'{{ user: none, password: {SECRET}, permissions: {{ publish: "_INBOX.>", subscribe: "_INBOX.>" }} }}'
    )
    server = NatsServer(tmp_path, f"authorization {{ users: [ {users} ] }}")
    try:
        host = f"127.0.0.1:{server.port}"
        for address in (
            f"nats://{host}/s",
            f"nats://all@{host}/s?password=env:WRONG",
            f"nats://{host}/s?token=env:WRONG",
            f"nats://none@{host}/s?password=env:RIGHT",
        ):
            refused(read(address))
            refused(NatsWriter(address, COLUMNS).open)
        assert "'s'" in refused(read(f"nats://all@{host}/s?password=env:RIGHT"))
    finally:
        server.close()


def test_mqtt(tmp_path: Path) -> None:
    pytest.importorskip("paho.mqtt")
    from driftsurf.connectors.mqtt import MqttWriter

    (tmp_path / "acl").write_text("user reader\ntopic readwrite mine/#\n")
    (tmp_path / "passwords").touch(mode=0o600)
    words = ["mosquitto_passwd", "-b", str(tmp_path / "passwords"), "reader", SECRET]
    try:
        subprocess.run(words, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no mosquitto_passwd is installed")
    settings = f"password_file {tmp_path}/passwords\nacl_file {tmp_path}/acl"
    server = MqttServer(tmp_path, f"{settings}\nper_listener_settings false")
    (tmp_path / "mosquitto.conf").write_text(
        (tmp_path / "mosquitto.conf").read_text().replace("allow_anonymous true", "allow_anonymous false")
    )
    server.kill()
    server.start()
    try:
        host = f"127.0.0.1:{server.port}"
        for address in (
            f"mqtt://{host}/mine/rows",
            f"mqtt://reader@{host}/mine/rows?password=env:WRONG",
            f"mqtt://nobody@{host}/mine/rows?password=env:RIGHT",
        ):
            refused(read(address))
            refused(MqttWriter(address, COLUMNS).open)
        writer = MqttWriter(f"mqtt://reader@{host}/mine/rows?password=env:RIGHT", COLUMNS)
        assert writer.open() == 0
        writer.write(0, [{"n": 1}])
        writer.flush()
        writer.close()

        def publish() -> None:
            other = MqttWriter(f"mqtt://reader@{host}/yours/rows?password=env:RIGHT", COLUMNS)
            try:
                other.open()
                other.write(0, [{"n": 1}])
                other.flush()
            finally:
                other.close()

        refused(publish)
    finally:
        server.close()


def test_rabbitmq(unique: str) -> None:
    pytest.importorskip("pika")
    require("rabbitmq")
    from driftsurf.connectors.rabbitmq import RabbitWriter

    for address in (
        f"amqp://127.0.0.1/{unique}?password=env:WRONG",
        f"amqp://nobody@127.0.0.1/{unique}?password=env:RIGHT",
        f"amqp://127.0.0.1/{unique}?vhost=nothing",
    ):
        refused(read(address))
        refused(RabbitWriter(address, COLUMNS).open)
    for address in (f"amqp://127.0.0.1/{unique}", f"amqp://127.0.0.1/{unique}?stream=true"):
        assert "no queue" in refused(read(address))
