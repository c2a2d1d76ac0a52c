"""Addresses of brokers and databases: what they name, and where their secrets are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl, unquote

from driftsurf.core.input import listed
from driftsurf.core.secrets import Secret, read_secret, split_address
from driftsurf.errors import OptionError
from driftsurf.registry import nearest
from driftsurf.visible import safe_address

__all__ = ["Address"]

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
