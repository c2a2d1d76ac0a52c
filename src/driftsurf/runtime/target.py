"""What is to be predicted: a column of a table, or a question about one."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from driftsurf._options import choice
from driftsurf.errors import LabelError, Option, OptionError, Said, SchemaError, StateError
from driftsurf.sources import Source, number_hint
from driftsurf.tables import Column, Table
from driftsurf.validation import listed

__all__ = ["TASKS", "Target", "Task", "find_target"]

Task: TypeAlias = Literal["binary", "multiclass", "regression"]
TASKS: tuple[Task, ...] = get_args(Task)
MOST_CLASSES = 20
"""Whole numbers of more different values than this in the first batch are values, unless the task says otherwise."""
_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_QUESTION = re.compile(rf"(.+?)\s*({'|'.join(_TESTS)})\s*(.+)")


@dataclass(frozen=True, slots=True)
class Target:
    """How the targets are read from a table.

    Examples
    --------
    >>> from driftsurf.tables import read_table
    >>> table = read_table({"delay": [12.0, -3.0, 0.0], "city": ["Rome", "Oslo", "Rome"]})
    >>> find_target("delay > 0", "auto", table).read(table)
    array([ True, False, False])
    >>> find_target("city", "auto", table).task
    'binary'
    """

    column: str
    task: Task
    test: str = ""
    """"" for the column itself, else how it is compared ..."""
    value: str = ""
    """... with what."""

    def read(self, table: Table) -> npt.NDArray[Any]:
        """Labels or values, one for each row; LabelError if one is missing."""
        if self.test:
            labels = _answers(table[self.column], self.column, self.test, self.value)
            table.labels(self.column)
            return labels
        labels = table.labels(self.column)
        return labels if self.task != "regression" else np.asarray(table[self.column].values)

    def missing(self, table: Table) -> npt.NDArray[np.bool_]:
        """Where there is none."""
        return table[self.column].missing()

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Target:
        """The target that gave ``text``."""
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError) as error:
            raise StateError(f"the saved target cannot be read ({error}): it is another object's") from error


def find_target(
    label: str | None, task: str, table: Table, *, hidden: Collection[str] = (), source: Source | None = None
) -> Target:
    """The target by name or question (``"ArrDelay > 0"``); task "auto" goes by what the rows of ``table`` hold.

    Text, booleans, questions, and whole numbers of at most 20 values are classes, of two kinds for "binary" and else
    "multiclass"; other numbers are values. Errors say which options of ``source`` might help.
    """
    choice("task", task, ("auto", *TASKS))
    columns = [name for name in table.columns if name not in hidden]
    if label is None:
        raise OptionError(
            Option("label"), f" is not given: name the column to predict; the columns are {listed(columns)}"
        )
    found = _QUESTION.fullmatch(label)
    if label not in columns and found is not None and found[1] in columns:
        column, test, value = found[1], found[2], found[3].strip()
        if task == "regression":
            raise OptionError(
                Option("label"), f" is {label!r}, a question; for the task 'regression' name a column of numbers"
            )
        asked = table[column]
        if asked.kind != "number" and test not in ("==", "!="):
            raise OptionError(
                *(Option("label"), f" asks {test!r} of {column!r}, a column of kind {asked.kind}; choices: ==, !="),
                _hint(source, asked),
            )
        _answers(asked, column, test, value)
        return Target(column, "multiclass" if task == "multiclass" else "binary", test, value)
    if label not in columns:
        raise SchemaError(Option("label"), f" is {label!r}; the columns are {listed(columns)}.")
    kind = table[label].kind
    if task == "regression" and kind not in ("number", "boolean"):
        raise LabelError(
            f"the label {label!r} is of kind {kind}; for the task 'regression' it has to be numbers",
            _hint(source, table[label]),
        )
    return Target(label, _task_of(table, label) if task == "auto" else task)  # type: ignore[arg-type]


def _hint(source: Source | None, column: Column) -> Said:
    return Said() if source is None else number_hint(source, column)


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


def _answers(column: Column, name: str, test: str, value: str) -> npt.NDArray[Any]:
    if column.kind == "number":
        try:
            return np.asarray(_TESTS[test](column.values, float(value)))
        except ValueError:
            raise OptionError(
                Option("label"), f" compares {name!r}, a column of numbers, with {value!r}; give a number"
            ) from None
    column = column.as_text()
    words = np.array([word == value for word in column.words] or [False])
    return np.asarray(words[column.values] == (test == "=="))
