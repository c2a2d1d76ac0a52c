"""Generated tables with the faults of real ones: heavy tails, rare classes, seasons, padding, gaps, flips, new labels.

Three of them stand in for published tables that are often used and are not at hand: ``particles`` for Beijing PM2.5,
``air_quality`` for the sensors of an Italian town, ``bike_sharing`` for the rentals of Washington.

Each function returns the text of a CSV file. The rule behind the label is stated, so that the best possible error is
known or nearly so. All draw from their own seed.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.mixed import csv_text, mixed_rows

__all__ = ["GENERATED"]

START = datetime.datetime(2010, 1, 1)


def heavy_tails(seed: int = 0, count: int = 20_000) -> str:
    """Credit-like rows: four useful columns, and a share in 0..1 of which one cell in five lies near 5,000."""
    draw = np.random.default_rng(seed)
    useful = draw.normal(size=(count, 4))
    share = np.where(draw.random(count) < 0.2, 5000 + 500 * draw.normal(size=count), draw.random(count))
    income = np.exp(8 + draw.normal(size=count))
    logit = useful @ [1.5, -1.0, 0.8, 0.5] - 1.6
    late = draw.random(count) < 1 / (1 + np.exp(-logit))
    columns = {f"ratio_{k}": useful[:, k].round(4) for k in range(4)}
    return _csv(columns | {"share": share.round(4), "income": income.round(2), "late": _words(late)})


def rare_class(seed: int = 0, count: int = 20_000) -> str:
    """Seven per cent of the rows are positive; what makes them so changes half way."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(count, 6))
    first = np.arange(count) < count // 2
    logit = np.where(first, X @ [1.6, 1.2, 0, 0, 0.4, 0], X @ [0, 0, 1.6, -1.2, 0.4, 0]) - 3.75
    columns = {f"x{k}": X[:, k].round(4) for k in range(6)}
    return _csv(columns | {"fraud": _words(draw.random(count) < 1 / (1 + np.exp(-logit)))})


def seasonal(seed: int = 0, count: int = 17_520) -> str:
    """Two years of hourly particle counts from August on, so that months 1 to 7 are new to a young model."""
    draw = np.random.default_rng(seed)
    hours = np.arange(count)
    when = [START + datetime.timedelta(days=212, hours=int(h)) for h in hours]
    month, hour = (np.array([getattr(at, name) for at in when]) for name in ("month", "hour"))
    wind = np.exp(draw.normal(size=count) + 0.5)
    cold = 15 - 12 * np.cos(2 * np.pi * (month - 1) / 12) + 4 * draw.normal(size=count)
    level = np.exp(4.3 - 0.25 * np.log1p(wind) - 0.02 * cold + 0.15 * np.cos(hour / 4) + 0.6 * _wandering(draw, count))
    columns: dict[str, Any] = {
        "year": [at.year for at in when],
        "month": month,
        "hour": hour,
        "temperature": cold.round(1),
        "wind": wind.round(2),
        "direction": draw.choice(["NW", "NE", "SE", "cv"], count),
    }
    return _csv(columns | {"pm25": np.clip(level, 0, 990).round(0)})


