"""Plan of a run over tables: its source, encoder, model and trace, put together from options."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf import __version__
from driftsurf.core.abilities import RowBounded, work_of
from driftsurf.core.contracts import Strategy
from driftsurf.core.input import listed
from driftsurf.core.option_fields import options_of
from driftsurf.core.secrets import storable
from driftsurf.data import Source, open_source, polling
from driftsurf.data.column_summary import ColumnSummary, summarise_columns
from driftsurf.data.connectors.plans import PlanLog
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.frame_encoder import FrameEncoder
from driftsurf.data.hints import hints
from driftsurf.data.inferred_options import infer_options, with_inferred
from driftsurf.data.kinds import Kind
from driftsurf.data.label_hints import label_hints
from driftsurf.data.row_encoder import RowEncoder
from driftsurf.data.row_time import check_time, find_time, time_hints
from driftsurf.data.source import Planning
from driftsurf.data.source_reader import SourceReader
from driftsurf.data.sources.files import FileSource
from driftsurf.data.sources.frame import FrameRows, FrameSource
from driftsurf.data.tables import Table, which_columns
from driftsurf.data.target import Target, find_labelled, find_target, is_unread_number
from driftsurf.errors import Message, Option, OptionError, SchemaError, StateError
from driftsurf.evaluation.columns import ColumnMoves
from driftsurf.evaluation.scores import ScoreRecorder
from driftsurf.evaluation.scoring import MOST_CLASSES, TraceRecorder
from driftsurf.evaluation.trace import open_labels
from driftsurf.runs.batch_rows import default_batch_rows
from driftsurf.runs.folder import COLUMNS, SCORES, short_name
from driftsurf.runs.late_batches import LabelPace, LateBatches, LiveBatches
from driftsurf.runs.late_session import LateSession
from driftsurf.runs.options import MAX_PENDING, WAITING, RunOptions
from driftsurf.runs.outputs import check_not_input, files_of
from driftsurf.runs.plan import NO_CHECKPOINTS, RunPlan, Sidecar
from driftsurf.runs.predictions import LabelType, shown_classes
from driftsurf.runs.source import TableBatches
from driftsurf.runs.start import KEPT_ROWS, FinishedRun
from driftsurf.session.default_model import choose_model
from driftsurf.session.model_names import make_strategy, read_model, require_exact_state, settable_options
from driftsurf.session.session import Session
from driftsurf.strategies import DEFAULT_MAX_ROWS
from driftsurf.streams.base import Drift

__all__ = ["plan_tables"]

PLANS, LABEL_PLANS, JOINS = "plans.jsonl", "plans-of-labels.jsonl", "joins.jsonl"
"""Files of a checkpoint folder in which sources of rows and of labels log their plans, and which of them met."""
CHOSEN_ROWS = "batch_size"
"""Entry of what was decided at the beginning: the rows of a time step, if small files need fewer than usual."""
READ_WITH = "reading"
"""Entry of what was decided at the beginning: options of reading that the first rows show."""
MOST_KEPT_BYTES, FEWEST_KEPT = 2**28, 1000
"""Bytes of the rows that each model of a portfolio keeps by default, and the rows that it keeps in any case."""
GUARD = 2.0
"""Factor of the guard against rows that are much larger than usual."""


@dataclass(frozen=True, slots=True)
class _Description:
    """What the trace says about the source."""

    name: str
    classes: tuple[Any, ...]
    drifts: tuple[Drift, ...] = ()


def plan_tables(
    source: str | FrameRows,
    options: RunOptions,
    saved: Mapping[str, Any] | None = None,
    start: FinishedRun | None = None,
) -> RunPlan:
    """Plan a run over a file, a folder, a pattern, standard input, a URL or a frame.

    Parameters
    ----------
    source
        Location of the rows, as :func:`driftsurf.data.open_source` takes it, or the rows of a frame.
    options
        Options of the run.
    saved
        State of the checkpoint from which the run resumes. What the first rows decide is taken from it, so that the
        same run resumes even if its first file is gone.
    start
        The finished run with whose model the run starts; None for a model that has learned nothing.
    """
    return _TablePlanner(source, options, start, resumed=saved is not None).plan(saved)


class _TablePlanner:
    """Makes the parts of a run over tables."""

    def __init__(
        self, source: str | FrameRows, options: RunOptions, start: FinishedRun | None, *, resumed: bool
    ) -> None:
        options.check_tables(str(source))
        self.resumed = resumed
        self.start = start
        self.source = source
        self.options = options
        self.asked_reading = options.reading
        self.asked_rows = options.model.batch_size
        self.key = options.join_column
        self.id = self.key if self.key is not None else options.key_columns.id
        """Column of ids: that by which late labels find their rows, or one that predictions show."""
        self.late = options.has_late_labels
        time, drop = options.tables.time, options.reading.drop
        # Columns that are read because something needs them, and that the model does not see.
        self.hidden = [name for name in (self.id, time) if name is not None and (name in drop or name == self.id)]
        self._start_reading({})
        for option, path in (("predictions", options.output.predictions), ("metrics", options.watch.metrics)):
            if path is not None:
                check_not_input(option, path, files_of(self.rows.source, self.labels.source))

    def plan(self, saved: Mapping[str, Any] | None) -> RunPlan:
        """Make the plan of a new run, or of one that resumes."""
        remarks: list[Message] = []
        decided, columns = self._decide(remarks) if saved is None else _decided_before(saved["about"])
        if saved is not None:
            self._read_with(decided)
        target = Target.from_json(decided["target"])
        advice = () if saved is not None or self.start is not None else (*remarks, *self._hints(target))
        self._choose_batch_rows(decided, new=saved is None and self.start is None)
        if target.task == "regression":
            self.rows.numbers = self.labels.numbers = target.column
        named, why_model = self._choose_model(saved)
        model = replace(self.options.model, model=named)
        options = self.options = replace(self.options, model=model)
        strategy = make_strategy(named, model.learner, target.task, model.all_parameters(), seed=model.seed)
        kept = self._kept_rows(decided, strategy)
        if kept is not None:
            strategy = make_strategy(
                named, model.learner, target.task, {**model.all_parameters(), KEPT_ROWS: kept}, seed=model.seed
            )
        if options.output.checkpoint is not None:
            require_exact_state(strategy, named, model.learner, target.task, NO_CHECKPOINTS)
        can_be_sparse = strategy.learner.capabilities.sparse
        encoder = TableEncoder(categorical=options.reading.categorical, sparse="auto" if can_be_sparse else False)
        if self.start is not None:
            encoder = self.start.frames.encoder
        encoded = RowEncoder(encoder, target, self.hidden, decided["time"])
        classes = () if target.task == "regression" else open_labels(decided["classes"])
        shown = shown_classes(strategy.learner, classes) if options.output.all_classes else ()
        name = short_name(str(self.source))
        given: dict[str, Any] = {
            "guard": GUARD,
            "owner": named,
            # The encoder of a checkpoint replaces this one.
            "categories": lambda: encoded.encoder.categories(),
            "names": lambda: encoded.encoder.feature_names(),
            "monitor": options.watch.monitor(regression=target.task == "regression"),
        }
        batches: TableBatches | LateBatches
        session: Session | LateSession
        sidecars: dict[str, Sidecar] = {}
        if self.late:
            batches = self._late_batches(encoded)
            steps = Session(strategy, batch_size=options.batch_rows, **given)
            session = LateSession(
                steps, max_pending=self._max_pending, timeout=options.labels.timeout, shown_classes=shown
            )
        else:
            batches = TableBatches(self.rows, encoded, id=self.id)
            session = Session(strategy, batch_size=None, **given)
            sidecars[COLUMNS] = ColumnMoves(
                session,
                names=lambda: encoded.encoder.feature_names(),
                calendar=lambda: encoded.encoder.calendar_columns(),
            )
        # The first batch is predicted by a model that has learned nothing; where labels are late, it is not scored.
        warmup = 0 if self.late or self.start is not None else 1
        learning = session.session if isinstance(session, LateSession) else session
        if self.start is not None and saved is None:
            self.start.restore(learning)
        sidecars[SCORES] = ScoreRecorder(lambda: learning.targets.labels, warmup)
        return RunPlan(
            name=name,
            source=batches,
            models={named: session},
            recorder=self._recorder(name, classes, encoded, warmup),
            about=self._about(decided, columns, strategy),
            label_type=decided["label_type"],
            shown_classes=shown,
            sidecars=sidecars,
            keeps_bad_rows=options.reading.on_bad_row != "fail",
            has_ids=self.id is not None,
            follows=options.tables.follow,
            continues=self.start is not None,
            columns=columns,
            why_model=why_model,
            batch_rows=self._batch_rows,
            kept_rows=kept,
            frames=lambda: FrameEncoder(
                encoded.encoder, (target.column, *self.hidden, *options.reading.drop), options.reading
            ),
            hints=advice,
        )

    def _late_batches(self, encoded: RowEncoder) -> LateBatches:
        if not self.live:
            return LateBatches(self.rows, self.labels, encoded, key=self.key, pace=self._pace())
        output, log = self.options.output, None
        if output.checkpoint_path is not None:
            log = PlanLog(output.checkpoint_path / JOINS, output.checkpoints_kept)
            if self.resumed:
                log.load()
            else:
                log.clear()
        return LiveBatches(self.rows, self.labels, encoded, key=self.key, log=log)

    @property
    def _batch_rows(self) -> int | None:
        """Rows of a step; None if steps are cut by time alone."""
        timed = self.options.tables.batch_seconds is not None
        return None if timed and self.options.model.batch_size is None else self.options.batch_rows

    def _choose_batch_rows(self, decided: dict[str, Any], *, new: bool) -> None:
        """Fix the rows of a time step if the user names none and files are small.

        The files of a run that resumes may have grown, and those of one that starts with a model are others: such runs
        keep the number. The first rows were read already, as many as decide about columns and label in any run.
        """
        options = self.options
        if self.asked_rows is not None or options.tables.batch_seconds is not None or self.late:
            decided.pop(CHOSEN_ROWS, None)
            return
        if new:
            size = default_batch_rows(self.rows.source)
            decided |= {} if size in (None, options.batch_rows) else {CHOSEN_ROWS: size}
        if CHOSEN_ROWS in decided:
            self.options = replace(options, model=replace(options.model, batch_size=decided[CHOSEN_ROWS]))
            self._start_reading(self.kinds)

    def _kept_rows(self, decided: dict[str, Any], strategy: Strategy) -> int | None:
        """Return how many rows the model keeps if the table is so wide that it keeps fewer than usual; else None.

        The number that the user names takes precedence, and so does that of a model without a limit.
        """
        known = settable_options(type(strategy))
        of_name = read_model(str(self.options.model.model), self.options.model.learner).strategy.options
        named = KEPT_ROWS in {**of_name, **self.options.model.all_parameters()}
        unlimited = isinstance(strategy, RowBounded) and strategy.max_rows is None
        if KEPT_ROWS not in known or named or unlimited:
            decided.pop(KEPT_ROWS, None)
        return decided.get(KEPT_ROWS)

    def _choose_model(self, saved: Mapping[str, Any] | None) -> tuple[str, Message | None]:
        """Return the name of the model and, if it was not named, why it is this one.

        A run that resumes keeps its model, whatever is installed by then.
        """
        asked = self.options.model
        if asked.model is not None:
            return asked.model, None
        if saved is not None:
            return str(json.loads(str(saved["about"]))["model"]), None
        return choose_model(asked.learner, asked.all_parameters())

    def _recorder(self, name: str, classes: tuple[Any, ...], rows: RowEncoder, warmup: int) -> TraceRecorder:
        when = None if rows.time is None else lambda: rows.first_time
        described = _Description(name, classes)
        return TraceRecorder(described, self.options.batch_rows, warmup, time=when, late=self.late)

    def _start_reading(self, kinds: Mapping[str, Kind]) -> None:
        """Open the rows and the labels, with these kinds of columns besides those of the options."""
        self.kinds = kinds
        self.rows = self._reader(self.source)
        arriving = self.options.labels.labels
        self.labels = self.rows
        if self.late:
            self.labels = self._reader(self.source if arriving is None else os.fspath(arriving))
        rows, labels = self.rows.source, self.labels.source
        self.live = self.key is not None and isinstance(rows, Planning) and isinstance(labels, Planning)
        """Whether rows and labels are joined as they come."""
        if self.live:
            assert isinstance(rows, Planning)
            assert isinstance(labels, Planning)
            rows.live = labels.live = True
        elif self.key is not None and self.options.tables.follow:
            raise OptionError(
                *("pass ", Option("follow"), " or ", Option("labels"), ", not both: a growing file is read on its own"),
            )

    def _reader(self, path: str | FrameRows) -> SourceReader:
        source, output = self._open(path), self.options.output
        if isinstance(source, Planning) and output.checkpoint_path is not None:
            name = PLANS if path == self.source else LABEL_PLANS
            kept = output.checkpoints_kept
            source.keep_plans(output.checkpoint_path, keep=kept, resumed=self.resumed, name=name)
        return SourceReader(source, raw=self.options.tables.raw)

    def _open(self, path: str | FrameRows) -> Source:
        """Open the source of rows or of labels, which have other columns than the rows."""
        tables, reading = self.options.tables, self.options.reading
        seconds = tables.batch_seconds
        follow = polling(1.0, idle_seconds=tables.follow_for) if tables.follow else None
        own: dict[str, Any] = {"kinds": self.kinds, "drop": (), "rows": None}
        if path != self.source:
            # Labels are asked for without waiting, as long as rows come.
            own["batch_wait"] = 0.0
            follow = None if follow is None else _on
        else:
            drop = tuple(name for name in reading.drop if name not in (tables.time, self.id))
            own = {"kinds": {**reading.kinds, **self.kinds}, "drop": drop}
        source = open_source(
            path,
            replace(reading, **own),
            batch_size=self._batch_rows,
            batch_seconds=seconds,
            time=None if seconds is None else tables.time,
            follow=follow,
        )
        source.check()
        if isinstance(source, FileSource | FrameSource):
            source.digests = self.options.output.checkpoint is not None
        return source

    def _pace(self) -> LabelPace:
        tables, labels = self.options.tables, self.options.labels
        if tables.batch_seconds is not None and labels.labels is not None:
            return LabelPace(time=tables.time, seconds=tables.batch_seconds)
        return LabelPace(int(labels.delay or 0))

    @property
    def _max_pending(self) -> int:
        asked = self.options.labels.max_pending
        return MAX_PENDING if asked is None else asked

    def _about(self, decided: Mapping[str, Any], columns: ColumnSummary | None, strategy: Strategy) -> str:
        """Return what is run as JSON: a checkpoint resumes only with the same options."""
        options, model = self.options, self.options.model
        about = {
            "driftsurf": __version__,
            **options_of(self.asked_reading),
            "source": storable(str(self.source)),
            **{name: storable(value) for name, value in asdict(options.tables).items() if name not in WAITING},
            **storable(asdict(options.labels)),
            "id": options.key_columns.id,
            "max_pending": self._max_pending,
            **{name: getattr(model, name) for name in ("task", "model", "learner")},
            "batch_size": self.asked_rows,
            "seed": model.seed,
            "start_from": None if model.start_from is None else storable(str(model.start_from)),
            "parameters": model.all_parameters(),
            **options.watch.of_drifts,
            "made": {
                "strategy": type(strategy).__name__,
                "learner": type(strategy.learner).__name__,
                "work": work_of(strategy),
            },
            "decided": decided,
            "columns": columns,
        }
        return json.dumps(about, indent=2) + "\n"

    def _hints(self, target: Target) -> tuple[Message, ...]:
        first = self.rows.peek()
        table = first.without(*self.hidden)
        if self.options.labels.labels is None:
            table = table.select(~target.missing(table))
            y, regression = target.read(table), target.task == "regression"
            found = hints(self.rows.source, table, target.column, y, regression=regression, read=[first])
        else:
            labels = Table({target.column: self.labels.peek()[target.column]})
            read = [first, self.labels.peek()]
            found = hints(self.rows.source, table, target.column, read=read)
            found += hints(self.labels.source, labels, target.column, read=read)
            y = target.read(labels.select(~target.missing(labels)))
        found += label_hints(target, self.options.model.task, y)
        asked = self.options.tables
        cuts = asked.batch_seconds is not None
        return *found, *time_hints(self.rows.source, first, asked.time, cuts=cuts)

    def _read_with(self, decided: Mapping[str, Any]) -> None:
        """Read with the options that the first rows have shown, where the user named no others."""
        reading = with_inferred(self.asked_reading, decided.get(READ_WITH, {}))
        if reading != self.options.reading:
            self.options = replace(self.options, reading=reading)
            self._start_reading(self.kinds)

    def _infer_reading(self) -> tuple[dict[str, Any], list[Message]]:
        """Read with the options that the first rows, and the labels, leave no doubt about; return these options."""
        found, remarks = dict[str, Any](), list[Message]()
        for labels in (False, True) if self.labels is not self.rows else (False,):
            reader = self.labels if labels else self.rows
            inferred = infer_options(reader.source, reader.peek(), label=self.options.tables.label)
            if inferred.remark is not None:
                found |= inferred.options
                remarks.append(inferred.remark)
                self._read_with({READ_WITH: found})
        return ({READ_WITH: found} if found else {}), remarks

    def _decide(self, remarks: list[Message]) -> tuple[dict[str, Any], ColumnSummary | None]:
        """Return what the first rows decide: the target, the classes to count, the type of labels; and the columns.

        ``remarks`` gets what people should know about it.
        """
        options = self.options
        if self.start is not None:
            decided, columns = _decided_before(self.start.about)
            known = self.start.classes[:MOST_CLASSES]  # also those that appeared later
            self._read_with(decided)
            return decided | {"classes": known}, columns
        label, task = options.tables.label, options.model.task
        read_with, found = self._infer_reading()
        remarks += found
        options = self.options
        if label is not None and is_unread_number(label, task, self.labels.peek(), self.labels.source):
            self._start_reading({label: "number"})
        seen, table = self.rows.peek(), self.labels.peek()
        self._check_columns(seen, table)
        hidden = [] if self.id is None else [self.id]
        target = find_target(label, task, table, hidden=hidden, source=self.labels.source)
        if set(seen.columns) <= {target.column, self.id} and seen.features is None:
            raise SchemaError(
                f"{self.rows.source.name} has no column to learn from besides the label {target.column!r}."
            )
        labelled = find_labelled(
            target,
            task,
            table,
            Message(", or take more rows at a time with ", Option("batch_size")),
        )
        y = target.read(table.select(labelled))
        decided = {
            "target": target.to_json(),
            "classes": [] if target.task == "regression" else np.unique(y).tolist()[:MOST_CLASSES],
            "label_type": _label_type(target, y),
            "time": find_time(seen.without(target.column), options.tables.time),
            **read_with,
        }
        learned = seen.without(target.column, *self.hidden)
        encoder = TableEncoder(categorical=options.reading.categorical).fit(learned)
        kept = max(FEWEST_KEPT, 2 * options.batch_rows, MOST_KEPT_BYTES // encoder.layout.bytes_per_row)
        decided |= {KEPT_ROWS: kept} if kept < DEFAULT_MAX_ROWS else {}
        return decided, summarise_columns(encoder, learned, target, y, [*options.reading.drop, *self.hidden])

    def _check_columns(self, rows: Table, labels: Table) -> None:
        ids = [] if self.id is None else [self.id]
        named = {
            "categorical": list(self.options.reading.categorical),
            "key" if self.options.labels.key is not None else "id": ids,
        }
        named |= {"time": [] if self.options.tables.time is None else [self.options.tables.time]}
        if (time := self.options.tables.time) in rows.columns and time is not None:
            check_time(self.rows.source, rows, time)
        for option, names in named.items():
            unknown = [name for name in names if name not in rows.columns]
            if unknown:
                raise SchemaError(Option(option), f" names {listed(unknown)}; {which_columns(unknown, rows.columns)}.")
        if self.key is not None and self.key not in labels.columns:
            raise SchemaError(
                f"the labels have no column {self.key!r} by which to find their rows; they have "
                f"{listed(list(labels.columns))}."
            )


def _on() -> bool:
    """Return True: a source of labels is followed as long as that of the rows."""
    return True


def _label_type(target: Target, y: npt.NDArray[Any]) -> LabelType:
    if target.task == "regression":
        return "value"
    return {"U": "text", "b": "boolean"}.get(y.dtype.kind, "integer")  # type: ignore[return-value]


def _decided_before(saved: Any) -> tuple[dict[str, Any], ColumnSummary | None]:
    """Return what the first rows decided when a run began, from its description or the JSON text of it."""
    try:
        about = json.loads(saved) if isinstance(saved, str) else saved
        decided: dict[str, Any] = about["decided"]
        known = {name: decided[name] for name in ("target", "classes", "label_type", "time")}
        return known | {name: decided[name] for name in (CHOSEN_ROWS, KEPT_ROWS, READ_WITH) if name in decided}, about[
            "columns"
        ]
    except (KeyError, ValueError, TypeError) as error:
        raise StateError(
            f"the checkpoint does not belong to a run over tables ({error!r}); choose another folder"
        ) from error
