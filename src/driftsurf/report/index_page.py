"""The index of all runs in a folder: a page with small curves and a sortable table, and a table in the terminal."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from rich.table import Table

from driftsurf.core import files
from driftsurf.core.measures import significant
from driftsurf.errors import Option, RunFolderError
from driftsurf.evaluation.baselines import BASELINE_NAMES
from driftsurf.report import html
from driftsurf.report.index import RunEntry, RunIndex, list_runs
from driftsurf.report.svg import drawing, element
from driftsurf.report.terminal import console
from driftsurf.visible import escape

__all__ = ["INDEX", "print_runs", "render", "write_runs_page"]

INDEX = "index.html"
"""The name of the page, in the folder of the runs."""
WIDE = 90
"""Characters in a line of the terminal below which some columns are left out."""
WIDTH, HEIGHT = 120, 30
"""Size of a curve."""


class Column(NamedTuple):
    """A column of the table of runs."""

    head: str
    text: Callable[[RunEntry], str]
    """The cell in the terminal, empty if it is not known."""
    value: Callable[[RunEntry], str | float | None]
    """What runs are sorted by; None for a column that is not sorted."""
    number: bool = False
    falling: bool = False
    """Whether the first click sorts it from the largest to the smallest."""


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _error(value: float | None, measure: str) -> str:
    if value is None:
        return ""
    return significant(value) if measure in ("RMSE", "MAE") else f"{value:.3f}"


COLUMNS = (
    Column("source", lambda one: one.source, lambda one: one.source),
    Column("model", lambda one: one.model, lambda one: one.model),
    Column("rows", lambda one: _number(one.rows), lambda one: one.rows, number=True, falling=True),
    Column("steps", lambda one: _number(one.steps), lambda one: one.steps, number=True, falling=True),
    Column("error", lambda one: _error(one.error, one.measure), lambda one: one.error, number=True),
    Column("trivial rule", lambda one: _error(one.baseline, one.measure), lambda one: one.baseline, number=True),
    Column(
        "drifts",
        lambda one: _number(one.drifts) + ", now" * one.drifting,
        lambda one: one.drifts,
        number=True,
        falling=True,
    ),
    Column(
        "finished", lambda one: _when(one), lambda one: "" if one.time is None else one.time.isoformat(), falling=True
    ),
)


def _when(one: RunEntry) -> str:
    time = "" if one.time is None else f"{one.time:%Y-%m-%d %H:%M}"
    return time if one.finished else "unfinished"


# ---------------------------------------------------------------------------- terminal


def print_runs(index: RunIndex, page: Path | None = None) -> None:
    """Print a table of the runs, the folders that were skipped, and where the page is."""
    screen = console()
    if not index.runs:
        screen.print(f"no runs in {index.folder}")
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        left_out = ("steps",) if screen.width >= WIDE else ("steps", "source", "model", "trivial rule", "finished")
        shown = [column for column in COLUMNS if column.head not in left_out]
        table.add_column("run")
        for column in shown:
            table.add_column(column.head, justify="right" if column.number else "left", no_wrap=column.falling)
        for one in index.runs:
            table.add_row(_name(index, one), *(column.text(one) for column in shown))
        screen.print(table)
    for skipped in index.skipped:
        screen.print(f"skipped: {skipped.path}: {skipped.reason}")
    if page is not None:
        screen.print(f"page: {page}")


def _name(index: RunIndex, one: RunEntry) -> str:
    """Return the path of a run below the folder of the index."""
    return one.path.name if one.path == index.folder else str(one.path.relative_to(index.folder))


# ---------------------------------------------------------------------------- page


def write_runs_page(folder: str | Path, out: str | Path | None = None) -> RunIndex:
    """Write one page of all runs below a folder, with links to their pages; return what it lists.

    Parameters
    ----------
    folder
        The folder that contains the folders of runs; see :func:`~driftsurf.report.index.list_runs`.
    out
        The file to write; None for ``index.html`` in the folder.

    Raises
    ------
    RunFolderError
        If ``folder`` is not a folder, or if it is itself a run and ``out`` is None: a run folder that holds other
        files could not be replaced any more. Also if the file to write exists and is no page of this package.
    """
    index = list_runs(folder)
    found = {one.path for one in index.runs} | {one.path for one in index.skipped}
    if out is None and index.folder in found:
        raise RunFolderError(
            f"{str(index.folder)!r} is itself a run; pass the folder that contains it, or name the page with ",
            Option("out"),
        )
    page = index.folder / INDEX if out is None else Path(out)
    html.check_replaceable(page)
    files.write_text(page, render(index, page), shared=True)
    return index


def render(index: RunIndex, page: Path) -> str:
    """Return the page of an index, with links that are relative to the file ``page``."""
    finished = sum(one.finished for one in index.runs)
    poor = sum(one.no_better for one in index.runs)
    body = [
        f"<h1>Runs in {escape(index.folder.resolve().name or str(index.folder))}</h1>",
        html.note(
            "The error is that of the model on rows that it had not learned yet; the trivial rule is the better one of "
            "predicting the most frequent class so far (or the mean) and repeating the last label. It is left out "
            "where a class is rare, which the error says little about. Drifts: how often the error rose beyond chance; "
            "'now' if the last one goes on. Times are in UTC."
        ),
        html.cards(
            [
                ("runs", f"{len(index.runs):,}"),
                ("unfinished", f"{len(index.runs) - finished:,}"),
                ("no better than a trivial rule", f"{poor:,}"),
                ("folders skipped", f"{len(index.skipped):,}"),
            ]
        ),
        _table(index, page) if index.runs else "<p>There are no runs.</p>",
    ]
    if index.skipped:
        rows = [(escape(str(one.path.relative_to(index.folder))), escape(one.reason)) for one in index.skipped]
        body += ["<h2>Folders that are not listed</h2>", html.wide_table(("folder", "reason"), rows)]
    script = html.asset("index.js") if index.runs else ""
    body += [f"<script>{script}</script>"] * bool(script)
    policy = html.script_policy(script)
    return html.document(
        f"Runs in {index.folder.resolve().name}", body, style=html.look() + html.asset("index.css"), policy=policy
    )


def _table(index: RunIndex, page: Path) -> str:
    heads = ['<th data-sort="ascending">run</th>', "<th>error over time</th>"]
    for column in COLUMNS:
        first = "descending" if column.falling else "ascending"
        kind = ' class="number"' * column.number
        heads.append(f'<th{kind} data-sort="{first}">{column.head}</th>')
    lines = []
    for one in index.runs:
        name = escape(_name(index, one))
        if one.page is not None:
            link = os.path.relpath(one.page.resolve(), page.resolve().parent)
            name = f'<a href="{escape(quote(os.fsencode(Path(link).as_posix())))}">{name}</a>'
        tags = f'<span class="tag">{_kind(one)}</span>' + ' <span class="tag open">unfinished</span>' * (
            not one.finished
        )
        cells = [
            f'<td data-value="{escape(_name(index, one))}"><span>{name}<small>{tags}</small></span></td>',
            f'<td class="spark{" empty" * (not one.curve)}" data-label="error over time">{_spark(one)}</td>',
        ]
        cells += [_cell(column, one) for column in COLUMNS]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="wide"><table class="runs"><thead><tr>{"".join(heads)}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _kind(one: RunEntry) -> str:
    return one.kind if one.keys is None else f"{one.keys:,} keys"


def _cell(column: Column, one: RunEntry) -> str:
    value, text = column.value(one), column.text(one)
    css = " ".join(name for name, yes in (("number", column.number), ("empty", not text)) if yes)
    shown = escape(text)
    if column.head == "error" and text:
        poor = ' class="poor" title="no better than a trivial rule"' * one.no_better
        shown = f"<span{poor}>{shown}<small>{escape(one.measure)}</small></span>"
    elif column.head == "trivial rule" and text:
        shown = f"<span>{shown}<small>{escape(BASELINE_NAMES.get(one.rule, one.rule))}</small></span>"
    given = "" if value is None else escape(str(value))
    return f'<td class="{css}" data-label="{column.head}" data-value="{given}">{shown}</td>'


def _spark(one: RunEntry) -> str:
    """Return the small curve of a run, with a dotted line at the trivial rule; for a comparison a bar per model."""
    if not one.curve:
        return ""
    top = max(*one.curve, one.baseline or 0.0, 1e-300) * 1.05

    def y(value: float) -> float:
        return (HEIGHT - 2) * (1.0 - value / top) + 1

    parts = list[str]()
    if one.kind == "comparison":
        wide = WIDTH / len(one.curve)
        for place, value in enumerate(one.curve):
            parts.append(
                element("rect", x=place * wide, y=y(value), width=max(wide - 2, 1), height=HEIGHT - 1 - y(value))
            )
    else:
        between = WIDTH / max(len(one.curve) - 1, 1)
        path = " ".join(f"{'L' if k else 'M'}{k * between:.1f} {y(value):.1f}" for k, value in enumerate(one.curve))
        parts.append(element("path", class_="curve", d=path if len(one.curve) > 1 else f"{path} h{WIDTH}"))
    if one.baseline is not None:
        parts.append(element("line", class_="limit", x1=0, x2=WIDTH, y1=y(one.baseline), y2=y(one.baseline)))
    what = "errors of its models" if one.kind == "comparison" else "error over time"
    return drawing(WIDTH, HEIGHT, what, parts)
