"""Results of keys: a visit, the summary of a key, and those of an epoch as tables of pyarrow."""

from __future__ import annotations

import hashlib
import importlib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from driftsurf.core.changes import replace
from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.decisions import Decision
from driftsurf.core.targets import RegressionTargets
from driftsurf.errors import MissingExtraError
from driftsurf.keyed.quarantine import Fault, Reason
from driftsurf.keyed.rows import RowsByKey
from driftsurf.keyed.serving import KeyServing, ServedRows

MESSAGE_LENGTH = 300
VALUE_LENGTH = 100


@dataclass(frozen=True)
class KeySummary:
    """Rows, errors and state of one key so far.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.keyed import KeyedOptions, KeyRows
    >>> learner = KeyedOptions(batch_size=16, classes=("no", "yes")).learner(["price"])
    >>> X = np.arange(32.0)[:, None] % 7
    >>> rows = KeyRows(np.arange(32), X, np.where(X[:, 0] > 3, "yes", "no").tolist())
    >>> found = learner.visit("Rome", None, rows).summary
    >>> found.rows, found.steps, found.scored, found.errors, found.state
    (32, 2, 32, 9, 'stable')
    """

    rows: int = 0
    """Rows taken, including labels that came alone, but neither duplicates nor refused rows."""
    steps: int = 0
    """Time steps learned."""
    state: str = "stable"
    """The state in which the next batch will be learned: "stable" or "reactive"."""
    scored: int = 0
    """Predictions whose true label is known."""
    errors: int = 0
    """Wrong predictions; 0 for regression."""
    deviation: float = 0.0
    """For regression, the sum of absolute errors; else 0."""
    duplicates: int = 0
    """Rows at or below the high-water mark, which were dropped."""
    refused: int = 0
    """Rows that were not learned: they came in quarantine, or had started a time step when the key was readmitted."""
    gaps: int = 0
    """Cells without a value, which were filled."""
    transitions: int = 0
    last_transition: str = ""
    last_transition_at: int | None = None
    """The sequence number at which it happened."""
    digest: str = ""
    """Checksum of the records of all time steps. Keys with the same one made the same time steps, with the same risks
    to the last bit."""
    high_water: int | None = None
    """The largest sequence number so far."""
    waiting: int = 0
    """Rows that wait for their label."""
    quarantine: str = ""
    """Why the key no longer learns, a :data:`~driftsurf.keyed.quarantine.Reason`; empty if it does."""
    quarantined_at: int | None = None
    """The sequence number of the row that could not be learned."""
    quarantine_column: str = ""
    """The feature that is to blame, if it is one."""
    quarantine_value: str = ""
    """The value that is to blame, as text, if it is one."""
    quarantine_message: str = ""
    """The reason of the quarantine as a sentence."""
    bytes: int = 0
    """Bytes of the rows, models and other arrays in the saved state."""
    expired: bool = False
    """Whether the key was silent for so long that its model was dropped."""

    @property
    def error(self) -> float | None:
        """The share of wrong predictions; for regression the mean absolute error; None if nothing was scored."""
        return (self.errors + self.deviation) / self.scored if self.scored else None

    def quarantined(self, at: int, fault: Fault) -> KeySummary:
        """Return the summary of the key in quarantine since the row ``at``."""
        return replace(
            self,
            quarantine=fault.reason,
            quarantined_at=at,
            quarantine_column=fault.column,
            quarantine_value=fault.value[:VALUE_LENGTH],
            quarantine_message=fault.message[:MESSAGE_LENGTH],
        )

    def readmitted(self, dropped: int) -> KeySummary:
        """Return the summary of the key out of quarantine; ``dropped`` rows of a time step were taken back."""
        reason: Reason = ""
        return replace(
            self,
            quarantine=reason,
            quarantined_at=None,
            quarantine_column="",
            quarantine_value="",
            quarantine_message="",
            rows=self.rows - dropped,
            refused=self.refused + dropped,
        )


_TYPES = {"int": "int64", "str": "string", "bool": "bool_", "float": "float64"}


def key_columns() -> dict[str, str]:
    """Return the columns of the table of keys beside the key, and their types as pyarrow names them."""
    own = {entry.name: _TYPES[str(entry.type).split(" ")[0]] for entry in fields(KeySummary)}
    return own | {"error": "float64"}


def chained(digest: str, records: Iterable[str]) -> str:
    """Return the checksum of the records so far, and of these.

    >>> chained(chained("", ["a"]), ["b"]) == chained("", ["a", "b"]) != chained("", ["b", "a"])
    True
    """
    for record in records:
        digest = hashlib.blake2b(record.encode(), digest_size=8, key=digest.encode()).hexdigest()
    return digest


