"""Output of ``driftsurf compare``: tables in the terminal, in Markdown and on a page, and a chart."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from driftsurf.comparison.compare import METHOD, MOST_POINTS, RELATIVE, Comparison, timings, to_json
from driftsurf.comparison.matches import FIRST_STEP, ModelStanding, Standings
from driftsurf.comparison.models import Schedule
from driftsurf.core import files
from driftsurf.core.wording import percent, plural, significant
from driftsurf.errors.visible import escape, visible
from driftsurf.evaluation.ranks import Interval, Ranking
from driftsurf.report import html
from driftsurf.report.figure import Chart, drawing, element
from driftsurf.report.terminal import console
from driftsurf.runs.folder import TIMINGS

TRIVIAL = "majority", "mean", "persistence"
"""Models that are trivial rules."""

LINE, GAP, TOP = 17, 12, 34
CUT = 2.0
"""Errors above twice that of the mean prediction are drawn at the edge: a model that diverges would hide the others."""
COLOURS = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#767676", "currentColor"
"""The colours of Okabe and Ito, which people with colour blindness can tell apart."""
CURVE_STYLE = (
    "".join(f".model-{k} {{ stroke: {colour}; }}" for k, colour in enumerate(COLOURS))
    + "[class^=model-] { fill: none; stroke-width: 1.5; }"
    + " .winner { stroke-width: 3; } .trivial { stroke-dasharray: 2 4; } .hindsight { stroke-dasharray: 7 3; }"
)
"""Style of the curves of :func:`curves`, which have the colours of :func:`chart`."""


class TableColumn(NamedTuple):
    """A column of the table of models."""

    head: str
    cell: Callable[[ModelStanding], str]
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
    "best-schedule": "is a retrained model with the best schedule on each source, which nobody can know before",
    "frozen": "is fitted to the first batches and never again",
    "oblivious": "learns every batch and never replaces its model",
    "majority": "predicts the most frequent class so far",
    "mean": "predicts the mean of all values so far",
    "persistence": "repeats the last label",
}
"""Descriptions of the kinds of models of a comparison, by the first word of their names."""


class TableCell(NamedTuple):
    """A cell of a table."""

    text: str
    best: bool = False
    """Whether it has the lowest error of its row or column."""


class Sheet(NamedTuple):
    """A table as text; the first column holds names, the others numbers."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[TableCell]]
    narrow: Sequence[int] = ()
    """Columns that may be left out in a narrow terminal, in this order."""


ERRORS = (
    TableColumn("95 % interval", lambda one: _range(one.error), 6),
    TableColumn("gap", lambda one: _number(one.behind.value)),
    TableColumn("95 % interval", lambda one: _range(one.behind), 4),
    TableColumn("win rate", lambda one: "-" if one.wins is None else percent(one.wins), 5),
    TableColumn("rank", lambda one: "-" if one.rank is None else f"{one.rank:.2f}", 3),
)
IN_UNITS = (
    TableColumn("MAE", lambda one: "" if one.in_units is None else significant(one.in_units.mae), 7),
    TableColumn("RMSE", lambda one: "" if one.in_units is None else significant(one.in_units.rmse), 7),
)
QUALITY = (
    TableColumn("kappa", lambda one: _quality(one, "kappa"), 2),
    TableColumn("balanced error", lambda one: _quality(one, "balanced_error"), 2),
    TableColumn("log loss", lambda one: _quality(one, "log_loss"), 2),
)
RATIO = (TableColumn("relative RMSE", lambda one: _number(one.relative_rmse or 0.0), 7),)
TIMES = (TableColumn("CPU s", lambda one: f"{one.seconds:.2f}", 2),)
COSTS = (
    TableColumn("gradients per row", lambda one: f"{one.gradients_per_row:.1f}" if one.gradients_per_row else "-", 1),
)
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
    for sentence in (_verdict(result), *_hindsight(result)):
        screen.print(f"{sentence}.")
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
    told = f"{_size(result)}; lower errors are better", _verdict(result), *_hindsight(result), _method(result)
    notes = [f"{sentence}." for sentence in told]
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
        *(html.note(f"{sentence}.") for sentence in _hindsight(result)),
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
    described = [f"{kind} {what}" for kind, what in KINDS.items() if kind in compared]
    return f"What the models do: {'; '.join(described)}." if described else ""


