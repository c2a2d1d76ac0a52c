"""``driftsurf run``: learn from a source, and print the result."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from driftsurf.cli.options import CommandOptions, ConfiguredCommand, option_groups
from driftsurf.cli.terminal import Termination, say, started, with_cli_spelling
from driftsurf.core.wording import counted, optional
from driftsurf.errors import InputError, Message, Option, RunDrifted, RunFolderError, RunInterrupted, RunStopped
from driftsurf.runs.options import GROUPS

if TYPE_CHECKING:
    from driftsurf.core.decisions import Decision
    from driftsurf.keyed.quarantine import Reason
    from driftsurf.report.terminal import ProgressBar
    from driftsurf.runs.orders import OrderRecord
    from driftsurf.runs.plan import RunStart
    from driftsurf.runs.result import RunResult

READMIT = Message("Once the cause is fixed, readmit keys with ", Option("readmit"), ".")
NEW_RUN = Message(" Then start a new run with another ", Option("out"), ".")
NEED_A_NEW_RUN: frozenset[Reason] = frozenset({"bad_label", "continuous_label", "diverged"})
"""Reasons of a quarantine that other options remedy, with which a run cannot be resumed."""


def show_result(folder: Path) -> None:
    """Print how the keys of a run are doing and write its page; InputError if all keys are in quarantine."""
    from driftsurf.cli.inspect import show_keys
    from driftsurf.keyed.quarantine import REMEDIES, first_held

    keys: Mapping[Any, Mapping[str, Any]] = show_keys(folder)
    held = sum(bool(entry["quarantine"]) for entry in keys.values())
    if not held:
        return
    key, why, reason = first_held(keys)
    if held < len(keys):
        say(
            f"warning: {held:,} of {len(keys):,} keys are in quarantine and no longer learn. The first is {key}: {why}",
            err=True,
        )
        return
    learned = sum(int(entry["rows"]) for entry in keys.values())
    raise InputError(
        f"all {len(keys):,} keys are in quarantine after {learned:,} rows, so that nothing is learned. The first is "
        f"{key}: {why} ",
        REMEDIES.get(reason, READMIT),
        NEW_RUN if reason in NEED_A_NEW_RUN else "",
    )


COMMON = (*("label", "drop", "model", "batch_size", "key", "out", "predictions", "checkpoint", "resume", "config"),)
RARE = (
    *("variant", "stable_threshold", "reactive_length", "significance", "greedy", "steps_per_row", "step_size", "l2"),
    *("stream_seed", "raw", "max_row_bytes", "batch_wait", "part_mb", "on_drift_timeout", "on_transition_timeout"),
    *("on_transition", "smallest_rise", "drift_risk", "max_bytes", "partitions", "buckets", "rebucket"),
)


@click.command(cls=ConfiguredCommand, common=COMMON, rare=RARE)
@click.argument("source")
@option_groups(GROUPS, CommandOptions)
def run(source: str, quiet: bool, **options: Any) -> None:
    """Learn from a SOURCE as its rows come: predict each batch, score it, then learn it.

    SOURCE is a built-in stream (`driftsurf streams` lists them), which is run with the paper's settings beside an
    oracle that knows the drifts; or a file, a folder, a pattern in quotes, or - for standard input, with --label; or a
    TOML file that --write-config wrote.

    Prints a line when a drift is detected and when it is over, and at the end a table and whether the data drifted
    (--log-level info also prints what the model does about it). Writes a run folder: run.json (what was run),
    trace.csv, journal.jsonl, timings.json, report.html and model.state, the model as it is at the end, which
    `driftsurf predict` uses. Until it is complete, the folder is called NAME.partial.

    With --checkpoint the run can be killed at any time: the same command with --resume continues, and ends with the
    same journal, trace, predictions and report as if nothing had happened. Ctrl-C and SIGTERM save a checkpoint first,
    and end with exit code 130 and 143. Exit code 1 is an error, 2 a wrong command line, and 3 with --fail-on-drift that
    there was a drift.

    With --key and --sequence each key has a learner of its own, in this process or on Spark. The folder --out then
    holds predictions/, journal/ and keys/ as Parquet and keys.html; the same command later learns what is new.
    """
    from driftsurf.runs.api import run as run_source

    if quiet:
        started()
    if options["log_level"] is None:
        options["log_level"] = "warning"
    with Termination() as termination, _Screen(quiet=quiet, to_stderr=options["predictions"] == "-") as screen:
        try:
            result = run_source(
                source,
                **options,
                on_start=screen.start,
                on_step=screen.step,
                on_epoch=None if quiet else screen.epoch,
                on_order=screen.order,
                progress=False,
            )
        except RunDrifted as drifted:
            screen.show(drifted.result)
            raise SystemExit(drifted.exit_code) from None
        except RunStopped as stopped:
            say(f"{stopped}; continue with --resume; the checkpoints are in {options['checkpoint']}", err=True)
            raise SystemExit(stopped.exit_code) from None
        except KeyboardInterrupt as interrupted:
            say(interrupted if isinstance(interrupted, RunInterrupted) else "interrupted", err=True)
            raise SystemExit(termination.exit_code) from None
    screen.show(result)
    if result.no_model and result.keys is None:
        raise RunFolderError(f"{result.folder} has no model.state, with which to predict: {result.no_model}")


class _Screen:
    """Terminal output of a run: how columns were understood, progress, the result."""

    def __init__(self, *, quiet: bool, to_stderr: bool) -> None:
        self.quiet = quiet
        self.to_stderr = to_stderr
        """Whether standard output is for predictions only."""
        self._stack = contextlib.ExitStack()
        self._progress: ProgressBar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, start: RunStart) -> None:
        """Print how the columns were understood, and show progress from now on."""
        from driftsurf.report.run_summary import print_columns
        from driftsurf.report.terminal import ProgressBar

        started()
        if start.columns is not None and not self.quiet:
            print_columns(start.columns, errors=self.to_stderr)
        if start.why_model is not None and not self.quiet:
            command = click.get_current_context().command
            say(f"model     {with_cli_spelling(start.why_model, command)}", err=self.to_stderr)
        if start.batch_rows is not None and not self.quiet:
            say(f"steps     of {counted(start.batch_rows, 'row')} (--batch-size)", err=self.to_stderr)
        if start.kept_rows is not None and not self.quiet:
            kept = f"the last {start.kept_rows:,} rows, since there are many columns"
            say(f"keeps     {kept} (--max-rows)", err=self.to_stderr)
        if start.predictions and not self.quiet:
            say(f"predictions: {start.predictions}", err=self.to_stderr)
        if start.finished and not self.quiet:
            say(f"the run is finished, after {start.first_step:,} steps; its result is written again", err=True)
        elif start.first_step and not self.quiet:
            say(f"the run continues at step {start.first_step:,}", err=True)
        self._progress = ProgressBar(
            start.name,
            start.n_steps,
            model=start.model,
            quiet=self.quiet,
            errors=self.to_stderr,
            regression=start.regression,
        )
        self._progress.passed(start.first_step, start.drifts)

    def step(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Show one step of one model."""
        assert self._progress is not None
        if not self._showing:
            self._stack.enter_context(self._progress)
            self._showing = True
        self._progress(step, model, error, decisions)

    _showing = False

    def order(self, record: OrderRecord) -> None:
        """Show that an order of an operator was carried out or refused."""
        assert self._progress is not None
        self._progress.note(_order_text(record))

    def epoch(self, number: int, counts: Mapping[str, int]) -> None:
        """Print the counts of an epoch of a keyed run."""
        words = {"unplaced": "rows dropped without a key or sequence"}
        shown = ", ".join(f"{value:,} {words.get(name, name)}" for name, value in counts.items() if value)
        say(f"epoch {number}: {shown}")

    def show(self, result: RunResult) -> None:
        """Print the table at the end of a run, and what became of orders."""
        from driftsurf.report.run_summary import print_run

        if result.keys is not None:
            show_result(result.folder)
            return
        print_run(result, to_stderr=self.to_stderr)
        for order in result.orders:
            say(_order_text(order), err=True)


def _order_text(order: OrderRecord) -> str:
    """Return what became of an order of an operator, in one line."""
    refused = optional(order.outcome == "refused", " refused")
    return f"order before step {order.step}: {order.kind}{refused}; {order.text}"
