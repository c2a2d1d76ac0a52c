"""A served model over HTTP: server CPU of a request, against FastAPI with pydantic around the same model.

``python -m benchmarks serve`` starts both servers as processes on loopback and sends them the same requests. The CPU
time is that of the server alone: ``elsewhere`` adds that of its process and takes away that of this one.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
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

    def wait_ready(self) -> None:
        """Wait until all models of our service have applied their logs."""
        while True:
            connection = self.connect()
            connection.request("GET", "/readyz")
            data = connection.getresponse().read()
            connection.close()
            if b'"ready":true' in data:
                return
            time.sleep(0.01)

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
def ours(folder: Path, program: Sequence[str] = ("-m", "driftsurf")) -> Iterator[Server]:
    """``driftsurf serve`` with a model that has learned 20,000 rows."""
    columns = [part for name in COLUMNS for part in ("--column", f"{name}=number")]
    port = free_port()
    command = [sys.executable, *program, "serve", "--name", "bench", "--label", "y", "--task", "binary"]
    command += ["--model", "driftsurf", "--folder", str(folder), "--port", str(port), *columns]
    server = Server(command, port)
    server.wait_ready()
    try:
        connection = server.connect()
        for part in range(20):
            rows = rows_of(1000, part)
            post(connection, "learn", as_json(rows, np.where(rows[:, 0] > rows[:, 1], "yes", "no").tolist()))
        settle(server)
        yield server
    finally:
        server.close()


def settle(server: Server) -> None:
    """Wait until everything that was sent has been learned."""
    connection = server.connect()
    while json.loads(get(connection, ""))["lag_rows"]:
        time.sleep(0.05)


def _save_same(path: Path) -> None:
    """Save an estimator that has learned the same rows, for the peer."""
    import driftsurf

    model = driftsurf.DriftSurfClassifier()
    for part in range(20):
        rows = rows_of(1000, part)
        model.partial_fit(rows, np.where(rows[:, 0] > rows[:, 1], "yes", "no"), classes=["no", "yes"])
    driftsurf.save(model, path)


def get(connection: http.client.HTTPConnection, what: str) -> bytes:
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
    """Yield the contests: predictions of one row and of many, against FastAPI."""
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
                read_answer(one)
        for one in sockets:
            one.close()

    return Contender(name, turns * CLIENTS, lambda: None, run, elsewhere=lambda: server.cpu() - _cpu_seconds())


def read_answer(connection: socket.socket) -> None:
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


if __name__ == "__main__" and sys.argv[1:2] == ["fastapi"]:
    serve_fastapi(int(sys.argv[2]), sys.argv[3])
if __name__ == "__main__" and sys.argv[1:2] == ["nothing"]:
    serve_nothing(int(sys.argv[2]))
