"""Text that would be numbers or dates if the dialect said how."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product
from typing import TypeAlias

from driftsurf.errors import Option
from driftsurf.sources._base import Dialect
from driftsurf.sources._cells import APOSTROPHES, SPACES, infer, marks

__all__ = ["Ways", "date_options", "number_options"]

Ways: TypeAlias = list[list[str | Option]]
"""Each as parts of a message."""
FIRST = 3
"""If one of so many does not even look like it, no other is looked at."""
_GROUPED = re.compile(rf"[+-]?\d([\d.,{APOSTROPHES}{SPACES}]*\d)?", re.ASCII)
_DATE_LIKE = re.compile(r"([A-Za-z]{3,9}\.?,? )?(\d{1,4}|[A-Za-z]{3,9})[./ -](\d{1,2}|[A-Za-z]{3,9})[,./ -].*")
_DAYS = (
    *("%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%Y/%m/%d", "%Y.%m.%d"),
    *("%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y"),
    *("%a, %d %b %Y", "%b %d %Y"),
)
_TIMES = "", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p"


def number_options(words: Sequence[str], dialect: Dialect) -> Ways:
    """The ways in which words would be numbers.

    >>> for way in number_options(["1,234"], Dialect()):
    ...     print(*way)
    decimal=','
    thousands=','
    """
    if not all(map(_GROUPED.fullmatch, words[:FIRST])):
        return []
    letters = set("".join(words))
    ways = Ways()
    for decimal, thousands in product((",", "."), (None, ".", ",", " ", "'")):
        options = [Option("decimal", decimal)] if decimal != dialect.decimal else []
        options += [Option("thousands", thousands)] if thousands not in (None, dialect.thousands) else []
        used = all(letters & set(marks(option.value)) for option in options)
        other = replace(dialect, decimal=decimal, thousands=thousands)
        if options and used and decimal != thousands and infer(words, other) == "number":
            ways.append([part for option in options for part in (" ", option)][1:])
    return sorted(ways, key=len)


def date_options(words: Sequence[str], dialect: Dialect) -> Ways:
    """The same for dates: two forms at most, for day and month may be told apart by nothing."""
    if not all(map(_DATE_LIKE.fullmatch, words[:FIRST])):
        return []
    forms = (day + time for day, time in product(_DAYS, _TIMES))
    fit = (form for form in forms if infer(words, replace(dialect, date_formats=(form,))) == "date")
    return [[Option("date_formats", form)] for form in islice(fit, 2)]
