"""Settings of a served model and of the service, and whether their packages are installed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.util import find_spec
from typing import Any, Final, Literal, Self, TypeAlias, get_args

from driftsurf.core.drifts import DRIFT_RISK, SMALLEST_RISE
from driftsurf.core.files import parse_json
from driftsurf.core.options import (
    OptionGroup,
    StrPath,
    choice,
    number,
    option,
    option_fields,
    parse_label,
    parse_value,
    whole,
)
from driftsurf.data.reading_options import KINDS, Kind, OnSchemaChange, ReadingOptions
from driftsurf.data.row_encoder import TASKS, Task
from driftsurf.errors import MissingExtraError, Option, OptionError, StateError
from driftsurf.runs.folder import SERVED_CHECKPOINTS, SERVED_SETTINGS
from driftsurf.runs.options import LAST_PORT, LogLevel
from driftsurf.session.drift_monitor import DriftMonitor

PACKAGES = "httptools", "msgspec", "pyarrow"
TELEMETRY = "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"


def require_service() -> None:
    """Raise MissingExtraError if a package that serving needs is not installed."""
    missing = [name for name in PACKAGES if not _is_installed(name)]
    if missing:
        raise MissingExtraError(f"serving needs {', '.join(missing)}: pip install 'driftsurf[service]'")


def require_telemetry() -> None:
    """Raise MissingExtraError if a package that sending traces needs is not installed."""
    missing = [name for name in TELEMETRY if not _is_installed(name)]
    if missing:
        raise MissingExtraError(f"[telemetry] needs {', '.join(missing)}: pip install 'driftsurf[service]'")


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package around it
        return False


MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of requests and connections."""

    body_bytes: int = option(16 * MIB, "Bytes of a body that is taken as a whole, at most.", at_least=1024)
    stream_bytes: int = option(1024 * MIB, "Bytes of a body that is learned in parts, at most.", at_least=1024)
    part_bytes: int = option(4 * MIB, "Approximate size of each part.", at_least=1024)
    rows: int = option(100_000, "Rows of a request, or of a part, at most.", at_least=1)
    flight_bytes: int = option(256 * MIB, "Bytes of bodies in memory at a time, at most.", at_least=1024)
    head_bytes: int = option(16 * 1024, "Bytes of the address and the headers of a request, at most.", at_least=256)
    head_seconds: float = option(5.0, "Seconds in which the headers of a request must come.", above=0.0)
    request_seconds: float = option(
        30.0, "Seconds in which a body must come, and an answer must be read; one more for each MiB.", above=0.0
    )
    idle_seconds: int = option(30, "Seconds after which a connection without a request is closed.", at_least=1)
    connections: int = option(1024, "Connections at a time, at most.", at_least=1)
    event_clients: int = option(1000, "Readers of event streams at a time, at most.", at_least=0)
    drain_seconds: int = option(
        20, "Seconds that requests under way have to end after SIGTERM, before models are saved.", at_least=1
    )


SETTINGS_FILE, CHECKPOINTS = SERVED_SETTINGS, SERVED_CHECKPOINTS
"""The file of settings and the folder of checkpoints in the folder of a served model."""

