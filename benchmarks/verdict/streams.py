"""Made streams with one kind of change, each a function of its kind, its family, its seed and its number of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.verdict.families import FAMILIES, Family, Move, Rule
from driftsurf.core.contracts import FloatArray

__all__ = ["FIRST_JUDGED", "GRADUAL", "KINDS", "Kind", "Made", "Scored", "compare_errors", "families_of", "kl", "make"]

Scored: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""Labels and predictions."""

FIRST_JUDGED = 1_000
"""Seeds below it are for choosing settings; the benchmark judges with seeds from it on."""
SAMPLE = 20_000
"""Rows on which the size of a change is measured."""
GRADUAL = 2_000
"""Rows that a gradual change takes."""


class Kind(NamedTuple):
    """A kind of change. ``rises`` are the rises of the error of the old rule, of which a seed takes one."""

    expected: str
    """What a verdict should say: "none", "new rule", "harm", or "classes"."""
    rises: tuple[float, ...] = ()
    only: tuple[str, ...] = ()
    """The families that have this kind; empty means all."""


MANY_CLASSES = "trees", "text", "classes"
KINDS: Mapping[str, Kind] = {
    "steady": Kind("none"),
    "inputs-moved": Kind("none"),
    "inputs-scaled": Kind("none"),
    "noisier": Kind("harm"),
    "season": Kind("none"),
    "abrupt-05": Kind("new rule", (0.05,)),
    "abrupt-10": Kind("new rule", (0.10,)),
    "abrupt-20": Kind("new rule", (0.20,)),
    "abrupt-40": Kind("new rule", (0.40,)),
    "gradual": Kind("new rule", (0.04, 0.08, 0.16)),
    "column": Kind("new rule", (0.10, 0.15, 0.20)),
    "recurring": Kind("new rule", (0.20,)),
    "class-comes": Kind("classes", only=MANY_CLASSES),
    "class-goes": Kind("none", only=MANY_CLASSES),
}
"""The kinds of change by name."""


@dataclass(frozen=True, eq=False)
class Made:
    """A stream and what is true about it."""

    kind: str
    family: str
    seed: int
    X: Any
    """An array of rows, or a table as a dictionary of columns."""
    y: npt.NDArray[Any]
    classes: tuple[int, ...]
    """All classes; empty for a regression."""
    names: tuple[str, ...]
    """Names of the columns; those of an array are only counted."""
    metric: str
    change_row: int | None
    """First row of the first change; None if nothing changes."""
    change_rows: tuple[int, ...]
    """First rows of all changes."""
    error_before: float
    """Error of the old rule before the change."""
    error_after: float
    """Error of the old rule after it."""
    rows_needed: float
    """ln 100 / KL of the errors of the old rule: rows that any test needs to tell them apart; infinite if equal."""
    columns: tuple[str, ...] = ()
    """The columns whose relation to the label changes, if they are known."""
    changed_class: int | None = None
    """The class that comes or goes."""

    @property
    def true_rise(self) -> float:
        """Rise of the error of the old rule."""
        return self.error_after - self.error_before

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    def rows(self, first: int, stop: int) -> tuple[Any, npt.NDArray[Any]]:
        """Return some rows and their labels."""
        part = slice(first, stop)
        X = {name: cells[part] for name, cells in self.X.items()} if isinstance(self.X, dict) else self.X[part]
        return X, self.y[part]


def families_of(kind: str) -> tuple[str, ...]:
    """Return the names of the families that have a kind of change."""
    return KINDS[kind].only or tuple(FAMILIES)


