"""Experiments on a cluster without Dask installed; tests with Dask are in tests/integration/engines/test_dask.py."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import joblib
import pytest
from click.testing import CliRunner

from driftsurf.cli import main
from driftsurf.comparison import runner
from driftsurf.comparison.runner import on_cluster
from driftsurf.errors import MissingExtraError


@dataclass(frozen=True)
class Nothing:
    """A task that is never performed."""

    kind: str
    seed: int


def test_without_an_address_tasks_stay_here() -> None:
    with on_cluster(None, 3) as jobs:
        assert jobs == 3


def test_no_more_processes_are_started_than_there_are_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def parallel(n_jobs: int, **_: object) -> Callable[[Iterable[object]], list[object]]:
        asked.append(n_jobs)
        return lambda tasks: list(tasks)[:0]

    monkeypatch.setattr(joblib, "Parallel", parallel)
    tasks: list[Any] = [Nothing("first", seed=0), Nothing("second", seed=0)]
    assert list(runner._results(tasks, 100_000)) == []
    assert asked == [2]


def test_a_cluster_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"driftsurf\[dask\]"), on_cluster("tcp://127.0.0.1:1", 1):
        pass
    result = CliRunner().invoke(main, ["reproduce", "--cluster", "tcp://127.0.0.1:1"])
    assert result.exit_code == 1
    assert "driftsurf[dask]" in result.output
