"""What further experts add to the default portfolio, on recurring concepts, rare classes and real streams.

``python -m benchmarks.further [--rare SHARE] [stream ...]`` lets the default experts and some further ones learn each
stream once, and prints the error and the balanced error (1 minus the mean recall of the classes) of the default
portfolio, of the portfolio with each further expert, and of each further expert alone, with the CPU seconds that it
costs; for the portfolio, those of its experts. The last line of a table has all further experts together. The first
batch does not count. With ``--rare``, rows of the second class are left out at random until it has this share, for
streams with two classes.

The further experts are DWMIL, DTEL and Diversity Pool, and Learn++.NSE as a pool of retired models: a model of each
batch, which never learns again and votes by its recent errors. Paired Learners are a warm challenger: a model of the
last four batches stands ready before there is any sign of drift. All are around the learner of the DriftSurf experts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.portfolio import learned, mixture, template
from driftsurf.comparison.inputs import Input, StreamInMemory, load
from driftsurf.core.contracts import FloatArray
from driftsurf.strategies import DTEL, DWMIL, DiversityPool, LearnNSE, PairedLearners

STREAMS = "recurring", "recurring-rare", "luxembourg", "phishing", "noaa-weather", "powersupply", "electricity"


def rarer(rows: StreamInMemory, share: float) -> StreamInMemory:
    """Return a stream in which the second class has at most this share, cut to whole batches."""
    rare = np.flatnonzero(rows.y == 1)
    keep = round(share / (1.0 - share) * (len(rows.y) - len(rare)))
    chosen = np.random.default_rng(0).permutation(rare)[:keep]
    kept = np.sort(np.concatenate([np.flatnonzero(rows.y != 1), chosen]))
    kept = kept[: len(kept) // rows.batch_size * rows.batch_size]
    return replace(rows, X=rows.X[kept], y=rows.y[kept], drift_steps=None, drifts=(), compact=None)


def rates(mixed: Sequence[FloatArray], targets: Sequence[FloatArray]) -> tuple[float, float]:
    """Return the error and the balanced error of a mixture, for all batches but the first."""
    found, y = np.concatenate(mixed).argmax(axis=1), np.concatenate(targets[1:])
    recalls = [np.mean(found[y == code] == code) for code in np.unique(y)]
    return float(np.mean(found != y)), 1.0 - float(np.mean(recalls))


def main() -> None:
    """Measure the streams that are named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.further", description="Measure further experts.")
    parser.add_argument("streams", nargs="*", default=STREAMS, help=f"streams (default: {', '.join(STREAMS)})")
    parser.add_argument("--rare", type=float, help="share of the second class")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in options.streams:
        rows = load(Input(name))
        if options.rare:
            rows = rarer(rows, options.rare)
        K, base = len(rows.labels), template(rows)
        warm = PairedLearners(base, window=4 * rows.batch_size)
        further = [DWMIL(base), DTEL(base, experts=10), DiversityPool(base), LearnNSE(base), warm]
        experts, scored, seconds = learned(rows, options.seed, further)
        targets = [one.batch.y for one in scored]
        default = list(range(len(experts) - len(further)))
        cost = sum(seconds[place] for place in default)
        print(f"\n### {name}: {len(rows.y):,} rows in batches of {rows.batch_size}\n")
        print("| experts | error | balanced error | alone: error | balanced | CPU s |\n|---|---:|---:|---:|---:|---:|")
        error, balanced = rates(mixture(scored, default, K), targets)
        print(f"| default | {error:.4f} | {balanced:.4f} | | | {cost:.1f} |")
        for place, expert in enumerate(further, start=len(default)):
            error, balanced = rates(mixture(scored, [*default, place], K), targets)
            alone = rates(mixture(scored, [place], K), targets)
            shown = " | ".join(f"{value:.4f}" for value in (error, balanced, *alone))
            print(f"| + {type(expert).__name__} | {shown} | {seconds[place]:.1f} |", flush=True)
        error, balanced = rates(mixture(scored, range(len(experts)), K), targets)
        print(f"| + all five | {error:.4f} | {balanced:.4f} | | | {sum(seconds) - cost:.1f} |")


if __name__ == "__main__":
    main()
