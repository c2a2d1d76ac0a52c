"""A connection to a NATS server, whose client runs in an event loop of its own thread."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import ssl
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from driftsurf.core.secrets import Secret, read_secret
from driftsurf.data.messages.client import PASSWORD, Address, RetryPolicy
from driftsurf.errors import DriftsurfError, OptionError, SourceError, reason

FORM = "nats://HOST:PORT/STREAM"
PARAMETERS = "subject", "replicas", "tls", "ca", "cert", "key", "token"
ANSWER = 10.0
"""Seconds of silence after which a connection counts as broken."""

Result = TypeVar("Result")


class Interrupted(Exception):
    """The server cannot be reached now, or forgot what a connection was doing."""


class Link:
    """A stream of JetStream, and a connection to its server.

    The client does not reconnect by itself, because what it would send again is not known. Each call that finds the
    connection broken is repeated with a new one, for a while.
    """

    def __init__(self, location: str) -> None:
        address = Address.parse(location, port=4222, known=PARAMETERS)
        self.address: Address = address
        self.stream: str = address.part(0, "a stream", FORM)
        if len(address.path) > 1:
            raise OptionError(f"the address {address.name!r} names more than a stream; write {FORM}")
        if any(one in self.stream for one in ".*> \t"):
            raise OptionError(f"{self.stream!r} is no name of a stream of NATS: it must not have points, * or >")
        address.flag("tls")
        if address.user and PASSWORD not in address.parameters:
            raise OptionError("nats:// needs the password of a user: add password=env:NAME; a token is token=env:NAME")
        # Imported here, so that this file can be imported where the client is not installed.
        self.library: Any = importlib.import_module("nats")
        self.retry: RetryPolicy = RetryPolicy(self.name, (Interrupted,))
        self.client: Any = None
        self._closed: asyncio.Event = asyncio.Event()
        """Set when the connection is lost, or the server refuses."""
        self._refusal = ""
        """What the server has refused over this connection."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self.address.name

    @property
    def streams(self) -> Any:
        """The interface of JetStream."""
        return self.client.jetstream(timeout=ANSWER)

    def ask(self, act: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return what a coroutine returns, over a new connection if there is none.

        SourceError if the server cannot be reached for long, or refuses.
        """
        return self.retry.call(lambda: self.result(self.start(self.connected(act))))

    def start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Future[Result]:
        """Start a coroutine in the loop of the client."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="nats", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)  # type: ignore[return-value]

    def result(self, future: asyncio.Future[Result]) -> Result:
        """Return the result of what was started; Interrupted if the connection was lost."""
        errors: Any = self.library.errors
        own: Any = importlib.import_module("nats.js.errors")
        try:
            return future.result()
        except (Interrupted, DriftsurfError):  # some of ours are errors of the system, too
            raise
        except (own.ServiceUnavailableError, OSError, TimeoutError) as error:
            raise Interrupted(reason(error) if isinstance(error, OSError) else str(error)) from error
        except own.APIError as error:
            raise SourceError(f"{self.name}: {error.description or error}") from error
        except errors.Error as error:  # the connection was closed, or nobody answers
            raise Interrupted(str(error)) from error

    async def connected(self, act: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Await a coroutine, over a new connection if there is none; Interrupted if the connection is lost."""
        if self.client is None or self.client.is_closed:
            await self._connect()
        work, lost = asyncio.ensure_future(act()), asyncio.ensure_future(self._closed.wait())
        await asyncio.wait((work, lost), return_when=asyncio.FIRST_COMPLETED)
        lost.cancel()
        if not work.done():
            work.cancel()
            if self._refusal:
                raise self._refused(self._refusal)
            raise Interrupted("the connection is lost")
        return work.result()

    async def _connect(self) -> None:
        address = self.address
        closed = self._closed = asyncio.Event()
        self._refusal = ""

        async def forget() -> None:
            closed.set()

        async def note(error: Exception) -> None:
            """Note a refusal, after which no answer comes; of other errors, the call that fails tells."""
            if _is_refusal(error):
                self._refusal = str(error)
                closed.set()

        options: dict[str, Any] = {
            "allow_reconnect": False,
            "max_reconnect_attempts": 1,  # of each host, before connecting fails
            "reconnect_time_wait": 0,
            "connect_timeout": ANSWER,
            "closed_cb": forget,
            "error_cb": note,
        }
        password, token = address.password(), self._token()
        if password is not None:
            options |= {"user": address.user, "password": password.value}
        if token is not None:
            options["token"] = token.value
        if address.flag("tls") or "ca" in address.parameters:
            options["tls"] = self._tls()
        scheme = "tls" if "tls" in options else "nats"
        servers = [f"{scheme}://{one}" for one in (address.hosts or address.host).split(",")]
        client = self.library.NATS()
        try:
            await asyncio.wait_for(client.connect(servers, **options), 2 * ANSWER)
        except BaseException as error:
            with contextlib.suppress(TimeoutError):  # after a failed handshake, closing never ends
                await asyncio.wait_for(client.close(), 1.0)
            if isinstance(error, ssl.SSLError):
                raise SourceError(f"{self.name}: TLS fails: {error}") from error
            if _is_refusal(error):
                raise self._refused("user, password or token") from error
            raise
        self.client = client

    def _refused(self, what: str) -> SourceError:
        return SourceError(f"{self.name} refuses: {what}. Check user, password, token and permissions")

    def _token(self) -> Secret | None:
        where = self.address.parameters.get("token")
        return None if where is None else read_secret("token", where)

    def _tls(self) -> ssl.SSLContext:
        parameters = self.address.parameters
        try:
            context = ssl.create_default_context(cafile=parameters.get("ca"))
            if "cert" in parameters:
                context.load_cert_chain(parameters["cert"], parameters.get("key"))
        except OSError as error:
            raise SourceError(f"{self.name}: the certificates cannot be read: {reason(error)}") from error
        return context

    async def about(self) -> Any:
        """Return what the server knows about the stream; None if there is none."""
        own: Any = importlib.import_module("nats.js.errors")
        try:
            return await self.streams.stream_info(self.stream)
        except own.NotFoundError:
            return None

    def close(self) -> None:
        """Disconnect, and end the thread."""
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        client, self.client = self.client, None
        if loop is None or thread is None:
            return

        async def leave() -> None:
            if client is not None and not client.is_closed:
                await client.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for one in others:
                one.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        try:
            asyncio.run_coroutine_threadsafe(leave(), loop).result(ANSWER)
        except TimeoutError:  # it is being closed: what the server still thinks does not matter
            pass
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def _is_refusal(error: BaseException) -> bool:
    """Return whether the server refuses a user or what the user asks for; the client has no exceptions for that.

    >>> _is_refusal(OSError("nats: 'Authorization Violation'")), _is_refusal(OSError("nats: no servers available"))
    (True, False)
    """
    text = str(error).lower()
    if "timeout" in text:  # the server has waited for the client, which may have been slow
        return False
    return any(one in text for one in ("authorization", "authentication", "permissions violation", "account not found"))
