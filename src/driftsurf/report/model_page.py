"""The page of an estimator: made from its journal, which holds its last decisions and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf.core import files
from driftsurf.core.decisions import Decision
from driftsurf.core.journal import Journal
from driftsurf.evaluation.scoring import Scorebook
from driftsurf.evaluation.trace import Trace, TraceBuilder
from driftsurf.registry import register
from driftsurf.report import html, interactive
from driftsurf.report.overlay import overlay_of
from driftsurf.report.run_page import render
from driftsurf.report.sections import RunView, changes, models, risk
from driftsurf.visible import escape

__all__ = ["journal_trace", "write_model_page"]

NOTHING_SCORED = (
    "No row was scored: the model learned with fit or partial_fit, which predict nothing. Use test_then_train or "
    "observe to see its errors."
)


@register("page", "model")
def write_model_page(model: str, data: str, journal: Journal, labels: Sequence[Any], path: Path) -> None:
    """Write the page of a model: errors, risks and decisions of the last steps."""
    trace, decisions = journal_trace(model, data, journal, labels)
    page = render(trace, decisions, model=model) if decisions else _unscored(model, data, list(journal))
    files.write_text(path, page)


def journal_trace(model: str, data: str, journal: Journal, labels: Sequence[Any]) -> tuple[Trace, list[Decision]]:
    """Return a trace of the steps whose rows were all predicted before they were learned, and their decisions.

    Empty ``labels`` mean regression.
    """
    recent = journal.predictions.table()
    book, builder, scored = Scorebook(tuple(labels)), TraceBuilder(tuple(labels)), list[Decision]()
    names = np.array(labels) if labels else None
    for decision in journal:
        first, stop = np.searchsorted(recent["row"], (decision.first_row, decision.rows_seen))
        if stop - first != decision.rows or not decision.rows:
            continue
        true, predicted = (recent[name][first:stop] for name in ("true", "predicted"))
        if names is not None:
            true, predicted = names[true.astype(int)], names[predicted.astype(int)]
        book.step(true)
        row = book.row(model, true, predicted, recent["log_loss"][first:stop], (decision,))
        builder.add(row | {"step": decision.step, "first_row": decision.first_row})
        scored.append(decision)
    sizes = [decision.rows for decision in scored]
    trace = builder.build(data, max(sizes, default=0), (), {})
    untrained = bool(scored) and scored[0].step == 0
    return Trace(trace.stream, trace.batch_size, (), trace.labels, trace.columns, {}, int(untrained)), scored


def _unscored(model: str, data: str, decisions: Sequence[Decision]) -> str:
    """Return the page of a model that predicted nothing before it learned: its risks, models and transitions."""
    title = f"{model} on {data}"
    body = [f"<h1>{escape(title)}</h1>", f'<p class="lead">{NOTHING_SCORED}</p>']
    if not decisions:
        return html.document(title, body)
    columns = {
        "step": np.array([decision.step for decision in decisions]),
        "model": np.array([model] * len(decisions)),
        "first_row": np.array([decision.first_row for decision in decisions]),
        "rows": np.array([decision.rows for decision in decisions]),
    }
    run = RunView(Trace(data, int(columns["rows"].max()), (), (), columns), decisions, model)
    overlay = overlay_of(run)
    parts = [(one.SECTION.title, list(one.SECTION.build(run))) for one in (risk, models, changes)]
    body.append(interactive.TOOLBAR)
    for head, content in parts:
        body += [f"<h2>{escape(head)}</h2>"] if content else []
        body += [part if isinstance(part, str) else part.render(overlay) for part in content]
    figures = [part for _, content in parts for part in content if not isinstance(part, str)]
    return interactive.document(title, body, overlay, figures)
