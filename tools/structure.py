"""Count what the structure of ``src`` costs a reader: lines, files, repeated names, thin modules, loaded modules.

Run it from the root of the repository::

    python -m tools.structure            # print the table and the names behind its counts
    python -m tools.structure --check    # fail if a count is above its ceiling in tools/ceilings.toml
    python -m tools.structure --lower    # lower the ceilings to the counts; none is ever raised
    python -m tools.structure --write    # write the table and the walks of tools.walks into ARCHITECTURE.md

``--check`` and ``--lower`` include the walks, unless ``--fast`` leaves them out.
"""

from __future__ import annotations

import argparse
import ast
import collections
import io
import json
import re
import subprocess
import sys
import tempfile
import textwrap
import tokenize
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tools import walks
from tools.generate.tables import with_blocks

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "driftsurf"
CEILINGS = ROOT / "tools" / "ceilings.toml"
PAGE = ROOT / "ARCHITECTURE.md"
NATIVE = {".pyx", ".pxd", ".pxi", ".c", ".h", ".inc"}
THIN = 45
"""A module with at most this many lines of code is thin."""
MANY = 10
"""A function name is repeated if more than this many independent definitions share it."""
PARTS = (
    "connectors",
    "data/formats",
    "detectors",
    "errors",
    "learners",
    "report/sections",
    "reproduction/strategies",
    "runs/sinks",
    "strategies",
    "streams",
)
"""Packages with one part in each file, where a module may be as thin as its part."""
SHOWN = {
    "array": "A batch through `test_then_train`",
    "csv row": "A row of a file through `driftsurf run`",
    "request answered": "A learn request to its answer",
    "keyed row": "A row of a keyed run",
}
"""The walks that ARCHITECTURE.md shows, with their titles."""
WIDTH, LINES = 190, 6
"""Size of a walk in ARCHITECTURE.md."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Module:
    """A Python file: its syntax tree, lines of code, and those that only import or export."""

    def __init__(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        self.name = path.relative_to(SOURCE).as_posix()
        self.lines = text.count("\n")
        self.tree = ast.parse(text)
        comments = {
            tokenize.COMMENT,
            tokenize.NL,
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.ENDMARKER,
        }
        self.code = {
            line
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type not in comments
            for line in range(token.start[0], token.end[0] + 1)
        }
        self.code -= {line for text in _texts(self.tree) for line in range(text.lineno, _end(text) + 1)}
        self.wiring = self.code & {
            line
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Import | ast.ImportFrom | ast.Assign) and _is_wiring(node)
            for line in range(node.lineno, _end(node) + 1)
        }

    @property
    def thin(self) -> bool:
        """True if a reader opens this file for little, and no package asks for a file for each part."""
        inside = any(self.name.startswith(f"{package}/") for package in PARTS)
        return 0 < len(self.code) <= THIN and not inside and not self.name.endswith(("__init__.py", "__main__.py"))


def _texts(tree: ast.Module) -> Iterator[ast.Expr]:
    """Yield docstrings, and the texts that describe attributes."""
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                yield child


def _is_wiring(node: ast.Import | ast.ImportFrom | ast.Assign) -> bool:
    """Return whether a statement imports or exports names."""
    return not isinstance(node, ast.Assign) or ast.unparse(node.targets[0]) == "__all__"


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def repeated_classes(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Return the class names that are defined more than once, with the files that define them."""
    places = collections.defaultdict(list)
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.name)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def repeated_functions(modules: Iterable[Module]) -> dict[str, int]:
    """Return the public function names with more than MANY independent definitions, and how many each has.

    A method that overrides one of a base class is the same function. So is a method of a protocol of two or more that
    a class has completely.
    """
    classes: dict[str, tuple[set[str], set[str]]] = {}
    functions: collections.Counter[str] = collections.Counter()
    for module in modules:
        functions.update(one.name for one in module.tree.body if isinstance(one, FUNCTIONS))
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
                names = {one.name for one in node.body if isinstance(one, FUNCTIONS)}
                classes[f"{module.name}:{node.name}"] = (names, bases)
    by_name = collections.defaultdict(list)
    for place in classes:
        by_name[place.rpartition(":")[2]].append(place)
    contracts = [names for names, bases in classes.values() if "Protocol" in bases and len(names) > 1]

    def inherited(place: str, seen: frozenset[str] = frozenset()) -> set[str]:
        found: set[str] = set()
        for base in classes[place][1] - seen:
            for parent in by_name[base]:
                found |= classes[parent][0] | inherited(parent, seen | {base})
        for contract in contracts:
            if contract < classes[place][0]:
                found |= contract
        return found

    for place, (names, _) in classes.items():
        functions.update(names - inherited(place))
    return {name: count for name, count in functions.most_common() if count > MANY and not name.startswith("_")}


