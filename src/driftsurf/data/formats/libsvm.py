"""LIBSVM: sparse rows as ``label index:value index:value ...``."""

from __future__ import annotations

import re
import warnings
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from driftsurf.core.contracts import CSR, FloatArray, IntArray
from driftsurf.data.formats._reader import Mark, Shape
from driftsurf.data.formats._text import Parsed, Records, TextReader, read_each
from driftsurf.data.tables import Column, Table
from driftsurf.errors import Option, SchemaError
from driftsurf.registry import register

LABEL = "label"
"""Name of the column that holds the labels."""
LARGEST_INDEX = 2**31 - 2
_Row: TypeAlias = tuple[float, list[int], list[float]]
# Nothing is tried twice (*+, ++), so that a line of blanks takes no longer than another.
_LINE = re.compile(rb"\s*+([^\s:#,]++)(?:\s++qid:\d++)?+((?:\s++\d++:[^\s:#]++)*+)\s*+(?:#.*)?+", re.DOTALL)


@register("format", "libsvm", endings=(".svm", ".libsvm", ".svmlight"), streamed=True, cells="typed")
class LibsvmReader(TextReader):
    """Lines of a label and ``index:value`` pairs with rising indices, read as CSR rows beside the column "label".

    The width of a model is fixed, so that an index beyond ``n_features`` is an added column: it is refused by name, or
    left out with ``ignore-added``. Query ids and comments are passed over.

    A block of plain lines is parsed in one sweep over its bytes. If anything in it is unusual, its lines are read one
    by one, which also tells what is wrong with a bad row.
    """

    def read_head(self) -> tuple[Mark, Shape]:
        """Return the largest index of the first rows as the width, unless ``n_features`` is given."""
        width = self.reading.n_features
        if width is None:
            sample, *_ = read_each(self.head_records(self._body, self.sample_rows), self._row)
            width = max((indices[-1] + 1 for _, indices, _ in sample if indices), default=1)
        return self._body, Shape({LABEL: "number"}, n_features=width)

    def parse(self, records: Records, wanted: Shape, *, ignore_added: bool) -> Parsed:
        """Return lines of numbers as sparse rows."""
        swept = self._sweep(records, wanted.n_features)
        if swept is None:
            return self._parse_each(records, wanted, ignore_added=ignore_added)
        labels, features = swept
        return Parsed(_table(labels, features, wanted), np.arange(len(labels)), {})

    def _sweep(self, records: Records, width: int) -> tuple[FloatArray, CSR] | None:
        """Return labels and rows of plain records, or None if the lines have to be looked at one by one."""
        found = sweep(records.bytes()) if len(records) and not records.faults.any() else None
        if found is None or len(found.labels) != len(records):
            return None
        indices = found.indices - (not self.reading.zero_based)
        begins_row = np.zeros(len(indices) + 1, bool)
        begins_row[np.cumsum(found.counts) - found.counts] = True
        rising = begins_row[:-1] | (np.diff(indices, prepend=-1) > 0)
        valid = rising & (indices >= 0) & (indices < min(width, LARGEST_INDEX + 1)) & np.isfinite(found.values)
        if not (valid.all() and np.isfinite(found.labels).all()):
            return None
        ends = np.concatenate([[0], np.cumsum(found.counts)]).astype(np.int64)
        return found.labels, CSR(found.values, indices.astype(np.int32), ends, width)

    def _parse_each(self, records: Records, wanted: Shape, *, ignore_added: bool) -> Parsed:
        width = wanted.n_features

        def read(record: bytes) -> _Row | None:
            row = self._row(record)
            if row is None or not row[1] or row[1][-1] < width:
                return row
            label, indices, values = row
            if not ignore_added:
                raise SchemaError(
                    f"{self.file.name}: a row has the index {indices[-1] + (not self.reading.zero_based)}, but the "
                    f"source has {width} columns, the largest index of the first rows. Leave added columns out with ",
                    Option("on_schema_change", "ignore-added"),
                    ", or begin with a row that has the largest index; in Python, n_features sets the width",
                )
            inside = sum(index < width for index in indices)
            return label, indices[:inside], values[:inside]

        rows, places, reasons, ended = read_each(records, read)
        features = CSR(
            np.array([value for _, _, values in rows for value in values], np.float64),
            np.array([index for _, indices, _ in rows for index in indices], np.int32),
            np.concatenate([[0], np.cumsum([len(indices) for _, indices, _ in rows])]).astype(np.int64),
            width,
        )
        table = _table(np.array([label for label, _, _ in rows], np.float64), features, wanted)
        return Parsed(table, places, reasons, ended)

    def _row(self, record: bytes) -> _Row | None:
        """Return the label, the columns from 0 and the values; None for a comment; ValueError for a bad row."""
        line = record.strip()
        if not line or line.startswith(b"#"):
            return None
        found = _LINE.fullmatch(line)
        if found is None:
            raise ValueError("the row is not a label and pairs of index:value")
        label = _number(found[1])
        numbers = found[2].replace(b":", b" ").split()
        indices = [int(index) - (not self.reading.zero_based) for index in numbers[::2]]
        if indices and (indices[0] < 0 or indices[-1] > LARGEST_INDEX):
            first, wrong = int(not self.reading.zero_based), numbers[0 if indices[0] < 0 else -2].decode()
            raise ValueError(f"an index must be from {first} to {LARGEST_INDEX + 1} (see zero_based); got {wrong}")
        if any(one >= following for one, following in pairwise(indices)):
            raise ValueError("the indices of a row must rise")
        return label, indices, [_number(value) for value in numbers[1::2]]


