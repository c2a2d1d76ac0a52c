"""Records of a served model as bytes: columns, rows with ids and answers, labelled rows, labels, orders,
ticks, states.

A record is a head (kind, format, length of the idempotency key, count, time), the key with the digest of its request,
and a body. Cells of numbers, booleans and dates are words of eight bytes, row after row, so that the rows of many
records are read at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.files import parse_json
from driftsurf.data.reading_options import KINDS, Kind
from driftsurf.data.tables import Column, Table
from driftsurf.errors import LogError

FORMAT = 1
HEAD = Struct("<BBHId")
"""Kind, format, bytes of the key, count of rows or labels, time."""
VERSION = Struct("<q")
COUNT = Struct("<I")
DIGEST = 32
UNREADABLE = ValueError, TypeError, KeyError, IndexError, StructError, OverflowError


class Kinds(IntEnum):
    """Kinds of records in the log of a served model."""

    COLUMNS = 1
    """Names and kinds of the columns of all rows that follow."""
    ROWS = 2
    """Rows with ids, and the answer that was given."""
    LEARN = 3
    """Rows with their labels."""
    LABELS = 4
    """Labels by id."""
    ORDER = 5
    """An order of an operator."""
    TICK = 6
    """Nothing but the time, which makes rows expire where nothing else is logged."""
    STATE = 7
    """A part of the saved state to which the next rollback returns."""
    DIGEST = 8
    """Digest of the state below a number of records, with which replicas compare theirs."""


UNJOINED = frozenset((Kinds.COLUMNS, Kinds.ORDER, Kinds.STATE, Kinds.DIGEST))
"""Kinds of records without rows, labels or time."""


class ColumnKind(NamedTuple):
    """Name of a column and the kind of its values."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True, eq=False)
