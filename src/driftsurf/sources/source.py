"""A source: files in order, as batches of rows, with a position after each from which it resumes exactly."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from driftsurf._options import choice, whole
from driftsurf.errors import BadRowError, Option, OptionError, SchemaError, SourceError, StateError
from driftsurf.sources._base import STANDARD_INPUT, BadRow, Dialect, Mark, Reader, Shape
from driftsurf.sources._bytes import ENDINGS, ByteFile
from driftsurf.sources._cutting import Cut, Cutter, Place
from driftsurf.sources.arff import ArffReader
from driftsurf.sources.columnar import ArrowReader, ParquetReader
from driftsurf.sources.delimited import DelimitedReader
from driftsurf.sources.json_lines import JsonLinesReader
from driftsurf.sources.libsvm import LibsvmReader
from driftsurf.tables import KINDS, Kind, Table
from driftsurf.validation import listed

__all__ = ["FORMATS", "Position", "Source"]

FORMATS: dict[str, tuple[Callable[[ByteFile, Dialect], Reader], tuple[str, ...]]] = {
    "csv": (DelimitedReader, (".csv", ".tsv", ".txt")),
    "jsonl": (JsonLinesReader, (".jsonl", ".ndjson")),
    "arff": (ArffReader, (".arff",)),
    "libsvm": (LibsvmReader, (".svm", ".libsvm", ".svmlight")),
    "parquet": (ParquetReader, (".parquet", ".pq")),
    "arrow": (ArrowReader, (".arrow", ".feather", ".ipc")),
}
"""By name: who reads it, and the endings of such files."""
BINARY = "parquet", "arrow"
ON_SCHEMA_CHANGE = "fail", "ignore-added", "fill-removed"


class Position(TypedDict):
    """Where a source stands: plain values, ready for JSON."""

    file: str
    offset: int
    line: int
    rows: int
    """Rows given so far."""
    skipped: int
    """Bad rows left out so far."""
    columns: list[tuple[str, Kind]]
    n_features: int
    tail: str
    """A digest by which the file is known again; '' for any file."""


class Source:
    """Rows of files as tables of bounded size, in a fixed order, resumable after each.

    The kinds of columns are fixed by the first file with rows and never change. Where a batch ends depends on
    ``batch_size`` (or ``batch_seconds``) alone, not on how the bytes arrive, and a batch may begin in one file
    and end in the next.

    Parameters
    ----------
    path
        A file, a folder, a pattern such as ``"logs/*.csv.gz"`` (files in the order of their names), or "-" for
        standard input. Text may be compressed with gzip or zstd.
    format
        "csv" (any delimiter), "jsonl", "arff", "libsvm", "parquet" or "arrow"; None goes by the ending.
    batch_size
        Rows of a batch; None with ``batch_seconds``.
    batch_seconds, time
        Cut batches by spans of so many seconds of the column ``time`` (dates, or numbers of seconds).
    drop
        Columns to leave out.
    kinds
        "number", "boolean", "date" or "text" for columns that are not what they look like.
    dialect
        How text is to be read; None for the usual rules.
    on_bad_row
        "fail", "skip", or a number: stop when more rows than that have been skipped.
    on_schema_change
        When a later file has other columns: "fail"; "ignore-added"; "fill-removed" ignores added ones and gives
        removed ones as gaps. A column that changed its kind is always an error.
    sink
        Called with each :class:`BadRow` that is skipped, once, before the batch that follows it.
    follow
        For a growing text file: asked at its end whether to look again; see ``polling``. Half a line at the
        end is never a row. The rows that decide the kinds (``Dialect.sample_rows``) have to be there before
        the first batch.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("price,sold\\n1.5,yes\\n2,no\\n")
    >>> _ = (folder / "b.csv").write_text("sold,price\\nno,oops\\nno,3\\n")
    >>> source = Source(folder, batch_size=2, on_bad_row="skip", sink=lambda bad: print(bad.line, bad.reason))
    >>> for table, position in source.tables():
    ...     print(table["price"].values, position["rows"])
    [1.5 2. ] 2
    2 column 'price' is a number, and 'oops' is none
    [3.] 3
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        batch_size: int | None = 1000,
        batch_seconds: float | None = None,
        time: str | None = None,
        drop: Collection[str] = (),
        kinds: Mapping[str, Kind] | None = None,
        dialect: Dialect | None = None,
        on_bad_row: Literal["fail", "skip"] | int = "fail",
        on_schema_change: Literal["fail", "ignore-added", "fill-removed"] = "fail",
        sink: Callable[[BadRow], None] | None = None,
        follow: Callable[[], bool] | None = None,
    ) -> None:
        self.path = path
        self.format = format
        self.batch_size = batch_size
        self.batch_seconds = batch_seconds
        self.time = time
        self.drop = drop
        self.kinds = kinds
        self.dialect = dialect
        self.on_bad_row = on_bad_row
        self.on_schema_change = on_schema_change
        self.sink = sink
        self.follow = follow

    def check(self) -> None:
        """Raise OptionError if an option cannot be used."""
        Cut.checked(self.batch_size, self.batch_seconds, self.time)
        if self.format is not None:
            choice("format", self.format, tuple(FORMATS))
        for kind in (self.kinds or {}).values():
            choice("kinds", kind, KINDS)
        if isinstance(self.drop, str):
            raise OptionError(Option("drop"), f" is {self.drop!r}; give a list of names: [{self.drop!r}]")
        if self.dialect is not None:
            self.dialect.check()
        if self.on_bad_row not in ("fail", "skip"):
            whole("on_bad_row", self.on_bad_row, at_least=0, otherwise=", or 'fail' or 'skip'")
        choice("on_schema_change", self.on_schema_change, ON_SCHEMA_CHANGE)

    def files(self) -> list[str]:
        """The files in the order in which they are read."""
        path = os.fspath(self.path)
        if path == STANDARD_INPUT:
            return [path]
        if os.path.isdir(path):
            names = sorted(entry.name for entry in os.scandir(path) if entry.is_file() and entry.name[0] not in "._")
            found = [os.path.join(path, name) for name in names if self.format or _format_of(name)]
            if not found:
                raise SourceError(f"the folder {path!r} holds no file that can be read: {_endings()}.")
            return found
        if os.path.exists(path) or not glob.has_magic(path):
            return [path]
        found = sorted(name for name in glob.glob(path, recursive=True) if os.path.isfile(name))
        if not found:
            raise SourceError(f"no file matches {path!r}: check the pattern.")
        return found

    # -------------------------------------------------------------------- tables

    def tables(self, from_position: Mapping[str, Any] | None = None) -> Iterator[tuple[Table, Position]]:
        """Batches, each with the position behind it; from a position on, exactly what would have followed."""
        self.check()
        files = self.files()
        if self.follow is not None and (len(files) > 1 or files[0] == STANDARD_INPUT):
            raise OptionError(Option("follow"), f" is for one growing file, not for {self.path!r}; leave it out")
        start = None if from_position is None else _read_position(from_position)
        if start is None:
            first, mark, rows, skipped, shape = 0, None, 0, 0, None
        else:
            if start["file"] not in files:
                raise SourceError(f"the file {start['file']!r} of the saved position is not there any more.")
            first, mark = files.index(start["file"]), Mark(start["offset"], start["line"], start["tail"])
            rows, skipped = start["rows"], start["skipped"]
            shape = Shape(dict(start["columns"]), start["n_features"], frozenset(self.drop))
        return self._tables(files, first, mark, rows, skipped, shape)

    def _tables(
        self, files: list[str], first: int, mark: Mark | None, rows: int, skipped: int, shape: Shape | None
    ) -> Iterator[tuple[Table, Position]]:
        cutter = Cutter(Cut.checked(self.batch_size, self.batch_seconds, self.time))
        columns: list[tuple[str, Kind]] = []

        def given(table: Table | None, place: Place, bad: list[BadRow]) -> Iterator[tuple[Table, Position]]:
            nonlocal rows, skipped
            for one in bad:
                skipped += 1
                self._skip(one, skipped)
            if table is not None:
                rows += len(table)
                assert shape is not None
                yield (
                    table,
                    Position(
                        file=files[place.file],
                        offset=place.mark.offset,
                        line=place.mark.line,
                        rows=rows,
                        skipped=skipped,
                        columns=columns,
                        n_features=shape.n_features,
                        tail=place.mark.tail,
                    ),
                )

        for index in range(first, len(files)):
            reader = self._reader(files[index])
            theirs = reader.shape()
            if theirs.empty and shape is None and index + 1 < len(files):
                continue  # the next file tells the kinds
            shape = self._first_shape(theirs) if shape is None else shape
            columns = [(name, kind) for name, kind in shape.kinds.items() if kind is not None]
            self._check_change(files[index], shape, theirs, reader)
            for chunk in reader.chunks(
                shape, mark if index == first else None, ignore_added=self.on_schema_change != "fail"
            ):
                cutter.add(index, chunk)
                for batch in cutter.batches():
                    yield from given(*batch)
                if chunk.error is not None:
                    raise chunk.error
        yield from given(*cutter.rest())

    def _skip(self, bad: BadRow, count: int) -> None:
        if self.on_bad_row == "fail":
            raise BadRowError(
                *bad.said,
                ". Correct it, or leave such rows out with ",
                Option("on_bad_row", "skip"),
                f": {bad.raw[:200]!r}",
            )
        if self.sink is not None:
            self.sink(bad)
        if self.on_bad_row != "skip" and count > int(self.on_bad_row):
            raise BadRowError(
                f"{count} rows could not be read, more than ",
                Option("on_bad_row", self.on_bad_row),
                "; the last: ",
                *bad.said,
                ".",
            )

    def format_of(self, path: str) -> str:
        """The format of one of its files."""
        name = self.format or ("csv" if path == STANDARD_INPUT else _format_of(path))
        if name is None:
            raise OptionError(f"the ending of {path!r} does not tell its format: {_endings()}; give ", Option("format"))
        return name

    def _reader(self, path: str) -> Reader:
        name = self.format_of(path)
        if name in BINARY and (path == STANDARD_INPUT or self.follow is not None):
            raise OptionError(f"{name} can neither be followed nor come from standard input; use csv or jsonl")
        dialect = Dialect() if self.dialect is None else self.dialect
        return FORMATS[name][0](ByteFile(path, dialect.block_bytes, self.follow), dialect)

    # -------------------------------------------------------------------- columns

    def _first_shape(self, theirs: Shape) -> Shape:
        if not theirs.kinds and not theirs.n_features:
            raise SourceError(f"{os.fspath(self.path)} is empty: there is no row to tell its columns from.")
        own = self.kinds or {}
        for option, names in (("drop", self.drop), ("kinds", own), ("time", [] if self.time is None else [self.time])):
            unknown = [name for name in names if name not in theirs.kinds]
            if unknown:
                one_each = " Name one column at a time." if any("," in name for name in unknown) else ""
                raise SchemaError(
                    Option(option), f" names {listed(unknown)}; the columns are {listed(list(theirs.kinds))}.{one_each}"
                )
        kinds: dict[str, Kind | None] = {}
        for name, kind in theirs.kinds.items():
            if name in self.drop:
                continue
            if kind is None:
                raise SchemaError(
                    f"the column {name!r} holds lists, objects or bytes, which are no values of a table: leave it out "
                    "with ",
                    Option("drop", name),
                    ".",
                )
            kinds[name] = own.get(name, kind)
        if not kinds and not theirs.n_features:
            raise SchemaError(f"no column is left of {os.fspath(self.path)!r}: drop fewer.")
        return Shape(kinds, theirs.n_features, frozenset(self.drop))

    def _check_change(self, file: str, shape: Shape, theirs: Shape, reader: Reader) -> None:
        """SchemaError if a file has other columns than the source, and ``on_schema_change`` does not allow it."""
        added = [name for name in theirs.kinds if name not in shape.kinds and name not in shape.dropped]
        removed = [name for name in shape.kinds if name not in theirs.kinds and not reader.ragged]
        retyped = [
            f"{name!r} from {kind} to {theirs.kinds[name] or 'a type that cannot be read'}"
            for name, kind in shape.kinds.items()
            if reader.typed and name in theirs.kinds.keys() - theirs.untyped and not _agree(kind, theirs.kinds[name])
        ]
        faults = [f"retyped: {', '.join(retyped)}"] * bool(retyped)
        if (shape.n_features == 0) != (theirs.n_features == 0):
            faults.append("sparse features only in some files")
        if self.on_schema_change != "fill-removed":
            faults += [f"removed: {listed(removed)}"] * bool(removed)
        if self.on_schema_change == "fail":
            faults += [f"added: {listed(added)}"] * bool(added)
        if faults:
            raise SchemaError(
                f"{file}: the columns differ from those that the source began with ({'; '.join(faults)}). ",
                Option("on_schema_change"),
                f" is {self.on_schema_change!r}; choices: {', '.join(ON_SCHEMA_CHANGE)}. A column that changed its "
                "kind needs a source of its own.",
            )


