"""Which classes were predicted for the rows of others, and how often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from driftsurf.errors.visible import escape
from driftsurf.report import html
from driftsurf.report.sections import RunView, Section

MOST_PAIRS = 10
FEW_CLASSES = 3
"""Up to this many classes, the matrix says it all."""
CAPTION = "Each line is a true class, each column a prediction. The shade is the share of the rows of the true class."
WARM_UP = " The first batch is left out."


def build(run: RunView) -> Iterator[str]:
    """Return the most frequent confusions and the whole matrix; nothing if pairs of classes were not counted."""
    if run.scores is None or not run.scores.labels:
        return
    labels, counts = run.scores.confusion()
    order = sorted(range(len(labels)), key=lambda place: run.class_order(labels[place]))
    names = [escape(str(labels[place])) for place in order]
    table = counts[order][:, order].tolist()
    if len(names) > FEW_CLASSES:
        yield from _pairs(names, table)
    lines = []
    for name, line in zip(names, table, strict=True):
        total = sum(line)
        shades = ((round(100 * count / total) if total else 0, count) for count in line)
        cells = "".join(f'<td class="number" style="--share:{shade}%">{count:,}</td>' for shade, count in shades)
        lines.append(f'<tr><th scope="row">{name}</th>{cells}<td class="number soft">{total:,}</td></tr>')
    heads = "".join(f'<th class="number" scope="col">{name}</th>' for name in names)
    first = f'<tr><th>true \\ predicted</th>{heads}<th class="number">rows</th></tr>'
    yield html.note(CAPTION + WARM_UP * bool(run.trace.warmup_steps))
    yield f'<div class="wide"><table class="confusion">{first}{"".join(lines)}</table></div>'


def _pairs(names: Sequence[str], table: Sequence[Sequence[int]]) -> Iterator[str]:
    """Return the most frequent confusions as a table."""
    wrong = [(count, a, b) for a, line in enumerate(table) for b, count in enumerate(line) if count and a != b]
    if not wrong:
        return
    frequent = sorted(wrong, key=lambda one: (-one[0], one[1], one[2]))[:MOST_PAIRS]
    rows = [
        (names[a], names[b], f"{count:,}", f"{100 * count / sum(table[a]):.0f} % of {names[a]}")
        for count, a, b in frequent
    ]
    yield html.wide_table(("rows of", "were predicted as", "rows", "share"), rows, numbers=(2,))
    total = sum(count for count, _, _ in wrong)
    if len(wrong) > len(frequent):
        yield html.note(f"The {MOST_PAIRS} most frequent confusions; in all, {total:,} rows were confused.")


SECTION = Section("Confusions", 42, build)
