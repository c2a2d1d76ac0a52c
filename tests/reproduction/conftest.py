"""Fixtures for the tests of the reproduction."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftsurf.reproduction import output_files
from driftsurf.reproduction.reproduce import EXPERIMENTS, Reproduction, reproduce


@pytest.fixture
def generated_streams_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the data files of the machine, so that the tests see the same streams everywhere."""
    monkeypatch.delenv("DRIFTSURF_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Reproduction]:
    """Everything but the grid search, on two small streams with two trials."""
    folder = tmp_path_factory.mktemp("reproduction")
    chosen = [name for name in EXPERIMENTS if name not in ("tune", "baselines", "sensitivity")]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DRIFTSURF_DATA", raising=False)
        result = reproduce(folder, chosen, names=["circles", "sine1"], trials=2)
        output_files.write(folder, result)
    return folder, result
