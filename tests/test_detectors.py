"""Each detector equals its twin value by value; one list of checks holds for all of them."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import reference
from driftsurf import detectors
from driftsurf.base import Detector, FloatArray
from driftsurf.detectors import ADWIN, DDM, EDDM, FHDDM, MDDM, PageHinkley
from driftsurf.errors import OptionError, ShapeError, StateError, ValueTypeError
from driftsurf.state import from_bytes, to_bytes
from reference_detectors import (
    PlainADWIN,
    PlainDDM,
    PlainEDDM,
    PlainFHDDM,
    PlainMDDM,
    PlainPageHinkley,
    Twin,
)

pytestmark = pytest.mark.python_kernels

Weighting = Literal["geometric", "arithmetic", "euler"]

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


def check(test: Callable[..., None]) -> Callable[..., None]:
    return settings(deadline=None, max_examples=60)(test)


def stream(*pieces: tuple[float, int], seed: int = 1) -> FloatArray:
    """Errors: of each piece (rate, rows)."""
    rates = np.repeat([rate for rate, _ in pieces], [rows for _, rows in pieces])
    return np.array([float(reference.uniform(seed, k) < rate) for k, rate in enumerate(rates)])


def signals(detector: Detector, values: npt.ArrayLike, most: int | None = None) -> list[int]:
    """After how many values it signalled, fed at most so many at a time."""
    array = np.asarray(values)
    found, position = [], 0
    while position < len(array):
        position += detector.update(array[position:][:most])
        if detector.drift:
            found.append(position)
    return found


def same_state(left: Detector, right: Detector) -> bool:
    return to_bytes(left.state()) == to_bytes(right.state())


@st.composite
def streams(draw: st.DrawFn, most_rows: int = 150) -> FloatArray:
    """Errors whose rate jumps, now and then in between 0 and 1."""
    rates = st.sampled_from([0.0, 0.05, 0.2, 0.5, 0.9])
    pieces = draw(st.lists(st.tuples(rates, st.integers(1, most_rows)), max_size=5))
    values = stream(*pieces, seed=draw(st.integers(0, 2**32)))
    if draw(st.booleans()):
        values[::3] = np.clip(values[::3], 0.2, 0.7)
    return values


# ---------------------------------------------------------------------------- twins


def agree(detector: Detector, make_twin: Callable[[], Twin], values: FloatArray) -> None:
    """Value by value; then in one piece."""
    twin, expected = make_twin(), []
    for position, value in enumerate(values, start=1):
        assert detector.update(value) == 1
        said = twin.add(float(value))
        assert ("drift" if detector.drift else "warning" if detector.warning else "") == said
        if isinstance(twin, PlainADWIN):
            assert isinstance(detector, ADWIN)
            assert detector.width == len(twin.window)
            assert detector.estimate == pytest.approx(np.mean(twin.window), rel=1e-12, abs=1e-12)
        if said == "drift":
            expected.append(position)
            if not isinstance(twin, PlainADWIN):
                twin = make_twin()
    assert signals(detector.fresh(), values) == expected


def rising(weighting: Weighting, growth: float) -> Callable[[int], float]:
    """The published weights: 1.01^i, 1 + 0.01 (i - 1), exp(0.01 i)."""
    rules: dict[Weighting, Callable[[int], float]] = {
        "geometric": lambda i: (1.0 + growth) ** i,
        "arithmetic": lambda i: 1.0 + growth * (i - 1),
        "euler": lambda i: math.exp(growth * i),
    }
    return rules[weighting]


@given(
    values=streams(),
    weighting=st.sampled_from(["geometric", "arithmetic", "euler"]),
    window=st.integers(1, 60),
    delta=st.sampled_from([1e-6, 1e-2, 0.3]),
    growth=st.sampled_from([0.0, 0.01, 0.2]),
)
@check
def test_mddm_equals_its_twin(
    values: FloatArray, weighting: Weighting, window: int, delta: float, growth: float
) -> None:
    detector = MDDM(weighting=weighting, window=window, delta=delta, growth=growth)
    assume(detector.threshold < 1.0)
    agree(detector, lambda: PlainMDDM(rising(weighting, growth), window, delta), values)


@given(values=streams(), window=st.integers(8, 60), delta=st.sampled_from([1e-6, 1e-2, 0.3]))
@check
def test_fhddm_equals_its_twin_and_mddm_with_equal_weights(values: FloatArray, window: int, delta: float) -> None:
    detector = FHDDM(window=window, delta=delta)
    agree(detector, lambda: PlainFHDDM(window, delta), values)
    assert signals(MDDM(window=window, delta=delta, growth=0.0), values) == signals(detector.fresh(), values)


@given(values=streams(), min_rows=st.sampled_from([1, 5, 30]), levels=st.sampled_from([(2.0, 3.0), (1.0, 1.5)]))
@check
def test_ddm_equals_its_twin(values: FloatArray, min_rows: int, levels: tuple[float, float]) -> None:
    detector = DDM(min_rows=min_rows, warning_level=levels[0], drift_level=levels[1])
    agree(detector, lambda: PlainDDM(min_rows, *levels), values)


class DecidedEDDM(PlainEDDM):
    """A ratio that is a level to the last digits may fall on either side of it."""

    def add(self, error: float) -> str:
        said = super().add(error)
        assume(all(abs(self.ratio - level) > 1e-12 for level in (self.alpha, self.beta)))
        return said


@given(values=streams(), min_errors=st.sampled_from([1, 5, 30]), levels=st.sampled_from([(0.95, 0.9), (0.8, 0.4)]))
@check
def test_eddm_equals_its_twin(values: FloatArray, min_errors: int, levels: tuple[float, float]) -> None:
    detector = EDDM(min_errors=min_errors, warning_level=levels[0], drift_level=levels[1])
    agree(detector, lambda: DecidedEDDM(min_errors, *levels), values)


@given(
    values=streams(),
    scale=st.sampled_from([1.0, -3.0, 1000.0]),
    threshold=st.sampled_from([2.0, 50.0]),
    alpha=st.sampled_from([0.9, 0.9999, 1.0]),
)
@check
def test_page_hinkley_equals_its_twin(values: FloatArray, scale: float, threshold: float, alpha: float) -> None:
    detector = PageHinkley(threshold=threshold, alpha=alpha)
    agree(detector, lambda: PlainPageHinkley(threshold=threshold, alpha=alpha), scale * values)


@given(
    values=streams(most_rows=250),
    scale=st.sampled_from([1.0, -3.0, 1000.0]),
    delta=st.sampled_from([0.002, 0.5]),
    clock=st.sampled_from([1, 7, 32]),
    shape=st.sampled_from([(5, 5), (2, 1), (3, 10)]),
    increase_only=st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_adwin_equals_its_twin(
    values: FloatArray, scale: float, delta: float, clock: int, shape: tuple[int, int], increase_only: bool
) -> None:
    options: dict[str, Any] = {"max_buckets": shape[0], "min_length": shape[1], "increase_only": increase_only}
    detector = ADWIN(delta=delta, clock=clock, **options)
    agree(detector, lambda: PlainADWIN(delta, clock, **options), scale * values)


# ---------------------------------------------------------------------------- golden traces


@dataclass(frozen=True)
class Golden:
    detector: Any
    signals: list[int]


GOLDEN = [
    Golden(MDDM(), [1046, 3063]),
    Golden(MDDM(weighting="arithmetic"), [1047, 3063]),
    Golden(MDDM(weighting="euler"), [1046, 3063]),
    Golden(FHDDM(), [1063, 3088]),
    Golden(DDM(), [76, 113, 1052, 3596]),
    Golden(EDDM(), [495, 1036, 1559, 1665, 1989, 2378, 2844, 3062, 3530, 3672, 3836, 3983]),
    Golden(ADWIN(), [1056, 1152, 1472, 2080, 2112, 3104, 3136, 3904]),
    Golden(ADWIN(increase_only=True), [1056, 1152, 1472, 3104, 3136, 3904]),
    Golden(PageHinkley(), [1134, 3668]),
]


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: repr(golden.detector))
def test_signals_stay_where_they_are(golden: Golden) -> None:
    values = stream((0.1, 1000), (0.5, 1000), (0.1, 1000), (0.4, 1000), seed=5)
    assert signals(golden.detector.fresh(), values) == golden.signals


# ---------------------------------------------------------------------------- closed forms


def test_the_thresholds_of_mddm_are_those_of_the_published_weights() -> None:
    log = math.log(1e6)
    ratios: dict[Weighting, float] = {"geometric": 1.01, "euler": math.exp(0.01)}
    for weighting, ratio in ratios.items():
        squares = (ratio**100 + 1) * (ratio - 1) / ((ratio**100 - 1) * (ratio + 1))
        assert MDDM(weighting=weighting).threshold == pytest.approx(math.sqrt(0.5 * squares * log), rel=1e-12)
    arithmetic = 231.835 / 149.5**2  # sums of (1 + k/100)^2 and 1 + k/100, k = 0 .. 99
    assert MDDM(weighting="arithmetic").threshold == pytest.approx(math.sqrt(0.5 * arithmetic * log), rel=1e-12)
    assert MDDM().threshold == pytest.approx(0.273285, abs=5e-7)
    assert FHDDM().threshold == pytest.approx(math.sqrt(7 * math.log(10) / 200), rel=1e-12)


def test_mddm_falls_as_the_newest_weights_add_up() -> None:
    """After a full window of right predictions k errors take (1 - r^-k) / (1 - r^-100) off the mean."""
    k = math.ceil(-math.log(1 - MDDM().threshold * (1 - 1.01**-100)) / math.log(1.01))
    assert signals(MDDM(), [0] * 250 + [1] * 100)[0] == 250 + k
    assert signals(FHDDM(), [0] * 250 + [1] * 100)[0] == 250 + 29


def test_a_window_says_nothing_before_it_is_full_and_remembers_nothing_before_it() -> None:
    assert signals(MDDM(), [0] * 60 + [1] * 39) == []
    values = stream((0.3, 700))
    long, short = MDDM(), MDDM()
    long.update(values)
    short.update(values[-100:])
    np.testing.assert_array_equal(long.state()["window"], short.state()["window"])
    np.testing.assert_array_equal(long.state()["window"], 1.0 - values[-100:])


def test_ddm_warns_before_it_signals_and_after_a_flawless_start_signals_at_the_first_error() -> None:
    detector = DDM()
    values = stream((0.2, 500), (0.35, 500), seed=3)
    at = signals(detector, values)[0]
    before = DDM()
    before.update(values[: at - 1])
    assert (before.drift, before.warning) == (False, True)
    assert signals(DDM(), [0] * 100 + [1]) == [101]
    assert signals(DDM(), [0] * 20 + [1] + [0] * 100) == []


def test_eddm_keeps_its_warning_until_the_next_error() -> None:
    """Distances 2, 18, 10, 10: p' + 2 s' is 26, then 10 + 2 sqrt(128 / 3) and 10 + 2 sqrt(32)."""
    detector = EDDM(min_errors=2, drift_level=0.85)
    said = []
    for values in ([0, 1], [0] * 17 + [1], [0] * 9 + [1], [0] * 9, [1]):
        assert detector.update(values) == len(values)
        said.append((detector.warning, detector.drift))
    assert 10 + 2 * math.sqrt(128 / 3) < 0.95 * 26
    assert 10 + 2 * math.sqrt(32) < 0.85 * 26
    assert said == [(False, False), (False, False), (True, False), (True, False), (False, True)]


def test_page_hinkley_adds_up_what_lies_above_the_mean() -> None:
    detector = PageHinkley(min_rows=1, delta=0.25, threshold=1.0, alpha=1.0)
    # means 0, 1, 4/3: sums max(0, -0.25), 0 + 2 - 1 - 0.25, 0.75 + 2 - 4/3 - 0.25
    assert detector.update([0.0, 2.0]) == 2
    assert detector.state()["sum"] == 0.75
    assert detector.update([2.0]) == 1
    assert detector.drift


def test_adwin_keeps_what_has_one_mean_and_a_histogram_of_logarithmic_size() -> None:
    detector = ADWIN()
    detector.update(stream((0.3, 3000)))
    assert detector.width == 3000
    assert len(np.atleast_1d(detector.state()["sums"])) <= 5 * math.log2(3000)
    detector.update(np.ones(3000))
    while detector.drift:
        detector.update(np.ones(100))
    assert detector.width <= 3000
    assert detector.estimate > 0.9


def test_adwin_signals_only_a_rise_when_told_so_but_shrinks_at_a_fall_too() -> None:
    fall, rise = stream((0.6, 1000), (0.1, 1000)), stream((0.1, 1000), (0.6, 1000))
    assert signals(ADWIN(), fall)
    assert signals(ADWIN(), rise)
    assert signals(ADWIN(increase_only=True), rise)
    detector = ADWIN(increase_only=True)
    assert signals(detector, fall) == []
    assert detector.width < 1500


# ---------------------------------------------------------------------------- what holds for all


def test_the_list_has_every_public_detector() -> None:
    assert {type(template).__name__ for template in TEMPLATES} == set(detectors.__all__)


@every_detector
def test_a_template_is_its_parameters_and_gives_fresh_copies(template: Detector) -> None:
    assert vars(template) == template.get_params()
    used = template.fresh()
    used.update(stream((0.1, 300)))
    again = used.fresh()
    assert again.get_params() == template.get_params() == used.get_params()
    assert vars(again) == vars(template)
    assert eval(repr(template), vars(detectors)).get_params() == template.get_params()


@every_detector
def test_a_sudden_rise_is_found_soon(template: Detector) -> None:
    found = signals(template.fresh(), stream((0.1, 1000), (0.5, 300), seed=2))
    assert any(1000 < position <= 1150 for position in found)


@every_detector
@pytest.mark.parametrize("period", [[0], [1], [0, 0, 0, 0, 1], [1, 1, 0]], ids=repr)
def test_even_errors_are_no_drift(template: Detector, period: list[int]) -> None:
    assert signals(template.fresh(), np.resize(period, 1500)) == []


@pytest.mark.parametrize("template", [t for t in TEMPLATES if t.get_params().get("increase_only", True)], ids=repr)
def test_fewer_errors_are_no_drift(template: Detector) -> None:
    values = np.append(np.resize([0, 1], 500), np.resize([0, 0, 0, 0, 1], 500))
    assert signals(template.fresh(), values) == []


@every_detector
def test_an_update_stops_at_a_signal_which_stands_until_the_next(template: Detector) -> None:
    values = stream((0.2, 1000), (0.7, 300), seed=2)
    detector = template.fresh()
    assert (detector.drift, detector.warning) == (False, False)
    assert detector.update(values) < len(values)
    assert (detector.drift, detector.warning) == (True, False)
    assert detector.update([]) == 0
    assert (detector.drift, detector.warning) == (False, False)
    if not isinstance(template, ADWIN):
        assert same_state(detector, template.fresh())


@every_detector
@pytest.mark.parametrize("most", [1, 7, 100])
def test_how_the_input_is_cut_makes_no_difference(template: Detector, most: int) -> None:
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
    assert gaps.update([np.nan, np.nan]) == 2


@every_detector
@pytest.mark.parametrize("where", [0, 10, 300])
@pytest.mark.parametrize(
    "absurd", [[np.inf], [-np.inf, np.inf], [1e300, np.nan], [-1e300], [1e9], [1e6], [-1e4], [5.0]], ids=repr
)
def test_absurd_values_leave_it_finite_and_able_to_see(template: Detector, where: int, absurd: list[float]) -> None:
    values = np.insert(stream((0.2, 1000), (0.7, 300), seed=2), where, absurd)
    detector = template.fresh()
    found = signals(detector, values)
    assert any(1000 < position <= 1200 for position in found)
    for entry in detector.state().values():
        assert np.isfinite(np.asarray(entry)).all()


@every_detector
def test_nothing_but_absurd_values_is_survived(template: Detector) -> None:
    detector = template.fresh()
    signals(detector, np.tile([np.inf, -np.inf, 1e308, -1e308, np.nan], 300))
    for entry in detector.state().values():
        assert np.isfinite(np.asarray(entry)).all()
    assert any(position > 1000 for position in signals(detector, stream((0.2, 1000), (0.7, 300), seed=2)))


@every_detector
@pytest.mark.parametrize("at", [0, 1, 29, 130, 555, 1037])
def test_it_goes_on_from_its_saved_state_bit_for_bit(template: Any, at: int) -> None:
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


def test_a_copy_shares_nothing_that_can_change() -> None:
    class Listing(DDM):
        def __init__(self) -> None:
            super().__init__()
            self.seen = [np.zeros(1)]

    detector = Listing()
    copy.deepcopy(detector).seen[0][0] = 1.0
    assert detector.seen[0][0] == 0.0


@every_detector
def test_reset_forgets_all(template: Detector) -> None:
    detector = template.fresh()
    detector.update(stream((0.2, 1000), (0.7, 300), seed=2))
    detector.reset()
    assert same_state(detector, template.fresh())


@every_detector
def test_a_state_of_something_else_is_refused_and_changes_nothing(template: Detector) -> None:
    detector = template.fresh()
    detector.update(stream((0.2, 333)))
    state, saved = detector.state(), to_bytes(detector.state())
    for name, entry in state.items():
        with pytest.raises(StateError, match=f"no entry '{name}'"):
            detector.restore({key: value for key, value in state.items() if key != name})
        bad: list[Any] = ["text", 1, np.zeros((2, 2)), math.nan, np.full(3, np.nan), np.full(1000, 0.5)]
        if isinstance(entry, np.ndarray) and entry.dtype == np.int64:
            bad += [-entry, entry + 9, entry[:-1], np.ones(55, np.int64)]
        for wrong in bad:
            with pytest.raises(StateError, match="do not fit together"):
                detector.restore({**state, name: wrong})
    with pytest.raises(StateError, match="do not fit together"):
        detector.restore({**state, "level": 7.0})
    assert to_bytes(detector.state()) == saved


@every_detector
def test_numbers_of_any_kind_are_read(template: Detector) -> None:
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
def test_what_are_no_values_is_refused_and_changes_nothing(template: Detector) -> None:
    detector = template.fresh()
    detector.update(stream((0.2, 333)))
    saved = to_bytes(detector.state())
    bad: list[Any] = [["wrong"], [1j], [[0], [1, 0]], [10**400], [object()], np.array(["2020-01-01"], "M8[D]")]
    for values in bad:
        with pytest.raises(ValueTypeError, match="must be numbers"):
            detector.update(values)
    with pytest.raises(ShapeError, match=r"values\.ravel"):
        detector.update(np.zeros((3, 1)))
    assert to_bytes(detector.state()) == saved


BAD_OPTIONS: list[tuple[Any, str]] = [
    (MDDM(weighting="linear"), "weighting is 'linear'; choices: 'geometric', 'arithmetic', 'euler'"),  # type: ignore[arg-type]
    (MDDM(window=0), "window is 0; give a whole number from 1 to 1,000,000"),
    (MDDM(window=100.0), "window is 100.0; give a whole number"),  # type: ignore[arg-type]
    (MDDM(delta=1), "delta is 1; give a number above 0 and below 1"),
    (MDDM(growth=-0.1), "growth is -0.1; give a number of at least 0 and below 1"),
    (MDDM(window=5), "window is 5 and delta is 1e-06; a mean between 0 and 1 would have to fall by more than 1.1"),
    (FHDDM(delta=0.0), "delta is 0.0; give a number above 0 and below 1"),
    (DDM(min_rows=True), "min_rows is True; give a whole number of at least 1"),
    (DDM(warning_level=0.5), "warning_level is 0.5; give a number of at least 1"),
    (DDM(drift_level=math.inf), "drift_level is inf; give a number of at least 1"),
    (DDM(warning_level=4.0), "warning_level is 4.0, above drift_level 3.0"),
    (EDDM(min_errors=0), "min_errors is 0; give a whole number of at least 1"),
    (EDDM(drift_level=math.nan), "drift_level is nan; give a number above 0 and below 1"),
    (EDDM(warning_level=0.8), "warning_level is 0.8, below drift_level 0.9"),
    (ADWIN(delta=2.0), "delta is 2.0; give a number above 0 and below 1"),
    (ADWIN(clock=0), "clock is 0; give a whole number of at least 1"),
    (ADWIN(max_buckets=1), "max_buckets is 1; give a whole number from 2 to 1,000"),
    (ADWIN(min_length=0), "min_length is 0; give a whole number of at least 1"),
    (ADWIN(increase_only="no"), "increase_only is 'no'; choices: True, False"),  # type: ignore[arg-type]
    (PageHinkley(min_rows=0), "min_rows is 0; give a whole number of at least 1"),
    (PageHinkley(delta=-1.0), "delta is -1.0; give a number of at least 0"),
    (PageHinkley(threshold=0.0), "threshold is 0.0; give a number above 0"),
    (PageHinkley(alpha=1.5), "alpha is 1.5; give a number above 0, up to 1"),
]


@pytest.mark.parametrize(("detector", "message"), BAD_OPTIONS, ids=lambda value: repr(value))
def test_a_bad_option_is_named_by_check_and_by_the_first_update(detector: Detector, message: str) -> None:
    for use in (detector.check, lambda: detector.update([0]), detector.state, lambda: detector.restore({})):
        with pytest.raises(OptionError, match="^" + re.escape(message)):
            use()
