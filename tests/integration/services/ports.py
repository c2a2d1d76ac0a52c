"""Ports for servers of tests that are started later, or more than once."""

from __future__ import annotations

import contextlib
import secrets
import socket
from pathlib import Path


def free_port() -> int:
    """Return a port on which nothing listens, outside of those that the system gives to clients.

    Otherwise a client that looks for a server that is down is connected with itself sooner or later, since the system
    gives it the same port, and the server cannot start on it.
    """
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(given.read_text().split()[0]) if given.exists() else 32_768
    while True:
        port = secrets.choice(range(10_000, max(first, 20_000)))
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
