"""Places that name the version and the dependencies agree, and the workflows call targets that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import release

import driftsurf

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def test_every_file_names_the_same_version() -> None:
    recipe = yaml.safe_load((ROOT / "deploy/conda/recipe.yaml").read_text())
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {recipe["context"]["version"], str(citation["version"])} == {driftsurf.__version__}


def test_the_conda_recipe_has_the_dependencies_of_the_package() -> None:
    recipe = yaml.safe_load((ROOT / "deploy/conda/recipe.yaml").read_text())
    wanted = [f"python{project()['requires-python']}", *project()["dependencies"]]
    assert recipe["requirements"]["run"] == [one.replace(">", " >", 1) for one in wanted]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_targets_of_the_makefile(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    jobs = yaml.safe_load(path.read_text())["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job.get("steps", ()) if "run" in step]
    called = [name for command in commands for name in re.findall(r"\bmake ([a-z-]+)", command)]
    assert called
    assert set(called) <= targets


def test_only_what_was_tested_and_tagged_is_published() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    called = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    assert jobs["test"]["uses"] == "./.github/workflows/test.yml"
    assert "workflow_call" in called[True]  # YAML 1.1 reads "on" as true
    assert set(jobs["publish"]["needs"]) == {"build", "test"}
    assert any(step.get("run") == 'make release TAG="$GITHUB_REF_NAME"' for step in jobs["build"]["steps"])


@pytest.mark.parametrize(
    ("tag", "heading", "fault"),
    [
        ("v9.8.7", "9.8.7 (2026-05-01)", ""),
        ("v9.8.6", "9.8.7 (2026-05-01)", "v9.8.6"),
        ("9.8.7", "9.8.7 (2026-05-01)", "v9.8.7"),
        ("v9.8.7", "Unreleased", "CHANGELOG"),
    ],
)
def test_a_tag_needs_its_version_and_its_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str, heading: str, fault: str
) -> None:
    class Checked(Exception):
        """Everything before the build is right."""

    def built(epoch: str) -> None:
        raise Checked

    (tmp_path / "src/driftsurf").mkdir(parents=True)
    (tmp_path / "src/driftsurf/__init__.py").write_text('__version__ = "9.8.7"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "run", lambda *_: "")
    monkeypatch.setattr(release, "build", built)
    monkeypatch.setattr("sys.argv", ["release", "--tagged", tag])
    with pytest.raises(SystemExit if fault else Checked, match=fault or None):
        release.main()


def test_lock_files_name_no_index() -> None:
    for path in (ROOT / "requirements").glob("*.txt"):
        assert not re.search(r"https?://|--(extra-)?index-url|--find-links", path.read_text()), path
