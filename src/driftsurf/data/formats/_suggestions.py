"""Find the reading options with which text would be numbers or dates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product
from typing import TypeAlias

from driftsurf.data.formats._cells import APOSTROPHES, SPACES, grouping_characters, infer_kind
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.errors import Option

__all__ = ["Ways", "suggest_date_options", "suggest_number_options"]

Ways: TypeAlias = list[list[str | Option]]
"""Alternatives, each as parts of a message."""
PROBED_WORDS = 3
"""Words that are compared with a rough pattern first, because most text is neither a number nor a date."""
_LIKE_A_NUMBER = re.compile(rf"[+-]?\d([\d.,{APOSTROPHES}{SPACES}]*\d)?", re.ASCII)
_LIKE_A_DATE = re.compile(r"([A-Za-z]{3,9}\.?,? )?(\d{1,4}|[A-Za-z]{3,9})[./ -](\d{1,2}|[A-Za-z]{3,9})[,./ -].*")
_DAYS = (
    *("%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%Y/%m/%d", "%Y.%m.%d"),
    *("%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y"),
    *("%a, %d %b %Y", "%b %d %Y"),
)
_TIMES = "", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p"


def suggest_number_options(words: Sequence[str], reading: ReadingOptions) -> Ways:
    """Return the options with which all words would be numbers, the shortest first.

    >>> for way in suggest_number_options(["1,234"], ReadingOptions()):
    ...     print(*way)
    decimal=','
    thousands=','
    """
    if not all(map(_LIKE_A_NUMBER.fullmatch, words[:PROBED_WORDS])):
        return []
    letters = set("".join(words))
    ways = Ways()
    for decimal, thousands in product((",", "."), (None, ".", ",", " ", "'")):
        options = [Option("decimal", decimal)] if decimal != reading.decimal else []
        options += [Option("thousands", thousands)] if thousands not in (None, reading.thousands) else []
        used = all(letters & set(grouping_characters(option.value)) for option in options)
        other = replace(reading, decimal=decimal, thousands=thousands)
        if options and used and decimal != thousands and infer_kind(words, other) == "number":
            ways.append([part for option in options for part in (" ", option)][1:])
    return sorted(ways, key=len)


def suggest_date_options(words: Sequence[str], reading: ReadingOptions) -> Ways:
    """Return the formats with which all words would be dates: at most two, because day and month may be ambiguous."""
    if not all(map(_LIKE_A_DATE.fullmatch, words[:PROBED_WORDS])):
        return []
    formats = (day + time for day, time in product(_DAYS, _TIMES))
    fitting = (one for one in formats if infer_kind(words, replace(reading, date_formats=(one,))) == "date")
    return [[Option("date_formats", one)] for one in islice(fitting, 2)]
