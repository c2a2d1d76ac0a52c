"""Types of the estimators, which are made at run time, as a stub."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from driftsurf import registry
from driftsurf.estimators.classes import docstring, example_of, option_text

__all__ = ["class_names", "stub"]

HEAD = {
    "from typing import Any, Literal",
    "from driftsurf.core.frames import Classes, LearnerLike, RandomState",
    "from driftsurf.estimators.base import AdaptiveClassifier, AdaptiveRegressor",
}
"""Imports of the stub."""
TYPES = {
    "batch_size": ("int | None", "None"),
    "guard": ("float | None", "2.0"),
    "classes": ("Classes | None", "None"),
    "random_state": ("RandomState", "None"),
}
"""Types and defaults of the parameters that every estimator has."""
DTYPE = 'Literal["float64", "float32"]'
TASKS = {"Classifier": registry.CLASSIFICATION, "Regressor": registry.REGRESSION}
MAIN = "driftsurf", "portfolio", "aware"
"""Names of the strategies whose estimators editors describe: the stub has their docstrings."""


@dataclass(frozen=True)
class Option:
    """A parameter of a strategy: source of its type and default."""

    name: str
    annotation: str
    default: str


def entries() -> list[registry.Entry]:
    """Return the strategies of this package."""
    return [entry for entry in registry.entries("strategy") if entry.part.__module__.startswith("driftsurf.")]


def class_names(entry: registry.Entry) -> dict[str, str]:
    """Return the names of the estimator classes of a strategy by suffix."""
    return {suffix: f"{entry.part.__name__}{suffix}" for suffix, tasks in TASKS.items() if entry.tasks & tasks}


def stub() -> str:
    """Return the types of the estimators, and the docstrings of the main ones, as the source of a stub."""
    head = '"""Types of the estimators that ``estimator_class`` makes. Made by ``make generate``: do not edit."""'
    imports, classes = set(), []
    for entry in entries():
        options = list(_options(entry.part))
        imports |= {*_imports(entry.part, options)}
        classes += [_class(entry, suffix, name, options) for suffix, name in class_names(entry).items()]
    return "\n\n".join([head, "\n".join(sorted(imports | HEAD)), *classes])


def _class(entry: registry.Entry, suffix: str, name: str, options: list[Option]) -> str:
    lines = [f"class {name}(Adaptive{suffix}):"]
    if entry.name in MAIN:
        names, example = [one.name for one in options], example_of(suffix, name)
        text = docstring(entry.part, entry.title, suffix, names, example)
        lines.append(textwrap.indent(f'r"""{text}"""', "    "))
    lines += [f"    {one.name}: {'Any' if one.name == 'detector' else one.annotation}" for one in options]
    return "\n".join([*lines, f"    {_constructor_of(suffix, options)} ..."])


def _common(suffix: str) -> dict[str, tuple[str, str]]:
    return {key: value for key, value in TYPES.items() if key != "classes" or suffix == "Classifier"}


def _constructor_of(suffix: str, options: list[Option]) -> str:
    arguments = [f"{option.name}: {option.annotation} = {option.default}" for option in options]
    arguments += [f"{key}: {kind} = {default}" for key, (kind, default) in _common(suffix).items()]
    return f"def __init__(self, learner: LearnerLike | None = None, *, {', '.join(arguments)},) -> None:"


# ---------------------------------------------------------------------------- options of a strategy


def _options(strategy: Any) -> Iterator[Option]:
    """Yield the options of a strategy as its source has them."""
    constructor = _constructor(strategy)
    positional = constructor.args.args
    defaults = dict(zip(positional[::-1], constructor.args.defaults[::-1], strict=False))
    defaults |= dict(zip(constructor.args.kwonlyargs, constructor.args.kw_defaults, strict=True))  # type: ignore[arg-type]
    for argument in (*positional, *constructor.args.kwonlyargs):
        if argument.arg in ("self", "learner", "seed"):
            continue
        if argument.arg == "detector":
            yield Option("detector", "DetectorLike | None", "None")
            continue
        assert argument.annotation is not None
        kind = DTYPE if argument.arg == "dtype" else ast.unparse(argument.annotation)
        default = defaults.get(argument)
        if default is None:
            raise ValueError(f"{strategy.__name__}: the option {argument.arg!r} has no default")
        if not option_text(strategy, argument.arg):
            raise ValueError(f"the docstring of {strategy.__name__} does not describe the option {argument.arg!r}")
        yield Option(argument.arg, kind, ast.unparse(default))


def _constructor(strategy: Any) -> ast.FunctionDef:
    source = textwrap.dedent(inspect.getsource(strategy.__init__))
    found = ast.parse(source).body[0]
    assert isinstance(found, ast.FunctionDef)
    return found


def _imports(strategy: Any, options: list[Option]) -> Iterator[str]:
    """Yield the imports of the names that types and defaults use, from where the strategy's module has them."""
    module = sys.modules[strategy.__init__.__module__]
    origin = {
        alias.asname or alias.name: f"from {node.module} import {alias.name}"
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    if any(option.name == "detector" for option in options):
        yield "from driftsurf.core.frames import DetectorLike"
    for option in options:
        for expression in (option.annotation, option.default):
            for node in ast.walk(ast.parse(expression, mode="eval")):
                if isinstance(node, ast.Name) and node.id in origin:
                    yield origin[node.id]
                elif isinstance(node, ast.Name) and node.id in vars(module):
                    yield f"from {module.__name__} import {node.id}"
