"""What came of a run over tables: beside rules that anybody could follow, in the terminal and as a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path

from rich import box
from rich.table import Table

from driftsurf.decisions import Decision, significant
from driftsurf.evaluation.baselines import baselines
from driftsurf.evaluation.columns import ColumnMove
from driftsurf.evaluation.records import Order
from driftsurf.evaluation.summary import summarise, summarise_values
from driftsurf.evaluation.trace import Trace
from driftsurf.report import html, page
from driftsurf.report.terminal import console, speeds_of, without_first
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
        numbers = (rules.own, *rules.others.values())
        table.add_row(rules.measure, *(f"{one:.4f}" if trace.labels else significant(one) for one in numbers))
        for label, value in _of_model(trace, model, first_step).items():
            table.add_row(label, value, *[""] * len(rules.others))
        screen.print(table)
        if trace.untaught:
            screen.print(without_first(trace, model))
    if late is not None:
        told = ", ".join(f"{count:,} {name}" for name, count in asdict(late).items() if count is not None)
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
        said |= {"kappa": f"{summary.kappa:.3f}"} if not math.isnan(summary.kappa) else {}
        reactions, switches, gradients = summary.reactions, summary.switches, summary.gradients
    else:
        values = summarise_values(trace, model)
        said |= {"mean absolute error": significant(values.mean_absolute_error)}
        reactions, switches, gradients = values.reactions, values.switches, values.gradients
    said |= {"reactions": str(reactions), "switches to a new model": str(switches)}
    return said | {
        "gradients per row": f"{gradients / rows:.2f}",
        "rows/s": f"{speeds_of(trace, first_step)[model]:,.0f}",
    }


def render(
    trace: Trace,
    decisions: Sequence[Decision],
    *,
    model: str,
    oracle: str | None = None,
    moves: Sequence[ColumnMove] = (),
    orders: Sequence[Order] = (),
) -> str:
    """The page of a run, or of nothing that was scored."""
    title = f"{model} on {trace.stream}"
    if not len(trace.columns["step"]):
        said = "No row was scored: no label came for a row that had been predicted."
        return html.document(title, [f"<h1>{escape(title)}</h1>", f"<p>{said}</p>"])
    return page.render(trace, decisions, model=model, oracle=oracle, moves=moves, orders=orders)
