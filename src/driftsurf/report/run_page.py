"""The page of a run: one self-contained HTML file, made from its trace, its journal and the files beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from driftsurf.core import files
from driftsurf.core.decisions import Decision, significant
from driftsurf.errors import InputError
from driftsurf.evaluation.baselines import baselines
from driftsurf.evaluation.class_metrics import class_metrics
from driftsurf.evaluation.columns import ColumnMove
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.summary import (
    ClassificationSummary,
    Summary,
    summarise_classification,
    summarise_regression,
)
from driftsurf.evaluation.trace import Trace
from driftsurf.explanation.belief import experts_of
from driftsurf.explanation.records import BEGAN_REACTIVE, RunRecord, begins_reactive, pinned
from driftsurf.registry import register
from driftsurf.report import html, interactive
from driftsurf.report.figure import Bars, Figure, Overlay
from driftsurf.report.overlay import overlay_of
from driftsurf.report.sections import RunView, sections
from driftsurf.report.what_was_run import settings
from driftsurf.runs.folder import work_unit
from driftsurf.runs.orders import OrderRecord
from driftsurf.runs.result import RunResult
from driftsurf.runs.streams import ORACLE
from driftsurf.visible import escape

__all__ = [
    "PageParts",
    "orphan_warning",
    "page_parts",
    "reaction_rows",
    "record_parts",
    "render",
    "render_record",
    "write_run_page",
]

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
    files.write_text(path, page)


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
    )
    return page_parts(view, unlabelled=record.unlabelled, orphans=record.orphans)


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
) -> str:
    """Return the page of one model of a trace; the errors of the other models are drawn beside its own.

    The page is the same to the byte for every run of the same thing, unless ``seconds`` are given. They were measured
    from step ``seconds_from`` on, where the run was resumed. ``above`` is HTML that precedes the title, and
    ``unlabelled`` the number of rows that were predicted and not learned, ``orphans`` that of labels without a row.
    ``work`` says what learning is counted in, unless ``about`` does.
    """
    title = f"{model} on {trace.stream}"
    if trace.is_empty:
        lost = [html.warning(orphan_warning(orphans))] if orphans else []
        return html.document(title, [*above, f"<h1>{escape(title)}</h1>", f"<p>{NOTHING_SCORED}</p>", *lost])
    known = about or {}
    counted_in = work_unit(known) if work is None else work
    run = RunView(
        trace, decisions, model, oracle, moves, orders, seconds or {}, seconds_from, scores, known, counted_in
    )
    parts = page_parts(run, unlabelled=unlabelled, orphans=orphans)
    body = [*above, f"<h1>{escape(title)}</h1>", *parts.head, interactive.TOOLBAR]
    for heading, contents in parts.sections.items():
        body.append(f"<h2>{escape(heading)}</h2>")
        body += [part if isinstance(part, str) else part.render(parts.overlay) for part in contents]
    return interactive.document(title, body, parts.overlay, parts.figures)


@dataclass(frozen=True)
class PageParts:
    """The parts of a run's page, for a page that is written once and for one that is kept up to date."""

    head: Sequence[str]
    """HTML of what stands above the figures: the result in words and numbers."""
    sections: Mapping[str, Sequence[str | Figure | Bars]]
    """HTML and figures of each section that is not empty, by its title."""
    overlay: Overlay

    @property
    def figures(self) -> list[Figure | Bars]:
        """All figures, in the order of the page."""
        return [part for parts in self.sections.values() for part in parts if not isinstance(part, str)]


def page_parts(run: RunView, *, unlabelled: int = 0, orphans: int = 0) -> PageParts:
    """Return the parts of the page of a run whose trace is not empty."""
    head = [
        html.note(_extent(run) + _unlabelled(unlabelled)),
        *_what(run),
        f'<p class="lead">{escape(_lead(run))}</p>',
        *_warning(run),
        *([html.warning(orphan_warning(orphans))] if orphans else []),
        html.cards(_cards(run)),
    ]
    built = {section.title: list(section.build(run)) for section in sections()}
    return PageParts(head, {title: parts for title, parts in built.items() if parts}, overlay_of(run))


