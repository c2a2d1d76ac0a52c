"""Notes on columns that were read as text but look like numbers or dates, and on columns that tell the label."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy.typing as npt

from driftsurf.data.formats._cells import SPACES, infer_kind, number_reader
from driftsurf.data.formats._suggestions import Ways, suggest_date_options, suggest_number_options
from driftsurf.data.leaks import Leak, find_leaks
from driftsurf.data.reading_options import LISTS, ReadingOptions
from driftsurf.data.source import Cells, Source, remarks_of
from driftsurf.data.tables import Column, Table
from driftsurf.errors import Message, Option

__all__ = ["hints", "number_hint"]

UNITS = f"$€£¥%{SPACES}"
_BRACKETS = re.compile(r"\((.*)\)")
SAMPLED_WORDS = 200
"""Number of different words of a column that are examined."""
NUMBER_SHARE = 0.8
"""A text column with at least this share of numbers is a column of numbers with a few other words ..."""
MOST_OTHER_WORDS = 3
"""... if there are at most this many different ones."""
INFERRED = "text", "json"
"""How values arrive where the kinds of columns are inferred, so that reading options can change them."""
MOST_LEAKS = 5
"""Number of columns that give the label away that are pointed out."""


class _Hint(NamedTuple):
    """Advice about one column."""

    message: Message
    ways: Ways
    """Alternatives of options that follow the advice."""


def hints(
    source: Source,
    table: Table,
    label: str | None = None,
    y: npt.NDArray[Any] | None = None,
    *,
    regression: bool = False,
    read: Sequence[Table] = (),
    combined: bool = True,
) -> list[Message]:
    """Return advice about the columns of the first table of a source, of which ``label`` is to be predicted.

    With ``y``, what is to be predicted in each row of the table, columns that give it away are pointed out. ``read``
    are tables that were read with the same options, with columns that ``table`` may lack. If several columns have
    advice and it is ``combined``, a last line has all options that read them better.

    >>> import pathlib, tempfile
    >>> from driftsurf.data import open_source
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "preise.csv"
    >>> _ = path.write_text("tag;preis\\n31.12.2007;1,5\\n1.1.2008;12,25\\n")
    >>> source = open_source(path)
    >>> for hint in hints(source, next(source.tables())[0]):
    ...     print(hint)
    the column 'tag' was read as text but looks like dates ('31.12.2007'); try date_formats='%d.%m.%Y'
    the column 'preis' was read as text but looks like numbers ('1,5'); try decimal=','
    all at once: date_formats='%d.%m.%Y' decimal=','
    """
    reading, cells = source.reading, source.cells
    found = remarks_of(source)
    if reading.date_formats and not any(one.kind == "date" for each in (table, *read) for one in each.columns.values()):
        found.append(
            Message(
                "no column was read as dates of the format ",
                Option("date_formats", reading.date_formats[0]),
                "; if a column looks like numbers, or is rarely present, set its kind with ",
                Option("kinds"),
            )
        )
    of_columns = list[_Hint]()
    for name, column in table.columns.items():
        if column.kind == "text" and name not in reading.kinds and len(column.used()):
            of_columns += islice(_text_hints(name, column, reading, cells), 1)
    found += [hint.message for hint in of_columns]
    if combined:
        found += _all_at_once([hint.ways for hint in of_columns])
    if y is not None:
        columns = table if label is None else table.without(label)
        found += [_leak_hint(leak) for leak in islice(find_leaks(columns, y, regression=regression), MOST_LEAKS)]
    return found


def _all_at_once(advice: Sequence[Ways]) -> Iterator[Message]:
    """Yield the options of all hints that leave no choice, if they are more than those of one hint and agree."""
    sure = [[part for part in ways[0] if isinstance(part, Option)] for ways in advice if len(ways) == 1]
    values = dict[str, list[Any]]()
    for option in (option for options in sure for option in options):
        known = values.setdefault(option.name, [])
        known += [option.value] * (option.value not in known)
    if any(len(several) > 1 and name not in LISTS for name, several in values.items()):
        return
    if sum(map(len, values.values())) > max(map(len, sure), default=0):
        merged = [Option(name, several[0] if len(several) == 1 else tuple(several)) for name, several in values.items()]
        yield Message("all at once:", *(part for option in merged for part in (" ", option)))


def _leak_hint(leak: Leak) -> Message:
    return Message(
        f"the column {leak.column!r} alone tells the label in {leak.right:,} of the first {leak.rows:,} rows. If it is "
        "not known before the label is, the model will be worse on new rows than it seems; leave it out with ",
        Option("drop", leak.column),
    )


def number_hint(source: Source, column: Column) -> Message:
    """Return which options would read a text column as numbers, in brackets; an empty message if none would."""
    ways = _number_ways(_words(column), source.reading, source.cells) if column.kind == "text" else []
    return Message(" (it looks like numbers; try ", *_either(ways), ")") if ways else Message()


def _words(column: Column) -> list[str]:
    return [column.words[code] for code in column.used()[:SAMPLED_WORDS].tolist()]


def _number_ways(words: list[str], reading: ReadingOptions, cells: Cells) -> Ways:
    return suggest_number_options(words, reading) if words and cells in INFERRED else []


def _either(ways: Ways) -> list[str | Option]:
    return [part for place, way in enumerate(ways) for part in ([" or "] if place else []) + way]


def _text_hints(name: str, column: Column, reading: ReadingOptions, cells: Cells) -> Iterator[_Hint]:
    """Yield what a text column may really be, the most likely first."""
    words = _words(column)
    looks_like = {
        "numbers": _number_ways(words, reading, cells),
        "dates": suggest_date_options(words, reading) if cells in INFERRED else [],
    }
    for what, ways in looks_like.items():
        if ways:
            told = f"the column {name!r} was read as text but looks like {what} ({words[0]!r}); try "
            yield _Hint(Message(told, *_either(ways)), ways)
    yield from _unit_hint(name, words, reading)
    present = int((~column.missing()).sum())
    if cells == "text":
        others, count = _words_that_are_not_numbers(column, reading)
        if 0 < len(others) <= MOST_OTHER_WORDS and count <= (1 - NUMBER_SHARE) * present:
            advice: list[str | Option] = [part for word in others for part in (" ", Option("missing", word))]
            told = (
                f"the column {name!r} was read as text because of {', '.join(map(repr, others))} ({count:,} of "
                f"{present:,} cells); the other cells are numbers. If it means 'no value', pass"
            )
            yield _Hint(Message(told, *advice), [advice])


def _unit_hint(name: str, words: list[str], reading: ReadingOptions) -> Iterator[_Hint]:
    """Yield a hint if the words would be numbers without a unit, or with a minus in place of brackets."""
    bare = [word.strip(UNITS) for word in words]
    signed = [_BRACKETS.sub(r"-\1", word) for word in bare]
    if signed == words or not (infer_kind(signed, reading) == "number" or suggest_number_options(signed, reading)):
        return
    first = next(word for word, plain in zip(words, signed, strict=True) if word != plain)
    how = f"with a unit ({first!r}); write them without it"
    if signed != bare:
        how = f"in brackets ({first!r}); write them with a minus, if that is the meaning"
    yield _Hint(Message(f"the column {name!r} was read as text but looks like numbers {how}"), [])


def _words_that_are_not_numbers(column: Column, reading: ReadingOptions) -> tuple[list[str], int]:
    """Return the words that are not numbers, a few at most, and the number of cells that hold one."""
    read, others = number_reader(reading), list[int]()
    for code in column.used().tolist():
        try:
            read(column.words[code])
        except ValueError:
            others.append(code)
            if len(others) > MOST_OTHER_WORDS:
                break
    return [column.words[code] for code in others], sum(int((column.values == code).sum()) for code in others)
