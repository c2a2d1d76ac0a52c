"""The goal table in parts, whose outcomes are kept in a ledger, so that hours of work can be interrupted."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tests.reliability.harness import RESULTS, Outcome, commit

LEDGER = RESULTS / "ledger.jsonl"


@dataclass(frozen=True)
class Part:
    """Proof with a scale and a seed, which together with the code determine what it does."""

    proof: str
    scale: float
    seed: int


GOAL: dict[str, tuple[int, float]] = {
    "kills": (1, 1.0),
    "command-line": (10, 1.0),
    "follow": (10, 1.0),
    "faults": (1, 1.0),
    "lines": (1, 10.0),
    "outside": (5, 1.0),
    "memory": (1, 5.0),
    "faults-learners": (1, 3.0),
    "save": (1, 1.0),
    "full-disk": (1, 1.0),
    "power": (10, 1.0),
    "bits": (1, 1.0),
    "checkpoint-bits": (5, 1.0),
    "files": (1, 50.0),
    "fuzz": (10, 1.0),
    "rows": (1, 1.0),
    "inputs": (1, 1.0),
    "fuzz-guided": (22, 1.0),
    "states": (100, 1.0),
    "bad-values": (1, 1.0),
    "bad-values-peers": (1, 1.0),
    "bad-values-detectors": (1, 1.0),
    "attack": (6, 1.0),
    "soak": (1, 4.32),
    "determinism": (1, 1.0),
    "spark": (1, 1.0),
    "service-kills": (10, 0.1),
    "service-power": (10, 0.1),
    "service-faults": (1, 1.0),
    "service-fuzz": (1, 1.0),
    "connectors": (10, 0.1),
    "http-schema": (1, 1.0),
    "http-fuzz": (1, 1.0),
    "http-large": (1, 1.0),
    "http-slow": (1, 1.0),
    "http-keys": (1, 1.0),
    "log-faults": (1, 1.0),
    "log-power": (10, 1.0),
    "log-fuzz": (10, 1.0),
}
"""Number of parts of each proof, and their scale; each part has a seed of its own."""


def goal(proofs: Iterable[str], seed: int) -> list[Part]:
    """Return the parts of the goal table, those of quick proofs first."""
    parts = [Part(name, GOAL[name][1], seed + k) for name in proofs for k in range(GOAL[name][0])]
    return sorted(parts, key=lambda part: (GOAL[part.proof][0], part.scale))


def finished() -> dict[Part, Outcome]:
    """Return the outcomes that the current code has reached; a line torn by a kill is skipped."""
    found: dict[Part, Outcome] = {}
    now = commit()
    for line in LEDGER.read_text().splitlines() if LEDGER.exists() else ():
        try:
            record = json.loads(line)
            if record["commit"] == now:
                found[Part(**record["part"])] = Outcome(**record["outcome"])
        except (ValueError, KeyError, TypeError):
            continue
    return found


def keep(part: Part, outcome: Outcome) -> None:
    """Add an outcome to the ledger."""
    RESULTS.mkdir(exist_ok=True)
    record = {"commit": commit(), "part": asdict(part), "outcome": asdict(outcome)}
    torn = LEDGER.exists() and not LEDGER.read_bytes().endswith(b"\n")
    with LEDGER.open("a") as file:
        file.write("\n" * torn + json.dumps(record, default=str) + "\n")


def summed(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return one outcome per proof, with the counts of its parts added up, and other figures of the last part."""
    total: dict[str, Outcome] = {}
    for one in outcomes:
        if one.name not in total:
            total[one.name] = Outcome(**asdict(one) | {"figures": {"parts": 1} | one.figures})
            continue
        so_far = total[one.name]
        so_far.tried, so_far.failed = so_far.tried + one.tried, so_far.failed + one.failed
        so_far.seconds += one.seconds
        so_far.short = so_far.short or one.short
        so_far.figures = {name: _added(so_far.figures.get(name), value) for name, value in one.figures.items()} | {
            "parts": so_far.figures["parts"] + 1
        }
    return list(total.values())


def _added(left: Any, right: Any) -> Any:
    return left + right if type(left) is int and type(right) is int else right
