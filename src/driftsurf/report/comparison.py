"""Output of ``driftsurf compare``: tables in the terminal, in Markdown and on a page, and a chart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from driftsurf.comparison.compare import (
    METHOD,
    MOST_POINTS,
    RELATIVE,
    Comparison,
    Standing,
    Standings,
    timings,
    to_json,
)
from driftsurf.comparison.matches import FIRST_STEP
from driftsurf.core import files
from driftsurf.core.measures import percent, significant
from driftsurf.core.wording import plural
from driftsurf.evaluation.ranks import Ranking
from driftsurf.evaluation.resampling import Interval
from driftsurf.report import html
from driftsurf.report.comparison_chart import CURVE_STYLE, NARROW, TRIVIAL, WIDE, chart, curves
from driftsurf.report.rank_chart import rank_chart
from driftsurf.report.terminal import console
from driftsurf.runs.folder import TIMINGS
from driftsurf.visible import escape, visible

__all__ = ["markdown", "page", "print_result", "write"]


class Column(NamedTuple):
    """A column of the table of models."""

    head: str
    cell: Callable[[Standing], str]
    narrow: int = 0
    """In a narrow terminal, columns are left out in the order of this number; 0 is never left out."""


KINDS = {
    "recommended": "mixes models of several kinds and weighs them by how well they predicted",
    "recommended-light": "does so without trees",
    "recommended-trees": "replaces boosted trees when their error rises",
    "recommended-linear": "replaces a linear model when its error rises",
    "driftsurf": "replaces its model when the error rises and a new one is better",
    "aue": "mixes models of recent batches, weighted by their errors",
    "retrained": "is fitted from scratch on a schedule, as a nightly job does it",
    "frozen": "is fitted to the first batches and never again",
    "oblivious": "learns every batch and never replaces its model",
    "majority": "predicts the most frequent class so far",
    "mean": "predicts the mean of all values so far",
    "persistence": "repeats the last label",
}
"""Descriptions of the kinds of models of a comparison, by the first word of their names."""


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    best: bool = False
    """Whether it has the lowest error of its row or column."""


class Sheet(NamedTuple):
    """A table as text; the first column holds names, the others numbers."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    narrow: Sequence[int] = ()
    """Columns that may be left out in a narrow terminal, in this order."""


ERRORS = (
    Column("95 % interval", lambda one: _range(one.error), 6),
    Column("gap", lambda one: _number(one.behind.value)),
    Column("95 % interval", lambda one: _range(one.behind), 4),
    Column("win rate", lambda one: percent(one.wins), 5),
    Column("rank", lambda one: f"{one.rank:.2f}", 3),
)
IN_UNITS = (
    Column("MAE", lambda one: "" if one.in_units is None else significant(one.in_units.mae), 7),
    Column("RMSE", lambda one: "" if one.in_units is None else significant(one.in_units.rmse), 7),
)
QUALITY = (
    Column("kappa", lambda one: _quality(one, "kappa"), 2),
    Column("balanced error", lambda one: _quality(one, "balanced_error"), 2),
    Column("log loss", lambda one: _quality(one, "log_loss"), 2),
)
RATIO = (Column("relative RMSE", lambda one: _number(one.relative_rmse or 0.0), 7),)
TIMES = (Column("CPU s", lambda one: f"{one.seconds:.2f}", 2),)
COSTS = (Column("gradients per row", lambda one: f"{one.gradients_per_row:.1f}" if one.gradients_per_row else "-", 1),)
STYLE = (
    ".wide table { font-size: 13.5px; } td.number { white-space: nowrap; } td b { font-weight: 700; }"
    " h1, h3, p, .legend span { overflow-wrap: anywhere; } th { vertical-align: bottom; }"
    " td:first-child { white-space: normal; min-width: 11em; }" + CURVE_STYLE
)
TABLE_WIDTH = 160
"""Width of the tables if the output is not a terminal."""
SIGNIFICANT = 0.05
FEW_SOURCES = 6
"""Smallest number of sources with which Wilcoxon's two-sided test can fall below 5 %, if all favour one model."""
TOO_LARGE = 1000.0
"""Errors from here on are written in short: those of a model that diverged."""


