"""Slow, readable twins of the strategies: the paper's pseudo-code with lists and dictionaries, row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftsurf.core.numeric import derive, word


@dataclass
class PlainModel:
    """Logistic regression trained by STRSAGA, in the notation of the paper."""

    seed: int
    n_features: int
    eta: float
    mu: float
    w: list[float] = field(default_factory=list)
    used_words: int = 0
    sample_set: list[tuple[list[float], int]] = field(default_factory=list)
    waiting_room: list[tuple[list[float], int]] = field(default_factory=list)
    alpha: dict[int, float] = field(default_factory=dict)
    alpha_sum: list[float] = field(default_factory=list)
    best: float = math.inf
    gradients: int = 0

    def __post_init__(self) -> None:
        d = self.n_features + 1
        self.w = [(word(self.seed, k) >> 11) * 2.0**-53 for k in range(d)]
        self.used_words = d
        self.alpha_sum = [0.0] * d

    def margin(self, x: list[float]) -> float:
        return sum(a * b for a, b in zip(self.w, x, strict=True))

    def update(self, batch: list[tuple[list[float], int]], rho: int) -> None:
        self.waiting_room += batch
        for j in range(rho):
            if self.waiting_room and j % 2 == 0:
                self.sample_set.append(self.waiting_room.pop(0))
                p = len(self.sample_set) - 1
                self.alpha[p] = 0.0
            else:
                p = ((word(self.seed, self.used_words) >> 32) * len(self.sample_set)) >> 32
                self.used_words += 1
            x, y = self.sample_set[p]
            g = -y / (1.0 + math.exp(y * self.margin(x)))
            average = [total / len(self.alpha) for total in self.alpha_sum]
            for c, value in enumerate(x):
                step = (g - self.alpha[p]) * value + average[c] + self.mu * self.w[c]
                self.w[c] -= self.eta * step
                self.alpha_sum[c] += (g - self.alpha[p]) * value
            self.alpha[p] = g
            self.gradients += 1

    def risk(self, rows: list[tuple[list[float], int]]) -> float:
        loss = sum(math.log1p(math.exp(-y * self.margin(x))) for x, y in rows) / len(rows)
        return loss + self.mu / 2 * sum(v * v for v in self.w)


class PlainDriftSurf:
    """Algorithm 1 with a state variable, as printed; with ``authors``, the variant of the published code."""

    def __init__(
        self,
        n_features: int,
        *,
        eta: float,
        mu: float,
        seed: int,
        rho: int,
        delta: float = 0.1,
        delta_stable: float | None = None,
        r: int = 4,
        greedy: bool = True,
        divided: bool = False,
        authors: bool = False,
    ) -> None:
        self.make_arguments = {"n_features": n_features, "eta": eta, "mu": mu}
        self.seed, self.rho, self.r, self.greedy = seed, rho, r, greedy
        self.delta = delta
        self.delta_stable = delta / 2 if delta_stable is None else delta_stable
        self.divided, self.authors = divided, authors
        self.models_made = 0
        self.state = "stable"
        self.predictive = self.new_model()
        self.reactive: PlainModel | None = None
        self.stable: PlainModel | None = None
        self.stable_missed: list[Any] = []
        self.T: list[Any] = []
        self.i = 0
        self.reactive_predicts = False
        self.ever_reacted = False
        self.log: list[dict[str, Any]] = []

    def new_model(self) -> PlainModel:
        self.models_made += 1
        return PlainModel(derive(self.seed, self.models_made - 1), **self.make_arguments)  # type: ignore[arg-type]

    def predict(self, x: list[float]) -> int:
        model = self.reactive if self.reactive_predicts else self.predictive
        assert model is not None
        return 1 if model.margin(x) > 0 else -1

    def step(self, X_t: list[tuple[list[float], int]]) -> None:
        note: dict[str, Any] = {"condition": 0, "events": []}
        risk = self.predictive.risk(X_t)
        self.predictive.best = min(self.predictive.best, risk)
        note["risk"] = risk
        risk_reactive = math.nan
        if self.state == "reactive":
            assert self.reactive is not None
            risk_reactive = self.reactive.risk(X_t)
            self.reactive.best = min(self.reactive.best, risk_reactive)
        if self.state == "stable":
            if risk > self.predictive.best + self.delta:
                note["condition"] = 1
            elif self.stable is not None and risk > self.stable.risk(X_t) + self.delta_stable:
                note["condition"] = 2
            if note["condition"]:
                self.state = "reactive"
                self.ever_reacted = True
                self.reactive = self.new_model()
                self.i = 0
                note["events"].append("entered")
                if self.authors:
                    risk_reactive = self.reactive.risk(X_t)
                else:
                    self.stable = None
                    self.T = []
            else:
                both = self.stable is not None
                self.predictive.update(X_t, self.share(both, first=True))
                if self.stable is not None:
                    self.stable.update(self.stable_missed + X_t, self.share(both))
                    self.stable_missed = []
        if self.state == "reactive":
            assert self.reactive is not None
            self.stable_missed += X_t if self.stable is not None else []
            self.T.append(X_t)
            self.predictive.update(X_t, self.share(True, first=True))
            self.reactive.update(X_t, self.share(True))
            self.i += 1
            before = self.reactive_predicts
            if self.i == self.r:
                everything = [row for batch in self.T for row in batch]
                switched = self.reactive.risk(everything) < self.predictive.risk(everything)
                note["events"].append("switched" if switched else "kept")
                if switched:
                    self.predictive = self.reactive
                if switched or not self.authors:
                    self.stable, self.stable_missed = self.new_model(), []
                    self.T = []
                self.state, self.reactive, self.reactive_predicts = "stable", None, False
            else:
                old, new = (
                    (risk, risk_reactive) if self.authors else (self.predictive.risk(X_t), self.reactive.risk(X_t))
                )
                self.reactive_predicts = self.greedy and new < old
                if before != self.reactive_predicts:
                    note["events"].append("greedy")
        self.log.append(note)

    def share(self, two_models: bool, first: bool = False) -> int:
        if self.divided and self.authors and self.ever_reacted:
            return self.rho // 2
        if self.divided and two_models:
            return self.rho - self.rho // 2 if first else self.rho // 2
        return self.rho


def with_constant(X: Any, y: Any) -> list[tuple[list[float], int]]:
    """Return rows in the form of the paper: with a constant column, and labels -1 and +1."""
    return [([*map(float, x), 1.0], int(label)) for x, label in zip(np.asarray(X), np.asarray(y), strict=True)]
