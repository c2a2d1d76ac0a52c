"""Source of the scikit-learn estimators: a module for each strategy, with its options as typed parameters."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from driftsurf import registry
from tools.generate import docstrings
from tools.generate.examples import example

__all__ = ["class_names", "modules"]

COMMON = {
    "batch_size": (
        "int | None",
        "None",
        "None makes every call one time step. A number buffers rows, and every ``batch_size`` of them are one.",
    ),
    "guard": (
        "float | None",
        "2.0",
        "Rows beyond this many times the usual norm are learned with a small weight, so that one absurd value cannot "
        "ruin the model. None for no guard.",
    ),
    "classes": (
        "Classes | None",
        "None",
        "The labels, if they are known from the start; None learns them as they appear.",
    ),
    "random_state": ("RandomState", "None", "An integer makes every run the same."),
}
"""Parameters that every estimator has: type, default, description."""
LEARNERS = {
    "Classifier": "Template of the models: a learner of :mod:`driftsurf.learners`, any classifier of scikit-learn or "
    "river, or an adapter of :mod:`driftsurf.learners.foreign`. None means ``LogisticRegression()``, for two classes; "
    "``SoftmaxRegression()`` is for any number of classes.",
    "Regressor": "Template of the models: a learner of :mod:`driftsurf.learners`, any regressor of scikit-learn or "
    "river, or an adapter of :mod:`driftsurf.learners.foreign`. None means ``LinearRegression()``.",
}
DETECTOR = "A detector of :mod:`driftsurf.detectors`, or one of river. None means ``MDDM()``."
DTYPE = 'Literal["float64", "float32"]'
TASKS = {"Classifier": registry.CLASSIFICATION, "Regressor": registry.REGRESSION}
WIDTH = 116


@dataclass(frozen=True)
class Option:
    """A parameter of a strategy: source of its type and default, and its description."""

    name: str
    annotation: str
    default: str
    text: str


def entries() -> list[registry.Entry]:
    """Return the strategies of this package."""
    return [entry for entry in registry.entries("strategy") if entry.part.__module__.startswith("driftsurf.")]


def class_names(entry: registry.Entry) -> dict[str, str]:
    """Return the names of the estimator classes of a strategy by suffix."""
    return {suffix: f"{entry.part.__name__}{suffix}" for suffix, tasks in TASKS.items() if entry.tasks & tasks}


def modules() -> dict[str, str]:
    """Return the source of every generated module by name."""
    package = '"""Estimators of the strategies in this package. Made by ``make generate``: do not edit."""\n'
    return {"__init__": package} | {_module_name(entry): _module(entry) for entry in entries()}


def _module_name(entry: registry.Entry) -> str:
    return str(entry.part.__module__).rpartition(".")[2]


def _module(entry: registry.Entry) -> str:
    strategy = f"{entry.part.__module__}"
    options = list(_options(entry.part))
    imports = {
        "from __future__ import annotations",
        "from typing import Any, Literal",
        "from driftsurf.core.typing import Classes, LearnerLike, RandomState",
        "from driftsurf.estimators.base import AdaptiveClassifier, AdaptiveRegressor",
        f"from {strategy} import {entry.part.__name__}",
        *_imports(entry.part, options),
    }
    head = f'"""{entry.part.__name__} as scikit-learn estimators. Made by ``make generate``: do not edit."""'
    names = class_names(entry)
    exported = f"__all__ = [{', '.join(repr(name) for name in sorted(names.values()))}]"
    classes = [_class(entry, suffix, name, options) for suffix, name in names.items()]
    return "\n\n".join([head, "\n".join(sorted(imports)), exported, *classes])


def _class(entry: registry.Entry, suffix: str, name: str, options: list[Option]) -> str:
    common = {key: value for key, value in COMMON.items() if key != "classes" or suffix == "Classifier"}
    arguments = [f"{option.name}: {option.annotation} = {option.default}" for option in options]
    arguments += [f"{key}: {kind} = {default}" for key, (kind, default, _) in common.items()]
    passed = ", ".join(f"{key}={key}" for key in common)
    stored = [f"self.{option.name}{': Any' if option.name == 'detector' else ''} = {option.name}" for option in options]
    lines = [
        f"class {name}(Adaptive{suffix}):",
        textwrap.indent(f'r"""{_docstring(entry, suffix, name, options)}"""', "    "),
        "",
        f"    _strategy_class = {entry.part.__name__}",
        "",
        f"    def __init__(self, learner: LearnerLike | None = None, *, {', '.join(arguments)},) -> None:",
        f"        super().__init__(learner, {passed})",
        *(f"        {line}" for line in stored),
    ]
    return "\n".join(lines)


# ---------------------------------------------------------------------------- options of a strategy


def _options(strategy: Any) -> Iterator[Option]:
    """Yield the options of a strategy as its source has them."""
    texts = docstrings.parameters(strategy)
    constructor = _constructor(strategy)
    positional = constructor.args.args
    defaults = dict(zip(positional[::-1], constructor.args.defaults[::-1], strict=False))
    defaults |= dict(zip(constructor.args.kwonlyargs, constructor.args.kw_defaults, strict=True))  # type: ignore[arg-type]
    for argument in (*positional, *constructor.args.kwonlyargs):
        if argument.arg in ("self", "learner", "seed"):
            continue
        if argument.arg == "detector":
            yield Option("detector", "DetectorLike | None", "None", DETECTOR)
            continue
        assert argument.annotation is not None
        kind = DTYPE if argument.arg == "dtype" else ast.unparse(argument.annotation)
        default = defaults.get(argument)
        if default is None:
            raise ValueError(f"{strategy.__name__}: the option {argument.arg!r} has no default")
        yield Option(argument.arg, kind, ast.unparse(default), _text(strategy, argument.arg, texts))


def _constructor(strategy: Any) -> ast.FunctionDef:
    source = textwrap.dedent(inspect.getsource(strategy.__init__))
    found = ast.parse(source).body[0]
    assert isinstance(found, ast.FunctionDef)
    return found


def _text(strategy: Any, name: str, texts: dict[str, str]) -> str:
    """Return the description of an option, following a reference to another class."""
    if name not in texts:
        raise ValueError(f"the docstring of {strategy.__name__} does not describe the option {name!r}")
    path = docstrings.referenced(texts[name])
    if not path:
        return texts[name]
    module, _, other = path.rpartition(".")
    return docstrings.parameters(getattr(importlib.import_module(module), other))[name]


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
        yield "from driftsurf.core.typing import DetectorLike"
    for option in options:
        for expression in (option.annotation, option.default):
            for node in ast.walk(ast.parse(expression, mode="eval")):
                if isinstance(node, ast.Name) and node.id in origin:
                    yield origin[node.id]
                elif isinstance(node, ast.Name) and node.id in vars(module):
                    yield f"from {module.__name__} import {node.id}"


# ---------------------------------------------------------------------------- docstrings


def _docstring(entry: registry.Entry, suffix: str, name: str, options: list[Option]) -> str:
    strategy = f"{entry.part.__module__.rpartition('.')[0]}.{entry.part.__name__}"
    described = {"learner": LEARNERS[suffix]} | {option.name: option.text for option in options}
    described |= {key: text for key, (_, _, text) in COMMON.items() if key != "classes" or suffix == "Classifier"}
    parameters = [f"{key}\n{_wrapped(text, 4)}" for key, text in described.items()]
    attributes = {
        "classes_": "Labels known so far, sorted.",
        "n_features_in_": "Number of columns of the first batch.",
        "feature_names_in_": "Names of the columns, if the first batch had any.",
        "journal_": "State, risks and decisions of every time step, and every transition with its reason.",
    }
    if suffix == "Regressor":
        del attributes["classes_"]
    blocks = [
        f"{entry.title} as a scikit-learn {suffix.lower()}.",
        _wrapped(docstrings.summary(entry.part), 0),
        _wrapped(
            "Every call of ``partial_fit`` or ``test_then_train`` is one time step, unless ``batch_size`` is set. "
            f":class:`{strategy}` describes the method.",
            0,
        ),
        "\n".join(["Parameters", "----------", *parameters]),
        "\n".join(["Attributes", "----------", *(f"{key}\n{_wrapped(text, 4)}" for key, text in attributes.items())]),
        f"Examples\n--------\n{example(entry, suffix, name)}",
    ]
    return "\n\n".join(blocks) + "\n"


def _wrapped(text: str, indent: int) -> str:
    """Return a paragraph in lines that fit the source, indented."""
    lines = textwrap.wrap(" ".join(text.split()), WIDTH - 4 - indent, break_long_words=False, break_on_hyphens=False)
    return textwrap.indent("\n".join(lines), " " * indent)
