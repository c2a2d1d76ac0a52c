"""The plan of a run: its source, its models, and how its results are written; and the contracts of these parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from driftsurf.core.contracts import State
from driftsurf.core.decisions import Decision
from driftsurf.core.drifts import Drifts
from driftsurf.core.options import whole
from driftsurf.errors import Message, Option
from driftsurf.runs.output import Rotation
from driftsurf.runs.predictions import LabelType
from driftsurf.runs.sinks import Sink
from driftsurf.session.label_counts import LabelCounts
from driftsurf.session.observation import Observation
from driftsurf.session.protocols import LateLabelled, Model

if TYPE_CHECKING:
    from driftsurf.data.advice import ColumnSummary
    from driftsurf.data.row_encoder import FrameEncoder
    from driftsurf.runs.batches import BatchSource

ORACLE = "aware"
"""Name of the model that knows the true drifts."""
KEPT_ROWS = "max_rows"
"""Entry of what was decided at the beginning: the rows that a model keeps, if wide tables allow fewer than usual."""
NO_CHECKPOINTS = Message("so a run with it has no checkpoints; leave ", Option("checkpoint"), " out")
"""End of the refusal of checkpoints for a learner that cannot be saved exactly."""


# ---------------------------------------------------------------------------- contracts


class Step(NamedTuple):
    """A step of a run."""

    number: int
    rows: Any
    truth: Any
    """Labels of the rows that were scored."""
    seen: dict[str, Observation]
    """Observation of each model, by its name."""


class Saved(Protocol):
    """A part whose state belongs to the checkpoints of a run."""

    def state(self) -> State:
        """Return everything that decides what it does next."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state()`` returned."""
        ...


class LineWriter(Saved, Protocol):
    """Makes the lines of a file that grows with the run."""

    def head(self) -> str:
        """Return the text before the first line."""
        ...


class Recorder(LineWriter, Protocol):
    """Makes the lines of the trace."""

    warmup_steps: int
    """Steps at the beginning that were predicted before anything was learned."""
    estimated: bool
    """Whether lines have the estimated error."""

    def lines(self, y: Any, seen: Mapping[str, Observation]) -> str:
        """Return one line for each model, or nothing if no row could be scored."""
        ...


class Sidecar(LineWriter, Protocol):
    """Makes the lines of a further file."""

    def lines(self, X: Any, seen: Mapping[str, Observation]) -> str:
        """Return the lines of one step, if there are any."""
        ...


