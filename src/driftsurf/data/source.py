"""Sources of tables: the protocol that all of them follow, and how one is opened by its name or scheme."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias, runtime_checkable

from driftsurf import registry
from driftsurf.data.reading_options import FRAME, STANDARD_INPUT, Kind, ReadingOptions
from driftsurf.data.tables import Table
from driftsurf.errors import LogError, Message, Option, OptionError
from driftsurf.errors.visible import safe_address

if TYPE_CHECKING:
    from driftsurf.data.sources.frame import FrameRows

Position: TypeAlias = bool | int | float | str | Sequence[Any] | Mapping[str, Any] | None
"""A place between two rows of a source, as plain JSON values; None is the beginning. Only its source interprets it."""

Cells: TypeAlias = Literal["text", "json", "declared", "typed"]
"""How values arrive, which decides what reading options can change.

"text" and "json": the kinds of columns are inferred from text or from JSON values. "declared": text in a file that
declares the kinds; a column can be read as another kind. "typed": values that have a type and cannot be text.
"""

NAME_LETTERS = 60
"""Characters of the name of a source that the name of its folder has: many file systems allow 255 bytes."""
NAMES = {STANDARD_INPUT: "stdin", FRAME: "frame"}
"""Short names of sources that have no name of their own."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class Misfit(Message):
    """Says that a cell does not fit the kind of its column, which ``column`` names.

    >>> Misfit.of("sold", "number", "yes")
    "column 'sold' must be a number; got 'yes'"
    """

    column: str

    @classmethod
    def of(cls, column: str, kind: Kind, cell: str, *advice: object) -> Self:
        """Return the message for a cell; ``advice`` follows it."""
        message = cls(f"column {column!r} must be a {kind}; got {cell[:200]!r}", *advice)
        message.column = column
        return message


class AsText(Message):
    """Advises to read a column as text, which ``column`` names: another message leaves it out where text is no remedy.

    >>> AsText.of("sold")
    ", or read the column as text with kinds={'sold': 'text'}"
    """

    column: str

    @classmethod
    def of(cls, column: str) -> Self:
        """Return the advice for a column."""
        message = cls(", or read the column as text with ", Option("kinds", {column: "text"}))
        message.column = column
        return message


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that was left out because it cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf.data import ReadingOptions, open_source
    >>> path = Path(tempfile.mkdtemp()) / "sales.csv"
    >>> _ = path.write_text("price,sold\\n1.5,yes\\n2.5\\n3.5,no\\n")
    >>> skipped = []
    >>> for table, _ in open_source(path, ReadingOptions(on_bad_row="skip")).tables(on_skip=skipped.append):
    ...     print(table["price"].values)
    [1.5 3.5]
    >>> [(row.line, row.reason, row.raw) for row in skipped]
    [(3, 'the row has the wrong number of cells: 1 instead of 2', '2.5')]
    """

    file: str
    line: int
    """Number of its first line, from 1; in a file without lines, number of the row, from 1; 0 for a message, whose
    place is part of ``file``."""
    reason: str
    """Why it cannot be read; a :class:`Misfit` if a cell does not fit its column."""
    raw: str
    """The row as it stands in the file, at most 10,000 characters."""
    end: int = 0
    """Offset of its end in the file."""

    @property
    def message_parts(self) -> tuple[str, ...]:
        """Parts of a message that names the file, the line and the reason."""
        return f"{self.file}, line {self.line}: " if self.line else f"{self.file}: ", self.reason

    def __str__(self) -> str:
        return "".join(self.message_parts)


@runtime_checkable
class Source(Protocol):
    """Rows as tables in a fixed order, which can be read again from every position that it has given.

    A source is registered under its name, with the schemes that it opens (by default its name)::

        @register("source", "db", schemes=("db", "dbs"), requires=("dbapi",), install="pip install ...")
        class DatabaseSource: ...

    With ``opens``, a function of a path, it also opens paths that have no scheme, such as folders of its own.

    Its constructor takes the location as it was given, the :class:`ReadingOptions`, and the keyword arguments of
    :func:`open_source`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf.data import open_source
    >>> path = Path(tempfile.mkdtemp()) / "sales.csv"
    >>> _ = path.write_text("price,sold\\n1.5,yes\\n2.5,no\\n3.5,no\\n")
    >>> source = open_source(path, batch_size=2)
    >>> isinstance(source, Source), source.seekable, source.cells
    (True, True, 'text')
    >>> table, position = next(source.tables())
    >>> [table["price"].values for table, _ in source.tables(position)]
    [array([3.5])]
    """

    @property
    def name(self) -> str:
        """Name of the source in messages, such as a path."""
        ...

    @property
    def reading(self) -> ReadingOptions:
        """How its rows are read."""
        ...

    @property
    def cells(self) -> Cells:
        """How values arrive, which decides whether reading options can change the kind of a column."""
        ...

    @property
    def seekable(self) -> bool:
        """Whether it can be read twice, and from any position without the rows before it."""
        ...

    def check(self) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        ...

    def tables(
        self, position: Position = None, *, on_skip: Callable[[BadRow], None] | None = None
    ) -> Iterator[tuple[Table, Position]]:
        """Yield batches of rows from ``position`` on, each with the position after it.

        The same rows follow a position whenever it is used. ``on_skip`` is called with every row that was left out,
        once, before the batch that follows the row.
        """
        ...

    def describe(self, position: Position) -> str:
        """Return where a position lies, for messages: the file, or the topic."""
        ...


@runtime_checkable
class Remarking(Protocol):
    """A source that has something to say about how its first rows were read, such as that a file has no header."""

    remarks: list[Message]


@runtime_checkable
class Locating(Protocol):
    """A source that can tell where a row stands in it, such as in which line of which file."""

    def place_of(self, position: Position, row: int) -> str:
        """Return the place of a row, counted from 0 after a position, for messages."""
        ...


@runtime_checkable
class Planning(Protocol):
    """A source whose batches depend on when its rows arrive, so that it logs which rows a batch has before it reads."""

    live: bool
    """Whether to yield a table without rows when nothing has come, instead of waiting on, and to log every plan."""

    def keep_plans(self, folder: Path, *, keep: int, resumed: bool, name: str) -> None:
        """Log plans in a file of a checkpoint folder, of which ``keep`` checkpoints are kept.

        A resumed run first repeats the plans that it finds there.
        """
        ...

    def committed(self, position: Position) -> None:
        """Note that a checkpoint at this position is on disk."""
        ...

    def lag(self) -> int | None:
        """Return how many rows have not been read yet; None if that is not known."""
        ...


def is_web_address(location: str) -> bool:
    """Whether a location is an address that begins with http:// or https://."""
    return location.lower().startswith(("http://", "https://"))


