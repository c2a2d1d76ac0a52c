"""Files, folders and patterns as a source of tables."""

from __future__ import annotations

import copy
import glob
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self, TypeAlias, TypedDict
from urllib.parse import urlsplit
from urllib.request import url2pathname

import numpy as np
import numpy.typing as npt

from driftsurf import registry
from driftsurf.core.input import listed
from driftsurf.core.options import number, whole
from driftsurf.core.wording import agreeing, counted
from driftsurf.data.formats import format_of_file, list_endings
from driftsurf.data.formats._bytes import ByteFile, member_of_zip, no_such_file
from driftsurf.data.formats._reader import Chunk, Mark, Reader, Shape
from driftsurf.data.formats._text import is_automatic
from driftsurf.data.reading_options import KINDS, STANDARD_INPUT, Kind, OnSchemaChange, ReadingOptions
from driftsurf.data.source import AsText, BadRow, Cells, Misfit, Position, is_web_address
from driftsurf.data.tables import Column, Table, which_columns
from driftsurf.errors import BadRowError, Message, Option, OptionError, RunWarning, SchemaError, SourceError, StateError
from driftsurf.registry import register


class FilePosition(TypedDict):
    """Position of a :class:`FileSource`: plain values, ready for JSON."""

    file: str
    offset: int
    line: int
    rows: int
    """Number of rows before it."""
    skipped: int
    """Number of bad rows before it."""
    columns: list[tuple[str, Kind]]
    n_features: int
    tail: str
    """Digest of what stands before the position, to recognise the file; '' accepts any file."""
    earlier: int | None
    """Number of files before it; None in a position of an earlier version."""


