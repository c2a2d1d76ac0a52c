"""Metrics of a run behind a port."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import logging
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from driftsurf.errors import Option, OptionError, reason
from driftsurf.runs.prometheus import RunMetrics

__all__ = ["MetricsServer", "names_this_machine"]

log: logging.Logger = logging.getLogger("driftsurf.run")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_CONNECTIONS = 16
"""Connections at a time; further ones are closed at once."""
DEADLINE = 5.0
"""Seconds after which a connection is closed, whatever its client does."""


class MetricsServer:
    """Context that answers ``GET /metrics`` in a thread of its own.

    Parameters
    ----------
    port
        Port to listen on; 0 takes a free one.
    metrics
        What to answer with.
    host
        Address to listen on. The default serves this machine only, and answers only requests whose ``Host`` is
        localhost or a loopback address: a web page from elsewhere could send others under a name that leads here.
    """

    def __init__(self, port: int, metrics: RunMetrics, host: str = "127.0.0.1") -> None:
        try:
            self.server: _Server = _Server((host, port), _handler(metrics))
        except OSError as error:
            raise OptionError(
                Option("metrics"),
                f" cannot be served at {host}:{port}: {reason(error)}; choose another port, or a file",
            ) from error
        self.port: int = self.server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, daemon=True, name="driftsurf-metrics").start()
        log.info("metrics: http://%s:%d/metrics", self.server.server_address[0], self.port)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


class _Server(ThreadingHTTPServer):
    """A server with a bounded number of connections, each of which ends after a time."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(address, handler)
        self.local: bool = _is_loopback(str(self.server_address[0]))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, unless too many are at work."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, for as long as the deadline allows."""
        deadline = threading.Timer(DEADLINE, _end, [request])
        deadline.daemon = True
        try:
            deadline.start()
            super().process_request_thread(request, client_address)
        except RuntimeError:  # no thread for the deadline; what fails while answering does not come here
            self.handle_error(request, client_address)
            self.shutdown_request(request)
        finally:
            deadline.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what a client that went away or was cut off has caused."""
        log.debug("metrics: a connection was lost", exc_info=True)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may be closed by now
        connection.shutdown(socket.SHUT_RDWR)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


@functools.lru_cache(maxsize=64)
def names_this_machine(host: str) -> bool:
    """Return whether the Host of a request is localhost or a loopback address, with or without a port.

    >>> [names_this_machine(host) for host in ("localhost:9464", "127.0.0.1", "[::1]:9464")]
    [True, True, True]
    >>> [names_this_machine(host) for host in ("evil.example:9464", "169.254.169.254", "localhost.evil.example")]
    [False, False, False]
    """
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and not host.endswith("]") else host
    if name.startswith("[") != name.endswith("]"):
        return False
    return name.lower().removesuffix(".") == "localhost" or _is_loopback(name.removeprefix("[").removesuffix("]"))


def _handler(metrics: RunMetrics) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers ``GET /metrics`` and nothing else."""

        timeout = DEADLINE
        server_version = "driftsurf"
        sys_version = ""
        server: _Server

        def do_GET(self) -> None:
            if self.server.local and not names_this_machine(self.headers.get("Host", "localhost")):
                self.send_error(403)
                return
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            body = metrics.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            log.debug("metrics: " + format, *arguments)

    return Handler
