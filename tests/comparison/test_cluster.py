"""Experiments on a cluster without Dask installed; tests with Dask are in tests_engines/test_dask.py."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from driftsurf.cli import main
from driftsurf.comparison.cluster import on_cluster
from driftsurf.errors import MissingExtraError


def test_without_an_address_tasks_stay_here() -> None:
    with on_cluster(None, 3) as jobs:
        assert jobs == 3


def test_a_cluster_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"driftsurf\[dask\]"), on_cluster("tcp://127.0.0.1:1", 1):
        pass
    result = CliRunner().invoke(main, ["reproduce", "--cluster", "tcp://127.0.0.1:1"])
    assert result.exit_code == 1
    assert "driftsurf[dask]" in result.output
