"""What a key starts with: the models of keyed runs by name, and the model of a fleet as a session and as saved text."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import numpy as np

from driftsurf import registry
from driftsurf.core.abilities import check_contract
from driftsurf.core.contracts import Strategy
from driftsurf.core.frames import Classes, LearnerLike
from driftsurf.core.options import choice, whole
from driftsurf.core.targets import ClassTargets
from driftsurf.data.advice import MOST_CLASSES, ColumnSummary
from driftsurf.data.row_encoder import TASKS, Task
from driftsurf.data.tables import Table
from driftsurf.errors import CapabilityError, Message, Option, OptionError, StateError
from driftsurf.errors._runs import reading_saved_options
from driftsurf.keyed.grouping import Columns, DerivedColumns
from driftsurf.keyed.options import DTYPE, MOST_ROWS, KeyedOptions
from driftsurf.keyed.visit import KeyedLearner
from driftsurf.session.described import described, part_from_json, same_learner, to_json_value
from driftsurf.session.model_names import make_strategy, read_model, require_exact_state, settable_options, with_options
from driftsurf.session.protocols import SessionMaker
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

BATCH_SIZE = 32
"""Rows of a time step, unless a model or its owner says otherwise."""
FleetModel: TypeAlias = SessionMaker | Strategy | Session
"""An estimator, a strategy, or a session."""


def template_of(model: FleetModel, classes: Classes | None = None, batch_size: int | None = None) -> Session:
    """Return the session that every key starts with, apart from its seed; ``model`` is not changed.

    ``classes`` are those of a strategy; an estimator or a session has its own.
    """
    given: Any = model
    if isinstance(model, Session | SessionMaker) and not isinstance(given, type):
        if classes is not None:
            raise OptionError(f"classes is {classes!r}, but the model {model!r} has its own: set them there")
        found = model if isinstance(model, Session) else model.make_session()
        targets = found.targets
        closed = isinstance(targets, ClassTargets) and targets.closed
        strategy, guard, classes = found.strategy, found.guard_factor, targets.labels if closed else None
        batch_size = found.batch_size if batch_size is None else batch_size
    else:
        choices = "an estimator such as DriftSurfClassifier(), or a strategy; Fleet(n_features=3) has a default model"
        check_contract(given, Strategy, "model", choices)
        strategy, guard = given, None
    size = BATCH_SIZE if batch_size is None else whole("batch_size", batch_size, at_least=1, otherwise=", or None")
    return Session(strategy.fresh(0), classes=classes, batch_size=size, guard=guard)


def template_settings(template: Session) -> dict[str, Any]:
    """Return all that makes a template, as plain values; CapabilityError if that cannot be saved."""
    strategy, learner, targets = template.strategy, template.strategy.learner, template.targets
    entry, can = registry.find("strategy", type(strategy)), learner.capabilities
    if entry is None:
        raise CapabilityError(f"{strategy!r} is not registered, so that a fleet of it cannot be saved")
    if not can.exact_state and can.state_kind != "pickle":
        raise CapabilityError(
            f"the learner {registry.name_of('learner', learner)} cannot be saved exactly (capability 'exact_state')"
        )
    options = {
        name: value for name, value in strategy.get_params(deep=False).items() if name not in ("learner", "seed")
    }
    closed = isinstance(targets, ClassTargets) and targets.closed
    return {
        "strategy": type(strategy).__name__,
        "options": json.dumps(options, sort_keys=True, default=to_json_value),
        "learner": type(learner).__name__,
        "learner_params": described(learner),
        "guard": template.guard_factor,
        "classes": list(targets.labels) if closed else None,
        "batch_size": template.batch_size,
    }


@reading_saved_options()
def template_from(settings: Mapping[str, Any], learner: LearnerLike | None) -> Session:
    """Return the template with these settings; ``learner`` is the learner, if it is one of another library."""
    entry = registry.find("strategy", str(settings["strategy"]))
    if entry is None:
        raise StateError(f"the strategy of these bytes is {settings['strategy']!r}, which is not registered")
    options = json.loads(settings["options"], object_hook=part_from_json)
    strategy = entry.part(same_learner(learner, settings["learner"], settings["learner_params"]), **options)
    return Session(strategy, classes=settings["classes"], batch_size=settings["batch_size"], guard=settings["guard"])


PAPER_THRESHOLD = 0.3
"""Threshold for keys without ``significance``: the risk over 32 rows is noisy, and so is the best of many."""


def keyed_task(task: str, classes: Collection[Any] | None, found: Task | None = None) -> Task:
    """Return the task; "auto" goes by the classes that are named, else by what was ``found`` in the first rows.

    The first rows decide only between classes and numbers. How many classes there are, they do not: keys start with
    few rows, and their labels may differ. The default learner of "binary" takes further classes when they appear.

    >>> keyed_task("auto", None, "regression"), keyed_task("auto", None, "multiclass"), keyed_task("auto", "abc")
    ('regression', 'binary', 'multiclass')
    """
    choice("task", task, ("auto", *TASKS))
    named = 0 if classes is None else len(classes)
    if task == "regression" and named:
        raise OptionError("the task is 'regression', which has no classes: leave ", Option("classes"), " out")
    if task == "binary" and named > 2:
        raise OptionError(
            f"the task is 'binary', but {named} classes are named: leave ", Option("task"), " out, or name two"
        )
    if task == "auto":
        numbers = found == "regression" and not named
        return "regression" if numbers else "multiclass" if named > 2 else "binary"
    return task  # type: ignore[return-value]


def keyed_strategy(
    model: str = "driftsurf",
    learner: str | None = None,
    task: Task = "binary",
    parameters: Mapping[str, Any] | None = None,
    max_rows: int = MOST_ROWS,
) -> Strategy:
    """Return the template of what learns a key, made by :func:`~driftsurf.session.model_names.make_strategy`.

    Options that are not set have defaults that suit a key: ``max_rows`` rows at most, kept as float32; and DriftSurf
    takes the noise of short time steps into account (``significance``) or, where its other options do not allow that,
    has a threshold of 0.3. CapabilityError if only pickle could save the model.

    >>> keyed_strategy("aue:svm", parameters={"experts": 4}).max_rows
    2048
    >>> keyed_strategy("driftsurf(threshold=0.2)", parameters={"max_rows": 50}).threshold
    0.2
    >>> keyed_strategy("driftsurf(judge='training')").threshold
    0.3
    """
    made = make_strategy(model, learner, task, parameters)
    why = Message("and a keyed run saves the state of every key; leave ", Option("key"), " out")
    require_exact_state(made, model, learner, task, why)
    named = read_model(model, learner).strategy
    given = {*named.options, *(parameters or {})}
    usual: dict[str, Any] = {"max_rows": max_rows, "dtype": DTYPE}
    if isinstance(made, DriftSurf):
        short = "reactive_length" in given and made.reactive_length in (1, 2)
        plain = "significance" in given and made.significance == 0.0
        if short or plain or made.judge == "training" or made.variant == "authors":
            usual["threshold"] = PAPER_THRESHOLD
        else:
            usual |= {name: getattr(KeyedOptions, name) for name in ("threshold", "reactive_length", "significance")}
    known = settable_options(type(made))  # a strategy of another package may lack some of them
    chosen = {name: value for name, value in usual.items() if name in known and name not in given}
    return with_options(made, chosen, named.name)


def summarise_columns(table: Table, learner: KeyedLearner, columns: Columns, derived: DerivedColumns) -> ColumnSummary:
    """Return how a keyed run uses the columns of its first rows."""
    own, table = table, derived.add_to(table)
    kinds = {name: own[name].kind for name in learner.features if name in own.columns}
    label = table[columns.label]
    classes = list(learner.classes or ())
    if not (classes or learner.regression or label.kind == "date"):
        labelled = Table({columns.label: label[~label.missing()]})
        classes = np.unique(labelled.labels(columns.label)).tolist()
    return ColumnSummary(
        numbers=[name for name, kind in kinds.items() if kind == "number"],
        booleans=[name for name, kind in kinds.items() if kind == "boolean"],
        dates=[],
        names={name: len(words) for name, words in derived.words.items()},
        hashed={},
        empty=[],
        features=0,
        left_out=[name for name in own.columns if name not in (*columns, *learner.features, *derived.sources)],
        label=columns.label,
        task="regression" if learner.regression else "multiclass" if len(classes) > 2 else "binary",
        n_classes=len(classes),
        classes=classes[:MOST_CLASSES],
    )
