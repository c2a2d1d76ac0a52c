"""The checks of ``driftsurf doctor``."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from driftsurf.cli import main
from driftsurf.native import linear
from driftsurf.report import doctor
from driftsurf.report.doctor import Finding, examine


def finding(what: str) -> Finding:
    return next(one for one in examine() if one.what == what)


def test_this_installation_has_no_problems() -> None:
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    for what in ("driftsurf", "python", "native core", "C compiler", "[river]", "cores", "data"):
        assert what in result.output
    assert "[all]" not in result.output
    assert "[kafka]" not in result.output


def test_problems_are_printed_with_their_remedies_and_set_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = ["numpy>=999.0", "no-such-package", "click", 'nothing-there>=1; extra == "more"']
    monkeypatch.setattr(metadata, "requires", lambda _: listed)
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1
    for package in ("numpy>=999.0", "no-such-package", "driftsurf[more]"):
        assert f"pip install '{package}'" in result.output
    assert "2 of " in result.output


def test_requirements_are_known_without_an_installed_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", unknown)
    assert finding("scikit-learn").state == "good"
    monkeypatch.setattr(metadata, "version", unknown)
    assert finding("numpy").state == "good"


def test_an_old_python_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert finding("python").state == "bad"
    assert "3.11" in finding("python").text


def test_the_native_core_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert finding("native core").state == "good"
    monkeypatch.setattr(linear, "weighted_sum", lambda *_: (4.0, 3.0))
    assert finding("native core").state == "bad"
    assert "wrong" in finding("native core").text


def test_a_machine_without_compiler_and_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("driftsurf.report.doctor.shutil.which", lambda _: None)
    monkeypatch.setenv("DRIFTSURF_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert finding("C compiler").state == "missing"
    assert finding("data").state == "missing"
    (tmp_path / "elec2.csv").touch()
    assert finding("data").text.startswith("electricity in ")


def test_the_number_of_usable_cores_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftsurf.report.doctor.os.cpu_count", lambda: 64)
    monkeypatch.setattr("driftsurf.report.doctor.joblib.cpu_count", lambda: 2)
    assert finding("cores").text.startswith("2 of 64")


def test_requirements_without_a_version_are_understood() -> None:
    assert doctor._parsed("???") == ("???", "0")
    assert doctor._numbers("unknown") == ()


@pytest.mark.parametrize(
    ("prefix", "direct", "said"),
    [
        ("/home/me/.local/share/pipx/venvs/driftsurf", "", "pipx"),
        ("/home/me/.local/share/uv/tools/driftsurf", "", "uv tool"),
        ("/srv/env", "", "pip"),
        ("/srv/env", '{"url": "file:///x", "dir_info": {"editable": true}}', "editable"),
        ("/srv/env", '{"url": "file:///x", "dir_info": {}}', "pip"),
    ],
)
def test_it_tells_how_it_was_installed(monkeypatch: pytest.MonkeyPatch, prefix: str, direct: str, said: str) -> None:
    texts = {"direct_url.json": direct or None, "INSTALLER": "pip\n"}
    monkeypatch.setattr(metadata, "distribution", lambda _: SimpleNamespace(read_text=texts.get))
    monkeypatch.setattr(sys, "prefix", prefix)
    assert said in doctor.installed_by()
