"""A real ``driftsurf serve`` process with models that have learned, for the proofs with hostile clients."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.reliability.faults import fast_folder

PATIENCE = 120.0
"""Seconds after which a server that does not answer counts as hanging; the machine may be busy."""
MIB = 2**20
MODELS = """
[models.sales]
label = "sold"
task = "binary"
classes = ["no", "yes"]
batch-size = 50
column = {price = "number", city = "text", new = "boolean", day = "date"}

[models.delays]
label = "late"
task = "regression"
batch-size = 50
column = {x0 = "number", x1 = "number"}

[models.fresh]
label = "label"
"""
"""Models of two classes and of a value, which have learned, and one without columns, which has not."""


def sales_rows(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """Return rows of the model "sales" with their labels."""
    found = []
    for _ in range(count):
        price = round(chance.uniform(0, 100), 2)
        row = {"price": price, "city": chance.choice(("Rome", "Oslo", "Lima")), "new": chance.random() < 0.5}
        found.append(row | {"day": "2026-05-01", "sold": "yes" if price < 50 else "no"})
    return found


@dataclass
class Server:
    """A process that serves models, and a client for it."""

    process: subprocess.Popen[str]
    port: int
    log: Path
    key: str = ""
    seen: int = field(default=0, init=False)
    """Bytes of the log that were looked at."""

    def ask(
        self, method: str, path: str, body: bytes | str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Send one request and return status, headers and body of its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        own = {"authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            connection.request(method, path, body, own | dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def json(self, path: str, value: Any = None) -> Any:
        """Send and return JSON; an answer that is a problem is an error."""
        method, body = ("GET", None) if value is None else ("POST", json.dumps(value))
        status, _, data = self.ask(method, path, body, {"content-type": "application/json"})
        if status != 200:
            raise RuntimeError(f"{path}: {status} {data[:300]!r}")
        return json.loads(data)

    def connect(self, data: bytes = b"", *, small: bool = False) -> socket.socket:
        """Return a connection on which bytes were sent; with ``small``, few bytes can wait until they are read."""
        connection = socket.socket()
        if small:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", self.port))
        connection.sendall(data)
        return connection

    def raw(self, data: bytes) -> bytes:
        """Send bytes and return everything until the server closes the connection."""
        connection = self.connect()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # an answer may have been sent before
            connection.sendall(data)
        return received(connection)

    def wait_applied(self, model: str) -> dict[str, Any]:
        """Return the state of a model as soon as it has learned everything."""
        end = time.monotonic() + PATIENCE
        while (found := self.json(f"/v1/models/{model}"))["applied"] < found["logged"]:
            if time.monotonic() > end:
                raise RuntimeError(f"{model} does not learn: {found}")
            time.sleep(0.05)
        return dict(found)

    def alive(self) -> bool:
        """Return whether the process runs, answers, and all of its models are ready."""
        try:
            return self.process.poll() is None and self.ask("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def memory(self) -> int:
        """Return the bytes of resident memory."""
        return self._status("VmRSS")

    def peak_memory(self) -> int:
        """Return the most bytes of resident memory since :meth:`forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> int:
        """Measure the peak of the memory from now on; return the memory now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self.memory()

    def _status(self, name: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name}:"))

    def connections(self) -> int:
        """Return the number of open connections, without the one that asks."""
        text = self.ask("GET", "/metrics")[2].decode()
        line = next(line for line in text.splitlines() if line.startswith("driftsurf_connections"))
        return round(float(line.split()[-1])) - 1

    def tracebacks(self) -> list[str]:
        """Return the tracebacks in the log since the last call."""
        text = self.log.read_text(errors="replace")[self.seen :]
        self.seen += len(text)
        return [part[:3000] for part in text.split("Traceback")[1:]]


def received(connection: socket.socket) -> bytes:
    """Return everything until the server closes the connection."""
    data = bytearray()
    try:
        while part := connection.recv(65536):
            data += part
    except ConnectionResetError:
        pass
    connection.close()
    return bytes(data)


@contextmanager
def serving(settings: str = "", models: str = MODELS, learned: int = 200, key: str = "") -> Iterator[Server]:
    """Context with a server; ``settings`` are lines of TOML before the models, and ``key`` is that of an admin."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as place:
        folder = Path(place)
        (folder / "serve.toml").write_text(f'port = 0\nfolder = "models"\n{settings}\n{models}')
        # As many arenas as threads would make the memory of the process a matter of chance.
        environment = {**os.environ, "MALLOC_ARENA_MAX": "2"}
        with (folder / "log").open("w") as log:
            command = [sys.executable, "-m", "driftsurf", "serve", "serve.toml"]
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if " at http://" not in line:
                raise RuntimeError(f"the service does not start: {(folder / 'log').read_text()}")
            server = Server(process, int(line.rpartition(":")[2]), folder / "log", key)
            if learned:
                _teach(server, learned)
            yield server
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _teach(server: Server, count: int) -> None:
    """Let the models learn rows."""
    chance = random.Random(0)
    rows = sales_rows(chance, count)
    server.json("/v1/models/sales/learn", {"rows": rows})
    points = [{"x0": chance.gauss(0, 1), "x1": chance.gauss(0, 1)} for _ in range(count)]
    server.json("/v1/models/delays/learn", {"rows": [one | {"late": one["x0"] * 2} for one in points]})
    for model in ("sales", "delays"):
        server.wait_applied(model)
