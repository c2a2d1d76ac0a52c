"""Check the built documentation site: ``python -m tools.check_site build/site``.

Every link leads to a file, and every anchor to an element; no page loads anything from elsewhere; no page is large;
every page of the Python API has an example; and the code of the notebooks runs.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["check", "main", "run_notebook"]

LARGEST_PAGE = 500_000
API = "api"
"""Folder of the pages that are made from docstrings."""
MEMBERS = {"method", "property", "attribute"}
"""Kinds of members whose descriptions follow that of their class."""
NOTEBOOKS = "01_first_drift", "02_my_csv", "04_imbalanced_credit", "05_regression_with_seasons", "08_own_strategy"
"""Scripts of the gallery whose notebooks are run."""
LOADING = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "use": "href",
}
NOT_LOADED = {"next", "prev", "search", "index", "canonical"}
"""Kinds of ``<link>`` that only name another page."""
STYLE_ADDRESS = re.compile(r"""(?:url\(\s*['"]?|@import\s+['"])([^'")]+)""")


class Page(HTMLParser):
    """Links, anchors and loaded files of a page, and whether it has an example.

    An example is a block of code with prompts below the heading "Examples", before the members of a class.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.has_example = False
        self._heading: str | None = None
        self._in_members = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note what an element links to, loads or is called."""
        values = {name: value or "" for name, value in attributes}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADING and LOADING[tag] in values and not NOT_LOADED & set(values.get("rel", "").split()):
            self.loaded.append(values[LOADING[tag]])
        self.loaded += [part.split()[0] for part in values.get("srcset", "").split(",") if part.strip()]
        self.loaded += STYLE_ADDRESS.findall(values.get("style", ""))
        kinds = set(values.get("class", "").split())
        self._in_members |= tag == "dl" and "py" in kinds and bool(kinds & MEMBERS)
        if "rubric" in kinds:
            self._heading = ""
        elif "doctest" in kinds and self._heading == "Examples" and not self._in_members:
            self.has_example = True

    def handle_data(self, data: str) -> None:
        """Note the text of a heading, which is the first text after its tag."""
        if self._heading == "":
            self._heading = data.strip()


def check(site: Path) -> Iterator[str]:
    """Yield every fault of a site in words."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site} has no pages"
    for path, page in pages.items():
        name = path.relative_to(site)
        if path.stat().st_size > LARGEST_PAGE:
            yield f"{name} has {path.stat().st_size:,} bytes; {LARGEST_PAGE:,} are allowed"
        if name.parts[0] == API and not page.has_example:
            yield f"{name} has no example: add an Examples section with >>> to the docstring"
        for address in page.loaded:
            yield from _fault(site, pages, path, address, loaded=True)
        for address in page.links:
            yield from _fault(site, pages, path, address, loaded=False)
    for style in sorted(site.rglob("*.css")):
        for address in STYLE_ADDRESS.findall(style.read_text(encoding="utf-8")):
            yield from _fault(site, pages, style, address, loaded=True)


def _fault(site: Path, pages: dict[Path, Page], path: Path, address: str, *, loaded: bool) -> Iterator[str]:
    parts = urlsplit(address)
    name = path.relative_to(site)
    if parts.scheme == "data" or (parts.scheme == "mailto" and not loaded):
        return
    if parts.scheme or parts.netloc:
        if loaded:
            yield f"{name} loads {address}"
        return
    goal = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
    goal = goal / "index.html" if goal.is_dir() else goal
    if not goal.exists():
        yield f"{name} links to {address}, which is not there"
    elif parts.fragment and goal in pages and unquote(parts.fragment) not in pages[goal].anchors:
        yield f"{name} links to {address}, which has no such anchor"


def run_notebook(path: Path) -> None:
    """Run the code cells of a notebook in order, in an empty folder, as a reader of it would."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, object] = {"__name__": "__main__"}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for cell in code:
                if not cell.startswith("%"):
                    exec(compile(cell, str(path), "exec"), names)
        finally:
            os.chdir(before)


def main(site: Path) -> int:
    """Print the faults of a site; return 1 if there are any."""
    faults = list(check(site))
    for fault in faults:
        print(fault, file=sys.stderr)
    for name in NOTEBOOKS:
        os.environ["MPLBACKEND"] = "agg"
        found = next(site.rglob(f"{name}.ipynb"))
        run_notebook(found)
    print(f"{len(list(site.rglob('*.html')))} pages, {len(faults)} faults, {len(NOTEBOOKS)} notebooks run")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