def _curve_note(result: Comparison) -> str:
    """Return what the curves show."""
    spans = any(len(one.curve) < source.steps - FIRST_STEP for source in result.sources for one in source.models)
    each = f"the mean of several steps, {MOST_POINTS} points in all" if spans else "one step"
    rules = any(one.model in TRIVIAL for one in result.overall.models)
    return (
        f"Each point is {each}; the thick line has the lowest error over all steps"
        + ("; the dotted ones are rules without a model, drawn at the edge where they are beyond it." if rules else ".")
        + " The dashed one was chosen afterwards." * any(one.schedules for one in result.overall.models)
    )


def _size(result: Comparison) -> str:
    """Return how many rows were compared, and in how many steps, because errors depend on the length of a step."""
    rows, steps = result.overall.n_rows, result.overall.steps
    size = rows / steps
    each = f"{size:,.0f}" if size.is_integer() else f"about {size:,.0f}"
    return f"{rows:,} rows in {steps:,} steps of {each} row{'s' * (size != 1)}"


def _warning(result: Comparison) -> str:
    """Return a sentence if no model is better than a trivial rule; else nothing."""
    errors = {one.model: one.error.value for one in result.overall.contenders}
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
        TableColumn("model", lambda one: one.model),
        TableColumn(_error_name(result), lambda one: _number(one.error.value)),
        *ERRORS,
        *(of_regression if result.regression else QUALITY),
        *(TIMES if timed else ()),
        *COSTS,
    )
    ordered = sorted(result.overall.models, key=lambda one: one.error.value)
    narrow = sorted((k for k, one in enumerate(columns) if one.narrow), key=lambda k: columns[k].narrow)
    rows = [[TableCell(column.cell(one)) for column in columns] for one in ordered]
    yield Sheet("Models", [column.head for column in columns], rows, narrow)
    if several:
        yield _source_sheet(result, timed)
    if result.pairs:
        yield _pair_sheet(result)
    for one in result.overall.models:
        if one.schedules:
            yield _schedule_sheet(one)


def _schedule_sheet(one: ModelStanding) -> Sheet:
    """Return the errors of all schedules of retraining, with a column for each number of rows."""
    lowest = min(error for _, error in one.schedules)
    rows: dict[str, list[TableCell]] = {}
    for schedule, error in one.schedules:
        head = _schedule(schedule)
        rows.setdefault(head, [TableCell(head)]).append(TableCell(_number(error, 3), error == lowest))
    widths = dict.fromkeys(schedule.rows for schedule, _ in one.schedules)
    heads = ["retrained", *(f"last {width:,} rows" for width in widths)]
    return Sheet(f"Schedules of {one.model}", heads, list(rows.values()))


def _schedule(one: Schedule) -> str:
    return f"{one.learner}, every {'batch' if one.every == 1 else f'{one.every} batches'}"


def _hindsight(result: Comparison) -> list[str]:
    """Return what the best schedules of retraining are beside the winner, and which they are, in sentences."""
    found = result.overall.hindsight()
    for place, one in enumerate(result.overall.models):
        if one.schedules:
            each = ((source.title, source.models[place].schedules) for source in result.sources)
            best = ((title, min(every, key=lambda tried: tried[1])[0]) for title, every in each)
            chosen = (f"on {title} {_schedule(what)}, last {what.rows:,} rows" for title, what in best)
            found.append(f"{one.model} is, {'; '.join(chosen)}")
    return found


def _source_sheet(result: Comparison, timed: bool) -> Sheet:
    models = result.overall.models
    ranks = ["-" if one.rank is None else f"{one.rank:.2f}" for one in models]
    rows = [
        *(_errors(source.title, source) for source in result.sources),
        _errors("mean", result.overall),
        [TableCell("mean rank"), *map(TableCell, ranks)],
        *([[TableCell("CPU s in all"), *(TableCell(f"{one.seconds:.1f}") for one in models)]] if timed else ()),
    ]
    heads = [TableCell("source"), *(TableCell(one.model) for one in models)]
    if len(models) > len(result.sources):  # more models than sources: names of models are easier to read as rows
        heads, *rows = (list(column) for column in zip(heads, *rows, strict=True))
        heads[0] = TableCell("model")
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
            TableCell(one.other),
            TableCell(f"{one.lower} of {found.streams}"),
            TableCell(f"{one.higher} of {found.streams}"),
            TableCell(f"{one.probability:.3f}"),
            TableCell("yes" if abs(ranks[one.other] - best) > found.critical_difference else "no"),
        ]
        for one in result.pairs
    ]
    return Sheet("Differences over the sources", heads, rows)


