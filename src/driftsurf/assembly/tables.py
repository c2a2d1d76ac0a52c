"""A run over tables: source, encoder, model and trace put together from options."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf import __version__
from driftsurf.assembly.columns import TakenFor, taken_for
from driftsurf.assembly.models import make_strategy, refuse_inexact
from driftsurf.encoding import TableEncoder
from driftsurf.errors import Option, OptionError, Said, SchemaError, StateError
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
from driftsurf.sources import Reading, Source, hints, polling
from driftsurf.streams.base import Drift
from driftsurf.tables import Table
from driftsurf.validation import listed

__all__ = ["Assembly", "TableSettings", "assemble"]

MOST_COUNTED = 50
"""Of more classes in the first batch than this the trace counts the others together."""
USUAL_BATCH = 1000


@dataclass(frozen=True, slots=True)
class TableSettings(Reading):
    """All that says what a run over tables does; the command line has an option for each."""

    source: str
    label: str | None = None
    drop: tuple[str, ...] = ()
    batch_size: int | None = None
    """None: 1,000, or with ``batch_seconds`` as many as come."""
    batch_seconds: float | None = None
    time: str | None = None
    task: str = "auto"
    model: str = "driftsurf"
    learner: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    follow: bool = False
    follow_for: float | None = None
    """Seconds without a row after which a followed file has ended; None for never."""
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

    @property
    def hidden(self) -> list[str]:
        """Columns that are read and not learnt from."""
        names = [name for name in (self.key, self.time) if name in self.drop or name == self.key]
        return [name for name in names if name is not None]

    def check(self) -> None:
        """Raise OptionError if options do not go together."""
        if (self.labels is None) != (self.key is None):
            raise OptionError(
                Option("labels"), f" is {self.labels!r} and ", Option("key"), f" is {self.key!r}; give both or neither"
            )
        if self.late and self.labels is None and (self.source == STANDARD_INPUT or self.follow):
            raise OptionError(
                Option("delay"), " reads the source twice, which neither standard input nor a growing file allows"
            )
        if self.delay is not None and self.labels is not None and self.batch_seconds is not None:
            raise OptionError(
                *(Option("delay"), " and ", Option("batch_seconds"), " are both given; "),
                "labels of a file arrive by batches or by time",
            )
        if self.follow and self.labels is not None:
            raise OptionError(
                Option("follow"), " and ", Option("labels"), " are both given; a growing file is read on its own"
            )
        if self.labels == STANDARD_INPUT:
            raise OptionError(Option("labels"), " is '-'; standard input can be the source alone")
        if self.timeout is not None and not self.late:
            raise OptionError(
                *(Option("timeout"), " is for labels that come late; give ", Option("labels"), " or ", Option("delay")),
                " as well",
            )
        if self.follow_for is not None and not self.follow:
            raise OptionError(
                Option("follow_for"), " is for a file that is followed; give ", Option("follow"), " as well"
            )
        if self.time is not None and self.batch_seconds is None:
            raise OptionError(
                *(Option("time"), f" is {self.time!r} and ", Option("batch_seconds"), " is not given; "),
                "give the length of a batch in seconds too",
            )
        if self.label is not None and self.label in self.drop:
            raise OptionError(Option("drop"), f" names the label {self.label!r}; leave it out there")
        self.files(self.source).check()

    def files(self, path: str) -> Source:
        """A source of these options."""
        seconds = self.batch_seconds
        size = USUAL_BATCH if self.batch_size is None and seconds is None else self.batch_size
        own: dict[str, Any] = {"kinds": {}}  # labels of their own have other columns
        if path == self.source:
            own = {"drop": [name for name in self.drop if name not in (self.time, self.key)]}
        return self.source_of(
            path,
            batch_size=size,
            batch_seconds=seconds,
            time=None if seconds is None else self.time,
            follow=polling(1.0, idle_seconds=self.follow_for) if self.follow else None,
            **own,
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
    columns: TakenFor | None
    """What the columns were taken for; None where a checkpoint does not know."""
    hints: tuple[Said, ...] = ()
    """Where that may be wrong, and what to do about it."""

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
    decided, columns = _decide(settings, rows, labels) if saved is None else _decided_before(saved)
    target, classes = Target.from_json(decided["target"]), tuple(decided["classes"])
    strategy = make_strategy(settings.model, settings.learner, target.task, settings.parameters, seed=settings.seed)
    can = strategy.learner.capabilities
    if exact:
        why = Said("so a run with it has no checkpoints; leave ", Option("checkpoint"), " out")
        refuse_inexact(strategy, settings.model, settings.learner, target.task, why)
    encoder = TableEncoder(categorical=settings.categorical, sparse="auto" if can.sparse else False)
    encoded = Encoded(encoder, target, settings.hidden)
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
    said = asdict(settings) | {"kind": dict(settings.kind)}
    about = {"driftsurf": __version__, **said, "decided": decided, "columns": columns}
    return Assembly(
        name,
        settings.model,
        source,
        session,
        TraceRecorder(_Described(name, classes), _batch_rows(settings), untaught=0 if settings.late else 1),
        decided["label_type"],
        json.dumps(about, indent=2) + "\n",
        columns,
        () if saved is not None else _hints(settings, rows, labels, target),
    )


def _hints(settings: TableSettings, rows: Feed, labels: Feed, target: Target) -> tuple[Said, ...]:
    said = hints(rows.source, rows.first().without(*settings.hidden), target.column)
    if settings.labels is not None:
        said += hints(labels.source, Table({target.column: labels.first()[target.column]}), target.column)
    return tuple(said)


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


def _decide(settings: TableSettings, rows: Feed, labels: Feed) -> tuple[dict[str, Any], TakenFor]:
    """What the first rows decide: the target, the classes that are counted, the type of labels; the columns."""
    seen = rows.first()
    for option, names in (("categorical", settings.categorical), ("key", [settings.key] if settings.key else [])):
        unknown = [name for name in names if name not in seen.columns]
        if unknown:
            raise SchemaError(
                Option(option), f" names {listed(unknown)}; the columns are {listed(list(seen.columns))}."
            )
    table = labels.first()
    if settings.key is not None and settings.key not in table.columns:
        raise SchemaError(
            f"the labels have no column {settings.key!r} to be joined by; they have {listed(list(table.columns))}."
        )
    hidden = [settings.key] if settings.key else []
    target = find_target(settings.label, settings.task, table, hidden=hidden, source=labels.source)
    if set(seen.columns) <= {target.column, settings.key} and seen.features is None:
        raise SchemaError(f"{settings.source} has no column beside the label {target.column!r} to learn from.")
    y = target.read(kept_rows(table, ~target.missing(table)))
    decided = {
        "target": target.to_json(),
        "classes": _counted(target, y),
        "label_type": _label_type(target, y),
    }
    there = np.ones(len(seen), bool) if settings.late else ~target.missing(seen)
    learnt = (kept_rows(seen, there) if there.any() else seen).without(target.column, *settings.hidden)
    left_out = [*settings.drop, *settings.hidden]
    return decided, taken_for(TableEncoder(categorical=settings.categorical).fit(learnt), learnt, target, y, left_out)


def _counted(target: Target, y: npt.NDArray[Any]) -> list[Any]:
    if target.task == "regression":
        return []
    known = np.unique(y).tolist()[:MOST_COUNTED]
    return known if target.task == "binary" and len(known) == 2 else [*known, OTHER]


def _label_type(target: Target, y: npt.NDArray[Any]) -> LabelType:
    if target.task == "regression":
        return "value"
    return {"U": "text", "b": "boolean"}.get(y.dtype.kind, "integer")  # type: ignore[return-value]


def _decided_before(saved: Mapping[str, Any]) -> tuple[dict[str, Any], TakenFor | None]:
    try:
        about = json.loads(str(saved["about"]))
        decided: dict[str, Any] = about["decided"]
        return {name: decided[name] for name in ("target", "classes", "label_type")}, about.get("columns")
    except (KeyError, ValueError, TypeError) as error:
        raise StateError(f"the checkpoint is not one of a run over tables ({error!r}): take another folder") from error
