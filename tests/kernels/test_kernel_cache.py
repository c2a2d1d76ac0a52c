"""The cache of compiled code: only in safe places, and the package works without any."""

from __future__ import annotations

import multiprocessing
import os
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from driftsurf.kernels import cache, losses

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs POSIX file permissions")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_private_folder_is_private(temporary: Path) -> None:
    folder = cache.private_folder()
    assert folder is not None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert cache.private_folder() == folder


def test_a_folder_open_to_others_is_not_used(temporary: Path) -> None:
    (temporary / f"driftsurf-{os.getuid()}").mkdir(mode=0o777)
    (temporary / f"driftsurf-{os.getuid()}").chmod(0o777)
    assert cache.private_folder() is None


def test_a_link_or_a_file_in_place_of_the_folder_is_not_used(temporary: Path) -> None:
    place = temporary / f"driftsurf-{os.getuid()}"
    (temporary / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(temporary / "elsewhere")
    assert cache.private_folder() is None
    place.unlink()
    place.write_text("")
    assert cache.private_folder() is None


class Compiled:
    """Stand-in for a function that numba compiled."""

    class stats:
        cache_path = "/nonexistent"

    def __call__(self) -> None:
        raise AssertionError

    def compile(self, signature: Any) -> None: ...

    def disable_compile(self) -> None: ...


@pytest.mark.parametrize("folder", [True, False])
def test_functions_are_compiled_although_numba_finds_no_place_for_its_cache(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, folder: bool
) -> None:
    seen: list[Any] = []
    cache._log_once.cache_clear()
    caplog.set_level("INFO", "driftsurf")

    def njit(**options: Any) -> Any:
        seen.append(options["cache"])
        if options["cache"] and not numba.config.CACHE_DIR:
            raise RuntimeError("cannot cache function 'f': no locator available for file 'x'")
        return lambda function: Compiled()

    monkeypatch.setattr(numba, "njit", njit)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    if not folder:
        monkeypatch.setattr(cache, "private_folder", lambda: None)
    assert isinstance(cache.compile_cached(len, None), Compiled)
    assert seen == [True, folder]
    cache.compile_cached(len, None)
    assert len(caplog.messages) == 1
    assert (str(temporary) in caplog.messages[0]) is folder


def test_other_errors_of_numba_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def njit(**options: Any) -> Any:
        raise RuntimeError("something else")

    monkeypatch.setattr(numba, "njit", njit)
    with pytest.raises(RuntimeError, match="something else"):
        cache.compile_cached(len, None)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root to become another user")
def test_a_private_folder_is_used_with_a_read_only_installation_and_no_home(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    for place in (scratch, *tmp_path.parents, tmp_path):
        if place.is_relative_to(Path(tempfile.gettempdir())) and place != Path(tempfile.gettempdir()):
            place.chmod(0o777 if place == scratch else 0o755)
    source = Path(cache.__file__).parents[2]
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(source), str(copy)], check=True)
    subprocess.run(["chmod", "-R", "a+rX,go-w", str(copy)], check=True)
    code = (
        "import multiprocessing, os, numpy as np, numba\n"
        "numba.njit(lambda x: np.abs(x).sum())(np.ones(3))\n"  # loads files that the other user may not read
        "os.setgid(65534); os.setuid(65534); os.environ['HOME'] = '/nonexistent'\n"
        "from driftsurf.core.column_sizes import usual_sizes\n"
        "import driftsurf; print(driftsurf.__file__)\n"
        "print(usual_sizes(np.ones((3, 2)), np.ones(3)).tolist())\n"
    )
    environment = {"PYTHONPATH": str(copy), "TMPDIR": str(scratch), "PATH": os.environ["PATH"]}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd="/")
    assert run.stdout.splitlines()[-1:] == ["[1.0, 1.0]"], run.stderr
    assert str(copy) in run.stdout
    assert list((scratch / "driftsurf-65534").rglob("*.nbi"))


def test_only_one_of_several_concurrent_processes_compiles(tmp_path: Path) -> None:
    code = (
        "import numpy as np\n"
        "from driftsurf.kernels import cache\n"
        "from driftsurf.kernels.losses import weighted_sum\n"
        "made, compiled = [], cache._compile\n"
        "def watched(*arguments, **options):\n"
        "    made.append(compiled(*arguments, **options))\n"
        "    return made[-1]\n"
        "cache._compile = watched\n"
        "weighted_sum(np.ones(3), np.ones(3))\n"
        "print(sum(sum(one.stats.cache_misses.values()) for one in made))\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    environment |= {cache.QUIET: "", cache.ANNOUNCED: ""}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    printed = [run.communicate() for run in runs]
    assert sorted(int(out) for out, _ in printed) == [0, 0, 1]
    # Only the process that compiles announces it.
    assert [error for _, error in printed if error] == [f"{cache.COMPILING}\n"]


def test_code_on_disk_is_found_without_compiling_it() -> None:
    losses.weighted_sum(np.ones(3), np.ones(3))
    kernel: Any = losses.weighted_sum
    cache.is_cached.cache_clear()
    assert cache.is_cached(kernel.__wrapped__)
    assert kernel.is_at_hand()
    assert not cache.is_cached(test_code_on_disk_is_found_without_compiling_it)


@pytest.mark.parametrize(
    ("process", "quiet", "shown"), [("LokyProcess-1", "", 1), ("Loky-2", "", 0), ("Main-1", "1", 0)]
)
def test_the_compilation_is_announced_once_by_the_first_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], process: str, quiet: str, shown: int
) -> None:
    monkeypatch.setenv(cache.QUIET, quiet)
    monkeypatch.setenv(cache.ANNOUNCED, "")
    monkeypatch.setattr(multiprocessing.current_process(), "name", process)
    cache._announce.cache_clear()
    cache._announce()
    cache._announce()
    assert capsys.readouterr().err == f"{cache.COMPILING}\n" * shown


def test_a_kernel_may_compile_another_one_of_its_folder(tmp_path: Path) -> None:
    # In a process of its own, because a lock that is taken twice would never be released.
    code = """
        import sys
        from driftsurf.kernels import cache
        with cache._compiling, cache._alone(sys.argv[1]):
            with cache._compiling, cache._alone(sys.argv[1]):
                assert cache._locked == {sys.argv[1]}
            assert cache._locked == {sys.argv[1]}
        assert not cache._locked
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(tmp_path)], check=True, timeout=300)
