"""The index of the registry: which module registers which part of this package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from driftsurf import registry
from driftsurf.registry import index as registry_index

__all__ = ["index", "refresh"]

CONNECTORS = "driftsurf.connectors", "driftsurf.connectors.nats", "driftsurf.connectors.postgresql"
HOMES: Mapping[registry.Kind, tuple[str, ...]] = {
    "strategy": ("driftsurf.strategies", "driftsurf.reproduction.strategies"),
    "learner": ("driftsurf.learners", "driftsurf.learners.foreign"),
    "detector": ("driftsurf.detectors",),
    "stream": ("driftsurf.streams", "driftsurf.data.datasets"),
    "format": ("driftsurf.data.formats",),
    "source": ("driftsurf.data.sources", *CONNECTORS, "driftsurf.service.log_source"),
    "sink": ("driftsurf.runs.sinks", *CONNECTORS),
    "log": CONNECTORS,
    "engine": ("driftsurf.keyed.local", "driftsurf.spark.engine"),
    "page": (
        *("driftsurf.report.run_page", "driftsurf.report.keys", "driftsurf.report.model_page"),
        *("driftsurf.report.notebook", "driftsurf.runs.explanation.explain"),
    ),
}
"""The packages whose public modules register parts, or single modules. A "page" is registered so that a lower layer,
such as a run or an estimator, can show itself. Sections of a page are not parts: see
:mod:`driftsurf.report.sections`."""
INDEX = '''"""Which module registers which part of this package, so that asking for one imports no other.

This file is made by `make generate`: do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["DEFAULTS", "MARKS", "OPENS", "PARTS"]

PARTS: Mapping[str, Mapping[str, str]] = {parts!r}
"""Module and class of each part, by kind and name."""
DEFAULTS: Mapping[str, Mapping[str, str]] = {defaults!r}
"""Name of the part to use for a task when no name is given, by kind and task."""
MARKS: Mapping[str, Mapping[str, str]] = {marks!r}
"""Name of the part to which an ending of files or a scheme of addresses belongs, by kind."""
OPENS: Mapping[str, Mapping[str, str]] = {opens!r}
"""Module and function that tell whether a part opens a location without a scheme, by kind and name of the part."""
'''
MARKED: tuple[registry.Kind, ...] = "format", "source", "sink", "log"
"""Kinds of parts that endings and schemes belong to."""


def refresh() -> None:
    """Import every part, also those that are not in the index yet, and let the registry know where they are."""
    for homes in HOMES.values():
        for home in homes:
            spec = importlib.import_module(home).__spec__
            for module in pkgutil.iter_modules((spec and spec.submodule_search_locations) or []):
                if not module.ispkg and not module.name.startswith("_"):
                    importlib.import_module(f"{home}.{module.name}")
    known: dict[str, dict[str, str]] = {kind: {} for kind in HOMES}
    for (kind, name), entry in sorted(registry._entries.items()):
        if entry.part.__module__.startswith("driftsurf."):
            known[kind][name] = f"{entry.part.__module__}:{entry.part.__qualname__}"
    vars(registry)["PARTS"] = vars(registry_index)["PARTS"] = known


def index() -> str:
    """Return the source of the index."""
    parts = registry_index.PARTS
    defaults: dict[str, dict[str, str]] = {}
    marks: dict[str, dict[str, str]] = {kind: {} for kind in MARKED}
    opens: dict[str, dict[str, str]] = {}
    for kind in HOMES:
        for entry in registry.entries(kind):
            if entry.name in parts[kind]:
                for task in sorted(entry.default_for):
                    defaults.setdefault(kind, {})[task] = entry.name
                if kind in MARKED:
                    marks[kind] |= dict.fromkeys(entry.marks, entry.name)
                if "opens" in entry.details:
                    function = entry.details["opens"]
                    opens.setdefault(kind, {})[entry.name] = f"{function.__module__}:{function.__qualname__}"
    made = {"{parts!r}": parts, "{defaults!r}": defaults, "{marks!r}": marks, "{opens!r}": opens}
    source = INDEX
    for place, value in made.items():
        source = source.replace(place, repr(value))
    return source
