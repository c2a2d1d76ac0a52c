"""A run: source -> models -> journal and trace -> checkpoint, step by step, to be continued at any time."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, Self

from driftsurf._options import whole
from driftsurf.base import Parts, State
from driftsurf.decisions import Decision, Transition
from driftsurf.errors import Option, StateError
from driftsurf.journal import json_lines
from driftsurf.runtime import files, orders
from driftsurf.runtime.checkpoint import Checkpoint, CheckpointFolder
from driftsurf.runtime.late import DelayedObservation
from driftsurf.runtime.numbering import Numbering
from driftsurf.runtime.predictions import PredictionSink, given_by
from driftsurf.runtime.rolled import RolledFile, Rotation
from driftsurf.runtime.session import Observation
from driftsurf.runtime.signals import Signals, Stopped, Woken
from driftsurf.runtime.source import Position, Source
from driftsurf.state import nest, pick

__all__ = ["Model", "Recorder", "Run", "Sidecar", "StepReport", "Stopped"]

log = logging.getLogger("driftsurf.run")
JOURNAL, TRACE, BAD_ROWS = "journal.jsonl", "trace.csv", "bad_rows.jsonl"
PRIVATE = 0o600
"""Bad rows hold what people did not mean to publish."""


class Model(Protocol):
    """What a run has learn: a session, or one whose labels come late.

    With ``judge`` it can be pinned; with ``return_to`` a rollback restores less than all of it.
    """

    @property
    def schema(self) -> Any:
        """None before the first rows were learnt."""
        ...

    @property
    def steps(self) -> int:
        """Time steps so far: the version of the model."""
        ...

    def observe(self, X: Any, y: Any, *, classes: Any = None) -> Observation:
        """Predict, then learn."""
        ...

    def renew(self, why: str) -> Transition | None:
        """Begin anew with fresh models."""
        ...

    def state(self) -> State:
        """Everything that decides what comes next."""
        ...

    def parts(self) -> Parts:
        """The same, with what grows with the rows as ``Growing``."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        ...


class Writer(Protocol):
    """Makes the lines of a file that grows; what it remembers from step to step is part of the run's state."""

    def head(self) -> str:
        """What stands before the first line."""
        ...

    def state(self) -> State:
        """What it remembers."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        ...


class Recorder(Writer, Protocol):
    """Writes the trace."""

    def lines(self, y: Any, seen: Mapping[str, Observation]) -> str:
        """One line for each model."""
        ...


class Sidecar(Writer, Protocol):
    """Writes a further file."""

    def lines(self, X: Any, seen: Mapping[str, Observation]) -> str:
        """What there is to say of one step, if anything."""
        ...


class StepReport(Protocol):
    """Called after every step of every model, once it is in the journal and the trace: for progress and watchers."""

    def __call__(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Report one step."""
        ...


