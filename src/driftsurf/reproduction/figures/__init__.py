"""The figures of a reproduction, the paper's and ours. They need matplotlib, the extra ``figures``.

A figure is a function from a reproduction to a matplotlib figure, listed in ``DRAWINGS``. It returns None if its
experiments were not run. ``style`` holds what all figures share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from driftsurf.reproduction.figures import extra, paper
from driftsurf.reproduction.figures.style import to_bytes
from driftsurf.reproduction.reproduce import Reproduction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DRAWINGS", "Drawing", "Picture", "draw"]


@dataclass(frozen=True)
class Picture:
    """A drawn figure as the bytes of its files."""

    name: str
    caption: str
    png: bytes
    pdf: bytes


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn."""

    name: str
    caption: str
    make: Callable[[Reproduction], Figure | None]
    """Draw it; None if its experiments were not run."""


def draw(result: Reproduction) -> Iterator[Picture]:
    """Draw all figures whose experiments were run."""
    for drawing in DRAWINGS:
        figure = drawing.make(result)
        if figure is not None:
            png = to_bytes(figure, "png")
            figure.set_layout_engine("none")  # the layout takes most of the time, and it is known now
            yield Picture(drawing.name, drawing.caption, png, to_bytes(figure, "pdf"))


_TIME = "Error over time, one panel for each stream; medians over the trials at each step."
DRAWINGS: Final = (
    Drawing(
        "main-text",
        "The figures of the main text: PowerSupply, CoverType and Airline, or their stand-ins.",
        paper.main_text,
    ),
    Drawing("equal-model", f"rho = 2m for each model. {_TIME}", partial(paper.all_streams, "equal-model", paper.MAIN)),
    Drawing("noise", "SEA with increasing noise: our mean errors and the printed ones.", paper.noise),
    Drawing(
        "detectors",
        "CoverType, or its stand-in, with other drift detectors, and where they reset the model.",
        paper.detectors,
    ),
    Drawing(
        "rho-4m",
        f"rho = 4m divided among the models of each algorithm. {_TIME}",
        partial(paper.all_streams, "rho-4m", paper.MAIN),
    ),
    Drawing(
        "rho-4m-candor",
        f"rho = 4m divided: AUE with two experts, and Candor, which sees labels inside the batch. {_TIME}",
        partial(paper.all_streams, "rho-4m", ("aware", "driftsurf", "aue-2", "candor")),
    ),
    Drawing(
        "rho-2m",
        f"rho = 2m divided among the models of each algorithm. {_TIME}",
        partial(paper.all_streams, "rho-2m", paper.MAIN),
    ),
    Drawing(
        "no-adaptation",
        "Algorithms that do not adapt, 1PASS-SGD and OBL, on RCV1, or its stand-in, and Electricity.",
        paper.no_adaptation,
    ),
    Drawing(
        "greedy",
        "DriftSurf with greedy prediction, and without it (the old model predicts until the end of a reactive state), "
        "on RCV1 or its stand-in.",
        paper.greedy,
    ),
    Drawing("suboptimality", "DriftSurf's sub-optimality divided by Aware's, and the bound.", extra.suboptimality),
    Drawing("recovery", "Steps to recovery from each drift, medians over the trials.", extra.recovery),
    Drawing("gradients", "Mean error against the gradients per row.", extra.against_gradients),
    Drawing("ranks", "Average ranks over the streams, with critical differences.", extra.critical_differences),
)
"""The paper's figures in its order, then ours."""
