"""What all pages share: the style, the document around a page, cards, tables, notes and legends."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from driftsurf.errors import RunFolderError
from driftsurf.visible import escape, visible

HEAD_BYTES = 65_536
"""The style begins within this many bytes of a page."""
STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6675; --line: #d9dee5; --paper: #ffffff;
  --model: #0072b2; --oracle: #6b6b6b; --drift: #d55e00; --band: #e69f0033; --switch: #009e73; --keep: #cc79a7;
  --shade: #1d243055; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebf0; --soft: #a3adba; --line: #39424f; --paper: #14181e;
  --model: #56b4e9; --oracle: #b0b0b0; --drift: #ff8a3d; --band: #e69f0040; --switch: #3ddbaa; --keep: #e7a3c9;
  --shade: #e8ebf055; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1040px; padding: 28px 24px 60px; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.brand { display: flex; align-items: center; gap: 8px; margin: 0 0 18px; font-weight: 700; color: var(--ink);
  text-decoration: none; } .brand svg { width: 28px; height: 28px; flex: none; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 36px 0 6px; }
p { margin: 6px 0; } .soft { color: var(--soft); }
a { color: var(--model); }
.warning { border-left: 4px solid var(--drift); background: var(--band); padding: 8px 14px;
  border-radius: 0 6px 6px 0; }
.verdict { font-size: 18px; margin: 12px 0 18px; padding: 12px 16px;
  border-left: 6px solid var(--state); border-radius: 6px;
  background: color-mix(in srgb, var(--state) 12%, transparent); overflow-wrap: anywhere; }
.fine { --state: var(--switch); } .drifting { --state: var(--drift); } .trivial { --state: #c4302b; }
.waiting { --state: var(--soft); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(126px, 1fr)); gap: 12px; margin: 18px 0; }
.card { border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
.card b { display: block; white-space: nowrap; font-size: 22px; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto;
  background: linear-gradient(to right, var(--paper) 40%, transparent) left / 36px 100% no-repeat local,
  linear-gradient(to left, var(--paper) 40%, transparent) right / 36px 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) left / 14px 100% no-repeat scroll,
  linear-gradient(to left, var(--shade), transparent) right / 14px 100% no-repeat scroll; }
.chart > svg { width: 100%; height: auto; display: block; }
.grid { stroke: var(--line); stroke-width: 1; } .axis { stroke: var(--soft); stroke-width: 1; }
.tick, .name, .rule-label { fill: var(--soft); font-size: 12px; }
.rule-label { fill: var(--ink); font-weight: 600; text-anchor: middle; }
.curve { fill: none; stroke: var(--model); stroke-width: 2; }
.oracle { fill: none; stroke: var(--oracle); stroke-width: 1.5; stroke-dasharray: 5 4; }
.limit { fill: none; stroke: var(--drift); stroke-width: 1.2; stroke-dasharray: 2 3; }
.rival { fill: none; stroke: var(--switch); stroke-width: 1.5; }
.drift { stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 7 4; }
rect.drifting { fill: var(--soft); opacity: .14; } .reactive { fill: var(--band); }
rect.found { fill: var(--drift); opacity: .18; } .begins { stroke: var(--drift); stroke-width: 2; }
.pinned { fill: var(--oracle); opacity: .22; } .order { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 2 2; }
.switched { fill: var(--switch); } .kept { fill: var(--keep); }
circle:focus { outline: 2px solid var(--ink); }
.legend { display: flex; flex-wrap: wrap; gap: 6px 20px; font-size: 13px; color: var(--soft); margin: 4px 0 0 72px; }
.legend svg { display: inline-block; width: 28px; height: 12px; vertical-align: -1px; margin-right: 6px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 15px; }
th, td { text-align: left; padding: 6px 10px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; } td.number, th.number { text-align: right; }
.square { max-width: 380px; } .square svg { width: 100%; height: auto; display: block; } .dot { fill: var(--model); }
.confusion td:not(.soft) { background: color-mix(in srgb, var(--model) calc(var(--share) * .6), transparent); }
.confusion { width: auto; } .confusion td, .confusion th { padding: 6px 12px; }
.on-narrow { display: none; } .chart.on-narrow > svg { min-width: 0; }
@media (max-width: 640px) { body { padding: 20px 16px 48px; } .on-wide { display: none; } .on-narrow { display: block; }
  .legend { margin-left: 0; } .verdict { font-size: 16px; } }
@media print { body { max-width: none; padding: 0; } h2 { break-after: avoid; } svg, tr { break-inside: avoid; } }
"""


