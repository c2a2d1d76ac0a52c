"""What `driftsurf compare` shows: tables in the terminal, in Markdown and on a page, and one picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from driftsurf.evaluation.resampling import Interval
from driftsurf.experiments.compare import METHOD, Comparison, Standing, Standings, to_json
from driftsurf.report import html
from driftsurf.report.comparison_picture import picture
from driftsurf.report.terminal import console
from driftsurf.runtime import files

__all__ = ["markdown", "page", "print_result", "write"]

HEADS = "model", "error", "95 %", "behind", "95 %", "best in", "rank", "CPU s", "gradients a row"
STYLE = ".wide { overflow-x: auto; } .wide table { font-size: 13.5px; } td.number, th.number { white-space: nowrap; }"
WIDE = 140
"""Columns of the tables where there is no terminal to fit in."""


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
    for heads, rows in _tables(result):
        table = Table(box=box.SIMPLE, header_style="bold", pad_edge=False)
        shown = _fitting(heads, rows, screen.width)
        for place in shown:
            table.add_column(heads[place], justify="right" if place else "left", overflow="fold", no_wrap=place == 0)
        for row in ([cells[place] for place in shown] for cells in rows):
            table.add_row(*(Text(cell.strip("*"), "bold" if cell.startswith("**") else "") for cell in row))
        screen.print(table)
    screen.print(result.overall.verdict())
    screen.print(f"{_how(result)}; report: {folder / 'report.html'}")


def _fitting(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """The columns of models to show in so many letters: those that say least are left out first, and names are whole.

    All columns of a table of sources: there each one is a model.
    """
    places = list(range(len(heads)))
    if tuple(heads) != HEADS:
        return places
    sizes = [max(len(cell) for cell in column) for column in zip(heads, *rows, strict=True)]
    for place in (8, 7, 4, 5, 6, 2):
        if sum(sizes[k] + 3 for k in places) > width:
            places.remove(place)
    return places


def markdown(result: Comparison) -> str:
    """The same tables and words, ready to paste."""
    parts = []
    for heads, rows in _tables(result):
        lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join([*parts, f"{result.overall.verdict()}.", f"{_how(result)}."]) + "\n"


def page(result: Comparison) -> str:
    """A page that needs nothing from elsewhere."""
    body = [
        "<h1>Comparison</h1>",
        f'<p class="lead">{escape(result.overall.verdict())}.</p>',
        html.cards(
            [
                ("mean error of the winner", f"{result.overall.winner.error.value:.4f}"),
                ("sources", str(len(result.sources))),
                ("models", str(len(result.overall.models))),
                ("seeds", str(len(result.seeds))),
            ]
        ),
        f'<div class="chart">{picture(result)}</div>',
    ]
    for heads, rows in _tables(result):
        cells = [[escape(cell).replace("**", "") for cell in row] for row in rows]
        body += ["<h2>Models</h2>" if heads[0] == HEADS[0] else "<h2>Sources</h2>"]
        table = html.table(list(map(escape, heads)), cells, numbers=range(1, len(heads)))
        body += [f'<div class="wide">{table}</div>']
    body += [f'<p class="soft">{escape(_how(result))}.</p>']
    return html.document("driftsurf compare", body, style=STYLE)


def _tables(result: Comparison) -> Iterator[tuple[Sequence[str], list[list[str]]]]:
    """Over all sources, a row a model; of several sources also a row a source."""
    yield HEADS, [_row(one) for one in sorted(result.overall.models, key=lambda one: one.error.value)]
    if len(result.sources) > 1:
        names = [one.model for one in result.overall.models]
        rows = [_errors(source.title, source) for source in result.sources]
        rows.append(_errors("mean", result.overall))
        rows.append(["mean rank", *(f"{one.rank:.2f}" for one in result.overall.models)])
        rows.append(["CPU s in all", *(f"{one.seconds:.1f}" for one in result.overall.models)])
        yield ["source", *names], rows


def _errors(title: str, standings: Standings) -> list[str]:
    lowest = standings.winner.error.value
    texts = [(f"{one.error.value:.3f}", one.error.value == lowest) for one in standings.models]
    return [title, *(f"**{text}**" if best else text for text, best in texts)]


def _row(one: Standing) -> list[str]:
    gradients = f"{one.gradients_per_row:.1f}" if one.gradients_per_row else "-"
    return [
        one.model,
        f"{one.error.value:.4f}",
        _range(one.error),
        f"{one.behind.value:.4f}",
        _range(one.behind),
        f"{one.wins:.0%}",
        f"{one.rank:.2f}",
        f"{one.seconds:.2f}",
        gradients,
    ]


def _range(found: Interval) -> str:
    return f"{found.low:.4f} to {found.high:.4f}"


def _how(result: Comparison) -> str:
    many = len(result.seeds)
    seeds = f"{many} seeds" if many > 1 else "one seed, so that the spread of the models' own draws is not in it"
    budget = "" if result.gradients_per_row is None else f"; {result.gradients_per_row:g} gradients a row for all"
    protocol = "test-then-train by batches, every model frozen for the batch, without the first one"
    return f"{protocol}; {METHOD}; {seeds}{budget}"
