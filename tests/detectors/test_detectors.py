"""Checks that every detector passes: signals, missing and extreme values, copies, state, parameters."""

from __future__ import annotations

import copy
import math
import pickle
import re
import sys
import threading
from typing import Any

import numpy as np
import pytest
from detector_streams import same_state, signals, stream

from driftsurf import detectors
from driftsurf.core.contracts import Detector
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.detectors import ADWIN, DDM, EDDM, FHDDM, MDDM, PageHinkley
from driftsurf.errors import OptionError, ShapeError, StateError, ValueTypeError

TEMPLATES: list[Any] = [
    MDDM(),
    MDDM(weighting="arithmetic"),
    MDDM(weighting="euler", window=40, delta=1e-3),
    FHDDM(),
    DDM(),
    EDDM(),
    ADWIN(),
    ADWIN(increase_only=True, clock=7, max_buckets=2),
    PageHinkley(),
]
every_detector = pytest.mark.parametrize("template", TEMPLATES, ids=repr)


def test_all_public_detectors_are_covered() -> None:
    assert {type(template).__name__ for template in TEMPLATES} == set(detectors.__all__)


@every_detector
def test_a_template_holds_parameters_and_makes_fresh_copies(template: Detector) -> None:
    assert vars(template) == template.get_params()
    used = template.fresh()
    used.update(stream((0.1, 300)))
    again = used.fresh()
    assert again.get_params() == template.get_params() == used.get_params()
    assert vars(again) == vars(template)
    exported = {name: getattr(detectors, name) for name in detectors.__all__}
    assert eval(repr(template), exported).get_params() == template.get_params()


@every_detector
def test_an_abrupt_rise_is_detected_soon(template: Detector) -> None:
    found = signals(template.fresh(), stream((0.1, 1000), (0.5, 300), seed=2))
    assert any(1000 < position <= 1150 for position in found)


@every_detector
@pytest.mark.parametrize("period", [[0], [1], [0, 0, 0, 0, 1], [1, 1, 0]], ids=repr)
def test_evenly_spread_errors_are_no_drift(template: Detector, period: list[int]) -> None:
    assert signals(template.fresh(), np.resize(period, 1500)) == []


@pytest.mark.parametrize("template", [t for t in TEMPLATES if t.get_params().get("increase_only", True)], ids=repr)
def test_fewer_errors_are_no_drift(template: Detector) -> None:
    values = np.append(np.resize([0, 1], 500), np.resize([0, 0, 0, 0, 1], 500))
    assert signals(template.fresh(), values) == []


@every_detector
def test_the_result_of_an_update_is_true_only_for_a_drift(template: Detector) -> None:
    values = stream((0.2, 1000), (0.7, 300), seed=2)
    by_one, at_once = template.fresh(), template.fresh()
    places = [place for place, value in enumerate(values, start=1) if by_one.update(value)]
    assert places[:1] == [at_once.update(values).consumed]
    assert len(places) < len(values) / 10
    assert not template.fresh().update(values[:20])


@every_detector
def test_an_update_stops_at_a_signal_that_lasts_until_the_next_update(template: Detector) -> None:
    values = stream((0.2, 1000), (0.7, 300), seed=2)
    detector = template.fresh()
    assert (detector.drift, detector.warning) == (False, False)
    assert detector.update(values).consumed < len(values)
    assert (detector.drift, detector.warning) == (True, False)
    assert detector.update([]) == (0, False)
    assert (detector.drift, detector.warning) == (False, False)
    if not isinstance(template, ADWIN):
        assert same_state(detector, template.fresh())


@every_detector
@pytest.mark.parametrize("most", [1, 7, 100])
def test_the_split_over_updates_does_not_matter(template: Detector, most: int) -> None:
    values = stream((0.1, 500), (0.5, 400), (0.1, 300))
    whole, parts = template.fresh(), template.fresh()
    assert signals(whole, values) == signals(parts, values, most)
    assert same_state(whole, parts)


@every_detector
def test_nan_changes_nothing(template: Detector) -> None:
    values = stream((0.1, 500), (0.5, 400))
    plain, gaps = template.fresh(), template.fresh()
    found = signals(plain, values)
    at = signals(gaps, np.repeat(values, 2) * np.tile([np.nan, 1.0], len(values)))
    assert at == [2 * position for position in found]
    assert same_state(plain, gaps)
    assert gaps.update([np.nan, np.nan]).consumed == 2


