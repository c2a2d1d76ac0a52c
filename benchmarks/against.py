"""Compare the speed of this checkout with another one: ``python -m benchmarks.against PATH [suite ...]``.

Each checkout has a process of its own, with its own ``benchmarks`` package. The two take turns: one runs a contender
once, then the other runs the same contender once. Noise of a shared machine hits both, so the ratio of two turns that
follow each other says more than two separate measurements. Times are CPU times. The median ratio is reported, with the
interval that holds the true median with a confidence of about 95 %. The command ends with the contenders that are
slower than ``--limit`` for certain, and with exit code 1 if there are any.

>>> interval([1.0, 1.1, 0.9, 1.05, 0.95])
(0.9, 1.0, 1.1)
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PEERS = (
    "scikit-learn",
    "river",
    "frouros",
    "Vowpal",
    "SGDClassifier",
    "C",
    "import n",
    "import s",
    "the same in",
    "dict",
)
"""First words of the names of contenders that are not ours, or that are there for comparison only."""
DEFAULT_SUITES = (
    *("whole-run", "adaptive", "trial", "visit", "kernel", "detectors", "wrapping", "checkpoint"),
    *("fleet", "start", "ageing"),
)
"""All suites but those on Spark."""
LIMIT = 1.1
"""Ratio of times above which a contender is reported as slower."""


class Checkout:
    """A process that runs contenders of one checkout on request."""

    def __init__(self, path: Path, suite: str, quick: bool) -> None:
        command = [sys.executable, "-c", WORKER, suite, str(int(quick))]
        environment = {
            **os.environ,
            "PYTHONPATH": f"{path / 'src'}{os.pathsep}{path}",
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        }
        self._process = subprocess.Popen(
            command, cwd=path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, *words: object) -> Any:
        """Send a request; return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a process ended with code {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


# This file and not the one of the other checkout, which may have another version of it, or none.
WORKER = f"import runpy; runpy.run_path({__file__!r})['serve']()"


def serve() -> None:
    """Answer requests on standard input: ``["next"]`` gives a contest, ``["run", k]`` CPU seconds of contender k."""
    from benchmarks.__main__ import SUITES
    from benchmarks.harness import _cpu_seconds

    suite, quick = sys.argv[1], bool(int(sys.argv[2]))
    contests = iter(SUITES[suite](quick, lambda _: None))
    answers = sys.stdout
    contest: Any = None
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):  # contenders may print
        for line in sys.stdin:
            request = json.loads(line)
            if request[0] == "next":
                contest = next(contests, None)
                answer: Any = None if contest is None else [contest.title, [one.name for one in contest.contenders]]
            else:
                one = contest.contenders[request[1]]
                prepared = one.prepare()
                gc.collect()
                before = _cpu_seconds() + one.elsewhere()
                one.run(prepared)
                answer = _cpu_seconds() + one.elsewhere() - before
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower end, the median and the upper end of a 95 % interval of the median, from order statistics."""
    ordered = sorted(ratios)
    reach = max(0, math.floor(len(ordered) / 2 - 0.98 * math.sqrt(len(ordered))))
    return ordered[reach], statistics.median(ordered), ordered[-1 - reach]


def compared(other: Path, suite: str, rounds: int, quick: bool) -> Iterator[tuple[str, str, list[float]]]:
    """Yield contest, contender, and the ratio of each round: CPU seconds of this checkout by those of the other."""
    here, there = (Checkout(path, suite, quick) for path in (Path(__file__).parents[1], other))
    while (contest := here.ask("next")) is not None:
        title, names = contest
        known = (there.ask("next") or ["", []])[1]
        for place, name in enumerate(names):
            if name not in known or name.startswith(PEERS):
                continue
            at, ratios = known.index(name), list[float]()
            for turn in range(-1, rounds):  # the first round warms up
                if turn % 2:
                    first, second = here.ask("run", place), there.ask("run", at)
                else:
                    second, first = there.ask("run", at), here.ask("run", place)
                if turn >= 0:
                    ratios.append(first / second)
            yield title, name, ratios
    here.close()
    there.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="folder of the other checkout")
    parser.add_argument("suites", nargs="*", help=f"suites to run (default: {', '.join(DEFAULT_SUITES)})")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each contender (default: 15)")
    parser.add_argument("--quick", action="store_true", help="use small shapes")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"largest ratio that is fine (default: {LIMIT})")
    options = parser.parse_args()
    slower = list[str]()
    print("| suite | contest | contender | time / other | 95 % interval |\n|---|---|---|---:|---:|", flush=True)
    for suite in options.suites or DEFAULT_SUITES:
        for title, name, ratios in compared(options.other.resolve(), suite, options.rounds, options.quick):
            low, middle, high = interval(ratios)
            print(f"| {suite} | {title} | {name} | {middle:.3f} | {low:.3f} to {high:.3f} |", flush=True)
            if low > options.limit:
                slower.append(f"{suite}, {title}, {name}: {middle:.3f}")
    print("\n" + "\n".join([f"{len(slower)} contenders are slower than {options.limit:g} times the other.", *slower]))
    sys.exit(bool(slower))


if __name__ == "__main__":
    main()
