"""Fuzzed requests to a real service: bodies, framing, content types, heads. Each is answered, and never with a 5xx."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import random
import socket
import struct
import zlib
from collections.abc import Callable
from typing import Any

from tests.reliability.harness import Outcome
from tests.reliability.http_server import Server, sales_rows, serving
from tests.reliability.rows import CELLS, STRUCTURE

TRIALS = 200_000
LOOK_EVERY = 500
"""Trials after which the process, its models and its log are looked at."""
TOKENS = (
    *(cell.encode("utf-8", "surrogatepass") for cell in CELLS),
    *(b"null", b"1e999", b"-1", b"NaN", b"[" * 200, b'{"a":' * 200, b"9" * 30, b"\\ud800", b"\\u0000", b"\xed\xa0\x80"),
    *(b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", bytes(8), b"\xef\xbb\xbf", b"\r\n", b"true", b"1e-400", b'"id":'),
)
MEDIA = {
    "json": "application/json",
    "ndjson": "application/x-ndjson",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
}
OTHER_MEDIA = (
    "",
    "image/png",
    "application/json; charset=utf-16",
    "text/csv;;;",
    "*/*",
    "multipart/form-data",
    "a" * 300,
)
HEADS = (
    b"Content-Length: 5\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999999\r\n",
    b"Transfer-Encoding: chunked, gzip\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n",
    b"Expect: 100-continue\r\n",
    b"Host: other\r\n",
    b"Origin: http://evil.example\r\n",
    b"Cookie: driftsurf=a; =; \xff;\r\n",
    b"Authorization: Bearer \xff\xfe\r\n",
    b"Idempotency-Key: k\r\n",
    b"Idempotency-Key: \xe9\r\n",
    b"Accept: text/csv;q=x, */*;q=0\r\n",
    b"Accept: application/vnd.apache.arrow.stream\r\n",
    b"Last-Event-ID: -1\r\n",
    b"If-None-Match: *\r\n",
    b" folded: yes\r\n",
    b"No colon\r\n",
    b"X\x00: a\r\n",
    b"X-A:\r\n",
)
QUERIES = (
    "",
    "?on_bad_row=skip",
    "?on_bad_row=skip&probabilities=all",
    "?on_bad_row=%00",
    "?" + "a=1&" * 60,
    "?%zz=\xff",
)
PATHS = (
    *("v1/models", "v1/models/sales", "v1/models/sales/explain?step=3", "v1/models/sales/journal?since=1&most=3"),
    *(
        "v1/models/sales/trace",
        "v1/models/sales/columns",
        "v1/models/sales/page",
        "metrics",
        "openapi.json",
        "",
        "healthz",
    ),
    *(
        "v1/alerts",
        "readyz",
        "v2",
        "v2/models/sales",
        "v2/models/sales/ready",
        "v1/models/%2e%2e/state",
        "v1/models/\xff",
    ),
    *(
        "v1/models/sales/explain?step=99999999999999999",
        "v1/models/fresh/explain",
        "v1/models/fresh/columns",
        "//",
        "*",
    ),
)


def fuzzed(scale: float, seed: int, count: int | None = None) -> Outcome:
    """Send requests with mistakes of every kind; each has an answer of the documented form, below 500."""
    outcome = Outcome("fuzzed requests", seed)
    chance = random.Random(seed)
    with serving() as server:
        client = Client(server)
        for trial in range(round(TRIALS * scale) if count is None else count):
            request, ends = made(chance)
            answers = client.send(request, ends=ends)
            wrong = _wrong(answers, ends=ends)
            for status, *_ in answers:
                outcome.count(f"{status // 100}xx")
            if not answers:
                outcome.count("given up by the client" if ends else "closed")
            if trial % LOOK_EVERY == LOOK_EVERY - 1:
                wrong = wrong or _state(server)
            outcome.check(not wrong, {"trial": trial, "wrong": wrong, "request": request[:5000]})
            if server.process.poll() is not None:
                break
        client.close()
        outcome.check(not (wrong := _state(server)), {"at the end": wrong})
    return outcome


def _state(server: Server) -> str:
    traces = server.tracebacks()
    return traces[0] if traces else "" if server.alive() else "the service is not ready any more"


class Client:
    """Sends requests, most of them on the same connection."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connection: socket.socket | None = None

    def close(self) -> None:
        """Close the connection."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def send(self, request: bytes, *, ends: bool) -> list[tuple[int, str, bytes]]:
        """Send a request and return its answers; with ``ends``, the client sends no more than that and leaves."""
        if self.connection is None:
            self.connection = self.server.connect()
        one = self.connection
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            one.sendall(request)
        if ends:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_WR)
        data = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while not (_is_whole(data) and not ends):
                part = one.recv(65536)
                if not part:
                    break
                data += part
            else:
                if b"\r\nconnection: close\r\n" not in data:
                    return _answers(bytes(data))
        self.close()
        return _answers(bytes(data))


def _is_whole(data: bytearray) -> bool:
    """Return whether the data end with a whole answer."""
    head, found, body = bytes(data).rpartition(b"\r\n\r\n")
    if not found:
        return False
    start = head.rfind(b"HTTP/1.1 ")
    if start < 0:
        return False
    if head[start:].startswith((b"HTTP/1.1 100", b"HTTP/1.1 304")):
        return head[start:].startswith(b"HTTP/1.1 304")
    lines = head[start:].lower().split(b"\r\n")
    length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), None)
    return length is not None and len(body) >= length


def _answers(data: bytes) -> list[tuple[int, str, bytes]]:
    """Return status, media type and body of each answer."""
    found = []
    while data.startswith(b"HTTP/1.1 "):
        head, _, data = data.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
        length = int(fields.get(b"content-length", b"0"))
        found.append((int(head[9:12]), fields.get(b"content-type", b"").decode().strip(), data[:length]))
        data = data[length:]
    return [one for one in found if one[0] != 100]


def _wrong(answers: list[tuple[int, str, bytes]], *, ends: bool) -> str:
    """Return what is wrong with the answers to a request, or ""."""
    if not answers and not ends:
        return "no answer"
    for status, media, body in answers:
        if status >= 500:
            return f"status {status}: {body[:500]!r}"
        if status < 400:
            continue
        try:
            problem = json.loads(body)
        except ValueError:
            return f"no JSON: {body[:500]!r}"
        inference = media == "application/json" and "error" in problem  # the form of the Open Inference Protocol
        if media == "application/problem+json" or inference:
            if problem["status"] != status or not problem["type"].startswith("urn:driftsurf:problem:"):
                return f"another problem: {body[:500]!r}"
        elif not (status == 409 and media == "application/json"):  # an order that was refused
            return f"no problem details: {status} {media} {body[:500]!r}"
    return ""


# ---------------------------------------------------------------------------- making requests


def made(chance: random.Random) -> tuple[bytes, bool]:
    """Return a request, and whether the client leaves without reading its whole answer."""
    if chance.random() < 0.1:
        return _reading(chance)
    path, body, format = chance.choice(BODIES)(chance)
    data = body if chance.random() < 0.3 else damaged(body, chance)
    media = chance.choice(OTHER_MEDIA) if chance.random() < 0.05 else MEDIA[chance.choice(list(MEDIA))]
    media = MEDIA[format] if chance.random() < 0.85 else media
    head = f"POST /v1/models/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media}\r\n".encode("latin-1")
    head = head.replace(b"/v1/models/v2/", b"/v2/models/")
    if b"binary_data_size" in body:
        head += b"Inference-Header-Content-Length: %d\r\n" % (body.rindex(b"}") + 1)
    if chance.random() < 0.05:
        head += chance.choice(HEADS)
    if chance.random() < 0.03:
        name = chance.choice(("gzip", "deflate", "zstd", "br", "identity", "x"))
        data = gzip.compress(data) if name == "gzip" else zlib.compress(data) if name == "deflate" else data
        head += f"Content-Encoding: {name}\r\n".encode()
    return _framed(head, data, chance)


def _framed(head: bytes, data: bytes, chance: random.Random) -> tuple[bytes, bool]:
    """Return a request with its body whole, in chunks, or cut off."""
    match chance.randrange(12):
        case 0 | 1 | 2:
            cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(6)))
            parts = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
            framed = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part)
            end = b"0\r\n\r\n" if chance.random() < 0.8 else b"0\r\nX-Trailer: a\r\n\r\n"
            whole = head + b"Transfer-Encoding: chunked\r\n\r\n" + framed + end
            if chance.random() < 0.1:
                return damaged(whole, chance), True
            return whole, False
        case 3:
            return head + b"Content-Length: %d\r\n\r\n" % (len(data) + 10) + data, True
        case 4 if len(data) > 1:
            return head + b"Content-Length: %d\r\n\r\n" % chance.randrange(len(data)) + data, True
        case 5:
            return damaged(head + b"Content-Length: %d\r\n\r\n" % len(data) + data, chance), True
    return head + b"Content-Length: %d\r\n\r\n" % len(data) + data, False


def _reading(chance: random.Random) -> tuple[bytes, bool]:
    method = chance.choice(("GET", "GET", "GET", "POST", "OPTIONS", "CONNECT", "PRI", "TRACE", "DELETE", "get"))
    path, odd = chance.choice(PATHS), chance.choice(HEADS) if chance.random() < 0.5 else b""
    request = f"{method} /{path} HTTP/1.1\r\nHost: localhost\r\n".encode("latin-1") + odd + b"\r\n"
    return (damaged(request, chance) if chance.random() < 0.3 else request), True


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Change bytes in one to four places."""
    body = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(body) + 1)
        match chance.randrange(7):
            case 0 if body:
                body[at % len(body)] ^= 1 << chance.randrange(8)
            case 1 if body:
                body[at % len(body)] = chance.choice(STRUCTURE)
            case 2:
                del body[at : at + chance.randint(1, 8)]
            case 3:
                body[at:at] = chance.choice(TOKENS)
            case 4:
                length = chance.randint(1, 40)
                start = chance.randrange(len(body) + 1)
                body[at : at + length] = body[start : start + length]
            case 5:
                del body[at:]
            case _:
                start = chance.randrange(len(body) + 1)
                body[at:at] = body[start : start + chance.randint(1, 400)]
    return bytes(body)


