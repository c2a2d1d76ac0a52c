"""The run behind a served model: it is pushed by the log, and everything in it follows from the log."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from driftsurf.core import files
from driftsurf.core.files import parse_json
from driftsurf.core.state import pick
from driftsurf.data.source import Position
from driftsurf.errors import DriftsurfError, OptionError, StateError
from driftsurf.evaluation.scores import ScoreRecorder
from driftsurf.evaluation.scoring import TraceRecorder
from driftsurf.evaluation.summary import Baselines, RareClass, baselines
from driftsurf.evaluation.trace import Trace
from driftsurf.runs.checkpoint import Checkpoint, CheckpointFolder
from driftsurf.runs.folder import JOURNAL, NEWEST, SCORES, TRACE
from driftsurf.runs.live import LiveRun
from driftsurf.runs.numbering import Numbering
from driftsurf.runs.orders import OrderRecord, Refusal
from driftsurf.runs.orders import PendingOrder as RunOrder
from driftsurf.runs.output import RolledFile, Rotation
from driftsurf.runs.plan import RunPlan
from driftsurf.service.contract import Event
from driftsurf.service.joining import StepRows
from driftsurf.service.replayed_state import Challenger, ReplayedState, SavedPoint, spaced
from driftsurf.session.observation import Observation
from driftsurf.session.protocols import Model
from driftsurf.session.session import Session

Parts: TypeAlias = Sequence[tuple[Path, int | None]]
KEPT = 10_000
"""Lines that are kept in memory."""


class JournalFeed:
    """The last lines of a journal with their numbers; one thread adds them, any number of threads read.

    >>> feed = JournalFeed()
    >>> feed.add('{"type":"order"}\\n')
    >>> feed.since(0, 10)
    [Event(line=1, record={'type': 'order'})]
    """

    def __init__(self) -> None:
        self.lines: int = 0
        """Number of the last line."""
        self._last: deque[tuple[int, str]] = deque(maxlen=KEPT)
        self.lock: Any = threading.RLock()
        """Held while a line is written to the file and added, and while the files are read."""
        self.parts: Callable[[], Parts] = list
        """Returns the files of the journal, the newest first, and of the one that grows how many bytes it has."""
        self._counts: dict[Path, int] = {}
        """Number of lines of the files that do not grow."""

    def begin(self, lines: int) -> None:
        """Go on after a number of lines that are in the files."""
        with self.lock:
            self.lines = lines
            self._last.clear()

    def add(self, text: str) -> None:
        """Add whole lines."""
        with self.lock:
            for line in text.splitlines():
                self.lines += 1
                self._last.append((self.lines, line))

    def since(self, line: int, most: int) -> list[Event]:
        """Return the lines after a number as objects, the oldest first, at most ``most``."""
        return [Event(number, parse_json(one)) for number, one in self.texts(line, most)]

    def texts(self, line: int, most: int) -> list[tuple[int, str]]:
        """Return the lines after a number as text, with their numbers."""
        with self.lock:
            last, known = self.lines, list(self._last) if self.lines > line else []
            parts = self.parts() if last > line and (not known or known[0][0] > line + 1) else []
        if parts:
            known = []
            for part in reversed(list(self._spans(parts, last, line))):
                known += [one for one in part.numbered() if one[0] > line]
                if len(known) >= most:
                    break
        return [(number, one) for number, one in known if number > line][:most]

    def backwards(self) -> Iterator[tuple[int, str]]:
        """Yield all lines that are kept with their numbers, the newest first."""
        with self.lock:
            last, known, parts = self.lines, list(self._last), self.parts()
        yield from reversed(known)
        first = known[0][0] if known else last + 1
        for part in self._spans(parts, last, 0):
            if part.first < first:
                yield from (one for one in reversed(part.numbered()) if one[0] < first)

    def _spans(self, parts: Parts, last: int, after: int) -> Iterator[_Part]:
        """Yield the files that have lines after a number, the newest first; ``last`` is the number of the last line.

        Nothing is locked meanwhile: files only grow, and only the oldest are removed.
        """
        for path, size in parts:
            count = self._counts.get(path)
            if count is None:
                try:
                    count = files.read_bytes(path)[:size].count(b"\n")
                except FileNotFoundError:
                    return
                if size is None:
                    self._counts[path] = count
            yield _Part(path, size, last - count + 1)
            last -= count
            if last <= after:
                return


class _Part(NamedTuple):
    """A file of the journal."""

    path: Path
    size: int | None
    first: int
    """Number of its first line."""

    def numbered(self) -> list[tuple[int, str]]:
        """Return its lines with their numbers; none if it has been removed."""
        try:
            text = files.read_bytes(self.path)[: self.size].decode()
        except FileNotFoundError:
            return []
        return list(enumerate(text.splitlines(), start=self.first))


class JournalFile(RolledFile):
    """The file of the journal, whose lines also go to a feed."""

    def __init__(self, place: Callable[[str], Path], name: str, rotation: Rotation, feed: JournalFeed) -> None:
        super().__init__(place, name, rotation)
        self._feed = feed
        feed.parts = self._parts

    def _parts(self) -> Parts:
        """Return the files, the newest first, and of the one that grows how many bytes it has."""
        with self._turning:
            older = [number for number in reversed(self._numbers()) if number < self.number]
            return [(self.part.path, self.part.size), *((self._place(self._name(number)), None) for number in older)]

    def write(self, text: str) -> None:
        """Append text."""
        with self._feed.lock:
            super().write(text)
            if text:
                self._feed.add(text)


class ServedRun(LiveRun):
    """A run whose steps and orders come from a log.

    The reported error of the leading model is that of the answers that users saw; rows that came with their labels are
    predicted just before they are learned.

    Parameters
    ----------
    plan, place, checkpoints
        As for :class:`~driftsurf.runs.live.LiveRun`; the source of the plan is ``replayed``.
    replayed
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
        replayed: ReplayedState,
        *,
        make_session: Callable[[str, Mapping[str, Any]], Session],
        warm: Callable[[int, int], Any],
        feed: JournalFeed,
        restore_points: int,
    ) -> None:
        super().__init__(plan, place, checkpoints)
        self.replayed = replayed
        replayed.leading = lambda: self.session
        replayed.order = list(self.models)
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
        errors = self.replayed.errors
        if errors.scored and not errors.rules:  # a state of version 0.2, which has those of the last steps alone
            found = baselines(Trace.from_csv(self.newest(TRACE)), self.plan.name).others
            power = 2 if self.plan.regression else 1
            self.replayed.errors = replace(
                errors, rules={name: errors.scored * one**power for name, one in found.items()}
            )
        self.feed.begin(self.replayed.lines)
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
        self.replayed.step_time = step.time
        with self._lock:
            assert self.checkpoints is not None
            self.checkpoints.check_held()
            own = self.write(step.X, step.y, self._observed(step), self.position)
        recorder, count = self.plan.recorder, len(step.y)
        assert isinstance(recorder, TraceRecorder)
        classes = {} if self.plan.regression else {"true": np.asarray(step.y), "predicted": own.labels}
        errors, trivial = self.replayed.errors, recorder.trivial_errors
        self.replayed.errors = errors.after(count, own.mean_loss, trivial, counts=recorder.counts, **classes)
        for name, reason in self._failures:
            self._fail(name, reason)
        self._failures = []

    def rare(self) -> RareClass | None:
        """Return how well the rare class is found, over all steps; None if labels are not imbalanced."""
        recorder = self.plan.sidecars[SCORES]
        assert isinstance(recorder, ScoreRecorder)
        return self.replayed.errors.rare(recorder.average_precision)

    def baselines(self) -> Baselines:
        """Return the error over all steps beside those of trivial rules, and how well a rare class is found."""
        return self.replayed.errors.baselines(self.rare(), regression=self.plan.regression)

    def _observed(self, step: StepRows) -> dict[str, Observation]:
        """Let all models predict and learn a step; what users were answered takes the place of the predictions."""
        leading, able = self.leading, {name for name, model in self.models.items() if model.steps}
        seen: dict[str, Observation] = {}
        for name in self.models:
            if name == leading:
                seen[name] = self.observe_with(name, step.X, step.y)
                continue
            try:
                seen[name] = self.observe_with(name, step.X, step.y)
            except (MemoryError, OSError):  # of the machine, not of the challenger: the record is applied again later
                raise
            except Exception as error:  # what a challenger cannot learn is no fault of the leading model
                kind = "" if isinstance(error, DriftsurfError) else f"{type(error).__name__}: "
                self._failures.append((name, f"{kind}{error}"))
        self.replayed.contest.observe({name: one for name, one in seen.items() if name in able})
        seen[leading] = self._as_answered(seen[leading], step)
        return seen

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
        self.replayed.challengers[name].failed = reason
        self.replayed.order = list(self.models)
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
            self.replayed.order = list(self.models)
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
                    self.replayed.contest.forget(self.leading)  # its errors so far are those of a model that is gone
                return done
            case "rollback":
                return self._roll_back(int(order["to"]), record)
            case "mark":
                return self._apply(RunOrder(position, kind, mark=order["mark"], drift=order["drift"]))
            case "challenge":
                if name == self.leading:
                    return record(f"{name} is the leading model; choose another name", "no-such-model")
                replaced = name in self.replayed.challengers
                self._remove(name)
                self.replayed.dismissed.discard(name)
                self.replayed.challengers[name] = Challenger(dict(order["options"]))
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
                self.replayed.dismissed.add(name)
                return record(f"{name} has been dismissed")
        return self._learn_log(name, int(order["from"]), position, record)

    def _add(self, name: str, session: Session) -> None:
        self.models = {**self.models, name: session}
        self.seconds[name] = 0.0
        self.replayed.contest.forget(name)

    def _remove(self, name: str) -> None:
        self.models = {one: model for one, model in self.models.items() if one != name}
        self.replayed.challengers.pop(name, None)
        self.replayed.contest.forget(name)

    def _promote(self, name: str, record: Callable[..., OrderRecord]) -> OrderRecord:
        if self.models[name].schema is None:
            return record(f"{name} has not learned anything yet", "nothing-learned")
        before = self.leading
        others = {one: model for one, model in self.models.items() if one != name}
        self.models = {name: self.models[name], **others}  # at once: other threads look at it
        self.replayed.challengers.setdefault(before, Challenger())
        self.pinned = False
        # The challenger counts its own steps, rows and models, as a model of another run does.
        self._numbering.roll_back(replace(Numbering.following(), drifts=self.drifts.shared_by(self.session.drifts)))
        return record(f"{name} predicts from step {self.step} on; {before} is a challenger now")

    def _roll_back(self, to: int, record: Callable[..., OrderRecord]) -> OrderRecord:
        assert self.checkpoints is not None
        name = self.leading
        point = next((one for one in reversed(self.replayed.points) if one.position == to), None)
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
        self.replayed.contest.forget(name)  # its errors so far are those of a model that is gone
        return record(f"{name} was restored to restore point {to}, with {self.models[name].steps} steps")

    def _learn_log(self, name: str, start: int, stop: int, record: Callable[..., OrderRecord]) -> OrderRecord:
        """Let a fresh session of a challenger learn what the log still has."""
        session = self._make_session(name, self.replayed.challengers[name].options)
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
            self.replayed.lines = self.feed.lines
            outputs = {file.part_name: file.part for file in self._files.values()}
            with self._saving:
                self._asked = {asked: orders for asked, orders in self._asked.items() if orders}
                known = self.replayed.points
                kept = spaced([one.time for one in known], self.replayed.joiner.time, self._restore_points)
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
            point = next((one for one in self.replayed.points if one.position == to), None)
            if point is None:
                choices = ", ".join(str(one.position) for one in self.replayed.points) or "none"
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
        points = [one for one in self.replayed.points if one.number in known]
        if not self.replayed.joiner.backlog:
            points.append(SavedPoint(number, self.applied, self.session.steps, self.replayed.joiner.time))
        self.replayed.points = points

    def checkpoint(self) -> None:
        """Save a checkpoint of everything so far."""
        self.save(self.applied)
