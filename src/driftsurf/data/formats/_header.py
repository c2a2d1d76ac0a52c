"""Names of columns: whether the first line of a file holds them, and what to do about empty and repeated ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from driftsurf.core.input import listed
from driftsurf.data.formats._cells import cell_reader
from driftsurf.data.kinds import Kind
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.errors import Message, Option, OptionError, SchemaError

__all__ = [
    "automatic_names",
    "complete_names",
    "given_names",
    "is_automatic",
    "looks_like_data",
    "no_header_remark",
]

MONOTONE_NAMES = 6
"""This many numbers in a strictly rising or falling row are names, such as wavelengths."""
PREFIX = "column_"


def automatic_names(count: int) -> list[str]:
    """Return names for columns without any.

    >>> automatic_names(2)
    ['column_1', 'column_2']
    """
    return [f"{PREFIX}{i + 1}" for i in range(count)]


def is_automatic(names: Iterable[str]) -> bool:
    """Whether all names may be those that columns without names get."""
    found = list(names)
    return bool(found) and all(name.startswith(PREFIX) and name[len(PREFIX) :].isdecimal() for name in found)


def complete_names(cells: Sequence[str], file: str) -> tuple[list[str], list[Message]]:
    """Return the names of a header line, with names for empty cells and a number after repeated ones; and remarks.

    >>> complete_names(["a", "", "a"], "sales.csv")[0]
    ['a', 'column_2', 'a_2']
    """
    names: dict[str, None] = {}
    remarks: list[Message] = []
    written = set(cells)
    last: dict[str, int] = {}  # the last number after each name: many columns may have the same one
    for place, cell in enumerate(cells):
        plain, number = cell or f"{PREFIX}{place + 1}", 1
        name = plain
        while name in names or (number > 1 and name in written):
            number = last[plain] = last.get(plain, 1) + 1
            name = f"{plain}_{number}"
        if not cell:
            remarks.append(Message(f"column {place + 1} of {file} has no name and is called {name!r}"))
        elif number > 1:
            remarks.append(Message(f"the column name {cell!r} of {file} is repeated; column {place + 1} is {name!r}"))
        names[name] = None
    return list(names), remarks


def given_names(reading: ReadingOptions, count: int, file: str) -> list[str] | None:
    """Return the names that the options give, or None; raise an error if they do not fit ``count`` columns.

    >>> reading = ReadingOptions(names=("price", "city", "sold"), optional=("sold",))
    >>> given_names(reading, 3, "sales.csv"), given_names(reading, 2, "sales.csv")
    (['price', 'city', 'sold'], ['price', 'city'])
    """
    names = reading.names
    if names is None:
        return None
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise OptionError(Option("names"), f" has {name!r} more than once; give each column a name of its own")
    for absent in ((), reading.optional[:1], reading.optional):
        found = [name for name in names if name not in absent]
        if len(found) == count:
            return found
    if reading.optional:
        raise SchemaError(
            f"{file} has {count} columns and no header line; expected the {len(names)} columns {listed(list(names))}, "
            f"with or without {listed(list(reading.optional))}"
        )
    raise OptionError(Option("names"), f" must be one name for each of the {count} columns of {file}; got {len(names)}")


def no_header_remark(file: str, names: Sequence[str]) -> Message:
    """Return that a file has no header line, and how to change what was made of it."""
    return Message(
        f"the first line of {file} looks like a row, so the columns are called {names[0]!r} to {names[-1]!r}. "
        "Name them with ",
        Option("names"),
        ", or, if that line holds the names, pass ",
        Option("header", True),
    )


def looks_like_data(
    first: Sequence[str], columns: Sequence[Sequence[str | None]], kinds: Sequence[Kind | None], reading: ReadingOptions
) -> bool:
    """Whether the first line of a file is a row and not a line of names.

    It is, if every cell fits the kind of the cells below it and these are numbers, dates or booleans; unless the cells
    are a sequence such as 0, 1, 2 or 2018, 2020, 2022, as tables that were exported without names have it. Where all
    columns are text, or all but one, the first cells must occur again below.
    """
    present = [(cell, below, kind) for cell, below, kind in zip(first, columns, kinds, strict=True) if cell]
    present = [one for one in present if one[0] not in reading.missing_cells]
    typed = [(cell, kind) for cell, _, kind in present if kind not in ("text", None)]
    if not all(kind is not None and _fits(cell, kind, reading) for cell, kind in typed):
        return False
    words = [(cell, below) for cell, below, kind in present if kind in ("text", None)]
    known = [below.count(cell) > 1 for cell, below in words]
    if not typed:
        return bool(known) and all(known)
    if len(typed) == 1 and known and not any(known):
        return False
    return not _is_sequence([cell for cell, kind in typed if kind == "number"], reading)


def _fits(cell: str, kind: Kind, reading: ReadingOptions) -> bool:
    try:
        cell_reader(kind, reading)(cell)
    except ValueError:
        return False
    return True


def _is_sequence(cells: Sequence[str], reading: ReadingOptions) -> bool:
    read = cell_reader("number", reading)
    steps = np.diff([read(cell) for cell in cells])
    if len(steps) < 2:
        return bool((steps == 1.0).all()) and len(steps) > 0
    monotone = bool((steps > 0).all() or (steps < 0).all())
    return monotone and (len(cells) >= MONOTONE_NAMES or bool(np.allclose(steps, steps[0], rtol=1e-6, atol=0.0)))