def _extent(run: RunView) -> str:
    """Return rows, steps and, for a stream whose drifts are known, those in words."""
    trace, columns = run.trace, run.trace.of(run.model)
    steps, rows = len(columns["step"]), int(columns["rows"].sum())
    endless = any(drift.start == 0 and drift.end >= rows for drift in trace.drifts)
    drifts = "it drifts all the time" if endless else _count(len(trace.drifts), "known drift")
    text = f"{_count(rows, 'row')} in {_count(steps, 'step')} of {_sizes(columns['rows'])}"
    if trace.drifts or run.oracle is not None:  # the drifts of a file or of a service are not known
        text += f"; {drifts if trace.drifts else 'no known drift'}"
    text += "."
    if not trace.warmup_steps:
        return text
    if steps <= trace.warmup_steps:
        return f"{text} There is only one batch, so everything was predicted before anything was learned."
    return f"{text} Mean errors leave out the first batch, which was predicted before anything was learned."


def orphan_warning(labels: int) -> str:
    """Return a warning of labels without a row, in words."""
    return (
        f"{_count(labels, 'label')} had no row and could not be learned: no row had the key, or its row came after "
        "more labels without a row than are held (max_pending)."
    )


def _unlabelled(count: int) -> str:
    return f" Without a label, and therefore only predicted: {_count(count, 'row')}." if count else ""


def _sizes(rows: npt.NDArray[Any]) -> str:
    """Return the sizes of the steps in words; a shorter last step is not mentioned."""
    rows = rows[rows > 0]
    least, most = int(rows[: max(len(rows) - 1, 1)].min()), int(rows.max())
    return f"{most:,} row{'s' * (most != 1)}" if least == most else f"{int(rows.min()):,} to {most:,} rows"


def _what(run: RunView) -> Iterator[str]:
    """Return what was run in one line; the last section has all of it."""
    known = dict(settings(run.about, run.trace.stream, len(run.trace.labels)))
    shown = [
        f"{word} {known[word]}" for word in ("source", "label", "strategy", "learner", "driftsurf") if word in known
    ]
    if shown:
        yield html.note(" · ".join(shown))


def _warning(run: RunView) -> Iterator[str]:
    """Return a warning if the model is no better than predictions that need no model."""
    text = baselines(run.trace, run.model, run.scores).warning
    if text:
        yield html.warning(text)


def _lead(run: RunView) -> str:
    """Return the result in a few sentences."""
    summary = run.summary
    if isinstance(summary, ClassificationSummary):
        text = f"Mean error {summary.mean_error:.4f}. "
    else:
        text = f"Root mean squared error {significant(summary.root_mean_squared_error)}, in the unit of the label. "
    began = begins_reactive(run.decisions)
    done = list(_reactions(summary))
    if done:
        who = "Its experts" if experts_of(run.decisions) else "It"
        text += f"{who} {', '.join(done[:-1])}{' and ' * (len(done) > 1)}{done[-1]}. "
        text += f"{_recovered(summary)} " if summary.drift_steps else ""
    elif run.looks_for_drift or began:
        text += f"There was no {'new ' * began}sign of drift. "
    text += f"{BEGAN_REACTIVE} " * began
    spans = [f"from step {first} " + ("on" if stop is None else f"to {stop - 1}") for first, stop in pinned(run.orders)]
    pins = f"An operator pinned it {', '.join(spans)}: there it learned nothing." if spans else ""
    return (text + pins).rstrip()


