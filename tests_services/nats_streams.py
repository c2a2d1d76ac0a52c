"""Streams of NATS as tests make, fill and remove them, and a server of their own that can be killed."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest


async def _connect(server: str, **options: Any) -> Any:
    import nats

    return await nats.connect(server, allow_reconnect=False, **options)


async def create(server: str, name: str, **config: Any) -> None:
    """Make a stream whose messages have its name as their subject, unless the configuration says otherwise."""
    client = await _connect(server)
    await client.jetstream().add_stream(name=name, **({"subjects": [name]} | config))
    await client.close()


async def send(server: str, name: str, messages: Sequence[bytes], subject: str | None = None) -> None:
    """Append messages to a stream, which is made if there is none."""
    client = await _connect(server)
    streams = client.jetstream()
    if subject is None:
        await streams.add_stream(name=name, subjects=[name])
    acknowledged = list[bytes]()

    async def count(message: Any) -> None:
        acknowledged.append(message.data)

    inbox = client.new_inbox()
    listening = await client.subscribe(inbox, cb=count)
    for one in messages:
        await client.publish(subject or name, one, reply=inbox)
    await client.flush()
    while len(acknowledged) < len(messages):
        await client.flush()
    assert not any(b"error" in one for one in acknowledged)
    await listening.unsubscribe()
    await client.close()


async def held(server: str, name: str) -> list[tuple[bytes, str]]:
    """Return the messages of a stream with the header that numbers rows."""
    from nats.js.api import AckPolicy, ConsumerConfig

    client = await _connect(server)
    streams = client.jetstream()
    left = (await streams.stream_info(name)).state.messages
    reader = await streams.pull_subscribe("", stream=name, config=ConsumerConfig(ack_policy=AckPolicy.NONE))
    found = list[tuple[bytes, str]]()
    while len(found) < left:
        found += [(one.data, (one.headers or {}).get("Driftsurf-Row", "")) for one in await reader.fetch(1_000)]
    await reader.unsubscribe()
    await client.close()
    return found


async def purge(server: str, name: str, **options: Any) -> None:
    """Remove messages of a stream."""
    client = await _connect(server)
    await client.jetstream().purge_stream(name, **options)
    await client.close()


async def remove(server: str, name: str) -> None:
    """Remove a stream, if it is there."""
    from nats.js.errors import NotFoundError

    client = await _connect(server)
    try:
        await client.jetstream().delete_stream(name)
    except NotFoundError:
        pass
    finally:
        await client.close()


class PrivateServer:
    """A server with JetStream on a port of its own, which takes messages of 8 MB and can be killed."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        program = shutil.which("nats-server")
        if program is None:
            pytest.skip("no nats-server is installed")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"
        config = folder / "nats.conf"
        store = str(folder / "store")
        config.write_text(f'jetstream {{ store_dir: "{store}" }}\nmax_payload: 8MB\n{settings}\n')
        self._words = [program, "-a", "127.0.0.1", "-p", str(self.port), "-c", str(config)]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it takes connections."""
        self._process = subprocess.Popen(self._words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("nats-server does not start")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the server, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
