"""The options of ``driftsurf run``, by what they are about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from driftsurf.cli import watching

__all__ = [
    "KEYED_ONLY",
    "OF_MODEL",
    "STREAM_ONLY",
    "TABLE_ONLY",
    "file_options",
    "keyed_options",
    "late_options",
    "model_options",
    "output_options",
    "pairs",
    "parameters",
    "reading_options",
    "said_of_files",
    "shown",
    "watch_options",
]

STREAM_ONLY = "rows", "stream_seed"
"""Options of a built-in stream."""

Command = Callable[..., Any]


class _Section:
    """One decorator of many options, which the help shows in this order under a title."""

    def __init__(self, title: str, *options: Callable[[Command], Command]) -> None:
        self.title = title
        self.options = options

    def __call__(self, command: Command) -> Command:
        for option in reversed(self.options):
            command = option(command)
            command.__click_params__[-1].section = self.title  # type: ignore[attr-defined]
        return command

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters."""
        return tuple(param.name for param in reversed(self(lambda: None).__click_params__))  # type: ignore[attr-defined]


def shown(name: str) -> str:
    """A parameter as it is typed."""
    return f"--{name.rstrip('_').replace('_', '-')}"


def pairs(name: str, values: Iterable[str]) -> dict[str, str]:
    """``("a=1", "b=2")`` as a dictionary; UsageError for anything else."""
    read = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not (key.strip() and equals):
            raise click.UsageError(f"{name} is {text!r}; give {name} KEY=VALUE")
        read[key.strip()] = value.strip()
    return read


def said_of_files(options: Mapping[str, Any]) -> dict[str, Any]:
    """What ``reading_options`` were given, as :class:`driftsurf.sources.Reading` takes it."""
    from driftsurf.sources import Reading

    said = {name: options[name] for name in Reading.__dataclass_fields__}
    return said | {"kind": tuple(pairs("--kind", options["kind"]).items())}


