"""How the core is compiled: a stale one is refused, and it needs no library of mathematics."""

from __future__ import annotations

import importlib.machinery
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import driftsurf.native
from driftsurf.native import sources

FOLDER = Path(driftsurf.native.__path__[0])
# Without sqrt, which is an instruction, and a function with the same result where nothing is optimised.
MATHEMATICS = {
    *("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "pow", "cbrt", "hypot", "sin", "cos", "tan"),
    *(
        "tanh",
        "erf",
        "lgamma",
        "tgamma",
        "fma",
        "fmod",
        "floor",
        "ceil",
        "round",
        "rint",
        "nearbyint",
        "ldexp",
        "frexp",
    ),
}


@pytest.fixture
def core(tmp_path: Path) -> Path:
    """Return a folder of sources that have been compiled."""
    (tmp_path / "c").mkdir()
    (tmp_path / "rule.pyx").write_text("def f(): pass\n")
    (tmp_path / "c" / "scores.c").write_text("int one = 1;\n")
    record = sources.digest(str(tmp_path)) + "\n" + sources.listing(str(tmp_path))
    (tmp_path / sources.RECORD).write_text(record)
    return tmp_path


def test_a_core_that_fits_its_sources_is_used(core: Path) -> None:
    sources.check(str(core))
    (core / "rule.pyx").touch()  # another time, but the same content
    (core / "notes.txt").write_text("not a source")
    sources.check(str(core))


@pytest.mark.parametrize("change", ["changed", "new", "gone", "renamed"])
def test_a_stale_core_is_refused_with_the_remedy(core: Path, change: str) -> None:
    file = core / "c" / "scores.c"
    if change == "changed":
        file.write_text("int one = 2;\n")
    elif change == "new":
        (core / "c" / "more.h").write_text("")
    elif change == "gone":
        file.unlink()
    else:
        file.rename(core / "c" / "margins.c")
    with pytest.raises(ImportError, match="make core"):
        sources.check(str(core))


def test_a_core_that_was_never_compiled_is_refused(core: Path) -> None:
    (core / sources.RECORD).unlink()
    with pytest.raises(ImportError, match="has not been compiled"):
        sources.check(str(core))


def test_an_installed_core_without_sources_is_used(core: Path) -> None:
    shutil.rmtree(core / "c")
    (core / sources.RECORD).unlink()
    sources.check(str(core))


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_the_core_needs_no_library_of_mathematics() -> None:
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    modules = [path for path in FOLDER.iterdir() if path.name.endswith(suffixes)]
    assert modules
    for module in modules:
        printed = subprocess.run(["nm", "-D", "--undefined-only", module], capture_output=True, text=True, check=True)
        needed = {re.split("@", line.split()[-1])[0] for line in printed.stdout.splitlines()}
        assert {name for name in needed if name in MATHEMATICS or re.search("blas|gemm|ddot|daxpy", name)} == set()
