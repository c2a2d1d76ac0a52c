"""Encode tables as rows of numbers, and read their target and their times: what is decided once and saved together."""

from __future__ import annotations

import contextlib
import json
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, fields, replace
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import Categories, State
from driftsurf.core.fields import Converted, Fields, Json, Text
from driftsurf.core.frames import number_matrix
from driftsurf.core.input import listed
from driftsurf.core.options import choice, options_given
from driftsurf.core.state import nest, pick
from driftsurf.data.advice import number_hint
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.formats._cells import cell_reader, infer_kind, suggest_date_options
from driftsurf.data.formats._text import automatic_names
from driftsurf.data.frames import is_table, read_table
from driftsurf.data.reading_options import Kind, ReadingOptions
from driftsurf.data.source import Source, remarks_of
from driftsurf.data.sources.files import FileSource
from driftsurf.data.tables import Column, Table, empty_column, listed_columns, which_columns
from driftsurf.errors import (
    DriftsurfError,
    LabelError,
    Message,
    Option,
    OptionError,
    SchemaError,
    StateError,
    ValueTypeError,
)

LEAST_ROWS = 20
"""With fewer rows, a column may rise or fall by chance."""
READ_ROWS = 10_000
FALL_SHARE = 0.25
"""A column is no clock if more than this share of its values in the first half of the rows exceed those half the rows
later. A clock may be a little out of order; of values in random order, half do."""


def is_clock(column: Column) -> bool:
    """Return whether a column may date the rows: values half the table apart rise, but for a few.

    >>> is_clock(Column("number", np.arange(50.0))), is_clock(Column("number", np.arange(50.0) * 7 % 50))
    (True, False)
    """
    values = column.values[~column.missing()]
    half = len(values) // 2
    if len(values) < LEAST_ROWS:
        return True
    return bool(np.count_nonzero(values[-half:] < values[:half]) <= FALL_SHARE * half)


def first_of_file(source: Source, table: Table, name: str, rows: int) -> Iterator[Column]:
    """Yield a column of the first rows of a file, which is read again; nothing for other sources.

    ``table`` is the first table of the source, which tells its columns.
    """
    if not (isinstance(source, FileSource) and source.seekable):
        return
    others = tuple(other for other in table.columns if other != name)
    reading = replace(source.reading, drop=(*source.reading.drop, *others), rows=rows, on_bad_row="skip")
    with contextlib.suppress(DriftsurfError):  # a bad row is reported when it is learned
        for part, _ in FileSource(source.path, reading, batch_size=READ_ROWS).tables():
            yield part[name]


TRIED_WORDS = 200
"""Number of different texts that are tried as dates."""
CHECKED_ROWS = 1000
"""Number of rows that tell whether times rise."""

SECONDS = 1e8, 1e11
"""Numbers in this range are taken as seconds since 1970 (from 1973 on)."""


def find_time(table: Table, asked: str | None = None) -> str | None:
    """Return the column that dates the rows: the one asked for, or the first column of dates that never decreases.

    A column of numbers is taken if it was asked for and its numbers look like seconds since 1970.

    >>> from driftsurf.data.frames import read_table
    >>> days = np.array(["2024-05-02", "2024-05-01", "2024-05-03"], "datetime64[us]")
    >>> find_time(read_table({"born": days, "seen": np.sort(days)}))
    'seen'
    """
    if asked is not None:
        return asked if asked in table.columns and len(_times(table[asked])) else None
    for name, column in table.columns.items():
        times = _times(column)
        if (
            column.kind == "date"
            and len(times) > 1
            and times[-1] > times[0]
            and not np.any(np.diff(times) < np.timedelta64(0, "us"))
        ):
            return name
    return None


