"""Messages of JSON as columns: the same tables as those of the exact reader, for anything."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from driftsurf.data.messages.contract import BrokerMessage
from driftsurf.data.messages.decoding import MessageDecoder, json_columns
from driftsurf.data.reading_options import Kind, ReadingOptions
from driftsurf.data.tables import Table
from driftsurf.errors import SchemaError

pytest.importorskip("pyarrow")

KINDS: dict[str, Kind] = {"n": "number", "b": "boolean", "t": "text", "d": "date"}
READING = ReadingOptions(on_bad_row="skip")

numbers = st.one_of(
    st.floats(),
    st.integers(),
    st.sampled_from([0.0, -0.0, 5e-324, 1.7976931348623157e308, 2**53 + 1, 10**22 + 1, 10**400, 0.1 + 0.2]),
)
texts = st.one_of(st.text(max_size=8), st.sampled_from(["NA", " Rome", "Rome", "Rome ", "", "null", "2024-05-01", "ü"]))
dates = st.one_of(
    st.datetimes().map(str), st.dates().map(str), st.sampled_from(["2024-05-01T10:00:00.123456789Z", "x"])
)
anything = st.one_of(numbers, texts, dates, st.booleans(), st.none(), st.lists(st.integers(), max_size=2))
usual = st.fixed_dictionaries(
    {}, optional={"n": numbers | st.none(), "b": st.booleans() | st.none(), "t": texts | st.none(), "d": dates}
)
unusual = st.dictionaries(st.sampled_from([*KINDS, "more"]), anything, max_size=5)
PARTS = '{ } {} "n" : 1 -0 -0.0 01 1. 1e999 NaN Infinity -Infinity , " "t" "\\ud800" "\\u0000" /* */ true null [ ]'
fragments = st.sampled_from([*PARTS.split(), " ", "\n", "\r", "\x00", '{"n":1}', '{"n":', "1}"])
messages = st.one_of(
    usual.map(json.dumps).map(str.encode),
    usual.map(lambda row: json.dumps(row, ensure_ascii=False)).map(lambda text: text.encode("utf-8", "surrogatepass")),
    unusual.map(json.dumps).map(str.encode),
    st.lists(fragments, max_size=8).map("".join).map(str.encode),
    st.binary(max_size=12),
    st.sampled_from([b'{"n": 1, "n": 2}', b'\xef\xbb\xbf{"n": 1}', b'{"t": "\xff"}', b'{"n": -0}', b'{"n": -0.0}']),
)


class Exact(MessageDecoder):
    """Looks at every message."""

    def _read_quickly(self, messages: Any) -> None:
        return None


def outcome(values: list[bytes], *, quick: bool) -> Any:
    """Return the columns and the bad rows of messages as comparable values, or the error."""
    decoder = (MessageDecoder if quick else Exact)("topic", READING)
    decoder.fix(list(KINDS.items()))
    given = [BrokerMessage(f"message {place}", value) for place, value in enumerate(values)]
    try:
        table, bad = decoder.table(given)
    except SchemaError as error:
        return str(error)
    return comparable(table), bad


def comparable(table: Table) -> Any:
    return {
        name: (column.kind, column.values.dtype.str, column.values.tobytes(), column.words)
        for name, column in table.columns.items()
    }


@settings(max_examples=300, deadline=None)
@given(st.lists(usual.map(json.dumps).map(str.encode), min_size=1, max_size=8) | st.lists(messages, max_size=8))
@example([b'{"n":', b"1}", b'{"n":1}{"n":2}'])
@example([b'{"n":1}}', b'{{"n":1}'])
@example([b'{"t": "}', b'{"}'])
@example([b'{"n": 1} ', b' {"n": 2}'])
def test_the_tables_are_those_of_the_exact_reader(values: list[bytes]) -> None:
    assert outcome(values, quick=True) == outcome(values, quick=False)


def test_usual_messages_take_the_quick_way() -> None:
    rows = [{"n": n / 3, "b": n % 2 == 0, "t": f"city {n % 3}", "d": f"2024-05-{n + 1:02d}"} for n in range(20)]
    rows += [{"n": None, "t": "NA"}, {"n": 7, "t": " city 1 ", "d": ""}, {}]
    values = [json.dumps(row).encode() for row in rows]
    table = json_columns(values, KINDS, READING)
    assert table is not None
    assert table["t"].words == ("city 0", "city 1", "city 2")
    assert table["t"].values.tolist() == [*(n % 3 for n in range(20)), -1, 1, -1]
    assert np.isnan(table["n"].values).tolist() == [False] * 20 + [True, False, True]
    assert outcome(values, quick=True) == (comparable(table), [])


@pytest.mark.parametrize(
    "value", [b'{"x": 1}', b'{"n": "1"}', b'{"n": 1e999}', b'{"n": -0}', b'{"t": 1}', b"[]", b'{"n":1}\n']
)
def test_unusual_messages_are_left_to_the_exact_reader(value: bytes) -> None:
    assert json_columns([b'{"n": 1}', value], KINDS, READING) is None


def test_a_message_that_is_too_long_is_left_to_the_exact_reader() -> None:
    short = ReadingOptions(max_row_bytes=20)
    assert json_columns([b'{"n": 1}'] * 9, {"n": "number"}, short) is not None
    assert json_columns([b'{"n": 1}', b'{"n": 1.000000000000000}'], {"n": "number"}, short) is None
