"""Hundreds of slow clients at once: all are closed in time, and other clients are served meanwhile."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import statistics
import threading
import time
from collections.abc import Callable

from tests.reliability.harness import Outcome
from tests.reliability.http_server import MIB, Server, sales_rows, serving

AT_ONCE = 300
DRIP_SECONDS = 0.5
"""How often a slow client sends, or reads, one more byte."""
SLACK_SECONDS = 30.0
"""Seconds beyond its deadline within which a client must be closed, on a machine that may be busy."""
MOST_MEMORY = 64 * MIB
"""Bytes of memory that slow clients may add, beside answers that they have not read."""
FLIGHT = 128 * MIB
"""Limit of the answers in memory."""
STORED = 60_000
"""Rows that a model stores, so that its state is an answer of several MiB, which no socket holds."""

Begin = Callable[[Server, int], socket.socket]


def _head(server: Server, number: int) -> socket.socket:
    return server.connect(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: a")


def _body(server: Server, number: int) -> socket.socket:
    kinds = (b"predict", b"learn", b"label")
    formats = (b"application/json", b"text/csv", b"application/x-ndjson", b"application/vnd.apache.arrow.stream")
    length = b"Content-Length: 100000" if number % 3 else b"Transfer-Encoding: chunked"
    return server.connect(
        b"POST /v1/models/sales/%b HTTP/1.1\r\nHost: localhost\r\nContent-Type: %b\r\n%b\r\n\r\n%b"
        % (kinds[number % 3], formats[number % 4], length, b"" if number % 3 else b"10000\r\n")
    )


def _reader(server: Server, number: int) -> socket.socket:
    return server.connect(b"GET /v1/models/delays/state HTTP/1.1\r\nHost: localhost\r\n\r\n", small=True)


def slow(
    scale: float,
    seed: int,
    count: int | None = None,
    seconds: tuple[float, float] = (5.0, 30.0),
    most_latency: float = 2.0,
    stored: int = STORED,
) -> Outcome:
    """Let slow heads, slow bodies and slow readers come, each kind at once."""
    outcome = Outcome("slow clients", seed)
    count = max(5, round(AT_ONCE * scale)) if count is None else count
    head, body = seconds
    idle = max(1, min(5, round(body)))
    limits = {"head-seconds": head, "request-seconds": body, "idle-seconds": idle, "flight-bytes": FLIGHT}
    settings = "\n".join(["[limits]", *(f"{name} = {value}" for name, value in limits.items())])
    with serving(settings) as server:
        _store(server, stored)
        answer = len(server.ask("GET", "/v1/models/delays/state")[2])
        outcome.figures["MiB of the answer"] = round(answer / MIB, 1)
        usual = _latency(server, lambda: False, 50)
        outcome.figures["usual ms"] = round(1000 * usual[0], 1)
        # A reader may take a second more for each MiB, and its connection may be idle afterwards.
        kinds: dict[str, tuple[Begin, float, int]] = {
            "heads": (_head, head, MOST_MEMORY),
            "bodies": (_body, body + 1, MOST_MEMORY),
            "readers": (_reader, 2 * body + answer / MIB + idle, MOST_MEMORY + FLIGHT + 4 * answer),
        }
        for name, (begin, deadline, memory) in kinds.items():
            _check(outcome, server, name, begin, count, deadline, memory, most_latency)
    return outcome


def _store(server: Server, rows: int) -> None:
    chance = random.Random(0)
    for _ in range(0, rows, 10_000):
        points = [{"x0": chance.gauss(0, 1), "x1": chance.gauss(0, 1)} for _ in range(min(rows, 10_000))]
        server.json("/v1/models/delays/learn", {"rows": [one | {"late": one["x0"]} for one in points]})
    server.wait_applied("delays")


def _check(
    outcome: Outcome,
    server: Server,
    name: str,
    begin: Begin,
    count: int,
    deadline: float,
    memory: int,
    most_latency: float,
) -> None:
    """Let slow clients of one kind come; another client measures how long it waits for its answers."""
    before, closed = server.forget_peak(), list[float]()
    ended = threading.Event()

    def drip() -> None:
        started = {begin(server, number): time.monotonic() for number in range(count)}
        for one in started:
            one.setblocking(False)
        while started and time.monotonic() < max(started.values()) + deadline + SLACK_SECONDS:
            time.sleep(DRIP_SECONDS)
            # Whoever reads slowly does not notice that the connection is closed, because the kernel still has bytes.
            gone = name == "readers" and server.connections() <= 1  # that of the other client
            for one, since in list(started.items()):
                if _is_closed(one, reading=name == "readers") or gone:
                    closed.append(time.monotonic() - since)
                    one.close()
                    del started[one]
        for one in started:
            one.close()
        ended.set()

    clients = threading.Thread(target=drip)
    clients.start()
    median, worst = _latency(server, lambda: not ended.is_set())
    clients.join()
    grown = server.peak_memory() - before
    outcome.figures |= {
        f"{name} closed": len(closed),
        f"{name}: last after s": round(max(closed, default=0), 1),
        f"{name}: median ms": round(1000 * median, 1),
        f"{name}: p99 ms": round(1000 * worst, 1),
        f"{name}: MiB added": round(grown / MIB),
    }
    case = {"kind": name, "closed": len(closed), "median": median, "p99": worst, "grown": grown}
    case |= {"traces": server.tracebacks(), "left": server.connections()}
    good = len(closed) == count and worst < most_latency and grown < memory
    outcome.check(good and not case["traces"] and case["left"] == 0 and server.alive(), case)


def _is_closed(connection: socket.socket, *, reading: bool) -> bool:
    """Send or read a byte; return whether the server has closed the connection."""
    try:
        if reading:
            return connection.recv(1) == b""
        with contextlib.suppress(BlockingIOError):
            if connection.recv(65536) == b"":
                return True
        connection.send(b"a")
    except BlockingIOError:
        return False
    except OSError:
        return True
    return False


def _latency(server: Server, going_on: Callable[[], bool], least: int = 20) -> tuple[float, float]:
    """Return the median and the 99th percentile of the seconds of a request by another client."""
    body = json.dumps({"rows": sales_rows(random.Random(1), 1)})
    found = list[float]()
    while going_on() or len(found) < least:
        began = time.monotonic()
        status, _, data = server.ask("POST", "/v1/models/sales/predict", body)
        if status != 200:
            raise RuntimeError(f"another client gets {status}: {data[:200]!r}")
        found.append(time.monotonic() - began)
        time.sleep(0.02)
    return statistics.median(found), statistics.quantiles(found, n=100)[98]
