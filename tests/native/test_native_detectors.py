"""The native loops of the detectors and their twins in plain Python return the same numbers, to the bit."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from detector_streams import stream
from tests.native.twins import detectors as plain

from driftsurf.core.contracts import FloatArray
from driftsurf.native import detectors as native

ERRORS = stream((0.1, 700), (0.4, 300), (0.2, 300), (0.9, 200), seed=3)
JUMPS = np.random.default_rng(5).normal(np.repeat([0.0, 0.5, 3.0], 500))
NUMBERS = np.insert(JUMPS, [3, 700, 900], [1e9, np.nan, -1e6])


def runs(loop: Any, values: FloatArray, numbers: tuple[float, ...], again: bool, *rest: Any) -> list[Any]:
    """Return what every call returned until all values were consumed; a signal ends a call."""
    found, start = [], numbers
    while len(values):
        consumed, numbers = loop(values, numbers, *rest)
        found.append((consumed, *(float(number).hex() for number in numbers)))
        values = values[consumed:]
        if numbers[0] == native.DRIFT:
            numbers = (native.STEADY, *numbers[1:]) if again else start
    return found


@pytest.mark.parametrize("values", [ERRORS, NUMBERS], ids=["errors", "numbers"])
@pytest.mark.parametrize(
    ("name", "numbers", "options"),
    [
        ("ddm", (0.0, 0.0, 0.0, 1.0, 1.0), (30, 2.0, 3.0)),
        ("eddm", (0.0, 0.0, 0.0, 0.0, 0.0, 0.0), (10, 0.95, 0.9)),
        ("page_hinkley", (0.0, 0.0, 0.0, 0.0, 0.0), (30, 0.005, 5.0, 0.9999)),
    ],
)
def test_detectors_of_a_few_numbers(name: str, numbers: Any, options: Any, values: FloatArray) -> None:
    found = runs(getattr(native, name), values, numbers, False, *options)
    assert found == runs(getattr(plain, name), values, numbers, False, *options)
    assert len(found) > 1


@pytest.mark.parametrize("values", [ERRORS, NUMBERS], ids=["errors", "numbers"])
@pytest.mark.parametrize("options", [(0.002, 32, 5, False), (0.3, 7, 1, True)], ids=repr)
def test_adwin_and_its_buckets(options: Any, values: FloatArray) -> None:
    found = []
    for module in (native, plain):
        buckets = np.zeros((60, 6)), np.zeros((60, 6)), np.zeros(60, np.int64)
        returned = runs(module.adwin, values, (0.0, 0.0), True, buckets, *options)
        live = np.less.outer(np.arange(6), buckets[2]).T
        found.append((returned, buckets[0][live].tobytes(), buckets[1][live].tobytes(), buckets[2].tobytes()))
    assert found[0] == found[1]
    assert len(found[0][0]) > 1


@pytest.mark.parametrize("window", [1, 7, 25])
def test_sliding_means(window: int) -> None:
    def signals(module: ModuleType) -> list[Any]:
        weights = 1.0 + 0.05 * np.arange(window)
        found, values, numbers = [], ERRORS, (0.0, 0.0, 0.0)
        buffer = np.zeros(2 * window)
        while len(values):
            consumed, numbers = module.sliding_mean(values, numbers, buffer, weights / weights.sum(), 0.4)
            found.append((consumed, *numbers[:2], pytest.approx(numbers[2], rel=1e-12)))
            values = values[consumed:]
            if numbers[0] == native.DRIFT:
                numbers = (0.0, 0.0, 0.0)
        return found

    # The terms of a mean are added in another order.
    assert signals(native) == signals(plain)


def test_memory_that_does_not_fit_is_refused() -> None:
    values = np.zeros(3)
    with pytest.raises(ValueError, match="cannot have 9"):
        native.sliding_mean(values, (0.0, 9.0, 0.0), np.zeros(8), np.ones(4), 0.5)
    with pytest.raises(ValueError, match="expected 5 numbers, got 2"):
        native.ddm(values, (0.0, 0.0), 30, 2.0, 3.0)
    counts = np.zeros(60, np.int64)
    counts[4] = 7
    with pytest.raises(ValueError, match="a row of 5 buckets cannot have 7"):
        native.adwin(values, (0.0, 0.0), (np.zeros((60, 6)), np.zeros((60, 6)), counts), 0.1, 1, 1, False)
    with pytest.raises(ValueError, match="12 places"):
        native.adwin(values, (0.0, 0.0), (np.zeros((2, 6)), np.zeros((2, 6)), counts), 0.1, 1, 1, False)


def test_a_window_of_more_values_than_a_float_can_count_is_dropped_at_most_as_a_whole() -> None:
    width = 1_001
    sums, squares, counts = np.zeros((62, width)), np.zeros((62, width)), np.zeros(62, np.int64)
    counts[1:51] = np.random.default_rng(0).integers(500, width, 50)  # their sum is rounded up
    squares[50, 0] = 1e60
    buckets = sums[1:61], squares[1:61], counts[1:61]
    native.adwin(np.array([0.5]), (0.0, 0.0), buckets, 0.002, 1, 2**61, False)
    assert counts.tolist() == [0] * 62