class Swept(NamedTuple):
    """Rows of plain LIBSVM text."""

    labels: FloatArray
    counts: IntArray
    """Number of pairs of each row."""
    indices: IntArray
    """Indices as they are written."""
    values: FloatArray


def sweep(text: bytes) -> Swept | None:
    """Parse lines ``label index:value index:value ...`` in one sweep; None if the text has anything else.

    All numbers are read as if only white space stood between them. What that loses is checked separately: after a
    number comes a space, a colon or a line end, within a line spaces and colons have to alternate, and a colon has to
    touch the numbers on both of its sides.

    >>> sweep(b"1 1:0.5 7:2\\n0 3:1\\n").indices
    array([1, 7, 3])
    >>> sweep(b"1 qid:3 1:0.5\\n") is None
    True
    """
    plain = text.replace(b"\t", b" ").replace(b"\r\n", b"\n").strip(b" \n") + b"\n"
    while b" \n" in plain:
        plain = plain.replace(b" \n", b"\n")
    letters = np.frombuffer(plain, dtype=np.uint8)
    colons = letters == ord(":")
    between = (letters <= ord(" ")) | colons
    if (colons[1:] & between[:-1]).any() or (colons[:-1] & between[1:]).any():
        return None
    ends_number = np.flatnonzero(between[1:] & ~between[:-1]) + 1
    marks = letters[ends_number]
    line_ends = np.flatnonzero(marks == ord("\n"))
    inside = marks[marks != ord("\n")]
    counts, odd = np.divmod(np.diff(line_ends, prepend=-1) - 1, 2)
    alternate = not odd.any() and (inside[0::2] == ord(" ")).all() and (inside[1::2] == ord(":")).all()
    if between[0] or not alternate or len(line_ends) != plain.count(b"\n"):
        return None
    not_digits = np.flatnonzero(~between & ((letters < ord("0")) | (letters > ord("9"))))
    if (marks[np.searchsorted(ends_number, not_digits)] == ord(":")).any():  # an index has digits only
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # how numpy reports text that is not a number
        try:
            numbers = np.fromstring(plain.replace(b":", b" "), dtype=np.float64, sep=" ")
        except (DeprecationWarning, ValueError):
            return None
    if len(numbers) != len(marks):
        return None
    is_label = np.zeros(len(marks), dtype=bool)
    is_label[np.concatenate([[0], line_ends[:-1] + 1])] = True
    indices, values = numbers[~is_label].reshape(-1, 2).T
    if (indices > LARGEST_INDEX + 1).any():
        return None
    return Swept(numbers[is_label], counts, indices.astype(np.int64), np.ascontiguousarray(values))


def _table(labels: FloatArray, features: CSR, wanted: Shape) -> Table:
    return Table({LABEL: Column("number", labels)} if LABEL in wanted.kinds else {}, features)


def _number(text: bytes) -> float:
    if b"_" in text:
        raise ValueError(f"{text[:100]!r} is not a number")
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text[:100]!r} is not a number") from None
    if value - value != 0.0:
        raise ValueError(f"{text[:100]!r} is not finite")
    return value
