"""Compiled code is kept where that is safe, and the package works where nothing can be kept."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numba
import pytest

from driftsurf import _cache

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="about the rights of POSIX files")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_private_folder_is_private(temporary: Path) -> None:
    folder = _cache.private_folder()
    assert folder is not None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert _cache.private_folder() == folder


def test_a_folder_open_to_others_is_not_used(temporary: Path) -> None:
    (temporary / f"driftsurf-{os.getuid()}").mkdir(mode=0o777)
    (temporary / f"driftsurf-{os.getuid()}").chmod(0o777)
    assert _cache.private_folder() is None


def test_a_link_or_a_file_in_its_place_is_not_used(temporary: Path) -> None:
    place = temporary / f"driftsurf-{os.getuid()}"
    (temporary / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(temporary / "elsewhere")
    assert _cache.private_folder() is None
    place.unlink()
    place.write_text("")
    assert _cache.private_folder() is None


class Compiled:
    """What numba makes of a function, as far as it is asked here."""

    class stats:
        cache_path = "/nonexistent"

    def __call__(self) -> None:
        raise AssertionError

    def compile(self, signature: Any) -> None: ...

    def disable_compile(self) -> None: ...


@pytest.mark.parametrize("folder", [True, False])
def test_it_works_where_numba_finds_no_place(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, folder: bool
) -> None:
    seen: list[Any] = []
    _cache._say_once.cache_clear()
    caplog.set_level("INFO", "driftsurf")

    def njit(**options: Any) -> Any:
        seen.append(options["cache"])
        if options["cache"] and not numba.config.CACHE_DIR:
            raise RuntimeError("cannot cache function 'f': no locator available for file 'x'")
        return lambda function: Compiled()

    monkeypatch.setattr(numba, "njit", njit)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    if not folder:
        monkeypatch.setattr(_cache, "private_folder", lambda: None)
    assert isinstance(_cache.compile_cached(len, None), Compiled)
    assert seen == [True, folder]
    _cache.compile_cached(len, None)
    assert len(caplog.messages) == 1
    assert ("is kept in" in caplog.messages[0]) is folder


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def njit(**options: Any) -> Any:
        raise RuntimeError("something else")

    monkeypatch.setattr(numba, "njit", njit)
    with pytest.raises(RuntimeError, match="something else"):
        _cache.compile_cached(len, None)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root to become another user")
def test_a_read_only_installation_and_no_home(tmp_path: Path) -> None:
    """As another user, who owns nothing: the package runs and keeps its code in a private folder."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    for place in (scratch, *tmp_path.parents, tmp_path):
        if place.is_relative_to(Path(tempfile.gettempdir())) and place != Path(tempfile.gettempdir()):
            place.chmod(0o777 if place == scratch else 0o755)
    source = Path(_cache.__file__).parent.parent
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(source), str(copy)], check=True)
    subprocess.run(["chmod", "-R", "a+rX,go-w", str(copy)], check=True)
    code = (
        "import os, numpy as np, numba\n"
        "numba.njit(lambda x: np.abs(x).sum())(np.ones(3))\n"  # what another user may not read is loaded before
        "os.setgid(65534); os.setuid(65534); os.environ['HOME'] = '/nonexistent'\n"
        "from driftsurf.sizes import usual_sizes\n"
        "import driftsurf; print(driftsurf.__file__)\n"
        "print(usual_sizes(np.ones((3, 2)), np.ones(3)).tolist())\n"
    )
    environment = {"PYTHONPATH": str(copy), "TMPDIR": str(scratch), "PATH": os.environ["PATH"]}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd="/")
    assert run.stdout.splitlines()[-1:] == ["[1.0, 1.0]"], run.stderr
    assert str(copy) in run.stdout
    assert list((scratch / "driftsurf-65534").rglob("*.nbi"))


def test_of_many_processes_that_start_at_once_one_compiles(tmp_path: Path) -> None:
    code = (
        "import numpy as np\n"
        "from driftsurf import _cache, _kernels\n"
        "made, compiled = [], _cache._compile\n"
        "def watched(*arguments, **options):\n"
        "    made.append(compiled(*arguments, **options))\n"
        "    return made[-1]\n"
        "_cache._compile = watched\n"
        "_kernels.weighted_sum(np.ones(3), np.ones(3))\n"
        "print(sum(sum(one.stats.cache_misses.values()) for one in made))\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert sorted(int(run.communicate()[0]) for run in runs) == [0, 0, 1]
