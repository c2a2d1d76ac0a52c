"""``driftsurf run``: a built-in stream beside the oracle, or tables as people have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from driftsurf.cli import options as groups
from driftsurf.cli.config import ConfiguredCommand, to_toml
from driftsurf.cli.keyed import is_keyed, learn_keys, refuse_keyed
from driftsurf.cli.watching import Watch
from driftsurf.cli.wording import as_typed
from driftsurf.errors import DriftsurfError, RunFolderError

if TYPE_CHECKING:
    from driftsurf.evaluation.scoring import TraceRecorder
    from driftsurf.evaluation.trace import Trace
    from driftsurf.report.terminal import Progress
    from driftsurf.runtime import files
    from driftsurf.runtime.predictions import LabelType, PredictionSink
    from driftsurf.runtime.run import Model, Run, Sidecar
    from driftsurf.runtime.source import Source

__all__ = ["run"]

MEGABYTE = 2**20


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a run is made of."""

    source: Source
    sessions: Mapping[str, Model]
    recorder: TraceRecorder
    about: str
    label_type: LabelType
    keyed: bool
    side_file: bool
    progress: Progress
    show: Callable[[Trace, Run, Path], None]
    """Prints the result."""
    beside: Mapping[str, Sidecar]
    """Further files, and who writes them."""
    oracle: str | None = None
    introduce: Callable[[], None] = lambda: None
    """Says, before the first step, what is about to be run."""


@click.command(cls=ConfiguredCommand)
@click.argument("source")
@groups.file_options
@groups.late_options
@groups.keyed_options
@groups.model_options
@groups.output_options
@groups.watch_options
@click.pass_context
def run(ctx: click.Context, /, source: str, write_config: Path | None, **options: Any) -> None:
    """Learn from a SOURCE as its rows come: predict each batch, score it, then learn it.

    SOURCE is a built-in stream (`driftsurf streams` lists them), which is run with the paper's settings beside an
    oracle that is told of the drifts; or a file, a folder, a pattern in quotes, or - for standard input, with --label;
    or a TOML file that --write-config wrote.

    With --key and --sequence each key of the rows has a learner of its own, in this process or on Spark, with the same
    outputs below --out: predictions/, journal/ and keys/ as Parquet, an epoch a folder, and fleet.html. The same
    command goes on with what is new.

    Shows each transition as it happens, ends with a table, and writes a run folder: run.json (what was
    run), trace.csv, journal.jsonl, timings.json and report.html. Until it is whole the folder is called
    NAME.partial.

    With --checkpoint the run can be killed at any time: the same command with --resume goes on, and ends
    with the same journal, trace, predictions and report as if nothing had happened. Ctrl-C and SIGTERM write a
    checkpoint first and leave with exit code 130 and 143. 1 is an error, 2 a wrong command line.
    """
    from driftsurf.runtime import files

    if write_config is not None:
        files.write_text(write_config, to_toml(ctx))
        click.echo(f"written: {write_config}; run it with: driftsurf run {write_config}")
        return
    if options["resume"] and options["checkpoint"] is None:
        raise click.UsageError("--resume needs --checkpoint: the folder to go on from")
    given = {param for param in options if _is_given(ctx, param)}
    if _is_tables(source) and is_keyed(options):
        learn_keys(source, given, options)
        return
    name, make = _plan(source, given, options)
    _live(name, make, options)


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not ParameterSource.DEFAULT


Make = Callable[[Mapping[str, Any] | None], _Parts]
"""The parts of a run, those of a checkpoint with this state, or of a run that begins."""


def _is_tables(source: str) -> bool:
    """Whether it is not a built-in stream."""
    import glob

    from driftsurf.streams.catalogue import CATALOGUE

    path = Path(source)
    return source not in CATALOGUE and (source == "-" or path.exists() or glob.has_magic(source) or bool(path.suffix))


def _plan(source: str, given: set[str], options: Mapping[str, Any]) -> tuple[str, Make]:
    """What the run is called, and who puts it together."""
    tables = _is_tables(source)
    strange = [name for name in (groups.STREAM_ONLY if tables else groups.TABLE_ONLY) if name in given]
    if strange:
        whose = "a built-in stream" if tables else "a file, a folder or standard input"
        raise click.UsageError(f"{groups.shown(strange[0])} is for {whose}, not for {source!r}")
    refuse_keyed(given, options)
    if tables:
        from driftsurf.assembly.tables import short_name

        return short_name(source), lambda saved: _table_parts(source, given, options, saved)
    return source, lambda saved: _stream_parts(source, options)


