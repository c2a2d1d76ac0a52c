"""The counts of the structure of ``src``: each sees what it counts, and every count has a ceiling."""

from __future__ import annotations

import doctest
import tomllib
from pathlib import Path

import pytest
from tools import structure


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> structure.Module:
    monkeypatch.setattr(structure, "SOURCE", tmp_path)
    path = tmp_path / "one.py"
    path.write_text(
        '"""A module."""\n\nimport os  # a comment\n\n__all__ = [\n    "A",\n]\n\n'
        "class A:\n    def take(self):\n        return os\n\n"
        "class B(A):\n    def take(self):\n        return 1\n\n"
        'class C:\n    """A text\n    of two lines."""\n\n    def take(self):\n        return 2\n'
    )
    return structure.Module(path)


def test_lines_of_code_are_no_texts_and_no_comments(module: structure.Module) -> None:
    assert (module.lines, len(module.code), len(module.wiring)) == (22, 13, 4)
    assert module.thin


def test_definitions_are_repeated_unless_they_override(
    module: structure.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structure, "MANY", 1)
    assert structure.repeated_functions([module]) == {"take": 2}
    assert structure.repeated_classes([module]) == {}
    assert structure.repeated_classes([module, module])["A"] == ["one.py", "one.py"]


def test_programs_are_traced() -> None:
    program = "import driftsurf.core.exports\nopen('small.csv').close()\nopen('small.csv').close()"
    package = ["driftsurf", "driftsurf.core", "driftsurf.core.exports"]
    assert structure.loaded(program) == [*package, "open", "open"]


def test_every_count_and_every_walk_has_a_ceiling() -> None:
    ceilings = tomllib.loads(structure.CEILINGS.read_text())
    assert ceilings["structure"].keys() == structure.LABELS.keys()
    assert structure.SHOWN.keys() <= ceilings["walks"].keys()
    assert structure.above({"lines": 10}, {"lines": 10}) == []


def test_the_examples_of_the_tool() -> None:
    assert doctest.testmod(structure).failed == 0
