"""Six families of made streams: how their rows are drawn, and rules that can be changed by any amount."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray

__all__ = ["FAMILIES", "Classes", "Family", "Imbalanced", "Linear", "Regression", "Rule", "Terrain", "Text"]

Random = np.random.Generator
RARE = 0.02
"""Share of the rare class."""
FAULTS = "late", "broken", "missing", "wrong", "empty", "damaged"
THINGS = "parcel", "box", "cable", "screen", "manual", "key", "shoe", "lamp", "cup", "bag"


class Rule(ABC):
    """What the label of a row without noise is: a class code, or a number."""

    @abstractmethod
    def __call__(self, Z: FloatArray) -> npt.NDArray[Any]:
        """Return the labels of rows."""

    @abstractmethod
    def changed(self, random: Random, column: int | None, sample: FloatArray) -> ChangedRule:
        """Return rules that differ from this one more and more, in what one column does or in all."""


class ChangedRule(ABC):
    """Another rule for each ``amount`` from 0 (the old rule) to 1."""

    @abstractmethod
    def at(self, amount: float) -> Rule:
        """Return the rule after a change by that amount."""


class LinearRule(Rule):
    """The class with the highest linear score; one score and a threshold for two classes; the score for a regression.

    The threshold keeps ``share`` of the rows of ``sample`` in class 1.
    """

    def __init__(self, weights: FloatArray, family: Family, share: float, sample: FloatArray) -> None:
        self.weights, self.family, self.share = weights, family, share
        self.threshold = np.quantile(sample @ weights[0], 1.0 - share) if family.n_classes == 2 else 0.0

    def __call__(self, Z: FloatArray) -> npt.NDArray[Any]:
        scores = Z @ self.weights.T
        if self.family.n_classes == 0:
            return np.asarray(scores[:, 0] + 0.3 * np.sin(2.0 * Z[:, 0]))
        if self.family.n_classes == 2:
            return np.asarray(scores[:, 0] > self.threshold, np.int64)
        return np.asarray(scores.argmax(axis=1), np.int64)

    def changed(self, random: Random, column: int | None, sample: FloatArray) -> ChangedRule:
        other = random.normal(size=self.weights.shape)
        part = np.arange(self.weights.shape[1]) if column is None else self.family.places[column]
        old = self.weights[:, part]
        new = other[:, part]
        # Orthogonal to the old weights and as long, so that an angle says how much changes.
        new -= old * ((new * old).sum(axis=1) / np.square(old).sum(axis=1))[:, None]
        length = np.linalg.norm(new, axis=1, keepdims=True)
        new *= np.where(length > 1e-9, np.linalg.norm(old, axis=1, keepdims=True) / np.maximum(length, 1e-9), 0.0)
        return _Turned(self, part, new, sample)


class _Turned(ChangedRule):
    def __init__(self, rule: LinearRule, part: npt.NDArray[np.int64], new: FloatArray, sample: FloatArray) -> None:
        self.rule, self.part, self.new, self.sample = rule, part, new, sample

    def at(self, amount: float) -> Rule:
        weights = self.rule.weights.copy()
        angle = math.pi * amount
        weights[:, self.part] = math.cos(angle) * weights[:, self.part] + math.sin(angle) * self.new
        return LinearRule(weights, self.rule.family, self.rule.share, self.sample)


class TerrainRule(Rule):
    """The class with the highest sum of the leaves of a few random trees."""

    def __init__(self, random: Random, columns: int, classes: int, trees: int = 2, depth: int = 3) -> None:
        splits = 2**depth - 1
        self.depth = depth
        self.column = np.array([random.permutation(columns)[np.arange(splits) % columns] for _ in range(trees)])
        self.limit = 0.6 * random.normal(size=(trees, splits))
        self.leaf = random.normal(size=(trees, splits + 1, classes))

    def __call__(self, Z: FloatArray) -> npt.NDArray[Any]:
        total, every = np.zeros((len(Z), self.leaf.shape[2])), np.arange(len(Z))
        for column, limit, leaf in zip(self.column, self.limit, self.leaf, strict=True):
            at = np.zeros(len(Z), np.int64)
            for _ in range(self.depth):
                at = 2 * at + 1 + (Z[every, column[at]] > limit[at])
            total += leaf[at - len(limit)]
        return np.asarray(total.argmax(axis=1), np.int64)

    def changed(self, random: Random, column: int | None, sample: FloatArray) -> ChangedRule:
        if column is not None:
            return _Stretched(self, column)
        other = TerrainRule(random, sample.shape[1], self.leaf.shape[2], len(self.limit), self.depth)
        return _Replaced(self, other, int(random.integers(sample.shape[1])), sample)


class _Stretched(ChangedRule, Rule):
    """The old rule for rows in which a column is multiplied by a number from 1 to -1."""

    def __init__(self, rule: Rule, column: int, factor: float = 1.0) -> None:
        self.rule, self.column, self.factor = rule, column, factor

    def at(self, amount: float) -> Rule:
        return _Stretched(self.rule, self.column, 1.0 - 2.0 * amount)

    def __call__(self, Z: FloatArray) -> npt.NDArray[Any]:
        changed = Z.copy()
        changed[:, self.column] *= self.factor
        return self.rule(changed)

    def changed(self, random: Random, column: int | None, sample: FloatArray) -> ChangedRule:
        return self.rule.changed(random, column, sample)


class _Replaced(ChangedRule, Rule):
    """A new rule where a column is below a limit, and the old one elsewhere."""

    def __init__(self, old: Rule, new: Rule, column: int, sample: FloatArray, limit: float = -math.inf) -> None:
        self.old, self.new, self.column, self.sample, self.limit = old, new, column, sample, limit

    def at(self, amount: float) -> Rule:
        limit = float(np.quantile(self.sample[:, self.column], amount)) if amount < 1.0 else math.inf
        return _Replaced(self.old, self.new, self.column, self.sample, limit)

    def __call__(self, Z: FloatArray) -> npt.NDArray[Any]:
        return np.where(Z[:, self.column] < self.limit, self.new(Z), self.old(Z))

    def changed(self, random: Random, column: int | None, sample: FloatArray) -> ChangedRule:
        return self.old.changed(random, column, sample)


@dataclass(frozen=True)
class Move:
    """Another distribution of the inputs: ``kind`` is "moved" or "scaled"; ``of`` is the rule, which stays."""

    kind: str
    of: Rule


class Family:
    """Rows, rules and noise of one family; hidden rows ``Z`` are centred numbers, and a person sees ``table(Z)``."""

    n_classes = 2
    """Number of classes; 0 for a regression."""
    n_columns = 6
    metric = "error"
    noise = 0.05

    def __init__(self, random: Random) -> None:
        self.random = random
        self.columns = tuple(f"x{k}" for k in range(self.n_columns))
        self.places = [np.array([k]) for k in range(self.n_columns)]
        self.size, self.offset = np.exp(random.normal(size=self.n_columns)), 3.0 * random.normal(size=self.n_columns)

    def rule(self, sample: FloatArray) -> Rule:
        """Return a random rule."""
        rows = max(1, self.n_classes if self.n_classes > 2 else 1)
        weights = self.random.normal(size=(rows, sample.shape[1]))
        return LinearRule(weights / np.linalg.norm(weights, axis=1, keepdims=True), self, self.share(), sample)

    def share(self) -> float:
        """Return the share of class 1 among two classes."""
        return float(self.random.uniform(0.35, 0.65))

    def draw(self, count: int, move: Move | None = None) -> FloatArray:
        """Return hidden rows."""
        Z = np.sqrt(0.8) * self.random.normal(size=(count, self.n_columns))
        Z += np.sqrt(0.2) * self.random.normal(size=(count, 1))
        if move is None:
            return np.asarray(Z)
        own = np.random.default_rng(int(self.random.integers(2**32)))
        if move.kind == "scaled":
            turn = np.linalg.qr(own.normal(size=(self.n_columns, self.n_columns)))[0]
            return np.asarray(Z @ turn * own.uniform(0.6, 1.4, size=self.n_columns))
        shift = own.normal(size=self.n_columns)
        if isinstance(move.of, LinearRule) and len(move.of.weights) == 1:  # along the boundary: shares of classes stay
            weights = move.of.weights[0]
            shift -= weights * (shift @ weights) / (weights @ weights)
        return np.asarray(Z + shift * own.uniform(0.6, 1.2) / np.linalg.norm(shift))

    def table(self, Z: FloatArray) -> Any:
        """Return rows as a model sees them."""
        return np.asarray(Z * self.size + self.offset)

    def noisy(self, random: Random, target: npt.NDArray[Any], noise: float | FloatArray) -> npt.NDArray[Any]:
        """Return the labels, of which a share of ``noise`` is replaced by another class."""
        wrong = random.random(len(target)) < noise
        other = (target + random.integers(1, self.n_classes, size=len(target))) % self.n_classes
        return np.where(wrong, other, target)


class Linear(Family):
    """Six columns, two classes, a linear rule, 5 % wrong labels."""


class Terrain(Family):
    """Eight columns, four classes, a rule of random trees, 5 % wrong labels."""

    n_classes, n_columns = 4, 8

    def rule(self, sample: FloatArray) -> Rule:
        """Return a random rule."""
        while True:  # until every class has at least 5 % of the rows
            made = TerrainRule(self.random, self.n_columns, self.n_classes)
            if np.bincount(made(sample), minlength=self.n_classes).min() >= 0.05 * len(sample):
                return made


class Classes(Family):
    """Eight columns, ten classes, the highest of ten linear scores, 5 % wrong labels."""

    n_classes, n_columns = 10, 8


class Imbalanced(Family):
    """Six columns, a class with 2 % of the rows above a plane; 5 % of its labels are wrong, of the others 0.1 %."""

    metric = "balanced error"

    def share(self) -> float:
        """Return the share of class 1."""
        return RARE

    def noisy(self, random: Random, target: npt.NDArray[Any], noise: float | FloatArray) -> npt.NDArray[Any]:
        """Return the labels with noise."""
        wrong = random.random(len(target)) < np.where(target == 1, noise, RARE * np.asarray(noise))
        return np.where(wrong, 1 - target, target)


class Regression(Family):
    """Six columns, a linear rule with a wave of one column, normal noise; errors are divided by those of the median."""

    n_classes = 0
    metric = "absolute error"
    noise = 0.25

    def noisy(self, random: Random, target: npt.NDArray[Any], noise: float | FloatArray) -> npt.NDArray[Any]:
        """Return the labels with noise."""
        return np.asarray(target + noise * random.normal(size=len(target)))


class Text(Family):
    """A category, a short text of sixty, and an amount; three classes, 5 % wrong labels; a table of columns."""

    n_classes = 3
    CATEGORIES, TEXTS = 8, len(FAULTS) * len(THINGS)
    n_columns = 1 + CATEGORIES + TEXTS

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        split = 1 + self.CATEGORIES
        self.columns = "amount", "category", "note"
        self.places = [np.arange(1), np.arange(1, split), np.arange(split, self.n_columns)]
        self.notes = np.array([f"{fault} {thing}" for fault in FAULTS for thing in THINGS])

    def rule(self, sample: FloatArray) -> Rule:
        """Return a random rule."""
        weights = self.random.normal(size=(self.n_classes, self.n_columns))
        weights[:, 1:] *= 1.5
        return LinearRule(weights, self, 0.5, sample)

    def draw(self, count: int, move: Move | None = None) -> FloatArray:
        """Return hidden rows: the amount, and one of the columns of each category and of each text."""
        random = self.random
        category, text = np.ones(self.CATEGORIES), 1.0 / np.sqrt(1.0 + np.arange(self.TEXTS))
        Z, every = np.zeros((count, self.n_columns)), np.arange(count)
        Z[:, 0] = random.normal(size=count) * (1.5 if move is not None and move.kind == "scaled" else 1.0)
        if move is not None:
            category, text = (random.permutation(np.arange(1.0, len(one) + 1.0)) for one in (category, text))
        for shares, start in ((category, 1), (text, 1 + len(category))):
            Z[every, start + random.choice(len(shares), count, p=shares / shares.sum())] = 1.0
        return Z

    def table(self, Z: FloatArray) -> Mapping[str, npt.NDArray[Any]]:
        """Return rows as a model sees them."""
        split = 1 + self.CATEGORIES
        category = np.char.add("kind", Z[:, 1:split].argmax(axis=1).astype("U2"))
        return {"amount": 20.0 + 5.0 * Z[:, 0], "category": category, "note": self.notes[Z[:, split:].argmax(axis=1)]}


FAMILIES: Mapping[str, type[Family]] = {
    "linear": Linear,
    "trees": Terrain,
    "text": Text,
    "classes": Classes,
    "imbalanced": Imbalanced,
    "regression": Regression,
}
"""The families by name."""
