"""Checks that every drift detector passes."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftsurf.checks._run import expect, flat, implements, run, same_state
from driftsurf.core.contracts import Detection, Detector, FloatArray
from driftsurf.errors import CapabilityError


def check_detector(detector: Detector) -> None:
    """Raise CheckError unless a detector implements :class:`driftsurf.core.contracts.Detector`.

    Examples
    --------
    >>> from driftsurf.detectors import MDDM
    >>> check_detector(MDDM())
    """
    run(detector, CHECKS)


def errors(*, before: float = 0.1, after: float = 0.8, rows: int = 2_000) -> FloatArray:
    """Return errors (1 = wrong) whose rate jumps in the middle."""
    return (np.random.default_rng(0).random(rows) < np.repeat([before, after], rows // 2)).astype(np.float64)


def first_signal(detector: Any, values: FloatArray, piece: int) -> int:
    """Feed values in pieces of this length; return how many were consumed up to the first signal, or -1."""
    for start in range(0, len(values), piece):
        found = detector.update(values[start : start + piece])
        if found:
            return start + int(found.consumed)
    return -1


# ---------------------------------------------------------------------------- the checks


def parameters_are_checked(detector: Any) -> None:
    """``check()`` accepts the parameters, and ``get_params()`` returns the arguments of the constructor."""
    detector.check()
    params = detector.get_params(deep=False)
    again = type(detector)(**params).get_params(deep=False)
    expect(again == params, f"{params} became {again}")


def template_is_not_changed(detector: Any) -> None:
    """``fresh()`` returns a new detector that has seen nothing, and leaves the template unchanged."""
    before = repr(vars(detector))
    made = detector.fresh()
    expect(made is not detector, "fresh() returned the template itself")
    expect(not made.drift and not made.warning, f"a fresh one has drift={made.drift}, warning={made.warning}")
    made.update(errors())
    expect(
        repr(vars(detector)) == before, f"feeding a fresh one changed the template: {before} became {vars(detector)}"
    )


def silent_without_errors(detector: Any) -> None:
    """2,000 right predictions (0) cause no signal."""
    place = first_signal(detector.fresh(), np.zeros(2_000), 100)
    expect(place < 0, f"a signal at value {place}")


def more_errors_are_a_drift(detector: Any) -> None:
    """Errors (1 = wrong) that rise from 10 % to 80 % are signalled within 1,000 values, and not before."""
    place = first_signal(detector.fresh(), errors(), 100)
    expect(place > 0, "no signal; the values are errors, 1 for a wrong prediction")
    expect(place > 1_000, f"a signal at value {place}, before the change at 1000")


def update_stops_at_the_signal(detector: Any) -> None:
    """``update()`` consumes values up to the first signal, however they are split over calls."""
    values = errors()
    places = {piece: first_signal(detector.fresh(), values, piece) for piece in (1, 7, len(values))}
    expect(len(set(places.values())) == 1, f"by the length of a call the signal came at {places}")


def all_values_are_consumed_without_a_signal(detector: Any) -> None:
    """Without a signal ``update()`` has consumed all values, also of an empty array."""
    made = detector.fresh()
    for count in (0, 1, 50):
        consumed = made.update(np.zeros(count)).consumed
        expect(consumed == count, f"{consumed} of {count} values were consumed")


def update_is_true_only_at_a_signal(detector: Any) -> None:
    """``update()`` returns a Detection, which is true exactly when ``drift`` is, for one value and for many."""
    made, values = detector.fresh(), errors()
    for piece in (values[0], values[1:50], *values[50:]):
        found = made.update(piece)
        expect(isinstance(found, Detection), f"update() returned {found!r}; return Detection(consumed, drift)")
        expect(bool(found) == found.drift == made.drift, f"update() returned {found!r}, but drift is {made.drift}")


def it_continues_after_a_signal(detector: Any) -> None:
    """The update after a signal starts without the signal."""
    made = detector.fresh()
    first_signal(made, errors(), 100)
    made.update(np.zeros(1))
    expect(not made.drift, "drift is still True after a right prediction")


def reset_forgets(detector: Any) -> None:
    """After ``reset()`` a detector behaves as a fresh one."""
    made, values = detector.fresh(), errors()
    first = first_signal(made, values, 100)
    made.reset()
    expect(not made.drift, "drift is still True")
    again = first_signal(made, values, 100)
    expect(again == first, f"the signal came at {first}, and after reset() at {again}")


def missing_values_are_ignored(detector: Any) -> None:
    """NaN is consumed and changes nothing."""
    values, made = errors(), detector.fresh()
    place = first_signal(detector.fresh(), values, 100)
    found = first_signal(made, np.insert(values, 500, np.nan), 100)
    expect(found == place + 1, f"with a NaN at 500 the signal came at {found}, not at {place + 1}")


def state_is_exact(detector: Any) -> None:
    """``from_state(template, state())`` continues bit for bit, or ``state()`` raises CapabilityError."""
    values, made = errors(), detector.fresh()
    made.update(values[:700])
    try:
        state = flat(made.state())
    except CapabilityError:
        return
    again = type(detector).from_state(detector, state)
    expect(same_state(flat(again.state()), state), "the restored detector has another state")
    places = [first_signal(one, values[700:], 100) for one in (made, again)]
    expect(places[0] == places[1], f"the signal came at {places[0]}, and after restoring at {places[1]}")
    expect(same_state(flat(made.state()), flat(again.state())), "after further values the states differ")


CHECKS = (
    implements(Detector, "detector"),
    parameters_are_checked,
    template_is_not_changed,
    update_is_true_only_at_a_signal,
    silent_without_errors,
    more_errors_are_a_drift,
    update_stops_at_the_signal,
    all_values_are_consumed_without_a_signal,
    it_continues_after_a_signal,
    reset_forgets,
    missing_values_are_ignored,
    state_is_exact,
)
