"""LightGBM without a library of the system that it needs: portfolios go without its trees, and one line says why."""

from __future__ import annotations

import ctypes
import shutil
import sys
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import invoke
from table_files import write_csv
from table_runs import ROWS

from driftsurf import recommended, registry
from driftsurf.errors import MissingExtraError, RegistryWarning
from driftsurf.learners import LogisticRegression
from driftsurf.learners.foreign import BoostedTrees, _boosted
from driftsurf.report import doctor
from driftsurf.strategies import Portfolio

MISSING = "libgomp.so.1: cannot open shared object file: No such file or directory"


class NoLibrary:
    """Lets the import of LightGBM fail as it does where the library is missing."""

    def find_spec(self, name: str, *_: Any) -> None:
        """Find no module, and let LightGBM's library fail to load."""
        if name == "lightgbm.libpath":
            raise OSError(MISSING)


@pytest.fixture
def no_libgomp(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def cannot_load(path: str, *_: Any, **__: Any) -> None:
        raise OSError(MISSING)

    for name in [name for name in sys.modules if name.partition(".")[0] == "lightgbm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NoLibrary(), *sys.meta_path])
    monkeypatch.setattr(ctypes, "CDLL", cannot_load)
    monkeypatch.setattr(shutil, "which", lambda program: "/usr/bin/apt-get" if program == "apt-get" else None)
    _boosted.lacks.cache_clear()
    yield
    _boosted.lacks.cache_clear()


LINE = "LightGBM needs the system library libgomp1: apt-get install libgomp1"


@pytest.mark.usefixtures("no_libgomp")
@pytest.mark.parametrize("kind", ["portfolio", "light"])
def test_a_portfolio_runs_without_trees(kind: Any) -> None:
    assert not registry.get("learner", "lightgbm").installed
    model = recommended(kind, random_state=0)
    X = np.random.default_rng(0).normal(size=(200, 3))
    with pytest.warns(RegistryWarning) as issued:
        model.partial_fit(X, X[:, 0] > 0)
    assert [str(one.message) for one in issued] == [f"the portfolio has no boosted trees: {LINE}"]
    assert not any("Trees" in one.name for one in model.journal_[0].models)
    assert np.mean(model.predict(X) == (X[:, 0] > 0)) > 0.8


@pytest.mark.usefixtures("no_libgomp")
def test_the_missing_library_is_named_once() -> None:
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("default")
        Portfolio(LogisticRegression()).begin(2, sparse=False, n_classes=2)
        Portfolio(LogisticRegression()).begin(2, sparse=False, n_classes=2)
    assert len(issued) == 1


@pytest.mark.usefixtures("no_libgomp")
def test_trees_that_are_asked_for_are_refused_in_one_line() -> None:
    for make in (lambda: recommended("trees"), BoostedTrees, lambda: registry.get("learner", "lightgbm-lazy").make()):
        with pytest.raises(MissingExtraError) as caught:
            make()
        assert str(caught.value).endswith(LINE)
        assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("no_libgomp")
@pytest.mark.filterwarnings("default:the portfolio has no boosted trees")
def test_commands_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = write_csv(tmp_path, ROWS[:300])
    ran = invoke("run", source, "--label", "sold", "--drop", "id")
    assert ran.exit_code == 0
    assert ran.output.count(LINE) == 1
    assert "Traceback" not in ran.output
    assert "without boosted trees" in ran.output
    monkeypatch.setattr(metadata, "requires", lambda _: ["lightgbm>=4.0"])
    found = next(one for one in doctor.examine() if one.what == "lightgbm")
    assert found.state == "bad"
    assert LINE in found.text


def test_other_libraries_and_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "libcuda" in _boosted.remedy(OSError("libcuda.so: no such file"))
    monkeypatch.setattr(shutil, "which", lambda program: program if program == "apk" else None)
    assert _boosted.remedy(OSError(MISSING)).endswith("apk add libgomp")
    monkeypatch.setattr(shutil, "which", lambda program: None)
    assert _boosted.remedy(OSError(MISSING)).endswith("apt-get install libgomp1")


def test_it_is_found_where_it_can_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "lightgbm"]:
        monkeypatch.delitem(sys.modules, name)
    _boosted.lacks.cache_clear()
    assert _boosted.lacks() == ""
    assert "lightgbm" not in sys.modules


@pytest.mark.usefixtures("no_libgomp")
def test_a_library_in_another_folder_is_found_missing_by_importing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    assert _boosted.lacks() == LINE
