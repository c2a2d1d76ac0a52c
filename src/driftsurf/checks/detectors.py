"""What every drift detector has to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftsurf.base import Detector, FloatArray
from driftsurf.checks._run import expect, flat, run, same_state
from driftsurf.errors import CapabilityError

__all__ = ["check_detector"]


def check_detector(detector: Detector) -> None:
    """Raise CheckError unless ``detector`` does what :class:`driftsurf.base.Detector` says.

    Examples
    --------
    >>> from driftsurf.detectors import MDDM
    >>> check_detector(MDDM())
    """
    run(detector, CHECKS)


def errors(*, before: float = 0.1, after: float = 0.8, rows: int = 2_000) -> FloatArray:
    """Errors whose rate jumps in the middle."""
    return (np.random.default_rng(0).random(rows) < np.repeat([before, after], rows // 2)).astype(np.float64)


def told(detector: Any, values: FloatArray, piece: int) -> int:
    """How many values it took to the first signal, given in pieces; -1 for none."""
    for start in range(0, len(values), piece):
        taken = detector.update(values[start : start + piece])
        if detector.drift:
            return start + int(taken)
    return -1


def options_are_checked(detector: Any) -> None:
    """check() passes, and get_params() are the arguments of the constructor."""
    detector.check()
    params = detector.get_params(deep=False)
    expect(type(detector)(**params).get_params(deep=False) == params, f"{params} made another one")


def template_is_not_changed(detector: Any) -> None:
    """fresh() gives a new one that has seen nothing, and leaves the template as it was."""
    before = repr(vars(detector))
    made = detector.fresh()
    expect(made is not detector, "fresh() gave the template itself")
    expect(not made.drift and not made.warning, "a fresh one signals")
    made.update(errors())
    expect(repr(vars(detector)) == before, "using a fresh one changed the template")


def silent_without_errors(detector: Any) -> None:
    """2,000 right predictions (0) are no drift."""
    place = told(detector.fresh(), np.zeros(2_000), 100)
    expect(place < 0, f"it signalled at value {place}")


def more_errors_are_a_drift(detector: Any) -> None:
    """errors (1 = wrong) that go from 10 % to 80 % are signalled within 1,000 values, and not before."""
    place = told(detector.fresh(), errors(), 100)
    expect(place > 0, "no signal: are its values errors, 1 for a wrong prediction?")
    expect(place > 1_000, f"it signalled at value {place}, before the change at 1000")


def it_stops_at_the_signal(detector: Any) -> None:
    """update() takes values up to the first signal and says how many, however they are cut."""
    values = errors()
    places = {piece: told(detector.fresh(), values, piece) for piece in (1, 7, len(values))}
    expect(len(set(places.values())) == 1, f"by the size of the pieces it signalled at {places}")


def all_values_are_taken_without_a_signal(detector: Any) -> None:
    """update() of values that give no signal returns their number, also of none."""
    made = detector.fresh()
    for count in (0, 1, 50):
        taken = made.update(np.zeros(count))
        expect(taken == count, f"of {count} values it took {taken}")


def it_begins_anew_after_a_signal(detector: Any) -> None:
    """after a signal the next update goes on without it."""
    made = detector.fresh()
    told(made, errors(), 100)
    made.update(np.zeros(1))
    expect(not made.drift, "it still signals after a right prediction")


def reset_forgets(detector: Any) -> None:
    """after reset() it is as a fresh one."""
    made, values = detector.fresh(), errors()
    first = told(made, values, 100)
    made.reset()
    expect(not made.drift, "it still signals")
    again = told(made, values, 100)
    expect(again == first, f"it signalled at {first}, and after reset() at {again}")


def gaps_say_nothing(detector: Any) -> None:
    """NaN is passed over, and whatever comes in does not blind it."""
    values, made = errors(), detector.fresh()
    place = told(detector.fresh(), values, 100)
    gaps = told(made, np.insert(values, 500, np.nan), 100)
    expect(gaps == place + 1, f"with one NaN at 500 it signalled at {gaps}, not at {place + 1}")


def state_is_exact(detector: Any) -> None:
    """from_state(template, state()) goes on bit for bit, or state() is refused with a CapabilityError."""
    values, made = errors(), detector.fresh()
    made.update(values[:700])
    try:
        state = flat(made.state())
    except CapabilityError:
        return
    again = type(detector).from_state(detector, state)
    expect(same_state(flat(again.state()), state), "state() of what from_state() made is another")
    places = [told(one, values[700:], 100) for one in (made, again)]
    expect(places[0] == places[1], f"one signalled at {places[0]}, the other at {places[1]}")
    expect(same_state(flat(made.state()), flat(again.state())), "they part with the next values")


CHECKS = (
    options_are_checked,
    template_is_not_changed,
    silent_without_errors,
    more_errors_are_a_drift,
    it_stops_at_the_signal,
    all_values_are_taken_without_a_signal,
    it_begins_anew_after_a_signal,
    reset_forgets,
    gaps_say_nothing,
    state_is_exact,
)