def _rows(chance: random.Random) -> list[dict[str, Any]]:
    rows = sales_rows(chance, chance.randrange(1, 6))
    for row in rows:
        if chance.random() < 0.1:
            row[chance.choice(list(row))] = chance.choice((None, "", 1e308, -1, True, "Rome", 10**25, CELLS[0]))
    if chance.random() < 0.5:
        rows = [row | {"id": f"i{chance.randrange(10**6)}"} for row in rows]
    return rows


def _as_rows(chance: random.Random) -> tuple[str, bytes, str]:
    path = f"sales/{chance.choice(('predict', 'learn'))}{chance.choice(QUERIES)}"
    rows, format = _rows(chance), chance.choice(list(MEDIA))
    return path, encoded(rows, format), format


def _as_labels(chance: random.Random) -> tuple[str, bytes, str]:
    labels = {f"i{chance.randrange(100)}": chance.choice(("yes", "no", "maybe", 1, None, "")) for _ in range(3)}
    format = chance.choice(list(MEDIA))
    path = f"sales/label{chance.choice(QUERIES)}"
    if format == "json":
        return path, json.dumps({"labels": labels}).encode(), format
    return path, encoded([{"id": id, "sold": label} for id, label in labels.items()], format), format


def _as_points(chance: random.Random) -> tuple[str, bytes, str]:
    rows = [{"x0": chance.gauss(0, 1), "x1": chance.choice((1.0, None, 1e300)), "late": 2.0} for _ in range(3)]
    format = chance.choice(list(MEDIA))
    return f"delays/{chance.choice(('predict', 'learn'))}", encoded(rows, format), format


