"""Follower of a served model: a thread that applies the log, saves checkpoints and publishes versions."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from driftsurf import __version__
from driftsurf.core.contracts import State
from driftsurf.core.disk import lower_priority
from driftsurf.core.files import parse_json
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.data.log.contract import Log
from driftsurf.data.log.records import UNJOINED, ColumnKind, Kinds, Record, RowBlock, decode, read_rows
from driftsurf.data.row_encoder import Task
from driftsurf.errors import (
    AnswerGoneError,
    LogUnreachableError,
    NotLeadingError,
    ReplicaDiffersError,
    StateError,
    StateVersionError,
    UnavailableError,
)
from driftsurf.runs.checkpoint import Checkpoint, CheckpointFolder
from driftsurf.runs.orders import OrderRecord
from driftsurf.runs.output import Rotation
from driftsurf.service.admission import Admitted
from driftsurf.service.blueprint import Blueprint
from driftsurf.service.contract import OrderReceipt, Phase, Receipt
from driftsurf.service.joining import StepJoiner, StepRows, most_usual
from driftsurf.service.replayed_state import Challenger, ReplayedState, RequestKeys, saved_order
from driftsurf.service.served_run import JournalFeed, ServedRun
from driftsurf.service.settings import Keeping
from driftsurf.service.storage import storage_problem
from driftsurf.session.session import Session


def when_carried_out(
    admitted: Admitted, durable: Future[Receipt], outcome: Future[tuple[OrderRecord, int]]
) -> Future[OrderReceipt]:
    """Return a future that ends when an order is on the storage device and has been carried out.

    ``outcome`` is a future of what became of the order, with the line of the journal.
    """
    future: Future[OrderReceipt] = Future()

    def flushed(one: Future[Receipt]) -> None:
        if error := one.exception():
            _end(future, error)
        else:
            outcome.add_done_callback(carried_out)

    def carried_out(one: Future[tuple[OrderRecord, int]]) -> None:
        if error := one.exception():
            _end(future, error)
            return
        record, line = one.result()
        receipt = OrderReceipt(
            admitted.position, 0, admitted.time, repeated=admitted.repeated,
            done=record.outcome == "done", reason=record.reason, text=record.text, line=line,
        )  # fmt: skip
        _end(future, receipt)

    durable.add_done_callback(flushed)
    return future


def _end(future: Future[OrderReceipt], result: OrderReceipt | BaseException) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)


log: logging.Logger = logging.getLogger("driftsurf.serve")
READ_BYTES = 2**22
"""Bytes of records that are read at a time."""


def open_log(make: Callable[[int], Log], checkpoints: CheckpointFolder) -> tuple[Checkpoint | None, Log]:
    """Return the checkpoint from which a model continues, and its log; no checkpoint if it has to begin again.

    If no checkpoint can be used, a log that still has its first record is enough: the model follows from the log.
    StateError if it is not. ``make`` opens the log, given how many records it is known to have.
    """
    problem, saved, position = "", None, 0
    try:
        saved = checkpoints.load()
    except StateVersionError:
        raise  # intact, and of a newer version: beginning again would hide that
    except StateError as error:
        problem = str(error)
    if saved is not None:
        position = int(str(saved.state["position"]))
    with contextlib.ExitStack() as undo:
        records = make(position)
        undo.callback(records.close)
        if saved is not None and position < records.first:
            problem = f"the newest checkpoint that can be used has the records below {position}"
        if saved is None and not problem and records.first > 0:
            problem = f"there is no checkpoint in {checkpoints.path}"
        if problem and records.first > 0:
            raise StateError(
                f"{problem}; the model cannot be rebuilt from its log in {records.name}, which begins with record "
                f"{records.first}"
            )
        if problem:
            log.warning("%s; the model is rebuilt from its log, which is complete", problem)
            saved = None
        undo.pop_all()
    return saved, records


def bare_rollbacks(read: Callable[[int], list[tuple[int, bytes]]], position: int) -> set[int]:
    """Return the restore points of rollbacks from a position on that have no state with them.

    Version 0.2 logged only which restore point is meant, whose checkpoint has the state.
    """
    found: set[int] = set()
    while numbered := read(position):
        for number, payload in numbered:
            position = number + 1
            if payload[:1] == bytes([Kinds.ORDER]):
                order = decode(payload, ()).content
                if order["kind"] == "rollback" and "from" not in order:
                    found.add(int(order["to"]))
    return found


GATHERED_BYTES = 2**20
"""Bytes of records that are applied at a time."""
JOURNAL_PARTS, HISTORY_PARTS = 64, 3
"""Full files of the journal that are kept, and of each file beside it."""


UNSHARED = 2**62
"""Position at which states are compared if no other process follows the log."""
DIGESTS = 8
"""Digests that are remembered until the one of the replica that writes is in the log."""
TRY_SECONDS = 0.5
"""How often a process asks for the lease of a log to which another one writes."""
IDLE_SECONDS = 0.5
"""Time after which a follower without work looks at the clock."""
GATHERED = 64
"""Records from which on they are applied at once; fewer wait for others, which are then applied together."""
GATHER_SECONDS = 0.002
UNREACHED_SECONDS = 1.0
"""Time after which a log that could not be reached is read again."""
ORDER_LINE = '"type":"order"'
"""Text that every line of an order in the journal contains, and no other line."""
OUTCOMES = 1000
"""Outcomes of orders that are remembered, for requests that are repeated."""


class Follower:
    """Applies the records of a log, one after the other, to the run of a model, in a thread of its own.

    The result depends on the records alone: neither on how many are applied at a time, nor on when checkpoints are
    saved, nor on crashes in between. If applying fails, the model is read-only; other models go on.

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
    on_step
        Called after each step.
    lead
        Begins to admit records, and returns whether this process may; called in the thread before it applies anything
        and, where another process writes to the log, whenever everything that is there has been applied.
    idle
        Called in the thread when there has been nothing to do for a while.
    needed
        Returns the first record that somebody else still has to read.
    on_digest
        Called with a digest of the state that other replicas are to compare, if this process writes to the log.
    clock
        Seconds by which checkpoints are timed; they decide nothing.

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
        lead: Callable[[], bool] = lambda: True,
        idle: Callable[[], object] = lambda: None,
        needed: Callable[[], int] = lambda: 2**62,
        on_digest: Callable[[dict[str, Any]], object] = lambda content: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.blueprint = blueprint
        self.log = log
        self.checkpoints = checkpoints
        self.keeping = keeping
        self.feed = feed
        self.on_step = on_step
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
        self.joined_rows: int = 0
        """Rows and labels of the records that were joined, and of the time steps that a checkpoint had not learned."""
        self.phase: Phase = "recovering"
        self.failure: str = ""
        self.error: BaseException | None = None
        """What made applying fail."""
        self.leader: str = ""
        """Where the replica that takes rows answers, if another one does and has told."""
        self.unreached: str = ""
        """Why the log cannot be reached now; empty if it can be."""
        self._saved_steps = 0
        """Time steps that the last checkpoint has."""
        self._ahead_labels: Counter[float] = Counter()
        """How often each label, given by its code, was only read so far."""
        self._first_rows: list[RowBlock] = []
        self._returned_to: list[int] = []
        """Positions at which the state is stored, because orders in the log return to them and do not have it."""
        self._digests: dict[int, str] = {}
        """Digests of the last states that are compared with those of other replicas, by position."""
        self._lead = lead
        self._leads = False
        """Whether this process writes to the log."""
        self._idle = idle
        self._needed = needed
        self._on_digest = on_digest
        self._clock = clock
        self._process: int = os.getpid()
        self._needed_from: dict[int, int] = {}
        """For each order that may have to be carried out again, and needs records: the first of them."""
        self._dropping = threading.Lock()
        """Held while records of the log are dropped."""
        self._waiting: dict[int, list[Future[tuple[OrderRecord, int]]]] = {}
        """For each order that is not carried out yet: who waits for its outcome."""
        self._outcomes: dict[int, tuple[OrderRecord, int]] = {}
        self._carried_until = self._logged_before = 0
        """Orders below the first number were carried out, by this process or before it; records below the second were
        logged by an earlier process."""
        self._recovered = False
        """Whether these records have been applied."""
        self._lock = threading.Lock()
        self._tried = -math.inf
        """When this process last asked whether it may write to the log."""
        self._began: float = clock()
        self._newest = self._whole = self._began, 0
        """When the last checkpoint was saved, and the last one at the end of a record, with the rows applied then."""
        self._changed = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"follower of {log.name}", daemon=True)

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
            return self.run.replayed.joiner.guess()
        return None if self.targets is None else most_usual(self.targets, dict(self._ahead_labels))

    # ------------------------------------------------------------------------ beginning and recovering

    def recover(self, saved: Checkpoint | None) -> None:
        """Continue from a checkpoint; without one, begin at the first record."""
        if saved is not None:
            about = json.loads(str(saved.state["about"]))
            names, challengers = saved_order(saved.state)
            task, columns = self._decided(about)
            run = self._make(task, columns, about["decided"]["classes"], names, challengers)
            run.resume(saved)
            self._follow(run)
            self.position = self.saved = run.applied
            self.joined_rows, self._saved_steps = run.replayed.joiner.backlog, run.batches
            for point in run.replayed.points[-1:]:
                self.applied, self.time = point.position, point.time
            self._note_applied(run)
        elif self.blueprint.start is not None:
            self._begin()
        self._carried_until, self._logged_before = self.position, self.log.next
        for to in sorted(bare_rollbacks(lambda start: self.log.read(start, READ_BYTES), self.position)):
            if to >= self.position:
                self._returned_to.append(to)
            elif self.run is not None:
                self.run.recall(to)

    @staticmethod
    def _decided(about: Mapping[str, Any]) -> tuple[Task, tuple[ColumnKind, ...]]:
        task: Task = json.loads(about["decided"]["target"])["task"]
        return task, tuple(ColumnKind(name, kind) for name, kind in about["columns"])

    def _begin(self) -> None:
        """Begin the run at the first record; the encoding is fixed by the rows that have been read so far."""
        assert self.task is not None
        assert self.targets is not None
        run = self._make(self.task, self.columns, list(self.targets.labels), [self.blueprint.model], {})
        replayed, start = run.replayed, self.blueprint.start
        if not replayed.encoder.fitted:
            replayed.encoder.fit(read_rows(self._first_rows, self.columns).rows(0, self.blueprint.batch_size))
        if start is not None:
            own = {name: one for name, one in start.state.items() if not name.startswith("session.pending.")}
            replace(start, state=own).restore(run.session)
        run.move_to(self.log.first)
        # The run, whose first checkpoint is saved now, must not survive a power loss that the records do not survive by
        # which its columns and its encoding were decided.
        if self.log.durable < self.position:
            self.log.commit()
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
        joiner = StepJoiner(
            blueprint.targets(task),
            batch_size=self.blueprint.batch_size,
            max_pending=asked.max_pending,
            timeout=asked.timeout,
        )
        keys = RequestKeys(self.keeping.idempotency_keys)
        replayed = ReplayedState(columns, task, blueprint.encoder(task), joiner, keys)

        def make(name: str, options: Mapping[str, Any]) -> Session:
            # The model that the folder began with has no options of a challenger, also once it has become one.
            return blueprint.session(name, task, replayed, options or None)

        models = {name: make(name, challengers[name].options if name in challengers else {}) for name in names}
        plan = blueprint.plan(
            replayed, models, labels, self.rotation, Rotation(self.keeping.history_bytes, HISTORY_PARTS)
        )
        return ServedRun(
            plan,
            self.checkpoints.path.joinpath,
            self.checkpoints,
            replayed,
            make_session=make,
            warm=lambda start, stop: self._replayed(replayed, start, stop),
            saved_state=self._saved_state,
            feed=self.feed,
            restore_points=self.keeping.restore_points,
        )

    def _follow(self, run: ServedRun) -> None:
        self.run = run
        self.columns, self.task = run.replayed.columns, run.replayed.task
        self.targets, self.keys = run.replayed.joiner.targets, run.replayed.keys

    # ------------------------------------------------------------------------ applying

    def apply(self, most_bytes: int = GATHERED_BYTES) -> int:
        """Apply the next records of the log, if there are any; return their number.

        Time steps that the checkpoint had not learned, from which the run has continued, come first; they count as one.
        """
        if self.run is not None and self.run.replayed.joiner.backlog:
            self._learn(self.run)
            return 1
        try:
            numbered = self._read(self.position, most_bytes)
        except LogUnreachableError:
            return 0  # the model is being closed
        if not numbered:
            return 0
        if self.run is None:
            self._read_ahead(numbered)
            return len(numbered)
        if self._returned_to and self.position == self._returned_to[0]:
            self.run.recall(self._returned_to.pop(0), from_bytes(to_bytes(self.run.state())))
        stop = min([*self._returned_to[:1], self._compared(self.run)])
        numbered = [one for one in numbered if one[0] < stop]
        self._apply(self.run, numbered)
        return len(numbered)

    def _compared(self, run: ServedRun) -> int:
        """Return the next position at which replicas compare their states; at such a one, digest the state first."""
        every = self.keeping.digest_records
        if not self.log.id:
            return UNSHARED
        if self.position and self.position % every == 0 and self.position not in self._digests:
            self._digests[self.position] = digest = run.digest()
            for old in list(self._digests)[:-DIGESTS]:
                del self._digests[old]
            if self._leads:
                self._on_digest({"at": self.position, "version": __version__, "sha256": digest})
        return (self.position // every + 1) * every

    def _check_digest(self, content: Mapping[str, Any]) -> None:
        """Raise ReplicaDiffersError if another replica had another state; other versions may store other things."""
        own = self._digests.get(content["at"])
        if own is not None and content["version"] == __version__ and own != content["sha256"]:
            raise ReplicaDiffersError(
                f"the model differs from that of the replica that writes its log, at record {content['at']:,}"
            )

    def _read(self, start: int, most_bytes: int = GATHERED_BYTES) -> list[tuple[int, bytes]]:
        """Return records of the log; while it cannot be reached, try again until the model is closed."""
        while True:
            try:
                found = self.log.read(start, most_bytes)
            except LogUnreachableError as error:
                if not self.unreached:
                    log.warning("%s: %s; reading is tried again", self.blueprint.name, error)
                self.unreached = str(error)
                if self._closing.wait(UNREACHED_SECONDS):
                    raise
            else:
                self.unreached = ""
                return found

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
                run.replayed.keys.add(record, number)
                self.position = number + 1
                run.move_to(self.position)
                if "from" in record.content:
                    with self._dropping:
                        self._needed_from[number] = int(record.content["from"])
                outcome = run.carry_out(record.content, number)
                self._note_applied(run, len(payload))
                self.on_step()
                self._carried_out(number, outcome)
                continue
            if record.kind == Kinds.DIGEST:
                self._check_digest(record.content)
            size += len(payload)
            run.replayed.keys.add(record, number)
            if record.kind not in UNJOINED:
                gathered.append(record)
        self._join(run, gathered, numbered[-1][0] + 1, size)

    def _join(self, run: ServedRun, records: Sequence[Record], position: int, size: int) -> None:
        """Join the records below a position, and learn the time steps that they complete.

        What is joined is part of the next checkpoint, so that one can be saved after any of the steps.
        """
        if records:
            run.replayed.join(records)
        self.position = position
        run.move_to(position)
        self.targets = run.replayed.joiner.targets
        self.joined_rows += sum(record.count for record in records)
        self._learn(run, size)

    def _learn(self, run: ServedRun, size: int = 0) -> None:
        """Learn the time steps that are full; ``size`` are the bytes of the records that completed them."""
        joiner = run.replayed.joiner
        self.applied_rows = self.joined_rows - joiner.backlog
        for step in joiner.steps():
            run.take_step(step)
            self.applied_rows = self.joined_rows - joiner.backlog
            self.on_step()
            if joiner.backlog:
                self.on_pause()
        self._note_applied(run, size)

    def _note_applied(self, run: ServedRun, size: int = 0) -> None:
        """Note that everything below the position is learned, unless time steps are left."""
        if not run.replayed.joiner.backlog:
            self.applied, self.time = self.position, run.replayed.joiner.time
            self.applied_bytes += size

    def _replayed(self, replayed: ReplayedState, start: int, stop: int) -> Iterator[StepRows]:
        """Yield the labelled rows of the log between two positions as time steps, joined as they would be live."""
        asked = self.blueprint.settings
        joiner = StepJoiner(
            self.blueprint.targets(replayed.task),
            batch_size=self.blueprint.batch_size,
            max_pending=asked.max_pending,
            timeout=asked.timeout,
        )
        position = max(start, self.log.first)
        while position < stop:
            numbered = self._read(position)
            known = [decode(payload, replayed.columns) for number, payload in numbered if number < stop]
            replayed.join([one for one in known if one.kind not in UNJOINED], joiner)
            yield from joiner.steps()
            position = numbered[-1][0] + 1

    def _saved_state(self, start: int, stop: int) -> State:
        """Return the state whose parts are records between two positions of the log."""
        parts = list[bytes]()
        while start < stop:
            numbered = self._read(start)
            known = [decode(payload, self.columns) for number, payload in numbered if number < stop]
            parts += [one.state for one in known if one.kind == Kinds.STATE]
            start = numbered[-1][0] + 1
        return from_bytes(b"".join(parts))

    # ------------------------------------------------------------------------ checkpoints

    def checkpoint(self) -> bool:
        """Save what has been applied; return False if there is nothing to save."""
        run = self.run
        if run is None or (self.position, run.batches) == (self.saved, self._saved_steps):
            return False
        # A checkpoint must not survive a power loss that its records do not survive.
        if self.log.durable < self.position:
            self.log.commit()
        run.save(self.position)
        self.saved, self._saved_steps = self.position, run.batches
        return True

    def drop_old_records(self) -> None:
        """Remove records that neither recovery nor an order nor a sink nor ``retain_bytes`` needs."""
        run = self.run
        if run is None:
            return
        with self._dropping:
            points = [point.position for point in run.replayed.points[-2:]]  # the last may be damaged
            self._needed_from = {at: first for at, first in self._needed_from.items() if at >= min(points)}
            oldest = min([self.saved, self._needed(), *points, *self._needed_from.values()])
            self.log.truncate(oldest, self.keeping.retain_bytes)

    # ------------------------------------------------------------------------ watching and ending

    def start(self) -> None:
        """Start the thread."""
        self.on_pause = self._between_steps
        self._thread.start()

    def wait_ready(self, seconds: float | None = None) -> bool:
        """Wait until the model takes records, follows another replica or has failed; return whether it takes them."""
        self._changed.wait(seconds)
        return self.phase == "ready"

    def close(self) -> None:
        """Apply the rest of the log, save a checkpoint, end the thread and close the files of the run."""
        with self._lock:
            if self.phase in ("recovering", "ready", "following"):
                self.phase = "closing"
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self.run is not None:
            self.run.close()

    @contextlib.contextmanager
    def keeping_records(self) -> Iterator[Callable[[Admitted], object]]:
        """Let no record of the log be dropped until the order that is logged meanwhile is behind a checkpoint."""
        with self._dropping:
            first = self.log.first

            def logged(admitted: Admitted) -> None:
                self._needed_from[admitted.position] = first

            yield logged

    @property
    def remedy(self) -> str:
        """What to do after learning has failed."""
        if self.error is not None and (problem := storage_problem(self.error, self.checkpoints.path.parent)):
            return f" ({problem}; a service then opens the model again)"
        return ". See its log, then restart the service"

    def refuse(self) -> None:
        """Raise UnavailableError unless records are taken."""
        if os.getpid() != self._process:  # without the threads that learn and flush, nothing would ever be answered
            raise UnavailableError(
                f"the model was opened by process {self._process}, from which this one, {os.getpid()}, was forked; "
                "send requests to the service, or open the model in one process only"
            )
        if self.phase == "ready":
            return
        if self.phase == "following":
            raise NotLeadingError(self.leader)
        why = {
            "recovering": "is being recovered from its log; try again soon",
            "failed": f"is read-only, because learning failed: {self.failure}{self.remedy}",
        }
        raise UnavailableError(f"the model {why.get(self.phase, 'is closed')}")

    # ------------------------------------------------------------------------ orders

    def outcome(self, position: int) -> Future[tuple[OrderRecord, int]]:
        """Return a future of what became of the order at a position, with the line of the journal."""
        future: Future[tuple[OrderRecord, int]] = Future()
        with self._lock:
            known = self._outcomes.get(position)
            before = position < self._carried_until
            if known is not None:
                future.set_result(known)
            elif before:
                pass
            elif self.phase in ("failed", "closed"):
                future.set_exception(UnavailableError("the model takes no orders any more"))
            else:
                self._waiting.setdefault(position, []).append(future)
        if before and known is None:  # by an earlier process, or long ago
            future.set_result(self._in_journal(position))
        return future

    def _in_journal(self, position: int) -> tuple[OrderRecord, int]:
        """Return the outcome of an order from the journal, with its line; AnswerGoneError if it is not kept."""
        for line, text in self.feed.backwards():
            record = parse_json(text) if ORDER_LINE in text else {}
            if record.get("type") == "order" and record["number"] == position:
                return OrderRecord.from_dict(record), line
        raise AnswerGoneError(
            "the order was carried out under this idempotency key before, and the journal no longer has its outcome; "
            "use a new key for a new order"
        )

    def _carried_out(self, position: int, record: OrderRecord) -> None:
        with self._lock:
            found = record, self.feed.lines
            self._outcomes[position] = found
            self._carried_until = position + 1
            if len(self._outcomes) > OUTCOMES:
                del self._outcomes[next(iter(self._outcomes))]
            futures = self._waiting.pop(position, [])
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_result(found)

    # ------------------------------------------------------------------------ the thread

    def _work(self) -> None:
        lower_priority()  # below the thread that answers requests
        try:
            self._began = self._clock()
            self._leads = self._lead()
            while True:
                closing = self.phase == "closing"  # read before the log: nothing is admitted after it
                applied = self.apply()
                if not self._leads and not applied and not closing:
                    self._lead_again()
                self._save_if_due(self._whole)
                self._be_ready_if_due()
                if not self._recovered and (not applied or self.applied >= self._logged_before):
                    self._end_recovery()
                if closing and not applied:
                    break
                if not applied and not self.log.wait(self.position, IDLE_SECONDS):
                    self._idle()
                elif not closing and self.log.next < self.position + GATHERED:
                    # Applied one by one, records would take ten times as long, and the event loop would wait for that.
                    time.sleep(GATHER_SECONDS)
            self._save()
            self._end("closed", "")
        except BaseException as error:
            log.exception("learning of %s failed", self.blueprint.name)
            self.error = error
            self._end("failed", f"{type(error).__name__}: {error}")
        finally:
            self._changed.set()

    def stop_leading(self) -> None:
        """Take no records until everything in the log is applied, because another process has written to it."""
        with self._lock:
            self._leads, self._tried = False, -math.inf
            if self.phase == "ready":
                self.phase = "recovering"

    def _lead_again(self) -> None:
        """Take records again, if no other process does."""
        if self._clock() - self._tried < TRY_SECONDS:
            return
        self._tried = self._clock()
        self._leads = True  # before it begins: what stops it from now on counts
        if not self._lead():
            self._leads = False
        if self._recovered:
            self._be_ready()

    def _between_steps(self) -> None:
        self._save_if_due(self._newest)
        self._be_ready_if_due()

    def _be_ready_if_due(self) -> None:
        """Take records once as much has been learned as an earlier process can have learned since its last checkpoint.

        What it had not learned waits then, as it did before.
        """
        if (
            self.phase == "recovering"
            and self._leads
            and self._clock() - self._began >= self.keeping.checkpoint_seconds
        ):
            self._be_ready()

    def _end_recovery(self) -> None:
        self._recovered = True
        self._be_ready()

    def _be_ready(self) -> None:
        with self._lock:
            if self.phase in ("recovering", "following"):
                self.phase = "ready" if self._leads else "following" if self.log.id else self.phase
        if self.phase != "recovering":
            self._changed.set()

    def _save_if_due(self, last: tuple[float, int]) -> None:
        """Save a checkpoint if it has been long since the last one, or if many rows were applied since."""
        time, rows = last
        seconds, most = self.keeping.checkpoint_seconds, self.keeping.checkpoint_rows
        if self._clock() - time >= seconds or self.applied_rows - rows >= most:
            self._save()

    def _save(self) -> None:
        self._newest = self._clock(), self.applied_rows
        if self.applied == self.position:
            self._whole = self._newest
        if self.checkpoint() and self._recovered:
            self.drop_old_records()

    def _end(self, phase: Phase, failure: str) -> None:
        with self._lock:
            self.phase, self.failure = phase, failure
            futures = [future for waiting in self._waiting.values() for future in waiting]
            self._waiting.clear()
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_exception(
                    UnavailableError(
                        f"the model is {phase}; the order is in its log, and is carried out when it is opened again"
                    )
                )
