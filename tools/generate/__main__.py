"""``python -m tools.generate``: write everything that is generated; with ``--check``, only say what is out of date."""

from __future__ import annotations

import argparse
import sys

from tools.generate.outputs import ROOT, outputs, stale


def main(arguments: list[str] | None = None) -> int:
    """Run the command; with ``--check`` the exit code is 1 if a file is out of date."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; list the files that are out of date")
    chosen = parser.parse_args(arguments)
    made = outputs()
    changed = stale(made)
    for path in changed:
        print(f"{'out of date' if chosen.check else 'written'}: {path.relative_to(ROOT)}")
        if not chosen.check:
            path.write_text(made[path], encoding="utf-8")
    return 1 if chosen.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
