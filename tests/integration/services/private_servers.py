"""Brokers and databases on ports of their own, which can be killed and started again without losing what they hold."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.integration.services.ports import free_port

__all__ = ["MqttServer", "NatsServer", "PostgresServer", "PrivateServer", "RabbitServer", "RedisServer"]

STARTING = 300.0
"""Seconds in which a server has to take connections, or to end, also on a machine that does much else."""


class PrivateServer:
    """A server of its own in a folder. A test that makes one is skipped where the program is not installed.

    Parameters
    ----------
    folder
        An empty folder for everything that the server keeps.
    settings
        Further lines of its configuration.
    """

    program: str
    places: Sequence[str] = ()
    """Folders beside those of the search path in which the program may be."""
    user: str | None = None
    """User that runs the server if this process belongs to root; None for the same."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        found = shutil.which(self.program, path=os.pathsep.join([*self.places, os.environ.get("PATH", "")]))
        if found is None:
            pytest.skip(f"no {self.program} is installed")
        self.path = found
        self.folder = folder
        self.settings = settings
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.prepare()
        self.start()

    def prepare(self) -> None:
        """Write the configuration."""

    def words(self) -> list[str]:
        """Return the command that starts the server."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Return variables that the server needs."""
        return {}

    def start(self) -> None:
        """Start the server, and wait until it takes connections."""
        with (self.folder / "output.txt").open("ab") as output:
            self._process = subprocess.Popen(
                self.words(),
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self.environment()},
                cwd=self.folder,
                **self._owner(),
            )
        end = time.monotonic() + STARTING
        while not self.takes_connections():
            if time.monotonic() > end or self._process.poll() is not None:
                raise AssertionError(f"{self.program} does not start: {(self.folder / 'output.txt').read_text()}")
            time.sleep(0.02)

    def takes_connections(self) -> bool:
        """Return whether the server takes connections."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _owner(self) -> dict[str, Any]:
        return {"user": self.user} if self.user is not None and os.geteuid() == 0 else {}

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the server and its processes with SIGKILL, unless it is killed already."""
        process, self._process = self._process, None
        if process is None:
            return
        # The first process is stopped, so that it cannot start others meanwhile.
        process.send_signal(signal.SIGSTOP)
        family = _descendants(process.pid)
        for one in (process.pid, *family):
            _send(one, signal.SIGKILL)
        process.wait()
        while any(_runs(one) for one in family):
            time.sleep(0.005)

    def end(self) -> None:
        """Let the server end by itself."""
        process, self._process = self._process, None
        assert process is not None
        process.terminate()
        process.wait(STARTING)

    def close(self) -> None:
        """Kill the server, which is not needed any more."""
        self.kill()


def _descendants(process: int) -> list[int]:
    """Return the numbers of all processes that a process and its descendants have started."""
    parents = dict[int, int]()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        parents[int(place.name)] = int(fields[1])
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def _send(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class RedisServer(PrivateServer):
    """Redis with a file to which every command is appended before it is answered."""

    program = "redis-server"

    def words(self) -> list[str]:
        """Return the command that starts the server."""
        given = f"--bind 127.0.0.1 --port {self.port} --dir {self.folder} --appendonly yes --save".split()
        return [self.path, *given, "", *self.settings.split()]


class NatsServer(PrivateServer):
    """NATS with JetStream, which takes messages of 8 MB."""

    program = "nats-server"
    places = ("/usr/sbin",)

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"nats://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """Write the configuration."""
        store = str(self.folder / "store")
        text = f'jetstream {{ store_dir: "{store}" }}\nmax_payload: 8MB\n{self.settings}\n'
        (self.folder / "nats.conf").write_text(text)

    def words(self) -> list[str]:
        """Return the command that starts the server."""
        return [self.path, "-a", "127.0.0.1", "-p", str(self.port), "-c", str(self.folder / "nats.conf")]


class MqttServer(PrivateServer):
    """Mosquitto, which writes its sessions to disk when it ends, and when it is told to with SIGUSR1."""

    program = "mosquitto"
    places = ("/usr/sbin",)

    def prepare(self) -> None:
        """Write the configuration."""
        (self.folder / "mosquitto.conf").write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
            f"persistence_location {self.folder}/\nmax_queued_messages 0\nuser {getpass.getuser()}\nlog_dest none\n"
            f"{self.settings}\n"
        )

    def words(self) -> list[str]:
        """Return the command that starts the server."""
        return [self.path, "-c", str(self.folder / "mosquitto.conf")]

    def save(self) -> None:
        """Let the server write its sessions to disk, and return when that is done."""
        place = self.folder / "mosquitto.db"
        before = place.stat().st_ino if place.exists() else None
        self.signal(signal.SIGUSR1)
        while not place.exists() or place.stat().st_ino == before:
            time.sleep(0.01)


class PostgresServer(PrivateServer):
    """A cluster of PostgreSQL in a folder that its user owns. Its database is ``postgres``."""

    program = "postgres"
    places = tuple(str(one) for one in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))
    user = "postgres"

    @property
    def url(self) -> str:
        """Address of the database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def prepare(self) -> None:
        """Make the cluster."""
        self.folder = Path(tempfile.mkdtemp(prefix="driftsurf-postgresql-"))  # others are closed to its user
        if self._owner():
            shutil.chown(self.folder, self.user)
        make = Path(self.path).with_name("initdb")
        words = [str(make), "-D", str(self.folder / "data"), "-U", "postgres", "-A", "trust", "-N", "--locale=C"]
        subprocess.run([*words, "-E", "UTF8"], check=True, capture_output=True, cwd=self.folder, **self._owner())

    def words(self) -> list[str]:
        """Return the command that starts the server."""
        given = f"-D {self.folder}/data -p {self.port} -h 127.0.0.1 -k {self.folder}".split()
        return [self.path, *given, "-c", "dynamic_shared_memory_type=mmap", *self.settings.split()]

    def takes_connections(self) -> bool:
        """Return whether the server takes connections, and has ended its recovery."""
        import psycopg

        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def close(self) -> None:
        """End the server, so that it frees its shared memory, and remove its folder."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGQUIT)
            process.wait(STARTING)
        shutil.rmtree(self.folder, ignore_errors=True)


class RabbitServer(PrivateServer):
    """A node of RabbitMQ with a name, ports and a folder of its own."""

    program = "rabbitmq-server"
    places = ("/usr/lib/rabbitmq/bin", "/usr/sbin")

    def prepare(self) -> None:
        """Choose a port for other nodes, of which there are none."""
        self._other_port = free_port()

    def words(self) -> list[str]:
        """Return the command that starts the server."""
        return [self.path]

    def environment(self) -> dict[str, str]:
        """Return the settings of the node."""
        settings = {
            "NODENAME": f"driftsurf{self.port}@localhost",
            "NODE_IP_ADDRESS": "127.0.0.1",
            "NODE_PORT": str(self.port),
            "DIST_PORT": str(self._other_port),
            "MNESIA_BASE": str(self.folder / "mnesia"),
            "LOG_BASE": str(self.folder / "log"),
            "LOGS": str(self.folder / "log.txt"),
            "ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "CONFIG_FILE": str(self.folder / "none"),
        }
        return {"HOME": str(self.folder)} | {f"RABBITMQ_{name}": value for name, value in settings.items()}
