"""``driftsurf run --key``: a learner for each key, in one process or on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from driftsurf.cli import options as groups
from driftsurf.cli.fleet import show_keys
from driftsurf.cli.wording import as_typed
from driftsurf.errors import InputError, Option

if TYPE_CHECKING:
    from driftsurf.engines import Columns, KeyedLearner
    from driftsurf.runtime.target import Task
    from driftsurf.sources import Source
    from driftsurf.tables import Table

__all__ = ["is_keyed", "learn_keys", "refuse_keyed"]

SHARED = (
    *("key", "label", "drop", "delimiter", "encoding", "decimal", "thousands", "missing", "date_format"),
    *("batch_size", "delay", "max_pending", "seed"),
    *("out", "quiet", "config"),
    *("task", "model", "learner", "set_", *groups.OF_MODEL),
)
"""Options of other runs that mean something for a run by key."""
LEARNT_WITH = "drop", "batch_size", "delay", "max_pending", "max_bytes", "on_gap", "seed"
"""Those that are handed on as they are, where they are given."""
INSTEAD = {
    **dict.fromkeys(("checkpoint", "resume", "every", "keep"), "states are always kept, and the same command goes on"),
    **dict.fromkeys(("follow", "follow_for"), "the same command, given again, goes on with what is new"),
    **dict.fromkeys(("batch_seconds", "time"), "cut time steps by rows, with --batch-size"),
    **dict.fromkeys(("categorical", "kind"), "features are numbers: name them with --features"),
    **dict.fromkeys(("on_bad_row", "raw"), "rows that cannot be read are left out, and counted in OUT/epochs"),
    "format": "what a file is goes by its ending",
    "timeout": "say with --delay how late a label may be",
    "overwrite": "give another --out to begin anew",
    "predictions": "they are in OUT/predictions, as Parquet",
}
"""What to do in place of an option that is not for a run by key; of those without an entry: leave it out."""
SHOWN = 20
CONTINUOUS = "Unknown label type: continuous"
VALUES = "Predict values with --task regression, or make classes of them."
REMEDIES = {
    "LabelError": "Then begin anew, with another --out.",
    "DivergenceError": "With other options begin anew, with another --out; if a few rows are to blame, forgive keys "
    "with --readmit, which drops the time step that failed.",
    "StateError": "Give a larger --max-bytes, and forgive keys with --readmit.",
}
"""What to do about keys in quarantine, by what put them there."""


def is_keyed(options: Mapping[str, Any]) -> bool:
    """Whether there is a learner for each key: --key with --labels joins rows and labels instead."""
    return options["key"] is not None and options["labels"] is None


def refuse_keyed(given: set[str], options: Mapping[str, Any]) -> None:
    """UsageError if a run that is not by key has an option of one that is."""
    strange = [groups.shown(name) for name in groups.KEYED_ONLY if name in given]
    strange += ["--batch-size epoch"] if options["batch_size"] == "epoch" else []
    strange += ["--delay in units of the sequence"] if isinstance(options["delay"], float) else []
    if strange:
        remedy = "leave --labels out" if options["labels"] is not None else "give --key COLUMN and --sequence COLUMN"
        raise click.UsageError(f"{strange[0]} is for a learner for each key; {remedy}")


def learn_keys(source: str, given: set[str], options: Mapping[str, Any]) -> None:
    """Learn each key of a source, print how the keys are doing, and draw them."""
    from driftsurf.assembly.keyed import keyed_strategy, keyed_task
    from driftsurf.engines import Columns, KeyedOptions, run_keyed
    from driftsurf.sources import Reading

    strange = sorted(given.difference(groups.KEYED_ONLY, SHARED))
    if strange:
        instead = INSTEAD.get(strange[0], "leave it out")
        raise click.UsageError(f"{groups.shown(strange[0])} is not for a learner for each key (--key); {instead}")
    for name in ("sequence", "label", "out"):
        if options[name] is None:
            raise click.UsageError(
                f"--key without --labels is a learner for each key; it needs {groups.shown(name)} too"
            )
    if source == "-":
        raise click.UsageError("--key reads files, which can be gone on with; SOURCE is '-'")
    engine = options["engine"] or "local"
    if engine == "local" and not given.isdisjoint(("master", "partitions")):
        raise click.UsageError("--master and --partitions are for --engine spark")
    learnt_with = {name: options[name] for name in LEARNT_WITH if name in given}
    if options["batch_size"] == "epoch":
        learnt_with["batch_size"] = None
    classes = tuple(_label(name) for name in _parts(options["classes"])) or None
    parameters = groups.parameters(given, options)
    if options["max_rows"] is not None:
        parameters["max_rows"] = options["max_rows"]
    task = keyed_task(options["task"], classes)
    out: Path = options["out"]
    columns = Columns(options["key"], options["sequence"], options["label"], options["id_"])

    def introduce(files: Source, table: Table, learner: KeyedLearner) -> None:
        if not (out / "run.json").exists():
            _introduce(files, table, learner, columns, task, quiet=options["quiet"])

    run_keyed(
        source,
        out,
        columns,
        KeyedOptions(
            features=_parts(options["features"]),
            classes=classes,
            readmit=_forgiven(options["readmit"]),
            strategy=keyed_strategy(options["model"], options["learner"], task, parameters),
            **learnt_with,
        ),
        engine=engine,
        dialect=Reading(**groups.said_of_files(options)).dialect,
        on_columns=introduce,
        on_epoch=None if options["quiet"] else _tell,
        **{name: options[name] for name in ("master", "partitions", "epoch", "ttl")},
    )
    _warn(show_keys(out, SHOWN))


def _introduce(
    files: Source, table: Table, learner: KeyedLearner, columns: Columns, task: Task, *, quiet: bool
) -> None:
    """Say, before the first epoch, what columns were taken for, and which look like something else."""
    from driftsurf.assembly.keyed import taken_by_keys
    from driftsurf.report.taken import print_columns
    from driftsurf.sources import hints

    if not quiet:
        print_columns(taken_by_keys(table, learner, columns, task))
    for hint in hints(files, table, columns.label):
        dropped = [part.value for part in hint.parts if isinstance(part, Option) and part.name == "drop"]
        if all(name in learner.features for name in dropped):  # what is no feature is left out already
            click.echo(f"warning: {as_typed(hint, click.get_current_context().command)}", err=True)


def _warn(keys: Mapping[Any, Mapping[str, Any]]) -> None:
    """Say that keys are in quarantine; InputError if all are, for then nothing is learnt."""
    held = {key: str(entry["quarantine"]) for key, entry in keys.items() if entry["quarantine"]}
    if not held:
        return
    key, why = next(iter(held.items()))
    if CONTINUOUS in why:
        why = f"{why.partition('; ')[0]}. {VALUES}"
    learnt = sum(int(entry["rows"]) for entry in keys.values())
    if len(held) == len(keys):
        remedy = REMEDIES.get(why.partition(":")[0], "Once that is mended, forgive keys with --readmit.")
        raise InputError(
            f"nothing more is learnt ({learnt:,} rows were): all {len(keys):,} keys are in quarantine. The first, "
            f"{key}: {why} {remedy}"
        )
    click.echo(f"warning: {len(held):,} of {len(keys):,} keys learn no more (quarantine). {key}: {why}", err=True)


def _tell(number: int, counts: Mapping[str, int]) -> None:
    click.echo(f"epoch {number}: " + ", ".join(f"{value:,} {name}" for name, value in counts.items() if value))


def _parts(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _label(text: str) -> Any:
    """A label: a number, true, false, or text, which may be "none"."""
    from driftsurf.assembly.models import read_value

    value = read_value(text)
    return text if value is None else value


def _forgiven(values: tuple[str, ...]) -> dict[str, int]:
    try:
        pairs = [value.rsplit("=", 1) for value in values]
        return {key: int(sequence) for key, sequence in pairs}
    except ValueError:
        raise click.UsageError(f"--readmit is {values}; give KEY=SEQUENCE, as the table of keys shows them") from None
