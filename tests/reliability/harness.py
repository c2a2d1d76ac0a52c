"""Outcomes of proofs: counting, saving failed cases, and the report."""

from __future__ import annotations

import json
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import driftsurf

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FAILURES = HERE / "failures"
RESULTS = HERE / "results"


@dataclass
class Outcome:
    """Result of a proof: one line of the report."""

    name: str
    seed: int
    tried: int = 0
    failed: int = 0
    figures: dict[str, Any] = field(default_factory=dict)
    skipped: str = ""
    short: str = ""
    """Verdict if nothing failed but a goal was not reached."""
    seconds: float = 0.0

    def check(self, good: bool, case: Mapping[str, Any]) -> bool:
        """Count one case, and save it if it failed; return whether it is good."""
        self.tried += 1
        if not good:
            self.failed += 1
            if self.failed <= 20:
                FAILURES.mkdir(exist_ok=True)
                place = FAILURES / f"{self.name.replace(' ', '-')}-{self.seed}-{self.failed}.json"
                place.write_text(json.dumps({"proof": self.name, "seed": self.seed, **case}, indent=1, default=repr))
        return good

    def count(self, figure: str, by: int = 1) -> None:
        """Add to one of the figures."""
        self.figures[figure] = self.figures.get(figure, 0) + by

    def line(self) -> str:
        """Return the outcome as a line of a Markdown table."""
        figures = self.skipped or ", ".join(f"{name} {_shown(value)}" for name, value in self.figures.items())
        verdict = "skipped" if self.skipped else "FAILED" if self.failed else self.short or "passed"
        cells = (
            self.name,
            f"{self.tried:,}",
            f"{self.failed:,}",
            verdict,
            figures,
            str(self.seed),
            f"{self.seconds:.0f} s",
        )
        return f"| {' | '.join(cells)} |"


TABLE = "| proof | tried | failed | | figures | seed | took |\n|---|---:|---:|---|---|---:|---:|"


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)


Proof = Callable[[float, int], Outcome]
"""Function of the scale (1 for ``make test-reliability``) and a seed."""


def timed(proof: Proof, scale: float, seed: int) -> Outcome:
    """Run a proof and measure its time."""
    begin = time.perf_counter()
    outcome = proof(scale, seed)
    outcome.seconds = time.perf_counter() - begin
    return outcome


def write_report(outcomes: list[Outcome], scale: float | str, name: str = "report") -> None:
    """Write ``results/NAME.json`` and ``.md``."""
    RESULTS.mkdir(exist_ok=True)
    about = {
        "driftsurf": driftsurf.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "scale": scale,
    }
    record = {**about, "proofs": [asdict(outcome) for outcome in outcomes]}
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1, default=str) + "\n")
    head = ", ".join(f"{name} {value}" for name, value in about.items())
    lines = [f"# Reliability\n\n{head}\n", TABLE, *(outcome.line() for outcome in outcomes)]
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")


def commit() -> str:
    """Return the commit of the code that runs, and whether files were changed since."""
    answer = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False)
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=HERE, capture_output=True, text=True, check=False)
    return answer.stdout.strip() + (" with changes" if changed.stdout.strip() else "")
