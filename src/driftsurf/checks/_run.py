"""Run checks one after the other, and the assertions that they are written with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from driftsurf.core.abilities import check_contract
from driftsurf.core.contracts import Pickled
from driftsurf.errors import CapabilityError, CheckError

Check = Callable[[Any], None]


def run(subject: Any, checks: Iterable[Check]) -> None:
    """Run all checks; CheckError names the first one that fails."""
    for check in checks:
        try:
            check(subject)
        except Exception as error:
            found = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            rule = (check.__doc__ or check.__name__).strip().partition("\n")[0]
            raise CheckError(f"{subject!r} fails {check.__name__}: {rule} Found: {found}") from error


def implements(contract: type, name: str) -> Check:
    """Return the check that a part has every member of its contract."""

    def has_every_member(part: Any) -> None:
        """Every member of the contract is there."""
        check_contract(part, contract, name, "an object that has them all", most=len(dir(contract)))

    return has_every_member


def expect(holds: bool, otherwise: str) -> None:
    """Raise AssertionError with a description of what was found, unless a condition holds."""
    if not holds:
        raise AssertionError(otherwise)


def expect_same(one: Any, other: Any, otherwise: str) -> None:
    """Raise AssertionError unless two arrays are equal, bit for bit."""
    expect(np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True), otherwise)


def expect_error(kind: type[Exception], call: Callable[[], Any], what: str) -> None:
    """Raise AssertionError unless a call raises an error of this kind."""
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{what} raised no {kind.__name__}")


def expect_refusal(call: Callable[[], Any], what: str) -> None:
    """Raise AssertionError unless a call raises CapabilityError."""
    expect_error(CapabilityError, call, what)


def flat(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a state; AssertionError if an entry cannot be saved."""
    for name, value in state.items():
        expect(
            isinstance(name, str) and isinstance(value, bool | int | float | str | np.ndarray | Pickled),
            f"state()[{name!r}] is a {type(value).__name__}; a state is flat: numbers, text and arrays",
        )
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in state.items()}


def same_state(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two states are equal, bit for bit."""
    return one.keys() == other.keys() and all(
        np.array_equal(value, other[name], equal_nan=True)
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
        # A scalar may be NaN, which is not equal to itself.
        else np.array_equal(value, other[name]) or (value != value and other[name] != other[name])
        for name, value in one.items()
    )
