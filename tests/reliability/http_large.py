"""Bodies of a GiB: refused early, or learned in parts, within a limit of memory."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from tests.reliability.harness import Outcome
from tests.reliability.http_server import MIB, Server, received, serving

GIB = 2**30
MOST_MEMORY = 96 * MIB
"""Bytes of memory that a refused request may add: a body of 16 MiB, its copies, and noise of the allocator."""
MOST_FOR_ARROW = 96 * MIB
"""Bytes of memory that a stream of Arrow may add, however long it is; two thirds are records and their copies."""
EARLY = 32 * MIB
"""Bytes within which a refusal comes: a body that is taken as a whole may have 16 MiB, and sockets hold some."""
WIDE = """
[models.wide]
label = "y"
task = "binary"
classes = ["no", "yes"]
column = {{{columns}}}
batch-size = 5000
model = "driftsurf"
learner = "logistic"
set = {{max_rows = 5000}}
"""
COLUMNS = 64


class Flood(NamedTuple):
    """A request that never ends by itself."""

    head: str
    """What comes after the method and address: headers, and the beginning of the body."""
    part: bytes
    """Bytes that are repeated."""
    statuses: tuple[int, ...] = (413,)
    """Statuses that the answer may have; 0 for a connection that is closed without one."""
    address: str = "POST /v1/models/sales/learn"
    chunked: bool = False


def _line(format: str) -> str:
    return f"Content-Type: {format}\r\n"


JSON, LINES = _line("application/json"), _line("application/x-ndjson")
CSV, ARROW = _line("text/csv"), _line("application/vnd.apache.arrow.stream")
ROW = b'{"price": 1, "city": "Rome", "new": true, "day": null, "sold": "yes"}'
FLOODS: dict[str, Flood] = {
    "JSON of an honest length": Flood(f"{JSON}Content-Length: {GIB}\r\n\r\n", b" " * MIB),
    "JSON of a length that lies": Flood(f"{JSON}Content-Length: {10**15}\r\n\r\n", b"[" * MIB),
    "JSON of a shorter length": Flood(f"{JSON}Content-Length: 10\r\n\r\n", b"x" * MIB, (400, 422, 431)),
    "JSON in chunks": Flood(f"{JSON}Transfer-Encoding: chunked\r\n\r\n", b"1" * MIB, chunked=True),
    "predictions in chunks": Flood(
        f"{LINES}Transfer-Encoding: chunked\r\n\r\n", ROW + b"\n", (413, 422), "POST /v1/models/sales/predict", True
    ),
    "lines of a length beyond the limit": Flood(f"{LINES}Content-Length: {2 * GIB}\r\n\r\n", ROW + b"\n"),
    "one line without an end": Flood(f"{LINES}Transfer-Encoding: chunked\r\n\r\n", b"1" * MIB, chunked=True),
    "empty lines": Flood(f"{LINES}Transfer-Encoding: chunked\r\n\r\n", b"\n" * MIB, (413, 422), chunked=True),
    "quotes of CSV": Flood(f"{CSV}Transfer-Encoding: chunked\r\n\r\n", b'"\n' * MIB, (413, 422), chunked=True),
    "one cell of CSV": Flood(f"{CSV}Transfer-Encoding: chunked\r\n\r\n", b"a" * MIB, chunked=True),
    "zeros as Arrow": Flood(f"{ARROW}Transfer-Encoding: chunked\r\n\r\n", bytes(MIB), (413, 422), chunked=True),
    "a message of Arrow without an end": Flood(
        f"{ARROW}Content-Length: {GIB}\r\n\r\n", b"\xff\xff\xff\xff\xff\xff\xff\x7f" * 2**17, (413, 422)
    ),
    "a login": Flood(f"{JSON}Content-Length: {GIB}\r\n\r\n", b" " * MIB, address="POST /v1/login"),
    "a body where none belongs": Flood(f"Content-Length: {GIB}\r\n\r\n", b" " * MIB, (200,), "GET /healthz"),
    "one header": Flood("X-A: ", b"a" * MIB, (431,), "GET /healthz"),
    "many headers": Flood("", b"X-A: aaaaaaaaaaa\r\n" * 2**15, (400, 431), "GET /healthz"),
    "an address": Flood("", b"a" * MIB, (400, 431), "GET /"),
    "a trailer": Flood(f"{JSON}Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\nX-A: ", b"a" * MIB, (431,)),
    "an extension of a chunk": Flood(f"{JSON}Transfer-Encoding: chunked\r\n\r\n2;", b"a" * MIB, (400, 431)),
    "a head after a request for events": Flood(
        "\r\nGET / HTTP/1.1\r\nX-A: ", b"a" * MIB, (200, 431), "GET /v1/models/sales/events"
    ),
}


def large(scale: float, seed: int, size: int | None = None) -> Outcome:
    """Send floods of a GiB; then learn an Arrow stream of that size."""
    outcome = Outcome("bodies of a GiB", seed)
    size = round(GIB * scale) if size is None else size
    with serving() as server:
        for name, flood in FLOODS.items():
            _check_flood(outcome, server, name, flood, size)
        _check_together(outcome, server, size)
    columns = ", ".join(f'x{place} = "number"' for place in range(COLUMNS))
    with serving(models=WIDE.format(columns=columns), learned=0) as server:
        _check_arrow(outcome, server, size, seed)
    return outcome


def _check_flood(outcome: Outcome, server: Server, name: str, flood: Flood, size: int) -> None:
    before = server.forget_peak()
    sent, answer = flooded(server, flood, size)
    status = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0
    grown = server.peak_memory() - before
    outcome.figures["most MiB added"] = max(outcome.figures.get("most MiB added", 0), round(grown / MIB))
    known = {"flood": name, "sent": sent, "status": status, "grown": grown, "answer": answer[:300]}
    known["traces"] = server.tracebacks()
    early = sent <= EARLY or size <= EARLY or 200 in flood.statuses
    good = status in flood.statuses and early and grown < MOST_MEMORY and not known["traces"]
    outcome.check(good and server.alive(), known)
    outcome.count("floods")


def flooded(server: Server, flood: Flood, size: int) -> tuple[int, bytes]:
    """Send a request until there is an answer, or all bytes are sent; return the bytes sent and the answer."""
    connection = server.connect(f"{flood.address} HTTP/1.1\r\nHost: localhost\r\n{flood.head}".encode())
    part = flood.part * max(1, MIB // len(flood.part))
    part = b"%x\r\n%b\r\n" % (len(part), part) if flood.chunked else part
    if flood.address == "GET /":
        connection.close()
        connection = server.connect(b"GET /")
    sent, answer = 0, b""
    endless = 200 in flood.statuses
    connection.setblocking(False)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while sent < size and (endless or not answer):
            reading, writing, _ = select.select([connection], [connection], [], 60)
            if reading:
                data = connection.recv(65536)
                answer += data[: 2**16 - len(answer)]
                if not data:
                    break
            if writing:
                sent += connection.send(part[sent % len(part) :])
            if not reading and not writing:
                break
        if not answer and select.select([connection], [], [], 60)[0]:
            answer = connection.recv(65536)
    connection.close()
    return sent, answer


def _check_together(outcome: Outcome, server: Server, size: int) -> None:
    """Send bodies of 16 MiB less a byte at once, without their end: those beyond 256 MiB are refused."""
    body = b" " * (min(size, 16 * MIB) - 1)
    head = f"POST /v1/models/sales/learn HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: {len(body) + 1}\r\n\r\n"
    count, before = 24, server.forget_peak()
    limit = 256 * MIB // (len(body) + 1)
    clients = []
    for _ in range(count):
        client = server.connect(head.encode())
        with contextlib.suppress(OSError):
            client.sendall(body)
        clients.append(client)
    refused = _refused(clients, count - limit)
    grown, small = server.peak_memory() - before, server.ask("GET", "/v1/models/sales")[0]
    for client in clients:
        client.close()
    case = {"together": count, "refused": refused, "grown": grown, "another client": small}
    # The server buffers 64 KiB of each body, and a body that grows is copied once.
    outcome.check(refused >= count - limit and grown < 256 * MIB + MOST_MEMORY and small == 200, case)
    outcome.figures["bodies refused of 24 at once"] = refused


def _refused(clients: Sequence[socket.socket], least: int) -> int:
    """Return how many clients were refused, as soon as there are ``least`` of them, or after a minute."""
    end = time.monotonic() + 60
    while True:
        found = sum(_is_refusal(client) for client in select.select(clients, [], [], 0)[0])
        if found >= least or time.monotonic() > end:
            return found
        time.sleep(0.05)


def _is_refusal(client: socket.socket) -> bool:
    """Return whether an answer says anything but that the rest of the body came too late."""
    try:
        return b" 408" not in client.recv(12, socket.MSG_PEEK)
    except ConnectionResetError:
        return True


def _check_arrow(outcome: Outcome, server: Server, size: int, seed: int) -> None:
    """Learn an Arrow stream; the memory that it adds is measured after the first tenth, when the model is full."""
    rows = round(0.95 * size) // (8 * COLUMNS)  # labels and the heads of batches take the rest
    _learn_arrow(server, min(rows, 60_000), seed)
    before = server.forget_peak()
    status, answer = _learn_arrow(server, rows, seed + 1)
    server.wait_applied("wide")
    grown = server.peak_memory() - before
    outcome.figures |= {"MiB of Arrow learned": rows * 8 * COLUMNS // MIB, "MiB added by Arrow": round(grown / MIB)}
    case = {"rows": rows, "status": status, "answer": answer, "grown": grown, "traces": server.tracebacks()}
    outcome.check(status == 200 and answer.get("count") == rows and grown < MOST_FOR_ARROW, case)
    outcome.check(not case["traces"] and server.alive(), case)


def _learn_arrow(server: Server, rows: int, seed: int) -> tuple[int, dict[str, Any]]:
    """Send a stream of rows in chunks; return status and answer."""
    connection = server.connect(
        f"POST /v1/models/wide/learn HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{ARROW}"
        "Transfer-Encoding: chunked\r\n\r\n".encode()
    )
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for data in _arrow(rows, seed):
            connection.sendall(b"%x\r\n%b\r\n" % (len(data), data))
        connection.sendall(b"0\r\n\r\n")
    head, _, body = received(connection).partition(b"\r\n\r\n")
    return (int(head[9:12]) if head else 0), (json.loads(body) if body else {})


def _arrow(rows: int, seed: int) -> Iterator[bytes]:
    """Yield the messages of a stream of random rows, whose labels a line separates."""
    import pyarrow as pa

    chance = np.random.default_rng(seed)
    names = [f"x{place}" for place in range(COLUMNS)]
    schema = pa.schema([*((name, pa.float64()) for name in names), ("y", pa.string())])
    written: list[bytes] = []
    sink = _Sink(written.append)
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), schema) as stream:
        for start in range(0, rows, 1000):
            values = chance.normal(size=(COLUMNS, min(1000, rows - start)))
            labels = np.where(values[0] > 0, "yes", "no")
            stream.write_batch(pa.record_batch([*(pa.array(one) for one in values), pa.array(labels)], schema=schema))
            yield b"".join(written)
            written.clear()
    yield b"".join(written)


class _Sink:
    """A file that passes on what is written to it."""

    closed = False

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self.take = take

    def write(self, data: bytes) -> int:
        """Take bytes."""
        self.take(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: everything was passed on."""

    def close(self) -> None:
        """Do nothing."""
