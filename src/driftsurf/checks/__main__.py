"""``python -m driftsurf.checks matrix``: run every combination of parts, print the table, report failures."""

from __future__ import annotations

import argparse
import sys

from driftsurf.checks.matrix import MatrixCell, cells, learners, strategies, table
from driftsurf.errors import CheckError


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 1 if a combination neither works nor refuses by name, else 0."""
    parser = argparse.ArgumentParser(prog="python -m driftsurf.checks", description=__doc__)
    parser.add_argument("command", choices=["matrix"])
    installed = [label for label, part in learners().items() if part.installed]
    parser.add_argument("--learner", action="append", choices=installed, help="only this learner; may be repeated")
    parser.add_argument("--strategy", action="append", choices=[*strategies()], help="only this strategy")
    parser.add_argument("--no-run", action="store_true", help="print the table without running the combinations")
    chosen = parser.parse_args(arguments)
    every = [] if chosen.no_run else list(cells(chosen.learner, chosen.strategy))
    failed = [why for cell in every if (why := _failure(cell))]
    print(table(chosen.learner))
    if every:
        print(f"\n{len(every) - len(failed)} of {len(every)} combinations work or refuse by name.")
    for why in failed:
        print(why, file=sys.stderr)
    return 1 if failed else 0


def _failure(cell: MatrixCell) -> str:
    try:
        cell.run()
    except CheckError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(main())