def _errors(title: str, standings: Standings) -> list[TableCell]:
    lowest = standings.winner.error.value
    return [
        TableCell(title),
        *(TableCell(_number(one.error.value, 3), one.error.value == lowest) for one in standings.models),
    ]


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


def _quality(one: ModelStanding, what: Literal["kappa", "balanced_error", "log_loss"]) -> str:
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
    afterwards = any(one.schedules for one in result.overall.models)
    sentences = [
        "Each batch was predicted before it was learned; the first batch does not count",
        *([f"The relative error is {RELATIVE}"] if result.regression else []),
        *([] if result.ranking is None else [_ranks(result.ranking)]),
        f"The gap is the error minus the lowest one{' of those not chosen afterwards' * afterwards}",
        "The win rate is the share of resamples in which the model had the lowest error; equal models share it",
        f"{METHOD[0].upper()}{METHOD[1:]}",
        f"Each model ran with {many} seeds"
        if many > 1
        else "Each model ran with one seed, so that the intervals do not include the randomness of the models",
        *([] if budget is None else [f"All models had {budget:g} gradients per row"]),
    ]
    return ". ".join(sentences)


class ChartSize(NamedTuple):
    """The size of a chart."""

    width: int
    left: int
    """Width of the names of models."""
    right: int
    """Width of the numbers at the right."""
    name_length: int
    """Characters of a name at most."""
    ticks: int
    """Numbers on the axis at most, beside 0."""


WIDE, NARROW = ChartSize(960, 330, 60, 46, 10), ChartSize(348, 164, 46, 19, 4)
"""Layouts for a screen and for a phone."""


def chart(result: Comparison, layout: ChartSize = WIDE) -> str:
    """Return the chart: a line for each model, with a dot at its mean error and a bar for the interval."""
    groups = [*result.sources, *([result.overall] if len(result.sources) > 1 else [])]
    highest = max(one.error.high for group in groups for one in group.models)
    between = next(size for size in (1, 2, 5, 10) if 10 * min(highest, CUT) <= size * layout.ticks)
    tenths = between * max(1, math.ceil(10 * min(highest, CUT) / between))
    top = tenths / 10
    height = TOP + sum(GAP + LINE * (len(group.models) + 1) for group in groups)
    parts = []
    for k in range(0, tenths + 1, between):
        x = _x(k / 10, top, layout)
        line = element("line", x1=x, x2=x, y1=TOP - 8, y2=height - 4, stroke="currentColor", opacity=0.16)
        parts.append(line)
        parts.append(element("text", f"{k / 10:.1f}", x=x, y=TOP - 14, text_anchor="middle", font_size=12, fill="#888"))
    y = TOP
    for group in groups:
        parts += _group(group, y, top, layout)
        y += GAP + LINE * (len(group.models) + 1)
    description = f"errors of {len(result.overall.models)} models"
    return drawing(layout.width, height, description, parts, standalone=True) + "\n"


def _group(group: Standings, top_line: int, top: float, layout: ChartSize) -> list[str]:
    parts = [element("text", group.title, x=8, y=top_line + 12, font_size=13, font_weight=600, fill="currentColor")]
    for k, one in enumerate(group.models):
        y = top_line + LINE * (k + 1) + 8
        colour = COLOURS[k % len(COLOURS)]
        low, middle, high = (_x(value, top, layout) for value in (one.error.low, one.error.value, one.error.high))
        weight = 700 if one.model == group.winner.model else 400
        numbers = f"{one.model}: {one.error.value:.4f} ({one.error.low:.4f} to {one.error.high:.4f})"
        parts += [
            label(short(one.model, layout.name_length), layout.left - 12, y, weight),
            element("line", x1=low, x2=high, y1=y, y2=y, stroke=colour, stroke_width=3, opacity=0.5),
            element("circle", title=numbers, cx=middle, cy=y, r=4.5, fill=colour),
            label(f"{one.error.value:.3f}", layout.width - 6, y, weight),
        ]
    return parts


