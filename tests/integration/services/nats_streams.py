"""Streams of NATS as tests make, fill and remove them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

PATIENCE = 300.0
"""Seconds for an answer of the server, also on a machine that does much else."""
UNDER_WAY = 1_000
"""Messages that are sent before the first of them is acknowledged."""


async def _connect(server: str, **options: Any) -> Any:
    import nats

    return await nats.connect(server, allow_reconnect=False, connect_timeout=round(PATIENCE), **options)


def _streams(client: Any) -> Any:
    return client.jetstream(timeout=PATIENCE)


async def create(server: str, name: str, **config: Any) -> None:
    """Make a stream whose messages have its name as their subject, unless the configuration says otherwise."""
    client = await _connect(server)
    await _streams(client).add_stream(name=name, **({"subjects": [name]} | config))
    await client.close()


async def send(server: str, name: str, messages: Sequence[bytes], subject: str | None = None) -> None:
    """Append messages to a stream, which is made if there is none."""
    client = await _connect(server)
    streams = _streams(client)
    if subject is None:
        await streams.add_stream(name=name, subjects=[name])
    acknowledged = list[bytes]()

    async def count(message: Any) -> None:
        acknowledged.append(message.data)

    inbox = client.new_inbox()
    listening = await client.subscribe(inbox, cb=count)
    for place, one in enumerate(messages):
        await client.publish(subject or name, one, reply=inbox)
        while len(acknowledged) < place - UNDER_WAY:
            await client.flush(round(PATIENCE))
    while len(acknowledged) < len(messages):
        await client.flush(round(PATIENCE))
    assert not any(b"error" in one for one in acknowledged)
    await listening.unsubscribe()
    await client.close()


async def held(server: str, name: str) -> list[tuple[bytes, str]]:
    """Return the messages of a stream with the header that numbers rows."""
    from nats.js.api import AckPolicy, ConsumerConfig

    client = await _connect(server)
    streams = _streams(client)
    left = (await streams.stream_info(name)).state.messages
    reader = await streams.pull_subscribe("", stream=name, config=ConsumerConfig(ack_policy=AckPolicy.NONE))
    found = list[tuple[bytes, str]]()
    while len(found) < left:
        came = await reader.fetch(min(1_000, left - len(found)), timeout=PATIENCE)
        found += [(one.data, (one.headers or {}).get("Driftsurf-Row", "")) for one in came]
    await reader.unsubscribe()
    await client.close()
    return found


async def purge(server: str, name: str, **options: Any) -> None:
    """Remove messages of a stream."""
    client = await _connect(server)
    await _streams(client).purge_stream(name, **options)
    await client.close()


async def remove(server: str, name: str) -> None:
    """Remove a stream, if it is there."""
    from nats.js.errors import NotFoundError

    client = await _connect(server)
    try:
        await _streams(client).delete_stream(name)
    except NotFoundError:
        pass
    finally:
        await client.close()
