"""Fixtures and settings that every test file uses; helper functions are modules of ``tests/support``."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from hypothesis import settings

from driftsurf import registry

# Test machines are shared: a deadline per example would fail there.
# A commit passes or fails for what it contains, so `make test` draws the same examples every time. New examples are
# searched for with `pytest --hypothesis-profile=search`.
settings.register_profile("driftsurf", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, derandomize=False)
settings.load_profile("driftsurf")
# A shell lets its background jobs, and all processes that they start, ignore interrupts, which some tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def elsewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tests of commands and runs work in an empty folder: a run without ``out`` goes to the working folder."""
    if request.path.parent.name in ("cli", "runs"):
        monkeypatch.chdir(request.getfixturevalue("tmp_path_factory").mktemp("work"))


@pytest.fixture(scope="session")
def mixed_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Folder and output of ``driftsurf run mixed --rows 20000``; tests only read it."""
    folder = tmp_path_factory.mktemp("mixed") / "run"
    result = invoke("run", "mixed", "--rows", 20_000, "--out", folder)
    assert result.exit_code == 0, result.output
    return folder, result.output


@pytest.fixture
def register() -> Iterator[Callable[..., Any]]:
    """``registry.register`` until the end of a test; parts of modules that are first imported in the test stay."""
    added: list[Any] = []

    def until_the_end(kind: Any, name: str, **about: Any) -> Callable[[Any], Any]:
        added.append((kind, name))
        return registry.register(kind, name, **about)

    yield until_the_end
    for entry in added:
        registry._entries.pop(entry)
