"""A run over tables: source, encoder, model and trace put together from options."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from driftsurf import __version__
from driftsurf.assembly.models import make_strategy, refuse_inexact
from driftsurf.encoding import TableEncoder
from driftsurf.errors import OptionError, SchemaError, StateError
from driftsurf.evaluation.columns import ColumnMoves
from driftsurf.evaluation.records import COLUMNS
from driftsurf.evaluation.scoring import TraceRecorder
from driftsurf.evaluation.trace import OTHER
from driftsurf.runtime.delayed import LabelCounts
from driftsurf.runtime.feed import STANDARD_INPUT, Feed
from driftsurf.runtime.late import DelayedSession, LateSource, Pace
from driftsurf.runtime.predictions import LabelType
from driftsurf.runtime.run import Sidecar
from driftsurf.runtime.session import Session
from driftsurf.runtime.table_source import Encoded, TableSource, kept_rows
from driftsurf.runtime.target import Target, find_target
from driftsurf.sources import Dialect, Source, polling
from driftsurf.streams.base import Drift
from driftsurf.tables import Kind
from driftsurf.validation import listed

__all__ = ["Assembly", "TableSettings", "assemble"]

MOST_COUNTED = 50
"""Of more classes in the first batch than this the trace counts the others together."""
USUAL_BATCH = 1000


@dataclass(frozen=True, slots=True)
class TableSettings:
    """All that says what a run over tables does; the command line has an option for each."""

    source: str
    label: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    kind: Mapping[str, Kind] = field(default_factory=dict)
    batch_size: int | None = None
    """None: 1,000, or with ``batch_seconds`` as many as come."""
    batch_seconds: float | None = None
    time: str | None = None
    format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    """None: UTF-8."""
    task: str = "auto"
    model: str = "driftsurf"
    learner: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    follow: bool = False
    follow_for: float | None = None
    """Seconds without a row after which a followed file has ended; None for never."""
    on_schema_change: Literal["fail", "ignore-added", "fill-removed"] = "fail"
    on_bad_row: Literal["fail", "skip"] | int = "fail"
    raw: bool = True
    """Whether bad rows are kept as they stand there."""
    labels: str | None = None
    key: str | None = None
    delay: int | None = None
    max_pending: int = 100_000
    timeout: float | None = None
    seed: int = 0

    @property
    def late(self) -> bool:
        """Whether labels come late."""
        return self.labels is not None or self.delay is not None

    def check(self) -> None:
        """Raise OptionError if options do not go together."""
        if (self.labels is None) != (self.key is None):
            raise OptionError(f"labels is {self.labels!r} and key is {self.key!r}; give both or neither")
        if self.late and self.labels is None and (self.source == STANDARD_INPUT or self.follow):
            raise OptionError("delay reads the source twice, which neither standard input nor a growing file allows")
        if self.delay is not None and self.labels is not None and self.batch_seconds is not None:
            raise OptionError("delay and batch_seconds are both given; labels of a file arrive by batches or by time")
        if self.follow and self.labels is not None:
            raise OptionError("follow and labels are both given; a growing file is read on its own")
        if self.labels == STANDARD_INPUT:
            raise OptionError("labels is '-'; standard input can be the source alone")
        if self.follow_for is not None and not self.follow:
            raise OptionError("follow_for is for a file that is followed; give follow as well")
        if self.time is not None and self.batch_seconds is None:
            raise OptionError(
                f"time is {self.time!r} and batch_seconds is None; give the length of a batch in seconds too"
            )
        if self.label is not None and self.label in self.drop:
            raise OptionError(f"drop names the label {self.label!r}; leave it out of drop")
        self.files(self.source).check()

    def files(self, path: str) -> Source:
        """A source of these options."""
        seconds = self.batch_seconds
        size = USUAL_BATCH if self.batch_size is None and seconds is None else self.batch_size
        return Source(
            path,
            format=self.format,
            batch_size=size,
            batch_seconds=seconds,
            time=None if seconds is None else self.time,
            drop=[name for name in self.drop if name not in (self.time, self.key)] if path == self.source else (),
            kinds=self.kind if path == self.source else {},
            dialect=Dialect(delimiter=self.delimiter, encoding=self.encoding or "utf-8"),
            on_bad_row=self.on_bad_row,
            on_schema_change=self.on_schema_change,
            follow=polling(1.0, idle_seconds=self.follow_for) if self.follow else None,
        )


@dataclass(frozen=True, slots=True)
class _Described:
    name: str
    classes: tuple[Any, ...]
    drifts: tuple[Drift, ...] = ()


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts of a run."""

    name: str
    """Of the source, short."""
    model: str
    source: TableSource | LateSource
    session: Session | DelayedSession
    recorder: TraceRecorder
    label_type: LabelType
    about: str

    @property
    def beside(self) -> dict[str, Sidecar]:
        """What is written beside journal and trace: how columns moved, unless labels come apart from their rows."""
        if isinstance(self.session, DelayedSession) or not isinstance(self.source, TableSource):
            return {}
        encoded = self.source.encoded
        return {COLUMNS: ColumnMoves(self.session, names=lambda: encoded.encoder.feature_names())}

    @property
    def late_counts(self) -> LabelCounts | None:
        """What became of rows and labels, where labels come late."""
        return self.session.delayed.counts if isinstance(self.session, DelayedSession) else None


