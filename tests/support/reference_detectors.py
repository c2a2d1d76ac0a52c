"""Slow, readable twins of the drift detectors: the published definitions with lists, one value at a time.

``add`` takes an error (1 = wrong, 0 = right) and returns "drift", "warning" or "". After a drift only ADWIN can be used
again; the others have to be replaced by new ones.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np


class Twin(Protocol):
    def add(self, error: float) -> str: ...


@dataclass
class PlainMDDM:
    """MDDM; ``weight(i)`` is the weight of the i-th oldest prediction in a full window, i from 1."""

    weight: Callable[[int], float]
    n: int
    delta: float
    window: list[float] = field(default_factory=list)
    best: float = 0.0

    def add(self, error: float) -> str:
        self.window.append(1.0 - error)
        if len(self.window) < self.n:
            return ""
        self.window = self.window[-self.n :]
        total = math.fsum(self.weight(i) for i in range(1, self.n + 1))
        w = [self.weight(i) / total for i in range(1, self.n + 1)]
        mean = math.fsum(a * b for a, b in zip(w, self.window, strict=True))
        epsilon = math.sqrt(0.5 * math.fsum(a * a for a in w) * math.log(1.0 / self.delta))
        self.best = max(self.best, mean)
        return "drift" if self.best - mean > epsilon else ""


@dataclass
class PlainFHDDM:
    n: int
    delta: float
    window: list[float] = field(default_factory=list)
    p_max: float = 0.0

    def add(self, error: float) -> str:
        self.window = [*self.window, 1.0 - error][-self.n :]
        if len(self.window) < self.n:
            return ""
        p = math.fsum(self.window) / self.n
        self.p_max = max(self.p_max, p)
        return "drift" if self.p_max - p > math.sqrt(math.log(1.0 / self.delta) / (2 * self.n)) else ""


@dataclass
class PlainDDM:
    min_rows: int = 30
    warning_level: float = 2.0
    drift_level: float = 3.0
    seen: list[float] = field(default_factory=list)
    lowest: tuple[float, float, float] | None = None
    """Lowest p + s, with its p and s."""

    def add(self, error: float) -> str:
        self.seen.append(error)
        i = len(self.seen)
        if i < self.min_rows:
            return ""
        p = sum(self.seen) / i
        s = math.sqrt(p * (1.0 - p) / i)
        if self.lowest is None or p + s < self.lowest[0]:
            self.lowest = p + s, p, s
        _, p_min, s_min = self.lowest
        if p + s > p_min + self.drift_level * s_min:
            return "drift"
        return "warning" if p + s > p_min + self.warning_level * s_min else ""


@dataclass
class PlainEDDM:
    min_errors: int = 30
    alpha: float = 0.95
    beta: float = 0.90
    rows: int = 0
    errors_at: list[int] = field(default_factory=lambda: [0])
    """Numbers of the rows with errors, from 1; 0 stands for an error before the first row."""
    largest: float = 0.0
    ratio: float = 1.0
    level: str = ""

    def add(self, error: float) -> str:
        self.rows += 1
        if error <= 0.5:
            return self.level
        self.errors_at.append(self.rows)
        distances = [b - a for a, b in zip(self.errors_at, self.errors_at[1:], strict=False)]
        if len(distances) < self.min_errors:
            return ""
        reach = statistics.fmean(distances) + 2.0 * statistics.pstdev(distances)
        self.largest = max(self.largest, reach)
        self.ratio = reach / self.largest
        self.level = "drift" if self.ratio < self.beta else "warning" if self.ratio < self.alpha else ""
        return self.level


@dataclass
class PlainPageHinkley:
    min_rows: int = 30
    delta: float = 0.005
    threshold: float = 50.0
    alpha: float = 0.9999
    seen: list[float] = field(default_factory=list)
    m: float = 0.0

    def add(self, error: float) -> str:
        self.seen.append(error)
        mean = math.fsum(self.seen) / len(self.seen)
        self.m = max(0.0, self.alpha * self.m + error - mean - self.delta)
        return "drift" if len(self.seen) >= self.min_rows and self.m > self.threshold else ""


@dataclass
class PlainADWIN:
    """ADWIN that keeps the values; ``rows[k]`` lists buckets of 2**k values, oldest first."""

    delta: float = 0.002
    clock: int = 32
    max_buckets: int = 5
    min_length: int = 5
    increase_only: bool = False
    count: int = 0
    rows: list[list[list[float]]] = field(default_factory=lambda: [[]])

    @property
    def buckets(self) -> list[list[float]]:
        """All values, oldest first."""
        return [bucket for row in reversed(self.rows) for bucket in row]

    @property
    def window(self) -> list[float]:
        return [value for bucket in self.buckets for value in bucket]

    def add(self, value: float) -> str:
        if len(self.window) >= 32:
            most = max(1.0, 10.0 * float(np.sqrt(np.mean(np.square(self.window)))))
            value = min(max(value, -most), most)
        self.rows[0].append([value])
        for k in range(len(self.rows)):
            if len(self.rows[k]) > self.max_buckets:
                first, second, *self.rows[k] = self.rows[k]
                self.rows += [[]] * (k + 1 == len(self.rows))
                self.rows[k + 1] = [*self.rows[k + 1], first + second]
        self.count += 1
        if self.count % self.clock:
            return ""
        before = self.window
        while self.two_parts_differ():
            oldest = max(k for k, row in enumerate(self.rows) if row)
            del self.rows[oldest][0]
        if len(self.window) == len(before):
            return ""
        return "" if self.increase_only and np.mean(self.window) <= np.mean(before) else "drift"

    def two_parts_differ(self) -> bool:
        window = np.array(self.window)
        n = len(window)
        if n <= 2 * self.min_length:
            return False
        confidence = math.log(2.0 * math.log(n) / self.delta)
        n0 = 0
        for bucket in self.buckets[:-1]:
            n0 += len(bucket)
            n1 = n - n0
            if min(n0, n1) >= self.min_length:
                m = 1.0 / (n0 - self.min_length + 1) + 1.0 / (n1 - self.min_length + 1)
                cut = math.sqrt(2.0 * m * window.var() * confidence) + 2.0 / 3.0 * m * confidence
                if abs(window[:n0].mean() - window[n0:].mean()) > cut:
                    return True
        return False
