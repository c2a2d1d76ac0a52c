"""States with a right checksum whose numbers do not fit together: refused, or they learn within their arrays.

The fuzzer knows the entries of a saved state. It changes types, numbers and lengths, drops, adds and swaps entries,
also inside texts of JSON and inside packed states, and writes the result with a right checksum. Worker processes load
it and, if it can be loaded, predict, learn and save with it. With the core that ``make test-sanitized`` compiles, a
wrong index ends the worker instead of reading foreign memory. A failure is an error that is not one of ours, a dead or
a stuck worker.
"""

from __future__ import annotations

import argparse
import itertools
import json
import mmap
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from tests.reliability.harness import ROOT, Outcome
from tests.reliability.state_changes import changed
from tests.reliability.state_subjects import Subject, subjects

from driftsurf.errors import DriftsurfError

COUNT = 100_000
MOST_MEMORY = 4 * 2**30
"""Address space of a worker, beyond which allocating fails."""
STUCK = 120.0
"""Seconds after which a worker that works on one state counts as stuck."""
GOOD = "refused", "learned", "learned or refused to"
"""How a state may end."""
COMMAND = "-m", "tests.reliability.states"
"""Arguments of Python in a worker."""
TOLD = 500
"""A worker reports its counts after this many states."""


def attempt(subject: Subject, chance: random.Random) -> tuple[str, list[str], float]:
    """Try one changed state; return how it ended, what was changed, and how long it took to refuse or load it.

    Time is that of the processor, in seconds.
    """
    state, what = changed(subject.state, chance)
    data = subject.folded(state)
    begin = time.process_time()
    try:
        thing = subject.load(data)
    except DriftsurfError:
        return "refused", what, time.process_time() - begin
    except Exception as error:  # any other error is a finding
        return f"loading raised {type(error).__name__}: {error}", what, 0.0
    took = time.process_time() - begin
    try:
        subject.use(thing)
    except DriftsurfError:
        return "learned or refused to", what, took
    except Exception as error:
        return f"using it raised {type(error).__name__}: {error}", what, took
    return "learned", what, took


def chance_of(seed: int, case: int) -> random.Random:
    """Return the random numbers of one case."""
    return random.Random(f"{seed}-{case}")


def sample(seed: int, first: int, stop: int, report: Any) -> None:
    """Try some cases in this process; ``report(case, subject, ended, what, took)`` is called for each."""
    chosen = subjects()
    for case in range(first, stop):
        subject = chosen[case % len(chosen)]
        report(case, subject.name, *attempt(subject, chance_of(seed, case)))


# ---------------------------------------------------------------------------- worker processes


def _work(seed: int, first: int, stop: int, place: str) -> None:
    """Try cases; print counts and failures as lines of JSON, and write the number of the next case to ``place``."""
    warnings.simplefilter("ignore")
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # which reserves more addresses, and has a limit of its own
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    counts: Counter[str] = Counter()
    seconds = {"refused": 0.0, "loaded": 0.0, "all": 0.0}
    with open(place, "r+b") as file, mmap.mmap(file.fileno(), 8) as now:

        def report(case: int, name: str, ended: str, what: list[str], took: float) -> None:
            now[:] = (case + 1).to_bytes(8, "little")
            good = ended in GOOD
            counts[ended if good else "failed"] += 1
            seconds["refused" if ended == "refused" else "loaded"] += took
            if not good:
                print(json.dumps({"case": case, "subject": name, "ended": ended, "changes": what}), flush=True)
            if (case + 1) % TOLD == 0 or case + 1 == stop:
                seconds["all"] += time.process_time()
                print(json.dumps({"counts": counts, "seconds": seconds}), flush=True)
                counts.clear()
                seconds.update({"refused": 0.0, "loaded": 0.0, "all": -time.process_time()})

        sample(seed, first, stop, report)


class _Worker:
    """A worker process, which is started again after the case that killed it."""

    def __init__(self, seed: int, first: int, stop: int, folder: Path) -> None:
        self.seed, self.stop = seed, stop
        self.place = folder / f"case-{first}"
        self.place.write_bytes(first.to_bytes(8, "little"))
        self.output = folder / f"output-{first}"
        self.started = 0.0
        self.seen = first
        self.start(first)

    @property
    def case(self) -> int:
        """Number of the case that is worked on."""
        return int.from_bytes(self.place.read_bytes(), "little")

    def start(self, first: int) -> None:
        """Start a process at a case."""
        self.started = time.monotonic()
        command = [sys.executable, *COMMAND, str(self.seed), str(first), str(self.stop), str(self.place)]
        with self.output.open("ab") as file:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=file)

    def tend(self) -> str:
        """Return "done", "" while it works, or how the process died; it is then started again after its case."""
        code, case = self.process.poll(), self.case
        if case != self.seen:
            self.seen, self.started = case, time.monotonic()
        if code is None and time.monotonic() - self.started < STUCK * (10 if case == self.seen else 1):
            return ""
        if code == 0:
            return "done"
        if code is None:
            self.process.kill()
            self.process.wait()
        self.place.write_bytes((case + 1).to_bytes(8, "little"))
        self.start(case + 1)
        return "stuck" if code is None else f"died with {code}"


def fuzzed(scale: float, seed: int, processes: int = 2) -> Outcome:
    """Load, use and save states whose entries were changed, in processes of their own."""
    outcome = Outcome("states that do not fit together", seed)
    count = round(COUNT * scale)
    cut = [count * k // processes for k in range(processes + 1)]
    with tempfile.TemporaryDirectory() as place:
        workers = [_Worker(seed, a, b, Path(place)) for a, b in itertools.pairwise(cut) if a < b]
        running = list(workers)
        while running:
            time.sleep(0.2)
            for worker in list(running):
                case = worker.case
                ended = worker.tend()
                if ended == "done":
                    running.remove(worker)
                elif ended:
                    outcome.count("dead")
                    outcome.check(False, {"case": case, "ended": ended})
        seconds: Counter[str] = Counter()
        for worker in workers:
            for line in worker.output.read_text().splitlines():
                found = json.loads(line)
                if "case" in found:
                    outcome.check(False, found)
                    continue
                seconds.update(found["seconds"])
                for name, number in found["counts"].items():
                    outcome.count(name, number)
    outcome.tried = count
    refused = outcome.figures.get("refused", 0)
    if refused:
        outcome.figures["microseconds until refused"] = 1e6 * seconds["refused"] / refused
    outcome.figures["milliseconds of a processor per state"] = 1e3 * seconds["all"] / max(1, count)
    return outcome


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for argument in ("seed", "first", "stop"):
        parser.add_argument(argument, type=int)
    parser.add_argument("place")
    given = parser.parse_args()
    _work(given.seed, given.first, given.stop, given.place)
