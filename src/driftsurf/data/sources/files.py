"""Files, folders and patterns as a source of tables."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from driftsurf import registry
from driftsurf.core.input import listed
from driftsurf.core.wording import agreeing, counted
from driftsurf.data.formats import format_of_file, list_endings
from driftsurf.data.formats._bytes import ByteFile, member_of_zip, no_such_file
from driftsurf.data.formats._header import is_automatic
from driftsurf.data.formats._reader import Mark, Reader, Shape
from driftsurf.data.kinds import Kind
from driftsurf.data.reading_options import OnSchemaChange, ReadingOptions
from driftsurf.data.source import STANDARD_INPUT, BadRow, Cells, Position
from driftsurf.data.sources._batching import BatchCutter, BatchRule, Place
from driftsurf.data.sources._columns import OnSkip, first_shape, skip_row
from driftsurf.data.sources._position import FilePosition, read_position
from driftsurf.data.sources._web import is_web_address, local_copy
from driftsurf.data.tables import Table
from driftsurf.errors import Message, Option, OptionError, RunWarning, SchemaError, SourceError
from driftsurf.registry import register

__all__ = ["FilePosition", "FileSource"]


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
        return self._tables(files, first, mark, progress, on_skip)

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
        self, files: list[str], first: int, mark: Mark | None, progress: _Progress, on_skip: OnSkip | None
    ) -> Iterator[tuple[Table, FilePosition]]:
        most = None if self.reading.rows is None else self.reading.rows - progress.rows
        if most is not None and most <= 0:
            return
        cutter = BatchCutter(BatchRule.checked(self.batch_size, self.batch_seconds, self.time), most, self.digests)
        ignore_added = self.reading.on_schema_change != "fail"
        for index in range(first, len(files)):
            reader = self._reader(files[index], progress.shape)
            found = reader.shape()
            if progress.shape is None:
                self.remarks = [*self._copy_remarks(), *reader.remarks]
                if found.empty and index + 1 < len(files):
                    continue  # a file without rows tells no kinds; the next one may
                progress.fix_shape(first_shape(self.name, found, self.reading, self.time))
            assert progress.shape is not None
            self._check_change(files[index], progress.shape, found, reader)
            for chunk in reader.chunks(progress.shape, mark if index == first else None, ignore_added=ignore_added):
                cutter.add(index, chunk)
                for batch in cutter.batches():
                    yield from self._placed(files, progress, on_skip, *batch)
                if cutter.most == 0:
                    return
                if chunk.error is not None:
                    raise chunk.error
        yield from self._placed(files, progress, on_skip, *cutter.rest())

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
