"""Reading options that the first rows of a file decide: the signs of its numbers and the formats of its dates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

from driftsurf.data.formats._cells import grouping_characters, infer_kind, number_reader, suggest_date_options
from driftsurf.data.reading_options import LISTS, ReadingOptions
from driftsurf.data.source import Source
from driftsurf.data.sources.files import FileSource
from driftsurf.data.sources.frame import FrameSource
from driftsurf.data.tables import Table
from driftsurf.errors import DriftsurfError, Message, Option, SchemaError

Signs: TypeAlias = tuple[str, str | None]
"""Decimal mark, and the character between groups of digits."""
USUAL: Signs = (".", None)
SIGNS: tuple[Signs, ...] = tuple(
    (decimal, thousands)
    for decimal in (",", ".")
    for thousands in (None, ".", ",", " ", "'")
    if decimal != thousands and (decimal, thousands) != USUAL
)
"""All signs but the usual ones."""
INFERRED = "text", "json"
"""How values arrive where the kinds of columns are inferred, so that reading options can change them."""
MOST_OTHER_WORDS = 3
"""A column is one of numbers with other words among them if at most this many different words are no numbers, ..."""
MOST_SHARE = 0.5
"""... and more than this share of its cells are numbers."""


class InferredOptions(NamedTuple):
    """Reading options that the rows leave no doubt about."""

    options: Mapping[str, Any]
    """The options by name, as plain JSON values."""
    remark: Message | None = None
    """Which options were inferred, for people."""


Reading = TypeVar("Reading", bound=ReadingOptions)


def with_inferred(reading: Reading, options: Mapping[str, Any]) -> Reading:
    """Return reading options with inferred ones, where the user named no others.

    >>> with_inferred(ReadingOptions(thousands="'"), {"decimal": ",", "thousands": "."}).thousands
    "'"
    """
    usual = ReadingOptions()
    values: dict[str, Any] = {
        name: tuple(value) if name in LISTS else value
        for name, value in options.items()
        if getattr(reading, name) == getattr(usual, name)
    }
    return replace(reading, **values)


def infer_options(source: Source, table: Table, *, label: str | None = None) -> InferredOptions:
    """Return the options with which columns of the first rows of a file are numbers and dates instead of text.

    Only options about which the rows leave no doubt are returned: with them, every column that looks like numbers is
    one, and all other columns of numbers still are. SchemaError, with the readings to choose from, if columns look like
    numbers in several ways, or only in part of their cells.

    Parameters
    ----------
    source
        Where the rows come from. Only files are examined.
    table
        The first rows, as they are read without further options.
    label
        The column to predict, which is no date.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from driftsurf.data import open_source
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "preise.csv"
    >>> _ = path.write_text("tag;preis\\n31.12.2007;1.023,50\\n1.1.2008;12,25\\n")
    >>> source = open_source(path)
    >>> found = infer_options(source, next(source.tables())[0])
    >>> found.options
    {'decimal': ',', 'thousands': '.', 'date_formats': ['%d.%m.%Y']}
    """
    reading = source.reading
    if not isinstance(source, FileSource | FrameSource) or source.cells not in (*INFERRED, "typed"):
        return InferredOptions({})
    first = table.rows(0, min(len(table), reading.sample_rows))  # those that decide the kinds of columns
    cells = {
        name: [column.words[code] for code in column.values[~column.missing()].tolist()]
        for name, column in first.columns.items()
        if column.kind == "text" and name not in reading.kinds and name not in reading.categorical
    }
    if isinstance(source, FrameSource) or source.cells == "typed":
        _refuse_text_of_frame(source, cells)
        return InferredOptions({})
    options = dict[str, Any]()
    if (reading.decimal, reading.thousands) == USUAL:
        options = _signs(source, first, cells)
    if not reading.date_formats:
        dates = {name: suggest_date_options(own, reading) for name, own in cells.items() if own and name != label}
        sure = [ways[0][0] for ways in dates.values() if len(ways) == 1]
        formats = dict.fromkeys(one.value for one in sure if isinstance(one, Option))
        options |= {"date_formats": list(formats)} if formats else {}
    if not options:
        return InferredOptions({})
    given = [part for name, value in options.items() for part in (" ", Option(name, value))]
    name = next(name for name in cells if _is_read_with(options, cells[name], reading))
    such = f"such as {cells[name][0]!r} in the column {name!r}"
    if not source.seekable:
        raise SchemaError(
            f"cells of standard input were read as text but look like numbers or dates, {such}; since it can be read "
            "only once, pass",
            *given,
        )
    remark = Message(f"the cells of {source.name}, {such}, show how they are to be read; to confirm it, pass", *given)
    return InferredOptions(options, remark)


def _signs(source: FileSource, table: Table, cells: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the signs of numbers as options; none if no column looks like numbers with other signs than usual."""
    reading = source.reading
    found = {signs: {name for name, own in cells.items() if _are_numbers(own, signs, reading)} for signs in SIGNS}
    fitting = {signs: names for signs, names in found.items() if names}
    if not fitting:
        _refuse_mixed_columns(source, cells)
        return {}
    looks = set.union(*fitting.values())
    numbers = looks | {name for name, column in table.columns.items() if column.kind == "number"}
    possible = [signs for signs, names in fitting.items() if names == looks]
    if source.seekable:
        possible = [signs for signs in possible if numbers <= _numbers_with(source, len(table), signs)]
    possible = [signs for signs in possible if not _has_simpler(signs, possible)]
    if len(possible) == 1:
        return _options(possible[0])
    likely = possible or sorted(fitting, key=lambda signs: (-len(fitting[signs]), signs[1] is not None))
    likely = [signs for signs in likely if not _has_simpler(signs, likely)]
    name = min(fitting[likely[0]], key=list(cells).index)
    raise _undecided(source, name, cells[name], likely[:2])


