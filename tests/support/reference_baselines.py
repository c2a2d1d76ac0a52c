"""Slow, readable twins of the baselines, written from the published definitions, on a stream known as a whole."""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from reference import LabelledRows, LogisticTwin, logistic_loss, uniform

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.numeric import derive


@dataclass
class Model(LogisticTwin):
    """Logistic regression with an identity, whose risks are asked for ranges of rows."""

    number: int = -1

    def margins(self, rows: range) -> FloatArray:
        found: FloatArray = self.rows[0][rows.start : rows.stop] @ self.w
        return found

    def labels(self, rows: range) -> IntArray:
        return (self.margins(rows) > 0).astype(np.int64)

    def losses(self, rows: range) -> FloatArray:
        return np.array([logistic_loss(m, self.rows[1][i]) for i, m in zip(rows, self.margins(rows), strict=True)])

    def wrong(self, rows: range) -> FloatArray:
        return np.not_equal(self.labels(rows), self.rows[1][rows.start : rows.stop]).astype(float)


class Plain:
    """Base of the twins: the stream, new models with uniform first weights, and rho = 2 steps per row."""

    optimizer = "strsaga"

    def __init__(self, rows: LabelledRows, *, seed: int, eta: float = 0.1, mu: float = 1e-3) -> None:
        self.rows, self.seed, self.eta, self.mu = rows, seed, eta, mu
        self.made = 0
        self.t = 0
        self.events: list[int] = []
        """Steps at which the model was replaced."""
        self.begin()

    def begin(self) -> None:
        raise NotImplementedError

    def predict(self, batch: range) -> IntArray:
        raise NotImplementedError

    def step(self, batch: range) -> None:
        raise NotImplementedError

    def models(self) -> list[Model]:
        """Models in use."""
        raise NotImplementedError

    def fresh(self) -> Model:
        seed, d = derive(self.seed, self.made), self.rows[0].shape[1]
        self.made += 1
        w = np.array([uniform(seed, k) for k in range(d)])
        return Model(self.rows, self.optimizer, w, self.eta, self.mu, seed, words=d, number=self.made - 1)

    def y(self, batch: range) -> FloatArray:
        return self.rows[1][batch.start : batch.stop]

    def weight(self, batch: range) -> FloatArray:
        return self.rows[2][batch.start : batch.stop]


def majority(votes: list[tuple[IntArray, float]], n: int) -> IntArray:
    """Return the weighted vote; class 0 at a tie, and without voters."""
    tally = np.zeros((2, n))
    for labels, weight in votes:
        tally[labels, np.arange(n)] += weight
    return np.where(tally[1] > tally[0] + 1e-12 * tally.sum(axis=0), 1, 0)


# ---------------------------------------------------------------------------- one model


class PlainSingle(Plain):
    """A single model, which ``reset`` may replace before or after it has learned a batch."""

    def begin(self) -> None:
        self.model = self.fresh()

    def predict(self, batch: range) -> IntArray:
        return self.model.labels(batch)

    def models(self) -> list[Model]:
        return [self.model]

    def reset(self, step: int) -> None:
        self.model = self.fresh()
        self.events.append(step)

    def step(self, batch: range) -> None:
        self.watch(batch)
        self.model.update(batch, 2 * len(batch))
        self.t += 1

    def watch(self, batch: range) -> None:
        """Decide before the batch is learned."""


class PlainOblivious(PlainSingle):
    optimizer = "saga"


class PlainOnePass(PlainSingle):
    optimizer = "one-pass"


class PlainAware(PlainSingle):
    drifts: tuple[int, ...] = ()
    informed = "before"

    def watch(self, batch: range) -> None:
        if self.informed == "after" and self.t in self.drifts:
            self.reset(self.t)

    def step(self, batch: range) -> None:
        super().step(batch)
        if self.informed == "before" and self.t in self.drifts:
            self.reset(self.t)


class PlainMDDM(PlainSingle):
    """MDDM-G: 1 = correct, weights 1.01^i, delta 1e-6."""

    window = 100

    def begin(self) -> None:
        super().begin()
        self.clear()
        w = np.array([1.01**i for i in range(1, self.window + 1)])
        self.weights = w / w.sum()
        self.epsilon = math.sqrt(0.5 * float((self.weights**2).sum()) * math.log(1e6))

    def clear(self) -> None:
        self.last: list[float] = []
        self.best = 0.0

    def watch(self, batch: range) -> None:
        for correct, weight in zip(1.0 - self.model.wrong(batch), self.weight(batch), strict=True):
            if weight == 0:
                continue
            self.last = [*self.last, float(correct)][-self.window :]
            if len(self.last) < self.window:
                continue
            mean = float((self.weights * self.last).sum())
            self.best = max(self.best, mean)
            if self.best - mean > self.epsilon:
                self.clear()
                if self.t > 0:
                    self.reset(self.t)
                    return


