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

__all__ = ["escape", "visible", "visible_values", "without_secrets"]

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


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}://(?:[^\s/@]{1,100}:[^/@\n]{0,100}@)?\S+")
"""An address in a text. A password with spaces is part of it, though no client would take it."""
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
    return _ADDRESS.sub(_safe_address, text) if "://" in text else text


def _safe_address(found: re.Match[str]) -> str:
    whole = found[0].rstrip(_AFTER)
    after = found[0][len(whole) :]
    scheme, _, rest = whole.partition("://")
    family = _FAMILIES.get(scheme.lower(), scheme.lower())
    if family == "file":
        return found[0]
    wildcard = "\0" if family == "mqtt" else "#"  # the last level of a topic may be #
    rest = re.sub(r"/#(?=$|\?)", f"/{wildcard}", rest)
    user, at, _ = rest.rpartition("@")
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    if at and ("@" in authority or not re.fullmatch(r"[^:]*(:\d*)?|\[.*\](:\d*)?", authority)):
        # A password may hold signs that should be written otherwise, and an @ may follow in a path or a parameter.
        end = len(authority) - len(authority.rpartition("@")[2]) - 1 if "@" in authority else len(user)
        user, rest = rest[:end], rest[end + 1 :]
    else:
        user = ""
    body, hash_, fragment = rest.partition("#")
    body, mark, query = body.partition("?")
    if family in ("http", "https") and ";" in body:  # parameters of a path, such as the number of a session
        body = f"{body.partition(';')[0]};..."
    shown = f"{scheme}://" + ("USER@" if user == "USER" else "***@" * bool(user)) + body
    shown += mark + "&".join(_safe_parameters(family, query)) + hash_ + "..." * bool(fragment)
    return shown.replace("\0", "#") + after


def _safe_parameters(family: str, query: str) -> list[str]:
    given = [one for one in query.split("&") if one]
    kept = [
        one
        for one in given
        for name, _, value in [one.partition("=")]
        if name in _HARMLESS.get(family, ()) or (family not in ("http", "https") and _NAMED.fullmatch(value))
    ]
    return kept if len(kept) == len(given) else [*kept, "..."]


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
