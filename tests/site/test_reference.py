"""Every page of the Python API has an example that runs as it stands on the page."""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
import re
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pytest

API = Path(__file__).parents[2] / "docs" / "api.md"
SOURCE = API.parents[1] / "src" / "driftsurf"
NAMES = re.findall(r"^   (driftsurf\.[\w.]+)$", API.read_text(encoding="utf-8"), re.M)


def test_the_reference_lists_the_public_names() -> None:
    assert len(NAMES) == len(set(NAMES)) > 150


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_an_example_that_is_executed_and_complete(name: str) -> None:
    module, _, own = name.rpartition(".")
    text = inspect.getdoc(getattr(import_module(module), own)) or ""
    _, heading, section = text.partition("Examples\n--------\n")
    examples = doctest.DocTestParser().get_examples(section)
    assert heading, "the docstring has no Examples section"
    assert examples
    assert not any(doctest.SKIP in example.options for example in examples)
    trees = [ast.parse(example.source) for example in examples]
    used = {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)}
    missing = used - {own, *dir(builtins)}.union(*map(_defined, trees))
    assert not missing, "a reader who copies the example lacks these imports"


def test_docstrings_refer_to_names_that_exist() -> None:
    role = re.compile(r":(?:class|func|mod|meth|data|attr|exc|obj):`~?(driftsurf[\w.]*)`")
    named = {name for path in SOURCE.rglob("*.py") for name in role.findall(path.read_text(encoding="utf-8"))}
    assert len(named) > 50
    assert [name for name in sorted(named) if not _exists(name)] == []
    assert not _exists("driftsurf.learners.Forgotten")


def _exists(name: str) -> bool:
    """Return whether a name can be found; one behind a package that is not installed counts as found."""
    try:
        resolve_name(name)
    except ModuleNotFoundError as error:
        return not (error.name or "").startswith("driftsurf")
    except AttributeError:
        return False
    return True


def _defined(tree: ast.AST) -> set[str]:
    """Return the names that code assigns, imports or defines."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {one.asname or one.name.partition(".")[0] for one in node.names}
    return found
