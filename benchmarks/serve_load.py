"""``driftsurf serve`` under load: predictions beside learning, durable learning, readers of events, and restarts.

Each suite adds notes to its report and has no contenders; FastAPI has nothing of this.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contest
from benchmarks.serve import (
    ARROW,
    COLUMNS,
    Server,
    as_json,
    free_port,
    get,
    ours,
    peer,
    post,
    read_answer,
    rows_of,
    settle,
)
from driftsurf.core.disk import Disk, using

CLIENTS = 64
ROUNDS = 3
"""How often phases with and without learning alternate."""
SLOW_SECONDS = 0.004
"""What an fdatasync of a common solid-state drive takes; that of a virtual disk with a cache may take a twentieth."""
CONFIG = """
port = {port}
folder = "{folder}"

[keeping]
checkpoint-seconds = 3600.0

[models.bench]
label = "y"
task = "binary"
model = "driftsurf"
column = {{ {columns} }}
"""


def learning(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Note the latency of predictions beside learning, and how many single rows become durable in a second."""
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder)) as server:
        note(_while_learning(server, 200 if quick else 3000))
        note(_durable(server, Path(folder), 0.5 if quick else 4.0))
    program = "-m", "benchmarks.serve_load", "slow-disk", str(SLOW_SECONDS)
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder), program) as server:
        note(_durable(server, Path(folder), 0.5 if quick else 4.0, SLOW_SECONDS))
    yield from ()


