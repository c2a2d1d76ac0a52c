"""Every script of the gallery runs, on fewer rows, and draws a figure."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("agg")
from matplotlib import pyplot as plt

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"
SCRIPTS = sorted(GALLERY.glob("*.py"))
PART = 5
"""Rows are divided by this."""


def test_there_are_twelve_questions() -> None:
    assert len(SCRIPTS) >= 12
    for script in SCRIPTS:
        title = script.read_text(encoding="utf-8").split("\n")[1]
        assert "?" in title, script.name


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::driftsurf.errors.DriftsurfWarning")  # small batches
def test_a_script_runs_and_draws(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source, found = re.subn(
        r"^((?:\w+, )?ROWS(?:, \w+)? = .*)$",
        lambda line: _fewer(line[1]),
        script.read_text(encoding="utf-8"),
        flags=re.M,
    )
    assert found == 1
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(source, str(script), "exec"), names)
    figures = [plt.figure(number) for number in plt.get_fignums()]
    assert len(figures) == 1
    assert all(axes.has_data() for figure in figures for axes in figure.axes)
    plt.close("all")
    assert capsys.readouterr().out
    page = names.get("report_page")
    assert page is None or Path(str(page)).exists()


def _fewer(line: str) -> str:
    """Return the line that sets the number of rows, with fewer of them."""
    return re.sub(r"\d+_000", lambda rows: str(int(rows[0].replace("_", "")) // PART), line)
