"""``python -m benchmarks.first_use [CHECKOUT]``: CPU seconds of a first ``partial_fit``, cache empty and warm.

Each start is a process of its own. With another checkout, both take turns, and the ratios compare this one with it.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parents[1]
FIRST = """
import numpy as np
from driftsurf import DriftSurfClassifier

X = np.random.default_rng(0).normal(size=(200, 3))
model = DriftSurfClassifier(random_state=0)
for _ in range(5):
    model.partial_fit(X, (X[:, 0] > 0).astype(int))
"""
STEPPED = "from driftsurf.strategies.compiled import suitable\nsuitable.LEAST_STEPS = 0" + FIRST
"""The same, with the compiled time step, which otherwise only long runs and ``driftsurf doctor --warm`` compile."""


def seconds(checkout: Path, code: str, cache: str) -> float:
    """Return the CPU seconds of a process that runs this code, whose compiled code is cached in a folder."""
    environment = os.environ | {
        "PYTHONPATH": str(checkout / "src"),
        "NUMBA_CACHE_DIR": cache,
        "DRIFTSURF_QUIET": "1",
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(checkouts: list[Path], code: str, rounds: int) -> list[tuple[list[float], list[float]]]:
    """Return, for each checkout, the seconds with an empty and with a warm cache, one of each per round."""
    found: list[tuple[list[float], list[float]]] = [([], []) for _ in checkouts]
    for turn in range(rounds):
        for which in range(len(checkouts)):
            place = (turn + which) % len(checkouts)
            with tempfile.TemporaryDirectory() as cache:
                for kind in range(2):
                    found[place][kind].append(seconds(checkouts[place], code, cache))
    return found


def main() -> None:
    """Print a table with a line for each kind of start."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_use", description=__doc__)
    parser.add_argument("checkout", nargs="?", type=Path, help="another checkout, to compare with")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds (default: 3)")
    options = parser.parse_args()
    checkouts = [HERE] if options.checkout is None else [HERE, options.checkout.resolve()]
    heads = ["here", "there", "here / there"] if options.checkout else ["CPU seconds"]
    print(f"| five steps of partial_fit in a new process | {' | '.join(heads)} |")
    print(f"|---|{'---:|' * len(heads)}")
    for words, code in (("", FIRST), (", compiled step", STEPPED)):
        found = measured(checkouts, code, options.rounds)
        for kind, cache in enumerate(("empty", "warm")):
            medians = [statistics.median(one[kind]) for one in found]
            cells = [f"{value:.2f}" for value in medians]
            cells += [f"{medians[0] / medians[1]:.2f}"] if len(medians) == 2 else []
            print(f"| {cache} cache{words} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
