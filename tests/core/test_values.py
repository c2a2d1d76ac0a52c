"""``replace`` for immutable dataclasses agrees with that of the standard library."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pytest

from driftsurf.core.changes import replace


@dataclass(frozen=True)
class Value:
    a: int
    b: tuple[int, ...] = ()


def test_it_agrees_with_dataclasses() -> None:
    for changes in ({"a": 2}, {"b": (3,)}, {"a": 2, "b": ()}, {}):
        assert replace(Value(1, (2,)), **changes) == dataclasses.replace(Value(1, (2,)), **changes)


def test_the_original_is_unchanged() -> None:
    value = Value(1)
    assert replace(value, a=2) == Value(2)
    assert value == Value(1)


def test_an_unknown_attribute_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Value.*middle"):
        replace(Value(1), middle=3)
