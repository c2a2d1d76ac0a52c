"""The result of a run: its trace, its decisions, its folder, and the models as they are at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from driftsurf import registry
from driftsurf.core.decisions import Decision
from driftsurf.core.drifts import Drifts, InputChanges
from driftsurf.core.journal import changes_of, drifts_of, read_lines
from driftsurf.core.views import Experts, Transitions
from driftsurf.evaluation.column_moves import ColumnMove, read_moves
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.summary import ClassificationSummary, RegressionSummary, summarise
from driftsurf.evaluation.trace import Trace, TraceBuilder
from driftsurf.runs.folder import COLUMNS, JOURNAL, REPORT, SCORES, TRACE
from driftsurf.runs.live import LiveRun
from driftsurf.runs.orders import OrderRecord, read_records
from driftsurf.runs.sinks import Filing
from driftsurf.session.error_estimate import ErrorEstimate
from driftsurf.session.label_counts import LabelCounts
from driftsurf.session.protocols import Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from driftsurf.keyed.drifts import KeyDrifts
    from driftsurf.keyed.folder import KeyedFolder


@dataclass(frozen=True, eq=False, repr=False)
class RunResult:
    """Result of a run, as :func:`driftsurf.run` returns it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import driftsurf
    >>> result = driftsurf.run("mixed", rows=20_000, out=Path(tempfile.mkdtemp(), "run"), progress=False)
    >>> result.n_steps, round(result.summary.mean_error, 2)
    (100, 0.2)
    >>> [change.step for change in result.transitions if change.kind == "switched"]
    [19, 23, 27, 35, 43, 52, 63, 83]
    >>> sorted(path.name for path in result.folder.glob("*.html"))
    ['report.html']
    """

    folder: Path
    """The run folder: trace, journal, page."""
    model: str
    """Name of the leading model."""
    models: Mapping[str, Model]
    """The models as they are at the end, by name."""
    trace: Trace
    """What each model did at each step. Empty if no row could be scored."""
    decisions: list[Decision]
    """Decisions of the leading model, one for each time step."""
    orders: list[OrderRecord] = field(default_factory=list)
    """Orders of operators, with their outcomes."""
    column_moves: list[ColumnMove] = field(default_factory=list)
    """Columns that moved most around each reaction."""
    scores: Scores | None = None
    """Confusion, ROC AUC and calibration of the leading model, or its residuals, over time."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What was run: the source, the settings, what the first rows decided; as in ``run.json``."""
    oracle: str | None = None
    """Name of the model that knew the true drifts, if there was one."""
    skipped_rows: int = 0
    """Number of rows that could not be used."""
    unlabelled_rows: int = 0
    """Number of rows without a label, which were predicted and not learned."""
    label_counts: LabelCounts | None = None
    """What became of rows and labels, if labels came late."""
    estimated_error: ErrorEstimate | None = None
    """Estimated error of the newest rows, whose labels may not have come; None without an estimate."""
    predictions: tuple[Path, ...] = ()
    """Files of predictions, in the order of their rows: the one that was asked for, or one for each checkpoint."""
    no_model: str = ""
    """Why the run folder has no model.state, which :func:`driftsurf.load` loads; "" if it has one."""
    first_step: int = 0
    """The step at which this process began: 0, or the step at which it resumed."""
    keys: Mapping[Any, Mapping[str, Any]] | None = None
    """For a run with a learner for each key: rows, errors and state of every key. Such a run has its models, decisions
    and predictions in tables of its folder (:class:`~driftsurf.keyed.KeyedFolder`), so ``models``, ``trace`` and
    ``decisions`` are empty. None for other runs."""
    drifts_of_keys: KeyDrifts | None = None
    """The drifts of all keys of such a run."""

    @classmethod
    def of(cls, live: LiveRun, folder: Path) -> Self:
        """Return the result of a run that has ended."""
        plan, journal = live.plan, live.text(JOURNAL)
        trace = replace(Trace.from_csv(live.text(TRACE)), seconds=dict(live.seconds))
        return cls(
            folder=folder,
            model=live.leading,
            models=dict(live.models),
            trace=trace,
            decisions=read_lines(journal),
            orders=read_records(journal),
            column_moves=read_moves(live.text(COLUMNS)) if COLUMNS in plan.sidecars else [],
            scores=Scores.from_text(live.text(SCORES), trace.warmup_steps) if SCORES in plan.sidecars else None,
            about=json.loads(plan.about),
            oracle=plan.oracle,
            skipped_rows=plan.source.skipped,
            unlabelled_rows=live.unlabelled,
            label_counts=plan.label_counts,
            estimated_error=live.estimated_error,
            predictions=plan.predictions.written() if isinstance(plan.predictions, Filing) else (),
            first_step=live.first_step,
        )

    @classmethod
    def of_keys(cls, folder: KeyedFolder, name: str, model: str) -> Self:
        """Return the result of a run with a learner for each key, and write its page."""
        record = registry.get("page", "keyed").make(folder)
        trace = TraceBuilder(()).build(name, 0, (), {})
        own: dict[str, Any] = {"keys": record.keys, "drifts_of_keys": record.drifts}
        own["no_model"] = "every key has a model of its own"
        return cls(folder=folder.path, model=model, models={}, trace=trace, decisions=[], **own)

    def __repr__(self) -> str:
        if self.keys is not None:
            return f"<RunResult: {self.model} on {self.trace.stream}, {len(self.keys)} keys, {str(self.folder)!r}>"
        return f"<RunResult: {self.model} on {self.trace.stream}, {self.n_steps} steps, {str(self.folder)!r}>"

    def _repr_html_(self) -> str:
        """Return the result as HTML, for notebooks: the verdict, the drifts, the errors and a link to the page."""
        text: str = registry.get("page", "run-html").make(self)
        return text

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the error of each model at each step with matplotlib (extra ``figures``), on ``ax`` or a new figure.

        Drifts of the leading model are shaded; dashed lines are the true drifts of a stream, if they are known.
        """
        axes: Axes = registry.get("page", "plot").make(self.trace, ax, {self.model: self.drifts})
        return axes

    def explain(
        self, *, step: int | None = None, threshold: float | None = None, stable_threshold: float | None = None
    ) -> str:
        """Explain why the model changed, as :func:`driftsurf.explain` of the run folder does.

        Of a run with a learner for each key it says which keys drifted, and how; the page has the models of each key.
        """
        if self.drifts_of_keys is not None:
            told = [f"{key}: {drift.describe()}" for key, drift in self.drifts_of_keys.items()]
            return "\n".join([self.drifts_of_keys.verdict, *told])
        text: str = registry.get("page", "explanation").make(
            self.folder, step=step, threshold=threshold, stable_threshold=stable_threshold
        )
        return text

    @property
    def page(self) -> Path:
        """The page of the run, which a browser opens."""
        if self.keys is None:
            return self.folder / REPORT
        from driftsurf.keyed.folder import PAGE  # loads all that is keyed

        return self.folder / PAGE

    @property
    def n_steps(self) -> int:
        """Number of steps of the trace: those that were scored or, where labels come late, learned."""
        return len(self.trace.of(self.model)["step"]) if self.model in self.trace.models else 0

    @property
    def transitions(self) -> Transitions:
        """Changes of state or of the predicting model, in order."""
        return Transitions(transition for decision in self.decisions for transition in decision.transitions)

    @property
    def experts(self) -> Experts:
        """The experts of the leading model at the end, with their shares; empty if it is a single model."""
        return Experts.of(self.decisions[-1] if self.decisions else None)

    @property
    def drifts(self) -> Drifts:
        """Drifts of the leading model, oldest first; of a run with a learner for each key those of all keys
        (:class:`~driftsurf.keyed.drifts.KeyDrifts`). Empty if there was none."""
        if self.drifts_of_keys is not None:
            return self.drifts_of_keys
        found = drifts_of(self.decisions)
        return found if self.trace.is_empty else self.trace.timed(found, self.model)

    @property
    def changes(self) -> InputChanges:
        """Moves of the inputs of the leading model that did no harm, oldest first; no drifts, and no reason to act."""
        found = changes_of(self.decisions)
        return found if self.trace.is_empty else self.trace.timed(found, self.model)

    @property
    def summary(self) -> ClassificationSummary | RegressionSummary | None:
        """Metrics of the leading model; None if no row could be scored."""
        return self.summary_of(self.model)

    def summary_of(self, model: str) -> ClassificationSummary | RegressionSummary | None:
        """Return the metrics of one of the models; None if no row could be scored."""
        if self.trace.is_empty:
            return None
        return summarise(self.trace, model, self.oracle)

    @property
    def rows_per_second(self) -> dict[str, float]:
        """Speed of each model, measured in this process; 0 if it had nothing left to do."""
        trace = self.trace
        rows = {name: float(trace.learned(name)[self.first_step :].sum()) for name in trace.models}
        return {name: rows.get(name, 0.0) / seconds if seconds else 0.0 for name, seconds in trace.seconds.items()}

    def timings(self) -> str:
        """Return measured times as JSON, apart from everything that is reproducible."""
        speeds = self.rows_per_second
        models = {
            name: {"seconds": seconds, "rows_per_second": speeds[name]} for name, seconds in self.trace.seconds.items()
        }
        return json.dumps({"first_step": self.first_step, "models": models}, indent=2) + "\n"

    def write_page(self, path: str | Path) -> None:
        """Write the page of the run as one HTML file without external references."""
        registry.get("page", "run").make(self, Path(path))
