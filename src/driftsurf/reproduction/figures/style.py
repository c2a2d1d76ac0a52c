"""What all figures share: the style of each algorithm, panels, marks of drifts, the legend, and the bytes of files."""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from driftsurf.comparison.models import ALGORITHMS
from driftsurf.reproduction.trials import timeline

try:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
except ImportError as _error:
    raise ImportError("figures need matplotlib: pip install 'driftsurf[figures]'") from _error

DPI = 110
PANEL = 3.55, 2.15
"""Width and height of a panel in inches."""
COLUMNS = 3
MOST_IN_A_ROW = 7
"""Entries of a legend in one row."""
SMALL, USUAL = 8.0, 9.5
"""Font sizes in points."""
LONG = 36
"""Titles of this many characters are set small."""

BLACK, BLUE, SKY, GREEN = "#000000", "#0072b2", "#56b4e9", "#009e73"
ORANGE, VERMILION, PURPLE = "#e69f00", "#d55e00", "#cc79a7"
GREY, PALE = "#767676", "#ececec"

Dashes = Literal["-"] | tuple[int, tuple[float, ...]]
DASHED: Final = (0, (4.0, 1.6))
DOTTED: Final = (0, (1.2, 1.2))
MIXED: Final = (0, (5.0, 1.4, 1.2, 1.4))


@dataclass(frozen=True)
class Style:
    """The line and marker of an algorithm, the same in every figure. Colours are those of Okabe and Ito, which people
    with colour blindness can tell apart."""

    colour: str
    dashes: Dashes = "-"
    width: float = 1.2
    marker: str = "o"


STYLES: Final[dict[str, Style]] = {
    "aware": Style(BLACK, DOTTED, 1.3, "x"),
    "driftsurf": Style(BLUE, "-", 1.9, "o"),
    "no-greedy": Style(SKY, DASHED, 1.5, "v"),
    "mddm-g": Style(VERMILION, "-", 1.1, "s"),
    "mddm-a": Style(VERMILION, DASHED, 1.2, "<"),
    "mddm-e": Style(VERMILION, MIXED, 1.2, ">"),
    "ddm": Style(PURPLE, "-", 1.2, "p"),
    "eddm": Style(PURPLE, DASHED, 1.2, "h"),
    "aue": Style(GREEN, "-", 1.2, "^"),
    "aue-2": Style(GREEN, DASHED, 1.2, "D"),
    "candor": Style(ORANGE, "-", 1.2, "P"),
    "1pass-sgd": Style(PURPLE, MIXED, 1.2, "d"),
    "oblivious": Style(ORANGE, DASHED, 1.3, "*"),
}

DRIFT: Final[Line2D] = Line2D([], [], color=GREY, linestyle=DASHED, linewidth=0.9, label="drift")
DRIFTING: Final[Patch] = Patch(color=PALE, label="gradual drift")


def panels(count: int, *, columns: int = COLUMNS, size: tuple[float, float] = PANEL) -> tuple[Figure, list[Axes]]:
    """Make a figure with this many panels, and room for a legend above them."""
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(columns * size[0], rows * size[1] + 0.55), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    every = [grid[k // columns, k % columns] for k in range(rows * columns)]
    for spare in every[count:]:
        spare.remove()
    for axes in every[:count]:
        axes.tick_params(labelsize=SMALL)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, every[:count]


def curve(axes: Axes, values: Sequence[float], algorithm: str) -> None:
    """Draw the error of an algorithm over the steps."""
    style = STYLES[algorithm]
    axes.plot(range(len(values)), values, color=style.colour, linestyle=style.dashes, linewidth=style.width)
    axes.set_xlim(0, len(values) - 1)


def mark_drifts(axes: Axes, dataset: str) -> None:
    """Draw a line at each abrupt drift, and a band over each gradual one."""
    for first, last in timeline(dataset).spans:
        if last > first:
            axes.axvspan(first, last, color=PALE, linewidth=0.0, zorder=0)
        else:
            axes.axvline(first, color=GREY, linestyle=DASHED, linewidth=0.9, zorder=0.5)


def name(axes: Axes, title: str) -> None:
    """Set the title of a panel."""
    axes.set_title(title, fontsize=USUAL if len(title) < LONG else SMALL, loc="left")


def name_axes(figure: Figure, x: str, y: str) -> None:
    """Set the axis labels that all panels share."""
    figure.supxlabel(x, fontsize=USUAL)
    figure.supylabel(y, fontsize=USUAL)


def handle(algorithm: str, *, line: bool = True, marker: bool = False) -> Line2D:
    """Return the legend entry of an algorithm."""
    style = STYLES[algorithm]
    return Line2D(
        [],
        [],
        color=style.colour,
        linestyle=style.dashes if line else "none",
        linewidth=style.width,
        marker=style.marker if marker else "none",
        markersize=5.0,
        label=ALGORITHMS[algorithm].title,
    )


def mark(label: str, colour: str, marker: str = "none", *, hollow: bool = False, line: bool = False) -> Line2D:
    """Return a legend entry with its own colour and marker."""
    return Line2D(
        [],
        [],
        color=colour,
        marker=marker,
        markersize=7.0,
        markerfacecolor="none" if hollow else colour,
        linestyle="-" if line else "none",
        label=label,
    )


def legend(figure: Figure, entries: Iterable[Line2D | Patch], datasets: Collection[str] = ()) -> None:
    """Draw one legend for all panels, with entries for the kinds of drift that these streams have."""
    spans = [span for dataset in datasets for span in timeline(dataset).spans]
    entries = [*entries]
    entries += [DRIFT] * any(first == last for first, last in spans)
    entries += [DRIFTING] * any(first < last for first, last in spans)
    columns = len(entries) if len(entries) <= MOST_IN_A_ROW else math.ceil(len(entries) / 2)
    figure.legend(handles=entries, loc="outside upper center", ncols=columns, fontsize=USUAL, frameon=False)


def to_bytes(figure: Figure, kind: Literal["png", "pdf"]) -> bytes:
    """Return the bytes of the figure as a file. They hold no date, so equal figures give equal bytes."""
    out = io.BytesIO()
    if kind == "png":
        FigureCanvasAgg(figure).print_figure(out, format="png", dpi=DPI, metadata={"Software": None})
    else:
        nothing = dict.fromkeys(("Creator", "Producer", "CreationDate"))
        FigureCanvasPdf(figure).print_figure(out, format="pdf", metadata=nothing)
    return out.getvalue()
