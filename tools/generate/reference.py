"""Pages of reference: the names of the Python interface for Sphinx, and the addresses of the service."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from driftsurf.service.http.openapi import openapi
from driftsurf.service.http.problems import KINDS

__all__ = ["addresses", "api", "problems", "types"]

MODULES = {
    "": "Start here",
    "estimators": "Estimators",
    "learners": "Learners",
    "learners.foreign": "Models of other libraries",
    "strategies": "Strategies",
    "detectors": "Detectors",
    "streams": "Streams",
    "evaluation": "Evaluation",
    "keyed": "Many keys",
    "data": "Sources of rows",
    "runs": "Runs",
    "session": "Sessions",
    "saving": "Saving",
    "client": "Client of the service",
    "checks": "Checks for your own parts",
    "registry": "Registering your own parts",
    "core.contracts": "Contracts of parts, and values that pass between them",
    "core.drifts": "Drifts",
    "core.decisions": "Decisions of strategies",
    "core.views": "Tables of transitions and experts",
    "core.samples": "The store of rows",
    "core.state": "Parts of a saved state",
    "core.options": "Checks of options",
    "errors": "Errors and warnings",
}
"""Modules of the public interface and the headings of their lists."""
CHOSEN = {"core.state": ("nest", "pick"), "core.options": ("choice", "number", "whole")}
"""Modules of which only some names are for authors of parts."""


def api() -> str:
    """Return one list of names for each public module; Sphinx makes a page for every name from its docstring."""
    lists = []
    listed: list[object] = []  # a class that two modules name has one page
    for module, title in MODULES.items():
        name = f"driftsurf.{module}".rstrip(".")
        found = import_module(name)
        values = {one: getattr(found, one) for one in sorted(CHOSEN.get(module) or found.__all__, key=str.lower)}
        public = [one for one, value in values.items() if _has_page(value) and value not in listed]
        listed += values.values()
        lines = ["```{eval-rst}", ".. autosummary::", "   :toctree: api", "   :nosignatures:", ""]
        lines += [f"   {name}.{one}" for one in public]
        lists.append("\n".join([f"## {title}", "", f"`{name}`", "", *lines, "```"]))
    return "\n\n".join(lists)


def _has_page(value: object) -> bool:
    return inspect.isclass(value) or inspect.isfunction(value)


def addresses() -> str:
    """Return every address of the service with its parameters, its body and the type of its answer.

    ``{name}`` in an address is the name of a model.
    """
    sections = []
    for path, methods in openapi()["paths"].items():
        for method, operation in methods.items():
            text = [f"### {method.upper()} {path}", "", " ".join(_sentences(operation)), *_parameters(operation)]
            sections.append("\n".join([*text, *_body(operation), *_answer(operation)]))
    return "\n\n".join(sections)


def _sentences(operation: Mapping[str, Any]) -> Iterator[str]:
    yield operation["summary"]
    if "description" in operation:
        yield operation["description"]


def _parameters(operation: Mapping[str, Any]) -> list[str]:
    rows = [
        f"| `{one['name']}` | {one['in']} | {_kind(one['schema'])} | {one['description']} |"
        for one in operation.get("parameters", ())
        if one["in"] != "path"
    ]
    return ["", "| parameter | in | value | meaning |", "|---|---|---|---|", *rows] if rows else []


def _body(operation: Mapping[str, Any]) -> list[str]:
    content = operation.get("requestBody", {}).get("content", {})
    if not content:
        return []
    kinds = ", ".join(f"`{media}`" for media in content)
    first: Mapping[str, Any] = next(iter(content.values()))
    lines = ["", f"Body: {kinds}; {_kind(first['schema'])}."]
    return [*lines, "", "```json", json.dumps(first["example"]), "```"] if "example" in first else lines


def _answer(operation: Mapping[str, Any]) -> list[str]:
    content = operation["responses"]["200"]["content"]
    first, *others = (f"`{media}`" for media in content)
    kind = _kind(next(iter(content.values()))["schema"])
    return ["", f"Answer: {first}, {kind}{'; or ' if others else ''}{', '.join(others)}."]


def types() -> str:
    """Return the fields of every type that the addresses take or answer."""
    sections = []
    for name, schema in sorted(openapi()["components"]["schemas"].items()):
        needed = schema.get("required", ())
        rows = [
            f"| `{field}` | {_kind(one)} | {'yes' if field in needed else 'no'} |"
            for field, one in schema.get("properties", {}).items()
        ]
        sections.append("\n".join([f"### {name}", "", "| field | value | always there |", "|---|---|---|", *rows]))
    return "\n\n".join(sections)


def problems() -> str:
    """Return the kinds of problems with their HTTP status."""
    rows = [f"| `{kind}` | {status} | {title} |" for kind, (status, title) in KINDS.items()]
    return "\n".join(["| kind | status | meaning |", "|---|---|---|", *rows])


def _kind(schema: Mapping[str, Any]) -> str:
    """Return a JSON schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array" and "items" in schema and schema["items"] is not False:
        return f"array of {_kind(schema['items'])}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {_kind(schema['additionalProperties'])}"
    if kind == "object" and schema.get("properties"):
        return "object with " + ", ".join(f"`{name}`" for name in schema["properties"])
    return str(kind)