def write(folder: str | Path, result: Comparison) -> None:
    """Write comparison.json, comparison.md, comparison.svg and report.html, and measured times to timings.json.

    For several models on several sources, ranks.svg is their critical-difference diagram.
    """
    folder = Path(folder)
    files.write_text(folder / "comparison.json", to_json(result), shared=True)
    files.write_text(folder / "comparison.md", markdown(result), shared=True)
    files.write_text(folder / "comparison.svg", chart(result), shared=True)
    if result.ranking is not None:
        files.write_text(folder / "ranks.svg", rank_chart(result.ranking), shared=True)
    files.write_text(folder / "report.html", page(result), shared=True)
    files.write_text(folder / TIMINGS, timings(result), shared=True)


def print_result(result: Comparison, folder: Path) -> None:
    """Print the tables, the winner and the method."""
    screen = console()
    screen.width = screen.width if screen.is_terminal else TABLE_WIDTH
    for sheet in _sheets(result, timed=True):
        table = Table(box=box.SIMPLE, header_style="bold", pad_edge=False)
        shown = _fitting(sheet, screen.width)
        for place in shown:
            justify: Literal["left", "right"] = "right" if place else "left"
            table.add_column(sheet.heads[place], justify=justify, overflow="fold", no_wrap=place == 0)
        for row in sheet.rows:
            table.add_row(*(Text(visible(row[place].text), "bold" if row[place].best else "") for place in shown))
        screen.print(table)
    screen.print(f"{_size(result)}; lower errors are better.")
    screen.print(f"{_verdict(result)}.")
    if warning := _warning(result):
        screen.print(warning, style="bold yellow")
    screen.print(f"{_method(result)}.")
    screen.print(f"report: {folder / 'report.html'}")


def _fitting(sheet: Sheet, width: int) -> list[int]:
    """Return the columns that fit into so many characters: the least important are left out first."""
    places = list(range(len(sheet.heads)))
    texts = [[cell.text for cell in row] for row in sheet.rows]
    sizes = [max(map(len, column)) for column in zip(sheet.heads, *texts, strict=True)]
    for place in sheet.narrow:
        if sum(sizes[k] + 3 for k in places) > width:
            places.remove(place)
    return places


def markdown(result: Comparison) -> str:
    """Return the tables, the winner and the method as Markdown."""
    parts = []
    for sheet in _sheets(result):
        rows = [[f"**{cell.text}**" if cell.best else cell.text for cell in row] for row in sheet.rows]
        lines = [sheet.heads, ["---", *["---:"] * (len(sheet.heads) - 1)], *rows]
        parts.append("\n".join(f"| {' | '.join(map(_markdown, line))} |" for line in lines))
    notes = f"{_size(result)}; lower errors are better.", f"{_verdict(result)}.", f"{_method(result)}."
    return "\n\n".join([*parts, *map(_markdown, notes)]) + "\n"


def _markdown(text: str) -> str:
    """Return a text whose characters neither end a cell of a Markdown table nor begin HTML or a link."""
    return re.sub(r"[|<\[\]`]", r"\\\g<0>", visible(text))


