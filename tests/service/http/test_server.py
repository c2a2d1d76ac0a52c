"""A real server at a free port: slow clients, large heads, too many connections, signals."""

from __future__ import annotations

import contextlib
import gc
import http.client
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from served_models import MemoryModel

from driftsurf.errors import OptionError

pytest.importorskip("httptools")

from driftsurf.service.http.app import App
from driftsurf.service.http.requests import Response
from driftsurf.service.http.server import HttpServer
from driftsurf.service.settings import Limits
from driftsurf.service.wire.formats import ModelFormats

ROW = {"price": 1.5, "city": "Rome", "new": True, "day": "2026-05-01"}
QUICK = Limits(head_seconds=0.3, request_seconds=0.6, head_bytes=2048, body_bytes=2**20)
WAIT = 120.0


@pytest.fixture(params=["uvloop", "asyncio"], autouse=True)
def event_loop_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve with the event loop of uvloop and, as on Windows, with that of Python."""
    if request.param == "asyncio":
        monkeypatch.setitem(sys.modules, "uvloop", None)
    else:
        pytest.importorskip("uvloop")


@contextmanager
def serving(limits: Limits = QUICK, model: MemoryModel | None = None) -> Iterator[HttpServer]:
    """A server in a thread of its own."""
    server = HttpServer(App([(model or MemoryModel(), ModelFormats(label="sold"))], limits=limits), port=0)
    opened = threading.Event()
    thread = threading.Thread(target=server.run, args=[opened.set])
    thread.start()
    try:
        assert opened.wait(WAIT)
        yield server
    finally:
        server.stop()
        thread.join(WAIT)
        assert not thread.is_alive()


def connected(server: HttpServer, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), WAIT)
    connection.sendall(data)
    return connection


def received(connection: socket.socket) -> bytes:
    """Return everything until the server closes the connection."""
    data = b""
    try:
        while part := connection.recv(65536):
            data += part
    except ConnectionResetError:
        pass
    connection.close()
    return data


def post(server: HttpServer, path: str, value: object) -> tuple[int, dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT)
    connection.request("POST", path, json.dumps(value), {"content-type": "application/json"})
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def test_a_request_and_many_on_one_connection() -> None:
    with serving(Limits()) as server:
        assert post(server, "/v1/models/sales/predict", {"rows": [ROW]})[0] == 200
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT)
        for _ in range(5):
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b'{"alive":true}'
        connection.close()


def test_slow_heads_are_closed() -> None:
    with serving() as server:
        slow = [connected(server, b"GET /healthz HTTP/1.1\r\nHost: loc") for _ in range(50)]
        assert all(b" 408 " in received(one) for one in slow)
        # A busy machine may send even this request too slowly.
        until(lambda: post(server, "/v1/models/sales/predict", {"rows": [ROW]})[0] == 200)


def test_connections_that_say_nothing_are_closed() -> None:
    with serving() as server:
        assert b" 408 " in received(connected(server))


def test_slow_bodies_are_closed() -> None:
    head = b"POST /v1/models/sales/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{"
    with serving() as server:
        slow = [connected(server, head) for _ in range(50)]
        assert all(b" 408 " in received(one) for one in slow)
        assert server.app.flight.bytes == 0


def test_slow_readers_are_closed() -> None:
    model = MemoryModel()
    model.trace = lambda: "x" * (64 * 2**20)  # type: ignore[method-assign]
    with serving(model=model) as server:
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", server.port))
        reader.sendall(b"GET /v1/models/sales/trace HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in reader.recv(20)
        until(lambda: not server.app.connections())
        reader.close()


@pytest.mark.parametrize("where", ["one header", "many headers", "address"])
def test_large_heads_are_refused(where: str) -> None:
    head = {
        "one header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 5000,
        "many headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: aaaaaaaaaa\r\n" * 200 + b"\r\n",
        "address": b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    }[where]
    with serving() as server:
        assert b" 431 " in received(connected(server, head))


def test_what_is_not_http_is_refused() -> None:
    with serving() as server:
        for request in (
            b"\x16\x03\x01 not http",
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
        ):
            answer = received(connected(server, request + b"\r\n\r\n"))
            assert b" 400 " in answer
            assert b"application/problem+json" in answer


def test_a_request_for_another_protocol_is_answered_in_this_one(caplog: pytest.LogCaptureFixture) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n%b\r\n"
    with serving() as server:
        connection = connected(server, head % b"Connection: Upgrade\r\nUpgrade: websocket\r\n")
        assert b" 200 " in connection.recv(4096)
        connection.sendall(head % b"Connection: close\r\n")
        assert b" 200 " in received(connection)
    assert "WebSocket" not in caplog.text


def test_too_many_connections_are_refused() -> None:
    with serving(Limits(connections=2)) as server:
        kept = [connected(server) for _ in range(2)]
        end = time.monotonic() + WAIT
        while server.app.connections() < 2 and time.monotonic() < end:
            time.sleep(0.01)
        assert b" 503 " in received(connected(server))
        for one in kept:
            one.close()


def test_a_request_under_way_ends_before_the_server() -> None:
    hold = threading.Event()
    model = MemoryModel(hold=hold)
    answers: list[int] = []
    with serving(Limits(), model) as server:
        body = {"labels": {"a": "yes"}}
        client = threading.Thread(target=lambda: answers.append(post(server, "/v1/models/sales/label", body)[0]))
        client.start()
        end = time.monotonic() + WAIT
        while not model.labels_given and time.monotonic() < end:
            time.sleep(0.01)
        server.stop()
        hold.set()
        client.join(WAIT)
    assert answers == [200]


def test_event_streams_end_with_the_server() -> None:
    with serving(Limits()) as server:
        server.app.events.seconds = 0.01
        stream = connected(server, b"GET /v1/models/sales/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"text/event-stream" in stream.recv(4096)
        server.stop()
        received(stream)


def test_a_connection_that_is_accepted_as_the_server_stops_is_closed() -> None:
    with serving(Limits()) as server:
        assert server._stop is not None
        held, go_on = threading.Event(), threading.Event()

        def hold() -> None:
            held.set()
            go_on.wait(WAIT)

        server._stop[0].call_soon_threadsafe(hold)
        assert held.wait(WAIT)
        client = connected(server)  # the loop finds it and the end of the server at the same time
        server.stop()
        go_on.set()
        received(client)
    gc.collect()  # an open transport would be reported now


def test_a_port_that_is_taken_is_an_option_error() -> None:
    with serving() as server, pytest.raises(OptionError, match=str(server.port)):
        HttpServer(App([]), port=server.port)


def test_a_failing_reload_keeps_the_last_configuration(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise OptionError("keys are wrong")

    server = HttpServer(App([]), port=0, reload=fail)
    server.read_again()
    assert "keys are wrong" in caplog.text
    assert not any(record.exc_info for record in caplog.records)
    server.socket.close()


def test_requests_that_come_together_are_answered_in_order() -> None:
    with serving(Limits()) as server:
        parts = [
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ]
        last = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        data = received(connected(server, b"".join(parts * 3) + last))
    found = [part.split(b" ", 1)[0] for part in data.split(b"HTTP/1.1 ")[1:]]
    assert found == [b"200", b"404"] * 3 + [b"200"]
    assert data.count(b"x-content-type-options: nosniff") == 7
    assert data.lower().count(b"\r\ndate: ") == 7


def test_an_answer_is_the_same_however_the_request_is_cut() -> None:
    body = json.dumps({"rows": [ROW]}).encode()
    head = (
        b"POST /v1/models/sales/predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    )
    request = head % len(body) + body
    answers = set()
    with serving(Limits()) as server:
        for cut in (0, 10, len(request) - len(body), len(request) - 5):
            connection = connected(server, request[:cut])
            time.sleep(0.05)
            connection.sendall(request[cut:])
            answers.add(received(connection).partition(b"\r\n\r\n")[2])
    assert len(answers) == 1
    assert json.loads(answers.pop())["predictions"] == [None]


STREAM = b"GET /v1/models/sales/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = b"POST /v1/models/sales/predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


def flooded(server: HttpServer, begin: bytes, part: bytes, most: int) -> int:
    """Send the same bytes until the server closes the connection; return how many it took."""
    connection = connected(server, begin)
    sent = 0
    try:
        while sent < most:
            connection.sendall(part)
            sent += len(part)
    except OSError:
        pass
    connection.close()
    return sent


@pytest.mark.parametrize(
    ("begin", "part"),
    [
        (STREAM + b"GET / HTTP/1.1\r\nX-A: ", b"a" * 2**16),
        (CHUNKED + b"0\r\nX-A: ", b"a" * 2**16),
        (CHUNKED + b"0\r\n", b"X-A: aaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 2**11),
    ],
    ids=["a head after a request for events", "a trailer", "many trailers"],
)
def test_bytes_that_are_no_body_are_limited_at_any_place(begin: bytes, part: bytes) -> None:
    with serving(Limits(request_seconds=1.0)) as server:
        assert flooded(server, begin, part, 64 * 2**20) < 32 * 2**20  # those in the buffers of the kernel are sent, too


def test_requests_that_come_together_wait_outside_the_server() -> None:
    part = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000
    with serving(Limits()) as server:
        connection = connected(server)

        def send() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection.sendall(part)

        sender = threading.Thread(target=send)
        sender.start()
        most, answered = 0, 0
        while answered < 10_000:
            data = connection.recv(2**16)
            assert data
            answered += data.count(b"HTTP/1.1 200")
            most = max(most, *(len(one.waiting) for one in list(server.connections)))
        connection.shutdown(socket.SHUT_RDWR)
        sender.join(WAIT)
        connection.close()
    assert most < 2 * 2**18 / len(part) * 2000  # what two reads of a socket can hold


def test_an_idle_connection_that_does_not_read_is_freed() -> None:
    body = json.dumps({"rows": [ROW] * 100}).encode()
    request = b"POST /v1/models/sales/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request += b"Content-Length: %d\r\n\r\n" % len(body) + body
    with serving(replace(QUICK, idle_seconds=1)) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(WAIT)
        client.connect(("127.0.0.1", server.port))
        client.sendall(request)
        one: Any = until(lambda: next(iter(server.connections), None))
        # Answers fill the buffers of the kernel, until a part of one waits in the server: too little for a deadline.
        while not one.transport.get_write_buffer_size():
            before = server.answered
            client.sendall(request)
            until(partial(_is_above, server, before))
        assert one._write_deadline is None
        until(lambda: not server.connections)


def _is_above(server: HttpServer, count: int) -> bool:
    return server.answered > count


def until(met: Callable[[], Any]) -> Any:
    """Return what a function returns, once it is true."""
    end = time.monotonic() + WAIT
    while not (found := met()):
        assert time.monotonic() < end
        time.sleep(0.001)
    return found


def test_a_connection_whose_body_was_refused_is_used_again_and_closed() -> None:
    body = b"x" * 3000
    head = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    with serving(replace(QUICK, head_seconds=3.0, request_seconds=3.0, idle_seconds=1)) as server:
        connection = connected(server, head)
        assert b" 405 " in connection.recv(4096)
        connection.sendall(body)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in connection.recv(4096)
        connection.close()
        again = connected(server, head)
        assert b" 405 " in again.recv(4096)
        again.sendall(body)
        assert received(again) == b""  # after the time of an idle connection
        slow = connected(server, head)
        assert b" 405 " in slow.recv(4096)
        assert received(slow) == b""  # after the time of a body


def test_a_large_answer_that_is_ready_at_once() -> None:
    async def page(app: App, request: Any) -> Response:
        return Response(b"x" * 500_000, "text/plain")

    with serving(Limits()) as server:
        server.app.pages["/large"] = page
        answer = received(connected(server, b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    assert b" 200 " in answer[:20]
    assert answer.endswith(b"x" * 500_000)


def test_large_answers_are_read_in_time_and_count() -> None:
    model = MemoryModel()
    model.trace = lambda: "x" * (8 * 2**20)  # type: ignore[method-assign]
    request = b"GET /v1/models/sales/trace HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with serving(replace(QUICK, flight_bytes=20 * 2**20, request_seconds=0.1), model) as server:
        assert received(connected(server, request)).endswith(b"x" * (8 * 2**20))
        readers = []
        for _ in range(5):
            reader = socket.socket()
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", server.port))
            reader.sendall(request)
            readers.append(reader)
        starts = [reader.recv(20) for reader in readers]
        assert sorted(b" 200 " in one for one in starts) == [False] * 3 + [True] * 2
        assert sum(b" 503 " in one for one in starts) == 3
        end = time.monotonic() + WAIT
        while (server.app.connections() or server.app.answers.bytes) and time.monotonic() < end:
            time.sleep(0.01)
        assert (server.app.connections(), server.app.answers.bytes) == (0, 0)
        for reader in readers:
            reader.close()