def demand(seed: int = 0, count: int = 17_376) -> str:
    """Hourly rentals that double over two years, with rush hours on working days only."""
    draw = np.random.default_rng(seed)
    hours = np.arange(count)
    hour, day = hours % 24, hours // 24
    working = ((day % 7) < 5).astype(int)
    rush = np.where(working, np.isin(hour, (7, 8, 17, 18)) * 2.5 + 0.4, np.exp(-(((hour - 14) / 4.0) ** 2)) * 2 + 0.2)
    warm = 12 - 10 * np.cos(2 * np.pi * day / 365) + 3 * draw.normal(size=count)
    level = 60 * (1 + hours / count) * rush * np.exp(0.03 * (warm - 12))
    columns = {"season": 1 + (day % 365) // 92, "hour": hour, "working": working, "temperature": warm.round(1)}
    return _csv(columns | {"rentals": draw.poisson(np.clip(level, 0.1, None))})


def particles(seed: int = 0, count: int = 17_520) -> str:
    """Two years of hourly particle counts: weather of some days, heating in winter, hours without a label."""
    draw = np.random.default_rng(seed)
    when = [START + datetime.timedelta(hours=hours) for hours in range(count)]
    parts = {name: np.array([getattr(at, name) for at in when]) for name in ("year", "month", "day", "hour")}
    season = np.cos(2 * np.pi * np.arange(count) / 8_766)
    front = _wandering(draw, count)
    temperature = 12 - 14 * season - 4 * np.cos(2 * np.pi * (parts["hour"] - 3) / 24) + 3 * _wandering(draw, count)
    humid = 0.6 * front + 0.8 * _wandering(draw, count)
    direction = np.where(front < -0.5, "NW", np.where(front < 0.2, "NE", np.where(front < 0.9, "SE", "cv")))
    calm = front - 0.3 * draw.normal(size=count)
    logs = (
        4.2 + 0.35 * season + 0.5 * calm + 0.2 * humid + 0.1 * np.cos(parts["hour"] / 4) + 0.4 * _wandering(draw, count)
    )
    level = np.clip(np.exp(logs), 1, 990).round(0).astype(int).astype(str)
    columns: dict[str, Any] = parts | {
        "dew": (temperature - 12 + 5 * humid).round(0),
        "temperature": temperature.round(0),
        "pressure": (1016 + 9 * season - 4 * front + draw.normal(size=count)).round(0),
        "direction": direction,
        "wind": np.exp(2 - calm + 0.5 * draw.normal(size=count)).round(2),
        "snow": np.where((temperature < 0) & (humid > 1), draw.poisson(1.0, count), 0),
    }
    return _csv(columns | {"pm25": np.where(_outages(draw, count, 0.002), "", level)})


def air_quality(seed: int = 0, count: int = 9_360) -> str:
    """A year of gas sensors that lose their calibration; a sensor that is out of order reports -200."""
    draw = np.random.default_rng(seed)
    when = [START + datetime.timedelta(days=68, hours=hours) for hours in range(count)]
    hour = np.array([at.hour for at in when])
    working = np.array([at.weekday() < 5 for at in when])
    traffic = np.exp(-(((hour - 8) / 2.0) ** 2)) * working + np.exp(-(((hour - 19) / 3.0) ** 2)) + 0.3
    season = np.cos(2 * np.pi * np.arange(count) / 8_766)
    gas = traffic * np.exp(0.3 * season + 0.5 * _wandering(draw, count)) * 1.8
    temperature = 18 - 9 * season - 4 * np.cos(2 * np.pi * (hour - 3) / 24) + 2 * _wandering(draw, count)
    humidity = np.clip(50 + 12 * season - 1.2 * (temperature - 18) + 8 * _wandering(draw, count), 9, 90)
    age = np.arange(count) / 8_766
    out = _outages(draw, count, 0.002)
    columns: dict[str, Any] = {"date": [f"{at:%Y-%m-%d}" for at in when], "hour": hour}
    for k, (base, gain, ageing) in enumerate([(900, 160, -0.3), (600, 250, 0.4), (1100, -140, 0.2), (1300, 220, -0.5)]):
        response = base * (1 + 0.15 * ageing * age) + gain * (1 + ageing * age) * np.sqrt(gas)
        cells = response - 3 * (humidity - 50) * (k % 2) + 40 * draw.normal(size=count)
        columns[f"sensor_{k}"] = np.where(out, -200, cells.round(0))
    columns["temperature"] = np.where(out, -200, temperature.round(1))
    columns["humidity"] = np.where(out, -200, humidity.round(1))
    carbon = (gas * np.exp(0.15 * draw.normal(size=count))).round(1).astype(str)
    return _csv(columns | {"co": np.where(_outages(draw, count, 0.01), "", carbon)})


def bike_sharing(seed: int = 0, count: int = 17_376) -> str:
    """Two years of hourly rentals with calendar and weather: rush hours, holidays, rain, and growth by two thirds."""
    draw = np.random.default_rng(seed)
    when = [START + datetime.timedelta(days=365, hours=hours) for hours in range(count)]
    hour, month, weekday = np.array([(at.hour, at.month, at.weekday()) for at in when]).T
    holiday = np.repeat(draw.random(count // 24 + 1) < 0.03, 24)[:count]
    working = (weekday < 5) & ~holiday
    season = np.cos(2 * np.pi * (np.arange(count) / 8_766 - 0.04))
    weather = np.digitize(_wandering(draw, count), [0.4, 1.3, 2.4]) + 1
    warm = 15 - 11 * season - 3 * np.cos(2 * np.pi * (hour - 3) / 24) + 2.5 * _wandering(draw, count)
    humidity = np.clip(55 + 9 * weather - warm / 2 + 10 * _wandering(draw, count), 10, 100)
    wind = np.clip(12 + 6 * _wandering(draw, count) + 3 * draw.normal(size=count), 0, None)
    rush = 2.4 * np.exp(-(((hour - 8) / 1.2) ** 2)) + 3 * np.exp(-(((hour - 17.5) / 1.8) ** 2)) + 0.8 * (hour > 6)
    idle = 2.2 * np.exp(-(((hour - 14) / 4.0) ** 2)) + 0.15
    level = 90 * (1 + 0.65 * np.arange(count) / count) * np.where(working, rush + 0.05, idle)
    level *= (
        np.exp(0.035 * (warm - 15) - 0.002 * np.square(np.clip(warm - 25, 0, None)))
        * np.array([1, 0.9, 0.5, 0.2])[weather - 1]
    )
    columns = {
        "day": [f"{at:%Y-%m-%d}" for at in when],
        "season": 1 + (month % 12) // 3,
        "month": month,
        "hour": hour,
        "holiday": holiday.astype(int),
        "weekday": weekday,
        "working": working.astype(int),
        "weather": weather,
        "temperature": (warm / 41).round(2),
        "humidity": (humidity / 100).round(2),
        "wind": (wind / 67).round(4),
    }
    return _csv(columns | {"rentals": draw.negative_binomial(6, 6 / (6 + np.clip(level, 0.5, None)))})


def padded(seed: int = 0, count: int = 20_000) -> str:
    """Census-like rows: a blank after every comma, a question mark for an unknown cell."""
    draw = np.random.default_rng(seed)
    work = draw.choice(["Private", "State-gov", "Self-emp", "?"], count, p=[0.7, 0.1, 0.15, 0.05])
    school = draw.choice(["HS-grad", "Some-college", "Bachelors", "Masters"], count, p=[0.4, 0.25, 0.25, 0.1])
    age, gain = draw.integers(17, 90, count), np.where(draw.random(count) < 0.08, draw.integers(1000, 99999, count), 0)
    points = {"HS-grad": -1.0, "Some-college": -0.5, "Bachelors": 0.6, "Masters": 1.2}
    logit = np.array([points[one] for one in school]) + 0.04 * (age - 45) + 2.0 * (gain > 5000) - 1.1
    rich = draw.random(count) < 1 / (1 + np.exp(-logit))
    columns = {"age": age, "work": work, "school": school, "gain": gain, "income": np.where(rich, ">50K", "<=50K")}
    return _csv(columns, between=", ")


def gaps(seed: int = 0, count: int = 20_000) -> str:
    """A third of the cells are missing, more often where the value is high; the rule changes half way."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(count, 8))
    sign = np.where(np.arange(count) < count // 2, 1.0, -1.0)
    label = sign * (X[:, 0] + 0.8 * X[:, 1] - 0.6 * X[:, 2]) + 0.5 * draw.normal(size=count) > 0
    missing = draw.random(X.shape) < 1 / (1 + np.exp(0.9 - 0.8 * X))
    columns = {f"sensor_{k}": np.where(missing[:, k], "", X[:, k].round(3).astype(str)) for k in range(8)}
    return _csv(columns | {"fault": _words(label)})


def flips(seed: int = 0, count: int = 12_000) -> str:
    """The rule is reversed every 300 rows; to be read in steps of 20 to 100 rows."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(count, 4))
    reversed_now = (np.arange(count) // 300) % 2 == 1
    label = ((X[:, 0] - X[:, 1] > 0) != reversed_now) != (draw.random(count) < 0.05)
    return _csv({f"x{k}": X[:, k].round(4) for k in range(4)} | {"click": _words(label)})


def new_label(seed: int = 0, count: int = 15_000) -> str:
    """Two labels for a third of the rows; then a third one appears, and later a fourth."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(count, 5))
    known = np.minimum(2 + 3 * np.arange(count) // count, 4)
    weights = draw.normal(size=(5, 4)) * 2
    scores = X @ weights + draw.gumbel(size=(count, 4))
    scores[np.arange(4)[None, :] >= known[:, None]] = -np.inf
    label = np.array(["ok", "slow", "down", "lost"])[scores.argmax(axis=1)]
    return _csv({f"x{k}": X[:, k].round(4) for k in range(5)} | {"state": label})


def static(seed: int = 0, count: int = 20_000) -> str:
    """Nothing changes: the label depends on two columns of eight and on a name."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(count, 8))
    city = draw.integers(0, 40, count)
    logit = 1.2 * X[:, 0] - X[:, 1] + np.sin(city) * 1.5
    columns = {f"x{k}": X[:, k].round(4) for k in range(8)} | {"city": [f"city {one}" for one in city]}
    return _csv(columns | {"bought": _words(draw.random(count) < 1 / (1 + np.exp(-logit)))})


def mixed_types(seed: int = 0, count: int = 20_000) -> str:
    """Dates, names, gaps, numbers of any size, and a rule that is reversed half way (``benchmarks.mixed``)."""
    return csv_text(mixed_rows(count, seed))


GENERATED: Mapping[str, Callable[..., str]] = {
    made.__name__: made
    for made in (
        *(heavy_tails, rare_class, seasonal, particles, air_quality, demand, bike_sharing, padded, gaps, flips),
        *(new_label, static, mixed_types),
    )
}
"""The generated tables by name; each is a function of the seed and of the number of rows."""


def _words(truth: npt.NDArray[np.bool_]) -> npt.NDArray[np.str_]:
    return np.where(truth, "yes", "no")


def _wandering(draw: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
    """Return a slow random walk that returns to 0: weather of some days."""
    level = np.zeros(count)
    for place in range(1, count):
        level[place] = 0.98 * level[place - 1] + 0.2 * draw.normal()
    return level


def _outages(draw: np.random.Generator, count: int, rate: float) -> npt.NDArray[np.bool_]:
    """Return which hours lie in an outage, which begins at this rate and lasts for 2 to 40 hours."""
    out = np.zeros(count, bool)
    for begin in np.flatnonzero(draw.random(count) < rate):
        out[begin : begin + int(draw.integers(2, 40))] = True
    return out


def _csv(columns: Mapping[str, Any], between: str = ",") -> str:
    rows = zip(*(np.asarray(values).astype(str) for values in columns.values()), strict=True)
    return "\n".join([between.join(columns), *map(between.join, rows)]) + "\n"
