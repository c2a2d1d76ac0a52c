"""Public names of every module, and imports that stay light."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import driftsurf
from driftsurf.errors import MissingExtraError

APART = ["driftsurf.connectors", "driftsurf.reproduction", "driftsurf.service", "driftsurf.spark"]
"""Packages that stand alone: nothing else loads them."""


def modules() -> list[str]:
    return [m.name for m in pkgutil.walk_packages(driftsurf.__path__, "driftsurf.")]


@pytest.mark.filterwarnings("ignore:driftsurf.* is now:FutureWarning")
@pytest.mark.parametrize("name", ["driftsurf", *modules()])
def test_names_in_all_exist(name: str) -> None:
    try:
        module = importlib.import_module(name)
        public = getattr(module, "__all__", None)
        if public is not None:
            assert sorted(set(public)) == sorted(public)
            for member in public:
                assert getattr(module, member) is not None
    except ImportError as missing:
        if not isinstance(missing, MissingExtraError) and missing.name != "pyspark":
            raise
        pytest.skip(str(missing))


def test_former_names_of_packages_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "driftsurf.keyed.spark", raising=False)
    with pytest.warns(FutureWarning, match="driftsurf.spark"):
        former = importlib.import_module("driftsurf.keyed.spark")
    assert "learn_keys" in former.__all__
    for name in ("driftsurf.data.connectors", "driftsurf.data.connectors.contract"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.warns(FutureWarning, match="driftsurf.data.messages"):
        assert importlib.import_module("driftsurf.data.connectors.contract").Seekable


def test_dir_lists_the_public_names() -> None:
    assert set(driftsurf.__all__) == set(dir(driftsurf))
    with pytest.raises(AttributeError, match="'Driftsurf'"):
        driftsurf.Driftsurf  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import driftsurf", ["numpy", "sklearn", "pandas", "scipy", "click", "rich", *APART]),
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
            ["sklearn", "pandas", "matplotlib", *APART],
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