def check_time(source: Source, table: Table, name: str) -> None:
    """Raise SchemaError if a column that is to date the rows holds no times: other values, or numbers that do not rise.

    ``table`` is the first table of the source.
    """
    column = table[name]
    present = column.values[~column.missing()]
    if column.kind == "number":
        first = _first_of(source, table, name)
        if not is_clock(first):
            numbers = first.values[~first.missing()]
            falls = int(np.argmax(np.diff(numbers) < 0))
            raise SchemaError(
                Option("time"),
                f" names {name!r}, whose numbers do not rise as times do ({', '.join(_shown(numbers, falls))}). Name a "
                "column of dates or of seconds, and sort the rows by it",
            )
        return
    if column.kind == "date" or not len(present):
        return
    words = [column.words[code] for code in column.used()[:TRIED_WORDS].tolist()] if column.kind == "text" else []
    shown = column.words[int(present[0])] if words else bool(present[0])
    formats = suggest_date_options(words, source.reading) if words else []
    raise SchemaError(
        Option("time"),
        f" names {name!r}, which holds no times: it begins with {str(shown)[:100]!r}. Name a column of dates or of "
        "seconds; dates in other forms than ISO 8601 are read with ",
        *(formats[0] if formats else [Option("date_formats")]),
    )


def time_hints(source: Source, table: Table, name: str | None, *, cuts: bool) -> list[Message]:
    """Return advice about the column of times that was asked for; ``cuts`` if batches are cut by it."""
    if name is None:
        return []
    if table[name].kind == "date" and not is_clock(_first_of(source, table, name)):
        told = f"the times in column {name!r} do not rise from row to row; sort the rows by it, or name another with "
        return [Message(told, Option("time"))]
    if table[name].kind == "number" and not cuts and not len(_times(table[name])):
        told = f"the numbers in column {name!r} are not seconds since 1970, so the report counts steps in place of "
        return [Message(told, "times; with ", Option("batch_seconds"), " they would cut the steps")]
    return []


def _first_of(source: Source, table: Table, name: str) -> Column:
    """Return a column of the first rows of a file, or of the first table, which may be a single span of time.

    If later rows of the file make it a column of text, the first table is used: these rows are reported when they are
    learned.
    """
    column = next(first_of_file(source, table, name, CHECKED_ROWS), table[name])
    return column if column.kind == table[name].kind else table[name]


def _shown(values: npt.NDArray[Any], place: int) -> list[str]:
    return [f"{value:.15g}" for value in values[place : place + 2].tolist()]


def first_time(table: Table, column: str) -> str:
    """Return the first time of a column in ISO format, in whole seconds; "" if there is none."""
    if column not in table.columns or not len(times := _times(table[column])):
        return ""
    return str(np.datetime_as_string(times[0], unit="s"))


def _times(column: Column) -> npt.NDArray[Any]:
    """Return the times of a column that are not missing; nothing if it holds no times."""
    present = column.values[~column.missing()]
    if column.kind == "number" and len(present) and SECONDS[0] <= present.min() <= present.max() < SECONDS[1]:
        return np.asarray((present * 1e6).astype(np.int64).astype("datetime64[us]"))
    return present if column.kind == "date" else present[:0]


Task: TypeAlias = Literal["binary", "multiclass", "regression"]
TASKS: tuple[Task, ...] = get_args(Task)
MOST_SHOWN = 200
"""Characters of a question that a message shows."""
MOST_CLASSES = 20
"""Whole numbers with more different values than this in the first batch are for regression, unless a task is given."""
_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_TEST = re.compile("|".join(_TESTS))


