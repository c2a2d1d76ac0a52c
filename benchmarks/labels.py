"""Estimates of the error before labels come: ``python -m benchmarks labels``.

``recommended("light")`` predicts about 100 batches of each stream; the labels of a batch are known 1, 5 or 20 batches
later. The mean absolute error of each estimate is a ratio to that of the error of the last labelled batch (geometric
mean over streams). Settings were chosen on the real streams of ``CHOSEN`` and on generated streams with seed 1; streams
of seed 2 and the other real ones showed the results of a few variants. Seeds from 11 on chose nothing.

The calibrated baseline is what CBPE of NannyML does for accuracy: probabilities recalibrated by isotonic regression, on
the first labelled batches or again every ten batches.
"""

from __future__ import annotations

import argparse
import math
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.everyday import EVERYDAY, EVERYDAY_NUMBERS, generated
from benchmarks.hard_streams import HARD, as_rows
from driftsurf import recommended
from driftsurf.comparison.inputs import REAL, Input, load
from driftsurf.core.contracts import FloatArray
from driftsurf.session import Session
from driftsurf.session.error_tracker import ErrorTracker, RowSigns, signs_of

__all__ = ["main"]

DELAYS = 1, 5, 20
CHOSEN = "electricity", "phishing", "insects", "outdoor", "airline-2007", "electricity-price"
"""Real streams on which settings were chosen."""
NUMBERS = "electricity-price", "powersupply-load", "noaa-temperature"
"""Real streams of numbers."""
BATCHES, LEAST_ROWS = 100, 50
AUDITED = 0.05
"""Share of labels that are known at once in the second half of the table."""
FIT_BATCHES = 10
METHODS = "estimate", "with 5 %", "mean of 10", "1 - max p", "calibrated once", "calibrated every 10"


class Banked(NamedTuple):
    """Signs of errors and losses of the batches of a stream, with labels that come so many batches later."""

    signs: list[RowSigns]
    losses: list[FloatArray]
    delay: int
    regression: bool
    shares: tuple[float, float]
    """Share of the time of predictions, and of steps, that estimates took."""

    @property
    def errors(self) -> FloatArray:
        """Error of each batch."""
        means = np.array([one.mean() for one in self.losses])
        return np.sqrt(means) if self.regression else means


