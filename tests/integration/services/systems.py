"""Brokers and databases as tests of whole runs use them: how a source is filled, and what a destination holds."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, ClassVar

import pytest
from tests.integration.services.servers import PORTS, require

__all__ = ["Kafka", "Mqtt", "Nats", "Postgres", "RabbitQueue", "RabbitStream", "Redis", "System"]


class System:
    """A server of this machine.

    Parameters
    ----------
    port
        Where a private server listens; None for the server on its usual port, without which the test is skipped.
    """

    client: ClassVar[str]
    """Package of its client."""
    server: ClassVar[str] = ""
    """Name of the server among those of this machine."""
    handed_out_once: ClassVar[bool] = False
    """Whether a source has to be filled again for each run."""
    exact: ClassVar[bool] = True
    """Whether a destination holds each row once, whatever happens."""

    def __init__(self, port: int | None = None) -> None:
        self.library: Any = pytest.importorskip(self.client)
        if port is None and self.server:
            require(self.server)
        self.port = PORTS.get(self.server, 0) if port is None else port

    def reads(self, name: str) -> str:
        """Return the address of a source."""
        return self.writes(name)

    def writes(self, name: str) -> str:
        """Return the address of a destination."""
        raise NotImplementedError

    def send(self, name: str, messages: list[bytes]) -> None:
        """Make a source, and fill it."""
        raise NotImplementedError

    def expect(self, name: str) -> None:
        """Get ready to tell what a destination holds, before anything is written to it."""

    def held(self, name: str) -> list[Any]:
        """Return what a destination holds."""
        raise NotImplementedError

    def remove(self, name: str) -> None:
        """Remove a source or a destination, if it is there."""
        raise NotImplementedError


class Kafka(System):
    """The mock broker of librdkafka, which lives as long as this object, or one of another process."""

    client = "confluent_kafka"

    def __init__(self, port: int | None = None) -> None:
        super().__init__(port)
        from kafka_broker import Broker

        there = {} if port is None else {"test.mock.num.brokers": 0, "bootstrap.servers": f"127.0.0.1:{port}"}
        self.broker = Broker(**there)

    def writes(self, name: str) -> str:
        return f"kafka://{self.broker.servers}/{name}"

    def send(self, name: str, messages: list[bytes]) -> None:
        self.broker.send(name, messages)

    def held(self, name: str) -> list[Any]:
        return [(one.value(), one.headers()) for one in self.broker.held(name)]

    def remove(self, name: str) -> None:
        """Do nothing: the broker keeps nothing."""


class Redis(System):
    """Streams of Redis."""

    client = server = "redis"

    def _connect(self) -> Any:
        return self.library.Redis(port=self.port)

    def writes(self, name: str) -> str:
        return f"redis://127.0.0.1:{self.port}/0/{name}"

    def send(self, name: str, messages: list[bytes]) -> None:
        with self._connect() as client:
            pipeline = client.pipeline()
            for one in messages:
                pipeline.xadd(name, {"value": one})
            pipeline.execute()

    def held(self, name: str) -> list[Any]:
        with self._connect() as client:
            return list(client.xrange(name))

    def remove(self, name: str) -> None:
        with self._connect() as client:
            client.delete(name)


class Nats(System):
    """Streams of NATS JetStream."""

    client = server = "nats"

    @property
    def _url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def writes(self, name: str) -> str:
        return f"{self._url}/{name}"

    def send(self, name: str, messages: list[bytes]) -> None:
        from tests.integration.services.nats_streams import send

        asyncio.run(send(self._url, name, messages))

    def held(self, name: str) -> list[Any]:
        from tests.integration.services.nats_streams import held

        return list(asyncio.run(held(self._url, name)))

    def remove(self, name: str) -> None:
        from tests.integration.services.nats_streams import remove

        asyncio.run(remove(self._url, name))


class Postgres(System):
    """Tables of PostgreSQL."""

    client = "psycopg"
    server = "postgresql"

    def __init__(self, port: int | None = None) -> None:
        super().__init__(port)
        database = "test" if port is None else "postgres"
        self._url = f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def _act(self, statement: str) -> Any:
        with self.library.connect(self._url, autocommit=True) as client:
            done = client.execute(statement)
            return done.fetchall() if done.description else None

    def reads(self, name: str) -> str:
        return f"{self._url}/{name}?value=body"

    def writes(self, name: str) -> str:
        return f"{self._url}/{name}"

    def send(self, name: str, messages: list[bytes]) -> None:
        with self.library.connect(self._url) as client:
            client.execute(f"create table {name} (id bigint generated always as identity primary key, body bytea)")
            with client.cursor().copy(f"copy {name} (body) from stdin") as copy:
                for one in messages:
                    copy.write_row([one])

    def held(self, name: str) -> list[Any]:
        return list(self._act(f"select * from {name} order by row"))

    def remove(self, name: str) -> None:
        self._act(f"drop table if exists {name}")


class RabbitStream(System):
    """Streams of RabbitMQ."""

    client = "pika"
    server = "rabbitmq"
    kind: ClassVar[str] = "stream"

    def reads(self, name: str) -> str:
        return f"amqp://127.0.0.1:{self.port}/{name}"

    def writes(self, name: str) -> str:
        return self.reads(name) + "?stream=false" * (self.kind != "stream")

    def send(self, name: str, messages: list[bytes]) -> None:
        from tests.integration.services.rabbit_queues import Broker

        with contextlib.closing(Broker(self.port)) as broker:
            broker.declare(name, self.kind)
            broker.made.clear()  # it outlives this connection
            broker.send(name, messages, named=True)

    def held(self, name: str) -> list[Any]:
        from tests.integration.services.rabbit_queues import held

        return list(held(name, self.kind, self.port))

    def remove(self, name: str) -> None:
        from tests.integration.services.rabbit_queues import Broker

        with contextlib.closing(Broker(self.port)) as broker:
            broker.delete(name)


class RabbitQueue(RabbitStream):
    """Queues of RabbitMQ that are no streams."""

    kind: ClassVar[str] = "classic"
    handed_out_once = True
    exact = False

    def expect(self, name: str) -> None:
        """Declare the queue."""
        from tests.integration.services.rabbit_queues import Broker

        with contextlib.closing(Broker(self.port)) as broker:
            broker.declare(name, self.kind)
            broker.made.clear()  # it outlives this connection


class Mqtt(System):
    """Topics of an MQTT broker, each with a session of its own name, as a source and as a destination."""

    client = "paho.mqtt.client"
    server = "mqtt"
    handed_out_once = True
    exact = False

    def reads(self, name: str) -> str:
        return f"{self.writes(name)}?client={name}"

    def writes(self, name: str) -> str:
        return f"mqtt://127.0.0.1:{self.port}/{name}"

    def send(self, name: str, messages: list[bytes]) -> None:
        from tests.integration.services.mqtt_topics import Publisher

        self.expect(name)
        with contextlib.closing(Publisher(name, self.port)) as publisher:
            publisher.send(messages, named=True)

    def expect(self, name: str) -> None:
        from tests.integration.services.mqtt_topics import subscribe

        subscribe(self.reads(name))

    def held(self, name: str) -> list[Any]:
        from tests.integration.services.mqtt_topics import collected

        return list(collected(self.reads(name)))

    def remove(self, name: str) -> None:
        from tests.integration.services.mqtt_topics import forget

        forget(name, self.port)
