"""Redis Streams as a source and as a destination."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.services.servers import require

from driftsurf.checks import SeekableCase, WriterCase, check_seekable, check_writer
from driftsurf.checks.connectors import COLUMNS


@pytest.fixture
def client(unique: str) -> Iterator[Any]:
    """A client of the server, which removes the stream of the test."""
    redis = pytest.importorskip("redis")
    require("redis")
    client = redis.Redis()
    yield client
    client.delete(unique)
    client.close()


def test_the_reader_conforms(client: Any, unique: str) -> None:
    from driftsurf.connectors.redis import RedisStream

    def send(messages: Any) -> None:
        for one in messages:
            client.xadd(unique, {"value": one})

    def forget(count: int) -> None:
        client.xtrim(unique, maxlen=client.xlen(unique) - count, approximate=False)

    check_seekable(SeekableCase(lambda: RedisStream(f"redis://localhost/0/{unique}"), send, forget))


def test_the_writer_conforms(client: Any, unique: str) -> None:
    from driftsurf.connectors.redis import RedisWriter

    def held() -> list[dict[str, Any]]:
        return [json.loads(fields[b"value"]) for _, fields in client.xrange(unique)]

    check_writer(WriterCase(lambda: RedisWriter(f"redis://localhost/0/{unique}", COLUMNS), held))