def curves(source: Standings, y_label: str) -> str:
    """Return the error of each model on one source over time, with a legend, as HTML."""
    ours = [max(one.curve) for one in source.models if one.model not in TRIVIAL] or [CUT]
    drawn = Chart(source.steps, 1.05 * max(0.1, min(max(ours), CUT)), y_label)
    entries = []
    for k, one in enumerate(source.models):
        css = f"model-{k % len(COLOURS)}" + " winner" * (one.model == source.winner.model)
        css += " trivial" * (one.model in TRIVIAL) + " hindsight" * bool(one.schedules)
        width = (source.steps - FIRST_STEP) / len(one.curve)
        at = [FIRST_STEP + (place + 0.5) * width - 0.5 for place in range(len(one.curve))]
        drawn.line(one.curve, css=css, title=one.model, at=at)
        entries.append((css, "line", one.model))
    picture = drawn.render(f"error over time of {len(source.models)} models on {source.title}")
    return f'<div class="chart">{picture}</div>{html.legend(entries)}'


def label(text: str, x: float, y: float, weight: int) -> str:
    """Return text that ends at x, in the middle of the line at y."""
    anchor, colour = "end", "currentColor"
    return element("text", text, x=x, y=y + 4, text_anchor=anchor, font_size=12, font_weight=weight, fill=colour)


def _x(value: float, top: float, layout: ChartSize) -> float:
    return layout.left + (layout.width - layout.left - layout.right) * min(value / top, 1.0)


def short(name: str, longest: int) -> str:
    """Return a name of at most so many characters."""
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


RANK_LINE, RANK_TOP = 20, 62
BAR = 9
"""Distance between the bars of two groups."""


def rank_chart(found: Ranking, layout: ChartSize = WIDE) -> str:
    """Return the diagram: a line for each model with a dot at its mean rank, and a bar beside models that are alike.

    The models of a bar do not differ by more than the critical difference, whose length is drawn above the axis.
    """
    groups = found.alike
    right = layout.right + BAR * (len(groups) + 2)  # a dot at the last rank stays clear of the bars
    most = len(found.algorithms)
    height = RANK_TOP + RANK_LINE * most + 6

    def x(rank: float) -> float:
        return layout.left + (layout.width - layout.left - right) * (rank - 1.0) / (most - 1)

    parts = _scale(found, x(1.0), x(1.0 + min(found.critical_difference, most - 1.0)))
    for tick in range(1, most + 1, max(1, math.ceil(most / layout.ticks))):
        line = element("line", x1=x(tick), x2=x(tick), y1=RANK_TOP - 8, y2=height, stroke="currentColor", opacity=0.16)
        text = element("text", str(tick), x=x(tick), y=RANK_TOP - 14, text_anchor="middle", font_size=12, fill="#888")
        parts += [line, text]
    for place, (name, rank) in enumerate(zip(found.algorithms, found.average_ranks, strict=True)):
        y = RANK_TOP + RANK_LINE * place + 12
        parts += [
            label(short(name, layout.name_length), layout.left - 12, y, 700 if place == 0 else 400),
            element("circle", title=f"{name}: mean rank {rank:.2f}", cx=x(rank), cy=y, r=4.5, fill="#0072b2"),
            label(f"{rank:.2f}", layout.width - 6, y, 400),
        ]
    for number, group in enumerate(groups):
        first, last = (found.algorithms.index(group[end]) for end in (0, -1))
        across = layout.width - layout.right - BAR * (len(groups) - number) + 4
        title = f"no significant difference: {', '.join(group)}"
        y1, y2 = RANK_TOP + RANK_LINE * first + 6, RANK_TOP + RANK_LINE * last + 18
        bar = element("line", title=title, x1=across, x2=across, y1=y1, y2=y2, stroke="#d55e00", stroke_width=4)
        parts.append(bar)
    return drawing(layout.width, height, f"mean ranks of {most} models", parts, standalone=True) + "\n"


def _scale(found: Ranking, start: float, stop: float) -> list[str]:
    """Return the critical difference as a length above the axis."""
    text = f"critical difference {found.critical_difference:.2f}"
    return [
        element("line", x1=start, x2=stop, y1=26, y2=26, stroke="#d55e00", stroke_width=4),
        element("text", text, x=start, y=18, font_size=12, fill="currentColor"),
    ]
