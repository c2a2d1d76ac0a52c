"""``driftsurf.run``: a durable run as a library call."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from driftsurf import registry
from driftsurf.core.drifts import Drifts
from driftsurf.core.frames import Frame
from driftsurf.data.catalogue import CATALOGUE
from driftsurf.data.kinds import Kind
from driftsurf.data.reading_options import STANDARD_INPUT, OnBadRow, OnSchemaChange
from driftsurf.errors import Option, OptionError, RunDrifted
from driftsurf.evaluation.prequential import StepReport
from driftsurf.keyed.options import OnGap
from driftsurf.runs.execute import Execution
from driftsurf.runs.folder import short_name
from driftsurf.runs.options import GROUPS, RunOptions, StrPath
from driftsurf.runs.orders import OrderReport
from driftsurf.runs.plan import OnStart, PlanMaker
from driftsurf.runs.result import RunResult
from driftsurf.runs.watch_options import LogLevel

if TYPE_CHECKING:
    from driftsurf.data.sources.frame import FrameRows
    from driftsurf.keyed.job import EpochReport
    from driftsurf.runs.start import FinishedRun

__all__ = ["is_stream", "run"]


def run(
    source: StrPath | Frame | Mapping[str, Any],
    *,
    # Tables
    label: str | None = None,
    batch_seconds: float | None = None,
    time: str | None = None,
    raw: bool = True,
    follow: bool = False,
    follow_for: float | None = None,
    # Reading of tables
    categorical: Sequence[str] = (),
    drop: Sequence[str] = (),
    kinds: Mapping[str, Kind] | None = None,
    rows: int | None = None,
    format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    sheet: str | None = None,
    comment: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    date_formats: Sequence[str] = (),
    missing: Sequence[str] = (),
    encoding: str | None = None,
    on_schema_change: OnSchemaChange = "fail",
    on_bad_row: OnBadRow = "fail",
    max_row_bytes: int = 4194304,
    batch_wait: float = 1.0,
    sample_rows: int = 1000,
    n_features: int | None = None,
    zero_based: bool = False,
    block_bytes: int = 1048576,
    # Late labels
    labels: StrPath | None = None,
    key: str | None = None,
    delay: float | None = None,
    max_pending: int | None = None,
    timeout: float | None = None,
    # A learner for each key
    sequence: str | None = None,
    id: str | None = None,
    features: tuple[str, ...] = (),
    classes: tuple[Any, ...] | None = None,
    max_bytes: int | None = None,
    readmit: Mapping[Any, int] | None = None,
    on_gap: OnGap = "fill",
    engine: str = "local",
    ttl: float | None = None,
    master: str | None = None,
    partitions: int | None = None,
    buckets: int | None = None,
    rebucket: int | None = None,
    epoch: int | None = None,
    # Model
    task: str = "auto",
    model: str | None = None,
    learner: str | None = None,
    start_from: StrPath | None = None,
    parameters: Mapping[str, Any] | None = None,
    batch_size: int | Literal["epoch"] | None = None,
    seed: int = 0,
    stream_seed: int | None = None,
    threshold: float | None = None,
    stable_threshold: float | None = None,
    reactive_length: int | None = None,
    significance: float | None = None,
    greedy: bool | None = None,
    variant: Literal["algorithm-1", "authors"] | None = None,
    step_size: float | Literal["auto"] | None = None,
    l2: float | None = None,
    steps_per_row: float | None = None,
    max_rows: int | None = None,
    # Output and checkpoints
    predictions: StrPath | None = None,
    all_classes: bool = False,
    journal_to: StrPath | None = None,
    trace_to: StrPath | None = None,
    out: StrPath | None = None,
    overwrite: bool = False,
    checkpoint: StrPath | None = None,
    checkpoint_copy: str | None = None,
    every: int = 10,
    keep: int | None = None,
    part_mb: float = 64.0,
    resume: bool = False,
    # Monitoring
    fail_on_drift: bool = False,
    smallest_rise: float = 0.02,
    drift_risk: float = 0.01,
    on_drift: str | None = None,
    on_drift_timeout: float = 30.0,
    on_transition: str | None = None,
    on_transition_timeout: float = 30.0,
    metrics: StrPath | None = None,
    log_level: LogLevel | None = None,
    # Callbacks and signals
    on_start: OnStart | None = None,
    on_step: StepReport | None = None,
    on_epoch: EpochReport | None = None,
    on_order: OrderReport | None = None,
    progress: bool | None = None,
    handle_signals: bool = True,
) -> RunResult:
    """Learn from a source as its rows come: predict each batch, score it, then learn it.

    ``driftsurf run`` on the command line does the same, with the same options. The run folder holds run.json (what was
    run), trace.csv, journal.jsonl, timings.json, report.html and model.state, the model as it is at the end, which
    :func:`driftsurf.load` loads; until it is complete it is called ``NAME.partial``.

    With ``checkpoint`` the run can be killed at any time: the same call with ``resume=True`` continues, and ends with
    the same journal, trace, predictions and page as if nothing had happened. SIGINT and SIGTERM then end the run with
    :class:`~driftsurf.errors.RunStopped`, after a checkpoint.

    With ``key`` and ``sequence`` each key has a learner of its own. The run folder then holds tables of predictions,
    decisions and keys, and the same call, made again, learns what is new.

    Parameters
    ----------
    source
        A built-in stream by name, such as "sea10", which is run with the paper's settings beside an oracle that knows
        the drifts; or a file, a folder, a pattern, "-" for standard input, or a URL, with ``label``; or a frame of
        pandas or polars, a table of pyarrow, or a dictionary of columns, with ``label``. A run over a frame resumes
        with the same frame, to which rows may have been appended.
    label
        What to predict: a column, or a question such as 'ArrDelay > 0'.
    batch_seconds
        Cut time steps by spans of this many seconds of ``time``, instead of by rows.
    time
        Column of dates, or of seconds, for ``batch_seconds`` and for the axis of the report. [default: for the axis,
        the first column of dates that never decreases]
    raw
        Whether bad_rows.jsonl holds the text of bad rows.
    follow
        Wait for more rows at the end of a growing file.
    follow_for
        Stop following after this many seconds without a row. [default: never]
    categorical
        A column whose numbers are names; can be repeated.
    drop
        A column to leave out; can be repeated.
    kinds
        Kind of a column: number, boolean, date or text; can be repeated.
    rows
        Use only the first rows; a built-in stream is generated with that many, and keeps its drifts. [default: all; of
        a generated stream, as many as in the paper]
    format
        Format of the files, such as csv or parquet. [default: from the file name]
    delimiter
        Character between the cells of a CSV file. [default: inferred]
    header
        Whether the first line of CSV holds the names of columns. [default: by what it looks like]
    names
        Names of the columns of a file without a header line, separated by commas.
    sheet
        Sheet of an Excel file. [default: the first]
    comment
        Character with which lines that are not rows begin, such as '#'.
    decimal
        Decimal mark of numbers.
    thousands
        Character between groups of digits. [default: none]
    date_formats
        Format of dates that are not ISO 8601, such as %d.%m.%Y; can be repeated.
    missing
        A cell that means 'no value', besides NA, ? and the like; can be repeated.
    encoding
        Encoding of a text file, such as cp1252 or utf-16. [default: utf-8, or cp1252 if the first rows are not]
    on_schema_change
        What to do when a later file has other columns.
    on_bad_row
        What to do when a row cannot be read; N fails after more than N skipped rows.
    max_row_bytes
        Bytes of a row of text at most.
    batch_wait
        Seconds after which a batch of messages is taken that is not full yet, with ``follow``.
    sample_rows
        Rows from which the kinds of columns are inferred.
    n_features
        Number of columns of a LIBSVM file.
    zero_based
        Whether the indices of a LIBSVM file start at 0.
    block_bytes
        Bytes read at a time.
    labels
        Source of labels that come later than their rows; needs ``id``.
    key
        Another name for ``id`` with ``labels``. Without ``labels``, each key has a learner of its own.
    delay
        Labels come this many batches later; without ``labels``, the labels of the source itself.
    max_pending
        Rows that wait for a label, and labels that wait for a row, at most. [default: 100,000; 1,000 for each key]
    timeout
        Number of rows after which a label is too late. [default: never]
    sequence
        Column of integers or dates that grows along the rows of a key.
    id
        Column of ids, which predictions show and which is not learned, and by which labels find their rows. With
        ``key``, ``delay`` is in units of ``sequence``.
    features
        Columns of numbers or text to learn from, separated by commas. [default: all other columns of numbers]
    classes
        The labels, separated by commas. [default: those that appear]
    max_bytes
        Largest state of a key in bytes; a key above it is put in quarantine. [default: 4 MiB; more for wide tables]
    readmit
        Readmit a key that is in quarantine for a fault in this row or an earlier one.
    on_gap
        Missing cells: fill them with the key's mean so far, or put the key in quarantine.
    engine
        Engine of the run: local (this process), spark, or one of another package.
    ttl
        Drop keys without a new row for longer than this, in units of the sequence.
    master
        Where Spark runs: local[4], spark://host:7077, yarn ...
    partitions
        Partitions of Spark's state; fixed for the life of a run.
    buckets
        Buckets of keys in Spark's state, 256 by default; fixed for the life of a run.
    rebucket
        Resume the run with this number of buckets, whatever it had before.
    epoch
        Size of an epoch: rows (local, 100,000 by default) or files (Spark, all by default).
    task
        binary, multiclass, regression, or auto to infer it from the labels.
    model
        recommended, recommended-light, recommended-trees, recommended-linear, a strategy, or a detector that resets the
        model; also STRATEGY(name=value):LEARNER(name=value). [default: recommended for tables, or recommended-linear if
        an option of linear learners is given; driftsurf with ``learner`` and for each key; the paper's driftsurf for a
        built-in stream]
    learner
        logistic, softmax, svm, linear, lightgbm, or module:Class. [default: by the task]
    start_from
        Start with the model of this finished run, and with its settings unless others are given.
    parameters
        Parameter of the model; can be repeated.
    batch_size
        Rows in a time step. [default: the paper's for a built-in stream; for local files a fiftieth of their rows, at
        least 100 and at most 1,000; 1,000 for other tables; 32 for each key, where 'epoch' makes each epoch a step]
    seed
        Seed of every random draw.
    stream_seed
        Seed of a built-in stream. [default: the paper's]
    threshold
        Rise of the risk that counts as a sign of drift. [default: 0.1]
    stable_threshold
        Rise over the risk of the stable model that counts as a sign of drift. [default: threshold / 2]
    reactive_length
        Steps for which a new model is tested after a sign of drift (reactive state). [default: 4; 5 for each key]
    significance
        Standard errors by which a new model must lead to take over; 0 is the paper's rule. [default: 0; 1 for each key]
    greedy
        Let the better model predict while a new one is tested (greedy). [default: yes]
    variant
        Algorithm 1 of the paper, or the authors' published code. [default: algorithm-1]
    step_size
        Step size, a number or auto. [default: the paper's for a built-in stream, auto for tables]
    l2
        L2 regularisation. [default: the paper's for a built-in stream, 1e-4 for tables]
    steps_per_row
        Gradient steps for each new row. [default: 2]
    max_rows
        Latest rows that the model keeps to train on. [default: 100,000, of wide tables as many as 256 MiB hold; for
        each key 2,048, as many as 256 kB hold, at least 128; all rows of a built-in stream]
    predictions
        Write every prediction to a .csv, .jsonl or .parquet file, with ``checkpoint`` one for each checkpoint, to a
        broker or database, or to standard output (-).
    all_classes
        Write the probability of every class, not only of the predicted one.
    journal_to
        Also write the journal to this broker, database or file.
    trace_to
        Also write the trace, the errors of every step, to this broker, database or file.
    out
        The run folder. [default: a new one below runs/]
    overwrite
        Replace an existing run folder.
    checkpoint
        Keep checkpoints in this folder, and the result below it unless ``out`` is given.
    checkpoint_copy
        Copy each checkpoint to this folder in object storage, such as s3://bucket/run.
    every
        Steps from one checkpoint to the next.
    keep
        Number of checkpoints, and of files of predictions, journal and bad rows, to keep. [default: 2, and all files]
    part_mb
        Size in megabytes at which a file is full, where ``keep`` is given.
    resume
        Continue from the last checkpoint, or start if there is none.
    fail_on_drift
        End with exit code 3 if a drift was found; one that is marked does not count.
    smallest_rise
        Smallest rise of the error that is a drift: a share of rows, or of four times the usual error in regression.
    drift_risk
        Largest probability with which a run without a change reports a drift.
    on_drift
        Shell command to run when a drift is detected and when it is over, with JSON on its input.
    on_drift_timeout
        Seconds after which that command is killed.
    on_transition
        Shell command to run for each transition, with JSON on its input.
    on_transition_timeout
        Seconds after which that command is killed.
    metrics
        Metrics in Prometheus' text format: a file, a port of this machine, or HOST:PORT.
    log_level
        Level of the log on standard error. [default on the command line: warning]
    on_start
        Called before the first step.
    on_step
        Called after each step of each model, once it is in the journal and the trace.
    on_epoch
        With a learner for each key: called after each epoch with its number and its counts.
    on_order
        Called with each order of an operator, such as ``driftsurf pin``, that was carried out or refused.
    progress
        Whether to show a progress bar. [default: in notebooks only]
    handle_signals
        Whether SIGINT and SIGTERM end a run with checkpoints after a checkpoint, and Ctrl-C ends one without after the
        step under way. Only in the main thread. False leaves all signal handlers alone.

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
    given = locals()
    named = [name for group in GROUPS for name in group.fields]
    options = RunOptions.of(**{name: given[name] for name in named if given[name] is not None})
    if isinstance(source, str | os.PathLike):
        location: str | FrameRows = os.fspath(source)
    else:
        from driftsurf.runs.frames import read_frame

        location = read_frame(source, options)
    # A label belongs to a table, so that a name without an ending then is a file rather than a misspelled stream.
    stream = isinstance(location, str) and (
        location in CATALOGUE or (is_stream(location) and options.tables.label is None)
    )
    name = location if isinstance(location, str) and stream else short_name(str(location))
    if isinstance(location, str) and not stream and options.is_keyed:
        from driftsurf.runs.keyed_run import KEYED_MODEL, run_by_key  # loads all that is keyed

        if options.model.start_from is not None:
            raise OptionError(
                Option("start_from"),
                " applies to one model for all rows; a run with a learner for each key continues with the same call",
            )
        folder = run_by_key(location, options, on_start=on_start, on_epoch=on_epoch)
        of_keys = RunResult.of_keys(folder, name, options.model.model or KEYED_MODEL)
        if options.watch.fail_on_drift and of_keys.drifts:
            raise RunDrifted(of_keys.drifts.describe(), of_keys)
        return of_keys
    start = None
    if options.model.start_from is not None and not stream:
        from driftsurf.runs.start import FinishedRun, with_settings_of

        trusted = options.model.model is not None or options.model.learner is not None  # the user names what is loaded
        start = FinishedRun.read(Path(options.model.start_from), trusted=trusted)
        options = with_settings_of(start, options)
    options.check_applicable(str(location), tables=not stream)
    execution = Execution(
        name=name,
        make_plan=_planner(location, options, stream=stream, start=start),
        output=options.output,
        watch=options.watch,
        on_start=on_start,
        on_step=on_step,
        on_order=on_order,
        progress=None if progress is False else registry.get("page", "progress").make(progress),
        handle_signals=handle_signals,
    )
    result = execution.run()
    found = [one for one in result.drifts if not one.mark and one.detected_at_row >= 0]  # others failed the run before
    if options.watch.fail_on_drift and found:
        raise RunDrifted(Drifts(found).describe(), result)
    return result


def _planner(location: str | FrameRows, options: RunOptions, *, stream: bool, start: FinishedRun | None) -> PlanMaker:
    """Return what plans the run. Streams do not import what only tables need, nor the other way round."""
    if isinstance(location, str) and stream:
        from driftsurf.runs.streams import plan_stream

        return lambda _: plan_stream(location, options)
    from driftsurf.runs.tables import plan_tables

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
    return source in CATALOGUE or not looks_like_location
