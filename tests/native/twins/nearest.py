"""In plain Python: what the nearest of the last rows say of a row."""

from __future__ import annotations

from typing import Any

import numpy as np

LARGEST, FARTHEST, NEAREST = 1e100, 1e300, 1e-3


def neighbours_say(X: Any, rows: Any, factor: Any, counts: Any, most: int, smoothing: float) -> Any:
    """Return log-probabilities (n, K), or numbers (n,) without counts."""
    out = []
    for x in X:
        query = np.clip(x.astype(np.float64), -LARGEST, LARGEST) * factor
        squared = [_squared(row[:-2] * factor - query) for row in rows]
        order = sorted(range(len(rows)), key=lambda i: (squared[i], -i))[:most]
        votes = _votes([float(np.sqrt(squared[i])) for i in order])
        said = [(vote * rows[i][-1], rows[i][-2]) for vote, i in zip(votes, order, strict=True)]
        if not len(counts):
            total = sum(vote for vote, _ in said)
            out.append(sum(vote * target for vote, target in said) / total if total else 0.0)
            continue
        shares = (counts + 1.0) / (sum(counts) + len(counts))
        own = [smoothing * shares[c] + sum(vote for vote, target in said if target == c) for c in range(len(counts))]
        out.append(np.log(np.array(own) / (smoothing + sum(vote for vote, _ in said))))
    return np.array(out).reshape(len(X), *([len(counts)] if len(counts) else []))


def _squared(apart: Any) -> float:
    return min(float(np.square(apart).sum()), FARTHEST)


def _votes(distances: list[float]) -> list[float]:
    far = distances[-1] if distances else 0.0
    each = [far / max(own, NEAREST * far) if far else 1.0 for own in distances]
    return [vote * len(each) / sum(each) for vote in each]