AskedTask: TypeAlias = Literal["auto"] | Task


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """What is served. The first opening of a folder saves it there, and later ones have to agree with it.

    Examples
    --------
    >>> settings = ModelSettings(label="sold", task="binary", columns={"price": "number", "city": "text"})
    >>> ModelSettings.from_json(settings.to_json()) == settings
    True
    """

    label: str = ""
    """Name of the column of labels in tables that have them; "" if labels always come apart from rows."""
    task: AskedTask = "auto"
    """What is predicted. With "auto" the first labels decide: text and booleans are classes; numbers need a task."""
    model: str | None = None
    """Name of the strategy, as of ``driftsurf run``; None for the default."""
    learner: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    batch_size: int | None = None
    """Number of labelled rows of a time step; None for that of the run with which the model begins, or 100."""
    smallest_rise: float = SMALLEST_RISE
    """Smallest rise of the error that is reported as a drift."""
    drift_risk: float = DRIFT_RISK
    """Largest probability with which a model without a change reports a drift."""
    columns: Mapping[str, Kind] = field(default_factory=dict)
    """Columns of a row with their kinds; empty lets the first rows decide."""
    categorical: tuple[str, ...] = ()
    """Columns whose numbers, booleans or dates are treated as words."""
    classes: tuple[Any, ...] = ()
    """All classes, if no others may come; empty for an open set."""
    max_pending: int = 100_000
    """Number of rows that wait for their label at most, and of labels that wait for their row."""
    timeout: float | None = None
    """Seconds after which a row waits no longer for its label; None for no limit."""
    start_from: str | None = None
    """Folder of a finished run with whose model to begin; its model is copied when the folder is first opened."""

    def check(self) -> None:
        """Raise OptionError if a setting has a value that cannot be used."""
        choice("task", self.task, ("auto", *TASKS))
        whole("seed", self.seed, at_least=0)
        if self.batch_size is not None:
            whole("batch_size", self.batch_size, at_least=1)
        self.monitor(regression=False)
        whole("max_pending", self.max_pending, at_least=1)
        if self.timeout is not None:
            number("timeout", self.timeout, above=0.0, otherwise=", or None")
        for name, kind in self.columns.items():
            if not name or kind not in KINDS:
                raise OptionError(
                    Option("columns"), f" says that {name!r} is of kind {kind!r}; choices: {', '.join(KINDS)}"
                )
        if self.label and self.label in self.columns:
            raise OptionError(Option("columns"), f" has the label {self.label!r}; name only columns of rows there")
        if self.classes and self.task == "regression":
            raise OptionError(Option("classes"), " cannot be given for the task 'regression'; leave them out")
        if len(self.classes) > 2 and self.task == "binary":
            raise OptionError(
                Option("classes"),
                f" has {len(self.classes)} classes for the task 'binary'; say ",
                Option("task", "multiclass"),
            )

    def monitor(self, *, regression: bool) -> DriftMonitor:
        """Return a monitor for drifts of a new model."""
        return DriftMonitor(regression=regression, smallest_rise=self.smallest_rise, drift_risk=self.drift_risk)

    def to_json(self) -> str:
        """Return the settings as JSON text; columns keep their order, which is that of the cells in the log."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the settings that ``to_json`` was called on; StateError if the text is something else."""
        try:
            saved = parse_json(text)
            known = {one.name for one in fields(cls)}
            if not isinstance(saved, dict) or not saved.keys() <= known:
                raise ValueError("its entries are not those of a served model")
            settings = cls(**saved | {name: tuple(saved.get(name, ())) for name in ("categorical", "classes")})
            settings.check()
        except (TypeError, ValueError) as error:
            raise StateError(f"these are not the settings of a served model ({error})") from error
        return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """How often a served model saves checkpoints, what it keeps, and when it refuses more; nothing here decides a bit
    of the model.
    """

    checkpoint_seconds: float = option(
        30.0, "Seconds from one checkpoint to the next, if something was applied.", above=0.0
    )
    checkpoint_rows: int = option(
        1_000_000, "Applied rows and labels after which a checkpoint is saved before its time.", at_least=1
    )
    restore_points: int = option(
        4,
        "Checkpoints that are kept, to which a rollback can return: the newest two, and older ones up to a day back.",
        at_least=2,
    )
    segment_bytes: int = option(64 * 2**20, "Size of a file of the log; only whole files are removed.", at_least=1)
    retain_bytes: int = option(
        4 * 2**30,
        "Bytes of the log that are kept for challengers and backtests; records since the last checkpoint but one, and "
        "those that a sink has not written, are kept in any case.",
        at_least=0,
    )
    journal_bytes: int = option(16 * 2**20, "Size of a file of the journal; the last 65 are kept.", at_least=1)
    history_bytes: int = option(
        4 * 2**20,
        "Size of a file of the trace, the scores and the columns that moved; the last 4 are kept.",
        at_least=2**20,
    )
    max_lag_rows: int = option(
        1_000_000, "Rows and labels that may wait to be learned; beyond that, 429 is answered.", at_least=1
    )
    max_lag_bytes: int = option(2**30, "Bytes of records that may wait to be learned.", at_least=1)
    least_free_bytes: int = option(
        2**30, "Free bytes of the disk below which nothing is learned, and 507 is answered.", at_least=0
    )
    idempotency_keys: int = option(100_000, "Idempotency keys that are remembered.", at_least=1)
    digest_records: int = option(
        10_000, "Records of a shared log after which replicas compare their states; the same for all.", at_least=1
    )

    def check(self) -> None:
        """Raise OptionError if a setting has a value that cannot be used."""
        number("checkpoint_seconds", self.checkpoint_seconds, above=0.0)
        for name, one in option_fields(self).items():
            if one.hint is int:
                whole(name, getattr(self, name), at_least=int(one.at_least or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What the command serves, where no TOML file says it."""

    name: str | None = option(
        None, "Name of the model to serve, which you choose: its folder is FOLDER/NAME.", metavar="NAME"
    )
    demo: bool = option(False, "Serve a model that is fed by a built-in stream with drifts.")
    make_key: str | None = option(None, "Make a key with this name, print it, and stop.", metavar="NAME")
    scopes: tuple[str, ...] = option(
        ("predict", "learn"),
        "Scopes of this key, separated by commas: predict, learn, read, operate, admin.",
        commas=True,
    )
    trust_config: bool = option(False, "Let the TOML file name classes of other packages to import.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """Where the service listens and keeps its models."""

    host: str = option("127.0.0.1", "Address to listen on; any other than this machine itself needs keys.")
    port: int = option(8470, "Port to listen on; 0 takes a free one.", at_least=0)
    address: str | None = option(
        None, "Address at which other replicas reach this one.  [default: that of host and port]", metavar="URL"
    )
    folder: StrPath = option("models", "Folder with a folder for each model.", metavar="FOLDER")
    log_level: LogLevel = option("info", "Level of the log on standard error.", choices=get_args(LogLevel))

    def check(self) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        if self.port > LAST_PORT:
            raise OptionError(Option("port"), f" must be from 0 to {LAST_PORT}; got {self.port}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedOptions:
    """What a served model predicts, and how it learns. The first start fixes it in the folder of the model."""

    label: str = option(
        "", "Column of labels in rows to learn, and in labels by id.  [default: none]", metavar="COLUMN"
    )
    id: str | None = option(
        None,
        "Column of ids, by which labels find their rows.  [default: that of the run of --from, or id]",
        metavar="COLUMN",
    )
    start_from: StrPath | None = option(
        None, "Begin with the model of this finished run, and read rows as it did.", flag="--from", metavar="RUN"
    )
    task: str = option("auto", "binary, multiclass, regression, or auto to let the first labels decide.")
    model: str | None = option(
        None, "The algorithm, as `--model` of driftsurf run.  [default: recommended]", runs_code="model"
    )
    learner: str | None = option(None, "Learner, as of driftsurf run.  [default: by the task]", runs_code="learner")
    parameters: Mapping[str, Any] = option(
        {},
        "Parameter of the model; can be repeated.",
        flag="--set",
        metavar="NAME=VALUE",
        pairs=True,
        parse=parse_value,
    )
    seed: int = option(0, "Seed of the model.", at_least=0)
    batch_size: int | None = option(
        None, "Labelled rows of a time step.  [default: that of the run of --from, or 100]", at_least=1
    )
    smallest_rise: float = option(
        SMALLEST_RISE,
        "Smallest rise of the error that is a drift: a share of rows, or of four times the usual error in regression.",
        at_least=0.0,
    )
    drift_risk: float = option(
        DRIFT_RISK, "Largest probability with which a model without a change reports a drift.", above=0.0
    )
    columns: Mapping[str, str] = option(
        {},
        "Column with its kind: number, boolean, date or text; can be repeated.  [default: the first rows decide]",
        flag="--column",
        metavar="NAME=KIND",
        pairs=True,
    )
    categorical: tuple[str, ...] = option((), "Columns whose numbers are names, separated by commas.", commas=True)
    classes: tuple[Any, ...] = option(
        (), "All classes, separated by commas, if no others may come.", commas=True, parse=parse_label
    )
    max_pending: int = option(
        100_000, "Rows that wait for a label, and labels that wait for a row, at most.", at_least=1
    )
    timeout: float | None = option(None, "Seconds after which a label is too late.  [default: never]", above=0.0)
    log: str | None = option(
        None,
        "Where records are stored, if not in the folder of the model: nats://HOST/STREAM or "
        "postgresql://HOST/DATABASE/TABLE.",
        metavar="ADDRESS",
    )
    on_schema_change: OnSchemaChange = option(
        "fail", "What to do with rows that have more or fewer columns.", choices=get_args(OnSchemaChange)
    )
    date_formats: tuple[str, ...] = option(
        (), "Format of dates besides ISO 8601; can be repeated.", flag="--date-format", repeated=True
    )

    def settings(self) -> ModelSettings:
        """Return what the folder of the model keeps."""
        return ModelSettings(
            label=self.label,
            task=self.task,  # type: ignore[arg-type]  # checked by the settings
            model=self.model,
            learner=self.learner,
            parameters=dict(self.parameters),
            seed=self.seed,
            batch_size=self.batch_size,
            smallest_rise=self.smallest_rise,
            drift_risk=self.drift_risk,
            columns=dict(self.columns),  # type: ignore[arg-type]
            categorical=tuple(self.categorical),
            classes=tuple(self.classes),
            max_pending=self.max_pending,
            timeout=self.timeout,
            start_from=None if self.start_from is None else os.fspath(self.start_from),
        )

    def reading(self) -> ReadingOptions:
        """Return how the values of requests are read."""
        reading = ReadingOptions(on_schema_change=self.on_schema_change, date_formats=tuple(self.date_formats))
        reading.check()
        return reading


SERVE_GROUPS: Final[tuple[OptionGroup, ...]] = (
    OptionGroup("serve", "What to serve", ServeOptions),
    OptionGroup("model", "The model", ServedOptions),
    OptionGroup("service", "Service", ServiceOptions),
    OptionGroup("limits", "Limits", Limits),
)
"""Groups of options of ``driftsurf serve``."""
