"""``python -m benchmarks verdict``: how good verdicts on drift are, and what they cost."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from benchmarks.harness import RESULTS, machine
from benchmarks.verdict import cost, plan, real_report, report
from benchmarks.verdict.families import FAMILIES
from benchmarks.verdict.judging import Task
from benchmarks.verdict.models import MODELS, optional
from benchmarks.verdict.running import STORE, run
from benchmarks.verdict.streams import FIRST_JUDGED, KINDS
from driftsurf.comparison.inputs import REAL
from driftsurf.data.datasets.known import FOLDER_VARIABLE

__all__ = ["main"]

PARTS = "made", "real", "cost"
REPORT = RESULTS / "verdict.md"


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge the streams that the options select, and print and write the tables."""
    options = _parser().parse_args(arguments)
    if options.fresh:
        STORE.unlink(missing_ok=True)
    lines = ["# Verdicts\n", *(f"- {name}: {value}" for name, value in machine().items())]
    options.every = plan.EVERY_QUICK if options.quick else options.every
    if options.every > 1:
        lines.append(f"\nOne stream of {options.every}; the intervals are wider than those of all streams.")
    for part, tasks in _tasks(options):
        found = run(tasks, options.processes)
        failed = [one for one in found.values() if "failed" in one]
        lines += [f"\nFailed: {one['key']}: {one['failed']}" for one in failed]
        good = [one for one in found.values() if "failed" not in one]
        if good:
            lines += [f"\n## {part} streams\n", *(report.lines(good) if part == "made" else real_report.lines(good))]
    if "cost" in options.part:
        lines += ["\n## Cost\n", *cost.lines(options.quick)]
    print("\n".join(lines))
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text("\n".join(lines) + "\n")
    print(f"\nwritten to {REPORT}")


def _tasks(options: argparse.Namespace) -> list[tuple[str, list[Task]]]:
    """Return the tasks of the parts that were chosen; what is not at hand is left out and named."""
    found = list[tuple[str, list[Task]]]()
    missing = {model: package for model in MODELS if (package := optional(model))}
    for model, package in missing.items():
        print(f"model {model} is left out: {package} is not installed")
    for part in options.part:
        if part == "cost":
            continue
        if part == "real" and not os.environ.get(FOLDER_VARIABLE):
            print(f"real streams are left out: {FOLDER_VARIABLE} is not set")
            continue
        first = 0 if options.choosing else FIRST_JUDGED
        tasks = plan.made_tasks(first) if part == "made" else plan.real_tasks(REAL, first)
        tasks = tasks[:: options.every]
        families = set(options.family) if options.family else {task.family for task in tasks}
        kinds = set(options.kind) if options.kind else {task.kind for task in tasks}
        chosen = [task for task in tasks if task.family in families and task.kind in kinds]
        found.append((part, [task for task in chosen if task.model not in missing]))
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks verdict", description=__doc__)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS, help=f"default: {', '.join(PARTS)}")
    families = f"{', '.join(FAMILIES)}; of real streams: {', '.join(REAL)}"
    parser.add_argument("--family", nargs="+", choices=[*FAMILIES, *REAL], metavar="FAMILY", help=families)
    kinds = list(dict.fromkeys([*KINDS, *plan.REAL_KINDS]))
    parser.add_argument("--kind", nargs="+", choices=kinds, metavar="KIND", help=", ".join(kinds))
    parser.add_argument("--quick", action="store_true", help=f"one stream of {plan.EVERY_QUICK}, some minutes")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="judge one stream of N (a prime above 5)")
    parser.add_argument("--choosing", action="store_true", help=f"take seeds below {FIRST_JUDGED}, to choose settings")
    parser.add_argument("--fresh", action="store_true", help="forget the results of finished streams")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one for each core")
    return parser
