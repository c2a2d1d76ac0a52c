"""The figures of the paper: error over time, noise, detectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from driftsurf.comparison.models import ALGORITHMS
from driftsurf.core.wording import plural
from driftsurf.reproduction import published
from driftsurf.reproduction.cells import ErrorCell
from driftsurf.reproduction.comparisons import full_title
from driftsurf.reproduction.figures.style import (
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
)
from driftsurf.reproduction.plan import TABLES
from driftsurf.reproduction.reproduce import Reproduction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORDER: Final = (
    *("sea0", "sea10", "sea20", "sea30", "sea-gradual", "sine1", "hyper-slow", "hyper-fast", "circles", "mixed"),
    *("rcv1", "covertype", "powersupply", "electricity", "airline"),
)
"""The streams in the order of the paper's figures, which differs from that of its tables."""
NOISE: Final = {"sea0": 0, "sea10": 10, "sea20": 20, "sea30": 30}
FEW: Final = {1: (7.6, 3.2), 2: (5.3, 2.8)}
"""Size of a panel in inches, by the number of panels."""
MAIN: Final = "aware", "driftsurf", "mddm-g", "aue"
"""The algorithms of the main text."""


def in_order(datasets: Sequence[str]) -> list[str]:
    """Return the paper's streams in the order of its figures, then the stand-ins."""
    return [stream for stream in ORDER if stream in datasets] + [other for other in datasets if other not in ORDER]


# ---------------------------------------------------------------------------- error over time

Place = tuple[str, str, tuple[str, ...]]
"""A panel: table, stream and algorithms."""


def _over_time(places: Sequence[Place], result: Reproduction, *, titles: Sequence[str] = ()) -> Figure | None:
    """Draw a panel for each place that was run: the error at each step, the median over the trials."""
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
    for algorithm in reversed(algorithms):  # so that Aware and DriftSurf are drawn on top
        values = result.measured.curve(table, dataset, algorithm)
        assert values is not None
        curve(axes, values.tolist(), algorithm)
    axes.set_ylim(bottom=0.0)


def all_streams(table: str, algorithms: tuple[str, ...], result: Reproduction) -> Figure | None:
    """Draw the error over time on every stream, one panel each."""
    return _over_time([(table, dataset, algorithms) for dataset in in_order(result.datasets)], result)


def main_text(result: Reproduction) -> Figure | None:
    """Draw the three panels of the main text."""
    wanted = ("equal-model", "powersupply"), ("equal-model", "covertype"), ("rho-4m", "airline")
    found = [(table, result.measured.dataset_for(stream)) for table, stream in wanted]
    places = [(table, dataset, MAIN) for table, dataset in found if dataset is not None]
    titles = [full_title(d) + (", rho = 4m divided" if table == "rho-4m" else "") for table, d, _ in places]
    return _over_time(places, result, titles=titles)


def no_adaptation(result: Reproduction) -> Figure | None:
    """Draw the algorithms that do not adapt, beside Aware and DriftSurf."""
    names = "aware", "driftsurf", "1pass-sgd", "oblivious"
    found = [result.measured.dataset_for(stream) for stream in ("rcv1", "electricity")]
    return _over_time([("equal-model", dataset, names) for dataset in found if dataset is not None], result)


def greedy(result: Reproduction) -> Figure | None:
    """Draw DriftSurf with and without greedy prediction."""
    dataset = result.measured.dataset_for("rcv1")
    return None if dataset is None else _over_time([("greedy", dataset, ("driftsurf", "no-greedy"))], result)


def detectors(result: Reproduction) -> Figure | None:
    """Draw a panel for each detector on CoverType; marks at resets are darker the more trials reset there."""
    dataset = result.measured.dataset_for("covertype")
    if dataset is None or not result.measured.runs("detectors", dataset, "ddm"):
        return None
    names = "mddm-a", "mddm-e", "ddm", "eddm"
    figure, every = panels(len(names), columns=2, size=(5.2, 2.3))
    for axes, detector in zip(every, names, strict=True):
        _curves(axes, result, "detectors", dataset, ("aware", "driftsurf", detector))
        runs = result.measured.runs("detectors", dataset, detector)
        share = np.mean([["reset" in kinds for kinds in run.transitions] for run in runs], axis=0)
        for step in np.flatnonzero(share):
            axes.plot(step, 0.02, "|", color="black", alpha=float(share[step]), markersize=9, markeredgewidth=1.6)
        resets = float(np.median([len(run.steps_with("reset")) for run in runs]))
        name(
            axes,
            f"{ALGORITHMS[detector].title} on {full_title(dataset)}: {resets:g} {plural('reset', resets)}",
        )
    name_axes(figure, "time step", "error")
    signal = mark("reset (dark: all trials)", "black", "|")
    legend(figure, [*(handle(algorithm) for algorithm in ("aware", "driftsurf", *names)), signal], [dataset])
    return figure


# ---------------------------------------------------------------------------- noise


def noise(result: Reproduction) -> Figure | None:
    """Draw the error against the noise of SEA: bars from the best trial to the worst, rings for printed errors."""
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
        line = {"color": style.colour, "linestyle": style.dashes, "linewidth": style.width}
        axes.errorbar(x, median, yerr=reach, capsize=2.5, marker=style.marker, markersize=4.5, **line)  # type: ignore[arg-type]
        printed = [published.TABLES["equal-model"].errors[stream][algorithm] for stream in streams]
        axes.plot(x, printed, "o", color=style.colour, markerfacecolor="none", markersize=9, linestyle="none")
    axes.set_xticks([NOISE[stream] for stream in streams])
    axes.set_ylim(bottom=0.0)
    name(axes, TABLES["noise"].title)
    name_axes(figure, "noise (% of the labels)", "mean error")
    ring = mark("paper", "black", "o", hollow=True)
    legend(figure, [*(handle(algorithm, marker=True) for algorithm in MAIN), ring])
    return figure


def _is_noise(cell: ErrorCell) -> bool:
    return cell.table == "noise" and cell.variant == "algorithm-1"
