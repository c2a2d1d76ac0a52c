"""Record of a finished or running run: its journal, its trace and the files beside them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, islice
from pathlib import Path
from typing import Any, Literal

from driftsurf import registry
from driftsurf.core import files
from driftsurf.core.decisions import Decision
from driftsurf.core.drifts import Drifts, InputChanges
from driftsurf.core.files import parse_json
from driftsurf.core.journal import changes_of, drifts_of, read_lines
from driftsurf.core.state import peek, pick
from driftsurf.errors import InputError, StateError
from driftsurf.evaluation.column_moves import ColumnMove, read_moves
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.trace import StepMap, Trace
from driftsurf.runs.batches import orphan_labels, unlabelled_rows
from driftsurf.runs.folder import (
    ABOUT,
    COLUMNS,
    JOURNAL,
    NEWEST,
    SCORES,
    SERVED_CHECKPOINTS,
    TIMINGS,
    TRACE,
    is_served,
)
from driftsurf.runs.numbering import Numbering
from driftsurf.runs.orders import OrderRecord, read_records, waiting
from driftsurf.runs.output import lines_before, part_names

FILES = JOURNAL, TRACE, SCORES, COLUMNS
MOVE_LINE = re.compile(r"\d+,\d+,\d+,")
AROUND = 1_000
"""Decisions that are read before and after one that is asked for."""
STEP_LINE = re.compile(r'\{"type":"step","step":(\d+),')
BEGAN_REACTIVE = "The run began while a new model was tested: its model had seen a sign of drift in the run before."


def pinned(orders: Iterable[OrderRecord]) -> list[tuple[int, int | None]]:
    """Return the spans of steps in which the model was pinned.

    Each span is its first step and the first step after it, or None if the model is still pinned.
    """
    spans: list[tuple[int, int | None]] = []
    for order in orders:
        held = bool(spans) and spans[-1][1] is None
        if order.pinned and not held:
            spans.append((order.step, None))
        elif held and not order.pinned:
            spans[-1] = spans[-1][0], order.step
    # A pin that was undone before the next step kept nothing from being learned.
    return [(first, stop) for first, stop in spans if first != stop]


def begins_reactive(decisions: Sequence[Decision]) -> bool:
    """Return whether a run begins inside a reactive state: its model had seen a sign of drift in an earlier run."""
    return bool(decisions) and decisions[0].step == 0 and decisions[0].reactive_step > 1


def looks_for_drift(about: Mapping[str, Any], decisions: Sequence[Decision]) -> Literal["thresholds", "detector", ""]:
    """Return how the strategy of a run looks for drift: with thresholds, as DriftSurf, with a detector, or not at all.

    ``about`` is the content of ``run.json``; without it, only strategies with thresholds are recognised.
    """
    if any(decision.threshold is not None for decision in decisions):
        return "thresholds"
    entry = registry.find("strategy", str(about.get("made", {}).get("strategy", "")))
    return "detector" if entry is not None and entry.details.get("family") == "detector" else ""


@dataclass(frozen=True)
class RunRecord:
    """Everything that a run has written. The field of a missing file is empty."""

    decisions: list[Decision]
    orders: list[OrderRecord] = field(default_factory=list)
    trace: Trace | None = None
    moves: list[ColumnMove] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    """Measured seconds of each model since the step ``seconds_from``."""
    seconds_from: int = 0
    name: str = ""
    waiting: list[str] = field(default_factory=list)
    """Kinds of the orders that the run has not carried out yet."""
    scores: Scores | None = None
    unlabelled: int = 0
    """Number of rows without a label, which were predicted and not learned."""
    orphans: int = 0
    """Number of labels without a row, if labels came late."""
    known_drifts: Drifts = field(default_factory=Drifts)
    """The newest drifts of a served model, also those before the steps that were read."""

    @property
    def drifts(self) -> Drifts:
        """Drifts of the leading model, oldest first; empty if there was none."""
        found, trace = Drifts.merged([*self.known_drifts, *drifts_of(self.decisions)]), self.trace
        return found if trace is None else trace.timed(found, trace.models[0])

    @property
    def changes(self) -> InputChanges:
        """Moves of the inputs alone, which did no harm, oldest first."""
        found, trace = changes_of(self.decisions), self.trace
        return found if trace is None else trace.timed(found, trace.models[0])

    @property
    def late(self) -> bool:
        """Whether labels came late, so that rows were predicted before the model that their step names was in use."""
        return any(self.about.get(name) is not None for name in ("labels", "delay"))

    @property
    def steps(self) -> StepMap | None:
        """Where decisions and orders are among the steps of the trace; None without a trace."""
        if self.trace is None:
            return None
        columns = self.trace.of(self.trace.models[0])
        return StepMap.of(columns) if self.scores is None else self.scores.step_map(columns)


def read_run(path: str | Path, *, step: int | None = None) -> RunRecord:
    """Read a run folder or a folder of checkpoints, also while the run is writing it (incomplete lines are ignored).

    Of a served model, whose history has no end, only the newest time steps are read; with ``step``, those up to a
    little after this decision.
    """
    folder = files.usable(path)
    served = folder.name == SERVED_CHECKPOINTS and is_served(folder.parent)
    journal, trace, scores, columns = (
        _newest_texts(folder, step) if served else tuple(_text(folder / name) for name in FILES)
    )
    if journal is None and is_served(folder):
        raise InputError(f"{str(folder)!r} is the folder of a served model; pass {folder / SERVED_CHECKPOINTS}")
    if journal is None:
        raise InputError(f"{str(folder)!r} has no {JOURNAL}; pass a run folder, or the folder of --checkpoint")
    try:
        orders = read_records(journal)
        decisions = read_lines(journal)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise InputError(f"{folder / JOURNAL} is not the journal of a run: {error}") from error
    timings = _json(_text(folder / TIMINGS))
    known = Trace.from_csv(trace) if trace else None
    about = _text(folder / ABOUT)
    head = {} if about else newest_head(folder)
    return RunRecord(
        decisions,
        orders,
        None if known is None or known.is_empty else known,
        [] if columns is None else read_moves(columns),
        _json(about or str(head.get("about", ""))),
        {name: float(entry["seconds"]) for name, entry in timings.get("models", {}).items()},
        int(timings.get("first_step", 0)),
        folder.name,
        [order.kind for order in waiting(folder, max((order.number for order in orders), default=0))],
        None if scores is None or known is None else Scores.from_text(scores, known.warmup_steps),
        unlabelled_rows(journal),
        orphan_labels(journal),
        Drifts(Numbering.from_json(str(head["numbering"])).drifts.known)
        if served and "numbering" in head
        else Drifts(),
    )


def _newest_texts(folder: Path, step: int | None) -> Sequence[str | None]:
    """Return the last lines of the journal, the trace, the scores and the columns that moved of a served model.

    Those of the journal are about the same time steps as the others, unless a ``step`` is asked for.
    """
    if not part_names(folder, JOURNAL):
        return None, None, None, None
    scores = list(islice(lines_before(folder, SCORES), NEWEST))
    heads = _head(folder, TRACE, 1), "", _head(folder, COLUMNS, 0)
    trace = list(islice(lines_before(folder, TRACE, head=heads[0].count("\n")), len(scores)))
    columns = list(islice(lines_before(folder, COLUMNS, head=heads[2].count("\n")), NEWEST))
    while columns and not MOVE_LINE.match(columns[-1]):  # the rest of a line whose name has an end of line
        del columns[-1]
    if step is None:
        decisions = sum(int(parse_json(line).get("decisions", 1)) for line in scores)
        journal = _steps_of(lines_before(folder, JOURNAL), decisions)
    else:
        journal = _steps_of(
            dropwhile(lambda line: _later(line, step + AROUND), lines_before(folder, JOURNAL)), 2 * AROUND
        )
    texts = (head + "".join(reversed(lines)) for head, lines in zip(heads, (trace, scores, columns), strict=True))
    return "".join(reversed(journal)), *texts


def _later(line: str, step: int) -> bool:
    """Return whether a line of the journal is that of a decision after a step, or of no decision."""
    found = STEP_LINE.match(line)
    return found is None or int(found[1]) > step


def _steps_of(lines: Iterator[str], most: int) -> list[str]:
    """Return lines of the journal, the newest first, back to that of a decision: as many decisions at most."""
    kept: list[str] = []
    begun = count = 0
    if most:
        for line in lines:
            kept.append(line)
            if STEP_LINE.match(line):
                begun, count = len(kept), count + 1
                if count == most:
                    break
    return kept[:begun] if begun else kept


def _head(folder: Path, name: str, comments: int) -> str:
    """Return what each part of a file begins with: comments, and names of columns, which may hold ends of lines."""
    names = part_names(folder, name)
    if not names:
        return ""
    lines = files.read_bytes(folder / names[0]).decode(errors="replace").split("\n")[:-1]
    reader = csv.reader(f"{line}\n" for line in lines[comments:])
    next(reader, None)
    return "".join(f"{line}\n" for line in lines[: comments + reader.line_num])


def _text(path: Path) -> str | None:
    """Return the complete lines of a file and of its numbered parts; None if the file does not exist.

    A file that is being written may end in an incomplete line, which is left out.
    """
    parts = [name for name in files.names(path.parent) if re.fullmatch(re.escape(path.name) + r"(-\d+)?", name)]
    text = "".join(files.read_bytes(path.with_name(name)).decode(errors="replace") for name in parts)
    return text[: text.rfind("\n") + 1] if parts else None


def _json(text: str | None) -> dict[str, Any]:
    """Return the JSON object in this text; empty if there is none."""
    try:
        read = parse_json(text or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def newest_head(folder: Path) -> dict[str, Any]:
    """Return the small entries of the newest readable checkpoint, without unpickling; empty if there is none."""
    from driftsurf.runs.checkpoint import HEAD, CheckpointFolder

    saved = CheckpointFolder(folder)
    for number in reversed(saved.generations()):
        try:
            head = pick("state", peek(files.read_bytes(saved.file(HEAD, number))))
        except (StateError, OSError):
            continue
        if "about" in head:
            return dict(head)
    return {}
