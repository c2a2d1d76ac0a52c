"""Figures that the paper does not have: sub-optimality and its bound, recovery, error against cost, ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from driftsurf.comparison.models import ALGORITHMS
from driftsurf.evaluation.ranks import Ranking
from driftsurf.reproduction.comparisons import Recovery, accounts, full_title, rankings, recoveries, typical
from driftsurf.reproduction.figures.style import (
    STYLES,
    VERMILION,
    handle,
    legend,
    mark,
    mark_drifts,
    name,
    name_axes,
    panels,
)
from driftsurf.reproduction.reproduce import Reproduction, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SLOW = 12
"""Recoveries of this many steps or more have the darkest colour."""
FAST, LATE, NEVER = (222, 235, 247), (8, 48, 107), "#d4d4d4"
BOUND = VERMILION
BUDGETS = "rho-2m", "equal-model", "rho-4m"


def suboptimality(result: Reproduction) -> Figure | None:
    """Draw DriftSurf's sub-optimality divided by Aware's, with filled dots where the bound is meant to hold."""
    if not result.competitions:
        return None
    style = STYLES["driftsurf"]
    figure, every = panels(len(result.competitions))
    for axes, found in zip(every, result.competitions, strict=True):
        mark_drifts(axes, found.dataset)
        steps, ratios, stable = np.array(found.steps), found.ratios, np.array(found.stable)
        axes.plot(steps[stable], ratios[stable], "o", color=style.colour, markersize=4.5)
        axes.plot(steps[~stable], ratios[~stable], "o", color=style.colour, markersize=4.5, markerfacecolor="none")
        axes.axhline(found.bound, color=BOUND, linewidth=1.1)
        axes.set_yscale("log")
        axes.set_yticks([0.1, 1.0, 10.0], ["0.1", "1", "10"])
        axes.minorticks_off()
        axes.set_ylim(min(0.1, 0.8 * float(ratios.min())), 12.0)
        name(axes, f"{title_of(found.dataset)}: alpha = {found.alpha:.2f}")
    name_axes(figure, "time step", "sub-optimality / Aware's")
    marks = [
        mark("stable and recovered", style.colour, "o"),
        mark("other steps", style.colour, "o", hollow=True),
        mark("bound, 7 / 4^(1 - alpha)", BOUND, line=True),
    ]
    legend(figure, marks, [found.dataset for found in result.competitions])
    return figure


def recovery(result: Reproduction) -> Figure | None:
    """Draw recovery times as a coloured table: a row for each drift, a column for each algorithm."""
    found = recoveries(result.measured) if any(table.name == "equal-model" for table in result.tables) else []
    if not found:
        return None
    rows = list(dict.fromkeys((one.dataset, one.drift) for one in found))
    by_training = [one for one in found if one.by_training is not None]
    figure, every = panels(2, size=(6.2, 0.215 * len(rows) + 1.2))
    every[1].sharey(every[0])
    titles = "steps until its error is within 10 % of Aware's", "steps until it predicts from new rows alone"
    for axes, chosen, title in zip(every, (found, by_training), titles, strict=True):
        times = {(one.dataset, one.drift, one.algorithm): _time(one, training=chosen is by_training) for one in chosen}
        algorithms = list(dict.fromkeys(one.algorithm for one in chosen))
        for i, (dataset, drift) in enumerate(rows):
            for j, algorithm in enumerate(algorithms):
                _tile(axes, j, i, times[dataset, drift, algorithm])
            if i and dataset != rows[i - 1][0]:
                axes.axhline(i - 0.5, color="white", linewidth=3.0)
        axes.set_xlim(-0.5, len(algorithms) - 0.5)
        axes.set_xticks(range(len(algorithms)), [ALGORITHMS[a].title for a in algorithms], rotation=30, ha="right")
        name(axes, title)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(length=0, labelsize=8.0)
    every[0].set_ylim(len(rows) - 0.5, -0.5)
    every[0].set_yticks(range(len(rows)), _row_names(rows))
    every[1].tick_params(labelleft=False)
    return figure


def _time(one: Recovery, *, training: bool) -> float:
    return typical((one.by_training or ()) if training else one.by_error)


def _row_names(rows: Sequence[tuple[str, tuple[int, int]]]) -> list[str]:
    names, before = [], ""
    for dataset, (first, last) in rows:
        when = f"{first}" if first == last else f"{first} to {last}"
        names.append(f"{full_title(dataset)}, step {when}" if dataset != before else when)
        before = dataset
    return names


def _tile(axes: Axes, x: int, y: int, steps: float) -> None:
    never = math.isinf(steps)
    level = min(steps, SLOW) / SLOW
    blend = [round(a + level * (b - a)) for a, b in zip(FAST, LATE, strict=True)] if not never else []
    colour = NEVER if never else "#{:02x}{:02x}{:02x}".format(*blend)
    axes.fill([x - 0.5, x + 0.5, x + 0.5, x - 0.5], [y - 0.5, y - 0.5, y + 0.5, y + 0.5], color=colour, linewidth=0)
    text = "-" if never else f"{steps:g}"
    axes.text(
        x, y, text, ha="center", va="center", fontsize=8.0, color="white" if not never and level > 0.5 else "black"
    )


def against_gradients(result: Reproduction) -> Figure | None:
    """Draw the mean error against gradients per row, one panel for each stream; a line joins an algorithm's budgets."""
    run = [table for table in BUDGETS if any(cell.table == table for cell in result.cells)]
    points: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for account in (account for table in run for account in accounts(result.measured, table)):
        if account.algorithm not in ("mddm-a", "mddm-e"):
            here = points.setdefault(account.dataset, {}).setdefault(account.algorithm, [])
            here.append((account.gradients_per_row, account.error))
    if not points:
        return None
    figure, every = panels(len(points))
    for axes, (dataset, row) in zip(every, points.items(), strict=True):
        for algorithm, place in row.items():
            style = STYLES[algorithm]
            x, y = zip(*sorted(place), strict=True)
            axes.plot(
                x, y, color=style.colour, linestyle=style.dashes, marker=style.marker, markersize=4.5, linewidth=1
            )
        axes.set_xscale("log")
        axes.set_xticks([1, 2, 4, 10, 20], ["1", "2", "4", "10", "20"])
        axes.minorticks_off()
        axes.set_xlim(0.85, 24)
        name(axes, full_title(dataset))
    name_axes(figure, "gradients per row", "mean error")
    shown = [algorithm for algorithm in STYLES if any(algorithm in row for row in points.values())]
    legend(figure, [handle(algorithm, marker=True) for algorithm in shown])
    return figure


