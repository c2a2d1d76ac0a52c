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
from driftsurf.kernels import losses
from driftsurf.report import doctor
from driftsurf.report.doctor import Finding, examine


def finding(what: str) -> Finding:
    return next(one for one in examine() if one.what == what)


def test_this_installation_has_no_problems() -> None:
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    for what in ("driftsurf", "python", "numba", "compiled loops", "C compiler", "[pandas]", "cores", "data"):
        assert what in result.output


def test_the_loops_of_a_first_run_can_be_compiled_in_advance() -> None:
    result = CliRunner().invoke(main, ["doctor", "--warm"])
    assert result.exit_code == 0
    said = [line for line in result.output.splitlines() if "loop" in line]
    assert said[0] == "compiling loops: pairs of models ..."
    count = next(line for line in said if line.endswith("compiled loops are in the cache"))
    assert int(count.split()[0]) > 10


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


def test_compiled_code_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    from driftsurf.kernels.losses import weighted_sum

    broken = SimpleNamespace(compiled_for=None)
    with monkeypatch.context() as patch:
        patch.setattr(losses, "weighted_sum", broken)
        assert finding("compiled loops").state == "bad"
    with monkeypatch.context() as patch:
        patch.setattr("numba.config.DISABLE_JIT", 1)
        assert "NUMBA_DISABLE_JIT" in finding("compiled loops").text

    def wrong(*_: Any) -> tuple[float, float]:
        return 4.0, 3.0

    with monkeypatch.context() as patch:
        wrong.compiled_for = weighted_sum.compiled_for  # type: ignore[attr-defined]
        patch.setattr(losses, "weighted_sum", wrong)
        assert finding("compiled loops").state == "bad"


@pytest.mark.parametrize(
    ("hits", "writable", "state", "named"),
    [
        (1, True, "good", "warm"),
        (0, True, "good", "was empty"),
        (1, False, "good", "read-only"),
        (0, False, "bad", "NUMBA_CACHE_DIR"),
    ],
)
def test_the_cache_has_to_be_writable_unless_it_has_everything(
    hits: int, writable: bool, state: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loop.nbc").touch()
    monkeypatch.setattr("driftsurf.report.doctor.os.access", lambda *_: writable)
    found = doctor._cache(SimpleNamespace(cache_path=str(tmp_path), cache_hits=hits))
    assert (found.state, named in found.text) == (state, True)


def test_a_missing_cache_is_a_problem() -> None:
    assert doctor._cache(SimpleNamespace(cache_path=None, cache_hits={})).state == "bad"


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


def test_it_names_what_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    from driftsurf.strategies.compiled import addresses, step

    monkeypatch.setattr(doctor, "_version", lambda _: "1.0")
    monkeypatch.setattr(addresses, "calls_by_address", lambda: True)
    loops = SimpleNamespace(is_at_hand=lambda: True)
    monkeypatch.setattr(step, "learn", loops)
    monkeypatch.setattr(step, "learn_sparse", loops)
    assert "nothing" in finding("speed").text
    monkeypatch.setattr(step, "learn", SimpleNamespace(is_at_hand=lambda: False))
    assert "doctor --warm" in finding("speed").text
    monkeypatch.setattr(addresses, "calls_by_address", lambda: False)
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "lightgbm" else "1.0")
    assert "numba" in finding("speed").text
