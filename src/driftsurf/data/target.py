"""The target of a model: a column of a table, or a condition on one such as ``ArrDelay > 0``."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Collection
from dataclasses import asdict, astuple, dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from driftsurf.core.options import choice
from driftsurf.data.advice import number_hint
from driftsurf.data.formats._cells import infer_kind
from driftsurf.data.source import Source, remarks_of
from driftsurf.data.tables import Column, Table, listed_columns, which_columns
from driftsurf.errors import LabelError, Message, Option, OptionError, SchemaError, StateError

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