def assemble(settings: TableSettings, saved: Mapping[str, Any] | None = None, *, exact: bool = False) -> Assembly:
    """Put a run together.

    What the first rows decide is taken from ``saved``, the state of a checkpoint, if there is one. ``exact`` asks for a
    model that can be saved.
    """
    settings.check()
    rows = Feed(settings.files(settings.source), raw=settings.raw)
    labels = rows
    if settings.late:
        labels = Feed(settings.files(settings.labels or settings.source), raw=settings.raw)
    decided = _decide(settings, rows, labels) if saved is None else _decided_before(saved)
    target, classes = Target.from_json(decided["target"]), tuple(decided["classes"])
    strategy = make_strategy(settings.model, settings.learner, target.task, settings.parameters, seed=settings.seed)
    can = strategy.learner.capabilities
    if exact:
        why = "so a run with it has no checkpoints; leave --checkpoint out"
        refuse_inexact(strategy, settings.model, settings.learner, target.task, why)
    hidden = [name for name in (settings.key, settings.time) if name in settings.drop or name == settings.key]
    encoder = TableEncoder(categorical=settings.categorical, sparse="auto" if can.sparse else False)
    encoded = Encoded(encoder, target, [name for name in hidden if name is not None])
    source: TableSource | LateSource = TableSource(rows, encoded)
    session: Session | DelayedSession = Session(strategy, batch_size=None, guard=2.0, owner=settings.model)
    if settings.late:
        pace = Pace(settings.delay or 0)
        if settings.batch_seconds is not None and settings.labels is not None:
            pace = Pace(time=settings.time, seconds=settings.batch_seconds)
        source = LateSource(rows, labels, encoded, key=settings.key, pace=pace)
        steps = Session(strategy, batch_size=_batch_rows(settings), guard=2.0, owner=settings.model)
        session = DelayedSession(steps, max_pending=settings.max_pending, timeout=settings.timeout)
    name = short_name(settings.source)
    return Assembly(
        name,
        settings.model,
        source,
        session,
        TraceRecorder(_Described(name, classes), _batch_rows(settings), untaught=0 if settings.late else 1),
        decided["label_type"],
        json.dumps({"driftsurf": __version__, **asdict(settings), "decided": decided}, indent=2) + "\n",
    )


def short_name(path: str) -> str:
    """What a source is called: its file or folder without endings.

    >>> short_name("data/elec2.csv.gz"), short_name("-"), short_name("logs/2007-*.csv")
    ('elec2', 'stdin', '2007')
    """
    if path == STANDARD_INPUT:
        return "stdin"
    name = Path(os.path.normpath(path)).name.partition(".")[0]
    return "".join(letter for letter in name if letter.isalnum() or letter in "-_").strip("-_") or "tables"


def _batch_rows(settings: TableSettings) -> int:
    return USUAL_BATCH if settings.batch_size is None else settings.batch_size


def _decide(settings: TableSettings, rows: Feed, labels: Feed) -> dict[str, Any]:
    """What the first rows decide: the target, the classes that are counted, the type of labels."""
    seen = rows.first()
    for option, names in (("categorical", settings.categorical), ("key", [settings.key] if settings.key else [])):
        unknown = [name for name in names if name not in seen.columns]
        if unknown:
            raise SchemaError(f"{option} names {listed(unknown)}; the columns are {listed(list(seen.columns))}.")
    table = labels.first()
    if settings.key is not None and settings.key not in table.columns:
        raise SchemaError(
            f"the labels have no column {settings.key!r} to be joined by; they have {listed(list(table.columns))}."
        )
    target = find_target(settings.label, settings.task, table, hidden=[settings.key] if settings.key else [])
    if set(seen.columns) <= {target.column, settings.key} and seen.features is None:
        raise SchemaError(f"{settings.source} has no column beside the label {target.column!r} to learn from.")
    y = target.read(kept_rows(table, ~target.missing(table)))
    return {
        "target": target.to_json(),
        "classes": _counted(target, y),
        "label_type": _label_type(target, y),
    }


def _counted(target: Target, y: npt.NDArray[Any]) -> list[Any]:
    if target.task == "regression":
        return []
    known = np.unique(y).tolist()[:MOST_COUNTED]
    return known if target.task == "binary" and len(known) == 2 else [*known, OTHER]


def _label_type(target: Target, y: npt.NDArray[Any]) -> LabelType:
    if target.task == "regression":
        return "value"
    return {"U": "text", "b": "boolean"}.get(y.dtype.kind, "integer")  # type: ignore[return-value]


def _decided_before(saved: Mapping[str, Any]) -> dict[str, Any]:
    try:
        decided: dict[str, Any] = json.loads(str(saved["about"]))["decided"]
        return {name: decided[name] for name in ("target", "classes", "label_type")}
    except (KeyError, ValueError, TypeError) as error:
        raise StateError(f"the checkpoint is not one of a run over tables ({error!r}): take another folder") from error
