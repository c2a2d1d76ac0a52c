"""Tables of errors: ours and the paper's, with the difference as a number and as a colour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from driftsurf.data.datasets.known import DATASETS
from driftsurf.errors.visible import escape
from driftsurf.reproduction.cells import ErrorCell
from driftsurf.reproduction.plan import AlgorithmColumn, PaperTable, variants_of
from driftsurf.reproduction.published import STREAMS, best
from driftsurf.reproduction.reproduce import Reproduction, title_of
from driftsurf.strategies import Variant

LIMITS = 0.005, 0.010, 0.020
"""Differences above these are shaded, each darker than the one before."""


def shade(difference: float | None, unit: float = 1.0) -> str:
    """Return the CSS class of a difference: orange if above, blue if below, '' if small.

    >>> shade(0.015), shade(-0.03), shade(0.001)
    ('above2', 'below3', '')
    """
    depth = 0 if difference is None else sum(abs(difference) > unit * limit + 1e-9 for limit in LIMITS)
    return f"{'above' if difference and difference > 0 else 'below'}{depth}" if depth else ""


def scale(unit: float = 1.0) -> str:
    """Return the legend of the colours."""
    bounds = [f"{limit * unit:.3f}" for limit in LIMITS]
    texts = [f"below by more than {bound}" for bound in reversed(bounds)]
    texts += [f"above by more than {bound}" for bound in bounds]
    classes = "below3", "below2", "below1", "above1", "above2", "above3"
    spans = "".join(f'<span class="{css}">{text}</span>' for css, text in zip(classes, texts, strict=True))
    return f'<p class="scale soft">{spans}</p>'


def signed(difference: float) -> str:
    """Return a difference in three decimals with its sign.

    >>> signed(-0.0104), signed(-0.0004)
    ('-0.010', '0')
    """
    text = f"{difference:+.3f}"
    return "0" if text[1:] == "0.000" else text


def stream_name(dataset: str) -> str:
    """Return the title of a stream as HTML, for the first column."""
    return escape(title_of(dataset))


def by_stream(datasets: Iterable[str], line: Mapping[str, str], columns: int) -> str:
    """Return table rows with the paper's streams first; stand-ins follow below a line that says so."""
    datasets = list(datasets)
    rows = [line[name] for name in datasets if name in STREAMS]
    others = [name for name in datasets if name not in STREAMS]
    if others:
        places = {STREAMS[DATASETS[name].stands_for or name].title for name in others}
        text = f"Not the paper&rsquo;s data: stand-ins for {escape(', '.join(sorted(places)))}"
        rows += [f'<tr class="rule"><td colspan="{columns}">{text}</td></tr>', *(line[name] for name in others)]
    return "".join(rows)


def error_table(result: Reproduction, table: PaperTable, *, variants: Sequence[Variant] | None = None) -> str:
    """Return a table with a row for each stream and a column for each algorithm; DriftSurf has one for each variant.

    A cell has our median and half the spread of the trials; below, the printed error and the difference. The best
    is marked if there are more than two algorithms.
    """
    cells = {(c.dataset, c.algorithm, c.variant): c for c in result.cells if c.table == table.name}
    heads = [
        (column, variant)
        for column in table.columns
        for variant in variants_of(column)
        if variants is None or variant in variants
    ]
    names = "".join(f'<th class="number">{_head(column, variant)}</th>' for column, variant in heads)
    line = {}
    for dataset in dict.fromkeys(dataset for dataset, _, _ in cells):
        row = {(column.name, variant): cells[dataset, column.name, variant] for column, variant in heads}
        rivals = {name: cell.rounded for (name, variant), cell in row.items() if variant == "algorithm-1"}
        bold = best(rivals) if len(rivals) > 2 else frozenset()
        texts = [_cell(cell, best=name in bold and variant == "algorithm-1") for (name, variant), cell in row.items()]
        line[dataset] = f"<tr><td>{stream_name(dataset)}</td>{''.join(texts)}</tr>"
    body = by_stream(line, line, len(heads) + 1)
    return f'<div class="wide errors"><table><tr><th>stream</th>{names}</tr>{body}</table></div>'


def changes_table(result: Reproduction, table: PaperTable) -> str:
    """Return a table with a row for each stream: the error of the first column, and the differences of the others."""
    cells = {(c.dataset, c.algorithm): c for c in result.cells if c.table == table.name and c.variant == "algorithm-1"}
    usual, *others = table.columns
    line = {}
    for dataset in dict.fromkeys(dataset for dataset, _ in cells):
        base = cells[dataset, usual.name].rounded
        gaps = [cells[dataset, column.name].rounded - base for column in others]
        tiles = "".join(f'<td class="number {shade(gap)}">{signed(gap)}</td>' for gap in gaps)
        line[dataset] = f'<tr><td>{stream_name(dataset)}</td><td class="number">{base:.3f}</td>{tiles}</tr>'
    names = "".join(f'<th class="number">{escape(column.title)}</th>' for column in table.columns)
    body = by_stream(line, line, len(table.columns) + 1)
    return f'<div class="wide errors"><table><tr><th>stream</th>{names}</tr>{body}</table></div>'


def _head(column: AlgorithmColumn, variant: Variant) -> str:
    if variant == "authors":
        return f"{escape(column.title)}<br>authors&rsquo; code"
    return escape(column.title)


def _cell(cell: ErrorCell, *, best: bool) -> str:
    css = ' class="best"' if best else ""
    under = f'<br><span class="under">{_paper(cell)}</span>' if cell.paper is not None else ""
    resets = f'<br><span class="under">{cell.resets:g} resets</span>' * (cell.table == "detectors")
    spread = f' <span class="under">&plusmn;{cell.spread / 2:.3f}</span>' * (len(cell.trials) > 1)
    number = f"<span{css}>{cell.rounded:.3f}</span>{spread}"
    return f'<td class="number {shade(cell.difference)}">{number}{under}{resets}</td>'


def _paper(cell: ErrorCell) -> str:
    return f"{cell.paper:.3f} {signed(cell.difference or 0.0)}"
