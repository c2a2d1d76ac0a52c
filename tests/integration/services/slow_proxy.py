"""A network that is slow, falls silent or breaks: a proxy between a client and a server of this machine."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Literal

__all__ = ["Network", "SlowProxy"]

Network = Literal["slow", "silent", "broken"]
PIECE = 8_192
"""Bytes that are handed on at once."""
LATE, PAUSE = 0.02, 0.002
"""Seconds before the first piece of what comes, and between pieces, of a slow network."""
SILENCE = 1.5
"""Seconds for which a silent network hands nothing on, and for which a broken one takes no connections."""
SOON = 6_000
"""Bytes of a connection in one direction after which the network falls silent or breaks."""


class SlowProxy:
    """Listens on a port of its own, and hands on what comes to a server and back.

    Parameters
    ----------
    port
        Port of the server.
    network
        "slow" delays everything and hands it on in small pieces, "silent" hands nothing on for a while in the middle of
        each connection, and "broken" ends the first connections that carry much, and takes none for a while.
    """

    def __init__(self, port: int, network: Network) -> None:
        self._server = port
        self._network = network
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.troubles: int = 0
        """How often the network has delayed, fallen silent or broken."""
        self._closed_until = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listening.accept()[0]
            except OSError:  # closed
                return
            if time.monotonic() < self._closed_until:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._server))
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._hand_on, args=ends, daemon=True).start()

    def _hand_on(self, source: socket.socket, target: socket.socket) -> None:
        count = 0
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(2**20):
                before, count = count, count + len(data)
                if before < SOON <= count and self._trouble():
                    break
                for start in range(0, len(data), PIECE):
                    if self._network == "slow":
                        self.troubles += 1
                        time.sleep(PAUSE if start else LATE)
                    target.sendall(data[start : start + PIECE])
            for one in (source, target):
                one.shutdown(socket.SHUT_RDWR)

    def _trouble(self) -> bool:
        """Fall silent; return whether the connection ends."""
        if self._network == "silent":
            self.troubles += 1
            time.sleep(SILENCE)
        if self._network != "broken" or self.troubles >= 2:
            return False
        self.troubles += 1
        self._closed_until = time.monotonic() + SILENCE
        return True

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()
