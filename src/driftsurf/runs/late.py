"""Labels that come later than their rows: the rows and labels of a run, its model, and the steps that they complete."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import Capabilities, IncrementalState, State
from driftsurf.core.decisions import Decision, Transition
from driftsurf.core.fields import Fields, Json, Whole
from driftsurf.core.input import Schema
from driftsurf.core.state import pick, resolved
from driftsurf.data.row_encoder import RowEncoder
from driftsurf.data.source import Position
from driftsurf.data.tables import Table
from driftsurf.errors import InputError
from driftsurf.runs.batches import BatchSource, LabelPlaces, SourceReader, text_of
from driftsurf.runs.numbering import Numbering
from driftsurf.runs.plan import Step
from driftsurf.runs.predictions import PredictionBatch, predict_now
from driftsurf.session.error_tracker import ErrorTracker, RowSigns
from driftsurf.session.label_counts import LabelCounts
from driftsurf.session.late import DelayedLabels, Joined
from driftsurf.session.observation import Observation, Origin
from driftsurf.session.session import Session

if TYPE_CHECKING:
    from driftsurf.data.messages.source import PlanLog

RowKeys: TypeAlias = list[str | int]
"""Keys by which labels find their rows."""


class Arrived(NamedTuple):
    """Rows that came, under their keys."""

    keys: RowKeys
    X: Any
    named: bool
    """Whether the keys come from a column; otherwise they are the numbers of the rows."""


class ArrivedLabels(NamedTuple):
    """Labels that came, under the keys of their rows."""

    keys: RowKeys
    labels: npt.NDArray[Any]
    places: LabelPlaces | None = None
    """Where they stand in their source, if it is known."""


@dataclass(slots=True)
class LateObservation(Observation):
    """Rows whose labels came, with the predictions made when these rows came; and the predictions made now."""

    before: tuple[Joined, ...] = ()
    """Labels that came before the new rows were predicted."""
    after: tuple[Joined, ...] = ()
    """Labels that had come before their rows, and were learned right after these were predicted."""
    given: PredictionBatch | None = None
    """Predictions of the rows that came, numbered from 0; None if only labels came."""
    signs: RowSigns | None = None
    """Signs of errors of the rows that came; None if only labels came, or before there was a model."""

    @property
    def rows(self) -> int:
        """Number of rows that came."""
        return 0 if self.given is None else len(self.given)


class LateSession:
    """A session behind :class:`~driftsurf.session.late.DelayedLabels`, as a model of a run.

    Parameters
    ----------
    session
        The model that learns.
    max_pending, timeout
        As for :class:`~driftsurf.session.late.DelayedLabels`.
    shown_classes
        Classes whose probabilities predictions have; none for that of the predicted class alone.
    """

    def __init__(
        self,
        session: Session,
        *,
        max_pending: int = 100_000,
        timeout: float | None = None,
        shown_classes: Sequence[Any] = (),
    ) -> None:
        self.session = session
        self.shown_classes = shown_classes
        self.delayed: DelayedLabels = DelayedLabels(session, max_pending=max_pending, timeout=timeout)

    @property
    def _capabilities(self) -> Capabilities:
        return self.session.strategy.learner.capabilities

    @property
    def schema(self) -> Schema | None:
        """Columns of the rows; None before the first rows were learned."""
        return self.session.schema

    @property
    def steps(self) -> int:
        """Number of time steps so far."""
        return self.session.steps

    @property
    def rows_pending(self) -> int:
        """Number of rows that wait for their label, or for a time step to become full."""
        return len(self.delayed) + self.session.rows_pending

    @property
    def label_counts(self) -> LabelCounts:
        """Counts of the rows and labels so far, by what was done with them."""
        return self.delayed.counts

    def observe(self, X: Arrived | None, y: Sequence[Any], *, classes: Any = None) -> LateObservation:
        """Learn the rows whose labels came, predict the rows that came, and learn those whose label came before.

        Each entry of ``y`` is an :class:`ArrivedLabels`, or a pair of keys and labels.
        """
        before, after = list[Joined](), list[Joined]()
        for keys, labels, places in (ArrivedLabels(*one) for one in y):
            if len(keys):
                try:
                    before.append(self.delayed.label(keys, labels))
                except InputError as error:
                    if places is not None:
                        places.name(error, labels)
                    raise
        given = signs = None
        if X is not None:
            given, signs = self._predict(X)
            after.append(self.delayed.label([], []))
        joined = *before, *after
        scored = [row for one in joined for row in scored_rows(one)]
        seen = self.compared([row.true for row in scored], [row.predicted for row in scored])
        decisions = tuple(decision for one in joined for decision in one.decisions)
        shown = seen.labels, seen.predicted, seen.true, seen.scores
        return LateObservation(
            *shown, decisions, False, before=tuple(before), after=tuple(after), given=given, signs=signs
        )

    def compared(self, true: Sequence[Any], predicted: Sequence[Any]) -> Observation:
        """Return true labels beside the predictions that were made of them before."""
        labels, targets = np.array(predicted), self.session.targets
        true_codes = codes = np.zeros(0)
        if len(true):
            true_codes, codes = targets.read(np.array(true), len(true))[1], targets.read(labels, len(labels))[1]
        if not self._capabilities.regression:
            true_codes, codes = true_codes.astype(np.int64), codes.astype(np.int64)
        return Observation(labels, codes, true_codes, np.zeros(0), (), False)

    def _predict(self, arrived: Arrived) -> tuple[PredictionBatch, RowSigns | None]:
        self.delayed.predict(arrived.keys, arrived.X)
        found = predict_now(self.session, arrived.X, self.shown_classes)
        probability = None if self._capabilities.regression else found.probability
        ids = arrived.keys if arrived.named else None
        versions = [found.version] * len(arrived.keys)
        return PredictionBatch(0, versions, found.labels, probability, ids=ids, by_class=found.by_class), found.signs

    def reset(self, why: str) -> Transition | None:
        """Start again with fresh models; None if nothing has been learned yet."""
        return self.session.reset(why)

    def state(self) -> State:
        """Return everything that decides what comes next."""
        return resolved(self.incremental_state())

    def incremental_state(self) -> IncrementalState:
        """Return ``state()`` with the arrays that grow with the rows as ``AppendOnlyArray``."""
        return self.delayed.incremental_state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state()`` returned."""
        self.delayed.restore(state)

    def return_to(self, state: Mapping[str, Any]) -> None:
        """Restore what had been learned, and keep the rows that wait and the counts."""
        self.session.restore(pick("model", state))


