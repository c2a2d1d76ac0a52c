"""Requests that schemathesis makes from the OpenAPI document of a real service, one by one and in sequences."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.reliability.harness import Outcome
from tests.reliability.http_server import Server, serving

SEEDS = 5
EXAMPLES = 40
"""Requests for each operation and seed, at most, in each phase."""
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
)
"""What is checked of every answer. Whether rows fit a model is not said by the document, so that is not checked."""
NAMES = "sales", "", "delays", "fresh"
REQUEST_SECONDS = 60.0
"""Seconds after which a request counts as hanging."""


def schema(
    scale: float,
    seed: int,
    seeds: int = SEEDS,
    examples: int | None = None,
    phases: str = "examples,coverage,fuzzing,stateful",
) -> Outcome:
    """Let schemathesis send what the document allows and what it forbids, with several seeds."""
    outcome = Outcome("requests of schemathesis", seed)
    if find_spec("schemathesis") is None:
        outcome.skipped = "schemathesis is not installed: pip install schemathesis"
        return outcome
    wanted = max(1, round(EXAMPLES * scale)) if examples is None else examples
    with serving() as server, tempfile.TemporaryDirectory() as place:
        for number in range(seeds):
            # A name in the document is any text; most seeds know that of a model.
            name = NAMES[number % len(NAMES)]
            (Path(place) / "schemathesis.toml").write_text(f'[parameters]\n"path.name" = "{name}"\n' if name else "")
            command = [sys.executable, "-m", "schemathesis.cli", "run", f"http://127.0.0.1:{server.port}/openapi.json"]
            command += ["--checks", ",".join(CHECKS), "--seed", str(seed * 1000 + number)]
            command += ["--max-examples", str(wanted), "--request-timeout", str(REQUEST_SECONDS), "--no-color"]
            command += [
                "--phases",
                phases,
                "--exclude-path-regex",
                "events$",
                "--continue-on-failure",
                "--suppress-health-check",
                "all",
            ]
            ran = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
            cases = re.search(r"([\d,]+) generated", ran.stdout)
            outcome.count("requests", int(cases[1].replace(",", "")) if cases else 0)
            known = {"output": ran.stdout[-8000:], "errors": ran.stderr[-2000:], "traces": server.tracebacks()}
            outcome.check(ran.returncode == 0 and cases is not None and server.alive(), known)
            outcome.check(not known["traces"], known)
            tested = re.search(r"Tested: (\d+)", ran.stdout)
            outcome.figures["operations"] = int(tested[1]) if tested else 0
            outcome.figures["answers of 2xx"] = _answered(server)
    return outcome


def _answered(server: Server) -> int:
    """Return the number of requests that the service has answered with a status below 300."""
    lines = server.ask("GET", "/metrics")[2].decode().splitlines()
    counts = (line.split() for line in lines if line.startswith("driftsurf_http_requests_total"))
    return sum(round(float(count)) for name, count in counts if 'status="2' in name)
