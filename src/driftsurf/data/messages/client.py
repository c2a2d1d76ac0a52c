"""Clients of brokers and databases: their addresses, and calls that are retried while a system cannot be reached."""

from __future__ import annotations

import contextlib
import logging
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar
from urllib.parse import parse_qsl, unquote

from driftsurf.core.input import listed
from driftsurf.core.secrets import Secret, read_secret, split_address
from driftsurf.errors import OptionError, SourceError, SourceUnreachableError
from driftsurf.errors.visible import safe_address
from driftsurf.registry import nearest

PASSWORD = "password"


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed address, such as ``redis://reader@host:6379/0/orders?password=env:REDIS_PASSWORD``.

    Passwords are never part of an address, because addresses are shown and stored: the parameter ``password`` names an
    environment variable or a file.

    Examples
    --------
    >>> address = Address.parse("nats://localhost/ORDERS", port=4222)
    >>> address.host, address.port, address.path
    ('localhost', 4222, ['ORDERS'])
    >>> Address.parse("redis://user:hunter2@localhost/0/orders", port=6379)
    Traceback (most recent call last):
    driftsurf.errors.OptionError: an address must not hold a password, because addresses are shown and stored; \
write redis://USER@localhost/...?password=env:NAME or password=file:PATH
    """

    scheme: str
    host: str
    port: int
    path: list[str]
    user: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    hosts: str = ""
    """Everything between the user and the path, for systems that take several hosts."""
    text: str = ""
    """The address as it was given."""

    @classmethod
    def parse(cls, text: str, *, port: int, known: Collection[str] | None = ()) -> Self:
        """Parse an address.

        Parameters
        ----------
        text
            The address.
        port
            Port of the system, if the address has none.
        known
            Parameters that the system knows beside ``password``; None if its client knows them.
        """
        parts = split_address(text)
        user, at, hosts = parts.netloc.rpartition("@")
        name, colon, _ = user.partition(":")
        if at and colon:
            raise OptionError(
                "an address must not hold a password, because addresses are shown and stored; write "
                f"{parts.scheme}://USER@{hosts}/...?{PASSWORD}=env:NAME or {PASSWORD}=file:PATH"
            )
        first = hosts.split(",")[0]
        host, number = _host_and_port(first, port, text)
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
        for one in parameters:
            if known is not None and one not in known and one != PASSWORD:
                choices = sorted([*known, PASSWORD])
                meant = nearest(one, choices)
                what = f"has no parameter {one!r}" if meant else "does not know a parameter of the address"
                raise OptionError(f"{parts.scheme}:// {what}; {meant}choices: {listed(choices)}")
        path = [unquote(part) for part in parts.path.split("/") if part]
        return cls(parts.scheme.lower(), host, number, path, unquote(name), parameters, hosts, text)

    @property
    def name(self) -> str:
        """The address without its user and its parameters, for messages."""
        return safe_address(self.text.partition("?")[0])

    def password(self) -> Secret | None:
        """Return the password, from the place that the parameter ``password`` names; None if there is none."""
        where = self.parameters.get(PASSWORD)
        return None if where is None else read_secret(PASSWORD, where)

    def part(self, place: int, what: str, form: str) -> str:
        """Return a part of the path; OptionError that shows the form of the address if it is missing."""
        if place >= len(self.path):
            raise OptionError(f"the address {self.name!r} does not name {what}; write {form}")
        return self.path[place]

    def number(self, name: str, otherwise: int) -> int:
        """Return a parameter that is a whole number."""
        text = self.parameters.get(name)
        if text is None:
            return otherwise
        if not text.isdecimal():
            raise OptionError(f"the parameter {name!r} of {self.name!r} must be a whole number; got {text!r}")
        return int(text)

    def flag(self, name: str) -> bool:
        """Return a parameter that is true or false; false if it is not given."""
        text = self.parameters.get(name, "false").lower()
        if text not in ("true", "false"):
            raise OptionError(f"the parameter {name!r} of {self.name!r} must be true or false; got {text!r}")
        return text == "true"


def _host_and_port(text: str, port: int, address: str) -> tuple[str, int]:
    """Return host and port of ``host``, ``host:port`` or ``[::1]:port``."""
    host, _, number = text.rpartition(":") if ":" in text and not text.endswith("]") else (text, "", "")
    if number and not (number.isdecimal() and int(number) < 65_536):
        known = safe_address(address.partition("?")[0])
        raise OptionError(f"the port in the address {known!r} must be a number from 1 to 65535")
    return host.strip("[]") or "localhost", int(number) if number else port


Result = TypeVar("Result")
FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0
"""Seconds between two attempts: they double from the first to the longest."""

log: logging.Logger = logging.getLogger("driftsurf.connectors")
_watching = threading.local()


@contextlib.contextmanager
def watched(failed: Callable[[str], object]) -> Iterator[None]:
    """Context in which failed attempts of this thread are told to a function; if it raises an error, they end."""
    _watching.failed = failed
    try:
        yield
    finally:
        del _watching.failed


def tell(reason: str) -> None:
    """Tell the function that watches this thread, if there is one, why a system cannot be reached."""
    getattr(_watching, "failed", _ignore)(reason)


@dataclass(slots=True)
class RetryPolicy:
    """Repeats what fails because a system cannot be reached, and tells of it in the log.

    Parameters
    ----------
    name
        Name of the system, without secrets.
    errors
        Exceptions of its client that mean that it cannot be reached now.
    seconds
        How long to go on trying before a call fails with SourceUnreachableError.
    reconnect
        Called before every further attempt.
    refuses
        Returns whether one of ``errors`` means that the system answers and refuses: user, password, permissions, or
        what the address names. A certificate that cannot be verified always does.
    """

    name: str
    errors: tuple[type[Exception], ...]
    seconds: float = 60.0
    reconnect: Callable[[], Any] | None = None
    refuses: Callable[[Exception], bool] | None = None
    failures: int = 0
    """Number of attempts that failed so far."""

    def call(self, act: Callable[[], Result]) -> Result:
        """Return what ``act`` returns, once it succeeds."""
        began, wait, before = time.monotonic(), FIRST_WAIT, self.failures
        while True:
            try:
                result = act()
                if self.failures > before:
                    log.info("%s is reached again", self.name)
                return result
            except self.errors as error:
                if _is_untrusted(error) or (self.refuses is not None and self.refuses(error)):
                    raise SourceError(
                        f"{self.name} refuses: {self._reason(error)}. Check user, password, permissions, certificates"
                    ) from error
                self.failures += 1
                tell(self._reason(error))
                left = self.seconds - (time.monotonic() - began)
                if left <= 0:
                    raise SourceUnreachableError(
                        f"{self.name} cannot be reached for {self.seconds:g} s: {self._reason(error)}. Start it, or "
                        "check host, port and credentials"
                    ) from error
                log.warning("%s cannot be reached, trying again: %s", self.name, self._reason(error))
                time.sleep(min(wait, left))
                wait = min(2 * wait, LONGEST_WAIT)
                self._reconnect()

    def _reconnect(self) -> None:
        if self.reconnect is not None:
            try:
                self.reconnect()
            except self.errors as error:
                log.debug("%s: %s", self.name, self._reason(error))

    @staticmethod
    def _reason(error: Exception) -> str:
        return str(error).strip() or type(error).__name__


def _is_untrusted(error: BaseException | None) -> bool:
    """Return whether an error comes from a certificate that cannot be verified; clients wrap it in errors of theirs."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        if isinstance(one, ssl.SSLCertVerificationError):
            return True
        seen.add(id(one))
        more = getattr(one, "exceptions", ())  # those of pika have the errors of all attempts
        waiting += [one.__cause__, one.__context__, getattr(one, "exception", None), *one.args]
        waiting += more if isinstance(more, list | tuple) else ()
    return False


def _ignore(reason: str) -> None:
    """Do nothing with the reason of a failure."""