class ScoredRow(NamedTuple):
    """A row whose label came, with the prediction that was made before."""

    true: Any
    predicted: Any
    version: int
    """Number of time steps that the model behind the prediction had learned."""
    row: int
    """Number of the row, from 0 in the order in which rows came."""


def scored_rows(joined: Joined, decision: int | None = None) -> list[ScoredRow]:
    """Return the rows that had a prediction: all of them, or those that the decision at this place has learned."""
    rows = zip(
        joined.true.tolist(), joined.predicted, joined.versions.tolist(), joined.rows.tolist(), joined.learned_by,
        strict=True,
    )  # fmt: skip
    return [ScoredRow(*row) for *row, place in rows if row[2] and place == (place if decision is None else decision)]


class _Predictor(NamedTuple):
    """A model, by the numbers of the run."""

    id: int
    trained_from: int


UNKNOWN = _Predictor(-1, -1)


class LateSteps:
    """Puts scored rows into the steps that learn them, so that a step is the same in the journal and in the trace.

    A step of such a run is a decision of the model. A row is predicted in the middle of an earlier step, and scored in
    the step that learns it. Between both, the model may have changed; therefore it is noted which model predicted
    which rows. Rows whose labels have come while their step is not full are kept until it is.

    Parameters
    ----------
    name
        Name of the model.
    model
        The model whose labels come late.
    """

    def __init__(self, name: str, model: LateSession) -> None:
        self.name = name
        self.model = model
        self._scored: list[ScoredRow] = []
        """Rows that were scored since the last step."""
        self._unscored: list[Any] = []
        """Labels since the last step whose rows came before there was a model."""
        self._predictors: list[tuple[int, _Predictor | None]] = []
        """Rows, in the order in which they came, from which on a model predicted. The last one may not be known
        yet: the next decision names it."""
        self._next = UNKNOWN
        """The model that the last decision put in use."""
        self.estimates: ErrorTracker | None = None
        """Estimates of the error of rows; set by a run that makes them."""

    def take(self, seen: LateObservation, numbering: Numbering, first_row: int) -> Iterator[Step]:
        """Yield the steps that the labels of a call have completed, with the numbers of the run.

        ``first_row`` is the number of the first row that came with the call.
        """
        if self.estimates is not None:
            self._estimate(self.estimates, seen, first_row)
        for joined in seen.before:
            yield from self._learned(joined, numbering)
        if seen.rows and (not self._predictors or self._predictors[-1][1] is not None):
            self._predictors.append((first_row, None))
        for joined in seen.after:
            yield from self._learned(joined, numbering)
        self._forget()

    @staticmethod
    def _estimate(estimates: ErrorTracker, seen: LateObservation, first_row: int) -> None:
        """Take the labels that came before the new rows, then these rows, then the labels that came before them."""

        def take(joined: Joined) -> None:
            rows = scored_rows(joined)
            true, predicted = np.array([row.true for row in rows]), np.array([row.predicted for row in rows])
            estimates.labelled_rows(np.array([row.row for row in rows], np.int64), estimates.losses(true, predicted))

        for joined in seen.before:
            take(joined)
        if seen.signs is not None:
            estimates.next_row = first_row
            estimates.predicted(seen.signs)
        for joined in seen.after:
            take(joined)

    def _learned(self, joined: Joined, numbering: Numbering) -> Iterator[Step]:
        for place, (own, decision) in enumerate(zip(joined.decisions, numbering.of(joined.decisions), strict=True)):
            self._name_predictor(_Predictor(decision.predicted_by, decision.trained_from))
            self._take(joined, place)
            yield self._step(decision.step, decision.first_row, own.step, (decision,))
            self._next = _following(decision)
        self._take(joined, len(joined.decisions))

    def _take(self, joined: Joined, place: int) -> None:
        """Keep the rows that the decision at this place has learned."""
        self._scored += scored_rows(joined, place)
        self._unscored += joined.true[(joined.learned_by == place) & (joined.versions == 0)].tolist()

    def unfinished(self, numbering: Numbering) -> Iterator[Step]:
        """Yield the rows that were scored since the last step, if there are any, as the step that would learn them."""
        if self._scored:
            self._name_predictor(self._next)
            yield self._step(numbering.next_step, numbering.next_row, self.model.steps, ())

    def changed(self) -> None:
        """Note that an operator has changed the model: rows that came until now were predicted by the one before."""
        self._name_predictor(self._next)
        self._next = UNKNOWN

    def _name_predictor(self, model: _Predictor) -> None:
        """Name the model that has predicted the newest rows."""
        if self._predictors and self._predictors[-1][1] is None:
            first, _ = self._predictors.pop()
            if not self._predictors or self._predictors[-1][1] != model:
                self._predictors.append((first, model))

    def _forget(self) -> None:
        """Forget the models behind rows that neither wait for their label nor for their step."""
        oldest = min([self.model.delayed.first_row, *(row.row for row in self._scored)])
        while len(self._predictors) > 1 and self._predictors[1][0] <= oldest:
            del self._predictors[0]

    def _step(self, step: int, first_row: int, version: int, decisions: tuple[Decision, ...]) -> Step:
        """Return the rows since the last step as one; before it, the model had the number ``version``."""
        rows, learned = self._scored, sum(decision.rows for decision in decisions)
        origin = Origin(step, first_row, learned, unscored=np.array(self._unscored))
        self._scored, self._unscored = [], []
        if rows:
            counts = Counter(self._predictor(row.row) for row in rows)
            most = max(counts, key=lambda model: (counts[model], model))
            versions = [row.version for row in rows]
            origin = replace(
                origin,
                predicted_by=most.id,
                trained_from=most.trained_from,
                oldest_version=min(versions),
                newest_version=max(versions),
            )
        true = [row.true for row in rows]
        lags = np.array([max(0, version - row.version) for row in rows], np.int64)
        compared = self.model.compared(true, [row.predicted for row in rows])
        seen = replace(compared, decisions=decisions, origin=origin, lags=lags)
        if self.estimates is not None:
            numbers = np.array([row.row for row in rows], np.int64)
            seen.estimated_error = self.estimates.estimate_of(numbers)
        return Step(step, None, np.array(true), {self.name: seen})

    def _predictor(self, row: int) -> _Predictor:
        place = bisect_right(self._predictors, row, key=lambda entry: entry[0])
        return (self._predictors[place - 1][1] if place else None) or UNKNOWN

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return what the next steps need, for a checkpoint."""
        return {
            "scored": json.dumps(self._scored),
            "predictors": json.dumps(self._predictors),
            "next": json.dumps(self._next),
            **({"unscored": json.dumps(self._unscored)} if self._unscored else {}),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume from what :meth:`state` returned."""
        known = STEP_FIELDS.read(state)
        self._scored, self._predictors, self._next = (known[name] for name in ("scored", "predictors", "next"))
        self._unscored = known.get("unscored", [])


