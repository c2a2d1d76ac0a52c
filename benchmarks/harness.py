"""Measurement of contenders in interleaved rounds, and tables of the results."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import driftsurf
from benchmarks.picture import picture

RESULTS = Path(__file__).with_name("results")
PEERS = "river", "pandas", "frouros", "vowpalwabbit", "capymoa"
PACKAGES = "driftsurf", "numpy", "scipy", "scikit-learn", *PEERS
MIN_ROUNDS = 5


@dataclass(frozen=True)
class Contender:
    """A piece of work of ``units`` units that is run once per round."""

    name: str
    units: int
    prepare: Callable[[], Any]
    """Prepares a run; not timed."""
    run: Callable[[Any], Any]
    """Does the work, given the result of ``prepare``; timed."""
    remark: Callable[[Any], str] | None = None
    """Describes the result of the last run for the table."""
    elsewhere: Callable[[], float] = lambda: 0.0
    """CPU seconds of processes that outlive a run, to be counted as well."""


@dataclass(frozen=True)
class Contest:
    """Contenders for the same work; all ratios are relative to the one named ``anchor``."""

    title: str
    unit: str
    anchor: str
    contenders: Sequence[Contender]
    parts: int = 1
    """How often ``run`` is called in a round, which does this part of the units: the contenders take turns, so that all
    of them meet the same load of other processes."""


@dataclass(frozen=True)
class Score:
    """Measurements of one contender, one number per part of a round."""

    name: str
    units: int
    cpu_seconds: list[float] = field(default_factory=list)
    wall_seconds: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    """CPU seconds per unit, relative to those of the anchor in the same part of a round."""
    remark: str = ""

    @property
    def nanoseconds(self) -> float:
        """Median CPU time per unit."""
        return 1e9 * statistics.median(self.cpu_seconds) / self.units


@dataclass(frozen=True)
class Result:
    """Result of a contest."""

    title: str
    unit: str
    anchor: str
    scores: list[Score]

    def table(self) -> str:
        """Return the result as a Markdown table."""
        lines = [
            f"### {self.title}",
            "",
            f"| contender | ns/{self.unit} | {self.unit}s/s | time / anchor | min to max | |",
            "|---|---:|---:|---:|---:|---|",
        ]
        for score in self.scores:
            ratio = f"{statistics.median(score.ratios):.2f}"
            spread = f"{min(score.ratios):.2f} to {max(score.ratios):.2f}"
            if score.name == self.anchor:
                ratio, spread = "anchor", ""
            rate = 1e9 / score.nanoseconds
            lines.append(
                f"| {score.name} | {score.nanoseconds:,.1f} | {rate:,.0f} | {ratio} | {spread} | {score.remark} |"
            )
        return "\n".join(lines) + "\n"


def hold(contest: Contest, rounds: int) -> Result:
    """Run every contender once per round, in rotating order, after one round that does not count."""
    contenders, parts = list(contest.contenders), contest.parts
    scores = {one.name: Score(one.name, one.units // parts) for one in contenders}
    remarks = {}
    for turn in range(-1, rounds):
        first = turn % len(contenders)
        order = contenders[first:] + contenders[:first]
        for group in [order] if parts > 1 else [[one] for one in order]:  # those that are prepared at the same time
            prepared = [one.prepare() for one in group]
            gc.collect()
            for part in range(parts):
                for one, own in zip(group, prepared, strict=True):
                    wall, cpu = time.perf_counter(), _cpu_seconds() + one.elsewhere()
                    outcome = one.run(own)
                    cpu, wall = _cpu_seconds() + one.elsewhere() - cpu, time.perf_counter() - wall
                    if turn >= 0:
                        scores[one.name].cpu_seconds.append(cpu)
                        scores[one.name].wall_seconds.append(wall)
                    if part == parts - 1:
                        remarks[one.name] = one.remark(outcome) if one.remark else ""
    anchor = scores[contest.anchor]
    done = []
    for score in scores.values():
        pairs = zip(score.cpu_seconds, anchor.cpu_seconds, strict=True)
        ratios = [(own / score.units) / (other / anchor.units) for own, other in pairs]
        done.append(replace(score, ratios=ratios, remark=remarks[score.name]))
    return Result(contest.title, contest.unit, contest.anchor, done)


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def machine() -> dict[str, Any]:
    """Describe the machine and the versions, without names of hosts, users or folders."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "none"
    versions["compiler"] = _compiler()
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "load average at the start": [round(load, 2) for load in os.getloadavg()],
        "versions": versions,
        "source": source(),
    }


def source() -> str:
    """Return a digest of the source of driftsurf, which identifies it better than a version number."""
    folder = Path(driftsurf.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")


def _compiler() -> str:
    if shutil.which("cc") is None:
        return "none"
    answer = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=False).stdout
    return answer.partition("\n")[0]


def busy(results: Sequence[Result]) -> str:
    """Describe how often other processes held the processor, which makes the figures less certain."""
    scores = [score for result in results for score in result.scores]
    runs = [pair for one in scores for pair in zip(one.wall_seconds, one.cpu_seconds, strict=True)]
    late = sum(cpu < 0.95 * wall for wall, cpu in runs)
    return f"In {late} of {len(runs)} timed runs the process had the processor for less than 95 % of the time."


def write(suite: str, rounds: int, about: dict[str, Any], notes: Sequence[str], results: Sequence[Result]) -> str:
    """Write JSON, Markdown tables and SVG bars to ``benchmarks/results``; return the head of the tables."""
    RESULTS.mkdir(exist_ok=True)
    notes = [*notes, busy(results)]
    if source() != about["source"]:
        notes.append("The source of driftsurf was changed during the measurement: measure again.")
    record = {
        "suite": suite,
        "rounds": rounds,
        "machine": about,
        "notes": notes,
        "contests": [asdict(result) for result in results],
    }
    (RESULTS / f"{suite}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    lines = [
        f"## {suite}: {rounds} interleaved rounds",
        "",
        f"{about['cpu']}, {about['cores']} cores, {about['system']}, load average at the start "
        f"{about['load average at the start'][0]}; {versions}; source of driftsurf {about['source']}.",
        "",
        *(f"- {note}" for note in notes),
    ]
    head = "\n".join(lines) + "\n"
    tables = "\n".join(result.table() for result in results)
    (RESULTS / f"{suite}.md").write_text(f"{head}\n{tables}", encoding="utf-8")
    (RESULTS / f"{suite}.svg").write_text(picture(suite, results), encoding="utf-8")
    return head