def critical_differences(result: Reproduction) -> Figure | None:
    """Draw Demsar's diagram for each table: plain ranks, and ranks with ties by the spread of the trials."""
    found = rankings(result.cells)
    if not found:
        return None
    figure, every = panels(2 * len(found), columns=2, size=(5.4, 2.0))
    for k, (table, pair) in enumerate(found.items()):
        for axes, one, how in zip(every[2 * k :], pair, ("plain ranks", "ties within the spread"), strict=False):
            _diagram(axes, one)
            probability = f"p = {one.probability:.2g}" if one.probability >= 1e-4 else "p < 0.0001"
            name(axes, f"{table}, {how}: {one.streams} streams, {probability}")
    return figure


def _diagram(axes: Axes, found: Ranking) -> None:
    """Draw ranks on a line, the best at the left; bars join those without a critical difference, shown above."""
    k = len(found.algorithms)
    left = math.ceil(k / 2)
    groups = found.alike
    deepest = -0.75 - 0.38 * len(groups) - 0.55 * max(left, k - left)
    axes.set_xlim(-0.6, k + 2.6)
    axes.set_ylim(deepest, 1.6)
    axes.axis("off")
    axes.plot([1, k], [0, 0], color="black", linewidth=1.0)
    for rank in range(1, k + 1):
        axes.plot([rank, rank], [0, 0.18], color="black", linewidth=1.0)
        axes.text(rank, 0.28, str(rank), ha="center", va="bottom", fontsize=8.0)
    axes.plot([1, 1 + found.critical_difference], [1.15, 1.15], color="black", linewidth=1.6)
    axes.text(
        1 + found.critical_difference + 0.1, 1.15, f"CD = {found.critical_difference:.2f}", va="center", fontsize=8
    )
    for depth, group in enumerate(groups):
        ranks = [found.average_ranks[found.algorithms.index(name)] for name in group]
        level = -0.3 - 0.38 * depth
        axes.plot([min(ranks) - 0.04, max(ranks) + 0.04], [level, level], color="black", linewidth=2.6)
    for i, (algorithm, average) in enumerate(zip(found.algorithms, found.average_ranks, strict=True)):
        at_left = i < left
        level = -0.6 - 0.38 * len(groups) - 0.55 * (i if at_left else k - 1 - i)
        end = 0.7 if at_left else k + 0.3
        axes.plot([average, average, end], [0, level, level], color=STYLES[algorithm].colour, linewidth=1.1)
        title = ALGORITHMS[algorithm].title
        text, side, gap = (
            (f"{title} {average:.2f}", "right", -0.07) if at_left else (f"{average:.2f} {title}", "left", 0.07)
        )
        axes.text(end + gap, level, text, ha=side, va="center", fontsize=8.0)