def loaded(program: str) -> list[str]:
    """Return the modules of the library that a program loads, and "open" for each time that it opens ``small.csv``."""
    counted = """
import json, sys
opened = []
def hook(event, given):
    if event == "open" and str(given[0]).endswith("small.csv"):
        opened.append(given[0])
sys.addaudithook(hook)
{program}
names = sorted(name for name in sys.modules if name.split(".")[0] == "driftsurf")
sys.stderr.write("\\n" + json.dumps([names, len(opened)]))
"""
    source = counted.replace("{program}", program)
    with tempfile.TemporaryDirectory() as folder:
        rows = "".join(f"{place % 7},{place % 3},{'yes' if place % 7 > 3 else 'no'}\n" for place in range(2_000))
        Path(folder, "small.csv").write_text("a,b,label\n" + rows)
        done = subprocess.run([sys.executable, "-c", source], cwd=folder, capture_output=True, text=True, check=True)
    names, opened = json.loads(done.stderr.rpartition("\n")[2])
    return [*names, *["open"] * opened]


RUN = """
from driftsurf.cli import main
main(["run", "small.csv", "--label", "label", "--out", "out"], standalone_mode=False)
"""
FIRST_FIT = """
from driftsurf import DriftSurfClassifier
DriftSurfClassifier().partial_fit([[0.0], [1.0]], [0, 1])
"""


