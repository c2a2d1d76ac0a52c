"""Each detector equals its slow reference value by value; golden signals; closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from detector_streams import Weighting, check, signals, stream, streams
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference_detectors import (
    PlainADWIN,
    PlainDDM,
    PlainEDDM,
    PlainFHDDM,
    PlainMDDM,
    PlainPageHinkley,
    Twin,
)

from driftsurf.core.contracts import Detector, FloatArray
from driftsurf.detectors import ADWIN, DDM, EDDM, FHDDM, MDDM, PageHinkley

# ---------------------------------------------------------------------------- twins


def agree(detector: Detector, make_twin: Callable[[], Twin], values: FloatArray) -> None:
    """Compare value by value, then in one update."""
    twin, expected = make_twin(), []
    for position, value in enumerate(values, start=1):
        assert detector.update(value) == (1, detector.drift)
        level = twin.add(float(value))
        assert ("drift" if detector.drift else "warning" if detector.warning else "") == level
        if isinstance(twin, PlainADWIN):
            assert isinstance(detector, ADWIN)
            assert detector.width == len(twin.window)
            assert detector.estimate == pytest.approx(np.mean(twin.window), rel=1e-12, abs=1e-12)
        if level == "drift":
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
def test_mddm_equals_its_reference(
    values: FloatArray, weighting: Weighting, window: int, delta: float, growth: float
) -> None:
    detector = MDDM(weighting=weighting, window=window, delta=delta, growth=growth)
    assume(detector.threshold < 1.0)
    agree(detector, lambda: PlainMDDM(rising(weighting, growth), window, delta), values)


@given(values=streams(), window=st.integers(8, 60), delta=st.sampled_from([1e-6, 1e-2, 0.3]))
@check
def test_fhddm_equals_its_reference_and_mddm_with_equal_weights(values: FloatArray, window: int, delta: float) -> None:
    detector = FHDDM(window=window, delta=delta)
    agree(detector, lambda: PlainFHDDM(window, delta), values)
    assert signals(MDDM(window=window, delta=delta, growth=0.0), values) == signals(detector.fresh(), values)


@given(values=streams(), min_rows=st.sampled_from([1, 5, 30]), levels=st.sampled_from([(2.0, 3.0), (1.0, 1.5)]))
@check
def test_ddm_equals_its_reference(values: FloatArray, min_rows: int, levels: tuple[float, float]) -> None:
    detector = DDM(min_rows=min_rows, warning_level=levels[0], drift_level=levels[1])
    agree(detector, lambda: PlainDDM(min_rows, *levels), values)


class DecidedEDDM(PlainEDDM):
    """Tolerates a ratio that equals a level up to rounding, which may fall on either side of it."""

    def add(self, error: float) -> str:
        level = super().add(error)
        assume(all(abs(self.ratio - level) > 1e-12 for level in (self.alpha, self.beta)))
        return level


@given(values=streams(), min_errors=st.sampled_from([1, 5, 30]), levels=st.sampled_from([(0.95, 0.9), (0.8, 0.4)]))
@check
def test_eddm_equals_its_reference(values: FloatArray, min_errors: int, levels: tuple[float, float]) -> None:
    detector = EDDM(min_errors=min_errors, warning_level=levels[0], drift_level=levels[1])
    agree(detector, lambda: DecidedEDDM(min_errors, *levels), values)


@given(
    values=streams(),
    scale=st.sampled_from([1.0, -3.0, 1000.0]),
    threshold=st.sampled_from([2.0, 50.0]),
    alpha=st.sampled_from([0.9, 0.9999, 1.0]),
)
@check
def test_page_hinkley_equals_its_reference(values: FloatArray, scale: float, threshold: float, alpha: float) -> None:
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
def test_adwin_equals_its_reference(
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
def test_golden_signals(golden: Golden) -> None:
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


def test_the_mean_of_mddm_falls_by_the_newest_weights() -> None:
    """After a full window of right predictions, k errors lower the mean by (1 - r^-k) / (1 - r^-100)."""
    k = math.ceil(-math.log(1 - MDDM().threshold * (1 - 1.01**-100)) / math.log(1.01))
    assert signals(MDDM(), [0] * 250 + [1] * 100)[0] == 250 + k
    assert signals(FHDDM(), [0] * 250 + [1] * 100)[0] == 250 + 29


def test_a_window_signals_only_when_full_and_forgets_older_values() -> None:
    assert signals(MDDM(), [0] * 60 + [1] * 39) == []
    values = stream((0.3, 700))
    long, short = MDDM(), MDDM()
    long.update(values)
    short.update(values[-100:])
    np.testing.assert_array_equal(long.state()["window"], short.state()["window"])
    np.testing.assert_array_equal(long.state()["window"], 1.0 - values[-100:])


def test_ddm_warns_first_and_after_an_errorless_start_signals_at_the_first_error() -> None:
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
    levels = []
    for values in ([0, 1], [0] * 17 + [1], [0] * 9 + [1], [0] * 9, [1]):
        assert detector.update(values).consumed == len(values)
        levels.append((detector.warning, detector.drift))
    assert 10 + 2 * math.sqrt(128 / 3) < 0.95 * 26
    assert 10 + 2 * math.sqrt(32) < 0.85 * 26
    assert levels == [(False, False), (False, False), (True, False), (True, False), (False, True)]


def test_page_hinkley_sums_deviations_above_the_mean() -> None:
    detector = PageHinkley(min_rows=1, delta=0.25, threshold=1.0, alpha=1.0)
    # means 0, 1, 4/3: sums max(0, -0.25), 0 + 2 - 1 - 0.25, 0.75 + 2 - 4/3 - 0.25
    assert detector.update([0.0, 2.0]) == (2, False)
    assert detector.state()["sum"] == 0.75
    assert detector.update([2.0]) == (1, True)


def test_adwin_keeps_values_of_one_mean_in_a_histogram_of_logarithmic_size() -> None:
    detector = ADWIN()
    detector.update(stream((0.3, 3000)))
    assert detector.width == 3000
    assert len(np.atleast_1d(detector.state()["sums"])) <= 5 * math.log2(3000)
    detector.update(np.ones(3000))
    while detector.drift:
        detector.update(np.ones(100))
    assert detector.width <= 3000
    assert detector.estimate > 0.9


def test_adwin_with_increase_only_shrinks_at_a_fall_without_a_signal() -> None:
    fall, rise = stream((0.6, 1000), (0.1, 1000)), stream((0.1, 1000), (0.6, 1000))
    assert signals(ADWIN(), fall)
    assert signals(ADWIN(), rise)
    assert signals(ADWIN(increase_only=True), rise)
    detector = ADWIN(increase_only=True)
    assert signals(detector, fall) == []
    assert detector.width < 1500
