"""What learns each key of a keyed run, by the names that every other run takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from driftsurf._options import choice
from driftsurf.assembly.columns import MOST_CLASSES, TakenFor
from driftsurf.assembly.models import make_strategy, read_model, refuse_inexact, with_options
from driftsurf.base import Strategy
from driftsurf.engines import Columns, KeyedLearner, KeyedOptions
from driftsurf.engines.run import DTYPE
from driftsurf.errors import Option, OptionError, Said
from driftsurf.runtime.target import TASKS, Task
from driftsurf.strategies import DriftSurf
from driftsurf.tables import Table

__all__ = ["keyed_strategy", "keyed_task", "taken_by_keys"]


def keyed_task(task: str, classes: Collection[Any] | None) -> Task:
    """What is predicted: "auto" goes by the classes, which are two unless more are named.

    Keys begin with few rows, and their labels may differ: so the first rows do not decide, as they do in other runs.

    >>> keyed_task("auto", None), keyed_task("auto", ("low", "mid", "high")), keyed_task("regression", None)
    ('binary', 'multiclass', 'regression')
    """
    choice("task", task, ("auto", *TASKS))
    named = 0 if classes is None else len(classes)
    if task == "regression" and named:
        raise OptionError(
            "classes are named, and the task is 'regression', which predicts values: leave ", Option("classes"), " out"
        )
    if task == "binary" and named > 2:
        raise OptionError(
            f"{named} classes are named, and the task is 'binary': leave ", Option("task"), " out, or name two"
        )
    if task == "auto":
        return "multiclass" if named > 2 else "binary"
    return task  # type: ignore[return-value]


def keyed_strategy(
    model: str = "driftsurf",
    learner: str | None = None,
    task: Task = "binary",
    parameters: Mapping[str, Any] | None = None,
) -> Strategy:
    """The template of what learns a key, as :func:`~driftsurf.assembly.models.make_strategy` makes it.

    What suits a key counts where nothing else is said: 128 rows at most, kept as float32, and for DriftSurf a threshold
    of 0.3, since its time steps are short. CapabilityError if only pickle could save it.

    >>> keyed_strategy("aue:svm", parameters={"experts": 4}).max_rows
    128
    >>> keyed_strategy("driftsurf(threshold=0.2)", parameters={"max_rows": 50}).threshold
    0.2
    """
    made = make_strategy(model, learner, task, parameters)
    why = Said("and the state of a key is kept from epoch to epoch; leave ", Option("key"), " out")
    refuse_inexact(made, model, learner, task, why)
    named = read_model(model, learner).strategy
    usual: dict[str, Any] = {"max_rows": KeyedOptions.max_rows, "dtype": DTYPE}
    if isinstance(made, DriftSurf):
        usual["threshold"] = KeyedOptions.threshold
    said = {*named.options, *(parameters or {})}
    return with_options(made, {name: value for name, value in usual.items() if name not in said}, named.name)


def taken_by_keys(table: Table, learner: KeyedLearner, columns: Columns, task: Task) -> TakenFor:
    """What the columns of the first rows are taken for, where each key has a learner."""
    kinds = {name: table[name].kind for name in learner.features}
    label = table[columns.label]
    classes = list(learner.classes or ())
    if not (classes or learner.values or label.kind == "date"):
        there = Table({columns.label: label[~label.missing()]})
        classes = np.unique(there.labels(columns.label)).tolist()
    return TakenFor(
        numbers=[name for name, kind in kinds.items() if kind == "number"],
        booleans=[name for name, kind in kinds.items() if kind == "boolean"],
        dates=[],
        names={},
        hashed={},
        empty=[],
        features=0,
        left_out=[name for name in table.columns if name not in (*columns, *learner.features)],
        label=columns.label,
        task=task,
        n_classes=len(classes),
        classes=classes[:MOST_CLASSES],
    )
