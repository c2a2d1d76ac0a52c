"""Estimators that are made at run time: documented, and found by pickle and by type checkers under one name."""

from __future__ import annotations

import ast
import doctest
import inspect
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import driftsurf.estimators
from driftsurf.estimators import base, classes
from driftsurf.strategies import SlidingWindow

STUB = ast.parse((Path(base.__file__).parent / "_made.pyi").read_text(encoding="utf-8"))
MADE = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}


@pytest.mark.parametrize("name", sorted(MADE))
def test_a_made_estimator_is_as_its_stub_says(name: str) -> None:
    made = getattr(driftsurf.estimators, name)
    (constructor,) = (node for node in MADE[name].body if isinstance(node, ast.FunctionDef))
    stated = [argument.arg for argument in (*constructor.args.args, *constructor.args.kwonlyargs)]
    assert list(inspect.signature(made.__init__).parameters) == stated
    assert pickle.loads(pickle.dumps(made)) is made
    assert [option for option in stated[1:] if f"\n{option}\n    " not in made.__doc__] == []


@pytest.mark.parametrize("name", sorted(MADE))
def test_the_example_of_a_made_estimator_works(name: str) -> None:
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(driftsurf.estimators, name), name, module=False)
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0
    assert example.examples


def test_threads_that_ask_for_an_estimator_at_once_find_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(SlidingWindow):
        pass

    met = threading.Barrier(4)
    signature = classes._signature

    def slow(*args: Any) -> Any:
        time.sleep(0.05)  # the other threads ask meanwhile
        return signature(*args)

    def ask(_: int) -> Any:
        met.wait(60.0)
        return classes.estimator_class(Mine)

    monkeypatch.setattr(classes, "_signature", slow)
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(ask, range(4)))) == 1


def test_there_is_no_public_module_of_types_alone() -> None:
    package = Path(base.__file__).parents[1]
    stubs = [path for path in package.rglob("*.pyi") if not path.with_suffix(".py").exists()]
    assert [path.name for path in stubs if path.parent.name != "native" and not path.name.startswith("_")] == []
