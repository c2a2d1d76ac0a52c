"""Frozen values are replaced as dataclasses.replace would, faster."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pytest

from driftsurf._values import replace
from driftsurf.base import Segment


@dataclass(frozen=True)
class WithoutSlots:
    a: int
    b: tuple[int, ...] = ()


def test_it_equals_that_of_dataclasses() -> None:
    for value, changes in ((Segment(1, 5), {"lo": 2}), (WithoutSlots(1, (2,)), {"b": (3,)}), (Segment(1, 2), {})):
        assert replace(value, **changes) == dataclasses.replace(value, **changes)


def test_the_old_value_stays() -> None:
    value = WithoutSlots(1)
    assert replace(value, a=2) == WithoutSlots(2)
    assert value == WithoutSlots(1)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(TypeError, match="Segment has no middle"):
        replace(Segment(1, 5), middle=3)
