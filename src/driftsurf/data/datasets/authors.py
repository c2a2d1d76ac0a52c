"""The files that the paper's authors published for SINE1, Mixed and Circles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from driftsurf import registry
from driftsurf.data.datasets.known import FOLDER_VARIABLE, find_file
from driftsurf.data.reading_options import Kind
from driftsurf.errors import DriftsurfError, InputError
from driftsurf.streams.arrays import ArrayStream
from driftsurf.streams.base import Block, DriftSpan, Stream

_LABELS = {"p": 1, "n": -1}
_REMEDY = "use the file as published at github.com/Ashraf-T/DriftSurf, or a file with a header and rows like 0.1,0.2,p"


def find(name: str) -> Path | None:
    """Return the file ``driftsurf_<name>.csv``, compressed or not, in the folders of data sets; None if there is none.

    >>> find("no-such-stream") is None
    True
    """
    return find_file([f"driftsurf_{name.lower()}.csv"])


def published(name: str, **options: Any) -> Stream:
    """Return SINE1, Mixed or Circles: the authors' file if it is available, else generated; the rows are the same.

    With options of the generator, such as ``n_rows``, it is always generated.

    >>> origin(published("sine1", n_rows=100))
    'generated'
    """
    path = None if options else find(name)
    generated: Stream = registry.get("stream", name).make(**options)
    return generated if path is None else AuthorsFile(path, name=generated.name)


def origin(stream: Stream) -> str:
    """Return where the rows of a stream of ``published`` come from."""
    return f"the authors' file {stream.path}" if isinstance(stream, AuthorsFile) else "generated"


class AuthorsFile(Stream):
    """A stream read from one of the authors' files, in the order of its rows.

    The file is a CSV file, compressed or not: a header, columns of numbers or of True and False (1.0 and 0.0), and the
    class in the last column, 'p' (+1) or 'n' (-1). It is read on first use.

    Parameters
    ----------
    path
        The file.
    name
        "sine1", "mixed" or "circles", which tells where it drifts; by default it is taken from the file name. A file
        of another name has no known drifts.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "driftsurf_tiny.csv")
    >>> _ = path.write_text("v,x,class\\nTrue,0.25,p\\nFalse,0.75,n\\n")
    >>> stream = AuthorsFile(path)
    >>> stream.name, stream.n_rows, stream.drifts
    ('tiny', 2, ())
    >>> stream.arrays()
    (array([[1.  , 0.25],
           [0.  , 0.75]]), array([ 1, -1]))
    """

    name: str

    def __init__(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        self.path = path
        self.name = Path(path).name.split(".")[0].removeprefix("driftsurf_") if name is None else name

    @cached_property
    def _rows(self) -> ArrayStream:
        return ArrayStream(*_read(Path(self.path)))

    @property
    def n_rows(self) -> int:
        """Number of rows of the file."""
        return self._rows.n_rows

    @property
    def n_features(self) -> int:
        """Number of columns of the file without the class."""
        return self._rows.n_features

    @property
    def drifts(self) -> tuple[DriftSpan, ...]:
        """Drifts of the stream of this name."""
        name = self.name.lower()
        if name not in ("sine1", "mixed", "circles"):
            return ()
        generated: Stream = registry.get("stream", name).make(n_rows=self.n_rows)
        return generated.drifts

    def blocks(self) -> Iterator[Block]:
        """Yield the rows of the file."""
        return self._rows.blocks()


def _read(path: Path) -> Block:
    """Return all rows of the file; raise InputError that names the file and the line if one is wrong."""
    from driftsurf.data.datasets._readers import TablePart
    from driftsurf.data.reading_options import ReadingOptions
    from driftsurf.data.sources.files import FileSource
    from driftsurf.data.tables import Table

    if not path.is_file():
        raise InputError(f"{path}: no such file; set {FOLDER_VARIABLE} to the folder that holds it")
    try:
        reading = ReadingOptions(format="csv", delimiter=",")
        *names, label = own = FileSource(path, reading).columns()
        kinds: dict[str, Kind] = {name: "boolean" if own[name] == "boolean" else "number" for name in names}
        source = FileSource(path, replace(reading, kinds=kinds | {label: "text"}))
        tables = [table for table, _ in source.tables()]
        if not (names and tables):
            raise InputError(f"{path} has no rows with a column before the class")
        table = Table.concatenate(tables)
        part = TablePart(path, 0, table)
        return part.numbers(names), part.coded(label, _LABELS)
    except DriftsurfError as error:
        raise InputError(f"{error}; {_REMEDY}") from error
