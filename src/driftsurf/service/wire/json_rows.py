"""Rows as JSON and as lines of JSON, decoded with a type that is made from the columns of the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec
import numpy as np

from driftsurf.core.files import repeated_keys
from driftsurf.core.options import shown
from driftsurf.data.formats._cells import date_reader, make_column
from driftsurf.data.reading_options import Kind
from driftsurf.data.tables import Column, Table
from driftsurf.errors import InputError
from driftsurf.service.wire.rows import (
    MOST_FAULTS,
    NumberRows,
    OnBadRow,
    RowFault,
    RowsRead,
    WireColumn,
    WireFormat,
    check_count,
    check_value,
    column_of,
    id_fault,
    label_fault,
    loosely,
    odd_number,
    refuse_first,
    word_of,
)

ID = "i"
"""Attribute of the id of a decoded row; those of its columns are c0, c1 and so on."""
LABEL = "y"
SPARE = 4
"""Braces or line breaks per row from which on a body is refused unread; text may have some of them, too."""
_KEY_END = re.compile(rb'"[ \t\r\n]*:')
Scalar: TypeAlias = str | bool | int | float | None
_Check: TypeAlias = Callable[[int, str, Any], RowFault | None]
_TYPES: dict[Kind, Any] = {
    "number": bool | float | None,
    "boolean": bool | float | None,
    "date": str | None,
    "text": str | bool | int | float | None,
}
"""What a decoder accepts in a column of each kind; a number in a column of text is a word, such as a postal code."""


class _AnyRows(msgspec.Struct, forbid_unknown_fields=True):
    rows: list[msgspec.Raw]


class _FreeRows(msgspec.Struct, forbid_unknown_fields=True):
    rows: list[dict[str, Scalar]]


class JsonRows:
    """Reads rows from JSON: ``{"rows": [{"price": 99, "city": "Rome"}]}``, or one object on each line.

    A type with one attribute per column decodes good rows at once. If it refuses them, every row is decoded and checked
    by itself, which finds the first bad row, or all of them.

    Examples
    --------
    >>> rows = JsonRows(WireFormat((WireColumn("price", "number"), WireColumn("city", "text")), id="id"))
    >>> read = rows.read(b'{"rows": [{"id": "o-17", "price": 99, "city": "Rome"}]}')
    >>> read.ids, read.table["price"].values, read.table["city"].words
    (['o-17'], array([99.]), ('Rome',))
    >>> rows.read(b'{"rows": [{"price": "dear", "city": "Rome"}]}')
    Traceback (most recent call last):
    driftsurf.errors.BadRowError: row 0, column 'price': 'dear' is not a number; pass a number, ...
    """

    def __init__(self, format: WireFormat) -> None:
        self.format = format
        self._columns = format.columns or ()
        self._read_date = date_reader(format.reading)
        others = {name: f"\x7f{place}" for place, name in enumerate(_names(format)) if not _can_be_attribute(name)}
        row: Any = _row_type(format, others)
        self._rows: Any = msgspec.json.Decoder(_rows_type(row))
        self._row: Any = msgspec.json.Decoder(row)
        if others:
            self._rows = _RenamingDecoder(_rows_type(row), others, takes_others=format.takes_others)
            self._row = _RenamingDecoder(row, others, takes_others=format.takes_others)
        numbers = [place for place, one in enumerate(self._columns) if one.kind in ("number", "boolean")]
        self._numbers = numbers
        self._numbers_of = _getter(numbers)
        self._others = [(place, attrgetter(f"c{place}")) for place in range(len(self._columns)) if place not in numbers]

    def read(self, body: bytes, on_bad_row: OnBadRow = "fail", most: int = 100_000) -> RowsRead:
        """Return the rows of a JSON body; BadRowError for a bad row unless bad rows are skipped."""
        check_count(body.count(b"{") // SPARE, most)
        if self.format.columns is None:
            rows = _decoded(msgspec.json.Decoder(_FreeRows).decode, body).rows
            _refuse_repeated(repeated_keys(body).anywhere)
            return self._free(rows, most)
        try:
            rows = self._rows.decode(body).rows
            built = self._built(rows, most)
            if self._may_repeat(body, rows, built, 1) and repeated_keys(body).anywhere is not None:
                raise _Misfit
            return built
        except (msgspec.ValidationError, RecursionError, UnicodeDecodeError, _Misfit):
            rows = _decoded(msgspec.json.Decoder(_AnyRows).decode, body).rows
            _refuse_repeated(repeated_keys(body).outermost)
            return self._checked(rows, on_bad_row, most)
        except msgspec.DecodeError as error:
            found = loosely(body)
            rows = found.get("rows") if isinstance(found, dict) else None
            for number, row in enumerate(rows if isinstance(rows, list) else ()):
                if odd := odd_number(row):
                    refuse_first([RowFault(number, *odd)], "fail")
            raise _not_json(error) from None

    def read_lines(self, body: bytes, on_bad_row: OnBadRow = "fail", most: int = 100_000) -> RowsRead:
        """Return the rows of a body that has one JSON object on each line; blank lines are left out."""
        check_count(body.count(b"\n") // SPARE, most)
        if self.format.columns is None:
            rows = _decoded(msgspec.json.Decoder(dict[str, Scalar]).decode_lines, body)
            for line in body.split(b"\n"):
                _refuse_repeated(repeated_keys(line).anywhere)
            return self._free(rows, most)
        try:
            rows = self._row.decode_lines(body)
            built = self._built(rows, most)
            if self._may_repeat(body, rows, built, 0) and any(
                repeated_keys(line).anywhere is not None for line in body.split(b"\n")
            ):
                raise _Misfit
            return built
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, _Misfit):
            return self._checked([line for line in body.split(b"\n") if line.strip()], on_bad_row, most)

    # -------------------------------------------------------------------- good rows

    def _may_repeat(self, body: bytes, rows: Sequence[Any], built: RowsRead, others: int) -> bool:
        """Return whether a row may have a column twice: whether there are more colons than columns that rows have.

        A decoder keeps the last of two values and tells nothing; to look at every key takes longer than decoding them.
        """
        always = sum(map(self.format.is_required, self._columns)) + (built.labels is not None) + (built.ids is not None)
        found = len(rows) * always + others
        for place, one in enumerate(self._columns):
            if not self.format.is_required(one):
                found += sum(value is not None for value in map(attrgetter(f"c{place}"), rows))
        # Text may have colons; only a text that begins with one, or a key, has one after quotation marks.
        return body.count(b":") != found and len(_KEY_END.findall(body)) != found

    def _built(self, rows: Sequence[Any], most: int) -> RowsRead:
        """Return decoded rows as a table; _Misfit if a date, a word or an id cannot be used."""
        check_count(len(rows), most)
        numbers = np.array(list(map(self._numbers_of, rows)), np.float64).reshape(len(rows), len(self._numbers))
        if self._columns and not self._others:
            return RowsRead(NumberRows(self._columns, numbers), self._ids(rows), self._labels(rows))
        columns: dict[str, Column] = {}
        places = iter(numbers.T)
        others = dict(self._others)
        for place, one in enumerate(self._columns):
            if place in others:
                columns[one.name] = self._other(one, list(map(others[place], rows)))
            else:
                columns[one.name] = Column(one.kind, next(places))
        return RowsRead(Table(columns), self._ids(rows), self._labels(rows))

    def _other(self, column: WireColumn, values: list[Any]) -> Column:
        if column.kind == "date":
            try:
                return make_column("date", [None if value is None else self._read_date(value) for value in values])
            except ValueError:
                raise _Misfit from None
        try:
            words = [None if value is None else word_of(value) for value in values]
        except OverflowError:  # a whole number beyond 1.8e308
            raise _Misfit from None
        if any(word is not None and "\0" in word for word in words):
            raise _Misfit
        return make_column("text", words)

    def _ids(self, rows: Sequence[Any]) -> list[str] | None:
        if self.format.id is None:
            return None
        ids = [row.i for row in rows]
        if ids.count(None) == len(ids):
            return None
        if any(one is None or id_fault(0, "", one) for one in ids):
            raise _Misfit
        return [one if isinstance(one, str) else str(one) for one in ids]

    def _labels(self, rows: Sequence[Any]) -> list[Any] | None:
        if self.format.label is None:
            return None
        labels = [row.y for row in rows]
        if any(label_fault(0, "", one) for one in labels):
            raise _Misfit
        return labels

    # -------------------------------------------------------------------- bad rows

    def _checked(self, rows: Sequence[bytes | msgspec.Raw], on_bad_row: OnBadRow, most: int) -> RowsRead:
        """Return the good rows, each of which is decoded by itself; BadRowError for the first bad one."""
        check_count(len(rows), most)
        faults, good, with_id = list[RowFault](), list[Any](), list[bool]()
        skipped = 0
        for number, raw in enumerate(rows):
            fault, has_id = self._fault(number, bytes(raw))
            if fault is None and with_id and has_id != with_id[0]:
                remedy = "pass an id for all rows of a request, or for none"
                fault = RowFault(number, self.format.id, "", "some rows have an id and others have none", remedy)
            if fault is None:
                good.append(self._row.decode(bytes(raw)))
                with_id.append(has_id)
                continue
            refuse_first([fault], on_bad_row)
            skipped += 1
            if len(faults) < MOST_FAULTS:
                faults.append(fault)
        built = self._built(good, most)
        return RowsRead(built.rows, built.ids, built.labels, tuple(faults), skipped)

    def _fault(self, number: int, raw: bytes) -> tuple[RowFault | None, bool]:
        """Return what is wrong with a row, None if it is good, and whether it has an id."""
        try:
            row = msgspec.json.decode(raw)
        except (ValueError, RecursionError) as error:
            if odd := odd_number(loosely(raw)):
                return RowFault(number, *odd), False
            return RowFault(
                number, None, "", f"this is not a JSON object ({_shortly(error)})", "correct the row"
            ), False
        if not isinstance(row, dict):
            return RowFault(number, None, shown(row), "is not a JSON object", 'pass rows such as {"price": 99}'), False
        twice = repeated_keys(raw).outermost
        if twice is not None:
            return RowFault(number, twice, "", "the column occurs twice", "pass each column once"), False
        fault = self.format.unknown(number, list(row)) or self.format.absent(number, row)
        if fault:
            return fault, False
        for one in self._columns:
            value = row.get(one.name)
            problem = None if value is None else check_value(one.kind, value, self._read_date)
            if problem is not None:
                return RowFault(number, one.name, shown(value), *problem), False
        if self.format.label is not None:
            fault = label_fault(number, self.format.label, row.get(self.format.label))
            if fault:
                return fault, False
        id = None if self.format.id is None else row.get(self.format.id)
        fault = None if id is None and not self.format.id_required else id_fault(number, str(self.format.id), id)
        return fault, id is not None

    # -------------------------------------------------------------------- first rows

    def _free(self, rows: Sequence[Mapping[str, Scalar]], most: int) -> RowsRead:
        """Return rows whose columns are not known yet; their values decide the kinds."""
        check_count(len(rows), most)
        names = [
            name for name in dict.fromkeys(name for row in rows for name in row) if name not in self.format.ignored
        ]
        ids = self._special(rows, names, self.format.id, id_fault)
        labels = self._special(rows, names, self.format.label, label_fault)
        columns = {name: column_of(name, [row.get(name) for row in rows], self.format.reading) for name in names}
        return RowsRead(Table(columns), None if ids is None else list(map(str, ids)), labels)

    def _special(
        self, rows: Sequence[Mapping[str, Scalar]], names: list[str], name: str | None, check: _Check
    ) -> list[Any] | None:
        """Return the ids or the labels of rows, and take their column from the names; None if no row has any."""
        if name is None or (name not in names and name != self.format.label):
            return None
        if name in names:
            names.remove(name)
        values = [row.get(name) for row in rows]
        faults = (check(number, name, one) for number, one in enumerate(values))
        refuse_first([fault for fault in faults if fault is not None][:1], "fail")
        return values


class _Misfit(Exception):
    """A value has the type of its column and cannot be used all the same."""


class _RenamingDecoder:
    """Decodes rows with names that no attribute of a type can have in JSON; slower than a decoder of msgspec."""

    def __init__(self, kind: Any, names: Mapping[str, str], *, takes_others: bool) -> None:
        self.kind = kind
        self.names = names
        self.takes_others = takes_others
        self._taken = frozenset(names.values())

    def decode(self, body: bytes) -> Any:
        """Return a row, or an object with rows; msgspec.ValidationError if it is something else."""
        found = msgspec.json.decode(body)
        if isinstance(found, dict) and "rows" in self.kind.__struct_fields__ and isinstance(found.get("rows"), list):
            found["rows"] = [self._renamed(row) for row in found["rows"]]
            return msgspec.convert(found, self.kind)
        return msgspec.convert(self._renamed(found), self.kind)

    def decode_lines(self, body: bytes) -> list[Any]:
        """Return the rows of lines of JSON."""
        return [msgspec.convert(self._renamed(row), self.kind) for row in msgspec.json.Decoder().decode_lines(body)]

    def _renamed(self, row: Any) -> Any:
        if not isinstance(row, dict):
            return row
        if not self.takes_others and not self._taken.isdisjoint(row):
            raise msgspec.ValidationError("the model has no such column")
        return {self.names.get(name, name): value for name, value in row.items() if name not in self._taken}


def _can_be_attribute(name: str) -> bool:
    """Return whether msgspec takes a name for an attribute: it writes it into JSON without escaping anything."""
    return not any(one in '"\\' or one < " " for one in name)


def _names(format: WireFormat) -> list[str]:
    """Return all names that a row may have."""
    found = [*(one.name for one in format.columns or ()), format.id, format.label, *format.ignored]
    return [name for name in found if name is not None]


def _row_type(format: WireFormat, others: Mapping[str, str]) -> type:
    """Return the type of a row, with one attribute per column, named by its place: a column may have any name.

    ``others`` has the names that stand for those which a type cannot have.
    """
    fields: list[Any] = []
    names: dict[str, str] = {}
    for place, one in enumerate(format.columns or ()):
        kind = _TYPES[one.kind]
        fields.append((f"c{place}", kind) if format.is_required(one) else (f"c{place}", kind, None))
        names[f"c{place}"] = one.name
    if format.id is not None:
        kind = str | int
        fields.append((ID, kind) if format.id_required else (ID, kind | None, None))
        names[ID] = format.id
    if format.label is not None:
        fields.append((LABEL, str | bool | int | float))
        names[LABEL] = format.label
    taken = set(names.values())
    for place, name in enumerate(one for one in format.ignored if one not in taken):
        fields.append((f"x{place}", Any, None))
        names[f"x{place}"] = name
    names = {attribute: others.get(name, name) for attribute, name in names.items()}
    return msgspec.defstruct(
        "Row", fields, rename=names, kw_only=True, gc=False, forbid_unknown_fields=not format.takes_others
    )


def _rows_type(row: Any) -> type:
    return msgspec.defstruct("Rows", [("rows", list[row])], forbid_unknown_fields=True)


def _getter(places: Sequence[int]) -> Callable[[Any], Any]:
    if not places:
        return lambda row: ()
    return attrgetter(*(f"c{place}" for place in places))


def _decoded(decode: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        return decode(body)
    except RecursionError:
        raise InputError("the body is nested too deeply; pass rows of plain values") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_json(error) from None


def _refuse_repeated(name: str | None) -> None:
    """Raise InputError if a name occurs more than once in an object."""
    if name is not None:
        raise InputError(f"{name!r} occurs more than once in a JSON object; pass each name once")


def _not_json(error: Exception) -> InputError:
    return InputError(f'the body is not as expected: {error}; pass {{"rows": [{{"column": value}}]}}')


def _shortly(error: BaseException) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:100]
