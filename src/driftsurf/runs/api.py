"""``driftsurf.run``: a durable run as a library call."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftsurf import registry
from driftsurf.core.drifts import Drifts
from driftsurf.core.frames import Frame
from driftsurf.core.options import StrPath, accepts, argument, described
from driftsurf.data.reading_options import STANDARD_INPUT
from driftsurf.data.source import short_name
from driftsurf.errors import Option, OptionError, RunDrifted
from driftsurf.evaluation.scoring import StepReport
from driftsurf.runs.execute import Execution
from driftsurf.runs.options import RunOptions
from driftsurf.runs.orders import OrderReport
from driftsurf.runs.plan import OnStart, PlanMaker
from driftsurf.runs.result import RunResult

if TYPE_CHECKING:
    from driftsurf.data.sources.frame import FrameRows
    from driftsurf.keyed.run import EpochReport
    from driftsurf.runs.start import FinishedRun


@dataclass(frozen=True, kw_only=True)
class RunArguments(RunOptions):
    """Arguments of :func:`run`: its source, its options, and what is called while it runs."""

    source: StrPath | Frame | Mapping[str, Any] = field(
        kw_only=False,
        metadata=described(
            "A built-in stream by name, such as 'sea10', which is run with the paper's settings beside an oracle that "
            "knows the drifts; or a file, a folder, a pattern, '-' for standard input, or a URL, with ``label``; or a "
            "frame of pandas or polars, a table of pyarrow, or a dictionary of columns, with ``label``. A run over a "
            "frame resumes with the same frame, to which rows may have been appended."
        ),
    )
    on_start: OnStart | None = argument(None, "Called before the first step.")
    on_step: StepReport | None = argument(
        None, "Called after each step of each model, once it is in the journal and the trace."
    )
    on_epoch: EpochReport | None = argument(
        None, "With a learner for each key: called after each epoch with its number and its counts."
    )
    on_order: OrderReport | None = argument(
        None, "Called with each order of an operator, such as ``driftsurf pin``, that was carried out or refused."
    )
    progress: bool | None = argument(None, "Whether to show a progress bar. [default: in notebooks only]")
    handle_signals: bool = argument(
        True,
        "Whether SIGINT and SIGTERM end a run with checkpoints after a checkpoint, and Ctrl-C ends one without after "
        "the step under way. Only in the main thread. False leaves all signal handlers alone.",
    )


@accepts(RunArguments)
def run(options: RunArguments) -> RunResult:
    """Learn from a source as its rows come: predict each batch, score it, then learn it.

    ``driftsurf run`` on the command line does the same, with the same options. The run folder holds run.json (what was
    run), trace.csv, journal.jsonl, timings.json, report.html and model.state, the model as it is at the end, which
    :func:`driftsurf.load` loads; until it is complete it is called ``NAME.partial``.

    With ``checkpoint`` the run can be killed at any time: the same call with ``resume=True`` continues, and ends with
    the same journal, trace, predictions and page as if nothing had happened. SIGINT and SIGTERM then end the run with
    :class:`~driftsurf.errors.RunStopped`, after a checkpoint.

    With ``key`` and ``sequence`` each key has a learner of its own. The run folder then holds tables of predictions,
    decisions and keys, and the same call, made again, learns what is new.

    Returns
    -------
    RunResult
        Trace, metrics, decisions, folder, and the models as they are at the end.

    Raises
    ------
    RunDrifted
        With ``fail_on_drift``, if a drift was found, once the run is complete; its ``result`` is the RunResult.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> rows = [f"{i % 7},{'yes' if (i % 7 > 3) == (i < 600) else 'no'}" for i in range(1200)]
    >>> _ = (folder / "sales.csv").write_text("\\n".join(["price,sold", *rows]))
    >>> result = run(folder / "sales.csv", label="sold", batch_size=100, out=folder / "result", model="driftsurf")
    >>> [(change.kind, change.step) for change in result.transitions]
    [('entered', 6), ('greedy', 6), ('switched', 9)]
    >>> sorted(path.name for path in result.folder.iterdir())
    ['columns.csv', 'journal.jsonl', 'model.state', 'report.html', 'run.json', 'scores.jsonl', 'timings.json', ...]
    """
    source = options.source
    if isinstance(source, str | os.PathLike):
        location: str | FrameRows = os.fspath(source)
    else:
        from driftsurf.runs.plan_tables import read_frame

        location = read_frame(source, options)
    # A label belongs to a table, so that a name without an ending then is a file rather than a misspelled stream.
    stream = isinstance(location, str) and (
        registry.lookup("stream", location) is not None or (is_stream(location) and options.label is None)
    )
    name = location if isinstance(location, str) and stream else short_name(str(location))
    if isinstance(location, str) and not stream and options.is_keyed:
        from driftsurf.runs.keyed_run import KEYED_MODEL, run_by_key  # loads all that is keyed

        if options.start_from is not None:
            raise OptionError(
                Option("start_from"),
                " applies to one model for all rows; a run with a learner for each key continues with the same call",
            )
        folder = run_by_key(location, options, on_start=options.on_start, on_epoch=options.on_epoch)
        of_keys = RunResult.of_keys(folder, name, options.model or KEYED_MODEL)
        if options.fail_on_drift and of_keys.drifts:
            raise RunDrifted(of_keys.drifts.describe(), of_keys)
        return of_keys
    start: FinishedRun | None = None
    settings: RunOptions = options
    if options.start_from is not None and not stream:
        from driftsurf.runs.start import FinishedRun, with_settings_of

        trusted = options.model is not None or options.learner is not None  # the user names what is loaded
        start = FinishedRun.read(Path(options.start_from), trusted=trusted)
        settings = with_settings_of(start, options)
    settings.check_applicable(str(location), tables=not stream)
    execution = Execution(
        name=name,
        make_plan=_planner(location, settings, stream=stream, start=start),
        options=settings,
        on_start=options.on_start,
        on_step=options.on_step,
        on_order=options.on_order,
        progress=None if options.progress is False else registry.get("page", "progress").make(options.progress),
        handle_signals=options.handle_signals,
    )
    result = execution.run()
    found = [one for one in result.drifts if not one.mark and one.detected_at_row >= 0]  # others failed the run before
    if options.fail_on_drift and found:
        raise RunDrifted(Drifts(found).describe(), result)
    return result


def _planner(location: str | FrameRows, options: RunOptions, *, stream: bool, start: FinishedRun | None) -> PlanMaker:
    """Return what plans the run. Streams do not import what only tables need, nor the other way round."""
    if isinstance(location, str) and stream:
        from driftsurf.runs.plan_streams import plan_stream

        return lambda _: plan_stream(location, options)
    from driftsurf.runs.plan_tables import plan_tables

    return lambda saved: plan_tables(location, options, saved, start)


def is_stream(source: str) -> bool:
    """Return whether a source is a stream of the catalogue, or can only be a misspelled one."""
    looks_like_location = (
        source == STANDARD_INPUT
        or "://" in source
        or glob.has_magic(source)
        or bool(Path(source).suffix)
        or Path(source).exists()
    )
    return not looks_like_location or registry.lookup("stream", source) is not None
