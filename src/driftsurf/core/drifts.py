"""Drifts of a whole model: when its error rose, by how much, why, until when, and how strong the evidence is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, overload

from driftsurf.core.wording import SHARES, agreeing, in_words, percent, significant
from driftsurf.errors.visible import visible

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "MARKS",
    "Drift",
    "DriftCause",
    "DriftKind",
    "DriftMark",
    "DriftNews",
    "DriftPhase",
    "Drifts",
    "InputChange",
    "InputChanges",
]

DriftKind: TypeAlias = Literal["undecided", "new rule", "harm"]
DriftCause: TypeAlias = Literal["columns", "classes", "inputs", "unknown", "unexamined"]
DriftMark: TypeAlias = Literal["", "expected", "false"]
DriftPhase: TypeAlias = Literal["began", "over"]
MARKS: Final[tuple[DriftMark, ...]] = "expected", "false"
"""What a person may say about a drift."""

SMALLEST_RISE: Final = 0.02
"""Smallest rise of the error that is reported by default."""
DRIFT_RISK: Final = 0.01
"""Largest probability with which data without a change are reported as a drift, by default."""
MOST_EVIDENCE = 1e12
"""Largest evidence that is recorded."""


@dataclass(frozen=True, slots=True)
class Drift:
    """An event of the whole model: from ``row`` on it predicted worse than before, beyond chance.

    Examples
    --------
    >>> drift = Drift(0, row=6000, step=30, detected_at_row=6090, kind="new rule", metric="error", error_before=0.07,
    ...     error_peak=0.57, error_after=0.09, recovered_after_rows=800, columns=("price", "distance"), evidence=3e5)
    >>> print(drift.describe())
    From row 6,000 on, the error rose from 7 % to 57 % and was back at 9 % after 800 rows. 'price' and 'distance' no
    longer predict the label as before.
    """

    number: int
    """Number of the drift: from 1 in a run or a served model, as people count; from 0 in the life of an estimator."""
    row: int
    """The first row after the change, as estimated when the drift was detected."""
    step: int
    """The step that this row belongs to."""
    detected_at_row: int
    """The row with which the evidence sufficed."""
    kind: DriftKind
    """"new rule": a model that knows only the new rows predicts better than one that knows only the old ones. "harm":
    the error rose, but newer rows predict no better."""
    metric: str
    """Name of the error measure: "error", "balanced error" (of two imbalanced classes, where the rare one counts as
    predicted from its share of the rows on, and not from one half), or "root mean squared error"; for a key of a keyed
    run "mean absolute error"."""
    error_before: float
    """The usual error before the drift."""
    error_peak: float
    """The highest error of the drift over some hundreds of rows."""
    error_after: float | None = None
    """The error after the model recovered, or at its new level; None while the drift goes on."""
    recovered_after_rows: int | None = None
    """Rows from the beginning until the error was back near its old level; None if it is not, or not yet."""
    ended_at_row: int | None = None
    """The row with which the drift was over; None while it goes on."""
    columns: tuple[str, ...] = ()
    """Columns whose relation to the label changed beyond chance, the most changed one first."""
    classes: tuple[str, ...] = ()
    """Classes that came or went, such as "new: fraud" and "gone: spam"."""
    evidence: float = 1.0
    """The factor by which the data speak against chance. By chance, a run of any length reaches 100 with a probability
    of at most 1 %."""
    cause: DriftCause = "unknown"
    """What changed: how columns relate to the label, the classes, only the inputs, or nothing that columns show;
    "unexamined" for a key of a keyed run, whose columns are not compared."""
    time: str | None = None
    """Time of ``row``, if the rows have times."""
    mark: DriftMark = ""
    """What a person said about the drift."""

    @property
    def ended(self) -> bool:
        """Whether the drift is over: the model recovered, or the error stays at a new level."""
        return self.ended_at_row is not None

    @property
    def recovered(self) -> bool:
        """Whether the error came back near its old level."""
        return self.recovered_after_rows is not None

    def error_text(self, value: float) -> str:
        """Return an error in its unit, such as "7 %" or "12.3".

        >>> one = Drift(0, 1, 0, 2, "harm", "error", 0.07, 0.2)
        >>> one.error_text(0.07), one.error_text(0.0712), one.error_text(0.004)
        ('7 %', '7.1 %', '0.4 %')
        >>> replace(one, metric="root mean squared error").error_text(13061.8)
        '13,062'
        """
        return percent(value) if self.metric in SHARES else significant(value)

    @property
    def evidence_text(self) -> str:
        """The evidence as it is shown everywhere, such as "234" or "3e7".

        >>> one = Drift(0, 1, 0, 2, "harm", "error", 0.07, 0.2)
        >>> [replace(one, evidence=value).evidence_text for value in (104.6, 12_345.6, 3e7)]
        ['105', '12,346', '3e7']
        """
        return f"{self.evidence:,.0f}" if self.evidence < 1e6 else significant(self.evidence, 1)

    def describe(self) -> str:
        """Describe the drift in one or a few sentences that need no knowledge of the model."""
        where = f"From {self.row_text}" + (f" ({self.time})" if self.time else "") + " on"
        text = f"{where}, the {self.metric} rose from {self.rise_text} and {self.end_text}."
        return visible(f"{text} {self.cause_sentence()}".rstrip())

    @property
    def row_text(self) -> str:
        """The first row, such as "row 6,000"; a model that begins a run may know a drift from before it."""
        return f"row {self.row:,}" if self.row >= 0 else f"{_rows(-self.row)} before this run"

    @property
    def rise_text(self) -> str:
        """The errors before the drift and at its peak, such as "7 % to 57 %"."""
        return f"{self.error_text(self.error_before)} to {self.error_text(self.error_peak)}"

    @property
    def end_text(self) -> str:
        """How the drift ended, as the end of a sentence about its error.

        >>> one = Drift(0, 1, 0, 2, "harm", "error", 0.07, 0.2)
        >>> one.end_text, replace(one, ended_at_row=900).end_text
        ('is not back yet', 'was not back when the model was replaced')
        """
        after = "" if self.error_after is None else self.error_text(self.error_after)
        if self.recovered_after_rows is not None:
            return f"was back at {after} after {self.recovered_after_rows:,} rows"
        if self.ended and not after:
            return "was not back when the model was replaced"
        return f"has stayed at {after} since" if self.ended else "is not back yet"

    def cause_sentence(self) -> str:
        """Return the cause in one sentence.

        >>> one = Drift(0, 1, 0, 2, "new rule", "error", 0.07, 0.2)
        >>> for drift in one, replace(one, ended_at_row=600), replace(one, ended_at_row=600, cause="inputs"):
        ...     print(drift.cause_sentence())
        The rule changed; which columns changed is not known yet.
        The rule changed, and no single column explains it.
        The rule changed and the inputs moved; no single column explains it.
        """
        if self.cause == "unexamined":
            return "A new model predicts about as well as before." if self.kind == "new rule" else ""
        if self.kind == "harm" and self.cause == "inputs":
            return "The inputs moved to rows that are harder to predict; the rule did not change."
        if self.kind == "harm" and not self.classes:
            if self.recovered:
                return (
                    "Newer rows predicted no better: there was more noise, or something that the columns do not show."
                )
            return "Newer rows predict no better: there is more noise, or something that the columns do not show."
        if self.kind == "undecided" and not (self.classes or self.columns):
            return "The cause is not known yet."
        if self.classes:
            came = _joined([one.removeprefix("new: ") for one in self.classes if one.startswith("new: ")])
            gone = _joined([one.removeprefix("gone: ") for one in self.classes if one.startswith("gone: ")])
            parts = [f"{came} appeared" if came else "", f"{gone} disappeared" if gone else ""]
            return f"Among the labels, {' and '.join(part for part in parts if part)}."
        if self.columns:
            verb = agreeing(len(self.columns), "predicts", "predict")
            return f"{_joined(self.columns)} no longer {verb} the label as before."
        if not self.ended:  # columns are compared again as rows come
            return "The rule changed; which columns changed is not known yet."
        if self.cause == "inputs":
            return "The rule changed and the inputs moved; no single column explains it."
        return "The rule changed, and no single column explains it."

    def news(self, phase: DriftPhase) -> str:
        """Describe in one line that the drift was detected, or that it is over.

        >>> Drift(0, 6000, 30, 6090, "harm", "error", 0.07, 0.2).news("began").partition(":")[0]
        'drift detected at row 6,090'
        """
        row = self.detected_at_row if phase == "began" or self.ended_at_row is None else self.ended_at_row
        at = f"at row {row:,}" if row >= 0 else "before this run"
        return f"drift {'detected' if phase == 'began' else 'over'} {at}: {self.describe()}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON; numbers that are not finite are None."""
        return {name: _plain(value) for name, value in asdict(self).items()}

    def record(self, at_step: int) -> dict[str, Any]:
        """Return the line of the journal of the step at which the drift was as it is here, as plain values."""
        return {"type": "drift", "at_step": at_step, **self.to_dict(), "text": self.describe()}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Drift:
        """Return what ``to_dict`` was called on."""
        known = {one.name: record[one.name] for one in fields(cls) if one.name in record}
        known |= {name: tuple(known.get(name, ())) for name in ("columns", "classes")}
        numbers = {
            name: math.nan if known.get(name) is None else known[name] for name in ("error_before", "error_peak")
        }
        return cls(**known | numbers)


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value


