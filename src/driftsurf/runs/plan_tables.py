"""Plan of a run over tables: its source, encoder, model and trace, put together from options."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from driftsurf import __version__
from driftsurf.core.abilities import RowBounded, work_of
from driftsurf.core.contracts import Strategy
from driftsurf.core.input import listed
from driftsurf.core.options import options_of
from driftsurf.core.secrets import storable
from driftsurf.data import Source, open_source, polling
from driftsurf.data.advice import ColumnSummary, hints, label_hints, summarise_columns
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.frames import is_table
from driftsurf.data.inferred_options import infer_options, with_inferred
from driftsurf.data.reading_options import STANDARD_INPUT, Kind
from driftsurf.data.row_encoder import (
    FrameEncoder,
    RowEncoder,
    Target,
    check_time,
    find_labelled,
    find_target,
    find_time,
    is_unread_number,
    time_hints,
)
from driftsurf.data.source import Planning, short_name
from driftsurf.data.sources.files import FileSource
from driftsurf.data.sources.frame import FrameRows, FrameSource
from driftsurf.data.tables import Table, which_columns
from driftsurf.errors import DriftsurfError, Message, Option, OptionError, SchemaError, StateError
from driftsurf.evaluation.column_moves import ColumnMoves
from driftsurf.evaluation.scores import ScoreRecorder
from driftsurf.evaluation.scoring import MOST_CLASSES, TraceRecorder
from driftsurf.evaluation.trace import open_labels
from driftsurf.runs.batches import SourceReader, TableBatches
from driftsurf.runs.folder import COLUMNS, SCORES, check_not_input, files_of
from driftsurf.runs.options import GROUPS, MAX_PENDING, WAITING, RunOptions
from driftsurf.runs.plan import KEPT_ROWS, NO_CHECKPOINTS, RunPlan, Sidecar
from driftsurf.runs.predictions import LabelType, shown_classes
from driftsurf.session.default_model import choose_model
from driftsurf.session.model_names import make_strategy, read_model, require_exact_state, settable_options
from driftsurf.session.session import MOST_ROWS, STEPS, Session, step_rows
from driftsurf.strategies import DEFAULT_MAX_ROWS
from driftsurf.strategies._base import saved_class
from driftsurf.streams.base import DriftSpan

if TYPE_CHECKING:
    from driftsurf.runs.late import LateBatches, LateSession
    from driftsurf.runs.start import FinishedRun


def read_frame(frame: Any, options: RunOptions) -> FrameRows:
    """Return the rows of a frame; OptionError if it is none, or if an option was given that a frame cannot have."""
    if not is_table(frame):
        raise OptionError(
            f"source is of the type {type(frame).__name__}; it must be a frame of pandas or polars, a table of "
            "pyarrow, a dictionary of columns, or the name of a stream or of a file. For arrays, use "
            "driftsurf.prequential, or an estimator, such as driftsurf.DriftSurfClassifier"
        )
    if options.is_keyed:
        raise OptionError(
            Option("key"),
            " with a frame needs ",
            Option("labels"),
            "; a learner for each key reads files, or learns frames as a driftsurf.Fleet",
        )
    for name in ("follow", "follow_for"):
        if name in options.given("tables"):
            raise OptionError(Option(name), " applies to a growing file, and a frame does not grow")
    # Ids and times are read all the same.
    drop = {*options.drop} - {options.time, options.id, options.join_column}
    return FrameRows(frame, drop)


READ_ROWS = 5_000
"""Rows that are read at a time to count them."""


def rows_of_small_files(source: Source) -> int | None:
    """Return the number of rows of files that are too small for time steps of the largest default size.

    None if there are more rows, or if their number cannot be known: a growing file, a pipe, a broker.
    """
    if type(source) is not FileSource or source.follow is not None or source.name == STANDARD_INPUT:
        return None
    if not source.seekable:
        return None
    count, enough = 0, STEPS * MOST_ROWS
    try:
        for table, _ in source.with_batches(READ_ROWS).tables(on_skip=lambda bad: None):
            count += len(table)
            if count >= enough:
                return None
    except DriftsurfError:  # the run meets the same row, and says so where it does
        return count or None
    return count


def default_batch_rows(source: Source) -> int | None:
    """Return the number of rows in a time step that suits small files or a frame; None for the usual one."""
    count = len(source) if isinstance(source, FrameSource) else rows_of_small_files(source)
    return None if count is None else step_rows(count)


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
    drifts: tuple[DriftSpan, ...] = ()


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

    rows: SourceReader
    labels: SourceReader

    def __init__(
        self, source: str | FrameRows, options: RunOptions, start: FinishedRun | None, *, resumed: bool
    ) -> None:
        options.check_tables(str(source))
        self.resumed = resumed
        self.start = start
        self.source = source
        self.options = options
        self.asked_reading = options.reading
        self.asked_rows = options.batch_size
        self.key = options.join_column
        self.id = self.key if self.key is not None else options.id
        """Column of ids: that by which late labels find their rows, or one that predictions show."""
        self.late = options.has_late_labels
        time, drop = options.time, options.drop
        # Columns that are read because something needs them, and that the model does not see.
        self.hidden = [name for name in (self.id, time) if name is not None and (name in drop or name == self.id)]
        self._start_reading({})
        for option, path in (("predictions", options.predictions), ("metrics", options.metrics)):
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
        options = self.options = replace(self.options, model=named)
        learner, parameters = options.learner, options.all_parameters()
        strategy = make_strategy(named, learner, target.task, parameters, seed=options.seed)
        kept = self._kept_rows(decided, strategy)
        if kept is not None:
            strategy = make_strategy(named, learner, target.task, {**parameters, KEPT_ROWS: kept}, seed=options.seed)
        if options.checkpoint is not None:
            require_exact_state(strategy, named, learner, target.task, NO_CHECKPOINTS)
        can_be_sparse = strategy.learner.capabilities.sparse
        encoder = TableEncoder(categorical=options.categorical, sparse="auto" if can_be_sparse else False)
        if self.start is not None:
            encoder = self.start.frames.encoder
        encoded = RowEncoder(encoder, target, self.hidden, decided["time"])
        classes = () if target.task == "regression" else open_labels(decided["classes"])
        shown = shown_classes(strategy.learner, classes) if options.all_classes else ()
        name = short_name(str(self.source))
        given: dict[str, Any] = {
            "guard": GUARD,
            "owner": named,
            "categories": encoded.categories,
            "names": encoded.feature_names,
            "monitor": options.monitor(regression=target.task == "regression"),
        }
        batches: TableBatches | LateBatches
        model: Session | LateSession
        sidecars: dict[str, Sidecar] = {}
        if self.late:
            from driftsurf.runs.late import LateSession

            batches = self._late_batches(encoded)
            session = Session(strategy, batch_size=options.batch_rows, **given)
            model = LateSession(session, max_pending=self._max_pending, timeout=options.timeout, shown_classes=shown)
        else:
            batches = TableBatches(self.rows, encoded, id=self.id)
            model = session = Session(strategy, batch_size=None, **given)
            sidecars[COLUMNS] = ColumnMoves(session, names=encoded.feature_names, calendar=encoded.calendar_columns)
        # The first batch is predicted by a model that has learned nothing; where labels are late, it is not scored.
        warmup = 0 if self.late or self.start is not None else 1
        if self.start is not None and saved is None:
            self.start.restore(session)
        sidecars[SCORES] = ScoreRecorder(partial(attrgetter("targets.labels"), session), warmup)
        return RunPlan(
            name=name,
            source=batches,
            models={named: model},
            recorder=self._recorder(name, classes, encoded, warmup),
            about=self._about(decided, columns, strategy),
            label_type=decided["label_type"],
            shown_classes=shown,
            sidecars=sidecars,
            keeps_bad_rows=options.on_bad_row != "fail",
            has_ids=self.id is not None,
            follows=options.follow,
            continues=self.start is not None,
            columns=columns,
            why_model=why_model,
            batch_rows=self._batch_rows,
            kept_rows=kept,
            frames=lambda: FrameEncoder(encoded.encoder, (target.column, *self.hidden, *options.drop), options.reading),
            hints=advice,
        )

    def _late_batches(self, encoded: RowEncoder) -> LateBatches:
        from driftsurf.runs.late import LabelPace, LateBatches, LiveBatches

        options, log = self.options, None
        if not self.live:
            pace = LabelPace(int(options.delay or 0))
            if options.batch_seconds is not None and options.labels is not None:
                pace = LabelPace(time=options.time, seconds=options.batch_seconds)
            return LateBatches(self.rows, self.labels, encoded, key=self.key, pace=pace)
        if options.checkpoint_path is not None:
            from driftsurf.data.messages.source import PlanLog

            log = PlanLog(options.checkpoint_path / JOINS, options.checkpoints_kept)
            if self.resumed:
                log.load()
            else:
                log.clear()
        return LiveBatches(self.rows, self.labels, encoded, key=self.key, log=log)

    @property
    def _batch_rows(self) -> int | None:
        """Rows of a step; None if steps are cut by time alone."""
        timed = self.options.batch_seconds is not None
        return None if timed and self.options.batch_size is None else self.options.batch_rows

    @property
    def _counts_rows(self) -> bool:
        """Whether the number of rows in small files decides how many rows a time step has."""
        return self.asked_rows is None and self.options.batch_seconds is None and not self.late

    def _choose_batch_rows(self, decided: dict[str, Any], *, new: bool) -> None:
        """Fix the rows of a time step if the user names none and files are small.

        The files of a run that resumes may have grown, and those of one that starts with a model are others: such runs
        keep the number. The first rows were read already, as many as decide about columns and label in any run.
        """
        options = self.options
        if not self._counts_rows:
            decided.pop(CHOSEN_ROWS, None)
            return
        source = self.rows.source
        if new:
            size = default_batch_rows(source)
            decided |= {} if size in (None, options.batch_rows) else {CHOSEN_ROWS: size}
        if CHOSEN_ROWS in decided:
            self.options = replace(options, batch_size=decided[CHOSEN_ROWS])
            if isinstance(source, FileSource):
                self.rows = self.labels = SourceReader(source.with_batches(decided[CHOSEN_ROWS]), raw=options.raw)
            else:
                self._start_reading(self.kinds)
        if isinstance(source, FileSource):
            source.read_last()

    def _kept_rows(self, decided: dict[str, Any], strategy: Strategy) -> int | None:
        """Return how many rows the model keeps if the table is so wide that it keeps fewer than usual; else None.

        The number that the user names takes precedence, and so does that of a model without a limit.
        """
        known = settable_options(type(strategy))
        of_name = read_model(str(self.options.model), self.options.learner).strategy.options
        named = KEPT_ROWS in {**of_name, **self.options.all_parameters()}
        unlimited = isinstance(strategy, RowBounded) and strategy.max_rows is None
        if KEPT_ROWS not in known or named or unlimited:
            decided.pop(KEPT_ROWS, None)
        return decided.get(KEPT_ROWS)

    def _choose_model(self, saved: Mapping[str, Any] | None) -> tuple[str, Message | None]:
        """Return the name of the model and, if it was not named, why it is this one.

        A run that resumes keeps its model, whatever is installed by then.
        """
        asked = self.options
        if asked.model is not None:
            return asked.model, None
        if saved is not None:
            return str(json.loads(str(saved["about"]))["model"]), None
        return choose_model(asked.learner, asked.all_parameters())

    def _recorder(self, name: str, classes: tuple[Any, ...], rows: RowEncoder, warmup: int) -> TraceRecorder:
        when = None if rows.time is None else lambda: rows.first_time
        described = _Description(name, classes)
        return TraceRecorder(described, self.options.batch_rows, warmup, time=when, late=self.late, estimated=True)

    def _start_reading(self, kinds: Mapping[str, Kind]) -> None:
        """Open the rows and the labels, with these kinds of columns besides those of the options."""
        self.kinds = kinds
        self.rows = self._reader(self.source)
        arriving = self.options.labels
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
        elif self.key is not None and self.options.follow:
            raise OptionError(
                *("pass ", Option("follow"), " or ", Option("labels"), ", not both: a growing file is read on its own"),
            )

    def _reader(self, path: str | FrameRows) -> SourceReader:
        source, options = self._open(path), self.options
        if isinstance(source, Planning) and options.checkpoint_path is not None:
            name = PLANS if path == self.source else LABEL_PLANS
            kept = options.checkpoints_kept
            source.keep_plans(options.checkpoint_path, keep=kept, resumed=self.resumed, name=name)
        return SourceReader(source, raw=options.raw)

    def _open(self, path: str | FrameRows) -> Source:
        """Open the source of rows or of labels, which have other columns than the rows."""
        options = self.options
        reading, seconds = options.reading, options.batch_seconds
        follow = polling(1.0, idle_seconds=options.follow_for) if options.follow else None
        own: dict[str, Any] = {"kinds": self.kinds, "drop": (), "rows": None}
        if path != self.source:
            # Labels are asked for without waiting, as long as rows come.
            own["batch_wait"] = 0.0
            follow = None if follow is None else _on
        else:
            drop = tuple(name for name in reading.drop if name not in (options.time, self.id))
            own = {"kinds": {**reading.kinds, **self.kinds}, "drop": drop}
        source = open_source(
            path,
            replace(reading, **own),
            batch_size=self._batch_rows,
            batch_seconds=seconds,
            time=None if seconds is None else options.time,
            follow=follow,
        )
        source.check()
        if isinstance(source, FileSource | FrameSource):
            source.digests = options.checkpoint is not None
        if isinstance(source, FileSource) and self._counts_rows and not self.resumed:
            source.keep_chunks()
        return source

    @property
    def _max_pending(self) -> int:
        asked = self.options.max_pending
        return MAX_PENDING if asked is None else asked

    def _about(self, decided: Mapping[str, Any], columns: ColumnSummary | None, strategy: Strategy) -> str:
        """Return what is run as JSON: a checkpoint resumes only with the same options."""
        options = self.options
        asked = {one.name: {name: storable(getattr(options, name)) for name in one.fields} for one in GROUPS}
        about = {
            "driftsurf": __version__,
            **options_of(self.asked_reading),
            "source": storable(str(self.source)),
            **{name: value for name, value in asked["tables"].items() if name not in WAITING},
            **asked["labels"],
            "id": options.id,
            "max_pending": self._max_pending,
            **{name: getattr(options, name) for name in ("task", "model", "learner")},
            "batch_size": self.asked_rows,
            "seed": options.seed,
            "start_from": None if options.start_from is None else storable(str(options.start_from)),
            "parameters": options.all_parameters(),
            **options.of_drifts,
            "made": {
                "strategy": saved_class(strategy).__name__,
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
        if self.options.labels is None:
            table = table.select(~target.missing(table))
            y, regression = target.read(table), target.task == "regression"
            found = hints(self.rows.source, table, target.column, y, regression=regression, read=[first])
        else:
            labels = Table({target.column: self.labels.peek()[target.column]})
            read = [first, self.labels.peek()]
            found = hints(self.rows.source, table, target.column, read=read)
            found += hints(self.labels.source, labels, target.column, read=read)
            y = target.read(labels.select(~target.missing(labels)))
        found += label_hints(target, self.options.task, y)
        asked = self.options
        cuts = asked.batch_seconds is not None
        return *found, *time_hints(self.rows.source, first, asked.time, cuts=cuts)

    def _read_with(self, decided: Mapping[str, Any]) -> None:
        """Read with the options that the first rows have shown, where the user named no others."""
        reading = with_inferred(self.asked_reading, decided.get(READ_WITH, {}))
        if reading != self.options.reading:
            self.options = replace(self.options, **options_of(reading))
            self._start_reading(self.kinds)

    def _infer_reading(self) -> tuple[dict[str, Any], list[Message]]:
        """Read with the options that the first rows, and the labels, leave no doubt about; return these options."""
        found, remarks = dict[str, Any](), list[Message]()
        for labels in (False, True) if self.labels is not self.rows else (False,):
            reader = self.labels if labels else self.rows
            inferred = infer_options(reader.source, reader.peek(), label=self.options.label)
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
        label, task = options.label, options.task
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
            "time": find_time(seen.without(target.column), options.time),
            **read_with,
        }
        learned = seen.without(target.column, *self.hidden)
        encoder = TableEncoder(categorical=options.categorical).fit(learned)
        kept = max(FEWEST_KEPT, 2 * options.batch_rows, MOST_KEPT_BYTES // encoder.layout.bytes_per_row)
        decided |= {KEPT_ROWS: kept} if kept < DEFAULT_MAX_ROWS else {}
        return decided, summarise_columns(encoder, learned, target, y, [*options.drop, *self.hidden])

    def _check_columns(self, rows: Table, labels: Table) -> None:
        ids = [] if self.id is None else [self.id]
        named = {
            "categorical": list(self.options.categorical),
            "key" if self.options.key is not None else "id": ids,
        }
        named |= {"time": [] if self.options.time is None else [self.options.time]}
        if (time := self.options.time) in rows.columns and time is not None:
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