@every_detector
@pytest.mark.parametrize("where", [0, 10, 300])
@pytest.mark.parametrize(
    "extreme", [[np.inf], [-np.inf, np.inf], [1e300, np.nan], [-1e300], [1e9], [1e6], [-1e4], [5.0]], ids=repr
)
def test_after_extreme_values_it_is_finite_and_still_detects(
    template: Detector, where: int, extreme: list[float]
) -> None:
    values = np.insert(stream((0.2, 1000), (0.7, 300), seed=2), where, extreme)
    detector = template.fresh()
    found = signals(detector, values)
    assert any(1000 < position <= 1200 for position in found)
    for entry in detector.state().values():
        assert np.isfinite(np.asarray(entry)).all()


@every_detector
def test_extreme_values_alone_are_survived(template: Detector) -> None:
    detector = template.fresh()
    signals(detector, np.tile([np.inf, -np.inf, 1e308, -1e308, np.nan], 300))
    for entry in detector.state().values():
        assert np.isfinite(np.asarray(entry)).all()
    assert any(position > 1000 for position in signals(detector, stream((0.2, 1000), (0.7, 300), seed=2)))


@every_detector
@pytest.mark.parametrize("at", [0, 1, 29, 130, 555, 1037])
def test_it_continues_from_its_saved_state_bit_for_bit(template: Any, at: int) -> None:
    values = stream((0.1, 1000), (0.5, 400), (0.3, 100))
    detector = template.fresh()
    signals(detector, values[:at])
    saved = from_bytes(to_bytes(detector.state()))
    restored = type(template).from_state(template, saved)
    assert (restored.drift, restored.warning) == (detector.drift, detector.warning)
    assert same_state(restored, detector)
    other = template.fresh()
    other.update(stream((0.4, 77)))
    other.restore(saved)
    expected = signals(detector, values[at:])
    assert signals(restored, values[at:]) == signals(other, values[at:]) == expected
    assert same_state(restored, detector)
    assert same_state(other, detector)


@every_detector
def test_a_signal_survives_saving(template: Any) -> None:
    detector = template.fresh()
    detector.update(stream((0.2, 1000), (0.7, 300), seed=2))
    assert type(template).from_state(template, detector.state()).drift


@every_detector
def test_a_copy_is_independent(template: Detector) -> None:
    detector = template.fresh()
    detector.update(stream((0.2, 333)))
    saved = to_bytes(detector.state())
    copy.deepcopy(detector).update(np.ones(50))
    assert to_bytes(detector.state()) == saved


def test_a_copy_shares_no_mutable_object() -> None:
    class Listing(DDM):
        def __init__(self) -> None:
            super().__init__()
            self.seen = [np.zeros(1)]

    detector = Listing()
    copy.deepcopy(detector).seen[0][0] = 1.0
    assert detector.seen[0][0] == 0.0


@every_detector
def test_reset_forgets_all_values(template: Detector) -> None:
    detector = template.fresh()
    detector.update(stream((0.2, 1000), (0.7, 300), seed=2))
    detector.reset()
    assert same_state(detector, template.fresh())


@every_detector
def test_a_forged_state_is_refused_and_changes_nothing(template: Detector) -> None:
    detector = template.fresh()
    detector.update(stream((0.2, 333)))
    state, saved = detector.state(), to_bytes(detector.state())
    for name, entry in state.items():
        with pytest.raises(StateError, match=f"'{name}'"):
            detector.restore({key: value for key, value in state.items() if key != name})
        bad: list[Any] = ["text", 1, np.zeros((2, 2)), math.nan, np.full(3, np.nan), np.full(1000, 0.5)]
        if isinstance(entry, np.ndarray) and entry.dtype == np.int64:
            bad += [-entry, entry + 9, entry[:-1], np.ones(55, np.int64)]
        for wrong in bad:
            with pytest.raises(StateError):
                detector.restore({**state, name: wrong})
    with pytest.raises(StateError):
        detector.restore({**state, "level": 7.0})
    assert to_bytes(detector.state()) == saved


@every_detector
def test_numbers_of_any_type_are_accepted(template: Detector) -> None:
    values = stream((0.2, 300), (0.7, 100), seed=2)
    expected = template.fresh()
    found = signals(expected, values)
    flags = values == 1.0
    for given_as in (flags, flags.astype(np.int8), values.astype(np.float32), np.repeat(values, 2)[::2]):
        detector = template.fresh()
        assert signals(detector, given_as) == found
        assert same_state(detector, expected)
    masked = np.ma.masked_array([0, 1, 0], mask=[False, True, False])
    for given_as, same in (([False, None, False], [0, 0]), (masked, [0, 0]), ([10**30], [np.inf]), (1, [1])):
        left, right = template.fresh(), template.fresh()
        left.update(given_as)  # type: ignore[arg-type]
        right.update(np.clip(same, 0, 1e30))
        assert same_state(left, right)


