"""Many keys in one value: what is written is read, what is damaged is refused, keys do not influence each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftsurf.errors import StateError
from driftsurf.keyed import KeyedOptions, KeyRows
from driftsurf.keyed.bucket import Bucket, regrouped, serve

LEARNER = KeyedOptions(classes=(0, 1), batch_size=4, step_size=0.1).learner(("a", "b"))
MARKS = st.integers(-(2**62), 2**62) | st.none()
ENTRIES = st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.tuples(MARKS, st.binary())) | st.dictionaries(
    st.text(st.characters(codec="utf-8")), st.tuples(MARKS, st.binary())
)


def filled(entries: dict[Any, tuple[int | None, bytes]]) -> Bucket:
    bucket = Bucket(8)
    for key, (high, state) in entries.items():
        bucket.put(key, high, state)
    return bucket


def rows(first: int, seed: int, *, bad: bool = False) -> KeyRows:
    X = np.random.default_rng(seed).normal(size=(6, 2))
    y = (X[:, 0] > 0).astype(int).tolist()
    return KeyRows(first + np.arange(6), X, [*y[:3], 7, *y[4:]] if bad else y)


@given(ENTRIES)
def test_a_bucket_is_read_as_it_was_written(entries: dict[Any, tuple[int | None, bytes]]) -> None:
    data = filled(entries).to_bytes()
    found = Bucket.read(data, 8)
    assert {key: found.get(key) for key in found} == {key: state for key, (_, state) in entries.items()}
    marks = [high for high, _ in entries.values() if high is not None]
    assert found.oldest == min(marks, default=None)
    assert set(found.silent(0)) == {key for key, (high, _) in entries.items() if high is not None and high < 0}
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


def test_keys_are_served_as_if_each_were_alone_and_a_poisoned_one_is_quarantined_alone() -> None:
    alone: dict[str, bytes] = {}
    data = None
    for epoch in range(4):
        named = {f"k{number}": rows(10 * epoch, number, bad=(epoch, number) == (1, 2)) for number in range(5)}
        if epoch == 2:
            del named["k4"]
        bucket = Bucket.read(data, 1)
        untouched = bucket.get("k4")
        visits = serve(LEARNER, bucket, named)
        data = bucket.to_bytes()
        for key, own in named.items():
            visit = LEARNER.visit(key, alone.get(key), own)
            alone[key] = visit.state
            assert (visits[key].state, visits[key].predicted) == (visit.state, visit.predicted)
        if epoch == 2:
            assert bucket.get("k4") == untouched
    bucket = Bucket.read(data, 1)
    assert {key: bucket.get(key) for key in bucket} == alone
    assert [key for key, state in alone.items() if LEARNER.summary(state).quarantine] == ["k2"]


def test_keys_that_have_expired_are_dropped() -> None:
    bucket = Bucket(1)
    serve(LEARNER, bucket, {"a": rows(0, 0), "b": rows(50, 1)})
    state = bucket.get("a")
    assert bucket.silent(20) == ["a"]
    assert state is not None
    bucket.keep({"a": LEARNER.expire("a", state)})
    assert list(Bucket.read(bucket.to_bytes(), 1)) == ["b"]
