"""The page of a run: one self-contained HTML file, made from its trace, its journal and the files beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftsurf.core import files
from driftsurf.core.decisions import Decision
from driftsurf.core.drifts import Drifts
from driftsurf.core.wording import counted
from driftsurf.errors import InputError
from driftsurf.evaluation.column_moves import ColumnMove
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.trace import Trace
from driftsurf.evaluation.verdict import verdict_of
from driftsurf.explanation.belief import experts_of
from driftsurf.explanation.records import RunRecord
from driftsurf.registry import register
from driftsurf.report import html
from driftsurf.report.figure import Overlay
from driftsurf.report.overlay import overlay_of
from driftsurf.report.sections import Built, RunView, interactive_page, sections
from driftsurf.report.sections.settings import settings
from driftsurf.runs.folder import work_unit
from driftsurf.runs.orders import OrderRecord
from driftsurf.runs.plan import ORACLE
from driftsurf.runs.result import RunResult
from driftsurf.visible import escape

NOTHING_SCORED = "No row was scored: no label arrived for a row that had been predicted."


@register("page", "run")
def write_run_page(result: RunResult, path: Path) -> None:
    """Write the page of a run that has ended."""
    page = render(
        result.trace,
        result.decisions,
        model=result.model,
        oracle=result.oracle,
        moves=result.column_moves,
        orders=result.orders,
        scores=result.scores,
        about=result.about,
        unlabelled=result.unlabelled_rows,
        orphans=0 if result.label_counts is None else result.label_counts.orphan,
    )
    files.write_text(path, page, shared=True)


def record_parts(record: RunRecord) -> PageParts | None:
    """Return the parts of the page of a run on disk; None if no row has been scored."""
    trace = record.trace
    if trace is None or trace.is_empty:
        return None
    view = RunView(
        trace,
        record.decisions,
        trace.models[0],
        moves=record.moves,
        orders=record.orders,
        scores=record.scores,
        about=record.about,
        work=work_unit(record.about),
        unlabelled=record.unlabelled,
        known_drifts=record.known_drifts,
    )
    return page_parts(view, orphans=record.orphans)


def render_record(record: RunRecord) -> str:
    """Return the page of a run on disk, with the seconds that were measured."""
    if record.trace is None:
        raise InputError("the run has no trace.csv, so there is nothing to draw")
    models = record.trace.models
    return render(
        record.trace,
        record.decisions,
        model=models[0],
        oracle=ORACLE if ORACLE in models[1:] else None,
        moves=record.moves,
        orders=record.orders,
        seconds=record.seconds,
        seconds_from=record.seconds_from,
        scores=record.scores,
        unlabelled=record.unlabelled,
        orphans=record.orphans,
        about=record.about,
        known_drifts=record.known_drifts,
    )


def render(
    trace: Trace,
    decisions: Sequence[Decision],
    *,
    model: str,
    oracle: str | None = None,
    moves: Sequence[ColumnMove] = (),
    orders: Sequence[OrderRecord] = (),
    seconds: Mapping[str, float] | None = None,
    seconds_from: int = 0,
    scores: Scores | None = None,
    about: Mapping[str, Any] | None = None,
    above: Sequence[str] = (),
    unlabelled: int = 0,
    orphans: int = 0,
    work: str | None = None,
    known_drifts: Drifts | None = None,
) -> str:
    """Return the page of one model of a trace; the errors of the other models are drawn beside its own.

    The page is the same to the byte for every run of the same thing, unless ``seconds`` are given. They were measured
    from step ``seconds_from`` on, where the run was resumed. ``above`` is HTML that precedes the title, and
    ``unlabelled`` the number of rows that were predicted and not learned, ``orphans`` that of labels without a row.
    ``work`` says what learning is counted in, unless ``about`` does. ``known_drifts`` may be older than the decisions.
    """
    title = f"{model} on {trace.stream}"
    if trace.is_empty:
        lost = [html.warning(orphan_warning(orphans))] if orphans else []
        waiting = html.verdict("waiting", NOTHING_SCORED)
        return html.document(title, [*above, f"<h1>{escape(title)}</h1>", waiting, *lost], style=html.look())
    known = about or {}
    run = RunView(
        trace,
        decisions,
        model,
        oracle,
        moves,
        orders,
        seconds or {},
        seconds_from,
        scores,
        known,
        work_unit(known) if work is None else work,
        unlabelled,
        Drifts() if known_drifts is None else known_drifts,
    )
    parts = page_parts(run, orphans=orphans)
    return interactive_page(title, [*above, f"<h1>{escape(title)}</h1>", *parts.head], parts.overlay, parts.sections)


@dataclass(frozen=True)
class PageParts:
    """The parts of a run's page, for a page that is written once and for one that is kept up to date."""

    head: Sequence[str]
    """HTML of what stands above the figures: what was run, and the verdict on it."""
    sections: Built
    """The sections that are not empty."""
    overlay: Overlay


def page_parts(run: RunView, *, orphans: int = 0) -> PageParts:
    """Return the parts of the page of a run whose trace is not empty."""
    found = verdict_of(run.trace, run.model, run.drifts, run.scores)
    what = _what(run)
    head = [
        *[html.note(what)] * bool(what),
        *([html.note(_left_out(run))] if run.first_step else []),
        html.verdict(found.status, found.text),
        *([html.warning(orphan_warning(orphans))] if orphans else []),
    ]
    built = [(section, list(section.build(run))) for section in sections()]
    return PageParts(head, [(section, parts) for section, parts in built if parts], overlay_of(run))


def orphan_warning(labels: int) -> str:
    """Return a warning of labels without a row, in words."""
    return (
        f"{counted(labels, 'label')} had no row and could not be learned: no row had the key, "
        "or its row came after more labels without a row than are held (max_pending)."
    )


def _left_out(run: RunView) -> str:
    """Return which steps of a long run are shown, in words."""
    steps = len(run.trace.of(run.model)["step"])
    return f"The newest {steps:,} time steps; {run.first_step:,} older ones are not shown."


def _what(run: RunView) -> str:
    """Return what was run in one line; the last section has all of it."""
    known = dict(settings(run.about, run.trace.stream, len(run.trace.labels)))
    names = experts_of(run.decisions)
    hidden = {"strategy", "learner"} if names else set()
    hidden |= {"source"} if run.about.get("served") else set()  # the folder of the log
    words = [word for word in ("source", "label", "strategy", "learner", "driftsurf") if word not in hidden]
    shown = [f"{word} {known[word]}" for word in words if word in known]
    if names:
        shown.insert(-1 if "driftsurf" in known else len(shown), f"a mixture of {len(names)} experts")
    return " · ".join(shown)