class PlainAgeing(PlainSingle):
    """Model that forgets rows of age ``span`` or more; the others have the weight ``faded(age)``."""

    span: int
    faded: Callable[[int], float]

    def step(self, batch: range) -> None:
        X, y, weight = self.rows
        age = [batch.stop - 1 - i for i in range(len(y))]
        faded = np.array([self.faded(a) if 0 <= a < self.span else math.nan for a in age])
        self.model.rows = X, y, weight * faded
        self.model.forget(batch.stop - self.span)
        self.model.update(range(max(batch.start, batch.stop - self.span), batch.stop), 2 * len(batch))


class PlainPERM(PlainSingle):
    """Permutation test; p is the share of permutations with a risk at least as high as that of the true order."""

    window, permutations, significance = 60, 19, 0.1

    def begin(self) -> None:
        super().begin()
        self.first = 0
        self.p_values: list[float] = []

    def risk(self, order: list[int], held_out: int, seed: int) -> float:
        model = self.fresh()
        self.made -= 1
        model.seed = seed
        model.w = np.array([uniform(seed, k) for k in range(len(model.w))])
        given = order[: len(order) - held_out]
        model.update(given, 2 * len(given))
        judged = order[len(order) - held_out :]
        losses = [logistic_loss(float(self.rows[0][i] @ model.w), self.rows[1][i]) for i in judged]
        return float(np.average(losses, weights=self.rows[2][judged])) + self.mu / 2 * float(model.w @ model.w)

    def watch(self, batch: range) -> None:
        rows = list(range(max(self.first, batch.start - self.window), batch.stop))
        if rows[0] == batch.start:
            return
        key = derive(derive(self.seed, 2**63), self.t)
        ordered = self.risk(rows, len(batch), derive(key, 0))
        as_high = 0
        for j in range(self.permutations):
            words = [uniform(key, j * len(rows) + i) for i in range(len(rows))]
            shuffled = [rows[i] for i in sorted(range(len(rows)), key=words.__getitem__)]
            as_high += self.risk(shuffled, len(batch), derive(key, 1 + j)) >= ordered
        self.p_values.append((1 + as_high) / (1 + self.permutations))
        if self.p_values[-1] <= self.significance:
            self.reset(self.t)
            self.first = batch.start


class PlainPaired(Plain):
    """Paired learners: stable and reactive, with the circular list C, row by row."""

    window, theta = 60, 0.15

    def begin(self) -> None:
        self.stable, self.reactive = self.fresh(), self.fresh()
        self.C: deque[int] = deque(maxlen=self.window)

    def predict(self, batch: range) -> IntArray:
        return self.stable.labels(batch)

    def models(self) -> list[Model]:
        return [self.stable, self.reactive]

    def step(self, batch: range) -> None:
        crossed = False
        stable_wrong, reactive_wrong = self.stable.wrong(batch), self.reactive.wrong(batch)
        for s, r, weight in zip(stable_wrong, reactive_wrong, self.weight(batch), strict=True):
            self.C.append(int(s == 1 and r == 0 and weight > 0 and self.t > 0 and not crossed))
            if sum(self.C) > self.theta * self.window:
                crossed = True
                self.C.clear()
        if crossed:
            self.stable = self.reactive
            self.reactive = copy.deepcopy(self.reactive)
            self.reactive.number = self.made
            self.made += 1
            self.events.append(self.t)
        self.stable.update(batch, 2 * len(batch))
        self.reactive.forget(batch.stop - self.window)
        self.reactive.update(range(max(batch.start, batch.stop - self.window), batch.stop), 2 * len(batch))
        self.t += 1


# ---------------------------------------------------------------------------- ensembles


class PlainEnsemble(Plain):
    """Ensemble of experts with weighted votes."""

    def begin(self) -> None:
        self.experts: list[Model] = []
        self.weights: list[float] = []

    def predict(self, batch: range) -> IntArray:
        labels = [expert.labels(batch) for expert in self.experts]
        return majority(list(zip(labels, self.weights, strict=True)), len(batch))

    def models(self) -> list[Model]:
        return self.experts


