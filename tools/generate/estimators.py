"""Source of the estimators of the main strategies, and types of those that are made at run time."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from driftsurf import registry
from driftsurf.estimators import docstrings
from tools.generate.examples import example

__all__ = ["class_names", "modules", "stub"]

HEAD = {
    "from typing import Any, Literal",
    "from driftsurf.core.frames import Classes, LearnerLike, RandomState",
    "from driftsurf.estimators.base import AdaptiveClassifier, AdaptiveRegressor",
}
"""Imports of every module."""
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
"""Names of the strategies whose estimators have a module with source."""


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


def modules() -> dict[str, str]:
    """Return the source of every generated module by name."""
    package = '"""Estimators of the main strategies. Made by ``make generate``: do not edit."""\n'
    return {"__init__": package} | {_module_name(entry): _module(entry) for entry in entries() if entry.name in MAIN}


def stub() -> str:
    """Return the types of the estimators that are made at run time, as the source of a stub."""
    made = [entry for entry in entries() if entry.name not in MAIN]
    head = '"""Types of the estimators that ``estimator_class`` makes. Made by ``make generate``: do not edit."""'
    imports, classes = set(), []
    for entry in made:
        options = list(_options(entry.part))
        imports |= {*_imports(entry.part, options)}
        for suffix, name in class_names(entry).items():
            stored = [f"    {one.name}: {'Any' if one.name == 'detector' else one.annotation}" for one in options]
            classes.append(
                "\n".join([f"class {name}(Adaptive{suffix}):", *stored, f"    {_constructor_of(suffix, options)} ..."])
            )
    return "\n\n".join([head, "\n".join(sorted(imports | HEAD)), *classes])


def _module_name(entry: registry.Entry) -> str:
    return str(entry.part.__module__).rpartition(".")[2]


def _module(entry: registry.Entry) -> str:
    strategy = f"{entry.part.__module__}"
    options = list(_options(entry.part))
    imports = HEAD | {
        "from __future__ import annotations",
        f"from {strategy} import {entry.part.__name__}",
        *_imports(entry.part, options),
    }
    head = f'"""{entry.part.__name__} as scikit-learn estimators. Made by ``make generate``: do not edit."""'
    names = class_names(entry)
    exported = f"__all__ = [{', '.join(repr(name) for name in sorted(names.values()))}]"
    classes = [_class(entry, suffix, name, options) for suffix, name in names.items()]
    return "\n\n".join([head, "\n".join(sorted(imports)), exported, *classes])


def _class(entry: registry.Entry, suffix: str, name: str, options: list[Option]) -> str:
    passed = ", ".join(f"{key}={key}" for key in _common(suffix))
    stored = [f"self.{option.name}{': Any' if option.name == 'detector' else ''} = {option.name}" for option in options]
    names = [option.name for option in options]
    text = docstrings.docstring(entry.part, entry.title, suffix, names, example(suffix, name))  # type: ignore[arg-type]
    lines = [
        f"class {name}(Adaptive{suffix}):",
        textwrap.indent(f'r"""{text}"""', "    "),
        "",
        f"    _strategy_class = {entry.part.__name__}",
        "",
        f"    {_constructor_of(suffix, options)}",
        f"        super().__init__(learner, {passed})",
        *(f"        {line}" for line in stored),
    ]
    return "\n".join(lines)


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
        if not docstrings.option_text(strategy, argument.arg):
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