@dataclass(frozen=True, slots=True)
class Target:
    """How targets are read from a table.

    Examples
    --------
    >>> from driftsurf.data.frames import read_table
    >>> table = read_table({"delay": [12.0, -3.0, 0.0], "city": ["Rome", "Oslo", "Rome"]})
    >>> find_target("delay > 0", "auto", table).read(table)
    array([ True, False, False])
    >>> find_target("city", "auto", table).task
    'binary'
    """

    column: str
    task: Task
    test: str = ""
    """Comparison of a condition, such as ">"; "" for the column itself."""
    value: str = ""
    """Value that the column is compared with."""

    def read(self, table: Table) -> npt.NDArray[Any]:
        """Return one label or number for each row; raise LabelError if one is missing."""
        if self.test:
            labels = self.answers(table)
            table.labels(self.column)
            return labels
        labels = table.labels(self.column)
        return labels if self.task != "regression" else np.asarray(table[self.column].values)

    @property
    def compare(self) -> Callable[[Any, Any], Any]:
        """The comparison of a condition as a function, such as ``operator.gt``."""
        return _TESTS[self.test]

    def answers(self, table: Table) -> npt.NDArray[Any]:
        """Return whether the condition holds for each row; the answer for a missing cell means nothing."""
        return _compare(table[self.column], self.column, self.test, self.value)

    def missing(self, table: Table) -> npt.NDArray[np.bool_]:
        """Return which rows have no target."""
        return table[self.column].missing()

    def to_json(self) -> str:
        """Return the target as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Target:
        """Return the target that ``to_json()`` wrote."""
        try:
            target = cls(**json.loads(text))
            if not all(isinstance(value, str) for value in astuple(target)) or target.test not in ("", *_TESTS):
                raise ValueError("its entries are not those of a target")
            choice("task", target.task, TASKS)
            return target
        except (TypeError, ValueError) as error:
            raise StateError(f"not a saved target: {text[:100]!r} ({error})") from error


def find_target(
    label: str | None, task: str, table: Table, *, hidden: Collection[str] = (), source: Source | None = None
) -> Target:
    """Return the target by the name of a column or a condition (``"ArrDelay > 0"``).

    With the task "auto" the rows of ``table`` decide: text, booleans, conditions, and whole numbers with at most 20
    different values are classes, "binary" if there are two of them and otherwise "multiclass"; other numbers are for
    regression. Columns in ``hidden`` cannot be targets. Errors tell which reading options of ``source`` might help.
    """
    choice("task", task, ("auto", *TASKS))
    columns = [name for name in table.columns if name not in hidden]
    if label is None:
        raise OptionError(
            Option("label"), f" is missing: name the column to predict; the columns are {listed_columns(columns)}"
        )
    found = _TEST.search(label, 1)
    asked = label if found is None else label[: found.start()].rstrip()
    if label not in columns and found is not None and asked in columns:
        column, test, value = asked, found[0], label[found.end() :].strip()
        if task == "regression":
            raise OptionError(
                Option("label"), f" must be a column of numbers for the task 'regression'; got the condition {label!r}"
            )
        compared = table[column]
        if compared.kind != "number" and test not in ("==", "!="):
            raise OptionError(
                Option("label"),
                f" compares {column!r}, a column of kind {compared.kind}, by {test!r}; choices: ==, !=",
                _hint(source, compared),
            )
        _compare(compared, column, test, value)
        return Target(column, "multiclass" if task == "multiclass" else "binary", test, value)
    if label not in columns:
        notes = [Message(". Note that ", remark) for remark in remarks_of(source)]
        raise SchemaError(Option("label"), f" is {label[:MOST_SHOWN]!r}; {which_columns([asked], columns)}", *notes)
    kind = table[label].kind
    if task == "regression" and kind not in ("number", "boolean"):
        raise LabelError(
            f"the label {label!r} must be numbers for the task 'regression'; it is a column of kind {kind}",
            _hint(source, table[label]),
        )
    return Target(label, _task_of(table, label) if task == "auto" else task)  # type: ignore[arg-type]


def find_labelled(target: Target, task: str, table: Table, remedy: Message) -> npt.NDArray[np.bool_]:
    """Return which of the first rows have a label; LabelError if none has, and they were to decide on the task.

    ``remedy`` says what can be done besides naming the task.
    """
    labelled = ~target.missing(table)
    if task == "auto" and not labelled.any():
        raise LabelError(
            f"the label {target.column!r} is missing in all of the first {len(table):,} rows, which decide what is "
            "predicted; say it with ",
            Option("task"),
            remedy,
        )
    return labelled


def is_unread_number(label: str | None, task: str, table: Table, source: Source) -> bool:
    """Return whether a label was read as text only because the rows that decide on kinds have no value of it.

    Then it is a number if its values in later rows of ``table`` are, and without any if the task is "regression".
    """
    inferred = source.seekable and source.cells in ("text", "json")
    if label is None or label not in table.columns or label in source.reading.kinds or not inferred:
        return False
    column = table[label]
    if column.kind != "text" or not column.missing()[: source.reading.sample_rows].all():
        return False
    words = [column.words[code] for code in column.used().tolist()]
    return infer_kind(words, source.reading) == "number" if words else task == "regression"


def _hint(source: Source | None, column: Column) -> Message:
    return Message() if source is None else number_hint(source, column)


def _task_of(table: Table, label: str) -> Task:
    column = table[label]
    values = column.values[~column.missing()]
    if column.kind == "text":
        distinct = len({column.words[code] for code in np.unique(values).tolist()})
    else:
        distinct = len(np.unique(values))
        whole = column.kind == "boolean" or (column.kind == "number" and bool((values == np.floor(values)).all()))
        if column.kind == "number" and (not whole or distinct > MOST_CLASSES):
            return "regression"
    return "binary" if distinct == 2 else "multiclass"


def _compare(column: Column, name: str, test: str, value: str) -> npt.NDArray[Any]:
    if column.kind == "number":
        try:
            return np.asarray(_TESTS[test](column.values, float(value)))
        except ValueError:
            raise OptionError(
                Option("label"), f" must compare {name!r}, a column of numbers, with a number; got {value!r}"
            ) from None
    column = column.as_text()
    words = np.array([word == value for word in column.words] or [False])
    return np.asarray(words[column.values] == (test == "=="))


@dataclass(slots=True)
class RowEncoder:
    """The encoder of the columns that a model sees, and the target that it predicts."""

    encoder: TableEncoder
    target: Target
    hidden: Collection[str] = ()
    """Columns besides the target that the model does not see."""
    time: str | None = None
    """Column that dates the rows, if there is one."""
    first_time: str = ""
    """Time of the first row of the last table, in ISO format; "" if it is not known."""

    def rows(self, table: Table) -> Any:
        """Return the rows of a table as numbers, for a session. The first table fixes the layout."""
        seen = table.without(self.target.column, *self.hidden)
        if self.time is not None:
            self.first_time = first_time(table, self.time) or self.first_time
        encoder = self.encoder if self.encoder.fitted else self.encoder.fit(seen)
        return encoder.rows(seen)

    def feature_names(self) -> list[str]:
        """Return the names of the encoded columns, once the layout is fixed."""
        return self.encoder.feature_names()

    def calendar_columns(self) -> list[int]:
        """Return the places of encoded columns that follow the calendar."""
        return self.encoder.calendar_columns()

    def categories(self) -> Categories:
        """Return the ranges of encoded columns of which exactly one is 1 in each row."""
        return self.encoder.categories()

    def state(self) -> State:
        """Return the layout, once it is fixed, and the target as a flat state."""
        state: State = {"target": self.target.to_json(), "first_time": self.first_time}
        return state | nest("encoder", self.encoder.state() if self.encoder.fitted else {})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state()`` returned."""
        known, saved = FIELDS.read(state), pick("encoder", state)
        encoder = TableEncoder.from_state(saved) if saved else self.encoder
        self.target, self.first_time, self.encoder = known["target"], known.get("first_time", ""), encoder


