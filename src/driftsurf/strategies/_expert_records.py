"""Experts in a step of a portfolio: what they learn, what they leave behind, and the decision that is made of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from driftsurf.core.changes import replace
from driftsurf.core.contracts import Batch, FloatArray, Segment
from driftsurf.core.decisions import Decision, ModelRecord, Transition
from driftsurf.core.journal import Decided, Outcome
from driftsurf.learners._online import OnlineLearner
from driftsurf.native.portfolio import JointRecord, OnlineExpert, OnlineRecord
from driftsurf.strategies._pool import Member
from driftsurf.strategies.cell import CellStrategy
from driftsurf.strategies.oblivious import Oblivious, Unchanged

SURE = 2.0
"""Standard errors by which a mixture has to be worse than guessing."""


class ExpertRecord(NamedTuple):
    """One expert at one step: its name, its own decision, its share from now on, and its loss on the batch."""

    name: str
    decision: Decision
    share: float
    risk: float | None


def read_joint(names: Sequence[str], step: JointRecord) -> Decision:
    """Return the decision of a step, made of what it left behind."""
    parts = zip(names, step.outcomes, step.after, step.risks, strict=True)
    records = [ExpertRecord(name, one.decision(), share, risk) for name, one, share, risk in parts]
    best = step.before.index(max(step.before)), step.after.index(max(step.after))
    return joint_decision(records, step.step, step.first_row, step.rows, best, turned=step.turned)


def learned_by(expert: Any, batch: Batch, tested: FloatArray) -> Outcome:
    """Let a marked expert learn a batch, given its scores; its decision is made when it is read, if it can wait."""
    if type(expert) is Oblivious:
        return expert.learn_marked(batch, tested)
    if type(expert).step is CellStrategy.step:
        outcome: Outcome = expert.learned(batch, tested)
        return outcome
    return Decided(expert.step(batch, tested))


def identity(place: int, number: int, experts: int) -> int:
    """Return the number of a model of an expert among all models; the first model of expert k has the number k."""
    return place + experts * max(number, 0)


def joint_decision(
    records: Sequence[ExpertRecord], step: int, first_row: int, rows: int, best: tuple[int, int], *, turned: bool
) -> Decision:
    """Return the decision of a step.

    It has a record of the model with which each expert predicts next, records of all their other models, and what the
    experts decided. ``best`` are the places of the experts with the largest shares before and after the step, and
    ``turned`` is whether the weights went to experts with fresh models.
    """
    count = len(records)
    models, others, transitions = list[ModelRecord](), list[ModelRecord](), list[Transition]()
    for place, (name, decision, share, risk) in enumerate(records):
        number, nested = decision.predicts_next, bool(decision.experts)
        age = max((model.age for model in decision.models), default=step)
        unknown = ModelRecord("expert", number, age, decision.trained_from)
        own = next((model for model in decision.models if model.id == number), unknown)
        # A portfolio inside this one predicts with all its models; they are listed by the names of their own experts.
        work = 0 if nested else own.gradients
        shown = identity(place, number, count)
        models.append(
            ModelRecord("expert", shown, own.age, own.first_row, risk, gradients=work, weight=share, name=name)
        )
        for model in (*decision.models, *decision.others):
            if nested or model is not own:
                weight = None if model.weight is None else model.weight * share
                shown = identity(place, model.id, count)
                others.append(dataclasses.replace(model, id=shown, weight=weight, name=_within(name, model.name)))
        for one in decision.transitions:
            old, new = identity(place, one.old, count), identity(place, one.new, count)
            transitions.append(one.by_expert(_within(name, one.expert), old, new))
    before, after = best
    reacting = tuple(
        _within(name, inner)
        for name, decision, _, _ in records
        if decision.state == "reactive"
        for inner in decision.reacting or ("",)
    )
    return Decision(
        step=step,
        first_row=first_row,
        rows=rows,
        state="reactive" if reacting else "stable",
        predicted_by=identity(before, records[before].decision.predicted_by, count),
        trained_from=records[before].decision.trained_from,
        predicts_next=models[after].id,
        models=tuple(models),
        transitions=tuple(transitions),
        others=tuple(others),
        reacting=reacting,
        turned=turned,
    )


def _within(name: str, inner: str) -> str:
    """Return the name of an expert, or of an expert inside it if it is a portfolio too."""
    return f"{name} > {inner}" if inner else name


def fresh_places(outcomes: Sequence[Outcome | None]) -> list[int]:
    """Return the places of the experts that predict next with another model than before, which began with this batch.

    None is the outcome of an expert that is never replaced.

    >>> new = ModelRecord("reactive", 1, age=0, first_row=500)
    >>> switched = Decision(5, 500, 100, "reactive", predicted_by=0, trained_from=0, predicts_next=1, models=(new,))
    >>> fresh_places([Decided(Decision(5, 500, 100, "stable", 0, 0, 0, ())), Decided(switched)])
    [1]
    """
    found = []
    for place, outcome in enumerate(outcomes):
        if outcome is not None and getattr(outcome, "switched", True):
            made = outcome.decision()
            next_one = [model for model in made.models if model.id == made.predicts_next != made.predicted_by]
            if any(model.first_row >= made.first_row for model in next_one):
                found.append(place)
    return found


def is_worse_than_guessing(mixture: FloatArray, batch: Batch, n_classes: int) -> bool:
    """Return whether scores were wrong about more rows of a batch than random guesses are, by two standard errors.

    >>> scores, y = np.log([[0.9, 0.1]] * 100), np.ones(100)
    >>> [is_worse_than_guessing(scores, Batch(scores, one, np.ones(100)), 2) for one in (y, np.arange(100) % 2)]
    [True, False]
    """
    y, weight = batch.y, batch.weight
    mass, rows = float(weight.sum()), int(np.count_nonzero(weight))
    if n_classes < 2 or not mass > 0.0:
        return False
    error = float(weight[mixture.argmax(axis=1) != y].sum()) / mass
    right = 1.0 / n_classes
    return error > 1.0 - right + SURE * math.sqrt(right * (1.0 - right) / rows)


def online_expert(expert: Any) -> OnlineExpert | None:
    """Return what an expert that learns each row once has learned, for the native step; None if it is another one."""
    learner: Any = expert.learner
    if type(expert) is not Oblivious or not isinstance(learner, OnlineLearner):
        return None
    kind: Any = type(learner)
    pool, live = expert._stored_pool, expert._stored_live
    rows, model = pool.samples, live.model
    if any(getattr(kind, name) is not getattr(OnlineLearner, name) for name in LEARNING) or rows.sparse or len(rows):
        return None
    place = model.id, model.born, model.first_row
    return OnlineExpert(cast("Any", model.learner)._fitted, place, live.step, rows.next_row, model.best_risk)


def give_back(expert: Oblivious, known: OnlineExpert) -> None:
    """Let the strategy of an expert know what it has learned in native steps."""
    pool, live = expert._stored_pool, expert._stored_live
    cast("Any", live.model.learner)._fitted = known.model
    pool.n_classes = known.model.n_classes
    pool.samples.skip(known.next_row - pool.samples.next_row)
    expert._publish(replace(live, model=replace(live.model, best_risk=known.best), step=known.step))


def read_online(step: OnlineRecord) -> Decision:
    """Return the decision of a step of such an expert, made of what it left behind."""
    number, born, first_row = step.place
    model = Member(number, None, born, first_row, step.best)  # type: ignore[arg-type]  # what it learned is not shown
    segment = Segment(step.rows_seen - step.rows, step.rows_seen)
    return Unchanged(model, step.step, segment, step.risk, step.gradients).decision()


LEARNING = "learn", "update", "grow", "scores", "row_losses"
"""Methods of a learner that a native step replaces. A subclass with others learns by itself."""
