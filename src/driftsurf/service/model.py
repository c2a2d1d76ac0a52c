"""A model that is served from a folder: settings, log, checkpoints and journal; no database."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from driftsurf.core import files
from driftsurf.core.drifts import Drifts, InputChanges
from driftsurf.core.wording import shown_bytes
from driftsurf.data.log.contract import Log
from driftsurf.data.log.file_log import FileLog
from driftsurf.data.log.records import Kinds, block_of
from driftsurf.data.tables import Table
from driftsurf.errors import (
    CapabilityError,
    LogUnreachableError,
    NameTakenError,
    Option,
    OptionError,
    OverloadedError,
    ReplicaDiffersError,
    StorageFullError,
    UnavailableError,
)
from driftsurf.evaluation.summary import verdict
from driftsurf.evaluation.trace import Trace
from driftsurf.report.run_page import PageParts, record_parts, render_record
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.explanation.explain import explain, explain_last_change
from driftsurf.runs.explanation.records import RunRecord, read_run
from driftsurf.runs.folder import ABOUT, COLUMNS, MODEL, TRACE, model_path
from driftsurf.runs.predictions import LabelType
from driftsurf.runs.start import FinishedRun
from driftsurf.service.admission import Admission, Admitted, check_ids
from driftsurf.service.began import Began
from driftsurf.service.blueprint import Blueprint, label_type
from driftsurf.service.committer import LEASE_SECONDS, GroupCommitter
from driftsurf.service.contract import (
    UNJUDGED,
    Answer,
    Event,
    Judgement,
    ModelStatus,
    Order,
    OrderReceipt,
    Receipt,
    Request,
    RestorePoint,
    ServedColumn,
)
from driftsurf.service.follower import Follower, open_log, when_carried_out
from driftsurf.service.replayed_state import ErrorFigures, check_request
from driftsurf.service.replicas import check_own_log, open_shared_log
from driftsurf.service.served_run import JournalFeed, ServedRun
from driftsurf.service.settings import CHECKPOINTS, SETTINGS_FILE, Keeping, ModelSettings
from driftsurf.service.storage import storage_problem
from driftsurf.service.versions import Version
from driftsurf.service.wire.rows import NumberRows
from driftsurf.session.label_counts import LabelCounts
from driftsurf.session.saved import session_bytes

if TYPE_CHECKING:
    from driftsurf.service.connections import Connections


class Judge:
    """Judges a model when it is asked to. The trace, which has the times of drifts, is read if a drift has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: tuple[Drifts, InputChanges] = Drifts(), InputChanges()
        """The drifts and the moves of the inputs, ..."""
        self._timed = self._known
        """... and the same with their times."""

    def judge(self, run: ServedRun | None) -> Judgement:
        """Return the verdict on the model of a run, and its drifts with their times."""
        if run is None or not run.replayed.errors.rows:
            return UNJUDGED
        with self._lock:
            known = Drifts(run.drifts.known), InputChanges(run.drifts.changes)
            if known != self._known:
                trace, name = Trace.from_csv(run.newest(TRACE)), run.plan.name
                self._known, self._timed = known, (trace.timed(known[0], name), trace.timed(known[1], name))
            drifts, changes = self._timed
        return Judgement(verdict(drifts, run.replayed.errors.rows, run.baselines()), tuple(drifts), tuple(changes))


ROOM_SECONDS = 5.0
"""How long a measurement of the free room of the disk is used."""