def parameters(given: Collection[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the model that are given, with an option of their own or by --set."""
    from driftsurf.assembly.models import read_value

    found = {name: options[name] for name in OF_MODEL if name in given}
    return found | {name: read_value(text) for name, text in pairs("--set", options["set_"]).items()}


def _step_size(_: click.Context, __: click.Parameter, value: str | None) -> float | str | None:
    if value is None or value == "auto":
        return value
    try:
        return float(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor 'auto'") from None


def _batch_size(_: click.Context, __: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "epoch":
        return value
    if value.isdecimal() and int(value) > 0:
        return int(value)
    raise click.BadParameter(f"{value!r} is neither a number of rows nor 'epoch' (with --key)")


def _delay(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    return int(value) if value is not None and value.is_integer() else value


def _bad_rows(_: click.Context, __: click.Parameter, value: str) -> str | int:
    if value in ("fail", "skip"):
        return value
    words = value.split()
    number = words[-1] if len(words) == 1 or words[:-1] == ["stop-after"] else ""
    if number.removeprefix("stop-after=").isdecimal():
        return int(number.removeprefix("stop-after="))
    raise click.BadParameter(f"{value!r}; choices: fail, skip, or a number of rows (or 'stop-after N')")


_POSITIVE = click.FloatRange(min=0.0, min_open=True)

_READING = (
    click.option("--categorical", metavar="COLUMN", multiple=True, help="A column whose numbers are names."),
    click.option("--kind", metavar="COLUMN=KIND", multiple=True, help="number, boolean, date or text."),
    click.option("--format", help="csv, jsonl, arff, libsvm, parquet or arrow.  [default: by the ending]"),
    click.option("--delimiter", help="What stands between the cells of a CSV file.  [default: found]"),
    click.option("--decimal", type=click.Choice([".", ","]), help="What stands before a fraction.  [default: .]"),
    click.option("--thousands", metavar="CHARACTER", help="What stands between groups of digits.  [default: nothing]"),
    click.option(
        "--date-format",
        metavar="FORMAT",
        multiple=True,
        help="Of dates that are not ISO 8601, such as %d.%m.%Y; may be repeated.",
    ),
    click.option("--missing", metavar="CELL", multiple=True, help="What means no value, beside NA, ? and the like."),
    click.option("--encoding", type=click.Choice(["utf-8", "latin-1"]), help="Of a text file.  [default: utf-8]"),
    click.option(
        "--on-schema-change",
        type=click.Choice(["fail", "ignore-added", "fill-removed"]),
        default="fail",
        show_default=True,
        help="When a later file has other columns.",
    ),
    click.option(
        "--on-bad-row",
        metavar="fail|skip|N",
        default="fail",
        show_default=True,
        callback=_bad_rows,
        help="A row that cannot be read; N stops when more than N were skipped.",
    ),
)
_TABLES = "Tables: what to read"

reading_options = _Section(_TABLES, *_READING)
"""How files are read, whatever is done with their rows."""

file_options = _Section(
    _TABLES,
    click.option("--label", metavar="COLUMN", help="What to predict: a column, or a question such as 'ArrDelay > 0'."),
    click.option("--drop", metavar="COLUMN", multiple=True, help="A column to leave out; may be repeated."),
    *_READING,
    click.option("--batch-seconds", type=_POSITIVE, help="Cut time steps by spans of the column --time instead."),
    click.option("--time", metavar="COLUMN", help="A column of dates, or of seconds."),
    click.option("--raw/--no-raw", default=True, help="Whether bad_rows.jsonl, where bad rows go, has their text."),
    click.option("--follow", is_flag=True, help="Wait at the end of a growing file."),
    click.option("--follow-for", type=_POSITIVE, help="End after so many seconds without a row.  [default: never]"),
)

late_options = _Section(
    "Tables: labels that come late",
    click.option("--labels", metavar="FILE", help="Labels come later, in a source of their own: see --key."),
    click.option(
        "--key",
        metavar="COLUMN",
        help="The column by which rows and --labels are joined; without --labels, see the next section.",
    ),
    click.option(
        "--delay",
        type=click.FloatRange(min=0.0),
        callback=_delay,
        help="Labels come so many batches later; without --labels, those of the source itself.",
    ),
    click.option(
        "--max-pending",
        type=click.IntRange(min=1),
        default=100_000,
        help="Rows that wait at most.  [default: 100,000; of a key 1,000]",
    ),
    click.option("--timeout", type=_POSITIVE, help="Rows after which a label is too late.  [default: never]"),
)

keyed_options = _Section(
    "Tables: a learner for each --key",
    click.option("--sequence", metavar="COLUMN", help="What grows along the rows of a key: numbers or times."),
    click.option(
        "--id", "id_", metavar="COLUMN", help="By which late labels find their rows; --delay is in units of --sequence."
    ),
    click.option("--features", help="Columns to learn from, with commas.  [default: all other numbers]"),
    click.option("--classes", help="The labels, with commas.  [default: those that come]"),
    click.option("--engine", type=click.Choice(["local", "spark"]), help="What it runs on.  [default: local]"),
    click.option("--master", help="Where Spark runs: local[4], spark://host:7077, yarn ..."),
    click.option("--partitions", type=click.IntRange(min=1), help="Parts of Spark's state, for the life of the run."),
    click.option(
        "--epoch", type=click.IntRange(min=1), help="Rows (local, 100,000) or files (Spark, all) that make an epoch."
    ),
    click.option("--ttl", type=_POSITIVE, help="Keys that are silent for longer are given up, in units of --sequence."),
    click.option("--max-rows", type=click.IntRange(min=1), help="Rows kept a key.  [default: 128]"),
    click.option("--max-bytes", type=click.IntRange(min=1), help="Bound of a key's state.  [default: 1048576]"),
    click.option(
        "--on-gap",
        type=click.Choice(["fill", "quarantine"]),
        help="A cell without a value: take the key's mean so far, or quarantine.  [default: fill]",
    ),
    click.option("--readmit", metavar="KEY=SEQUENCE", multiple=True, help="Forgive a key in quarantine."),
)

model_options = _Section(
    "What learns",
    click.option("--task", default="auto", show_default=True, help="binary, multiclass, regression, or by the labels."),
    click.option(
        "--model",
        default="driftsurf",
        show_default=True,
        help="recommended, recommended-linear, a strategy, or a detector that resets; also "
        "STRATEGY(option=value):LEARNER(option=value).",
    ),
    click.option(
        "--learner", help="logistic, softmax, svm, linear, lightgbm, or module:Class.  [default: by the task]"
    ),
    click.option("--set", "set_", metavar="NAME=VALUE", multiple=True, help="A parameter of the model; repeatable."),
    click.option("--rows", type=click.IntRange(min=1), help="Length of a built-in stream.  [default: the paper's]"),
    click.option(
        "--batch-size",
        metavar="N",
        callback=_batch_size,
        help="Rows in a time step.  [default: as in the paper; of a file 1,000; of a key 32, or 'epoch']",
    ),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Fixes every random draw."),
    click.option(
        "--stream-seed", type=click.IntRange(min=0), help="Seed of a built-in stream.  [default: the paper's]"
    ),
    click.option(
        "--threshold",
        type=float,
        default=0.1,
        help="Rise of the risk that is a sign of drift.  [default: 0.1; of a key 0.3]",
    ),
    click.option("--stable-threshold", type=float, help="The same against the stable model.  [default: threshold / 2]"),
    click.option(
        "--reactive-length",
        type=click.IntRange(min=1),
        default=4,
        show_default=True,
        help="Steps in a reactive state.",
    ),
    click.option("--greedy/--no-greedy", default=True, help="Let the better model predict inside a reactive state."),
    click.option(
        "--variant",
        type=click.Choice(["algorithm-1", "authors"]),
        default="algorithm-1",
        show_default=True,
        help="Algorithm 1 of the paper, or the authors' published code.",
    ),
    click.option(
        "--step-size", callback=_step_size, help="A number or 'auto'.  [default: the paper's; of a file auto]"
    ),
    click.option("--l2", type=float, help="L2 regularisation.  [default: the paper's; of a file 1e-4]"),
    click.option(
        "--steps-per-row", type=float, default=2.0, show_default=True, help="Gradient steps for each new row."
    ),
)

output_options = _Section(
    "What comes out",
    click.option("--predictions", metavar="FILE", help="Every prediction: .csv, .jsonl or .parquet; - for stdout."),
    click.option("--out", type=click.Path(path_type=Path), help="The run folder.  [default: a new one below runs/]"),
    click.option("--overwrite", is_flag=True, help="Replace an existing run folder."),
    click.option(
        "--checkpoint",
        type=click.Path(path_type=Path, file_okay=False),
        help="Keep checkpoints in this folder, and the result below it unless --out says otherwise.",
    ),
    click.option(
        "--every",
        type=click.IntRange(min=1),
        default=10,
        show_default=True,
        help="Steps from checkpoint to checkpoint.",
    ),
    click.option(
        "--keep",
        type=click.IntRange(min=2),
        help="Checkpoints, and parts of predictions, journal and bad rows, that are kept.  [default: 2, and all parts]",
    ),
    click.option(
        "--part-mb", type=_POSITIVE, default=64.0, show_default=True, help="Size of a part, where --keep is given."
    ),
    click.option("--resume", is_flag=True, help="Go on from the last checkpoint, or begin if there is none."),
    click.option("--config", type=click.Path(path_type=Path), help="Take options from a TOML file."),
    click.option("--write-config", type=click.Path(path_type=Path), help="Write the options to a TOML file, and stop."),
    click.option("--quiet", is_flag=True, help="Print only the result."),
)

watch_options = _Section("Who is told while it runs", *watching.OPTIONS)

KEYED_ONLY = keyed_options.names
"""Options of a learner for each key."""
TABLE_ONLY = (*KEYED_ONLY, *file_options.names, *late_options.names, "task", "model", "learner", "set_")
"""Options of a source of tables."""
OF_MODEL = "threshold", "stable_threshold", "reactive_length", "greedy", "variant", "step_size", "l2", "steps_per_row"
"""Parameters that have an option of their own; for tables they count where they are given."""
