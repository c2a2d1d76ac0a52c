"""Options of ``driftsurf serve``, each defined once: the command line, ``serve.toml`` and the docs follow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, get_args

from driftsurf.core.drifts import DRIFT_RISK, SMALLEST_RISE
from driftsurf.core.option_fields import option, parse_label, parse_value
from driftsurf.data.reading_options import OnSchemaChange, ReadingOptions
from driftsurf.errors import Option, OptionError
from driftsurf.runs.options import OptionGroup
from driftsurf.runs.watch_options import LAST_PORT, LogLevel
from driftsurf.service.http.limits import Limits
from driftsurf.service.settings import ModelSettings

__all__ = ["SERVE_GROUPS", "ServeOptions", "ServedOptions", "ServiceOptions"]

StrPath: TypeAlias = str | os.PathLike[str]


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