class Run:
    """Models over a source, with a journal and a trace that grow line by line, under checkpoints or not.

    A checkpoint has all that decides what comes next: the models, the place in the source, the
    lengths of the files. Whatever was written after it is cut off when the run goes on, so a run that
    was killed at any point ends with the same bytes as one that was not.

    Parameters
    ----------
    source
        Where the batches come from.
    sessions
        The models, by name. The journal is that of the first.
    recorder
        Makes the trace.
    place
        Says where a file of this name goes.
    about
        What is run, as a JSON object. A checkpoint of something else is refused.
    folder
        Where checkpoints go; None for none.
    every
        Steps from one checkpoint to the next.
    beside
        Further files by their names, and who writes them.
    clock
        Measures the seconds of each model, which decide nothing and are not saved.
    predictions
        Where the predictions of the first model go; None for nowhere.
    side_file
        Whether rows that were left out are kept, in a file that its owner alone may read.
    rotation
        When journal and side file begin another part, under checkpoints.
    """

    def __init__(
        self,
        source: Source,
        sessions: Mapping[str, Model],
        recorder: Recorder,
        place: Callable[[str], Path],
        *,
        about: str = "{}",
        folder: CheckpointFolder | None = None,
        every: int = 10,
        beside: Mapping[str, Sidecar] | None = None,
        clock: Callable[[], float] = time.perf_counter,
        predictions: PredictionSink | None = None,
        side_file: bool = False,
        rotation: Rotation | None = None,
    ) -> None:
        self.source = source
        self.sessions = dict(sessions)
        self.recorder = recorder
        self.about = about
        self.folder = folder
        self.every = whole("every", every, at_least=1)
        self.beside = {} if beside is None else dict(beside)
        self.clock = clock
        self.predictions = predictions
        self.step = 0
        self.rows = 0
        """Rows that were predicted."""
        self.first_step = 0
        """Where this process began: 0, or the step at which it went on."""
        self.position: Position = None
        self.done = False
        self.pinned = False
        """Whether the first model is left as it is; all else goes on."""
        self.seconds = dict.fromkeys(self.sessions, 0.0)
        self._orders_done = 0
        self._numbering = Numbering()
        """Of the first model, which can be rolled back."""
        self._files = {JOURNAL: RolledFile(place, JOURNAL, rotation), TRACE: RolledFile(place, TRACE)}
        self._files |= {name: RolledFile(place, name) for name in self.beside}
        if side_file:
            self._files[BAD_ROWS] = RolledFile(place, BAD_ROWS, rotation, mode=PRIVATE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    # -------------------------------------------------------------------- beginning and going on

    def begin(self) -> None:
        """Begin with the first row; what checkpoints there were are removed."""
        if self.folder is not None:
            self.folder.clear()
        for file in self._files.values():
            file.begin()
        self._files[TRACE].write(self.recorder.head())
        for name, sidecar in self.beside.items():
            self._files[name].write(sidecar.head())
        if self.predictions is not None:
            self.predictions.begin()
        if self.folder is not None:
            files.sync_folder(self.folder.path)  # no checkpoint may outlive the names of the files that it counts on
        self.checkpoint()

    def resume(self, saved: Checkpoint) -> None:
        """Go on from a checkpoint."""
        assert self.folder is not None
        state: Parts = dict(saved.state)
        _check_same(str(state.get("about")), self.about)
        try:
            self.step, self.position = int(state["step"]), json.loads(str(state["position"]))
            self.done, self.pinned = bool(state["done"]), bool(state["pinned"])
            self._orders_done, self.rows = int(state["orders_done"]), int(state["rows"])
            self._numbering = Numbering.from_json(str(state["numbering"]))
            self.source.restore(pick("source", state))
            self.recorder.restore(pick("recorder", state))
            for name, sidecar in self.beside.items():
                sidecar.restore(pick(f"beside.{name}", state))
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"the checkpoint is not one of a run: {error!r}") from error
        for name, session in self.sessions.items():
            session.restore(pick(f"models.{name}", state))
        for file in self._files.values():
            file.resume(saved.outputs)
        if self.predictions is not None:
            self.predictions.resume(self.rows)
        self.folder.follow(saved, self.state())
        self._turn()
        self.first_step = self.step

    # -------------------------------------------------------------------- running

    def go(self, on_step: StepReport | None = None) -> None:
        """Run to the end of the source; Stopped after a checkpoint if SIGTERM or SIGINT asks for it."""
        with Signals(held=self.folder is not None) as signals:
            self._carry_out_orders()
            batches = iter(() if self.done else self.source.batches(self.position))
            while True:
                try:
                    with signals.waking():
                        batch = next(batches, None)
                except Woken:  # a batch that was being waited for is read again when the run goes on
                    self.checkpoint()
                    raise Stopped(signals.asked[0], self.step) from None
                if batch is None:
                    break
                X, y, position = batch
                self._take(X, y, on_step)
                self.step, self.position = self.step + 1, position
                if self.folder is not None and (signals.asked or self.step % self.every == 0):
                    self.checkpoint()
                    self._carry_out_orders()
                if signals.asked:
                    raise Stopped(signals.asked[0], self.step)
            if not self.done:
                self._write_bad_rows()
                self.done = True
                self.checkpoint()
            if self.predictions is not None:
                self.predictions.finish()

    def _take(self, X: Any, y: Any, on_step: StepReport | None) -> None:
        seen: dict[str, Observation] = {}
        labels = self.source.labels or None  # none where values are predicted, or more classes may come
        first, leading = next(iter(self.sessions.items()))
        version = leading.steps
        for name, session in self.sessions.items():
            begin = self.clock()
            pinned = self.pinned and name == first and session.schema is not None
            observe = getattr(session, "judge", session.observe) if pinned else session.observe
            seen[name] = observe(X, y, classes=labels)
            self.seconds[name] += self.clock() - begin
        own = seen[first] = replace(seen[first], decisions=self._numbering.of(seen[first].decisions))
        late = own if isinstance(own, DelayedObservation) else None
        self._files[JOURNAL].write("".join(json_lines(own.decisions)))
        self._files[TRACE].write(self.recorder.lines(y if late is None else late.truth, seen))
        for name, sidecar in self.beside.items():
            self._files[name].write(self._told_beside(name, sidecar, X, seen))
        self._write_bad_rows()
        if self.predictions is not None:
            given = given_by(own, self.rows, version) if late is None else late.given
            if given is not None:
                self.predictions.take(replace(given, first_row=self.rows))
        self.rows += len(own.labels) if late is None else late.rows
        if on_step is not None:
            for name, one in seen.items():
                on_step(self.step, name, one.error, one.decisions)

    def _told_beside(self, name: str, sidecar: Sidecar, X: Any, seen: Mapping[str, Observation]) -> str:
        try:
            return sidecar.lines(X, seen)
        except Exception:  # what only tells of the models must not end them
            log.exception("step %d: nothing is added to %s", self.step, name)
            return ""

    def _write_bad_rows(self) -> None:
        told = self.source.bad_rows()
        if BAD_ROWS in self._files:
            self._files[BAD_ROWS].write(told)

    def text(self, name: str) -> str:
        """What was written so far to the journal, the trace or a file beside them, and is kept."""
        return self._files[name].text()

    # -------------------------------------------------------------------- checkpoints

    def state(self) -> Parts:
        """All that decides what comes next, with what grows with the rows as ``Growing``."""
        state: Parts = {
            "about": self.about,
            "step": self.step,
            "position": json.dumps(self.position),
            "done": self.done,
            "pinned": self.pinned,
            "orders_done": self._orders_done,
            "rows": self.rows,
            "numbering": self._numbering.to_json(),
        }
        state |= nest("source", self.source.state()) | nest("recorder", self.recorder.state())
        for name, sidecar in self.beside.items():
            state |= nest(f"beside.{name}", sidecar.state())
        for name, session in self.sessions.items():
            state |= nest(f"models.{name}", session.parts())
        return state

    def checkpoint(self) -> None:
        """Write a checkpoint, if there is a folder for it."""
        if self.folder is None:
            return
        if self.predictions is not None:
            self.predictions.flush()
        waiting = orders.waiting(self.folder.path, self._orders_done)
        outputs = {file.part_name: file.part for file in self._files.values()}
        self.folder.save(self.state(), outputs, spare=[order.to for order in waiting if order.to is not None])
        self._turn()

    def _turn(self) -> None:
        """Begin new parts where old ones are full: at every regular checkpoint, so that a signal changes no bytes."""
        assert self.folder is not None
        if self.step % self.every == 0:
            for file in self._files.values():
                file.turn(self.folder.outputs)

    def _carry_out_orders(self) -> None:
        """Do what an operator has asked for meanwhile; each order is journalled and has a checkpoint of its own."""
        if self.folder is None:
            return
        for order in orders.waiting(self.folder.path, self._orders_done):
            text = self._carry_out(order)
            line = {"type": "order", "order": order.kind, "number": order.number, "step": self.step, "text": text}
            self._files[JOURNAL].write(json.dumps(line, separators=(",", ":")) + "\n")
            self._orders_done = order.number
            self.checkpoint()

    def _carry_out(self, order: orders.Order) -> str:
        assert self.folder is not None
        name, session = next(iter(self.sessions.items()))
        if order.kind == "pin" and not hasattr(session, "judge"):
            return f"{name} goes on learning: a model whose labels come late cannot be left as it is"
        if order.kind in ("pin", "unpin"):
            self.pinned = order.kind == "pin"
            return f"{name} {'is left as it is' if self.pinned else 'learns again'} from step {self.step} on"
        if order.kind == "reset":
            change = session.renew("ordered by an operator")
            if change is None:
                return f"{name} has learnt nothing yet"
            return self._numbering.of_transition(change).describe()
        earlier = self.folder.load(order.to)
        assert earlier is not None
        getattr(session, "return_to", session.restore)(pick(f"models.{name}", earlier.state))
        self._numbering.roll_back(Numbering.from_json(str(earlier.state["numbering"])))
        return f"{name} is again as it was before step {earlier.state['step']} (checkpoint {earlier.number})"


def _check_same(there: str, here: str) -> None:
    """StateError, naming the difference, unless the checkpoint is of the same run."""
    if there == here:
        return
    told = list[object]()
    try:
        old, new = json.loads(there), json.loads(here)
        for key in {**old, **new}:
            # What an earlier version did not know was not said there.
            was, now = (None if about.get(key) in ([], {}) else about.get(key) for about in (old, new))
            told += ["; ", Option(key), f" {was!r}, not {now!r}"] if was != now else []
        if not told:
            return
    except (ValueError, AttributeError):
        told = []
    raise StateError(
        "the checkpoint is of another run: it has ",
        *(told[1:] or ["something else"]),
        ". Repeat the command that began it, or take another folder.",
    )
