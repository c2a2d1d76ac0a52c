"""The figures of the evaluation, the paper's and ours (matplotlib, the extra ``figures``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from driftsurf.experiments import published
from driftsurf.experiments.algorithms import ALGORITHMS
from driftsurf.experiments.beyond import full_title
from driftsurf.experiments.plan import TABLES
from driftsurf.experiments.reproduce import Reproduction
from driftsurf.experiments.results import Cell
from driftsurf.report import comparisons
from driftsurf.report.plots import (
    PANEL,
    STYLES,
    curve,
    handle,
    legend,
    mark,
    mark_drifts,
    name,
    name_axes,
    panels,
    to_bytes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["DRAWINGS", "ORDER", "Drawing", "Picture", "draw"]

ORDER: Final = (
    *("sea0", "sea10", "sea20", "sea30", "sea-gradual", "sine1", "hyper-slow", "hyper-fast", "circles", "mixed"),
    *("rcv1", "covertype", "powersupply", "electricity", "airline"),
)
"""The streams in the order of the panels of the paper's figures, which is not that of its tables."""
NOISE: Final = {"sea0": 0, "sea10": 10, "sea20": 20, "sea30": 30}
FEW: Final = {1: (7.6, 3.2), 2: (5.3, 2.8)}
"""Inches of a panel, where there are so few."""
MAIN: Final = "aware", "driftsurf", "mddm-g", "aue"


@dataclass(frozen=True)
class Picture:
    """A figure as files."""

    name: str
    caption: str
    png: bytes
    pdf: bytes


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn where what it shows was run; else it gives None."""

    name: str
    caption: str
    make: Callable[[Reproduction], Figure | None]


def draw(result: Reproduction) -> Iterator[Picture]:
    """All figures that these results allow."""
    for drawing in DRAWINGS:
        figure = drawing.make(result)
        if figure is not None:
            png = to_bytes(figure, "png")
            figure.set_layout_engine("none")  # it is laid out, and that takes most of the time
            yield Picture(drawing.name, drawing.caption, png, to_bytes(figure, "pdf"))


def in_order(datasets: Sequence[str]) -> list[str]:
    """The paper's streams in the order of its figures, then what stands in for others."""
    return [stream for stream in ORDER if stream in datasets] + [other for other in datasets if other not in ORDER]


# ---------------------------------------------------------------------------- error over time

Place = tuple[str, str, tuple[str, ...]]
"""A panel: table, stream, algorithms."""


def _over_time(places: Sequence[Place], result: Reproduction, *, titles: Sequence[str] = ()) -> Figure | None:
    """A panel for each place: the error at each step, the median over the trials."""
    places = [(t, d, names) for t, d, names in places if all(result.measured.runs(t, d, a) for a in names)]
    if not places:
        return None
    figure, every = panels(len(places), size=FEW.get(len(places), PANEL))
    for k, (axes, (table, dataset, algorithms)) in enumerate(zip(every, places, strict=True)):
        _curves(axes, result, table, dataset, algorithms)
        name(axes, titles[k] if titles else full_title(dataset))
    name_axes(figure, "time step", "error")
    shown = dict.fromkeys(algorithm for _, _, algorithms in places for algorithm in algorithms)
    legend(figure, [handle(algorithm) for algorithm in shown], [dataset for _, dataset, _ in places])
    return figure


def _curves(axes: Axes, result: Reproduction, table: str, dataset: str, algorithms: Sequence[str]) -> None:
    mark_drifts(axes, dataset)
    for algorithm in reversed(algorithms):  # DriftSurf and Aware lie on top
        values = result.measured.curve(table, dataset, algorithm)
        assert values is not None
        curve(axes, values.tolist(), algorithm)
    axes.set_ylim(bottom=0.0)


def _all_streams(table: str, algorithms: tuple[str, ...], result: Reproduction) -> Figure | None:
    return _over_time([(table, dataset, algorithms) for dataset in in_order(result.datasets)], result)


def _main_text(result: Reproduction) -> Figure | None:
    wanted = ("equal-model", "powersupply"), ("equal-model", "covertype"), ("rho-4m", "airline")
    at_hand = [(table, result.measured.at_hand(stream)) for table, stream in wanted]
    places = [(table, dataset, MAIN) for table, dataset in at_hand if dataset is not None]
    titles = [full_title(d) + (", rho = 4m divided" if table == "rho-4m" else "") for table, d, _ in places]
    return _over_time(places, result, titles=titles)


def _no_adaptation(result: Reproduction) -> Figure | None:
    names = "aware", "driftsurf", "1pass-sgd", "oblivious"
    at_hand = [result.measured.at_hand(stream) for stream in ("rcv1", "electricity")]
    return _over_time([("equal-model", dataset, names) for dataset in at_hand if dataset is not None], result)


def _greedy(result: Reproduction) -> Figure | None:
    dataset = result.measured.at_hand("rcv1")
    return None if dataset is None else _over_time([("greedy", dataset, ("driftsurf", "no-greedy"))], result)


