"""Packed states: exact, aligned, and safe against damaged bytes."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from driftsurf.errors import StateError
from driftsurf.keyed.serving import HEAD, packed, unpacked

scalars = st.one_of(st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text())
anything = st.one_of(
    scalars,
    arrays.arrays(
        st.sampled_from(["<f8", "<f4", "<i8", "<i4", "|b1", "|u1"]), arrays.array_shapes(min_dims=0, min_side=0)
    ),
)


@settings(max_examples=100, deadline=None)
@given(state=st.dictionaries(st.text(), anything, max_size=8))
def test_a_packed_state_comes_back_exactly(state: dict[str, Any]) -> None:
    data = packed(state)
    found: dict[str, Any] = dict(unpacked(data))
    assert list(found) == list(state)
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
            assert found[name].tobytes() == value.tobytes()
            assert found[name].flags.aligned
            assert found[name].flags.writeable
        else:
            assert type(found[name]) is type(value)
            assert found[name] == value or (math.isnan(found[name]) and math.isnan(value))
    assert packed(found).tobytes() == data.tobytes()


def test_changing_an_unpacked_array_does_not_change_the_bytes() -> None:
    data = packed({"a": np.arange(3.0)})
    before = data.tobytes()
    found: Any = unpacked(data)["a"]
    found[:] = 9.0
    assert data.tobytes() == before


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, np.float32(1), np.zeros(2, ">f8"), np.array(["a"])])
def test_values_that_a_state_cannot_hold_are_refused_by_name(value: Any) -> None:
    with pytest.raises(StateError, match="'odd'"):
        packed({"odd": value})


def _made_up(names: Any, values: Any, body: bytes = b"") -> Any:
    texts = [json.dumps(names).encode(), json.dumps(values).encode()]
    lengths = [len(text).to_bytes(8, "little") for text in texts]
    return np.frombuffer(b"".join([*lengths, body, *texts]), np.uint8)


@pytest.mark.parametrize(
    "data",
    [
        None,
        np.zeros(0, np.uint8),
        np.zeros(HEAD, np.uint8),
        _made_up(["a"], [1, 2]),
        _made_up(["a"], [None]),
        _made_up(["a"], [{}]),
        _made_up(["a"], 3),
        _made_up(["a"], [["<f8", 1]]),
        _made_up(["a"], [["<f8", 2]], bytes(8)),
        _made_up(["a"], [["<f8", -1]], bytes(8)),
        _made_up(["a"], [["<f8", 2**62, 2**62]], bytes(8)),
        _made_up(["a"], [["<f8", 1.5]], bytes(8)),
        _made_up(["a"], [["object", 1]], bytes(8)),
        _made_up(["a"], [[]], bytes(8)),
        _made_up(["a"], [1], bytes(8)),
        packed({"a": 1, "b": np.zeros(3)})[:-1],
        packed({"a": 1, "b": np.zeros(3)})[1:],
    ],
)
def test_anything_but_a_packed_state_is_refused(data: Any) -> None:
    with pytest.raises(StateError):
        unpacked(data)