# ---------------------------------------------------------------------------- the plan


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Everything that a run is made of. Nothing has been learned or written yet.

    :func:`~driftsurf.runs.plan_tables.plan_tables` and :func:`~driftsurf.runs.plan_streams.plan_stream` make plans
    from options; :class:`~driftsurf.runs.live.LiveRun` executes one.

    Examples
    --------
    >>> from driftsurf.runs import RunOptions
    >>> from driftsurf.runs.plan_streams import plan_stream
    >>> plan = plan_stream("sea0", RunOptions.of(rows=2_000, batch_size=100))
    >>> plan.model, list(plan.models), plan.n_steps
    ('driftsurf', ['driftsurf', 'aware'], 20)
    """

    name: str
    """Short name of the source."""
    source: BatchSource
    models: Mapping[str, Model]
    """Models by name. The first is the leading one: journal, predictions and orders are about it."""
    recorder: Recorder
    about: str = "{}"
    """What is run, as a JSON object. A checkpoint with another one is refused."""
    label_type: LabelType = "integer"
    sidecars: Mapping[str, Sidecar] = field(default_factory=dict)
    """Further files by name, and what writes them."""
    predictions: Sink | None = None
    """Where the predictions of the leading model go."""
    copies: Mapping[str, Sink] = field(default_factory=dict)
    """Where the lines of the journal and of the trace also go, by the name of the file."""
    shown_classes: tuple[Any, ...] = ()
    """Classes whose probabilities are written for each row; none for that of the predicted class alone."""
    keeps_bad_rows: bool = False
    """Whether rows that were left out are written to a file, which only its owner may read."""
    every: int = 10
    """Number of steps from one checkpoint to the next."""
    rotation: Rotation = field(default_factory=Rotation)
    """When journal and bad rows begin a new file, under checkpoints."""
    history: Rotation = field(default_factory=Rotation)
    """When the trace and the files beside it begin a new file."""
    has_ids: bool = False
    """Whether rows have ids, which predictions show and by which late labels find their rows."""
    follows: bool = False
    """Whether the run waits for more rows at the end of its source. A finished run that is resumed then continues."""
    continues: bool = False
    """Whether the models continue another run, so that they count steps and rows from there."""
    n_steps: int | None = None
    """Number of steps, if it is known beforehand."""
    batch_rows: int | None = None
    """Rows of a step; None if steps are cut by time."""
    kept_rows: int | None = None
    """Rows that the model keeps, if the table is so wide that it keeps fewer than usual and none are named."""
    traces_leading: bool = False
    """Whether the trace shows the leading model alone, under the name of the run: another may take its place."""
    oracle: str | None = None
    """Name of the model that knows the true drifts, if there is one."""
    columns: ColumnSummary | None = None
    """How the columns were understood; None if that is not known."""
    frames: Callable[[], FrameEncoder | None] = lambda: None
    """Returns how tables become the rows that the models learn; None if the models learn arrays."""
    why_model: Message | None = None
    """Which model was chosen, where none was named, and how to get another."""
    hints: tuple[Message, ...] = ()
    """Columns that may have been misunderstood, and what to do about them."""

    def __post_init__(self) -> None:
        whole("every", self.every, at_least=1)

    @property
    def model(self) -> str:
        """Name of the leading model."""
        return next(iter(self.models))

    @property
    def regression(self) -> bool:
        """Whether numbers are predicted rather than classes."""
        return self.label_type == "value"

    @property
    def label_counts(self) -> LabelCounts | None:
        """What became of rows and labels so far, if labels come late."""
        leading = self.models[self.model]
        return leading.label_counts if isinstance(leading, LateLabelled) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """Facts about a run when it begins or resumes, before its first step.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import driftsurf
    >>> def begin(start):
    ...     print(start.name, start.model, start.first_step, start.n_steps)
    >>> _ = driftsurf.run("sea0", rows=2_000, out=Path(tempfile.mkdtemp(), "run"), progress=False, on_start=begin)
    sea0 driftsurf 0 100
    """

    name: str
    """Short name of the source."""
    model: str
    """Name of the leading model."""
    first_step: int = 0
    """The first step of this process: 0, or that of the checkpoint from which the run resumes."""
    n_steps: int | None = None
    """Number of steps, if it is known beforehand."""
    regression: bool = False
    """Whether numbers are predicted rather than classes."""
    columns: ColumnSummary | None = None
    """How the columns were understood; None if that is not known, or was reported before."""
    why_model: Message | None = None
    """Which model was chosen, where none was named, and how to get another; None if it was reported before."""
    batch_rows: int | None = None
    """Rows of a step; None if steps are cut by time, or if it was reported before."""
    kept_rows: int | None = None
    """Rows that the model keeps, if a wide table allows fewer than usual; None also if it was reported before."""
    predictions: str = ""
    """How the files of predictions are named, if not as requested."""
    drifts: Drifts = field(default_factory=Drifts)
    """Drifts that were found before the first step of this process."""
    finished: bool = False
    """Whether the run that resumes has reached the end of its source before."""


class RunProgress(Protocol):
    """Shows the progress of a run."""

    def start(self, start: RunStart) -> None:
        """Show that the run begins."""
        ...

    def step(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Show one step of one model."""
        ...

    def close(self) -> None:
        """Stop showing progress."""
        ...


OnStart = Callable[[RunStart], None]
PlanMaker = Callable[[Mapping[str, Any] | None], RunPlan]
"""Makes the plan of a new run (None), or of a run that resumes from a checkpoint with this state."""
