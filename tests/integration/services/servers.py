"""Servers on this machine: a test that needs one is skipped with one line where it does not run."""

from __future__ import annotations

import socket

import pytest

PORTS = {"postgresql": 5432, "redis": 6379, "rabbitmq": 5672, "mqtt": 1883, "nats": 4222}


def require(server: str) -> None:
    """Skip the test unless a server listens on its usual port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", PORTS[server]), timeout=1).close()
    except OSError:
        pytest.skip(f"no {server} on port {PORTS[server]} of this machine")
