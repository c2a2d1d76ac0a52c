"""Declared entries: what is refused, and by which name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from driftsurf.core.contracts import Pickled
from driftsurf.core.fields import (
    AnyArray,
    Array,
    Choice,
    Converted,
    FieldEntry,
    FieldRule,
    Fields,
    Foreign,
    Json,
    Real,
    Text,
    Truth,
    Whole,
)
from driftsurf.core.state import nest, pick
from driftsurf.errors import StateError


@pytest.mark.parametrize(
    ("entry", "good", "bad"),
    [
        (Whole(), [0, 2**62], [-1, 2**62 + 1, True, 1.0, "1", None, np.int64(1)]),
        (Whole(-1, 5), [-1, 5], [-2, 6]),
        (Real(), [0.0, -1e300], [math.nan, math.inf, 1, True, "1"]),
        (Real(0.0, 1.0), [0.0, 1.0], [-1e-9, 1.1]),
        (Real(finite=False), [math.inf, -math.inf], [math.nan]),
        (Real(missing=True), [math.nan, 1.0], [math.inf]),
        (Truth(), [True, False], [0, 1, "true", None]),
        (Text(), ["", "a"], [1, None, b"a"]),
        (Choice((0.0, "a")), [0.0, "a"], [0, False, "b", np.zeros(2)]),
        (Foreign(), [Pickled("a set", {1})], [{1}, None]),
        (AnyArray(), [np.zeros(1), np.zeros((2, 2), bool)], [np.array(1.0), [1.0]]),
        (Json(list), ["[]", "[1]"], ["1", "{", "nan" * 9, 3, "[" * 10**5]),
        (Converted(int), ["1"], ["one", 1]),
        (
            Array(np.float64, ("*",)),
            [np.zeros(0), np.zeros(5)],
            [np.zeros((1, 1)), np.zeros(2, "f4"), np.array([math.nan])],
        ),
        (Array(np.float64, (2, 3)), [np.zeros((2, 3))], [np.zeros((3, 2)), np.zeros(6)]),
        (Array(np.float64, ("*",), 0.0, 1.0), [np.array([0.0, 1.0])], [np.array([-0.1]), np.array([1.1])]),
        (Array(np.float64, ("*",), 0.0, 1.0, missing=True), [np.full(3, math.nan)], [np.array([math.inf, math.nan])]),
        (Array(np.int64, ("*",), least=0), [np.arange(3)], [np.array([-1]), np.arange(3, dtype=np.int32)]),
    ],
)
def test_values_as_declared_are_read_and_others_are_refused(entry: FieldEntry, good: list[Any], bad: list[Any]) -> None:
    fields = Fields({"value": entry})
    for value in good:
        fields.read({"value": value})
    for value in bad:
        with pytest.raises(StateError) as error:
            fields.read({"value": value})
        assert error.value.entry == "value"


SIZES = Fields(
    {
        "n": Whole(),
        "kind": Choice(("float32", "float64")),
        "a": Array("kind", ("n", "width")),
        "b": Array(np.int32, ("width+1",), most="n-1"),
    },
    optional=["b"],
    parts=["part", "many*"],
    rules=[FieldRule("a", "must not be empty", lambda known: known["a"].size)],
)


@pytest.mark.parametrize(
    ("change", "entry"),
    [
        ({}, ""),
        ({"b": np.zeros(3, np.int32)}, ""),
        ({"part.x": 1, "many3.x": 1, "many.x": 1}, ""),
        ({"n": 3}, "a"),
        ({"kind": "float64"}, "a"),
        ({"b": np.zeros(2, np.int32)}, "b"),
        ({"b": np.full(3, 4, np.int32)}, "b"),
        ({"a": np.zeros((4, 0), np.float32)}, "a"),
        ({"part": 1}, "part"),
        ({"other.x": 1}, "other.x"),
    ],
)
def test_shapes_and_limits_follow_from_other_entries(change: dict[str, Any], entry: str) -> None:
    state = {"n": 4, "kind": "float32", "a": np.zeros((4, 2), np.float32)} | change
    if not entry:
        assert SIZES.read(state)["width"] == 2
        return
    with pytest.raises(StateError) as error:
        SIZES.read(state)
    assert error.value.entry == entry


def test_the_error_has_the_full_name_and_known_sizes_count() -> None:
    fields = Fields({"row": Whole(0, "rows-1")})
    assert fields.read({"row": 2}, rows=3)["row"] == 2
    whole = nest("session", nest("model", {"row": 3}))
    with pytest.raises(StateError) as error:
        fields.read(pick("model", pick("session", whole)), rows=3)
    assert error.value.entry == "session.model.row"
    assert "'session.model.row'" in str(error.value)
    with pytest.raises(StateError) as error:
        fields.read(pick("model", pick("session", {})), rows=3)
    assert error.value.entry == "session.model.row"


def test_entries_beside_those_of_another_declaration_are_taken() -> None:
    own, other = Fields({"a": Whole()}), Fields({"b": Whole()})
    known, rest = own.take(pick("x", {"x.a": 1, "x.b": -1}))
    assert known["a"] == 1
    with pytest.raises(StateError) as error:
        other.read(rest)
    assert error.value.entry == "x.b"


def test_a_rule_that_cannot_be_evaluated_does_not_hold() -> None:
    fields = Fields({"a": Whole()}, rules=[FieldRule("a", "must divide", lambda known: 1 / known["a"])])
    with pytest.raises(StateError):
        fields.read({"a": 0})


def test_unknown_entries_are_refused_whatever_their_names_look_like() -> None:
    fields = Fields({"a": Whole(), "b": Whole()}, optional=["b"], parts=["part"])
    fields.read(pick("x", {"x.a": 1, "x.part.c": 2}))
    for name in (".a", ".b", "c", "other.a", ".", "", "part", "a.part", ".part.c"):
        for state in ({"a": 1, name: 2}, {"a": 1, "part.c": 3, name: 2}):
            for part in (state, pick("x", nest("x", state))):
                with pytest.raises(StateError) as error:
                    fields.read(part)
                assert error.value.entry.endswith(name)


def test_declared_names_with_a_dot_hide_no_unknown_entry() -> None:
    fields = Fields({"a": Whole(), "part.b": Whole()}, parts=["part"])
    fields.read({"a": 1, "part.b": 2, "part.c": 3})
    with pytest.raises(StateError) as error:
        fields.read({"a": 1, "part.b": 2, "c": 3})
    assert error.value.entry == "c"
