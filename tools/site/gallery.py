"""Settings of the gallery: order of the scripts, style of their figures, and reports shown beside them."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

from tools.site.looks import palette

__all__ = ["REPORTS", "reports", "reset", "settings"]

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "build" / "gallery-reports"
"""Folder of the reports that scripts wrote; Sphinx copies its contents to the top of the site."""
FRAME = """
.. raw:: html

    <iframe class="report" src="../reports/{name}.html" title="Interactive report of this run" loading="lazy"></iframe>
    <p><a href="../reports/{name}.html">Open the report by itself</a></p>
"""


def settings() -> dict[str, Any]:
    """Return the value of ``sphinx_gallery_conf``."""
    (REPORTS / "reports").mkdir(parents=True, exist_ok=True)
    return {
        "examples_dirs": str(ROOT / "examples" / "gallery"),
        "gallery_dirs": "gallery",
        "filename_pattern": r"/\d\d_",
        "ignore_pattern": "__init__",
        "within_subsection_order": "FileNameSortKey",
        "image_scrapers": ("matplotlib", "tools.site.gallery.reports"),
        "reset_modules": ("matplotlib", "tools.site.gallery.reset"),
        "reset_modules_order": "before",
        "image_srcset": ["2x"],
        "capture_repr": (),  # printed text alone: the value of a last line is a legend or an axis
        "show_memory": False,
        "min_reported_time": 10_000,
        "show_signature": False,
        "download_all_examples": False,
        "remove_config_comments": True,
        "plot_gallery": True,
        "abort_on_example_error": False,
        "only_warn_on_example_error": False,
        "write_computation_times": False,
    }


def reports(block: tuple[Any, ...], variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Return a frame with the report page that a script has just written and named ``report_page``."""
    page = variables["example_globals"].pop("report_page", None)
    if page is None:
        return ""
    name = Path(variables["src_file"]).stem
    shutil.copy(page, REPORTS / "reports" / f"{name}.html")
    return FRAME.format(name=name)


def reset(settings: dict[str, Any], script: str) -> None:
    """Give figures our colours on a transparent ground; a page in dark mode inverts their lightness. Silence logs."""
    import matplotlib as mpl
    from cycler import cycler

    for name in ("driftsurf", "httpx"):
        logging.getLogger(name).setLevel(logging.WARNING)  # Sphinx shows what programs log

    colour = palette()
    cycle = [colour[name] for name in ("model", "drift", "switch", "keep", "oracle")]
    mpl.rcParams.update(
        {
            "axes.prop_cycle": cycler(color=cycle),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": colour["soft"],
            "axes.grid": True,
            "grid.color": colour["line"],
            "text.color": colour["ink"],
            "axes.labelcolor": colour["soft"],
            "xtick.color": colour["soft"],
            "ytick.color": colour["soft"],
            "figure.figsize": (7.2, 3.4),
            "figure.constrained_layout.use": True,
            "savefig.transparent": True,
            "font.size": 10,
            "legend.frameon": False,
        }
    )
