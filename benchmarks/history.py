"""Benchmark ratios over time: ``python -m benchmarks.history record | check | draw``.

``record`` keeps the ratios of ``benchmarks/results`` as one file per commit in ``benchmarks/history``. ``check``
compares the two newest records and warns of contenders that became slower by more than 10 %. ``draw`` writes the chart
and the table of docs/evidence.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import statistics
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS
from driftsurf.errors.visible import escape

HERE = Path(__file__).parent
HISTORY = HERE / "history"
DOCS = HERE.parent / "docs"
CHART, PAGE = DOCS / "images" / "history.svg", DOCS / "evidence.md"
BEGIN, END = "<!-- ratios: python -m benchmarks.history draw -->", "<!-- end of ratios -->"
OURS = "driftsurf", "Fleet", "whole run", "DriftSurf", "kernel"
"""Beginnings of the names of our own contenders."""
LIMIT = 1.1
WIDTH, HEIGHT, LEFT, LINE = 960, 150, 60, 20
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#222}.title{font-weight:600}.axis{stroke:#999}"
    "path{fill:none;stroke:#2b6cb0;stroke-width:2}circle{fill:#2b6cb0}"
)


@dataclass(frozen=True)
class Record:
    """Ratios of one commit: of each contender the smallest, the median and the largest over its rounds."""

    date: str
    commit: str
    cpu: str
    ratios: Mapping[tuple[str, str, str], tuple[float, float, float]]
    """By suite, contest and contender. The time of the anchor is 1."""
    anchors: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By suite and contest, the contender whose time is 1; older records do not have them."""


def record(results: Path = RESULTS, history: Path = HISTORY) -> Path:
    """Write the ratios of all results to one file, named after the date and the commit, and return it."""
    suites: dict[str, Any] = {}
    anchors: dict[str, dict[str, str]] = {}
    cpu = ""
    for path in sorted(results.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        cpu = found["machine"]["cpu"]
        anchors[found["suite"]] = {contest["title"]: contest["anchor"] for contest in found["contests"]}
        suites[found["suite"]] = {
            contest["title"]: {
                score["name"]: [round(f(score["ratios"]), 4) for f in (min, statistics.median, max)]
                for score in contest["scores"]
                if score["name"] != contest["anchor"]
            }
            for contest in found["contests"]
        }
    if not suites:
        raise SystemExit(f"{results} holds no results; run python -m benchmarks first")
    commit = _git("rev-parse", "--short=12", "HEAD")
    dirty = "+" if _git("status", "--porcelain", "--untracked-files=no", "src") else ""
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H%M")  # sorts by time, also within a day
    history.mkdir(exist_ok=True)
    path = history / f"{date}-{commit}{dirty}.json"
    content = {"date": date, "commit": commit + dirty, "cpu": cpu, "anchors": anchors, "suites": suites}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def _git(*args: str) -> str:
    return subprocess.run(["git", *args], cwd=HERE, text=True, capture_output=True, check=True).stdout.strip()


def records(history: Path = HISTORY) -> list[Record]:
    """Return all records, the oldest first."""
    found = []
    for path in sorted(history.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        ratios = {
            (suite, contest, name): tuple(values)
            for suite, contests in content["suites"].items()
            for contest, scores in contests.items()
            for name, values in scores.items()
        }
        anchors = {
            (suite, contest): anchor
            for suite, contests in content.get("anchors", {}).items()
            for contest, anchor in contests.items()
        }
        found.append(Record(content["date"], content["commit"], content["cpu"], ratios, anchors))
    return found


def slower(before: Record, after: Record, limit: float = LIMIT) -> Iterator[str]:
    """Yield a line for each contender whose whole interval is above ``limit`` times its median before."""
    for key, (least, middle, _) in after.ratios.items():
        if key in before.ratios and least > limit * before.ratios[key][1]:
            yield f"{' / '.join(key)}: {middle:.3g} times the anchor, {before.ratios[key][1]:.3g} in {before.commit}"


def draw(found: Sequence[Record]) -> str:
    """Return an SVG with a line for each suite: the geometric mean of its ratios relative to the first record."""
    suites = sorted({suite for one in found for suite, _, _ in one.ratios})
    parts, y = list[str](), LINE
    for suite in suites:
        points = [(k, value) for k, one in enumerate(found) if (value := _level(found, one, suite)) is not None]
        parts += _panel(suite, points, [one.commit for one in found], y)
        y += HEIGHT
    title = "Time relative to the anchors, by commit; the first record of each suite is 1, lower is faster"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + LINE}" role="img" '
        f'aria-label="{escape(title)}"><style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>\n'
        + "\n".join(parts)
        + f'\n<text x="8" y="{y + 8}">{escape(title)}</text>\n</svg>\n'
    )