def _detectors(result: Reproduction) -> Figure | None:
    """One panel for each detector on CoverType; a mark at each step with a reset, the darker the more trials."""
    dataset = result.measured.at_hand("covertype")
    if dataset is None or not result.measured.runs("detectors", dataset, "ddm"):
        return None
    names = "mddm-a", "mddm-e", "ddm", "eddm"
    figure, every = panels(len(names), columns=2, size=(5.2, 2.3))
    for axes, detector in zip(every, names, strict=True):
        _curves(axes, result, "detectors", dataset, ("aware", "driftsurf", detector))
        runs = result.measured.runs("detectors", dataset, detector)
        share = np.mean([[("reset" in kinds) for kinds in run.transition] for run in runs], axis=0)
        for step in np.flatnonzero(share):
            axes.plot(step, 0.02, "|", color="black", alpha=float(share[step]), markersize=9, markeredgewidth=1.6)
        resets = float(np.median([sum("reset" in kinds for kinds in run.transition) for run in runs]))
        name(axes, f"{ALGORITHMS[detector].title} on {full_title(dataset)}: {resets:g} reset{'s' * (resets != 1)}")
    name_axes(figure, "time step", "error")
    signal = mark("reset (dark: all trials)", "black", "|")
    legend(figure, [*(handle(algorithm) for algorithm in ("aware", "driftsurf", *names)), signal], [dataset])
    return figure


# ---------------------------------------------------------------------------- noise


def _noise(result: Reproduction) -> Figure | None:
    """Error against the noise of SEA: bars from the best trial to the worst, rings for the printed numbers."""
    cells = {(cell.dataset, cell.algorithm): cell for cell in result.cells if _is_noise(cell)}
    streams = [stream for stream in NOISE if (stream, "driftsurf") in cells]
    if len(streams) < 2:
        return None
    figure, (axes,) = panels(1, size=(6.4, 3.6))
    for shift, algorithm in enumerate(MAIN):
        style, row = STYLES[algorithm], [cells[stream, algorithm] for stream in streams]
        x = [NOISE[stream] + 0.35 * (shift - 1.5) for stream in streams]
        median = [cell.median for cell in row]
        reach = [[cell.median - min(cell.trials) for cell in row], [max(cell.trials) - cell.median for cell in row]]
        look = {"color": style.colour, "linestyle": style.dashes, "linewidth": style.width}
        axes.errorbar(x, median, yerr=reach, capsize=2.5, marker=style.marker, markersize=4.5, **look)  # type: ignore[arg-type]
        printed = [published.TABLES["equal-model"].errors[stream][algorithm] for stream in streams]
        axes.plot(x, printed, "o", color=style.colour, markerfacecolor="none", markersize=9, linestyle="none")
    axes.set_xticks([NOISE[stream] for stream in streams])
    axes.set_ylim(bottom=0.0)
    name(axes, TABLES["noise"].title)
    name_axes(figure, "noise (% of the labels)", "mean error")
    ring = mark("paper", "black", "o", hollow=True)
    legend(figure, [*(handle(algorithm, marker=True) for algorithm in MAIN), ring])
    return figure


def _is_noise(cell: Cell) -> bool:
    return cell.table == "noise" and cell.variant == "algorithm-1"


# ---------------------------------------------------------------------------- all

_TIME = "Error over time, one panel a stream; medians of the trials at each step."
DRAWINGS: Final = (
    Drawing(
        "main-text",
        "The figures of the main text: PowerSupply, CoverType and Airline, or what stands in for them.",
        _main_text,
    ),
    Drawing("equal-model", f"rho = 2m for each model. {_TIME}", partial(_all_streams, "equal-model", MAIN)),
    Drawing("noise", "SEA with more and more noise: mean error, and the paper's.", _noise),
    Drawing(
        "detectors",
        "CoverType, or what stands in for it, under other drift detectors, and where they begin anew.",
        _detectors,
    ),
    Drawing(
        "rho-4m",
        f"rho = 4m divided among the models of each algorithm. {_TIME}",
        partial(_all_streams, "rho-4m", MAIN),
    ),
    Drawing(
        "rho-4m-candor",
        f"rho = 4m divided: AUE with two experts, and Candor, which sees labels inside the batch. {_TIME}",
        partial(_all_streams, "rho-4m", ("aware", "driftsurf", "aue-2", "candor")),
    ),
    Drawing(
        "rho-2m",
        f"rho = 2m divided among the models of each algorithm. {_TIME}",
        partial(_all_streams, "rho-2m", MAIN),
    ),
    Drawing(
        "no-adaptation",
        "1PASS-SGD and the oblivious algorithm on RCV1, or what stands in for it, and Electricity.",
        _no_adaptation,
    ),
    Drawing(
        "greedy",
        "Greedy prediction in the reactive state, and waiting for its end, on RCV1 or what stands in for it.",
        _greedy,
    ),
    Drawing("suboptimality", "DriftSurf's sub-optimality over Aware's, and the bound.", comparisons.suboptimality),
    Drawing("recovery", "Steps to recovery from each drift, medians of the trials.", comparisons.recovery),
    Drawing("gradients", "Mean error against the gradients it took.", comparisons.against_gradients),
    Drawing("ranks", "Average ranks over the streams with critical differences.", comparisons.critical_differences),
)
"""The paper's figures in its order, then ours."""
