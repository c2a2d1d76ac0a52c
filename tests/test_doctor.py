"""Whether everything is there that it takes."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from driftsurf.cli import main
from driftsurf.report import doctor
from driftsurf.report.doctor import Finding, examine


def finding(what: str) -> Finding:
    return next(one for one in examine() if one.what == what)


def test_all_is_well_here() -> None:
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0
    assert result.output.endswith("all is well\n")
    assert "\x1b" not in result.output
    for what in ("driftsurf", "python", "numba", "compiled loops", "C compiler", "[pandas]", "cores", "data"):
        assert what in result.output


def test_what_is_wrong_is_told_with_its_remedy_and_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    told = ["numpy>=999.0", "no-such-package", "click", 'nothing-there>=1; extra == "more"']
    monkeypatch.setattr(metadata, "requires", lambda _: told)
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1
    assert "is older than 999.0: pip install 'numpy>=999.0'" in result.output
    assert "not installed: pip install 'no-such-package'" in result.output
    assert "not installed: pip install 'driftsurf[more]'" in result.output
    assert "2 of " in result.output


def test_a_package_that_is_not_installed_knows_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", unknown)
    assert finding("scikit-learn").state == "good"
    monkeypatch.setattr(metadata, "version", unknown)
    assert finding("numpy").text == "of unknown version"


def test_an_old_python_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert "too old: install 3.11 or newer" in finding("python").text


def test_the_state_of_compiled_code_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from driftsurf import _kernels

    broken = SimpleNamespace(compiled_for=None)
    with monkeypatch.context() as patch:
        patch.setattr(_kernels, "weighted_sum", broken)
        assert finding("compiled loops").state == "bad"
    with monkeypatch.context() as patch:
        patch.setattr("numba.config.DISABLE_JIT", 1)
        assert "NUMBA_DISABLE_JIT" in finding("compiled loops").text

    def wrong(*_: Any) -> tuple[float, float]:
        return 4.0, 3.0

    with monkeypatch.context() as patch:
        wrong.compiled_for = _kernels.weighted_sum.compiled_for  # type: ignore[attr-defined]
        patch.setattr(_kernels, "weighted_sum", wrong)
        assert "calculate wrongly" in finding("compiled loops").text


@pytest.mark.parametrize(
    ("hits", "writable", "state", "said"),
    [
        (1, True, "good", "warm; 1 loops"),
        (0, True, "good", "cold until now"),
        (1, False, "good", "read-only"),
        (0, False, "bad", "set NUMBA_CACHE_DIR"),
    ],
)
def test_the_cache_is_warm_or_cold_and_can_be_written_or_not(
    hits: int, writable: bool, state: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loop.nbc").touch()
    monkeypatch.setattr("driftsurf.report.doctor.os.access", lambda *_: writable)
    found = doctor._cache(SimpleNamespace(cache_path=str(tmp_path), cache_hits=hits))
    assert (found.state, said in found.text) == (state, True)


def test_without_any_cache_each_process_compiles() -> None:
    assert doctor._cache(SimpleNamespace(cache_path=None, cache_hits={})).state == "bad"


def test_a_machine_without_compiler_and_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("driftsurf.report.doctor.shutil.which", lambda _: None)
    monkeypatch.setenv("DRIFTSURF_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert finding("C compiler").state == "missing"
    assert finding("data").state == "missing"
    (tmp_path / "elec2.csv").touch()
    assert finding("data").text.startswith("electricity in ")


def test_some_of_the_cores_may_be_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftsurf.report.doctor.os.cpu_count", lambda: 64)
    monkeypatch.setattr("driftsurf.report.doctor.os.sched_getaffinity", lambda _: {1, 2}, raising=False)
    assert finding("cores").text == "2 of 64 may be used"


def test_requirements_are_read_as_they_are_written() -> None:
    assert doctor._parsed("???") == ("???", "0")
    assert doctor._numbers("unknown") == ()
