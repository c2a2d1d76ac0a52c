"""Follow a log: apply its records to the run of a served model, save checkpoints and recover from them. No threads."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.data.log.log import Log
from driftsurf.data.log.records import ColumnKind, Kinds, Record, RowBlock, decode, read_rows
from driftsurf.data.target import Task
from driftsurf.runs.checkpoint import Checkpoint, CheckpointFolder
from driftsurf.runs.orders import OrderRecord
from driftsurf.runs.rolled import Rotation
from driftsurf.service.blueprint import Blueprint
from driftsurf.service.fold import Challenger, Fold, saved_order
from driftsurf.service.joining import Joiner, StepRows, most_usual
from driftsurf.service.journal import JournalFeed
from driftsurf.service.recovering import rollback_positions
from driftsurf.service.request_keys import RequestKeys
from driftsurf.service.served_run import ServedRun
from driftsurf.service.settings import Keeping
from driftsurf.session.session import Session

__all__ = ["Follower"]

GATHERED_BYTES = 2**20
"""Bytes of records that are applied at a time."""
UNKNOWN = 2**62
"""Position of an order that may need a checkpoint, as long as the log is not applied."""
JOURNAL_PARTS, HISTORY_PARTS = 64, 3
"""Full files of the journal that are kept, and of each file beside it."""


class Follower:
    """Applies the records of a log, one after the other, to the run of a model.

    The result depends on the records alone: neither on how many are applied at a time, nor on when checkpoints are
    saved, nor on crashes in between.

    Before the run begins, the first records decide: what the columns are, how they are encoded, what is predicted.
    These records are read once for that, and applied afterwards. There is no checkpoint before.

    Parameters
    ----------
    blueprint
        Makes the parts of the model.
    log
        The log, opened by the caller.
    checkpoints
        The folder of checkpoints, locked by the caller.
    keeping
        What is kept.
    feed
        Where lines of the journal go.
    on_step, on_order
        Called after each step, and with each order that was carried out and its position.

    Attributes
    ----------
    on_pause
        Called after each step, when a checkpoint may be saved.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        log: Log,
        checkpoints: CheckpointFolder,
        keeping: Keeping,
        feed: JournalFeed,
        *,
        on_step: Callable[[], object] = lambda: None,
        on_order: Callable[[int, OrderRecord], object] = lambda position, record: None,
    ) -> None:
        self.blueprint = blueprint
        self.log = log
        self.checkpoints = checkpoints
        self.keeping = keeping
        self.feed = feed
        self.on_step = on_step
        self.on_order = on_order
        self.on_pause: Callable[[], object] = lambda: None
        self.run: ServedRun | None = None
        self.position: int = log.first
        """Number of the next record to join or, before the run begins, to read; time steps of earlier ones may not be
        learned yet."""
        self.applied: int = log.first
        """All that records below this number complete has been learned."""
        self.time: float = 0.0
        """Log time of the last of these records."""
        self.saved: int = 0
        """Position of the last checkpoint."""
        self.applied_rows: int = 0
        """Rows and labels for which this process has done everything: what waits in a full time step is not counted."""
        self.applied_bytes: int = 0
        """Bytes of the records below ``applied`` that this process has applied."""
        self.columns: tuple[ColumnKind, ...] = blueprint.columns
        self.task: Task | None = blueprint.task
        self.targets: ClassTargets | RegressionTargets | None = (
            None if self.task is None else blueprint.targets(self.task)
        )
        """Classes that labels in the log had until here; those of the run once it has begun."""
        self.keys: RequestKeys = RequestKeys(keeping.idempotency_keys)
        self._joined_rows = 0
        """Rows and labels of the records that were joined, and of the time steps that a checkpoint had not learned."""
        self._saved_steps = 0
        """Time steps that the last checkpoint has."""
        self._ahead_labels: Counter[float] = Counter()
        """How often each label, given by its code, was only read so far."""
        self._first_rows: list[RowBlock] = []
        self._returned_to: list[int] = []
        """Positions at which checkpoints are saved, because orders in the log return to them."""

    @property
    def rotation(self) -> Rotation:
        """When the journal begins a new file."""
        return Rotation(self.keeping.journal_bytes, JOURNAL_PARTS)

    @property
    def ahead_labels(self) -> int:
        """Number of labels that were only read so far, because the run has not begun."""
        return self._ahead_labels.total()

    def guess(self) -> npt.NDArray[Any] | None:
        """Return the most frequent label, or the mean, of those that came before the first step; None without any.

        Any thread may call it.
        """
        if self.run is not None:
            return self.run.fold.joiner.guess()
        return None if self.targets is None else most_usual(self.targets, dict(self._ahead_labels))

    def close(self) -> None:
        """Close the files of the run."""
        if self.run is not None:
            self.run.close()

    # ------------------------------------------------------------------------ beginning and recovering

    def recover(self, saved: Checkpoint | None) -> None:
        """Continue from a checkpoint; without one, begin at the first record."""
        if saved is not None:
            about = json.loads(str(saved.state["about"]))
            names, challengers = saved_order(saved.state)
            task, columns = self._decided(about)
            run = self._make(task, columns, about["decided"]["classes"], names, challengers)
            run.resume(saved)
            run.held = dict.fromkeys(self.checkpoints.generations(), UNKNOWN)
            self._follow(run)
            self.position = self.saved = run.applied
            self._joined_rows, self._saved_steps = run.fold.joiner.backlog, run.batches
            for point in run.fold.points[-1:]:
                self.applied, self.time = point.position, point.time
            self._note_applied(run)
        elif self.blueprint.start is not None:
            self._begin()
        self._returned_to = rollback_positions(self.log, self.position)

    @staticmethod
    def _decided(about: Mapping[str, Any]) -> tuple[Task, tuple[ColumnKind, ...]]:
        task: Task = json.loads(about["decided"]["target"])["task"]
        return task, tuple(ColumnKind(name, kind) for name, kind in about["columns"])

    def _begin(self) -> None:
        """Begin the run at the first record; the encoding is fixed by the rows that have been read so far."""
        assert self.task is not None
        assert self.targets is not None
        run = self._make(self.task, self.columns, list(self.targets.labels), [self.blueprint.model], {})
        fold, start = run.fold, self.blueprint.start
        if not fold.encoder.fitted:
            fold.encoder.fit(read_rows(self._first_rows, self.columns).rows(0, self.blueprint.batch_size))
        if start is not None:
            own = {name: one for name, one in start.state.items() if not name.startswith("session.pending.")}
            replace(start, state=own).restore(run.session)
        run.move_to(self.log.first)
        # The run, whose first checkpoint is saved now, must not survive a power loss that the records do not survive by
        # which its columns and its encoding were decided.
        self.log.sync()
        run.begin()
        self._follow(run)
        self._first_rows = []
        self.position = self.saved = self.applied = self.log.first

    def _make(
        self,
        task: Task,
        columns: tuple[ColumnKind, ...],
        labels: Sequence[Any],
        names: Sequence[str],
        challengers: Mapping[str, Challenger],
    ) -> ServedRun:
        """Return a run with these models, the leading one first, that has learned nothing."""
        blueprint, asked = self.blueprint, self.blueprint.settings
        joiner = Joiner(
            blueprint.targets(task),
            batch_size=self.blueprint.batch_size,
            max_pending=asked.max_pending,
            timeout=asked.timeout,
        )
        keys = RequestKeys(self.keeping.idempotency_keys)
        fold = Fold(columns, task, blueprint.encoder(task), joiner, keys)

        def make(name: str, options: Mapping[str, Any]) -> Session:
            # The model that the folder began with has no options of a challenger, also once it has become one.
            return blueprint.session(name, task, fold, options or None)

        models = {name: make(name, challengers[name].options if name in challengers else {}) for name in names}
        plan = blueprint.plan(fold, models, labels, self.rotation, Rotation(self.keeping.history_bytes, HISTORY_PARTS))
        return ServedRun(
            plan,
            self.checkpoints.path.joinpath,
            self.checkpoints,
            fold,
            make_session=make,
            warm=lambda start, stop: self._replayed(fold, start, stop),
            feed=self.feed,
            restore_points=self.keeping.restore_points,
        )

    def _follow(self, run: ServedRun) -> None:
        self.run = run
        self.columns, self.task = run.fold.columns, run.fold.task
        self.targets, self.keys = run.fold.joiner.targets, run.fold.keys

    # ------------------------------------------------------------------------ applying

    def apply(self, most_bytes: int = GATHERED_BYTES) -> int:
        """Apply the next records of the log, if there are any; return their number.

        Time steps that the checkpoint had not learned, from which the run has continued, come first; they count as one.
        """
        if self.run is not None and self.run.fold.joiner.backlog:
            self._learn(self.run)
            return 1
        numbered = self.log.read(self.position, most_bytes)
        if not numbered:
            return 0
        if self.run is None:
            self._read_ahead(numbered)
            return len(numbered)
        if self._returned_to and self.position == self._returned_to[0]:
            self.checkpoint()
            self.run.held[self.run.fold.points[-1].number] = self.log.next - 1
            del self._returned_to[0]
        if self._returned_to:
            numbered = [one for one in numbered if one[0] < self._returned_to[0]]
        self._apply(self.run, numbered)
        return len(numbered)

    def _read_ahead(self, numbered: Sequence[tuple[int, bytes]]) -> None:
        """Let the first records decide; begin the run once they have."""
        size = self.blueprint.batch_size
        for number, payload in numbered:
            record = decode(payload, self.columns)
            self.position = number + 1
            self.keys.add(record, number)
            if record.kind == Kinds.COLUMNS:
                self.columns = record.columns
            if record.rows is not None and sum(block.count for block in self._first_rows) < size:
                self._first_rows.append(record.rows)
            if record.kind in (Kinds.LEARN, Kinds.LABELS) and record.labels is not None:
                if self.task is None:
                    self.task = self.blueprint.task_of(record.labels)
                    self.targets = self.blueprint.targets(self.task)
                assert self.targets is not None
                self.targets, codes = self.targets.read(record.labels, record.count)
                self._ahead_labels.update(codes.tolist())
            if self.task is not None and sum(block.count for block in self._first_rows) >= size:
                self._begin()
                return
        self.applied = self.position

    def _apply(self, run: ServedRun, numbered: Sequence[tuple[int, bytes]]) -> None:
        gathered: list[Record] = []
        size = 0
        for number, payload in numbered:
            record = decode(payload, self.columns)
            if record.kind == Kinds.ORDER:
                self._join(run, gathered, number, size)
                gathered, size = [], 0
                run.fold.keys.add(record, number)
                self.position = number + 1
                run.move_to(self.position)
                outcome = run.carry_out(record.content, number)
                self._note_applied(run, len(payload))
                self.on_step()
                self.on_order(number, outcome)
                continue
            size += len(payload)
            run.fold.keys.add(record, number)
            if record.kind != Kinds.COLUMNS:
                gathered.append(record)
        self._join(run, gathered, numbered[-1][0] + 1, size)

    def _join(self, run: ServedRun, records: Sequence[Record], position: int, size: int) -> None:
        """Join the records below a position, and learn the time steps that they complete.

        What is joined is part of the next checkpoint, so that one can be saved after any of the steps.
        """
        if records:
            run.fold.join(records)
        self.position = position
        run.move_to(position)
        self.targets = run.fold.joiner.targets
        self._joined_rows += sum(record.count for record in records)
        self._learn(run, size)

    def _learn(self, run: ServedRun, size: int = 0) -> None:
        """Learn the time steps that are full; ``size`` are the bytes of the records that completed them."""
        joiner = run.fold.joiner
        self.applied_rows = self._joined_rows - joiner.backlog
        for step in joiner.steps():
            run.take_step(step)
            self.applied_rows = self._joined_rows - joiner.backlog
            self.on_step()
            if joiner.backlog:
                self.on_pause()
        self._note_applied(run, size)

    def _note_applied(self, run: ServedRun, size: int = 0) -> None:
        """Note that everything below the position is learned, unless time steps are left."""
        if not run.fold.joiner.backlog:
            self.applied, self.time = self.position, run.fold.joiner.time
            self.applied_bytes += size

    def _replayed(self, fold: Fold, start: int, stop: int) -> Iterator[StepRows]:
        """Yield the labelled rows of the log between two positions as time steps, joined as they would be live."""
        asked = self.blueprint.settings
        joiner = Joiner(
            self.blueprint.targets(fold.task),
            batch_size=self.blueprint.batch_size,
            max_pending=asked.max_pending,
            timeout=asked.timeout,
        )
        position = max(start, self.log.first)
        while position < stop:
            numbered = self.log.read(position, GATHERED_BYTES)
            known = [decode(payload, fold.columns) for number, payload in numbered if number < stop]
            fold.join([one for one in known if one.kind not in (Kinds.ORDER, Kinds.COLUMNS)], joiner)
            yield from joiner.steps()
            position = numbered[-1][0] + 1

    # ------------------------------------------------------------------------ checkpoints

    def checkpoint(self) -> bool:
        """Save what has been applied; return False if there is nothing to save."""
        run = self.run
        if run is None or (self.position, run.batches) == (self.saved, self._saved_steps):
            return False
        # A checkpoint must not survive a power loss that its records do not survive.
        self.log.sync()
        run.save(self.position)
        self.saved, self._saved_steps = self.position, run.batches
        return True

    def drop_old_records(self, needed: int) -> None:
        """Remove files of the log that neither recovery nor ``retain_bytes`` needs; ``needed`` is another limit."""
        run = self.run
        if run is None:
            return
        oldest = min([needed, *(point.position for point in run.fold.points[-2:])])  # the last may be damaged
        kept = 0
        for first, size in reversed(self.log.sizes()):
            kept += size
            if kept >= self.keeping.retain_bytes:
                self.log.drop_before(min(oldest, first))
                return
