"""A fixture for tests and for the examples in docstrings alike."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from driftsurf import registry


@pytest.fixture(autouse=True)
def forget_own_parts() -> Iterator[None]:
    """Forget the parts that an example or a script has registered for itself, which no other test expects.

    Parts of modules that were first imported meanwhile stay: they would not be registered again.
    """
    before = set(registry._entries)
    yield
    for key in registry._entries.keys() - before:
        part = registry._entries[key].part
        if getattr(sys.modules.get(part.__module__), part.__name__, None) is not part:
            del registry._entries[key]
