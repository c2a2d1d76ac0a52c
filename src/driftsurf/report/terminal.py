"""What a run shows in a terminal: progress, each transition as it happens, a table at the end."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

from driftsurf.decisions import Decision, significant
from driftsurf.evaluation.summary import Summary, ValueSummary, summarise, summarise_values
from driftsurf.evaluation.trace import Trace

__all__ = ["MODEL", "ORACLE", "Progress", "console", "print_result", "speeds_of", "timings", "without_first"]

MODEL = "driftsurf"
ORACLE = "aware"
SUGGESTED_STEPS = 10
_STYLES = {"entered": "yellow", "switched": "green", "kept": "magenta", "greedy": "dim"}


def console(*, errors: bool = False) -> Console:
    """Standard output, or that for errors: colours and a moving bar in a terminal, plain text elsewhere."""
    screen = Console(highlight=False, soft_wrap=True, stderr=errors)
    if not screen.is_terminal:
        screen = Console(highlight=False, soft_wrap=True, width=100, stderr=errors)
    return screen


class Progress:
    """A bar with the current error and state, and every transition in words as it happens.

    Where the output is no terminal, a line each tenth of the way takes the place of the bar; where nobody knows how
    long the way is, after 1, 10, 100, ... steps, and every 1,000.

    Parameters
    ----------
    name
        Of what is run.
    steps
        How many there are; None if nobody knows.
    model
        Which one is shown.
    quiet
        Show nothing.
    errors
        Show it on the standard output for errors: the other one is taken.
    values
        Values are predicted: errors come as squares and are shown as roots, which have a unit.
    """

    def __init__(
        self,
        name: str,
        steps: int | None,
        *,
        model: str = MODEL,
        quiet: bool = False,
        errors: bool = False,
        values: bool = False,
    ) -> None:
        self._steps = steps
        self._model = model
        self._quiet = quiet
        self._values = values
        self._console = console(errors=errors)
        self._bar_from = 0
        self._error = 0.0
        self._scored = 0
        self._bar = RichProgress(
            TextColumn(name),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[error]}  {task.fields[state]:8}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=quiet or not self._console.is_terminal,
        )
        self._task: TaskID

    def __enter__(self) -> Self:
        self._bar.start()
        self._task = self._bar.add_task("", total=self._steps, completed=self._bar_from, error="", state="stable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def passed(self, steps: int) -> None:
        """Say that so many steps were taken before, and are not shown again."""
        self._bar_from = steps

    def __call__(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Report one step of one model; only the model itself is shown, not the oracle."""
        if model != self._model or self._quiet:
            return
        untaught = step == 0 and (self._values or self._steps is None)  # nobody had learnt
        if error == error and not untaught:  # else no label came
            self._error, self._scored = self._error + error, self._scored + 1
        state = decisions[-1].state if decisions else "stable"
        for decision in decisions:
            for transition in decision.transitions:
                self._console.print(transition.describe(), style=_STYLES.get(transition.kind, ""))
        done = step + 1
        if self._console.is_terminal:
            self._bar.update(self._task, completed=done, error=self._said(error), state=state)
        elif self._is_told(done):
            mean = f", mean {self._shown(self._error / self._scored)}" if self._scored else ""
            of = "" if self._steps is None else f"/{self._steps}"
            self._console.print(f"[{done}{of}] {self._said(error)}{mean}, {state}", markup=False)

    def _said(self, error: float) -> str:
        if error != error:  # no label came
            return "nothing scored" if self._scored else "nothing scored yet"
        return f"{'RMSE' if self._values else 'error'} {self._shown(error)}"

    def _shown(self, error: float) -> str:
        return significant(math.sqrt(error)) if self._values else f"{error:.3f}"

    def _is_told(self, done: int) -> bool:
        if self._steps is None:
            return done in (1, 10, 100) or done % 1000 == 0
        return done == self._steps or done % max(1, self._steps // 10) == 0


def print_result(trace: Trace, folder: Path, first_step: int = 0) -> None:
    """The table at the end of a run; ``first_step``: where this process began, for the speed."""
    screen = console()
    totals = Table(box=box.SIMPLE, header_style="bold", pad_edge=False)
    totals.add_column("")
    for name in (MODEL, f"{ORACLE} (oracle)"):
        totals.add_column(name, justify="right")
    mine, oracle = ((summarise if trace.labels else summarise_values)(trace, name, ORACLE) for name in (MODEL, ORACLE))
    rows = int(trace.of(MODEL)["rows"].sum())
    speeds = speeds_of(trace, first_step)
    both = [_errors_of(summary) for summary in (mine, oracle)]
    for label, values in {
        **{label: [one[label] for one in both] for label in both[0]},
        "reactions": [str(mine.reactions), "-"],
        "  of which false": [str(mine.false_reactions), "-"],
        "switches to a new model": [str(mine.switches), "-"],
        "time reactive": [f"{mine.share_reactive:.0%}", "-"],
        "gradients per row": [f"{s.gradients / rows:.2f}" for s in (mine, oracle)],
        "rows/s": [f"{speeds[name]:,.0f}" for name in (MODEL, ORACLE)],
    }.items():
        totals.add_row(label, *values)
    screen.print(totals)
    if trace.untaught:
        screen.print(without_first(trace, MODEL))
    if not trace.labels and trace.drifts:
        screen.print(f"{ORACLE} is told of a drift after its first batch, and goes on with a fresh model")
    if mine.drift_steps:
        drifts = Table(box=box.SIMPLE, header_style="bold", pad_edge=False)
        for column in ("drift at step", "new rows alone after", "error within 10 % of oracle after"):
            drifts.add_column(column, justify="right")
        assert mine.recovery_by_error is not None
        recoveries = zip(mine.drift_steps, mine.recovery_by_training, mine.recovery_by_error, strict=True)
        for (first, last), trained, close in recoveries:
            drifts.add_row(str(first) if first == last else f"{first} to {last}", _steps(trained), _steps(close))
        screen.print(drifts)
    screen.print(f"report: {folder / 'report.html'}")


def without_first(trace: Trace, model: str) -> str:
    """That the ``untaught`` batch does not count."""
    rows = trace.of(model)["rows"]
    if len(rows) > trace.untaught:
        return "errors without the first batch, which nobody had learnt before"
    least = max(1, int(rows.sum()) // SUGGESTED_STEPS)
    return f"one batch only: nothing was predicted by a model that had learnt; try --batch-size {least}"


def _errors_of(summary: Summary | ValueSummary) -> dict[str, str]:
    if isinstance(summary, Summary):
        return {
            "mean error": f"{summary.mean_error:.4f}",
            "log loss": f"{summary.log_loss:.4f}",
            "kappa": f"{summary.kappa:.3f}",
        }
    return {
        "root mean squared error": significant(summary.root_mean_squared_error),
        "mean absolute error": significant(summary.mean_absolute_error),
        "skill over the mean so far": f"{summary.skill_over_mean:.3f}",
    }


def timings(trace: Trace, first_step: int = 0) -> str:
    """Measured times as JSON, since the step at which the process began: kept apart from all that is reproducible."""
    speeds = speeds_of(trace, first_step)
    models = {name: {"seconds": seconds, "rows_per_second": speeds[name]} for name, seconds in trace.seconds.items()}
    return json.dumps({"first_step": first_step, "models": models}, indent=2) + "\n"


def speeds_of(trace: Trace, first_step: int) -> dict[str, float]:
    """Rows a second of each model; 0 if it had nothing left to do."""
    rows = {name: float(trace.of(name)["rows"][first_step:].sum()) for name in trace.models}
    return {name: rows.get(name, 0.0) / seconds if seconds else 0.0 for name, seconds in trace.seconds.items()}


def _steps(value: int | None) -> str:
    return "not in time" if value is None else f"{value} step{'s' * (value != 1)}"
