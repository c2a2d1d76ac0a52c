"""Settings of a served model: what is served, which its folder fixes, and how it is kept, which may change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Self, TypeAlias

from driftsurf.core.drifts import DRIFT_RISK, SMALLEST_RISE
from driftsurf.core.json_text import parse_json
from driftsurf.core.option_fields import option, option_fields
from driftsurf.core.options import choice, number, whole
from driftsurf.data.kinds import KINDS, Kind
from driftsurf.data.target import TASKS, Task
from driftsurf.errors import Option, OptionError, StateError
from driftsurf.runs.folder import SERVED_CHECKPOINTS, SERVED_SETTINGS
from driftsurf.session.drift_monitor import DriftMonitor

__all__ = ["CHECKPOINTS", "SETTINGS_FILE", "AskedTask", "Keeping", "ModelSettings"]

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

    def check(self) -> None:
        """Raise OptionError if a setting has a value that cannot be used."""
        number("checkpoint_seconds", self.checkpoint_seconds, above=0.0)
        for name, one in option_fields(self).items():
            if one.hint is int:
                whole(name, getattr(self, name), at_least=int(one.at_least or 0))
