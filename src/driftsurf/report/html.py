"""What all pages share: the style, the document around a page, cards, tables, notes and legends."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from driftsurf.errors import RunFolderError
from driftsurf.errors.visible import escape, visible

HEAD_BYTES = 65_536
"""The style begins within this many bytes of a page."""


def asset(name: str, package: str = "driftsurf.report") -> str:
    """Return the text of a file of a package, such as a style or a script."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


STYLE = asset("base.css")
"""The style of every page."""


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