class Room:
    """What is logged and not learned, and how much of the disk is free, beside the limits of both.

    Parameters
    ----------
    folder
        Folder of the model.
    keeping
        The limits.
    admission, follower
        What is logged, and what of it has been applied.
    """

    def __init__(self, folder: Path, keeping: Keeping, admission: Admission, follower: Follower) -> None:
        self.folder = folder
        self.keeping = keeping
        self._admission = admission
        self._follower = follower
        self._measured = 0.0, 2**62

    @property
    def lag_rows(self) -> int:
        """Rows and labels that are logged and not applied; one that waits for a label or a row does not count."""
        applied = self._follower.applied_rows  # before the rows that are logged, which only grow
        return max(0, self._admission.rows - applied)

    @property
    def free_bytes(self) -> int:
        """Free bytes of the disk, measured every few seconds."""
        at, free = self._measured
        now = time.monotonic()
        if now - at > ROOM_SECONDS or not at:
            free = shutil.disk_usage(self.folder).free
            self._measured = now, free
        return free

    def check(self) -> None:
        """Raise OverloadedError or StorageFullError unless there is room for more records."""
        keeping = self.keeping
        if self._follower.run is not None:  # before, labels have to come, whatever waits
            waiting = self._admission.bytes - self._follower.applied_bytes
            for lag, most, shown, what in (
                (self.lag_rows, keeping.max_lag_rows, "{:,}".format, "rows and labels"),
                (waiting, keeping.max_lag_bytes, shown_bytes, "of records"),
            ):
                if lag > most:
                    raise OverloadedError(
                        f"{shown(lag)} {what} wait to be learned, more than {shown(most)}; try again later",
                        retry_after=1.0,
                    )
        if self.free_bytes < keeping.least_free_bytes:
            raise StorageFullError(
                f"the disk of {str(self.folder)!r} has {shown_bytes(self.free_bytes)} free, less than "
                f"{shown_bytes(keeping.least_free_bytes)} (least-free-bytes in [keeping]); free some of it"
            )


START, LOG = "start", "log"
"""Folders of the model with which a served model began, and of its log."""
UNUSED = "max_pending", "timeout"
"""How labels are awaited, which belongs to the service: in the log each row has its label."""


def folder_blueprint(folder: Path, settings: ModelSettings | None) -> Blueprint:
    """Return the blueprint of a folder, which is made if it is new; OptionError if the settings are others."""
    file = folder / SETTINGS_FILE
    if file.exists():
        saved = ModelSettings.from_json(files.read_text(file))
        start = FinishedRun.read(folder / START) if saved.start_from is not None else None
        blueprint = Blueprint.of(folder.name, saved, start)
        if settings is not None:
            _check_same(saved, settings, blueprint, start)
        return blueprint
    if settings is None:
        raise OptionError(f"{str(folder)!r} has no {SETTINGS_FILE}; give the settings of a new model")
    start = None if settings.start_from is None else FinishedRun.read(Path(settings.start_from))
    if settings.task == "auto" and len(settings.classes) == 2:
        settings = replace(settings, task="binary")
    blueprint = Blueprint.of(folder.name, settings, start)
    decided = replace(blueprint.settings, model=blueprint.model, batch_size=blueprint.batch_size)
    blueprint = replace(blueprint, settings=decided)
    # Unusable options are refused before anything is written. What the first labels may decide are classes.
    blueprint.strategy(blueprint.task or "multiclass")
    files.make_folder(folder)
    if start is not None:
        files.make_folder(folder / START)
        origin = model_path(Path(str(settings.start_from)))
        files.write_bytes(folder / START / ABOUT, files.read_bytes(origin.parent / ABOUT))
        files.write_bytes(folder / START / MODEL, files.read_bytes(origin))
        Began.of_run(origin.parent).write(folder / START)
        files.sync_folder(folder / START)
    files.write_text(file, blueprint.settings.to_json())
    files.sync_folder(folder)
    files.sync_folder(folder.parent)
    return blueprint


def began_with(folder: Path) -> Began:
    """Return what is known of the run with which a served model began; nothing of one that began without a run."""
    return Began.read(folder / START)


def written(folder: Path, blueprint: Blueprint) -> RunRecord:
    """Return what the run behind a served model has written, as that of a run over the rows of its log."""
    found = read_run(folder / CHECKPOINTS)
    start = None if blueprint.start is None else str(folder / START)
    about = {name: one for name, one in found.about.items() if name not in UNUSED}
    own = {"source": str(folder / LOG), "served": True, "start_from": start}
    return replace(found, name=blueprint.name, about=about | own)


