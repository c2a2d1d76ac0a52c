"""Types of the answers in JSON, from which the OpenAPI document is made, too."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import msgspec

from driftsurf.core.drifts import Drift, InputChange
from driftsurf.service.contract import Judgement, ModelStatus
from driftsurf.service.wire.rows import RowFault


class PredictionsAnswer(msgspec.Struct, omit_defaults=True):
    """Predictions in the order of the rows that were taken."""

    model: str
    version: int
    """Number of time steps that the model had learned; 0 if it has learned nothing."""
    predictions: list[Any]
    probabilities: list[float | None] | dict[str, list[float]] | None = None
    """Probability of each prediction, or of each class with ``probabilities=all``; absent if the model has none."""
    ids: list[str] | None = None
    position: int | None = None
    """Number of the record with these rows; absent for rows without ids, which are not kept."""
    repeated: bool = False
    """Whether the same request was answered before, under the same idempotency key."""
    skipped: int = 0
    bad_rows: list[RowFault] | None = None
    guess: bool = False
    """Whether the model has learned nothing yet, and the predictions are the most frequent label, or the mean, of those
    that have come; null before the first one."""


class Taken(msgspec.Struct, omit_defaults=True):
    """Acknowledgement: the rows or labels are on the storage device and will be learned exactly once."""

    model: str
    count: int
    position: int
    """Number of the last record; the model has learned it when ``applied`` is above it."""
    durability: str
    repeated: bool = False
    parts: int = 1
    """Number of records of a streamed body."""
    skipped: int = 0
    bad_rows: list[RowFault] | None = None


class OrderAnswer(msgspec.Struct):
    """The outcome of an order."""

    model: str
    order: str
    done: bool
    reason: str
    """Short code of why it was refused, "not-yet" if it is carried out later; empty if it was carried out."""
    text: str
    position: int | None = None
    """Number of the record of the order; null if it was not carried out yet."""
    line: int | None = None
    """Line of the journal with the outcome; null if it was not carried out yet."""


@dataclass(frozen=True, slots=True)
class DriftInfo(Drift):
    """A drift of the model, and the same in words."""

    text: str = ""


class ModelInfo(msgspec.Struct, kw_only=True):
    """A served model at one moment."""

    name: str
    verdict: dict[str, str]
    """``status``, one of fine, drifting, trivial and waiting, and ``text``: whether the data drifted, when and why, and
    how good the model is beside a rule without a model."""
    drifts: list[DriftInfo]
    """The newest drifts, 100 at most, the newest one last."""
    changes: list[InputChange]
    """The newest moves of the inputs that did no harm, 100 at most, the newest one last."""
    phase: str
    """recovering, ready, failed, closing or closed."""
    failure: str
    model: str
    task: str | None
    label: str
    id: str
    """Column of ids, by which late labels find their rows."""
    version: int
    """Steps that the leading model has learned, those of the run with which it began included."""
    steps: int
    """Steps that were learned here."""
    pinned: bool
    applied: int
    logged: int
    durable: int
    lag_rows: int
    lag_seconds: float
    log_bytes: int
    free_bytes: int
    checkpoint: int
    rows: int
    labels: dict[str, Any]
    early: int
    """Labels that wait for their row."""
    last_label: float | None
    error: float | None
    """Error of the answers in the last five steps, or in as many as have 500 rows."""
    error_rows: int
    """Rows that ``error`` and ``trivial_error`` are about."""
    usual_error: float | None
    """Error of the answers in all steps so far."""
    trivial_error: float | None
    """Error of a rule without a model, the most frequent class or the mean, on the same rows as ``error``."""
    metric: str
    """What these errors are: "error", the share of wrong rows, or "root mean squared error"."""
    rare_class: dict[str, Any] | None
    """If labels are imbalanced, how well the rare class is found in all steps so far: label, share, recall, precision,
    average_precision; else null."""
    restore_points: list[dict[str, Any]]
    challengers: list[dict[str, Any]]
    connections: list[dict[str, Any]]
    """Sources and sinks: name, direction, kind, address, state, rows, bad_rows, lag, reconnects, error."""
    columns: list[dict[str, str]]
    classes: list[Any]
    batch_size: int
    """Labelled rows of a step."""
    in_step: int
    """Labelled rows of the next step that have come."""


class Models(msgspec.Struct):
    """The models: the state of those that the key may read, and the names of all with which it may do something."""

    models: list[ModelInfo]
    scopes: dict[str, list[str]]
    """What the key may do with each model, by name: predict, learn, read, operate, admin."""


def model_info(
    status: ModelStatus, judged: Judgement, columns: list[dict[str, str]], classes: list[Any], id: str
) -> ModelInfo:
    """Return the state of a model as plain values; numbers that are not known yet are null in JSON."""
    values = {name: getattr(status, name) for name in _SAME}
    return ModelInfo(
        **values,
        verdict={"status": judged.verdict.status, "text": judged.verdict.text},
        drifts=[
            DriftInfo(**{field.name: getattr(one, field.name) for field in fields(Drift)}, text=one.describe())
            for one in judged.drifts
        ],
        changes=list(judged.changes),
        id=id,
        rare_class=None if status.rare is None else _plain(status.rare),
        labels={**_plain(status.labels), "waiting": status.labels.waiting},
        restore_points=[_plain(one) for one in status.restore_points],
        challengers=[_plain(one) for one in status.challengers],
        connections=[_plain(one) for one in status.connections],
        columns=columns,
        classes=classes,
    )


_OWN = (
    "verdict",
    "drifts",
    "changes",
    "id",
    "labels",
    "rare_class",
    "restore_points",
    "challengers",
    "connections",
    "columns",
    "classes",
)
_SAME = tuple(name for name in ModelInfo.__struct_fields__ if name not in _OWN)
"""Entries that are those of the status."""


def _plain(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(value, str_keys=True)
    return found