def remarks_of(source: object) -> list[Message]:
    """Return what a source has to say about how its first rows were read."""
    return list(source.remarks) if isinstance(source, Remarking) else []


def open_source(
    location: str | os.PathLike[str] | FrameRows,
    reading: ReadingOptions | None = None,
    *,
    batch_size: int | None = 1000,
    batch_seconds: float | None = None,
    time: str | None = None,
    follow: Callable[[], bool] | None = None,
) -> Source:
    """Open a source of tables by its location.

    Parameters
    ----------
    location
        A file, a folder, a pattern such as ``"logs/*.csv.gz"``, "-" for standard input, the address of a file on the
        web, the folder ``log`` of a served model, or a URL whose scheme belongs to a registered source. Or the rows of
        a frame.
    reading
        How rows are read; None for the defaults.
    batch_size
        Number of rows in a batch; None if ``batch_seconds`` alone decides.
    batch_seconds, time
        Cut batches by spans of this many seconds of the column ``time`` (dates, or numbers of seconds).
    follow
        Called at the end of a growing source: whether to look again. See :func:`~driftsurf.data.polling`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sales.csv"
    >>> _ = path.write_text("price,sold\\n1.5,yes\\n2,no\\n3,yes\\n")
    >>> for table, position in open_source(path, batch_size=2).tables():
    ...     print(table["price"].values)
    [1.5 2. ]
    [3.]
    >>> open_source("carrier-pigeon://home")
    Traceback (most recent call last):
    driftsurf.errors.OptionError: no source opens 'carrier-pigeon://'; choices: -, ...file://, ...http://, https://...
    """
    if not isinstance(location, str | os.PathLike):
        from driftsurf.data.sources.frame import FrameSource  # which follows the protocol of this module

        return FrameSource(location, reading, batch_size=batch_size, batch_seconds=batch_seconds, time=time)
    entry = _entry(os.fspath(location))
    source: Source = entry.make(
        location,
        ReadingOptions() if reading is None else reading,
        batch_size=batch_size,
        batch_seconds=batch_seconds,
        time=time,
        follow=follow,
    )
    return source


def _entry(location: str) -> registry.Entry:
    found = _SCHEME.match(location)
    scheme = found[1].lower() if found else location if location == STANDARD_INPUT else "file"
    entry = registry.with_mark("source", scheme, "" if found else location)
    if entry is None:
        schemes = [one for other in registry.entries("source") for one in other.marks]
        choices = sorted(one if one == STANDARD_INPUT else f"{one}://" for one in schemes)
        raise OptionError(f"no source opens '{scheme}://'; choices: {', '.join(choices)}")
    return entry


def is_log(path: str) -> bool:
    """Return whether a path is the folder of a log, which has nothing but files of a log in it."""
    if not os.path.isdir(path):
        return False
    from driftsurf.data.log.segments import segments_of  # which few sources need

    try:
        return bool(segments_of(Path(path)))
    except (LogError, OSError):
        return False


def short_name(path: str) -> str:
    """Return a name for a source: its file or folder without endings, or the last part of an address.

    >>> short_name("data/elec2.csv.gz"), short_name("-"), short_name("logs/2007-*.csv")
    ('elec2', 'stdin', '2007')
    >>> short_name("redis://host/0/orders?password=env:SECRET")
    'orders'
    """
    if path in NAMES:
        return NAMES[path]
    if "://" in path:
        path = re.split("[?#]", safe_address(path))[0]
    name = Path(os.path.normpath(path)).name.partition(".")[0]
    return "".join(letter for letter in name if letter.isalnum() or letter in "-_").strip("-_") or "tables"