def _are_numbers(cells: list[str], signs: Signs, reading: ReadingOptions) -> bool:
    """Return whether the cells are numbers with these signs, and some has one of them."""
    between = "" if signs[1] is None else grouping_characters(signs[1])
    special = between + signs[0].replace(".", "")
    words = set(cells)
    if not any(sign in word for word in words for sign in special):
        return False
    # No number has a group of digits after a zero: that is a decimal mark, or the word is no number.
    if between and any(re.match(rf"\s*[+-]?0\d*[{re.escape(between)}]", word) for word in words):
        return False
    return infer_kind(cells, replace(reading, decimal=signs[0], thousands=signs[1])) == "number"


def _has_simpler(signs: Signs, others: Iterable[Signs]) -> bool:
    """Return whether signs that need less evidence read the same columns."""
    decimal, thousands = signs
    return (thousands is not None and (decimal, None) in others) or (decimal == "," and (".", thousands) in others)


def _is_read_with(options: Mapping[str, Any], cells: list[str], reading: ReadingOptions) -> bool:
    """Return whether a column is no text with these options."""
    return bool(cells) and infer_kind(cells, with_inferred(reading, options)) != "text"


def _refuse_text_of_frame(source: FileSource | FrameSource, cells: Mapping[str, list[str]]) -> None:
    """Raise SchemaError for a column of text, in a frame or in a typed file, that looks like numbers."""
    for name, own in cells.items():
        ways = [signs for signs in SIGNS if _are_numbers(own, signs, source.reading)]
        if ways:
            raise SchemaError(
                f"the column {name!r} of {source.name} holds text that looks like numbers, such as {own[0]!r}; convert "
                "it to numbers, or keep it as text with ",
                Option("kinds", {name: "text"}),
            )


def _numbers_with(source: FileSource, rows: int, signs: Signs) -> set[str]:
    """Return the columns of the first rows that are numbers if they are read with these signs."""
    again = source.with_reading(replace(source.reading, decimal=signs[0], thousands=signs[1], rows=rows))
    again.batch_size, again.batch_seconds, again.time, again.follow = rows, None, None, None
    try:
        table = next(again.tables(on_skip=lambda bad: None))[0]
    except (DriftsurfError, StopIteration):  # a cell of a column that is named as one of numbers
        return set()
    return {name for name, column in table.columns.items() if column.kind == "number"}


def _options(signs: Signs) -> dict[str, Any]:
    found = zip(("decimal", "thousands"), signs, USUAL, strict=True)
    return {name: value for name, value, usual in found if value != usual}


def _given(signs: Signs) -> list[object]:
    """Return signs as options in a message, each after a blank."""
    return [part for name, value in _options(signs).items() for part in (" ", Option(name, value))]


def _undecided(source: Source, name: str, cells: list[str], ways: Sequence[Signs]) -> SchemaError:
    """Return the error for a column that looks like numbers in several ways."""
    readers = [number_reader(replace(source.reading, decimal=signs[0], thousands=signs[1])) for signs in ways]
    special = [sign for signs in ways for sign in signs if sign is not None]
    readable = [cell for cell in cells if all(_reads(read, cell) for read in readers)]
    shown = next((cell for cell in readable if any(sign in cell for sign in special)), cells[0])
    readings = list[object]()
    for signs, read in zip(ways, readers, strict=True):
        value = f"{read(shown):.15g}" if _reads(read, shown) else "a number"
        readings += [" or" * bool(readings), f" {value} (", *_given(signs)[1:], ")"]
    return SchemaError(
        f"the column {name!r} of {source.name} was read as text but looks like numbers: {shown!r} may be",
        *readings,
        "; choose one, or keep the column as text with ",
        Option("kinds", {name: "text"}),
    )


def _refuse_mixed_columns(source: Source, cells: Mapping[str, list[str]]) -> None:
    """Raise SchemaError for a column most of whose cells are numbers with other signs than usual."""
    for name, own in cells.items():
        for signs in SIGNS:
            read = number_reader(replace(source.reading, decimal=signs[0], thousands=signs[1]))
            numbers = [cell for cell in own if _reads(read, cell)]
            if len(numbers) <= MOST_SHARE * len(own) or not _are_numbers(numbers, signs, source.reading):
                continue
            others = dict.fromkeys(cell for cell in own if not _reads(read, cell))
            if len(others) > MOST_OTHER_WORDS:
                continue
            missing = [part for word in others for part in (" ", Option("missing", word))]
            raise SchemaError(
                f"the column {name!r} of {source.name} was read as text, but {len(numbers):,} of {len(own):,} cells "
                f"look like numbers, such as {numbers[0]!r}; if {', '.join(map(repr, others))} means 'no value', pass",
                *_given(signs),
                *missing,
                "; or keep the column as text with ",
                Option("kinds", {name: "text"}),
            )


def _reads(read: Any, word: str) -> bool:
    try:
        read(word)
    except ValueError:
        return False
    return True
