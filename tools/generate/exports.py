"""Stubs of packages with the names that they export: every registered part, and the estimators of the strategies."""

from __future__ import annotations

from driftsurf import registry
from tools.generate import estimators

__all__ = ["PACKAGES", "stub"]

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
        "driftsurf.streams.base": ("Drift", "DriftSpan", "Stream"),
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


def stub(package: str) -> str:
    """Return the source of a package's ``__init__.pyi``, by which :mod:`driftsurf.core.exports` finds names."""
    modules: dict[str, list[str]] = {}
    for name, module in _homes(package).items():
        modules.setdefault(module, []).append(f"{name} as {name}")
    imports = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(modules.items())]
    return "\n".join(["# Made by `make generate`: do not edit.", *imports, "__all__: list[str]"])


def _homes(package: str) -> dict[str, str]:
    """Return the module of every exported name."""
    homes = {name: module for module, names in EXTRA.get(package, {}).items() for name in names}
    if package in KINDS:
        for entry in registry.entries(KINDS[package]):
            if str(entry.part.__module__).rpartition(".")[0] in (package, BASELINES):
                homes[entry.part.__name__] = entry.part.__module__
        return homes
    for entry in estimators.entries():
        homes |= dict.fromkeys(estimators.class_names(entry).values(), "driftsurf.estimators._made")
    return homes
