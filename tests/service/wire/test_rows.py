"""Rows in all formats: the same table, the same errors, and hostile bodies."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftsurf.data.arrow import messages
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.data.tables import Table
from driftsurf.errors import BadRowError, DriftsurfError, InputError
from driftsurf.service.wire.arrow_rows import ArrowRows
from driftsurf.service.wire.csv_rows import CsvRows
from driftsurf.service.wire.json_rows import JsonRows
from driftsurf.service.wire.rows import NumberRows, RowsRead, TooManyRowsError, WireColumn, WireFormat, read_labels

pa = pytest.importorskip("pyarrow")

COLUMNS = (
    WireColumn("price", "number"),
    WireColumn("city", "text"),
    WireColumn("new", "boolean"),
    WireColumn("day", "date"),
)
FORMAT = WireFormat(COLUMNS, id="id", ignored=("sold",))
LEARN = WireFormat(COLUMNS, id="id", label="sold", classes=("no", "yes"))
ROWS: list[dict[str, Any]] = [
    {"id": "a", "price": 1.5, "city": "Rome", "new": True, "day": "2026-05-01T10:00:00Z"},
    {"id": "b", "price": None, "city": None, "new": None, "day": None},
    {"id": "c", "price": -2, "city": 'Oslo, with "quotes"\nand lines', "new": False, "day": "2026-05-02"},
]


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    for row in rows:
        writer.writerow({name: str(value).lower() if isinstance(value, bool) else value for name, value in row.items()})
    return text.getvalue().encode()


def as_arrow(rows: list[dict[str, Any]], compression: str | None = None) -> bytes:
    values = [dict(row) for row in rows]
    for row in values:
        day = row.get("day")
        row["day"] = None if day is None else np.datetime64(day.rstrip("Z"), "us").item()
        row["price"] = None if row.get("price") is None else float(row["price"])
    table = pa.Table.from_pylist(values)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def as_lines(rows: list[dict[str, Any]]) -> bytes:
    return b"\n".join(json.dumps(row).encode() for row in rows)


def as_json(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps({"rows": rows}).encode()


READERS: dict[str, tuple[Callable[[list[dict[str, Any]]], bytes], Callable[[WireFormat], Any]]] = {
    "json": (as_json, lambda format: JsonRows(format).read),
    "ndjson": (as_lines, lambda format: JsonRows(format).read_lines),
    "csv": (as_csv, lambda format: CsvRows(format).read),
    "arrow": (as_arrow, lambda format: ArrowRows(format).read),
}


@pytest.mark.parametrize("name", READERS)
def test_a_column_that_is_not_read_is_no_column_of_a_model_either(name: str) -> None:
    """The first rows decide the columns: those to be predicted may have their label, which must not become one."""
    write, make = READERS[name]
    rows = make(WireFormat(None, id="id", ignored=("sold",)))(write([row | {"sold": "yes"} for row in ROWS]))
    assert [*rows.table.columns] == ["price", "city", "new", "day"]


def test_numbers_in_a_column_of_text_are_words_with_all_their_digits() -> None:
    read = JsonRows(WireFormat((WireColumn("code", "text"),))).read
    assert read(b'{"rows": [{"code": 12345678901234567890}, {"code": 7.0}]}').table["code"].words == (
        "12345678901234567890",
        "7",
    )
    with pytest.raises(BadRowError, match="too large") as caught:
        read(b'{"rows": [{"code": "a"}, {"code": ' + b"1" * 400 + b"}]}")
    assert (caught.value.row, caught.value.column) == (1, "code")


def plain(table: Table) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, column in table.columns.items():
        if column.kind == "text":
            found[name] = [None if code < 0 else column.words[code] for code in column.values.tolist()]
        else:
            values = column.values.tolist()
            found[name] = [None if gone else one for one, gone in zip(values, column.missing().tolist(), strict=True)]
    return found


@pytest.mark.parametrize("name", READERS)
def test_all_formats_read_the_same_table(name: str) -> None:
    write, reader = READERS[name]
    read: RowsRead = reader(FORMAT)(write(ROWS), "fail", 10)
    expected = JsonRows(FORMAT).read(as_json(ROWS))
    assert read.ids == ["a", "b", "c"]
    assert plain(read.table) == plain(expected.table)
    assert plain(read.table)["price"] == [1.5, None, -2.0]
    assert plain(read.table)["new"] == [1.0, None, 0.0]
    assert str(read.table["day"].values[0]) == "2026-05-01T10:00:00.000000"
    assert [column.kind for column in read.table.columns.values()] == [one.kind for one in COLUMNS]


@pytest.mark.parametrize("name", READERS)
def test_a_bad_row_refuses_all_or_is_skipped(name: str) -> None:
    write, reader = READERS[name]
    rows = [ROWS[0], ROWS[2] | {"id": ""}, ROWS[2]]
    with pytest.raises(BadRowError) as caught:
        reader(FORMAT)(write(rows), "fail", 10)
    assert (caught.value.row, caught.value.column) == (1, "id")
    read = reader(FORMAT)(write(rows), "skip", 10)
    assert (read.ids, read.n_skipped, read.faults[0].row) == (["a", "c"], 1, 1)
    assert len(read) == 2


@pytest.mark.parametrize("name", READERS)
def test_labels_are_read_beside_the_table(name: str) -> None:
    write, reader = READERS[name]
    rows = [ROWS[0] | {"sold": "yes"}, ROWS[2] | {"sold": "no"}]
    read = reader(LEARN)(write(rows), "fail", 10)
    assert read.labels == ["yes", "no"]
    assert "sold" not in read.table.columns
    with pytest.raises(BadRowError) as caught:
        reader(LEARN)(write([rows[0], rows[1] | {"sold": None}]), "fail", 10)
    assert (caught.value.row, caught.value.column) == (1, "sold")
    with pytest.raises(BadRowError) as caught:
        reader(LEARN)(write([{key: value for key, value in rows[0].items() if key != "sold"}]), "fail", 10)
    assert caught.value.column == "sold"


@pytest.mark.parametrize("name", READERS)
def test_columns_that_are_not_known_or_missing_are_refused_by_name(name: str) -> None:
    write, reader = READERS[name]
    with pytest.raises(BadRowError, match="price") as caught:
        reader(FORMAT)(write([ROWS[0] | {"pirce": 1}]), "fail", 10)
    assert caught.value.column == "pirce"
    without = {key: value for key, value in ROWS[0].items() if key != "city"}
    with pytest.raises(BadRowError) as caught:
        reader(FORMAT)(write([without]), "fail", 10)
    assert caught.value.column == "city"


@pytest.mark.parametrize("name", READERS)
def test_too_many_rows_are_refused(name: str) -> None:
    write, reader = READERS[name]
    with pytest.raises(TooManyRowsError):
        reader(FORMAT)(write([ROWS[0]] * 5), "skip", 3)


@pytest.mark.parametrize("name", READERS)
def test_first_rows_decide_the_kinds(name: str) -> None:
    write, reader = READERS[name]
    free = WireFormat(None, id="id", label="sold")
    read = reader(free)(write([row | {"sold": "yes"} for row in ROWS]), "fail", 10)
    assert {key: column.kind for key, column in read.table.columns.items()} == {one.name: one.kind for one in COLUMNS}
    assert (read.ids, read.labels) == (["a", "b", "c"], ["yes"] * 3)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("price", "dear"),
        ("price", [1]),
        ("price", 10**400),
        ("city", {"name": "Rome"}),
        ("city", "Ro\0me"),
        ("new", "true"),
        ("day", "yesterday"),
        ("day", 5),
        ("id", 1.5),
        ("id", "x" * 300),
    ],
)
def test_json_errors_name_the_row_the_column_and_the_value(column: str, value: Any) -> None:
    body = as_json([ROWS[0], ROWS[0] | {column: value}])
    with pytest.raises(BadRowError) as caught:
        JsonRows(FORMAT).read(body)
    assert (caught.value.row, caught.value.column) == (1, column)
    assert caught.value.value
    read = JsonRows(FORMAT).read(body, "skip")
    assert (len(read), read.n_skipped, read.faults[0].column) == (1, 1, column)


@pytest.mark.parametrize("column", ["price", "new", "day"])
def test_csv_errors_name_the_row_the_column_and_the_value(column: str) -> None:
    with pytest.raises(BadRowError) as caught:
        CsvRows(FORMAT).read(as_csv([ROWS[0], ROWS[0] | {column: "perhaps"}]))
    assert (caught.value.row, caught.value.column, caught.value.value) == (1, column, "'perhaps'")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"rows": ' + b"[" * 100_000,
        b'{"rows": [{"price": ' + b"[" * 100_000,
        b'{"rows": 5}',
        b'{"rows": [{"price": 1e999}]}',
        b'{"rows": [{"city": "\\ud800"}]}',
        b'{"rows": [{"city": "\xff"}]}',
        b'{"rows": [], "more": 1}',
        b'{"rows": [null]}',
        b"NaN",
    ],
)
def test_hostile_json_is_an_input_error(body: bytes) -> None:
    for read in (JsonRows(FORMAT).read, JsonRows(WireFormat(None, id="id")).read):
        with pytest.raises(InputError):
            read(body)


@pytest.mark.parametrize("body", [b"price,price\n1,2\n", b"\0", b'a,"b\n1,2', b"\xff\xff", b"price\n1,2\n"])
def test_hostile_csv_is_an_input_error(body: bytes) -> None:
    with pytest.raises(InputError):
        CsvRows(FORMAT).read(body)


def test_ragged_lines_of_csv_are_bad_rows() -> None:
    body = b"price,city,new,day\n1,Rome,true,2026-05-01\n2,Oslo\n3,Rome,true,2026-05-01\n"
    read = CsvRows(FORMAT).read(body, "skip")
    assert (plain(read.table)["price"], [fault.row for fault in read.faults]) == ([1.0, 3.0], [1])


def test_compressed_arrow_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(InputError, match="compress"):
        ArrowRows(FORMAT).read(as_arrow(ROWS, "zstd"))


def test_a_batch_of_arrow_that_claims_many_rows_is_refused() -> None:
    table = pa.table({"price": pa.nulls(10**9)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    with pytest.raises(TooManyRowsError):
        ArrowRows(FORMAT).read(sink.getvalue().to_pybytes())


def test_arrow_of_other_types_is_refused_and_infinity_is_a_bad_row() -> None:
    def body(price: Any) -> bytes:
        table = pa.table({"price": price, "city": ["Rome"], "new": [True], "day": pa.nulls(1)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        data: bytes = sink.getvalue().to_pybytes()
        return data

    for price in (["dear"], [[1.0]], pa.array([{"a": 1}])):
        with pytest.raises(InputError) as caught:
            ArrowRows(FORMAT).read(body(price))
        assert caught.value.column == "price"
    with pytest.raises(BadRowError) as bad:
        ArrowRows(FORMAT).read(body([float("inf")]))
    assert bad.value.row == 0


def as_views(rows: list[dict[str, Any]]) -> bytes:
    """Return rows as a stream whose text is in views, as polars writes it."""
    table = pa.Table.from_pylist(rows)
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            views = [pa.array(table.column(place).to_pylist(), pa.string_view())]
            table = table.set_column(place, field.name, pa.chunked_array(views))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def test_text_in_views_is_text() -> None:
    rows = [{"id": f"an id that is longer than a view {n}", "price": n, "city": "Rome"} for n in range(3)]
    format = WireFormat((WireColumn("price", "number"), WireColumn("city", "text")), id="id")
    read = ArrowRows(format).read(as_views(rows))
    assert read.ids == [row["id"] for row in rows]
    assert read.table.columns["city"].words == ("Rome",)


BODIES = as_arrow(ROWS), as_views([{**row, "day": None} for row in ROWS])


@given(st.data())
def test_damaged_arrow_is_read_or_refused(data: st.DataObject) -> None:
    body = bytearray(data.draw(st.sampled_from(BODIES)))
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=4)):
        body[place] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.integers(0, len(body)))]
    try:
        read = ArrowRows(FORMAT).read(bytes(body), "skip", 10)
    except DriftsurfError:
        return
    assert len(read) + read.n_skipped <= 10


def test_messages_of_an_unfinished_stream_are_those_that_are_complete() -> None:
    body = as_arrow(ROWS)
    whole = messages(body)
    assert [one.kind for one in whole] == [1, 3]
    assert messages(body[: whole[-1].end - 1], whole=False) == whole[:1]
    with pytest.raises(InputError):
        messages(body[: whole[-1].end - 1])


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**18), 10**18),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["Rome", " Oslo ", "2026-05-01", "2026-05-01T10:00:00+02:00", "", "nul\0", "2026-13-01"]),
    st.lists(st.integers(), max_size=1),
)


@given(st.lists(st.dictionaries(st.sampled_from(["id", "price", "city", "new", "day", "other"]), VALUES), max_size=4))
def test_the_fast_path_and_the_checked_path_agree(rows: list[dict[str, Any]]) -> None:
    """Rows that the decoder takes at once pass the check of each row, and rows that the check passes are taken."""
    reader = JsonRows(FORMAT)
    raws = [msgspec.Raw(msgspec.json.encode(row)) for row in rows]
    try:
        checked = reader._checked(raws, "fail", 10)
    except BadRowError:
        with pytest.raises(BadRowError):
            reader.read(as_json(rows))
        return
    read = reader.read(as_json(rows))
    assert (plain(read.table), read.ids) == (plain(checked.table), checked.ids)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for format in (FORMAT, LEARN, WireFormat(None, id="id", label="sold")):
        for _, reader in READERS.values():
            with contextlib.suppress(DriftsurfError):
                reader(format)(body, "skip", 10)
    with contextlib.suppress(DriftsurfError):
        read_labels(body)


def test_labels_by_id() -> None:
    assert read_labels(b'{"labels": {"a": "yes", "b": 1, "c": true}}').labels == ["yes", 1, True]
    with pytest.raises(BadRowError):
        read_labels(b'{"labels": {"a": null}}')
    with pytest.raises(InputError):
        read_labels(b'{"labels": {}}')
    read = read_labels(b'{"labels": {"a": [1], "b": "no"}}', "skip")
    assert (read.ids, read.n_skipped) == (["b"], 1)


ODD_NAMES = ('say "hi"', "back\\slash", "line\nbreak", "nul\0", "tab\t", "\x7f0", "<b>", "\u202e", "", "a" * 5000)


@pytest.mark.parametrize("takes_others", [False, True])
def test_columns_ids_and_labels_may_have_any_name(takes_others: bool) -> None:
    reading = ReadingOptions(on_schema_change="ignore-added" if takes_others else "fail")
    for name in ODD_NAMES:
        columns = WireColumn(name, "number"), WireColumn("city", "text")
        format = WireFormat(columns, id=f"{name}-id", label=f"{name}-label", ignored=(f"{name}-x",), reading=reading)
        row = {name: 1, "city": "Rome", f"{name}-id": "a", f"{name}-label": "yes", f"{name}-x": [1]}
        read, lines = JsonRows(format).read, JsonRows(format).read_lines
        for found in (read(json.dumps({"rows": [row, row]}).encode()), lines(json.dumps(row).encode() + b"\n")):
            assert (found.table[name].values[0], found.table["city"].words) == (1.0, ("Rome",))
            assert (found.ids or [])[0] == "a"
            assert (found.labels or [])[0] == "yes"
        for bad, column in (
            ({name: "x"}, name),
            ({"city": 1e400}, "city"),
            ({"new": 1}, "new"),
            ({"\x7f1": 1}, "\x7f1"),
        ):
            body = json.dumps({"rows": [row | bad]}).replace("Infinity", "1e400").encode()
            if takes_others and column not in (name, "city"):
                assert len(read(body)) == 1
            else:
                with pytest.raises(InputError) as caught:
                    read(body)
                assert caught.value.column in (column, None)
            assert len(read(json.dumps({"rows": [row, 5]}).encode(), "skip")) == 1


def test_a_column_that_occurs_twice_is_a_bad_row() -> None:
    good = b'{"price": 1, "city": "Rome", "new": null, "day": null, "id": "a"}'
    for twice in (b'{"id": false, ' + good[1:], b'{"price": [], ' + good[1:]):
        with pytest.raises(BadRowError, match="twice") as caught:
            JsonRows(FORMAT).read_lines(good + b"\n" + twice)
        assert caught.value.row == 1
        read = JsonRows(FORMAT).read(b'{"rows": [' + good + b"," + twice + b"]}", "skip")
        assert (len(read), read.n_skipped) == (1, 1)


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("column", ["price", "city", "new", "day", "id"])
def test_a_number_beyond_all_bounds_is_a_bad_row(column: str, digits: int) -> None:
    row = {"price": 1, "city": "Rome", "new": None, "day": None, "id": "a"} | {column: "HERE"}
    data = json.dumps(row).replace('"HERE"', "1" + "0" * digits).encode()
    for format in (FORMAT, WireFormat(None, id="id")):
        for read, body in ((JsonRows(format).read, b'{"rows": [%b]}' % data), (JsonRows(format).read_lines, data)):
            with pytest.raises(InputError):
                read(body)


NUMBERS = WireFormat((WireColumn("a", "number"), WireColumn("b", "number")), id="id", ignored=("sold",))


def arrow_numbers(**columns: Any) -> bytes:
    table = pa.table({name: pa.array(*values) for name, values in columns.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize(
    ("columns", "at_once"),
    [
        ({"b": ([3.0, 4.0],), "a": ([1.0, float("nan")],)}, True),
        ({"b": ([3.0, 4.0],), "a": ([1.0, None],)}, False),
        ({"b": ([3, 4],), "a": ([1.0, None], pa.float32())}, False),
        ({"b": ([3.0, 4.0],), "a": ([1.0, None],), "sold": (["yes", "no"],)}, False),
    ],
)
def test_arrow_columns_of_doubles_are_read_at_once_and_others_give_the_same(
    columns: dict[str, Any], at_once: bool
) -> None:
    read = ArrowRows(NUMBERS).read(arrow_numbers(**columns))
    assert isinstance(read.rows, NumberRows) is at_once
    assert list(read.table.columns) == ["a", "b"]
    np.testing.assert_array_equal(read.table["a"].values, [1.0, np.nan])
    np.testing.assert_array_equal(read.table["b"].values, [3.0, 4.0])


def test_arrow_columns_of_doubles_are_read_without_pandas() -> None:
    pytest.importorskip("pandas")
    program = f"""
