"""A served model over HTTP: server CPU of a request, against FastAPI with pydantic around the same model.

``python -m benchmarks serve`` starts both servers as processes on loopback and sends them the same requests. The CPU
time is that of the server alone: ``elsewhere`` adds that of its process and takes away that of this one.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contender, Contest, _cpu_seconds

COLUMNS = [f"x{i}" for i in range(10)]
ARROW = "application/vnd.apache.arrow.stream"
OURS, FASTAPI, NOTHING = "driftsurf serve", "FastAPI + pydantic", "uvicorn + nothing"


def rows_of(count: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.random.default_rng(seed).random((count, len(COLUMNS))).round(3)


def as_json(rows: Any, labels: Any = None) -> bytes:
    records = [dict(zip(COLUMNS, row, strict=True)) for row in rows.tolist()]
    if labels is not None:
        records = [record | {"y": label} for record, label in zip(records, labels, strict=True)]
    return json.dumps({"rows": records}).encode()


def as_arrow(rows: Any) -> bytes:
    import pyarrow as pa

    batch = pa.record_batch({name: rows[:, place] for place, name in enumerate(COLUMNS)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


# ---------------------------------------------------------------------------- servers


def serve_fastapi(port: int, path: str) -> None:
    """Serve the saved model with FastAPI and pydantic, as its documentation shows."""
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel, create_model

    import driftsurf

    model: Any = driftsurf.load(path)
    fields: Any = dict.fromkeys(COLUMNS, (float, ...))
    row: Any = create_model("Row", **fields)
    body: Any = create_model("Body", rows=(list[row], ...))
    answer: Any = create_model("Answer", predictions=(list[str], ...), probabilities=(list[float], ...))
    assert issubclass(body, BaseModel)
    app = FastAPI()

    def predict(asked: Any) -> Any:
        X = np.array([[getattr(one, name) for name in COLUMNS] for one in asked.rows])
        shares = model.predict_proba(X)
        return answer(
            predictions=[str(label) for label in model.classes_[shares.argmax(axis=1)]],
            probabilities=shares.max(axis=1).tolist(),
        )

    async def endpoint(asked: Any) -> Any:
        return predict(asked)

    endpoint.__annotations__ = {"asked": body, "return": answer}
    app.post("/v1/models/bench/predict", response_model=answer)(endpoint)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", http="httptools", access_log=False)


def serve_nothing(port: int) -> None:
    """Serve an application that reads the body and answers with as many bytes as a model: the share of uvicorn."""
    import uvicorn

    body = b'{"model":"bench","version":220,"predictions":["yes"],"probabilities":[0.5123456789012345]}'
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", http="httptools", access_log=False, lifespan="off")


class Server:
    """A server process on loopback."""

    def __init__(self, command: list[str], port: int) -> None:
        self.port = port
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait()

    def wait(self) -> float:
        """Wait until the server answers; return the seconds that took."""
        began = time.monotonic()
        while time.monotonic() < began + 120:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return time.monotonic() - began
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise RuntimeError(f"the server has ended or does not listen: {self.process.poll()}")

    def cpu(self) -> float:
        """Return the CPU seconds of the process so far."""
        return time.clock_gettime((~self.process.pid << 3) | 2)  # the CPU clock of another process on Linux

    def connect(self) -> http.client.HTTPConnection:
        """Return a new connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def close(self) -> None:
        """End the server."""
        self.process.terminate()
        self.process.wait(60)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def post(connection: http.client.HTTPConnection, what: str, body: bytes, media: str = "application/json") -> bytes:
    connection.request("POST", f"/v1/models/bench/{what}", body, {"content-type": media})
    answer = connection.getresponse()
    data = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {data[:300]!r}")
    return data


@contextlib.contextmanager
def ours(folder: Path) -> Iterator[Server]:
    """``driftsurf serve`` with a model that has learned 20,000 rows."""
    columns = [part for name in COLUMNS for part in ("--column", f"{name}=number")]
    port = free_port()
    command = [sys.executable, "-m", "driftsurf", "serve", "--model", "bench", "--label", "y", "--task", "binary"]
    command += ["--strategy", "driftsurf", "--folder", str(folder), "--port", str(port), *columns]
    server = Server(command, port)
    try:
        connection = server.connect()
        for part in range(20):
            rows = rows_of(1000, part)
            post(connection, "learn", as_json(rows, np.where(rows[:, 0] > rows[:, 1], "yes", "no").tolist()))
        while json.loads(_get(connection, ""))["lag_rows"]:
            time.sleep(0.05)
        yield server
    finally:
        server.close()


def _save_same(path: Path) -> None:
    """Save an estimator that has learned the same rows, for the peer."""
    import driftsurf

    model = driftsurf.DriftSurfClassifier()
    for part in range(20):
        rows = rows_of(1000, part)
        model.partial_fit(rows, np.where(rows[:, 0] > rows[:, 1], "yes", "no"), classes=["no", "yes"])
    driftsurf.save(model, path)


def _get(connection: http.client.HTTPConnection, what: str) -> bytes:
    connection.request("GET", f"/v1/models/bench{what}")
    return connection.getresponse().read()


@contextlib.contextmanager
def peer(kind: str, *arguments: str) -> Iterator[Server]:
    """Another server of this file."""
    port = free_port()
    server = Server([sys.executable, "-m", "benchmarks.serve", kind, str(port), *arguments], port)
    try:
        yield server
    finally:
        server.close()


