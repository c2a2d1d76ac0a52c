"""Published files as tables and sparse rows, read by the same formats as a user's files.

The files of a data set differ in their name, their compression, and in whether they have a header; a table is a CSV or
an ARFF file. So columns are found by their place, and the format by the first line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.data.formats._bytes import ByteFile
from driftsurf.data.formats.libsvm import LABEL
from driftsurf.data.kinds import Kind
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.data.sources.files import FileSource
from driftsurf.data.tables import Column, Table
from driftsurf.errors import InputError

__all__ = ["TableFile", "TablePart", "read_libsvm"]

BATCH_ROWS = 65_536
BLOCK_BYTES = 2**20


class TablePart:
    """Consecutive rows of a published table, whose columns are checked while they are read."""

    def __init__(self, path: Path, first_row: int, table: Table) -> None:
        self.path = path
        self.first_row = first_row
        self.table = table

    def __len__(self) -> int:
        return len(self.table)

    def numbers(self, names: Sequence[str]) -> FloatArray:
        """Return columns as finite numbers; raise InputError if a value is missing."""
        columns = [self._complete(name).values for name in names]
        return np.column_stack(columns)

    def integers(self, name: str, choices: range) -> IntArray:
        """Return a column of integers from a range; raise InputError if there is another value."""
        values = self.numbers([name])[:, 0]
        known = np.isin(values, np.array(choices))
        if not known.all():
            row = int(known.argmin())
            self.refuse(row, f"{name} must be an integer from {choices[0]} to {choices[-1]}; got {values[row]:g}")
        return values.astype(np.int64)

    def words(self, name: str) -> Column:
        """Return a column of text; raise InputError if a value is missing."""
        return self._complete(name)

    def coded(self, name: str, codes: Mapping[str, int]) -> IntArray:
        """Return a column of words as their codes; raise InputError if there is another word."""
        column = self.words(name)
        known = [codes.get(word.strip("'\"")) for word in column.words]
        for code in column.used().tolist():
            if known[code] is None:
                row = int(np.argmax(column.values == code))
                self.refuse(row, f"{name} must be one of {', '.join(codes)}; got {column.words[code]!r}")
        all_codes: IntArray = np.array([code or 0 for code in known], dtype=np.int64)
        return np.asarray(all_codes[column.values])

    def _complete(self, name: str) -> Column:
        column = self.table[name]
        missing = column.missing()
        if missing.any():
            self.refuse(int(missing.argmax()), f"{name} is missing")
        return column

    def refuse(self, row: int, reason: str) -> NoReturn:
        """Raise InputError for a row of this part."""
        raise InputError(f"{self.path}, row {self.first_row + row + 1}: {reason}")


class TableFile:
    """A published CSV or ARFF file whose columns are known by their order.

    Parameters
    ----------
    path
        The file, compressed or not.
    columns
        Names and kinds of the columns in the order of the file; None for a column that is not read.
    """

    def __init__(self, path: Path, columns: Mapping[str, Kind | None]) -> None:
        self.path = path
        self.columns = columns

    def parts(self) -> Iterator[TablePart]:
        """Yield the rows; raise an error of this package if they do not have these columns."""
        source, own_names = self._open()
        n_rows = 0
        for table, _ in source.tables():
            renamed = {
                name: table[own] for own, name in zip(own_names, self.columns, strict=True) if own in table.columns
            }
            yield TablePart(self.path, n_rows, Table(renamed))
            n_rows += len(table)
        if not n_rows:
            raise InputError(f"{self.path} has no rows")

    def read(self) -> TablePart:
        """Return all rows."""
        tables = [part.table for part in self.parts()]
        return TablePart(self.path, 0, Table.concatenate(tables))

    def _open(self) -> tuple[FileSource, list[str]]:
        """Return the source, and the names that the file has for its columns."""
        first = _first_line(self.path)
        reading: dict[str, Any] = {"format": "arff" if first[:1] in ("@", "%") else "csv"}
        if reading["format"] == "csv":
            reading["delimiter"] = ","
            reading["header"] = not any(map(_is_number, next(csv.reader([first]), ())))
        own_names = list(FileSource(self.path, ReadingOptions(**reading)).columns())
        if len(own_names) != len(self.columns):
            raise InputError(f"{self.path} has {len(own_names)} columns, expected {len(self.columns)}")
        if reading.get("header") is False:
            reading["names"] = own_names = list(self.columns)
        kinds = dict(zip(own_names, self.columns.values(), strict=True))
        reading["kinds"] = {name: kind for name, kind in kinds.items() if kind is not None}
        reading["drop"] = [name for name, kind in kinds.items() if kind is None]
        return FileSource(self.path, ReadingOptions(**reading), batch_size=BATCH_ROWS), own_names


def _first_line(path: Path) -> str:
    """Return the first line that is not blank."""
    head = b""
    for block in chain(ByteFile(str(path), BLOCK_BYTES).blocks(), [b"\n"]):
        head = (head + block).lstrip()
        if b"\n" in head:
            break
    return head.partition(b"\n")[0].decode("utf-8", "replace").strip()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_libsvm(path: Path, n_features: int, choices: Sequence[float]) -> tuple[Any, FloatArray]:
    """Return the rows of a LIBSVM file as a CSR matrix, and their labels, which must be among ``choices``."""
    from scipy.sparse import csr_array

    source = FileSource(path, ReadingOptions(format="libsvm", n_features=n_features), batch_size=BATCH_ROWS)
    tables = [table for table, _ in source.tables()]
    if not tables:
        raise InputError(f"{path} has no rows")
    table = Table.concatenate(tables)
    assert table.features is not None
    data, indices, indptr, _ = table.features
    labels = table[LABEL].values
    known = np.isin(labels, choices)
    if not known.all():
        row = int(known.argmin())
        listed = ", ".join(map(str, choices))
        raise InputError(f"{path}, row {row + 1}: the label must be one of {listed}; got {labels[row]:g}")
    start, stop = int(indptr[0]), int(indptr[-1])
    parts = data[start:stop], indices[start:stop], (indptr - start).astype(np.int32)
    return csr_array(parts, shape=(len(labels), n_features)), labels
