"""Rows wait for their labels, and labels for their rows: the part of a served model that follows from the log alone.

Every change is that of one record, in the order of the log, so that it makes no difference how many records are taken
at a time. Time is that of the records."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice, pairwise, repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import AppendOnlyArray, IncrementalState, Segment
from driftsurf.core.fields import Array, FieldRule, Fields, Json, Real, Values, Whole, misfit
from driftsurf.core.input import read_rows, read_schema
from driftsurf.core.samples import Buffer, Samples, as_input
from driftsurf.core.state import nest, pick
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.data.log.records import Kinds, Record
from driftsurf.session.label_counts import COUNTS, LabelCounts
from driftsurf.session.label_joiner import LEARNED, LOST, LabelJoiner


def packed_texts(texts: Mapping[str, Any] | Sequence[str]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return texts as one array of bytes, and their lengths in characters.

    >>> unpacked_texts(*packed_texts(["a", "", "Köln"]))
    ['a', '', 'Köln']
    """
    blob = "".join(texts).encode("utf-8", "surrogatepass")
    return np.frombuffer(blob, np.uint8), np.fromiter(map(len, texts), np.int64, len(texts))


def unpacked_texts(blob: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]) -> list[str]:
    """Return the texts that ``packed_texts`` packed; ValueError if they are damaged."""
    text = blob.tobytes().decode("utf-8", "surrogatepass")
    ends = list(accumulate(lengths.tolist(), initial=0))
    if ends[-1] != len(text):
        raise ValueError(f"there are {len(text)} characters for texts of {ends[-1]}")
    return [text[start:stop] for start, stop in pairwise(ends)]


SPARE_ROWS = 10_000
"""Rows that nothing waits for which may be stored, besides three for each one that waits."""


def most_usual(targets: ClassTargets | RegressionTargets, counts: Mapping[float, int]) -> npt.NDArray[Any] | None:
    """Return the most frequent label, or the mean, given how often each code came; None without any.

    >>> most_usual(ClassTargets(("no", "yes")), {0.0: 7, 1.0: 2}).tolist()
    ['no']
    """
    if not counts:
        return None
    if isinstance(targets, RegressionTargets):
        return np.array([sum(code * count for code, count in counts.items()) / sum(counts.values())])
    return np.asarray(targets.decode(np.array([max(sorted(counts), key=lambda code: counts[code])])))


class StepRows(NamedTuple):
    """The labelled rows of a time step."""

    X: Any
    y: npt.NDArray[Any]
    """Labels, or numbers."""
    answers: npt.NDArray[Any]
    """What was answered when the row came: a label or a number; any value where ``versions`` is 0."""
    versions: npt.NDArray[np.int64]
    """Version of the model that answered; 0 for rows that came with their label, or before there was a model."""
    time: float
    """Time of the record that completed the step."""


