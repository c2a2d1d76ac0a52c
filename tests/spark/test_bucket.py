"""Many keys in one value: what is written is read, what is damaged is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftsurf.errors import StateError
from driftsurf.keyed.results import NEVER
from driftsurf.spark.bucket_store import Bucket, regrouped

MARKS = st.integers(-(2**62), 2**62) | st.none()
ENTRIES = st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.tuples(MARKS, st.binary())) | st.dictionaries(
    st.text(st.characters(codec="utf-8")), st.tuples(MARKS, st.binary())
)


def filled(entries: dict[Any, tuple[int | None, bytes]]) -> Bucket:
    bucket = Bucket(8)
    for key, (high, state) in entries.items():
        bucket.put(key, high, state)
    return bucket


@given(ENTRIES)
def test_a_bucket_is_read_as_it_was_written(entries: dict[Any, tuple[int | None, bytes]]) -> None:
    data = filled(entries).to_bytes()
    found = Bucket.read(data, 8)
    assert {key: found.get(key) for key in found} == {key: state for key, (_, state) in entries.items()}
    marks = {key: NEVER if high is None else high for key, (high, _) in entries.items()}
    assert {key: high for key, high, _ in found.entries()} == marks
    assert all(key in found for key in entries)
    assert found.nbytes == sum(len(state) for _, state in entries.values())
    assert found.to_bytes() == data
    assert filled(dict(reversed(entries.items()))).to_bytes() == data
    assert regrouped(found.entries(), 8) == data


@settings(max_examples=50)
@given(ENTRIES.filter(bool), st.data())
def test_a_damaged_index_or_another_length_is_refused(entries: dict[Any, Any], data: st.DataObject) -> None:
    whole = filled(entries).to_bytes()
    states = sum(len(state) for _, state in entries.values())
    place = data.draw(st.integers(0, len(whole) - states - 1))
    damaged = bytearray(whole)
    damaged[place] ^= data.draw(st.integers(1, 255))
    shorter = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for wrong in (bytes(damaged), shorter, whole + b"x"):
        with pytest.raises(StateError):
            Bucket.read(wrong, 8)


def test_another_number_of_buckets_is_refused() -> None:
    with pytest.raises(StateError, match=r"8 buckets.*9"):
        Bucket.read(Bucket(8).to_bytes(), 9)
