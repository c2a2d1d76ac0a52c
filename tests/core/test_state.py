"""States as bytes: exact and canonical, and every other sequence of bytes is refused."""

from __future__ import annotations

import hashlib
import json
import math
import tracemalloc
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from driftsurf import __version__
from driftsurf.core.contracts import State
from driftsurf.core.state import FORMAT, MAGIC, PREFIX, from_bytes, nest, pick, read_header, to_bytes
from driftsurf.errors import StateError, StateVersionError

TYPES = ["<f8", "<f4", "<i8", "<i4", "|b1", "|u1"]

values = (
    st.booleans()
    | st.integers()
    | st.integers(2**63, 2**300)
    | st.floats()
    | st.text()
    | st.sampled_from(TYPES).flatmap(lambda dtype: arrays(dtype, array_shapes(min_dims=0, min_side=0, max_side=4)))
)
states = st.dictionaries(st.text(max_size=8), values, max_size=6)

SMALL: State = {
    "array": np.arange(6.0).reshape(2, 3),
    "empty": np.zeros((0, 2), np.int32),
    "flag": True,
    "name": "Drift \N{WATER WAVE}",
    "number": -(2**70),
    "risk": 0.1,
}


def bits(value: Any) -> Any:
    """Return something that is equal for two values exactly when their bits are."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return type(value), value.hex() if isinstance(value, float) else value  # one NaN for all scalars


def same(left: State, right: State) -> bool:
    return {k: bits(v) for k, v in left.items()} == {k: bits(v) for k, v in right.items()}


def sealed(body: bytes) -> bytes:
    """Append the right checksum, so that the reader also checks the bytes before it."""
    return body + hashlib.sha256(body).digest()


def forged(header: Any, arrays: bytes = b"", reader: int = PREFIX[-1]) -> bytes:
    """Lay out bytes as ``to_bytes`` does, with any header."""
    if isinstance(header, dict):
        header = {"format": FORMAT, "driftsurf": __version__, "size": len(arrays)} | header
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return sealed(MAGIC + bytes([reader]) + len(text).to_bytes(8, "little") + text + arrays)


# ---------------------------------------------------------------------------- round trips


@given(state=states)
@settings(max_examples=200)
def test_every_kind_of_value_survives_a_round_trip(state: State) -> None:
    saved = to_bytes(state)
    assert same(from_bytes(saved), state)
    assert same(from_bytes(bytearray(saved)), state)
    assert same(from_bytes(memoryview(saved)), state)
    assert to_bytes(from_bytes(saved)) == saved


@given(data=st.data(), state=states)
@settings(max_examples=50)
def test_the_order_of_the_entries_does_not_matter(data: st.DataObject, state: State) -> None:
    names = data.draw(st.permutations([*state]))
    assert to_bytes({name: state[name] for name in names}) == to_bytes(state)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1])
def test_floats_survive_to_the_last_bit(value: float) -> None:
    state: State = {"scalar": value, "array": np.array([value])}
    assert same(from_bytes(to_bytes(state)), state)


@pytest.mark.parametrize("value", [2**64 - 1, -(2**63), 10**1000])
def test_integers_of_any_size_survive(value: int) -> None:
    assert from_bytes(to_bytes({"n": value})) == {"n": value}


@pytest.mark.parametrize("text", ["", "\x00", "\u00e9\u4e2d", "\N{WATER WAVE}", "\ud800", '"\\\n'])
def test_any_text_survives(text: str) -> None:
    assert from_bytes(to_bytes({text: text})) == {text: text}


def test_an_empty_state_survives() -> None:
    assert from_bytes(to_bytes({})) == {}


def test_loaded_arrays_are_writable() -> None:
    array = from_bytes(to_bytes(SMALL))["array"]
    assert isinstance(array, np.ndarray)
    array += 1.0


@pytest.mark.parametrize("dtype", [">f8", ">f4", ">i8", ">i4"])
def test_big_endian_arrays_are_written_little_endian(dtype: str) -> None:
    big = np.array([1, 2, 500], dtype)
    assert to_bytes({"a": big}) == to_bytes({"a": big.astype(dtype.replace(">", "<"))})


def test_the_memory_layout_of_an_array_does_not_matter() -> None:
    array = np.arange(12.0).reshape(3, 4)
    saved = to_bytes({"a": array})
    assert to_bytes({"a": np.asfortranarray(array)}) == saved
    assert to_bytes({"a": np.repeat(array, 2, axis=1)[:, ::2]}) == saved


class Level(IntEnum):
    HIGH = 3


def test_subtypes_of_numbers_and_text_are_saved_as_plain_ones() -> None:
    saved = from_bytes(to_bytes({"float": np.float64(0.5), "text": np.str_("abc"), "enum": Level.HIGH}))
    assert same(saved, {"float": 0.5, "text": "abc", "enum": 3})


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, 1j, b"x", object(), np.int64(1), np.bool_(True), np.float32(1)])
def test_other_kinds_are_refused_by_name(value: Any) -> None:
    with pytest.raises(StateError, match=rf"'odd'.*{type(value).__name__}"):
        to_bytes({"odd": value})


@pytest.mark.parametrize("dtype", ["O", "U3", "S3", "c16", "f2", "u8", "i2", "M8[s]", "f8,i8"])
def test_arrays_of_other_types_are_refused_by_name(dtype: str) -> None:
    with pytest.raises(StateError, match="'odd'"):
        to_bytes({"odd": np.zeros(2, dtype)})


def test_pick_is_the_inverse_of_nest() -> None:
    state = nest("model", {"seed": 1, "inner.w": 2.0}) | nest("modelling", {"seed": 3})
    assert pick("model", state) == {"seed": 1, "inner.w": 2.0}
    assert pick("model.inner", state) == {"w": 2.0}
    assert pick("other", state) == {}


# ---------------------------------------------------------------------------- damage


def test_every_changed_byte_is_found() -> None:
    saved = to_bytes(SMALL)
    for position in range(len(saved)):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(saved)
            damaged[position] ^= change
            with pytest.raises(StateError):
                from_bytes(damaged)


def test_every_truncation_and_extension_is_found() -> None:
    saved = to_bytes(SMALL)
    for length in range(len(saved)):
        with pytest.raises(StateError):
            from_bytes(saved[:length])
    for extra in (b"\x00", b"more", saved):
        with pytest.raises(StateError):
            from_bytes(saved + extra)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        pytest.param(b"", "0 bytes", id="empty"),
        pytest.param(b"\x80\x04" * 50, None, id="foreign"),
        pytest.param(sealed(PREFIX + b"\xff" * 8 + b"{}"), None, id="header beyond the end"),
        pytest.param(forged({"entries": []}, b"rest"), "4 bytes", id="trailing bytes"),
        pytest.param(forged({"entries": [], "size": 3}, b"rest"), "4 bytes.* 3", id="a wrong size"),
        pytest.param(forged({"entries": [], "driftsurf": 1}), None, id="a writer that is not a text"),
        pytest.param(forged({"entries": [["a", "array", "<f8", [3]]]}, bytes(16)), "'a'", id="array cut off"),
        pytest.param(forged({"entries": [["a", "array", "<f2", [1]]]}, bytes(2)), "'a'.*'<f2'", id="unknown dtype"),
        pytest.param(forged({"entries": [["a", "array", "|O", [1]]]}, bytes(8)), r"'a'.*'\|O'", id="objects"),
        pytest.param(forged({"entries": [["a", "int", 1], ["a", "int", 2]]}), "'a'", id="a repeated name"),
        pytest.param(forged({"entries": [["a", "set", 1]]}), "'a'.*'set'", id="unknown kind"),
    ],
)
def test_damaged_or_forged_bytes_are_refused_and_the_culprit_is_named(data: bytes, named: str | None) -> None:
    with pytest.raises(StateError, match=named) as caught:
        from_bytes(data)
    assert not isinstance(caught.value, StateVersionError)


# ---------------------------------------------------------------------------- versions


def test_a_later_format_that_this_reader_understands_is_read() -> None:
    later = forged({"format": FORMAT + 1, "driftsurf": "7.0.0", "entries": [["a", "int", 1]]}, reader=FORMAT)
    assert from_bytes(later) == {"a": 1}
    assert read_header(later)[:2] == (FORMAT + 1, "7.0.0")


@pytest.mark.parametrize(
    ("header", "reader"),
    [
        ({"format": FORMAT + 2, "driftsurf": "7.0.0", "entries": []}, FORMAT + 2),
        ({"format": FORMAT + 2, "driftsurf": "7.0.0", "news": {}, "entries": 0}, FORMAT + 2),
        ({"format": 0, "driftsurf": "7.0.0", "entries": []}, 0),
    ],
)
def test_a_format_that_is_not_read_names_both_versions(header: dict[str, Any], reader: int) -> None:
    with pytest.raises(StateVersionError, match=rf"7\.0\.0.* {reader};.*{__version__}"):
        from_bytes(forged(header, reader=reader))


def test_a_later_format_may_have_a_header_of_another_kind() -> None:
    with pytest.raises(StateVersionError, match=rf" {FORMAT + 1};.*{__version__}"):
        from_bytes(forged(b"\x00binary\xff", reader=FORMAT + 1))


@pytest.mark.parametrize("reader", [0, FORMAT])
def test_a_reader_that_contradicts_the_format_is_damage(reader: int) -> None:
    with pytest.raises(StateError) as caught:
        from_bytes(forged({"format": FORMAT if reader == 0 else True, "entries": []}, reader=reader))
    assert not isinstance(caught.value, StateVersionError)


# ---------------------------------------------------------------------------- forgeries


ODD_ENTRIES: list[Any] = [
    ["a", "array", "<f8", [2**62]],
    ["a", "array", "<f8", [2**200]],
    ["a", "array", "<f8", [2**62, 0]],
    ["a", "array", "<f8", [0, 2**200]],
    ["a", "array", "<f8", [0] + [2**62] * 3],
    ["a", "array", "<f8", [1] * 100],
    ["a", "array", "<f8", [-1]],
    ["a", "array", "<f8", [-1, -1]],
    ["a", "array", "<f8", [1.0]],
    ["a", "array", "<f8", [True]],
    ["a", "array", "<f8", ["1"]],
    ["a", "array", "<f8", [None]],
    ["a", "array", "<f8", 1],
    ["a", "array", "<f8", ""],
    ["a", "array", "<f8", {}],
    ["a", "array", "<f8", None],
    ["a", "array", "<f8"],
    ["a", "array", "<f8", [1], [1]],
    ["a", "array", ["<f8"], [1]],
    ["a", "array", {"names": ["x"]}, [1]],
    ["a", "array", "f8", [1]],
    ["a", "array", ">f8", [1]],
    ["a", "array"],
    ["a", "int", 1.0],
    ["a", "int", True],
    ["a", "int", "1"],
    ["a", "int", None],
    ["a", "int", 1, 2],
    ["a", "int"],
    ["a", "bool", 1],
    ["a", "str", 1],
    ["a", "str", ["x"]],
    ["a", "float", 1.0],
    ["a", "float", "x"],
    ["a", "float", "0x1p99999"],
    ["a", "float", "1.5"],
    ["a", "float", "nan", "nan"],
    ["a", "float"],
    ["a", ["int"], 1],
    ["a", None, 1],
    [1, "int", 1],
    [None, "int", 1],
    [["a"], "int", 1],
    ["a"],
    [],
    "abc",
    {"a": 1, "int": 2, "x": 3},
    7,
    None,
]


@pytest.mark.parametrize("entry", ODD_ENTRIES, ids=lambda entry: json.dumps(entry)[:40])
def test_entries_that_to_bytes_would_not_write_are_refused(entry: Any) -> None:
    with pytest.raises(StateError):
        from_bytes(forged({"entries": [entry]}, bytes(8)))
    with pytest.raises(StateError):
        from_bytes(forged({"entries": [entry]}))


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="half"),
        pytest.param(b"\xff\xfe\xfd", id="no text"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{}", id="no entries"),
        pytest.param(b'{"entries":null}', id="entries are null"),
        pytest.param(b'{"entries":"abc"}', id="entries are text"),
        pytest.param(b'{"entries":{"abc":1}}', id="entries are an object"),
        pytest.param(b'{"entries":NaN}', id="entries are NaN"),
        pytest.param(b'{"entries":[["a","int",NaN]]}', id="NaN for an integer"),
        pytest.param(b'{"entries":[["a","int",' + b"9" * 5000 + b"]]}", id="5000 digits"),
        pytest.param(b"[" * 100_000, id="deep lists"),
        pytest.param(b'{"entries":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="deep entries"),
        pytest.param(b'{"a":' * 100_000, id="deep objects"),
        pytest.param(b'{"entries":[], "more":1}', id="more than entries"),
        pytest.param(b'{"entries":[["a","int",1]],"entries":[]}', id="entries twice"),
        pytest.param(b'{"entries":[] }', id="a blank"),
        pytest.param(b'{"entries":[["b","int",1],["a","int",1]]}', id="not in order"),
        pytest.param('{"entries":[["\u00e9","int",1]]}'.encode(), id="not ASCII"),
        pytest.param('{"entries":[]}'.encode("utf-16"), id="UTF-16"),
    ],
)
def test_a_header_that_to_bytes_would_not_write_is_refused(header: bytes) -> None:
    with pytest.raises(StateError):
        from_bytes(forged(header))


def test_hostile_sizes_allocate_nothing() -> None:
    hostile = [forged({"entries": [entry]}, bytes(8)) for entry in ODD_ENTRIES]
    tracemalloc.start()
    try:
        for data in hostile:
            with pytest.raises(StateError):
                from_bytes(data)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@given(header=st.binary(max_size=60), arrays=st.binary(max_size=20))
@settings(max_examples=200)
def test_bytes_with_a_right_checksum_are_refused_or_canonical(header: bytes, arrays: bytes) -> None:
    data = forged(header, arrays)
    try:
        state = from_bytes(data)
    except StateError:
        return
    assert to_bytes(state) == data


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(TYPES),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    entries=st.lists(
        st.tuples(
            st.text(max_size=3) | json_values,
            st.sampled_from(["array", "int", "float", "str", "bool"]) | json_values,
            st.sampled_from(TYPES) | json_values,
            st.lists(st.integers(-1, 3), max_size=3) | json_values,
        ).flatmap(lambda entry: st.integers(2, 4).map(lambda length: entry[:length])),
        max_size=3,
    ),
    arrays=st.sampled_from([b"", bytes(4), bytes(8), bytes(16)]),
)
@settings(max_examples=300)
def test_entries_are_refused_or_canonical(entries: list[Any], arrays: bytes) -> None:
    data = forged({"entries": entries}, arrays)
    try:
        state = from_bytes(data)
    except StateError:
        return
    assert to_bytes(state) == data