@every_detector
def test_values_that_are_not_numbers_are_refused_and_change_nothing(template: Detector) -> None:
    detector = template.fresh()
    detector.update(stream((0.2, 333)))
    saved = to_bytes(detector.state())
    bad: list[Any] = [["wrong"], [1j], [[0], [1, 0]], [10**400], [object()], np.array(["2020-01-01"], "M8[D]")]
    for values in bad:
        with pytest.raises(ValueTypeError):
            detector.update(values)
    with pytest.raises(ShapeError, match=r"\(3, 1\)"):
        detector.update(np.zeros((3, 1)))
    assert to_bytes(detector.state()) == saved


BAD_OPTIONS: list[tuple[Any, str, str]] = [
    (MDDM(weighting="linear"), "weighting", "'linear'"),  # type: ignore[arg-type]
    (MDDM(window=0), "window", "0"),
    (MDDM(window=100.0), "window", "100.0"),  # type: ignore[arg-type]
    (MDDM(delta=1), "delta", "1"),
    (MDDM(growth=-0.1), "growth", "-0.1"),
    (MDDM(window=5), "window", "5"),
    (FHDDM(delta=0.0), "delta", "0.0"),
    (DDM(min_rows=True), "min_rows", "True"),
    (DDM(warning_level=0.5), "warning_level", "0.5"),
    (DDM(drift_level=math.inf), "drift_level", "inf"),
    (DDM(warning_level=4.0), "warning_level", "4.0"),
    (EDDM(min_errors=0), "min_errors", "0"),
    (EDDM(min_errors=2**63), "min_errors", str(2**63)),
    (DDM(min_rows=2**63), "min_rows", str(2**63)),
    (ADWIN(clock=2**63), "clock", str(2**63)),
    (ADWIN(min_length=2**63), "min_length", str(2**63)),
    (PageHinkley(min_rows=2**63), "min_rows", str(2**63)),
    (EDDM(drift_level=math.nan), "drift_level", "nan"),
    (EDDM(warning_level=0.8), "warning_level", "0.8"),
    (ADWIN(delta=2.0), "delta", "2.0"),
    (ADWIN(clock=0), "clock", "0"),
    (ADWIN(max_buckets=1), "max_buckets", "1"),
    (ADWIN(min_length=0), "min_length", "0"),
    (ADWIN(increase_only="no"), "increase_only", "'no'"),  # type: ignore[arg-type]
    (PageHinkley(min_rows=0), "min_rows", "0"),
    (PageHinkley(delta=-1.0), "delta", "-1.0"),
    (PageHinkley(threshold=0.0), "threshold", "0.0"),
    (PageHinkley(alpha=1.5), "alpha", "1.5"),
]


@pytest.mark.parametrize(("detector", "name", "value"), BAD_OPTIONS, ids=lambda value: repr(value))
def test_a_bad_option_is_named_by_check_and_by_the_first_update(detector: Detector, name: str, value: str) -> None:
    for use in (detector.check, lambda: detector.update([0]), detector.state, lambda: detector.restore({})):
        with pytest.raises(OptionError, match=rf"{name}.*{re.escape(value)}"):
            use()


@every_detector
def test_threads_take_turns_and_see_whole_updates(template: Any) -> None:
    """With values that differ only in number, every state that a thread sees is that of some number of updates."""
    part, turns = np.tile([0.0, 1.0, 0.0, 0.0], 5), 12
    alone, known = template.fresh(), list[bytes]()
    for _ in range(2 * turns + 1):
        known.append(to_bytes(alone.state()))
        alone.update(part)
    one, stop, wrong = template.fresh(), threading.Event(), list[Any]()

    def learn() -> None:
        for _ in range(turns):
            one.update(part)

    def read() -> None:
        while not stop.is_set():
            for seen in (one, copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
                if to_bytes(seen.state()) not in known:
                    wrong.append(seen)
            assert one.drift in (True, False)

    learners = [threading.Thread(target=learn) for _ in range(2)]
    reader = threading.Thread(target=read)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in (reader, *learners):
            thread.start()
        for thread in learners:
            thread.join()
    finally:
        stop.set()
        reader.join()
        sys.setswitchinterval(interval)
    assert wrong == []
    assert to_bytes(one.state()) == known[-1]


@every_detector
def test_a_state_can_be_passed_by_name(template: Any) -> None:
    one, other = template.fresh(), template.fresh()
    one.update([0, 1, 0, 0])
    other.restore(state=one.state())
    assert to_bytes(other.state()) == to_bytes(one.state())