def page(result: Comparison) -> str:
    """Return the page of a comparison, which loads nothing."""
    title = f"Comparison on {', '.join(source.title for source in result.sources)}"
    warning = _warning(result)
    body = [
        f"<h1>{escape(title)}</h1>",
        html.note(f"{_size(result)}; lower errors are better."),
        f'<p class="lead">{escape(_verdict(result))}.</p>',
        html.warning(warning) if warning else "",
        html.cards(
            [
                (f"lowest mean {_error_name(result)}", _number(result.overall.winner.error.value)),
                *(
                    (plural(word, len(found)), str(len(found)))
                    for word, found in (
                        ("source", result.sources),
                        ("model", result.overall.models),
                        ("seed", result.seeds),
                    )
                ),
            ]
        ),
        "<h2>Errors with their 95 % intervals</h2>",
        html.either(chart(result, WIDE), chart(result, NARROW)),
    ]
    body += ["<h2>Error over time</h2>", html.note(_curve_note(result))]
    for source in result.sources:
        body += [f"<h3>{escape(source.title)}</h3>"] if len(result.sources) > 1 else []
        body.append(curves(source, _error_name(result)))
    found = result.ranking
    if found is not None:
        body += ["<h2>Mean ranks over the sources</h2>", html.note(f"{_ranks(found)}.")]
        body += [html.either(rank_chart(found, WIDE), rank_chart(found, NARROW))]
    for sheet in _sheets(result):
        cells = [[f"<b>{escape(one.text)}</b>" if one.best else escape(one.text) for one in row] for row in sheet.rows]
        heads = [escape(head) for head in sheet.heads]
        body += [f"<h2>{sheet.title}</h2>", html.wide_table(heads, cells, numbers=range(1, len(heads)))]
    body += [html.note(kinds)] if (kinds := _kinds(result)) else []
    measured = html.note(f"Measured CPU seconds are in {TIMINGS}, so that a repeated comparison gives the same page.")
    return html.document(title, [*body, html.note(f"{_method(result)}."), measured], style=html.look() + STYLE)


def _kinds(result: Comparison) -> str:
    """Return what the kinds of models do, as far as they are compared, in one sentence; else ""."""
    compared = [re.split(r"[:(]", one.model)[0] for one in result.overall.models]
    told = [f"{kind} {what}" for kind, what in KINDS.items() if kind in compared]
    return f"What the models do: {'; '.join(told)}." if told else ""


def _curve_note(result: Comparison) -> str:
    """Return what the curves show."""
    spans = any(len(one.curve) < source.steps - FIRST_STEP for source in result.sources for one in source.models)
    each = f"the mean of several steps, {MOST_POINTS} points in all" if spans else "one step"
    rules = any(one.model in TRIVIAL for one in result.overall.models)
    return f"Each point is {each}; the thick line has the lowest error over all steps" + (
        "; the dotted ones are rules without a model, drawn at the edge where they are beyond it." if rules else "."
    )


def _size(result: Comparison) -> str:
    """Return how many rows were compared, and in how many steps, because errors depend on the length of a step."""
    rows, steps = result.overall.n_rows, result.overall.steps
    size = rows / steps
    each = f"{size:,.0f}" if size.is_integer() else f"about {size:,.0f}"
    return f"{rows:,} rows in {steps:,} steps of {each} row{'s' * (size != 1)}"


def _warning(result: Comparison) -> str:
    """Return a sentence if no model is better than a trivial rule; else nothing."""
    errors = {one.model: one.error.value for one in result.overall.models}
    rule = min((name for name in TRIVIAL if name in errors), key=lambda name: errors[name], default=None)
    models = [error for name, error in errors.items() if name not in TRIVIAL]
    if rule is None or not models or min(models) < errors[rule]:
        return ""
    return f"No model is better than the trivial rule {rule}."


def _sheets(result: Comparison, *, timed: bool = False) -> Iterator[Sheet]:
    """Return the table of models and, for several sources, the table of sources; ``timed`` with CPU seconds."""
    several = len(result.sources) > 1
    of_regression = RATIO if several else IN_UNITS
    columns = (
        Column("model", lambda one: one.model),
        Column(_error_name(result), lambda one: _number(one.error.value)),
        *ERRORS,
        *(of_regression if result.regression else QUALITY),
        *(TIMES if timed else ()),
        *COSTS,
    )
    ordered = sorted(result.overall.models, key=lambda one: one.error.value)
    narrow = sorted((k for k, one in enumerate(columns) if one.narrow), key=lambda k: columns[k].narrow)
    rows = [[Cell(column.cell(one)) for column in columns] for one in ordered]
    yield Sheet("Models", [column.head for column in columns], rows, narrow)
    if several:
        yield _source_sheet(result, timed)
    if result.pairs:
        yield _pair_sheet(result)