def _joined(names: Sequence[str], most: int = 3) -> str:
    """Return names in quotes, as part of a sentence.

    >>> _joined(["a", "b", "c", "d", "e"])
    "'a', 'b', 'c' and 2 more"
    """
    return in_words(names, repr, most=most, last=" and ")


class Drifts(Sequence[Drift]):
    """The drifts of a model, oldest first; empty means that there was none.

    Examples
    --------
    >>> from driftsurf.core.drifts import Drift
    >>> drifts = Drifts([Drift(0, 6000, 30, 6090, "new rule", "error", 0.07, 0.57)])
    >>> len(drifts), drifts[0].row, drifts.open is not None
    (1, 6000, True)
    >>> Drifts()
    <Drifts: none>
    """

    def __init__(self, drifts: Iterable[Drift] = ()) -> None:
        self._drifts = tuple(drifts)

    @classmethod
    def merged(cls, updates: Iterable[Drift]) -> Drifts:
        """Return the drifts after a sequence of updates: the last one of each number counts."""
        newest: dict[int, Drift] = {}
        for one in updates:
            newest[one.number] = one
        return cls(newest.values())

    @property
    def open(self) -> Drift | None:
        """The drift that goes on, from which the model has not recovered; None if there is none."""
        return next((one for one in reversed(self._drifts) if not (one.ended or one.recovered)), None)

    @overload
    def __getitem__(self, index: int) -> Drift: ...
    @overload
    def __getitem__(self, index: slice) -> Drifts: ...
    def __getitem__(self, index: int | slice) -> Drift | Drifts:
        return Drifts(self._drifts[index]) if isinstance(index, slice) else self._drifts[index]

    def __len__(self) -> int:
        return len(self._drifts)

    def __iter__(self) -> Iterator[Drift]:
        return iter(self._drifts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Drifts) and self._drifts == other._drifts

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __repr__(self) -> str:
        rows = ", ".join(f"row {one.row:,} ({one.kind})" for one in self._drifts)
        return f"<Drifts: {rows or 'none'}>"

    def describe(self) -> str:
        """Return how many drifts there were, and the last one in words; "" without any.

        >>> Drifts([Drift(0, 6000, 30, 6090, "harm", "error", 0.07, 0.57)]).describe().partition(",")[0]
        'Drifting now: from row 6'
        """
        if not self._drifts:
            return ""
        count = "One drift" if len(self) == 1 else f"{len(self)} drifts, the last one"
        told = self._drifts[-1].describe()
        mark = self._drifts[-1].mark
        marked = f" It is marked as {mark}." if mark else ""
        return f"{count if self.open is None else 'Drifting now'}: {told[0].lower()}{told[1:]}{marked}"

    def rises(self) -> tuple[str, list[str]]:
        """Return the head and the cells of the column of a table that says from what error to what each rose.

        >>> one = Drift(0, 6000, 30, 6090, "harm", "root mean squared error", 1.5, 9.0)
        >>> Drifts([one]).rises(), Drifts([one, replace(one, metric="error", error_peak=0.5)]).rises()[0]
        (('root mean squared error', ['1.5 to 9']), 'error')
        """
        metrics = {one.metric for one in self._drifts}
        if len(metrics) == 1:
            return metrics.pop(), [one.rise_text for one in self._drifts]
        return "error", [f"{one.metric} {one.rise_text}" for one in self._drifts]

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each drift and a column for each field (extra ``pandas``)."""
        return _frame(self._drifts, Drift)

    def with_times(self, times: Iterable[str | None]) -> Drifts:
        """Return the drifts with the time of the row of each."""
        return Drifts(replace(one, time=time) for one, time in zip(self._drifts, times, strict=True))

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        if not self._drifts:
            return "<p>No drift.</p>"
        metric, rises = self.rises()
        head = "row", "time", "kind", metric, "rows to recover", "columns and classes", "evidence"
        lines = [
            (
                f"{one.row:,}",
                one.time or "",
                one.kind,
                rise,
                "" if one.recovered_after_rows is None else f"{one.recovered_after_rows:,}",
                ", ".join((*one.columns, *one.classes)),
                one.evidence_text,
            )
            for one, rise in zip(self._drifts, rises, strict=True)
        ]
        from driftsurf.core.frames import html_table  # imports NumPy, which options with defaults from here do not need

        return html_table(head, lines)


class DriftNews:
    """Tells the beginning and the end of each drift once, whatever number of updates there are.

    Parameters
    ----------
    known
        Drifts that were told before.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from driftsurf.core.drifts import Drift
    >>> drift = Drift(1, 6000, 30, 6090, "new rule", "error", 0.07, 0.3)
    >>> over = replace(drift, error_peak=0.57, error_after=0.09, recovered_after_rows=800, ended_at_row=6800)
    >>> news = DriftNews()
    >>> [phase for one in (drift, replace(drift, error_peak=0.57), over, over) for phase, _ in news.take([one])]
    ['began', 'over']
    """

    def __init__(self, known: Iterable[Drift] = ()) -> None:
        self._newest = -1
        self._open = dict[int, Drift]()
        """Drifts whose end was not told, each as it was last heard of."""
        for _ in self.take(known):
            pass

    def take(self, updates: Iterable[Drift]) -> Iterator[tuple[DriftPhase, Drift]]:
        """Yield what is new in updates of drifts, which come in the order of their beginnings."""
        for one in updates:
            if one.number > self._newest:
                self._newest = one.number
                self._open[one.number] = one
                yield "began", one
            if one.number not in self._open:
                continue
            self._open[one.number] = one
            if one.ended:
                del self._open[one.number]
                yield "over", one

    @property
    def drifting(self) -> bool:
        """Whether a drift goes on, from which the model has not recovered."""
        return Drifts(self._open.values()).open is not None


@dataclass(frozen=True, slots=True)
class InputChange:
    """A move of the inputs alone: columns have another distribution than before, and the error did not rise.

    Examples
    --------
    >>> InputChange(4000, 20, ("price",)).describe()
    "From row 4,000 on, 'price' had other values than before; the error did not rise."
    """

    row: int
    step: int
    columns: tuple[str, ...]
    """Columns that moved beyond chance, the one that moved most first."""
    time: str | None = None

    def describe(self) -> str:
        """Describe the change in one sentence."""
        where = f"From row {self.row:,}" + (f" ({self.time})" if self.time else "") + " on"
        return visible(f"{where}, {_joined(self.columns)} had other values than before; the error did not rise.")

    def record(self, at_step: int) -> dict[str, Any]:
        """Return the line of the journal of the step at which the change was noticed, as plain values."""
        return {"type": "inputs", "at_step": at_step, **asdict(self), "text": self.describe()}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> InputChange:
        """Return the change that a record has the fields of."""
        known = {one.name: record[one.name] for one in fields(cls) if one.name in record}
        return cls(**known | {"columns": tuple(known["columns"])})


class InputChanges(tuple[InputChange, ...]):
    """Moves of the inputs without harm, oldest first.

    Examples
    --------
    >>> from driftsurf.core.drifts import InputChange
    >>> InputChanges([InputChange(4000, 20, ("price",))]).to_frame()["row"].tolist()
    [4000]
    """

    __slots__ = ()

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each change (extra ``pandas``)."""
        return _frame(self, InputChange)

    def with_times(self, times: Iterable[str | None]) -> InputChanges:
        """Return the changes with the time of the row of each."""
        return InputChanges(replace(one, time=time) for one, time in zip(self, times, strict=True))


def _frame(records: Sequence[Any], kind: type) -> pd.DataFrame:
    """Return records as a pandas DataFrame, with all columns even if there are none."""
    columns = {one.name: [getattr(record, one.name) for record in records] for one in fields(kind)}
    from driftsurf.core.frames import new_frame  # as above

    return new_frame(columns, "to_frame()")
