"""Columns of the first rows of a source, and rows that cannot be read, treated alike by all sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from driftsurf.core.input import listed
from driftsurf.core.wording import counted
from driftsurf.data.formats._reader import Shape
from driftsurf.data.kinds import Kind
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.data.source import AsText, BadRow, Misfit
from driftsurf.data.tables import which_columns
from driftsurf.errors import BadRowError, Option, SchemaError, SourceError

OnSkip: TypeAlias = Callable[[BadRow], None]


def skip_row(bad: BadRow, count: int, reading: ReadingOptions, on_skip: OnSkip | None) -> None:
    """Report a row that cannot be read, the ``count``-th of its source; BadRowError if it is one too many."""
    allowed = reading.on_bad_row
    if allowed == "fail":
        as_text = [AsText.of(bad.reason.column)] if isinstance(bad.reason, Misfit) else []
        raise BadRowError(
            *bad.message_parts,
            ". Correct the row, or skip such rows with ",
            Option("on_bad_row", "skip"),
            *as_text,
            f": {bad.raw[:200]!r}",
        )
    if on_skip is not None:
        on_skip(bad)
    if allowed != "skip" and count > int(allowed):
        raise BadRowError(
            f"{counted(count, 'row')} could not be read, more than ",
            Option("on_bad_row", allowed),
            "; the last one: ",
            *bad.message_parts,
        )


def first_shape(source: str, found: Shape, reading: ReadingOptions, time: str | None = None) -> Shape:
    """Return the columns of a source, from those of its first rows and the options."""
    if not found.kinds and not found.n_features:
        raise SourceError(f"{source} is empty: it has no row from which to infer the columns")
    _check_names(found, reading, time)
    kinds: dict[str, Kind | None] = {}
    for name, kind in found.kinds.items():
        if name in reading.drop:
            continue
        if kind is None:
            raise SchemaError(
                f"the column {name!r} holds lists, objects or bytes, which a table cannot hold. Drop it with ",
                Option("drop", name),
            )
        kinds[name] = reading.kinds.get(name, kind)
    if not kinds and not found.n_features:
        raise SchemaError(Option("drop"), f" leaves no column of {source!r}; drop fewer columns")
    return Shape(kinds, found.n_features, frozenset(reading.drop))


def _check_names(found: Shape, reading: ReadingOptions, time: str | None) -> None:
    """Raise SchemaError if an option names a column that does not exist."""
    named = {} if reading.lenient else {"drop": reading.drop, "kinds": list(reading.kinds)}
    if time is not None:
        named["time"] = [time]
    for option, names in named.items():
        unknown = [name for name in names if name not in found.kinds]
        if unknown:
            hint = ". Name one column at a time" if any("," in name for name in unknown) else ""
            raise SchemaError(
                Option(option),
                f" names {listed(unknown)}; {which_columns(unknown, found.kinds)}{hint}",
            )