def events(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Note the share of a core that readers of event streams take."""
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder)) as server:
        note(_readers(server, 50 if quick else 1000, 2.0 if quick else 10.0))
    yield from ()


def restart(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Note how long a service takes to be ready after kill -9, and a checkpoint with many waiting rows."""
    with tempfile.TemporaryDirectory() as folder:
        note(_after_kill(Path(folder), 5 if quick else 50))
    with tempfile.TemporaryDirectory() as folder:
        note(_checkpoint(Path(folder), 5 if quick else 100))
    yield from ()


# ---------------------------------------------------------------------------- beside learning


def _latencies(server: Server, count: int) -> list[float]:
    connection, body, found = server.connect(), as_json(rows_of(1)), []
    for _ in range(count):
        began = time.perf_counter()
        post(connection, "predict", body)
        found.append(time.perf_counter() - began)
    return sorted(found)


def learn_for_ever(port: int) -> None:
    """Send batches of 1,000 rows one after the other, until the process is ended."""
    rows = rows_of(1000)
    body = as_json(rows, np.where(rows[:, 0] > 0.5, "yes", "no").tolist())
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while True:
        post(connection, "learn", body)


def _while_learning(server: Server, count: int) -> str:
    """Return the latency of predictions alone and beside a client that learns as fast as it can, interleaved.

    A server that does nothing, asked beside the same client, tells what of it is the share of the machine: three
    processes want its processors.
    """
    alone, beside, nothing = list[float](), list[float](), list[float]()
    with peer("nothing") as other:
        for _ in range(ROUNDS):
            settle(server)
            alone += _latencies(server, count // ROUNDS)
            with subprocess.Popen([sys.executable, "-m", "benchmarks.serve_load", "learn", str(server.port)]) as client:
                _wait_for_rows(server)
                beside += _latencies(server, count // ROUNDS)
                nothing += _latencies(other, count // ROUNDS)
                client.kill()
    text = [
        f"p50 {_quantile(one, 0.5):.2f} ms, p90 {_quantile(one, 0.9):.2f} ms, p99 {_quantile(one, 0.99):.2f} ms"
        for one in (alone, beside, nothing)
    ]
    ratio = _quantile(beside, 0.99) / _quantile(alone, 0.99)
    return (
        f"Latency of one row: alone {text[0]}; while another process learns {text[1]}: {ratio:.1f} times the p99. "
        f"Meanwhile a server that does nothing takes {text[2]}."
    )


def _wait_for_rows(server: Server) -> None:
    """Wait until the client has begun to learn."""
    connection = server.connect()
    before = get(connection, "")
    while get(connection, "") == before:
        time.sleep(0.05)
    time.sleep(0.3)


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return 1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# ---------------------------------------------------------------------------- durable rows


class SlowDisk(Disk):
    """A disk whose flushes of content take a time at least, as those of a storage device of this speed."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def sync_data(self, handle: int) -> None:
        """Flush, and wait for the rest of the time."""
        began = time.monotonic()
        super().sync_data(handle)
        time.sleep(max(0.0, began + self.seconds - time.monotonic()))


def run_with_slow_disk(seconds: float, arguments: list[str]) -> None:
    """Run the command line on a disk of this speed."""
    from driftsurf.cli import main

    sys.argv = ["driftsurf", *arguments]
    with using(SlowDisk(seconds)):
        main()


def _durable(server: Server, folder: Path, seconds: float, least: float = 0.0) -> str:
    """Return learns of one row a second from 64 clients, and what one fdatasync for each would allow.

    ``least`` are the seconds that each fdatasync of the server takes at least.
    """
    body = as_json(rows_of(1), ["yes"])
    head = f"POST /v1/models/bench/learn HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    request, latencies, sent = head.encode() + body, list[float](), dict[socket.socket, float]()
    syncs = _sync_seconds(folder)
    with selectors.DefaultSelector() as ready:
        for _ in range(CLIENTS):
            one = socket.create_connection(("127.0.0.1", server.port), 60)
            ready.register(one, selectors.EVENT_READ)
            one.sendall(request)
            sent[one] = time.perf_counter()
        began, cpu = time.perf_counter(), server.cpu()
        while (now := time.perf_counter()) < began + seconds:
            for key, _ in ready.select(1.0):
                known: Any = key.fileobj
                read_answer(known)
                latencies.append(time.perf_counter() - sent[known])
                sent[known] = time.perf_counter()
                known.sendall(request)
        each = (server.cpu() - cpu) / max(1, len(latencies))
        for one in sent:
            read_answer(one)
            one.close()
    rate, middle = len(latencies) / (now - began), _quantile(latencies, 0.5)
    sync = max(least, statistics.median([*syncs, *_sync_seconds(folder)]))
    where = f"is made to last {1e3 * sync:.1f} ms" if least else f"takes {1e3 * sync:.2f} ms here"
    return (
        f"Durable learns of one row from {CLIENTS} clients: {rate:,.0f} a second, p50 {middle:.1f} ms, "
        f"{1e6 * each:.0f} us of server CPU each. One fdatasync {where}, so one a request "
        f"allows {1 / sync:,.0f} a second: {rate * sync:.1f} times that; p50 is {middle / 1e3 / sync:.1f} syncs."
    )


def _sync_seconds(folder: Path) -> list[float]:
    """Return the times of writes of 200 bytes with fdatasync."""
    found = []
    with (folder / "sync").open("wb") as file:
        for _ in range(50):
            began = time.perf_counter()
            file.write(b"x" * 200)
            file.flush()
            os.fdatasync(file.fileno())
            found.append(time.perf_counter() - began)
    return found


# ---------------------------------------------------------------------------- events


def _readers(server: Server, count: int, seconds: float) -> str:
    """Return the share of a core that readers of event streams take, at one frame a second each."""
    request = b"GET /v1/models/bench/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    sockets = []
    for _ in range(count):
        one = socket.create_connection(("127.0.0.1", server.port), 30)
        one.sendall(request)
        sockets.append(one)
    ended, frames = threading.Event(), [0]

    def drain() -> None:
        while not ended.is_set():
            for one in sockets:
                one.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    frames[0] += one.recv(65536).count(b"event: frame")
            ended.wait(0.5)

    reader = threading.Thread(target=drain)
    reader.start()
    time.sleep(10.0)  # until all have their history
    before, began, already = server.cpu(), time.monotonic(), frames[0]
    time.sleep(seconds)
    passed = time.monotonic() - began
    share, rate = (server.cpu() - before) / passed, (frames[0] - already) / passed
    ended.set()
    reader.join()
    for one in sockets:
        one.close()
    return f"{count:,} readers of events, {rate:,.0f} frames a second in all: {share:.1%} of a core."


# ---------------------------------------------------------------------------- restarts


def _labelled_arrow(count: int, seed: int) -> bytes:
    import pyarrow as pa

    rows = rows_of(count, seed)
    columns: dict[str, Any] = {name: rows[:, place] for place, name in enumerate(COLUMNS)}
    batch = pa.record_batch(columns | {"y": np.where(rows[:, 0] > rows[:, 1], "yes", "no").tolist()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def _after_kill(folder: Path, batches: int) -> str:
    """Return how long a service takes to be ready after kill -9, with a log that no checkpoint covers."""
    port, file = free_port(), folder / "serve.toml"
    columns = ", ".join(f'{name} = "number"' for name in COLUMNS)
    file.write_text(CONFIG.format(port=port, folder=folder / "models", columns=columns), encoding="utf-8")
    command = [sys.executable, "-m", "driftsurf", "serve", str(file)]
    server = Server(command, port)
    server.wait_ready()
    connection = server.connect()
    for part in range(batches):
        post(connection, "learn", _labelled_arrow(10_000, part), ARROW)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(60)
    began = time.monotonic()
    again = Server(command, port)
    listening = time.monotonic() - began
    again.wait_ready()
    ready = time.monotonic() - began
    again.close()
    rows = batches * 10_000
    return (
        f"After kill -9 with {rows:,} rows behind the last checkpoint: listens after {listening:.1f} s, ready after "
        f"{ready:.1f} s; the goal is {3 + rows / 1e6:.1f} s."
    )


def _checkpoint(folder: Path, batches: int) -> str:
    """Return what checkpoints take while 1,000 rows of each batch wait for their labels."""
    from driftsurf.data.tables import Column, Table
    from driftsurf.service.model import open_model
    from driftsurf.service.settings import Keeping, ModelSettings

    settings = ModelSettings(label="y", task="binary", model="driftsurf", columns=dict.fromkeys(COLUMNS, "number"))
    model = open_model(folder / "bench", settings, Keeping(checkpoint_seconds=3600.0))
    model.wait_ready()
    found = list[tuple[float, float]]()
    try:
        for part in range(batches + 6):
            rows = rows_of(1000, part)
            table = Table({name: Column("number", rows[:, place]) for place, name in enumerate(COLUMNS)})
            if part < batches:
                model.predict(table, [f"{part}-{row}" for row in range(1000)])
                continue
            labels = np.where(rows[:, 0] > rows[:, 1], "yes", "no").tolist()
            model.learn(table, labels).result()
            while model.status().lag_rows or not model.snapshot.version:
                time.sleep(0.05)
            time.sleep(0.2)  # the thread that learns waits for records now, so that this one may save
            cpu, began = time.thread_time(), time.perf_counter()
            model._follower.checkpoint()
            found.append((time.thread_time() - cpu, time.perf_counter() - began))
    finally:
        model.close()
    (cpu, wall), waiting = (statistics.median(one) for one in zip(*found[1:], strict=True)), batches * 1000
    return f"Checkpoint with {waiting:,} waiting rows: {1e3 * cpu:.1f} ms of CPU, {1e3 * wall:.1f} ms with its flushes."


if __name__ == "__main__" and sys.argv[1:2] == ["learn"]:
    learn_for_ever(int(sys.argv[2]))
if __name__ == "__main__" and sys.argv[1:2] == ["slow-disk"]:
    run_with_slow_disk(float(sys.argv[2]), sys.argv[3:])
