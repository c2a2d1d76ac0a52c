"""The README is true: its Python runs, and that of docs/; its commands exist and run."""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from driftsurf.cli import main

README = Path(__file__).parent.parent / "README.md"


def blocks(language: str, page: Path = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.S)


def test_the_first_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    exec(blocks("python")[0], {})
    said, printed = blocks("text")[0].splitlines(), capsys.readouterr().out.splitlines()
    assert said[-1] == "..."
    assert printed[: len(said) - 1] == said[:-1]


def test_the_error_without_adaptation_is_as_said() -> None:
    said = re.search(r"without adaptation gets ([0-9.]+) ", README.read_text(encoding="utf-8"))
    assert said is not None
    namespace: dict[str, object] = {}
    exec(blocks("python")[0].replace("DriftSurfClassifier", "AwareClassifier"), namespace)
    assert f"{namespace['wrong'] / 100_000:.3f}" == said[1]  # type: ignore[operator]


PAGES = sorted((README.parent / "docs").glob("*.md"))
FOREIGN = "capymoa", "lightgbm", "mlflow", "onnxruntime", "river", "torch"


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")  # of LightGBM
@pytest.mark.filterwarnings("ignore:.*Any type hint is inferred:UserWarning")  # of MLflow, when it is imported
def test_the_examples_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for code in blocks("python", page):
        needed = [name for name in FOREIGN if re.search(rf"^(from|import) {name}\b", code, re.M)]
        if all(map(find_spec, needed)):
            exec(code, {})


def test_the_page_runs_from_top_to_bottom_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    explained = ""
    for language, text in re.findall(r"```(python|sh)\n(.*?)```", README.read_text(encoding="utf-8"), re.S):
        if language == "python":
            exec(text, {})
            continue
        for line in text.splitlines():
            printed = command(line)
            if line.startswith("driftsurf explain") and not explained:
                explained = printed
    said = blocks("text")[1].splitlines()
    assert said[-1] == "..."
    assert "\n".join(said[:-1]) in explained


def command(line: str) -> str:
    """What it prints; of make only that there is such a target."""
    program, *arguments = shlex.split(line, comments=True)
    if program == "make":
        makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
        assert f"\n{arguments[0]}:" in makefile
        return ""
    assert program == "driftsurf"
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, (line, result.output)
    return result.output


def test_the_page_names_every_page_and_every_extra() -> None:
    text = README.read_text(encoding="utf-8")
    project = tomllib.loads((README.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = text[text.index("| extra |") : text.index("## What you get")]
    assert [page.name for page in PAGES if f"](docs/{page.name})" not in text] == []
    named = [name for row in re.findall(r"^\| (`.*?) \|", extras, re.M) for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(project["optional-dependencies"])


def test_the_architecture_lists_the_layers_that_are_checked() -> None:
    text = (README.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    lines = [line for line in re.findall(r"```text\n(.*?)```", text, re.S)[0].splitlines() if not line.startswith(" ")]
    listed = [re.findall(r"(\w+)(?:/|\.py)(?= |$)", re.split(r"\s{2,}", line)[0]) for line in lines]
    project = tomllib.loads((README.parent / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    assert listed == [[name.strip().removeprefix("driftsurf.") for name in layer.split("|")] for layer in layers]


@pytest.mark.parametrize("page", [*sorted(README.parent.glob("*.md")), *PAGES], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", page.read_text(encoding="utf-8")):
        there = page.parent / target if target else page
        assert there.exists(), target
        titles = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.M) if anchor else []
        assert not anchor or anchor in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
