"""The names that packages export: every registered part, and the estimators of the strategies."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from driftsurf import registry
from tools.generate import estimators

__all__ = ["PACKAGES", "with_exports"]

PACKAGES = (
    "driftsurf.strategies",
    "driftsurf.learners",
    "driftsurf.detectors",
    "driftsurf.streams",
    "driftsurf.estimators",
)
KINDS: dict[str, registry.Kind] = {
    "driftsurf.strategies": "strategy",
    "driftsurf.learners": "learner",
    "driftsurf.detectors": "detector",
    "driftsurf.streams": "stream",
}
EXTRA: dict[str, dict[str, tuple[str, ...]]] = {
    "driftsurf.strategies": {
        "driftsurf.strategies._pool": ("DEFAULT_MAX_ROWS", "BudgetRule"),
        "driftsurf.strategies._single": ("SingleModel",),
        "driftsurf.strategies._votes": ("row_errors",),
        "driftsurf.strategies.driftsurf": ("Judge", "ThresholdUnit", "Variant"),
    },
    "driftsurf.learners": {"driftsurf.learners.logistic": ("paper_learner",)},
    "driftsurf.streams": {
        "driftsurf.streams.arrays": ("ArrayStream",),
        "driftsurf.streams.base": ("Drift", "Stream"),
        "driftsurf.streams.inject": ("change_prior", "mix", "rotate", "shift_features", "swap_labels"),
    },
    "driftsurf.estimators": {
        "driftsurf.estimators.base": ("AdaptiveClassifier", "AdaptiveEstimator", "AdaptiveRegressor"),
        "driftsurf.estimators.classes": ("estimator_class",),
        "driftsurf.estimators.presets": ("paper", "recommended"),
    },
}
"""Exported names that are not registered parts, by module."""
BASELINES = "driftsurf.reproduction.strategies"
"""Package of strategies that :mod:`driftsurf.strategies` exports, too."""
STUB = "driftsurf.estimators._made"
"""Module of which there are types only: its classes are made at run time."""
FIND = '''
def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
'''
FIND_ESTIMATORS = FIND.replace(
    '''when it is first used."""''',
    '''when it is first used; an estimator without source is made from its strategy."""''',
).replace(
    "    raise",
    """    if not name.startswith("_"):
        from driftsurf.estimators.classes import find_estimator

        found = find_estimator(name)
        if found is not None:
            return found
    raise""",
)


def with_exports(package: str, source: str) -> str:
    """Return the source of a package's ``__init__`` with its own docstring and generated exports."""
    docstring = ast.get_docstring(ast.parse(source), clean=False)
    homes = _homes(package)
    head = f'"""{docstring}"""\n\n# The rest of this file is made by `make generate`: do not edit.\n'
    return head + _lazy(homes, FIND_ESTIMATORS if package == "driftsurf.estimators" else FIND)


def _homes(package: str) -> dict[str, str]:
    """Return the module of every exported name."""
    homes = {name: module for module, names in EXTRA.get(package, {}).items() for name in names}
    if package in KINDS:
        for entry in registry.entries(KINDS[package]):
            if str(entry.part.__module__).rpartition(".")[0] in (package, BASELINES):
                homes[entry.part.__name__] = entry.part.__module__
        return homes
    for entry in estimators.entries():
        own = f"driftsurf.estimators.generated.{str(entry.part.__module__).rpartition('.')[2]}"
        module = own if entry.name in estimators.MAIN else STUB
        homes |= dict.fromkeys(estimators.class_names(entry).values(), module)
    return homes


def _lazy(homes: dict[str, str], find: str) -> str:
    lines = "\n".join(f"    {line}" for line in _imports(homes).splitlines())
    imported = {name: module for name, module in homes.items() if module != STUB}
    return (
        "from __future__ import annotations\n\nfrom importlib import import_module\n"
        f"from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n{lines}\nelse:\n    from typing import Any\n\n"
        f"__all__ = {sorted(homes)!r}\n\n_HOMES = {dict(sorted(imported.items()))!r}\n\nif not TYPE_CHECKING:\n"
        + "\n".join(f"    {line}" if line else "" for line in find.splitlines())
        + "\n"
    )


def _imports(homes: dict[str, str]) -> str:
    modules: dict[str, list[str]] = {}
    for name, module in homes.items():
        modules.setdefault(module, []).append(name)
    return "\n".join(_import(module, names) for module, names in sorted(modules.items()))


def _import(module: str, names: Iterable[str]) -> str:
    return f"from {module} import {', '.join(sorted(names))}"
