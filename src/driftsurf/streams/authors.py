"""The files that the paper's authors published for SINE1, Mixed and Circles."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf.errors import InputError
from driftsurf.streams import files
from driftsurf.streams._text import UNREADABLE
from driftsurf.streams.arrays import ArrayStream
from driftsurf.streams.base import Block, Drift, Stream
from driftsurf.streams.circles import Circles
from driftsurf.streams.mixed import Mixed
from driftsurf.streams.sine1 import SINE1

_GENERATORS: dict[str, Callable[..., Stream]] = {"sine1": SINE1, "mixed": Mixed, "circles": Circles}
_TRUTH = {"True": 1.0, "False": 0.0}
_LABELS = {"p": 1, "n": -1}
_REMEDY = "take the file as published at github.com/Ashraf-T/DriftSurf, or give it a header and rows like 0.1,0.2,p"


def find(name: str) -> Path | None:
    """The file ``driftsurf_<name>.csv``, packed or not, in the folders where data are looked for, if it is there.

    >>> find("no-such-stream") is None
    True
    """
    return files.find([f"driftsurf_{name.lower()}.csv"])


def published(name: str, **options: Any) -> Stream:
    """SINE1, Mixed or Circles: the authors' file where it is found, else generated; the rows are the same.

    With options of the generator, such as ``n_rows``, it is always generated.

    >>> origin(published("sine1", n_rows=100))
    'generated'
    """
    path = None if options else find(name)
    generated = _GENERATORS[name](**options)
    return generated if path is None else AuthorsFile(path, name=generated.name)


def origin(stream: Stream) -> str:
    """Where the rows of a stream of ``published`` come from."""
    return f"the authors' file {stream.path}" if isinstance(stream, AuthorsFile) else "generated"


class AuthorsFile(Stream):
    """A stream read from one of the authors' files, rows in the order of the file.

    The file is a csv, plain or packed: a header, then columns of numbers or True and
    False (1.0 and 0.0), the class last, 'p' (+1) or 'n' (-1). It is read on first use.

    Parameters
    ----------
    path
        The file.
    name
        "sine1", "mixed" or "circles", which says where it drifts; by default it is taken from the
        file's name. Another name is allowed, for a file without known drifts.

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
        """Lines of the file without the header."""
        return self._rows.n_rows

    @property
    def n_features(self) -> int:
        """Columns of the file without the class."""
        return self._rows.n_features

    @property
    def drifts(self) -> tuple[Drift, ...]:
        """Those of the stream of this name."""
        generator = _GENERATORS.get(self.name.lower())
        return generator(n_rows=self.n_rows).drifts if generator else ()

    def blocks(self) -> Iterator[Block]:
        """The rows of the file."""
        return self._rows.blocks()


def _read(path: Path) -> Block:
    """All rows of the file, or InputError with the line that is wrong."""
    X: list[list[float]] = []
    y: list[int] = []
    line = 1
    try:
        with io.TextIOWrapper(files.open_bytes(path), encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            width = len(next(reader, ()))
            for row in reader:
                line = reader.line_num
                if len(row) != width:
                    raise ValueError(f"{len(row)} columns under a header of {width}")
                X.append([_number(text) for text in row[:-1]])
                y.append(_label(row[-1]))
    except FileNotFoundError as error:
        message = f"{path}: no such file; set {files.FOLDER_VARIABLE} to the folder that has it"
        raise InputError(message) from error
    except (ValueError, csv.Error, *UNREADABLE) as error:
        raise InputError(f"{path}, line {line}: {error}; {_REMEDY}") from error
    if not X or width < 2:
        raise InputError(f"{path}, line {line}: no rows with a column before the class; {_REMEDY}")
    return np.array(X), np.array(y, dtype=np.int64)


def _number(text: str) -> float:
    value = _TRUTH.get(text)
    if value is None:
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"{text!r} is not a finite number")
    return value


def _label(text: str) -> int:
    if text not in _LABELS:
        raise ValueError(f"class {text!r}; choices: 'p', 'n'")
    return _LABELS[text]
