"""What `driftsurf compare` shows: tables in the terminal, in Markdown and on a page, and one picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Literal, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from driftsurf.decisions import significant
from driftsurf.evaluation.resampling import Interval
from driftsurf.experiments.compare import METHOD, RELATIVE, Comparison, Standing, Standings, to_json
from driftsurf.report import html
from driftsurf.report.comparison_picture import picture
from driftsurf.report.terminal import console
from driftsurf.runtime import files

__all__ = ["markdown", "page", "print_result", "write"]


class Column(NamedTuple):
    """Of the table of models."""

    head: str
    cell: Callable[[Standing], str]
    leave: int = 0
    """Where a terminal is narrow, columns are left out in this order; 0 is never left out."""


class Sheet(NamedTuple):
    """A table as text."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    leave: Sequence[int] = ()
    """The places of columns that may be left out, in this order."""


FIRST = (
    Column("model", lambda one: one.model),
    Column("error", lambda one: _number(one.error.value)),
    Column("95 %", lambda one: _range(one.error), 6),
    Column("behind", lambda one: _number(one.behind.value)),
    Column("95 %", lambda one: _range(one.behind), 4),
    Column("best in", lambda one: f"{one.wins:.0%}", 5),
    Column("rank", lambda one: f"{one.rank:.2f}", 3),
)
IN_UNITS = (
    Column("MAE", lambda one: "" if one.in_units is None else significant(one.in_units.mae), 7),
    Column("RMSE", lambda one: "" if one.in_units is None else significant(one.in_units.rmse), 7),
)
RATIO = (Column("relative RMSE", lambda one: _number(one.relative_rmse or 0.0), 7),)
LAST = (
    Column("CPU s", lambda one: f"{one.seconds:.2f}", 2),
    Column("gradients a row", lambda one: f"{one.gradients_per_row:.1f}" if one.gradients_per_row else "-", 1),
)
STYLE = ".wide { overflow-x: auto; } .wide table { font-size: 13.5px; } td.number, th.number { white-space: nowrap; }"
WIDE = 160
"""Columns of the tables where there is no terminal to fit in."""
TOO_LARGE = 1000.0
"""An error that is not worth its digits."""


def write(folder: Path, result: Comparison) -> None:
    """comparison.json, comparison.md, comparison.svg and report.html."""
    files.write_text(folder / "comparison.json", to_json(result))
    files.write_text(folder / "comparison.md", markdown(result))
    files.write_text(folder / "comparison.svg", picture(result))
    files.write_text(folder / "report.html", page(result))


def print_result(result: Comparison, folder: Path) -> None:
    """Who wins, and the tables."""
    screen = console()
    screen.width = screen.width if screen.is_terminal else WIDE
    for sheet in _sheets(result):
        table = Table(box=box.SIMPLE, header_style="bold", pad_edge=False)
        shown = _fitting(sheet, screen.width)
        for place in shown:
            justify: Literal["left", "right"] = "right" if place else "left"
            table.add_column(sheet.heads[place], justify=justify, overflow="fold", no_wrap=place == 0)
        for row in ([cells[place] for place in shown] for cells in sheet.rows):
            table.add_row(*(Text(cell.strip("*"), "bold" if cell.startswith("**") else "") for cell in row))
        screen.print(table)
    screen.print(_verdict(result))
    screen.print(f"{_how(result)}; report: {folder / 'report.html'}")


def _fitting(sheet: Sheet, width: int) -> list[int]:
    """The columns to show in so many letters: those that say least are left out first, and names are whole."""
    places = list(range(len(sheet.heads)))
    sizes = [max(len(cell) for cell in column) for column in zip(sheet.heads, *sheet.rows, strict=True)]
    for place in sheet.leave:
        if sum(sizes[k] + 3 for k in places) > width:
            places.remove(place)
    return places


