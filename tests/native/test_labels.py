"""Codes of labels: equal to what numpy finds, for every type of array and for lists, and nothing else is taken."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftsurf.native.labels import LabelCodes

KINDS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]


@given(
    labels=st.lists(st.integers(-100, 100) | st.integers(-(2**61), 2**61), min_size=1, max_size=9, unique=True),
    places=st.lists(st.integers(0, 8), max_size=30),
    kind=st.sampled_from(KINDS),
)
@settings(max_examples=300, deadline=None)
def test_numbers_of_every_type_have_the_code_of_their_label(labels: list[int], places: list[int], kind: str) -> None:
    known = LabelCodes(tuple(labels))
    y = [labels[place % len(labels)] for place in places]
    expected = [float(labels.index(label)) for label in y]
    for given_labels in (y, tuple(y), np.array(y, np.int64), np.array(y, object), np.repeat(np.array(y, "i8"), 2)[::2]):
        codes = known.codes(given_labels, len(y))
        assert codes is not None
        assert codes.tolist() == expected
    with np.errstate(all="ignore"):
        array = np.array(y, np.int64).astype(kind)
    codes = known.codes(array, len(y))
    if array.astype(object).tolist() == y and max(map(abs, y), default=0) < 2**53:
        assert codes is not None
        assert codes.tolist() == expected
    elif codes is not None:
        assert [labels[int(code)] for code in codes] == [int(value) for value in array.tolist()]


@given(
    labels=st.lists(st.text("ab\x00é😀", max_size=4).map(lambda one: one.rstrip("\x00")), min_size=1, unique=True),
    places=st.lists(st.integers(0, 50), max_size=30),
    width=st.integers(4, 9),
)
@settings(max_examples=300, deadline=None)
def test_text_has_the_code_of_its_label(labels: list[str], places: list[int], width: int) -> None:
    known = LabelCodes(tuple(labels))
    y = [labels[place % len(labels)] for place in places]
    expected = [float(labels.index(label)) for label in y]
    array = np.array(y, f"U{width}")
    for given_labels in (y, array, np.array(y, object), np.repeat(array, 3)[::3]):
        codes = known.codes(given_labels, len(y))
        assert codes is not None
        assert codes.tolist() == expected
    assert known.codes(np.array([*y, "other"]), len(y) + 1) is None


@pytest.mark.parametrize("labels", [(False, True), (0, 1), (0.0, 1.0)])
def test_booleans_and_whole_numbers_are_the_same_labels(labels: tuple[Any, ...]) -> None:
    known = LabelCodes(labels)
    for y in ([True, 0], [1.0, False], np.array([True, False]), np.array([1.0, 0.0]), [np.int64(1), np.bool_(False)]):
        codes = known.codes(y, 2)
        assert codes is not None
        assert codes.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    "y",
    [
        [0, 2],
        [0, None],
        [0, "1"],
        [0, float("nan")],
        [0, 0.5],
        [0, Decimal(1)],
        [0, [1]],
        [0, 2**70],
        [0],
        [0, 1, 1],
        "01",
        b"01",
        range(2),
        np.array([0, 2]),
        np.array([0.0, np.nan]),
        np.array([0.0, np.inf]),
        np.array([0.0, 0.5]),
        np.array([0, 2**64 - 1], np.uint64),
        np.array(["0", "1"]),
        np.array([b"0", b"1"]),
        np.array([0, None]),
        np.array([0j, 1j]),
        np.array([0, 1], ">i8"),
        np.array([0, 1], "m8[s]"),
        np.array([datetime.datetime(2020, 1, 1)] * 2, "M8[s]"),
        np.zeros((2, 1), np.int64),
        np.zeros((1, 2), np.int64),
        np.zeros(3, np.int64),
        np.zeros(2, np.float16),
        np.zeros(2, [("a", "i8")]),
        np.frombuffer(bytes(17), np.uint8)[1:].view(np.int64),
        np.ma.masked_array([0, 1], [True, False]),
        None,
        1,
    ],
)
def test_anything_else_is_left_to_the_checks(y: Any) -> None:
    assert LabelCodes((0, 1)).codes(y, 2) is None
    assert LabelCodes(("a", "b")).codes(y, 2) is None


def test_labels_that_are_not_whole_or_too_large_are_found_in_lists_only() -> None:
    for labels in ((0.5, 1.0), (1, 2**62), (1e300, 2.0)):
        known = LabelCodes(labels)
        found = known.codes(list(labels), 2)
        assert found is not None
        assert found.tolist() == [0.0, 1.0]
        assert known.codes(np.array(labels), 2) is None


def test_without_labels_nothing_is_known() -> None:
    assert LabelCodes(()).codes([], 0) is None
    empty = LabelCodes((0, 1)).codes(np.zeros(0, np.int64), 0)
    assert empty is not None
    assert empty.tolist() == []


def test_tables_can_be_pickled() -> None:
    known = pickle.loads(pickle.dumps(LabelCodes(("b", "a"))))
    assert known.codes(["a", "b"], 2).tolist() == [1.0, 0.0]
