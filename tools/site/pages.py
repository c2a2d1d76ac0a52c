"""Make pages of the site from Markdown as the forge shows it: links, files of the root folder, the contents."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["contents", "forget_old_pages", "on_source_read", "relinked", "write_root_pages"]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GALLERY = ROOT / "examples" / "gallery"
ROOT_PAGES = {
    **{
        path: DOCS / "developing" / f"{path.stem.lower().replace('_', '-')}.md"
        for path in sorted(ROOT.glob("*.md"))
        if path.name != "README.md"
    },
    ROOT / "benchmarks" / "README.md": DOCS / "developing" / "benchmarks.md",
}
"""Files outside of docs/ that are pages of the site, and where Sphinx reads them."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def relinked(text: str, home: Path, page: Path) -> str:
    """Return a page with every link to a file changed from its ``home`` in the repository to its place on the site.

    A link to a file that is no page of the site becomes its text.
    """

    def target(link: re.Match[str]) -> str:
        picture, label, address, anchor = link.groups()
        goal = Path(os.path.normpath(home.parent / address))
        if goal.is_relative_to(GALLERY):
            goal = DOCS / "gallery" / (f"{goal.stem}.rst" if goal.suffix else "index.rst")
        goal = DOCS / "index.md" if goal == ROOT / "README.md" else ROOT_PAGES.get(goal, goal)
        if not goal.is_relative_to(DOCS):
            return label
        return f"{picture}[{label}]({os.path.relpath(goal, page.parent)}{anchor or ''})"

    return LINK.sub(target, text)


def write_root_pages() -> None:
    """Copy the pages of the root folder to where Sphinx reads them; a page that is as before is left alone."""
    for home, page in ROOT_PAGES.items():
        text = relinked(home.read_text(encoding="utf-8"), home, page).replace("```mermaid", "```text")
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.parent.mkdir(exist_ok=True)
            page.write_text(text, encoding="utf-8")


def forget_old_pages(folders: Iterable[Path], listed: str) -> None:
    """Delete pages of the Python API, in folders of their sources or of the site, that the reference no longer lists.

    Sphinx leaves the pages of an earlier build in place, and a page that no list names is an error.
    """
    names = set(listed.split())
    for folder in folders:
        for path in (*folder.glob("*.rst"), *folder.glob("*.html")):
            if path.stem not in names:
                path.unlink()


def contents(text: str) -> str:
    """Return the contents of the site for Sphinx, from the headings of the first page and the links below each.

    >>> print(contents("## Start\\n\\n- [Install](install.md): extras.\\n"))
    <BLANKLINE>
    ```{toctree}
    :hidden:
    :caption: Start
    <BLANKLINE>
    Install <install.md>
    ```
    <BLANKLINE>
    """
    trees = []
    for section in text.split("\n## ")[1:] if not text.startswith("## ") else [text[3:]]:
        caption, _, body = section.partition("\n")
        entries = [f"{label} <{page}>" for label, page in re.findall(r"^- \[([^\]]*)\]\(([^)#]+)\)", body, re.M)]
        if entries:
            trees.append("\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *entries, "```", ""]))
    return "".join(trees)


def on_source_read(app: Any, name: str, source: list[str]) -> None:
    """Adapt the text of a page before Sphinx reads it."""
    path = Path(app.env.doc2path(name))
    if path.suffix != ".md" or path in ROOT_PAGES.values():
        return
    source[0] = relinked(source[0], path, path)
    if name == "index":
        source[0] += contents(source[0])