def bank(X: FloatArray, y: Any, classes: int, delay: int) -> Banked:
    """Predict every batch of a stream, and learn it once its labels are known."""
    size, regression = max(LEAST_ROWS, len(y) // BATCHES), not classes
    made = recommended("light", task="regression" if regression else "classification", random_state=0)
    session = Session(made.new_strategy(seed=0), classes=range(classes) if classes else None)
    session.measure_disagreement()
    if delay > 1:
        session.expect_late_labels()
    signs, losses, seconds = list[RowSigns](), list[FloatArray](), np.zeros(2)
    for batch in range(len(y) // size):
        part = slice(batch * size, (batch + 1) * size)
        if session.steps:
            begin = time.process_time()
            scores, apart = session.scores_and_disagreement(X[part])
            seconds[0] += time.process_time() - begin
            signs.append(signs_of(scores, apart, regression=regression, probabilities=True))
            predicted = session.targets.predicted(scores)
            losses.append(np.square(predicted - y[part]) if regression else (predicted != y[part]).astype(float))
        known = slice((batch - delay + 1) * size, (batch - delay + 2) * size)
        if known.start >= 0:
            begin = time.process_time()
            session.learn(X[known], y[known])
            seconds[1] += time.process_time() - begin
    begin = time.process_time()
    estimates(Banked(signs, losses, delay, regression, (0.0, 0.0)), 0.0, 0)
    spent = time.process_time() - begin
    return Banked(signs, losses, delay, regression, (spent / seconds[0], spent / seconds.sum()))


def estimates(banked: Banked, audited: float, seed: int) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return the estimates of the batches, NaN without one, and for each whether its interval held the true error."""
    tracker, random = ErrorTracker(banked.regression), np.random.default_rng(seed)
    found = np.full((len(banked.losses), 3), np.nan)
    first = 0
    for batch, (signs, losses) in enumerate(zip(banked.signs, banked.losses, strict=True)):
        late = batch - banked.delay
        if late >= 0:
            tracker.labelled(late * len(losses), banked.losses[late])
        one = tracker.predicted(signs)
        if audited and tracker.estimator is not None and one is not None:
            asked = random.random(len(losses)) < audited
            expected = tracker.expected_losses()[asked]
            chances = np.full(len(expected), audited)
            one = tracker.estimator.audit(first, losses[asked], expected, 1.0 / chances) or one
        if one is not None:
            found[batch] = one[:3]
        first += len(losses)
    errors = banked.errors
    return found[:, 0], (found[:, 1] <= errors + 1e-12) & (errors - 1e-12 <= found[:, 2])


def calibrated(banked: Banked, every: int) -> FloatArray:
    """Return the expected error by recalibrated probabilities; ``every`` is the number of batches between fits."""
    from sklearn.isotonic import IsotonicRegression

    found, fitted, fitted_at = np.full(len(banked.losses), np.nan), None, 0
    for batch, signs in enumerate(banked.signs):
        known = batch - banked.delay + 1
        if known >= FIT_BATCHES and (fitted is None or (every and known >= fitted_at + every)):
            past = slice(0, known) if not every else slice(max(0, known - 2 * every), known)
            q, losses = (np.concatenate(one[past]) for one in ([s.values for s in banked.signs], banked.losses))
            fitted, fitted_at = IsotonicRegression(out_of_bounds="clip").fit(q, losses), known
        found[batch] = signs.values.mean() if fitted is None else fitted.predict(signs.values).mean()
    return found


def judge(banked: Banked, seed: int) -> dict[str, tuple[float, float]]:
    """Return for each method the ratio to the error of the last labelled batch, and the coverage of its intervals."""
    errors, delay = banked.errors, banked.delay
    judged = np.arange(delay, len(errors))
    past = [errors[max(0, batch - delay - 9) : batch - delay + 1].mean() for batch in judged]
    plain, held = estimates(banked, 0.0, seed)
    made = {"estimate": (plain[judged], _share(held, plain, judged))}
    corrected, held = estimates(banked, AUDITED, seed)
    made["with 5 %"] = corrected[judged], _share(held, corrected, judged)
    made["mean of 10"] = np.array(past), math.nan
    if not banked.regression:
        made["1 - max p"] = np.array([one.values.mean() for one in banked.signs])[judged], math.nan
        made["calibrated once"] = calibrated(banked, 0)[judged], math.nan
        made["calibrated every 10"] = calibrated(banked, 10)[judged], math.nan
    last = np.abs(errors[judged - delay] - errors[judged])
    ratios = {}
    for name, (one, coverage) in made.items():
        there = ~np.isnan(one)
        off = np.abs(one - errors[judged])[there].mean()
        ratios[name] = float(off / max(float(last[there].mean()), 1e-9)), float(coverage)
    return ratios


def _share(held: npt.NDArray[np.bool_], made: FloatArray, judged: npt.NDArray[np.int64]) -> float:
    """Return the share of the intervals that were made which held the true error."""
    return float(held[judged][~np.isnan(made[judged])].mean())


def streams(seeds: range, regression: bool) -> Iterator[tuple[str, str, int, FloatArray, Any, int]]:
    """Yield group, name, seed, rows, labels and number of classes of each stream."""
    if os.environ.get("DRIFTSURF_DATA"):
        for name in NUMBERS if regression else [name for name in REAL if name != "luxembourg"]:
            rows = load(Input(name)).numbered()
            group = "real, chose settings" if name in CHOSEN else "real, others"
            yield group, name, 0, np.asarray(rows.X, float), np.asarray(rows.y), len(rows.labels)
    for seed in seeds:
        for name in EVERYDAY_NUMBERS if regression else (*HARD, *EVERYDAY):
            made: Any = as_rows(name, seed) if name in HARD else generated(name, seed)
            classes = 0 if regression else int(made.y.max()) + 1
            yield f"generated, seed {seed}", name, seed, made.X, made.y, classes


def report(found: Mapping[tuple[str, int], list[dict[str, tuple[float, float]]]]) -> None:
    """Print the tables of the ratios and of the coverage."""
    for group in dict.fromkeys(group for group, _ in found):
        count = len(found[group, DELAYS[0]])
        print(f"\n## {group} ({count} streams)\n")
        print("| labels 1 / 5 / 20 batches late | ratio | worst | coverage |\n|---|---|---|---|")
        for method in METHODS:
            cells = [[one[method] for one in found[group, delay] if method in one] for delay in DELAYS]
            if all(cells):
                ratios = " / ".join(f"{math.exp(np.mean([math.log(one[0]) for one in cell])):.2f}" for cell in cells)
                worst = " / ".join(f"{max(one[0] for one in cell):.2f}" for cell in cells)
                held = [np.mean([one[1] for one in cell]) for cell in cells]
                coverage = "" if math.isnan(held[0]) else " / ".join(f"{one:.2f}" for one in held)
                print(f"| {method} | {ratios} | {worst} | {coverage} |")


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks labels", description=__doc__)
    parser.add_argument("--first-seed", type=int, default=11, help="first seed of generated streams (default: 11)")
    parser.add_argument("--seeds", type=int, default=2, help="number of seeds (default: 2)")
    options = parser.parse_args(arguments)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    warnings.simplefilter("ignore")
    for regression in (False, True):
        found: dict[tuple[str, int], list[dict[str, tuple[float, float]]]] = defaultdict(list)
        shares = []
        for group, _, seed, X, y, classes in streams(seeds, regression):
            for delay in DELAYS:
                banked = bank(X, y, classes, delay)
                shares.append(banked.shares)
                found[group, delay].append(judge(banked, seed))
        print(f"\n# {'regression' if regression else 'classification'}")
        report(found)
        predicting, stepping = np.median(shares, axis=0)
        print(f"\nCPU time of estimates: {predicting:.1%} of predicting, {stepping:.1%} of a whole step (median).")


if __name__ == "__main__":
    main()