def _agree(wanted: Kind | None, theirs: Kind | None) -> bool:
    """Whether a typed column can be read as the kind wanted: as itself, as text, or a boolean as 0 and 1."""
    return theirs is not None and (wanted in (theirs, "text") or (wanted, theirs) == ("number", "boolean"))


def _format_of(name: str) -> str | None:
    path = Path(name.lower())
    plain = path.with_suffix("") if path.suffix in ENDINGS else path
    found = next((name for name, (_, endings) in FORMATS.items() if plain.suffix in endings), None)
    return None if found in BINARY and plain != path else found


def _endings() -> str:
    return (
        "endings are "
        + ", ".join(ending for _, endings in FORMATS.values() for ending in endings)
        + " (text: and .gz, .zst)"
    )


def _read_position(position: Mapping[str, Any]) -> Position:
    """The position as it was given, perhaps by way of JSON; StateError if it is none."""
    try:
        read = Position(
            file=position["file"],
            offset=position["offset"],
            line=position["line"],
            rows=position["rows"],
            skipped=position["skipped"],
            columns=[(name, kind) for name, kind in position["columns"]],
            n_features=position["n_features"],
            tail=position.get("tail", ""),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"this is no position of a source ({error}): give one that tables() gave.") from error
    counts = read["offset"], read["line"], read["rows"], read["skipped"], read["n_features"]
    if not (
        isinstance(read["file"], str)
        and isinstance(read["tail"], str)
        and all(type(value) is int and value >= 0 for value in counts)
        and all(isinstance(name, str) and kind in KINDS for name, kind in read["columns"])
    ):
        raise StateError(f"this is no position of a source: {dict(position)!r}. Give one that tables() gave.")
    return read
