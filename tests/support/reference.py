"""Slow, readable twins of the fast code, written from the published rules and not from the code."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from scipy.special import expit

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.numeric import word

# ---------------------------------------------------------------------------- streams


class JavaRandom:
    """java.util.Random as its documentation describes it."""

    def __init__(self, seed: int) -> None:
        self.state = (seed ^ 0x5DEECE66D) % 2**48

    def next(self, bits: int) -> int:
        self.state = (self.state * 0x5DEECE66D + 0xB) % 2**48
        return self.state >> (48 - bits)

    def next_double(self) -> float:
        return (self.next(26) * 2**27 + self.next(27)) / 2**53

    def next_int(self, n: int) -> int:
        while True:
            bits = self.next(31)
            if bits - bits % n + (n - 1) < 2**31:
                return bits % n


def sea_concept(theta: float, noise: int, seed: int) -> Iterator[tuple[list[float], int]]:
    """Yield rows and labels of one SEA concept with balanced classes; ``noise`` is in per cent."""
    java = JavaRandom(seed)
    wanted = 1
    while True:
        x = [10 * java.next_double() for _ in range(3)]
        group = 0 if x[0] + x[1] <= theta else 1
        if group == wanted:
            wanted = 1 - wanted
            if 1 + java.next_int(100) <= noise:
                group = 1 - group
            yield x, 1 if group == 0 else -1


def joined(
    first: Iterator[tuple[list[float], int]],
    second: Iterator[tuple[list[float], int]],
    position: int,
    width: int,
    seed: int,
) -> Iterator[tuple[list[float], int]]:
    """Join two streams as MOA's ConceptDriftStream does."""
    java = JavaRandom(seed)
    for t in count(1):
        exponent = -4 * (t - position) / width
        sigmoid = 0.0 if exponent > 700 else 1 / (1 + math.exp(exponent))
        yield next(first) if java.next_double() > sigmoid else next(second)


