"""What a saved model or a folder of checkpoints is, for a person."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from driftsurf.base import Pickled
from driftsurf.decisions import significant
from driftsurf.errors import DriftsurfError, StateError, StateWarning
from driftsurf.evaluation.records import newest_head, pinned, read_run
from driftsurf.evaluation.summary import mean_error_of
from driftsurf.report.terminal import console
from driftsurf.runtime import files
from driftsurf.runtime.checkpoint import CheckpointFolder
from driftsurf.state import digest, look, read_header

__all__ = ["print_what"]


def print_what(path: Path) -> None:
    """Print what there is at ``path``; StateError if it is no state, or damaged."""
    if files.is_folder(path):
        _print_folder(path)
    else:
        _print_file(path)


def _print_file(path: Path) -> None:
    data = files.read_bytes(path)
    header, state = read_header(data), look(data)
    screen = console()
    fleet = "Fleet" if "fleet" in state else "state"
    kind = state.get("estimator") or state.get("object") or state.get("kind") or fleet
    screen.print(f"{path}: {kind}, written by driftsurf {header.writer} in format {header.format}", markup=False)
    screen.print(f"{len(data):,} bytes, of which {header.size:,} in arrays; whole, SHA-256 {digest(data)}")
    if header.pickle:
        screen.print("with pickles: loading it runs code and needs trust_pickle=True; none was read here")
    _print_entries(state)


def _print_folder(path: Path) -> None:
    folder = CheckpointFolder(path)
    numbers = folder.generations()
    if not numbers:
        raise StateError(f"{path} has no checkpoints")
    screen = console()
    held = f"held by {files.holder(path) or 'a process'}" if files.is_held(path) else "no process holds it"
    for line in _headline(path):
        screen.print(line, markup=False)
    screen.print(f"{path}: {len(numbers)} checkpoints; {held}", markup=False)
    newest: Mapping[str, Any] = {}
    for number in numbers:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", StateWarning)
                found = folder.load(number)
        except StateError as error:
            screen.print(f"  checkpoint {number}: damaged: {error}", markup=False)
            continue
        assert found is not None
        newest = found.state
        grown = ", ".join(f"{name} {size:,} bytes" for name, (size, _) in found.outputs.items())
        done = ", at its end" if newest.get("done") is True else ""
        screen.print(f"  checkpoint {number}: whole; step {newest.get('step')}{done}; {grown}", markup=False)
    _print_entries({name: value for name, value in newest.items() if name.count(".") < 2})
    parts = Counter(".".join(name.split(".")[:2]) for name in newest if name.count(".") > 1)
    if parts:
        told = ", ".join(f"{count} of {name}" for name, count in parts.items())
        screen.print(f"and entries inside: {told}", markup=False)


def _headline(path: Path) -> Iterator[str]:
    """What runs there and how it is doing, as far as it can be read."""
    try:
        record, head = read_run(path), newest_head(path)
    except (DriftsurfError, OSError):
        return
    run = None if record.trace is None else record.trace.of(record.trace.models[0])
    model = "" if record.trace is None else record.trace.models[0]
    made = [head.get(f"models.{model}.strategy.strategy"), record.about.get("learner")]
    said = [f"{head.get('rows', 0):,} rows in {head.get('step', 0):,} steps"]
    if run is not None and record.trace is not None:
        name, mean = mean_error_of(record.trace, model)
        said += [f"{run['state'][-1]} state", f"{name} {significant(mean)}"]
    said += ["finished" if head.get("done") is True else "not finished"]
    spans = pinned(record.orders)
    since = f" from step {spans[-1][0]}" if spans else ""
    said += [f"pinned{since}: it learns nothing"] if head.get("pinned") is True else []
    said += [f"ordered: {', '.join(record.waiting)}"] if record.waiting else []
    yield f"{' with '.join(name for name in made if isinstance(name, str)) or 'A run'}: {', '.join(said)}"


def _print_entries(state: Mapping[str, Any]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("entry", "kind", "value"):
        table.add_column(column)
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            kind, shown = value.dtype.name, " x ".join(map(str, value.shape)) or "one"
        elif isinstance(value, Pickled):
            kind, shown = "pickle", f"{len(value.value):,} bytes of {value.owner}"
        else:
            kind, shown = type(value).__name__, json.dumps(value)
        table.add_row(name, kind, shown if len(shown) <= 60 else shown[:57] + "...")
    console().print(table)
