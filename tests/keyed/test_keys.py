"""Slots and seeds of keys, rows by slot, and the record of transitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftsurf.core.random import derive
from driftsurf.errors import InputError
from driftsurf.keyed import key_seed
from driftsurf.keyed.compiled.layout import TRANSITION
from driftsurf.keyed.compiled.record import TransitionRecord
from driftsurf.keyed.keys import Keys, by_slot

# As Python, uint64 products wrap with a warning of numpy's.
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning"),
]


@pytest.mark.python_kernels
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


@pytest.mark.python_kernels
def test_integer_keys_that_differ_in_high_bits_only_find_their_slots() -> None:
    keys = Keys()
    given = np.arange(2000) << 48
    assert keys.add(keys.read(given)).tolist() == list(range(2000))
    assert keys.find(keys.read(given[::-1])).tolist() == list(range(2000))[::-1]


@pytest.mark.python_kernels
@given(slots=st.lists(st.integers(0, 9), min_size=1), n_slots=st.sampled_from([10, 1000]))
@settings(deadline=None, max_examples=50)
def test_rows_by_slot_equal_a_stable_sort(slots: list[int], n_slots: int) -> None:
    touched, starts, order = by_slot(np.array(slots, np.int32), n_slots)
    assert touched.tolist() == sorted(set(slots))
    assert order.tolist() == np.argsort(slots, kind="stable").tolist()
    assert [slots[order[a]] for a in starts[:-1]] == touched.tolist()
    assert starts[-1] == len(slots)


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