def _check_same(saved: ModelSettings, asked: ModelSettings, blueprint: Blueprint, start: FinishedRun | None) -> None:
    """Raise OptionError if a setting is given that differs from the saved one; one with its default is not given."""
    if asked.start_from is not None and saved.start_from is None:
        raise OptionError(
            Option("start_from"),
            f" is {asked.start_from!r}, and the model {blueprint.name!r} exists already and began without a run; leave "
            "it out, or serve the run under another name",
        )
    if asked.start_from is not None and not _is_same_path(asked.start_from, str(saved.start_from)):
        raise OptionError(
            Option("start_from"),
            f" was {saved.start_from} when the model {blueprint.name!r} was made, and is {asked.start_from}; leave it "
            "out, or serve the new run under another name or folder",
        )
    given, default = Blueprint.of(blueprint.name, asked, start).settings, ModelSettings()
    for name in ("label", "task", "model", "learner", "parameters", "seed", "batch_size", "columns", "categorical",
                 "classes", "max_pending", "timeout", "smallest_rise", "drift_risk"):  # fmt: skip
        was, now = getattr(saved, name), getattr(given, name)
        if getattr(asked, name) != getattr(default, name) and now != was:
            raise OptionError(
                Option(name),
                f" was {was!r} when the model {blueprint.name!r} was made, and is {now!r}; ",
                "leave it out, or serve another folder",
            )


def _is_same_path(one: str, other: str) -> bool:
    """Return whether two paths are the same one, as they are written or from the current folder."""
    return one == other or os.path.realpath(one) == os.path.realpath(other)


