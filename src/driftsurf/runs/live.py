"""The part of a run that is pushed: it learns batches, writes the files and saves checkpoints.

It knows neither signals nor where rows come from, so that a service or a notebook can own both. A loop that pulls rows
from a source is in :mod:`driftsurf.runs.execute`.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from driftsurf.core import files
from driftsurf.core.changes import ChangeLock
from driftsurf.core.contracts import IncrementalState
from driftsurf.core.drifts import DRIFT_RISK, SMALLEST_RISE
from driftsurf.core.fields import Converted, Fields, Json, Text, Truth, Whole, misfit
from driftsurf.core.journal import json_lines
from driftsurf.core.secrets import storable
from driftsurf.core.state import nest, pick
from driftsurf.data.source import Position
from driftsurf.errors import InputError, Option, StateError
from driftsurf.evaluation.scoring import StepReport
from driftsurf.runs import orders
from driftsurf.runs.batches import TableRows, orphan_line, table_rows, unlabelled_line
from driftsurf.runs.folder import BAD_ROWS, JOURNAL, TRACE
from driftsurf.runs.numbering import Numbering, RunDrifts
from driftsurf.runs.options import WAITING
from driftsurf.runs.orders import OrderRecord, PendingOrder, Refusal
from driftsurf.runs.output import Outlets, RolledFile
from driftsurf.runs.plan import RunPlan, Sidecar, Step
from driftsurf.runs.predictions import Predicted, PredictionBatch, predict_now
from driftsurf.session.error_estimate import ErrorEstimate
from driftsurf.session.error_tracker import ErrorTracker
from driftsurf.session.observation import Observation
from driftsurf.session.protocols import Model, Pinnable
from driftsurf.session.session import Session

if TYPE_CHECKING:
    from driftsurf.runs.checkpoint import Checkpoint, CheckpointFolder
    from driftsurf.runs.late import LateSteps

LATER = {"smallest_rise": SMALLEST_RISE, "drift_risk": DRIFT_RISK}
"""Defaults of options that version 0.2 does not have."""


def check_same_run(saved: str, planned: str) -> None:
    """Raise StateError, naming the differences, unless a checkpoint belongs to the run that is planned.

    An option that one of them does not have, because another version wrote it, is one that was not given.
    """
    if saved == planned:
        return
    differences = list[object]()
    try:
        old, new = storable(json.loads(saved)), storable(json.loads(planned))  # 0.2 stored addresses as they were
        for key in [key for key in {**old, **new} if key not in WAITING]:
            was, now = (None if about.get(key) in ([], {}, LATER.get(key)) else about.get(key) for about in (old, new))
            differences += ["; ", Option(key), f" was {was!r} and is {now!r}"] if was != now else []
    except (ValueError, TypeError, AttributeError):
        differences = ["; ", "what was run cannot be compared"]
    if differences:
        raise StateError(
            "the checkpoint belongs to another run: ",
            *differences[1:],
            ". Repeat the call that began it, or choose another folder.",
        )


log: logging.Logger = logging.getLogger("driftsurf.run")

UNOBSERVED = Observation(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0), ())
"""Observation of a batch without labels: it has no rows."""


class BatchResults(NamedTuple):
    """Results of a batch: the steps that it completed and the predictions of its rows."""

    own: Observation
    """Observation of the leading model, which is the first one."""
    steps: list[Step]
    given: PredictionBatch | None
    """Predictions of the rows that came."""
    rows: int
    """Number of rows that came."""

    def reports(self) -> Iterator[tuple[int, str, Observation]]:
        """Yield the number of each step with each model, and what that model saw."""
        for step in self.steps:
            for name, one in step.seen.items():
                yield step.number, name, one


def sidecar_lines(name: str, sidecar: Sidecar, step: Step) -> str:
    """Return the lines of a step for a file that only describes the models, and must not end the run by an error."""
    try:
        return sidecar.lines(step.rows, step.seen)
    except Exception:
        log.exception("step %d: no lines are added to %s", step.number, name)
        return ""


def predictions_of(
    plan: RunPlan, leading: Model, batch: TableRows, own: Observation, labels: Any
) -> PredictionBatch | None:
    """Return the predictions of all rows of a batch; None if the plan writes none.

    Rows without a label are predicted by the newest model, which has learned the other rows of their batch.
    """
    if plan.predictions is None:
        return None
    known: tuple[Any, ...] = ()
    bare = None
    if plan.shown_classes or not batch.labelled.all():
        assert isinstance(leading, Session)
        known = leading.targets.labels
        bare = None if batch.labelled.all() else predict_now(leading, batch.to_predict, plan.shown_classes)
    version = leading.steps - len(own.decisions)  # of the model that predicted these rows, before it learned them
    learned = Predicted.of(own, version, known, plan.shown_classes)
    return batch.predictions(learned, np.asarray(labels), bare, regression=plan.regression)


class LiveRun:
    """A run that learns what it is given, batch by batch, with a journal and a trace that grow line by line.

    A checkpoint holds everything that decides what comes next: the models, the position in the source, the sizes of the
    files. Whatever was written after it is cut off when the run resumes, so that a run which was killed at any point
    ends with the same bytes as one that was not.

    All methods may be called from any thread; a lock lets one step, checkpoint or order happen at a time. No signal
    handler is touched.

    Parameters
    ----------
    plan
        What is run.
    place
        Returns the path of a file by its name.
    checkpoints
        Where checkpoints go; None for a run without checkpoints.
    clock
        Measures the seconds of each model, which decide nothing and are not saved.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf.evaluation.scoring import TraceRecorder
    >>> from driftsurf.learners import LogisticRegression
    >>> from driftsurf.runs import RunPlan
    >>> from driftsurf.runs.orders import PendingOrder
    >>> from driftsurf.runs.batches import PushedBatches
    >>> from driftsurf.session import Session
    >>> from driftsurf.strategies import DriftSurf
    >>> from driftsurf.streams import SEA
    >>> stream = SEA(n_rows=1_000)
    >>> models = {"model": Session(DriftSurf(LogisticRegression()), classes=(-1, 1))}
    >>> plan = RunPlan(name="pushed", source=PushedBatches((-1, 1)), models=models, recorder=TraceRecorder(stream, 250))
    >>> with LiveRun(plan, Path(tempfile.mkdtemp()).joinpath) as live:
    ...     live.begin()
    ...     seen = [live.take(X, y, position) for position, (X, y) in enumerate(stream.batches(250), start=1)]
    ...     live.apply(PendingOrder(1, "pin")).outcome
    ...     live.finish()
    'done'
    """

    def __init__(
        self,
        plan: RunPlan,
        place: Callable[[str], Path],
        checkpoints: CheckpointFolder | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.plan = plan
        self.checkpoints = checkpoints
        self.clock = clock
        self.models: dict[str, Model] = dict(plan.models)
        self.listeners: list[StepReport] = []
        """Called after every step of every model, once it is in the journal and the trace."""
        self.batch_listeners: list[Callable[[], None]] = []
        """Called after every batch; where labels come late, a batch may complete any number of steps, or none."""
        self.batches: int = 0
        """Number of batches that were taken."""
        self.rows: int = 0
        """Number of rows that were predicted."""
        self.unlabelled: int = 0
        """Number of rows without a label, which were predicted and not learned."""
        self.first_step: int = 0
        """The step at which this process began: 0, or that of the checkpoint from which it resumed."""
        self.resumed: bool = False
        """Whether this process continues a run that another one began."""
        self.position: Position = None
        self.done: bool = False
        """Whether the source has ended."""
        self.pinned: bool = False
        """Whether the leading model learns nothing; everything else continues."""
        self.seconds: dict[str, float] = dict.fromkeys(self.models, 0.0)
        self._lock = ChangeLock()
        leading = self.models[plan.model]
        self._late: LateSteps | None = None
        if plan.label_counts is not None:
            from driftsurf.runs.late import LateSession, LateSteps

            assert isinstance(leading, LateSession)
            self._late = LateSteps(plan.model, leading)
        self._estimates: ErrorTracker | None = None
        if plan.recorder.estimated:
            self._estimates = ErrorTracker(plan.regression)
            if isinstance(self.session, Session):
                self.session.measure_disagreement()
            if self._late is not None:
                self._late.estimates = self._estimates
        self._orders_done = 0
        self._outlets = Outlets(plan.predictions, plan.copies, plan.recorder.head())
        self._numbering = Numbering.following() if plan.continues else Numbering()
        shared = checkpoints is None  # files beside checkpoints are part of a state
        self._files = {JOURNAL: RolledFile(place, JOURNAL, plan.rotation, shared=shared)}
        heads = {TRACE: plan.recorder.head()} | {name: sidecar.head() for name, sidecar in plan.sidecars.items()}
        for name, head in heads.items():
            self._files[name] = RolledFile(place, name, plan.history, shared=shared, head=head)
        if plan.keeps_bad_rows:
            self._files[BAD_ROWS] = RolledFile(place, BAD_ROWS, plan.rotation)

    @property
    def leading(self) -> str:
        """Name of the leading model, which is the first one."""
        return next(iter(self.models))

    @property
    def session(self) -> Model:
        """The session of the leading model, without the rows that wait for their labels."""
        return self.models[self.leading] if self._late is None else self._late.model.session

    @property
    def step(self) -> int:
        """Number of the next step: that of the next batch or, where labels come late, that of the next decision."""
        return self.batches if self._late is None else self._numbering.next_step

    @property
    def drifts(self) -> RunDrifts:
        """The drifts of the leading model, with the numbers of the run."""
        return self._numbering.drifts

    @property
    def estimated_error(self) -> ErrorEstimate | None:
        """Estimated error of the newest rows, before or after their labels came; None without an estimate."""
        return None if self._estimates is None else self._estimates.estimate

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files of the run; a second call does nothing."""
        with self._lock:
            for file in self._files.values():
                file.close()
            self._outlets.close()

    # -------------------------------------------------------------------- beginning and resuming

    def begin(self) -> None:
        """Start with the first row, and remove earlier checkpoints."""
        with self._lock:
            if self.checkpoints is not None:
                self.checkpoints.clear()
            for file in self._files.values():
                file.begin()
            self._outlets.begin()
            if self.checkpoints is not None:
                # A checkpoint must not survive a power loss that the names of its files do not survive.
                files.sync_folder(self.checkpoints.path)
            self.checkpoint()

    def resume(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint."""
        assert self.checkpoints is not None
        with self._lock:
            self._restore(dict(saved.state))
            for file in self._files.values():
                file.resume(saved.outputs)
            self._outlets.resume(self.rows, json.loads(str(saved.state.get("copied", "{}"))))
            self.checkpoints.follow(saved, self.state())
            self._rotate()  # the process may have been killed between this checkpoint and its rotation
            self.first_step, self.resumed = self.step, self.batches > 0

    def _restore(self, state: IncrementalState) -> None:
        check_same_run(str(state.get("about")), self.plan.about)
        known = FIELDS.read(state)
        for part, names in (("beside", self.plan.sidecars), ("models", self.models)):
            for entry in pick(part, state):
                if not entry.startswith(tuple(f"{name}." for name in names)):
                    raise misfit(state, f"{part}.{entry}", f"belongs to none of {', '.join(names)}")
        self.batches, self.position, self.rows, self.unlabelled = (
            known[name] for name in ("step", "position", "rows", "unlabelled")
        )
        self.done, self.pinned = known["done"] and not self.plan.follows, known["pinned"]
        self._orders_done, self._numbering = known["orders_done"], known["numbering"]
        self.plan.source.restore(pick("source", state))
        self.plan.recorder.restore(pick("recorder", state))
        if self._late is not None:
            self._late.restore(pick("late", state))
        estimates = pick("estimates", state)
        if self._estimates is not None and estimates:
            self._estimates.restore(estimates)
        elif self._estimates is not None:
            self._estimate_nothing()
        for name, sidecar in self.plan.sidecars.items():
            sidecar.restore(pick(f"beside.{name}", state))
        for name, model in self.models.items():
            model.restore(pick(f"models.{name}", state))

    def _estimate_nothing(self) -> None:
        """Continue a run of version 0.2, whose trace has no columns for estimates."""
        plan, self._estimates = self.plan, None
        if self._late is not None:
            self._late.estimates = None
        plan.recorder.estimated = False
        self._files[TRACE].head = head = plan.recorder.head()
        self._outlets = Outlets(plan.predictions, plan.copies, head)

    # -------------------------------------------------------------------- learning

    def take(self, rows: Any, labels: Any, position: Position, bad_rows: str = "") -> Observation:
        """Predict a batch, score it, learn it and write it down.

        Parameters
        ----------
        rows, labels
            What the models observe: encoded rows and their labels; :class:`~driftsurf.runs.batches.TableRows` and
            the labels of those that have one; or, where labels come late, the rows that came and the labels that came.
        position
            The position in the source after the batch, as plain JSON values.
        bad_rows
            JSON lines for the rows that were left out before this batch.

        Returns
        -------
        Observation
            Predictions and decisions of the leading model.
        """
        with self._lock:
            return self.write(rows, labels, self.observe(rows, labels), position, bad_rows)

    def observe(self, rows: Any, labels: Any) -> dict[str, Observation]:
        """Let every model predict a batch, score it and learn it, and return what each saw, for :meth:`write`."""
        with self._lock:
            if self.checkpoints is not None:
                self.checkpoints.check_held()
            if self._late is not None:
                return {name: self.observe_with(name, rows, labels) for name in self.models}
            batch = table_rows(rows, labels)
            if not len(labels):
                return dict.fromkeys(self.models, UNOBSERVED)
            try:
                return {name: self.observe_with(name, batch.to_learn, labels) for name in self.models}
            except InputError as error:
                if batch.places is not None:
                    batch.places.name(error, labels)
                raise

    def observe_with(self, name: str, rows: Any, labels: Any) -> Observation:
        """Let one model predict a batch, score it and learn it."""
        begin, model = self.clock(), self.models[name]
        # A model that has learned nothing cannot predict, so that a pinned one still learns the first batch.
        pinned = self.pinned and name == self.leading and model.schema is not None
        observe = model.judge if pinned and isinstance(model, Pinnable) else model.observe
        seen = observe(rows, labels, classes=self.plan.source.labels or None)
        self.seconds[name] += self.clock() - begin
        return seen

    def write(
        self, rows: Any, labels: Any, seen: Mapping[str, Observation], position: Position, bad_rows: str = ""
    ) -> Observation:
        """Write down what the models saw of a batch: decisions, scores, predictions; then call the listeners.

        Parameters
        ----------
        rows, labels, position, bad_rows
            As of :meth:`take`.
        seen
            What :meth:`observe` returned for these rows and labels.

        Returns
        -------
        Observation
            That of the leading model, with the numbers of the run.
        """
        with self._lock:
            taken = self._results_of(rows, labels, seen) if self._late is None else self._joined(seen)
            self._write(JOURNAL, "".join(json_lines(taken.own.decisions)))
            self._write_steps(taken.steps)
            self.write_bad_rows(bad_rows)
            if taken.given is not None:
                self._outlets.predicted(replace(taken.given, first_row=self.rows))
            self.rows += taken.rows
            self.batches, self.position = self.batches + 1, position
            # Listeners come last: what they report can be found in the files, and one that raises changes nothing.
            for listener in self.listeners:
                for step, name, one in taken.reports():
                    # What was predicted before anything was learned says nothing about the model.
                    error = one.error if step >= self.plan.recorder.warmup_steps else math.nan
                    listener(step, name, error, one.decisions)
            for batch_listener in self.batch_listeners:
                batch_listener()
            return taken.own

    def _results_of(self, rows: Any, labels: Any, observed: Mapping[str, Observation]) -> BatchResults:
        """Return the results of a batch whose labels came with its rows: one step."""
        leading, batch, seen = self.leading, table_rows(rows, labels), dict(observed)
        own = seen[leading] = replace(seen[leading], decisions=self._numbering.of(seen[leading].decisions))
        if self._estimates is not None and self.models[leading].steps > len(own.decisions):
            own.estimated_error = self._estimates.observed(own)
        given = predictions_of(self.plan, self.models[leading], batch, own, labels)
        bare = len(batch.labelled) - len(labels)
        self.unlabelled += bare
        self._write(JOURNAL, unlabelled_line(self.step, bare, self.unlabelled) if bare else "")
        return BatchResults(own, [Step(self.step, batch.to_learn, labels, seen)], given, len(batch.labelled))

    def _joined(self, seen: Mapping[str, Observation]) -> BatchResults:
        """Return the results of rows and labels that came: any number of steps, which decisions number."""
        from driftsurf.runs.late import LateObservation

        leading = self.leading
        own = seen[leading]
        assert isinstance(own, LateObservation)
        steps = [] if self._late is None else list(self._late.take(own, self._numbering, self.rows))
        own = replace(own, decisions=tuple(one for step in steps for one in step.seen[leading].decisions))
        return BatchResults(own, steps, own.given, own.rows)

    def _write_steps(self, steps: Iterable[Step]) -> None:
        """Write steps to the trace and to the files beside it."""
        for step in steps:
            if self.plan.traces_leading:
                step = step._replace(seen={self.plan.name: step.seen[self.leading]})
            self._write(TRACE, self.plan.recorder.lines(step.truth, step.seen))
            for name, sidecar in self.plan.sidecars.items():
                self._files[name].write(sidecar_lines(name, sidecar, step))

    def _write(self, name: str, text: str) -> None:
        """Append lines to the journal or the trace, and to the copy of it, if there is one."""
        self._files[name].write(text)
        self._outlets.written(name, text)

    def write_bad_rows(self, lines: str) -> None:
        """Append JSON lines for rows that were left out, if the plan keeps them."""
        with self._lock:
            if BAD_ROWS in self._files:
                self._files[BAD_ROWS].write(lines)

    def finish(self) -> None:
        """Mark the run as complete, save a last checkpoint and close the predictions."""
        with self._lock:
            if not self.done:
                self.done = True
                counts = self.plan.label_counts
                if counts is not None:
                    self._write(JOURNAL, orphan_line(self.step, counts.orphan))
                if self._late is not None:
                    self._write_steps(self._late.unfinished(self._numbering))
                self.checkpoint()
            self._outlets.finish()

    def text(self, name: str) -> str:
        """Return what a file of the run holds so far, as far as it is kept."""
        with self._lock:
            return self._files[name].text()

    # -------------------------------------------------------------------- checkpoints

    def state(self) -> IncrementalState:
        """Return everything that decides what comes next, with growing arrays as ``AppendOnlyArray``."""
        with self._lock:
            state: IncrementalState = {
                "about": self.plan.about,
                "step": self.batches,
                "position": json.dumps(self.position),
                "done": self.done,
                "pinned": self.pinned,
                "orders_done": self._orders_done,
                "rows": self.rows,
                "unlabelled": self.unlabelled,
                "numbering": self._numbering.to_json(),
            }
            if lines := self._outlets.lines:
                state["copied"] = json.dumps(lines)
            state |= nest("source", self.plan.source.state()) | nest("recorder", self.plan.recorder.state())
            if self._late is not None:
                state |= nest("late", self._late.state())
            if self._estimates is not None:
                state |= nest("estimates", self._estimates.state())
            for name, sidecar in self.plan.sidecars.items():
                state |= nest(f"beside.{name}", sidecar.state())
            for name, model in self.models.items():
                state |= nest(f"models.{name}", model.incremental_state())
            return state

    def checkpoint(self) -> None:
        """Save a checkpoint; without a folder for checkpoints, do nothing."""
        if self.checkpoints is None:
            return
        with self._lock:
            # Predictions first: a resumed run does not write again what the checkpoint counts as written.
            self._outlets.flush()
            # A rollback that waits needs its checkpoint, even if that would be removed now.
            waiting = orders.waiting(self.checkpoints.path, self._orders_done)
            outputs = {file.part_name: file.part for file in self._files.values()}
            self.checkpoints.save(self.state(), outputs, spare=[order.to for order in waiting if order.to is not None])
            self.plan.source.committed(self.position)
            self._rotate()

    def _rotate(self) -> None:
        """Begin new files where old ones are full: only at regular checkpoints, so that a signal changes no bytes."""
        assert self.checkpoints is not None
        if self.batches % self.plan.every == 0:
            for file in self._files.values():
                file.rotate(self.checkpoints.outputs)

    # -------------------------------------------------------------------- orders

    def apply_waiting_orders(self) -> list[OrderRecord]:
        """Carry out the orders that operators have left in the folder of checkpoints since the last call."""
        if self.checkpoints is None:
            return []
        with self._lock:
            return [self.apply(order) for order in orders.waiting(self.checkpoints.path, self._orders_done)]

    def apply(self, order: PendingOrder) -> OrderRecord:
        """Carry out an order of an operator, write its outcome to the journal and save a checkpoint."""
        with self._lock:
            record = self._apply(order)
            if self._late is not None and record.outcome == "done":
                self._late.changed()
            self._write(JOURNAL, record.line() + self.drifts.changed_lines(self.step))
            self._orders_done = max(self._orders_done, order.number)
            self.checkpoint()  # at once, so that a kill does not carry the order out twice
            return record

    def _apply(self, order: PendingOrder) -> OrderRecord:
        name = self.leading

        def record(text: str, reason: Refusal = "") -> OrderRecord:
            outcome: orders.Outcome = "refused" if reason else "done"
            return OrderRecord(order.number, order.kind, self.step, outcome, reason, self.pinned, order.to, text)

        if order.kind == "mark":
            return replace(record(*self.drifts.mark(order.drift, order.mark)), mark=order.mark, drift=order.drift)
        if order.kind == "pin" and not isinstance(self.models[name], Pinnable):
            return record(f"{name} cannot be pinned because its labels come late; it keeps learning", "late-labels")
        if order.kind in ("pin", "unpin"):
            self.pinned = order.kind == "pin"
            return record(f"{name} {'is pinned' if self.pinned else 'learns again'} from step {self.step} on")
        if order.kind == "reset":
            change = self.models[name].reset("ordered by an operator")
            if change is None:
                return record(f"{name} has not learned anything yet", "nothing-learned")
            # A model that was rolled back or promoted counts otherwise until its next decision.
            return record(replace(change, step=self.step).describe())
        if self.checkpoints is None:
            return record(f"{name} cannot be rolled back: the run has no checkpoints", "no-checkpoints")
        earlier = self.checkpoints.load(order.to, outputs=order.to is None)
        assert earlier is not None
        self.models[name].return_to(pick(f"models.{name}", earlier.state))
        then = Numbering.from_json(str(earlier.state["numbering"]))
        self._numbering.roll_back(then)
        step = earlier.state["step"] if self._late is None else then.next_step
        return record(f"{name} was restored to its state before step {step} (checkpoint {earlier.number})")


FIELDS = Fields(
    {
        "about": Text(),
        "step": Whole(),
        "position": Json(lambda position: position),
        "done": Truth(),
        "pinned": Truth(),
        "orders_done": Whole(),
        "rows": Whole(),
        "unlabelled": Whole(),
        "numbering": Converted(Numbering.from_json),
        "copied": Text(),
    },
    optional=["copied"],
    parts=["source", "recorder", "late", "estimates", "beside", "models"],
)
"""Saved entries of a run; its parts declare their own."""
