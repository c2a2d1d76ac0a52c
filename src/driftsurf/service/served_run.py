"""The run behind a served model: it is pushed by the log, and everything in it follows from the log."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from driftsurf.core import files
from driftsurf.core.contracts import AppendOnlyArray, State
from driftsurf.core.files import parse_json
from driftsurf.core.state import nest, pick, to_bytes
from driftsurf.data.source import Position
from driftsurf.errors import DriftsurfError, OptionError, StateError
from driftsurf.evaluation.scores import ScoreRecorder
from driftsurf.evaluation.scoring import TraceRecorder
from driftsurf.evaluation.summary import Baselines, RareClass, baselines
from driftsurf.evaluation.trace import Trace
from driftsurf.runs.checkpoint import Checkpoint, CheckpointFolder
from driftsurf.runs.folder import JOURNAL, NEWEST, SCORES, TRACE
from driftsurf.runs.live import BatchResults, LiveRun
from driftsurf.runs.numbering import Numbering
from driftsurf.runs.orders import OrderRecord, Refusal
from driftsurf.runs.orders import PendingOrder as RunOrder
from driftsurf.runs.output import RolledFile, Rotation
from driftsurf.runs.plan import RunPlan, Step
from driftsurf.service.contract import Event
from driftsurf.service.joining import StepRows
from driftsurf.service.replayed_state import Challenger, ReplayedState, SavedPoint, spaced
from driftsurf.session.observation import Observation
from driftsurf.session.protocols import Model
from driftsurf.session.session import Session

Parts: TypeAlias = Sequence[tuple[Path, int | None]]
log: logging.Logger = logging.getLogger("driftsurf.serve")
OWN_ENTRIES = frozenset(("about", "source.points", "source.lines"))
"""Entries of the state that replicas do not share: paths, restore points, and where the journal was at the last one."""
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
    saved_state
        Returns the state that the log has between two positions.
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
        saved_state: Callable[[int, int], State],
        feed: JournalFeed,
        restore_points: int,
    ) -> None:
        super().__init__(plan, place, checkpoints)
        self.replayed = replayed
        replayed.leading = lambda: self.session
        replayed.order = list(self.models)
        self.feed = feed
        self._restore_points = restore_points
        self._recalled: dict[int, State] = {}
        """States for rollbacks that were logged without one, by restore point."""
        self._saves, self._found = 0, list[int]()
        """Number of checkpoints saved since the model was opened, and those that were there then. The first two saves
        remove none of them, so that who opens a model to return to a restore point finds it there."""
        self._saving = threading.Lock()
        """Held while checkpoints come and go."""
        self._make_session = make_session
        self._warm = warm
        self._saved_state = saved_state
        self._failures: list[tuple[str, str]] = []
        self._regression = plan.regression
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
        classes = {} if self._regression else {"true": np.asarray(step.y), "predicted": own.labels}
        errors, trivial = self.replayed.errors, recorder.trivial_errors
        self.replayed.errors = errors.after(count, own.mean_loss, trivial, counts=recorder.counts, **classes)
        for name, reason in self._failures:
            self._fail(name, reason)
        self._failures = []

    def _results_of(self, rows: Any, labels: Any, observed: Mapping[str, Observation]) -> BatchResults:
        """Return the results of a step; it writes no predictions, because the log has the answers."""
        seen, leading = dict(observed), self.leading
        own = seen[leading] = replace(seen[leading], decisions=self._numbering.of(seen[leading].decisions))
        return BatchResults(own, [Step(self.step, rows, labels, seen)], None, len(labels))

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
            self._files[JOURNAL].write(record.line() + self.drifts.changed_lines(self.step))
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
                return self._roll_back(order, position, record)
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

    def _roll_back(self, order: Mapping[str, Any], position: int, record: Callable[..., OrderRecord]) -> OrderRecord:
        name, to = self.leading, int(order["to"])
        logged = "from" in order
        earlier = self._saved_state(int(order["from"]), position) if logged else self._recalled.get(to)
        if earlier is None:
            return record(f"there is no restore point {to}", "no-checkpoints")
        state = pick(f"models.{name}", earlier)
        if not state:
            then = [one for one in json.loads(str(earlier["names"])) if one in self.models]
            if name in then:
                return record(f"{name} leads only since this order was given; repeat it", "no-such-model")
            text = f"{name} did not exist at restore point {to}; choose a later one" + (
                f", or promote a model that did: {', '.join(then)}" if then else ""
            )
            return record(text, "no-such-model")
        try:
            self.models[name].return_to(state)
        except StateError as error:  # nothing has changed; a challenger of this name may have had other options then
            return record(f"{name} was another model at restore point {to} ({error})", "no-such-model")
        self._numbering.roll_back(Numbering.from_json(str(earlier["numbering"])))
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
                known = self.replayed.points
                kept = spaced([one.time for one in known], self.replayed.joiner.time, self._restore_points)
                if not self._saves:
                    self._found = [one.number for one in known]
                found = self._found if self._saves < 2 else []
                spare = [*found, *(known[one].number for one in kept)]
                self._note(self.checkpoints.save(self.state(), outputs, spare=spare))
                self._saves += 1
            self._rotate()

    def state_at(self, to: int) -> bytes:
        """Return the leading model at a restore point, which is logged with the order to return to it.

        What such an order does must not depend on the checkpoints that this process has when it is carried out.
        OptionError if there is no such restore point, or if it is damaged.
        """
        with self._saving:
            return to_bytes(_returned(self._earlier(to), [self.leading], self.models))

    def recall(self, to: int, state: State | None = None) -> None:
        """Store a state, by default that of the checkpoint, for rollbacks that were logged without one."""
        try:
            known = self._earlier(to) if state is None else state
        except OptionError as error:
            log.warning("%s; an order in the log to return to it will be refused", error)
        else:
            self._recalled[to] = _returned(known, self.models, self.models)

    def _earlier(self, to: int) -> State:
        assert self.checkpoints is not None
        points = self.replayed.points
        point = next((one for one in reversed(points) if one.position == to), None)
        if point is None:
            choices = ", ".join(str(one.position) for one in points) or "none"
            raise OptionError(f"there is no restore point {to}; choices: {choices}")
        try:
            earlier = self.checkpoints.load(point.number, outputs=False)
        except StateError as error:
            raise OptionError(f"the restore point {to} cannot be used: {error}") from error
        assert earlier is not None
        return earlier.state

    def digest(self) -> str:
        """Return a digest of everything that follows from the log, and of nothing that only this process has."""
        found = hashlib.sha256()
        for name, value in sorted(self.state().items()):
            if name not in OWN_ENTRIES:
                plain = value.array() if isinstance(value, AppendOnlyArray) else value
                content = plain.tobytes() if isinstance(plain, np.ndarray) else repr(plain).encode()
                found.update(b"%s %d " % (name.encode(), len(content)) + content)
        return found.hexdigest()

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


def _returned(state: State, models: Iterable[str], known: Iterable[str]) -> State:
    """Return the part of the state of a run that a rollback needs: models, and which of the known ones there were."""
    found: dict[str, Any] = {"numbering": state["numbering"]}
    found["names"] = json.dumps([one for one in known if pick(f"models.{one}", state)])
    for name in models:
        found |= nest(f"models.{name}", pick(f"models.{name}", state))
    return found
