"""The document of an interactive page: its script, its style, its data, and the policy that confines it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from driftsurf.report import html
from driftsurf.report.figure import Bars, Figure, Overlay, as_json
from driftsurf.report.sections import Section

__all__ = ["TOOLBAR", "Built", "document"]

Built: TypeAlias = Sequence[tuple[Section, Sequence[str | Figure | Bars]]]
"""Sections with their parts, HTML and figures."""

TOOLBAR = """<div class="toolbar" hidden role="toolbar" aria-label="view of the figures">
<button type="button" data-act="in" title="zoom in (+)">+</button><button type="button" data-act="out"
 title="zoom out (-)">&minus;</button><button type="button" data-act="all" title="show all steps (0)">all</button>
<button type="button" data-act="previous" title="previous event (p)">&lsaquo; event</button><button type="button"
 data-act="next" title="next event (n)">event &rsaquo;</button>
<span class="axes" role="group" aria-label="horizontal axis">axis
<button type="button" data-axis="step">step</button><button type="button" data-axis="row">row</button><button
 type="button" data-axis="time">time</button></span>
<span class="layers"></span><output class="view"></output>
<details class="keys"><summary>keys</summary><p>Drag over a figure to zoom, double-click to show all; Ctrl and the wheel
zoom too. With a figure in focus: <kbd>&larr;</kbd> <kbd>&rarr;</kbd> step, with <kbd>Shift</kbd> further,
<kbd>Home</kbd> <kbd>End</kbd> ends, <kbd>n</kbd> <kbd>p</kbd> next and previous event, <kbd>+</kbd> <kbd>-</kbd> zoom,
<kbd>0</kbd> all, <kbd>Esc</kbd> leave. The names below a figure are buttons that hide and show a curve.</p></details>
</div><p class="readout" aria-live="polite"></p>"""


def document(title: str, head: Iterable[str], overlay: Overlay, sections: Built) -> str:
    """Return a whole page: what stands above the figures, then the sections, the folded ones last.

    Without a script it shows the same figures as still drawings.

    Its policy lets it load nothing, and run no script but the one whose digest it names.
    """
    script = html.asset("page.js")
    figures = [part for _, parts in sections for part in parts if not isinstance(part, str)]
    data = as_json(overlay, figures)
    body = [*head, TOOLBAR]
    for section, parts in sorted(sections, key=lambda built: built[0].folded):
        body.append(section.render(part if isinstance(part, str) else part.render(overlay) for part in parts))
    scripts = f'<script type="application/json" id="run">{data}</script>\n<script>{script}</script>'
    return html.document(title, [*body, scripts], style=html.look(), policy=html.script_policy(script))