import sys
from driftsurf.service.wire.arrow_rows import ArrowRows
from driftsurf.service.wire.rows import WireColumn, WireFormat
format = WireFormat((WireColumn("a", "number"), WireColumn("b", "number")))
read = ArrowRows(format).read({arrow_numbers(a=([1.0, np.nan],), b=([1.0, 2.0],))!r})
print(type(read.rows).__name__, "pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["NumberRows", "False"]


def test_arrow_columns_of_doubles_are_checked_as_others_are() -> None:
    with pytest.raises(BadRowError) as infinite:
        ArrowRows(NUMBERS).read(arrow_numbers(a=([1.0, np.inf],), b=([1.0, 2.0],)))
    assert (infinite.value.row, infinite.value.column) == (1, "a")
    with pytest.raises(BadRowError) as unknown:
        ArrowRows(NUMBERS).read(arrow_numbers(a=([1.0],), c=([1.0],)))
    assert unknown.value.column == "c"
    read = ArrowRows(NUMBERS).read(arrow_numbers(a=([1.0],), b=([2.0],), id=(["one"],)))
    assert read.ids == ["one"]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ('"3.5"', "without quotes"),
        ("1e400", "1.8e308"),
        ("NaN", "null"),
        ('"dear"', "not a number"),
        ("-1e999", "1.8e308"),
    ],
)
def test_a_number_that_cannot_be_used_is_named_with_its_column(value: str, says: str) -> None:
    good = b'{"price": 1, "city": "Rome", "new": null, "day": null}'
    bad = f'{{"price": {value}, "city": "Rome", "new": null, "day": null}}'.encode()
    for read, body in (
        (JsonRows(FORMAT).read, b'{"rows": [' + good + b"," + bad + b"]}"),
        (JsonRows(FORMAT).read_lines, good + b"\n" + bad),
    ):
        with pytest.raises(BadRowError, match=says) as caught:
            read(body)
        assert (caught.value.row, caught.value.column) == (1, "price")


def test_all_missing_columns_are_named() -> None:
    for read, body in ((JsonRows(FORMAT).read, b'{"rows": [{"price": 1}]}'), (CsvRows(FORMAT).read, b"price\n1\n")):
        with pytest.raises(BadRowError, match="'city', 'new', 'day'") as caught:
            read(body)
        assert caught.value.column == "city"
