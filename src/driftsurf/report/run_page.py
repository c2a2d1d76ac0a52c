"""The page of a run: one self-contained HTML file, made from its trace, its journal and the files beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from driftsurf.core import files
from driftsurf.core.wording import counted
from driftsurf.errors import InputError
from driftsurf.errors.visible import escape
from driftsurf.evaluation.summary import verdict_of
from driftsurf.evaluation.trace import Trace
from driftsurf.registry import register
from driftsurf.report import html
from driftsurf.report.figure import Overlay
from driftsurf.report.sections import Built, RunView, interactive_page, overlay_of, sections
from driftsurf.report.sections.settings import settings
from driftsurf.runs.explanation.lineage import experts_of
from driftsurf.runs.explanation.records import RunRecord
from driftsurf.runs.folder import work_unit
from driftsurf.runs.plan import ORACLE
from driftsurf.runs.result import RunResult

NOTHING_SCORED = "No row was scored: no label arrived for a row that had been predicted."


@register("page", "run")
def write_run_page(result: RunResult, path: Path) -> None:
    """Write the page of a run that has ended."""
    view = RunView(
        result.trace,
        result.decisions,
        result.model,
        result.oracle,
        moves=result.column_moves,
        orders=result.orders,
        scores=result.scores,
        about=result.about,
        work=work_unit(result.about),
        unlabelled=result.unlabelled_rows,
    )
    page = render(view, orphans=0 if result.label_counts is None else result.label_counts.orphan)
    files.write_text(path, page, shared=True)


def record_parts(record: RunRecord) -> PageParts | None:
    """Return the parts of the page of a run on disk; None if no row has been scored."""
    trace = record.trace
    return None if trace is None or trace.is_empty else page_parts(_view(record, trace), orphans=record.orphans)


def render_record(record: RunRecord) -> str:
    """Return the page of a run on disk, with the seconds that were measured."""
    if record.trace is None:
        raise InputError("the run has no trace.csv, so there is nothing to draw")
    oracle = ORACLE if ORACLE in record.trace.models[1:] else None
    view = replace(_view(record, record.trace), oracle=oracle, seconds=record.seconds, seconds_from=record.seconds_from)
    return render(view, orphans=record.orphans)


def _view(record: RunRecord, trace: Trace) -> RunView:
    return RunView(
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


def render(run: RunView, *, above: Sequence[str] = (), orphans: int = 0) -> str:
    """Return the page of one model of a trace; the errors of the other models are drawn beside its own.

    The page is the same to the byte for every run of the same thing, unless the view has measured seconds. ``above`` is
    HTML that precedes the title, ``orphans`` the number of labels without a row.
    """
    title = f"{run.model} on {run.trace.stream}"
    head = [*above, f"<h1>{escape(title)}</h1>"]
    if run.trace.is_empty:
        lost = [html.warning(orphan_warning(orphans))] if orphans else []
        return html.document(title, [*head, html.verdict("waiting", NOTHING_SCORED), *lost], style=html.look())
    parts = page_parts(run, orphans=orphans)
    return interactive_page(title, [*head, *parts.head], parts.overlay, parts.sections)


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