class StepJoiner:
    """Stores rows of the log, joins them with their labels, and cuts time steps of ``batch_size`` labelled rows.

    A row waits until its label comes, until ``max_pending`` newer rows wait, or until ``timeout`` seconds have passed.
    A label whose row has not come is held, at most ``max_pending`` of them. As many ids of learned and of lost rows
    are remembered, which tells duplicate and late labels from early ones.

    Parameters
    ----------
    targets
        The classes that are known before the first record, or those of a regression. Classes get their codes in the
        order of the log, whatever the models do.
    batch_size, max_pending, timeout
        As in :class:`~driftsurf.service.settings.ModelSettings`.
    """

    def __init__(
        self,
        targets: ClassTargets | RegressionTargets,
        *,
        batch_size: int,
        max_pending: int = 100_000,
        timeout: float | None = None,
    ) -> None:
        self.batch_size = batch_size
        self.max_pending = max_pending
        self.timeout = timeout
        self.targets: ClassTargets | RegressionTargets = targets
        self.time: float = 0.0
        """Time of the last record."""
        self.last_label: float = 0.0
        """Time of the last record with labels; 0 before the first."""
        self.oldest: float | None = None
        """When the oldest row that waits for its label came; None if none waits. Another thread may read it."""
        self.rows_learned: int = 0
        """Rows that came with their label."""
        self._codes: dict[Any, float] = {}
        self._rows: Samples | None = None
        """Encoded rows; their targets are the answers given, and their weights the times at which they came."""
        self._versions = Buffer(np.int64)
        self.labels: LabelJoiner[int] = LabelJoiner(
            max_pending, most_waiting=max_pending, early_at_once=True, one_table=True
        )
        """Numbers of rows that wait, and codes of labels whose row has not come, by id."""
        self._step: deque[tuple[int, float, float]] = deque()
        """Labelled rows that are in no step yet, the codes of their labels, and when the later of both came."""

    @property
    def counts(self) -> LabelCounts:
        """Rows with ids and their labels so far, by what became of them."""
        counts: dict[str, Any] = self.labels.counts
        return LabelCounts(**counts if isinstance(self.targets, ClassTargets) else counts | {"errors": None})

    @property
    def early(self) -> int:
        """Number of labels that wait for their row."""
        return len(self.labels.early)

    @property
    def waiting(self) -> int:
        """Number of rows that wait for their label."""
        return len(self.labels.waiting)

    @property
    def in_step(self) -> int:
        """Number of labelled rows that wait for their time step to become full."""
        return len(self._step) % self.batch_size

    @property
    def backlog(self) -> int:
        """Number of labelled rows of full time steps, which :meth:`steps` has not yielded yet."""
        return len(self._step) - self.in_step

    def guess(self) -> npt.NDArray[Any] | None:
        """Return what :func:`most_usual` does for the labels of the step that is not full. Any thread may call it."""
        codes = [code for _, code, _ in list(self._step)]
        return most_usual(self.targets, Counter(codes[len(codes) - len(codes) % self.batch_size :]))

    @property
    def stored(self) -> Any:
        """The encoded rows that something waits for, and perhaps more; not to be changed."""
        rows = self._rows
        return np.zeros((0, 1)) if rows is None else rows.view(Segment(rows.first_row, rows.next_row)).X

    # ------------------------------------------------------------------------ records

    def take(self, records: Sequence[Record], X: Any) -> Iterator[StepRows]:
        """Join records, and yield the time steps that they complete; see :meth:`join` and :meth:`steps`."""
        self.join(records, X)
        return self.steps()

    def join(self, records: Sequence[Record], X: Any) -> None:
        """Apply records of rows, labels and ticks; :meth:`steps` then yields the time steps that they complete.

        ``X`` are the encoded rows of all these records, in their order; None if they have none.
        """
        # All labels in the order of the log first, those of answers, too: it decides the codes of new classes.
        read = [[] if record.labels is None else self._read(record.labels) for record in records]
        row = self._store(records, read, X)
        for record, codes in zip(records, read, strict=True):
            self.time = max(self.time, record.time)
            if self.timeout is not None:
                self.labels.lose(self._is_over)
            match record.kind:
                case Kinds.ROWS:
                    for id in record.ids:
                        code = self.labels.come(id, row)
                        if code is not None:
                            self._step.append((row, code, self.time))
                        row += 1
                case Kinds.LABELS:
                    self.last_label = self.time
                    for id, code in zip(record.ids, codes, strict=True):
                        waited = self.labels.label(id, code)
                        if waited is not None:
                            self._step.append((waited, code, self.time))
                case Kinds.LEARN:
                    self.last_label = self.time
                    self.rows_learned += record.count
                    self._step.extend(zip(range(row, row + record.count), codes, repeat(self.time)))
                    row += record.count
        self._note_oldest()

    def steps(self) -> Iterator[StepRows]:
        """Yield the time steps that are full. What is yielded is valid until the iterator continues.

        The state may be saved between two steps: those that follow are then yielded after it is restored.
        """
        while self.backlog:
            yield self._cut()
        self._release()

    def cut_rest(self) -> StepRows | None:
        """Return the labelled rows of the step that is not full, as a step; None if there are none."""
        return self._cut() if self._step else None

    def _store(self, records: Sequence[Record], read: Sequence[list[float]], X: Any) -> int:
        """Store the rows of the records; return the number of the first one."""
        if X is None:
            return 0
        schema = read_schema(X)
        rows = read_rows(X, schema)
        if self._rows is None:
            self._rows = Samples(schema.n_features, sparse=schema.sparse)
        answers, versions, times = list[float](), list[int](), list[float]()
        now = self.time
        for record, codes in zip(records, read, strict=True):
            now = max(now, record.time)
            if record.rows is None:
                continue
            answered = record.kind == Kinds.ROWS and record.version and record.labels is not None
            answers += codes if answered else [0.0] * record.count
            versions += [record.version if answered else 0] * record.count
            times += [now] * record.count
        self._versions.append(np.array(versions, np.int64))
        return self._rows.append(rows, np.array(answers), np.array(times)).lo

    def _read(self, labels: Any) -> list[float]:
        """Return the codes of labels; those of new classes are the next ones."""
        values = labels.tolist()
        if isinstance(self.targets, RegressionTargets):
            return [float(one) for one in values]
        try:
            return [self._codes[one] for one in values]
        except KeyError:
            self.targets, codes = self.targets.read(labels, len(labels))
            self._codes = {label: float(code) for code, label in enumerate(self.targets.labels)}
            return codes.tolist()  # type: ignore[no-any-return]

    # ------------------------------------------------------------------------ steps and storage

    def _cut(self) -> StepRows:
        """Return the rows of the next step, and remove them from it."""
        assert self._rows is not None
        taken = [self._step.popleft() for _ in range(min(self.batch_size, len(self._step)))]
        places = np.array([row for row, _, _ in taken], np.int64) - self._rows.first_row
        codes = np.array([code for _, code, _ in taken])
        stored = self._rows.view(Segment(self._rows.first_row, self._rows.next_row))
        versions, answers = self._versions.live[places], stored.y[places]
        answered = versions > 0
        self.labels.counts["scored"] += int(answered.sum())
        self.labels.counts["errors"] += int(np.count_nonzero((answers != codes)[answered]))
        decode = self.targets.decode
        return StepRows(as_input(stored.X, places), decode(codes), decode(answers), versions, taken[-1][2])

    def _release(self) -> None:
        """Drop stored rows that nothing waits for; those in the middle once they are most of all rows."""
        rows = self._rows
        if rows is None:
            return
        rows.release(min([rows.next_row, *[row for row, _, _ in self._step], *self._oldest()]))
        self._versions.trim(len(self._versions) - len(rows))
        needed = self.waiting + len(self._step)
        if len(rows) > 4 * needed + SPARE_ROWS:
            self._compact(rows)
        self._note_oldest()

    def _note_oldest(self) -> None:
        self.oldest = next(map(self._came, self._oldest()), None)

    def _oldest(self) -> Iterable[int]:
        """Return the number of the row that waits for the longest time, if one waits."""
        return islice(self.labels.waiting.values(), 1)

    def _is_over(self, row: int) -> bool:
        return self.timeout is not None and self._came(row) < self.time - self.timeout

    def _came(self, row: int) -> float:
        """Return when a stored row came."""
        assert self._rows is not None
        return float(self._rows.view(Segment(row, row + 1)).weight[0])

    def _compact(self, rows: Samples) -> None:
        """Store only the rows that something waits for, under new numbers."""
        needed = sorted([*self.labels.waiting.values(), *[row for row, _, _ in self._step]])
        places = np.array(needed, np.int64) - rows.first_row
        stored = rows.view(Segment(rows.first_row, rows.next_row))
        kept = as_input(stored.X, places)
        self._rows = Samples(rows.n_features, sparse=rows.sparse)
        self._rows.append(read_rows(kept, read_schema(kept)), stored.y[places], stored.weight[places])
        versions, self._versions = self._versions, Buffer(np.int64)
        self._versions.append(versions.live[places])
        number = {row: place for place, row in enumerate(needed)}
        self.labels.waiting = OrderedDict((id, number[row]) for id, row in self.labels.waiting.items())
        self._step = deque((number[row], code, time) for row, code, time in self._step)

    # ------------------------------------------------------------------------ state

    def state(self) -> IncrementalState:
        """Return everything that later records depend on; its size is that of what waits."""
        state: IncrementalState = {
            "time": self.time,
            "last_label": self.last_label,
            "rows_learned": self.rows_learned,
            "counts": json.dumps(self.labels.counts),
            "step_rows": np.array([row for row, _, _ in self._step], np.int64),
            "step_codes": np.array([code for _, code, _ in self._step], np.float64),
        }
        if self.backlog:  # the time of a step is that of its last row, not that of the last record
            state["step_times"] = np.array([time for _, _, time in self._step], np.float64)
        for name, table in (
            ("waiting", self.labels.waiting),
            ("early", self.labels.early),
            ("done", self.labels.learned),
        ):
            dtype = np.float64 if name == "early" else np.int64
            blob, lengths = packed_texts(table)
            state |= {
                f"{name}_ids": blob,
                f"{name}_lengths": lengths,
                f"{name}_values": np.fromiter(table.values(), dtype, len(table)),
            }
        if self._rows is not None:
            versions = self._versions
            state |= nest("rows", self._rows.incremental_state())
            stop = versions.first + len(versions)
            state["versions"] = AppendOnlyArray(versions, versions.first, stop, versions.numbered)
        return state | nest("targets", self.targets.state())

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` returned."""
        saved = pick("rows", state)
        rows = Samples.from_state(saved) if saved else None
        first, stop = (0, 0) if rows is None else (rows.first_row, rows.next_row)
        known = FIELDS.read(state, first=first, stored=stop - first, last=stop - 1)
        targets = type(self.targets).from_state(pick("targets", state))
        if isinstance(targets, ClassTargets):
            for name in ("step_codes", "early_values"):
                if not np.isin(known[name], np.arange(len(targets.labels))).all():
                    raise misfit(state, name, "must hold codes of the known classes")
        tables: list[OrderedDict[str, Any]] = []
        for name in ("waiting", "early", "done"):
            ids = unpacked_texts(known[f"{name}_ids"], known[f"{name}_lengths"])
            table = OrderedDict(zip(ids, known[f"{name}_values"].tolist(), strict=True))
            if len(table) != len(ids):
                raise misfit(state, f"{name}_ids", "must be distinct")
            tables.append(table)
        waiting, early, done = tables
        self.labels.hold(waiting, early, OrderedDict(), done, done)
        self.time, self.last_label, self.rows_learned = (known[name] for name in ("time", "last_label", "rows_learned"))
        self.labels.counts, self.targets, self._rows, self._codes = known["counts"], targets, rows, {}
        self._versions = Buffer.of(known["versions"]) if "versions" in known else Buffer(np.int64)
        rows_in_step = known["step_rows"].tolist()
        times = known["step_times"].tolist() if "step_times" in known else [self.time] * len(rows_in_step)
        self._step = deque(zip(rows_in_step, known["step_codes"].tolist(), times, strict=True))
        self._note_oldest()


def _read_counts(saved: Any) -> dict[str, int]:
    """Return saved counts; ValueError if they are not valid."""
    if set(saved) != set(COUNTS) or not all(type(count) is int and count >= 0 for count in saved.values()):
        raise ValueError("must be counts of rows and labels")
    return {name: saved[name] for name in COUNTS}


def _rise(known: Values) -> bool:
    """Return whether the rows that wait are in the order in which they came."""
    return bool((np.diff(known["waiting_values"]) > 0).all())


FIELDS = Fields(
    {
        "time": Real(),
        "last_label": Real(),
        "rows_learned": Whole(),
        "counts": Json(_read_counts),
        "versions": Array(np.int64, ("stored",), least=0),
        "step_rows": Array(np.int64, ("in_step",), most="last"),
        "step_codes": Array(np.float64, ("in_step",)),
        "step_times": Array(np.float64, ("in_step",)),
        "waiting_ids": Array(np.uint8, ("*",)),
        "waiting_lengths": Array(np.int64, ("waiting",), least=0),
        "waiting_values": Array(np.int64, ("waiting",), most="last"),
        "early_ids": Array(np.uint8, ("*",)),
        "early_lengths": Array(np.int64, ("early",), least=0),
        "early_values": Array(np.float64, ("early",)),
        "done_ids": Array(np.uint8, ("*",)),
        "done_lengths": Array(np.int64, ("done",), least=0),
        "done_values": Array(np.int64, ("done",), least=LEARNED, most=LOST),
    },
    optional=["versions", "step_times"],
    parts=["rows", "targets"],
    rules=[
        FieldRule("waiting_values", "must be rows in the order in which they came", _rise),
        FieldRule(
            "waiting_values", "must be stored rows", lambda known: (known["waiting_values"] >= known["first"]).all()
        ),
        FieldRule("step_rows", "must be stored rows", lambda known: (known["step_rows"] >= known["first"]).all()),
        FieldRule("versions", "must be there for all rows", lambda known: "versions" in known or not known["stored"]),
    ],
)
"""Saved entries of what waits."""
