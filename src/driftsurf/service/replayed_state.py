"""State of a served model that follows from its log, without the models: columns, rows that wait, keys, comparisons."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from driftsurf.core.contracts import FloatArray, IncrementalState, State
from driftsurf.core.fields import Array, Fields, Json, Whole, misfit
from driftsurf.core.state import nest, pick
from driftsurf.core.wording import rare_class
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.log.records import DIGEST, ColumnKind, Kinds, Record, read_rows
from driftsurf.data.row_encoder import Task
from driftsurf.errors import IdempotencyError, InputError
from driftsurf.evaluation.ranks import interval, resampled_means
from driftsurf.evaluation.summary import Baselines, RareClass
from driftsurf.runs.batches import PushedBatches
from driftsurf.service.contract import ChallengerStatus, Request
from driftsurf.service.joining import StepJoiner, packed_texts, unpacked_texts
from driftsurf.session.observation import Observation
from driftsurf.session.session import Session

MINUTE, DAY = 60.0, 86_400.0


def spaced(times: Sequence[float], now: float, number: int) -> list[int]:
    """Return the indices of the checkpoints to keep besides the newest one, which is being saved now.

    The newest of them always stays, so that two checkpoints can be used if one is damaged. The others are divided by
    age at limits that grow by the same factor, up to a day, and of each range the oldest stays: it moves on to the next
    range, whose own has then moved on as well. One that is older than a day stays until another one gets there.

    Parameters
    ----------
    times
        Log times of the checkpoints, oldest first.
    now
        Log time of the newest checkpoint.
    number
        How many checkpoints are kept at most, the newest one included; at least 2.

    Examples
    --------
    >>> times = [0.0, 3_600.0, 86_000.0, 86_340.0, 86_370.0]
    >>> [times[one] for one in spaced(times, now=86_400.0, number=4)]
    [3600.0, 86000.0, 86370.0]
    """
    if not times:
        return []
    ranges = max(0, number - 2)
    limits = [MINUTE * (DAY / MINUTE) ** (k / ranges) for k in range(1, ranges + 1)]
    oldest: dict[int, int] = {}
    expired: int | None = None
    for index, time in enumerate(times[:-1]):
        age = now - time
        place = sum(age >= limit for limit in limits)
        if place < ranges:
            oldest.setdefault(place, index)
        else:
            expired = index
    if ranges and expired is not None:
        oldest.setdefault(ranges - 1, expired)
    return sorted({*oldest.values(), len(times) - 1})


LONGEST_KEY = 200


class KnownRequest(NamedTuple):
    """A request that was logged under a key."""

    digest: bytes
    position: int
    kind: int
    size: int
    """Number of rows or labels."""
    time: float


def check_request(request: Request | None) -> Request:
    """Return the request; InputError if its key cannot be used."""
    if request is None:
        return Request()
    if len(request.key) > LONGEST_KEY:
        raise InputError(f"the idempotency key has {len(request.key)} characters; use at most {LONGEST_KEY}")
    if request.key and len(request.digest) != DIGEST:
        raise InputError(f"an idempotency key needs the SHA-256 of its request, {DIGEST} bytes")
    return request


class RequestKeys:
    """The last requests with a key; the oldest are forgotten beyond ``most``."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: dict[str, KnownRequest] = {}

    def find(self, request: Request, kind: Kinds) -> KnownRequest | None:
        """Return what was logged under the key; IdempotencyError if that was another request."""
        known = self._known.get(request.key) if request.key else None
        if known is not None and (known.digest != request.digest or known.kind != kind):
            raise IdempotencyError(
                f"the idempotency key {request.key!r} was used before with another body; use a new key",
                value=request.key,
            )
        return known

    def add(self, record: Record, position: int) -> None:
        """Remember a record, if it has a key."""
        if record.key:
            self._known.pop(record.key, None)
            self._known[record.key] = KnownRequest(record.digest, position, int(record.kind), record.count, record.time)
            if len(self._known) > self.most:
                del self._known[next(iter(self._known))]

    def copy(self) -> RequestKeys:
        """Return another object with the same requests."""
        other = RequestKeys(self.most)
        other._known = dict(self._known)
        return other

    def state(self) -> State:
        """Return the requests, for a checkpoint."""
        known = list(self._known.values())
        blob, lengths = packed_texts(self._known)
        return {
            "keys": blob,
            "lengths": lengths,
            "digests": np.frombuffer(b"".join([one.digest for one in known]), np.uint8).reshape(len(known), DIGEST),
            "positions": np.array([one.position for one in known], np.int64),
            "kinds": np.array([one.kind for one in known], np.int64),
            "counts": np.array([one.size for one in known], np.int64),
            "times": np.array([one.time for one in known], np.float64),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` returned."""
        saved = REQUEST_FIELDS.read(state)
        keys = unpacked_texts(saved["keys"], saved["lengths"])
        digests = [row.tobytes() for row in saved["digests"]]
        rest = (saved[name].tolist() for name in ("positions", "kinds", "counts", "times"))
        known = dict(zip(keys, map(KnownRequest, digests, *rest), strict=True))
        if len(known) != len(keys):
            raise misfit(state, "keys", "must be distinct")
        self._known = known


REQUEST_FIELDS = Fields(
    {
        "keys": Array(np.uint8, ("*",)),
        "lengths": Array(np.int64, ("requests",), least=0),
        "digests": Array(np.uint8, ("requests", DIGEST)),
        "positions": Array(np.int64, ("requests",), least=0),
        "kinds": Array(np.int64, ("requests",), least=0),
        "counts": Array(np.int64, ("requests",), least=0),
        "times": Array(np.float64, ("requests",)),
    }
)
"""Saved entries of the requests."""


MOST_STEPS = 1000
"""Last steps that are compared."""
LEAST_STEPS = 8
"""Steps below which there is no interval."""
RESAMPLES = 500


class ModelContest:
    """Errors of every model at the last steps, and paired intervals of their differences.

    The errors are those of predictions made just before a step was learned, for all models alike. What users were
    answered is another matter: it also depends on how late labels come.

    Examples
    --------
    >>> contest = ModelContest()
    >>> for step in range(20):
    ...     contest.add({"old": 0.3 + 0.01 * (step % 2), "new": 0.2})
    >>> found = contest.compare("old", "new", version=20)
    >>> found.steps, round(found.difference, 3), found.high < 0
    (20, -0.105, True)
    """

    def __init__(self) -> None:
        self._steps: deque[dict[str, float]] = deque(maxlen=MOST_STEPS)
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[int, ChallengerStatus]] = {}
        self._added = 0

    def observe(self, seen: Mapping[str, Observation]) -> None:
        """Note the errors of a step that all models have predicted before they learned it."""
        if len(seen) > 1 or self._steps:
            self.add({name: one.mean_loss for name, one in seen.items() if len(one.true)})

    def add(self, errors: Mapping[str, float]) -> None:
        """Note the errors of a step: shares of wrong rows, or mean squared errors."""
        with self._lock:
            self._steps.append(dict(errors))
            self._added += 1

    def forget(self, name: str) -> None:
        """Forget the errors of a model that is gone, or has been replaced by another one of that name."""
        with self._lock:
            for errors in self._steps:
                errors.pop(name, None)
            self._known = {}

    def compare(
        self, leading: str, name: str, *, version: int, failed: str = "", regression: bool = False
    ) -> ChallengerStatus:
        """Return how a challenger compares, in the unit of the label.

        The interval is computed again once there is a twentieth more of steps.
        """
        with self._lock:
            pairs = [(one[leading], one[name]) for one in self._steps if leading in one and name in one]
            added = self._added
        since, known = self._known.get((leading, name), (-1, None))
        if known is not None and added - since < max(1, known.steps // 20) and not failed:
            return known
        errors: FloatArray = np.array(pairs).reshape(len(pairs), 2)
        shown = np.sqrt if regression else np.asarray
        means = shown(errors.mean(axis=0)).tolist() if len(pairs) else [math.nan, math.nan]
        low = high = math.nan
        if len(pairs) >= LEAST_STEPS:
            resampled = shown(resampled_means([errors[:, :1].T, errors[:, 1:].T], resamples=RESAMPLES))
            found = interval(means[1] - means[0], resampled[:, 1] - resampled[:, 0])
            low, high = found.low, found.high
        status = ChallengerStatus(name, version, means[1], means[0], means[1] - means[0], low, high, len(pairs), failed)
        self._known[leading, name] = added, status
        return status

    def state(self) -> State:
        """Return the errors, for a checkpoint."""
        names = sorted({name for errors in self._steps for name in errors})
        table = np.array([[errors.get(name, math.nan) for name in names] for errors in self._steps])
        return {"names": json.dumps(names), "errors": table.reshape(len(self._steps), len(names))}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` returned."""
        known = CONTEST_FIELDS.read(state)
        names = known["names"]
        rows: Iterable[list[float]] = known["errors"].tolist()
        with self._lock:
            self._steps = deque(
                ({name: error for name, error in zip(names, row, strict=True) if error == error} for row in rows),
                maxlen=MOST_STEPS,
            )
            self._known = {}


def _read_contest_names(saved: Any) -> list[str]:
    """Return saved names of models; ValueError if they are not valid."""
    if not (isinstance(saved, list) and all(isinstance(name, str) for name in saved)):
        raise ValueError("must be a list of names")
    return saved


CONTEST_FIELDS = Fields({"names": Json(_read_contest_names), "errors": Array(np.float64, ("*", "*"), missing=True)})
"""Saved entries of a contest."""


RECENT_STEPS, RECENT_ROWS = 5, 500
"""The status reports the error of the answers over the last steps: five, or as many as have this number of rows."""


@dataclass(slots=True)
class Challenger:
    """How a challenger was made, and whether it still learns."""

    options: dict[str, Any] = field(default_factory=dict)
    failed: str = ""


class SavedPoint(NamedTuple):
    """A checkpoint to which the leading model can return."""

    number: int
    position: int
    version: int
    time: float


class StepError(NamedTuple):
    """Error of the answers to the rows of a step, and that of the trivial rule; mean squared errors for regression."""

    rows: int
    error: float
    trivial: float


class ErrorFigures(NamedTuple):
    """Errors as the status reports them."""

    rows: int = 0
    """Rows of the last steps."""
    error: float = math.nan
    usual: float = math.nan
    trivial: float = math.nan


@dataclass(frozen=True, slots=True)
class AnswerErrors:
    """Errors of the answers of the last steps and of all steps, and those of trivial rules, after one step.

    A row that came with its label, or was answered before there was a model, counts by its prediction just before it
    was learned. The first step of a model that has learned nothing does not count.
    """

    last: Sequence[StepError] = ()
    """The last steps that are reported."""
    rows: int = 0
    """Number of rows learned."""
    scored: int = 0
    total: float = 0.0
    """Number of the rows that count, and the sum of their errors."""
    rules: Mapping[str, float] = field(default_factory=dict)
    """For each trivial rule, the sum of its errors on the rows that count."""
    classes: Mapping[Any, Sequence[int]] = field(default_factory=dict)
    """For each class, of the rows that count: its rows, those predicted as it, and those of them that are right."""

    def after(
        self,
        rows: int,
        error: float,
        trivial: Mapping[str, float],
        *,
        counts: bool = True,
        true: Any = (),
        predicted: Any = (),
    ) -> AnswerErrors:
        """Return the errors after a step; one that was predicted before anything was learned does not count.

        ``trivial`` has the error of each trivial rule, that of the most frequent class or the mean first; ``true`` and
        ``predicted`` are the classes of the rows, empty for regression.
        """
        if not counts:
            return replace(self, rows=self.rows + rows)
        classes = {label: list(found) for label, found in self.classes.items()}
        for place, labels in enumerate((true, predicted, true[true == predicted] if len(true) else ())):
            for label, count in Counter(np.asarray(labels).tolist()).items():
                classes.setdefault(label, [0, 0, 0])[place] += count
        return AnswerErrors(
            _recent([*self.last, StepError(rows, error, next(iter(trivial.values())))]),
            self.rows + rows,
            self.scored + rows,
            self.total + rows * error,
            {name: self.rules.get(name, 0.0) + rows * one for name, one in trivial.items()},
            classes,
        )

    def baselines(self, rare: RareClass | None, *, regression: bool) -> Baselines:
        """Return the error over all rows that count beside those of the trivial rules, in the unit of the label."""
        measure = "root mean squared error" if regression else "mean error"
        if not self.scored:
            return Baselines(measure, math.nan, dict.fromkeys(self.rules, math.nan), learned=False)
        means = {name: _in_unit(total / self.scored, regression) for name, total in self.rules.items()}
        return Baselines(measure, _in_unit(self.total / self.scored, regression), means, rare=rare)

    def rare(self, average_precision: Callable[[Any], float] = lambda label: math.nan) -> RareClass | None:
        """Return how well the rare class is found; None if labels are not imbalanced."""
        classes = self.classes
        label = rare_class({label: rows for label, (rows, _, _) in classes.items()})
        if label is None:
            return None
        rows, predicted, right = classes[label]
        share = rows / sum(found[0] for found in classes.values())
        precision = right / predicted if predicted else math.nan
        return RareClass(label, share, right / rows, precision, average_precision(label))

    def figures(self, *, regression: bool = False) -> ErrorFigures:
        """Return the errors over the last steps and over all, in the unit of the label; NaN without any."""
        last = self.last
        rows = sum(one.rows for one in last)
        if not rows:
            return ErrorFigures()
        own, trivial = (sum(one.rows * one[place] for one in last) / rows for place in (1, 2))
        found = own, self.total / self.scored, trivial
        return ErrorFigures(rows, *(_in_unit(one, regression) for one in found))


def _in_unit(error: float, regression: bool) -> float:
    """Return a share of rows as it is, or the root of a mean squared error."""
    return math.sqrt(error) if regression else error


def _recent(steps: list[StepError]) -> list[StepError]:
    """Return the last steps of these that are reported."""
    rows = 0
    for count, step in enumerate(reversed(steps), 1):
        rows += step.rows
        if count >= RECENT_STEPS and rows >= RECENT_ROWS:
            return steps[-count:]
    return steps


@dataclass(slots=True)
class ReplayedState(PushedBatches):
    """Everything besides the sessions that follows from the log, as a source whose rows are pushed."""

    columns: tuple[ColumnKind, ...]
    task: Task
    encoder: TableEncoder
    joiner: StepJoiner
    keys: RequestKeys
    contest: ModelContest = field(default_factory=ModelContest)
    errors: AnswerErrors = field(default_factory=AnswerErrors)
    challengers: dict[str, Challenger] = field(default_factory=dict)
    dismissed: set[str] = field(default_factory=set)
    """Names of challengers that were dismissed, and not ordered again since."""
    order: list[str] = field(default_factory=list)
    """Names of the models, the leading one first."""
    points: list[SavedPoint] = field(default_factory=list)
    lines: int = 0
    """Number of lines of the journal at the last checkpoint."""
    step_time: float = 0.0
    """Time of the record that completed the step that is learned."""
    leading: Callable[[], Session] = lambda: None  # type: ignore[return-value,assignment]
    """Returns the session of the leading model; set by its run."""

    def step_moment(self) -> str:
        """Return the time of the step that is learned, as ISO 8601."""
        return datetime.fromtimestamp(self.step_time, UTC).replace(tzinfo=None).isoformat(timespec="seconds")

    def join(self, records: Sequence[Record], joiner: StepJoiner | None = None) -> None:
        """Apply records of rows, labels and ticks to the joiner, or to another one."""
        blocks = [record.rows for record in records if record.rows is not None]
        X = self.encoder.transform(read_rows(blocks, self.columns)) if blocks else None
        (self.joiner if joiner is None else joiner).join(records, X)

    def state(self) -> IncrementalState:
        """Return everything, for a checkpoint."""
        state: IncrementalState = {
            "challengers": json.dumps({name: asdict(one) for name, one in self.challengers.items()}),
            "order": json.dumps(self.order),
            "points": json.dumps(self.points),
            "lines": self.lines,
            "errors": json.dumps(asdict(self.errors) | {"classes": list(self.errors.classes.items())}),
        }
        if self.dismissed:
            state["dismissed"] = json.dumps(sorted(self.dismissed))
        state |= nest("encoder", self.encoder.state())
        parts: dict[str, Mapping[str, Any]] = {
            "joiner": self.joiner.state(),
            "keys": self.keys.state(),
            "contest": self.contest.state(),
        }
        for name, part in parts.items():
            state |= nest(name, part)
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` returned."""
        known = FIELDS.read(state)
        self.challengers, self.order, self.points, self.lines, self.errors = (
            known[name] for name in ("challengers", "order", "points", "lines", "errors")
        )
        self.dismissed = set(known.get("dismissed", ()))
        self.encoder = TableEncoder.from_state(pick("encoder", state))
        self.joiner.restore(pick("joiner", state))
        self.keys.restore(pick("keys", state))
        self.contest.restore(pick("contest", state))


@dataclass(frozen=True, slots=True)
class LeadingSession:
    """The session of the leading model, whichever it is, for the files beside the trace."""

    replayed: ReplayedState

    def read(self, X: Any) -> Any:
        """Return rows as the model takes them."""
        return self.replayed.leading().read(X)

    @property
    def targets(self) -> Any:
        """The labels of the model."""
        return self.replayed.leading().targets

    def labels(self) -> tuple[Any, ...]:
        """Return the classes of the model."""
        labels: tuple[Any, ...] = self.targets.labels
        return labels

    @property
    def schema(self) -> Any:
        """The columns of the model."""
        return self.replayed.leading().schema


def _read_challengers(saved: Any) -> dict[str, Challenger]:
    """Return saved challengers; ValueError or TypeError if they are not valid."""
    return {name: Challenger(dict(one["options"]), str(one["failed"])) for name, one in saved.items()}


def _read_points(saved: Any) -> list[SavedPoint]:
    """Return saved restore points; ValueError or TypeError if they are not valid."""
    points = [SavedPoint(*point) for point in saved]
    if not all(type(one.number) is int and type(one.position) is int for one in points):
        raise ValueError("must be checkpoints and positions")
    return points


def _read_errors(saved: Any) -> AnswerErrors:
    """Return saved errors; ValueError or TypeError if they are not valid."""
    last = [StepError(int(rows), float(error), float(trivial)) for rows, error, trivial in saved["last"]]
    rows = int(saved["rows"])
    classes = {label: [int(count) for count in counts] for label, counts in saved.get("classes", ())}
    if not all(len(counts) == len(("rows", "predicted", "right")) for counts in classes.values()):
        raise ValueError("each class must have three counts")
    rules = {str(name): float(total) for name, total in saved.get("rules", {}).items()}
    return AnswerErrors(_recent(last), rows, int(saved.get("scored", rows)), float(saved["total"]), rules, classes)


def _read_names(saved: Any) -> list[str]:
    """Return saved names of models; ValueError if they are not valid."""
    if not (isinstance(saved, list) and saved and all(isinstance(name, str) for name in saved)):
        raise ValueError("must be names of models")
    return saved


FIELDS = Fields(
    {
        "challengers": Json(_read_challengers),
        "order": Json(_read_names),
        "dismissed": Json(_read_names),
        "points": Json(_read_points),
        "lines": Whole(),
        "errors": Json(_read_errors),
    },
    optional=["dismissed"],
    parts=["encoder", "joiner", "keys", "contest"],
)
"""Saved entries besides the models; the parts declare their own."""


def saved_order(state: State) -> tuple[list[str], dict[str, Challenger]]:
    """Return the names of the models in a checkpoint, the leading one first, and its challengers."""
    part = pick("source", state)
    known = Fields({name: FIELDS.entries[name] for name in ("challengers", "order")}).take(part)[0]
    return known["order"], known["challengers"]