class ServedModel:
    """A model in a folder, which learns what its log holds. :func:`open_model` opens one.

    Every method may be called from any thread; :mod:`driftsurf.service.contract` has their errors.
    """

    def __init__(
        self,
        folder: Path,
        blueprint: Blueprint,
        keeping: Keeping,
        *,
        clock: Callable[[], float] = time.time,
        connections: Connections | None = None,
        make_log: Callable[[int], Log] | None = None,
        address: str = "",
    ) -> None:
        self.folder = folder
        self.name: str = blueprint.name
        self.keeping = keeping
        self.blueprint = blueprint
        self._clock = clock
        self._address = address
        self._connections = connections
        self._judge = Judge()
        self._began = began_with(folder)
        self.feed: JournalFeed = JournalFeed()
        with contextlib.ExitStack() as undo:
            checkpoints = undo.enter_context(CheckpointFolder(folder / CHECKPOINTS))
            saved, log = open_log(self._open_files if make_log is None else make_log, checkpoints)
            undo.callback(log.close)
            self._committer = committer = undo.enter_context(GroupCommitter(log, self._stop_leading))
            self._follower = Follower(
                blueprint, log, checkpoints, keeping, self.feed,
                on_step=self._publish, lead=self._lead, idle=self._tick, needed=self._needed,
                on_digest=self._log_digest,
            )  # fmt: skip
            undo.callback(self._follower.close)
            self.log: Log = log
            self._admission = Admission(blueprint, log, committer, clock)
            self._room = Room(folder, keeping, self._admission, self._follower)
            self.snapshot: Version = Version(
                task=blueprint.task, categorical=blueprint.settings.categorical, guess=self._follower.guess
            )
            self._follower.recover(saved)
            self._publish()
            self._open = undo.pop_all()
        self._follower.start()

    def _open_files(self, known: int) -> FileLog:
        check_own_log(self.folder)
        return FileLog(self.folder / LOG, segment_bytes=self.keeping.segment_bytes, known=known)

    def wait_ready(self, seconds: float | None = None) -> bool:
        """Wait until everything in the log has been applied; return whether the model is ready."""
        return self._follower.wait_ready(seconds)

    @property
    def storage_problem(self) -> str:
        """What is the matter with the disk, if that is why learning failed; else ""."""
        error = self._follower.error
        return "" if error is None else storage_problem(error, self.folder)

    @property
    def differs(self) -> bool:
        """Whether the model is not the one that other replicas have, so that it has to be built again."""
        return isinstance(self._follower.error, ReplicaDiffersError)

    @property
    def place(self) -> tuple[int, int] | None:
        """Number of records that are applied, and of those that are known and not applied; None if only this process
        has the log.
        """
        if not self.log.id:
            return None
        applied = self._follower.applied
        return applied, max(0, self.log.next - applied)

    @property
    def begun(self) -> bool:
        """Whether the first rows and labels have come, which decide how the model learns."""
        return self._follower.run is not None

    @property
    def settled_names(self) -> frozenset[str]:
        """Challengers that the configuration does not add: they were dismissed, or were ordered and may come yet."""
        run = self._follower.run
        return frozenset(self._admission.challenged | (set() if run is None else run.replayed.dismissed))

    @property
    def columns(self) -> tuple[ServedColumn, ...]:
        """The columns of a row; empty before the first rows of a model without declared columns."""
        return tuple(ServedColumn(*one) for one in self._admission.columns)

    # ------------------------------------------------------------------------ what the learner's thread calls

    def _publish(self) -> None:
        """Publish the newest version, by one assignment."""
        follower, categorical = self._follower, self.blueprint.settings.categorical
        run, columns = follower.run, self.snapshot.columns
        if len(columns) != len(follower.columns):  # they are decided once, and hundreds of versions a second follow
            columns = tuple(ServedColumn(*one) for one in follower.columns)
        if run is None:
            self.snapshot = Version(columns, follower.task, categorical, guess=follower.guess)
            return
        encoder, session = run.replayed.encoder, run.session
        self.snapshot = Version(columns, follower.task, categorical, encoder, session, session.now, follower.guess)

    def _lead(self) -> bool:
        """Begin to take records; return False if another process does."""
        try:
            lease = self.log.acquire(LEASE_SECONDS, self._address)
            if lease is None:
                self._follower.leader = self.log.leader()
        except LogUnreachableError:
            return False
        if lease is None:
            return False
        follower, run = self._follower, self._follower.run
        at, position = (0.0, self.log.first) if run is None else (run.replayed.joiner.time, follower.position)
        number = self._admission.begin(
            follower.columns, follower.task, follower.targets, follower.keys, at,
            position=position, rows=follower.joined_rows, size=follower.applied_bytes,
        )  # fmt: skip
        self._committer.begin(number, lease)
        return True

    def _log_digest(self, content: dict[str, Any]) -> None:
        with contextlib.suppress(UnavailableError):  # another process writes to the log by now
            self._admission.digest(content)

    def _stop_leading(self) -> None:
        self._follower.stop_leading()

    def _tick(self) -> None:
        """Let rows expire also where nothing else is logged."""
        run, timeout = self._follower.run, self.blueprint.settings.timeout
        if run is None or timeout is None or self._follower.phase != "ready" or not run.replayed.joiner.waiting:
            return
        if self._clock() - run.replayed.joiner.time >= max(1.0, timeout / 10):
            with contextlib.suppress(UnavailableError):  # another process writes to the log, and will do this
                self._admission.tick()

    # ------------------------------------------------------------------------ predicting and learning

    def predict(self, table: Table, ids: Sequence[str] | None = None, request: Request | None = None) -> Answer:
        """Predict rows. With ids, rows and answer are written to the log first, so that labels can come later by id.

        A repeated id replaces the row that waits under it. Without ids nothing is logged.
        """
        if ids is None:
            return self.snapshot.predict(table)
        found = self.predict_logged(table, ids, request)
        return found.result() if isinstance(found, Future) else found

    def predict_logged(
        self, table: Table, ids: Sequence[str], request: Request | None = None
    ) -> Answer | Future[Answer]:
        """Predict rows with ids; a future if the log has rows and answer only later."""
        asked = check_request(request)
        check_ids(ids, len(table))
        self._check()
        admission, term = self._admission, self._committer.term
        table = admission.checked(table)
        known = admission.keys.find(asked, Kinds.ROWS) if asked.key else None
        if known is not None:
            return self._answered_before(admission.repeated(known), asked.key)
        answer = self.snapshot.answer(table)
        block = block_of(table, admission.columns)
        admitted = admission.rows_with_ids(block, ids, answer.version, answer.labels, asked, term)
        if admitted.repeated:
            return self._answered_before(admitted, asked.key)
        answer = replace(answer, position=admitted.position)
        return answer if self.log.kept_at_append else self._committer.when_durable(admitted.position, answer, term)

    def _answered_before(self, admitted: Admitted, key: str) -> Answer | Future[Answer]:
        """Return the answer that was given under a key before, once it is in the log."""
        if admitted.position < self.log.next:
            return self._admission.answered_before(admitted.position, key)
        found: Future[Answer] = Future()

        def logged(durable: Future[None]) -> None:
            if found.set_running_or_notify_cancel():
                try:
                    durable.result()
                    found.set_result(self._admission.answered_before(admitted.position, key))
                except BaseException as error:
                    found.set_exception(error)

        self._committer.when_durable(admitted.position, None, admitted.term).add_done_callback(logged)
        return found

    def learn(
        self, rows: Table | NumberRows, labels: npt.NDArray[Any] | Sequence[Any], request: Request | None = None
    ) -> Future[Receipt]:
        """Learn rows with their labels, all or none; the future ends when the record is on the storage device."""
        asked = check_request(request)
        self._check()
        return self._admission.when_durable(self._admission.learn(rows, labels, asked))

    def label(self, labels: Mapping[str, Any], request: Request | None = None) -> Future[Receipt]:
        """Give labels of rows by id; one that comes before its row waits for it, and one that comes late is counted."""
        asked = check_request(request)
        self._check()
        return self._admission.when_durable(self._admission.label(labels, asked))

    def order(self, order: Order, request: Request | None = None) -> Future[OrderReceipt]:
        """Log an order; the future ends when it is on the storage device and the model has carried it out."""
        asked = check_request(request)
        self._follower.refuse()
        state = self._returned(order)
        needs_records = order.kind in ("rollback", "warm")
        keeping = self._follower.keeping_records() if needs_records else contextlib.nullcontext(lambda admitted: None)
        with keeping as logged:
            admitted = self._admission.order(order, asked, logged, lambda: self._check_name(order), state)
        durable, outcome = self._admission.when_durable(admitted), self._follower.outcome(admitted.position)
        return when_carried_out(admitted, durable, outcome)

    def _check_name(self, order: Order) -> None:
        """Raise NameTakenError if a challenger would be replaced that nobody says to replace.

        One that was ordered and has not learned yet may be: nothing is lost with it.
        """
        run = self._follower.run
        if (
            order.kind == "challenge"
            and run is not None
            and order.model in run.replayed.challengers
            and not order.replace
        ):
            raise NameTakenError(
                f"there is a challenger {order.model!r}; choose another name, or replace it, and lose its comparison, "
                'with "replace": true'
            )

    def _returned(self, order: Order) -> bytes:
        """Return the state to which an order returns; nothing for another order."""
        if order.kind != "rollback":
            return b""
        run = self._follower.run
        if run is None:
            raise OptionError("there is no restore point yet; the model has learned nothing")
        if order.to is None:
            raise OptionError(
                'a rollback needs the position of a restore point, such as {"kind": "rollback", "to": 17}; '
                "the state of the model lists them as restore_points"
            )
        return run.state_at(order.to)

    def _check(self) -> None:
        """Raise an error unless records are taken, and there is room for more of them."""
        self._follower.refuse()
        self._room.check()

    def flush(self) -> None:
        """Return when everything that was logged before is on the storage device."""
        self._committer.flush()

    def _needed(self) -> int:
        """Return the first record that has to be kept for sinks, unless the disk is nearly full."""
        if self._connections is None or self._room.free_bytes < 2 * self.keeping.least_free_bytes:
            return self.log.next
        return self._connections.needed()

    # ------------------------------------------------------------------------ watching

    @property
    def label_type(self) -> LabelType | None:
        """Type of the predicted labels; None before the first ones, which decide it."""
        run = self._follower.run
        if run is None:
            return None
        labels = run.replayed.joiner.targets.labels
        return label_type(run.replayed.task, labels) if labels or run.replayed.task == "regression" else None

    def status(self) -> ModelStatus:
        """Return the model at this moment; cheap enough to be called for every scrape."""
        follower, admission = self._follower, self._admission
        run, log, settings = follower.run, self.log, self.blueprint.settings
        version = self.snapshot
        errors, rare = ErrorFigures(), None
        counts, challengers, points, rows, steps = LabelCounts(), [], list[RestorePoint](), 0, 0
        last_label, early, at, pinned, leading = 0.0, 0, admission.time, False, self.blueprint.model
        if run is not None:
            replayed, joiner = run.replayed, run.replayed.joiner
            regression = replayed.task == "regression"
            leading, pinned = run.leading, run.pinned
            errors, rare = replayed.errors.figures(regression=regression), run.rare()
            if not errors.rows:  # no row was scored here: what is known of the model is what the run has found
                errors = self._began.errors
            counts, early, last_label, at = joiner.counts, joiner.early, joiner.last_label, follower.time
            points = [RestorePoint(one.position, one.version, one.time) for one in list(replayed.points)]
            rows, steps = replayed.errors.rows, run.step
            for name, one in list(replayed.challengers.items()):
                model = run.models.get(name)
                if name != leading:
                    own = 0 if model is None else model.steps
                    found = replayed.contest.compare(
                        leading, name, version=own, failed=one.failed, regression=regression
                    )
                    challengers.append(found)
        return ModelStatus(
            name=self.name, phase=follower.phase, failure=follower.failure, model=leading, task=version.task,
            label=settings.label, version=version.version, steps=steps, pinned=pinned,
            applied=follower.applied, logged=log.next, durable=log.durable, lag_rows=self._room.lag_rows,
            lag_seconds=max(0.0, admission.time - at) if follower.applied < log.next else 0.0,
            log_bytes=log.size, free_bytes=self._room.free_bytes, checkpoint=follower.saved,
            rows=rows, labels=counts, early=early, last_label=last_label or None,
            error=errors.error, error_rows=errors.rows, usual_error=errors.usual, trivial_error=errors.trivial,
            rare=rare, restore_points=tuple(points), oldest_waiting=None if run is None else run.replayed.joiner.oldest,
            challengers=tuple(challengers), connections=() if self._connections is None else self._connections.status(),
            drifts=0 if run is None else run.drifts.count, drifting=run is not None and run.drifts.drifting,
            batch_size=self.blueprint.batch_size,
            in_step=follower.ahead_labels if run is None else run.replayed.joiner.in_step,
        )  # fmt: skip

    def judge(self) -> Judgement:
        """Return the verdict on the model, and its drifts."""
        return self._judge.judge(self._follower.run)

    def journal(self, since: int = 0, most: int = 1000) -> list[Event]:
        """Return lines of the journal after line ``since``, as far as they are kept."""
        return self.feed.since(since, most)

    @property
    def journal_lines(self) -> int:
        """Number of the last line of the journal."""
        return self.feed.lines

    def _newest(self, name: str) -> str:
        run = self._follower.run
        return "" if run is None else run.newest(name)

    def trace(self) -> str:
        """Return the trace of the newest time steps as CSV: one line for each."""
        return self._newest(TRACE)

    def moves(self) -> str:
        """Return the columns that moved around the newest reactions as CSV."""
        return self._newest(COLUMNS)

    def explain(self, step: int | None = None, *, everything: bool = False) -> str:
        """Return a decision in words: that of a step, the last change, or all of the newest time steps."""
        self._check_begun()
        record = read_run(self.folder / CHECKPOINTS, step=step)
        if not record.decisions and self._began.text and step is None:
            return f"{self._nothing_yet()}. It began with a run:\n\n{self._began.text}"
        if not record.decisions:
            raise UnavailableError(self._nothing_yet())
        return explain_last_change(record) if step is None and not everything else explain(record, step=step)

    def report(self) -> str:
        """Return the report page of the model so far as HTML."""
        self._check_begun()
        return render_record(written(self.folder, self.blueprint))

    def parts(self) -> PageParts | None:
        """Return the parts of the report page; None if no row has been scored yet."""
        if self._follower.run is None:
            return None
        return record_parts(written(self.folder, self.blueprint))

    def state(self) -> bytes:
        """Return the leading model as bytes that ``driftsurf.load`` reads; CapabilityError before the first step."""
        run = self._follower.run
        if run is None or run.session.schema is None:
            raise CapabilityError(f"the model {self.name!r} has learned nothing yet")
        return session_bytes(run.session, run.plan.frames())

    def _check_begun(self) -> None:
        if self._follower.run is None:
            raise UnavailableError(self._nothing_yet())

    def _nothing_yet(self) -> str:
        rows = f"{self.blueprint.batch_size:,} labelled rows"
        return f"the model {self.name!r} has learned nothing here yet; it learns, and can explain itself, after {rows}"

    def close(self) -> None:
        """Take nothing more, apply what is logged, save a checkpoint and end; a second call does nothing."""
        self._open.close()


