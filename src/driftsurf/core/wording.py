"""Words that depend on numbers, and parts of sentences that may be absent: every message makes them here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["agreeing", "counted", "in_words", "optional", "plural"]

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
