r"""Confidence intervals for comparisons of errors: a bootstrap over blocks of time steps and over seeds.

The errors of models on the same stream rise and fall together, and the errors of neighbouring steps are similar. So
the steps are resampled for all models at once (the comparison is *paired*), in blocks of
:math:`\lceil T^{1/3} \rceil` steps that wrap around the end of the stream (a *circular block bootstrap*). Seeds are
independent draws of each model, so they are resampled for each model separately. Intervals are percentiles of the
resampled means.

Streams are not resampled: the intervals say nothing about how the models do on another stream.

References
----------
D. N. Politis, J. P. Romano. A circular block-resampling procedure for stationary data. 1992.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray
from driftsurf.core.options import number, whole
from driftsurf.errors import InputError

__all__ = ["Interval", "interval", "resampled_means"]

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A number with its confidence interval."""

    value: float
    low: float
    high: float


def resampled_means(errors: Sequence[npt.ArrayLike], *, resamples: int = RESAMPLES, seed: int = 0) -> FloatArray:
    """Return the mean error of each model in each resample, an array (resamples, models).

    ``errors`` has an array (seeds, steps) for each model; all have the same steps.

    >>> steady, better = np.full((2, 50), 0.3), np.full((2, 50), 0.2)
    >>> means = resampled_means([steady, better], resamples=4)
    >>> means.shape, bool((means[:, 1] < means[:, 0]).all())
    ((4, 2), True)
    """
    tables = [np.asarray(one, np.float64) for one in errors]
    if not tables or any(one.ndim != 2 or one.size == 0 or one.shape[1] != tables[0].shape[1] for one in tables):
        raise InputError(
            f"errors have the shapes {[one.shape for one in tables]}; give each model an array (seeds, steps) of the "
            "same steps"
        )
    generator = np.random.default_rng(seed)
    steps = tables[0].shape[1]
    length = math.ceil(steps ** (1 / 3))
    starts = generator.integers(steps, size=(whole("resamples", resamples, at_least=1), math.ceil(steps / length)))
    places = ((starts[:, :, None] + np.arange(length)) % steps).reshape(resamples, -1)[:, :steps]
    times = np.zeros((resamples, steps))
    np.add.at(times, (np.arange(resamples)[:, None], places), 1.0 / steps)
    means = np.empty((resamples, len(tables)))
    for k, one in enumerate(tables):
        seeds = generator.multinomial(len(one), np.full(len(one), 1.0 / len(one)), size=resamples) / len(one)
        means[:, k] = np.einsum("rs,st,rt->r", seeds, one, times)
    return means


def interval(value: float, resampled: FloatArray, level: float = LEVEL) -> Interval:
    """Return ``value`` with the percentiles of its resampled values.

    >>> interval(0.5, np.linspace(0.0, 1.0, 101), level=0.9)
    Interval(value=0.5, low=0.05, high=0.95)
    """
    aside = (1.0 - number("level", level, above=0.0, below=1.0)) / 2.0
    low, high = np.quantile(resampled, [aside, 1.0 - aside])
    return Interval(float(value), round(float(low), 12), round(float(high), 12))