class RowBlock:
    """The rows of a record, still as bytes: they are read together with those of other records."""

    count: int
    words: bytes
    """Cells of all columns but those of text: eight bytes each, row after row."""
    texts: tuple[tuple[bytes, tuple[str, ...]], ...] = ()
    """For each column of text: the codes, four bytes each, and the words."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """A record of the log; which fields are used depends on its kind."""

    kind: Kinds
    time: float
    """Seconds since 1970, never before that of an earlier record."""
    count: int = 0
    """Number of rows, or of labels."""
    key: str = ""
    digest: bytes = b""
    columns: tuple[ColumnKind, ...] = ()
    rows: RowBlock | None = None
    ids: tuple[str, ...] = ()
    version: int = 0
    """For ROWS: the version of the model that answered."""
    labels: npt.NDArray[Any] | None = None
    """Labels of LEARN and LABELS; for ROWS the labels of the answer, None for version 0."""
    content: dict[str, Any] = field(default_factory=dict)
    """For ORDER: the order; for DIGEST: ``at``, the version of this package, and ``sha256``."""
    state: bytes = b""
    """For STATE: the part."""


# ---------------------------------------------------------------------------- writing


def encode(record: Record) -> bytes:
    """Return the bytes of a record.

    >>> record = Record(kind=Kinds.LABELS, time=5.0, count=2, ids=("a", "b"), labels=np.array(["yes", "no"]))
    >>> decode(encode(record), ()).labels.tolist()
    ['yes', 'no']
    """
    key = record.key.encode()
    parts = [HEAD.pack(record.kind, FORMAT, len(key), record.count, record.time), key, record.digest if key else b""]
    match record.kind:
        case Kinds.COLUMNS:
            parts.append(json.dumps(record.columns).encode())
        case Kinds.ORDER | Kinds.DIGEST:
            parts.append(json.dumps(record.content).encode())
        case Kinds.ROWS:
            assert record.rows is not None
            parts += [VERSION.pack(record.version), *_rows(record.rows), *_texts(record.ids), *_labels(record.labels)]
        case Kinds.LEARN:
            assert record.rows is not None
            parts += [*_rows(record.rows), *_labels(record.labels)]
        case Kinds.LABELS:
            parts += [*_texts(record.ids), *_labels(record.labels)]
        case Kinds.STATE:
            parts.append(record.state)
        case Kinds.TICK:
            pass
    return b"".join(parts)


def _rows(block: RowBlock) -> list[bytes]:
    parts = [block.words]
    for codes, words in block.texts:
        parts += [codes, COUNT.pack(len(words)), *_texts(words)]
    return parts


def _texts(texts: Sequence[str]) -> list[bytes]:
    """Return texts as their lengths and their bytes; how many there are is known otherwise."""
    encoded = [one.encode("utf-8", "surrogatepass") for one in texts]
    return [np.fromiter(map(len, encoded), np.uint32, len(encoded)).tobytes(), *encoded]


def _labels(labels: npt.NDArray[Any] | None) -> list[bytes]:
    if labels is None:
        return [b"n"]
    match labels.dtype.kind:
        case "U" if len(labels) == 1:  # the usual case of a single row, without a sort
            return [b"t", COUNT.pack(0), COUNT.pack(1), *_texts(labels.tolist())]
        case "U":
            words, codes = np.unique(labels, return_inverse=True)
            return [b"t", codes.astype(np.uint32).tobytes(), COUNT.pack(len(words)), *_texts(words.tolist())]
        case "b":
            return [b"b", labels.astype(np.uint8).tobytes()]
        case "i" | "u":
            return [b"i", labels.astype(np.int64).tobytes()]
    return [b"f", labels.astype(np.float64).tobytes()]


def block_of(table: Table, columns: Sequence[ColumnKind]) -> RowBlock:
    """Return the rows of a table that has exactly these columns, in any order, of these kinds."""
    plain = [table.columns[one.name] for one in columns if one.kind != "text"]
    words = np.empty((len(table), len(plain)))
    for place, column in enumerate(plain):
        words[:, place] = column.values.view(np.float64) if column.kind == "date" else column.values
    texts = []
    for one in columns:
        if one.kind == "text":
            column = table.columns[one.name]
            column = column.compact() if len(column.words) > 1 else column
            texts.append((column.values.astype(np.int32, copy=False).tobytes(), column.words))
    return RowBlock(len(table), words.tobytes(), tuple(texts))


# ---------------------------------------------------------------------------- reading


def decode(payload: bytes, columns: Sequence[ColumnKind]) -> Record:
    """Return a record from its bytes; LogError if they are not one. ``columns`` are those of earlier records."""
    try:
        return _decoded(payload, columns)
    except (*UNREADABLE, UnicodeDecodeError) as error:
        raise LogError(f"a record of the log has bytes that this version does not read ({error})") from error


def _decoded(payload: bytes, columns: Sequence[ColumnKind]) -> Record:
    kind, version, key_bytes, count, time = HEAD.unpack_from(payload)
    if version != FORMAT:
        raise ValueError(f"its format is {version}")
    reader, key, digest = _Reader(payload, HEAD.size), "", b""
    if key_bytes:
        key, digest = reader.take(key_bytes).decode(), reader.take(DIGEST)
    match Kinds(kind):
        case Kinds.ROWS:
            (answered,) = VERSION.unpack(reader.take(VERSION.size))
            rows, ids = reader.rows(count, columns), reader.texts(count)
            found = Record(
                kind=Kinds.ROWS, time=time, count=count, key=key, digest=digest,
                rows=rows, ids=ids, version=answered, labels=reader.labels(count),
            )  # fmt: skip
        case Kinds.LEARN:
            rows = reader.rows(count, columns)
            labels = reader.labels(count)
            found = Record(kind=Kinds.LEARN, time=time, count=count, key=key, digest=digest, rows=rows, labels=labels)
        case Kinds.LABELS:
            ids = reader.texts(count)
            labels = reader.labels(count)
            found = Record(kind=Kinds.LABELS, time=time, count=count, key=key, digest=digest, ids=ids, labels=labels)
        case Kinds.COLUMNS:
            named = tuple(ColumnKind(name, _kind(what)) for name, what in parse_json(reader.rest()))
            found = Record(kind=Kinds.COLUMNS, time=time, columns=named)
        case Kinds.ORDER:
            content = parse_json(reader.rest())
            found = Record(kind=Kinds.ORDER, time=time, key=key, digest=digest, content=content)
        case Kinds.DIGEST:
            found = Record(kind=Kinds.DIGEST, time=time, content=parse_json(reader.rest()))
        case Kinds.STATE:
            found = Record(kind=Kinds.STATE, time=time, state=reader.rest())
        case Kinds.TICK:
            found = Record(kind=Kinds.TICK, time=time)
    if reader.place != len(payload):
        raise ValueError(f"it has {len(payload) - reader.place} bytes too many")
    return found


def _kind(name: Any) -> Kind:
    if name not in KINDS:
        raise ValueError(f"{name!r} is not a kind of column")
    kind: Kind = name
    return kind


class _Reader:
    """Takes the parts of a record, one after the other."""

    __slots__ = ("payload", "place")

    def __init__(self, payload: bytes, place: int) -> None:
        self.payload = payload
        self.place = place

    def take(self, size: int) -> bytes:
        end = self.place + size
        found = self.payload[self.place : end]
        if len(found) != size:
            raise ValueError("it is too short")
        self.place = end
        return found

    def rest(self) -> bytes:
        return self.take(len(self.payload) - self.place)

    def rows(self, count: int, columns: Sequence[ColumnKind]) -> RowBlock:
        texts = sum(one.kind == "text" for one in columns)
        words = self.take(8 * count * (len(columns) - texts))
        return RowBlock(count, words, tuple(self._column(count) for _ in range(texts)))

    def _column(self, count: int) -> tuple[bytes, tuple[str, ...]]:
        codes = self.take(4 * count)
        (known,) = COUNT.unpack(self.take(COUNT.size))
        return codes, self.texts(known)

    def texts(self, count: int) -> tuple[str, ...]:
        if count == 1:  # the usual case of a single row
            (length,) = COUNT.unpack(self.take(4))
            return (self.take(length).decode("utf-8", "surrogatepass"),)
        lengths = np.frombuffer(self.take(4 * count), np.uint32).tolist()
        return tuple([self.take(length).decode("utf-8", "surrogatepass") for length in lengths])

    def labels(self, count: int) -> npt.NDArray[Any] | None:
        match self.take(1):
            case b"n":
                return None
            case b"t":
                codes = np.frombuffer(self.take(4 * count), np.uint32)
                (known,) = COUNT.unpack(self.take(COUNT.size))
                words = np.array(self.texts(known) or [""])
                return np.asarray(words[codes])
            case b"b":
                return np.frombuffer(self.take(count), np.uint8).astype(bool)
            case b"i":
                return np.frombuffer(self.take(8 * count), np.int64)
            case b"f":
                return np.frombuffer(self.take(8 * count), np.float64)
        raise ValueError("its labels have an unknown type")


def read_rows(blocks: Iterable[RowBlock], columns: Sequence[ColumnKind]) -> Table:
    """Return the rows of many records as one table."""
    parts = list(blocks)
    count = sum(part.count for part in parts)
    plain = [one for one in columns if one.kind != "text"]
    words = np.frombuffer(b"".join([part.words for part in parts])).reshape(count, len(plain))
    found: dict[str, Column] = {}
    for place, one in enumerate(plain):
        values = np.ascontiguousarray(words[:, place])
        found[one.name] = Column(one.kind, values.view("datetime64[us]") if one.kind == "date" else values)
    for place, one in enumerate([one for one in columns if one.kind == "text"]):
        found[one.name] = _text_column([part.texts[place] for part in parts], [part.count for part in parts])
    return Table({one.name: found[one.name] for one in columns})


def _text_column(parts: Sequence[tuple[bytes, tuple[str, ...]]], counts: Sequence[int]) -> Column:
    """Return a column of text from the codes and words of many records; words are joined to one vocabulary."""
    codes = np.frombuffer(b"".join([part[0] for part in parts]), np.int32)
    known: dict[str, int] = {}
    places = [known.setdefault(word, len(known)) for _, words in parts for word in words]
    sizes = np.array([len(words) for _, words in parts], np.int64)
    shifts = np.repeat(np.cumsum(sizes) - sizes, counts)
    there = codes >= 0
    if there.any() and (codes >= np.repeat(sizes, counts)).any():
        raise LogError("a record of the log has a code of text without its word")
    final = np.full(len(codes), -1, np.int32)
    final[there] = np.array(places, np.int32)[(codes + shifts)[there]]
    return Column("text", final, tuple(known))