class PlainAUE(PlainEnsemble):
    k, budget = 10, "each"

    def step(self, batch: range) -> None:
        y, weight, rho = self.y(batch), self.weight(batch), 2 * len(batch)
        positive = float(np.average(y, weights=weight))
        guess = positive * (1 - positive)
        self.weights = []
        for expert in self.experts:
            p = 1 / (1 + np.exp(-expert.margins(batch)))
            of_truth = np.where(y == 1, p, 1 - p)
            self.weights.append(1 / (guess + float(np.average((1 - of_truth) ** 2, weights=weight)) + 1e-20))
        if len(self.experts) == self.k:
            lowest = self.weights.index(min(self.weights))
            del self.experts[lowest], self.weights[lowest]
        self.experts.append(self.fresh())
        self.weights.append(1 / (guess + 1e-20))
        self.weights = [w / sum(self.weights) for w in self.weights]
        for expert, w in zip(self.experts, self.weights, strict=True):
            steps = {"each": rho, "divided": int(rho * w), "equal": rho // len(self.experts)}
            expert.update(batch, steps[self.budget])


class PlainCandor(PlainEnsemble):
    """Candor: each row of a batch is predicted by votes that know the rows before it."""

    K, decay = 25, 0.75

    def predict(self, batch: range) -> IntArray:
        return self.judged(batch)[0]

    def predict_unseen(self, batch: range) -> IntArray:
        return majority([(expert.labels(batch), 1.0) for expert in self.experts], len(batch))

    def judged(self, batch: range) -> tuple[IntArray, FloatArray]:
        """Return the predictions, and the weights of the votes after the last row."""
        beta = np.full(len(self.experts), 1 / max(len(self.experts), 1))
        predictions = np.zeros(len(batch), np.int64)
        if self.experts:
            labels = np.array([expert.labels(batch) for expert in self.experts])
            losses = np.array([expert.losses(batch) for expert in self.experts])
            for i, weight in enumerate(self.weight(batch)):
                predictions[i] = majority([(labels[k : k + 1, i], b) for k, b in enumerate(beta)], 1)[0]
                beta = beta * np.exp(-self.decay * weight * losses[:, i])
                beta = beta / beta.sum()
        return predictions, beta

    def step(self, batch: range) -> None:
        beta = self.judged(batch)[1]
        newcomer = self.fresh()
        newcomer.anchor = sum((b * e.w for b, e in zip(beta, self.experts, strict=True)), np.zeros(len(newcomer.w)))
        newcomer.update(batch, 2 * len(batch))
        self.experts = [*self.experts, newcomer][-self.K :]
        self.weights = [1 / len(self.experts)] * len(self.experts)


class PlainDWM(PlainEnsemble):
    beta, period, theta, most, budget = 0.5, 7, 0.01, 4, "each"

    def begin(self) -> None:
        self.experts, self.weights = [self.fresh()], [1.0]

    def step(self, batch: range) -> None:
        judged, mistaken = list(zip([e.labels(batch) for e in self.experts], self.experts, strict=True)), False
        for i, row in enumerate(batch):
            if (row + 1) % self.period or self.t == 0 or self.rows[2][row] == 0:
                continue
            truth = int(self.rows[1][row])
            votes = [0.0, 0.0]
            for j, (labels, _) in enumerate(judged):
                if labels[i] != truth:
                    self.weights[j] *= self.beta
                votes[labels[i]] += self.weights[j]
            mistaken = mistaken or int(votes[1] > votes[0]) != truth
            self.weights = [w / max(self.weights) for w in self.weights]
            staying = [j for j, w in enumerate(self.weights) if w >= self.theta]
            judged, self.weights = [judged[j] for j in staying], [self.weights[j] for j in staying]
        self.experts = [expert for _, expert in judged]
        if mistaken:
            if len(self.experts) == self.most:
                lowest = self.weights.index(min(self.weights))
                del self.experts[lowest], self.weights[lowest]
            self.experts.append(self.fresh())
            self.weights.append(1.0)
        for expert in self.experts:
            expert.update(batch, 2 * len(batch) // (1 if self.budget == "each" else len(self.experts)))
        self.t += 1


class PlainNSE(PlainEnsemble):
    """Learn++.NSE with the whole history of errors; the sigmoids are normalised at each step."""

    a, b = 0.5, 10.0
    most: int | None = None

    def begin(self) -> None:
        super().begin()
        self.betas: dict[int, list[float]] = {}

    def step(self, batch: range) -> None:
        weight = self.weight(batch)
        D = weight / weight.sum()
        if self.experts:
            wrong = (self.predict(batch) != self.y(batch)).astype(float)
            E = float((D * wrong).sum())
            if E > 0:
                D = D * np.where(wrong == 1, 1.0, E)
                D = D / D.sum()
        newcomer = self.fresh()
        stressed = self.rows[2].copy()
        stressed[batch.start : batch.stop] = D * weight.sum()
        newcomer.rows = self.rows[0], self.rows[1], stressed
        newcomer.update(batch, 2 * len(batch))
        self.experts = [*self.experts, newcomer][-(self.most or self.made) :]
        self.weights = []
        for expert in self.experts:
            epsilon = min(float((D * expert.wrong(batch)).sum()), 0.5)
            betas = self.betas.setdefault(expert.number, [])
            betas.append(epsilon / (1 - epsilon))
            omega = np.array([1 / (1 + math.exp(-self.a * (age - self.b))) for age in range(len(betas))])
            mean = float((omega / omega.sum() * betas).sum())
            self.weights.append(math.log(1 / max(mean, 1e-10)))


def made(kind: type[Any], rows: LabelledRows, *, seed: int, **settings: Any) -> Any:
    """Return a twin of this kind with other settings."""
    return type(kind.__name__, (kind,), settings)(rows, seed=seed)