def markdown(result: Comparison) -> str:
    """The same tables and words, ready to paste."""
    parts = []
    for sheet in _sheets(result):
        lines = [sheet.heads, ["---", *["---:"] * (len(sheet.heads) - 1)], *sheet.rows]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join([*parts, f"{_verdict(result)}.", f"{_how(result)}."]) + "\n"


def page(result: Comparison) -> str:
    """A page that needs nothing from elsewhere."""
    body = [
        "<h1>Comparison</h1>",
        f'<p class="lead">{escape(_verdict(result))}.</p>',
        html.cards(
            [
                (f"mean {_what(result)} of the winner", _number(result.overall.winner.error.value)),
                ("sources", str(len(result.sources))),
                ("models", str(len(result.overall.models))),
                ("seeds", str(len(result.seeds))),
            ]
        ),
        f'<div class="chart">{picture(result)}</div>',
    ]
    for sheet in _sheets(result):
        cells = [[escape(cell).replace("**", "") for cell in row] for row in sheet.rows]
        table = html.table(list(map(escape, sheet.heads)), cells, numbers=range(1, len(sheet.heads)))
        body += [f"<h2>{sheet.title}</h2>", f'<div class="wide">{table}</div>']
    body += [f'<p class="soft">{escape(_how(result))}.</p>']
    return html.document("driftsurf compare", body, style=STYLE)


def _sheets(result: Comparison) -> Iterator[Sheet]:
    """Over all sources, a row a model; of several sources also a row a source."""
    several = len(result.sources) > 1
    of_values = RATIO if several else IN_UNITS
    columns = (*FIRST, *(of_values if result.values else ()), *LAST)
    ordered = sorted(result.overall.models, key=lambda one: one.error.value)
    leave = sorted((place for place, one in enumerate(columns) if one.leave), key=lambda place: columns[place].leave)
    heads = [_what(result) if one.head == "error" else one.head for one in columns]
    yield Sheet("Models", heads, [[column.cell(one) for column in columns] for one in ordered], leave)
    if several:
        rows = [_errors(source.title, source) for source in result.sources]
        rows.append(_errors("mean", result.overall))
        rows.append(["mean rank", *(f"{one.rank:.2f}" for one in result.overall.models)])
        rows.append(["CPU s in all", *(f"{one.seconds:.1f}" for one in result.overall.models)])
        lines = [["source", *(one.model for one in result.overall.models)], *rows]
        if len(ordered) > len(result.sources):  # long names stand better at the side than above
            lines = [list(line) for line in zip(*lines, strict=True)]
            lines[0][0] = "model"
        yield Sheet("Sources", lines[0], lines[1:])


def _errors(title: str, standings: Standings) -> list[str]:
    lowest = standings.winner.error.value
    texts = [(_number(one.error.value, 3), one.error.value == lowest) for one in standings.models]
    return [title, *(f"**{text}**" if best else text for text, best in texts)]


def _verdict(result: Comparison) -> str:
    """Who wins; and whose training diverged, if any did."""
    lost = [one.model for one in result.overall.models if one.diverged]
    charge = "a million times the error of the mean" if result.values else "every row"
    return result.overall.verdict() + (f"; training diverged, charged {charge}: {', '.join(lost)}" if lost else "")


def _what(result: Comparison) -> str:
    return "relative error" if result.values else "error"


def _number(value: float, digits: int = 4) -> str:
    """With so many digits; that of a model that diverged in short."""
    return f"{value:.{digits}f}" if value < TOO_LARGE else f"{value:.2g}"


def _range(found: Interval) -> str:
    return f"{_number(found.low)} to {_number(found.high)}"


def _how(result: Comparison) -> str:
    many = len(result.seeds)
    seeds = f"{many} seeds" if many > 1 else "one seed, so that the spread of the models' own draws is not in it"
    budget = "" if result.gradients_per_row is None else f"; {result.gradients_per_row:g} gradients a row for all"
    protocol = "test-then-train by batches, every model frozen for the batch, without the first one"
    measure = f"; the relative error is {RELATIVE}" if result.values else ""
    return f"{protocol}{measure}; {METHOD}; {seeds}{budget}"
