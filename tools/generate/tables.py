"""Documentation tables: strategies, detectors, learners, estimators, what works with what, options of keyed runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from driftsurf import registry
from driftsurf.checks import matrix
from driftsurf.core.contracts import Capabilities
from driftsurf.core.options import option_fields
from driftsurf.keyed import EngineOptions, KeyedOptions
from tools.generate import estimators, reference

__all__ = ["pages", "with_blocks"]

TASKS = {"binary": "two classes", "multiclass": "more classes", "regression": "regression"}


def pages() -> dict[str, dict[str, str]]:
    """Return the generated blocks of every page, by page and by the name of the block."""
    return {
        "docs/algorithms.md": {"strategies": _strategies(), "detectors": _detectors()},
        "docs/learners.md": {"learners": _learners()},
        "docs/ecosystems.md": {"estimators": _estimators(), "matrix": matrix.table()},
        "docs/keyed-options.md": {"options": _keyed_options()},
        "docs/api.md": {"api": reference.api()},
        "docs/http-api.md": {
            "addresses": reference.addresses(),
            "problems": reference.problems(),
            "types": reference.types(),
        },
    }


def with_blocks(page: str, blocks: dict[str, str], name: str) -> str:
    """Return a page with the text between the marks of each block replaced."""
    for block, text in blocks.items():
        begin, end = f"<!-- generated: {block} -->\n", f"<!-- end of {block} -->"
        if begin not in page or end not in page:
            raise ValueError(f"{name} has no block {begin.strip()} ... {end}")
        before, rest = page.split(begin, 1)
        page = f"{before}{begin}\n{text}\n\n{end}{rest.split(end, 1)[1]}"
    return page


def _own(kind: registry.Kind) -> list[registry.Entry]:
    """Return the entries of this package."""
    return [entry for entry in registry.entries(kind) if str(entry.part.__module__).startswith("driftsurf.")]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" if cells[0] != "---" else f"|{'|'.join(cells)}|" for cells in lines)


def _described(entry: registry.Entry) -> str:
    """Return the first sentence of a docstring as a cell."""
    return entry.summary.rstrip(":,.").replace("|", "\\|").replace("``", "`") + "."


def _strategies() -> str:
    rows = []
    for entry in _own("strategy"):
        tasks = "any" if entry.tasks == registry.ALL_TASKS else "classes"
        needs = ", ".join(f"`{name}`" for name in sorted(entry.needs)) or "-"
        rows.append([f"`{entry.name}`", f"`{entry.part.__name__}`", tasks, needs, _described(entry)])
    return _table(["name", "class in `driftsurf.strategies`", "tasks", "needs", "method"], rows)


def _detectors() -> str:
    rows = []
    for entry in _own("detector"):
        options = ", ".join(f"{name}={value!r}" for name, value in entry.options.items())
        rows.append([f"`{entry.name}`", f"`{entry.part.__name__}({options})`", _described(entry)])
    return _table(["name", "class in `driftsurf.detectors`", "method"], rows)


def _learners() -> str:
    rows = []
    for entry in _own("learner"):
        for example in entry.examples:
            can: Capabilities = entry.make(**example.options).capabilities
            options = ", ".join(f"{name}={value!r}" for name, value in example.options.items())
            rows.append(
                [
                    f"`{entry.name}`",
                    f"`{entry.part.__name__}({options})`",
                    ", ".join(title for task, title in TASKS.items() if task in can.tasks),
                    *(_yes(value) for value in (can.sparse, can.weights, can.grows_classes, can.probabilities)),
                    f"yes, as {can.state_kind}" if can.exact_state else "no",
                    "prequential" if can.can_memorise or can.regression else "training",
                ]
            )
    heads = ["name", "learner", "tasks", "sparse rows", "weights", "classes may grow", "probabilities", "exact state"]
    return _table([*heads, "judge by default"], rows)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _estimators() -> str:
    rows = []
    for entry in _own("strategy"):
        names = estimators.class_names(entry)
        cells = [f"`{names[suffix]}`" if suffix in names else "-" for suffix in ("Classifier", "Regressor")]
        rows.append([f"`{entry.name}`", *cells])
    return _table(["strategy", "classifier", "regressor"], rows)


def _keyed_options() -> str:
    every = [*option_fields(KeyedOptions).values(), *option_fields(EngineOptions).values()]
    defaults = ["" if one.default in ((), {}, None) else f"`{one.default}`" for one in every]
    rows = [(f"`{one.name}`", default, one.help) for one, default in zip(every, defaults, strict=True)]
    return _table(["option", "default", "meaning"], rows)
