"""Words that depend on numbers, parts of sentences that may be absent, and the names and form of figures of models."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

T = TypeVar("T")


def plural(noun: str, count: float) -> str:
    """Return a noun in the form that a count asks for.

    >>> plural("row", 1), plural("row", 0), plural("class", 2), plural("key", 2), plural("query", 3)
    ('row', 'rows', 'classes', 'keys', 'queries')
    """
    if count == 1:
        return noun
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "step"), counted(12_000, "batch")
    ('1 step', '12,000 batches')
    """
    return f"{count:,} {plural(noun, count)}"


def agreeing(count: int, one: str, several: str) -> str:
    """Return the verb that agrees with a count.

    >>> [agreeing(count, "has", "have") for count in (1, 2, 0)]
    ['has', 'have', 'have']
    """
    return one if count == 1 else several


def optional(condition: object, text: str) -> str:
    """Return a part of a sentence if a condition holds, else nothing.

    >>> f"3 keys{optional(2, ', 2 of them now')}{optional('', ', named')}"
    '3 keys, 2 of them now'
    """
    return text if condition else ""


def in_words(values: Sequence[T], show: Callable[[T], str] = str, *, most: int = 8, last: str = ", ") -> str:
    """Return the first values of a list, and how many more there are.

    ``last`` stands before the last value of a list that is shown in full.

    >>> in_words(["a", "b", "c"], repr, last=" and "), in_words(range(20), most=3)
    ("'a', 'b' and 'c'", '0, 1, 2 and 17 more')
    """
    shown = [show(value) for value in values[:most]]
    if len(values) > most:
        return f"{', '.join(shown)} and {len(values) - most:,} more"
    return last.join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


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
    return "\n".join(_wrapped_line(line, width, hang) for line in text.split("\n"))


def _wrapped_line(line: str, width: int, hang: int | None) -> str:
    if len(line) <= width:
        return line
    indent = len(line) - len(line.lstrip())
    label = _LABEL.match(line)
    if hang is None:
        hang = len(label[0]) if label else indent if indent >= DEEP or not indent else indent + 2
    if hang > width // 2:  # too narrow for a column beside the label
        hang = min(indent + 2, width // 2)
    return textwrap.fill(line, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False)


UNITS = "KiB", "MiB", "GiB", "TiB"


def shown_bytes(count: float) -> str:
    """Return a number of bytes in the largest unit of which it has at least one.

    >>> [shown_bytes(count) for count in (0, 1023, 1536, 900 * 2**20, 2**30, 5000 * 2**40)]
    ['0 bytes', '1,023 bytes', '1.5 KiB', '900 MiB', '1 GiB', '5,000 TiB']
    """
    unit = "bytes"
    for larger in UNITS:
        if count < 1024:
            break
        count, unit = count / 1024, larger
    return f"{f'{count:,.1f}'.removesuffix('.0')} {unit}"


ERROR: Final = "error"
"""Share of the rows that were predicted wrongly."""
BALANCED_ERROR: Final = "balanced error"
"""Share of wrong rows of each class, averaged over the classes; used for imbalanced labels."""
ROOT_MEAN_SQUARED_ERROR: Final = "root mean squared error"
"""Error of a regression, in the unit of the label."""
AVERAGE_PRECISION: Final = "average precision"
"""Precision averaged over the rows of a class, which are found one after the other by falling score; by chance, it is
the share of the class."""
SHARES: Final = frozenset({ERROR, BALANCED_ERROR})
"""Figures that are shares of rows, which are shown in percent; others are in the unit of the label."""
RARE_SHARE: Final = 0.1
"""Labels are imbalanced if less than this share of the rows is outside the most frequent class."""


def rare_class(counts: Mapping[Any, int]) -> Any:
    """Return the class that matters where labels are imbalanced, given the rows of each class; None if they are not.

    It is the rare one of two classes, and the most frequent of several rare ones.

    >>> rare_class({"ok": 980, "fraud": 15, "error": 5}), rare_class({"no": 800, "yes": 200})
    ('fraud', None)
    """
    others = sorted((label for label in counts if counts[label]), key=lambda label: -counts[label])[1:]
    if not others or sum(counts[label] for label in others) >= RARE_SHARE * sum(counts.values()):
        return None
    return others[0]


def significant(value: float, digits: int = 4) -> str:
    """Format a number with ``digits`` significant digits, integers below a million in full, others as short powers.

    >>> [significant(value) for value in (2.68149, 109_450.2, 48_363_182_405.4, 0.0039321, 2e-5, 0.0)]
    ['2.681', '109,450', '4.836e10', '0.003932', '2e-5', '0']
    """
    size = abs(value)
    if size and math.isfinite(size) and not 1e-4 <= size < 1e6:
        mantissa, power = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"
    return f"{value:,.0f}" if size >= 10**digits - 0.5 else f"{value:.{digits}g}"


def percent(share: float) -> str:
    """Format a share in percent with two digits; one that is not whole is never shown as 100 %.

    >>> [percent(share) for share in (0.07, 0.0712, 0.103, 0.814, 0.0005612, 0.9996, 1.0, 0.0)]
    ['7 %', '7.1 %', '10 %', '81 %', '0.056 %', '99.9 %', '100 %', '0 %']
    """
    value = 100.0 * share
    if 99.5 <= value < 100.0:
        return f"{math.floor(10.0 * value) / 10.0} %"
    return f"{value:.0f} %" if abs(value) >= 9.95 else f"{value:.2g} %"


HARDLY_BETTER = 0.98
"""A model whose error is at least this share of a trivial prediction's is hardly better than it."""
HARDLY_ABOVE_CHANCE = 1.25
"""A model that finds a rare class with less than this many times the average precision of chance hardly finds it."""
BASELINE_WORDS = {
    "majority": "predicting the most frequent class so far",
    "mean": "predicting the mean of all values so far",
    "persistence": "repeating the last label",
}
"""Description of each trivial prediction."""
BASELINE_NAMES = {"majority": "most frequent class", "mean": "mean so far", "persistence": "last label"}
"""Short names of trivial predictions, as tables and figures show them."""
