"""A receiver of webhooks behind a real socket."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver(ThreadingHTTPServer):
    """An HTTP server that records requests and answers with the codes it is told to, then with 200."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], Any, bytes]] = []
        self.codes: list[int] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, dict(self.headers), json.loads(body), body))
        code = self.server.codes.pop(0) if self.server.codes else 200
        self.send_response(code)
        if code == 302:
            self.send_header("Location", f"{self.server.url}/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """Context in which a receiver answers."""
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    with contextlib.closing(server.socket):
        yield server
        server.shutdown()
        thread.join()
