"""All generated files, and which of them differ from what is committed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.generate import estimators, exports, parts, tables
from tools.generate.options_page import options_page

__all__ = ["ROOT", "outputs", "stale"]

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "driftsurf"


def outputs() -> dict[Path, str]:
    """Return the text of every file that is generated, in whole or in part."""
    parts.refresh()
    made = {PACKAGE / "estimators" / "_made.pyi": estimators.stub()}
    made[PACKAGE / "registry" / "index.py"] = parts.index()
    for package in exports.PACKAGES:
        made[PACKAGE.joinpath(*package.split(".")[1:]) / "__init__.pyi"] = exports.stub(package)
    made = {path: _formatted(path, text) for path, text in made.items()}
    for name, blocks in tables.pages().items():
        path = ROOT / name
        made[path] = tables.with_blocks(path.read_text(encoding="utf-8"), blocks, name)
    made[ROOT / "docs" / "options.md"] = options_page()
    return made


def stale(made: dict[Path, str]) -> list[Path]:
    """Return the files that differ from what would be generated."""
    return [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def _formatted(path: Path, text: str) -> str:
    """Sort the imports and format the source as ``make format`` does."""
    ruff = [str(Path(sys.executable).parent / "ruff")]
    for command in (["check", "--select", "I,F401,RUF022", "--fix", "--quiet"], ["format", "--quiet"]):
        run = subprocess.run(
            [*ruff, *command, "--stdin-filename", str(path), "-"],
            input=text,
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        if not run.stdout:
            raise RuntimeError(f"{path} cannot be formatted: {run.stderr}")
        text = run.stdout
    return text