def make(kind: str, family: str, seed: int, rows: int, rise: float | None = None) -> Made:
    """Return a stream. ``rise`` replaces the rise of the error that the kind and the seed say.

    >>> made = make("abrupt-20", "linear", 0, 10_000)
    >>> made.X.shape, made.classes, made.change_row, abs(made.true_rise - 0.2) < 0.01
    ((10000, 6), (0, 1), 4984, True)
    """
    random = np.random.default_rng([seed, list(KINDS).index(kind), list(FAMILIES).index(family)])
    source = FAMILIES[family](random)
    sample = source.draw(SAMPLE)
    rule = source.rule(sample)
    change = None if kind in ("steady", "season") else int(rows * random.uniform(0.45, 0.55))
    rises = KINDS[kind].rises
    wanted = rise if rise is not None else rises[seed % len(rises)] if rises else None
    if kind.startswith("class-"):
        assert change is not None
        return _with_class(kind, family, seed, rows, change, source, rule, sample)
    column = _column(source, rule, sample, wanted) if kind == "column" and wanted is not None else None
    new = rule if wanted is None else _changed(source, rule, sample, wanted, column)
    course = _course(kind, source, random, rows, change)
    Z = source.draw(rows)
    if kind.startswith("inputs-"):
        moved = np.arange(rows) >= (change or 0)
        Z[moved] = source.draw(int(moved.sum()), Move(kind.removeprefix("inputs-"), rule))
    target = rule(Z)
    target[course.changed] = new(Z[course.changed])
    y = source.noisy(random, target, course.noise)
    before, after, needed = _errors(source, rule, new, sample, float(course.noise[-1]) if kind == "noisier" else None)
    named = () if column is None else (source.columns[column],)
    classes, changes = tuple(range(source.n_classes)), course.change_rows
    return Made(
        *(kind, family, seed, source.table(Z), y, classes, source.columns, source.metric),
        *(changes[0] if changes else None, changes, before, after, needed, named),
    )


class _Course(NamedTuple):
    """What holds for each row: whether the new rule does, and how much noise there is."""

    changed: npt.NDArray[np.bool_]
    noise: FloatArray
    change_rows: tuple[int, ...]


