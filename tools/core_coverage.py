"""Report which lines of the native core were executed: ``python -m tools.core_coverage FOLDER [--fail-under 98]``.

FOLDER has the object files of a core that was compiled with ``--coverage``, and the counts that gcov keeps beside them
when the processes that use the core end. Lines of C are those of gcov. A line of Cython counts as executed if any C
line that Cython has generated from it was.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
MARKER = re.compile(r'\s*/\* "([\w/]+\.p(?:yx|xd))":(\d+)$')
"""The comment before what Cython has generated from a line."""
Lines = dict[str, dict[int, bool]]
"""Whether each line of each file was executed."""


def origins(generated: Path) -> dict[int, tuple[str, int]]:
    """Return the line of Cython from which each line of a generated C file comes, for those that come from one."""
    found: dict[int, tuple[str, int]] = {}
    origin: tuple[str, int] | None = None
    for number, text in enumerate(generated.read_text().splitlines(), start=1):
        if marker := MARKER.match(text):
            origin = marker[1], int(marker[2])
        elif text == "}":  # the end of a function; the next one begins with lines of its own
            origin = None
        elif origin:
            found[number] = origin
    return found


def counts(folder: Path) -> Iterator[tuple[Path, int, bool]]:
    """Yield each line that gcov knows, with its file, its number, and whether it was executed."""
    for notes in sorted(folder.glob("*.gcno")):
        command = ["gcov", "--json-format", "--stdout", notes.name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        for file in json.loads(done.stdout.splitlines()[0])["files"]:
            for line in file["lines"]:
                yield (folder / file["file"]).resolve(), line["line_number"], line["count"] > 0


def executed(folder: Path) -> Lines:
    """Return which lines of the core were executed."""
    lines: Lines = defaultdict(dict)
    generated: dict[Path, dict[int, tuple[str, int]]] = {}
    for path, number, ran in counts(folder):
        name, line = str(path.relative_to(SOURCES)) if path.is_relative_to(SOURCES) else "", number
        if not name and path.parent.name == "cython":
            if path not in generated:
                generated[path] = origins(path)
            name, line = generated[path].get(number, ("", 0))
        if name:
            lines[name][line] = lines[name].get(line, False) or ran
    return lines


def ranges(numbers: list[int]) -> str:
    """Return line numbers as text: 3, 7-9."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def main() -> None:
    """Print a line for each file with lines that were not executed, and the share of all lines."""
    parser = argparse.ArgumentParser(prog="python -m tools.core_coverage", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of object files")
    parser.add_argument("--fail-under", type=float, default=0.0, help="least percentage of lines")
    chosen = parser.parse_args()
    found = executed(chosen.folder)
    total = ran = 0
    for name, lines in sorted(found.items()):
        missed = sorted(number for number, was in lines.items() if not was)
        total, ran = total + len(lines), ran + len(lines) - len(missed)
        if missed:
            print(f"{name}: {100 * (1 - len(missed) / len(lines)):.0f} % of {len(lines)} lines, not {ranges(missed)}")
    share = 100 * ran / max(1, total)
    print(f"native core: {share:.1f} % of {total} lines in {len(found)} files")
    if share < chosen.fail_under:
        sys.exit(f"the native core has {share:.1f} % of its lines executed, less than {chosen.fail_under:g} %")


if __name__ == "__main__":
    main()