# ---------------------------------------------------------------------------- contests


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield the contests: predictions of one row and of many, against FastAPI, and while the model learns."""
    times = 50 if quick else 2000
    with tempfile.TemporaryDirectory() as folder, ours(Path(folder)) as server:
        state = Path(folder) / "bench.state"
        _save_same(state)
        with contextlib.ExitStack() as stack:
            servers = {OURS: server, NOTHING: stack.enter_context(peer("nothing"))}
            if find_spec("fastapi"):
                servers[FASTAPI] = stack.enter_context(peer("fastapi", str(state)))
            for count in (1, 100, 1000):
                body = as_json(rows_of(count))
                repeats = max(5, times // (1 if count == 1 else 4 if count == 100 else 20))
                asked = servers if count == 1 else {name: one for name, one in servers.items() if name != NOTHING}
                sent = [_sending(name, one, body, repeats) for name, one in asked.items()]
                if count == 1000:
                    sent.append(_sending("driftsurf serve, Arrow", server, as_arrow(rows_of(count)), repeats, ARROW))
                yield Contest(
                    f"predict {count:,} rows of 10 columns: server CPU",
                    "request",
                    FASTAPI if FASTAPI in servers else OURS,
                    sent,
                )
        note(_while_learning(server, 200 if quick else 3000))
        note(_durable(server, Path(folder), 0.5 if quick else 4.0))
        note(_readers(server, 50 if quick else 1000, 2.0 if quick else 10.0))


CLIENTS = 16
"""Connections at a time, so that the server is as warm as one that is in use."""


def _sending(name: str, server: Server, body: bytes, repeats: int, media: str = "application/json") -> Contender:
    head = f"POST /v1/models/bench/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media}\r\n"
    request = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
    turns = max(1, repeats // CLIENTS)

    def run(_: None) -> None:
        sockets = [socket.create_connection(("127.0.0.1", server.port), 60) for _ in range(CLIENTS)]
        for _turn in range(turns):
            for one in sockets:
                one.sendall(request)
            for one in sockets:
                _answer(one)
        for one in sockets:
            one.close()

    return Contender(name, turns * CLIENTS, lambda: None, run, elsewhere=lambda: server.cpu() - _cpu_seconds())


def _answer(connection: socket.socket) -> None:
    """Read one answer; RuntimeError unless it is a success."""
    data = connection.recv(1 << 20)
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 20)
    head, _, rest = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(repr(data[:300]))
    left = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]) - len(rest)
    while left > 0:
        left -= len(connection.recv(1 << 20))


def _latencies(server: Server, count: int) -> list[float]:
    connection, body, found = server.connect(), as_json(rows_of(1)), []
    for _ in range(count):
        began = time.perf_counter()
        post(connection, "predict", body)
        found.append(time.perf_counter() - began)
    return sorted(found)


def _while_learning(server: Server, count: int) -> str:
    """Return the latency of predictions alone and beside a client that learns as fast as it can, interleaved."""
    rows = rows_of(1000)
    body = as_json(rows, np.where(rows[:, 0] > 0.5, "yes", "no").tolist())
    alone, beside = list[float](), list[float]()
    for _ in range(3):
        alone += _latencies(server, count // 3)
        ended = threading.Event()

        def learn(ended: threading.Event = ended) -> None:
            connection = server.connect()
            while not ended.is_set():
                post(connection, "learn", body)

        learner = threading.Thread(target=learn)
        learner.start()
        beside += _latencies(server, count // 3)
        ended.set()
        learner.join()
    text = [f"p50 {_quantile(one, 0.5):.2f} ms, p99 {_quantile(one, 0.99):.2f} ms" for one in (alone, beside)]
    return f"Latency of one row, with a client in this process: alone {text[0]}; while learning {text[1]}."


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return 1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _durable(server: Server, folder: Path, seconds: float) -> str:
    """Return learns of one row a second from 64 clients, and what one fdatasync for each would allow."""
    body = as_json(rows_of(1), ["yes"])
    counts, latencies, ended = [0] * 64, list[float](), threading.Event()

    def client(place: int) -> None:
        connection = server.connect()
        while not ended.is_set():
            began = time.perf_counter()
            post(connection, "learn", body)
            latencies.append(time.perf_counter() - began)
            counts[place] += 1

    threads = [threading.Thread(target=client, args=[place]) for place in range(64)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    ended.set()
    for thread in threads:
        thread.join()
    rate = sum(counts) / (time.perf_counter() - began)
    syncs = _sync_seconds(folder)
    return (
        f"Durable learns of one row from 64 clients: {rate:,.0f} a second, p50 {_quantile(latencies, 0.5):.1f} ms. One "
        f"fdatasync takes {1e3 * syncs:.2f} ms here, so one a request allows {1 / syncs:,.0f} a second: "
        f"{rate * syncs:.1f} times that."
    )


def _sync_seconds(folder: Path) -> float:
    """Return the median time of a write of 200 bytes with fdatasync."""
    found = []
    with (folder / "sync").open("wb") as file:
        for _ in range(50):
            began = time.perf_counter()
            file.write(b"x" * 200)
            file.flush()
            os.fdatasync(file.fileno())
            found.append(time.perf_counter() - began)
    return statistics.median(found)


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


if __name__ == "__main__" and sys.argv[1:2] == ["fastapi"]:
    serve_fastapi(int(sys.argv[2]), sys.argv[3])
if __name__ == "__main__" and sys.argv[1:2] == ["nothing"]:
    serve_nothing(int(sys.argv[2]))
