"""Names that belong to one test."""

from __future__ import annotations

import os
import uuid

import pytest


@pytest.fixture
def unique() -> str:
    """A name that no other test uses."""
    return f"driftsurf_test_{os.getpid()}_{uuid.uuid4().hex[:8]}"
