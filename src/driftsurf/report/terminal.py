"""The terminal: the console for all output, and the progress of a run."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.segment import Segment
from rich.text import Text

from driftsurf.core.decisions import Decision
from driftsurf.core.drifts import Drift, DriftNews
from driftsurf.core.wording import significant, wrapped
from driftsurf.errors.visible import visible

WIDTH = 100
"""Number of characters in a line if there is no terminal."""

_STYLES = {"began": "yellow", "over": "green"}
"""Colours of the news of drifts."""


class Screen(Console):
    """A console that wraps text at word ends, never breaks a path, and shows all text as it is.

    Text is plain: square brackets and colons mean nothing, and what would control the terminal is shown escaped.
    """

    def print(self, *objects: Any, hang: int | None = None, **options: Any) -> None:
        """Print objects; a text is one line, wrapped at the width of the terminal, or at 100 characters without one.

        What goes to standard error without a terminal is not wrapped, so that each message stays one line of a log.
        ``hang`` is the indentation of the lines after the first.
        """
        wraps = self.is_terminal or not self.stderr

        def shown(text: str) -> Text:
            return Text(wrapped(visible(text), self.width, hang) if wraps else visible(text))

        super().print(*(shown(one) if isinstance(one, str) else one for one in objects), **options)

    def on_broken_pipe(self) -> None:
        """Pass the error on: the command line ends with it, without a message."""
        raise

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a cell of a table, or other text inside an object, on one line."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Yield what is written; no text in it controls the terminal, wherever it was made."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text, lines=True), segment.style)


def console(*, errors: bool = False) -> Screen:
    """Return a console for standard output, or for standard error; colours are used in a terminal only."""
    screen = Screen(highlight=False, markup=False, emoji=False, soft_wrap=True, stderr=errors)
    if not screen.is_terminal:
        width = os.environ.get("COLUMNS", "")
        screen.width = int(width) if width.isdecimal() and int(width) else WIDTH
    return screen


def say(text: str, *, errors: bool = False) -> None:
    """Print a sentence, on standard output or on standard error."""
    console(errors=errors).print(text)


class ProgressBar:
    """Show the progress of a run: a bar with the current error, and a line when a drift is detected or over.

    If the output is not a terminal, lines replace the bar: one for each tenth of the steps or, if their number is not
    known, after 1, 10 and 100 steps and then every 1,000.

    Parameters
    ----------
    name
        Name of the run.
    steps
        Number of steps; None if it is not known.
    model
        Name of the model to show.
    quiet
        Show nothing.
    errors
        Use standard error, because standard output is taken.
    regression
        Errors are root mean squared errors.
    """

    def __init__(
        self,
        name: str,
        steps: int | None,
        *,
        model: str = "driftsurf",
        quiet: bool = False,
        errors: bool = False,
        regression: bool = False,
    ) -> None:
        self._name = name
        self._steps = steps
        self._model = model
        self._quiet = quiet
        self._regression = regression
        self._console = console(errors=errors)
        self._bar_from = 0
        self._error = 0.0
        self._scored = 0
        self._rows = 1
        self._news = DriftNews()
        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
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
        self._task = self._bar.add_task(
            visible(self._name), total=self._steps, completed=self._bar_from, error="", state=""
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def passed(self, steps: int, drifts: Iterable[Drift] = ()) -> None:
        """Begin after so many steps, which were taken before, and after the drifts that were found in them."""
        self._bar_from, self._news = steps, DriftNews(drifts)

    def __call__(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Show one step, unless it is of another model."""
        if model != self._model or self._quiet:
            return
        if not math.isnan(error):  # NaN: no label arrived, or nothing had been learned
            # Every row counts the same, as in the mean error of the run. A step without decisions counts as the last.
            self._rows = sum(decision.rows for decision in decisions) or self._rows
            loss = error**2 if self._regression else error
            self._error, self._scored = self._error + self._rows * loss, self._scored + self._rows
        for decision in decisions:
            if decision.drifts:
                for phase, drift in self._news.take(decision.drifts):
                    self._console.print(drift.news(phase), style=_STYLES[phase])
        done = step + 1
        if self._console.is_terminal:
            state = "drifting" if self._news.drifting else ""
            self._bar.update(self._task, completed=done, error=self._error_text(error), state=state)
        elif self._is_line_due(done):
            mean = self._error / self._scored if self._scored else 0.0
            mean_text = f", mean {self._number(math.sqrt(mean) if self._regression else mean)}" if self._scored else ""
            of = "" if self._steps is None else f" of {self._steps}"
            state = "drifting" if self._news.drifting else ""
            self._console.print(f"step {step}{of}: {self._error_text(error)}{mean_text}{f', {state}' if state else ''}")

    def note(self, text: str) -> None:
        """Show a line of text."""
        if not self._quiet:
            self._console.print(text)

    def _error_text(self, error: float) -> str:
        if math.isnan(error):
            return "nothing scored" if self._scored else "nothing scored yet"
        return f"{'RMSE' if self._regression else 'error'} {self._number(error)}"

    def _number(self, error: float) -> str:
        return significant(error) if self._regression else f"{error:.3f}"

    def _is_line_due(self, done: int) -> bool:
        if self._steps is None:
            return done in (1, 10, 100) or done % 1000 == 0
        return done == self._steps or done % max(1, self._steps // 10) == 0
