"""Generated streams of the kinds that people have: weather, a campaign, a plant, states in runs, bikes, polluted hours.

Each is a function of a seed and of the number of rows. The rules were written before any model was measured on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from driftsurf.comparison.inputs import StreamInMemory
from driftsurf.core.contracts import FloatArray

__all__ = ["EVERYDAY", "EVERYDAY_NUMBERS", "generated"]

Made = tuple[FloatArray, npt.NDArray[np.int64]]
MadeNumbers = tuple[FloatArray, FloatArray]


def generated(name: str, seed: int, count: int = 5_000) -> StreamInMemory:
    """Return a stream as ``driftsurf compare`` reads one."""
    if name in EVERYDAY:
        X, codes = EVERYDAY[name](seed, count)
        return StreamInMemory(name, X, codes, tuple(range(int(codes.max()) + 1)), max(1, count // 100), None)
    X, y = EVERYDAY_NUMBERS[name](seed, count)
    return StreamInMemory(name, X, y, (), max(1, count // 100), None)


def _wander(draw: np.random.Generator, count: int, keep: float) -> FloatArray:
    """Return an autoregressive series of variance 1."""
    found, noise = np.empty(count), draw.normal(size=count) * np.sqrt(1.0 - keep * keep)
    state = draw.normal()
    for place in range(count):
        state = keep * state + noise[place]
        found[place] = state
    return found


def rain(seed: int, count: int = 5_000) -> Made:
    """Rain tomorrow: weather that lasts for days, seasons, and a station whose hygrometer is replaced."""
    draw = np.random.default_rng([seed, 1])
    day = np.arange(count)
    season = np.cos(2.0 * np.pi * day / 365.0)
    front = _wander(draw, count + 1, 0.75)
    humidity = 60.0 + 15.0 * front[:-1] + 8.0 * season + 6.0 * draw.normal(size=count)
    humidity[count // 2 :] -= 12.0
    pressure = 1013.0 - 6.0 * front[:-1] + 4.0 * draw.normal(size=count)
    wind = np.exp(0.5 * _wander(draw, count, 0.6) + 0.2 * front[:-1])
    warmth = 12.0 - 10.0 * season + 3.0 * _wander(draw, count, 0.8)
    y = front[1:] + 0.25 * season + 0.4 * draw.normal(size=count) > 0.6
    return np.column_stack([humidity, pressure, wind, warmth, front[:-1] + season > 0.6]), y.astype(np.int64)


def campaign(seed: int, count: int = 5_000) -> Made:
    """A rare answer to a campaign, whose audience and offer change between its waves."""
    draw = np.random.default_rng([seed, 2])
    wave = np.arange(count) * 8 // count
    age = draw.normal(40.0 + 3.0 * (wave % 3), 12.0)
    calls = draw.poisson(1.5, count).astype(float)
    balance = np.exp(draw.normal(6.5, 1.2, count))
    job, earlier = draw.integers(0, 6, count), draw.random(count) < 0.15
    taste = draw.normal(size=(8, 6)) * 0.6
    level = draw.normal(-3.0, 0.5, 8)
    logit = level[wave] + taste[wave, job] + 1.8 * earlier - 0.3 * calls + 0.03 * np.abs(age - 40.0)
    y = draw.random(count) < 1.0 / (1.0 + np.exp(-logit))
    return np.column_stack([age, calls, balance, earlier, np.eye(6)[job]]), y.astype(np.int64)


def _load(seed: int, count: int) -> MadeNumbers:
    draw = np.random.default_rng([seed, 3])
    hour = np.arange(count) % 24
    weekend = np.arange(count) // 24 % 7 >= 5
    warmth = 15.0 + 8.0 * np.sin(2.0 * np.pi * np.arange(count) / (24 * 120)) + 3.0 * _wander(draw, count, 0.97)
    shift = np.where(np.arange(count) < 2 * count // 3, 6, 9)  # production begins later from then on
    work = ((hour >= shift) & (hour < shift + 10) & ~weekend).astype(float)
    load = 40.0 + 50.0 * work + 0.12 * np.square(warmth - 18.0) + 6.0 * _wander(draw, count, 0.9)
    load += 20.0 * (np.arange(count) > count // 3) * work  # a second line
    return np.column_stack([hour, weekend, warmth, np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24)]), load


def plant(seed: int, count: int = 5_000) -> Made:
    """Whether the load of a plant is high: hours, weekdays and weather; a second line and a later shift."""
    X, load = _load(seed, count)
    return X, (load > np.median(load)).astype(np.int64)


def states(seed: int, count: int = 5_000) -> Made:
    """Four states of a machine that last for 40 to 400 rows; sensors tell them apart in part, and drift."""
    draw = np.random.default_rng([seed, 4])
    lengths, order = draw.integers(40, 400, count), draw.integers(0, 4, count)
    y = np.repeat(order, lengths)[:count]
    centre = draw.normal(size=(4, 5)) * 0.8
    moved = np.cumsum(draw.normal(size=(count, 5)), axis=0) * 0.02
    return centre[y] + moved + draw.normal(size=(count, 5)), y.astype(np.int64)


def _rented(seed: int, count: int) -> MadeNumbers:
    draw = np.random.default_rng([seed, 5])
    hour, day = np.arange(count) % 24, np.arange(count) // 24
    work = day % 7 < 5
    warmth = 14.0 + 9.0 * np.sin(2.0 * np.pi * day / 180.0) + 3.0 * _wander(draw, count, 0.96)
    rain = np.maximum(_wander(draw, count, 0.9) - 1.0, 0.0)
    rush = np.exp(-np.square(hour - 8) / 3.0) + np.exp(-np.square(hour - 18) / 5.0)
    leisure = np.exp(-np.square(hour - 14) / 20.0)
    growth = 1.0 + np.arange(count) / count
    mean = growth * (20.0 + 250.0 * np.where(work, rush, 0.8 * leisure)) * np.exp(-0.8 * rain)
    mean *= 1.0 / (1.0 + np.exp(-(warmth - 8.0) / 4.0))
    return np.column_stack([hour, day % 7, work, warmth, rain]), draw.poisson(mean).astype(float)


def bikes(seed: int, count: int = 5_000) -> Made:
    """Whether more bikes than usual are rented in an hour; their number doubles over the stream."""
    X, rented = _rented(seed, count)
    return X, (rented > np.median(rented)).astype(np.int64)


def _dust(seed: int, count: int) -> MadeNumbers:
    draw = np.random.default_rng([seed, 6])
    hour = np.arange(count) % 24
    wind = np.exp(0.7 * _wander(draw, count, 0.93))
    warmth = 10.0 + 12.0 * np.sin(2.0 * np.pi * np.arange(count) / 4_000.0) + 3.0 * _wander(draw, count, 0.97)
    heating = np.maximum(12.0 - warmth, 0.0) * np.where(np.arange(count) < count // 2, 4.0, 2.0)
    dust = np.empty(count)
    level = 60.0
    for place in range(count):
        rush = 8.0 * (hour[place] in (7, 8, 17, 18, 19))
        level = 0.92 * level + 0.08 * (30.0 + heating[place]) + rush - 0.05 * wind[place] * level
        level = max(level + 6.0 * draw.normal(), 1.0)
        dust[place] = level
    return np.column_stack([hour, wind, warmth, np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24)]), dust


def polluted(seed: int, count: int = 5_000) -> Made:
    """Whether an hour is polluted: dust that stays while there is no wind, and heating that changes."""
    X, dust = _dust(seed, count)
    return X, (dust > np.quantile(dust, 0.6)).astype(np.int64)


EVERYDAY: Mapping[str, Callable[[int, int], Made]] = {
    made.__name__: made for made in (rain, campaign, plant, states, bikes, polluted)
}
"""Streams with classes, by name."""
EVERYDAY_NUMBERS: Mapping[str, Callable[[int, int], MadeNumbers]] = {"load": _load, "rented": _rented, "dust": _dust}
"""Streams with numbers to predict, by name."""
