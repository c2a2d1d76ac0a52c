"""Running checks one after the other, and the small things that they ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from driftsurf.errors import CapabilityError, CheckError

Check = Callable[[Any], None]


def run(subject: Any, checks: Iterable[Check]) -> None:
    """Run all; CheckError names the first that fails."""
    for check in checks:
        try:
            check(subject)
        except Exception as error:
            what = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            rule = (check.__doc__ or check.__name__).strip().rstrip(".")
            raise CheckError(f"{subject!r} fails {check.__name__} ({rule}): {what}") from error


def expect(holds: bool, otherwise: str) -> None:
    """AssertionError with what came instead."""
    if not holds:
        raise AssertionError(otherwise)


def expect_same(one: Any, other: Any, what: str) -> None:
    """Two arrays are equal, bit for bit."""
    expect(np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True), what)


def expect_refusal(call: Callable[[], Any], what: str) -> None:
    """The call raises CapabilityError."""
    try:
        call()
    except CapabilityError:
        return
    raise AssertionError(f"{what} gave no CapabilityError")


def flat(state: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a state, after a look at what is in it."""
    for name, value in state.items():
        expect(
            isinstance(name, str) and isinstance(value, bool | int | float | str | np.ndarray),
            f"state()[{name!r}] is a {type(value).__name__}; a state is flat: numbers, text and arrays",
        )
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in state.items()}


def same_state(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two states hold the same, bit for bit."""
    return one.keys() == other.keys() and all(
        np.array_equal(value, other[name], equal_nan=True)
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
        # NaN is a number of some states, and equal to nothing.
        else np.array_equal(value, other[name]) or (value != value and other[name] != other[name])
        for name, value in one.items()
    )