def _reactions(summary: Summary) -> Iterator[str]:
    """Yield what the model did about drift, in words."""
    if summary.reactions:
        yield f"reacted {_times(summary.reactions)}"
    if summary.switches:
        yield f"switched to a new model {_times(summary.switches)}"
    elif summary.reactions:
        yield "never switched to a new model"
    if summary.fresh_starts:
        yield f"started a fresh model {_times(summary.fresh_starts)}"


def _recovered(summary: Summary) -> str:
    """Return a sentence on how fast the model recovered from the known drifts."""
    drifts = len(summary.drift_steps)
    times = [time for time in summary.recovery_by_training if time is not None]
    if len(times) == drifts:
        known = "the drift" if drifts == 1 else f"each of the {drifts} drifts"
        return f"Within {_count(max(times), 'step')} of {known}, it predicted with a model of new rows alone."
    return (
        f"After {len(times)} of the {drifts} drifts it predicted with a model of new rows alone; after the others its "
        "model kept rows from before the drift."
    )


def reaction_rows(summary: Summary, way: str, *, experts: bool) -> dict[str, int]:
    """Return how often a model reacted, by name: what its way to look for drift can lead to, and what happened.

    ``way`` is that of :func:`~driftsurf.explanation.records.looks_for_drift`. With ``experts`` it is a portfolio, and
    the names say that its experts did it.
    """
    by = " by experts" if experts else ""
    both, fresh = way == "thresholds" or summary.reactions > 0, way == "detector" or summary.fresh_starts > 0
    rows = {f"reactions{by}": summary.reactions} if both else {}
    rows |= {f"switches to a new model{by}": summary.switches} if both or summary.switches else {}
    return rows | ({f"fresh starts{by}": summary.fresh_starts} if fresh else {})


def _cards(run: RunView) -> Iterator[tuple[str, str]]:
    summary, trace, oracle = run.summary, run.trace, run.oracle
    if isinstance(summary, ClassificationSummary):
        yield from ((name, own) for name, own, _ in baselines(trace, run.model, run.scores).headline)
        if oracle is not None:
            yield f"{oracle} (oracle)", f"{summarise_classification(trace, oracle).mean_error:.4f}"
        yield from _baseline_cards(run)
        if run.scores is not None and not math.isnan(run.scores.auc):
            yield "ROC AUC", f"{run.scores.auc:.3f}"
        if run.positive is not None and f"wrong:{run.positive}" in trace.columns:
            yield f"F1 of class {run.positive}", f"{class_metrics(trace, run.model)[run.positive].f1:.3f}"
        if not math.isnan(summary.kappa):  # it is undefined where classes are counted together
            yield "kappa", f"{summary.kappa:.3f}"
    else:
        yield "root mean squared error", significant(summary.root_mean_squared_error)
        if oracle is not None:
            yield f"{oracle} (oracle)", significant(summarise_regression(trace, oracle).root_mean_squared_error)
        yield from _baseline_cards(run)
        yield "mean absolute error", significant(summary.mean_absolute_error)
        if run.scores is not None and not math.isnan(r2 := run.scores.r_squared(summary.mean_squared_error)):
            yield "R²", f"{r2:.3f}"
        yield "skill over the mean", f"{summary.skill_over_mean:.3f}"
        yield "skill over persistence", f"{summary.skill:.3f}"
    for name, count in reaction_rows(summary, run.looks_for_drift, experts=bool(experts_of(run.decisions))).items():
        yield name, str(count)
        if name.startswith("reactions") and summary.false_reactions is not None:
            yield "false reactions", str(summary.false_reactions)
    if run.looks_for_drift == "thresholds":
        yield "reactive steps", f"{summary.share_reactive:.0%}"
    if not math.isnan(work := trace.gradients_per_row(summary.model)):
        yield f"{run.work} per row", f"{work:.2f}"


def _baseline_cards(run: RunView) -> Iterator[tuple[str, str]]:
    trivial = baselines(run.trace, run.model, run.scores)
    for name, error in trivial.others.items():
        yield f"error of {name}", trivial.number(error)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