def _following(decision: Decision) -> _Predictor:
    """Return the model that predicts after a decision; -1 where models vote, as in decisions."""
    first_rows = {record.id: record.first_row for record in decision.models}
    return _Predictor(decision.predicts_next, first_rows.get(decision.predicts_next, decision.rows_seen))


def _read_scored(saved: Any) -> list[ScoredRow]:
    """Return saved rows that were scored; ValueError if they are not valid."""
    rows = [ScoredRow(*row) for row in saved]
    for one in rows:
        labels = one.true, one.predicted
        if not all(isinstance(label, str | int | float) for label in labels) or not _are_whole(one.version, one.row):
            raise ValueError(f"{one!r} is not a row that was scored")
    return rows


def _read_unscored(saved: Any) -> list[Any]:
    """Return saved labels; ValueError if they are not valid."""
    if not all(isinstance(label, str | int | float) for label in saved):
        raise ValueError("must be labels")
    return list(saved)


def _read_predictors(saved: Any) -> list[tuple[int, _Predictor | None]]:
    """Return the saved models behind predictions; ValueError if they are not valid."""
    found = [(first, None if model is None else _read_predictor(model)) for first, model in saved]
    rows = [first for first, _ in found]
    if not _are_whole(*rows) or rows != sorted(set(rows)) or any(model is None for _, model in found[:-1]):
        raise ValueError("must be rows in order, each with the model that predicted from there on")
    return found


