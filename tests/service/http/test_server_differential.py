"""The same bytes, cut at any place, to our server and to uvicorn: both see the same requests and answer the same."""

from __future__ import annotations

import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("uvicorn")

import uvicorn

from driftsurf.service.http.app import App
from driftsurf.service.http.server import HttpServer
from driftsurf.service.settings import Limits

WAIT = 60.0
SEEDS = 150
HOST = b"localhost"
NO_HTTP = b"\x16\x03\x01 no HTTP\r\n\r\n", b"GET  HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"
Seen = list[tuple[Any, ...]]


class Recorder:
    """ASGI application that records the requests that it gets; the path says how it answers."""

    limits = Limits()

    def __init__(self) -> None:
        self.seen: Seen = []
        self.gate = SimpleNamespace(keys=())

    def close(self) -> None:
        """End nothing."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        about = [scope[name] for name in ("method", "path", "raw_path", "query_string", "http_version", "scheme")]
        body = b""
        if "unread" not in scope["path"]:
            while (message := await receive())["type"] == "http.request":
                body += message["body"]
                if not message["more_body"]:
                    break
        self.seen.append((*about, tuple(map(tuple, scope["headers"])), body))
        if "fails" in scope["path"]:
            raise RuntimeError("as asked")
        answer = b"%d bytes of %b" % (len(body), scope["path"].encode())
        if "none" in scope["path"]:
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})
        elif "parts" in scope["path"]:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
            for part in (answer, b"", answer * 3):
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        else:
            length = (b"content-length", b"%d" % len(answer))
            await send({"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1"), length]})
            await send({"type": "http.response.body", "body": answer[:5], "more_body": True})
            await send({"type": "http.response.body", "body": answer[5:]})


def request(chance: random.Random, *, last: bool) -> bytes:
    """Return a request; only the last one may end the connection."""
    method = chance.choice((b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS"))
    path = chance.choice(
        (b"/", b"/unread", b"/parts", b"/none", b"/a/b%20c", b"/%C3%A9t%C3%A9", b"/%2F//x", b"/a;b=c,d")
    )
    target = path + chance.choice((b"", b"?", b"?a=1&b=%20", b"?x=?y"))
    if chance.random() < 0.1:
        target = b"http://" + HOST + target
    headers = [b"Host: " + HOST]
    headers += [chance.choice((b"X-A: b", b"x-B:c  ", b"COOKIE: a=b; c=d", b"X-Empty:", b"Accept: */*"))]
    body = bytes(chance.getrandbits(8) for _ in range(chance.choice((0, 0, 1, 10, 3000))))
    framing = chance.choice(("length", "length", "chunked", "continue"))
    if method in (b"GET", b"HEAD") or not body:
        body, framing = b"", "none"
    sent = body
    if framing == "chunked":
        cut = chance.randrange(len(body) + 1)
        sent = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in (body[:cut], body[cut:]) if one) + b"0\r\n\r\n"
        headers.append(b"Transfer-Encoding: chunked")
    elif framing != "none":
        headers.append(b"Content-Length: %d" % len(body))
    if framing == "continue":
        headers.append(b"Expect: 100-continue")
    version = b"1.1"
    if last:
        if path == b"/" and chance.random() < 0.3:
            target = b"/fails"
        ending = chance.choice(("close", "1.0", "garbage"))
        if ending == "1.0":
            version = b"1.0"
        elif ending == "close" or body:
            headers.append(b"Connection: close")
        else:
            return chance.choice(NO_HTTP)
    chance.shuffle(headers)
    return b"%b %b HTTP/%b\r\n%b\r\n\r\n%b" % (method, target, version, b"\r\n".join(headers), sent)


def pieces(chance: random.Random, data: bytes) -> list[bytes]:
    """Return bytes, cut at some places."""
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 1, 2, 5))))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if end > start]


def conversation(port: int, parts: list[bytes]) -> bytes:
    """Send the parts one after the other; return everything until the server closes the connection."""
    received = bytearray()
    with socket.create_connection(("127.0.0.1", port), WAIT) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            try:
                connection.sendall(part)
            except OSError:  # closed, as it must be after the last answer
                break
            time.sleep(0.002)
        try:
            while data := connection.recv(65536):
                received += data
        except ConnectionResetError:
            pass
    return bytes(received)


def normal(answers: bytes) -> bytes:
    """Return answers without dates; what is said of an error of HTTP, or of the application, is left out."""
    answers = re.sub(rb"date: [^\r]*\r\n", b"", answers)
    return re.sub(rb"(HTTP/1.1 (400|500) ).*", rb"\1", answers, flags=re.DOTALL)


@contextmanager
def running(run: Callable[[], None], stop: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop()
        thread.join(WAIT)
        assert not thread.is_alive()


@contextmanager
def ours(app: Recorder) -> Iterator[int]:
    server, opened = HttpServer(cast("App", app), port=0), threading.Event()
    with running(lambda: server.run(opened.set), server.stop):
        assert opened.wait(WAIT)
        yield server.port


@contextmanager
def theirs(app: Recorder) -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http="httptools", ws="none", lifespan="off", server_header=False, log_config=None)
    server = uvicorn.Server(config)

    def stop() -> None:
        server.should_exit = True

    with running(lambda: server.run([listener]), stop):
        end = time.monotonic() + WAIT
        while not server.started:
            assert time.monotonic() < end
            time.sleep(0.01)
        yield listener.getsockname()[1]


@pytest.mark.filterwarnings("ignore")
def test_the_same_bytes_give_the_same_requests_and_answers(caplog: pytest.LogCaptureFixture) -> None:
    own, other = Recorder(), Recorder()
    with ours(own) as here, theirs(other) as there:
        for seed in range(SEEDS):
            chance = random.Random(seed)
            count = chance.choice((1, 1, 2, 4))
            parts = [request(chance, last=place == count - 1) for place in range(count)]
            if parts[-1] in NO_HTTP:
                parts = parts[-1:]  # uvicorn loses answers to requests before what is no HTTP
            sent = pieces(chance, b"".join(parts))
            answers = normal(conversation(here, sent)), normal(conversation(there, sent))
            assert answers[0] == answers[1], (seed, sent)
            assert own.seen == other.seen, (seed, sent)
            own.seen.clear()
            other.seen.clear()


def test_requests_before_what_is_no_http_are_answered() -> None:
    app = Recorder()
    good = b"POST /parts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab"
    with ours(app) as port:
        answers = conversation(port, [good * 3 + b"\x16\x03\x01 no HTTP\r\n\r\n"])
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200"] * 3 + [b"400"]
    assert len(app.seen) == 3


def test_requests_behind_one_for_another_protocol_are_answered() -> None:
    app = Recorder()
    upgrade = b"GET /%b HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    close = b"GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with ours(app) as port:
        answers = conversation(port, [upgrade % b"a" + upgrade % b"b" + close])
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200"] * 3
    assert [one[1] for one in app.seen] == ["/a", "/b", "/last"]


def test_an_application_that_breaks_the_rules_of_answers_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    class Wrong(Recorder):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            length = [(b"content-length", b"3")]
            if scope["path"] == "/header":
                length = [(b"x-a", b"b\r\nx-c: d")]
            if scope["path"] != "/nothing":
                await send({"type": "http.response.start", "status": 200, "headers": length})
            if scope["path"] == "/long":
                await send({"type": "http.response.body", "body": b"four"})
            if scope["path"] == "/short":
                await send({"type": "http.response.body", "body": b"ab"})

    with ours(Wrong()) as port:
        for path in (b"/header", b"/nothing", b"/long", b"/short", b"/unfinished"):
            answer = conversation(port, [b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path])
            assert answer.startswith(b"HTTP/1.1 500 ") or answer == b"", path
            assert b"x-c" not in answer
    assert caplog.text.count("the application failed") == 3
