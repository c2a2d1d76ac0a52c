"""The configuration of a service: ``serve.toml``, or options of the command line for a single model."""

from __future__ import annotations

import datetime
import platform
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from driftsurf.core.options import OptionField, OptionGroup, check_bounds, choice, option_fields, options_given, shown
from driftsurf.core.secrets import read_secret
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.data.toml_file import read_toml
from driftsurf.errors import DriftsurfWarning, Option, OptionError
from driftsurf.runs.alerts.rules import AlertOptions, read_alerts
from driftsurf.runs.start import FinishedRun
from driftsurf.service.blueprint import Blueprint
from driftsurf.service.broker_thread import LEAST_KEYS, SinkOptions, SourceOptions
from driftsurf.service.http.security import ApiKey, digest_of
from driftsurf.service.settings import Keeping, Limits, ServedOptions, ServiceOptions
from driftsurf.service.telemetry import TelemetryOptions, read_telemetry
from driftsurf.service.wire.formats import ModelFormats
from driftsurf.session.model_names import imported_class

DEFAULT_ID = "id"
"""Column of ids, unless an option or a run names another."""


def formats_of(blueprint: Blueprint, options: ServedOptions) -> ModelFormats:
    """Return how the rows of a model are read; OptionError if its column of ids is one that it learns from."""
    start, label, reading = blueprint.start, blueprint.settings.label, options.reading()
    run_id = None if start is None else start.id
    id = (run_id or DEFAULT_ID) if options.id is None else options.id
    if id and id in blueprint.settings.columns:
        raise OptionError(
            Option("id"), f" is {id!r}, which is a column that the model {blueprint.name!r} learns from; name another"
        )
    hints = (
        {} if id == DEFAULT_ID else {DEFAULT_ID: f"ids are in the column {id!r}; driftsurf serve --id names another"}
    )
    if start is None:
        return ModelFormats(id, label, reading, hints=hints)
    if run_id not in (None, id):
        hints[str(run_id)] = f"the run had its ids there: serve it with --id {run_id}"
    left_out = tuple(name for name in start.frames.ignored if name not in (id, label, run_id))
    return ModelFormats(id, label, _reading(start, reading), left_out, hints)


def _reading(start: FinishedRun, given: ReadingOptions) -> ReadingOptions:
    """Return how text becomes values: as in the run, unless it is said. Cells of CSV are always between commas."""
    before = ReadingOptions() if start.frames.reading is None else start.frames.reading
    own = ReadingOptions(
        decimal=before.decimal,
        thousands=before.thousands,
        missing=before.missing,
        date_formats=before.date_formats,
        on_schema_change=before.on_schema_change,
    )
    return replace(own, **options_given(given))