# ---------------------------------------------------------------------------- opening


def open_model(
    folder: Path,
    settings: ModelSettings | None = None,
    keeping: Keeping | None = None,
    *,
    challengers: Mapping[str, Mapping[str, Any]] | None = None,
    clock: Callable[[], float] = time.time,
    connections: Connections | None = None,
    log: str | None = None,
    address: str = "",
) -> ServedModel:
    """Open the folder of a served model, or make it.

    Parameters
    ----------
    folder
        The folder; its name is that of the model.
    settings
        What is served. Needed for a new folder; later it is None or the same.
    keeping
        How it is kept; may change at every opening.
    challengers
        Options of challengers by name; those that the model does not have yet are added.
    clock
        Returns the seconds since 1970, which become the times of records.
    connections
        Sources and sinks of the model, whose state is shown with it, and whose records are kept.
    log
        Address of the log, if it is not in the folder.
    address
        Where this process answers requests, for other processes with this log.

    Returns
    -------
    ServedModel
        The model. What was logged after the last checkpoint is applied by a thread meanwhile.
    """
    keeping = Keeping() if keeping is None else keeping
    keeping.check()
    blueprint = folder_blueprint(folder, settings)
    make_log: Callable[[int], Log] | None = None
    if log is not None:
        make_log = partial(open_shared_log, folder, log, blueprint.settings, folder / START)
    model = ServedModel(
        folder, blueprint, keeping, clock=clock, connections=connections, make_log=make_log, address=address
    )
    if challengers:
        try:
            if model.wait_ready():
                add_challengers(model, challengers)
        except BaseException:
            model.close()
            raise
    return model


def add_challengers(model: ServedModel, challengers: Mapping[str, Mapping[str, Any]]) -> None:
    """Order the challengers that a model does not have yet, and that were not dismissed. It must have applied its log.

    Nobody waits: a model that has not begun carries orders out with its first step.
    """
    known = {one.name for one in model.status().challengers} | {model.status().model} | model.settled_names
    for name, options in challengers.items():
        if name not in known:
            model.order(Order("challenge", name, options=options))
