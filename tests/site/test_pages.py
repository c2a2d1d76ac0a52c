"""Markdown of the repository becomes pages of the site: links, contents, colours, and the check of the result."""

from __future__ import annotations

import doctest
import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tools import evidence, terminal
from tools.check_site import check, run_notebook
from tools.site import looks, pages
from tools.site.looks import palette, theme_options

from driftsurf.native.rule import entering

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_links_lead_to_pages_of_the_site() -> None:
    text = "[a](docs/guide.md#the-journal) [b](SECURITY.md) [c](LICENSE) [d](https://example.org/x.md) [e](#below)"
    home, page = ROOT / "CONTRIBUTING.md", DOCS / "developing" / "contributing.md"
    assert pages.relinked(text, home, page) == (
        "[a](../guide.md#the-journal) [b](security.md) c [d](https://example.org/x.md) [e](#below)"
    )
    text = (
        "[f](../examples/gallery/01_first_drift.py) [g](../examples/gallery) [h](../README.md) ![i](images/drift.svg)"
    )
    home = DOCS / "which.md"
    assert pages.relinked(text, home, home) == (
        "[f](gallery/01_first_drift.rst) [g](gallery/index.rst) [h](index.md) ![i](images/drift.svg)"
    )


def test_pages_of_names_that_are_gone_are_deleted(tmp_path: Path) -> None:
    for name in ("driftsurf.run.rst", "driftsurf.old.rst", "driftsurf.old.html"):
        (tmp_path / name).write_text("page")
    pages.forget_old_pages([tmp_path, tmp_path / "not built yet"], "```\n   driftsurf.run\n```")
    assert [path.name for path in tmp_path.iterdir()] == ["driftsurf.run.rst"]


def test_the_first_page_lists_every_page_once() -> None:
    listed = pages.contents(
        pages.relinked((DOCS / "index.md").read_text(encoding="utf-8"), DOCS / "index.md", DOCS / "index.md")
    )
    found = sorted(line.split("<")[1].rstrip(">") for line in listed.splitlines() if line.endswith(">"))
    expected = [path.name for path in DOCS.glob("*.md") if path.name != "index.md"]
    expected += [str(path.relative_to(DOCS)) for path in pages.ROOT_PAGES.values()]
    assert found == sorted([*expected, "gallery/index.rst"])


def test_the_site_has_the_colours_of_the_report() -> None:
    light, dark = palette(), palette(dark=True)
    assert light.keys() == dark.keys() | {"shade"}
    assert theme_options()["dark_css_variables"]["color-brand-content"] == dark["model"]
    for colours in (light, dark):
        for name in ("ink", "soft", "model"):
            assert _contrast(colours[name], colours["paper"]) >= 4.5, name


def test_doctests_of_the_tools_hold() -> None:
    for module in (pages, looks, terminal, evidence):
        assert doctest.testmod(module).failed == 0


