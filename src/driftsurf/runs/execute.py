"""Execute a plan, with or without checkpoints, and publish the run folder."""

from __future__ import annotations

import contextlib
import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

from driftsurf.core import files
from driftsurf.core.drifts import Drifts
from driftsurf.errors import (
    ColumnWarning,
    DriftsurfError,
    Message,
    Option,
    OptionError,
    RunFolderError,
    RunInterrupted,
    RunWarning,
    StateError,
    StateWarning,
)
from driftsurf.evaluation.prequential import StepReport
from driftsurf.runs import orders
from driftsurf.runs.checkpoint import HEAD, Checkpoint, CheckpointFolder
from driftsurf.runs.checkpoint_copy import CheckpointCopy
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
from driftsurf.runs.loop import RunLoop
from driftsurf.runs.model_file import write_model
from driftsurf.runs.options import OutputOptions, StrPath
from driftsurf.runs.orders import OrderReport
from driftsurf.runs.outlets import JOURNAL_COLUMNS, trace_columns
from driftsurf.runs.plan import OnStart, PlanMaker, RunPlan, RunProgress, RunStart
from driftsurf.runs.predictions import LabelType, label_text
from driftsurf.runs.prometheus import MetricsFile
from driftsurf.runs.result import RunResult
from driftsurf.runs.rolled import Rotation
from driftsurf.runs.sinks import Filing, Sink, SinkContext, is_file, open_sink
from driftsurf.runs.watch_options import WatchOptions
from driftsurf.runs.watching import watching

__all__ = ["Execution"]

MEGABYTE = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One run from its plan to its folder."""

    name: str
    """Name of the run folder, unless ``output`` has another."""
    make_plan: PlanMaker
    output: OutputOptions
    watch: WatchOptions
    on_start: OnStart | None = None
    on_step: StepReport | None = None
    on_order: OrderReport | None = None
    progress: RunProgress | None = None
    handle_signals: bool = True

    def run(self) -> RunResult:
        """Run to the end of the source, and return the result."""
        self.output.check()
        self.watch.check()
        self._check_files_of_copies()
        if self.watch.metrics is not None and self.watch.metrics_address is None:
            self._check_metrics_file(Path(self.watch.metrics))
        checkpoint = self.output.checkpoint_path
        return self._run_once() if checkpoint is None else self._run_durably(checkpoint)

    def _check_files_of_copies(self) -> None:
        """Raise OptionError if a run that continues from a copy elsewhere would lack files that it had written here."""
        output = self.output
        for name in ("predictions", "journal_to", "trace_to"):
            destination: StrPath | None = getattr(output, name)
            if output.checkpoint_copy is not None and destination is not None and is_file(os.fspath(destination)):
                raise OptionError(
                    Option(name),
                    f" cannot be the file {os.fspath(destination)!r} together with ",
                    Option("checkpoint_copy"),
                    ": a run that continues on another machine would not find it; name a broker or a database server",
                )

    def _check_metrics_file(self, path: Path) -> None:
        """Raise RunFolderError if a file of metrics would replace another file, now or when the run writes its own."""
        MetricsFile.check(path)
        place = path.resolve()
        for folder in (self.output.checkpoint_path, self.output.out_path):
            if folder is not None and folder.resolve() in place.parents:
                raise RunFolderError(
                    f"{str(path)!r} is in the folder {str(folder)!r} of the run; choose another file for ",
                    Option("metrics"),
                )

    def _run_once(self) -> RunResult:
        """Run without checkpoints: journal and trace are written to the run folder itself."""
        plan = self._planned(None)
        out = self.output.out_path
        path = next_run_folder(self.name) if out is None else out
        with RunFolder(path, overwrite=self.output.overwrite) as folder:
            files.write_text(folder / ABOUT, plan.about, shared=True)
            with LiveRun(plan, folder.__truediv__) as live:
                live.begin()
                try:
                    self._loop(live)
                except KeyboardInterrupt:
                    raise RunInterrupted(live.step, folder.partial) from None
                except Exception as error:
                    _tell_what_is_left(error, live, folder)
                    raise
                return _publish(live, folder)

    def _run_durably(self, checkpoint: Path) -> RunResult:
        """Run with checkpoints: files grow beside them, and are copied to the run folder at the end."""
        overwrite = self.output.overwrite
        _check_not_foreign(checkpoint)
        with CheckpointFolder(checkpoint, keep=self.output.checkpoints_kept) as checkpoints:
            out = self.output.out_path or checkpoint / RESULT
            copy = self._copy(checkpoints)
            last = checkpoints.load()
            if not self.output.resume:
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
        output = self.output
        if output.checkpoint_copy is None:
            return None
        copy = CheckpointCopy(checkpoints, output.checkpoint_copy, new=not output.resume)
        copy.check_not_foreign()
        if output.resume and checkpoints.generations():
            copy.check_own()
        elif output.resume:
            copy.fetch()
        elif not output.overwrite:
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
        RunFolder.check(out, overwrite=self.output.overwrite)
        if last is not None and not self.output.overwrite:
            raise RunFolderError(
                f"{str(checkpoint)!r} already has checkpoints; continue with ",
                Option("resume", True),
                ", or replace them with ",
                Option("overwrite", True),
            )

    def _planned(self, last: Checkpoint | None) -> RunPlan:
        """Return the plan, with where its results go."""
        output = self.output
        plan = self.make_plan(None if last is None else last.state)
        sink: Sink | None = None
        if output.predictions is not None:
            context = SinkContext(
                plan.label_type,
                has_ids=plan.has_ids,
                has_true=plan.label_counts is None,
                classes=tuple(map(label_text, plan.shown_classes)),
                checkpoints=output.checkpoint is not None,
                keep=output.keep,
                overwrite=output.overwrite or last is not None,
            )
            sink = open_sink(os.fspath(output.predictions), context)
        copies = self._copies(plan, resumed=last is not None)
        part_bytes = None if output.keep is None else int(output.part_mb * MEGABYTE)
        return replace(
            plan, predictions=sink, copies=copies, every=output.every, rotation=Rotation(part_bytes, output.keep)
        )

    def _copies(self, plan: RunPlan, *, resumed: bool) -> dict[str, Sink]:
        """Open where the journal and the trace are copied to."""
        output = self.output
        wanted: tuple[tuple[str, str, StrPath | None, dict[str, LabelType]], ...] = (
            (JOURNAL, "journal_to", output.journal_to, JOURNAL_COLUMNS),
            (TRACE, "trace_to", output.trace_to, trace_columns(plan.recorder.head())),
        )
        return {
            name: open_sink(
                os.fspath(destination),
                SinkContext(
                    "text",
                    checkpoints=output.checkpoint is not None,
                    keep=output.keep,
                    overwrite=output.overwrite or resumed,
                    option=option,
                    other_columns=columns,
                ),
            )
            for name, option, destination, columns in wanted
            if destination is not None
        }

    def _loop(self, live: LiveRun, copy: CheckpointCopy | None = None) -> None:
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
            stack.enter_context(watching(live, self.watch))
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


def _tell_what_is_left(error: Exception, live: LiveRun, folder: RunFolder) -> None:
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
