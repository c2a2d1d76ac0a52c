"""What a portfolio achieves on real streams, and what each of its experts contributes.

``python -m benchmarks.portfolio [stream ...]`` prints, for each stream, the error of batch test-then-train of the
portfolio and of each expert alone, whose probabilities the same mixer sharpens or softens, their log loss and expected
calibration error, the CPU seconds of each, and the error of the portfolio without it. All experts
learn once; what is left out costs the mixer only. The first batch does not count. Errors are shares of wrong rows; for
regression, the squared error divided by that of the mean of each batch. The streams are those of ``driftsurf compare``,
which are read from the folder in DRIFTSURF_DATA, and those of ``benchmarks/hard_streams.py``; ``real`` stands for ten.

With ``--sensitivity`` the experts learn once, and the mixer runs with other half-lives and ridges; one table has the
error of each pair on each stream and the mean over the streams.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.hard_streams import HARD, as_rows
from driftsurf.comparison.inputs import REAL, Input, StreamInMemory, load
from driftsurf.core.contracts import CSR, Batch, FloatArray
from driftsurf.learners import LinearRegression, SoftmaxRegression
from driftsurf.native.portfolio import Mixer, stacked_shares
from driftsurf.strategies import DriftSurf, Portfolio
from driftsurf.strategies._expert_records import fresh_places, is_worse_than_guessing, learned_by
from driftsurf.strategies._experts import default_experts, names_of

SMALL = "luxembourg", "phishing", "noaa-weather", "electricity", "powersupply", "insects"
HALF_LIFE, RIDGE = 10.0, 10.0
TRIED = (10, 10), (3, 10), (5, 10), (20, 10), (50, 10), (100, 10), (10, 2), (10, 5), (10, 20), (10, 50)
"""Half-lives and ridges of ``--sensitivity``; the first pair is the default."""


def read(name: str, seed: int) -> StreamInMemory:
    """Return a stream by name."""
    return as_rows(name, seed) if name in HARD else load(Input(name))


def template(rows: StreamInMemory) -> Any:
    """Return the learner of the DriftSurf experts for a stream."""
    return SoftmaxRegression(steps_per_row=8.0) if rows.labels else LinearRegression(steps_per_row=8.0)


class Scored(NamedTuple):
    """A batch, with what the experts predicted and which of them began a new model with it."""

    scores: list[FloatArray]
    batch: Batch
    fresh: list[int]


def learned(
    rows: StreamInMemory, seed: int, further: Sequence[Any] = ()
) -> tuple[list[Any], list[Scored], list[float]]:
    """Let the default experts, and ``further`` ones, learn a stream.

    Return the experts, the batches with their scores, and the CPU seconds of each expert.
    """
    learner = template(rows)
    portfolio = Portfolio(
        learner, experts=[*default_experts(learner, nearest=not rows.sparse), *further], seed=seed, max_rows=None
    )
    portfolio.tell_categories(rows.categories)
    portfolio.begin(rows.X.shape[1], sparse=rows.sparse, n_classes=len(rows.labels))
    experts = list(portfolio._experts)
    scored, seconds = list[Scored](), [0.0] * len(experts)
    for X, y in rows.batches(rows.batch_size):
        target = np.asarray(y, float)
        batch = Batch(_stored(X), target, np.ones(len(y)))
        found, outcomes = list[FloatArray](), list[Any]()
        for place, expert in enumerate(experts):
            start = time.process_time()
            found.append(expert.test_scores(batch))
            outcomes.append(learned_by(expert, batch, found[-1]))
            seconds[place] += time.process_time() - start
        scored.append(Scored(found, batch, fresh_places(outcomes)))
    return experts, scored, seconds


def _stored(X: Any) -> Any:
    if isinstance(X, np.ndarray):
        return np.ascontiguousarray(X, float)
    return CSR(X.data.astype(float), X.indices.astype(np.int32), X.indptr.astype(np.int64), X.shape[1])


def mixed_error(
    scored: Sequence[Scored],
    chosen: Sequence[int],
    K: int,
    half_life: float = HALF_LIFE,
    ridge: float = RIDGE,
) -> float:
    """Return the mean error of the mixture of some experts, without the first batch."""
    return mixed(scored, chosen, K, half_life, ridge)[0]


def mixture(
    scored: Sequence[Scored],
    chosen: Sequence[int],
    K: int,
    half_life: float = HALF_LIFE,
    ridge: float = RIDGE,
) -> list[FloatArray]:
    """Return the log-probabilities of the mixture of some experts, or its values, for each batch but the first."""
    mixer, found, keep = Mixer.of(len(chosen), ridge, votes=K > 0), list[FloatArray](), 0.5 ** (1.0 / half_life)
    for every, batch, begun in scored[1:]:
        own, y, weight = [every[place] for place in chosen], batch.y, batch.weight
        if K:
            G = stacked_shares(own, K)
            found.append(mixer.mixed_classes(G))
            mixer = mixer.after_classes(G, y, weight, keep, ridge)
            fresh = [k for k, place in enumerate(chosen) if place in begun]
            if fresh and is_worse_than_guessing(found[-1], batch, K):
                mixer = mixer.turned_to(fresh, ridge)
        else:
            m = np.stack(own, axis=1)
            found.append(mixer.mixed_values(m))
            mixer = mixer.after_values(m, y, weight, keep, ridge)
    return found


def mixed(
    scored: Sequence[Scored],
    chosen: Sequence[int],
    K: int,
    half_life: float = HALF_LIFE,
    ridge: float = RIDGE,
) -> tuple[float, float, float]:
    """Return the mean error of the mixture of some experts; for classes also log loss and calibration error."""
    errors, sure, right, losses = list[float](), list[FloatArray](), list[FloatArray](), list[FloatArray]()
    for found, (_, batch, _) in zip(mixture(scored, chosen, K, half_life, ridge), scored[1:], strict=True):
        y = batch.y
        if K:
            hits = found.argmax(axis=1) == y
            errors.append(1.0 - float(hits.mean()))
            sure.append(np.exp(found.max(axis=1)))
            right.append(hits.astype(float))
            losses.append(-found[np.arange(len(y)), y.astype(int)])
        else:
            errors.append(float(np.square(found - y).mean() / y.var()))
    if not K:
        return float(np.mean(errors)), math.nan, math.nan
    return float(np.mean(errors)), float(np.mean(np.concatenate(losses))), calibration_error(sure, right)


def calibration_error(sure: list[FloatArray], right: list[FloatArray]) -> float:
    """Return the expected calibration error of the predicted classes, in twenty bins of probabilities."""
    probability, hit = np.concatenate(sure), np.concatenate(right)
    place = np.minimum((20 * probability).astype(int), 19)
    gaps = np.bincount(place, probability - hit, minlength=20)
    return float(np.abs(gaps).sum() / len(hit))


def ablation(name: str, seed: int) -> None:
    """Print what each expert achieves alone, and what the portfolio achieves without it."""
    rows = read(name, seed)
    K = len(rows.labels)
    experts, scored, seconds = learned(rows, seed)
    every = range(len(experts))
    start = time.process_time()
    whole = mixed(scored, every, K)
    total = sum(seconds) + time.process_time() - start
    print(f"\n### {name}: {rows.n_rows:,} rows in batches of {rows.batch_size}\n")
    print("| expert | error | log loss | calibration error | CPU s | portfolio without it |")
    print("|---|---:|---:|---:|---:|---:|")
    print(f"| portfolio | {_shown(whole)} | {total:.1f} | |")
    for place, expert in enumerate(names_of(experts)):
        alone = mixed(scored, [place], K)
        others = mixed_error(scored, [one for one in every if one != place], K)
        print(f"| {expert} | {_shown(alone)} | {seconds[place]:.1f} | {others:.4f} |", flush=True)
    places = [place for place, expert in enumerate(experts) if isinstance(expert, DriftSurf)]
    linear = mixed_error(scored, [one for one in every if one not in places], K)
    print(f"| both DriftSurf experts | | | | {sum(seconds[place] for place in places):.1f} | {linear:.4f} |")


def sensitivity(streams: Sequence[str], seed: int) -> None:
    """Print the error of the portfolio for some half-lives and ridges."""
    found = []
    for name in streams:
        rows = read(name, seed)
        experts, scored, _ = learned(rows, seed)
        every, K = range(len(experts)), len(rows.labels)
        found.append([mixed_error(scored, every, K, *pair) for pair in TRIED])
    print(f"| half-life, ridge | {' | '.join(streams)} | mean |\n|---|{'---:|' * (len(streams) + 1)}")
    for pair, errors in zip(TRIED, zip(*found, strict=True), strict=True):
        print(f"| {pair[0]}, {pair[1]} | {_shown([*errors, float(np.mean(errors))])} |")


def main() -> None:
    """Measure the streams that are named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.portfolio", description="Measure a portfolio.")
    parser.add_argument("streams", nargs="*", default=SMALL, help=f"streams (default: {', '.join(SMALL)})")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sensitivity", action="store_true", help="other half-lives and ridges instead")
    options = parser.parse_args()
    streams = [one for name in options.streams for one in (REAL if name == "real" else (name,))]
    if options.sensitivity:
        sensitivity(streams, options.seed)
        return
    for name in streams:
        ablation(name, options.seed)


def _shown(values: Sequence[float]) -> str:
    return " | ".join("" if math.isnan(value) else f"{value:.4f}" for value in values)


if __name__ == "__main__":
    main()
