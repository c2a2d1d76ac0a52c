"""The parameters that a numpydoc docstring describes."""

from __future__ import annotations

import inspect
import re

__all__ = ["parameters", "summary"]

_UNDERLINED = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)
_REFERENCE = re.compile(r"As for :class:`([\w.]+)`")


def summary(part: object) -> str:
    """Return the first paragraph of a docstring."""
    return (inspect.getdoc(part) or "").partition("\n\n")[0]


def sections(part: object) -> dict[str, str]:
    """Return the sections of a docstring by title."""
    pieces = _UNDERLINED.split(inspect.getdoc(part) or "")
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def parameters(part: object) -> dict[str, str]:
    """Return the description of each parameter; of those that share one, each by itself.

    >>> class Part:
    ...     '''A part.
    ...
    ...     Parameters
    ...     ----------
    ...     width, height
    ...         In pixels.
    ...     '''
    >>> parameters(Part)
    {'width': 'In pixels.', 'height': 'In pixels.'}
    """
    found: dict[str, str] = {}
    names: list[str] = []
    lines: list[str] = []
    for line in [*sections(part).get("Parameters", "").splitlines(), "end"]:
        if line and not line[0].isspace():
            found |= dict.fromkeys(names, inspect.cleandoc("\n".join(lines)))
            names, lines = [name.strip() for name in line.partition(":")[0].split(",")], []
        else:
            lines.append(line)
    return found


def referenced(text: str) -> str:
    """Return the path of the class that a description refers to, or nothing.

    >>> referenced("As for :class:`driftsurf.strategies.DriftSurf`.")
    'driftsurf.strategies.DriftSurf'
    """
    match = _REFERENCE.match(text)
    return match[1] if match else ""
