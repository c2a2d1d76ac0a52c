"""What came of a run over tables: beside rules that anybody could follow, in the terminal and as a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from html import escape
from pathlib import Path

import numpy as np
from rich import box
from rich.table import Table

from driftsurf.decisions import Decision
from driftsurf.evaluation.baselines import Baselines, baselines
from driftsurf.evaluation.summary import summarise, summarise_values
from driftsurf.evaluation.trace import Trace
from driftsurf.report import html, page
from driftsurf.report.svg import Chart
from driftsurf.report.terminal import console, speeds_of
from driftsurf.runtime.delayed import LabelCounts

__all__ = ["print_outcome", "render"]


def print_outcome(
    trace: Trace,
    model: str,
    folder: Path,
    first_step: int = 0,
    *,
    skipped: int = 0,
    late: LabelCounts | None = None,
    errors: bool = False,
) -> None:
    """The table at the end of a run: the error beside those of simple rules, then what there is to say of the model."""
    screen = console(errors=errors)
    if not len(trace.columns["step"]):
        screen.print("no row was scored: no label came for a row that had been predicted")
    else:
        rules = baselines(trace, model)
        table = Table(box=box.SIMPLE, header_style="bold", pad_edge=False)
        for column in ("", model, *rules.others):
            table.add_column(column, justify="left" if not column else "right")
        table.add_row(rules.measure, *(f"{value:{rules.form}}" for value in (rules.own, *rules.others.values())))
        for label, value in _of_model(trace, model, first_step).items():
            table.add_row(label, value, *[""] * len(rules.others))
        screen.print(table)
    if late is not None:
        told = ", ".join(f"{getattr(late, field.name):,} {field.name}" for field in fields(late))
        screen.print(f"labels: {told}")
    if skipped:
        screen.print(f"skipped rows: {skipped:,}; they are in {folder / 'bad_rows.jsonl'}")
    screen.print(f"report: {folder / 'report.html'}")


def _of_model(trace: Trace, model: str, first_step: int) -> dict[str, str]:
    run = trace.of(model)
    rows = int(run["rows"].sum())
    said: dict[str, str] = {"rows": f"{rows:,}", "steps": f"{len(run['step']):,}"}
    if trace.labels:
        summary = summarise(trace, model)
        said |= {"log loss": f"{summary.log_loss:.4f}"} if not math.isnan(summary.log_loss) else {}
        said |= {"kappa": f"{summary.kappa:.3f}"}
        reactions, switches, gradients = summary.reactions, summary.switches, summary.gradients
    else:
        values = summarise_values(trace, model)
        said |= {"mean absolute error": f"{values.mean_absolute_error:.6g}"}
        reactions, switches, gradients = values.reactions, values.switches, values.gradients
    said |= {"reactions": str(reactions), "switches to a new model": str(switches)}
    return said | {
        "gradients per row": f"{gradients / rows:.2f}",
        "rows/s": f"{speeds_of(trace, first_step)[model]:,.0f}",
    }


def render(trace: Trace, decisions: Sequence[Decision], *, model: str, oracle: str | None = None) -> str:
    """The page of a run: that of a trace of classes, or a shorter one of values, or of nothing that was scored."""
    title = f"{model} on {trace.stream}"
    if not len(trace.columns["step"]):
        said = "No row was scored: no label came for a row that had been predicted."
        return html.document(title, [f"<h1>{escape(title)}</h1>", f"<p>{said}</p>"])
    if trace.labels:
        return page.render(trace, decisions, model=model, oracle=oracle)
    return html.document(title, [f"<h1>{escape(title)}</h1>", *_value_page(trace, decisions, model)])


def _value_page(trace: Trace, decisions: Sequence[Decision], model: str) -> list[str]:
    summary, rules = summarise_values(trace, model), baselines(trace, model)
    root = np.sqrt(trace.of(model)["squared_error"])
    beside = np.sqrt(trace.of(model)["persistence_error"])
    chart = Chart(len(root), float(max(1e-12, 1.08 * min(root.max(), 5.0 * np.quantile(root, 0.9)))), "error")
    chart.line(beside.tolist(), css="oracle", title="predicting the value before")
    chart.line(root.tolist(), css="curve", title=model)
    changes = [
        (str(t.step), escape(t.describe().partition(": ")[2]), f"{t.old} &rarr; {t.new}")
        for decision in decisions
        for t in decision.transitions[:100]
    ]
    return [
        html.cards(_value_cards(rules, summary.reactions, summary.switches)),
        "<h2>Error over time</h2>",
        '<p class="soft">The root of the mean squared error of each batch, before learning it.</p>',
        f'<div class="chart">{chart.render("error over time")}</div>',
        html.legend([("curve", "line", model), ("oracle", "line", "predicting the value before")]),
        "<h2>Every change, and why</h2>",
        html.table(("step", "why", "models"), changes, numbers=(0,)) if changes else "<p>No transition.</p>",
    ]


def _value_cards(rules: Baselines, reactions: int, switches: int) -> list[tuple[str, str]]:
    shown = {"mean squared error": rules.own} | {f"of {name}": value for name, value in rules.others.items()}
    return [(name, f"{value:.4g}") for name, value in shown.items()] + [
        ("reactions", str(reactions)),
        ("switches", str(switches)),
    ]