def table(one: Record) -> str:
    """Return the ratios of our contenders in one record as a Markdown table."""
    lines = [
        f"Measured on {one.date} at commit {one.commit}, {one.cpu}: time divided by that of the anchor, median and "
        "range over the rounds.",
        "",
        "| `python -m benchmarks` | contest | contender | anchor | time / anchor | range |",
        "|---|---|---|---|---:|---|",
    ]
    for (suite, contest, name), (least, middle, most) in one.ratios.items():
        if name.startswith(OURS):
            anchor = one.anchors.get((suite, contest), "")
            lines.append(f"| `{suite}` | {contest} | {name} | {anchor} | {middle:.3g} | {least:.3g} to {most:.3g} |")
    return "\n".join(lines)


def with_table(page: str, one: Record) -> str:
    """Return the text of a page with the ratios of one record between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(one)}\n\n{END}{after}"


def _level(found: Sequence[Record], one: Record, suite: str) -> float | None:
    """Return the mean ratio of a suite relative to the first record that has each contender."""
    logs = []
    for key, (_, middle, _) in one.ratios.items():
        if key[0] == suite and middle > 0.0:
            first = next(record.ratios[key][1] for record in found if key in record.ratios)
            logs.append(math.log(middle / first) if first > 0.0 else 0.0)
    return math.exp(statistics.fmean(logs)) if logs else None


def _panel(suite: str, points: Sequence[tuple[int, float]], commits: Sequence[str], y: int) -> list[str]:
    step = (WIDTH - 2 * LEFT) / max(len(commits) - 1, 1)
    scale = 40.0 / max(*(abs(math.log(value)) for _, value in points), math.log(1.5))
    base = y + 60
    places = [(LEFT + k * step, base - math.log(value) * scale) for k, value in points]
    line = " ".join(f"{'M' if not n else 'L'}{x:.1f} {at:.1f}" for n, (x, at) in enumerate(places))
    return [
        f'<text class="title" x="8" y="{y}">{escape(suite)}</text>',
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - LEFT}" y1="{base}" y2="{base}"/>',
        f'<path d="{line}"/>',
        *(
            f'<circle cx="{x:.1f}" cy="{at:.1f}" r="4"><title>{escape(commits[k])}: {value:.2f}</title></circle>'
            f'<text x="{x:.1f}" y="{at - 8:.1f}" text-anchor="middle">{value:.2f}</text>'
            for (x, at), (k, value) in zip(places, points, strict=True)
        ),
    ]


def main() -> None:
    """Record, check or draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history", description=__doc__)
    parser.add_argument("action", choices=["record", "check", "draw"])
    action = parser.parse_args().action
    if action == "record":
        print(record())
        return
    found = records()
    if action == "draw":
        CHART.write_text(draw(found), encoding="utf-8")
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), found[-1]), encoding="utf-8")
        print(CHART, PAGE, sep="\n")
    elif len(found) < 2:
        print("there is one record or none: nothing to compare")
    else:
        lines = list(slower(found[-2], found[-1]))
        print("\n".join(f"warning: {line}" for line in lines) or f"no contender is more than {LIMIT - 1:.0%} slower")
        raise SystemExit(1 if lines else 0)


if __name__ == "__main__":
    main()
