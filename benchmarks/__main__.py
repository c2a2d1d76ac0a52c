"""``python -m benchmarks [suite ...] [--rounds N] [--quick]``, ``verdict``, ``labels`` and ``arena`` with options."""

from __future__ import annotations

import argparse
import sys

from benchmarks import (
    adaptive,
    ageing,
    arena,
    beside,
    checkpoint,
    detectors,
    fleet,
    kernel,
    labels,
    serve,
    serve_load,
    small_steps,
    spark,
    start,
    trial,
    whole_run,
    wrapping,
)
from benchmarks.harness import MIN_ROUNDS, hold, machine, write
from benchmarks.verdict import command as verdict

SUITES = {
    "kernel": kernel.contests,
    "small-steps": small_steps.contests,
    "whole-run": whole_run.contests,
    "adaptive": adaptive.contests,
    "detectors": detectors.contests,
    "ageing": ageing.contests,
    "beside-learning": beside.contests,
    "start": start.contests,
    "checkpoint": checkpoint.contests,
    "fleet": fleet.contests,
    "serve": serve.contests,
    "serve-learning": serve_load.learning,
    "serve-events": serve_load.events,
    "serve-restart": serve_load.restart,
    "spark": spark.contests,
    "state-api": spark.state_api,
    "visit": spark.visit,
    "trial": trial.contests,
    "wrapping": wrapping.contests,
}
"""All suites: functions ``(quick, note)`` that yield contests; ``note`` adds a line to the report."""


def main() -> None:
    if sys.argv[1:2] == ["verdict"]:  # it measures errors, not times, and has options of its own
        verdict.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["labels"]:
        labels.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["arena"]:
        arena.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure ratios of speeds.",
        epilog="python -m benchmarks verdict --help: how good verdicts on drift are; "
        "python -m benchmarks labels --help: how near estimates of the error come before labels; "
        "python -m benchmarks arena --help: errors of models at any pace, with late labels",
    )
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"suites to run (default: all): {', '.join(SUITES)}")
    parser.add_argument("--rounds", type=int, default=9, help=f"number of rounds, at least {MIN_ROUNDS} (default: 9)")
    parser.add_argument("--quick", action="store_true", help="use small shapes, to check that everything runs")
    options = parser.parse_args()
    if options.rounds < MIN_ROUNDS:
        parser.error(f"--rounds is {options.rounds}; it must be at least {MIN_ROUNDS}")
    for suite in options.suites:
        if suite not in SUITES:
            parser.error(f"no suite is called {suite!r}; choices: {', '.join(SUITES)}")
    about = machine()
    for suite in options.suites or SUITES:
        notes, results = list[str](), []
        if options.quick:
            notes.append("--quick: the shapes are too small for meaningful figures.")
        for contest in SUITES[suite](options.quick, notes.append):
            results.append(hold(contest, options.rounds))
            print(results[-1].table(), flush=True)
        print(write(suite, options.rounds, about, notes, results), flush=True)


if __name__ == "__main__":
    main()
