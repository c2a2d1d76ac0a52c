"""Small parts of the proofs with hostile clients, which ``python -m tests.reliability http`` runs in full."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("httptools")

from tests.reliability import harness, http_fuzz, http_keys, http_large, http_schema, http_slow
from tests.reliability.harness import Outcome

MIB = 2**20


@pytest.fixture(autouse=True)
def _save_failures_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "FAILURES", tmp_path / "failures")


def passed(outcome: Outcome, tmp_path: Path) -> bool:
    assert outcome.tried > 0
    told = [file.read_text()[:3000] for file in sorted((tmp_path / "failures").glob("*"))[:2]]
    assert outcome.failed == 0, (outcome.line(), *told)
    return True


@pytest.mark.skipif(find_spec("schemathesis") is None, reason="schemathesis is not installed")
def test_requests_of_schemathesis(tmp_path: Path) -> None:
    assert passed(http_schema.schema(0, 1, seeds=1, examples=2, phases="examples,fuzzing,stateful"), tmp_path)


def test_fuzzed_requests(tmp_path: Path) -> None:
    assert passed(http_fuzz.fuzzed(0, 1, count=1000), tmp_path)


def test_floods(tmp_path: Path) -> None:
    assert passed(http_large.large(0, 1, size=20 * MIB), tmp_path)


def test_slow_clients(tmp_path: Path) -> None:
    assert passed(http_slow.slow(0, 1, count=10, seconds=(0.5, 1.0), most_latency=60.0, stored=20_000), tmp_path)


def test_keys_and_hostile_names(tmp_path: Path) -> None:
    assert passed(http_keys.keys(0, 1, damages=100), tmp_path)
