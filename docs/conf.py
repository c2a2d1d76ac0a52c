"""Settings of the documentation site, which `make docs` builds from these pages, the docstrings and the gallery."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for tools

from tools.site import formulas, gallery, looks, pages

import driftsurf

project = "driftsurf"
author = "The driftsurf developers"
copyright = author
version = release = driftsurf.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_static", "_templates"]
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
default_role = "code"
smartquotes = False  # two hyphens of an option would become a dash
nitpick_ignore_regex = [("py:.*", ".*")]  # types of other packages; links between pages are checked by MyST

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "dollarmath"]
suppress_warnings = ["config.cache"]

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "furo"
html_title = "driftsurf"
html_static_path = ["_static"]
html_extra_path = [str(gallery.REPORTS)]
html_css_files = ["site.css"]
html_favicon = html_logo = "../src/driftsurf/report/logo.svg"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_math_renderer = "mathml"
html_theme_options = looks.theme_options()
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

sphinx_gallery_conf = gallery.settings()


def setup(app: Any) -> None:
    """Connect the parts that are our own: pages of the root folder, the list of contents, colours and formulas."""
    pages.write_root_pages()
    listed = (pages.DOCS / "api.md").read_text(encoding="utf-8")
    pages.forget_old_pages([pages.DOCS / "api", Path(app.outdir) / "api"], listed)
    app.add_html_math_renderer("mathml", (formulas.inline, None), (formulas.block, None))
    app.connect("source-read", pages.on_source_read)
    app.connect("autodoc-skip-member", looks.on_skip_member)
    app.connect("build-finished", looks.on_build_finished)
