"""Run the proofs, two at a time, print a line for each, write the report."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict

from torture import attack, bad_values, damage, endurance, faults, fuzz, kills, power, spark
from torture.harness import TABLE, Outcome, Proof, timed, write_report

PROOFS: dict[str, Proof] = {
    "spark": spark.kills,
    "kills": kills.library,
    "power": power.states,
    "fuzz-guided": fuzz.guided,
    "command-line": kills.command_line,
    "fuzz": fuzz.loader,
    "faults": faults.file_calls,
    "save": faults.saving,
    "full-disk": faults.full_disk,
    "bits": damage.bit_flips,
    "checkpoint-bits": damage.checkpoint_flips,
    "files": damage.files,
    "bad-values": bad_values.ours,
    "bad-values-peers": bad_values.peers,
    "bad-values-detectors": bad_values.detectors,
    "attack": attack.forced_resets,
    "soak": endurance.soak,
    "determinism": endurance.determinism,
}
"""The longest first, so that two at a time end together."""


def _begun(name: str, scale: float, seed: int) -> subprocess.Popen[str]:
    """One proof in a process of its own: none inherits what another has done to it."""
    command = [sys.executable, "-m", "torture", "--one", name, "--scale", str(scale), "--seed", str(seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _ended(name: str, seed: int, process: subprocess.Popen[str]) -> Outcome:
    """What it said with its last line; a proof that breaks is a proof that failed, and the others go on."""
    said = process.communicate()[0].splitlines()
    if process.returncode or not said:
        return Outcome(name, seed, tried=1, failed=1, figures={"broke": f"exit code {process.returncode}"})
    return Outcome(**json.loads(said[-1]))


def main() -> None:
    """As its options say."""
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("proofs", nargs="*", metavar="proof", help=f"of {', '.join(PROOFS)}; all if none is named")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="how much of it; 1, if not given, is at most 30 minutes"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--one", choices=PROOFS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in options.proofs:
        if name not in PROOFS:
            parser.error(f"no proof {name!r}; choices: {', '.join(PROOFS)}")
    if options.one:
        print(json.dumps(asdict(timed(PROOFS[options.one], options.scale, options.seed)), default=str))
        return
    waiting, outcomes = list(options.proofs or PROOFS), list[Outcome]()
    running: dict[str, subprocess.Popen[str]] = {}
    print(TABLE, flush=True)
    while waiting or running:
        while waiting and len(running) < options.processes:
            name = waiting.pop(0)
            running[name] = _begun(name, options.scale, options.seed)
        time.sleep(0.1)
        for name in [name for name, process in running.items() if process.poll() is not None]:
            outcomes.append(_ended(name, options.seed, running.pop(name)))
            print(outcomes[-1].line(), flush=True)
    write_report(outcomes, options.scale)
    sys.exit(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    main()
