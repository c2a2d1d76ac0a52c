"""Fixtures of the tests of keys."""

from __future__ import annotations

import pytest

from driftsurf.keyed import fleet


@pytest.fixture(params=["compiled", "sessions"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Serve every fleet by native loops where they can, or by sessions, whatever its model is."""
    name: str = request.param
    if name == "sessions":
        monkeypatch.setattr(fleet, "suits_cells", lambda _: False)
    return name
