"""Put measured results on the evidence page: ``python -m tools.evidence accuracy RUN | arena FILE | reliability ...``.

``accuracy`` takes the tables and the critical-difference diagram of a folder that ``driftsurf compare`` wrote.
``arena`` takes the tables of a file that ``python -m benchmarks arena`` wrote.
``reliability`` takes the outcomes of reports that ``python -m tests.reliability`` wrote; those of proofs that are not
in the reports stay as they are. All name the date and the commit. Speed: ``python -m benchmarks.history draw``.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["accuracy", "arena", "counts", "main", "with_part"]

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "evidence.md"
DIAGRAM = ROOT / "docs" / "images" / "ranks.svg"
COUNTS = ROOT / "tests" / "reliability" / "counts.json"
"""The newest outcome of each proof."""


def with_part(page: str, name: str, text: str) -> str:
    """Return a page with a text between the two marks of this name.

    >>> with_part("a\\n<!-- speed -->\\nold\\n<!-- end of speed -->\\nb", "speed", "new")
    'a\\n<!-- speed -->\\n\\nnew\\n\\n<!-- end of speed -->\\nb'
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, found, rest = page.partition(begin)
    _, also, after = rest.partition(end)
    if not found or not also:
        raise SystemExit(f"{PAGE} has no lines '{begin}' and '{end}'")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def accuracy(folder: Path, command: str, when: str) -> str:
    """Return the tables of a comparison as Markdown, with the command that made it."""
    tables = re.findall(r"(?:^\|.*\n)+", (folder / "comparison.md").read_text(encoding="utf-8"), re.MULTILINE)
    timings = json.loads((folder / "timings.json").read_text(encoding="utf-8"))["cpu_seconds"]
    seconds = ", ".join(f"{model} {timings[model]:,.0f}" for model in sorted(timings, key=timings.__getitem__))
    verdict = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))["verdict"]
    return "\n".join(
        [
            f"`{command}`, {when}.",
            "",
            f"{verdict}.",
            "",
            *tables[:2],
            f"CPU seconds: {seconds}.",
            "",
            "![Mean ranks of the models; a line joins those that do not differ by more than chance](images/ranks.svg)",
        ]
    )


def arena(results: Path, command: str, when: str) -> str:
    """Return the tables of the arena as Markdown, with the command that measured them."""
    from benchmarks import arena  # imports the package

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        arena.report(arena.Results(results))
    _, _, tables = printed.getvalue().partition("\n")
    return f"`{command}`, {when}.\n\n{tables.strip().replace('### ', '#### ')}"


def counts(known: Mapping[str, Any], reports: Sequence[Mapping[str, Any]], date: str) -> dict[str, Any]:
    """Return the outcomes by proof, those of the reports in place of known ones.

    >>> report = {"commit": "abc", "proofs": [{"name": "kills", "tried": 9, "failed": 0, "figures": {"rows": 5}}]}
    >>> counts({}, [report], "2026-11-18")
    {'kills': {'tried': 9, 'failed': 0, 'figures': {'rows': 5}, 'commit': 'abc', 'date': '2026-11-18'}}
    """
    found = dict(known)
    for report in reports:
        for proof in report["proofs"]:
            if not proof.get("skipped"):
                kept = {name: proof[name] for name in ("tried", "failed", "figures")}
                found[proof["name"]] = kept | {"commit": report["commit"][:12], "date": date}
    return dict(sorted(found.items()))


def _count_table(found: Mapping[str, Any]) -> str:
    lines = ["| proof | cases | failed | among them | date | commit |", "|---|---:|---:|---|---|---|"]
    for name, one in found.items():
        numbers = {word: value for word, value in one["figures"].items() if isinstance(value, int) and word != "parts"}
        figures = ", ".join(f"{word} {value:,}" for word, value in list(numbers.items())[:4])
        lines.append(f"| {name} | {one['tried']:,} | {one['failed']:,} | {figures} | {one['date']} | {one['commit']} |")
    return "\n".join(lines)


def main() -> None:
    """Write the part of the page that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tools.evidence", description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    for name in ("accuracy", "arena"):
        compared = parts.add_parser(name)
        compared.add_argument("folder", type=Path, help="the folder of the comparison, or the file of the arena")
        compared.add_argument("--command", required=True, help="the command that made the comparison")
        compared.add_argument(
            "--commit", default="HEAD", help="the commit that was measured (default: the current one)"
        )
    parts.add_parser("reliability").add_argument("reports", type=Path, nargs="+")
    options = parser.parse_args()
    date, page = datetime.datetime.now(datetime.UTC).date().isoformat(), PAGE.read_text(encoding="utf-8")
    if options.part in ("accuracy", "arena"):
        asked = ["git", "rev-parse", "--short=12", options.commit]
        commit = subprocess.run(asked, cwd=ROOT, text=True, capture_output=True, check=True).stdout.strip()
        made = {"accuracy": accuracy, "arena": arena}[options.part]
        text = made(options.folder, options.command, f"{date}, commit {commit}")
        if options.part == "accuracy":
            shutil.copyfile(options.folder / "ranks.svg", DIAGRAM)
    else:
        known = json.loads(COUNTS.read_text(encoding="utf-8")) if COUNTS.exists() else {}
        reports = [json.loads(path.read_text(encoding="utf-8")) for path in options.reports]
        found = counts(known, reports, date)
        COUNTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        text = _count_table(found)
    PAGE.write_text(with_part(page, options.part, text), encoding="utf-8")


if __name__ == "__main__":
    main()