def document(title: str, body: Iterable[str], *, style: str = "", policy: str = "") -> str:
    """Return a whole page that loads nothing, with the name of the project on top.

    ``style`` is added to the common one. ``policy`` is a Content-Security-Policy: what the page may do.
    """
    lines = "\n".join(body)
    allowed = f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">' if policy else ""
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{allowed}<title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">{icon()}'
        f"<style>{STYLE}{style}</style></head>\n"
        f'<body>\n<p class="brand">{brand()}</p>\n{lines}\n</body></html>\n'
    )
    return visible(page, lines=True)


def check_replaceable(path: Path) -> None:
    """Raise RunFolderError if a page would replace a file that is no page of this package, which has its style."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        begins = file.read(HEAD_BYTES)
    if STYLE[:80].encode() not in begins:
        raise RunFolderError(
            f"{str(path)!r} already exists, and is no page of driftsurf; choose another file, or remove it"
        )


def asset(name: str) -> str:
    """Return the text of a file of this package, such as a style or a script."""
    return files("driftsurf.report").joinpath(name).read_text(encoding="utf-8")


def brand() -> str:
    """Return the logo and the name of the project as HTML; a reader of the page aloud says the name once."""
    return asset("logo.svg").strip().replace(' role="img" aria-label="driftsurf"', ' aria-hidden="true"') + "driftsurf"


def icon() -> str:
    """Return the link to the logo for the tab of a browser; the logo is inside, so that nothing is loaded."""
    encoded = base64.b64encode(asset("logo.svg").encode()).decode()
    return f'<link rel="icon" type="image/svg+xml" href="data:image/svg+xml;base64,{encoded}">'


def look() -> str:
    """Return the style that the pages of runs, keys, comparisons and the index of runs share, for ``document``."""
    return asset("page.css")


def either(wide: str, narrow: str) -> str:
    """Return two drawings of the same figure, of which a phone shows the ``narrow`` one and other screens the other."""
    return f'<div class="chart on-wide">{wide}</div><div class="chart on-narrow">{narrow}</div>'


def script_policy(script: str) -> str:
    """Return a policy for ``document`` that lets a page load nothing but its own icon, and run this script only."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def cards(values: Iterable[tuple[str, str]]) -> str:
    """Return a row of numbers, from pairs of a label and a number in plain text."""
    inner = "".join(f'<div class="card"><b>{escape(number)}</b>{escape(word)}</div>' for word, number in values)
    return f'<div class="cards">{inner}</div>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[int] = ()) -> str:
    """Return a table; heads and cells are HTML, and the columns ``numbers`` are aligned right.

    >>> table(("step", "why"), [("3", "drift")], numbers=(0,))
    '<table><tr><th class="number">step</th><th>why</th></tr><tr><td class="number">3</td><td>drift</td></tr></table>'
    """
    kinds = [' class="number"' * (place in numbers) for place in range(len(heads))]
    lines = ["".join(f"<th{kind}>{head}</th>" for kind, head in zip(kinds, heads, strict=True))]
    lines += ["".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True)) for row in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def wide_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[int] = ()) -> str:
    """Return a table that scrolls sideways if it is wider than the page; shadows at its edges show that it does."""
    return f'<div class="wide">{table(heads, rows, numbers=numbers)}</div>'


def note(text: str) -> str:
    """Return a paragraph of explanation, from plain text."""
    return f'<p class="soft">{escape(text, quote=False)}</p>'


def verdict(status: str, text: str) -> str:
    """Return the paragraph that says how a model is, in the colour of its status, from plain text."""
    return f'<p class="verdict {status}">{escape(text, quote=False)}</p>'


def warning(text: str) -> str:
    """Return a paragraph that warns the reader, from plain text."""
    return f'<p class="warning" role="note"><b>Warning.</b> {escape(text, quote=False)}</p>'


def legend(entries: Sequence[tuple[str, str, str]]) -> str:
    """Return the legend of a chart, from triples of a CSS class, a shape ("line" or "box") and a text."""
    shapes = {
        "line": '<line class="{}" x1="0" x2="28" y1="6" y2="6"/>',
        "box": '<rect class="{}" width="28" height="12"/>',
    }
    items = (
        f'<span><svg viewBox="0 0 28 12" aria-hidden="true">{shapes[shape].format(css)}</svg>{escape(text)}</span>'
        for css, shape, text in entries
    )
    return f'<div class="legend">{"".join(items)}</div>'
