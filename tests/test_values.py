"""Frozen values are replaced as dataclasses.replace would, faster."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pytest

from driftsurf._values import replace


@dataclass(frozen=True)
class Value:
    a: int
    b: tuple[int, ...] = ()


def test_it_equals_that_of_dataclasses() -> None:
    for changes in ({"a": 2}, {"b": (3,)}, {"a": 2, "b": ()}, {}):
        assert replace(Value(1, (2,)), **changes) == dataclasses.replace(Value(1, (2,)), **changes)


def test_the_old_value_stays() -> None:
    value = Value(1)
    assert replace(value, a=2) == Value(2)
    assert value == Value(1)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(TypeError, match="Value has no middle"):
        replace(Value(1), middle=3)
