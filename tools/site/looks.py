"""Colours of the site, which are those of the report page, and what makes its pages usable by keyboard and ear."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from driftsurf.report.html import STYLE

__all__ = ["accessible", "on_build_finished", "on_skip_member", "palette", "theme_options"]

FONTS = {
    "font-stack": 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
    "font-stack--monospace": "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
}


def palette(dark: bool = False) -> dict[str, str]:
    """Return the colours of the report page by name, for light or dark screens.

    >>> palette()["model"], palette(dark=True)["model"]
    ('#0072b2', '#56b4e9')
    """
    roots = re.findall(r":root \{(.*?)\}", STYLE, re.S)
    return dict(re.findall(r"--([a-z]+): (#[0-9a-f]+)", roots[1 if dark else 0]))


def theme_options() -> dict[str, Any]:
    """Return the options of the theme, with its colours set to ours."""
    return {
        "light_css_variables": FONTS | _variables(palette()),
        "dark_css_variables": _variables(palette(dark=True)),
        "top_of_page_buttons": [],
    }


def _variables(colour: dict[str, str]) -> dict[str, str]:
    return {
        "color-brand-primary": colour["model"],
        "color-brand-content": colour["model"],
        "color-brand-visited": colour["model"],
        "color-foreground-primary": colour["ink"],
        "color-foreground-secondary": colour["soft"],
        "color-foreground-muted": colour["soft"],
        "color-background-primary": colour["paper"],
        "color-background-secondary": f"color-mix(in srgb, {colour['paper']}, {colour['line']} 25%)",
        "color-background-border": colour["line"],
        **colour,
    }


def accessible(page: str) -> str:
    """Return a page of which everything that scrolls can be reached by keyboard, and whose headings have a level.

    >>> accessible('<p class="caption" role="heading"><pre>code</pre>')
    '<p class="caption" role="heading" aria-level="2"><pre tabindex="0">code</pre>'
    """
    page = re.sub(r'role="heading"(?! aria-level)', 'role="heading" aria-level="2"', page)
    page = page.replace("<pre>", '<pre tabindex="0">')
    return re.sub(r'<div class="table-wrapper([^"]*)">', r'<div class="table-wrapper\1" tabindex="0">', page)


def on_build_finished(app: Any, failure: Exception | None) -> None:
    """Make every page accessible after Sphinx has written it; reports are as they are."""
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        if "reports" not in path.parts and accessible(text) != text:
            path.write_text(accessible(text), encoding="utf-8")


def on_skip_member(app: Any, kind: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out the methods that scikit-learn makes for its metadata routing."""
    return True if re.fullmatch(r"set_\w+_request", name) else None
