"""Names and form of the figures by which models are judged, and which labels are imbalanced, for every place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

ERROR: Final = "error"
"""Share of the rows that were predicted wrongly."""
BALANCED_ERROR: Final = "balanced error"
"""Share of wrong rows of each class, averaged over the classes; used for imbalanced labels."""
ROOT_MEAN_SQUARED_ERROR: Final = "root mean squared error"
"""Error of a regression, in the unit of the label."""
AVERAGE_PRECISION: Final = "average precision"
"""Precision averaged over the rows of a class, which are found one after the other by falling score; by chance, it is
the share of the class."""
SHARES: Final = frozenset({ERROR, BALANCED_ERROR})
"""Figures that are shares of rows, which are shown in percent; others are in the unit of the label."""
RARE_SHARE: Final = 0.1
"""Labels are imbalanced if less than this share of the rows is outside the most frequent class."""


def rare_class(counts: Mapping[Any, int]) -> Any:
    """Return the class that matters where labels are imbalanced, given the rows of each class; None if they are not.

    It is the rare one of two classes, and the most frequent of several rare ones.

    >>> rare_class({"ok": 980, "fraud": 15, "error": 5}), rare_class({"no": 800, "yes": 200})
    ('fraud', None)
    """
    others = sorted((label for label in counts if counts[label]), key=lambda label: -counts[label])[1:]
    if not others or sum(counts[label] for label in others) >= RARE_SHARE * sum(counts.values()):
        return None
    return others[0]


def significant(value: float, digits: int = 4) -> str:
    """Format a number with ``digits`` significant digits, integers below a million in full, others as short powers.

    >>> [significant(value) for value in (2.68149, 109_450.2, 48_363_182_405.4, 0.0039321, 2e-5, 0.0)]
    ['2.681', '109,450', '4.836e10', '0.003932', '2e-5', '0']
    """
    size = abs(value)
    if size and math.isfinite(size) and not 1e-4 <= size < 1e6:
        mantissa, power = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"
    return f"{value:,.0f}" if size >= 10**digits - 0.5 else f"{value:.{digits}g}"


def percent(share: float) -> str:
    """Format a share in percent with two digits; one that is not whole is never shown as 100 %.

    >>> [percent(share) for share in (0.07, 0.0712, 0.103, 0.814, 0.0005612, 0.9996, 1.0, 0.0)]
    ['7 %', '7.1 %', '10 %', '81 %', '0.056 %', '99.9 %', '100 %', '0 %']
    """
    value = 100.0 * share
    if 99.5 <= value < 100.0:
        return f"{math.floor(10.0 * value) / 10.0} %"
    return f"{value:.0f} %" if abs(value) >= 9.95 else f"{value:.2g} %"


HARDLY_BETTER = 0.98
"""A model whose error is at least this share of a trivial prediction's is hardly better than it."""
HARDLY_ABOVE_CHANCE = 1.25
"""A model that finds a rare class with less than this many times the average precision of chance hardly finds it."""
