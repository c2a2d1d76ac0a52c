"""Run the proofs, two at a time, print a line for each, and write the report."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict

from tests.reliability import (
    attack,
    bad_values,
    connectors,
    damage,
    endurance,
    faults,
    following,
    fuzz,
    http_fuzz,
    http_keys,
    http_large,
    http_schema,
    http_slow,
    inputs,
    kills,
    ledger,
    lines,
    memory,
    outside,
    power,
    rows,
    served_kills,
    served_log,
    served_model,
    spark,
    states,
)
from tests.reliability.harness import TABLE, Outcome, Proof, timed, write_report
from tests.reliability.ledger import Part

PROOFS: dict[str, Proof] = {
    "spark": spark.kills,
    "fuzz-guided": fuzz.guided,
    "states": states.fuzzed,
    "connectors": connectors.killed,
    "command-line": kills.command_line,
    "kills": kills.library,
    "follow": following.killed,
    "power": power.states,
    "rows": rows.fuzzed,
    "inputs": inputs.hostile,
    "bad-values": bad_values.ours,
    "fuzz": fuzz.loader,
    "lines": lines.every_line,
    "outside": outside.random_moments,
    "memory": memory.every_allocation,
    "service-kills": served_kills.kills,
    "service-power": served_model.states,
    "service-faults": served_model.file_calls,
    "service-fuzz": served_model.fuzzed,
    "http-schema": http_schema.schema,
    "http-fuzz": http_fuzz.fuzzed,
    "http-large": http_large.large,
    "http-slow": http_slow.slow,
    "http-keys": http_keys.keys,
    "log-power": served_log.states,
    "log-fuzz": served_log.fuzzed,
    "log-faults": served_log.file_calls,
    "faults": faults.file_calls,
    "faults-learners": faults.learners,
    "save": faults.saving,
    "full-disk": faults.full_disk,
    "bits": damage.bit_flips,
    "checkpoint-bits": damage.checkpoint_flips,
    "files": damage.files,
    "bad-values-peers": bad_values.peers,
    "bad-values-detectors": bad_values.detectors,
    "attack": attack.forced_resets,
    "soak": endurance.soak,
    "determinism": endurance.determinism,
}
"""All proofs by name; the longest come first, so that two processes end at about the same time."""

GROUPS = {
    "service": ("service-kills", "service-power", "service-faults", "service-fuzz"),
    "http": ("http-schema", "http-fuzz", "http-large", "http-slow", "http-keys"),
}
"""Names for several proofs."""


def _start(part: Part) -> subprocess.Popen[str]:
    """Start a proof in a process of its own, so that no proof inherits the damage of another."""
    command = [sys.executable, "-m", "tests.reliability", "--one", part.proof]
    command += ["--scale", str(part.scale), "--seed", str(part.seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _outcome_of(part: Part, process: subprocess.Popen[str]) -> Outcome:
    """Return the outcome that the process printed last; a process that broke counts as one failed case."""
    lines = process.communicate()[0].splitlines()
    if process.returncode or not lines:
        return Outcome(part.proof, part.seed, tried=1, failed=1, figures={"broke": f"exit code {process.returncode}"})
    return Outcome(**json.loads(lines[-1]))


def _run(parts: list[Part], processes: int, *, kept: bool) -> list[Outcome]:
    """Run the parts and return their outcomes; with ``kept``, skip those in the ledger and add the others to it."""
    done = ledger.finished() if kept else {}
    waiting, outcomes = [part for part in parts if part not in done], [done[part] for part in parts if part in done]
    running: dict[Part, subprocess.Popen[str]] = {}
    if done:
        print(f"{len(outcomes)} of {len(parts)} parts are in {ledger.LEDGER}", flush=True)
    print(TABLE, flush=True)
    while waiting or running:
        while waiting and len(running) < processes:
            part = waiting.pop(0)
            running[part] = _start(part)
        time.sleep(0.1)
        for part in [part for part, process in running.items() if process.poll() is not None]:
            outcomes.append(_outcome_of(part, running.pop(part)))
            print(outcomes[-1].line(), flush=True)
            if kept:
                ledger.keep(part, outcomes[-1])
    return outcomes


def main() -> None:
    """Run the proofs that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    parser.add_argument("proofs", nargs="*", metavar="proof", help=f"proofs to run (default: all): {', '.join(PROOFS)}")
    parser.add_argument("--scale", type=float, default=1.0, help="amount of work (default: 1, which takes hours)")
    parser.add_argument(
        "--full", action="store_true", help="run the whole goal table, in parts; resumes where it was stopped"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--one", choices=PROOFS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in options.proofs:
        if name not in PROOFS and name not in GROUPS:
            parser.error(f"no proof is called {name!r}; choices: {', '.join((*PROOFS, *GROUPS))}")
    if options.one:
        print(json.dumps(asdict(timed(PROOFS[options.one], options.scale, options.seed)), default=str))
        return
    chosen = [one for name in options.proofs or PROOFS for one in GROUPS.get(name, (name,))]
    if options.full:
        outcomes = ledger.summed(_run(ledger.goal(chosen, options.seed), options.processes, kept=True))
        print("\n".join([TABLE, *(outcome.line() for outcome in outcomes)]))
    else:
        outcomes = _run([Part(name, options.scale, options.seed) for name in chosen], options.processes, kept=False)
    name = "-".join(["report", *options.proofs])  # a report on some proofs does not replace the one on all
    write_report(outcomes, "the goal table" if options.full else options.scale, name)
    sys.exit(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    main()
