"""The run behind a served model: it is pushed by the log, and everything in it follows from the log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf.core.state import pick
from driftsurf.data.source import Position
from driftsurf.errors import DriftsurfError, OptionError, StateError
from driftsurf.evaluation.baselines import Baselines, baselines
from driftsurf.evaluation.rare import RareClass
from driftsurf.evaluation.scores import ScoreRecorder
from driftsurf.evaluation.scoring import TraceRecorder
from driftsurf.evaluation.trace import Trace
from driftsurf.runs.checkpoint import Checkpoint, CheckpointFolder
from driftsurf.runs.folder import JOURNAL, NEWEST, SCORES, TRACE
from driftsurf.runs.live import LiveRun
from driftsurf.runs.numbering import Numbering
from driftsurf.runs.orders import Order as RunOrder
from driftsurf.runs.orders import OrderRecord, Refusal
from driftsurf.runs.plan import RunPlan
from driftsurf.runs.steps import Step
from driftsurf.service.fold import Challenger, Fold, SavedPoint
from driftsurf.service.joining import StepRows
from driftsurf.service.journal import JournalFeed, JournalFile
from driftsurf.service.restore_points import spaced
from driftsurf.session.observation import Observation
from driftsurf.session.protocols import Model
from driftsurf.session.session import Session

__all__ = ["ServedRun"]


class ServedRun(LiveRun):
    """A run whose steps and orders come from a log.

    The reported error of the leading model is that of the answers that users saw; rows that came with their labels are
    predicted just before they are learned.

    Parameters
    ----------
    plan, place, checkpoints
        As for :class:`~driftsurf.runs.live.LiveRun`; the source of the plan is ``fold``.
    fold
        What is kept besides the sessions.
    make_session
        Makes the session of a challenger by its name and options.
    warm
        Yields the labelled rows of the log between two positions, as time steps.
    feed
        Where new lines of the journal go.
    restore_points
        How many checkpoints are kept.
    """

    models: dict[str, Model]
    position: Position

    def __init__(
        self,
        plan: RunPlan,
        place: Callable[[str], Path],
        checkpoints: CheckpointFolder,
        fold: Fold,
        *,
        make_session: Callable[[str, Mapping[str, Any]], Session],
        warm: Callable[[int, int], Any],
        feed: JournalFeed,
        restore_points: int,
    ) -> None:
        super().__init__(plan, place, checkpoints)
        self.fold = fold
        fold.leading = lambda: self.session
        fold.order = list(self.models)
        self.feed = feed
        self._restore_points = restore_points
        self.held: dict[int, int] = {}
        """Numbers of checkpoints that must not be removed yet, and the position of the order that needs each."""
        self._asked: dict[int, int] = {}
        """How many orders that are going to be logged need each checkpoint."""
        self._saving = threading.Lock()
        """Held while checkpoints come and go."""
        self._make_session = make_session
        self._warm = warm
        self._answers: StepRows | None = None
        self._failures: list[tuple[str, str]] = []
        self._files[JOURNAL] = JournalFile(place, JOURNAL, plan.rotation, feed)

    @property
    def session(self) -> Session:
        """The session of the leading model."""
        leading = self.models[self.leading]
        assert isinstance(leading, Session)
        return leading

    def resume(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint."""
        super().resume(saved)
        errors = self.fold.errors
        if errors.scored and not errors.rules:  # a state of version 0.2, which has those of the last steps alone
            found = baselines(Trace.from_csv(self.newest(TRACE)), self.plan.name).others
            power = 2 if self.plan.regression else 1
            self.fold.errors = replace(errors, rules={name: errors.scored * one**power for name, one in found.items()})
        self.feed.begin(self.fold.lines)
        self._note(saved.number)

    @property
    def applied(self) -> int:
        """Records of the log below this number have been joined."""
        return self.position if isinstance(self.position, int) else 0

    def move_to(self, position: int) -> None:
        """Note that the records of the log below this number have been joined."""
        self.position = position

    # ------------------------------------------------------------------------ steps

    def take_step(self, step: StepRows) -> None:
        """Learn a step, and score what was answered to its rows."""
        self._answers, self.fold.step_time = step, step.time
        own = self.take(step.X, step.y, self.position)
        recorder, count = self.plan.recorder, len(step.y)
        assert isinstance(recorder, TraceRecorder)
        classes = {} if self.plan.regression else {"true": np.asarray(step.y), "predicted": own.labels}
        errors, trivial = self.fold.errors, recorder.trivial_errors
        self.fold.errors = errors.after(count, own.mean_loss, trivial, counts=recorder.counts, **classes)
        for name, reason in self._failures:
            self._fail(name, reason)
        self._failures = []

    def rare(self) -> RareClass | None:
        """Return how well the rare class is found, over all steps; None if labels are not imbalanced."""
        recorder = self.plan.sidecars[SCORES]
        assert isinstance(recorder, ScoreRecorder)
        return self.fold.errors.rare(recorder.average_precision)

    def baselines(self) -> Baselines:
        """Return the error over all steps beside those of trivial rules, and how well a rare class is found."""
        return self.fold.errors.baselines(self.rare(), regression=self.plan.regression)

    def _observe(self, rows: Any, labels: Any) -> dict[str, Observation]:
        """Let all models predict and learn a step; what users were answered takes the place of the predictions."""
        leading, able = self.leading, {name for name, model in self.models.items() if model.steps}
        seen: dict[str, Observation] = {}
        for name, model in self.models.items():
            if name == leading:
                seen[name] = self._observed(name, model, rows, labels)
                continue
            try:
                seen[name] = self._observed(name, model, rows, labels)
            except (MemoryError, OSError):  # of the machine, not of the challenger: the record is applied again later
                raise
            except Exception as error:  # what a challenger cannot learn is no fault of the leading model
                kind = "" if isinstance(error, DriftsurfError) else f"{type(error).__name__}: "
                self._failures.append((name, f"{kind}{error}"))
        self.fold.contest.observe({name: one for name, one in seen.items() if name in able})
        assert self._answers is not None
        seen[leading] = self._as_answered(seen[leading], self._answers)
        return seen

    def _write_steps(self, steps: Iterable[Step]) -> None:
        """Write steps of the leading model under the name of the served one: which model leads may change."""
        super()._write_steps([step._replace(seen={self.plan.name: step.seen[self.leading]}) for step in steps])

    def _as_answered(self, own: Observation, step: StepRows) -> Observation:
        """Return the observation of the leading model with the answers that users saw, where there were any.

        The scores remain those just before learning, because the log has no probabilities of answers.
        """
        answered = step.versions > 0
        if not answered.any():
            return own
        targets = self.session.targets
        codes = targets.read(step.answers, len(step.answers))[1].astype(own.predicted.dtype)
        predicted = np.where(answered, codes, own.predicted)
        version = self.session.steps - len(own.decisions)
        lags = np.where(answered, np.maximum(version - step.versions, 0), 0)
        return replace(own, labels=targets.decode(predicted), predicted=predicted, lags=lags, current=own.predicted)

    def _fail(self, name: str, reason: str) -> None:
        """Let a challenger that cannot learn a step learn no more."""
        self.models = {one: model for one, model in self.models.items() if one != name}
        self.fold.challengers[name].failed = reason
        self.fold.order = list(self.models)
        text = f"{name} no longer learns: {reason}"
        # Nobody ordered this. A position would depend on how many records are joined at a time.
        record = OrderRecord(-1, "dismiss", self.step, "refused", "cannot-learn", self.pinned, text=text)
        self._files[JOURNAL].write(replace(record, model=name).line())

    # ------------------------------------------------------------------------ orders

    def carry_out(self, order: Mapping[str, Any], position: int) -> OrderRecord:
        """Carry out an order of the log, and write its outcome to the journal."""
        with self._lock:
            kind, name = order["kind"], str(order.get("model", ""))
            record = replace(self._carry_out(order, kind, name, position), model=name, by=str(order.get("by", "")))
            self.fold.order = list(self.models)
            self._files[JOURNAL].write(record.line() + self.drifts.told(self.step))
            return record

    def _carry_out(self, order: Mapping[str, Any], kind: str, name: str, position: int) -> OrderRecord:
        def record(text: str, reason: Refusal = "") -> OrderRecord:
            outcome: Any = "refused" if reason else "done"
            to = order.get("to") if kind == "rollback" else None
            return OrderRecord(position, kind, self.step, outcome, reason, self.pinned, to, text)

        match kind:
            case "pin" | "unpin" | "reset":
                done = self._apply(RunOrder(position, kind))
                if kind == "reset" and done.outcome == "done":
                    self.fold.contest.forget(self.leading)  # its errors so far are those of a model that is gone
                return done
            case "rollback":
                return self._roll_back(int(order["to"]), record)
            case "mark":
                return self._apply(RunOrder(position, kind, mark=order["mark"], drift=order["drift"]))
            case "challenge":
                if name == self.leading:
                    return record(f"{name} is the leading model; choose another name", "no-such-model")
                replaced = name in self.fold.challengers
                self._remove(name)
                self.fold.dismissed.discard(name)
                self.fold.challengers[name] = Challenger(dict(order["options"]))
                self._add(name, self._make_session(name, order["options"]))
                text = f"{name} learns beside {self.leading} from step {self.step} on"
                return record(f"{text}; it replaced another challenger of that name" if replaced else text)
        if name not in self.models or name == self.leading:
            choices = ", ".join(list(self.models)[1:]) or "none"
            return record(f"{name} is not a challenger that learns; there are: {choices}", "no-such-model")
        match kind:
            case "promote":
                return self._promote(name, record)
            case "dismiss":
                self._remove(name)
                self.fold.dismissed.add(name)
                return record(f"{name} has been dismissed")
        return self._learn_log(name, int(order["from"]), position, record)

    def _add(self, name: str, session: Session) -> None:
        self.models = {**self.models, name: session}
        self.seconds[name] = 0.0
        self.fold.contest.forget(name)

    def _remove(self, name: str) -> None:
        self.models = {one: model for one, model in self.models.items() if one != name}
        self.fold.challengers.pop(name, None)
        self.fold.contest.forget(name)

    def _promote(self, name: str, record: Callable[..., OrderRecord]) -> OrderRecord:
        if self.models[name].schema is None:
            return record(f"{name} has not learned anything yet", "nothing-learned")
        before = self.leading
        others = {one: model for one, model in self.models.items() if one != name}
        self.models = {name: self.models[name], **others}  # at once: other threads look at it
        self.fold.challengers.setdefault(before, Challenger())
        self.pinned = False
        # The challenger counts its own steps, rows and models, as a model of another run does.
        self._numbering.roll_back(replace(Numbering.following(), drifts=self.drifts.shared_by(self.session.drifts)))
        return record(f"{name} predicts from step {self.step} on; {before} is a challenger now")

    def _roll_back(self, to: int, record: Callable[..., OrderRecord]) -> OrderRecord:
        assert self.checkpoints is not None
        name = self.leading
        point = next((one for one in reversed(self.fold.points) if one.position == to), None)
        if point is None:
            return record(f"there is no restore point {to}", "no-checkpoints")
        earlier = self.checkpoints.load(point.number, outputs=False)
        assert earlier is not None
        state = pick(f"models.{name}", earlier.state)
        if not state:
            then = ", ".join(one for one in self.models if pick(f"models.{one}", earlier.state))
            text = f"{name} did not exist at restore point {to}; choose a later one" + (
                f", or promote a model that did: {then}" if then else ""
            )
            return record(text, "no-such-model")
        try:
            self.models[name].return_to(state)
        except StateError as error:  # nothing has changed; a challenger of this name may have had other options then
            return record(f"{name} was another model at restore point {to} ({error})", "no-such-model")
        self._numbering.roll_back(Numbering.from_json(str(earlier.state["numbering"])))
        self.fold.contest.forget(name)  # its errors so far are those of a model that is gone
        return record(f"{name} was restored to restore point {to}, with {self.models[name].steps} steps")

    def _learn_log(self, name: str, start: int, stop: int, record: Callable[..., OrderRecord]) -> OrderRecord:
        """Let a fresh session of a challenger learn what the log still has."""
        session = self._make_session(name, self.fold.challengers[name].options)
        rows = 0
        try:
            for step in self._warm(start, stop):
                session.learn(step.X, step.y)
                rows += len(step.y)
        except DriftsurfError as error:
            return record(f"{name} cannot learn the log: {error}", "cannot-learn")
        self._add(name, session)
        return record(f"{name} has learned {rows} rows of the log, from record {start} on")

    # ------------------------------------------------------------------------ checkpoints

    def save(self, position: int) -> None:
        """Save a checkpoint of everything up to a record of the log, which has to be on the storage device."""
        assert self.checkpoints is not None
        with self._lock:
            self.move_to(position)
            self.fold.lines = self.feed.lines
            outputs = {file.part_name: file.part for file in self._files.values()}
            with self._saving:
                self._asked = {asked: orders for asked, orders in self._asked.items() if orders}
                known = self.fold.points
                kept = spaced([one.time for one in known], self.fold.joiner.time, self._restore_points)
                spare = [*self.held, *self._asked, *(known[one].number for one in kept)]
                number = self.checkpoints.save(self.state(), outputs, spare=spare)
                self._note(number)
                # An order that both this checkpoint and the one before it have behind them is not carried out again.
                behind = known[-1].position if known else 0
                self.held = {held: order for held, order in self.held.items() if order >= behind}
            self._rotate()

    def hold(self, to: int) -> SavedPoint:
        """Keep a restore point for an order that is going to be logged; OptionError if there is none.

        Whether it is there must not depend on when the order is carried out, so it has to be kept from now on.
        """
        with self._saving:
            point = next((one for one in self.fold.points if one.position == to), None)
            if point is None:
                choices = ", ".join(str(one.position) for one in self.fold.points) or "none"
                raise OptionError(f"there is no restore point {to}; choices: {choices}")
            self._asked[point.number] = self._asked.get(point.number, 0) + 1
            return point

    def check_point(self, point: SavedPoint) -> None:
        """Raise OptionError if a restore point is damaged: once it is logged, an order to return to it has to succeed.

        It must be held.
        """
        assert self.checkpoints is not None
        try:
            self.checkpoints.load(point.number, outputs=False)
        except StateError as error:
            raise OptionError(f"the restore point {point.position} cannot be used: {error}") from error

    def release(self, point: SavedPoint, order: int | None) -> None:
        """Keep a restore point no longer than until a checkpoint has the order at this position behind it.

        None if no order was logged.
        """
        with self._saving:
            self._asked[point.number] -= 1
            if order is not None:
                self.held[point.number] = max(order, self.held.get(point.number, order))

    def newest(self, name: str, most: int = NEWEST) -> str:
        """Return the newest lines of a file of the run, also while a step is under way."""
        return self._files[name].newest(most)

    def _note(self, number: int) -> None:
        """Note the checkpoint with this number as a restore point, and forget those that are gone.

        One that was saved between the time steps of a record is none: orders name a restore point by its record, and
        once it is damaged or missing, it is made again when everything before that record is learned.
        """
        assert self.checkpoints is not None
        known = set(self.checkpoints.generations()) - {number}
        points = [one for one in self.fold.points if one.number in known]
        if not self.fold.joiner.backlog:
            points.append(SavedPoint(number, self.applied, self.session.steps, self.fold.joiner.time))
        self.fold.points = points

    def checkpoint(self) -> None:
        """Save a checkpoint of everything so far."""
        self.save(self.applied)
