"""Execute a plan, with or without checkpoints, and publish the run folder."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from driftsurf import registry
from driftsurf.core import files
from driftsurf.core.changes import deferred_interrupts
from driftsurf.core.drifts import Drifts
from driftsurf.core.options import StrPath
from driftsurf.errors import (
    ColumnWarning,
    DriftsurfError,
    Message,
    Option,
    OptionError,
    RunFolderError,
    RunInterrupted,
    RunStopped,
    RunWarning,
    StateError,
    StateWarning,
)
from driftsurf.evaluation.scoring import StepReport
from driftsurf.runs import orders
from driftsurf.runs.folder import (
    ABOUT,
    BAD_ROWS,
    JOURNAL,
    MODEL,
    REPORT,
    RESULT,
    RUN_FILES,
    TIMINGS,
    TRACE,
    RunFolder,
    next_run_folder,
    partial_path,
)
from driftsurf.runs.live import LiveRun
from driftsurf.runs.options import RunOptions
from driftsurf.runs.orders import OrderReport
from driftsurf.runs.output import JOURNAL_COLUMNS, Rotation, trace_columns
from driftsurf.runs.plan import OnStart, PlanMaker, RunPlan, RunProgress, RunStart
from driftsurf.runs.predictions import LabelType, label_text
from driftsurf.runs.result import RunResult
from driftsurf.runs.sinks import Filing, Sink, SinkContext, is_file, open_sink
from driftsurf.session.saved import can_be_saved, write_session
from driftsurf.session.session import Session

if TYPE_CHECKING:
    from driftsurf.runs.checkpoint import Checkpoint, CheckpointFolder
    from driftsurf.runs.checkpoint_copy import CheckpointCopy


class Woken(Exception):
    """A signal came while the run waited for rows."""


class Signals:
    """Context that collects SIGINT and SIGTERM, which would otherwise end the process.

    Parameters
    ----------
    held
        Whether to do so at all. Threads other than the main one receive no signals.
    """

    def __init__(self, *, held: bool) -> None:
        self.received: list[int] = []
        self._held = held and threading.current_thread() is threading.main_thread()
        self._waking = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if self._held:
            self._before = {n: signal.signal(n, self._hear) for n in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: object) -> None:
        self.received.append(number)
        if self._waking:
            self._waking = False
            raise Woken

    @contextlib.contextmanager
    def waking(self) -> Iterator[None]:
        """Raise Woken when a signal comes inside, or came just before: a pipe may be silent for ever."""
        self._waking = True
        try:
            if self.received:
                raise Woken
            yield
        finally:
            self._waking = False


class RunLoop:
    """Runs a :class:`~driftsurf.runs.live.LiveRun` to the end of its source.

    Parameters
    ----------
    live
        The run, begun or resumed.
    handle_signals
        Whether SIGINT and SIGTERM end the run after a checkpoint (with :class:`RunStopped`), instead of at once.
        Only in the main thread, and only if the run has checkpoints; without checkpoints, Ctrl-C waits for the end of
        the step under way. False leaves all signal handlers alone.
    on_order
        Called with each order of an operator that was carried out or refused.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf.runs import LiveRun, RunOptions
    >>> from driftsurf.runs.plan_streams import plan_stream
    >>> plan = plan_stream("sea0", RunOptions.of(rows=2_000, batch_size=100))
    >>> with LiveRun(plan, Path(tempfile.mkdtemp()).joinpath) as live:
    ...     live.begin()
    ...     RunLoop(live).run()
    >>> live.step, live.done
    (20, True)
    """

    def __init__(self, live: LiveRun, *, handle_signals: bool = True, on_order: OrderReport | None = None) -> None:
        self.live = live
        self.on_order = on_order
        self.handle_signals = handle_signals
        self._asked_to_stop = threading.Event()

    def stop(self) -> None:
        """Ask the run to stop after the step under way; may be called from any thread."""
        self._asked_to_stop.set()

    def run(self) -> None:
        """Run to the end of the source; RunStopped if it was asked to stop before."""
        durable = self.live.checkpoints is not None
        with contextlib.ExitStack() as stack:
            if self.handle_signals and not durable:
                stack.enter_context(deferred_interrupts())
            signals = stack.enter_context(Signals(held=self.handle_signals and durable))
            self._pull(signals)

    def _apply_orders(self) -> None:
        for record in self.live.apply_waiting_orders():
            if self.on_order is not None:
                self.on_order(record)

    def _pull(self, signals: Signals) -> None:
        live, source = self.live, self.live.plan.source
        self._apply_orders()
        batches = iter(() if live.done else source.batches(live.position))
        while True:
            try:
                with signals.waking():
                    batch = next(batches, None)
            except Woken:
                # The batch that was waited for is read again when the run resumes, with its bad rows.
                live.checkpoint()
                raise RunStopped(live.step, signals.received[0]) from None
            if batch is None:
                break
            live.take(*batch, bad_rows=source.bad_rows())
            if signals.received or self._asked_to_stop.is_set() or live.batches % live.plan.every == 0:
                live.checkpoint()
                self._apply_orders()
            # Asked again: a signal that comes during the checkpoint must not wait for the next batch.
            if signals.received or self._asked_to_stop.is_set():
                raise RunStopped(live.step, signals.received[0] if signals.received else None)
        if not live.done:
            live.write_bad_rows(source.bad_rows())
        live.finish()


def write_model(live: LiveRun, path: Path) -> str:
    """Write the leading model of a run; return why it was not written, or "".

    Rows that wait for a late label are not part of the model.
    """
    session = live.session
    reason = _reason(session)
    if not reason:
        assert isinstance(session, Session)
        write_session(path, session, live.plan.frames())
    return reason


def _reason(model: object) -> str:
    """Return why a model cannot be written, or ""."""
    if not isinstance(model, Session) or registry.find("strategy", type(model.strategy)) is None:
        return "the strategy is not registered with driftsurf"
    if model.schema is None:
        return "it has learned nothing"
    learner = model.strategy.learner
    if not can_be_saved(learner):
        return f"the learner {registry.name_of('learner', learner)} cannot be saved"
    return ""


MEGABYTE = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One run from its plan to its folder."""

    name: str
    """Name of the run folder, unless ``options`` have another."""
    make_plan: PlanMaker
    options: RunOptions
    on_start: OnStart | None = None
    on_step: StepReport | None = None
    on_order: OrderReport | None = None
    progress: RunProgress | None = None
    handle_signals: bool = True

    def run(self) -> RunResult:
        """Run to the end of the source, and return the result."""
        self.options.check_output()
        self.options.check_watching()
        self._check_files_of_copies()
        if self.options.metrics is not None and self.options.metrics_address is None:
            self._check_metrics_file(Path(self.options.metrics))
        checkpoint = self.options.checkpoint_path
        return self._run_once() if checkpoint is None else self._run_durably(checkpoint)

    def _check_files_of_copies(self) -> None:
        """Raise OptionError if a run that continues from a copy elsewhere would lack files that it had written here."""
        options = self.options
        for name in ("predictions", "journal_to", "trace_to"):
            destination: StrPath | None = getattr(options, name)
            if options.checkpoint_copy is not None and destination is not None and is_file(os.fspath(destination)):
                raise OptionError(
                    Option(name),
                    f" cannot be the file {os.fspath(destination)!r} together with ",
                    Option("checkpoint_copy"),
                    ": a run that continues on another machine would not find it; name a broker or a database server",
                )

    def _check_metrics_file(self, path: Path) -> None:
        """Raise RunFolderError if a file of metrics would replace another file, now or when the run writes its own."""
        from driftsurf.runs.prometheus import MetricsFile

        MetricsFile.check(path)
        place = path.resolve()
        for folder in (self.options.checkpoint_path, self.options.out_path):
            if folder is not None and folder.resolve() in place.parents:
                raise RunFolderError(
                    f"{str(path)!r} is in the folder {str(folder)!r} of the run; choose another file for ",
                    Option("metrics"),
                )

    def _run_once(self) -> RunResult:
        """Run without checkpoints: journal and trace are written to the run folder itself."""
        plan = self._planned(None)
        out = self.options.out_path
        path = next_run_folder(self.name) if out is None else out
        with RunFolder(path, overwrite=self.options.overwrite) as folder:
            files.write_text(folder / ABOUT, plan.about, shared=True)
            with LiveRun(plan, folder.__truediv__) as live:
                live.begin()
                try:
                    self._loop(live)
                except KeyboardInterrupt:
                    raise RunInterrupted(live.step, folder.partial) from None
                except Exception as error:
                    _note_partial_folder(error, live, folder)
                    raise
                return _publish(live, folder)

    def _run_durably(self, checkpoint: Path) -> RunResult:
        """Run with checkpoints: files grow beside them, and are copied to the run folder at the end."""
        overwrite = self.options.overwrite
        _check_not_foreign(checkpoint)
        from driftsurf.runs.checkpoint import CheckpointFolder

        with CheckpointFolder(checkpoint, keep=self.options.checkpoints_kept) as checkpoints:
            out = self.options.out_path or checkpoint / RESULT
            copy = self._copy(checkpoints)
            last = checkpoints.load()
            if not self.options.resume:
                self._check_unused(checkpoint, out, last)
                if last is not None:
                    orders.clear(checkpoint)
                last = None
            with self._begun(checkpoints, None) if last is None else self._resumed(checkpoints, last) as live:
                plan = live.plan
                self._loop(live, copy)
                with RunFolder(out, overwrite=overwrite or _is_result_of(live, out)) as folder:
                    for name in (TRACE, JOURNAL, *plan.sidecars):
                        files.write_text(folder / name, live.text(name), shared=True)
                    if plan.keeps_bad_rows:
                        files.write_text(folder / BAD_ROWS, live.text(BAD_ROWS))
                    files.write_text(folder / ABOUT, plan.about, shared=True)
                    return _publish(live, folder)

    def _copy(self, checkpoints: CheckpointFolder) -> CheckpointCopy | None:
        """Open where checkpoints are copied to. A run that resumes without a checkpoint begins with the one there."""
        options = self.options
        if options.checkpoint_copy is None:
            return None
        from driftsurf.runs.checkpoint_copy import CheckpointCopy

        copy = CheckpointCopy(checkpoints, options.checkpoint_copy, new=not options.resume)
        copy.check_not_foreign()
        if options.resume and checkpoints.generations():
            copy.check_own()
        elif options.resume:
            copy.fetch()
        elif not options.overwrite:
            copy.check_unused()
        return copy

    def _begun(self, checkpoints: CheckpointFolder, last: Checkpoint | None) -> LiveRun:
        """Return the run at its first row, or at a checkpoint."""
        live = LiveRun(self._planned(last), checkpoints.path.joinpath, checkpoints)
        with contextlib.ExitStack() as undo:
            undo.callback(live.close)
            if last is None:
                live.begin()
            else:
                live.resume(last)
                _warn_of_more_rows(live)
            undo.pop_all()
        return live

    def _resumed(self, checkpoints: CheckpointFolder, last: Checkpoint) -> LiveRun:
        """Return the run at a checkpoint, or at the one before it, with a warning, if one of its entries is invalid."""
        try:
            return self._begun(checkpoints, last)
        except StateError as error:
            older = [number for number in checkpoints.generations() if number < last.number]
            if not (older and error.entry):
                raise
            text = f"checkpoint {last.number} cannot be used: {error}. Using checkpoint {older[-1]} instead."
            warnings.warn(text, StateWarning, stacklevel=2)
        earlier = checkpoints.load(older[-1])
        assert earlier is not None
        return self._resumed(checkpoints, earlier)

    def _check_unused(self, checkpoint: Path, out: Path, last: Checkpoint | None) -> None:
        """Raise RunFolderError if a new run would replace a result or checkpoints without being asked to."""
        RunFolder.check(out, overwrite=self.options.overwrite)
        if last is not None and not self.options.overwrite:
            raise RunFolderError(
                f"{str(checkpoint)!r} already has checkpoints; continue with ",
                Option("resume", True),
                ", or replace them with ",
                Option("overwrite", True),
            )

    def _planned(self, last: Checkpoint | None) -> RunPlan:
        """Return the plan, with where its results go."""
        options = self.options
        plan = self.make_plan(None if last is None else last.state)
        sink: Sink | None = None
        if options.predictions is not None:
            context = SinkContext(
                plan.label_type,
                has_ids=plan.has_ids,
                has_true=plan.label_counts is None,
                classes=tuple(map(label_text, plan.shown_classes)),
                checkpoints=options.checkpoint is not None,
                keep=options.keep,
                overwrite=options.overwrite or last is not None,
            )
            sink = open_sink(os.fspath(options.predictions), context)
        copies = self._copies(plan, resumed=last is not None)
        part_bytes = None if options.keep is None else int(options.part_mb * MEGABYTE)
        return replace(
            plan, predictions=sink, copies=copies, every=options.every, rotation=Rotation(part_bytes, options.keep)
        )

    def _copies(self, plan: RunPlan, *, resumed: bool) -> dict[str, Sink]:
        """Open where the journal and the trace are copied to."""
        options = self.options
        wanted: tuple[tuple[str, str, StrPath | None, dict[str, LabelType]], ...] = (
            (JOURNAL, "journal_to", options.journal_to, JOURNAL_COLUMNS),
            (TRACE, "trace_to", options.trace_to, trace_columns(plan.recorder.head())),
        )
        return {
            name: open_sink(
                os.fspath(destination),
                SinkContext(
                    "text",
                    checkpoints=options.checkpoint is not None,
                    keep=options.keep,
                    overwrite=options.overwrite or resumed,
                    option=option,
                    other_columns=columns,
                ),
            )
            for name, option, destination, columns in wanted
            if destination is not None
        }

    def _loop(self, live: LiveRun, copy: CheckpointCopy | None = None) -> None:
        from driftsurf.runs.hooks import watching

        if self.on_start is not None:
            self.on_start(_started(live))
        for hint in live.plan.hints:
            warnings.warn(hint, ColumnWarning, stacklevel=2)
        if self.on_step is not None:
            live.listeners.append(self.on_step)
        with contextlib.ExitStack() as stack:
            if self.progress is not None:
                self.progress.start(_started(live))
                stack.callback(self.progress.close)
                live.listeners.append(self.progress.step)
            stack.enter_context(watching(live, self.options))
            if copy is not None:
                copy.start()
                stack.callback(copy.close)
                copy.checkpoints.on_saved.append(copy.saved)
            RunLoop(live, handle_signals=self.handle_signals, on_order=self.on_order).run()