def after_visit(
    summary: KeySummary, served: ServedRows, serving: KeyServing, *, taken: int, refused: int
) -> KeySummary:
    """Return the summary with the counts of a visit added."""
    happened = [
        (at, transition.kind)
        for at, decision in zip(served.decided_at, served.decisions, strict=True)
        for transition in decision.transitions
    ]
    changes: dict[str, Any] = {}
    if happened:
        at, kind = happened[-1]
        changes = {"last_transition": kind, "last_transition_at": at}
    if served.decisions:
        changes["state"] = next_state(served.decisions[-1])
    if isinstance(serving.session.targets, RegressionTargets):
        changes["deviation"] = _deviation(summary.deviation, served)
    else:
        changes["errors"] = summary.errors + served.errors
    return replace(
        summary,
        rows=summary.rows + taken,
        steps=serving.session.steps,
        scored=summary.scored + served.scored,
        refused=summary.refused + refused,
        transitions=summary.transitions + len(happened),
        waiting=serving.waiting,
        **changes,
    )


def _deviation(total: float, served: ServedRows) -> float:
    """Add absolute errors one by one, so that rounding does not depend on how rows are spread over visits."""
    for predicted, true in zip(served.predicted, served.true, strict=True):
        total += 0.0 if predicted is None or true is None else abs(predicted - true)
    return total


def next_state(decision: Decision) -> str:
    """Return the state in which the next batch will be learned."""
    ended = {one.expert for one in decision.transitions if one.kind in ("switched", "kept")}
    if decision.reacting:
        return "reactive" if set(decision.reacting) - ended else "stable"
    return "stable" if ended else decision.state


Name: TypeAlias = Literal["predictions", "journal", "keys"]
TABLES: tuple[Name, ...] = get_args(Name)
SHARED = "shared"
"""The column of predictions with those of the model that keys share."""
NEVER = np.iinfo(np.int64).min
"""Sequence number of what has not happened."""
_PYTHON: dict[str, type] = {"int64": int, "string": str, "bool_": bool, "float64": float}


NEW: KeySummary = KeySummary()


@dataclass(frozen=True, slots=True, eq=False)
class Visit:
    """Result of a visit to a key.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.keyed import KeyRows, KeyedOptions
    >>> learner = KeyedOptions(batch_size=16, classes=("no", "yes")).learner(["price"])
    >>> X = np.arange(64.0)[:, None] % 7
    >>> visit = learner.visit("Rome", None, KeyRows(np.arange(64), X, np.where(X[:, 0] > 3, "yes", "no").tolist()))
    >>> visit.decided_at, visit.predicted[-4:], visit.true[-4:]
    ([15, 31, 47, 63], ['yes', 'yes', 'yes', 'no'], ['yes', 'yes', 'yes', 'no'])
    >>> visit.summary.steps, visit.summary.errors
    (4, 11)
    """

    state: bytes
    """To be kept and passed to the next visit; empty if the key was dropped."""
    sequence: list[int]
    """The sequence numbers of the rows that were taken or refused, in order."""
    predicted: list[Any]
    """One prediction for each of them, None where there was nothing to predict with. For a late label, what was
    predicted for its row."""
    true: list[Any]
    """One label for each of them, None where there is none, or a bad one."""
    decided_at: list[int]
    """The sequence number of the last row of each time step that the visit completed."""
    decisions: list[str]
    """The record of each of these time steps, as a line of a journal."""
    transitions: list[str]
    """The kinds of transitions of each of these time steps, separated by commas."""
    summary: KeySummary
    alone: list[Any] | None = None
    """Prediction of the model that keys share, if there is one."""