def _course(kind: str, source: Family, random: np.random.Generator, rows: int, change: int | None) -> _Course:
    order, noise = np.arange(rows), np.full(rows, source.noise)
    if kind == "season":
        wave = np.sin(2.0 * np.pi * order / (rows / random.uniform(4.0, 8.0)))
        return _Course(np.zeros(rows, np.bool_), source.noise * (1.0 + 0.6 * wave), ())
    if change is None:
        return _Course(np.zeros(rows, np.bool_), noise, ())
    if kind == "gradual":
        return _Course(random.random(rows) < (order - change) / GRADUAL, noise, (change,))
    if kind == "recurring":
        period = rows // 5
        return _Course(order // period % 2 == 1, noise, tuple(range(period, 5 * period, period)))
    if kind == "noisier":
        noise[change:] *= random.choice((2.0, 3.0, 4.0))
    return _Course((order >= change) & bool(KINDS[kind].rises), noise, (change,))


def _with_class(
    kind: str, family: str, seed: int, rows: int, change: int, source: Family, rule: Rule, sample: FloatArray
) -> Made:
    """Return a stream in which a class with at least 4 % of the rows comes or goes."""
    shares = np.bincount(rule(sample), minlength=source.n_classes) / len(sample)
    one = int(source.random.choice(np.flatnonzero(shares >= min(0.04, shares.max()))))
    parts, labels = list[FloatArray](), list[npt.NDArray[Any]]()
    for count, there in ((change, kind == "class-goes"), (rows - change, kind == "class-comes")):
        Z = source.draw(int(count / (1.0 - shares[one]) * 1.2) + 100)
        y = source.noisy(source.random, rule(Z), source.noise)
        keep = np.flatnonzero((y != one) | there)[:count]
        parts.append(Z[keep])
        labels.append(y[keep])
    before, after = source.noise, source.noise
    if kind == "class-comes":
        after += float(shares[one]) * (1.0 - source.noise)
    return Made(
        *(kind, family, seed, source.table(np.concatenate(parts)), np.concatenate(labels)),
        *(tuple(range(source.n_classes)), source.columns, source.metric, change, (change,)),
        *(before, after, _needed(kl(after, before)), (), one),
    )


def _column(source: Family, rule: Rule, sample: FloatArray, rise: float) -> int:
    """Return a column that matters enough: at random among those whose relation can raise the error by ``rise``."""
    own = np.random.default_rng(int(source.random.integers(2**32)))
    most = []
    for column in range(len(source.columns)):
        changed = rule.changed(np.random.default_rng(column), column, sample)
        most.append(max(_rise(source, rule, changed.at(amount), sample) for amount in (0.5, 1.0)))
    enough = np.flatnonzero(np.array(most) >= rise)
    return int(own.choice(enough)) if len(enough) else int(np.argmax(most))


def _changed(source: Family, rule: Rule, sample: FloatArray, rise: float, column: int | None) -> Rule:
    """Return the rule after a change by which the error of the old one rises by ``rise``, or by less if it cannot."""
    random = np.random.default_rng(int(source.random.integers(2**32)))
    best, reached = rule, 0.0
    for _ in range(8):  # another direction, if this one cannot raise the error enough
        changed = rule.changed(random, column, sample)
        low, high = 0.0, 1.0
        if (most := _rise(source, rule, changed.at(1.0), sample)) < rise:
            if most > reached:
                best, reached = changed.at(1.0), most
            continue
        for _ in range(14):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if _rise(source, rule, changed.at(middle), sample) < rise else (low, middle)
        return changed.at(high)
    return best


def _rise(source: Family, old: Rule, new: Rule, sample: FloatArray) -> float:
    before, after, _ = _errors(source, old, new, sample)
    return after - before


def _errors(
    source: Family, old: Rule, new: Rule, sample: FloatArray, noise: float | None = None
) -> tuple[float, float, float]:
    """Return the errors of the old rule before and after, and the rows that a test of them needs.

    ``noise`` is that of the rows after the change, if it is another one.
    """
    predicted, seen = old(sample), []
    for rule, share in ((old, source.noise), (new, source.noise if noise is None else noise)):
        seen.append(source.noisy(np.random.default_rng(0), rule(sample), share))  # the same noise for both
    return compare_errors(source.metric, (seen[0], predicted), (seen[1], predicted))


def compare_errors(metric: str, before: Scored, after: Scored) -> tuple[float, float, float]:
    """Return the errors of predictions before and after a change, and the rows that a test needs to tell them apart.

    An absolute error is divided by the one of the median before the change.
    """
    (y, p), (new_y, new_p) = before, after
    if metric == "absolute error":
        usual = float(np.abs(y - np.median(y)).mean())
        ratio = float(np.square(new_y - new_p).mean() / np.square(y - p).mean())
        evidence = 0.5 * (ratio - 1.0 - math.log(ratio)) if ratio > 1.0 else 0.0
        return float(np.abs(y - p).mean()) / usual, float(np.abs(new_y - new_p).mean()) / usual, _needed(evidence)
    if metric == "error":
        found = float((y != p).mean()), float((new_y != new_p).mean())
        return *found, _needed(kl(found[1], found[0]) if found[1] > found[0] else 0.0)
    # Of a balanced error, both classes are evidence, in proportion to their rows.
    parts = [
        [float((b != a)[a == one].mean()) if (a == one).any() else 0.0 for one in (0, 1)] for a, b in (before, after)
    ]
    shares = [float((new_y == one).mean()) for one in (0, 1)]
    evidence = sum(share * kl(parts[1][one], parts[0][one]) for one, share in enumerate(shares))
    return sum(parts[0]) / 2.0, sum(parts[1]) / 2.0, _needed(evidence)


def kl(after: float, before: float) -> float:
    """Return the divergence of an error rate from another: the evidence of a row, in nats.

    >>> round(math.log(100) / kl(0.17, 0.12)), round(math.log(100) / kl(0.5, 0.1))
    (432, 9)
    """
    p, q = (min(max(one, 1e-6), 1.0 - 1e-6) for one in (after, before))
    return p * math.log(p / q) + (1.0 - p) * math.log((1.0 - p) / (1.0 - q))


def _needed(evidence: float) -> float:
    return math.log(100.0) / evidence if evidence > 1e-9 else math.inf
