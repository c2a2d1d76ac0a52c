"""Base class of channels, and the HTTP request that most of them make."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from driftsurf.core.secrets import Secret, read_secret, split_address
from driftsurf.errors import DeliveryError, Option, OptionError, reason
from driftsurf.service.alerts.notice import Notice

__all__ = ["Channel", "address", "post"]

TIMEOUT = 10.0
"""Seconds that a receiver may take."""
TRY_LATER = 408, 425, 429
"""Refusals by which a receiver asks to be tried again; others below 500 say that the request itself is wrong."""


class Channel(ABC):
    """A way to tell people of a notice."""

    kind: ClassVar[str]
    repeats: ClassVar[float | None] = None
    """Seconds after which alerts that have not ended are sent again; None if telling once is enough."""

    @abstractmethod
    def send(self, notices: Sequence[Notice]) -> None:
        """Deliver notices, or raise DeliveryError."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: a secret in a header or an address must reach nobody else."""

    def redirect_request(self, *_: object) -> None:
        return None


def address(name: str, url: object) -> Secret:
    """Return an address for ``post``, which ``url`` gives itself or names as ``file:PATH`` or ``env:NAME``."""
    known = isinstance(url, str) and url.startswith(("http://", "https://"))
    found = Secret(str(url)) if known else read_secret(name, url)
    try:
        parts = split_address(found.value)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except (OptionError, ValueError):  # whose messages may show parts of it
        usable = False
    if not usable or not found.value.isascii() or " " in found.value:
        raise OptionError(Option(name), " must be an address that begins with http:// or https://")
    if "@" in parts.netloc:
        raise OptionError(Option(name), " must not hold a name or a password")
    return found


def post(url: Secret, body: bytes, headers: Mapping[str, str]) -> None:
    """Send a body of JSON to an address, and raise DeliveryError unless it is taken."""
    request = urllib.request.Request(
        url.value, body, {"Content-Type": "application/json", "User-Agent": "driftsurf", **headers}, method="POST"
    )
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler())
    try:
        with opener.open(request, timeout=TIMEOUT) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        with error:  # it holds the connection
            later = error.code >= 500 or error.code in TRY_LATER
            raise DeliveryError(f"the receiver answered {error.code}", later=later) from None
    except (OSError, http.client.HTTPException, ssl.SSLError) as error:
        why = reason(error) if isinstance(error, OSError) else type(error).__name__
        raise DeliveryError(f"the receiver cannot be reached: {why}", later=True) from None
