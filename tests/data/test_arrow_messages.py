"""Messages of brokers that are streams of Arrow: damaged and hostile ones are put aside, and the others are read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from driftsurf.data import ReadingOptions  # noqa: E402
from driftsurf.data.messages.contract import BrokerMessage  # noqa: E402
from driftsurf.data.messages.decoding import MessageDecoder  # noqa: E402


def stream(*columns: tuple[str, Any], compression: str | None = None) -> bytes:
    table = pa.table([values for _, values in columns], names=[name for name, _ in columns])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decoder() -> MessageDecoder:
    """Return a decoder that knows its columns."""
    made = MessageDecoder("kafka://host/rows", ReadingOptions(format="arrow"))
    table, bad = made.table([BrokerMessage("first", GOOD)])
    assert (len(table), bad) == (2, [])
    return made


GOOD = stream(("a", [1.0, 2.0]), ("s", ["x", "y"]), ("c", pa.array(["u", "v"]).dictionary_encode()))
HOSTILE = {
    "a column twice": stream(("a", [1.0]), ("a", [2.0]), ("s", ["x"]), ("c", ["u"])),
    "many rows of nothing": stream(("a", pa.nulls(10**9))),
    "compressed": stream(("a", [0.0] * 10**6), ("s", ["x"] * 10**6), ("c", ["u"] * 10**6), compression="zstd"),
    "a list": stream(("a", [[1.0]]), ("s", ["x"]), ("c", ["u"])),
    "cut off": GOOD[:-40],
    "nothing of the kind": b"{}",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_messages_are_put_aside_and_others_read(what: str) -> None:
    table, bad = decoder().table(
        [BrokerMessage("1", GOOD), BrokerMessage("2", HOSTILE[what]), BrokerMessage("3", GOOD)]
    )
    assert len(table) == 4
    assert [one.file for one in bad] == ["kafka://host/rows, 2"]


@given(st.data())
def test_damaged_messages_are_read_or_put_aside(data: st.DataObject) -> None:
    body = bytearray(GOOD)
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=4)):
        body[place] = data.draw(st.integers(0, 255))
    table, bad = decoder().table([BrokerMessage("1", bytes(body))])
    assert len(bad) == 1 or len(table) <= 2
