"""Slow, readable twins of the ensembles for rare classes and for recurring concepts, from their publications."""

from __future__ import annotations

import copy
import math
from itertools import combinations

import numpy as np
from reference import uniform
from reference_baselines import Model, PlainEnsemble, PlainMDDM, majority

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.numeric import derive


def only(rows: list[int], model: Model) -> Model:
    """Let a model learn these rows alone, which it sees in this order."""
    X, y, weight = model.rows
    model.rows = X[rows], y[rows], weight[rows]
    model.update(range(len(rows)), 2 * len(rows))
    model.rows = X, y, weight
    return model


def q_statistic(one: FloatArray, other: FloatArray, weight: FloatArray) -> float:
    """Return Yule's Q of two models, given where each was wrong."""
    n = {
        (a, b): sum(w for x, z, w in zip(one, other, weight, strict=True) if (x == 0, z == 0) == (a, b))
        for a in (True, False)
        for b in (True, False)
    }
    same = n[True, True] * n[False, False]
    different = n[True, False] * n[False, True]
    return float((same - different) / (same + different)) if same + different > 0 else 1.0


def without_the_most_alike(models: list[Model], batch: range, weight: FloatArray) -> list[Model]:
    """Return all models but one, so that the diversity of the others is greatest: 1 minus their mean Q."""

    def diversity(place: int) -> float:
        pairs = list(combinations([model for k, model in enumerate(models) if k != place], 2))
        found = [q_statistic(a.wrong(batch), b.wrong(batch), weight) for a, b in pairs]
        return round(1 - sum(found) / len(found), 10) if found else 0.0

    gone = max(range(len(models)), key=diversity)
    return models[:gone] + models[gone + 1 :]


class PlainDWMIL(PlainEnsemble):
    """Experts are bags; ``experts`` are the models of all of them, and ``weights`` repeat that of each bag."""

    T, theta, most = 3, 0.1, 10

    def begin(self) -> None:
        super().begin()
        self.bags: list[tuple[list[Model], float]] = []

    def labels(self, bag: list[Model], batch: range) -> IntArray:
        return majority([(model.labels(batch), 1.0) for model in bag], len(batch))

    def predict(self, batch: range) -> IntArray:
        return majority([(self.labels(bag, batch), weight) for bag, weight in self.bags], len(batch))

    def step(self, batch: range) -> None:
        y, weight = self.y(batch), self.weight(batch)
        of_class = [[i for i in batch if self.rows[1][i] == c and self.rows[2][i] > 0] for c in (0, 1)]
        if all(of_class):
            judged = []
            for bag, w in self.bags:
                right = (self.labels(bag, batch) == y) * weight
                recalls = [right[y == c].sum() / weight[y == c].sum() for c in (0, 1)]
                w *= math.sqrt(recalls[0] * recalls[1])
                judged += [(bag, w)] if w >= self.theta and w > 0 else []
            if len(judged) == self.most:
                judged.remove(min(judged, key=lambda one: one[1]))
            self.bags = [*judged, (self.bag(batch, of_class), 1.0)]
        self.experts = [model for bag, _ in self.bags for model in bag]
        self.weights = [weight for bag, weight in self.bags for _ in bag]
        self.t += 1

    def bag(self, batch: range, of_class: list[list[int]]) -> list[Model]:
        key = derive(derive(self.seed, 2**63), self.t)
        size = min(map(len, of_class))
        bag = []
        for k in range(self.T):
            chance = {i: uniform(key, k * len(batch) + i - batch.start) for i in batch}
            drawn = [i for rows in of_class for i in sorted(rows, key=chance.__getitem__)[:size]]
            bag.append(only(sorted(drawn), self.fresh()))
        return bag


class PlainDTEL(PlainEnsemble):
    m, budget = 25, "each"

    def begin(self) -> None:
        super().begin()
        self.archive: list[Model] = []

    def models(self) -> list[Model]:
        return [*self.experts, *self.archive]

    def numbered(self, model: Model) -> Model:
        """Return a copy with a number of its own."""
        other = copy.deepcopy(model)
        other.number = self.made
        self.made += 1
        return other

    def step(self, batch: range) -> None:
        y, weight = self.y(batch), self.weight(batch)
        newest = self.fresh()
        adapted = [self.numbered(model) for model in self.archive]
        for model in (*adapted, newest):
            model.forget(batch.start)
            model.update(batch, 2 * len(batch) // (1 if self.budget == "each" else len(adapted) + 1))
            model.forget(batch.stop)
        self.experts = [*adapted, self.numbered(newest)]
        positive = float(np.average(y, weights=weight))
        self.weights = []
        for expert in self.experts:
            p = 1 / (1 + np.exp(-expert.margins(batch)))
            error = float(np.average((y - p) ** 2, weights=weight))
            self.weights.append(1 / (positive * (1 - positive) + error + 1e-20))
        self.weights = [w / sum(self.weights) for w in self.weights]
        self.archive.append(newest)
        if len(self.archive) > self.m:
            self.archive = without_the_most_alike(self.archive, batch, weight)
        self.t += 1


class PlainDiversityPool(PlainMDDM):
    """``model`` is the current one, or the new one after a drift; ``since`` are the batches since the drift."""

    size, b = 10, 400

    def begin(self) -> None:
        super().begin()
        self.old: list[Model] = []
        self.since: list[range] = []
        self.new_right = 0.0
        self.undecided = False

    def models(self) -> list[Model]:
        return [*self.old, self.model]

    def right(self, model: Model) -> float:
        """Return the weight of the rows since the drift on which a model is right; the new one after learning them."""
        if model is self.model:
            return self.new_right
        return sum(float((self.weight(batch) * (1 - model.wrong(batch))).sum()) for batch in self.since)

    def predict(self, batch: range) -> IntArray:
        if not self.since:
            return self.model.labels(batch)
        return majority([(model.labels(batch), self.right(model)) for model in self.models()], len(batch))

    def reset(self, step: int) -> None:
        self.old.append(self.model)
        super().reset(step)
        self.undecided = True

    def step(self, batch: range) -> None:
        if not self.since:
            self.watch(batch)
        self.model.update(batch, 2 * len(batch))
        if self.undecided:
            self.since.append(batch)
            self.new_right += float((self.weight(batch) * (1 - self.model.wrong(batch))).sum())
            rows = range(self.since[0].start, batch.stop)
            tested = int((self.weight(rows) > 0).sum())
            if tested >= self.b:
                self.choose(tested, rows)
                self.since, self.new_right, self.undecided = [], 0.0, False
        self.t += 1

    def choose(self, tested: int, rows: range) -> None:
        """Let an old model return, or keep the new one and perhaps drop an old one."""
        mass = float(self.weight(rows).sum())
        if self.old[:-1]:
            best = max(self.old[:-1], key=self.right)
            a = self.right(best) / mass
            if self.new_right / mass <= a + 1.96 * math.sqrt(a * (1 - a) / tested):
                self.old.remove(best)
                self.model = best
                best.forget(rows.stop)
                self.events.append(self.t)
                return
        if len(self.old) + 1 > self.size:
            self.old = without_the_most_alike(self.old, rows, self.weight(rows))
