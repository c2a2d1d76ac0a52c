"""Secrets of a configuration: named by a file or an environment variable, never written into it.

Addresses may hold secrets all the same: what is stored of them is :func:`storable`, and what is shown passes through
:func:`driftsurf.errors.visible.visible`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from driftsurf.errors import Option, OptionError, reason
from driftsurf.errors.visible import safe_address, user_of

MOST_BYTES = 64 * 1024
"""Bytes that a file with a secret may have at most."""


@dataclass(frozen=True)
class Secret:
    """A secret, which shows itself in no log, error or traceback.

    >>> Secret("hunter2")
    Secret(hidden)
    >>> Secret("hunter2").value
    'hunter2'
    """

    value: str

    def __repr__(self) -> str:
        return "Secret(hidden)"

    __str__ = __repr__


def read_secret(name: str, where: object, environment: Mapping[str, str] | None = None) -> Secret:
    """Return the secret of option ``name`` from the place that its value ``where`` names.

    Parameters
    ----------
    name
        Name of the option, for error messages.
    where
        ``"file:PATH"`` for the first line of a file, or ``"env:NAME"`` for an environment variable.
    environment
        The environment variables; those of the process by default.

    Examples
    --------
    >>> read_secret("password", "env:MAIL_PASSWORD", {"MAIL_PASSWORD": "hunter2"}).value
    'hunter2'
    """
    kind, _, place = where.partition(":") if isinstance(where, str) else ("", "", "")
    if kind == "env" and place:
        found = (os.environ if environment is None else environment).get(place, "")
        if not found:
            raise OptionError(Option(name), f" is the environment variable {place!r}, which is not set; set it")
        return Secret(found)
    if kind == "file" and place:
        return Secret(_first_line(name, Path(place)))
    # What was given may be the secret itself, so the message does not repeat it.
    raise OptionError(Option(name), ' must name where the secret is: "file:PATH" or "env:NAME"')


def storable(value: Any) -> Any:
    """Return plain values, such as options, in which no address holds a secret.

    >>> storable({"source": "https://host/rows.csv?sig=hunter2", "drop": ["id"]})
    {'source': 'https://host/rows.csv?...', 'drop': ['id']}
    """
    if isinstance(value, str):
        return safe_address(value)
    if isinstance(value, Mapping):
        return {key: storable(entry) for key, entry in value.items()}
    return [storable(entry) for entry in value] if isinstance(value, list | tuple) else value


def split_address(text: str) -> SplitResult:
    """Return the parts of an address; OptionError, in which nothing of it is shown, if they cannot be told apart.

    >>> split_address("nats://hunter/2@host/ORDERS")
    Traceback (most recent call last):
    driftsurf.errors.OptionError: the user of an address that begins with nats:// holds /, ? or #; write %2F, %3F or %23
    """
    scheme, slashes, rest = text.partition("://")
    what = f"of an address that begins with {scheme}{slashes}"
    if not text.isprintable():  # urlsplit leaves line breaks and tabs out
        raise OptionError(f"a part {what} holds a line break or another control character; leave it out")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise OptionError(f"the host {what} cannot be read; only an IPv6 address is written in brackets") from None
    if user_of(rest) != parts.netloc.rpartition("@")[0]:
        raise OptionError(f"the user {what} holds /, ? or #; write %2F, %3F or %23")
    return parts


def _first_line(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            line = file.read(MOST_BYTES).split(b"\n", 1)[0].strip().decode()
    except (OSError, UnicodeDecodeError) as error:
        why = reason(error) if isinstance(error, OSError) else "it is not text in UTF-8"
        raise OptionError(Option(name), f" is in the file {str(path)!r}, which cannot be read: {why}") from error
    if not line:
        raise OptionError(Option(name), f" is in the file {str(path)!r}, whose first line is empty")
    return line