def _as_tensors(chance: random.Random) -> tuple[str, bytes, str]:
    inputs: list[Any] = [{"name": name, "shape": [2], "datatype": "FP64", "data": [1.0, 2.5]} for name in ("x0", "x1")]
    if chance.random() < 0.3:
        inputs = [{"name": "x", "shape": [2, 2], "datatype": "FP64", "data": [1, 2, 3, 4]}]
    if chance.random() < 0.5:
        return "v2/delays/infer", json.dumps({"inputs": inputs}).encode(), "json"
    written = b""
    for one in inputs:
        values = struct.pack(f"<{len(one['data'])}d", *one.pop("data"))
        one["parameters"] = {"binary_data_size": len(values)}
        written += values
    return "v2/delays/infer", json.dumps({"inputs": inputs}).encode() + written, "json"


def _as_order(chance: random.Random) -> tuple[str, bytes, str]:
    kind = chance.choice(("pin", "unpin", "promote", "warm", "dismiss", "rollback", "challenge"))
    order = {"kind": kind, "model": chance.choice(("a", "", "\u202e")), "to": chance.choice((None, 0, 10**12))}
    return "delays/orders", json.dumps(order | {"options": {"model": "oblivious"}}).encode(), "json"


BODIES: tuple[Callable[[random.Random], tuple[str, bytes, str]], ...] = (
    *(_as_rows,) * 10,
    *(_as_labels,) * 4,
    *(_as_points,) * 3,
    *(_as_tensors,) * 2,
    _as_order,
)


def encoded(rows: list[dict[str, Any]], format: str) -> bytes:
    """Return rows in a format."""
    if format == "json":
        return json.dumps({"rows": rows}).encode()
    if format == "ndjson":
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    if format == "csv":
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()
    import pyarrow as pa

    columns = {}
    for name in rows[0]:
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowException, OverflowError, TypeError):
            columns[name] = pa.array([str(value) for value in values])
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
