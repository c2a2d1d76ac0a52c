"""The documentation is executed: every Python block and every command of README.md and docs/ runs."""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name

import pytest
from click.testing import CliRunner

from driftsurf.cli import main
from driftsurf.errors import MissingExtraError
from driftsurf.report.doctor import FORMER_EXTRAS

ROOT = Path(__file__).parent.parent
README, TUTORIAL, INSTALL = ROOT / "README.md", ROOT / "docs/tutorial.md", ROOT / "docs/install.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
ROOT_PAGES = sorted(ROOT.glob("*.md"))
OPTIONAL = "capymoa", "lightgbm", "mlflow", "onnxruntime", "river", "torch"
"""Packages that a block may import; it is skipped where one of them is missing."""


def name(page: Path) -> str:
    return page.name


def blocks(language: str, page: Path = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.S)


def test_readme_example_prints_the_documented_output(capsys: pytest.CaptureFixture[str]) -> None:
    exec(blocks("python")[0], {})
    documented, printed = blocks("text")[0].splitlines(), capsys.readouterr().out.splitlines()
    assert documented[-1] == "..."
    assert printed[: len(documented) - 1] == documented[:-1]


def test_error_without_adaptation_is_as_documented() -> None:
    documented = re.search(r"without adaptation gets ([0-9.]+[0-9])", README.read_text(encoding="utf-8"))
    assert documented is not None
    namespace: dict[str, object] = {}
    exec(blocks("python")[0].replace("DriftSurfClassifier", "AwareClassifier"), namespace)
    assert f"{namespace['wrong'] / 100_000:.3f}" == documented[1]  # type: ignore[operator]


@pytest.mark.parametrize("page", [*ROOT_PAGES, *PAGES], ids=name)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")  # from LightGBM
@pytest.mark.filterwarnings("ignore:.*Any type hint is inferred:UserWarning")  # from MLflow when it is imported
def test_examples_and_commands_of_a_page_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks run from top to bottom in one folder, which contains the sales.csv of the tutorial from the start."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)  # set by pytest-xdist; output is then as wide as in a pipe
    exec(blocks("python", TUTORIAL)[0], {})
    printed = ""
    for language, text in re.findall(r"```(python|sh|text)\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        if language == "python":
            run_python(text)
        elif language == "sh":
            printed = "".join(map(run_command, text.splitlines()))
        elif printed and text.endswith("\n...\n"):  # the beginning of what the commands above print
            assert text.removesuffix("...\n") in printed


def run_python(code: str) -> None:
    needed = [package for package in OPTIONAL if re.search(rf"^(from|import) {package}\b", code, re.M)]
    if all(map(find_spec, needed)):
        exec(code, {})


def run_command(line: str) -> str:
    """Run a driftsurf command and return its output; for make, check only that the target exists."""
    program, *arguments = shlex.split(line, comments=True)
    if program == "make":
        assert f"\n{arguments[0]}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
        return ""
    assert program == "driftsurf"
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, (line, result.output)
    return result.output


def test_readme_links_every_page() -> None:
    text = README.read_text(encoding="utf-8")
    assert [page.name for page in PAGES if f"](docs/{page.name})" not in text] == []
    assert len(text.splitlines()) <= 130


def test_install_page_lists_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = re.findall(r"^\| (`.*?) \|", INSTALL.read_text(encoding="utf-8"), re.M)
    listed = [extra for row in rows for extra in re.findall(r"`(\w+)`", row)]
    extras = project["optional-dependencies"]
    former = {name for name, needs in extras.items() if name != "all" and needs[0].startswith("driftsurf[")}
    assert sorted(former) == sorted(FORMER_EXTRAS)
    assert sorted(listed) == sorted(extras.keys() - former)
    assert extras["all"] == [f"driftsurf[{','.join(name for name in extras if name not in former | {'all'})}]"]


def test_architecture_shows_the_layers_that_are_checked() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    listed = [names.split(" | ") for names in re.findall(r'L\d+\["(.*?)"\]', text)]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    assert listed == [[name.removeprefix("driftsurf.") for name in re.split(" [|:] ", layer)] for layer in layers]


@pytest.mark.parametrize("page", [*ROOT_PAGES, *PAGES, ROOT / "benchmarks/README.md"], ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", page.read_text(encoding="utf-8")):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        titles = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.M) if anchor else []
        assert not anchor or anchor in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]


def test_files_and_functions_named_in_the_architecture_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    text = re.sub(r"<!-- generated: (.*?) -->.*?<!-- end of \1 -->", "", text, flags=re.DOTALL)
    package = ROOT / "src/driftsurf"
    paths = re.findall(r"`([\w/]+(?:/|\.pyx?|\.toml))`", text)
    assert paths
    assert [path for path in paths if not (package / path).exists()] == []
    files = [file for ending in ("py", "pyx") for file in package.rglob(f"*.{ending}")]
    source = "\n".join(file.read_text(encoding="utf-8") for file in files)
    kinds = r"(?:def|class|(?:cdef|cpdef) (?:class|[\w.]+))"
    defined = set(re.findall(rf"^\s*{kinds} (\w+)", source, re.M)) | {"strategy", "ExitStack"}
    named = re.findall(r"`([A-Za-z_]\w*(?:\.\w+)?)(?:\(.*?\))?`", text)
    names = [part for name in named if not (package / name).exists() for part in name.split(".")]
    assert [name for name in names if name not in {*defined, "run", "json", "report", "html"}] == []
    assert len(text.splitlines()) <= 125


def test_pictures_are_small() -> None:
    assert [picture.name for picture in (ROOT / "docs/images").iterdir() if picture.stat().st_size > 200_000] == []


def test_names_in_the_changelog_exist() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    paths = re.findall(r"`(driftsurf\.[\w.]*\w)", text)
    assert paths
    for path in paths:
        try:
            resolve_name(path)
        except (MissingExtraError, AttributeError):  # a module whose package is not installed
            assert find_spec(path) is not None
