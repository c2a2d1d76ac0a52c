"""Public names of every module, and imports that stay light."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import driftsurf
from driftsurf.errors import MissingExtraError


def modules() -> list[str]:
    return [m.name for m in pkgutil.walk_packages(driftsurf.__path__, "driftsurf.")]


@pytest.mark.parametrize("name", ["driftsurf", *modules()])
def test_names_in_all_exist(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except MissingExtraError as missing:
        pytest.skip(str(missing))
    public = getattr(module, "__all__", None)
    if public is not None:
        assert sorted(set(public)) == sorted(public)
        for member in public:
            assert getattr(module, member) is not None


def test_dir_lists_the_public_names() -> None:
    assert set(driftsurf.__all__) == set(dir(driftsurf))
    with pytest.raises(AttributeError, match="'Driftsurf'"):
        driftsurf.Driftsurf  # noqa: B018


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import driftsurf", ["numpy", "sklearn", "pandas", "scipy", "click", "rich"]),
        ("import driftsurf.cli", ["numpy", "sklearn", "pandas", "rich"]),
        ("import driftsurf.streams", ["sklearn", "pandas"]),
        ("from driftsurf.cli import main; main(['run', '--help'])", ["numpy", "sklearn", "pandas", "rich"]),
        (
            "from driftsurf.cli import main; main(['run', 'sea0', '--rows', '2000', '--quiet', '--out', 'r'])",
            ["sklearn", "pandas", "matplotlib"],
        ),
        (
            "open('t.csv', 'w').write('when,x,city,y\\n' + '2024-05-01,1.5,Rome,1\\n,,Oslo,0\\n' * 50); "
            "from driftsurf.cli import main; main(['run', 't.csv', '--label=y', '--learner=logistic', '--quiet'])",
            ["sklearn", "pandas", "matplotlib"],
        ),
        ("from driftsurf import Fleet", ["sklearn", "pandas", "polars", "matplotlib", "rich"]),
        ("from driftsurf import DriftSurfClassifier", ["polars", "matplotlib", "rich"]),
    ],
)
def test_imports_stay_light(statement: str, absent: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    code = f"""
import sys
try:
    {statement}
except SystemExit:
    pass
print(sorted(set(sys.modules) & set({absent!r})))
"""
    where = tmp_path_factory.mktemp("light")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=where, check=True)
    assert run.stdout.splitlines()[-1] == "[]"
