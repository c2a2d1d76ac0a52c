"""``python -m driftsurf.checks matrix``: run every combination, print the table, say what fails."""

from __future__ import annotations

import argparse
import sys

from driftsurf.checks.matrix import Cell, cells, installed, table
from driftsurf.errors import CheckError


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code is 1 if a combination neither works nor refuses by name."""
    parser = argparse.ArgumentParser(prog="python -m driftsurf.checks", description=__doc__)
    parser.add_argument("command", choices=["matrix"])
    parser.add_argument("--learner", action="append", choices=installed(), help="only this one; may be repeated")
    parser.add_argument("--no-run", action="store_true", help="print the table without running the combinations")
    chosen = parser.parse_args(arguments)
    failed = [] if chosen.no_run else [why for cell in cells(chosen.learner) if (why := _failure(cell))]
    print(table(chosen.learner))
    if not chosen.no_run:
        count = sum(1 for _ in cells(chosen.learner))
        print(f"\n{count - len(failed)} of {count} combinations work or refuse by name.")
    for why in failed:
        print(why, file=sys.stderr)
    return 1 if failed else 0


def _failure(cell: Cell) -> str:
    try:
        cell.run()
    except CheckError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(main())
