"""Text that came from data, as it may be shown: no character in it controls a terminal, a page or a log.

A cell, a name or a file name may hold escape sequences that repaint a terminal, line breaks that forge a line of a log,
or marks that reverse the direction of writing; an address may hold a password, a token or a signature. The places that
write text for people pass all of it through :func:`visible`: errors and warnings
(:class:`driftsurf.errors.Message`), the console, the log, and, with :func:`escape`, pages and drawings. Files for
programs (CSV, JSON) keep every character as it is.
"""

from __future__ import annotations

import html
import re
from typing import Any

_LAYOUT = "\\t\\n"
_HIDDEN = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters; 9b alone begins an escape sequence
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # direction of writing
    r"\u2028\u2029"  # line and paragraph separators
    r"\u200b\u2060-\u2064\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # characters that show nothing
    r"\ud800-\udfff"  # bytes of a file name that are no text, which cannot be written
)
_ONE_LINE = re.compile(f"[{_HIDDEN}{_LAYOUT}]")
_LINES = re.compile(f"[{_HIDDEN}]")


_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]{1,20}:/+"
_ADDRESS = re.compile(
    rf"""(?<='){_SCHEME}(?:[^'\\\n]|\\.)*(?='(?:[\s,.;:)\]}}>]|$))"""
    rf"""|(?<="){_SCHEME}(?:[^"\\\n]|\\.)*(?="(?:[\s,.;:)\]}}>]|$))"""
    rf"""|(?P<bare>{_SCHEME}(?:[^\s/@]{{1,100}}:[^/@\n]{{0,100}}@|[^/@\n'"?#]{{1,200}}@)?\S+)"""
)
"""An address in a text: all that is between quotation marks, or what follows the scheme.

A user or a password with spaces is part of it, though no client would take it. Paths have lost one of two slashes.
"""
_WHOLE = re.compile(rf"\s*{_SCHEME}.*", re.DOTALL)
"""A text that is nothing but an address."""
_HOST = r"(?:\[[^\]]*\]|[^:,\[\]@]*)(?::(?:\d*|PORT))?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")
_CERTAIN = re.compile(r"localhost|.*[.,].*|.*:\d+|\[.*\].*", re.DOTALL)
"""What is a host even if an @ follows in the path: a token with a slash looks like a host of one word."""
_AFTER = "'\"`,.;:)]}>"
"""Signs of the sentence around an address, which may follow it."""
_NAMED = re.compile(r"(env|file):[\w./~-]+")
"""Where a secret is, instead of the secret itself."""
_HARMLESS = {
    "kafka": ("partition", "group.id", "security.protocol", "sasl.mechanism", "sasl.mechanisms"),
    "nats": ("subject", "tls"),
    "amqp": ("vhost", "stream"),
    "mqtt": ("client", "session"),
    "postgresql": ("schema", "order", "xid", "value", "listen", "query", "sslmode"),
}
"""Parameters that are no secrets, by scheme. Those of the web may be signatures, keys or tokens under any name."""
_FAMILIES = {"amqps": "amqp", "mqtts": "mqtt", "postgres": "postgresql"}


def without_secrets(text: str) -> str:
    """Return a text in which every address is safe to show and to store.

    User, password and fragment are replaced, and so are all parameters, but those that are known to be harmless or that
    name where a secret is.

    >>> without_secrets("'https://me:hunter2@host/rows.csv?sv=2020&sig=hunter2#hunter2' cannot be read")
    "'https://***@host/rows.csv?...#...' cannot be read"
    >>> without_secrets("nats://hunter2@host/ORDERS?subject=eu&token=env:TOKEN&other=hunter2")
    'nats://***@host/ORDERS?subject=eu&token=env:TOKEN&...'
    """
    return _ADDRESS.sub(_safe_match, text) if ":/" in text else text


def safe_address(text: str) -> str:
    """Return a text that may be an address as a whole, spaces included, without its secrets.

    >>> safe_address("redis://host/0/orders?password=two words")
    'redis://host/0/orders?...'
    """
    return _safe_address(text) if _WHOLE.fullmatch(text) else without_secrets(text)


def user_of(rest: str) -> str:
    """Return the user and the password of an address, given without its scheme; "" if it has none.

    A password may hold signs that should be written otherwise, and an @ may follow in a path or a parameter.
    """
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    user, _, host = authority.rpartition("@")
    if _HOSTS.fullmatch(host) and (_CERTAIN.fullmatch(host) or "@" not in rest[len(authority) :]):
        return user
    return rest.rpartition("@")[0]


def _safe_match(found: re.Match[str]) -> str:
    if found["bare"] is None:
        return _safe_address(found[0])
    whole = found[0].rstrip(_AFTER)
    return _safe_address(whole) + found[0][len(whole) :]


def _safe_address(whole: str) -> str:
    scheme, slashes, rest = re.split("(:/+)", whole, maxsplit=1)
    family = _FAMILIES.get(scheme.strip().lower(), scheme.strip().lower())
    if family == "file":
        return whole
    wildcard = "\0" if family == "mqtt" else "#"  # the last level of a topic may be #
    rest = re.sub(r"/#(?=$|\?)", f"/{wildcard}", rest)
    user = user_of(rest)
    rest = rest[len(user) + 1 :] if user or rest.startswith("@") else rest
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    if not _HOSTS.fullmatch(authority):  # a password in place of a port
        user, rest = authority, rest[len(authority) :]
    body, hash_, fragment = rest.partition("#")
    body, mark, query = body.partition("?")
    if family in ("http", "https") and ";" in body:  # parameters of a path, such as the number of a session
        body = f"{body.partition(';')[0]};..."
    shown = scheme + slashes + ("USER@" if user == "USER" else "***@" * bool(user)) + body
    shown += mark + "&".join(_safe_parameters(family, query)) + hash_ + "..." * bool(fragment)
    return shown.replace("\0", "#")


def _safe_parameters(family: str, query: str) -> list[str]:
    given = [one for one in query.split("&") if one]
    shown = [
        one
        for one in given
        for name, _, value in [one.partition("=")]
        if name in _HARMLESS.get(family, ()) or (family not in ("http", "https") and _NAMED.fullmatch(value))
    ]
    return shown if len(shown) == len(given) else [*shown, "..."]


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return a text in which characters that control something are written as Python escapes them.

    Addresses are without secrets. ``lines`` keeps line breaks and tabs, for a text of several lines whose parts are
    visible already.

    >>> visible("red\x1b[31m\nnext"), visible("txt.\u202eexe")
    ('red\\x1b[31m\\nnext', 'txt.\\u202eexe')
    """
    if not lines:
        text = without_secrets(text)
    return (_LINES if lines else _ONE_LINE).sub(lambda found: repr(found[0])[1:-1], text)


def escape(text: str, *, quote: bool = True) -> str:
    """Return a visible text as HTML; ``quote`` also makes it fit for an attribute.

    >>> escape("a < b\\x07")
    'a &lt; b\\\\x07'
    """
    return html.escape(visible(text), quote=quote)


def visible_values(value: Any) -> Any:
    """Return lists and dictionaries of plain values in which every text is visible."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible_values(key): visible_values(entry) for key, entry in value.items()}
    return [visible_values(entry) for entry in value] if isinstance(value, list | tuple) else value