def _started(live: LiveRun) -> RunStart:
    """Return what is reported before the first step."""
    plan = live.plan
    return RunStart(
        name=plan.name,
        model=plan.model,
        first_step=live.step,
        n_steps=plan.n_steps,
        regression=plan.regression,
        columns=None if live.batches else plan.columns,
        why_model=None if live.batches else plan.why_model,
        batch_rows=None if live.batches else plan.batch_rows,
        kept_rows=None if live.batches else plan.kept_rows,
        predictions=plan.predictions.announced() if isinstance(plan.predictions, Filing) else "",
        drifts=Drifts(live.drifts.known),
        finished=live.done,
    )


def _check_not_foreign(checkpoint: Path) -> None:
    """Raise RunFolderError if files of something else would be lost: no run has ever kept checkpoints in the folder."""
    from driftsurf.runs.checkpoint import HEAD

    names = files.names(checkpoint) if files.is_folder(checkpoint) else []
    if files.FENCE in names or any(name.startswith(f"{HEAD}-") for name in names):
        return
    lost = [name for name in RUN_FILES if name in names]
    if files.LOCK in names and files.read_bytes(checkpoint / files.LOCK) and not files.holder(checkpoint):
        lost.append(files.LOCK)
    if lost:
        raise RunFolderError(
            f"{str(checkpoint)!r} holds {lost[0]!r}, which a run would replace, and no checkpoints; choose another "
            "folder for ",
            Option("checkpoint"),
        )