def arrow(module: str = "pyarrow") -> Any:
    """Import a module of pyarrow; MissingExtraError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"the tables of a keyed run need pyarrow, which cannot be imported ({error}): pip install pyarrow"
        ) from error


def arrow_type(name: str) -> Any:
    """Return a type of pyarrow by its name."""
    pa = arrow()
    return {"int64": pa.int64, "float64": pa.float64, "bool_": pa.bool_, "string": pa.string}[name]()


def fitted(values: Iterable[Any], kind: str) -> list[Any]:
    """Convert values to one type; those that it cannot hold exactly become None. All values have a form as "string".

    >>> fitted([True, 2.0, 2.7, None, "3"], "int64")
    [1, 2, None, None, None]
    """
    given = list(values)
    if set(map(type, given)) <= {_PYTHON[kind], type(None)}:  # the usual case
        return given
    return [value if value is None else _fit(value, _PYTHON[kind]) for value in given]


def _fit(value: Any, kind: type) -> Any:
    if kind is str:
        return str(value)
    try:
        found = None if isinstance(value, str) else kind(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if kind is float or found == value else None


def _column(values: Iterable[Any], kind: str) -> Any:
    return arrow().array(fitted(values, kind), arrow_type(kind))


class KeyedPredictions(NamedTuple):
    """Predictions as places in a list of values, -1 where there was nothing to predict with."""

    values: list[Any] | FloatArray
    places: IntArray


class Steps(NamedTuple):
    """The time steps of several keys, in the order of the keys."""

    group: list[int]
    """Number of the key."""
    at: list[int]
    """Sequence number of the last row."""
    records: list[str]
    kinds: list[str]
    """The kinds of transitions, separated by commas."""
    states: list[str]
    """The state in which the next batch will be learned."""


class ServedPart(NamedTuple):
    """Predictions, time steps and summaries of keys that were served together, in columns."""

    rows: RowsByKey
    keys: IntArray
    """Numbers of the keys in ``rows``, in rising order."""
    order: IntArray
    """Places of the rows of these keys in ``rows``, key by key."""
    starts: IntArray
    predicted: KeyedPredictions
    """Predictions of the rows, in the order of ``order``."""
    steps: Steps
    """Time steps that the rows completed; their keys are numbered by the places in ``keys``."""
    summaries: dict[str, npt.NDArray[Any]]
    """Summaries after these rows, in columns; fields that are not here have the values of a new key."""
    alone: KeyedPredictions | None = None
    """Predictions of the model that keys share, if there is one, in the same order."""

    @property
    def names(self) -> list[Any]:
        """The keys."""
        return [self.rows.names[number] for number in self.keys.tolist()]

    def tables(self, key: str, label: str) -> dict[Name, Any]:
        """Return the tables of these keys."""
        pa = arrow()
        keys = pa.array(self.names, arrow_type(key))
        places = np.repeat(np.arange(len(self.keys)), np.diff(self.starts))
        words = _column([*self.rows.words, None], label)
        true = self.rows.codes[self.order]
        group, at, records, kinds, _ = self.steps
        return {
            "predictions": pa.table(
                {
                    "key": keys.take(pa.array(places)),
                    "sequence": pa.array(self.rows.sequence[self.order]),
                    "prediction": _taken(_column([*self.predicted.values, None], label), self.predicted.places),
                    "true": _taken(words, true),
                }
                | (
                    {}
                    if self.alone is None
                    else {SHARED: _taken(_column([*self.alone.values, None], label), self.alone.places)}
                )
            ),
            "journal": pa.table(
                {
                    "key": keys.take(pa.array(group, pa.int64())),
                    "sequence": pa.array(at, pa.int64()),
                    "transitions": pa.array(kinds, pa.string()),
                    "record": pa.array(records, pa.string()),
                }
            ),
            "keys": pa.table({"key": keys} | {name: self._entry(name, kind) for name, kind in key_columns().items()}),
        }

    def _entry(self, name: str, kind: str) -> Any:
        """Return a column of the table of keys."""
        pa, own = arrow(), self.summaries
        if name == "error":
            scored = own["scored"]
            total = own["errors"] + own["deviation"]
            return pa.array(total / np.maximum(scored, 1), mask=scored == 0)
        if name not in own:
            return pa.repeat(pa.scalar(getattr(NEW, name), arrow_type(kind)), len(self.keys))
        values = own[name]
        if kind == "int64":
            return pa.array(values, mask=values == NEVER)
        return pa.array(values, arrow_type(kind))


def _taken(values: Any, places: IntArray) -> Any:
    """Return values at these places; the last value stands for -1."""
    return values.take(arrow().array(np.where(places < 0, len(values) - 1, places)))


class Results:
    """Results of all keys of an epoch: of keys that were served together, and of keys that were visited.

    Parameters
    ----------
    visits
        Results of keys that were served on their own, and of keys that have expired.
    parts
        Results of keys that were served together.
    """

    def __init__(self, visits: Mapping[Any, Visit] | None = None, parts: Iterable[ServedPart] = ()) -> None:
        self.visits: dict[Any, Visit] = dict(visits or {})
        self.parts: list[ServedPart] = list(parts)

    @property
    def n_keys(self) -> int:
        """How many keys there are."""
        return len(self.visits) + sum(len(part.keys) for part in self.parts)

    @property
    def n_rows(self) -> int:
        """How many rows were taken or refused."""
        return sum(len(visit.sequence) for visit in self.visits.values()) + sum(len(part.order) for part in self.parts)

    def high_waters(self) -> dict[Any, int]:
        """Return the largest sequence number of each key that has one."""
        found = {key: visit.summary.high_water for key, visit in self.visits.items()}
        high = {key: value for key, value in found.items() if value is not None}
        for part in self.parts:
            high.update(zip(part.names, part.summaries["high_water"].tolist(), strict=True))
        return high

    def tables(self, key: str, label: str) -> dict[Name, Any]:
        """Return the tables of an epoch, in the order of the keys; the types are as pyarrow names them."""
        made = [part.tables(key, label) for part in self.parts]
        if self.visits or not made:
            made.append(_tables_of_visits(dict(sorted(self.visits.items())), key, label))
        if len(made) == 1:
            return made[0]
        together = {name: arrow().concat_tables([tables[name] for tables in made]) for name in TABLES}
        return {name: _in_order(table) for name, table in together.items()}


def _in_order(table: Any) -> Any:
    """Return a table in the order of its keys; the rows of a key stay in their order."""
    codes = table["key"].combine_chunks().dictionary_encode()
    names = codes.dictionary.to_pylist()
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return table.take(arrow().array(np.argsort(rank[codes.indices.to_numpy()], kind="stable")))


def _tables_of_visits(visits: Mapping[Any, Visit], key: str, label: str) -> dict[Name, Any]:
    pa = arrow()
    done = list(visits.values())

    def repeated(lists: Iterable[list[int]]) -> Any:
        """Return the key of each visit as often as its list is long."""
        counted = zip(visits, map(len, lists), strict=True)
        return _column(itertools.chain.from_iterable(itertools.starmap(itertools.repeat, counted)), key)

    def joined(lists: Iterable[list[Any]], kind: str) -> Any:
        return _column(itertools.chain.from_iterable(lists), kind)

    entries = [{**vars(visit.summary), "error": visit.summary.error} for visit in done]
    shares = any(visit.alone is not None for visit in done)
    return {
        "predictions": pa.table(
            {
                "key": repeated(visit.sequence for visit in done),
                "sequence": joined((visit.sequence for visit in done), "int64"),
                "prediction": joined((visit.predicted for visit in done), label),
                "true": joined((visit.true for visit in done), label),
            }
            | ({SHARED: joined((visit.alone or [] for visit in done), label)} if shares else {})
        ),
        "journal": pa.table(
            {
                "key": repeated(visit.decided_at for visit in done),
                "sequence": joined((visit.decided_at for visit in done), "int64"),
                "transitions": joined((visit.transitions for visit in done), "string"),
                "record": joined((visit.decisions for visit in done), "string"),
            }
        ),
        "keys": pa.table(
            {"key": _column(visits, key)}
            | {name: _column((entry[name] for entry in entries), kind) for name, kind in key_columns().items()}
        ),
    }


COUNTS = "rows", "steps", "scored", "errors", "duplicates", "refused", "gaps", "transitions", "bytes"
MARKS = "high_water", "last_transition_at"
TEXTS = "state", "last_transition", "digest"


class Summaries:
    """The summary of each slot, in columns. Keys in quarantine and keys with rows that wait have no slot."""

    def __init__(self) -> None:
        self._columns: dict[str, npt.NDArray[Any]] = {
            **{name: np.zeros(0, np.int64) for name in (*COUNTS, *MARKS)},
            **{name: np.zeros(0, np.object_) for name in TEXTS},
            "deviation": np.zeros(0),
        }

    def grow(self, slots: int) -> None:
        """Make room for more slots."""
        for name, column in self._columns.items():
            more = np.zeros(slots - len(column), column.dtype)
            self._columns[name] = np.concatenate([column, more])

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._columns[name]

    def put(self, slots: Any, summary: KeySummary) -> None:
        """Set the summary of one slot or more."""
        for name, column in self._columns.items():
            value = getattr(summary, name)
            column[slots] = NEVER if value is None else value

    def get(self, slot: int) -> KeySummary:
        """Return the summary of a slot."""
        own = {name: column[slot] for name, column in self._columns.items()}
        own = {name: value if name in TEXTS else value.item() for name, value in own.items()}
        own |= {name: None for name in MARKS if own[name] == NEVER}
        return KeySummary(**own)

    def columns(self, slots: IntArray) -> dict[str, npt.NDArray[Any]]:
        """Return a copy of the summaries of slots."""
        return {name: column[slots] for name, column in self._columns.items()}

    def add(self, slots: IntArray, counts: dict[str, IntArray], high: IntArray, deviation: FloatArray | None) -> None:
        """Add the counts of a call, and set the high-water marks."""
        for name, more in counts.items():
            self._columns[name][slots] += more
        self._columns["high_water"][slots] = high
        if deviation is not None:
            self._columns["deviation"][slots] = deviation

    def add_steps(self, slots: list[int], steps: Steps) -> None:
        """Add time steps; the keys have these slots."""
        own = self._columns
        for group, at, record, kinds, state in zip(*steps, strict=True):
            slot = slots[group]
            own["steps"][slot] += 1
            own["state"][slot] = state
            own["digest"][slot] = chained(own["digest"][slot], (record,))
            if kinds:
                names = kinds.split(",")
                own["transitions"][slot] += len(names)
                own["last_transition"][slot], own["last_transition_at"][slot] = names[-1], at
