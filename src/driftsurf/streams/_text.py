"""The two text formats that data come in: comma-separated tables and LIBSVM's sparse rows."""

from __future__ import annotations

import io
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from driftsurf.base import FloatArray, IntArray
from driftsurf.streams.files import open_bytes

CHUNK_ROWS = 65_536
CHUNK_BYTES = 2**23
UNREADABLE = (OSError, EOFError, zlib.error, zipfile.BadZipFile, UnicodeDecodeError)
"""What a damaged or truncated file raises while it is unpacked."""


class LineError(Exception):
    """A file is not as it should be from a line on."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


# ---------------------------------------------------------------------------- tables


class Chunk(NamedTuple):
    """Some lines of a table, each split into its fields."""

    first_line: int
    rows: list[list[str]]

    def numbers(self, columns: Sequence[int]) -> FloatArray:
        """These columns as finite numbers."""
        try:
            flat = [float(row[column]) for row in self.rows for column in columns]
        except ValueError:
            flat = [_number(row[column]) for row in self.rows for column in columns]
        values = np.array(flat).reshape(len(self.rows), len(columns))
        if not np.isfinite(values).all():
            at, column = (int(place) for place in np.argwhere(~np.isfinite(values))[0])
            self.refuse(at, f"{self.rows[at][columns[column]]!r} is not a finite number")
        return values

    def whole(self, column: int, choices: range) -> IntArray:
        """A column of whole numbers out of a range."""
        values = self.numbers([column])[:, 0]
        known = np.isin(values, np.array(choices))
        if not known.all():
            at = int(known.argmin())
            self.refuse(at, f"{self.rows[at][column]!r} is not a whole number from {choices[0]} to {choices[-1]}")
        return values.astype(np.int64)

    def coded(self, column: int, codes: Mapping[str, int]) -> IntArray:
        """A column of words, each as its code."""
        words = [row[column].strip("'\"") for row in self.rows]
        for at, word in enumerate(words):
            if word not in codes:
                self.refuse(at, f"{word!r}; choices: {', '.join(codes)}")
        return np.array([codes[word] for word in words], dtype=np.int64)

    def refuse(self, at: int, what: str) -> NoReturn:
        """Raise LineError for the row ``at`` of this chunk."""
        raise LineError(self.first_line + at, what)


def read_table(path: Path, width: int) -> Iterator[Chunk]:
    """The rows of a table of ``width`` columns, without a header or the preamble of an ARFF file."""
    rows: list[list[str]] = []
    line = first = blank = header = 0
    try:
        with io.TextIOWrapper(open_bytes(path), encoding="utf-8") as file:
            for line, text in enumerate(file, 1):
                if not text.strip() or (not first and text[0] in "@%"):
                    blank = blank or line
                    continue
                row = text.rstrip("\n").split(",")
                if not (first or header) and all(np.isnan(_number(field)) for field in row):
                    header = line
                    continue
                if first and blank:
                    raise LineError(blank, "an empty line between rows")
                if len(row) != width:
                    raise LineError(line, f"{len(row)} columns instead of {width}")
                if not rows:
                    first, blank = line, 0
                rows.append(row)
                if len(rows) == CHUNK_ROWS:
                    yield Chunk(first, rows)
                    rows = []
    except UNREADABLE as error:
        raise LineError(line + 1, str(error)) from error
    if not first:
        raise LineError(line + 1, "no rows")
    if rows:
        yield Chunk(first, rows)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


# ---------------------------------------------------------------------------- LIBSVM


def read_libsvm(path: Path, n_features: int) -> tuple[Any, FloatArray]:
    """Rows ``label index:value index:value ...``, indices from 1 and rising, as a CSR matrix and its labels."""
    from scipy.sparse import csr_array

    parts, lines = [], 0
    try:
        with open_bytes(path) as file:
            for text in _whole_lines(file):
                part = _parse(text, lines, n_features)
                parts.append(part)
                lines += len(part.labels)
    except UNREADABLE as error:
        raise LineError(lines + 1, str(error)) from error
    if not lines:
        raise LineError(1, "no rows")
    labels, counts, indices, data = (np.concatenate(column) for column in zip(*parts, strict=True))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    rows = csr_array((data, indices.astype(np.int32), indptr.astype(np.int32)), shape=(lines, n_features))
    return rows, labels


class _Part(NamedTuple):
    labels: FloatArray
    counts: IntArray
    indices: IntArray
    data: FloatArray


def _whole_lines(file: IO[bytes]) -> Iterator[bytes]:
    while text := file.read(CHUNK_BYTES) + file.readline():
        yield text


def _parse(text: bytes, lines_before: int, n_features: int) -> _Part:
    """All numbers of the text in one sweep; line by line only to say where it is wrong."""
    part = _sweep(text)
    if part is not None:
        begins_row = np.zeros(len(part.indices) + 1, dtype=bool)
        begins_row[np.cumsum(part.counts) - part.counts] = True
        rising = begins_row[:-1] | (np.diff(part.indices, prepend=0) > 0)
        if np.all(rising & (part.indices >= 0) & (part.indices < n_features) & np.isfinite(part.data)):
            return part
    for number, line in enumerate(text.splitlines(), lines_before + 1):
        fault = _fault(line.decode("ascii", "replace"), n_features)
        if fault:
            raise LineError(number, fault)
    raise LineError(lines_before + 1, "the lines from here on are not all 'label index:value index:value ...'")


def _sweep(text: bytes) -> _Part | None:
    """The rows of the text, or None if it is not made of ``label index:value index:value ...``.

    Between two numbers stands white space, a colon or the end of the line. The sequence of these, a space and
    a colon for each pair, is what is lost when the numbers are read as if white space alone divided them.
    """
    plain = text.replace(b"\t", b" ").replace(b"\r\n", b"\n").strip(b" \n") + b"\n"
    while b" \n" in plain:
        plain = plain.replace(b" \n", b"\n")
    letters = np.frombuffer(plain, dtype=np.uint8)
    between = (letters <= ord(" ")) | (letters == ord(":"))
    marks = letters[1:][between[1:] & ~between[:-1]]
    ends = np.flatnonzero(marks == ord("\n"))
    inside = marks[marks != ord("\n")]
    counts, odd = np.divmod(np.diff(ends, prepend=-1) - 1, 2)
    alternate = not odd.any() and (inside[0::2] == ord(" ")).all() and (inside[1::2] == ord(":")).all()
    if between[0] or not alternate or len(ends) != plain.count(b"\n"):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # how numpy says that a number cannot be read
        try:
            numbers = np.fromstring(plain.replace(b":", b" "), dtype=np.float64, sep=" ")
        except (DeprecationWarning, ValueError):
            return None
    if len(numbers) != len(marks):
        return None
    is_label = np.zeros(len(marks), dtype=bool)
    is_label[np.concatenate([[0], ends[:-1] + 1])] = True
    places, data = numbers[~is_label].reshape(-1, 2).T
    if (places != np.floor(places)).any():
        return None
    return _Part(numbers[is_label], counts, places.astype(np.int64) - 1, data)


def _fault(line: str, n_features: int) -> str:
    """What is wrong with one line, if anything."""
    label, *pairs = line.split() or [""]
    if not np.isfinite(_number(label)):
        return f"the label {label!r} is not a number"
    before = 0.0
    for pair in pairs:
        index, _, value = pair.partition(":")
        if not before < _number(index) <= n_features or _number(index) % 1:
            return f"{pair!r}: indices are whole numbers from 1 to {n_features}, and rise within a row"
        if not np.isfinite(_number(value)):
            return f"{pair!r} is not index:value with a finite value"
        before = _number(index)
    return ""
