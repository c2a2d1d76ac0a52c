"""Shared fixtures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the real streams; tests that need it are skipped where there is none."""
    folder = os.environ.get("DRIFTSURF_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set DRIFTSURF_DATA to the folder with the real streams to run this test")
    return Path(folder)