def _stream_parts(name: str, options: Mapping[str, Any]) -> _Parts:
    """A built-in stream as the paper ran it."""
    from driftsurf.evaluation.columns import ColumnMoves
    from driftsurf.evaluation.records import COLUMNS
    from driftsurf.evaluation.scoring import TraceRecorder
    from driftsurf.experiments import paper
    from driftsurf.report import terminal
    from driftsurf.runtime.source import StreamSource
    from driftsurf.streams import catalogue

    entry = catalogue.get(name)
    asked = {"seed": options["stream_seed"], "n_rows": options["rows"]}
    stream = entry.make(**{name: value for name, value in asked.items() if value is not None})
    default = entry.batch_size if options["rows"] is None else max(1, stream.n_rows // paper.BATCHES)
    size = options["batch_size"] or default
    own_learner = {name: options[name] for name in ("step_size", "l2", "steps_per_row") if options[name] is not None}
    learner = paper.learner_of(name, **own_learner)
    own = ("threshold", "stable_threshold", "reactive_length", "greedy", "variant")
    strategy = {name: options[name] for name in own}
    seed = options["seed"]
    models = {
        terminal.MODEL: paper.driftsurf_session(learner, seed=seed, **strategy),
        terminal.ORACLE: paper.aware_session(learner, stream.drift_steps(size), seed=seed),
    }
    paper.warm_up(learner, stream)
    return _Parts(
        StreamSource(stream, size),
        models,
        TraceRecorder(stream, size, untaught=1 if entry.values else 0),
        paper.record(stream, size, learner, seed, strategy),
        label_type="value" if entry.values else "integer",
        keyed=False,
        side_file=False,
        progress=terminal.Progress(
            stream.name,
            -(-stream.n_rows // size),
            quiet=options["quiet"],
            errors=options["predictions"] == "-",
            values=entry.values,
        ),
        show=lambda trace, live, out: terminal.print_result(trace, out, live.first_step),
        beside={COLUMNS: ColumnMoves(models[terminal.MODEL])},
        oracle=terminal.ORACLE,
    )


def _table_parts(source: str, given: set[str], options: Mapping[str, Any], saved: Mapping[str, Any] | None) -> _Parts:
    """Tables, with the library's settings."""
    from driftsurf.assembly.models import read_value
    from driftsurf.assembly.tables import TableSettings, assemble
    from driftsurf.report import outcome, terminal
    from driftsurf.report.taken import print_columns

    direct = {name: options[name] for name in TableSettings.__dataclass_fields__ if name in options}
    parameters = {name: options[name] for name in groups.OF_MODEL if name in given}
    parameters |= {name: read_value(text) for name, text in groups.pairs("--set", options["set_"]).items()}
    settings = TableSettings(
        source,
        **direct | groups.said_of_files(options),
        parameters=parameters,
    )
    made = assemble(settings, saved, exact=options["checkpoint"] is not None)
    to_stdout = options["predictions"] == "-"

    def introduce() -> None:
        if made.columns is not None and not options["quiet"]:
            print_columns(made.columns, errors=to_stdout)
        for hint in made.hints:
            click.echo(f"warning: {as_typed(hint, run)}", err=True)

    return _Parts(
        made.source,
        {made.model: made.session},
        made.recorder,
        made.about,
        label_type=made.label_type,
        keyed=settings.key is not None,
        side_file=settings.on_bad_row != "fail",
        progress=terminal.Progress(
            made.name,
            None,
            model=made.model,
            quiet=options["quiet"],
            errors=to_stdout,
            values=made.label_type == "value",
        ),
        show=lambda trace, live, out: outcome.print_outcome(
            trace,
            made.model,
            out,
            live.first_step,
            skipped=made.source.skipped,
            late=made.late_counts,
            errors=to_stdout,
        ),
        beside=made.beside,
        introduce=introduce,
    )


def _live(name: str, make: Make, options: Mapping[str, Any]) -> None:
    """Run it, under checkpoints or not, and publish the run folder."""
    from driftsurf.runtime import files
    from driftsurf.runtime.checkpoint import CheckpointFolder
    from driftsurf.runtime.predictions import prediction_sink
    from driftsurf.runtime.rolled import Rotation
    from driftsurf.runtime.run import BAD_ROWS, JOURNAL, TRACE, Run

    checkpoint, out, overwrite, resume = (options[name] for name in ("checkpoint", "out", "overwrite", "resume"))
    keep, watch = options["keep"], Watch.of(options)

    def sink(parts: _Parts, *, going_on: bool = False) -> PredictionSink | None:
        if options["predictions"] is None:
            return None
        return prediction_sink(
            options["predictions"],
            parts.label_type,
            keyed=parts.keyed,
            parts=checkpoint is not None,
            keep=keep,
            overwrite=overwrite or going_on,
        )

    def begun(parts: _Parts, place: Callable[[str], Path], **more: Any) -> Run:
        return Run(
            parts.source,
            parts.sessions,
            parts.recorder,
            place,
            about=parts.about,
            side_file=parts.side_file,
            beside=parts.beside,
            **more,
        )

    if checkpoint is None:
        parts = make(None)
        predictions = sink(parts)
        out = files.next_run_folder(Path("runs"), name) if out is None else out
        folder = files.RunFolder(out, overwrite=overwrite)
        files.write_text(folder / "run.json", parts.about)
        with begun(parts, folder.__truediv__, predictions=predictions) as live:
            live.begin()
            parts.introduce()
            _go(live, parts.progress, watch, f"its journal is in {folder.partial}")
            _finish(live, parts, folder)
        return
    with CheckpointFolder(checkpoint, keep=keep or 2) as saved:
        out = checkpoint / "result" if out is None else out
        last = saved.load()
        if not resume:
            files.RunFolder.check(out, overwrite=overwrite)
            if last is not None and not overwrite:
                raise RunFolderError(
                    f"{str(checkpoint)!r} has checkpoints already; go on with --resume, or begin anew with --overwrite"
                )
        goes_on = last if resume else None
        parts = make(None if goes_on is None else goes_on.state)
        rotation = Rotation(None if keep is None else int(options["part_mb"] * MEGABYTE), keep)
        more = {"folder": saved, "every": options["every"], "rotation": rotation}
        predictions = sink(parts, going_on=goes_on is not None)
        with begun(parts, checkpoint.joinpath, predictions=predictions, **more) as live:
            if goes_on is None:
                live.begin()
                parts.introduce()
            else:
                live.resume(goes_on)
                parts.progress.passed(live.step)
                if live.done and not parts.keyed and _has_more(live):
                    click.echo(
                        f"warning: this run is finished; {name} has more rows than it has read: run it anew, with "
                        "--follow if more are to come",
                        err=True,
                    )
            _go(live, parts.progress, watch, f"go on with --resume; its checkpoints are in {checkpoint}")
            folder = files.RunFolder(out, overwrite=overwrite or _is_result_of(live, out))
            for file in (TRACE, JOURNAL, *parts.beside):
                files.write_text(folder / file, live.text(file))
            if parts.side_file:
                files.write_private(folder / BAD_ROWS, live.text(BAD_ROWS))
            files.write_text(folder / "run.json", parts.about)
            _finish(live, parts, folder)


def _go(live: Run, progress: Progress, watch: Watch, remedy: str) -> None:
    """Run to the end, or leave with the exit code of the signal that stopped it."""
    from driftsurf.runtime.run import Stopped

    try:
        with progress, watch.over(live, progress) as report:
            live.go(report)
    except KeyboardInterrupt:
        click.echo(f"interrupted at step {live.step}; {remedy}", err=True)
        raise SystemExit(130) from None
    except Stopped as stopped:
        click.echo(f"{stopped}; {remedy}", err=True)
        raise SystemExit(stopped.exit_code) from None


def _has_more(live: Run) -> bool:
    """Whether there are rows behind those that a finished run has read."""
    try:
        return next(iter(live.source.batches(live.position)), None) is not None
    except DriftsurfError:  # what was read has changed: nobody knows
        return False


def _is_result_of(live: Run, out: Path) -> bool:
    """Whether ``out`` has the result of this very run, or what is left of it: it was killed at the very end."""
    from driftsurf.runtime import files

    for folder in (out, out.with_name(out.name + files.PARTIAL)):
        try:
            if files.read_text(folder / "run.json") == live.about:
                return True
        except OSError:
            continue
    return live.first_step > 0 and not out.exists()


def _finish(live: Run, parts: _Parts, folder: files.RunFolder) -> None:
    """Write what follows from the journal and the trace, and publish the run folder."""
    from dataclasses import replace

    from driftsurf.evaluation.columns import read_moves
    from driftsurf.evaluation.records import COLUMNS, read_orders
    from driftsurf.evaluation.trace import Trace
    from driftsurf.journal import read_lines
    from driftsurf.report import outcome, terminal
    from driftsurf.runtime import files

    trace = replace(Trace.from_csv(live.text("trace.csv")), seconds=live.seconds)
    files.write_text(folder / "timings.json", terminal.timings(trace, live.first_step))
    model = next(iter(parts.sessions))
    journal = live.text("journal.jsonl")
    decisions, orders = read_lines(journal), read_orders(journal)
    moves = read_moves(live.text(COLUMNS)) if COLUMNS in parts.beside else ()
    report = outcome.render(trace, decisions, model=model, oracle=parts.oracle, moves=moves, orders=orders)
    files.write_text(folder / "report.html", report)
    folder.finish()
    parts.show(trace, live, folder.path)
    for order in orders:
        click.echo(f"order before step {order.step}: {order.kind}; {order.text}", err=True)