def sea(noise: int, gradual: bool, seed: int, n_rows: int) -> Iterator[tuple[list[float], int]]:
    """Yield the paper's SEA stream, without end."""
    f1, f2, f3, f4 = (sea_concept(theta, noise, seed) for theta in (8, 9, 7, 9.5))
    if gradual:
        return joined(f3, f2, n_rows // 2, max(1, n_rows // 5), seed)
    quarter = n_rows // 4
    return joined(f3, joined(f2, joined(f4, f1, quarter, 1, seed), quarter, 1, seed), quarter, 1, seed)


def friedman(drift: str, noise: float, seed: int, n_rows: int) -> Iterator[tuple[list[float], float]]:
    """Yield Friedman's function with the drifts of Ikonomovska's thesis, from three numpy generators."""

    def function(x: list[float], *places: int) -> float:
        a, b, c, d, e = (x[place - 1] for place in places)
        return 10 * math.sin(math.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e

    generators = {"abrupt": (0, 1, 2), "gradual": (3, 4, 5), "local": (6, 7, 8)}[drift]
    rows, coins, errors = (np.random.default_rng(word(word(seed, k), 0)) for k in generators)
    quarters = [quarter * n_rows // 4 for quarter in (1, 2, 3)]
    window = n_rows // 10
    for t in range(n_rows):
        x = [rows.random() for _ in range(10)]
        old = coins.random() < 0.5
        first, second, third = function(x, 1, 2, 3, 4, 5), function(x, 4, 5, 2, 1, 3), function(x, 2, 5, 4, 3, 1)
        y = first
        if drift == "abrupt":
            y = second if quarters[1] <= t < quarters[2] else first
        elif drift == "gradual" and t >= quarters[2]:
            y = second if old and t < quarters[2] + window else third
        elif drift == "gradual" and t >= quarters[1]:
            y = first if old and t < quarters[1] + window else second
        elif drift == "local" and t >= quarters[0]:
            low = [x[1] < 0.3, x[2] < 0.3, x[3] > 0.7, x[4] < 0.3]
            high = [x[1] > 0.7, x[2] > 0.7, x[3] < 0.3, x[4] > 0.7]
            asked = 4 - (t >= quarters[1]) - (t >= quarters[2])
            if all(low[:asked]):
                y = 10 * x[0] * x[1] + 20 * (x[2] - 0.5) + 10 * x[3] + 5 * x[4]
            elif all(high[:asked]):
                y = 10 * math.cos(x[0] * x[1]) + 20 * (x[2] - 0.5) + math.exp(x[3]) + 5 * x[4] ** 2
        yield x, y + noise * float(errors.standard_normal())


def hyperplane(
    magnitude: float, noise: int, n_features: int, reversal: int, seed: int
) -> Iterator[tuple[list[float], int]]:
    """Yield MOA's hyperplane with all attributes drifting, without end; ``noise`` and ``reversal`` are in per cent."""
    java = JavaRandom(seed)
    weights = [java.next_double() for _ in range(n_features)]
    signs = [1] * n_features
    while True:
        x = [java.next_double() for _ in range(n_features)]
        group = 1 if sum(a * w for a, w in zip(x, weights, strict=True)) >= 0.5 * sum(weights) else 0
        if 1 + java.next_int(100) <= noise:
            group = 1 - group
        for c in range(n_features):
            weights[c] += signs[c] * magnitude
            if 1 + java.next_int(100) <= reversal:
                signs[c] = -signs[c]
        yield x, 1 if group == 0 else -1


# ---------------------------------------------------------------------------- learning
# Rows are dense and carry the constant column already: x = (features, bias).

LabelledRows = tuple[FloatArray, FloatArray, FloatArray]
"""X, y and weight."""


def draw(seed: int, k: int, n: int) -> int:
    """Return word k of the generator as an integer below n: its upper half times n, shifted down."""
    return (word(seed, k) >> 32) * n // 2**32


def uniform(seed: int, k: int) -> float:
    """Return word k of the generator as a number in [0, 1): its upper 53 bits."""
    return (word(seed, k) >> 11) / 2**53


def alternating(steps: int, admitted: int, waiting: int, seed: int, k: int) -> tuple[list[int], int, int]:
    """Return STRSAGA's schedule: the rows visited, the size of the set after it, and the position of the generator."""
    sample_set, waiting_room = list(range(admitted)), list(range(admitted, admitted + waiting))
    visited = []
    for j in range(1, steps + 1):
        if waiting_room and j % 2 == 1:
            sample_set.append(waiting_room.pop(0))
            visited.append(sample_set[-1])
        else:
            visited.append(sample_set[draw(seed, k, len(sample_set))])
            k += 1
    return visited, len(sample_set), k


def growing(steps: int, admitted: int, waiting: int, seed: int, k: int) -> tuple[list[int], int, int]:
    """Return plain SAGA's schedule: the set grows as that of STRSAGA, and every step draws from it."""
    sample_set, waiting_room = list(range(admitted)), list(range(admitted, admitted + waiting))
    visited = []
    for j in range(1, steps + 1):
        if waiting_room and j % 2 == 1:
            sample_set.append(waiting_room.pop(0))
        visited.append(sample_set[draw(seed, k, len(sample_set))])
        k += 1
    return visited, len(sample_set), k


def logistic_loss(margin: float, y: float) -> float:
    """Return log(1 + exp(-s margin)), where s = -1 for class 0 and +1 for class 1."""
    return float(np.logaddexp(0.0, -margin if y == 1 else margin))


def gradient(margin: float, y: float, weight: float) -> float:
    """Return the derivative of weight * logistic_loss by the margin."""
    return weight * float(expit(margin) - y)


def gradient_sum(X: FloatArray, table: dict[int, float]) -> FloatArray:
    """Return the sum of the gradients in the table, computed from scratch."""
    total = np.zeros(X.shape[1])
    for i, alpha in table.items():
        total = total + alpha * X[i]
    return total


def saga(
    rows: LabelledRows,
    order: Iterable[int],
    w: FloatArray,
    table: dict[int, float],
    eta: float,
    mu: float,
    anchor: FloatArray | float = 0.0,
) -> FloatArray:
    """Return the weights after one SAGA step for each row of ``order``; the table has the rows drawn so far."""
    X, y, weight = rows
    total = gradient_sum(X, table)
    for i in order:
        g = gradient(float(X[i] @ w), y[i], weight[i])
        alpha = table.setdefault(i, 0.0)
        w = w - eta * mu * (w - anchor) - eta * ((g - alpha) * X[i] + total / len(table))
        total = total + (g - alpha) * X[i]
        table[i] = g
    return w


def sgd(
    rows: LabelledRows, order: Iterable[int], w: FloatArray, eta: float, mu: float, anchor: FloatArray | float = 0.0
) -> FloatArray:
    """Return the weights after one SGD step for each row of ``order``."""
    X, y, weight = rows
    for i in order:
        w = w - eta * mu * (w - anchor) - eta * gradient(float(X[i] @ w), y[i], weight[i]) * X[i]
    return w


@dataclass
class LogisticTwin:
    """Logistic regression on a stream that is known as a whole."""

    rows: LabelledRows
    optimizer: str
    w: FloatArray
    eta: float
    mu: float
    seed: int
    words: int = 0
    known: list[int] = field(default_factory=list)
    """Numbers of the rows in the sample set, then of the waiting rows."""
    admitted: int = 0
    table: dict[int, float] = field(default_factory=dict)
    anchor: FloatArray | float = 0.0

    def update(self, new: Iterable[int], steps: int) -> None:
        self.known.extend(new)
        how = self.eta, self.mu, self.anchor
        if self.optimizer == "one-pass":
            self.w = sgd(self.rows, self.known, self.w, *how)
            self.known = []
        elif self.optimizer == "sgd":
            draws = [draw(self.seed, self.words + j, len(self.known)) for j in range(steps)]
            self.admitted, self.words = len(self.known), self.words + steps
            self.w = sgd(self.rows, [self.known[i] for i in draws], self.w, *how)
        else:
            schedule = alternating if self.optimizer == "strsaga" else growing
            waiting = len(self.known) - self.admitted
            visited, self.admitted, self.words = schedule(steps, self.admitted, waiting, self.seed, self.words)
            self.w = saga(self.rows, [self.known[i] for i in visited], self.w, self.table, *how)

    def forget(self, before_row: int) -> None:
        gone = sum(row < before_row for row in self.known)
        for row in self.known[:gone]:
            self.table.pop(row, None)
        self.known, self.admitted = self.known[gone:], max(0, self.admitted - gone)


def following(
    margins: FloatArray, losses: FloatArray, weight: FloatArray, logs: FloatArray, decay: float
) -> tuple[FloatArray, FloatArray]:
    """Return Candor's votes: the balance of each row by the weights before it, and the final logarithms.

    Row k of ``margins`` and ``losses`` belongs to voter k. The largest logarithm is 0.
    """
    balance = []
    for j in range(margins.shape[1]):
        beta = np.exp(logs - logs.max())
        balance.append(float((beta * np.where(margins[:, j] > 0, 1.0, -1.0)).sum() / beta.sum()))
        logs = logs - decay * weight[j] * losses[:, j]
    return np.array(balance), logs - logs.max()


# ---------------------------------------------------------------------------- the Tornado framework


def tornado(name: str, noise: float, seed: int, n_rows: int) -> tuple[FloatArray, IntArray]:
    """Yield rows of SINE1, Mixed or Circles with Python's own random numbers."""
    rng = random.Random(seed)
    flipped = rng.sample(range(n_rows), int(n_rows * noise))
    rng.seed(seed)
    segments = 4 if name == "Circles" else 5
    starts = [k * n_rows // segments for k in range(segments)]

    def point(concept: int) -> tuple[list[float], bool]:
        if name == "Mixed":
            x = [float(rng.randint(0, 1)), float(rng.randint(0, 1)), rng.random(), rng.random()]
            return x, x[0] + x[1] + (x[3] < 0.5 + 0.3 * math.sin(3 * math.pi * x[2])) >= 2
        x = [rng.random(), rng.random()]
        if name == "SINE1":
            return x, x[1] <= math.sin(x[0])
        centre, radius = [(0.2, 0.15), (0.4, 0.2), (0.6, 0.25), (0.8, 0.3)][concept]
        return x, (x[0] - centre) ** 2 + (x[1] - 0.5) ** 2 > radius**2

    def row(concept: int) -> tuple[list[float], int]:
        x, positive = point(concept)
        wanted = rng.random() < 0.5
        if name == "Circles":
            wanted = not wanted
        while positive != wanted:
            x, positive = point(concept)
        if name != "Circles" and concept == 1:
            positive = not positive
        digits = 5 if name == "Circles" else 3
        return [round(value, digits) for value in x], 1 if positive else -1

    def concept_of(i: int) -> int:
        segment = max(k for k in range(segments) if starts[k] <= i)
        return segment if name == "Circles" else segment % 2

    rows = [row(concept_of(i)) for i in range(n_rows)]
    width = n_rows // 20 if name == "Circles" else min(50, n_rows // 5)
    for k in range(3) if name == "Circles" else range(1, 5):
        old, new = (k, k + 1) if name == "Circles" else ((k - 1) % 2, k % 2)
        for t in range(width):
            share = 1 / (1 + math.exp(-4 * (t - width / 2) / width))
            rows[starts[k] + t] = row(new if rng.random() < share else old)
    y = np.array([label for _, label in rows])
    y[flipped] *= -1
    return np.array([x for x, _ in rows]), y
