"""What was run: source, label, model, settings, version, and a command that repeats it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from driftsurf.core.options import OptionField
from driftsurf.data.reading_options import FRAME
from driftsurf.errors.visible import escape, safe_address
from driftsurf.report import html
from driftsurf.report.sections import RunView, section
from driftsurf.runs.options import GROUPS, MAX_PENDING, NAMED_PARAMETERS

DEFAULTS = {"max_pending": MAX_PENDING}
"""Values that ``run.json`` holds where an option was not given."""


@section("What was run", 100)
def run_settings(run: RunView) -> Iterator[str]:
    """Return the table and the command; nothing if it is not known what was run."""
    listed = settings(run.about, run.trace.stream, len(run.trace.labels))
    if not listed:
        return
    lines = "".join(f'<tr><th scope="row">{escape(word)}</th><td>{escape(text)}</td></tr>' for word, text in listed)
    yield f'<div class="wide"><table class="settings">{lines}</table></div>'
    served = "This command runs the same model over the rows of the log, as far as they are stored:"
    command = command_line(run.about, run.trace.stream)
    if command:
        yield html.note(served if run.about.get("served") else "This command repeats the run:")
        yield f'<pre class="command"><code>{escape(command)}</code></pre>'


def settings(about: Mapping[str, Any], name: str, n_classes: int = 0) -> list[tuple[str, str]]:
    """Return what was run as pairs of a word and a text: source, label, model, learner, settings, version.

    ``name`` is the name of the source, for a built-in stream, and ``n_classes`` the number of classes at the end.
    """
    if not about:
        return []
    made, given = about.get("made", {}), dict(_given(about))
    found = {"source": safe_address(str(about["source"])) if "source" in about else str(about.get("stream", name))}
    if about.get("source") == FRAME:
        found["source"] = "a frame in memory"
    if "decided" in about:
        target = json.loads(about["decided"]["target"])
        found |= {"label": str(about.get("label") or target["column"]), "task": str(target["task"])}
        if target["task"] == "binary" and n_classes > 2:
            found["task"] = "multiclass (binary in the first batch)"
    found |= {"model": str(about.get("model", name if "decided" in about else "driftsurf"))}
    found |= {word: str(made[word]) for word in ("strategy", "learner") if word in made}
    for word in ("learner", "strategy"):
        if isinstance(about.get(word), Mapping):  # a built-in stream, with every parameter
            found[f"parameters of the {word}"] = _listed(about[word])
    others = {one.flag or name: value for name, (one, value) in given.items() if name not in ("label", "model")}
    found["settings"] = _listed(others) if others else "all have their defaults"
    found["seed"] = str(about.get("seed", 0))
    found["driftsurf"] = f"version {about.get('driftsurf', 'unknown')}"
    return list(found.items())


def command_line(about: Mapping[str, Any], name: str) -> str:
    """Return a command that repeats the run; empty if what was run is not known, or if its rows came from a frame.

    >>> command_line({"source": "sales.csv", "label": "sold yet", "drop": ["id"], "seed": 3}, "sales")
    "driftsurf run sales.csv --label 'sold yet' --drop id --seed 3"
    """
    if not about or about.get("source") == FRAME:
        return ""
    words = ["driftsurf", "run", safe_address(str(about.get("source", about.get("name", name))))]
    for _, (one, value) in _given(about):
        words += _words(one, value)
    return shlex.join(words)


def _given(about: Mapping[str, Any]) -> Iterator[tuple[str, tuple[OptionField, Any]]]:
    """Yield the options that were given, in the order of the documentation."""
    recorded = about.get("given", about)
    named = recorded.get("parameters") or {}
    for group in GROUPS:
        for name, one in group.fields.items():
            value = named.get(name, recorded.get(name)) if name in NAMED_PARAMETERS else recorded.get(name)
            if name == "parameters":
                value = {key: other for key, other in named.items() if key not in NAMED_PARAMETERS}
            default = list(one.default) if isinstance(one.default, tuple) else one.default
            unset = value is None or value in ([], {}) or value in (default, DEFAULTS.get(name))
            if one.flag is not None and not unset:
                yield name, (one, safe_address(value) if isinstance(value, str) else value)


def _words(one: OptionField, value: Any) -> list[str]:
    """Return an option as words of a command."""
    assert one.flag is not None
    if isinstance(value, bool):
        return [one.flag if value else one.flag.replace("--", "--no-", 1)]
    if isinstance(value, Mapping):
        return [word for key, other in value.items() for word in (one.flag, f"{key}={other}")]
    if one.commas:
        return [one.flag, ",".join(map(str, value))]
    if isinstance(value, list | tuple):
        return [word for other in value for word in (one.flag, str(other))]
    return [one.flag, str(int(value) if isinstance(value, float) and value.is_integer() else value)]


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {json.dumps(value) if isinstance(value, list | dict) else value}" for name, value in values.items()
    )
