"""How often each class was predicted for the rows of each class."""

from __future__ import annotations

from collections.abc import Iterator

from driftsurf.report import html
from driftsurf.report.sections import RunView, Section
from driftsurf.visible import escape

CAPTION = "Each line is a true class, each column a prediction. The shade is the share of the rows of the true class."
WARM_UP = " The first batch is left out."


def build(run: RunView) -> Iterator[str]:
    """Return the table; nothing for regression, or if the run did not count pairs of classes."""
    if run.scores is None or not run.scores.labels:
        return
    labels, counts = run.scores.confusion()
    order = sorted(range(len(labels)), key=lambda place: run.class_order(labels[place]))
    names = [escape(str(labels[place])) for place in order]
    lines = []
    for name, line in zip(names, counts[order][:, order].tolist(), strict=True):
        total = sum(line)
        shades = ((round(100 * count / total) if total else 0, count) for count in line)
        cells = "".join(f'<td class="number" style="--share:{shade}%">{count:,}</td>' for shade, count in shades)
        lines.append(f'<tr><th scope="row">{name}</th>{cells}<td class="number soft">{total:,}</td></tr>')
    heads = "".join(f'<th class="number" scope="col">{name}</th>' for name in names)
    first = f'<tr><th>true \\ predicted</th>{heads}<th class="number">rows</th></tr>'
    yield html.note(CAPTION + WARM_UP * bool(run.trace.warmup_steps))
    yield f'<div class="wide"><table class="confusion">{first}{"".join(lines)}</table></div>'


SECTION = Section("Confusion matrix", 42, build)
