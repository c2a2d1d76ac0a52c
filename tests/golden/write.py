"""Write what this version saves and how it goes on, for all later versions to load and to go on with in the same way.

Every release writes its own folder, once, and no later version changes it::

    python -m tests.golden.write tests/golden/0.3.0

Run it from the root of the repository with the code of the release. The code may be that of another checkout, such as
that of a tag, as long as its public names are those that the cases use::

    git worktree add ../released v0.3.0
    PYTHONPATH=../released/src python -m tests.golden.write tests/golden/0.3.0

The cases are those of ``tests/support/golden_cases.py`` and ``golden_folders.py``. An archive for each group of cases
holds the state after the first half of the rows, as the version wrote it, and ``expected.json``: what it predicted and
decided after loading that state, and while it learned the second half. The rows are not stored, because each case makes
them from a seed. ``about.json`` names the version, the cases, and the versions of the packages that decide numbers.
``tests/test_golden.py`` reads the folders of all versions. Names of groups after the folder write only these.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
import json
import math
import shutil
import sys
import tarfile
import tempfile
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))

import golden_cases  # noqa: E402
import golden_folders  # noqa: E402
from golden_cases import Case, Record  # noqa: E402

import driftsurf  # noqa: E402

PACKAGES = {"sklearn": "scikit-learn", "lightgbm": "lightgbm", "river": "river"}
"""Distributions of the packages that cases name."""
EXPECTED, ABOUT = "expected.json", "about.json"
CLOSE = 1e-9
"""Relative and absolute difference that a number may have: its last bits depend on the processor and the compiler."""


def cases() -> dict[str, dict[str, Case]]:
    """Return all cases by group and name."""
    groups = golden_cases.GROUPS | golden_folders.GROUPS
    return {group: dict(make()) for group, make in groups.items()}


def library_version(name: str) -> str:
    """Return the version of a package that a case names."""
    return importlib.metadata.version(PACKAGES[name])


def plain(value: Any) -> Any:
    """Return a result as it is after it was written as JSON and read, with numbers of 12 digits."""
    return _rounded(json.loads(json.dumps(value)))


def _rounded(value: Any) -> Any:
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


def differences(expected: Any, found: Any, where: str = "", close: float = CLOSE) -> list[str]:
    """Return where a result differs from the expected one; entries that only the result has do not count."""
    if isinstance(expected, dict) and isinstance(found, dict):
        missing = [f"{where}/{name} is missing" for name in expected if name not in found]
        own = [
            differences(one, found[name], f"{where}/{name}", close) for name, one in expected.items() if name in found
        ]
        return list(itertools.chain(missing, *own))
    if isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            return [f"{where} has {len(found)} entries instead of {len(expected)}"]
        own = [differences(*pair, f"{where}/{at}", close) for at, pair in enumerate(zip(expected, found, strict=True))]
        return list(itertools.chain(*own))
    same = expected == found
    if isinstance(expected, float) and isinstance(found, int | float):
        both_nan = math.isnan(expected) and math.isnan(found)
        same = both_nan or math.isclose(expected, found, rel_tol=close, abs_tol=close)
    return [] if same else [f"{where} is {found!r} instead of {expected!r}"]


def write(out: Path, only: list[str]) -> None:
    """Write the archives of all groups, or of the named ones, to a folder."""
    out.mkdir(parents=True, exist_ok=True)
    written: Record = {"driftsurf": driftsurf.__version__, "libraries": {}, "cases": {}}
    if (out / ABOUT).exists():
        written = json.loads((out / ABOUT).read_text())
    written["libraries"] = {name: library_version(name) for name in PACKAGES}
    for group, members in cases().items():
        if only and group not in only:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            for name, case in members.items():
                _write_case(case, Path(scratch) / name)
                print(group, name, flush=True)
            with tarfile.open(out / f"{group}.tar.xz", "w:xz", preset=9) as file:
                for path in sorted(Path(scratch).iterdir()):
                    file.add(path, path.name, filter=_anonymous)
        written["cases"][group] = sorted(members)
    (out / ABOUT).write_text(json.dumps(written, indent=1) + "\n")


def _write_case(case: Case, place: Path) -> None:
    """Begin a case in a folder, and add what it leads to; it goes on in a copy of the folder."""
    place.mkdir()
    case.begin(place)
    with tempfile.TemporaryDirectory() as scratch:
        copied = shutil.copytree(place, Path(scratch) / "copied")
        (place / EXPECTED).write_text(json.dumps(plain(case.go_on(copied)), separators=(",", ":")))


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return an entry of an archive without what depends on who writes it, and when."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write(Path(sys.argv[1]), sys.argv[2:])
