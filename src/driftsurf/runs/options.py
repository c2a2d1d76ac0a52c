"""Options of a run, each defined once: ``driftsurf.run``, the command line, the TOML file and the docs follow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, get_args

from driftsurf.core.drifts import DRIFT_RISK, SMALLEST_RISE
from driftsurf.core.options import (
    OptionGroup,
    StrPath,
    check_bounds,
    number,
    option,
    option_fields,
    options_given,
    parse_value,
    whole,
)
from driftsurf.data.reading_options import BATCH_ROWS, STANDARD_INPUT, ReadingOptions
from driftsurf.errors import Message, Option, OptionError
from driftsurf.keyed.options import EngineOptions, KeyOptions
from driftsurf.registry import nearest

if TYPE_CHECKING:
    from driftsurf.session.drift_monitor import DriftMonitor

ALL_CLASSES: Final = "Write the probability of every class, not only of the predicted one."


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOptions:
    """Where predictions go, and which columns they have."""

    out: str | os.PathLike[str] = option(
        "-", "Write predictions to a .csv, .jsonl or .parquet file.  [default: CSV on standard output]", metavar="FILE"
    )
    overwrite: bool = option(False, "Replace an existing file.")
    id: str | None = option(
        None,
        "Column of ids, which predictions show.  [default: that of the run, if the rows have it]",
        metavar="COLUMN",
    )
    all_classes: bool = option(False, ALL_CLASSES)
    trust_config: bool = option(
        False, "Import and load a learner of another library, as run.json and model.state of RUN name it."
    )


LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LAST_PORT = 65_535


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """Monitoring of a run: commands for drifts and transitions, Prometheus metrics, the log."""

    fail_on_drift: bool = option(False, "End with exit code 3 if a drift was found; one that is marked does not count.")
    smallest_rise: float = option(
        SMALLEST_RISE,
        "Smallest rise of the error that is a drift: a share of rows, or of four times the usual error in regression.",
        at_least=0.0,
    )
    drift_risk: float = option(
        DRIFT_RISK, "Largest probability with which a run without a change reports a drift.", above=0.0
    )
    on_drift: str | None = option(
        None,
        "Shell command to run when a drift is detected and when it is over, with JSON on its input.",
        metavar="COMMAND",
        runs_code="always",
    )
    on_drift_timeout: float = option(30.0, "Seconds after which that command is killed.", above=0.0)
    on_transition: str | None = option(
        None, "Shell command to run for each transition, with JSON on its input.", metavar="COMMAND", runs_code="always"
    )
    on_transition_timeout: float = option(30.0, "Seconds after which that command is killed.", above=0.0)
    metrics: StrPath | None = option(
        None,
        "Metrics in Prometheus' text format: a file, a port of this machine, or HOST:PORT.",
        metavar="FILE|PORT",
    )
    log_level: LogLevel | None = option(
        None, "Level of the log on standard error.  [default on the command line: warning]", choices=get_args(LogLevel)
    )

    def check_watching(self) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        number("smallest_rise", self.smallest_rise, at_least=0.0, below=1.0)
        number("drift_risk", self.drift_risk, above=0.0, below=1.0)
        address = None if self.metrics is None else self.metrics_address
        if address is not None and address[1] > LAST_PORT:
            raise OptionError(
                Option("metrics"), f" must be a file, or a port from 0 to {LAST_PORT}; got {self.metrics!r}"
            )

    @property
    def of_drifts(self) -> dict[str, float]:
        """Options that define a drift. They are fixed for a run, because saved states of models depend on them."""
        return {"smallest_rise": self.smallest_rise, "drift_risk": self.drift_risk}

    def monitor(self, *, regression: bool) -> DriftMonitor:
        """Return a monitor for drifts of a new model."""
        from driftsurf.session.drift_monitor import DriftMonitor  # loads the learners

        return DriftMonitor(regression=regression, **self.of_drifts)

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Host and port on which metrics are served; None if they go to a file.

        >>> WatchOptions(metrics="9100").metrics_address, WatchOptions(metrics="metrics.prom").metrics_address
        (('127.0.0.1', 9100), None)
        """
        host, _, port = os.fspath(self.metrics or "").rpartition(":")
        return (host or "127.0.0.1", int(port)) if port.isdecimal() else None


