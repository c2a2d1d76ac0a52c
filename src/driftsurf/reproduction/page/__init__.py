"""The page of a reproduction: one self-contained HTML file, and the figures as files beside it.

``overview`` writes the top of the page, ``sections`` the rest with the help of ``tables`` and ``findings``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from driftsurf.core import files
from driftsurf.errors.visible import escape
from driftsurf.report import html
from driftsurf.reproduction.page import overview
from driftsurf.reproduction.page.sections import SECTIONS, Gallery
from driftsurf.reproduction.reproduce import Reproduction

if TYPE_CHECKING:
    from driftsurf.reproduction.figures import Picture

__all__ = ["render", "write"]

TITLE = "The DriftSurf paper, reproduced"
NO_FIGURES = "There are no figures, because matplotlib is not installed: pip install 'driftsurf[figures]'."


def write(folder: Path, result: Reproduction) -> None:
    """Write ``report.html``, and the figures as PNG and PDF if the experiment "figures" was run."""
    pictures: list[Picture] | None = []
    if "figures" in result.experiments:
        pictures = _draw(result)
    if pictures:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
    for picture in pictures or ():
        files.write_bytes(folder / "figures" / f"{picture.name}.png", picture.png, shared=True)
        files.write_bytes(folder / "figures" / f"{picture.name}.pdf", picture.pdf, shared=True)
    files.write_text(folder / "report.html", render(result, pictures), shared=True)


def _draw(result: Reproduction) -> list[Picture] | None:
    """Draw the figures; None without matplotlib, so that its absence does not spoil a long run."""
    try:
        from driftsurf.reproduction import figures
    except ImportError:
        return None
    return list(figures.draw(result))


def render(result: Reproduction, pictures: Sequence[Picture] | None = ()) -> str:
    """Return the page; ``pictures`` is None if they could not be drawn."""
    gallery = Gallery(pictures or ())
    built = [(section, section.build(result, gallery)) for section in SECTIONS]
    shown = [(section, content) for section, content in built if content]
    links = "".join(f'<a href="#{section.id}">{escape(section.title)}</a>' for section, _ in shown)
    body = [
        f"<h1>{escape(TITLE)}</h1>",
        f'<p class="soft">{overview.extent(result)}</p>',
        *overview.summary(result),
        html.note(NO_FIGURES) if pictures is None else "",
        f"<nav>{links}</nav>",
        *(
            f'<section id="{section.id}"><h2>{escape(section.title)}</h2>\n'
            f"{html.note(section.note) if section.note else ''}{content}</section>"
            for section, content in shown
        ),
    ]
    return html.document(TITLE, body, style=html.asset("page.css", __name__))