def layers() -> int:
    """Return how many layers the import rules of pyproject.toml have."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    return sum(len(rule["layers"]) for rule in rules if rule["type"] == "layers")


def counts(modules: list[Module]) -> dict[str, float]:
    """Return every count of the structure, by its name in tools/ceilings.toml."""
    native = [path for path in SOURCE.rglob("*") if path.suffix in NATIVE]
    code = sum(len(module.code) for module in modules)
    run = loaded(RUN)
    return {
        "lines": sum(module.lines for module in modules) + sum(path.read_bytes().count(b"\n") for path in native),
        "native lines": sum(path.read_bytes().count(b"\n") for path in native),
        "python files": len(modules),
        "lines of code": code,
        "percent of imports and exports": round(100 * sum(len(module.wiring) for module in modules) / code, 1),
        "repeated class names": len(repeated_classes(modules)),
        "repeated function names": len(repeated_functions(modules)),
        "thin modules": sum(module.thin for module in modules),
        "modules loaded by a run": sum(name != "open" for name in run),
        "modules loaded by a first fit": len(loaded(FIRST_FIT)),
        "openings of a small file": run.count("open"),
        "layers": layers(),
    }


LABELS = {
    "lines": "lines of the package, Python and native",
    "native lines": "of these native",
    "python files": "Python files",
    "lines of code": "lines of Python code, without docstrings and comments",
    "percent of imports and exports": "of these imports and lists of exports, in percent",
    "repeated class names": "class names used more than once",
    "repeated function names": f"function names with more than {MANY} independent definitions",
    "thin modules": f"modules of at most {THIN} lines of code, outside packages with one part in each file",
    "modules loaded by a run": "modules loaded by `driftsurf run`",
    "modules loaded by a first fit": "modules loaded by a first `partial_fit`",
    "openings of a small file": "times that a run opens a small CSV file",
    "layers": "layers",
}


def table(found: Mapping[str, float], ways: Mapping[str, list[str]]) -> str:
    """Return the counts, and the modules of every walk, as Markdown."""
    rows = [(LABELS[name], f"{count:,}") for name, count in found.items()]
    rows += [(f"modules entered: {name}", str(len(modules))) for name, modules in ways.items()]
    return "\n".join(["| | count |", "|---|---:|", *(f"| {label} | {count} |" for label, count in rows)])


def walk(modules: list[str]) -> str:
    """Return a walk in at most LINES lines; modules of one package that follow each other share its name.

    >>> walk(["session/session.py", "session/guard.py", "saving.py"])
    '```text\\nsession/{session, guard} > saving\\n```'
    """
    groups: list[tuple[str, list[str]]] = []
    for module in modules:
        package, _, name = module.removesuffix(".py").rpartition("/")
        if not groups or groups[-1][0] != package:
            groups.append((package, []))
        groups[-1][1].append(name)
    texts = [
        (f"{package}/" if package else "") + (names[0] if len(names) == 1 else "{" + ", ".join(names) + "}")
        for package, names in groups
    ]
    lines = textwrap.wrap(" > ".join(texts), WIDTH, break_long_words=False, break_on_hyphens=False)
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], "..."]
    return "\n".join(["```text", *lines, "```"])


def above(found: Mapping[str, float], ceilings: Mapping[str, float]) -> list[str]:
    """Return a sentence for each count above its ceiling; a count without a ceiling is an error.

    >>> above({"lines": 12, "layers": 3}, {"lines": 10, "layers": 3})
    ['lines: 12, more than 10']
    """
    return [
        f"{name}: {count:,}, more than {ceilings[name]:,}" for name, count in found.items() if count > ceilings[name]
    ]


def lowered(text: str, found: Mapping[str, float]) -> str:
    """Return the text of the ceilings with those above their counts lowered.

    >>> lowered('[structure]\\n"lines" = 12\\n"layers" = 3\\n', {"lines": 10, "layers": 4})
    '[structure]\\n"lines" = 10\\n"layers" = 3\\n'
    """
    for name, count in found.items():
        text = re.sub(
            rf'^("{re.escape(name)}" = )([\d._]+)',
            lambda line, count=count: f"{line[1]}{count}" if count < float(line[2]) else line[0],  # type: ignore[misc]
            text,
            flags=re.MULTILINE,
        )
    return text


def main(arguments: list[str] | None = None) -> int:
    """Print the counts, check them, lower the ceilings, or write ARCHITECTURE.md."""
    parser = argparse.ArgumentParser(prog="python -m tools.structure", description=(__doc__ or "").split("\n")[0])
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="fail if a count is above its ceiling")
    action.add_argument("--lower", action="store_true", help="lower the ceilings to the counts")
    action.add_argument("--write", action="store_true", help="write the table and the walks into ARCHITECTURE.md")
    parser.add_argument("--fast", action="store_true", help="leave out the walks")
    asked = parser.parse_args(arguments)
    modules = [Module(path) for path in sorted(SOURCE.rglob("*.py"))]
    found = counts(modules)
    ways = {} if asked.fast else walks.walks()
    numbers = found | {name: len(way) for name, way in ways.items()}
    if asked.write:
        blocks = {"structure": table(found, ways)} | {name: walk(ways[name]) for name in SHOWN if name in ways}
        PAGE.write_text(with_blocks(PAGE.read_text(encoding="utf-8"), blocks, PAGE.name), encoding="utf-8")
    elif asked.lower:
        CEILINGS.write_text(lowered(CEILINGS.read_text(encoding="utf-8"), numbers), encoding="utf-8")
    elif asked.check:
        ceilings = {
            name: count for part in tomllib.loads(CEILINGS.read_text()).values() for name, count in part.items()
        }
        failures = above(numbers, ceilings)
        print("\n".join(failures or ["Every count of the structure is within its ceiling."]))
        return int(bool(failures))
    else:
        print(table(found, ways), end="\n\n")
        print("Class names used more than once:", json.dumps(repeated_classes(modules), indent=1), sep="\n")
        print("Function names:", json.dumps(repeated_functions(modules)))
        print("Thin modules:", *(f"  {module.name} {len(module.code)}" for module in modules if module.thin), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
