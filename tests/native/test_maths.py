"""The elementary functions of the native core are within one unit in the last place of the exact values."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pytest

from driftsurf.core.contracts import FloatArray
from driftsurf.native.maths import evaluate

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")
RNG = np.random.default_rng(0)
NARROW, WIDE = RNG.uniform(-1.0, 1.0, 200), RNG.uniform(-700.0, 700.0, 200)
ANGLES = np.concatenate([7.0 * NARROW, 1e6 * NARROW, math.pi / 2 * np.arange(1, 40)])


@pytest.fixture(autouse=True)
def _digits() -> None:
    decimal.getcontext().prec = 100


def values_of(name: str, values: FloatArray) -> FloatArray:
    out = np.empty(len(values))
    evaluate(name, values, out)
    return out


def sine(x: Decimal) -> Decimal:
    """Return the sum of the series of the sine."""
    x -= 2 * PI * (x / (2 * PI)).to_integral_value()
    term = total = x
    n = 1
    while abs(term) > Decimal(10) ** -50:
        term = -term * x * x / ((n + 1) * (n + 2))
        total += term
        n += 2
    return total


@pytest.mark.parametrize(
    ("name", "exact", "values"),
    [
        ("exp", Decimal.exp, np.concatenate([NARROW, WIDE, [708.5, 709.7, -708.0]])),
        ("log", Decimal.ln, np.concatenate([2.0 + NARROW, np.exp(WIDE), [5e-324, 1e-310, 1.0 + 2**-40]])),
        (
            "log1p",
            lambda x: (1 + x).ln(),
            np.concatenate([0.999 * NARROW, np.exp(np.abs(WIDE)), -np.exp(-0.1 * np.abs(WIDE))]),
        ),
        ("sin", sine, ANGLES),
        ("cos", lambda x: sine(x + PI / 2), ANGLES),
    ],
)
def test_functions_are_close_to_the_exact_values(
    name: str, exact: Callable[[Decimal], Decimal], values: FloatArray
) -> None:
    for x, found in zip(values.tolist(), values_of(name, values).tolist(), strict=True):
        right = exact(Decimal(x))
        assert abs(Decimal(found) - right) <= Decimal(math.ulp(float(right))), x


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("exp", [0.0, math.inf, -math.inf, 710.0, -750.0, -744.0], [1.0, math.inf, 0.0, math.inf, 0.0, 1e-323]),
        ("log", [1.0, 0.0, math.inf, -1.0], [0.0, -math.inf, math.inf, math.nan]),
        ("log1p", [0.0, -1.0, math.inf, -2.0, 1e-300], [0.0, -math.inf, math.inf, math.nan, 1e-300]),
        ("sin", [0.0, 1e300, math.inf], [0.0, math.nan, math.nan]),
        ("cos", [0.0, 1e300], [1.0, math.nan]),
    ],
)
def test_functions_at_the_ends_of_their_range(name: str, values: list[float], expected: list[float]) -> None:
    found = values_of(name, np.array([*values, math.nan]))
    np.testing.assert_array_equal(found, [*expected, math.nan])
