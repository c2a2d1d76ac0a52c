"""Slots and seeds of keys, rows by slot, and the record of transitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftsurf.core.numeric import derive
from driftsurf.errors import InputError
from driftsurf.keyed import key_seed
from driftsurf.keyed.keys import Keys
from driftsurf.keyed.record import TRANSITION, TransitionRecord
from driftsurf.keyed.rows import by_slot
from driftsurf.native import keys as native

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


@settings(deadline=None, max_examples=50)
@given(parts=st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5), min_size=1), max_size=6))
def test_integer_keys_find_their_slots(parts: list[list[int]]) -> None:
    keys, twin = Keys(), dict[int, int]()
    for part in parts:
        read = keys.read(np.array(part, np.int64))
        assert keys.find(read).tolist() == [twin.get(key, -1) for key in part]
        expected = [twin.setdefault(key, len(twin)) for key in part]
        assert keys.add(read).tolist() == expected
    assert keys.labels() == list(twin)
    if twin:
        assert keys.seeds(3, 0).tolist() == [key_seed(3, key) for key in twin]
        assert keys.seeds(3, len(twin)).tolist() == []
        keys.put_back((1, keys.kind))
        assert keys.labels() == list(twin)[:1]
        assert keys.find(keys.read(list(twin))).tolist() == [0] + [-1] * (len(twin) - 1)


def test_integer_keys_that_differ_in_high_bits_only_find_their_slots() -> None:
    keys = Keys()
    given = np.arange(2000) << 48
    assert keys.add(keys.read(given)).tolist() == list(range(2000))
    assert keys.find(keys.read(given[::-1])).tolist() == list(range(2000))[::-1]


@given(slots=st.lists(st.integers(0, 9), min_size=1), n_slots=st.sampled_from([10, 1000]))
@settings(deadline=None, max_examples=50)
def test_rows_by_slot_equal_a_stable_sort(slots: list[int], n_slots: int) -> None:
    touched, starts, order = by_slot(np.array(slots, np.int32), n_slots)
    assert touched.tolist() == sorted(set(slots))
    assert order.tolist() == np.argsort(slots, kind="stable").tolist()
    assert [slots[order[a]] for a in starts[:-1]] == touched.tolist()
    assert starts[-1] == len(slots)


def test_memory_that_does_not_belong_together_is_refused() -> None:
    numbers, small = np.zeros(3, np.int64), np.zeros(3, np.int32)
    table = np.full(4, -1, np.int32)
    with pytest.raises(ValueError, match="a table of 3 entries cannot have 3 keys"):
        native.find(numbers, small, numbers, small)
    with pytest.raises(ValueError, match="3 keys and 2 slots"):
        native.find(numbers, table, numbers, small[:2])
    with pytest.raises(ValueError, match="4 of 3 known keys"):
        native.add(numbers, table, numbers, 4, small)
    with pytest.raises(ValueError, match="2 seeds"):
        native.seeds_of(numbers, 0, np.zeros(2, np.uint64))
    with pytest.raises(ValueError, match="slots are from 0 to 2"):
        native.count_rows(np.array([3], np.int32), small)
    for rows, touched in (([0, 7, 0], [0]), ([0, 1, 0], [0]), ([0, 0, 0], [3])):
        counts, starts = np.array([3, 3, 0], np.int32), np.zeros(2, np.int64)
        with pytest.raises(ValueError, match="do not belong together"):
            native.lay_out(np.array(rows, np.int32), counts, np.array(touched), starts, np.zeros(3, np.int32))
    with pytest.raises(ValueError, match="1 slots have 3 starts"):
        native.lay_out(small, small.copy(), np.zeros(1, np.int64), numbers, np.zeros(3, np.int32))


def test_the_record_keeps_the_latest_transitions_by_whole_calls() -> None:
    record = TransitionRecord(limit=5)
    for call in range(4):
        part = np.zeros(3, TRANSITION)
        part["kind"], part["step"] = 0, call
        record.add(part)
        record.add(part[:0])
    assert record.table([0])["step"].tolist() == [2, 2, 2, 3, 3, 3]
    assert len(record.of_slot(0)) == 6


def test_seeds_of_keys_never_change() -> None:
    assert [key_seed(0, 1), key_seed(1, 1), key_seed(0, -1), key_seed(0, "1")] == [
        derive(0, 1),
        derive(1, 1),
        derive(0, -1),
        8263584012933098579,
    ]


def test_a_key_that_cannot_be_saved_is_refused_by_name() -> None:
    keys = Keys()
    with pytest.raises(InputError, match="ud800"):
        keys.read(["a", "\ud800"])
    assert keys.read(["é", "a"]) == ["é", "a"]