def _source_sheet(result: Comparison, timed: bool) -> Sheet:
    models = result.overall.models
    rows = [
        *(_errors(source.title, source) for source in result.sources),
        _errors("mean", result.overall),
        [Cell("mean rank"), *(Cell(f"{one.rank:.2f}") for one in models)],
        *([[Cell("CPU s in all"), *(Cell(f"{one.seconds:.1f}") for one in models)]] if timed else ()),
    ]
    heads = [Cell("source"), *(Cell(one.model) for one in models)]
    if len(models) > len(result.sources):  # more models than sources: names of models are easier to read as rows
        heads, *rows = (list(column) for column in zip(heads, *rows, strict=True))
        heads[0] = Cell("model")
    return Sheet("Sources", [head.text for head in heads], rows)


def _pair_sheet(result: Comparison) -> Sheet:
    """Return the model with the lowest mean error beside each other one."""
    heads = [f"{result.pairs[0].algorithm} and", "lower error", "higher error", "Wilcoxon's p", "ranks differ"]
    found = result.ranking
    assert found is not None
    ranks = dict(zip(found.algorithms, found.average_ranks, strict=True))
    best = ranks[result.pairs[0].algorithm]
    rows = [
        [
            Cell(one.other),
            Cell(f"{one.lower} of {found.streams}"),
            Cell(f"{one.higher} of {found.streams}"),
            Cell(f"{one.probability:.3f}"),
            Cell("yes" if abs(ranks[one.other] - best) > found.critical_difference else "no"),
        ]
        for one in result.pairs
    ]
    return Sheet("Differences over the sources", heads, rows)


def _errors(title: str, standings: Standings) -> list[Cell]:
    lowest = standings.winner.error.value
    return [Cell(title), *(Cell(_number(one.error.value, 3), one.error.value == lowest) for one in standings.models)]


def _verdict(result: Comparison) -> str:
    """Return the winner in words, and the models whose training diverged."""
    lost = [one.model for one in result.overall.models if one.diverged]
    charge = "a million times the error of the mean" if result.regression else "an error in every row"
    return result.overall.verdict() + (
        f"; training diverged, which counts as {charge}: {', '.join(lost)}" if lost else ""
    )


def _error_name(result: Comparison) -> str:
    return "relative error" if result.regression else "error"


def _number(value: float, digits: int = 4) -> str:
    """Return a number with so many digits; that of a model that diverged in short."""
    return f"{value:.{digits}f}" if value < TOO_LARGE else f"{value:.2g}"


def _quality(one: Standing, what: Literal["kappa", "balanced_error", "log_loss"]) -> str:
    """Return one of the numbers of a classification, or a dash for a model that does not have it."""
    value: float | None = None if one.quality is None else getattr(one.quality, what)
    return "-" if value is None else _number(value)


def _range(found: Interval) -> str:
    return f"{_number(found.low)} to {_number(found.high)}"


def _ranks(found: Ranking) -> str:
    """Return what Friedman's test and the critical difference say, in words."""
    differ = "differ" if found.probability < SIGNIFICANT else "do not differ"
    text = (
        f"Over {found.streams} sources the ranks {differ} by more than chance (Friedman's test, p = "
        f"{found.probability:.3f}); two models differ by more than chance if their mean ranks are more than "
        f"{found.critical_difference:.2f} apart (Nemenyi's test at 5 %)"
    )
    few = f". With fewer than {FEW_SOURCES} sources, Wilcoxon's test cannot show a difference"
    return text + (few if found.streams < FEW_SOURCES else "")


def _method(result: Comparison) -> str:
    """Return how the models were compared, and what the columns mean, in a few sentences."""
    many, budget = len(result.seeds), result.gradients_per_row
    sentences = [
        "Each batch was predicted before it was learned; the first batch does not count",
        *([f"The relative error is {RELATIVE}"] if result.regression else []),
        *([] if result.ranking is None else [_ranks(result.ranking)]),
        "The gap is the error minus the lowest one",
        "The win rate is the share of resamples in which the model had the lowest error; equal models share it",
        f"{METHOD[0].upper()}{METHOD[1:]}",
        f"Each model ran with {many} seeds"
        if many > 1
        else "Each model ran with one seed, so that the intervals do not include the randomness of the models",
        *([] if budget is None else [f"All models had {budget:g} gradients per row"]),
    ]
    return ". ".join(sentences)