def _note_partial_folder(error: Exception, live: LiveRun, folder: RunFolder) -> None:
    """Add to an error where the files of the failed run are; remove them if nothing was learned."""
    if live.batches:
        error.add_note(Message(f"The run failed at step {live.step}; what it wrote before is in {folder.partial}."))
        return
    live.close()
    folder.discard()


def _publish(live: LiveRun, folder: RunFolder) -> RunResult:
    """Write what follows from the journal and the trace, and give the run folder its name."""
    result = replace(RunResult.of(live, folder.path), no_model=write_model(live, folder / MODEL))
    files.write_text(folder / TIMINGS, result.timings(), shared=True)
    result.write_page(folder / REPORT)
    folder.finish()
    return result


def _warn_of_more_rows(live: LiveRun) -> None:
    """Warn if a finished run is resumed whose source has more rows than it has read."""
    if not live.done or (live.plan.has_ids and live.plan.label_counts is not None):
        return
    try:
        more = next(iter(live.plan.source.batches(live.position)), None) is not None
    except DriftsurfError:  # the rows that were read have changed, so it is not known whether there are more
        return
    if more:
        warnings.warn(
            Message(
                f"this run is finished, and {live.plan.name} has more rows than it has read; learn them with ",
                Option("follow"),
            ),
            RunWarning,
            stacklevel=4,
        )


def _is_result_of(live: LiveRun, out: Path) -> bool:
    """Return whether ``out`` holds the result of this very run, which was killed while it was published."""
    for folder in (out, partial_path(out)):
        try:
            if files.read_text(folder / ABOUT) == live.plan.about:
                return True
        except OSError:
            continue
    return live.resumed and not out.exists()
