"""The server: a port, signals, and a graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from driftsurf.errors import DriftsurfError, Option, OptionError, reason
from driftsurf.service.committer import in_turns
from driftsurf.service.http.app import App
from driftsurf.service.http.protocol import guarded, sweep

__all__ = ["HttpServer", "check_address"]

log: logging.Logger = logging.getLogger("driftsurf.service")
SWITCH_SECONDS = 0.0001
"""How long another thread may keep the event loop waiting; a fiftieth of what Python would allow."""


def check_address(host: str, *, has_keys: bool) -> None:
    """Raise OptionError if others could reach a service without keys."""
    if has_keys or host.lower() == "localhost":
        return
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise OptionError(
            Option("host"),
            f" is {host!r}, and the service has no keys; add keys (driftsurf serve --make-key NAME), or serve this "
            "machine only with ",
            Option("host", "127.0.0.1"),
        )


class HttpServer:
    """Serves an application at a port until a signal ends it.

    SIGTERM and SIGINT end it: it takes no more connections, requests under way end, and event streams are closed.
    SIGHUP calls ``reload``.

    Parameters
    ----------
    app
        The application.
    host, port
        Where to listen; port 0 takes a free one. The port is bound at once, and opened by :meth:`run`.
    reload
        Called on SIGHUP.
    """

    def __init__(
        self, app: App, host: str = "127.0.0.1", port: int = 8470, reload: Callable[[], None] | None = None
    ) -> None:
        self.app = app
        self.reload = reload
        check_address(host, has_keys=bool(app.gate.keys))
        self.socket: socket.socket = _bound(host, port)
        self.host: str = host
        self.port: int = self.socket.getsockname()[1]
        limits = app.limits
        config = uvicorn.Config(
            app,
            http=guarded(app),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            date_header=True,
            timeout_keep_alive=limits.idle_seconds,
            timeout_graceful_shutdown=limits.drain_seconds,
            backlog=limits.connections,
        )
        self.server: uvicorn.Server = _Server(config, self)
        app.connections = lambda: len(self.server.server_state.connections)

    @property
    def address(self) -> str:
        """Where the service is reached."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until a signal, or :meth:`stop`, ends it; ``ready`` is called when the port is open."""
        usual = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(self._run(ready))
        finally:
            sys.setswitchinterval(usual)

    def stop(self) -> None:
        """End the server; from any thread."""
        self.app.close()
        self.server.should_exit = True

    async def _run(self, ready: Callable[[], None]) -> None:
        sweeper = asyncio.create_task(sweep(self.server.server_state.connections))
        opened = asyncio.create_task(self._when_open(ready))
        try:
            with in_turns(asyncio.get_running_loop().call_soon):
                await self.server.serve([self.socket])
        finally:
            for task in (sweeper, opened):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _when_open(self, ready: Callable[[], None]) -> None:
        while not self.server.started:
            await asyncio.sleep(0.005)
        ready()

    def end(self, number: int) -> None:
        """End the server because of a signal."""
        log.info("%s: no more requests are taken; those under way end first", signal.Signals(number).name)
        self.app.close()
        self.server.should_exit = True

    def read_again(self) -> None:
        """Read keys, limits and alerts again because of SIGHUP; an error is logged, and what was valid stays."""
        if self.reload is None:
            return
        try:
            self.reload()
        except (DriftsurfError, OSError) as error:
            log.error("SIGHUP: the configuration cannot be used, and the last one stays: %s", error)
        except Exception:
            log.exception("SIGHUP: the configuration cannot be used; the last one stays")
        else:
            log.info("SIGHUP: keys, limits and alerts were read again")


class _Server(uvicorn.Server):
    """uvicorn, with signals that end it with the exit code 0."""

    def __init__(self, config: uvicorn.Config, owner: HttpServer) -> None:
        super().__init__(config)
        self.owner = owner

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals, if this is the main thread."""
        loop = asyncio.get_running_loop()
        numbers: list[int] = []
        before: dict[int, Any] = {}
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.owner.end, number)
                numbers.append(number)
            if sys.platform != "win32":
                loop.add_signal_handler(signal.SIGHUP, self.owner.read_again)
                numbers.append(signal.SIGHUP)
        except (RuntimeError, ValueError):  # not the main thread
            pass
        except NotImplementedError:  # loops on Windows: the interpreter calls the handler, in the main thread
            before = {n: signal.signal(n, lambda n, _: self.owner.end(n)) for n in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for handled in numbers:
                loop.remove_signal_handler(handled)
            for handled, handler in before.items():
                signal.signal(handled, handler)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the event loop: that of uvloop where it is installed, as Windows does not have it."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return None
    return factory


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound and does not listen yet, so that nobody connects before models are warm."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise OptionError(Option("host"), f" is {host!r}, which is no address here: {reason(error)}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise OptionError(
            Option("port"), f" is {port}, which cannot be opened at {host}: {reason(error)}; choose another one"
        ) from error
    bound.set_inheritable(False)
    return bound
