"""Output of ``driftsurf inspect``: what a saved model or a folder of checkpoints holds."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from driftsurf.core import files
from driftsurf.core.contracts import Pickled
from driftsurf.core.state import digest, peek, read_header
from driftsurf.core.wording import significant
from driftsurf.errors import DriftsurfError, StateError, StateWarning
from driftsurf.evaluation.summary import mean_error_of
from driftsurf.report.terminal import console
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.explanation.records import newest_head, pinned, read_run
from driftsurf.runs.folder import SERVED_CHECKPOINTS


def print_saved_state(path: Path) -> None:
    """Print what is saved at ``path``; raise StateError if it is damaged or not a saved state."""
    if files.is_folder(path):
        _print_folder(path)
    else:
        _print_file(path)


def _print_file(path: Path) -> None:
    data = files.read_bytes(path)
    try:
        header, state = read_header(data), peek(data)
    except StateError as error:
        raise type(error)(f"{path} cannot be read: {error}") from error
    screen = console()
    fleet = "Fleet" if "fleet" in state else "state"
    kind = state.get("estimator") or state.get("object") or state.get("kind") or fleet
    screen.print(f"{path}: {kind}, written by driftsurf {header.writer} in format {header.format}")
    screen.print(f"{len(data):,} bytes, of which {header.size:,} in arrays; intact, SHA-256 {digest(data)}")
    if header.pickle:
        screen.print("contains pickles: loading it runs code and needs trust_pickle=True (inspect unpickles nothing)")
    _print_entries(state)


def _print_folder(path: Path) -> None:
    folder = CheckpointFolder(path)
    numbers = folder.generations()
    if not numbers and CheckpointFolder(path / SERVED_CHECKPOINTS).generations():
        _print_folder(path / SERVED_CHECKPOINTS)
        return
    if not numbers:
        remedy = "pass a saved model, the folder that a run has as --checkpoint, or that of a served model"
        if (path / "journal.jsonl").exists():
            remedy = f"what was decided there is shown by: driftsurf explain {path}"
        raise StateError(f"{str(path)!r} has no checkpoints; {remedy}")
    screen = console()
    held = f"in use by {files.holder(path) or 'a process'}" if files.is_held(path) else "not in use"
    for line in _headline(path):
        screen.print(line)
    screen.print(f"{path}: {len(numbers)} checkpoints; {held}")
    newest: Mapping[str, Any] = {}
    damaged, usable = list[int](), 0
    for number in numbers:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", StateWarning)
                found = folder.load(number)
        except StateError as error:
            screen.print(f"  checkpoint {number}: damaged: {error.__cause__ or error}")
            damaged.append(number)
            continue
        assert found is not None
        newest, usable = found.state, number
        grown = ", ".join(f"{name} {size:,} bytes" for name, (size, _) in found.outputs.items())
        done = ", finished" if newest.get("done") is True else ""
        screen.print(f"  checkpoint {number}: intact; step {newest.get('step')}{done}; {grown}")
    if newest:
        _print_entries({name: value for name, value in newest.items() if name.count(".") < 2})
    parts = Counter(".".join(name.split(".")[:2]) for name in newest if name.count(".") > 1)
    if parts:
        counts = ", ".join(f"{count} of {name}" for name, count in parts.items())
        screen.print(f"entries not shown: {counts}")
    if damaged:
        rest = f"the newest intact one is {usable}" if newest else "none can be used"
        raise StateError(f"{path}: {len(damaged)} of {len(numbers)} checkpoints are damaged; {rest}")


def _headline(path: Path) -> Iterator[str]:
    """Yield one line about the progress of the run in this folder, if it can be read."""
    try:
        record, head = read_run(path), newest_head(path)
    except (DriftsurfError, OSError):
        return
    run = None if record.trace is None else record.trace.of(record.trace.models[0])
    model = "" if record.trace is None else record.trace.models[0]
    made = [head.get(f"models.{model}.strategy.strategy"), record.about.get("learner")]
    facts = [f"{head.get('rows', 0):,} rows in {head.get('step', 0):,} steps"]
    if run is not None and record.trace is not None:
        name, mean = mean_error_of(record.trace, model)
        facts += [f"{run['state'][-1]} state", f"{name} {significant(mean)}"]
    facts += ["finished" if head.get("done") is True else "not finished"]
    spans = pinned(record.orders)
    since = f" from step {spans[-1][0]}" if spans else ""
    facts += [f"pinned{since} (not learning)"] if head.get("pinned") is True else []
    facts += [f"orders waiting: {', '.join(record.waiting)}"] if record.waiting else []
    yield f"{' with '.join(name for name in made if isinstance(name, str)) or 'A run'}: {', '.join(facts)}"


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