T = TypeVar("T")
SERVE_TABLES: Final[tuple[OptionGroup, ...]] = (
    OptionGroup("keeping", "Keeping", Keeping),
    OptionGroup("alerts", "Alerts", AlertOptions),
    OptionGroup("telemetry", "Telemetry", TelemetryOptions),
)
"""Tables of ``serve.toml`` whose options the command line does not have."""
OLD_MODEL = "strategy"
"""Name of the option ``model`` of a served model until version 0.2."""
PARTS = "challengers", "sources", "sinks"
"""Tables in the table of a model."""
KEY_OPTIONS = "name", "sha256", "key", "scopes", "models", "rate", "burst", "expires"


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A model that is served."""

    options: ServedOptions
    challengers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sources: Mapping[str, SourceOptions] = field(default_factory=dict)
    sinks: Mapping[str, SinkOptions] = field(default_factory=dict)

    def check(self, name: str) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        check_bounds(self.options)
        self.options.settings().check()
        self.options.reading()
        parts: Mapping[str, Mapping[str, SourceOptions | SinkOptions]] = {"sources": self.sources, "sinks": self.sinks}
        for part, connections in parts.items():
            for own, one in connections.items():
                check_name(f"an entry of models.{name}.{part}", own)
                one.check(f"models.{name}.{part}.{own}")


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """Everything that a service is told."""

    service: ServiceOptions = field(default_factory=ServiceOptions)
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    keys: tuple[ApiKey, ...] = ()
    limits: Limits = field(default_factory=Limits)
    keeping: Keeping = field(default_factory=Keeping)
    alerts: AlertOptions = field(default_factory=AlertOptions)
    telemetry: TelemetryOptions = field(default_factory=TelemetryOptions)

    @property
    def linked_alerts(self) -> AlertOptions:
        """Options of alerts whose links lead to this host and port, unless they name another address.

        >>> ServiceConfig(ServiceOptions(port=9000)).linked_alerts.address
        'http://127.0.0.1:9000'
        """
        host, port = self.service.host, self.service.port
        if self.alerts.address or not port:  # a free port is not known yet
            return self.alerts
        name = platform.node() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
        return replace(self.alerts, address=f"http://{name}:{port}")

    def check(self) -> None:
        """Raise OptionError if something has a value that cannot be used."""
        self.service.check()
        check_bounds(self.service)
        check_bounds(self.limits)
        self.keeping.check()
        if not self.models:
            raise OptionError("there is no model to serve; name one with --name NAME, or as [models.NAME]")
        for name, model in self.models.items():
            check_name("a model", name)
            model.check(name)
            if model.sources and self.keeping.idempotency_keys < LEAST_KEYS:
                raise OptionError(
                    f"idempotency-keys of [keeping] is {self.keeping.idempotency_keys:,}; a model with sources needs "
                    f"{LEAST_KEYS:,}"
                )
        names = [key.name for key in self.keys]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise OptionError(f"two keys are called {twice!r}; rename one")
        for key in self.keys:
            key.check()


def check_name(what: str, name: str) -> None:
    """Raise OptionError if something cannot have a name, which is that of its folder, and a part of an address."""
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    if not name or len(name) > 100 or not set(name) <= allowed or name[0] == ".":
        raise OptionError(
            f"{what} cannot be called {shown(name)}; use 1 to 100 letters, digits, '-', '_' and '.', and no '.' first"
        )


def read_config(path: Path, *, trusted: bool = False) -> ServiceConfig:
    """Return the configuration in a TOML file.

    Parameters
    ----------
    path
        The file.
    trusted
        Whether it may name classes of other packages to import.
    """
    table = read_toml(path)
    service = {one.toml_name for one in option_fields(ServiceOptions).values()}
    parts = ("models", "keys", "limits", "keeping", "alerts", "telemetry")
    for name in table:
        choice(f"{path}: option", name, (*sorted(service), *parts))
    models = _tables(path, "models", table.get("models", {}))
    config = ServiceConfig(
        service=from_table(ServiceOptions, {k: v for k, v in table.items() if k in service}, str(path)),
        models={name: _model(f"{path}: models.{name}", one, trusted=trusted) for name, one in models.items()},
        keys=_keys(path, table.get("keys", [])),
        limits=from_table(Limits, _table(path, "limits", table.get("limits", {})), f"{path}: limits"),
        keeping=_keeping(path, _table(path, "keeping", table.get("keeping", {}))),
        alerts=read_alerts(_table(path, "alerts", table.get("alerts", {}))),
        telemetry=read_telemetry(_table(path, "telemetry", table.get("telemetry", {}))),
    )
    config.check()
    return config


def _table(path: Path, name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise OptionError(f"{path}: {name} must be a table, [{name}]; got {shown(value)}")
    return value


def _tables(path: Path | str, name: str, value: Any) -> Mapping[str, Mapping[str, Any]]:
    if not isinstance(value, Mapping) or not all(isinstance(one, Mapping) for one in value.values()):
        raise OptionError(f"{path}: {name} must be tables, [{name}.NAME]; got {shown(value)}")
    return value


def _model(where: str, table: Mapping[str, Any], *, trusted: bool) -> ModelConfig:
    challengers = _tables(where, "challengers", table.get("challengers", {}))
    for name, one in challengers.items():
        for option in one:
            choice(f"{where}.challengers.{name}: option", option, ("model", "learner", "parameters", "seed"))
    own = {name: value for name, value in table.items() if name not in PARTS}
    if OLD_MODEL in own and "model" not in own:
        warnings.warn(
            f"{where}: {OLD_MODEL} is called model; the old name works until version 0.4",
            DriftsurfWarning,
            stacklevel=2,
        )
        own["model"] = own.pop(OLD_MODEL)
    options = from_table(ServedOptions, own, where, others=PARTS)
    named = [
        (options.model, options.learner),
        *((one.get("model"), one.get("learner")) for one in challengers.values()),
    ]
    foreign = next((found for model, learner in named if (found := imported_class(model, learner))), None)
    if foreign and not trusted:
        raise OptionError(
            f"{where} names {foreign}, which is not part of driftsurf. If you trust this file, add --trust-config"
        )
    return ModelConfig(
        options,
        challengers,
        _options(SourceOptions, where, "sources", table.get("sources", {})),
        _options(SinkOptions, where, "sinks", table.get("sinks", {})),
    )


def _options(kind: type[T], where: str, name: str, value: Any) -> dict[str, T]:
    return {own: from_table(kind, one, f"{where}.{name}.{own}") for own, one in _tables(where, name, value).items()}


def _keys(path: Path, value: Any) -> tuple[ApiKey, ...]:
    """Return the keys in a list of tables, or in the TOML file that a text names."""
    if isinstance(value, str):
        path = Path(value)
        table = read_toml(path)
        for name in table:
            choice(f"{path}: option", name, ("keys",))
        value = table.get("keys", [])
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise OptionError(f"{path}: keys must be a list of tables, [[keys]]; got {type(value).__name__}")
    return tuple(_key(f"{path}: keys", one) for one in value)


def _key(where: str, table: Mapping[str, Any]) -> ApiKey:
    for option in table:
        choice(f"{where}: option", option, KEY_OPTIONS)
    name: Any = table.get("name")
    if not isinstance(name, str):
        raise OptionError(f"{where}: every key needs a name")
    if ("sha256" in table) == ("key" in table):
        raise OptionError(f'{where}: {name!r} needs either sha256, or key = "file:PATH" or "env:NAME"')
    digest = table["sha256"] if "sha256" in table else digest_of(read_secret(f"key of {name!r}", table["key"]).value)
    rate: Any = table.get("rate")
    burst: Any = table.get("burst", 100)
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int | float)):
        raise OptionError(f"{where}: rate of {name!r} must be a number; got {shown(rate)}")
    if type(burst) is not int:
        raise OptionError(f"{where}: burst of {name!r} must be a whole number; got {shown(burst)}")
    return ApiKey(
        name,
        str(digest),
        _texts(where, name, "scopes", table.get("scopes", [])),  # type: ignore[arg-type]  # checked by the key
        _texts(where, name, "models", table.get("models", ["*"])),
        None if rate is None else float(rate),
        burst,
        _moment(where, name, table.get("expires")),
    )


def _moment(where: str, name: str, value: Any) -> datetime.datetime | None:
    if value is None:
        return None
    if isinstance(value, datetime.datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC)
    raise OptionError(f"{where}: expires of {name!r} must be a date such as 2027-01-31; got {shown(value)}")


def _texts(where: str, name: str, option: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise OptionError(f"{where}: {option} of {name!r} must be a list of text; got {shown(value)}")
    return tuple(value)


def _keeping(path: Path, table: Mapping[str, Any]) -> Keeping:
    names = {one.toml_name: name for name, one in option_fields(Keeping).items()}
    for name in table:
        choice(f"{path}: option of [keeping]", name, tuple(names))
    return Keeping(**{names[name]: value for name, value in table.items()})


def from_table(kind: type[T], table: Mapping[str, Any], where: str, others: tuple[str, ...] = ()) -> T:
    """Return the options of a dataclass from a table of TOML; OptionError for a name or a type that is wrong."""
    known = {one.toml_name: (name, one) for name, one in option_fields(kind).items()}
    values: dict[str, Any] = {}
    for name, value in table.items():
        choice(f"{where}: option", name, (*known, *others))
        field_name, one = known[name]
        values[field_name] = _typed(f"{where}: {name}", one, value)
    return kind(**values)


def _typed(where: str, one: OptionField, value: Any) -> Any:
    """Return a value of TOML as the dataclass takes it; OptionError if it has another type."""
    if one.pairs:
        if not isinstance(value, Mapping):
            raise OptionError(f"{where} must be a table; got {shown(value)}")
        return dict(value)
    if one.repeated or one.commas:
        if not isinstance(value, list):
            raise OptionError(f"{where} must be a list; got {shown(value)}")
        return tuple(value)
    wanted = _TYPES.get(one.annotation.replace(" | None", ""), (str,))
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise OptionError(f"{where} must be {_WORDS[wanted[0]]}; got {shown(value)}")
    return value


_TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (float, int), "bool": (bool,)}
_WORDS: dict[type, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