FIELDS = Fields(
    {"target": Converted(Target.from_json), "first_time": Text()}, optional=["first_time"], parts=["encoder"]
)
"""Saved entries of a row encoder."""


@dataclass(frozen=True, slots=True)
class FrameEncoder:
    """Encodes tables as rows for a model. The first table has fixed the layout, and nothing changes it afterwards.

    Examples
    --------
    >>> frames = FrameEncoder.of({"price": [1.5, 2.5], "paid": [True, False]})
    >>> frames.rows({"paid": [True], "price": [None]})
    array([[2., 1.]])
    """

    encoder: TableEncoder
    ignored: tuple[str, ...] = ()
    """Columns that are left out if a table has them."""
    reading: ReadingOptions | None = None
    """How text becomes values of the kind that its column had in the first table, and what to do with other columns;
    None refuses such text and such columns."""

    @classmethod
    def of(cls, X: Any, *, sparse: bool = False, ignored: tuple[str, ...] = ()) -> Self:
        """Return the encoder whose layout a first table fixes; ``sparse`` allows CSR rows."""
        table = read_table(X).without(*ignored)
        return cls(TableEncoder(sparse="auto" if sparse else False, plain=True).fit(table), ignored)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.encoder.layout.columns]

    @property
    def n_columns(self) -> int:
        """Number of columns, sparse features included."""
        return len(self.encoder.layout.columns) + self.encoder.layout.n_features

    def rows(self, X: Any) -> Any:
        """Return the rows of a table as numbers; an array as it is if the first table had only numbers."""
        layout = self.encoder.layout
        if layout.only_numbers and (matrix := number_matrix(X, layout.names)) is not None:
            return matrix
        if is_table(X):
            return self.encoder.transform(self._adapted(read_table(X)))
        if layout.plain or not layout.columns:
            return X
        raise SchemaError(
            f"this model has learned a table with the columns {listed(self.columns)}; pass a table with these columns, "
            f"not an object of the type {type(X).__name__}"
        )

    def _adapted(self, table: Table) -> Table:
        """Return a table without ignored columns, and with text read as the kinds of the first table."""
        kept = table.without(*self.ignored)
        if self.reading is None:
            return kept
        kinds: dict[str, Kind] = {column.name: column.kind for column in self.encoder.layout.columns}
        columns = {
            name: _as_kind(name, one, kinds.get(name, one.kind), self.reading)
            for name, one in kept.columns.items()
            if name in kinds or self.reading.on_schema_change == "fail"
        }
        if self.reading.on_schema_change == "fill-removed":
            columns = {name: empty_column(kind, len(table)) for name, kind in kinds.items()} | columns
        return Table(columns, kept.features)

    def reading_for(self, given: ReadingOptions, more_kinds: Mapping[str, Kind]) -> ReadingOptions:
        """Return how to read a source of further rows, so that its columns are what they were in the first table.

        Options that differ from their defaults take the place of those of the first table. Ignored columns are left
        out, unless ``more_kinds`` names them: it gives the kinds of columns that are read for another purpose. If the
        first table had no header line, neither has the source, which may lack the label or all ignored columns.
        """
        before = ReadingOptions() if self.reading is None else self.reading
        layout, own = self.encoder.layout, options_given(given)
        kinds = {one.name: one.kind for one in layout.columns if one.name not in self.encoder.categorical}
        chosen = {
            **own,
            "kinds": {**kinds, **more_kinds, **given.kinds},
            "drop": tuple(name for name in (*self.ignored, *given.drop) if name not in more_kinds),
            "rows": given.rows,
            "n_features": layout.n_features or None,
        }
        further = replace(before, **chosen, lenient=True, optional=tuple(dict.fromkeys(self.ignored)))
        known = {*self.columns, *self.ignored}
        every = automatic_names(len(known))
        if further.names is None and not further.header and known == set(every):
            return replace(further, header=False, names=tuple(every))
        return further

    def state(self) -> State:
        """Return the encoder and its options as a flat state."""
        reading = "" if self.reading is None else json.dumps(asdict(self.reading))
        return self.encoder.state() | {"ignored": json.dumps(self.ignored), "reading": reading}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the encoder that ``state()`` was called on."""
        known, rest = FRAME_FIELDS.take(state)
        return cls(TableEncoder.from_state(rest), known["ignored"], known["reading"])


def _read_ignored(names: Any) -> tuple[str, ...]:
    """Return saved names of columns; ValueError if they are not valid."""
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("must be a list of names")
    return tuple(names)


def _read_options(text: str) -> ReadingOptions | None:
    """Return saved reading options; ValueError or TypeError if they are not valid."""
    if not text:
        return None
    saved = json.loads(text)
    known = {one.name for one in fields(ReadingOptions)}
    reading = ReadingOptions(**{name: value for name, value in saved.items() if name in known})
    reading.check()
    return reading


FRAME_FIELDS = Fields({"ignored": Json(_read_ignored), "reading": Converted(_read_options)})
"""Saved entries beside those of the encoder."""


def _as_kind(name: str, column: Column, kind: Kind, reading: ReadingOptions) -> Column:
    """Return text as values of another kind, and any values as text; other columns as they are."""
    if kind == "text":
        return column.as_text()
    if column.kind != "text":
        return column
    read = cell_reader(kind, reading)
    by_code = empty_column(kind, len(column.words) + 1).values  # the code -1 of a missing value points to the last
    for code in column.used().tolist():
        word = column.words[code]
        if word in reading.missing_cells:
            continue
        try:
            by_code[code] = read(word)
        except ValueError as error:
            raise ValueTypeError(f"the column {name!r} holds {word!r}, but it is a column of kind {kind}") from error
    return Column(kind, np.asarray(by_code[column.values]))
