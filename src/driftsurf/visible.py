"""Text that came from data, as it may be shown: no character in it controls a terminal, a page or a log.

A cell, a name or a file name may hold escape sequences that repaint a terminal, line breaks that forge a line of a log,
or marks that reverse the direction of writing. The places that write text for people pass all of it through
:func:`visible`: errors and warnings (:class:`driftsurf.errors.Message`), the console, the log, and, with
:func:`escape`, pages and drawings. Files for programs (CSV, JSON) keep every character as it is.
"""

from __future__ import annotations

import html
import re
from typing import Any

__all__ = ["escape", "visible", "visible_values"]

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


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return a text in which characters that control something are written as Python escapes them.

    ``lines`` keeps line breaks and tabs, for a text of several lines whose parts are visible already.

    >>> visible("red\x1b[31m\nnext"), visible("txt.\u202eexe")
    ('red\\x1b[31m\\nnext', 'txt.\\u202eexe')
    """
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
