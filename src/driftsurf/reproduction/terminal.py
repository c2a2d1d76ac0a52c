"""Terminal output of ``driftsurf reproduce``: progress with the time left, and the result in a few lines."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from driftsurf.report.terminal import console
from driftsurf.reproduction.cells import agreement
from driftsurf.reproduction.reproduce import Reproduction, title_of

LINE_SECONDS = 10.0


class TrialProgress:
    """A progress bar for each kind of work; a line every ten seconds if the output is not a terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._console = console(errors=True)
        self._bar = RichProgress(
            TextColumn("{task.description:14}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._started: dict[str, tuple[float, int]] = {}
        self._last_line = 0.0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Report how much of one kind of work is done."""
        if self._quiet:
            return
        now = time.monotonic()
        if what not in self._started:
            self._started[what] = now, done
            self._tasks[what] = self._bar.add_task(what, total=total)
        self._bar.update(self._tasks[what], completed=done)
        if self._console.is_terminal or (now - self._last_line < LINE_SECONDS and done < total):
            return
        self._last_line = now
        start, had = self._started[what]
        left = (now - start) * (total - done) / (done - had) if done > had else 0.0
        self._console.print(f"{what}: {done} of {total}" + (f", about {left:.0f} s left" if left else ""))


def print_result(result: Reproduction, folder: Path) -> None:
    """Print the agreement with the paper, the cells that differ most, the claims that hold, and the report's path."""
    screen = console()
    near = agreement(result.cells)
    screen.print(near.describe())
    for cell in near.misses:
        other = result.measured.find(cell.table, cell.dataset, cell.algorithm, "authors")
        beside = "" if other is None else f", the authors' code {other.rounded:.3f}"
        screen.print(
            f"  {cell.table}, {title_of(cell.dataset)}, {cell.algorithm}: ours {cell.rounded:.3f}{beside}, "
            f"paper {cell.paper:.3f}"
        )
    judged = [verdict for verdict in result.verdicts if verdict.holds is not None]
    if judged:
        good = sum(bool(verdict.holds) for verdict in judged)
        part = sum(bool(verdict.not_judged) for verdict in judged)
        untested = len(result.verdicts) - len(judged)
        screen.print(
            f"{good} of {len(judged)} claims hold in our numbers"
            + (f"; {part} of them were judged on a part of their streams" if part else "")
            + (f"; {untested} need streams that were not run" if untested else "")
        )
    if result.missing:
        screen.print(
            f"data files missing: {', '.join(result.missing)} (run 'driftsurf datasets' to see how to get them)"
        )
    if "figures" in result.experiments and not (folder / "figures").exists():
        screen.print("no figures were drawn: they need matplotlib; pip install 'driftsurf[figures]'")
    screen.print(f"results and report: {folder / 'report.html'}")
