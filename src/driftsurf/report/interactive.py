"""The document of an interactive page: its script, its style, its data, and the policy that confines it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from driftsurf.report import html
from driftsurf.report.figure import Bars, Figure, Overlay, as_json

__all__ = ["TOOLBAR", "document"]

TOOLBAR = """<div class="toolbar" hidden role="toolbar" aria-label="view of the figures">
<button type="button" data-act="in" title="zoom in (+)">+</button><button type="button" data-act="out"
 title="zoom out (-)">&minus;</button><button type="button" data-act="all" title="show all steps (0)">all</button>
<button type="button" data-act="previous" title="previous change (p)">&lsaquo; change</button><button type="button"
 data-act="next" title="next change (n)">change &rsaquo;</button>
<span class="axes" role="group" aria-label="horizontal axis">axis
<button type="button" data-axis="step">step</button><button type="button" data-axis="row">row</button><button
 type="button" data-axis="time">time</button></span>
<span class="layers"></span><output class="view"></output>
<details class="keys"><summary>keys</summary><p>Drag over a figure to zoom, double-click to show all; Ctrl and the wheel
zoom too. With a figure in focus: <kbd>&larr;</kbd> <kbd>&rarr;</kbd> step, with <kbd>Shift</kbd> further,
<kbd>Home</kbd> <kbd>End</kbd> ends, <kbd>n</kbd> <kbd>p</kbd> next and previous change, <kbd>+</kbd> <kbd>-</kbd> zoom,
<kbd>0</kbd> all, <kbd>Esc</kbd> leave. The names below a figure are buttons that hide and show a curve.</p></details>
</div><p class="readout" aria-live="polite"></p>"""


def document(title: str, body: Iterable[str], overlay: Overlay, figures: Sequence[Figure | Bars]) -> str:
    """Return a whole page. Without a script it shows the same figures as still drawings.

    Its policy lets it load nothing, and run no script but the one whose digest it names.
    """
    script = html.asset("page.js")
    data = as_json(overlay, figures)
    scripts = f'<script type="application/json" id="run">{data}</script>\n<script>{script}</script>'
    return html.document(title, [*body, scripts], style=html.look(), policy=html.script_policy(script))
