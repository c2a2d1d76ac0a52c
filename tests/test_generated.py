"""Generated source and documentation tables are up to date, and come from the registry alone."""

from __future__ import annotations

import ast
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tools.generate import estimators, exports, outputs, tables
from tools.generate.__main__ import main

from driftsurf import registry
from driftsurf.strategies import SlidingWindow


@pytest.mark.skipif(shutil.which("ruff", path=Path(sys.executable).parent) is None, reason="needs ruff, to format")
def test_everything_generated_is_up_to_date() -> None:
    names = [path.relative_to(outputs.ROOT) for path in outputs.stale(outputs.outputs())]
    assert names == [], "run `make generate`"


class NewestRows(SlidingWindow):
    """Keep the newest rows."""


def test_a_new_strategy_gets_estimators_and_exports(monkeypatch: pytest.MonkeyPatch, register: Any) -> None:
    monkeypatch.setattr(NewestRows, "__module__", "driftsurf.strategies.newest_rows")
    monkeypatch.setattr(NewestRows, "__doc__", SlidingWindow.__doc__)
    register("strategy", "newest-rows", tasks=registry.CLASSIFICATION)(NewestRows)
    source = estimators.stub()
    kinds = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    (made,) = (node for node in kinds if node.name.startswith("NewestRows"))
    assert made.name == "NewestRowsClassifier"
    assert "window: int=10000" in ast.unparse(made).replace(" = ", "=")
    assert "import NewestRows as NewestRows" in exports.stub("driftsurf.strategies")
    assert "NewestRowsClassifier as NewestRowsClassifier" in exports.stub("driftsurf.estimators")


def test_a_strategy_must_describe_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SlidingWindow, "__doc__", "No parameters.")
    with pytest.raises(ValueError, match=r"SlidingWindow.*'window'"):
        estimators.stub()


def test_a_page_without_the_marks_of_a_table_is_an_error() -> None:
    page = "<!-- generated: parts -->\n\nold\n\n<!-- end of parts -->\nrest"
    assert tables.with_blocks(page, {"parts": "new"}, "page.md") == page.replace("old", "new")
    with pytest.raises(ValueError, match=r"page\.md.*strategies"):
        tables.with_blocks(page, {"strategies": "new"}, "page.md")


def test_the_command_writes_changed_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: dict[Path, str] = {tmp_path / "a.py": "new\n", tmp_path / "b.py": "same\n"}
    (tmp_path / "b.py").write_text("same\n")
    command: Any = __import__("tools.generate.__main__", fromlist=["outputs"])
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "outputs", lambda: made)
    assert main(["--check"]) == 1
    assert not (tmp_path / "a.py").exists()
    assert main([]) == 0
    assert (tmp_path / "a.py").read_text() == "new\n"
    assert main(["--check"]) == 0
    assert [line.rpartition(" ")[2] for line in capsys.readouterr().out.splitlines()] == ["a.py"] * 2
