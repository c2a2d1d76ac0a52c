"""The page of an estimator: made from its journal, which holds its last decisions and predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf.core import files
from driftsurf.core.contracts import FloatArray
from driftsurf.core.decisions import Decision
from driftsurf.core.journal import Journal, drifts_of
from driftsurf.errors.visible import escape
from driftsurf.evaluation.scores import ScoreRecorder, Scores
from driftsurf.evaluation.scoring import Scorebook
from driftsurf.evaluation.trace import Trace, TraceBuilder, open_labels
from driftsurf.registry import register
from driftsurf.report import html
from driftsurf.report.run_page import render
from driftsurf.report.sections import RunView, interactive_page, overlay_of
from driftsurf.report.sections.events import changes, drifts, events
from driftsurf.report.sections.models import models, risk
from driftsurf.session.observation import Observation

NOTHING_SCORED = (
    "No row was scored: the model learned with fit or partial_fit, which predict nothing. Use test_then_train or "
    "observe to see its errors."
)


@register("page", "model")
def write_model_page(
    model: str, data: str, journal: Journal, labels: Sequence[Any], path: Path, work: str = "gradients"
) -> None:
    """Write the page of a model: errors, risks and decisions of the last steps; ``work`` is counted in this unit."""
    trace, decisions, scores = journal_trace(model, data, journal, labels)
    if decisions:
        page = render(RunView(trace, decisions, model, scores=scores, work=work))
    else:
        page = _unscored(model, data, list(journal))
    files.write_text(path, page, shared=True)


def journal_trace(
    model: str, data: str, journal: Journal, labels: Sequence[Any]
) -> tuple[Trace, list[Decision], Scores]:
    """Return a trace of the steps whose rows were all predicted before they were learned, their decisions and scores.

    ``labels`` are the classes in the order of their codes; empty labels mean regression.
    """
    steps = list(_observed(journal, labels))
    known = tuple[Any, ...]()
    if labels and steps:  # as a run, which knows the classes of its first batch
        first = steps[0][1]
        known = open_labels(sorted({*first.labels.tolist(), *np.array(labels)[first.true].tolist()}))
    untrained = int(bool(steps) and steps[0][0].step == 0)
    book, builder, recorder = Scorebook(known), TraceBuilder(known), ScoreRecorder(lambda: labels, untrained)
    lines = list[str]()
    for decision, seen, losses in steps:
        true = np.array(labels)[seen.true] if labels else seen.true
        book.step(true)
        row = book.row(model, true, seen.labels, losses, seen.decisions)
        builder.add(row | {"step": decision.step, "first_row": decision.first_row})
        lines.append(recorder.lines(None, {model: seen}))
    scored = [decision for decision, *_ in steps]
    trace = builder.build(data, max((decision.rows for decision in scored), default=0), (), {})
    return replace(trace, warmup_steps=untrained), scored, Scores.from_text("".join(lines), untrained)


def _observed(journal: Journal, labels: Sequence[Any]) -> Iterator[tuple[Decision, Observation, FloatArray]]:
    """Yield the decisions whose rows were all predicted before they were learned, with predictions and log losses."""
    recent, names = journal.predictions.table(), np.array(labels)
    for decision in journal:
        first, stop = np.searchsorted(recent["row"], (decision.first_row, decision.rows_seen))
        if stop - first != decision.rows or not decision.rows:
            continue
        part = {name: values[first:stop] for name, values in recent.items()}
        true, predicted, scores, losses = (part[name] for name in ("true", "predicted", "scores", "log_loss"))
        scores = scores[:, 0] if scores.shape[1] == 1 else scores if scores.shape[1] else np.zeros(0)
        shown = predicted
        if labels:
            true, predicted = true.astype(np.int64), predicted.astype(np.int64)
            shown = names[predicted]
        yield decision, Observation(shown, predicted, true, scores, (decision,), not np.isnan(losses).any()), losses


def _unscored(model: str, data: str, decisions: Sequence[Decision]) -> str:
    """Return the page of a model that predicted nothing before it learned: its risks, models and transitions."""
    title = f"{model} on {data}"
    found = drifts_of(decisions)
    summary = found.describe() or (f"No drift in {decisions[-1].rows_seen:,} rows." if decisions else "")
    status = "waiting" if found.open is None else "drifting"
    head = [f"<h1>{escape(title)}</h1>", html.verdict(status, f"{summary} {NOTHING_SCORED}".lstrip())]
    if not decisions:
        return html.document(title, head, style=html.look())
    columns = {
        "step": np.array([decision.step for decision in decisions]),
        "model": np.array([model] * len(decisions)),
        "first_row": np.array([decision.first_row for decision in decisions]),
        "rows": np.array([decision.rows for decision in decisions]),
    }
    run = RunView(Trace(data, int(columns["rows"].max()), (), (), columns), decisions, model)
    shown = [replace(one, folded=one is changes) for one in (risk, drifts, events, models, changes)]
    built = [(section, list(section.build(run))) for section in shown]
    return interactive_page(title, head, overlay_of(run), [one for one in built if one[1]])