def _read_predictor(saved: Any) -> _Predictor:
    """Return a saved model; ValueError if it is not valid."""
    model = _Predictor(*saved)
    if not all(type(number) is int for number in model):
        raise ValueError(f"{saved!r} is not a model and its first row")
    return model


def _are_whole(*numbers: Any) -> bool:
    return all(type(number) is int and number >= 0 for number in numbers)


STEP_FIELDS = Fields(
    {
        "scored": Json(_read_scored),
        "predictors": Json(_read_predictors),
        "next": Json(_read_predictor),
        "unscored": Json(_read_unscored),
    },
    optional=["unscored"],
)
"""Saved entries of the steps of a run whose labels come late."""


@dataclass(frozen=True, slots=True)
class LabelPace:
    """Rule that says before which batch of rows a batch of labels arrives.

    Without ``time``, label batch i arrives once row batch i + ``delay`` has been predicted. With ``time``, both sources
    are cut into spans of ``seconds`` of that column, and the labels of a span arrive before the rows of a later one.
    """

    delay: int = 0
    time: str | None = None
    seconds: float = 1.0

    def is_due(self, label_batch: int, labels: Table, row_batch: int, rows: Table) -> bool:
        """Return whether the labels arrive before the rows are predicted."""
        if self.time is None:
            return label_batch < row_batch - self.delay
        return not self._span(labels) >= self._span(rows)  # a span without a time is NaN: it is not held back

    def _span(self, table: Table) -> float:
        assert self.time is not None
        column = table[self.time]
        there = column.values[~column.missing()]
        if not len(there):
            return float("nan")
        first = there[0]
        if column.kind == "date":
            first = (first - np.datetime64(0, "us")) / np.timedelta64(1, "s")
        return float(first // self.seconds)


class _WithTable(Protocol):
    @property
    def table(self) -> Table | None: ...


Result = TypeVar("Result", bound=_WithTable)


class _LabelBatch(NamedTuple):
    """Labels that have been read and have not arrived yet."""

    table: Table | None
    """None after the last one."""
    before: Position
    """Position of the reader before the table."""
    place: dict[str, Any]
    bad_rows: str
    skipped: int


class _Skipped(NamedTuple):
    """Number of bad rows in each of the two sources."""

    rows: int
    labels: int


class LateBatches(BatchSource):
    """Batches of rows and, with each of them, the labels that have arrived before.

    Parameters
    ----------
    rows, labels
        The two sources. A missing label has not come; its row keeps waiting.
    encoder
        Encodes rows, and knows which column of ``labels`` is the target.
    key
        Column by which labels find their rows; None for the number of the row, where both are the same source.
    pace
        When labels arrive.
    """

    def __init__(
        self, rows: SourceReader, labels: SourceReader, encoder: RowEncoder, *, key: str | None, pace: LabelPace
    ) -> None:
        self.rows_reader = rows
        self.labels_reader = labels
        self.encoder = encoder
        self.key = key
        self.pace = pace
        # Rows are read ahead of the batch that the run has taken. What was read is counted in ``_read``, what was
        # taken in ``_taken``: a checkpoint must not count bad rows that will be read again.
        self._taken = self._read = _Skipped(0, 0)
        self._bad_rows = ""

    def batches(self, position: Position = None) -> Iterator[tuple[Arrived | None, list[Any], Position]]:
        """Yield rows (None after the last), the labels that came before them, and the position after both."""
        at: dict[str, Any] = {"rows": None, "labels": None, "row_batch": 0, "label_batch": 0}
        if isinstance(position, Mapping):
            at = dict(position)
        labels = self._label_batches(at["labels"])
        waiting = next(labels)
        for table, place, *_ in self.rows_reader.tables(at["rows"]):
            come, accepted = [], []
            while waiting.table is not None and self.pace.is_due(
                at["label_batch"], waiting.table, at["row_batch"], table
            ):
                come.append(self._deliver(waiting, at))
                accepted.append(waiting)
                waiting = next(labels)
            at |= {"rows": place, "row_batch": at["row_batch"] + 1}
            arrived = Arrived(self._keys(table, place), self.encoder.rows(table), self.key is not None)
            self._settle(*accepted)
            yield arrived, come, dict(at)
        while waiting.table is not None:
            come = [self._deliver(waiting, at)]
            self._settle(waiting)
            yield None, come, dict(at)
            waiting = next(labels)
        self._settle(waiting)

    def _label_batches(self, position: Any) -> Iterator[_LabelBatch]:
        """Yield batches of labels with the bad rows before each; at last the bad rows after all labels."""
        reader = self.labels_reader
        for table, place, *_ in reader.tables(position):
            if not len(table):  # a live source has nothing now
                yield _LabelBatch(table, position, place, "", 0)
                continue
            before, position = position, place
            yield _LabelBatch(table, before, place, reader.bad_rows(), reader.skipped)
        yield _LabelBatch(None, position, {}, reader.bad_rows(), reader.skipped)

    def _deliver(self, waiting: _LabelBatch, at: dict[str, Any]) -> ArrivedLabels:
        assert waiting.table is not None
        at |= {"labels": waiting.place, "label_batch": at["label_batch"] + 1}
        keys = self._keys(waiting.table, waiting.place)
        there = ~self.encoder.target.missing(waiting.table)
        read = self.encoder.target.read(waiting.table.select(there))
        places = LabelPlaces(self.labels_reader, waiting.before, there)
        return ArrivedLabels([keys[row] for row in np.flatnonzero(there)], read, places)

    def _settle(self, *accepted: _LabelBatch, rows: bool = True) -> None:
        """Note the bad rows before rows and labels; if both sources are the same, note them once."""
        self._bad_rows += self.rows_reader.bad_rows() if rows else ""
        labels = self._read.labels
        for waiting in accepted:
            labels = waiting.skipped
            self._bad_rows += waiting.bad_rows if self.key is not None else ""
        self._read = _Skipped(self.rows_reader.skipped if rows else self._read.rows, labels)

    @property
    def skipped(self) -> int:
        """Number of bad rows before the last batch that was taken."""
        return self._taken.rows + (self.key is not None) * self._taken.labels

    def _keys(self, table: Table, place: Mapping[str, Any]) -> RowKeys:
        if self.key is None:
            return list(range(place["rows"] - len(table), place["rows"]))
        return list(text_of(table, self.key))

    def bad_rows(self) -> str:
        """Return JSON lines for the bad rows since the last call, which count as taken from now on."""
        self._taken = self._read
        lines, self._bad_rows = self._bad_rows, ""
        return lines

    def committed(self, position: Position) -> None:
        """Note that a checkpoint at this position is on disk."""
        if isinstance(position, Mapping):
            self.rows_reader.committed(position["rows"])
            self.labels_reader.committed(position["labels"])

    def state(self) -> State:
        """Return the state of the encoder, the target, and the numbers of bad rows."""
        return self.encoder.state() | {"skipped_rows": self._taken.rows, "skipped_labels": self._taken.labels}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state()`` returned."""
        known, rest = FIELDS.take(state)
        self.encoder.restore(rest)
        self._taken = self._read = _Skipped(known["skipped_rows"], known["skipped_labels"])
        self.rows_reader.skipped, self.labels_reader.skipped = self._taken


class LiveBatches(LateBatches):
    """Batches of rows and of labels as they come, from two sources that log their plans.

    A time step has a batch of rows, a batch of labels, or both, whichever has come. While both wait, there is one batch
    of labels for each batch of rows. What a step has is logged before anything of it is learned, so that a run that was
    killed joins the same rows and labels again.

    Parameters
    ----------
    rows, labels, encoder, key
        As of :class:`LateBatches`.
    log
        The log of steps; None without checkpoints.
    """

    def __init__(
        self, rows: SourceReader, labels: SourceReader, encoder: RowEncoder, *, key: str | None, log: PlanLog | None
    ) -> None:
        super().__init__(rows, labels, encoder, key=key, pace=LabelPace())
        self.log = log

    def batches(self, position: Position = None) -> Iterator[tuple[Arrived | None, list[Any], Position]]:
        """Yield rows (None if none have come), the labels that came before them, and the position after both."""
        from driftsurf.data.messages.contract import Plan  # with what brokers share, which files do not need

        at: dict[str, Any] = {"rows": None, "labels": None, "row_batch": 0, "label_batch": 0}
        if isinstance(position, Mapping):
            at = dict(position)
        labels, rows = self._label_batches(at["labels"]), self.rows_reader.tables(at["rows"])
        ended, last = False, _LabelBatch(None, None, {}, "", self._read.labels)
        while True:
            start = [at["row_batch"], at["label_batch"]]
            logged = None if self.log is None else self.log.get(start)
            has_rows, has_labels = (None, None) if logged is None else logged.ranges
            read = None if ended or has_rows is False else _next(rows, wait=has_rows is True)
            ended = ended or (read is None and has_rows is None)
            there = read is not None and len(read.table) > 0
            ahead = there and at["label_batch"] > at["row_batch"]
            come, accepted = list[ArrivedLabels](), list[_LabelBatch]()
            if has_labels or (has_labels is None and not ahead):
                waiting = _next(labels, wait=has_labels is True)
                if waiting is not None and waiting.table is None:
                    last = waiting
                elif waiting is not None and waiting.table is not None and len(waiting.table):
                    come.append(self._deliver(waiting, at))
                    accepted.append(waiting)
            if not there and not come:
                if not ended:
                    continue
                self._settle(last)
                return
            arrived = None
            if read is not None and there:
                at |= {"rows": read.position, "row_batch": at["row_batch"] + 1}
                arrived = Arrived(self._keys(read.table, read.position), self.encoder.rows(read.table), named=True)
            if self.log is not None and logged is None:
                self.log.add(start, Plan([there, bool(come)], [at["row_batch"], at["label_batch"]]))
            self._settle(*accepted, rows=there)
            yield arrived, come, dict(at)

    def committed(self, position: Position) -> None:
        """Note that a checkpoint at this position is on disk."""
        super().committed(position)
        if self.log is not None and isinstance(position, Mapping):
            self.log.committed([position["row_batch"], position["label_batch"]])


def _next(tables: Iterator[Result], *, wait: bool) -> Result | None:
    """Return the next table; None after the last one. With ``wait``, pass over tables without rows."""
    for one in tables:
        table = one.table
        if table is None or len(table) or not wait:
            return one
    return None


FIELDS = Fields({"skipped_rows": Whole(), "skipped_labels": Whole()})
"""Saved entries beside those of the encoder."""
