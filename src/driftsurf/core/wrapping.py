"""Text that is wrapped at word ends, whatever the width of the terminal is."""

from __future__ import annotations

import re
import textwrap

__all__ = ["wrapped"]

_LABEL = re.compile(r" *\S+(?: \S+)? {2,}")
"""A label and the space after it, as in a line of two columns."""
DEEP = 8
"""Indentation from which on a line continues a column, and is not a paragraph of its own."""


def wrapped(text: str, width: int, hang: int | None = None) -> str:
    """Wrap each line of a text at word ends; words longer than a line, such as paths, are not broken.

    A line is continued after ``hang`` spaces. By default the text beside a label stays in its column, and an indented
    line is continued two characters deeper.

    >>> print(wrapped("left out  id, name, city of birth, date", 24))
    left out  id, name, city
              of birth, date
    >>> print(wrapped("  model 0: created at step 0", 20))
      model 0: created
        at step 0
    """
    return "\n".join(_line(line, width, hang) for line in text.split("\n"))


def _line(line: str, width: int, hang: int | None) -> str:
    if len(line) <= width:
        return line
    indent = len(line) - len(line.lstrip())
    label = _LABEL.match(line)
    if hang is None:
        hang = len(label[0]) if label else indent if indent >= DEEP or not indent else indent + 2
    if hang > width // 2:  # too narrow for a column beside the label
        hang = min(indent + 2, width // 2)
    return textwrap.fill(line, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False)
