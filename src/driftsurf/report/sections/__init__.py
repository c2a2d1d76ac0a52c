"""The sections of a run's page. Each module here holds one ``SECTION``: its title, figures, tables and words.

To add a figure to the page, add a module; it is found by itself, and ``SECTION.position`` is its place on the page.
``drifts.py`` is a short example with a table, ``risk.py`` one with a figure. A section reads its :class:`RunView` and
nothing else. The order of the sections is also in a test, ``tests/report/test_run_page.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeAlias

from driftsurf.core.decisions import Decision
from driftsurf.core.drifts import Drift, Drifts, InputChanges
from driftsurf.core.journal import changes_of, drifts_of
from driftsurf.errors.visible import escape
from driftsurf.evaluation.column_moves import ColumnMove
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.summary import Baselines, ClassificationSummary, RegressionSummary, baselines, summarise
from driftsurf.evaluation.trace import OTHER, StepMap, Trace
from driftsurf.report import html
from driftsurf.report.figure import Bars, Figure, Overlay, as_json
from driftsurf.runs.explanation.records import looks_for_drift
from driftsurf.runs.orders import OrderRecord

__all__ = ["Built", "RunView", "Section", "interactive_page", "sections"]


@dataclass(frozen=True)
class RunView:
    """What a page shows: one model of a trace, its decisions, and the files that were recorded with them."""

    trace: Trace
    decisions: Sequence[Decision]
    model: str
    oracle: str | None = None
    """The model of the trace that knows the drifts, if there is one."""
    moves: Sequence[ColumnMove] = ()
    orders: Sequence[OrderRecord] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Measured seconds of each model; empty if the page is to be the same for every run of the same thing."""
    seconds_from: int = 0
    """The step from which on seconds were measured."""
    scores: Scores | None = None
    """Confusion, ROC AUC and calibration, or residuals, if the run recorded them."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What was run, as in ``run.json``; empty if that is not known."""
    work: str = "gradients"
    """Unit in which the work of learning is counted: "gradients", or "visits" of rows."""
    unlabelled: int = 0
    """Number of rows without a label, which were predicted and not learned."""
    known_drifts: Drifts = field(default_factory=Drifts)
    """Drifts that may be older than the decisions."""

    @functools.cached_property
    def summary(self) -> ClassificationSummary | RegressionSummary:
        """The metrics of the model."""
        return summarise(self.trace, self.model, self.oracle)

    @functools.cached_property
    def looks_for_drift(self) -> str:
        """How the strategy looks for drift: "thresholds", "detector", or empty if it does not."""
        return looks_for_drift(self.about, self.decisions)

    @functools.cached_property
    def drifts(self) -> Drifts:
        """The drifts of the model, with times where they are known."""
        return self.trace.timed(Drifts.merged([*self.known_drifts, *drifts_of(self.decisions)]), self.model)

    @functools.cached_property
    def drifts_in_view(self) -> Sequence[Drift]:
        """The drifts that were not over before the first step of the trace."""
        first = int(self.trace.of(self.model)["first_row"][0])
        return [one for one in self.drifts if one.ended_at_row is None or one.ended_at_row >= first]

    @property
    def first_step(self) -> int:
        """Number of the first step of the trace: 0, unless steps before it were removed."""
        return int(self.trace.of(self.model)["step"][0])

    @functools.cached_property
    def changes(self) -> InputChanges:
        """The moves of the inputs alone, with times where they are known."""
        return self.trace.timed(changes_of(self.decisions), self.model)

    @functools.cached_property
    def trivial(self) -> Baselines:
        """The errors of predictions that need no model."""
        return baselines(self.trace, self.model, self.scores)

    @property
    def named_classes(self) -> list[Any]:
        """The classes that the trace counts one by one."""
        return [label for label in self.trace.labels if label != OTHER]

    @property
    def positive(self) -> Any:
        """The class that precision, recall and calibration are about, if there are two: the last of them in order."""
        return self.trace.labels[1] if len(self.trace.labels) == len(self.named_classes) == 2 else None

    def class_order(self, label: Any) -> int:
        """Return the place of a class on the page."""
        labels = self.trace.labels
        return labels.index(label) if label in labels else len(labels)

    @functools.cached_property
    def steps(self) -> StepMap:
        """Where rows, decisions and orders are among the steps of the trace."""
        columns = self.trace.of(self.model)
        return StepMap.of(columns) if self.scores is None else self.scores.step_map(columns)

    def place(self, row: int) -> float:
        """Return the place among the steps of a row that was learned."""
        decision = next((one for one in reversed(self.decisions) if one.first_row <= row), None)
        if decision is None:
            return self.steps.of_row(row)
        (start, stop), at = self.steps.around(decision, decision), self.steps.of_decision(decision)
        return at + (stop - start) * min((row - decision.first_row) / max(decision.rows, 1), 1.0)

    def when(self, place: float) -> str:
        """Return the time of a step as text; empty if steps have no times."""
        return self._times[min(max(int(place), 0), len(self._times) - 1)] if self._times else ""

    @functools.cached_property
    def _times(self) -> list[str]:
        return self.trace.time_texts(self.model)


@dataclass(frozen=True)
class Section:
    """A titled part of the page."""

    title: str
    position: int
    """Sections are ordered by this number."""
    build: Callable[[RunView], Iterable[str | Figure | Bars]]
    """Return HTML and figures, in their order; nothing leaves the section out."""
    folded: bool = True
    """Whether the section is among the details, which a reader unfolds."""

    def render(self, parts: Iterable[str]) -> str:
        """Return the section as HTML, given that of its parts."""
        body = "\n".join(parts)
        if self.folded:
            return f'<details class="more"><summary><h2>{escape(self.title)}</h2></summary>\n{body}\n</details>'
        return f"<h2>{escape(self.title)}</h2>\n{body}"


@functools.cache
def sections() -> tuple[Section, ...]:
    """Return the sections of all modules of this package, in the order of the page."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    found: list[Section] = [module.SECTION for module in modules]
    return tuple(sorted(found, key=lambda section: section.position))


Built: TypeAlias = Sequence[tuple[Section, Sequence[str | Figure | Bars]]]
"""Sections with their parts, HTML and figures."""


def interactive_page(title: str, head: Iterable[str], overlay: Overlay, sections: Built) -> str:
    """Return a whole page: what stands above the figures, then the sections, the folded ones last.

    Without a script it shows the same figures as still drawings.

    Its policy lets it load nothing, and run no script but the one whose digest it names.
    """
    script = html.asset("page.js")
    figures = [part for _, parts in sections for part in parts if not isinstance(part, str)]
    data = as_json(overlay, figures)
    body = [*head, html.asset("toolbar.html").rstrip()]
    for section, parts in sorted(sections, key=lambda built: built[0].folded):
        body.append(section.render(part if isinstance(part, str) else part.render(overlay) for part in parts))
    scripts = f'<script type="application/json" id="run">{data}</script>\n<script>{script}</script>'
    return html.document(title, [*body, scripts], style=html.look(), policy=html.script_policy(script))
