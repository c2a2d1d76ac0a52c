"""Columns that changed around each reaction: their means, and their correlation with the label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from driftsurf.core.wording import significant
from driftsurf.errors.visible import escape
from driftsurf.evaluation.column_moves import ColumnMove, name_counters, without_counters
from driftsurf.report import html
from driftsurf.report.sections import RunView, Section

MOST_REACTIONS = 60
COLUMNS_SHOWN = 5


def build(run: RunView) -> Iterator[str]:
    """Return the table of columns; nothing if no columns were recorded."""
    if run.moves:
        yield from tables(run.moves)


def tables(moves: Sequence[ColumnMove]) -> Iterator[str]:
    """Return the explanation, the table, and a note if it does not have all reactions."""
    reactions = [(step, list(group)) for step, group in groupby(moves, key=lambda move: move.step)]
    yield html.note(
        f"Up to {max(move.steps for move in moves)} steps before each reaction are compared with as many from it on. "
        "The shift of the mean is in standard deviations. The correlation is that with the label, or with belonging to "
        "the class in brackets; it can change while no mean does. Changes that chance alone explains are left out."
        f"{_names_explained(moves)}"
    )
    parts = [(step, *without_counters(group, moves)) for step, group in reactions[:MOST_REACTIONS]]
    rows = [row for step, others, _ in parts for row in _rows(step, others)]
    heads = ("step", "column", "mean", "shift", "correlation with the label", "change")
    yield html.wide_table(heads, rows, numbers=(0,))
    if counters := name_counters(move for _, _, found in parts for move in found):
        yield html.note(f"{counters[0].upper()}{counters[1:]}.")
    if len(reactions) > MOST_REACTIONS:
        yield html.note(f"The first {MOST_REACTIONS} of {len(reactions)} reactions are shown.")


def _names_explained(moves: Sequence[ColumnMove]) -> str:
    """Return what names of columns that the encoder made of others mean, if there are any."""
    names = [move.name for move in moves]
    means = {
        "=": "A name such as city=Rome is 1 where the column has that value, else 0.",
        "is missing": "A name that ends in \u201cis missing\u201d is 1 where the cell is empty, else 0.",
        "(hash ": "Of a column with many words, those with the same (hash) number are counted together.",
    }
    return "".join(f" {text}" for part, text in means.items() if any(part in name for name in names))


def _rows(step: int, moves: Sequence[ColumnMove]) -> Iterator[Sequence[str]]:
    chosen = [move for move in moves if move.beyond_chance][:COLUMNS_SHOWN]
    headed = bool(chosen) and not chosen[0].calendar
    if not headed:
        what = f"none{' but the calendar' * bool(chosen)} beyond chance"
        yield str(step), f'<span class="soft">{what}</span>', "", "", "", ""
    for place, move in enumerate(chosen):
        of_class = f" ({escape(move.label)})" if move.label else ""
        yield (
            str(step) if headed and place == 0 else "",
            escape(move.name),
            f"{significant(move.mean_before)} &rarr; {significant(move.mean_after)}",
            _meter(move.shift / 2, f"{move.shift:+z.2f} sd"),
            f"{move.correlation_before:+z.2f} &rarr; {move.correlation_after:+z.2f}{of_class}",
            _meter(move.correlation_change / 2, f"{move.correlation_change:+z.2f}"),
        )


def _meter(share: float, text: str) -> str:
    """Return a bar to the left or right of a middle line, with the number beside it; ``share`` is from -1 to 1."""
    width = min(abs(share), 1.0) * 50.0
    start = 50.0 - width if share < 0 else 50.0
    return (
        f'<span class="meter"><i style="left:{start:.1f}%;width:{width:.1f}%"></i></span>'
        f'<span class="meter-text">{text}</span>'
    )


SECTION = Section("Columns that changed", 70, build)