MAX_PENDING = 100_000
"""Rows that wait for their labels at most, if nothing else is asked for."""


def _parse_step_size(text: str) -> float | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise ValueError("choices: a number, or auto") from None


def _parse_batch_size(text: str) -> int | Literal["epoch"]:
    if text == "epoch":
        return "epoch"
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("choices: a number of rows, or epoch (with --key)")
    return int(text)


def _parse_delay(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What to predict, and how tables become time steps."""

    label: str | None = option(
        None, "What to predict: a column, or a question such as 'ArrDelay > 0'.", metavar="COLUMN"
    )
    batch_seconds: float | None = option(
        None, "Cut time steps by spans of this many seconds of --time, instead of by rows.", above=0.0
    )
    time: str | None = option(
        None,
        "Column of dates, or of seconds, for --batch-seconds and for the axis of the report.  [default: for the "
        "axis, the first column of dates that never decreases]",
        metavar="COLUMN",
    )
    raw: bool = option(True, "Whether bad_rows.jsonl holds the text of bad rows.")
    follow: bool = option(False, "Wait for more rows at the end of a growing file.")
    follow_for: float | None = option(
        None, "Stop following after this many seconds without a row.  [default: never]", above=0.0
    )


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Where labels come from, and how late they may come."""

    labels: StrPath | None = option(
        None, "Source of labels that come later than their rows; needs --id.", metavar="FILE"
    )
    key: str | None = option(
        None,
        "Another name for --id with --labels. Without --labels, each key has a learner of its own.",
        metavar="COLUMN",
    )
    delay: float | None = option(
        None,
        "Labels come this many batches later; without --labels, the labels of the source itself.",
        at_least=0.0,
        parse=_parse_delay,
    )
    max_pending: int | None = option(
        None,
        "Rows that wait for a label, and labels that wait for a row, at most.  [default: 100,000; 1,000 for each key]",
        at_least=1,
    )
    timeout: float | None = option(None, "Number of rows after which a label is too late.  [default: never]", above=0.0)


@dataclass(frozen=True, kw_only=True)
class KeyColumnOptions:
    """Columns that only a run with a learner for each key has."""

    sequence: str | None = option(
        None, "Column of integers or dates that grows along the rows of a key.", metavar="COLUMN"
    )
    id: str | None = option(
        None,
        "Column of ids, which predictions show and which is not learned, and by which labels find their rows. With "
        "--key, --delay is in units of --sequence.",
        metavar="COLUMN",
    )


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Which model learns, with which parameters."""

    task: str = option("auto", "binary, multiclass, regression, or auto to infer it from the labels.")
    model: str | None = option(
        None,
        "recommended, recommended-light, recommended-trees, recommended-linear, a strategy, or a detector that resets "
        "the model; also STRATEGY(name=value):LEARNER(name=value).  [default: recommended for tables, or "
        "recommended-linear if an option of linear learners is given; driftsurf with --learner and for each key; the "
        "paper's driftsurf for a built-in stream]",
        runs_code="model",
    )
    learner: str | None = option(
        None,
        "logistic, softmax, svm, linear, lightgbm, or module:Class.  [default: by the task]",
        runs_code="learner",
    )
    start_from: StrPath | None = option(
        None, "Start with the model of this finished run, and with its settings unless others are given.", metavar="RUN"
    )
    parameters: Mapping[str, Any] = option(
        {},
        "Parameter of the model; can be repeated.",
        flag="--set",
        metavar="NAME=VALUE",
        pairs=True,
        parse=parse_value,
    )
    batch_size: int | Literal["epoch"] | None = option(
        None,
        "Rows in a time step.  [default: the paper's for a built-in stream; for local files a fiftieth of their rows, "
        "at least 100 and at most 1,000; 1,000 for other tables; 32 for each key, where 'epoch' makes each epoch a "
        "step]",
        metavar="N",
        at_least=1,
        parse=_parse_batch_size,
    )
    seed: int = option(0, "Seed of every random draw.", at_least=0)
    stream_seed: int | None = option(None, "Seed of a built-in stream.  [default: the paper's]", at_least=0)
    threshold: float | None = option(None, "Rise of the risk that counts as a sign of drift.  [default: 0.1]")
    stable_threshold: float | None = option(
        None, "Rise over the risk of the stable model that counts as a sign of drift.  [default: threshold / 2]"
    )
    reactive_length: int | None = option(
        None,
        "Steps for which a new model is tested after a sign of drift (reactive state).  [default: 4; 5 for each key]",
        at_least=1,
    )
    significance: float | None = option(
        None,
        "Standard errors by which a new model must lead to take over; 0 is the paper's rule.  [default: 0; 1 for each "
        "key]",
        at_least=0.0,
    )
    greedy: bool | None = option(
        None, "Let the better model predict while a new one is tested (greedy).  [default: yes]"
    )
    variant: Literal["algorithm-1", "authors"] | None = option(
        None,
        "Algorithm 1 of the paper, or the authors' published code.  [default: algorithm-1]",
        choices=("algorithm-1", "authors"),
    )
    step_size: float | Literal["auto"] | None = option(
        None,
        "Step size, a number or auto.  [default: the paper's for a built-in stream, auto for tables]",
        metavar="NUMBER|auto",
        parse=_parse_step_size,
    )
    l2: float | None = option(None, "L2 regularisation.  [default: the paper's for a built-in stream, 1e-4 for tables]")
    steps_per_row: float | None = option(None, "Gradient steps for each new row.  [default: 2]")
    max_rows: int | None = option(
        None,
        "Latest rows that the model keeps to train on.  [default: 100,000, of wide tables as many as 256 MiB hold; for "
        "each key 2,048, as many as 256 kB hold, at least 128; all rows of a built-in stream]",
        at_least=1,
    )

    @property
    def is_papers(self) -> bool:
        """Whether a built-in stream is run with the paper's model: no other model, learner or parameter is named."""
        return self.model in (None, "driftsurf") and self.learner is None and not self.parameters

    def all_parameters(self) -> dict[str, Any]:
        """Return the parameters of the model that were given, by an option of their own or by name."""
        own = {name: value for name, value in options_given(self).items() if name in NAMED_PARAMETERS}
        return own | dict(self.parameters)


NAMED_PARAMETERS: Final = (
    *("threshold", "stable_threshold", "reactive_length", "significance", "greedy", "variant"),
    *("step_size", "l2", "steps_per_row", "max_rows"),
)
"""Parameters of models that have an option of their own."""


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where the results of a run go, and how it survives being killed."""

    predictions: StrPath | None = option(
        None,
        "Write every prediction to a .csv, .jsonl or .parquet file, with --checkpoint one for each checkpoint, to a "
        "broker or database, or to standard output (-).",
        metavar="DESTINATION",
    )
    all_classes: bool = option(False, ALL_CLASSES)
    journal_to: StrPath | None = option(
        None, "Also write the journal to this broker, database or file.", metavar="DESTINATION"
    )
    trace_to: StrPath | None = option(
        None, "Also write the trace, the errors of every step, to this broker, database or file.", metavar="DESTINATION"
    )
    out: StrPath | None = option(None, "The run folder.  [default: a new one below runs/]", metavar="PATH")
    overwrite: bool = option(False, "Replace an existing run folder.")
    checkpoint: StrPath | None = option(
        None, "Keep checkpoints in this folder, and the result below it unless --out is given.", metavar="DIRECTORY"
    )
    checkpoint_copy: str | None = option(
        None, "Copy each checkpoint to this folder in object storage, such as s3://bucket/run.", metavar="ADDRESS"
    )
    every: int = option(10, "Steps from one checkpoint to the next.", at_least=1)
    keep: int | None = option(
        None,
        "Number of checkpoints, and of files of predictions, journal and bad rows, to keep.  [default: 2, and all "
        "files]",
        at_least=2,
    )
    part_mb: float = option(64.0, "Size in megabytes at which a file is full, where --keep is given.", above=0.0)
    resume: bool = option(False, "Continue from the last checkpoint, or start if there is none.")

    @property
    def checkpoint_path(self) -> Path | None:
        """The folder of checkpoints."""
        return None if self.checkpoint is None else Path(self.checkpoint)

    @property
    def checkpoints_kept(self) -> int:
        """How many checkpoints are kept."""
        return self.keep or CHECKPOINTS_KEPT

    @property
    def out_path(self) -> Path | None:
        """The run folder."""
        return None if self.out is None else Path(self.out)

    def check_output(self) -> None:
        """Raise OptionError if options cannot be used, or not together."""
        check_bounds(self)
        if self.resume and self.checkpoint is None:
            raise OptionError(Option("resume"), " needs ", Option("checkpoint"), ": the folder to resume from")
        if self.checkpoint_copy is not None and self.checkpoint is None:
            raise OptionError(Option("checkpoint_copy"), " needs ", Option("checkpoint"), ": the local folder")
        if self.all_classes and self.predictions is None:
            raise OptionError(Option("all_classes"), " needs ", Option("predictions"), ": where probabilities go")


KEYED_TITLE = "A learner for each key"
GROUPS: Final = (
    OptionGroup("tables", "Tables", TableOptions),
    OptionGroup("reading", "Reading of tables", ReadingOptions),
    OptionGroup("labels", "Late labels", LabelOptions),
    OptionGroup("key_columns", KEYED_TITLE, KeyColumnOptions),
    OptionGroup("keyed", KEYED_TITLE, KeyOptions),
    OptionGroup("engine", KEYED_TITLE, EngineOptions),
    OptionGroup("model", "Model", ModelOptions),
    OptionGroup("output", "Output and checkpoints", OutputOptions),
    OptionGroup("watch", "Monitoring", WatchOptions),
)
"""All options of a run, in the order of documentation."""
CHECKPOINTS_KEPT: Final = 2
"""Checkpoints that are kept, unless an option says otherwise."""
WAITING: Final = ("follow", "follow_for", "batch_wait")
"""Options that say how long to wait for rows. They decide nothing about what is learned, so a resumed run may have
others than the run that it resumes."""
STREAM_ONLY: Final = ("stream_seed",)
"""Options that only a built-in stream has."""
KEYED_GROUPS: Final = ("key_columns", "keyed", "engine")
TABLE_GROUPS: Final = ("tables", "reading", "labels", *KEYED_GROUPS)
TABLE_ONLY: Final = ("task", "start_from")
"""Options of other groups that only tables have."""


@dataclass(frozen=True, kw_only=True)
class RunOptions(  # in the reverse order of documentation: fields of the last class come first
    WatchOptions,
    OutputOptions,
    ModelOptions,
    EngineOptions,
    KeyOptions,
    KeyColumnOptions,
    LabelOptions,
    ReadingOptions,
    TableOptions,
):
    """All options of a run, which ``GROUPS`` documents by group. A list becomes a tuple, a path text, None the default.

    Examples
    --------
    >>> options = RunOptions(label="sold", decimal=",", rows=500)
    >>> options.given(), options.given("reading")
    ({'label': 'sold', 'rows': 500, 'decimal': ','}, {'rows': 500, 'decimal': ','})
    """

    lenient: bool = field(default=False, init=False, repr=False)
    optional: tuple[str, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        for name, one in option_fields(RunOptions).items():
            value = getattr(self, name)
            plain = one.default if value is None else os.fspath(value) if isinstance(value, os.PathLike) else value
            plain = tuple(plain) if isinstance(plain, list) else plain
            if plain is not value:
                object.__setattr__(self, name, plain)

    @classmethod
    def of(cls, **options: Any) -> Self:
        """Return options by name; OptionError if there is no option of a name."""
        known = option_fields(RunOptions)
        for name in options:
            if name not in known:
                raise OptionError(f"a run has no option {name!r}; {nearest(name, known)}choices: {', '.join(known)}")
        return cls(**options)

    def given(self, *groups: str) -> dict[str, Any]:
        """Return the options that differ from their defaults, of all groups or of some."""
        chosen = [group.fields for group in GROUPS if not groups or group.name in groups]
        return {
            name: value
            for known in chosen
            for name, one in known.items()
            if (value := getattr(self, name)) != one.default
        }

    @property
    def reading(self) -> ReadingOptions:
        """How rows are read. A run that starts from another may lack columns which that one dropped."""
        return replace(self.reading_options(), lenient=self.start_from is not None)

    @property
    def is_keyed(self) -> bool:
        """Whether each key has a learner of its own: with ``labels``, ``key`` joins rows and labels instead."""
        return self.key is not None and self.labels is None

    @property
    def has_late_labels(self) -> bool:
        """Whether labels come later than their rows."""
        return self.labels is not None or self.delay is not None

    @property
    def join_column(self) -> str | None:
        """Column by which labels of another source find their rows."""
        if self.labels is None or self.key is not None:
            return self.key
        return self.id

    @property
    def batch_rows(self) -> int:
        """Rows in a time step of tables."""
        size = self.batch_size
        return BATCH_ROWS if size is None else int(size)

    def check_applicable(self, source: str, *, tables: bool) -> None:
        """Raise OptionError if an option was given that does not apply to this kind of source."""
        given = self.given()
        wrong: list[str] = [name for name in STREAM_ONLY if name in given]
        if not tables:
            wrong = [name for name in (*self.given(*TABLE_GROUPS), *TABLE_ONLY) if name in given and name != "rows"]
        if wrong:
            whose = "a built-in stream" if tables else "a file, a folder or standard input"
            raise OptionError(Option(wrong[0]), f" applies to {whose}, not to {source!r}")
        if not tables and self.parameters and "model" not in given and "learner" not in given:
            raise OptionError(Option("parameters"), " changes a model that is named; pass ", Option("model"), " too")
        if not self.is_keyed:
            self._check_not_keyed()

    def _check_not_keyed(self) -> None:
        size: object = self.batch_size
        if isinstance(size, str) and size != "epoch":
            whole("batch_size", size, at_least=1)
        joins = not self.has_late_labels or (self.labels is not None and self.key is None)
        keyed = [name for name in self.given(*KEYED_GROUPS) if name != "id" or not joins]
        wrong: list[Message] = [Message(Option(name)) for name in keyed]
        wrong += [Message(Option("batch_size", "epoch"))] if self.batch_size == "epoch" else []
        delay = self.delay
        if delay is not None and not float(delay).is_integer():
            wrong += [Message(Option("delay", delay), ", which is not a number of batches,")]
        if wrong:
            remedy: tuple[object, ...] = "pass ", Option("key"), " and ", Option("sequence"), " too"
            if self.labels is not None:
                remedy = "leave ", Option("labels"), " out"
            raise OptionError(*wrong[0].parts, " applies to a run with a learner for each key; ", *remedy)

    def check_tables(self, source: str) -> None:
        """Raise OptionError if options of a run over tables cannot be used, or not together."""
        check_bounds(self)
        if self.labels is not None and self.join_column is None:
            raise OptionError(Option("labels"), " needs ", Option("id"), ", the column by which labels find their rows")
        if self.labels == STANDARD_INPUT:
            raise OptionError(Option("labels"), " must be a file; got '-', and only rows can come from standard input")
        if self.delay is not None and self.labels is None and (source == STANDARD_INPUT or self.follow):
            raise OptionError(
                Option("delay"), " reads the source twice, which is not possible with standard input or a growing file"
            )
        if self.delay is not None and self.labels is not None and self.batch_seconds is not None:
            raise OptionError(
                "pass ",
                Option("delay"),
                " or ",
                Option("batch_seconds"),
                ", not both: labels of a source of their own arrive by batches or by time",
            )
        if self.timeout is not None and not self.has_late_labels:
            raise OptionError(
                *(
                    Option("timeout"),
                    " applies to late labels; pass ",
                    Option("labels"),
                    " or ",
                    Option("delay"),
                    " too",
                )
            )
        if self.follow_for is not None and not self.follow:
            raise OptionError(Option("follow_for"), " applies to a growing file; pass ", Option("follow"), " too")
        if self.label is not None and self.label in self.drop:
            raise OptionError(Option("drop"), f" names the label {self.label!r}; remove it there")
