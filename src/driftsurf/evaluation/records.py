"""What a run has left on disk, finished or not: its journal, its trace, and what lies beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driftsurf.decisions import Decision
from driftsurf.errors import InputError, StateError
from driftsurf.evaluation.columns import ColumnMove, read_moves
from driftsurf.evaluation.trace import Trace
from driftsurf.journal import read_lines
from driftsurf.runtime import files
from driftsurf.runtime.checkpoint import HEAD, CheckpointFolder
from driftsurf.runtime.orders import waiting
from driftsurf.runtime.run import JOURNAL, TRACE
from driftsurf.state import look, pick

__all__ = ["COLUMNS", "Order", "RunRecord", "newest_head", "pinned", "read_orders", "read_run"]

COLUMNS, ABOUT, TIMINGS = "columns.csv", "run.json", "timings.json"


@dataclass(frozen=True, slots=True)
class Order:
    """What an operator asked for, and what came of it."""

    step: int
    """The first step after it."""
    text: str
    kind: str = ""
    number: int = 0


def read_orders(journal: str) -> list[Order]:
    """The orders among the lines of a journal."""
    lines = [line for line in map(json.loads, journal.splitlines()) if line["type"] == "order"]
    return [
        Order(int(line["step"]), str(line["text"]), str(line.get("order", "")), int(line.get("number", 0)))
        for line in lines
    ]


def pinned(orders: Iterable[Order]) -> list[tuple[int, int | None]]:
    """The first step of each time in which the model was left as it is, and the first one after it, if it is over."""
    spans: list[tuple[int, int | None]] = []
    for order in orders:
        held = bool(spans) and spans[-1][1] is None
        if order.kind == "pin" and not held and "left as it is" in order.text:
            spans.append((order.step, None))
        elif order.kind == "unpin" and held:
            spans[-1] = spans[-1][0], order.step
    return spans


@dataclass(frozen=True)
class RunRecord:
    """All that is known of a run; of what is not there nothing is."""

    decisions: list[Decision]
    orders: list[Order] = field(default_factory=list)
    trace: Trace | None = None
    moves: list[ColumnMove] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    """Measured for each model, since ``seconds_from``."""
    seconds_from: int = 0
    name: str = ""
    waiting: list[str] = field(default_factory=list)
    """Kinds of orders that are not carried out yet."""


def read_run(path: str | Path) -> RunRecord:
    """Read a run folder, or a folder of checkpoints, even of a run that is under way: whole lines only."""
    folder = Path(path)
    journal, trace = _text(folder / JOURNAL), _text(folder / TRACE)
    if journal is None:
        raise InputError(
            f"{str(folder)!r} has no {JOURNAL}; give the folder of a run, or the one that --checkpoint named"
        )
    try:
        orders = read_orders(journal)
        decisions = read_lines(journal)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise InputError(f"{folder / JOURNAL} is no journal of a run: {error}") from error
    moves, timings = _text(folder / COLUMNS), _json(_text(folder / TIMINGS))
    known = Trace.from_csv(trace) if trace else None
    return RunRecord(
        decisions,
        orders,
        known if known is not None and known.models else None,
        [] if moves is None else read_moves(moves),
        _json(_text(folder / ABOUT) or str(newest_head(folder).get("about", ""))),
        {name: float(entry["seconds"]) for name, entry in timings.get("models", {}).items()},
        int(timings.get("first_step", 0)),
        folder.name,
        [order.kind for order in waiting(folder, max((order.number for order in orders), default=0))],
    )


def _text(path: Path) -> str | None:
    """The whole lines of a file, and of the parts that it goes on in; None if it is not there.

    One that is being written may end in half a line.
    """
    parts = [name for name in files.names(path.parent) if re.fullmatch(re.escape(path.name) + r"(-\d+)?", name)]
    text = "".join(files.read_bytes(path.with_name(name)).decode(errors="replace") for name in parts)
    return text[: text.rfind("\n") + 1] if parts else None


def _json(text: str | None) -> dict[str, Any]:
    try:
        read = json.loads(text or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def newest_head(folder: Path) -> dict[str, Any]:
    """The small entries of the newest checkpoint that can be read; none if there is none. No pickle is."""
    saved = CheckpointFolder(folder)
    for number in reversed(saved.generations()):
        try:
            head = pick("state", look(files.read_bytes(saved.file(HEAD, number))))
        except (StateError, OSError):
            continue
        if "about" in head:
            return dict(head)
    return {}
