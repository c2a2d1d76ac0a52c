"""What a key learns beside a shared prediction, one row at a time, with matrices in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np

LARGEST_LOSS, LEAST_CURVATURE = 5.0, 0.01


class Difference:
    """Corrections of a shared score with weights of several sizes, and the record of each; the first one is none."""

    def __init__(self, d: Any, outputs: Any, regression: Any, widths: Any, forget: Any, recall: Any) -> None:
        self.outputs, self.regression, self.widths = outputs, regression, widths
        self.forget, self.recall = forget, recall
        self.record = np.zeros(len(widths) + 1)
        self.W = [np.zeros((outputs, d + 1)) for _ in widths]
        self.P = [np.eye(d + 1) * width**2 for width in widths]

    def probabilities(self, scores: Any) -> Any:
        if self.outputs == 1:
            return 1.0 / (1.0 + np.exp(-np.clip(scores, -30, 30)))
        shifted = np.exp(scores - scores.max())
        return shifted / shifted.sum()

    def observe(self, row: Any, shared: Any, target: Any) -> Any:
        x = np.append(np.clip(np.nan_to_num(row), -8, 8), 1.0)
        size = shared[1] if self.regression else 1.0
        base = np.zeros(1) if self.regression else np.where(shared < -1e200, -np.inf, np.clip(shared, -30, 30))
        scores = [base] + [base + w @ x for w in self.W]
        variance = [0.0] + [x @ p @ x for p in self.P]
        shrink = [1.0 / np.sqrt(1.0 + np.pi * v / 8.0) for v in variance]
        chances = [s if self.regression else self.probabilities(s * r) for s, r in zip(scores, shrink, strict=True)]
        share = np.exp(self.record - self.record.max())
        share /= share.sum()
        out = sum(part * chance for part, chance in zip(share, chances, strict=True))
        if self.regression:
            out = shared[:1] + size * out
        if not np.isnan(target):
            self.learn(x, shared, target, size, scores, variance, chances)
        return out

    def learn(self, x: Any, shared: Any, target: Any, size: Any, scores: Any, variance: Any, chances: Any) -> None:
        losses = []
        for t, (score, v, chance) in enumerate(zip(scores, variance, chances, strict=True)):
            if self.regression:
                missed = np.clip((target - shared[0]) / size, -5, 5) - score
                loss = 0.5 * missed[0] ** 2 / (1 + v) + 0.5 * np.log(1 + v)
                slope, curvature = missed, 1.0
            else:
                label = int(target)
                own = (chance[0] if label else 1 - chance[0]) if self.outputs == 1 else chance[label]
                loss = -np.log(own) if own > 0 else LARGEST_LOSS
                plain = self.probabilities(score)
                slope = (label if self.outputs == 1 else np.arange(self.outputs) == label) - plain
                curvature = (plain * (1 - plain)).sum() * (1.0 if self.outputs == 1 else 0.5)
                curvature = max(curvature, LEAST_CURVATURE)
            losses.append(min(loss, LARGEST_LOSS))
            if t:
                towards = self.P[t - 1] @ x
                step = 1.0 / (1.0 + curvature * v)
                self.W[t - 1] = self.W[t - 1] + step * np.outer(slope, towards)
                P = (self.P[t - 1] - curvature * step * np.outer(towards, towards)) / self.forget
                scale = np.sqrt(np.minimum(1.0, self.widths[t - 1] ** 2 / np.diag(P)))
                self.P[t - 1] = P * np.outer(scale, scale)
        self.record = self.recall * self.record - np.array(losses)
        self.record -= self.record.max()