def _contrast(one: str, other: str) -> float:
    """Contrast of two colours as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<a href="b.html#there">b</a><img src="p.png" srcset="p.png 2x"><a href="https://example.org">x</a>', None),
        ('<a href="gone.html">gone</a>', "gone.html"),
        ('<a href="b.html#nowhere">b</a>', "#nowhere"),
        ('<script src="https://example.org/a.js"></script>', "https://example.org/a.js"),
        ('<link rel="stylesheet" href="//example.org/a.css">', "//example.org/a.css"),
        ('<p style="background: url(https://example.org/p.png)">p</p>', "https://example.org/p.png"),
        ("<p>" + "x" * 500_000, "500,000"),
    ],
)
def test_faults_of_a_site_are_found(page: str, fault: str | None, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(page)
    (tmp_path / "b.html").write_text('<p id="there">there</p>')
    (tmp_path / "p.png").write_bytes(b"")
    found = list(check(tmp_path))
    assert len(found) == (fault is not None)
    assert fault is None or fault in found[0]


def test_a_style_that_loads_a_font_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>text</p>")
    (tmp_path / "a.css").write_text("@font-face { src: url('https://example.org/f.woff2'); }")
    assert len(list(check(tmp_path))) == 1


HEADING = '<p class="rubric">Examples</p>'
CODE = '<div class="doctest highlight-default"><pre>&gt;&gt;&gt; 1 + 1</pre></div>'
METHOD = '<dl class="py method"><dt id="a.b">b</dt></dl>'


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (HEADING + CODE, True),
        (HEADING + "<p>It is used so:</p>" + CODE + METHOD, True),
        (CODE, False),
        (HEADING + "<pre>1 + 1</pre>", False),
        ('<p class="rubric">References</p>' + CODE, False),
        (METHOD + HEADING + CODE, False),
    ],
)
def test_a_page_of_the_python_api_needs_an_example_of_its_own(page: str, found: bool, tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "driftsurf.run.html").write_text(page)
    (tmp_path / "guide.html").write_text("<p>A page that is not about a class or a function.</p>")
    faults = list(check(tmp_path))
    assert len(faults) == (not found)
    assert found or "driftsurf.run.html" in faults[0]


def test_a_notebook_runs_cell_by_cell(tmp_path: Path) -> None:
    def notebook(*code: str) -> Path:
        cells = [{"cell_type": "code", "source": [cell]} for cell in code]
        (tmp_path / "n.ipynb").write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": ["# x"]}, *cells]}))
        return tmp_path / "n.ipynb"

    run_notebook(notebook("%matplotlib inline", "a = 1", "assert a == 1"))
    with pytest.raises(ZeroDivisionError):
        run_notebook(notebook("1 / 0"))


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_the_live_figure_enters_where_the_rule_says() -> None:
    """The script of the page and the rule of the package agree about every step."""
    script = DOCS / "_static" / "surf.js"
    options = [
        {"noise": noise, "drift": drift, "width": width, "delta": delta, "r": 4, "seed": 1}
        for noise in (0.0, 0.2)
        for drift, width in ((0, 1), (150, 1), (150, 40))
        for delta in (0.05, 0.3)
    ]
    asked = f"{json.dumps(options)}.map(require({json.dumps(str(script))}).simulate)"
    code = f"console.log(JSON.stringify({asked}))"
    run = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True)
    conditions = set()
    for option, steps in zip(options, json.loads(run.stdout), strict=True):
        reactive = 0
        for step in steps:
            stable = math.nan if step["stable"] is None else step["stable"]
            expected = entering(step["risk"], step["best"], stable, option["delta"], option["delta"] / 2)
            assert step["condition"] == (0 if reactive else expected)
            reactive = 4 if step["condition"] else reactive
            assert step["state"] == ("reactive" if reactive else "stable")
            reactive = max(0, reactive - 1)
            conditions.add(step["condition"])
    assert conditions == {0, 1, 2}


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_the_sentence_below_the_live_figure_counts_a_state_that_is_open_at_the_drift() -> None:
    steps: list[dict[str, Any]] = [{"step": step, "condition": 0, "event": "", "error": 0.1} for step in range(80)]
    for start, end, event in ((10, 13, "kept"), (38, 41, "kept"), (44, 47, "switched"), (60, 63, "switched")):
        steps[start] |= {"condition": 1, "event": "entered"}
        steps[end]["event"] = event
    script = json.dumps(str(DOCS / "_static" / "surf.js"))
    code = f"console.log(require({script}).told({json.dumps(steps)}, 120, 1))"
    told = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True).stdout
    for part in (
        "already reacting, since step 38",
        "step 41 the old model is kept",
        "again at step 44",
        "over at step 47",
    ):
        assert part in told
    assert "1 before the drift, 1 after it" in told


def test_the_terminal_shows_what_its_commands_print() -> None:
    screens = terminal.scheduled([terminal.Screen("one", ["a < b", "c"]), terminal.Screen("two", ["d"])])
    assert (screens[0].begins, screens[1].ends) == (0.0, terminal.SECONDS)
    assert screens[0].ends == screens[1].begins
    drawn = (DOCS / "images" / "terminal.svg").read_text(encoding="utf-8")
    assert all(command.replace(" ", "\u00a0") in drawn for command in terminal.COMMANDS)
    assert "<script" not in drawn