def read_position(position: Position) -> FilePosition:
    """Return a position that may have been through JSON; raise StateError if it is not one."""
    if not isinstance(position, Mapping):
        raise StateError(f"not a position of a file source: {position!r}. Pass a position that tables() gave")
    try:
        read = FilePosition(
            file=position["file"],
            offset=position["offset"],
            line=position["line"],
            rows=position["rows"],
            skipped=position["skipped"],
            columns=[(name, kind) for name, kind in position["columns"]],
            n_features=position["n_features"],
            tail=position["tail"],
            earlier=position.get("earlier"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"not a position of a file source ({error}). Pass a position that tables() gave") from error
    counts = read["offset"], read["line"], read["rows"], read["skipped"], read["n_features"], read["earlier"] or 0
    if not (
        isinstance(read["file"], str)
        and isinstance(read["tail"], str)
        and all(type(value) is int and value >= 0 for value in counts)
        and all(isinstance(name, str) and kind in KINDS for name, kind in read["columns"])
    ):
        raise StateError(f"not a position of a file source: {dict(position)!r}. Pass a position that tables() gave")
    return read


MOST_ROWS = 100_000
"""Largest number of rows in a batch that is cut by time."""
KEPT_BYTES = 2**26
"""Size of the chunks that are kept to be read again without opening their files again."""
WAITING_BYTES = 2**26
"""Largest size of the bad rows that are reported with one batch."""


@dataclass(frozen=True, slots=True)
class BatchRule:
    """When a batch is complete.

    With ``seconds``, time is divided into spans of that length from 1970 on. A batch ends before the first row of a
    later span than its own, which is the span of its first row with a time. A row that arrives late, or without a
    time, stays in the batch in which it arrives.
    """

    rows: int
    seconds: float | None = None
    time: str | None = None

    @classmethod
    def checked(cls, batch_size: int | None, batch_seconds: float | None, time: str | None) -> BatchRule:
        """Return the rule that the options of a source describe; raise OptionError if they do not go together."""
        if batch_size is None and batch_seconds is None:
            raise OptionError(
                Option("batch_size"), " and ", Option("batch_seconds"), " are both None; pass one of them"
            )
        if (batch_seconds is None) != (time is None):
            raise OptionError(
                Option("batch_seconds"),
                " and ",
                Option("time"),
                f" need each other; got {batch_seconds!r} and {time!r}",
            )
        rows = MOST_ROWS if batch_size is None else whole("batch_size", batch_size, at_least=1, otherwise=", or None")
        if batch_seconds is not None:
            number("batch_seconds", batch_seconds, above=0.0, otherwise=", or None")
        return cls(rows, batch_seconds, time)

    def spans(self, table: Table) -> npt.NDArray[np.float64] | None:
        """Return the number of each row's span, NaN for a row without a time; None if only rows are counted."""
        if self.seconds is None or self.time is None:
            return None
        return np.floor(_seconds(self.time, table[self.time]) / self.seconds)


def _seconds(name: str, column: Column) -> npt.NDArray[np.float64]:
    if column.kind == "number":
        return column.values
    if column.kind != "date":
        raise OptionError(
            Option("time"), f" must name a column of dates or of seconds; {name!r} is a column of kind {column.kind}"
        )
    since_1970 = (column.values - np.datetime64(0, "us")) / np.timedelta64(1, "s")
    return np.where(column.missing(), np.nan, since_1970)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place between two rows of a source: the number of the file, and the place in it."""

    file: int
    mark: Mark


@dataclass(slots=True)
class _Piece:
    """A chunk of which the first ``taken`` rows have been put into batches."""

    file: int
    chunk: Chunk
    spans: npt.NDArray[np.float64] | None
    taken: int = 0

    def __len__(self) -> int:
        return len(self.chunk.ends) - self.taken


@dataclass(slots=True)
class BatchCutter:
    """Cuts chunks of any size into batches, and keeps the rows that do not fill a batch yet.

    Bad rows travel along, so that each is reported with the batch that follows it.
    """

    rule: BatchRule
    most: int | None = None
    """Number of rows after which no batch follows; None for no limit."""
    digests: bool = True
    """Whether places have a digest of what stands before them."""
    _pieces: deque[_Piece] = field(default_factory=deque)
    _bad: deque[tuple[int, BadRow]] = field(default_factory=deque)
    _waiting_bytes: int = 0
    """Size of the bad rows."""
    _end: Place = Place(0, Mark(0, 1))

    def add(self, file: int, chunk: Chunk) -> None:
        """Append the rows of a chunk of file number ``file``."""
        self._bad.extend((file, bad) for bad in chunk.bad)
        self._waiting_bytes += sum(map(_size, chunk.bad))
        self._end = Place(file, self._mark(chunk, *chunk.end[:2]))
        if len(chunk.ends):
            self._pieces.append(_Piece(file, chunk, self.rule.spans(chunk.table)))

    def batches(self) -> Iterator[tuple[Table, Place, list[BadRow]]]:
        """Yield the batches that are complete, each with the place after it and the bad rows before that place.

        Raise BadRowError if more bad rows wait for one batch than can be kept: that is no table. This depends on the
        rows alone, not on how they arrive in chunks.
        """
        while length := self._complete():
            table, place = self._take(length)
            yield table, place, self._bad_before(place)
        if self._waiting_bytes > WAITING_BYTES:
            raise _too_many(len(self._bad), self._bad[-1][1])

    def rest(self) -> tuple[Table | None, Place, list[BadRow]]:
        """Return the last, incomplete batch (None if there are no rows left), the end, and the last bad rows."""
        size = sum(map(len, self._pieces))
        return self._take(size)[0] if size else None, self._end, self._bad_before(self._end)

    def _complete(self) -> int:
        """Return the number of rows of the first batch, or 0 if it is not complete yet."""
        limit = self.rule.rows if self.most is None else min(self.rule.rows, self.most)
        count = 0
        span = np.nan
        for piece in self._pieces:
            candidates = min(len(piece), limit - count)
            if piece.spans is not None:
                spans = piece.spans[piece.taken : piece.taken + candidates]
                if np.isnan(span) and not np.isnan(spans).all():
                    span = spans[np.argmax(~np.isnan(spans))]
                later = np.flatnonzero(spans > span)
                if len(later):
                    return count + int(later[0])
            count += candidates
            if count == limit:
                return count
        return 0

    def _take(self, size: int) -> tuple[Table, Place]:
        parts = []
        place = self._end
        self.most = None if self.most is None else self.most - size
        while size:
            piece = self._pieces[0]
            stop = piece.taken + min(size, len(piece))
            parts.append(piece.chunk.table.rows(piece.taken, stop))
            size -= stop - piece.taken
            piece.taken = stop
            end, line = int(piece.chunk.ends[stop - 1]), int(piece.chunk.lines[stop - 1])
            # The digest of a place costs time: only the last one is needed.
            place = Place(piece.file, Mark(end, line) if size else self._mark(piece.chunk, end, line))
            if not len(piece):
                self._pieces.popleft()
        return Table.concatenate(parts), place

    def _mark(self, chunk: Chunk, offset: int, line: int) -> Mark:
        return chunk.mark(offset, line) if self.digests else Mark(offset, line)

    def _bad_before(self, place: Place) -> list[BadRow]:
        found = []
        while self._bad and (self._bad[0][0], self._bad[0][1].end) <= (place.file, place.mark.offset):
            found.append(self._bad.popleft()[1])
        size = sum(map(_size, found))
        self._waiting_bytes -= size
        if size > WAITING_BYTES:
            raise _too_many(len(found), found[-1])
        return found


def _too_many(count: int, last: BadRow) -> BadRowError:
    return BadRowError(
        f"{count:,} rows that cannot be read stand before one batch of rows that can; check the format, or take fewer "
        "rows at a time with ",
        Option("batch_size"),
        ". The last one: ",
        *last.message_parts,
    )


def _size(bad: BadRow) -> int:
    """Return roughly how many bytes a bad row takes in memory."""
    return len(bad.raw) + len(bad.reason) + 300


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


@dataclass(slots=True)
class _Progress:
    """How far the files have been read."""

    rows: int = 0
    skipped: int = 0
    shape: Shape | None = None
    columns: list[tuple[str, Kind]] = field(default_factory=list)

    def fix_shape(self, shape: Shape) -> None:
        self.shape = shape
        self.columns = [(name, kind) for name, kind in shape.kinds.items() if kind is not None]


class _Read(NamedTuple):
    """A chunk of one of the files, with the columns of the source."""

    file: int
    chunk: Chunk
    shape: Shape
    remarks: list[Message] | None
    """Advice about how the first file was read; None if reading did not begin there."""

    @property
    def size(self) -> int:
        """Number of bytes in memory, roughly: those of the text, which places need, and of the values."""
        table, ends = self.chunk.table, self.chunk.ends
        values = sum(column.values.nbytes for column in table.columns.values())
        features = 0 if table.features is None else table.features.data.nbytes + table.features.indices.nbytes
        return values + features + 2 * ends.nbytes + (int(ends[-1] - ends[0]) if len(ends) else 0)


class _KeptChunks:
    """Chunks of files from their beginning, kept so that reading them again opens no file again.

    Once they need more than KEPT_BYTES, or once they are read for the last time, those that were passed are dropped.
    Who asks for a dropped one has the files read again.

    Parameters
    ----------
    read
        Reads the files from their beginning.
    """

    def __init__(self, read: Callable[[], Iterator[_Read]]) -> None:
        self.last: bool = False
        """Whether nobody will begin to read again."""
        self._read = read
        self._reading: Iterator[_Read] | None = None
        self._kept: deque[_Read] = deque()
        self._first = 0
        """Number of the first chunk that is kept."""
        self._bytes = 0

    def __iter__(self) -> Iterator[_Read]:
        place = 0
        while (one := self._at(place)) is not None:
            place += 1
            yield one

    def _at(self, place: int) -> _Read | None:
        """Return a chunk by its number; None after the last one."""
        try:
            if self._reading is None or place < self._first:
                self._kept.clear()
                self._reading, self._first, self._bytes = self._read(), place, 0
                for _ in zip(range(place), self._reading, strict=False):
                    pass
            while place >= self._first + len(self._kept):
                if (one := next(self._reading, None)) is None:
                    return None
                self._kept.append(one)
                self._bytes += one.size
        except BaseException:
            self._reading = None  # otherwise the files would seem to have ended
            raise
        while self._first < place and (self.last or self._bytes > KEPT_BYTES):
            self._bytes -= self._kept.popleft().size
            self._first += 1
        return self._kept[place - self._first]


@register("source", "file", schemes=("file", "http", "https"))
class FileSource:
    """Rows of files as tables of bounded size, in a fixed order, which can be resumed after each.

    The kinds of columns are inferred from the first file that has rows, and never change. Where a batch ends depends
    on ``batch_size`` (or ``batch_seconds``) alone, not on how the bytes arrive, and a batch may begin in one file and
    end in the next.

    Parameters
    ----------
    path
        A file, a folder, or a pattern such as ``"logs/*.csv.gz"``; files are read in the order of their names. Or the
        address of a file on the web, which is downloaded to the cache folder of the user.
    reading
        How rows are read; None for the defaults.
    batch_size
        Number of rows in a batch; None if ``batch_seconds`` alone decides.
    batch_seconds, time
        Cut batches by spans of this many seconds of the column ``time`` (dates, or numbers of seconds).
    follow
        For a growing text file: called at its end, returns whether to look again. See
        :func:`~driftsurf.data.polling`. An incomplete last line is never a row. The rows from which the kinds are
        inferred (``ReadingOptions.sample_rows``, here at most 100) must be there before the first batch is given.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from driftsurf.data import ReadingOptions
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("price,sold\\n1.5,yes\\n2,no\\n")
    >>> _ = (folder / "b.csv").write_text("sold,price\\nno,oops\\nno,3\\n")
    >>> source = FileSource(folder, ReadingOptions(on_bad_row="skip"), batch_size=2)
    >>> for table, position in source.tables(on_skip=lambda bad: print(bad.line, bad.reason)):
    ...     print(table["price"].values, position["rows"])
    [1.5 2. ] 2
    2 column 'price' must be a number; got 'oops'
    [3.] 3
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        reading: ReadingOptions | None = None,
        *,
        batch_size: int | None = 1000,
        batch_seconds: float | None = None,
        time: str | None = None,
        follow: Callable[[], bool] | None = None,
    ) -> None:
        self.path = path
        self.reading: ReadingOptions = ReadingOptions() if reading is None else reading
        self.batch_size = batch_size
        self.batch_seconds = batch_seconds
        self.time = time
        self.follow = follow
        self.digests: bool = True
        """Whether positions recognise their file; without that, reading is faster if no position is saved."""
        self._kept: _KeptChunks | None = None
        self.remarks: list[Message] = []
        """What users should know about how the first file was read, once a table has been read from it."""

    @property
    def name(self) -> str:
        """The path as it was given, without the scheme ``file://``."""
        path = os.fspath(self.path)
        return url2pathname(urlsplit(path).path) if path.startswith("file://") else path

    @property
    def seekable(self) -> bool:
        """Whether the files can be read twice; a named pipe cannot."""
        return all(os.path.isfile(path) or not os.path.exists(path) for path in self.files())

    @property
    def cells(self) -> Cells:
        """How values arrive in the first file: as text, JSON, declared text or typed values."""
        return self._cells_of(self.files()[0])

    def describe(self, position: Position) -> str:
        """Return the file of a position."""
        file = position.get("file") if isinstance(position, dict) else None
        return file if isinstance(file, str) else read_position(position)["file"]

    def place_of(self, position: Position, row: int) -> str:
        """Return the line and the file of a row, counted from 0 after a position; the rows up to it are read again."""
        again = FileSource(self.path, self.reading, batch_size=row + 1)
        _, after = next(again.tables(position))
        return f"line {after['line'] - 1} of {after['file']}"

    def check(self) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        BatchRule.checked(self.batch_size, self.batch_seconds, self.time)
        if self.reading.format is not None:
            registry.get("format", self.reading.format)
        self.reading.check()

    # -------------------------------------------------------------------- files

    def files(self) -> list[str]:
        """Return the files in the order in which they are read."""
        path = self.name
        if is_web_address(path):
            return [str(self._local_copy[0])]
        if os.path.isdir(path):
            names = sorted(entry.name for entry in os.scandir(path) if entry.is_file() and entry.name[0] not in "._")
            found = [file for name in names if self._known_format(file := os.path.join(path, name))]
            if not found:
                raise SourceError(f"the folder {path!r} has no file that can be read; known endings: {list_endings()}")
            return found
        if os.path.exists(path) or not glob.has_magic(path):
            return [path]
        found = sorted(name for name in glob.glob(path, recursive=True) if os.path.isfile(name))
        if not found:
            raise SourceError(f"no file matches the pattern {path!r}")
        return found

    @cached_property
    def _local_copy(self) -> tuple[Path, Message | None]:
        from driftsurf.data.download import local_copy  # with the HTTP client, which files on a disk need not load

        return local_copy(self.name)

    def _known_format(self, path: str) -> str | None:
        return self.reading.format or format_of_file(path)

    def format_of(self, path: str) -> str:
        """Return the name of the format of one of the files."""
        name = self._known_format(path)
        if name is None and path != STANDARD_INPUT and not os.path.exists(path):
            raise no_such_file(path)
        if name is None:
            member_of_zip(path, strict=True)
            raise OptionError(
                f"the format of {path!r} is unknown; pass ",
                Option("format"),
                f", or use one of the known endings: {list_endings()}",
            )
        return name

    def _cells_of(self, path: str) -> Cells:
        cells: Cells = registry.get("format", self.format_of(path)).details.get("cells", "typed")
        return cells

    def _reader(self, path: str, shape: Shape | None = None) -> Reader:
        """Return a reader of a file; of a later one, if the columns of the source are known."""
        reading = self.reading
        if shape is not None and reading.header is None and reading.names is None:
            reading = replace(reading, header=not is_automatic(shape.kinds))
        entry = registry.get("format", self.format_of(path))
        if not entry.details.get("streamed", False) and (path == STANDARD_INPUT or self.follow is not None):
            raise OptionError(f"{entry.name} cannot be followed or read from standard input; use csv or jsonl")
        if not entry.details.get("streamed", False) and os.path.exists(path) and not os.path.isfile(path):
            raise SourceError(f"{path} is a pipe or a device, from which {entry.name} cannot be read")
        reader: Reader = entry.make(self._bytes_of(path, reading.block_bytes), reading)
        return reader

    def _bytes_of(self, path: str, block_bytes: int) -> ByteFile:
        return ByteFile(path, block_bytes, self.follow)

    def _copy_remarks(self) -> list[Message]:
        remark = self._local_copy[1] if is_web_address(self.name) else None
        return [] if remark is None else [remark]

    def columns(self) -> dict[str, Kind | None]:
        """Return the columns of the first file and their kinds; None for a type that a table cannot hold."""
        return dict(self._reader(self.files()[0]).shape().kinds)

    # -------------------------------------------------------------------- tables

    def tables(
        self, position: Position = None, *, on_skip: OnSkip | None = None
    ) -> Iterator[tuple[Table, FilePosition]]:
        """Yield batches of rows from ``position`` on, each with the position after it.

        The same rows follow a position whenever it is used. ``on_skip`` is called with every row that was left out,
        once, before the batch that follows the row.
        """
        self.check()
        files = self.files()
        if self.follow is not None and (len(files) > 1 or files[0] == STANDARD_INPUT):
            raise OptionError(Option("follow"), f" needs one growing file; got {self.name!r}")
        progress = _Progress()
        first, mark = 0, None
        if position is not None:
            start = read_position(position)
            if start["file"] not in files:
                gone = "no longer exists" if not Path(start["file"]).exists() else f"is no part of {self.name!r}"
                raise SourceError(
                    f"the saved position is in the file {start['file']!r}, which {gone}; resume with the same source, "
                    "to which files may have been added, or start a new run"
                )
            first, mark = files.index(start["file"]), Mark(start["offset"], start["line"], start["tail"])
            if start["earlier"] is not None and first > start["earlier"]:
                self._warn_of_added(first - start["earlier"], start["file"])
            progress = _Progress(start["rows"], start["skipped"])
            progress.fix_shape(Shape(dict(start["columns"]), start["n_features"], frozenset(self.reading.drop)))
        if position is None and self._kept is not None:
            chunks: Iterable[_Read] = self._kept
        else:
            chunks = self._read(files, first, mark, progress.shape)
        return self._tables(files, chunks, progress, on_skip)

    def keep_chunks(self) -> None:
        """Keep what is read from the beginning on, as far as there is room, for further calls of ``tables``.

        Copies of the source with batches of another size share it. ``read_last`` ends it.
        """
        if self.follow is None and self.name != STANDARD_INPUT and self.seekable:
            files = self.files()
            self._kept = _KeptChunks(lambda: self._read(files, 0, None, None))

    def read_last(self) -> None:
        """Note that nobody will begin to read again, so that nothing is kept any longer than necessary."""
        if self._kept is not None:
            self._kept.last = True

    def with_reading(self, reading: ReadingOptions) -> Self:
        """Return this source with other options of reading, without the chunks that were read with these."""
        other = copy.copy(self)
        other.reading, other._kept = reading, None
        return other

    def with_batches(self, batch_size: int) -> Self:
        """Return this source with batches of another size."""
        other = copy.copy(self)
        other.batch_size = batch_size
        return other

    @staticmethod
    def _warn_of_added(added: int, file: str) -> None:
        """Warn of files that were added before the one that was read last."""
        warnings.warn(
            f"{counted(added, 'new file')} {agreeing(added, 'is', 'are')} not read, since files are read in the order "
            f"of their names and {file!r}, which comes later, has been read before; give new files names that come "
            "last",
            RunWarning,
            stacklevel=3,
        )

    def _tables(
        self, files: list[str], chunks: Iterable[_Read], progress: _Progress, on_skip: OnSkip | None
    ) -> Iterator[tuple[Table, FilePosition]]:
        most = None if self.reading.rows is None else self.reading.rows - progress.rows
        if most is not None and most <= 0:
            return
        cutter = BatchCutter(BatchRule.checked(self.batch_size, self.batch_seconds, self.time), most, self.digests)
        for index, chunk, shape, remarks in chunks:
            if progress.shape is None:
                progress.fix_shape(shape)
                self.remarks = [] if remarks is None else remarks
            cutter.add(index, chunk)
            for batch in cutter.batches():
                yield from self._placed(files, progress, on_skip, *batch)
            if cutter.most == 0:
                return
            if chunk.error is not None:
                raise chunk.error
        yield from self._placed(files, progress, on_skip, *cutter.rest())

    def _read(self, files: list[str], first: int, mark: Mark | None, shape: Shape | None) -> Iterator[_Read]:
        """Yield the chunks of files from a place on; ``shape`` has the columns, if rows before it have told them."""
        ignore_added, remarks = self.reading.on_schema_change != "fail", None
        for index in range(first, len(files)):
            reader = self._reader(files[index], shape)
            found = reader.shape()
            if shape is None:
                self.remarks = remarks = [*self._copy_remarks(), *reader.remarks]
                if found.empty and index + 1 < len(files):
                    continue  # a file without rows tells no kinds; the next one may
                shape = first_shape(self.name, found, self.reading, self.time)
            self._check_change(files[index], shape, found, reader)
            for chunk in reader.chunks(shape, mark if index == first else None, ignore_added=ignore_added):
                yield _Read(index, chunk, shape, remarks)

    def _placed(
        self,
        files: list[str],
        progress: _Progress,
        on_skip: OnSkip | None,
        table: Table | None,
        place: Place,
        bad_rows: list[BadRow],
    ) -> Iterator[tuple[Table, FilePosition]]:
        """Report the bad rows before a place, then yield the table with its position."""
        for bad in bad_rows:
            progress.skipped += 1
            skip_row(bad, progress.skipped, self.reading, on_skip)
        if table is None:
            return
        progress.rows += len(table)
        assert progress.shape is not None
        position = FilePosition(
            file=files[place.file],
            offset=place.mark.offset,
            line=place.mark.line,
            rows=progress.rows,
            skipped=progress.skipped,
            columns=progress.columns,
            n_features=progress.shape.n_features,
            tail=place.mark.tail,
            earlier=place.file,
        )
        yield table, position

    # -------------------------------------------------------------------- columns

    def _check_change(self, file: str, shape: Shape, found: Shape, reader: Reader) -> None:
        """Raise SchemaError if the columns of a file differ from those of the source, and that is not allowed."""
        policy: OnSchemaChange = self.reading.on_schema_change
        added = [name for name in found.kinds if name not in shape.kinds and name not in shape.dropped]
        removed = [name for name in shape.kinds if name not in found.kinds and not reader.ragged]
        cells = self._cells_of(file)
        typed = cells in ("declared", "typed")
        # Text can be read as the kind that was asked for, whatever the file declares.
        asked_for = set(self.reading.kinds) if cells == "declared" else set()
        retyped = [
            f"{name!r} from {kind} to {found.kinds[name] or 'a type that cannot be read'}"
            for name, kind in shape.kinds.items()
            if typed
            and name in found.kinds.keys() - found.untyped - asked_for
            and not _can_read_as(kind, found.kinds[name])
        ]
        faults = [f"retyped: {', '.join(retyped)}"] * bool(retyped)
        if (shape.n_features == 0) != (found.n_features == 0):
            faults.append("sparse features only in some files")
        if policy != "fill-removed":
            faults += [f"removed: {listed(removed)}"] * bool(removed)
        if policy == "fail":
            faults += [f"added: {listed(added)}"] * bool(added)
        if faults:
            raise SchemaError(
                f"{file}: the columns differ from those of the first file ({'; '.join(faults)}); ",
                Option("on_schema_change"),
                f" is {policy!r}. Allow added or removed columns with 'ignore-added' or 'fill-removed'; read files "
                "whose columns changed their kind as a source of their own",
            )


def _can_read_as(wanted: Kind | None, found: Kind | None) -> bool:
    """Whether a typed column can be read as another kind: everything as text, booleans as 0 and 1."""
    return found is not None and (wanted in (found, "text") or (wanted, found) == ("number", "boolean"))
